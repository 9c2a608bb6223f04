"""`hgeo train --task`: every task prints a table, fills a folder, goes on to the same bits, is drawn again."""

import json
import os
import signal

import numpy as np
import pytest

from hgeo.cli import main
from hgeo.train import Session, load_run

TASKS = ("nodes", "links", "distances")
QUICK = ["--dataset", "karate", "--set", "min_epochs=0"]


def train(*words):
    return main(["train", *QUICK, *words])


@pytest.mark.parametrize("task", TASKS)
def test_a_task_fills_a_folder_and_is_drawn_again(here, capsys, task):
    assert train("--task", task, "--model", "hat,gcn", "--epochs", "3", "--out", "run") == 0
    said = capsys.readouterr().out
    assert {"nodes": "macro F1", "links": "Hits@20", "distances": "relative error"}[task] in said
    names = {path.name for path in (here / "run" / "hat-seed0").iterdir()}
    assert {"config.json", "metrics.jsonl", "result.json", "model.safetensors", "embedding.html", "curves.png"} <= names
    row = json.loads((here / "run" / "hat-seed0" / "metrics.jsonl").read_text().splitlines()[0])
    assert row["attention_entropy"] is not None
    assert json.loads((here / "run" / "hat-seed0" / "config.json").read_text())["task"] == task
    assert main(["plot", "run/hat-seed0", "--attention", "1"]) == 0


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_task_that_was_interrupted_ends_in_the_same_bits(here, task, number, monkeypatch):
    words = ["--task", task, "--model", "hat", "--epochs", "8", "--no-pictures", "--set", "feat_drop=0.5"]
    assert train(*words, "--out", "whole") == 0
    (job,) = Session.load("whole").jobs

    def interrupt(row):
        if row["epoch"] == 4:
            os.kill(os.getpid(), number)

    session = Session([job], here / "halved", threads=1, pictures=False)
    session.write()
    with pytest.raises(KeyboardInterrupt):
        job.run(job.load(), session.folder(job), on_epoch=interrupt)
    assert len(session.folder(job).metrics()) == 5
    assert main(["train", "--resume", "--out", "halved"]) == 0
    first, second = ((here / name / "model.safetensors").read_bytes() for name in ("whole", "halved"))
    assert first == second


def test_json_of_links_has_the_scores_of_models_and_of_heuristics(capsys):
    assert train("--task", "links", "--model", "gcn", "--seeds", "2", "--epochs", "3", "--json", "--no-pictures") == 0
    found = json.loads(capsys.readouterr().out)
    (row,) = found["summary"]
    assert row["test_roc_auc"]["n"] == 2
    assert row["test_roc_auc"]["mean"] == pytest.approx(np.mean([run["test_roc_auc"] for run in found["runs"]]))
    assert {"test_average_precision", "test_hits_20", "test_mrr"} <= set(row)
    assert list(found["beside"]) == ["degree product", "degree difference", "common neighbours", "Adamic-Adar"]
    assert found["beside"]["degree product"]["test_roc_auc"] == pytest.approx(0.94, abs=0.2)


def test_the_official_split_has_the_seed_of_its_papers(here):
    words = ["--task", "links", "--model", "mlp", "--epochs", "2", "--no-pictures", "--split", "official"]
    assert train(*words, "--out", "run") == 0
    assert train(*words, "--out", "other", "--split-seed", "3") == 0
    for name, seed in (("run", 1234), ("other", 3)):
        config = json.loads((here / name / "config.json").read_text())
        assert (config["split"], config["split_seed"]) == ("official", seed)


def test_links_are_trained_for_long_enough_to_survive_a_slow_start(here):
    assert (
        main(["train", "--dataset", "karate", "--task", "links", "--model", "mlp", "--no-pictures", "--out", "run"])
        == 0
    )
    settings = json.loads((here / "run" / "config.json").read_text())["settings"]
    assert settings["min_epochs"] == 250
    assert len((here / "run" / "metrics.jsonl").read_text().splitlines()) >= 250


@pytest.mark.parametrize("task", TASKS)
def test_a_loaded_run_is_given_the_graph_that_it_saw(here, task):
    assert train("--task", task, "--model", "gcn", "--epochs", "2", "--no-pictures", "--out", "run") == 0
    model, dataset, _ = load_run("run")
    assert (dataset.num_edges == 156) == (task == "nodes")
    assert model(dataset.graph, dataset.features).shape == (34, 2)


@pytest.mark.parametrize(
    "words", [["--set", "decoder=distance"], ["--space", "lorentz:3"], ["--space", "ball:2 x sphere:1"]]
)
def test_every_decoder_and_space_is_trained_on(words):
    assert train("--task", "links", "--model", "hat", "--epochs", "2", "--no-pictures", *words) == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--task", "link"], "no task 'link'"),
        (["--task", "links", "--split", "public"], "the split is 'public', expected clean or official"),
        (["--task", "links", "--set", "decoder=dirac"], "the decoder is 'dirac', expected one of fermi-dirac"),
        (["--task", "links", "--set", "hits=0"], "hits is 0, expected a whole number from 1 on"),
        (["--task", "nodes", "--set", "decoder=distance"], "no setting decoder"),
        (["--task", "distances", "--set", "given=1.5"], "given is 1.5, expected a number in [0, 1)"),
    ],
)
def test_a_request_that_a_task_cannot_serve_gives_an_error_of_one_line(here, capsys, words, message):
    assert train(*words) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1
    assert not (here / "runs").exists()
