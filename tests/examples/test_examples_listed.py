"""Every example can be read as a page and run by hand; `tox -e examples` runs them all."""

import ast
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples"
EXAMPLES = sorted(path for path in FOLDER.glob("*.py") if path.name != "run_all.py")


def test_there_are_the_six_promised():
    assert len(EXAMPLES) >= 6


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_says_how_to_run_it_and_has_a_smoke_mode(path):
    tree = ast.parse(path.read_text())
    assert f"python examples/{path.name}" in ast.get_docstring(tree)
    assert "--smoke" in path.read_text()
    assert len(path.read_text().splitlines()) <= 120
