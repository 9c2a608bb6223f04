"""Nothing that was trained is lost: not to a second training, a signal, a full disk, or a disk that loses bits."""

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from hgeo.cli import main
from hgeo.data import karate, random_taxonomy
from hgeo.models import TrainSettings, build
from hgeo.train import Interrupted, Job, RunFolder, Session, TrainingWarning, fit, fit_hierarchy
from hgeo.train._folder import load_state, save_state
from hgeo.train._lock import locked

TREE = random_taxonomy(30).closure()


def train(out, *more) -> int:
    return main(["train", "--dataset", "karate", "--model", "mlp", "--no-pictures", "--out", str(out), *more])


@pytest.fixture
def another(tmp_path):
    """Another process, which keeps the folder ``run`` to itself."""
    program = "import sys, time; from pathlib import Path; from hgeo.train._lock import locked\n"
    program += "with locked(Path(sys.argv[1])): print('mine', flush=True); time.sleep(600)"
    process = subprocess.Popen([sys.executable, "-c", program, str(tmp_path / "run")], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"mine\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_of_two_trainings_into_one_folder_the_second_is_refused(tmp_path, another, capsys):
    assert train(tmp_path / "run", "--epochs", "2") == 2
    said = capsys.readouterr().err
    assert f"another process is training into {tmp_path / 'run'}; wait for it to end, or choose another folder" in said
    assert said.count("\n") == 1
    words = ["embed", "tree", "--alone", "--epochs", "2", "--no-pictures", "--out", str(tmp_path / "run")]
    assert main(words) == 2
    assert "another process is training into" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "run").iterdir()] == [".lock"]


def test_the_lock_of_a_process_that_was_killed_counts_for_nothing(tmp_path, another):
    another.send_signal(signal.SIGKILL)
    another.wait()
    assert train(tmp_path / "run", "--epochs", "2") == 0


def test_whether_something_is_in_the_way_is_asked_when_nobody_else_can_put_it_there(tmp_path):
    """Another run may have begun and ended since this one was planned."""
    session = Session([Job("karate", "mlp", "ball:2", options={"epochs": 2})], tmp_path / "run")
    assert train(tmp_path / "run", "--epochs", "2") == 0
    with pytest.raises(ValueError, match=r"session\.json is there already, .* choose another --out"), session.opened():
        pass
    with session.opened(resume=True):
        pass


def test_a_link_at_the_place_of_the_lock_leads_nowhere(tmp_path, capsys):
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".lock").symlink_to(tmp_path / "precious")
    assert train(tmp_path / "run", "--epochs", "2") == 2
    assert (tmp_path / "precious").read_text() == "mine"


def test_two_threads_do_not_train_into_one_folder(tmp_path):
    from concurrent.futures import ThreadPoolExecutor

    def other():
        with locked(tmp_path):
            pass

    refused = pytest.raises(ValueError, match="another process is training into")
    with ThreadPoolExecutor(1) as pool, locked(tmp_path), locked(tmp_path), refused:  # one thread may lock it again
        pool.submit(other).result()
    other()


def flipped(file: Path, bit: int) -> None:
    content = bytearray(file.read_bytes())
    content[bit // 8] ^= 1 << (bit % 8)
    file.write_bytes(content)


def test_every_bit_that_flips_in_a_file_of_weights_is_noticed(tmp_path):
    file = tmp_path / "state.safetensors"
    state = {"weight": torch.arange(5.0), "half": torch.ones(3).half(), "step": 3, "list": [1.5, None, "word", True]}
    state |= {"number": torch.tensor(2.0), "truth": torch.tensor([True, False]), "none": torch.zeros(0)}
    save_state(file, state)
    whole = file.read_bytes()
    for bit in range(8 * len(whole)):
        flipped(file, bit)
        with pytest.raises(ValueError, match="is damaged"):
            load_state(file)
        file.write_bytes(whole)
    assert torch.equal(load_state(file)["weight"], state["weight"])


@pytest.mark.parametrize("damage", [lambda file: flipped(file, 8 * file.stat().st_size - 20), Path.unlink])
def test_damaged_weights_are_not_drawn_and_are_written_anew_from_the_checkpoint(tmp_path, capsys, damage):
    assert train(tmp_path / "run", "--epochs", "2") == 0
    whole = {name: value.clone() for name, value in RunFolder(tmp_path / "run").weights().items()}
    damage(tmp_path / "run" / "model.safetensors")
    assert main(["plot", str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err
    assert "hgeo train --resume writes it anew from the checkpoint" in said
    assert said.count("\n") == 1
    assert main(["train", "--resume", "--out", str(tmp_path / "run")]) == 0
    assert "hgeo train --resume writes it anew from the checkpoint" in capsys.readouterr().err
    again = RunFolder(tmp_path / "run").weights()
    assert all(torch.equal(again[name], whole[name]) for name in whole)


def test_a_run_whose_newest_checkpoint_is_damaged_goes_on_from_the_one_before_it(tmp_path):
    data, settings = karate(), TrainSettings(epochs=9, patience=30)

    def network():
        torch.manual_seed(0)
        return build("mlp", data, "ball:2")

    whole = fit(network(), data, settings)

    def halt(row):
        if row["epoch"] in (3, 6):
            os.kill(os.getpid(), signal.SIGTERM)

    folder = RunFolder(tmp_path)
    for _ in range(2):
        with pytest.raises(Interrupted):
            fit(network(), data, settings, folder=folder, resume=True, on_epoch=halt)
    newest, previous = (tmp_path / "checkpoint" / f"{name}.safetensors" for name in ("state", "previous"))
    assert (load_state(newest)["progress"]["epoch"], load_state(previous)["progress"]["epoch"]) == (7, 4)
    flipped(newest, 8 * newest.stat().st_size // 2)
    with pytest.warns(TrainingWarning, match=r"state\.safetensors is damaged .*; going on from the checkpoint before"):
        resumed = fit(network(), data, settings, folder=folder, resume=True)
    assert all(torch.equal(whole.state[name], resumed.state[name]) for name in whole.state)
    assert len(folder.metrics()) == 9
    newest.unlink()  # as a kill between two renames leaves it
    assert folder.has_checkpoint
    with pytest.warns(TrainingWarning, match="no file"):
        folder.checkpoint()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_embedding_that_is_asked_to_stop_writes_a_checkpoint_and_goes_on_to_the_same_bits(tmp_path, number):
    whole = fit_hierarchy(TREE, "ball:2", epochs=6)

    def halt(row):
        if row["epoch"] == 2:
            os.kill(os.getpid(), number)

    with pytest.raises(Interrupted):
        fit_hierarchy(TREE, "ball:2", epochs=6, folder=tmp_path, on_epoch=halt)
    assert RunFolder(tmp_path).checkpoint()["epoch"] == 3
    again = fit_hierarchy(TREE, "ball:2", epochs=6, folder=tmp_path, resume=True)
    assert torch.equal(again.points, whole.points)


def test_a_command_that_gets_sigterm_writes_a_checkpoint(tmp_path):
    words = ["train", "--dataset", "karate", "--model", "mlp", "--epochs", "1000000", "--patience", "1000000"]
    process = subprocess.Popen(
        [sys.executable, "-m", "hgeo", *words, "--no-pictures", "--out", str(tmp_path / "run")], stderr=subprocess.PIPE
    )
    metrics = tmp_path / "run" / "metrics.jsonl"
    while process.poll() is None and not (metrics.is_file() and metrics.read_bytes()):
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    said = process.communicate()[1].decode()
    assert process.returncode == 130
    assert "hgeo: interrupted; go on with: hgeo train --resume --out" in said
    folder = RunFolder(tmp_path / "run")
    assert len(folder.metrics()) == folder.checkpoint()["progress"]["epoch"]


@pytest.mark.parametrize("call", ["fsync", "write"])
def test_a_full_disk_is_an_error_that_names_the_file(tmp_path, monkeypatch, capsys, call):
    real = getattr(os, call)

    def full(descriptor, *rest):
        if "run/" not in os.readlink(f"/proc/self/fd/{descriptor}"):
            return real(descriptor, *rest)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("this system does not tell which file a descriptor is of")
    monkeypatch.setattr(os, call, full)
    assert train(tmp_path / "run", "--epochs", "2") == 2
    said = capsys.readouterr().err
    assert f"No space left on device: '{tmp_path / 'run'}" in said
    assert said.count("\n") == 1


def test_a_model_that_does_not_fit_is_left_out_and_the_others_are_trained(tmp_path, capsys):
    words = ["train", "--dataset", "karate", "--no-pictures", "--epochs", "2", "--set", "beta=0.5", "--space", "ball:2"]
    assert main([*words, "--model", "gcn,hat,mlp", "--out", str(tmp_path / "run")]) == 1
    said = capsys.readouterr()
    assert "hgeo train: gcn is left out: no setting beta; gcn has" in said.err
    assert "hgeo train: mlp is left out: no setting beta; mlp has" in said.err
    assert "HAT " in said.out
    assert RunFolder(tmp_path / "run").config().model == "hat"
    assert main([*words, "--model", "gcn,mlp", "--out", str(tmp_path / "none")]) == 2
    assert not (tmp_path / "none").exists()
