"""Each file of a run has one form: it says all that was run, and what has another form is refused with its place."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import hgeo
from hgeo.cli import main
from hgeo.train import Job, RunFolder, Session


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def train(*more) -> int:
    return main(["train", "--dataset", "karate", "--epochs", "2", "--no-pictures", "--out", "run", *more])


@pytest.mark.parametrize(
    ("space", "model", "curvatures"),
    [
        ("ball:2,c=0.25", "hat", [-0.25, -0.25]),
        ("stereo:2,k=0.5", "hat", [0.5, 0.5]),
        ("lorentz:2", "hat", [-1.0, -1.0]),
        ("ball:2,c=0.25", "gcn", []),
    ],
)
def test_the_configuration_says_the_curvatures_that_the_model_began_with(space, model, curvatures):
    assert train("--space", space, "--model", model) == 0
    assert RunFolder("run").config().curvatures == pytest.approx(curvatures)


def test_the_configuration_says_all_that_decides_the_numbers():
    assert train("--space", "ball:2,c=learn", "--set", "beta=0.7", "--threads", "1", "--first-seed", "3") == 0
    config = RunFolder("run").config()
    assert (config.dataset, config.model, config.seed, config.threads) == ("karate", "hat", 3, 1)
    assert config.options == {"epochs": 2, "beta": 0.7}
    assert (config.settings["beta"], config.settings["epochs"], config.settings["steps"]) == (0.7, 2, 1)
    assert config.versions == {"hgeo": hgeo.__version__, "torch": torch.__version__, "numpy": np.__version__}


def test_a_session_says_what_it_was_asked_for():
    jobs = [Job("karate", "mlp", "ball:2", seed=seed, options={"epochs": 2}) for seed in (0, 1)]
    Session(jobs, "run", threads=2, pictures=False).write()
    again = Session.load("run")
    assert (again.threads, again.pictures) == (2, False)
    assert [job.record(None) for job in again.jobs] == [job.record(None) for job in jobs]


WRONG = {
    "config.json": [
        ({"seed": None}, "$.seed"),
        ({"seed": -1}, "$.seed"),
        ({"options": []}, "$.options"),
        ({"settings": "none"}, "$.settings"),
        ({"dtype": "float16"}, "$.dtype"),
        ({"curvatures": [None]}, "$.curvatures[0]"),
        ({"modle": "hat"}, "unknown field `modle`"),
    ],
    "session.json": [
        ({"jobs": []}, "$.jobs"),
        ({"jobs": [1]}, "$.jobs[0]"),
        ({"jobs": [{"model": "hat"}]}, "missing required field `dataset`"),
        ({"pictures": "no"}, "$.pictures"),
    ],
    "result.json": [
        ({"epochs": None}, "$.epochs"),
        ({"warnings": [3]}, "$.warnings[0]"),
        ({"test_accuracy": "high"}, "got `str`"),
        ({"curvatures": {}}, "$.curvatures"),
    ],
}


@pytest.mark.parametrize(
    ("name", "change", "place"), [(name, *case) for name, cases in WRONG.items() for case in cases]
)
def test_a_file_of_another_form_is_refused_with_its_place(capsys, name, change, place):
    assert train("--model", "mlp") == 0
    file = Path("run") / name
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    capsys.readouterr()
    command = ["plot", "run"] if name == "config.json" else ["train", "--resume", "--out", "run"]
    assert main(command) == 2
    said = capsys.readouterr().err
    assert f"run/{name} cannot be read: " in said
    assert place in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("result.json", "{}", "missing required field"),
        ("result.json", "[]", "holds a list, expected an object"),
        ("config.json", '{"seed": NaN}', "is not JSON (NaN is no number in JSON)"),
        ("config.json", '{"seed": ' + "9" * 5000 + "}", "is not JSON"),
        ("metrics.jsonl", "[1]\n", "metrics.jsonl line 1 holds a list"),
        ("metrics.jsonl", '{"epoch": 0}\n{"epoch": "one"}\n', "metrics.jsonl line 2 cannot be read: Expected `int"),
        ("metrics.jsonl", '{"epoch": 0, "val_accuracy": [1]}\n', "metrics.jsonl line 1 cannot be read"),
        ("metrics.jsonl", '{"epoch": 0, "val_loss": 1}\n{"epoch": 1}\n', "line 2 has other scores or curvatures than"),
        ("metrics.jsonl", '{"epoch": 0, "curvatures": [1]}\n{"epoch": 1, "curvatures": []}\n', "line 2 has other"),
        ("metrics.jsonl", "[" * 100_000 + "\n", "metrics.jsonl line 1 is not JSON"),
    ],
)
def test_a_text_of_another_form_is_refused_with_its_file(capsys, name, text, reason):
    assert train("--model", "mlp") == 0
    (Path("run") / name).write_text(text)
    capsys.readouterr()
    assert main(["plot", "run"]) == 2
    said = capsys.readouterr().err
    assert reason in said
    assert said.count("\n") == 1


def test_a_file_that_is_larger_than_any_of_a_run_is_not_read(monkeypatch):
    monkeypatch.setattr("hgeo.train._schema._MOST_BYTES", 1 << 20)
    assert train("--model", "mlp") == 0
    with open("run/metrics.jsonl", "a") as file:
        file.write(" " * (1 << 20))
    with pytest.raises(ValueError, match="is larger than 1 MB, which no file of a run is"):
        RunFolder("run").metrics()


def test_a_run_whose_configuration_and_session_disagree_is_not_gone_on_with(capsys):
    assert train("--model", "mlp") == 0
    Path("run/result.json").unlink()
    session = json.loads(Path("run/session.json").read_text())
    session["jobs"][0]["seed"] = 4
    Path("run/session.json").write_text(json.dumps(session))
    assert main(["train", "--resume", "--out", "run"]) == 2
    assert "config.json is of another run: it says seed 0, and this one has 4; restore it" in capsys.readouterr().err
