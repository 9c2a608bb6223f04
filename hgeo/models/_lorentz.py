"""A fully Lorentz graph network."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, Literal

import torch.nn.functional as F
from torch import Tensor, nn

from hgeo import manifolds
from hgeo._geoopt import geoopt
from hgeo.models._network import linear_head
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

    def embed(self, graph: Any, x: Tensor) -> Tensor:
        """The layer before the last: points of the hidden space."""
        return self._points(self._hidden(graph, x))

    def forward(self, graph: Any, x: Tensor) -> Tensor:
        """Logits, a row a node."""
        own = self.settings
        hidden = F.dropout(self._hidden(graph, x), own.hidden_drop, self.training)
        logits = manifolds.log0(self.hidden_manifold, self._points(self.convs[-1](graph, hidden)))
        return logits if self.head is None else self.head(logits)

    def _hidden(self, graph: Any, x: Tensor) -> Tensor:
        """Spatial coordinates of the layer before the last."""
        own = self.settings
        s: Tensor = self.convs[0](graph, feature_dropout(x, own.feat_drop, self.training))
        for conv in list(self.convs)[1:-1]:
            s = conv(graph, F.dropout(s, own.hidden_drop, self.training))
        return s

    def _points(self, s: Tensor) -> Tensor:
        return manifolds.geometry(self.hidden_manifold).from_spatial(self.hidden_manifold, s)
