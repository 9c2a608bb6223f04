"""Graph convolution on curved spaces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor, nn

from hgeo import manifolds
from hgeo._geoopt import geoopt
from hgeo.graph import GraphLike
from hgeo.models._hat import manifold_like
from hgeo.models._network import ACTIVATIONS, Round, graphs_of
from hgeo.models._recipes import recipes
from hgeo.models._registry import register
from hgeo.models._settings import Choice, Range, Settings, setting, share
from hgeo.nn import GCNConv, feature_dropout

__all__ = ["HGCN", "HGCNSettings", "KappaGCN"]


@dataclass(frozen=True)
class HGCNSettings(Settings):
    """What an HGCN or a κ-GCN is made of."""

    activation: Literal["elu", "relu"] = setting("elu", "activation of the hidden layer, in the tangent space")
    bias: bool = setting(True, "whether layers have a bias, a point of the manifold")
    feat_drop: float = share(0.6, "dropout of features", search=Range(0.2, 0.8, step=0.2))
    hidden_drop: float = share(0.3, "dropout of the hidden layer", search=Choice((0.0, 0.3, 0.6)))


@register("hgcn", label="HGCN", recipes=recipes(HGCNSettings))
class HGCN(nn.Module):
    r"""Hyperbolic graph convolution (Chami et al.; Liu et al., 2019): two layers of :class:`~hgeo.nn.GCNConv`.

    A GCN's sum in the tangent space at the origin, with a bias that is a point of the manifold; the logits are log0 of
    the second layer.
    """

    Settings = HGCNSettings
    hops = 2
    _aggregate: Literal["tangent", "gyrosum"] = "tangent"

    def __init__(
        self,
        in_dim: int,
        num_classes: int,
        manifold: geoopt.Manifold,
        *,
        dim: int = 16,
        settings: HGCNSettings | None = None,
        backend: str = "auto",
    ) -> None:
        super().__init__()
        self.settings = own = settings or HGCNSettings()
        shared: dict[str, Any] = {
            "aggregate": self._aggregate, "bias": "point" if own.bias else "none", "backend": backend,
        }  # fmt: skip
        # Layers hand on tangent rows: points are not needed between them, and logits are plain numbers.
        self.conv1 = GCNConv(
            in_dim, dim, manifold, activation=ACTIVATIONS[own.activation], output="tangent", **shared
        )  # fmt: skip
        self.drop = nn.Dropout(own.hidden_drop)
        self.conv2 = GCNConv(
            dim, num_classes, manifold_like(manifold), in_manifold=manifold, activation=None, input="tangent",
            output="logits", **shared,
        )  # fmt: skip
        self.register_load_state_dict_pre_hook(_without_the_space_of_dropout)

    @property
    def hidden_manifold(self) -> geoopt.Manifold:
        """Where :meth:`embed` puts the nodes."""
        return self.conv1.manifold

    @property
    def rounds(self) -> tuple[Round, ...]:
        """What is done along the graph of each layer, one after the other."""
        return Round(self._hidden_rows), Round(self._logits)

    def embed(self, graph: GraphLike, x: Tensor) -> Tensor:
        """The hidden layer: points of :attr:`hidden_manifold`."""
        return manifolds.exp0(self.conv1.manifold, self._hidden_rows(graphs_of(graph, 2)[0], x))

    def forward(self, graph: GraphLike, x: Tensor) -> Tensor:
        first, last = graphs_of(graph, 2)
        return self._logits(last, self._hidden_rows(first, x))

    def _hidden_rows(self, graph: GraphLike, x: Tensor) -> Tensor:
        rows: Tensor = self.conv1(graph, feature_dropout(x, self.settings.feat_drop, self.training))
        return rows

    def _logits(self, graph: GraphLike, rows: Tensor) -> Tensor:
        logits: Tensor = self.conv2(graph, self.drop(rows))
        return logits


def _without_the_space_of_dropout(model: nn.Module, state: dict[str, Tensor], prefix: str, *rest: Any) -> None:
    """Saved states of the first edition name the hidden space once more, as that of the dropout."""
    for name in [name for name in state if name.startswith(f"{prefix}drop.")]:
        del state[name]


@register("kappa-gcn", label="κ-GCN", recipes=recipes(HGCNSettings), space="stereo:{dim},k=learn")
class KappaGCN(HGCN):
    r"""Constant-curvature graph convolution (Bachmann et al., 2020): gyromidpoints scaled to a sum.

    As :class:`HGCN`, with ``GCNConv(aggregate="gyrosum")``. Give it a ``Stereographic(k, learnable=True)`` and the sign
    of the curvature is learned.
    """

    _aggregate: Literal["tangent", "gyrosum"] = "gyrosum"

    def __init__(
        self,
        in_dim: int,
        num_classes: int,
        manifold: geoopt.Manifold,
        *,
        dim: int = 16,
        settings: HGCNSettings | None = None,
        backend: str = "auto",
    ) -> None:
        if manifolds.stereographic_curvature(manifold) is None:
            raise ValueError(f"KappaGCN needs a manifold of the stereographic family, got {manifold}; try 'stereo:16'")
        super().__init__(in_dim, num_classes, manifold, dim=dim, settings=settings, backend=backend)
