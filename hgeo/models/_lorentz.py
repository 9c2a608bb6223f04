"""A fully Lorentz graph network."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch.nn.functional as F
from torch import Tensor, nn

from hgeo import manifolds
from hgeo._geoopt import geoopt
from hgeo.graph import GraphLike
from hgeo.models._network import Round, graphs_of, linear_head
from hgeo.models._recipes import recipes
from hgeo.models._registry import register
from hgeo.models._settings import Choice, Range, Settings, setting, share, whole
from hgeo.nn import LorentzConv, feature_dropout

__all__ = ["LorentzNet", "LorentzSettings"]


@dataclass(frozen=True)
class LorentzSettings(Settings):
    """What a fully Lorentz network is made of."""

    weights: Literal["sym", "mean", "attention"] = setting(
        "sym", "weights of the neighbours in their centroid", search=Choice(("sym", "mean"))
    )
    gate: bool = setting(True, "whether a learned gate sets the radius of each point, a linear map its direction only")
    layers: int = whole(2, "number of layers, the last one included", low=2)
    self_weight: bool = setting(
        False, "whether every layer takes the midpoint with a map of a node's own input", search=Choice((False, True))
    )
    readout: Literal["log0", "linear"] = setting(
        "linear", "logits are log0 of the last layer, or a linear map of it", search=Choice(("log0", "linear"))
    )
    feat_drop: float = share(0.6, "dropout of features", search=Range(0.2, 0.8, step=0.2))
    hidden_drop: float = share(0.3, "dropout of the numbers of a node between layers", search=Choice((0.0, 0.3, 0.6)))


@register("lorentz", label="Lorentz", recipes=recipes(LorentzSettings), space="lorentz:{dim}")
class LorentzNet(nn.Module):
    r"""Layers of fully Lorentz convolution (Chen et al., HyboNet, 2022): two, unless the settings say more.

    .. math:: h = \mathrm{LorentzConv}_1(G, x), \qquad \mathrm{logits} = \log_0 \mathrm{LorentzConv}_2(G, h) \, W + b

    No layer but the read-out visits a tangent space. On flat space the same code takes Euclidean means.

    >>> import torch, hgeo
    >>> model = LorentzNet(8, 3, hgeo.Lorentz(), dim=2)
    >>> model(torch.tensor([[0, 1, 2], [1, 2, 0]]), torch.randn(3, 8)).shape
    torch.Size([3, 3])
    """

    Settings = LorentzSettings

    def __init__(
        self,
        in_dim: int,
        num_classes: int,
        manifold: geoopt.Manifold,
        *,
        dim: int = 16,
        settings: LorentzSettings | None = None,
        backend: str = "auto",
    ) -> None:
        super().__init__()
        self.settings = own = settings or LorentzSettings()
        self.hidden_manifold = manifold
        linear = own.readout == "linear"
        sizes = [in_dim, *[dim] * (own.layers - 1), dim if linear else num_classes]
        shared: dict[str, Any] = {
            "weights": own.weights, "gate": own.gate, "self_weight": own.self_weight, "output": "spatial",
            "backend": backend,
        }  # fmt: skip
        self.convs = nn.ModuleList(
            LorentzConv(inside, outside, manifold, in_manifold=manifold if at else None, input="spatial", **shared)
            for at, (inside, outside) in enumerate(itertools.pairwise(sizes))
        )
        self.head = linear_head(own.readout, dim, num_classes)

    @property
    def hops(self) -> int:
        """How many steps away a node's output looks."""
        return len(self.convs)

    @property
    def rounds(self) -> tuple[Round, ...]:
        """What is done along the graph of each layer, one after the other."""
        between = [Round(functools.partial(self._next, conv)) for conv in list(self.convs)[1:-1]]
        return Round(self._first), *between, Round(self._logits)

    def embed(self, graph: GraphLike | Sequence[GraphLike], x: Tensor) -> Tensor:
        """The layer before the last: points of the hidden space."""
        return self._points(self._hidden(graphs_of(graph, len(self.convs)), x))

    def forward(self, graph: GraphLike | Sequence[GraphLike], x: Tensor) -> Tensor:
        """Logits, a row a node; of a list of blocks, one a layer, a row a destination of the last."""
        graphs = graphs_of(graph, len(self.convs))
        return self._logits(graphs[-1], self._hidden(graphs, x))

    def _hidden(self, graphs: Sequence[GraphLike], x: Tensor) -> Tensor:
        """Spatial coordinates of the layer before the last."""
        s = self._first(graphs[0], x)
        for conv, graph in zip(list(self.convs)[1:-1], graphs[1:-1], strict=True):
            s = self._next(conv, graph, s)
        return s

    def _first(self, graph: GraphLike, x: Tensor) -> Tensor:
        s: Tensor = self.convs[0](graph, feature_dropout(x, self.settings.feat_drop, self.training))
        return s

    def _next(self, conv: nn.Module, graph: GraphLike, s: Tensor) -> Tensor:
        out: Tensor = conv(graph, F.dropout(s, self.settings.hidden_drop, self.training))
        return out

    def _logits(self, graph: GraphLike, s: Tensor) -> Tensor:
        points = self._points(self._next(self.convs[-1], graph, s))
        logits = manifolds.log0(self.hidden_manifold, points)
        return logits if self.head is None else self.head(logits)

    def _points(self, s: Tensor) -> Tensor:
        return manifolds.geometry(self.hidden_manifold).from_spatial(self.hidden_manifold, s)
