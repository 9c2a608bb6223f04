"""Recipes compete on validation data, and the winner is trained as if it had been asked for."""

import dataclasses
import json

import pytest
import torch
from msgspec import structs

import hgeo.train._compete as compete_module
from hgeo.data import load
from hgeo.models import find, names
from hgeo.tasks import Nodes
from hgeo.train import COMPETE, Job, RunFolder, TrainingError, competitors, load_run

JOB = Job("karate", "hat", "ball:2", recipe=COMPETE, options={"epochs": 30})


@pytest.mark.parametrize("name", names())
def test_at_most_six_recipes_compete_and_each_makes_a_model(name):
    space = "stereo:2" if name == "kappa-gcn" else find(name).space_for(None, 2)
    job, data = structs.replace(JOB, model=name, space=space), load("karate")
    assert 1 <= len(competitors(name)) <= 6
    assert "usual" not in competitors(name)
    made = [structs.replace(job, recipe=recipe) for recipe in competitors(name)]
    assert len({str(one.settings(data)) for one in made}) == len(made)
    for one in made:
        assert one.build(data)(data.graph, data.features).shape == (34, 2)


def test_the_winner_did_best_on_validation_nodes_and_is_trained_as_if_it_had_been_asked_for():
    result = JOB.run(load("karate"))
    watched = {one["recipe"]: one["watched"] for one in result["tried"]}
    assert list(watched) == competitors("hat")
    assert watched[result["recipe"]] == max(watched.values())
    alone = structs.replace(JOB, recipe=result["recipe"]).run(load("karate"))
    assert {key: result[key] for key in alone if "seconds" not in key} == {
        key: value for key, value in alone.items() if "seconds" not in key
    }


def test_test_nodes_decide_nothing():
    data = load("karate")
    labels = data.labels.clone()
    labels[data.test_idx] = 1 - labels[data.test_idx]
    one, other = JOB.run(data), JOB.run(dataclasses.replace(data, labels=labels))
    assert one["tried"] == other["tried"]
    assert one["test_accuracy"] != other["test_accuracy"]


def test_a_run_that_is_gone_on_with_keeps_its_recipe_and_ends_in_the_same_bits(tmp_path, monkeypatch):
    straight = JOB.run(load("karate"), RunFolder(tmp_path / "a"))

    class Stop(Exception):
        pass

    def stop(row):
        if row["epoch"] == 7:
            raise Stop

    with pytest.raises(Stop):
        JOB.run(load("karate"), RunFolder(tmp_path / "b"), on_epoch=stop)
    monkeypatch.setattr(compete_module, "fit", None)  # nobody competes again
    again = JOB.run(load("karate"), RunFolder(tmp_path / "b"), resume=True)
    keys = [key for key in straight if "seconds" not in key]
    assert {key: again[key] for key in keys} == {key: straight[key] for key in keys}
    assert JOB.run(load("karate"), RunFolder(tmp_path / "b"), resume=True)["recipe"] == straight["recipe"]
    config = RunFolder(tmp_path / "b").config()
    assert (config.recipe, [one.recipe for one in config.tried]) == (straight["recipe"], competitors("hat"))
    network, data, _ = load_run(tmp_path / "b")
    assert torch.isfinite(network(data.graph, data.features)).all()


def test_a_changed_word_for_the_winner_is_refused(tmp_path):
    JOB.run(load("karate"), RunFolder(tmp_path))
    file = tmp_path / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "recipe": "usual"}))
    with pytest.raises(ValueError, match="another run: it says recipe 'usual'"):
        JOB.run(load("karate"), RunFolder(tmp_path), resume=True)


def test_a_recipe_whose_loss_is_not_finite_loses(monkeypatch):
    fit = compete_module.fit

    def fails(model, task, settings, **more):
        if settings.lr == 0.01:
            raise TrainingError("not finite")
        return fit(model, task, settings, **more)

    monkeypatch.setattr(compete_module, "fit", fails)
    result = JOB.run(load("karate"))
    assert [one["recipe"] for one in result["tried"] if not one["watched"]] == ["deep"]
    assert result["recipe"] != "deep"


def test_a_task_says_what_decides():
    class Worst(Nodes):
        def watched(self, scores):
            return (-scores["val_accuracy"],)

    task = Worst(load("karate"))
    assert JOB.run(task)["tried"][0]["watched"][0] <= 0


def test_the_printed_hat_is_the_printed_one_by_every_recipe():
    printed = find("hat-paper")
    made = [
        structs.replace(JOB, model="hat-paper", recipe=name).settings(load("karate")).model for name in printed.recipes
    ]
    drops = dict.fromkeys(("feat_drop", "hidden_drop", "attn_drop"), 0.0)
    assert len({dataclasses.replace(settings, **drops) for settings in made}) == 1
