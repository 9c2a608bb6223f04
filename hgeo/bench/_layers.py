"""Layers beside attention on the ball: on other spaces, convolutions, and what an edge costs as graphs grow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor, nn

from hgeo._dgl import import_dgl
from hgeo.bench._contestants import Case, random_graph
from hgeo.bench._measure import CLOCKS, interleaved

__all__ = ["BALL", "GRAPH_CONV", "SPACES", "convolutions", "growth", "spaces"]

BALL, GRAPH_CONV = "ball", "DGL GraphConv"
#: spaces of sixteen dimensions on which attention is measured beside the ball's
SPACES = (
    "sphere:16",
    "sproj:16",
    "klein:16",
    "lorentz:16",
    "2·(ball:16)",
    "ball:8 x sphere:8",
    "ball:4 x lorentz:4 x euclidean:8",
)

#: edges of the graphs on which the cost of one is measured
EDGES = (100_000, 1_000_000, 10_000_000)


def _manifold(name: str) -> Any:
    import hgeo

    if name.startswith("2·("):
        return hgeo.Scaled(_manifold(name[3:-1]), 2.0)
    return hgeo.space(name).manifold


def _rounds(layer: nn.Module, graph: Any, x: Tensor) -> Callable[[], Callable[[], Tensor]]:
    """A maker of rounds, see :func:`interleaved`."""

    def prepare() -> Callable[[], Tensor]:
        layer.zero_grad(set_to_none=True)
        x.grad = None
        return lambda: layer(graph, x)

    return prepare


def _in_turns(
    size: str, dim: int, layers: dict[str, nn.Module], baseline: str, seconds: float, clock: str
) -> dict[str, Any]:
    graph = random_graph(Case(size, "symmetric", dim))
    torch.manual_seed(0)
    x = torch.randn(graph.num_nodes(), dim, requires_grad=True)
    contestants = {name: _rounds(layer, graph, x) for name, layer in layers.items()}
    timings = interleaved(contestants, baseline=baseline, seconds=seconds, clock=clock)
    return {"size": size, "dim": dim, "layers": {name: asdict(timing) for name, timing in timings.items()}}


def spaces(clock: str, seconds: float) -> list[dict[str, Any]]:
    """``HATConv`` on other spaces and on the ball, d = 16."""
    import hgeo

    found = []
    for size in ("13k", "245k"):
        torch.manual_seed(0)
        layers = {BALL: hgeo.nn.HATConv(16, 16, hgeo.PoincareBall(1.0))}
        layers |= {name: hgeo.nn.HATConv(16, 16, _manifold(name)) for name in SPACES}
        found.append(_in_turns(size, 16, layers, BALL, 2 * seconds, clock))
    return found


def convolutions(clock: str, seconds: float) -> list[dict[str, Any]]:
    """``GCNConv`` beside DGL's ``GraphConv``, both with a bias."""
    import hgeo

    graph_conv = import_dgl("measuring convolutions", "dgl.nn.pytorch").GraphConv
    found = []
    for size, dim in (("13k", 16), ("245k", 16), ("245k", 64), ("2.5M", 16)):
        torch.manual_seed(0)
        layers: dict[str, nn.Module] = {GRAPH_CONV: graph_conv(dim, dim)}
        for space, manifold in (("ball", hgeo.PoincareBall(1.0)), ("lorentz", hgeo.Lorentz(1.0))):
            for aggregate in ("tangent", "midpoint"):
                layers[f"{aggregate}, {space}"] = hgeo.nn.GCNConv(dim, dim, manifold, aggregate=aggregate)
        layers["HATConv, ball"] = hgeo.nn.HATConv(dim, dim, hgeo.PoincareBall(1.0))
        found.append(_in_turns(size, dim, layers, GRAPH_CONV, 2 * seconds, clock))
    return found


def growth(clock: str, seconds: float) -> dict[str, Any]:
    """Seconds an edge of a step, d = 16, on random graphs with about thirteen edges a node."""
    import hgeo

    now = CLOCKS[clock]
    layers = {
        "HATConv": hgeo.nn.HATConv(16, 16, hgeo.PoincareBall(1.0)),
        "GCNConv": hgeo.nn.GCNConv(16, 16, hgeo.PoincareBall(1.0)),
    }
    found: dict[str, dict[str, float]] = {name: {} for name in layers}
    for edges in EDGES:
        nodes, random = edges // 13, torch.Generator().manual_seed(0)
        names = torch.randperm(nodes, generator=random)
        a = names[(nodes * torch.rand(edges // 2, generator=random) ** 2).long()]
        b = torch.randint(nodes, (edges // 2,), generator=random)
        graph = hgeo.Graph(torch.cat([a, b]), torch.cat([b, a]), num_src=nodes)
        del a, b
        x = torch.randn(nodes, 16, requires_grad=True)
        gradient = torch.randn(nodes, 16)
        for name, layer in layers.items():
            prepare, times = _rounds(layer, graph, x), list[float]()
            started = now()
            while len(times) < 4 or (len(times) < 50 and now() - started < seconds / 2):
                forward = prepare()
                began = now()
                forward().backward(gradient)
                times.append(now() - began)
            found[name][str(edges)] = sorted(times[1:])[len(times[1:]) // 2] / edges  # the first one reads the graph
    return found
