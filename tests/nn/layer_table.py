"""The table of layers and spaces that the tests go through, and that ``docs/layers.md`` shows.

``python tests/nn/layer_table.py`` writes the table into the page again.
"""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

import hgeo
import hgeo.nn as hnn
from hgeo._geoopt import geoopt

DIM = 4
EDGES = torch.tensor([[0, 1, 2, 3, 4, 5, 0, 2], [1, 2, 3, 4, 5, 0, 3, 2]])
PAIRS = torch.tensor([[0, 1, 2], [3, 4, 2]])
GRAPH_OF_ROW = torch.tensor([0, 0, 0, 1, 1, 2])
ROWS = 6


BORROWED = ("projx", "proju", "egrad2rgrad", "inner", "norm", "dist", "expmap", "logmap", "transp", "retr")
BORROWED += ("retr_transp", "origin", "geodesic", "_check_point_on_manifold", "_check_vector_on_tangent")


class OwnManifold(geoopt.manifolds.base.Manifold):
    """A manifold hgeo has never heard of: vectors, with an origin, expmap, logmap, transp and dist of its own."""

    name, ndim, reversible = "OwnManifold", 1, True

    def __init__(self) -> None:
        super().__init__()
        self.inside = hgeo.Lorentz(c=0.5)

    def __getattribute__(self, name: str) -> Any:
        return getattr(self.inside, name) if name in BORROWED else super().__getattribute__(name)

    def projx(self) -> None: ...
    def proju(self) -> None: ...
    def egrad2rgrad(self) -> None: ...
    def inner(self) -> None: ...
    def dist(self) -> None: ...
    def expmap(self) -> None: ...
    def logmap(self) -> None: ...
    def transp(self) -> None: ...
    def retr(self) -> None: ...
    def _check_point_on_manifold(self) -> None: ...
    def _check_vector_on_tangent(self) -> None: ...


SPACES: dict[str, Callable[[], Any]] = {
    "ball": lambda: hgeo.PoincareBall(c=0.7, learnable=True),
    "stereo k<0": lambda: hgeo.Stereographic(k=-0.7, learnable=True),
    "stereo k=0": lambda: hgeo.Stereographic(k=0.0, learnable=True),
    "stereo k>0": lambda: hgeo.Stereographic(k=0.3, learnable=True),
    "sproj": lambda: hgeo.SphereProjection(k=0.3, learnable=True),
    "lorentz": lambda: hgeo.Lorentz(c=0.7, learnable=True),
    "klein": lambda: hgeo.manifolds.Klein(c=0.7, learnable=True),
    "sphere": geoopt.Sphere,
    "euclidean": lambda: geoopt.Euclidean(1),
    "scaled": lambda: geoopt.Scaled(hgeo.PoincareBall(c=0.7), 1.5, learnable=True),
    "product": lambda: hgeo.Product(
        (hgeo.PoincareBall(c=0.7, learnable=True), 1),
        (geoopt.Sphere(), 1),
        (hgeo.Product((hgeo.Lorentz(c=1.3, learnable=True), 1), (geoopt.Euclidean(1), 1)), 2),
    ),
    "geoopt ball": lambda: geoopt.PoincareBall(c=0.7, learnable=True),
    "geoopt lorentz": lambda: geoopt.Lorentz(k=1.4, learnable=True),
    "own": OwnManifold,
}

# What the points of a layer's input are: "points" of the space, plain "vectors", or row "numbers".
Call = Callable[[Any, Tensor], Tensor]


@dataclass(frozen=True)
class Row:
    """A layer of the table: how it is made on a space, how it is called, what it takes and gives."""

    make: Callable[[Any], nn.Module]
    call: Call = lambda layer, x: layer(x)
    takes: str = "points"
    gives: str = "points"
    not_on: tuple[str, ...] = ()


_NO_GYRO = ("own",)
# spaces without the spatial coordinates of the hyperboloid: spheres, and those that training may turn into one
_NO_SPATIAL = ("stereo k<0", "stereo k=0", "stereo k>0", "sproj", "sphere", "product", "own")


def _graph(layer: Any, x: Tensor) -> Tensor:
    return layer(EDGES, x)


def _pairs(layer: Any, x: Tensor) -> Tensor:
    return layer(x, PAIRS)


def _pool(layer: Any, x: Tensor) -> Tensor:
    return layer(GRAPH_OF_ROW, x, num_graphs=3)


def _skip(layer: Any, x: Tensor) -> Tensor:
    return layer(x, x.flip(0))


def call(layer: Any, x: Tensor) -> Tensor:
    """Whatever else a layer needs beside six points, it gets: the edges, the pairs, the graph of each row."""
    if isinstance(layer, hnn.GCNConv | hnn.HATConv | hnn.LorentzConv | hnn.SAGEConv):
        return layer(EDGES, x)
    if isinstance(layer, hnn.Residual):
        return _skip(layer, x)
    if isinstance(layer, hnn.Pool):
        return layer(GRAPH_OF_ROW, x)
    return (
        layer(x, EDGES)
        if isinstance(layer, hnn.FermiDiracDecoder | hnn.DistanceDecoder | hnn.InnerProductDecoder)
        else layer(x)
    )


LAYERS: dict[str, Row] = {
    "ToManifold": Row(lambda m: hnn.ToManifold(m), takes="vectors"),
    "FromManifold": Row(lambda m: hnn.FromManifold(m), gives="vectors"),
    "Transfer": Row(lambda m: hnn.Transfer(hgeo.PoincareBall(c=0.4), m), takes="ball points"),
    "Transfer isometry": Row(
        lambda m: hnn.Transfer(hgeo.PoincareBall(c=0.4), m, how="isometry"),
        takes="ball points",
        not_on=("stereo k=0", "stereo k>0", "sproj", "sphere", "euclidean", "product", "own"),
    ),
    "Linear": Row(lambda m: hnn.Linear(DIM, DIM, m)),
    "Linear factors": Row(
        lambda m: hnn.Linear(DIM, DIM, m, form="factors"), not_on=tuple(n for n in SPACES if n != "product")
    ),
    "Linear lorentz": Row(lambda m: hnn.Linear(DIM, DIM, m, form="lorentz", activation=torch.tanh), not_on=_NO_SPATIAL),
    "Linear lorentz gate": Row(lambda m: hnn.Linear(DIM, DIM, m, form="lorentz", gate=True), not_on=_NO_SPATIAL),
    "Linear hnn++": Row(lambda m: hnn.Linear(DIM, DIM, m, form="hnn++"), not_on=_NO_SPATIAL),
    "Activation": Row(lambda m: hnn.Activation(torch.nn.functional.elu, m)),
    "Activation point": Row(
        lambda m: hnn.Activation(torch.nn.functional.elu, m, space="point"),
        not_on=("lorentz", "klein", "sphere", "product", "geoopt lorentz", "own"),
    ),
    "Dropout": Row(lambda m: hnn.Dropout(0.5, m)),
    "MLR": Row(lambda m: hnn.MLR(DIM, 3, m), gives="vectors", not_on=_NO_GYRO),
    "MLR hnn++": Row(lambda m: hnn.MLR(DIM, 3, m, form="hnn++"), gives="vectors", not_on=_NO_SPATIAL),
    "MLR lorentz": Row(lambda m: hnn.MLR(DIM, 3, m, form="lorentz"), gives="vectors", not_on=_NO_SPATIAL),
    "CentroidClassifier": Row(lambda m: hnn.CentroidClassifier(DIM, 3, m), gives="vectors"),
    "BatchNorm": Row(lambda m: hnn.BatchNorm(DIM, m), not_on=_NO_GYRO),
    "BatchNorm tangent": Row(lambda m: hnn.BatchNorm(DIM, m, mean="tangent")),
    "BatchNorm frechet": Row(lambda m: hnn.BatchNorm(DIM, m, mean="frechet", iterations=3)),
    "LayerNorm": Row(lambda m: hnn.LayerNorm(DIM, m)),
    "LayerNorm spatial": Row(lambda m: hnn.LayerNorm(DIM, m, coordinates="spatial"), not_on=_NO_SPATIAL),
    "RMSNorm": Row(lambda m: hnn.RMSNorm(DIM, m)),
    "RMSNorm spatial": Row(lambda m: hnn.RMSNorm(DIM, m, coordinates="spatial"), not_on=_NO_SPATIAL),
    "Residual": Row(lambda m: hnn.Residual(m), _skip, not_on=_NO_GYRO),
    "Residual tangent": Row(lambda m: hnn.Residual(m, how="tangent"), _skip),
    "Midpoint": Row(lambda m: hnn.Midpoint(m), not_on=_NO_GYRO),
    "Midpoint tangent": Row(lambda m: hnn.Midpoint(m, how="tangent")),
    "Midpoint frechet": Row(lambda m: hnn.Midpoint(m, how="frechet", iterations=3)),
    "Pool": Row(lambda m: hnn.Pool(m), _pool, not_on=_NO_GYRO),
    "Pool tangent": Row(lambda m: hnn.Pool(m, how="tangent"), _pool),
    "Pool frechet": Row(lambda m: hnn.Pool(m, how="frechet", iterations=3), _pool),
    "FermiDiracDecoder": Row(lambda m: hnn.FermiDiracDecoder(m), _pairs, gives="vectors"),
    "DistanceDecoder": Row(lambda m: hnn.DistanceDecoder(m, learnable=True), _pairs, gives="vectors"),
    "InnerProductDecoder": Row(lambda m: hnn.InnerProductDecoder(m, learnable=True), _pairs, gives="vectors"),
    "Embedding": Row(lambda m: hnn.Embedding(ROWS, DIM, m, std=0.3, sparse=False), takes="numbers"),
    "GCNConv": Row(lambda m: hnn.GCNConv(DIM, DIM, m, in_manifold=m), _graph),
    "GCNConv midpoint": Row(
        lambda m: hnn.GCNConv(DIM, DIM, m, in_manifold=m, aggregate="midpoint"), _graph, not_on=_NO_GYRO
    ),
    "GCNConv gyrosum": Row(
        lambda m: hnn.GCNConv(DIM, DIM, m, in_manifold=m, aggregate="gyrosum"), _graph, not_on=_NO_GYRO
    ),
    "SAGEConv": Row(lambda m: hnn.SAGEConv(DIM, DIM, m, in_manifold=m), _graph, not_on=_NO_GYRO),
    "SAGEConv tangent": Row(lambda m: hnn.SAGEConv(DIM, DIM, m, in_manifold=m, aggregate="tangent"), _graph),
    "LorentzConv": Row(lambda m: hnn.LorentzConv(DIM, DIM, m, in_manifold=m), _graph, not_on=_NO_SPATIAL),
    "LorentzConv gate": Row(
        lambda m: hnn.LorentzConv(DIM, DIM, m, in_manifold=m, gate=True), _graph, not_on=_NO_SPATIAL
    ),
    "LorentzConv attention": Row(
        lambda m: hnn.LorentzConv(DIM, DIM, m, in_manifold=m, weights="attention", activation=torch.tanh),
        _graph,
        not_on=_NO_SPATIAL,
    ),
    "HATConv": Row(lambda m: hnn.HATConv(DIM, DIM, m, in_manifold=m, bias="point", backend="reference"), _graph),
    "SetAttention": Row(lambda m: hnn.SetAttention(DIM, m), not_on=_NO_GYRO),
    "Sequential": Row(
        lambda m: hnn.Sequential(
            hnn.Linear(DIM, DIM, m),
            hnn.Activation(torch.relu, m),
            hnn.GCNConv(DIM, DIM, m, in_manifold=m),
            hnn.CentroidClassifier(DIM, 3, m),
        ),
        _graph,
        gives="vectors",
    ),
}

# What a layer is equivariant under, as hgeo.testing.check_layer names it; by the first word of its name.
MOVES_WITH: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("ToManifold", "FromManifold", "Transfer", "Linear", "Activation", "MLR", "LayerNorm", "RMSNorm"), ("rows",)
    ),
    **dict.fromkeys(("Midpoint", "Pool", "Residual", "FermiDiracDecoder", "DistanceDecoder"), ("isometries",)),
    "CentroidClassifier": ("rows", "isometries"),
    **dict.fromkeys(("Midpoint tangent", "Pool tangent", "Residual tangent", "InnerProductDecoder"), ("rotations",)),
}

PAIRS_THAT_WORK = [(name, space) for name, row in LAYERS.items() for space in SPACES if space not in row.not_on]
PAIRS_THAT_DO_NOT = [(name, space) for name, row in LAYERS.items() for space in row.not_on]


def build(name: str, space: str, dtype: torch.dtype = torch.float32, seed: int = 0) -> tuple[nn.Module, Any]:
    """A layer of the table on a space, its parameters no longer at their first, special values."""
    torch.manual_seed(seed)
    manifold = SPACES[space]()
    layer = LAYERS[name].make(manifold).to(dtype)
    with torch.no_grad():
        for parameter in layer.parameters():
            if isinstance(parameter, geoopt.ManifoldParameter):
                d = hgeo.intrinsic_dim(parameter.manifold, parameter.shape[-1])
                v = 0.3 * torch.randn(*parameter.shape[:-1], d, dtype=dtype)
                parameter.copy_(hgeo.exp0(parameter.manifold, v))
    return layer, manifold


def example(name: str, manifold: Any, dtype: torch.dtype = torch.float32, v: Tensor | None = None) -> Tensor:
    """An input of a layer, from tangent coordinates ``v`` (rows, DIM) of length 1 or so if none are given."""
    takes = LAYERS[name].takes
    if takes == "numbers":
        return torch.arange(ROWS)
    if v is None:
        v = 0.6 * torch.randn(ROWS, DIM, dtype=dtype, generator=torch.Generator().manual_seed(1))
    if takes == "vectors":
        return v
    return hgeo.exp0(hgeo.PoincareBall(c=0.4) if takes == "ball points" else manifold, v).detach()


def markdown() -> str:
    """Layer × space, as the tests check it."""
    lines = ["| layer | " + " | ".join(SPACES) + " |", "|---|" + "---|" * len(SPACES)]
    for name, row in LAYERS.items():
        lines.append(f"| {name} | " + " | ".join("–" if space in row.not_on else "✓" for space in SPACES) + " |")
    return "\n".join(lines)


PAGE = pathlib.Path(__file__).parents[2] / "docs" / "layers.md"
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"


def page_with_table(text: str) -> str:
    """The page with the table as it is now."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{markdown()}\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    PAGE.write_text(page_with_table(PAGE.read_text()))
    sys.stdout.write(f"wrote the table of {PAGE.name}\n")
