"""What training costs, beside the layers that people have."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hgeo._dgl import import_dgl
from hgeo.data import Dataset
from hgeo.models import build, recipe
from hgeo.train import fit, full_view, make_optimizer, view_for

__all__ = ["EarlyStop", "StepTime", "early_stop_benchmark", "step_benchmark", "training_step"]

_STOCK = "dgl GATConv, dense features"
WHOLE_GAT = "gat, whole graph"


class StepTime(NamedTuple):
    """Seconds of one training step (median, and the middle half of the rounds), and its ratio to the stock GAT."""

    median: float
    low: float
    high: float
    ratio: float
    rounds: tuple[float, ...]

    def over(self, other: StepTime) -> float:
        """The ratio to another contestant's time, as the median over rounds."""
        return statistics.median(own / its for own, its in zip(self.rounds, other.rounds, strict=True))


class EarlyStop(NamedTuple):
    """What a whole training took: processor seconds of the loop, epochs, and the accuracy it ended with."""

    cpu_seconds: float
    epochs: int
    test_accuracy: float


def step_benchmark(
    dataset: Dataset,
    *,
    dim: int = 16,
    models: tuple[str, ...] = ("hat", "hat-paper", "gat"),
    rounds: int = 15,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, StepTime]:
    """Time one training step (forward, loss on the training nodes, backward, Adam) of several models, interleaved.

    The yardstick is two layers of ``dgl.nn.GATConv``, one head, on dense features, with dropout 0.6, as in DGL's own
    example; the others are what ``hgeo train`` runs: sparse features stay sparse, and only what the loss needs is
    computed where that is exact. For a GAT, which is DGL's layers, that is the two-hop neighbourhood of the training
    nodes (one that computes the whole graph is timed beside it); for the tuned HAT, whose second layer needs the mean
    radius of all hidden points, it is the whole first layer and the training nodes of the second. Ratios are medians of
    ratios taken round by round, so that a busy moment hits all contestants alike.
    """

    def contestant(name: str, whole: bool) -> Callable[[], None]:
        torch.manual_seed(0)
        model: nn.Module = build(name, dataset, f"ball:{dim}")
        view = full_view(dataset, dataset.train_idx) if whole else view_for(model, dataset, dataset.train_idx)
        return training_step(model, lambda: view.output(model), dataset)

    contestants = {_STOCK: _stock(dataset, dim)}
    for name in models:
        contestants[name] = contestant(name, whole=False)
        if name == "gat":
            contestants[WHOLE_GAT] = contestant(name, whole=True)
    for step in contestants.values():
        for _ in range(3):  # compiled kernels, caches
            step()
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, step in contestants.items():
            began = clock()
            step()
            seconds[name].append(clock() - began)
    table = {}
    for name, times in seconds.items():
        ratio = statistics.median(own / stock for own, stock in zip(times, seconds[_STOCK], strict=True))
        low, _, high = statistics.quantiles(times, n=4) if len(times) > 1 else (times[0],) * 3
        table[name] = StepTime(statistics.median(times), low, high, ratio, tuple(times))
    return table


def early_stop_benchmark(
    dataset: Dataset, *, model: str = "hat", dim: int = 16, seed: int = 0, epochs: int | None = None
) -> EarlyStop:
    """Train until validation accuracy has stopped to rise, as ``hgeo train`` does, and say what it cost."""
    torch.manual_seed(seed)
    settings, training = recipe(model, dataset, f"ball:{dim}")
    network = build(model, dataset, f"ball:{dim}", settings=settings)
    training = training if epochs is None else replace(training, epochs=epochs)
    began = time.process_time()
    result = fit(network, dataset, training, seed=seed)
    return EarlyStop(time.process_time() - began, result.epochs, result.test_accuracy)


def _stock(dataset: Dataset, dim: int) -> Callable[[], None]:
    dgl = import_dgl("the benchmark of a stock GAT")
    graph = dgl.add_self_loop(dgl.graph(tuple(dataset.edge_index), num_nodes=dataset.num_nodes))
    features = dataset.features.to_dense() if dataset.is_sparse else dataset.features
    torch.manual_seed(0)
    first = dgl.nn.GATConv(dataset.num_features, dim, 1, feat_drop=0.6, attn_drop=0.6, activation=F.elu)
    second = dgl.nn.GATConv(dim, dataset.num_classes, 1, feat_drop=0.6, attn_drop=0.6)
    layers = nn.ModuleList([first, second]).to(device=features.device, dtype=features.dtype)

    def logits() -> Tensor:
        hidden = first(graph, features).flatten(1)
        output: Tensor = second(graph, hidden).mean(dim=1)
        return output.index_select(0, dataset.train_idx)

    return training_step(layers, logits, dataset)


def training_step(model: nn.Module, logits: Callable[[], Tensor], dataset: Dataset) -> Callable[[], None]:
    """A step of training a model whose ``logits`` are those of the training nodes."""
    labels = dataset.labels[dataset.train_idx]
    optimizer = make_optimizer(model, lr=0.01, weight_decay=5e-4)
    model.train()

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(logits(), labels).backward()
        optimizer.step()

    return step
