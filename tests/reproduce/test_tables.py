"""A table says what the numbers say."""

from __future__ import annotations

import csv
import io
import json
import os

import pytest

from hgeo.data import load
from hgeo.reproduce import DATASETS, DIMENSIONS, Entry, Table, baselines, comparisons, published, write_table
from hgeo.reproduce._runs import graph_cells, with_random_links


def flat(mean, spread=0.01, paper=None):
    return Entry((mean - spread, mean, mean + spread), paper)


def test_an_entry_is_its_mean_its_spread_and_the_papers_number():
    entry = Entry((0.7, 0.8), 0.61)
    assert entry.mean == pytest.approx(0.75)
    assert entry.std == pytest.approx(0.0707, abs=1e-4)
    assert entry.error == pytest.approx(0.05)
    assert str(entry) == ".750±.071 (.610)"
    assert str(Entry((1.0,))) == "1.000±.000"


@pytest.fixture
def table():
    return Table(
        "toy",
        "accuracy",
        ["gcn", "hat", "hat-uniform"],
        {
            ("cora", 2): {"gcn": flat(0.70, paper=0.45), "hat": flat(0.75, paper=0.6), "hat-uniform": flat(0.60)},
            ("cora", 4): {"gcn": flat(0.80, paper=0.71), "hat": flat(0.70, paper=0.78)},
        },
    )


def test_comparisons_count_wins_and_losses_by_standard_errors(table):
    head, _, *rows = comparisons(table).splitlines()
    assert head.startswith("| compared | cells | above by > 2 standard errors | below by > 1 |")
    assert rows == [
        "| HAT (ours), the paper's HAT | 2 | 1 | 1 | cora 2 (+0.150) | cora 4 (-0.080) |",
        "| HAT (ours), GCN | 2 | 1 | 1 | cora 2 (+0.050) | cora 4 (-0.100) |",
        "| HAT (ours), uniform weights | 1 | 1 | 0 | cora 2 (+0.150) |  |",
    ]


def test_baselines_are_held_against_the_paper_with_two_points_to_spare(table):
    gcn = "| GCN | 2 | 0 |  |"
    assert baselines(table).splitlines()[2:] == [gcn]
    table.columns = ["line-1st", *table.columns]
    table.entries["cora", 2]["line-1st"] = flat(0.481, paper=0.5)
    table.entries["cora", 4]["line-1st"] = flat(0.479, paper=0.5)
    assert baselines(table).splitlines()[2:] == ["| LINE (1st) | 2 | 1 | cora 4 (.479 against .500) |", gcn]
    assert baselines(Table("none", "nmi", ["hat"], {("cora", 2): {"hat": flat(0.1, paper=0.5)}})) == ""


def test_a_table_is_written_as_markdown_csv_and_json(table, tmp_path):
    paths = write_table(table, tmp_path, intro="# Toy", sections=["## Notes", ""])
    assert [path.name for path in paths] == ["toy.md", "toy.csv", "toy.json"]
    text = paths[0].read_text()
    assert "| cora | 2 | .700±.010 (.450) | **.750±.010 (.600)** | .600±.010 |" in text
    assert "| cora | 4 | **.800±.010 (.710)** | .700±.010 (.780) | – |" in text
    rows = list(csv.DictReader(io.StringIO(paths[1].read_text())))
    assert len(rows) == 5
    assert rows[1] == {
        "dataset": "cora", "dim": "2", "method": "hat", "mean": "0.7500", "std": "0.0100", "runs": "3", "paper": "0.6",
    }  # fmt: skip
    assert json.loads(paths[2].read_text())["cells"][0]["runs"] == pytest.approx([0.69, 0.70, 0.71])


def test_a_table_that_cannot_be_moved_to_its_place_leaves_the_old_one(table, tmp_path, monkeypatch):
    write_table(table, tmp_path, intro="# Old")

    def refuse(source, target):
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="no space left"):
        write_table(table, tmp_path, intro="# New")
    assert (tmp_path / "toy.md").read_text().startswith("# Old")
    assert len(list(tmp_path.iterdir())) == 3


def test_the_published_numbers_cover_every_cell():
    facts = published()
    for metric in ("accuracy", "nmi"):
        for dataset in DATASETS:
            for dim in DIMENSIONS:
                numbers = facts[metric][dataset][str(dim)]
                assert len(numbers) == len(facts["methods"]) == 8
                assert all(0 < number < 1 for number in numbers)
    assert facts["accuracy"]["cora"]["16"][facts["methods"].index("hat")] == 0.831
    assert facts["nmi"]["photo"]["2"][facts["methods"].index("gcn")] == 0.187


def test_random_links_come_on_top_of_the_old_ones():
    data = load("karate")
    noisy = with_random_links(data, 0.5, seed=1)
    old = {tuple(pair) for pair in data.edge_index.t().tolist()}
    new = {tuple(pair) for pair in noisy.edge_index.t().tolist()}
    assert old < new
    assert len(new) == noisy.num_edges <= 1.5 * data.num_edges
    assert all((b, a) in new and a != b for a, b in new)


def test_the_uniform_twin_has_the_hyper_parameters_of_hat():
    frozen = {"cora/4/hat": {"beta": 0.5, "beta_out": None, "attn_drop": 0.6, "epochs": 30, "patience": 5}}
    hat, uniform = (graph_cells("cora", 4, model, frozen, [0])[0].arguments for model in ("hat", "hat-uniform"))
    assert hat["options"] == {**frozen["cora/4/hat"], "epochs": 60, "patience": 10}
    assert uniform["options"] == {"attn_drop": 0.6, "epochs": 60, "patience": 10}
    assert uniform["space"] == hat["space"] == "ball:4"
