"""A run folder is somebody's word: opening it runs none of their code, and opens no file only because they name it."""

import hashlib
import json
import os
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from raw_files import FOLDERS, plant_processed_cache, write_citation

from hgeo.cli import main
from hgeo.data import Origin, load
from hgeo.train import Session, load_run

QUICK = ["--epochs", "3", "--no-pictures"]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch, no_network):
    """A user with no data of DGL's at all, unless a test gives some."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HGEO_DATA", raising=False)
    monkeypatch.setenv("DGL_DOWNLOAD_DIR", str(tmp_path / "none"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def mine(here):
    """A user's own file."""
    generator = np.random.default_rng(0)
    links = np.array([np.arange(40), (np.arange(40) + 1) % 40])
    np.savez(here / "mine.npz", edge_index=links, feat=generator.normal(size=(40, 5)), label=np.arange(40) % 2)
    return here / "mine.npz"


def train(*arguments) -> int:
    return main(["train", "--model", "mlp", "--out", "run", *QUICK, *arguments])


def open_by_plot(run: Path, data_dir=None) -> str | None:
    """The line of the refusal, or None."""
    return _refusal(["plot", str(run)], data_dir)


def open_by_resume(run: Path, data_dir=None) -> str | None:
    return _refusal(["train", "--resume", "--no-pictures", "--out", str(run)], data_dir)


def open_by_load_run(run: Path, data_dir=None) -> str | None:
    try:
        load_run(run, **({"data_dir": data_dir} if data_dir else {}))
    except (ValueError, OSError) as error:
        return str(error)
    return None


def _refusal(command, data_dir):
    import contextlib
    import io

    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        code = main([*command, *(["--data-dir", str(data_dir)] if data_dir else [])])
    assert code == (2 if said.getvalue() else 0), said.getvalue()
    return said.getvalue() or None


DOORS = pytest.mark.parametrize(
    "door", [open_by_plot, open_by_resume, open_by_load_run], ids=["hgeo plot", "hgeo train --resume", "load_run"]
)


def change(run: Path, **changes) -> None:
    """What an attacker, or an older hgeo, wrote instead; None takes a key away."""
    for name in ("config.json", "session.json"):
        held = json.loads((run / name).read_text())
        for job in held["jobs"] if name == "session.json" else [held]:
            for key, value in changes.items():
                job.pop(key, None) if value is None else job.update({key: value})
        (run / name).write_text(json.dumps(held))


def planted_run(folder: Path, data: Path, **more) -> Path:
    """A run that says that it was trained on Cora, and that Cora is in its own folder."""
    folder.mkdir()
    job = {"dataset": "cora", "model": "hat", "space": "ball:2", "seed": 0, "data_dir": str(data), **more}
    (folder / "config.json").write_text(json.dumps(job))
    (folder / "session.json").write_text(json.dumps({"threads": 1, "pictures": False, "jobs": [job]}))
    return folder


def plant_raw_pickle(folder: Path, name: str, bomb) -> None:
    folder.mkdir(parents=True)
    (folder / f"ind.{name}.x").write_bytes(bomb.pickled)


PLANTS = pytest.mark.parametrize(
    "plant", [plant_raw_pickle, plant_processed_cache], ids=["raw file", "processed cache"]
)


@DOORS
@PLANTS
def test_a_pickle_inside_a_run_folder_is_not_opened(here, bomb, door, plant):
    run = planted_run(here / "run", here / "run" / "data")
    plant(here / "run" / "data" / FOLDERS["cora"], "cora_v2", bomb)
    refusal = door(run)
    assert not bomb.went_off
    assert refusal.count("\n") <= 1
    assert f"cora: no folder {here / 'none' / FOLDERS['cora']}; set HGEO_DATA or --data-dir" in refusal


@DOORS
@PLANTS
def test_a_pickle_in_the_folder_that_the_user_gives_runs_nothing_either(here, bomb, door, plant):
    run = planted_run(here / "run", here / "elsewhere")
    raw = write_citation(here / "data" / FOLDERS["cora"], "cora_v2")
    (raw / "ind.cora_v2.x").unlink()
    (raw / "ind.cora_v2.allx").write_bytes(bomb.pickled)
    if plant is plant_raw_pickle:
        shutil.rmtree(raw)
    plant(raw, "cora_v2", bomb)
    assert door(run, data_dir=here / "data")
    assert not bomb.went_off


@DOORS
def test_a_run_cannot_say_that_it_is_to_be_trusted(here, bomb, door):
    run = planted_run(here / "run", here / "run" / "data", stored=False)
    plant_raw_pickle(here / "run" / "data" / FOLDERS["cora"], "cora_v2", bomb)
    assert "cannot be read: Object contains unknown field `stored`" in door(run)
    assert not bomb.went_off


@DOORS
@pytest.mark.parametrize("by", ["--data-dir", "HGEO_DATA"])
def test_a_run_on_pickled_data_is_opened_with_the_users_own_copy(here, door, by, monkeypatch):
    write_citation(here / "data" / FOLDERS["cora"], "cora_v2")
    assert train("--dataset", "cora", "--data-dir", "data") == 0
    assert "set HGEO_DATA or --data-dir" in door(here / "run")
    if by == "HGEO_DATA":
        monkeypatch.setenv(by, str(here / "data"))
    assert door(here / "run", data_dir=here / "data" if by == "--data-dir" else None) is None


@DOORS
def test_a_run_on_other_pickled_data_than_the_users_is_refused(here, door):
    write_citation(here / "data" / FOLDERS["cora"], "cora_v2")
    assert train("--dataset", "cora", "--data-dir", "data") == 0
    other = write_citation(here / "other" / FOLDERS["cora"], "cora_v2", dtype="f8")
    assert f"{other} holds other data than were asked for: its SHA-256 is " in door(
        here / "run", data_dir=here / "other"
    )


@DOORS
def test_a_run_on_an_npz_file_is_opened_from_any_folder(here, mine, door, monkeypatch):
    assert train("--dataset", "mine.npz") == 0
    (here / "deep").mkdir()
    monkeypatch.chdir(here / "deep")
    assert door(here / "run") is None


@DOORS
@pytest.mark.parametrize("name", ["karate", "cora"])
def test_a_path_is_a_path_though_there_is_a_data_set_of_that_name(here, mine, door, name):
    """Else a run could have another file opened than the one whose hash it knows, or one downloaded."""
    assert train("--dataset", "mine.npz") == 0
    (here / name).write_text("a file of the user's")
    change(here / "run", origin={"path": name, "sha256": "0" * 64})
    assert f"{here / name} holds other data than were asked for" in door(here / "run")


@DOORS
def test_an_npz_file_that_has_changed_is_refused(here, mine, door):
    assert train("--dataset", "mine.npz") == 0
    np.savez(mine, edge_index=np.array([[0, 1], [2, 3]]), feat=np.eye(8), label=np.arange(8) % 2)
    assert f"{mine} holds other data than were asked for: its SHA-256 is " in door(here / "run")


@DOORS
def test_an_npz_file_that_has_moved_is_found_in_the_folder_that_the_user_gives(here, mine, door):
    assert train("--dataset", "mine.npz") == 0
    (here / "moved").mkdir()
    mine.rename(here / "moved" / "mine.npz")
    refusal = door(here / "run")
    assert f"no file {mine}, which the run was trained on; give the folder that holds it by --data-dir" in refusal
    assert door(here / "run", data_dir="moved") is None


@DOORS
def test_a_run_cannot_have_a_file_opened_whose_content_it_does_not_know(here, mine, door):
    assert train("--dataset", "mine.npz") == 0
    secret = here / "secret.npz"
    shutil.copy(mine, secret)
    with open(secret, "ab") as file:
        file.write(b"and more")
    change(here / "run", origin={"path": str(secret), "sha256": hashlib.sha256(b"a guess").hexdigest()})
    assert "holds other data than were asked for" in door(here / "run")
    change(here / "run", origin=None, dataset=str(mine), data_dir=str(here))
    assert "does not say what mine.npz held" in door(here / "run")
    change(here / "run", dataset="../../mine.npz")
    (here / "given").mkdir()
    assert f"no file {here / 'given' / 'mine.npz'}" in door(here / "run", data_dir=here / "given")


@DOORS
@pytest.mark.parametrize(
    "origin", ["mine.npz", {"path": "mine.npz"}, {"path": 3, "sha256": "0" * 64}, {"path": "mine.npz", "sha256": 0}]
)
def test_an_origin_that_cannot_be_read_is_named(here, mine, door, origin):
    assert train("--dataset", "mine.npz") == 0
    change(here / "run", origin=origin)
    assert re.search(r"(config|session)\.json cannot be read: .* at `\$.*origin", door(here / "run"))


@DOORS
def test_a_run_of_an_older_hgeo_is_opened_with_the_folder_of_its_data(here, mine, door):
    """It kept its data's folder, and no hash."""
    assert train("--dataset", "mine.npz") == 0
    change(here / "run", origin=None, data_dir="anywhere")
    assert "does not say what mine.npz held; give the folder that holds it by --data-dir" in door(here / "run")
    assert door(here / "run", data_dir=here) is None


@DOORS
@pytest.mark.parametrize("dataset", ["karate", "hierarchy"])
def test_a_run_on_built_in_data_needs_nothing(here, door, dataset):
    assert train("--dataset", dataset) == 0
    assert door(here / "run") is None
    change(here / "run", origin=None, data_dir="anywhere")
    assert door(here / "run") is None


def test_a_run_says_where_its_data_were_and_what_they_held(here, mine):
    assert train("--dataset", "mine.npz", "--data-dir", "ignored") == 0
    known = {"path": str(mine), "sha256": hashlib.sha256(mine.read_bytes()).hexdigest()}
    config = json.loads((here / "run" / "config.json").read_text())
    (job,) = json.loads((here / "run" / "session.json").read_text())["jobs"]
    assert config["origin"] == job["origin"] == known
    assert "data_dir" not in config
    assert "data_dir" not in job
    assert load("karate").origin is None
    assert load(mine).origin == Origin(**known)


def test_resuming_with_the_users_folder_remembers_it(here, mine):
    assert train("--dataset", "mine.npz") == 0
    (here / "moved").mkdir()
    mine.rename(here / "moved" / "mine.npz")
    assert open_by_resume(here / "run", data_dir="moved") is None
    assert open_by_resume(here / "run") is None
    assert Session.load("run").jobs[0].origin.path == str(here / "moved" / "mine.npz")


def test_a_run_with_data_at_hand_opens_no_file(here, mine):
    assert train("--dataset", "mine.npz") == 0
    data = load(mine)
    os.unlink(mine)
    same = load_run("run", dataset=data)[1]
    assert same is data


OWN = """
from dataclasses import dataclass
import torch, hgeo

open("it_ran", "w").close()

class Mine(torch.nn.Module):
    @dataclass(frozen=True)
    class Settings:
        scale: float = 1.0

    def __init__(self, in_dim, num_classes, manifold, *, dim, settings):
        super().__init__()
        self.hidden_manifold, self.settings = hgeo.manifolds.space("euclidean:1").manifold, settings
        self.first, self.second = torch.nn.Linear(in_dim, dim), torch.nn.Linear(dim, num_classes)

    def embed(self, graph, x):
        return self.settings.scale * torch.tanh(self.first(x.to_dense()))

    def forward(self, graph, x):
        return self.second(self.embed(graph, x))
"""


@pytest.fixture
def own_model(here, monkeypatch):
    """A module of the user's, whose import leaves a trace."""
    (here / "my_models.py").write_text(OWN)
    yield here / "it_ran"
    sys.modules.pop("my_models", None)


def forget(trace):
    sys.modules.pop("my_models")
    trace.unlink()


def test_a_model_of_ones_own_is_trained_by_its_module_and_class_and_takes_its_settings(here, own_model):
    words = ["train", "--dataset", "karate", "--model", "my_models:Mine", "--out", "run", *QUICK]
    assert main([*words, "--set", "scale=2.0"]) == 0
    config = json.loads((here / "run" / "config.json").read_text())
    assert (config["model"], config["settings"]["scale"]) == ("my_models:Mine", 2.0)


@DOORS
def test_the_code_of_a_model_is_not_run_because_a_run_folder_names_it(here, own_model, door):
    assert main(["train", "--dataset", "karate", "--model", "my_models:Mine", "--out", "run", *QUICK]) == 0
    forget(own_model)
    assert "my_models:Mine, which is code that hgeo does not bring; if you trust it, name it" in door(here / "run")
    assert not own_model.exists()
    assert "my_models" not in sys.modules


def test_a_model_that_the_user_names_again_is_opened(here, own_model, capsys):
    named = ["--model", "my_models:Mine"]
    assert main(["train", "--dataset", "karate", *named, "--seeds", "2", "--out", "run", *QUICK]) == 0
    for words in (["train", "--resume", "--no-pictures", "--out", "run"], ["plot", "run/my_models-Mine-seed1"]):
        forget(own_model)
        assert main([*words, "--model", "other:Mine"]) == 2
        assert "my_models:Mine, which is code" in capsys.readouterr().err
        assert not own_model.exists()
        assert main([*words, *named]) == 0
        assert own_model.exists()
    assert load_run("run/my_models-Mine-seed0", model="my_models:Mine")[0].settings.scale == 1.0


@pytest.mark.parametrize(
    ("word", "refusal"),
    [
        ("my_models:Yours", "my_models has no 'Yours'"),
        ("no_models:Mine", "no_models cannot be imported"),
        ("json:dumps", "expected a class of torch.nn.Module"),
        ("torch.nn:Linear", "Linear needs a frozen dataclass Settings"),
    ],
)
def test_a_model_that_cannot_be_had_is_refused_in_a_line(here, own_model, capsys, word, refusal):
    assert main(["train", "--dataset", "karate", "--model", word, *QUICK]) == 2
    said = capsys.readouterr().err
    assert refusal in said
    assert said.count("\n") == 1


@DOORS
@pytest.mark.parametrize("text", ["\x1b]0;title\x07", "\r", "\x08", "\x9b2J", "\x7f"])
def test_the_text_of_a_run_cannot_send_control_characters_to_the_terminal(here, door, text):
    origin, unknown = {"path": text, "sha256": "0" * 64}, {text: 1}
    for number, said in enumerate(
        [{"dataset": text}, {"space": text}, {"origin": origin}, {"options": unknown}, unknown]
    ):
        refusal = door(planted_run(here / f"run{number}", here, **said))
        assert text not in refusal
        assert "holds a text with control characters, which no run of hgeo writes" in refusal


def test_the_result_of_a_run_cannot_send_control_characters_to_the_terminal(here):
    assert train("--dataset", "karate") == 0
    result = json.loads((here / "run" / "result.json").read_text())
    (here / "run" / "result.json").write_text(json.dumps({**result, "space": "ball:2\x1b[2J"}))
    assert "result.json holds a text with control characters" in open_by_resume(here / "run")


def test_a_raw_file_cannot_send_control_characters_to_the_terminal(here, capsys):
    raw = write_citation(here / "data" / FOLDERS["cora"], "cora_v2")
    for part in ("x", "y"):
        (raw / f"ind.cora_v2.{part}").write_bytes(b"c\x1b]0;title\x07\nx\n.")
    assert main(["data", "cora", "--data-dir", "data"]) == 2
    said = capsys.readouterr().err
    assert "it names \\x1b]0;title\\x07.x, which no file of this kind needs" in said
    assert "\x1b" not in said


def test_the_name_of_a_run_cannot_send_control_characters_to_the_terminal(here, capsys):
    assert train("--dataset", "karate") == 0
    planted = here / "run" / "\x1b]0;title\x07"
    planted.mkdir()
    (planted / "embedding.png").touch()
    capsys.readouterr()
    assert open_by_resume(here / "run") is None
    said = capsys.readouterr().out
    assert "\\x1b]0;title" in said
    assert "\x1b" not in said


def test_json_that_is_nested_without_end_is_refused(here):
    (here / "run").mkdir()
    for name in ("config.json", "session.json"):
        (here / "run" / name).write_text("[" * 200_000)
    for door in (open_by_plot, open_by_resume, open_by_load_run):
        assert "is not JSON" in door(here / "run")


@DOORS
@pytest.mark.parametrize("field", ["space", "model", "dataset", "device", "dtype", "backend"])
def test_no_word_of_a_run_imports_a_module(here, door, field, monkeypatch):
    (here / "planted.py").write_text("import pathlib; pathlib.Path('imported').touch()")
    monkeypatch.syspath_prepend(here)
    words = ["planted", "planted:2", "planted:Thing", "planted:half:2", "planted.Thing:2", "ball:2 x planted:half:2"]
    for number, named in enumerate(words):
        assert door(planted_run(here / f"run{number}", here, **{"dataset": "karate", field: named}))
    assert not (here / "imported").exists()


@pytest.mark.parametrize("state", [[1], "text", {1: 2}, {"weight": 1}])
def test_weights_that_are_no_weights_are_refused(here, state):
    from hgeo.train._folder import save_state

    assert train("--dataset", "karate") == 0
    save_state(here / "run" / "model.safetensors", state)
    for door in (open_by_plot, open_by_load_run):
        assert "do not fit mlp on karate" in door(here / "run")


@pytest.mark.parametrize("threads", ["2", -1, 0, 1.5, True, 10**6, 2**70])
def test_a_session_with_a_wrong_number_of_threads_is_refused(here, threads):
    assert train("--dataset", "karate") == 0
    session = json.loads((here / "run" / "session.json").read_text())
    (here / "run" / "session.json").write_text(json.dumps({**session, "threads": threads}))
    assert re.search(r"session\.json cannot be read: Expected `int.* at `\$\.threads`", open_by_resume(here / "run"))


def test_a_result_does_not_say_of_which_job_it_is(here, own_model, monkeypatch, capsys):
    monkeypatch.syspath_prepend(here)
    assert train("--dataset", "karate") == 0
    held = json.loads((here / "run" / "result.json").read_text())
    (here / "run" / "result.json").write_text(json.dumps({**held, "model": "my_models:Mine", "space": "no:2"}))
    assert open_by_resume(here / "run") is None
    assert not own_model.exists()
    assert "my_models" not in capsys.readouterr().out


@DOORS
def test_where_no_model_of_ones_own_is_named_nothing_is_imported_from_where_one_stands(here, door, monkeypatch):
    """It may be somebody's folder, with a module in it that is called like one that is imported late."""
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place])
    assert train("--dataset", "karate") == 0
    (here / "run" / "result.json").unlink()
    assert door(here / "run") is None
    assert "" not in sys.path


def test_a_module_of_ones_own_takes_the_place_of_no_installed_one(here, own_model, monkeypatch):
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place])
    assert main(["train", "--dataset", "karate", "--model", "my_models:Mine", "--out", "run", *QUICK]) == 0
    assert sys.path[-1] == ""


OWN_TASK = """
import torch
from hgeo.tasks import Task

open("task_ran", "w").close()

class Degrees(Task):
    title, columns = "degrees", {"test_error": "error"}

    def out_dim(self, dim):
        return 1

    def error(self, output):
        degrees = torch.bincount(self.dataset.edge_index[1], minlength=self.dataset.num_nodes)
        return (output.squeeze(1) - degrees.log1p()).square().mean()

    def loss(self, model, output, epoch):
        return self.error(output)

    def evaluate(self, model, output, part):
        error = float(self.error(output))
        return {"loss": error, "error": error}

    def watched(self, scores):
        return (-scores["val_error"],)
"""


@pytest.fixture
def own_task(here):
    """A task of the user's, whose import leaves a trace."""
    (here / "my_tasks.py").write_text(OWN_TASK)
    yield here / "task_ran"
    sys.modules.pop("my_tasks", None)


def test_a_task_of_ones_own_is_trained_by_its_module_and_class(here, own_task, capsys):
    words = ["train", "--dataset", "karate", "--task", "my_tasks:Degrees", "--out", "run", "--epochs", "60", "--json"]
    assert main(words) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    rows = [json.loads(line) for line in (here / "run" / "metrics.jsonl").read_text().splitlines()]
    assert run["task"] == "my_tasks:Degrees"
    assert run["val_error"] == min(row["val_error"] for row in rows) < rows[0]["val_error"] / 2
    assert (here / "run" / "curves.png").is_file()
    sys.modules.pop("my_tasks")
    own_task.unlink()
    for door in (open_by_plot, open_by_resume, open_by_load_run):
        assert "my_tasks:Degrees, which is code that hgeo does not bring; if you trust it, name" in door(here / "run")
    assert not own_task.exists()
    for again in (["train", "--resume", "--out", "run"], ["plot", "run"]):
        assert main([*again, "--task", "my_tasks:Degrees"]) == 0


@pytest.mark.parametrize(
    ("word", "refusal"),
    [
        ("leafs", "no task 'leafs'; known: nodes"),
        ("my_tasks:None", "my_tasks has no 'None'"),
        ("no_tasks:Mine", "no_tasks cannot be imported"),
        ("json:dumps", "expected a class derived from hgeo.tasks.Task"),
    ],
)
def test_a_task_that_cannot_be_had_is_refused_in_a_line(here, own_task, capsys, word, refusal):
    assert main(["train", "--dataset", "karate", "--task", word, *QUICK]) == 2
    said = capsys.readouterr().err
    assert refusal in said
    assert said.count("\n") == 1
