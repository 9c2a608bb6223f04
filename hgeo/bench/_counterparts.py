"""Layers beside what stands in their place in flat space: torch's and DGL's own, on the same shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from hgeo import manifolds
from hgeo import nn as hnn
from hgeo._dgl import import_dgl
from hgeo.bench._contestants import Case, random_graph
from hgeo.bench._measure import interleaved
from hgeo.graph import Graph

__all__ = ["beside_flat"]

_ROWS, _CLASSES, _SET = 10_000, 10, 1_024
_CASES = (("13k", 16), ("13k", 64), ("245k", 16), ("245k", 64))
_SPACES: dict[str, Callable[[], Any]] = {"lorentz": manifolds.Lorentz, "ball": manifolds.PoincareBall}


class _Group(NamedTuple):
    title: str
    baseline: str
    calls: dict[str, tuple[Callable[..., Tensor], list[Any]]]  # what computes the output, and what it is given


def beside_flat(clock: str, seconds: float) -> list[dict[str, Any]]:
    """Forward and backward of every layer of a group, in turns, as ratios to the flat one; a group takes about
    ``seconds``."""
    torch.manual_seed(0)
    return [_measured(group, clock, seconds) for group in _groups()]


def _measured(group: _Group, clock: str, seconds: float) -> dict[str, Any]:
    contestants = {name: _rounds(*call) for name, call in group.calls.items()}
    timings = interleaved(contestants, baseline=group.baseline, seconds=seconds, clock=clock)
    rows = {name: asdict(timing) for name, timing in timings.items()}
    return {"title": group.title, "baseline": group.baseline, "rows": rows}


def _rounds(compute: Callable[..., Tensor], given: list[Any]) -> Callable[[], Callable[[], Tensor]]:
    leaves = [x for x in given if isinstance(x, Tensor) and x.requires_grad]
    leaves += list(compute.parameters()) if isinstance(compute, nn.Module) else []

    def prepare() -> Callable[[], Tensor]:
        for leaf in leaves:
            leaf.grad = None
        return lambda: compute(*given)

    return prepare


def _groups() -> Iterator[_Group]:
    for size, dim in _CASES:
        yield _convolutions(size, dim)
    yield _attention()
    yield _heads()
    for dim in (16, 64):
        yield from _of_rows(dim)


def _points(manifold: Any, rows: int, dim: int, radius: float) -> Tensor:
    """Points at about this distance from the origin, in all directions."""
    v = torch.randn(rows, dim) * (radius / dim**0.5 / manifolds.frame_scale(manifold))
    return manifolds.exp0(manifold, v).detach().requires_grad_()


def _vectors(rows: int, dim: int) -> Tensor:
    return torch.randn(rows, dim, requires_grad=True)


def _convolutions(size: str, dim: int) -> _Group:
    dgl_nn = import_dgl("hgeo bench, which measures against DGL's layers,", "dgl.nn")
    theirs = random_graph(Case(size, "symmetric", dim))
    nodes = theirs.num_nodes()
    src, dst = theirs.edges()
    ours, x = Graph(src, dst, num_src=nodes), _vectors(nodes, dim)
    calls: dict[str, tuple[Callable[..., Tensor], list[Any]]] = {
        "DGL GraphConv": (dgl_nn.GraphConv(dim, dim), [theirs, x]),
        "DGL SAGEConv, mean": (dgl_nn.SAGEConv(dim, dim, "mean"), [theirs, x]),
        "DGL GATConv, 1 head": (dgl_nn.GATConv(dim, dim, 1), [theirs, x]),
    }
    for space, make in _SPACES.items():
        there = make()
        near, far = (_points(there, nodes, dim, radius) for radius in (1.0, 5.0))
        options = {"in_manifold": there}
        conv = hnn.LorentzConv(dim, dim, there, **options)
        calls[f"LorentzConv, {space}, radius about 1"] = conv, [ours, near]
        calls[f"LorentzConv, {space}, radius about 5"] = conv, [ours, far]
        calls[f"LorentzConv, {space}, attention"] = (
            hnn.LorentzConv(dim, dim, there, weights="attention", **options),
            [ours, near],
        )
        calls[f"SAGEConv, {space}"] = hnn.SAGEConv(dim, dim, there, **options), [ours, near]
        calls[f"SAGEConv, {space}, tangent mean"] = (
            hnn.SAGEConv(dim, dim, there, aggregate="tangent", **options),
            [ours, near],
        )
    return _Group(f"Convolutions, {size} edges, d = {dim}", "DGL GraphConv", calls)


def _attention() -> _Group:
    def unfused(q: Tensor) -> Tensor:
        return (q @ q.mT / q.shape[-1] ** 0.5).softmax(-1) @ q

    dim, plain = 64, "torch, softmax of products"
    calls: dict[str, tuple[Callable[..., Tensor], list[Any]]] = {plain: (unfused, [_vectors(_SET, dim)])}
    for space, make in _SPACES.items():
        there = make()
        for radius in (1.5, 5.0):
            calls[f"set_attention, {space}, radius about {radius:g}"] = (
                lambda x, there=there: hnn.set_attention(x, x, x, manifold=there),
                [_points(there, _SET, dim, radius)],
            )
    return _Group(f"Attention on a set of {_SET:,}, d = {dim}", plain, calls)


class _SelfAttention(nn.Module):
    """torch's multi-head attention of a set to itself, with its weights, which keeps it from a fused path."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(dim, heads, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.attention(x[None], x[None], x[None], need_weights=True)[0]
        return out[0]


def _heads() -> _Group:
    dim, plain = 64, "torch MultiheadAttention"
    calls: dict[str, tuple[Callable[..., Tensor], list[Any]]] = {plain: (_SelfAttention(dim, 4), [_vectors(_SET, dim)])}
    for space, make in _SPACES.items():
        there = make()
        calls[f"SetAttention, {space}"] = hnn.SetAttention(dim, there, heads=4), [_points(there, _SET, dim, 1.5)]
    return _Group(f"Four heads on a set of {_SET:,}, d = {dim}, linear maps included", plain, calls)


def _of_rows(dim: int) -> Iterator[_Group]:
    """Layers without a graph, on rows of a table."""
    x, y = _vectors(_ROWS, dim), _vectors(_ROWS, dim)
    flat: Mapping[str, tuple[str, Callable[..., Tensor], list[Any]]] = {
        "Linear maps": ("torch Linear", nn.Linear(dim, dim), [x]),
        f"Classifiers of {_CLASSES} classes": ("torch Linear", nn.Linear(dim, _CLASSES), [x]),
        "Normalisation": ("torch LayerNorm", nn.LayerNorm(dim), [x]),
        "Skip connections": ("x + y", torch.add, [x, y]),
        "Decoders of pairs": ("inner products", lambda a, b: (a * b).sum(-1), [x, y]),
    }
    found = {title: {name: (compute, given)} for title, (name, compute, given) in flat.items()}
    for space, make in _SPACES.items():
        m = make()
        p, q = (_points(m, _ROWS, dim, 1.5) for _ in range(2))
        linear, mlr = found["Linear maps"], found[f"Classifiers of {_CLASSES} classes"]
        linear[f"Linear, {space}"] = hnn.Linear(dim, dim, m), [p]
        linear[f"Linear, {space}, lorentz"] = hnn.Linear(dim, dim, m, form="lorentz"), [p]
        linear[f"Linear, {space}, lorentz, gate"] = hnn.Linear(dim, dim, m, form="lorentz", gate=True), [p]
        linear[f"Linear, {space}, hnn++"] = hnn.Linear(dim, dim, m, form="hnn++"), [p]
        mlr[f"MLR, {space}"] = hnn.MLR(dim, _CLASSES, m), [p]
        mlr[f"MLR, {space}, hnn++"] = hnn.MLR(dim, _CLASSES, m, form="hnn++"), [p]
        mlr[f"MLR, {space}, lorentz"] = hnn.MLR(dim, _CLASSES, m, form="lorentz"), [p]
        norms = found["Normalisation"]
        norms[f"LayerNorm, {space}"] = hnn.LayerNorm(dim, m), [p]
        norms[f"RMSNorm, {space}"] = hnn.RMSNorm(dim, m), [p]
        norms[f"RMSNorm, {space}, spatial"] = hnn.RMSNorm(dim, m, coordinates="spatial"), [p]
        found["Skip connections"][f"Residual, {space}"] = hnn.Residual(m), [p, q]
        decoders = found["Decoders of pairs"]
        decoders[f"InnerProductDecoder, {space}"] = hnn.InnerProductDecoder(m).logits, [p, q]
        decoders[f"DistanceDecoder, {space}, squared"] = hnn.DistanceDecoder(m, power=2).logits, [p, q]
    for title, calls in found.items():
        yield _Group(f"{title}, {_ROWS:,} × {dim}", next(iter(calls)), calls)
