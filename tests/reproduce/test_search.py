"""``hgeo tune`` searches on validation nodes, with the same number of trials for every method."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import pytest

from hgeo.cli import main
from hgeo.data import load
from hgeo.models import TrainSettings, find, names
from hgeo.reproduce import _search
from hgeo.reproduce._frozen import TASKS, frozen_options, write_frozen
from hgeo.reproduce._search import Budget, redrawn_splits, search_space, tune_cell


@pytest.fixture(autouse=True)
def small_budget(monkeypatch):
    monkeypatch.setattr("hgeo.reproduce.usual_budget", lambda dataset: Budget(seeds=2, finals=((2, 1), (1, 2))))


def tune(tmp_path, *more):
    return main(
        ["tune", "--datasets", "karate", "--dims", "2", "--methods", "hat", "gcn", "--rounds", "1", "--trials", "3",
         "--epochs", "4", "--jobs", "1", "--cache", str(tmp_path / "cache"), "--freeze", str(tmp_path / "frozen.json"),
         *more]
    )  # fmt: skip


def test_a_search_freezes_one_configuration_a_cell_and_resumes_from_its_cache(tmp_path, capsys):
    assert tune(tmp_path) == 0
    frozen = json.loads((tmp_path / "frozen.json").read_text())
    assert list(frozen["cells"]) == ["karate/2/gcn", "karate/2/hat"]
    assert {cell["trials"] for cell in frozen["cells"].values()} == {3}
    options = frozen_options(tmp_path / "frozen.json")
    assert options["karate/2/gcn"]["epochs"] == 4
    assert options["karate/2/hat"]["beta"] > 0
    capsys.readouterr()
    assert tune(tmp_path) == 0
    assert "2 cells, 2 known, 0 to compute" in capsys.readouterr().err


def test_a_search_goes_on_from_the_winners_of_every_method(tmp_path, capsys):
    tune(tmp_path)
    frozen = tmp_path / "frozen.json"
    first = {name: options for task in TASKS for name, options in frozen_options(frozen, task).items()}
    assert tune(tmp_path, "--go-on-from", str(frozen)) == 0
    cells = json.loads(frozen.read_text())["cells"]
    assert {cell["trials"] for cell in cells.values()} == {6}  # those of both searches
    [searched] = [
        json.loads(path.read_text())
        for path in (tmp_path / "cache").glob("*.json")
        if '"starts": []' not in path.read_text() and '"model": "gcn"' in path.read_text()
    ]
    tried = [trial["options"] for trial in searched["result"]["trials"]]
    assert first["karate/2/gcn"] in tried
    training = {name: first["karate/2/hat"][name] for name in ("lr", "weight_decay")}
    assert any(training.items() <= options.items() for options in tried)
    capsys.readouterr()
    assert tune(tmp_path, "--go-on-from", str(tmp_path / "nowhere.json")) == 2
    assert "nowhere.json" in capsys.readouterr().err


def test_frozen_configurations_that_cannot_be_moved_to_their_place_leave_the_old_ones(tmp_path, monkeypatch):
    path = tmp_path / "frozen.json"
    write_frozen(path, [])
    before = path.read_bytes()

    def refuse(source, target):
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="no space left"):
        write_frozen(path, [])
    assert (path.read_bytes(), list(tmp_path.iterdir())) == (before, [path])


def usual(model, dim=4):
    """All settings of a model on karate that can be set."""
    return _search._Search(_search.setup(model, dim), "karate", [load("karate")]).usual()


def test_what_one_model_found_is_said_in_the_terms_of_another():
    gcn = {**usual("gcn"), "feat_drop": 0.4, "readout": "linear", "lr": 0.013}
    hat = _search._within(_search._adopted("gcn", gcn, "hat", usual("hat")), search_space("hat"))
    assert (hat["feat_drop"], hat["readout"], hat["lr"]) == (0.4, "linear", 0.013)
    # a GCN is HAT with the softest attention, which may walk further than a GCN
    assert (hat["degree_norm"], hat["beta"], hat["beta_out"], hat["steps"]) == (True, 0.01, 0.01, 4)
    walked = {**hat, "steps": 8, "restart": 0.3}
    diffused = _search._adopted("hat", walked, "gcn-diffused", usual("gcn-diffused"))
    assert (diffused["steps"], diffused["restart"]) == (8, 0.3)
    assert _search._adopted("hat", walked, "gcn", usual("gcn"))["steps"] == 1
    printed = {**usual("hat-paper"), "hidden_drop": 0.3}
    assert _search._adopted("hat-paper", printed, "hat", usual("hat")) == printed  # as printed is a HAT
    ours = {**usual("hat"), "degree_norm": True, "weight_decay": 3e-3}
    training = {name: ours[name] for name in search_space("hat-paper")}  # all that is searched of it
    assert _search._adopted("hat", ours, "hat-paper", usual("hat-paper")) == {**usual("hat-paper"), **training}
    assert "degree_norm" not in _search._adopted("hat", ours, "gcn", usual("gcn"))  # which it always is
    assert _search._adopted("hat", ours, "gat", usual("gat"))["degree_norm"]


@pytest.mark.parametrize("model", ["hat", "hat-paper", "gcn", "gat", "hat-uniform", "hgcn", "mlp"])
def test_a_search_learns_from_all_that_it_begins_with(model):
    space, base = search_space(model), usual(model)
    others = [name for name in ("hat", "gcn", "gat", "hat-paper") if (model, name) != ("hat", "hat-paper")]
    starts = [*_search._starting_points(base, space), *(_search._adopted(n, usual(n), model, base) for n in others)]
    for options in (_search._within(start, space) for start in starts):
        # what a model does not search is as its usual recipe has it, so the sampler can be told of the trial
        assert {**base, **{name: options[name] for name in space}} == options
        assert all(kind._contains(kind.to_internal_repr(options[name])) for name, kind in space.items())


def test_a_run_that_has_diverged_is_a_bad_trial():
    search = _search._Search(_search.setup("gcn", 2), "karate", [load("karate")])
    trial = _search._Trial({**search.usual(), "lr": 1e30, "epochs": 9})
    search.run([trial], 1)
    assert trial.runs == [(0.0, float("inf"), 0.0)]
    assert trial.score("classification") == pytest.approx(-0.1)


def test_where_splits_are_random_a_search_sees_several_and_no_table_sees_them(monkeypatch):
    from hgeo.reproduce import _runs

    asked = []
    data = load("karate")
    monkeypatch.setattr("hgeo.data.load", lambda name, **more: asked.append(more["split_seed"]) or data)
    tune_cell("photo", 2, "gcn", vars(Budget(rounds=1, trials=1, seeds=3, finals=(), epochs=2)))
    assert len(asked) > 1
    assert not set(asked) & {_runs._split_of("photo", seed) for seed in range(10)}


def test_data_with_a_public_split_are_searched_on_further_draws_of_its_training_nodes(monkeypatch):
    seen = _search._tuning_splits("karate", None)
    data = load("karate")
    assert len(seen) == 5
    assert seen[0].train_idx.equal(data.train_idx)
    assert all(split.test_idx.equal(split.val_idx) for split in seen)  # nothing else can be looked at


@pytest.mark.parametrize("method", ["hat", "gcn-diffused"])
def test_a_value_is_moved_to_one_that_the_search_can_propose(method):
    for kind in search_space(method).values():
        if hasattr(kind, "low"):
            for value in (kind.low, kind.high, (kind.low + kind.high) / 2, 1e9, -1e9):
                assert kind._contains(_search._admissible(value, kind))


def test_the_search_cannot_see_test_labels(monkeypatch):
    data = load("karate")
    hidden = data.labels.clone()
    hidden[data.test_idx] = 1 - hidden[data.test_idx]
    budget = vars(Budget(rounds=1, trials=3, seeds=2, finals=((1, 1),), epochs=4))
    seen = tune_cell("karate", 2, "gcn", budget)
    monkeypatch.setattr("hgeo.data.load", lambda *args, **more: replace(data, labels=hidden))
    assert tune_cell("karate", 2, "gcn", budget) == seen


def test_what_a_model_declares_is_searched_and_what_is_fixed_is_not():
    for model in names():
        entry, space = find(model), set(search_space(model))
        known = {*vars(entry.settings()), *vars(TrainSettings())}
        assert {"lr", "weight_decay", "label_smoothing"} <= space <= known - set(entry.fixed)


def test_every_method_searches_the_same_training_settings():
    spaces = {method: set(search_space(method)) for method in ("hat", "hat-paper", "gcn", "gcn-diffused", "gat")}
    common = {"lr", "weight_decay", "feat_drop", "hidden_drop", "attn_drop", "label_smoothing"}
    assert all(common <= space for space in spaces.values())
    assert spaces["hat-paper"] == common
    assert spaces["gcn"] == common | {"readout"}
    assert spaces["gat"] == common | {"readout", "degree_norm"}
    assert spaces["gcn-diffused"] == spaces["gcn"] | {"steps", "restart"}
    assert spaces["hat"] - spaces["gat"] == {"beta", "beta_out", "self_score", "radius_norm", "steps", "restart"}


def test_redrawn_splits_leave_test_nodes_alone_and_have_as_many_training_nodes_a_class():
    data = load("karate")
    labelled = set(data.train_idx.tolist()) | set(data.val_idx.tolist())
    drawn = redrawn_splits(data, 3)
    assert len({tuple(split.train_idx.tolist()) for split in drawn}) > 1
    for split in drawn:
        train, val = set(split.train_idx.tolist()), set(split.val_idx.tolist())
        assert train | val == labelled
        assert not train & val
        assert split.test_idx.equal(data.test_idx)
        assert split.labels[split.train_idx].bincount().equal(data.labels[data.train_idx].bincount())


def test_the_frozen_file_of_the_package_holds_all_settings_that_a_run_has():
    assert TASKS == ("classification", "clustering")
    for task in TASKS:
        cells = frozen_options(task=task)
        assert len(cells) >= 64
        for name, options in cells.items():
            dataset, dim, model = name.split("/")
            entry = find(model)
            chosen = _search.setup(model, int(dim), options).job(dataset, 0).settings(load("karate"))
            batches = {"batch_size", "fanout"}  # tables train on whole graphs
            assert set(options) == {*vars(chosen.model), *vars(chosen.training)} - set(entry.fixed) - batches


def test_what_cannot_be_tuned_is_named(tmp_path, capsys):
    assert main(["tune", "--methods", "deepwalk", "--cache", str(tmp_path)]) == 2
    assert "no model 'deepwalk'; known: " in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--rounds", "--trials", "--epochs", "--jobs", "--dims"])
def test_numbers_of_a_search_are_from_1_on(option, capsys):
    with pytest.raises(SystemExit):
        main(["tune", option, "0"])
    assert "'0' is not a whole number from 1 on" in capsys.readouterr().err


def test_a_file_that_no_search_has_frozen_is_named(tmp_path, capsys):
    (tmp_path / "mine.json").write_text("nothing")
    assert main(["tune", "--go-on-from", str(tmp_path / "mine.json"), "--cache", str(tmp_path)]) == 2
    assert "mine.json is no file that hgeo tune --freeze has written" in capsys.readouterr().err


def test_tuning_seeds_are_not_table_seeds():
    assert _search.TUNING_SEED >= 1000
    with pytest.raises(TypeError):
        Budget(tests=1)
