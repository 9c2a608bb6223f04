"""What ``hgeo bench`` measures beside single layers: training, optimisers, memory, threads, first calls."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hgeo._dgl import import_dgl
from hgeo.bench._contestants import BASELINE, SIZES, Case, make
from hgeo.bench._counterparts import beside_flat
from hgeo.bench._geometry import geometry
from hgeo.bench._hgcn import hgcn_steps
from hgeo.bench._layers import convolutions, growth, spaces
from hgeo.bench._measure import CLOCKS, first_call_seconds, interleaved
from hgeo.bench._step_cost import step_cost
from hgeo.bench._training import early_stop_benchmark, step_benchmark

__all__ = ["PARTS", "first_calls", "measure_part", "set_threads"]

#: what is measured besides single layers, and what it is
PARTS = {
    "spaces": "attention on other spaces beside the ball's",
    "convolutions": "GCNConv beside DGL's GraphConv",
    "growth": "what an edge costs on graphs of 100k to 10M edges",
    "hgcn": "a training step of --model hgcn beside HGCN's official code (needs --hgcn-code)",
    "train": "a training step of HAT and GATs on Cora, and a whole training until it stops",
    "mobius": "a training step with the exact sequential Möbius sum, on Cora",
    "optim": "an Adam step on plain weights beside torch's and geoopt's",
    "geometry": "operations of geometry and optimisers' steps on points beside geoopt's, by processor time",
    "counterparts": "layers beside what stands in their place in flat space: torch's and DGL's own",
    "large": "peak memory of a training step on ten million edges, d = 64",
    "speedup": "two threads against one, from 245k edges on",
}


def set_threads(count: int) -> None:
    """Threads of torch, of the fused kernels, which follow it, and of DGL."""
    torch.set_num_threads(count)
    try:
        import_dgl("setting its threads", "dgl.utils").set_num_threads(count)
    except ImportError:
        return


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    set_threads(1)
    try:
        yield
    finally:
        set_threads(before)


def _cora() -> tuple[Any, str | None]:
    """Cora, or where it is missing a graph of its size, and a line that says so."""
    from hgeo.data import DataError, Dataset, load

    try:
        return load("cora"), None
    except (DataError, OSError) as error:
        random = torch.Generator().manual_seed(0)
        nodes, edges = SIZES["13k"]
        count = edges // 2
        a = (nodes * torch.rand(count, generator=random) ** 2).long()
        b = torch.randint(nodes, (count,), generator=random)
        words = torch.rand(nodes, 1433, generator=random) < 18 / 1433  # as many words a paper as Cora has
        order = torch.randperm(nodes, generator=random)
        dataset = Dataset(
            name="random",
            edge_index=torch.stack([torch.cat([a, b]), torch.cat([b, a])]),
            num_nodes=nodes,
            features=words.float().to_sparse_csr(),
            labels=torch.randint(7, (nodes,), generator=random),
            num_classes=7,
            train_idx=order[:140],
            val_idx=order[140:640],
            test_idx=order[640:1640],
        )
        return dataset, f"a random graph of Cora's size, because Cora is missing ({error})"


def _train(clock: str) -> dict[str, Any]:
    """A training step of HAT beside those of GATs, and a whole training until it stops, on one thread."""
    dataset, note = _cora()
    with _one_thread():
        steps = step_benchmark(dataset, clock=CLOCKS[clock])
        whole = early_stop_benchmark(dataset)
    rows = {
        name: {"seconds": time.median, "ratio": time.ratio, "over_gats": {gat: time.over(steps[gat]) for gat in steps}}
        for name, time in steps.items()
    }
    return {"note": note, "steps": rows, "early_stop": whole._asdict()}


def _mobius(clock: str) -> dict[str, Any]:
    """Seconds of a full training step with the exact sequential Möbius sum: two layers, loss, backward, Adam."""
    import hgeo

    dataset, note = _cora()
    torch.manual_seed(0)
    ball = hgeo.PoincareBall(1.0)
    first = hgeo.nn.HATConv(dataset.num_features, 16, ball, aggregate="mobius")
    second = hgeo.nn.HATConv(16, dataset.num_classes, ball, in_manifold=ball, aggregate="mobius", activation=None)
    optimizer = hgeo.optim.riemannian_adam(torch.nn.ModuleList([first, second]), lr=0.01)
    labels = dataset.labels[dataset.train_idx]

    def step() -> None:
        optimizer.zero_grad()
        points = second(dataset.graph, first(dataset.graph, dataset.features))
        logits = hgeo.log0(ball, points)[dataset.train_idx]
        torch.nn.functional.cross_entropy(logits, labels).backward()
        optimizer.step()

    with _one_thread():
        seconds = _median_of_five(step, CLOCKS[clock])
    largest = int(dataset.graph.in_degrees.max()) + 1
    return {"note": note, "seconds": seconds, "largest_degree": largest}


def _median_of_five(step: Callable[[], None], clock: Callable[[], float]) -> float:
    step()
    times = []
    for _ in range(5):
        began = clock()
        step()
        times.append(clock() - began)
    return sorted(times)[2]


def _optim() -> dict[str, Any]:
    """A step of hgeo's Riemannian Adam on a model without manifold parameters, beside torch's and geoopt's."""
    with _one_thread():
        cost = step_cost()
    return cost._asdict() | {"ratio": cost.ratio}


def _speedups(seconds: float) -> list[dict[str, Any]]:
    """Two threads against one, by the wall clock: processor time says nothing about threads."""
    return [_speedup(size, dim, seconds) for size in ("245k", "2.5M") for dim in (16, 64)]


def _speedup(size: str, dim: int, seconds: float) -> dict[str, Any]:
    """How many times as fast two threads are as one, in turns: the fastest rounds of both, and the median of ratios.

    Other programs on the machine take the second core away from a round, and never give one.
    """
    case = Case(size, "symmetric", dim)
    prepare = make("hgeo fused", case)

    def with_threads(count: int) -> Callable[[], Callable[[], Tensor]]:
        def prepared() -> Callable[[], Tensor]:
            set_threads(count)
            return prepare()

        return prepared

    before = torch.get_num_threads()
    try:
        timings = interleaved({"1": with_threads(1), "2": with_threads(2)}, baseline="2", seconds=seconds)
    finally:
        set_threads(before)
    one, two = timings["1"], timings["2"]
    return {"size": size, "dim": dim, "speedup": one.fastest / two.fastest, "median": one.ratio}


# In a process of its own, so that its peak is that of the step: the graph, the features, the layer and its gradients.
_LARGE = """
import resource, sys, time, torch, hgeo
torch.set_num_threads(1)
nodes, edges, dim = map(int, sys.argv[1:])
random = torch.Generator().manual_seed(0)
a = (nodes * torch.rand(edges // 2, generator=random) ** 2).long()
b = torch.randint(nodes, (edges // 2,), generator=random)
graph = hgeo.Graph(torch.cat([a, b]), torch.cat([b, a]), num_src=nodes)
del a, b
layer = hgeo.nn.HATConv(dim, dim, hgeo.PoincareBall(1.0, learnable=True))
optimizer = torch.optim.Adam(layer.parameters())
x = torch.randn(nodes, dim, requires_grad=True)
layer(graph, x).square().mean().backward()
optimizer.step()
looped = graph.with_self_loops()
started = time.perf_counter()
optimizer.zero_grad()
layer(graph, x).square().mean().backward()
optimizer.step()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(looped.num_edges, peak * (1 if sys.platform == "darwin" else 1024), time.perf_counter() - started)
"""
_LARGE_NEEDS = 8 * 2**30


def _large() -> dict[str, Any]:
    """Peak memory of a process that builds a graph of ten million edges and trains one layer, d = 64, a step."""
    free = _available_memory()
    if free is not None and free < _LARGE_NEEDS:
        return {"note": f"left out: {free / 2**30:.1f} GB of memory are free, and it may take 6"}
    nodes, edges = SIZES["10M"]
    command = [sys.executable, "-W", "ignore", "-c", _LARGE, str(nodes), str(edges), "64"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    count, peak, seconds = done.stdout.split()
    return {"note": None, "edges": int(count), "peak_bytes": int(peak), "step_seconds": float(seconds)}


def _counterparts(clock: str, seconds: float) -> list[dict[str, Any]]:
    with _one_thread():
        return beside_flat(clock, seconds / 2)


def _available_memory() -> int | None:
    try:
        with open("/proc/meminfo", encoding="utf-8") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return None


def first_calls(names: list[str]) -> dict[str, float]:
    """Seconds of a process's first layer and step, with and without compiled kernels in the cache."""
    results = {}
    if BASELINE in names:
        results[BASELINE] = first_call_seconds(BASELINE, os.environ)
    if "hgeo fused" in names:
        with tempfile.TemporaryDirectory() as folder:
            environment = dict(os.environ) | {"HGEO_CACHE": folder}
            results["hgeo fused, nothing compiled yet"] = first_call_seconds("hgeo fused", environment)
            again = [first_call_seconds("hgeo fused", environment) for _ in range(3)]
            results["hgeo fused"] = sorted(again)[1]
    return results


def _hgcn(clock: str, code: Path | None) -> Any:
    """A training step beside HGCN's official code; None without that."""
    if code is None:
        return None
    dataset, _ = _cora()
    with _one_thread():
        return hgcn_steps(code, dataset, clock=clock)


_MEASURES: dict[str, Callable[[str, float], Any]] = {
    "spaces": lambda clock, seconds: spaces(clock, seconds),
    "convolutions": lambda clock, seconds: convolutions(clock, seconds),
    "growth": lambda clock, seconds: growth(clock, seconds),
    "train": lambda clock, seconds: _train(clock),
    "mobius": lambda clock, seconds: _mobius(clock),
    "optim": lambda clock, seconds: _optim(),
    "geometry": lambda clock, seconds: geometry(seconds),
    "counterparts": lambda clock, seconds: _counterparts(clock, seconds),
    "large": lambda clock, seconds: _large(),
    "speedup": lambda clock, seconds: _speedups(seconds),
}


def measure_part(part: str, *, clock: str = "wall", seconds: float = 8.0, hgcn_code: Path | None = None) -> Any:
    """What one of :data:`PARTS` costs, by the wall clock or by processor time ("cpu"); a case takes about ``seconds``.

    None for "hgcn" without ``hgcn_code``, the folder of that.
    """
    if part == "hgcn":
        return _hgcn(clock, hgcn_code)
    if part in ("spaces", "convolutions", "growth"):
        with _one_thread():
            return _MEASURES[part](clock, seconds)
    return _MEASURES[part](clock, seconds)
