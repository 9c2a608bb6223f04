"""The code of docs/own-manifold.md runs as it is printed."""

import re
from pathlib import Path

import torch

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
