"""Several processes train as one: started by torchrun, as a user does."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from hgeo.data import hierarchy
from hgeo.train._folder import load_state

pytest.importorskip("dgl")
pytestmark = pytest.mark.cluster

FIXED = ["--model", "hat", "--space", "ball:3", "--no-pictures", "--set", "feat_drop=0", "--set", "attn_drop=0",
         "--set", "hidden_drop=0", "--dtype", "float64"]  # fmt: skip
SAMPLED = ["--model", "hat", "--space", "ball:3", "--no-pictures", "--batch-size", "60", "--fanout", "4,3"]


def train(processes, *words):
    """The process of ``torchrun … -m hgeo train WORDS``, or of ``python -m hgeo train WORDS``."""
    start = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    command = start if processes > 1 else [sys.executable]
    root = str(Path(__file__).parents[2])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": root}
    return subprocess.Popen(
        [*command, "-m", "hgeo", "train", *map(str, words)], env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip


def done(process):
    out, said = process.communicate(timeout=300)
    return process.returncode, out, said


def weights(folder):
    return load_state(folder / "model.safetensors")


def losses(folder):
    return [json.loads(line)["loss"] for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_two_processes_train_as_one_does_when_all_neighbours_are_seen(tmp_path):
    shared = [*FIXED, "--epochs", 3, "--batch-size", 61, "--dataset", "hierarchy"]
    both = [train(count, *shared, "--out", tmp_path / f"by{count}") for count in (1, 2)]
    for process in both:
        code, _, said = done(process)
        assert code == 0, said
    np.testing.assert_allclose(losses(tmp_path / "by2"), losses(tmp_path / "by1"), rtol=1e-9)
    one, two = weights(tmp_path / "by1"), weights(tmp_path / "by2")
    for name, value in one.items():
        torch.testing.assert_close(two[name], value, rtol=1e-6, atol=1e-8)


def test_a_run_of_two_processes_ends_in_the_same_bits_when_it_is_taken_up_again(tmp_path):
    code, _, said = done(train(2, *SAMPLED, "--epochs", 8, "--out", tmp_path / "whole", "--dataset", "hierarchy"))
    assert code == 0, said
    cut = train(2, *SAMPLED, "--epochs", 8, "--out", tmp_path / "cut", "--dataset", "hierarchy")
    lines = tmp_path / "cut" / "metrics.jsonl"
    while cut.poll() is None and not (lines.is_file() and lines.read_text()):
        time.sleep(0.05)
    os.killpg(cut.pid, signal.SIGTERM)
    done(cut)
    code, _, said = done(train(2, "--resume", "--out", tmp_path / "cut"))
    assert code == 0, said
    assert losses(tmp_path / "cut") == losses(tmp_path / "whole")
    for name, value in weights(tmp_path / "whole").items():
        assert torch.equal(weights(tmp_path / "cut")[name], value), name


def test_the_others_stop_with_a_sentence_when_a_process_dies(tmp_path):
    process = train(2, *SAMPLED, "--epochs", 10000, "--patience", 10000, "--out", tmp_path / "run", "--dataset",
                    "hierarchy")  # fmt: skip
    while process.poll() is None and not (tmp_path / "run" / "metrics.jsonl").is_file():
        time.sleep(0.05)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(children[-1]), signal.SIGKILL)
    code, _, said = done(process)
    assert code != 0
    assert "hgeo train: another process of this training is lost" in said
    assert not (tmp_path / "run" / "result.json").exists()


def write_npz(path, labels):
    data = hierarchy()
    np.savez(path, edge_index=data.edge_index.numpy(), feat=data.features.to_dense().numpy(), label=labels)


def test_processes_with_different_data_are_stopped_before_anything_is_written(tmp_path):
    labels = hierarchy().labels.numpy()
    for rank in (0, 1):
        folder = tmp_path / str(rank)
        folder.mkdir()
        write_npz(folder / "mine.npz", np.roll(labels, rank))
    command = tmp_path / "own_data.py"
    command.write_text(
        "import os, sys\nos.chdir(os.path.join(os.path.dirname(__file__), os.environ['RANK']))\n"
        "from hgeo.cli import main\nsys.exit(main(sys.argv[1:]))\n"
    )
    root = str(Path(__file__).parents[2])
    found = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(command), "train",
         *SAMPLED, "--dataset", "mine.npz", "--out", str(tmp_path / "run")],
        capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": root}, timeout=300,
    )  # fmt: skip
    assert found.returncode != 0
    assert "the data differs" in found.stderr
    assert not (tmp_path / "run").exists()


def test_several_processes_need_batches(tmp_path):
    code, _, said = done(train(2, "--out", tmp_path / "run", "--dataset", "karate", "--no-pictures"))
    assert code != 0
    assert "hgeo train: 2 processes share out batches; give batch_size" in said
    assert not (tmp_path / "run").exists()
