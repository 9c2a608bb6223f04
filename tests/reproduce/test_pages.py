"""``hgeo reproduce`` makes tables from cached cells."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from hgeo.cli import main


def reproduce(tmp_path, what, *more):
    return main(
        ["reproduce", what, "--cache", str(tmp_path / "cache"), "--out", str(tmp_path / "out"), "--jobs", "1", *more]
    )


def test_both_tables_come_from_the_same_cells_where_their_settings_agree(tmp_path, capsys):
    small = (
        "--datasets", "karate", "--dims", "2", "--methods", "line-1st", "gcn", "hat", "hat-uniform", "--seeds", "2",
        "--shallow-seeds", "1", "--configs", str(tmp_path / "frozen.json"),
    )  # fmt: skip
    cells = {}
    for method in ("hat", "gcn"):
        chosen = {"options": {"epochs": 4, "patience": 4, "bias": True}}
        cells[f"karate/2/{method}"] = {"classification": chosen, "clustering": chosen}
    (tmp_path / "frozen.json").write_text(json.dumps({"cells": cells}))
    assert reproduce(tmp_path, "classification", *small) == 0
    table = json.loads((tmp_path / "out" / "classification.json").read_text())
    assert {cell["method"]: len(cell["runs"]) for cell in table["cells"]} == {
        "line-1st": 1, "gcn": 2, "hat": 2, "hat-uniform": 2,
    }  # fmt: skip
    capsys.readouterr()
    assert reproduce(tmp_path, "clustering", *small) == 0
    assert "7 cells, 7 known, 0 to compute" in capsys.readouterr().err
    text = (tmp_path / "out" / "clustering.md").read_text()
    assert "| karate | 2 |" in text
    assert "uniform weights" in text
    assert "hgeo reproduce clustering --datasets karate" in text
    assert f"--configs {tmp_path / 'frozen.json'}" in text
    assert "paper.json" not in text
    assert "Trials of the search" not in text  # which were of the package's own file


def test_each_table_has_the_settings_that_were_chosen_for_its_task(tmp_path):
    chosen = {
        task: {"options": {"epochs": epochs, "patience": 1}}
        for task, epochs in (("classification", 1), ("clustering", 3))
    }
    (tmp_path / "frozen.json").write_text(json.dumps({"cells": {"karate/2/gcn": chosen}}))
    small = ("--datasets", "karate", "--dims", "2", "--methods", "gcn", "--seeds", "1")
    seen = set()
    for task in chosen:
        assert reproduce(tmp_path, task, *small, "--configs", str(tmp_path / "frozen.json")) == 0
        for path in (tmp_path / "cache").glob("*.json"):
            seen.add(json.loads(path.read_text())["arguments"]["options"]["epochs"])
    assert seen == {2, 6}  # a table's runs may last twice as long as the search's


def test_quick_walks_can_be_for_some_data_sets_only(tmp_path):
    small = ("--datasets", "karate", "hierarchy", "--dims", "2", "--methods", "deepwalk", "--shallow-seeds", "1")
    assert reproduce(tmp_path, "classification", *small, "--quick-walks", "hierarchy", "--cached-only") == 0
    text = (tmp_path / "out" / "classification.md").read_text()
    assert "--quick-walks hierarchy" in text
    assert "DeepWalk and Node2vec on hierarchy with 10 walks" in text


def test_more_seeds_join_the_runs_that_are_there(tmp_path, capsys):
    small = ("--datasets", "karate", "--dims", "2", "--methods", "line-1st", "line-2nd")
    assert reproduce(tmp_path, "classification", *small, "--shallow-seeds", "1") == 0
    assert reproduce(tmp_path, "classification", *small, "--shallow-seeds", "3", "--cached-only") == 0
    text = (tmp_path / "out" / "classification.md").read_text()
    assert "Fewer runs a cell so far (the CSV file says how many where): line-1st 1, line-2nd 1." in text
    capsys.readouterr()
    assert reproduce(tmp_path, "classification", *small, "--shallow-seeds", "3") == 0
    progress = capsys.readouterr().err
    assert "6 cells, 2 known, 4 to compute" in progress
    second = progress.index("shallow run karate 2 line-2nd 1")
    assert second < progress.index("shallow run karate 2 line-1st 2")  # no third run before every second
    assert "Fewer runs" not in (tmp_path / "out" / "classification.md").read_text()
    table = json.loads((tmp_path / "out" / "classification.json").read_text())
    assert [len(cell["runs"]) for cell in table["cells"]] == [3, 3]


def test_what_is_not_in_the_cache_is_left_out_if_so_asked(tmp_path):
    assert reproduce(tmp_path, "classification", "--datasets", "karate", "--dims", "2", "--cached-only") == 0
    assert json.loads((tmp_path / "out" / "classification.json").read_text())["cells"] == []


@pytest.mark.parametrize("what", ["classification", "ablation", "attention", "visualization", "timing"])
def test_every_file_appears_whole(tmp_path, monkeypatch, what):
    moved, replace = set(), os.replace

    def watched(source, target):
        moved.add(Path(target))
        replace(source, target)

    monkeypatch.setattr(os, "replace", watched)
    assert reproduce(tmp_path, what, "--datasets", "karate", "--cached-only") == 0
    written = set((tmp_path / "out").iterdir())
    assert len(written) > 1
    assert moved == written


def test_an_unknown_method_is_an_error_in_words(tmp_path, capsys):
    assert reproduce(tmp_path, "classification", "--methods", "hta", "--datasets", "karate") == 1
    assert "no model 'hta'; did you mean 'hat'?; known: hat, " in capsys.readouterr().err
