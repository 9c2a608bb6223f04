"""``hgeo reproduce field``: every model with the same search, chosen on validation data, its flat twin beside it."""

import json

import pytest

from hgeo.cli import main
from hgeo.reproduce._field import FieldCell, Row, columns, rows
from hgeo.reproduce._request import Request

SMALL = ("--datasets", "karate", "--dims", "2", "--methods", "mlp", "hgcn", "--trials", "2", "--seeds", "2")


def reproduce(tmp_path, *more):
    folders = ["--cache", str(tmp_path / "cache"), "--out", str(tmp_path / "out"), "--jobs", "1"]
    return main(["reproduce", "field", *folders, *more])


def test_each_cell_is_what_won_on_validation_data_trained_anew_with_fresh_seeds(tmp_path, capsys):
    assert reproduce(tmp_path, *SMALL, "--epochs", "3") == 0
    page = (tmp_path / "out" / "field.md").read_text()
    assert "hgeo reproduce field --datasets karate --dims 2 --methods mlp hgcn --trials 2 --seeds 2 --epochs 3" in page
    assert "| data | d | mlp | hgcn | hgcn, flat |" in page
    for name in ("majority", "all positive", "common neighbours", "Curved minus flat"):
        assert name in page
    found = json.loads((tmp_path / "out" / "field.json").read_text())["cells"]
    assert [(cell["task"], cell["column"]) for cell in found] == [
        (task, column) for task in ("nodes", "links") for column in ("mlp", "hgcn", "hgcn, flat")
    ]
    for cell in found:
        best = max(cell["trials"], key=lambda trial: trial["watched"])
        assert cell["options"] == best["options"]
        assert [run["seed"] for run in cell["runs"]] == [0, 1]
    capsys.readouterr()
    assert reproduce(tmp_path, *SMALL, "--epochs", "3") == 0
    text = capsys.readouterr().err
    assert "12 cells, 12 known, 0 to compute" in text
    assert "14 cells, 14 known, 0 to compute" in text


def test_a_killed_table_shows_the_cells_that_it_has(tmp_path):
    assert reproduce(tmp_path, *SMALL, "--epochs", "2", "--tasks", "nodes") == 0
    whole = (tmp_path / "out" / "field.md").read_text()
    for path in (tmp_path / "cache").glob("*.json"):
        record = json.loads(path.read_text())
        if record["arguments"].get("model") == "mlp" and record["arguments"]["seed"] == 1000:
            path.unlink()
            break
    assert reproduce(tmp_path, *SMALL, "--epochs", "2", "--tasks", "nodes", "--cached-only") == 0
    less = (tmp_path / "out" / "field.md").read_text()
    assert whole.count(" ± ") > less.count(" ± ") > 0
    assert "Not computed yet" not in whole
    assert "- nodes, karate, d = 2: without mlp." in less


def test_every_curved_column_has_a_flat_twin_and_low_dimensions_are_for_trees():
    request = Request(methods=["gcn", "hgcn", "hat"])
    row = Row("links", "disease", 16)
    assert {(row.dataset, row.dim) for row in rows(Request())} == {
        ("disease", 16), ("disease", 2), ("airport", 16), ("airport", 2), ("cora", 16), ("pubmed", 16),
    }  # fmt: skip
    found = {column.name: (column.space, column.twin_of) for column in columns(request, row)}
    assert found == {
        "gcn": ("euclidean:16", None),
        "hgcn": ("ball:16", None),
        "hgcn, flat": ("ball:16,c=0", "hgcn"),
        "hat": ("ball:16", None),
        "hat, flat": ("ball:16,c=0", "hat"),
        "hat, c learned": ("ball:16,c=learn", None),
        "hat, product": ("ball:8 x euclidean:8", None),
    }


def test_differences_to_the_twin_are_taken_seed_by_seed():
    one = FieldCell({}, [], [{"seed": seed, "x": value} for seed, value in enumerate((0.5, 0.7, 0.9))])
    other = FieldCell({}, [], [{"seed": 1, "x": 0.6}, {"seed": 0, "x": 0.4}, {"seed": 2}])
    assert one.difference(other, "x") == pytest.approx((0.1, 0.0), abs=1e-12)
    assert one.difference(other, "y") is None
