"""A graph in two parts: two servers, two processes, and the same numbers as from the whole graph."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from hgeo.cli import main
from hgeo.data import PARTS_FILE, hierarchy, make_dataset, write_parts
from hgeo.train._folder import load_state

pytest.importorskip("dgl")
pytestmark = pytest.mark.cluster

EXACT = ["--model", "hat-paper", "--space", "ball:3", "--no-pictures", "--set", "feat_drop=0", "--set", "attn_drop=0",
         "--set", "hidden_drop=0", "--dtype", "float64", "--batch-size", "61", "--epochs", "3",
         "--recipe", "usual"]  # fmt: skip


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    return write_parts(hierarchy(), 2, tmp_path_factory.mktemp("parts") / "tree")


def on_two_processes(*words):
    root = str(Path(__file__).parents[2])
    return subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "hgeo", "train",
         *map(str, words)],
        capture_output=True, text=True, timeout=550, env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": root},
    )  # fmt: skip


def metrics(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_training_on_two_parts_gives_the_numbers_of_the_whole_graph(parts, tmp_path):
    found = on_two_processes(*EXACT, "--dataset", parts, "--out", tmp_path / "parts")
    assert found.returncode == 0, found.stderr
    assert main(["train", *EXACT, "--dataset", "hierarchy", "--out", str(tmp_path / "whole")]) == 0
    ours, whole = metrics(tmp_path / "parts"), metrics(tmp_path / "whole")
    for name in ("loss", "val_loss", "val_accuracy"):
        np.testing.assert_allclose([row[name] for row in ours], [row[name] for row in whole], rtol=1e-9)
    one, two = (load_state(tmp_path / name / "model.safetensors") for name in ("whole", "parts"))
    for name, value in one.items():
        torch.testing.assert_close(two[name], value, rtol=1e-6, atol=1e-8)
    results = [json.loads((tmp_path / name / "result.json").read_text()) for name in ("whole", "parts")]
    assert results[0]["test_accuracy"] == results[1]["test_accuracy"]


def test_a_part_of_another_graph_is_refused_before_anything_is_written(parts, tmp_path):
    data = hierarchy()
    edges = torch.cat([data.edge_index[:, 4:], torch.tensor([[5], [2000]])], dim=1)
    other = make_dataset("other", edges, data.features, data.labels)
    folder = write_parts(other, 2, tmp_path / "other").parent
    shutil.copytree(parts.parent, tmp_path / "mixed")
    shutil.copy(folder / "part1" / "graph.dgl", tmp_path / "mixed" / "part1" / "graph.dgl")
    found = on_two_processes(*EXACT, "--dataset", tmp_path / "mixed" / PARTS_FILE, "--out", tmp_path / "run")
    assert found.returncode != 0
    assert "part1/graph.dgl belongs to a partition of another graph" in found.stderr
    assert not (tmp_path / "run").exists()


def test_as_many_processes_as_parts_are_needed(parts, tmp_path, capsys):
    assert main(["train", *EXACT, "--dataset", str(parts), "--out", str(tmp_path / "run")]) == 2
    assert "is in 2 parts, and there is 1 process(es)" in capsys.readouterr().err
    assert main(["train", *EXACT[:-6], "--dataset", str(parts), "--out", str(tmp_path / "run")]) == 2
    assert "give batch_size" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
