"""Training an epoch on graphs of 10⁴ to 10⁷ edges: time and peak memory, each in processes of its own."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hgeo._dgl import import_dgl
from hgeo.data import Dataset, power_law
from hgeo.models import TrainSettings, build
from hgeo.tasks import Epoch, Nodes
from hgeo.train import make_optimizer, source_for, team

__all__ = ["SCALE_SIZES", "SCALE_WAYS", "row_text", "scale"]

#: numbers of edges
SCALE_SIZES = (10**4, 10**5, 10**6, 10**7)
#: ways to train an epoch: what they are called, and how many processes they take
SCALE_WAYS = {
    "HAT, whole graph": 1,
    "DGL GAT, whole graph": 1,
    "HAT, sampled": 1,
    "HAT, sampled, two processes": 2,
    "DGL GAT, sampled": 1,
}
BATCH, FANOUT, DIM = 1024, 10, 16
_FIELDS = ("edge_index", "features", "labels", "train_idx", "val_idx", "test_idx")


def scale(
    sizes: tuple[int, ...] = SCALE_SIZES, said: Callable[[dict[str, Any]], None] = lambda row: None
) -> dict[str, Any]:
    """Seconds and peak memory of an epoch of each way on power-law graphs of these numbers of edges.

    ``said`` gets each row as it comes.

    A way that fails (for want of memory, say) has the last line of what it said instead of numbers.
    """
    rows = []
    for edges in sizes:
        with tempfile.TemporaryDirectory() as folder:
            made = subprocess.run(_command("make", edges, folder, 1), capture_output=True, text=True)
            if made.returncode:
                raise RuntimeError(f"a graph of {edges} edges could not be made: {_last(made.stderr)}")
            for way, processes in SCALE_WAYS.items():
                found = subprocess.run(_command(way, edges, folder, processes), capture_output=True, text=True)
                parts = [json.loads(line) for line in found.stdout.splitlines() if line.startswith("{")]
                row: dict[str, Any] = {"edges": edges, "way": way}
                if found.returncode or len(parts) != processes:
                    row["failed"] = _last(found.stderr)
                else:
                    row.update({name: max(part[name] for part in parts) for name in parts[0]})
                    row["peak_bytes"] = sum(part["peak_bytes"] for part in parts)
                rows.append(row)
                said(row)
    return {"rows": rows, "batch": BATCH, "fanout": FANOUT, "dim": DIM}


def row_text(row: dict[str, Any]) -> str:
    """A row as a line."""
    start = f"{row['edges']:>12,} {row['way']:<30}"
    if "failed" in row:
        return f"{start} failed: {row['failed']}"
    return (
        f"{start} {row['cpu_seconds']:>9.3f} s of processor time, {row['seconds']:>9.3f} s, {row['steps']:>4} steps, "
        f"{row['peak_bytes'] / 2**30:>6.2f} GB"
    )


def _command(way: str, edges: int, folder: str, processes: int) -> list[str]:
    start = [sys.executable, "-W", "ignore"]
    if processes > 1:
        start += ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    return [*start, "-m", "hgeo.bench._scale", way, str(edges), folder]


def _last(text: str) -> str:
    return (text.strip().splitlines() or ["it said nothing"])[-1][:200]


def _keep(dataset: Dataset, folder: Path) -> None:
    for field in _FIELDS:
        np.save(folder / f"{field}.npy", getattr(dataset, field).numpy())


def _kept(edges: int, folder: Path) -> Dataset:
    arrays: dict[str, Any] = {
        field: torch.from_numpy(np.load(folder / f"{field}.npy", allow_pickle=False)) for field in _FIELDS
    }
    return Dataset(name=f"power-law-{edges}", num_nodes=len(arrays["labels"]), num_classes=8, **arrays)


def _hat(dataset: Dataset, sampled: bool) -> Callable[[int], int]:
    """An epoch of HAT as ``hgeo train`` has it; gives the number of steps."""
    torch.manual_seed(0)
    settings = TrainSettings(batch_size=min(BATCH, len(dataset.train_idx)), fanout=f"{FANOUT},{FANOUT}")
    settings = settings if sampled else TrainSettings()
    model = build("hat", dataset, f"ball:{DIM}")
    source, optimizer = source_for(model, Nodes(dataset), settings), make_optimizer(model, lr=0.01, weight_decay=0.0)

    def epoch(number: int) -> int:
        model.train()
        steps = 0
        for _, loss in source.losses(Epoch(number, 0, settings)):
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            steps += 1
        return steps

    return epoch


class _GAT(nn.Module):
    """Two of DGL's ``GATConv``, one head, on a graph with self-loops or on blocks, which add none."""

    def __init__(self, dataset: Dataset) -> None:
        super().__init__()
        layer = import_dgl("hgeo bench --scale", "dgl.nn").GATConv
        drops: dict[str, Any] = {"feat_drop": 0.1, "attn_drop": 0.3, "allow_zero_in_degree": True}
        self.first = layer(dataset.num_features, DIM, 1, **drops)
        self.second = layer(DIM, dataset.num_classes, 1, **drops)

    def forward(self, first: Any, second: Any, x: Tensor) -> Tensor:
        out: Tensor = self.second(second, F.elu(self.first(first, x).flatten(1))).flatten(1)
        return out


def _gat(dataset: Dataset, sampled: bool) -> Callable[[int], int]:
    """An epoch of a GAT of DGL's layers, with DGL's own sampler and loader."""
    dgl = import_dgl("hgeo bench --scale")
    torch.manual_seed(0)
    model = _GAT(dataset)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    source, destination = dataset.edge_index
    graph = dgl.graph((source, destination), num_nodes=dataset.num_nodes)
    whole = None if sampled else dgl.add_self_loop(graph)
    sampler = dgl.dataloading.NeighborSampler([FANOUT, FANOUT])
    batch = min(BATCH, len(dataset.train_idx))

    def outputs() -> Iterator[tuple[Tensor, Tensor]]:
        if whole is not None:
            yield model(whole, whole, dataset.features)[dataset.train_idx], dataset.train_idx
            return
        loader = dgl.dataloading.DataLoader(graph, dataset.train_idx, sampler, batch_size=batch, shuffle=True)
        for inputs, nodes, blocks in loader:
            yield model(*blocks, dataset.features[inputs]), nodes

    def epoch(number: int) -> int:
        model.train()
        steps = 0
        for output, nodes in outputs():
            optimizer.zero_grad(set_to_none=True)
            F.cross_entropy(output, dataset.labels[nodes]).backward()
            optimizer.step()
            steps += 1
        return steps

    return epoch


def _timed(epoch: Callable[[int], int], number: int) -> dict[str, float]:
    began, worked = time.perf_counter(), time.process_time()
    steps = epoch(number)
    return {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - worked, "steps": steps}


def _main(way: str, edges: int, folder: Path) -> None:
    """In a process of its own, so that its peak is that of this way: the graph, its copies, and training."""
    torch.set_num_threads(1)
    if way == "make":
        _keep(power_law(edges), folder)
        return
    with team():
        epoch = (_hat if way.startswith("HAT") else _gat)(_kept(edges, folder), "sampled" in way)
        if edges <= 10**6 or "whole" in way:
            epoch(0)  # compiled kernels, sorted edges; of an epoch of many steps on a large graph it is a small part
        timed = [_timed(epoch, 1 + number) for number in range(5 if edges <= 10**5 else 3 if edges <= 10**6 else 1)]
        found = {name: sorted(one[name] for one in timed)[len(timed) // 2] for name in timed[0]}
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        os.write(1, (json.dumps({**found, "peak_bytes": peak}) + "\n").encode())  # in one piece: two processes write


if __name__ == "__main__":
    _main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
