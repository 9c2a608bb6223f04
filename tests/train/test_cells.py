"""A cell is computed once, and again only if what it depends on has changed."""

from __future__ import annotations

import io
import json

import pytest

from hgeo.train._cells import Cell, cached_result, run_cells


def count_up(path, by, data_dir=None):
    """A cell's work for these tests: how often it was done is written to a file."""
    with open(path, "a") as log:
        log.write("x")
    if by < 0:
        raise ValueError("cannot count down")
    return {"by": by}


def cell(tmp_path, by, **more):
    return Cell("test_cells:count_up", {"path": str(tmp_path / "log"), "by": by}, **more)


@pytest.fixture(autouse=True)
def importable(monkeypatch, request):
    monkeypatch.syspath_prepend(str(request.path.parent))


def test_a_finished_cell_is_not_computed_again(tmp_path):
    cells = [cell(tmp_path, 1), cell(tmp_path, 2)]
    out = io.StringIO()
    first = run_cells(cells, tmp_path / "cache", out=out)
    assert first == {cells[0].key: {"by": 1}, cells[1].key: {"by": 2}}
    again = run_cells([*cells, cell(tmp_path, 3)], tmp_path / "cache", out=out)
    assert (tmp_path / "log").read_text() == "xxx"
    assert again[cells[0].key] == {"by": 1}
    assert "3 cells, 2 known, 1 to compute" in out.getvalue()
    assert "min left" in out.getvalue()


def test_a_cell_that_failed_leaves_the_finished_ones_and_no_file_of_its_own(tmp_path):
    good, bad = cell(tmp_path, 1), cell(tmp_path, -1)
    with pytest.raises(ValueError, match="count down"):
        run_cells([good, bad], tmp_path / "cache", out=io.StringIO())
    assert cached_result(good, tmp_path / "cache") == {"by": 1}
    assert cached_result(bad, tmp_path / "cache") is None


def test_the_key_knows_arguments_and_version_but_not_the_cost(tmp_path):
    assert cell(tmp_path, 1).key == cell(tmp_path, 1, cost=7.0).key
    assert cell(tmp_path, 1).key != cell(tmp_path, 2).key
    assert cell(tmp_path, 1).key != cell(tmp_path, 1, version=2).key


def test_where_the_data_lie_does_not_change_the_key(tmp_path):
    one = cell(tmp_path, 1)
    run_cells([one], tmp_path / "cache", context={"data_dir": "a"}, out=io.StringIO())
    run_cells([one], tmp_path / "cache", context={"data_dir": "b"}, out=io.StringIO())
    assert (tmp_path / "log").read_text() == "x"
    assert json.loads((tmp_path / "cache" / f"{one.key}.json").read_text())["arguments"]["by"] == 1
