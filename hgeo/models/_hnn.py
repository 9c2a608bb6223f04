"""A network that looks at the features alone, on a curved space."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from hgeo import manifolds
from hgeo._geoopt import geoopt
from hgeo.graph import GraphLike
from hgeo.models._hat import manifold_like
from hgeo.models._network import ACTIVATIONS, FeatureLinear, Network
from hgeo.models._recipes import recipes
from hgeo.models._registry import register
from hgeo.models._settings import Choice, Range, Settings, setting, share
from hgeo.nn import Activation, Dropout, Linear

__all__ = ["HNN", "HNNSettings"]


@dataclass(frozen=True)
class HNNSettings(Settings):
    """What an HNN is made of."""

    activation: Literal["elu", "relu"] = setting("elu", "activation of the hidden layer")
    feat_drop: float = share(0.6, "dropout of features", search=Range(0.2, 0.8, step=0.2))
    hidden_drop: float = share(0.3, "dropout of the hidden layer", search=Choice((0.0, 0.3, 0.6)))


@register("hnn", label="HNN", recipes=recipes(HNNSettings))
class HNN(Network):
    r"""Hyperbolic neural network (Ganea et al., 2018) on the features: Möbius layers with a bias on the manifold.

    .. math:: h = \sigma^{\otimes}\big(M_1 \otimes \exp_0(x) \oplus b_1\big), \qquad
              \mathrm{logits} = \log_0\big(M_2 \otimes h \oplus b_2\big)

    The graph is not looked at: what this reaches below HAT is what the edges are worth.
    """

    Settings = HNNSettings

    def __init__(
        self,
        in_dim: int,
        num_classes: int,
        manifold: geoopt.Manifold,
        *,
        dim: int = 16,
        settings: HNNSettings | None = None,
    ) -> None:
        own = settings or HNNSettings()
        super().__init__(manifold, own, hops=0)
        # the features' product stays sparse; what follows is the point bias alone
        self.linear1 = FeatureLinear(in_dim, dim, own.feat_drop)
        origin = manifolds.exp0(manifold, torch.zeros(dim)).detach()
        self.bias1 = geoopt.ManifoldParameter(origin, manifold=manifold)
        self.activation = Activation(ACTIVATIONS[own.activation], manifold)
        self.drop = Dropout(own.hidden_drop, manifold)
        self.linear2 = Linear(dim, num_classes, manifold_like(manifold), in_manifold=manifold)

    def embed(self, graph: GraphLike, x: Tensor) -> Tensor:
        manifold = self.hidden_manifold
        hidden: Tensor = self.activation(
            manifolds.translate(manifold, manifolds.exp0(manifold, self.linear1(x)), self.bias1)
        )
        return hidden

    def classify(self, graph: GraphLike, hidden: Tensor) -> Tensor:
        return manifolds.log0(self.linear2.manifold, self.linear2(self.drop(hidden)))
