"""A cell is computed once, and again only if what it depends on has changed."""

from __future__ import annotations

import io
import json
import pickle

import pytest

from hgeo.reproduce._cells import Cell, cached_result, cell_work, run_cells
from hgeo.reproduce._runs import attention_cell, embedding_cell, graph_cells, setup, shallow_cells, timing_cell
from hgeo.reproduce._search import Budget, tuning_cell


@cell_work("count up")
def count_up(path, by, data_dir=None):
    """A cell's work for these tests: how often it was done is written to a file."""
    with open(path, "a") as log:
        log.write("x")
    if by < 0:
        raise ValueError("cannot count down")
    return {"by": by}


def cell(tmp_path, by, **more):
    return Cell(count_up, {"path": str(tmp_path / "log"), "by": by}, **more)


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


def test_a_cell_that_was_sent_to_another_process_is_the_same_cell(tmp_path):
    one = cell(tmp_path, 1)
    there = pickle.loads(pickle.dumps(one))
    assert (there.key, str(there)) == (one.key, str(one))


def test_a_function_keeps_its_cached_results_wherever_it_moves(tmp_path):
    """A key is made of the function's given name: what is in the cache today is found by tomorrow's code.

    A cell holds the settings that it was given, by name: a setting that a model gets later changes no key.
    """
    what = setup("gcn", 2, {"epochs": 4, "patience": 4})
    frozen = {"karate/2/gcn": what.options}
    budget = Budget(trials=2, rounds=1, seeds=1, finals=((1, 1),), epochs=2, patience=2)
    assert graph_cells("karate", 2, "gcn", frozen, range(2))[1].key == "0d8907e329098c8348b2"
    assert shallow_cells("karate", 2, "line-1st", {}, range(2))[1].key == "4ae19b56baa0e28bc203"
    assert shallow_cells("karate", 2, "deepwalk", {"walks": 10}, [0])[0].key == "a8b67a5a9cf6240cebb1"
    assert attention_cell(what, range(2)).key == "50019a35232090f41790"
    assert embedding_cell("karate", "gcn", frozen, {}).key == "16379c0e1455c5419211"
    assert embedding_cell("karate", "deepwalk", {}, {}).key == "25fbb48afeb24b3ee0f3"
    assert timing_cell(what).key == "37d777aea57ecc88fd65"
    assert tuning_cell("karate", 2, "gcn", budget).key == "16b0c75b69f14226ed6e"
    assert Cell(count_up, {"by": 1}).key == "a1bbd9172b7cae18ba5a"


def test_a_function_without_a_name_is_refused_and_a_name_that_is_taken_too():
    def nameless():
        return 1

    with pytest.raises(ValueError, match="give it one with @cell_work"):
        Cell(nameless, {})
    with pytest.raises(ValueError, match="'count up' already"):
        cell_work("count up")(nameless)
