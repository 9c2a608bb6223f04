"""``hgeo tune`` searches on validation nodes, with the same number of trials for every method."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import pytest

from hgeo.cli import main
from hgeo.data import load
from hgeo.reproduce import _search
from hgeo.reproduce._batched import Views
from hgeo.reproduce._flat import Config, defaults
from hgeo.reproduce._search import TASKS, Budget, frozen_configs, redrawn_splits, search_space, tune_cell


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
    configs = frozen_configs(tmp_path / "frozen.json")
    assert configs["karate/2/gcn"].method == "gcn"
    assert configs["karate/2/hat"].dim == 2
    capsys.readouterr()
    assert tune(tmp_path) == 0
    assert "2 cells, 2 known, 0 to compute" in capsys.readouterr().err


def test_a_search_goes_on_from_the_winners_of_every_method(tmp_path, capsys):
    tune(tmp_path)
    frozen = tmp_path / "frozen.json"
    first = {name: configs for task in TASKS for name, configs in frozen_configs(frozen, task).items()}
    assert tune(tmp_path, "--go-on-from", str(frozen)) == 0
    cells = json.loads(frozen.read_text())["cells"]
    assert {cell["trials"] for cell in cells.values()} == {6}  # those of both searches
    [searched] = [
        json.loads(path.read_text())
        for path in (tmp_path / "cache").glob("*.json")
        if '"starts": []' not in path.read_text() and '"method": "gcn",\n  "budget"' in path.read_text()
    ]
    tried = [trial["config"] for trial in searched["result"]["trials"]]
    assert first["karate/2/gcn"].to_dict() in tried
    hat = first["karate/2/hat"]
    assert any((config["lr"], config["weight_decay"]) == (hat.lr, hat.weight_decay) for config in tried)
    capsys.readouterr()
    assert tune(tmp_path, "--go-on-from", str(tmp_path / "nowhere.json")) == 2
    assert "nowhere.json" in capsys.readouterr().err


def test_frozen_configurations_that_cannot_be_moved_to_their_place_leave_the_old_ones(tmp_path, monkeypatch):
    path = tmp_path / "frozen.json"
    _search.write_frozen(path, [])
    before = path.read_bytes()

    def refuse(source, target):
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="no space left"):
        _search.write_frozen(path, [])
    assert (path.read_bytes(), list(tmp_path.iterdir())) == (before, [path])


def test_what_one_method_found_is_said_in_the_terms_of_another():
    gcn = replace(defaults("gcn", 4), feat_drop=0.4, readout="linear", lr=0.013)
    hat = _search._within(_search._adopted(gcn, defaults("hat", 4)), search_space("hat"))
    assert (hat.method, hat.feat_drop, hat.readout, hat.lr) == ("hat", 0.4, "linear", 0.013)
    assert (hat.degree_norm, hat.betas) == (True, (0.01, 0.01))  # a GCN is HAT with the softest attention
    assert hat.steps == 4  # which may walk further than a GCN
    walked = replace(hat, steps=8, restart=0.3)
    diffused = _search._adopted(walked, defaults("gcn-diffused", 4))
    assert (diffused.steps, diffused.restart, diffused.degree_norm) == (8, 0.3, False)
    assert _search._adopted(walked, defaults("gcn", 4)).steps == 1
    printed = replace(defaults("hat-paper", 4), hidden_drop=0.3)
    assert _search._adopted(printed, defaults("hat", 4)) == replace(printed, method="hat")  # as printed is a HAT
    ours = replace(defaults("hat", 4), degree_norm=True, weight_decay=3e-3)
    training = {name: getattr(ours, name) for name in search_space("hat-paper")}  # all that is searched of it
    assert _search._adopted(ours, defaults("hat-paper", 4)) == replace(defaults("hat-paper", 4), **training)
    assert not _search._adopted(ours, defaults("gcn", 4)).degree_norm  # which it always is
    assert _search._adopted(ours, defaults("gat", 4)).degree_norm


@pytest.mark.parametrize("method", ["hat", "hat-paper", "gcn", "gat", "hat-uniform"])
def test_a_search_learns_from_all_that_it_begins_with(method):
    space, base = search_space(method), defaults(method, 4)
    usual = [_search._searched(start, base, space) for start in _search._starting_points(base)]
    others = [name for name in ("hat", "gcn", "gat", "hat-paper") if (method, name) != ("hat", "hat-paper")]
    adopted = [_search._within(_search._adopted(defaults(name, 4), base), space) for name in others]
    for config in usual + adopted:
        # what a method does not search is as its defaults have it, so the sampler can be told of the trial
        assert replace(base, **{name: _search._value(config, name) for name in space}) == config


def test_a_run_that_has_diverged_is_a_bad_trial():
    trial = _search._Trial(defaults("gcn", 2), [_search._Score(0.5, float("nan"), 0.0)])
    assert trial.score("classification") == pytest.approx(0.4)


def test_where_splits_are_random_a_search_sees_several_and_no_table_sees_them(monkeypatch):
    from hgeo.reproduce import _runs

    asked = []
    data = load("karate")
    monkeypatch.setattr("hgeo.data.load", lambda name, **more: asked.append(more["split_seed"]) or data)
    tune_cell("photo", 2, "gcn", vars(Budget(rounds=1, trials=1, epochs=2)))
    assert len(asked) > 1
    assert not set(asked) & {_runs._split_of("photo", seed) for seed in range(10)}


def test_data_with_a_public_split_are_searched_on_further_draws_of_its_training_nodes(monkeypatch):
    seen = []
    monkeypatch.setattr(_search, "Views", lambda *splits: seen.extend(splits) or Views(*splits))
    tune_cell("karate", 2, "gcn", vars(Budget(rounds=1, trials=1, epochs=2)))
    data = load("karate")
    assert len(seen) == 5
    assert seen[0].train_idx.equal(data.train_idx)
    assert all(split.test_idx.equal(data.test_idx) for split in seen)


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
    budget = vars(Budget(rounds=1, trials=3, epochs=4))
    seen = tune_cell("karate", 2, "gcn", budget)
    monkeypatch.setattr("hgeo.data.load", lambda *args, **more: replace(data, labels=hidden))
    assert tune_cell("karate", 2, "gcn", budget) == seen


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


def test_the_frozen_file_of_the_package_can_be_read():
    assert TASKS == ("classification", "clustering")
    for task in TASKS:
        for name, config in frozen_configs(task=task).items():
            dataset, dim, method = name.split("/")
            assert isinstance(config, Config)
            assert (config.dim, config.method) == (int(dim), method)
            assert dataset


def test_what_cannot_be_tuned_is_named(tmp_path, capsys):
    assert main(["tune", "--methods", "deepwalk", "--cache", str(tmp_path)]) == 2
    assert "cannot tune 'deepwalk'" in capsys.readouterr().err


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
