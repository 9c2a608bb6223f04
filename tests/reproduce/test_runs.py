"""A number of a table, and a trial of a search, is what ``hgeo train`` gives with the same words."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import pytest
import torch

from hgeo.cli import main
from hgeo.data import load
from hgeo.models import TrainSettings, build, find, names
from hgeo.reproduce._runs import TABLE_METHODS, TWINS, graph_cells, graph_run, setup
from hgeo.reproduce._search import Budget, tune_cell
from hgeo.train import fit

OWN = '''
from dataclasses import dataclass

import torch
from torch import nn

from hgeo.models import Range, Settings, setting


class Words(nn.Module):
    """Looks at the features only."""

    @dataclass(frozen=True)
    class Settings(Settings):
        spread: float = setting(1.0, "how far weights lie apart at first", search=Range(0.1, 2.0))

    def __init__(self, in_dim, num_classes, manifold, *, dim, settings):
        super().__init__()
        self.first, self.second = nn.Linear(in_dim, dim), nn.Linear(dim, num_classes)
        nn.init.normal_(self.first.weight, std=settings.spread)
        self.hidden_manifold = manifold

    def embed(self, graph, x):
        return torch.tanh(self.first(x.to_dense())) / 2

    def forward(self, graph, x):
        return self.second(self.embed(graph, x))
'''

OF_DGL = '''
from dataclasses import dataclass

import dgl
import torch.nn.functional as F
from torch import nn

from hgeo.models import Choice, Settings, setting


class Network(nn.Module):
    """Two of DGL's graph convolutions."""

    @dataclass(frozen=True)
    class Settings(Settings):
        norm: str = setting("both", "how degrees divide a sum", search=Choice(("both", "right")))

    def __init__(self, in_dim, num_classes, manifold, *, dim, settings):
        super().__init__()
        self.first = dgl.nn.GraphConv(in_dim, dim, norm=settings.norm)
        self.second = dgl.nn.GraphConv(dim, num_classes, norm=settings.norm)
        self.hidden_manifold = manifold

    def embed(self, graph, x):
        there = dgl.add_self_loop(dgl.graph((graph.col, graph.row), num_nodes=x.shape[0]))
        return F.normalize(self.first(there, x.to_dense())) / 2

    def forward(self, graph, x):
        there = dgl.add_self_loop(dgl.graph((graph.col, graph.row), num_nodes=x.shape[0]))
        return self.second(there, self.embed(graph, x))
'''

SCORES = ("test_accuracy", "test_macro_f1", "test_nmi", "val_accuracy", "best_epoch", "epochs")


@pytest.fixture(params=["Words", "Network"])
def own_model(request, tmp_path, monkeypatch):
    """A model of somebody's own, in a module that can be imported; one is made of DGL's layers."""
    if request.param == "Network":
        pytest.importorskip("dgl")
    (tmp_path / "mine_for_tables.py").write_text(OWN if request.param == "Words" else OF_DGL)
    monkeypatch.syspath_prepend(tmp_path)
    yield f"mine_for_tables:{request.param}"
    sys.modules.pop("mine_for_tables", None)


@pytest.mark.parametrize("model", ["hat", "hat-uniform", "gat", "kappa-gcn"])
def test_a_cell_of_a_table_is_what_hgeo_train_gives_with_its_settings(model, tmp_path, capsys):
    settings = {"lr": 0.02, "attn_drop": 0.3, "epochs": 10, "patience": 4}
    if model == "kappa-gcn":
        settings.pop("attn_drop")
    cell = graph_cells("karate", 2, model, {f"karate/2/{TWINS.get(model, model)}": settings}, [3])[0]
    (row,) = graph_run(**cell.arguments)[model]
    where = cell.arguments
    words = [word for name, value in where["options"].items() for word in ("--set", f"{name}={value}")]
    asked = [
        "--dataset",
        "karate",
        "--model",
        model,
        "--space",
        where["space"],
        "--first-seed",
        "3",
        "--seeds",
        "1",
        "--no-pictures",
    ]
    assert main(["train", *asked, "--out", str(tmp_path / "run"), *words]) == 0
    trained = json.loads((tmp_path / "run" / "result.json").read_text())
    assert {name: row[name.removeprefix("test_")] for name in SCORES} == {name: trained[name] for name in SCORES}
    assert where["options"]["epochs"] == 20


def fitted(data, model, seed, **settings):
    """The losses of a run, and its result."""
    torch.manual_seed(seed)
    space = find(model).space_for(None, 4)
    network = build(model, data, space).double()
    losses = []
    result = fit(
        network, data, TrainSettings(lr=0.03, **settings), seed=seed, on_epoch=lambda row: losses.append(row["loss"])
    )
    return losses, result


@pytest.mark.parametrize("model", ["hat", "gcn", "gat", "hgcn"])
def test_a_run_among_others_is_the_same_run_alone(model):
    data = load("karate").to(dtype=torch.float64)
    alone = [fitted(replace(data), model, seed, epochs=50, patience=50)[0] for seed in (1, 2)]
    assert alone[0] != alone[1]
    among, series = [], load("karate").to(dtype=torch.float64)
    for seed, other in ((1, "gat"), (2, "hat")):
        fitted(series, other, 7, epochs=3)  # somebody else's run draws random numbers and warms the graph's caches
        among.append(fitted(series, model, seed, epochs=50, patience=50)[0])
    for one, same in zip(alone, among, strict=True):
        assert len(one) == 50
        assert max(abs(a - b) for a, b in zip(one, same, strict=True)) < 1e-9


@pytest.mark.parametrize("model", ["hat", "gcn", "gat"])
def test_a_run_among_others_stops_in_the_same_epoch(model):
    data = load("karate").to(dtype=torch.float64)
    fitted(data, "hat", 5, epochs=4)
    among = fitted(data, model, 2, epochs=200, patience=6)[1]
    alone = fitted(load("karate").to(dtype=torch.float64), model, 2, epochs=200, patience=6)[1]
    assert among.epochs == alone.epochs < 200
    assert (among.best_epoch, among.scores) == (alone.best_epoch, alone.scores)


@pytest.mark.parametrize("model", names())
def test_every_registered_model_can_be_a_column_of_a_table(model):
    (row,) = graph_run("karate", *setup(model, 2, {"epochs": 2}), seed=0)[model]
    assert row["epochs"] == 2
    assert 0 <= row["accuracy"] <= 1


def test_a_model_of_ones_own_can_be_a_column_of_a_table_and_be_searched(own_model, tmp_path, monkeypatch):
    monkeypatch.setattr("hgeo.reproduce.usual_budget", lambda dataset: Budget(seeds=1, finals=((1, 1),)))
    cache, frozen = ["--jobs", "1", "--cache", str(tmp_path / "cache")], str(tmp_path / "frozen.json")
    small = ["--datasets", "karate", "--dims", "2", "--methods", own_model]
    assert main(["tune", *small, *cache, "--rounds", "1", "--trials", "2", "--epochs", "3", "--freeze", frozen]) == 0
    options = json.loads((tmp_path / "frozen.json").read_text())["cells"][f"karate/2/{own_model}"]
    chosen = options["classification"]["options"]
    assert 0.1 <= chosen.get("spread", 1.0) <= 2.0
    assert chosen.get("norm", "both") in ("both", "right")
    assert {"spread", "norm"} & set(chosen)
    out = ["--out", str(tmp_path / "out"), "--configs", frozen, "--seeds", "2"]
    assert main(["reproduce", "classification", *small, *cache, *out]) == 0
    (cell,) = json.loads((tmp_path / "out" / "classification.json").read_text())["cells"]
    assert (cell["method"], len(cell["runs"])) == (own_model, 2)


def test_a_trial_of_a_search_is_a_run_of_hgeo_train_on_one_of_its_splits():
    budget = vars(Budget(rounds=1, trials=1, seeds=1, finals=(), epochs=6, patience=6))
    (trial,) = tune_cell("karate", 2, "gcn", budget)["trials"]
    result = setup("gcn", 2, trial["options"]).job("karate", 1000).run(load("karate"))
    assert trial["runs"][0]["accuracy"] == result["val_accuracy"]
    assert trial["runs"][0]["loss"] == result["val_loss"]


def test_the_columns_of_the_papers_tables_are_models_or_shallow_embeddings():
    from hgeo.models import SHALLOW_METHODS

    assert set(TABLE_METHODS) - set(SHALLOW_METHODS) <= set(names())
