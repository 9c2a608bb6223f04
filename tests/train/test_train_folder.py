"""A run folder: files are whole or absent, and hold nothing that runs when opened."""

import json

import pytest
import torch

from hgeo.train import RunFolder, write_atomically
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


def test_text_is_written_as_utf8_and_through_a_link(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "there" / "text")
    write_atomically(tmp_path / "link", "κ ± δ")
    assert (tmp_path / "there" / "text").read_bytes() == "κ ± δ".encode()
    assert (tmp_path / "link").is_symlink()


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
        write({"epoch": "new"})
    assert [row["epoch"] for row in folder.metrics()] == [0, 1, "new"]


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
