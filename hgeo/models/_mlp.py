"""A network that looks at the features alone, without curvature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hgeo._geoopt import geoopt
from hgeo.graph import GraphLike
from hgeo.models._network import ACTIVATIONS, FeatureLinear, Network
from hgeo.models._recipes import recipes
from hgeo.models._registry import register
from hgeo.models._settings import Choice, Range, Settings, setting, share

__all__ = ["MLP", "MLPSettings"]


@dataclass(frozen=True)
class MLPSettings(Settings):
    """What an MLP is made of."""

    activation: Literal["elu", "relu"] = setting("elu", "activation of the hidden layer")
    feat_drop: float = share(0.6, "dropout of features", search=Range(0.2, 0.8, step=0.2))
    hidden_drop: float = share(0.3, "dropout of the hidden layer", search=Choice((0.0, 0.3, 0.6)))


@register("mlp", label="MLP", recipes=recipes(MLPSettings), curved=False)
class MLP(Network):
    """Two linear layers on the features; the graph is not looked at."""

    Settings = MLPSettings

    def __init__(
        self,
        in_dim: int,
        num_classes: int,
        manifold: geoopt.Manifold | None = None,
        *,
        dim: int = 16,
        settings: MLPSettings | None = None,
    ) -> None:
        own = settings or MLPSettings()
        super().__init__(manifold, own, hops=0)
        self.linear1 = FeatureLinear(in_dim, dim, own.feat_drop)
        self.bias1 = nn.Parameter(torch.zeros(dim))
        self.linear2 = nn.Linear(dim, num_classes)

    def embed(self, graph: GraphLike, x: Tensor) -> Tensor:
        return ACTIVATIONS[self.settings.activation](self.linear1(x) + self.bias1)

    def classify(self, graph: GraphLike, hidden: Tensor) -> Tensor:
        return self.linear2(F.dropout(hidden, self.settings.hidden_drop, self.training))
