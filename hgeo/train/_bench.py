"""What a training step costs, beside the layers that people have."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hgeo.data import Dataset
from hgeo.train._optimizer import make_optimizer
from hgeo.train._views import full_view, view_for

__all__ = ["StepTime", "step_benchmark"]

_STOCK = "dgl GATConv, dense features"


class StepTime(NamedTuple):
    """Seconds of one training step (median, and the middle half of the rounds), and its ratio to the stock GAT."""

    median: float
    low: float
    high: float
    ratio: float


def step_benchmark(
    dataset: Dataset, *, dim: int = 16, models: tuple[str, ...] = ("hat", "hat-paper", "gat"), rounds: int = 15
) -> dict[str, StepTime]:
    """Time one training step (forward, loss on the training nodes, backward, Adam) of several models, interleaved.

    The yardstick is two layers of ``dgl.nn.GATConv``, one head, on dense features, with dropout 0.6, as in DGL's own
    example; the others are what ``hgeo train`` runs: sparse features stay sparse, and only what the loss needs is
    computed where that is exact. Ratios are medians of ratios taken round by round, so that a busy moment hits all
    contestants alike.
    """
    from hgeo.models import build

    contestants = {_STOCK: _stock(dataset, dim)}
    for name in models:
        torch.manual_seed(0)
        model: nn.Module = build(name, dataset, f"ball:{dim}")
        view = view_for(model, dataset, dataset.train_idx)
        contestants[name] = _step(model, lambda model=model, view=view: view.logits(model), dataset)  # type: ignore[misc]
    for step in contestants.values():
        for _ in range(3):  # compiled kernels, caches
            step()
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, step in contestants.items():
            began = time.perf_counter()
            step()
            seconds[name].append(time.perf_counter() - began)
    table = {}
    for name, times in seconds.items():
        ratio = statistics.median(own / stock for own, stock in zip(times, seconds[_STOCK], strict=True))
        low, _, high = statistics.quantiles(times, n=4) if len(times) > 1 else (times[0],) * 3
        table[name] = StepTime(statistics.median(times), low, high, ratio)
    return table


def _stock(dataset: Dataset, dim: int) -> Callable[[], None]:
    import dgl

    graph = dgl.add_self_loop(dgl.graph(tuple(dataset.edge_index), num_nodes=dataset.num_nodes))
    features = dataset.features.to_dense() if dataset.is_sparse else dataset.features
    torch.manual_seed(0)
    first = dgl.nn.GATConv(dataset.num_features, dim, 1, feat_drop=0.6, attn_drop=0.6, activation=F.elu)
    second = dgl.nn.GATConv(dim, dataset.num_classes, 1, feat_drop=0.6, attn_drop=0.6)
    layers = nn.ModuleList([first, second]).to(device=features.device, dtype=features.dtype)
    whole = full_view(dataset, dataset.train_idx)

    def logits() -> Tensor:
        hidden = first(graph, features).flatten(1)
        output: Tensor = second(graph, hidden).mean(dim=1)
        return output[whole.rows]

    return _step(layers, logits, dataset)


def _step(model: nn.Module, logits: Callable[[], Tensor], dataset: Dataset) -> Callable[[], None]:
    labels = dataset.labels[dataset.train_idx]
    optimizer = make_optimizer(model, lr=0.01, weight_decay=5e-4)
    model.train()

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(logits(), labels).backward()
        optimizer.step()

    return step
