"""``hgeo reproduce`` makes tables from cached cells."""

from __future__ import annotations

import json

from hgeo.cli import main


def reproduce(tmp_path, what, *more):
    return main(
        ["reproduce", what, "--cache", str(tmp_path / "cache"), "--out", str(tmp_path / "out"), "--jobs", "1", *more]
    )


def test_both_tables_come_from_the_same_cells(tmp_path, capsys):
    small = (
        "--datasets", "karate", "--dims", "2", "--methods", "line-1st", "gcn", "hat", "hat-uniform", "--seeds", "2",
        "--shallow-seeds", "1", "--configs", str(tmp_path / "frozen.json"),
    )  # fmt: skip
    config = {"method": "hat", "dim": 2, "epochs": 4, "patience": 4}
    cells = {f"karate/2/{method}": {"config": {**config, "method": method}} for method in ("hat", "gcn")}
    (tmp_path / "frozen.json").write_text(json.dumps({"cells": cells}))
    assert reproduce(tmp_path, "classification", *small) == 0
    table = json.loads((tmp_path / "out" / "classification.json").read_text())
    assert {cell["method"]: len(cell["runs"]) for cell in table["cells"]} == {
        "line-1st": 1, "gcn": 2, "hat": 2, "hat-uniform": 2,
    }  # fmt: skip
    capsys.readouterr()
    assert reproduce(tmp_path, "clustering", *small) == 0
    assert "3 cells, 3 known, 0 to compute" in capsys.readouterr().err
    text = (tmp_path / "out" / "clustering.md").read_text()
    assert "| karate | 2 |" in text
    assert "uniform weights" in text
    assert "hgeo reproduce clustering --datasets karate" in text


def test_what_is_not_in_the_cache_is_left_out_if_so_asked(tmp_path):
    assert reproduce(tmp_path, "classification", "--datasets", "karate", "--dims", "2", "--cached-only") == 0
    assert json.loads((tmp_path / "out" / "classification.json").read_text())["cells"] == []


def test_an_unknown_method_is_an_error_in_words(tmp_path, capsys):
    assert reproduce(tmp_path, "classification", "--methods", "hta", "--datasets", "karate") == 1
    assert "'hta' is no graph network" in capsys.readouterr().err
