"""The code of docs/own-manifold.md runs as it is printed."""

import re
from pathlib import Path

import pytest
import torch

from hgeo.testing import check_manifold

GUIDE = Path(__file__).parents[2] / "docs" / "own-manifold.md"


def test_the_guide_to_a_manifold_of_ones_own_runs():
    torch.manual_seed(0)
    scope = {}
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), flags=re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        exec(block, scope)
    space, hgeo = scope["space"], scope["hgeo"]
    v = torch.randn(4, 5, dtype=torch.float64)
    torch.testing.assert_close(hgeo.log0(space, hgeo.exp0(space, v)), v)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_manifold_of_the_guide_passes_the_law_kit_that_the_guide_sends_it_to(dtype):
    scope = {}
    exec(re.search(r"```python\n(.*?)```", GUIDE.read_text(), flags=re.DOTALL).group(1), scope)
    report = check_manifold(scope["Stretched"](), dtype=dtype, max_examples=40)
    assert report.passed, str(report)
