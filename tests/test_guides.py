"""The Python of README and of every guide runs as it is printed."""

import json
import re
import sys
from pathlib import Path
from unittest.mock import patch

import pytest
import torch

from hgeo.cli import main
from hgeo.testing import check_manifold
from hgeo.testing.laws._law import REGISTER

ROOT = Path(__file__).parents[1]
PAGES = {str(page.relative_to(ROOT)): page for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]}
FENCE = re.compile(r"^ *```(\S*)[^\n]*\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


def fences(name):
    """(language, line, content) of every fenced block of a page."""
    text = PAGES[name].read_text(encoding="utf-8")
    return [(found[1], text.count("\n", 0, found.start(2)), found[2]) for found in FENCE.finditer(text)]


def run(name):
    """What the Python blocks of a page, one after the other in one namespace, leave there."""
    torch.manual_seed(0)
    scope = {"__name__": "__main__"}
    with patch.dict(REGISTER):  # a law that a guide adds is a law of that guide
        for language, line, code in fences(name):
            if language == "python":
                exec(compile("\n" * line + code, PAGES[name], "exec"), scope)  # an error names the page and its line
    return scope


WITH_CODE = sorted(name for name in PAGES if any(language == "python" for language, *_ in fences(name)))


@pytest.mark.parametrize("name", sorted(PAGES))
def test_no_block_is_overlooked(name):
    lines = PAGES[name].read_text(encoding="utf-8").splitlines()
    found = fences(name)
    assert sum(line.lstrip().startswith("```") for line in lines) == 2 * len(found)
    # Whoever writes ```py, or a command in a fence of its own language, decides here whether it is run.
    assert {language for language, *_ in found} <= {"", "python", "{toctree}", "{eval-rst}", "{include}"}


@pytest.mark.parametrize("name", WITH_CODE)
def test_a_guide_runs(name, tmp_path, monkeypatch):
    need_other_libraries(name)
    monkeypatch.chdir(tmp_path)
    run(name)


def need_other_libraries(name):
    for library in ("dgl", "torch_geometric"):
        if any(re.search(rf"^ *(import|from) {library}", code, re.MULTILINE) for *_, code in fences(name)):
            pytest.importorskip(library)


COLUMNS = "<table><tr><th>today</th><th>with hgeo</th></tr>"


@pytest.mark.parametrize("column", ["today", "with hgeo"])
@pytest.mark.parametrize("name", sorted(name for name, page in PAGES.items() if COLUMNS in page.read_text("utf-8")))
def test_each_column_of_a_guide_from_another_library_runs_by_itself(name, column):
    need_other_libraries(name)
    shared, *rows = PAGES[name].read_text(encoding="utf-8").split(COLUMNS)
    scope = {}
    for _, code in FENCE.findall(shared):
        exec(code, scope)
    for row in rows:
        pair = [code for _, code in FENCE.findall(row.split("</table>")[0])]
        assert len(pair) == 2
        assert "hgeo" not in pair[0]
        assert "hgeo" in pair[1]
        exec(pair[column == "with hgeo"], {**scope})


def test_layers_chained_as_the_guide_says_fit_and_its_example_of_a_mistake_does_not():
    scope = run("docs/layers.md")
    hgeo, first, second, graph, x = (scope[name] for name in ("hgeo", "first", "second", "graph", "x"))
    assert torch.equal(scope["h"], hgeo.nn.Sequential(first, second)(graph, x))
    assert second.extra_repr() == "ball:8,c=1 → ball:3,c=1"
    slip = hgeo.nn.HATConv(8, 3, scope["ball"])
    slip.weight = second.weight
    assert slip.extra_repr() == "R:8 → ball:3,c=1"
    assert not torch.allclose(slip(graph, first(graph, x)), scope["h"])
    with pytest.raises(ValueError, match="give it in_manifold"):
        hgeo.nn.Sequential(first, slip)


def test_the_frame_of_the_guide_to_a_manifold_of_ones_own_goes_there_and_back():
    scope = run("docs/own-manifold.md")
    space, hgeo = scope["space"], scope["hgeo"]
    v = torch.randn(4, 5, dtype=torch.float64)
    torch.testing.assert_close(hgeo.log0(space, hgeo.exp0(space, v)), v)


def test_the_layer_of_the_guide_obeys_the_laws_and_its_model_learns_its_task():
    scope = run("docs/own-model.md")
    assert scope["report"].passed, str(scope["report"])
    guess = scope["Degrees"](scope["data"]).target.std()  # the error of whoever says the mean degree of every node
    assert scope["result"].test_rmse < 0.8 * guess


def test_the_model_and_task_of_the_guide_are_trained_by_their_module_and_class(tmp_path, monkeypatch):
    blocks = [code for language, _, code in fences("docs/own-model.md") if language == "python"]
    (tmp_path / "of_the_guide.py").write_text("\n\n".join(blocks[:3]))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "of_the_guide", raising=False)
    words = ["--model", "of_the_guide:OneStep", "--task", "of_the_guide:Degrees", "--epochs", "2", "--no-pictures"]
    assert main(["train", *words, "--out", "run"]) == 0
    assert "test_rmse" in json.loads((tmp_path / "run" / "result.json").read_text())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_manifold_of_the_guide_passes_the_law_kit_that_the_guide_sends_it_to(dtype):
    report = check_manifold(run("docs/own-manifold.md")["Stretched"](), dtype=dtype, max_examples=40)
    assert report.passed, str(report)
