"""A run folder: files are whole or absent, and hold nothing that runs when opened."""

import json
import os
import sys

import pytest
import torch

from hgeo.data import karate
from hgeo.train import Job, RunFolder, Session, draw_run, load_run
from hgeo.train._folder import load_state, save_state, write_json


def test_nested_state_comes_back_as_it_was(tmp_path):
    tensor = torch.randn(3, 2)
    state = {
        "weights": {"a": tensor, "b": torch.tensor(3), "half": tensor.half()},
        "step": [1, 2.5, None, True, "text", (tensor[0], {})],
        7: "integer keys",
    }
    save_state(tmp_path / "deep" / "state.safetensors", state)
    loaded = load_state(tmp_path / "deep" / "state.safetensors")
    assert loaded[7] == "integer keys"
    assert loaded["step"][:5] == [1, 2.5, None, True, "text"]
    assert isinstance(loaded["step"][5], tuple)
    assert torch.equal(loaded["weights"]["a"], tensor)
    assert loaded["weights"]["half"].dtype == torch.float16
    assert loaded["weights"]["b"].shape == ()


def test_an_optimizers_state_survives(tmp_path):
    parameter = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.Adam([parameter], lr=0.1)
    parameter.sum().backward()
    optimizer.step()
    save_state(tmp_path / "state.safetensors", optimizer.state_dict())
    other = torch.optim.Adam([parameter], lr=0.5)
    other.load_state_dict(load_state(tmp_path / "state.safetensors"))
    assert other.param_groups[0]["lr"] == 0.1
    assert torch.equal(other.state[parameter]["exp_avg"], optimizer.state[parameter]["exp_avg"])


def test_tensors_that_share_memory_are_saved(tmp_path):
    tensor = torch.arange(6.0)
    save_state(tmp_path / "state.safetensors", {"whole": tensor, "part": tensor[2:4], "again": tensor})
    loaded = load_state(tmp_path / "state.safetensors")
    assert loaded["part"].tolist() == [2.0, 3.0]


def test_an_object_that_is_no_data_is_refused(tmp_path):
    with pytest.raises(TypeError, match="cannot save a function"):
        save_state(tmp_path / "state.safetensors", {"f": test_an_object_that_is_no_data_is_refused})
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_the_old_file(tmp_path):
    write_json(tmp_path / "config.json", {"version": 1})
    with pytest.raises(TypeError):
        write_json(tmp_path / "config.json", {"version": object()})
    assert json.loads((tmp_path / "config.json").read_text()) == {"version": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]


def test_json_has_no_nan(tmp_path):
    write_json(tmp_path / "x.json", {"loss": float("nan"), "best": [float("inf"), 1.0]})
    assert json.loads((tmp_path / "x.json").read_text()) == {"loss": None, "best": [None, 1.0]}


def test_a_line_that_a_crash_cut_off_is_ignored_and_one_in_the_middle_is_not(tmp_path):
    folder = RunFolder(tmp_path)
    with folder.log() as write:
        write({"epoch": 0})
        write({"epoch": 1})
    file = tmp_path / "metrics.jsonl"
    file.write_text(file.read_text() + '{"epoch": 2, "lo')
    assert [row["epoch"] for row in folder.metrics()] == [0, 1]
    file.write_text('{"epoch": 0}\n{"epo\n{"epoch": 2}\n')
    with pytest.raises(ValueError, match="line 2"):
        folder.metrics()


def test_the_log_is_cut_to_where_a_checkpoint_was(tmp_path):
    folder = RunFolder(tmp_path)
    with folder.log() as write:
        for epoch in range(5):
            write({"epoch": epoch})
    with folder.log(keep=2) as write:
        write({"epoch": 7})
    assert [row["epoch"] for row in folder.metrics()] == [0, 1, 7]


def test_a_run_that_is_not_finished_says_so_where_its_weights_are_asked_for(tmp_path):
    folder = RunFolder(tmp_path)
    folder.write_checkpoint({"epoch": 1})
    with pytest.raises(FileNotFoundError, match=r"is not finished, .* hgeo train --resume"):
        folder.weights()


def test_a_folder_without_a_run_says_so(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"config\.json; is .* a run folder"):
        RunFolder(tmp_path).config()
    (tmp_path / "config.json").write_text("{ not json")
    with pytest.raises(ValueError, match="is not JSON"):
        RunFolder(tmp_path).config()


@pytest.fixture
def precious(tmp_path):
    """A file of the user's that somebody's run folder points to."""
    file = tmp_path / "home" / "precious"
    file.parent.mkdir()
    file.write_text("mine")
    return file


def a_run_of_links(folder, target):
    """A run folder in which every file of a run is a link to ``target``."""
    folder.mkdir()
    names = ["config.json", "metrics.jsonl", "result.json", "model.safetensors", "session.json", "summary.json"]
    pictures = [f"{name}.{suffix}" for name in ("embedding", "curves") for suffix in ("png", "svg", "html")]
    for name in [*names, *pictures]:
        (folder / name).symlink_to(target)
    (folder / "checkpoint").mkdir()
    (folder / "checkpoint" / "state.safetensors").symlink_to(target)
    return folder


def test_a_run_writes_no_file_that_a_link_in_its_folder_points_to(tmp_path, precious):
    session = Session(
        [Job("karate", "mlp", "ball:2", options={"epochs": 2})], a_run_of_links(tmp_path / "run", precious)
    )
    (job,) = session.jobs
    session.write()
    folder, club = session.folder(job), job.load()
    session.write_result([job.run(club, folder)])
    model = job.build(club)
    model.load_state_dict(folder.weights())
    written = draw_run((model, club, folder))
    assert precious.read_text() == "mine"
    names = ["config.json", "metrics.jsonl", "result.json", "model.safetensors", "session.json", "summary.json"]
    written += [folder.path / name for name in [*names, "checkpoint/state.safetensors"]]
    assert len(written) == 14
    assert not any(path.is_symlink() for path in written)
    assert len(folder.metrics()) == 2


def test_a_link_put_in_the_place_of_the_log_while_a_run_starts_is_an_error(tmp_path, precious, monkeypatch):
    folder, replace = RunFolder(tmp_path), os.replace

    def replaced_again(source, target):
        replace(source, target)
        target.unlink()
        target.symlink_to(precious)

    monkeypatch.setattr(os, "replace", replaced_again)
    with pytest.raises(OSError, match=r"metrics\.jsonl"), folder.log() as write:
        write({"epoch": 0})
    assert precious.read_text() == "mine"


def test_a_checkpoint_is_neither_written_nor_removed_through_a_link(tmp_path, precious):
    state = precious.parent / "state.safetensors"
    state.write_text("another run's")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "checkpoint").symlink_to(precious.parent)
    folder = RunFolder(tmp_path / "run")
    for act in (lambda: folder.write_checkpoint({"epoch": 1}), folder.discard):
        with pytest.raises(ValueError, match=r"checkpoint is a link to .*home; nothing is written through links"):
            act()
    assert {path.name: path.read_text() for path in precious.parent.iterdir()} == {
        "precious": "mine",
        "state.safetensors": "another run's",
    }


def test_a_run_inside_a_session_is_not_written_through_a_link(tmp_path, precious):
    session = Session([Job("karate", "mlp", "ball:2", seed=seed) for seed in range(2)], tmp_path / "session")
    session.path.mkdir()
    (session.path / "mlp-seed1").symlink_to(precious.parent)
    assert session.folder(session.jobs[0]).path == session.path / "mlp-seed0"
    with pytest.raises(ValueError, match=r"mlp-seed1 is a link to .*home"):
        session.folder(session.jobs[1])


def test_the_folder_that_the_user_names_may_be_a_link(tmp_path, precious):
    (tmp_path / "run").symlink_to(precious.parent)
    folder = RunFolder(tmp_path / "run")
    folder.write_config({"model": "hat"})
    folder.write_checkpoint({"epoch": 1})
    assert (precious.parent / "config.json").is_file()
    assert (precious.parent / "checkpoint" / "state.safetensors").is_file()


def test_a_link_to_nothing_is_in_the_way_of_a_new_run(tmp_path):
    session = Session([Job("karate", "mlp", "ball:2")], tmp_path)
    (tmp_path / "curves.svg").symlink_to(tmp_path / "nothing")
    assert session.in_the_way() == tmp_path / "curves.svg"


@pytest.mark.parametrize("model", ["planted:Model", "planted.Model", "planted"])
def test_a_run_folder_has_no_module_imported(tmp_path, monkeypatch, model):
    (tmp_path / "planted.py").write_text("raise SystemExit('this ran')")
    monkeypatch.syspath_prepend(tmp_path)
    folder = RunFolder(tmp_path / "run")
    folder.write_config({"dataset": "karate", "model": model, "space": "ball:2"})
    for named in (None, "hat", "torch.nn:Linear"):
        with pytest.raises(ValueError, match="planted"):
            load_run(folder.path, dataset=karate(), model=named)
    assert "planted" not in sys.modules
