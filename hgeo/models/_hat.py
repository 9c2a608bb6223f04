"""The hyperbolic graph attention network and the graph networks that are its relatives."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from hgeo import manifolds
from hgeo._geoopt import geoopt
from hgeo.graph import Distance, Uniform
from hgeo.models._config import Config
from hgeo.nn import Dropout, GCNConv, HATConv
from hgeo.nn._inputs import dropout

__all__ = ["HAT", "HGCN", "KappaGCN"]

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"elu": F.elu, "relu": F.relu}


class HAT(nn.Module):
    r"""Two layers of hyperbolic graph attention for node classification.

    .. math:: h = \mathrm{HATConv}_1(G, x) \in \mathcal{M}^d, \qquad \mathrm{logits} = \log_0 \mathrm{HATConv}_2(G, h)

    ``variant="paper"`` is the network as printed: scores −d(h_i, h_j), no bias, ELU on the coordinates of the ball.
    ``variant="tuned"`` attends with the weight softmax(−β d) of points whose mean radius is divided out, lets the
    self-loop compete with the mean distance to the neighbours instead of distance 0, and adds a tangent bias; the
    paper's form collapses onto its self-loops as the points move out.

    Args:
        in_dim: number of input features.
        num_classes: number of classes.
        manifold: the hidden space; ``hgeo.space("ball:16").manifold``, say.
        config: everything else; the fields of :class:`hgeo.models.Config` that describe a model.
        variant: a ready-made ``config`` instead.
        backend: who computes the attention, see :func:`hgeo.graph.backends`.

    Example:
        >>> import torch, hgeo
        >>> from hgeo.models import HAT
        >>> model = HAT(8, 3, hgeo.PoincareBall(), dim=2)
        >>> edge_index = torch.tensor([[0, 1, 2], [1, 2, 0]])
        >>> model(edge_index, torch.randn(3, 8)).shape, model.embed(edge_index, torch.randn(3, 8)).shape
        (torch.Size([3, 3]), torch.Size([3, 2]))
    """

    def __init__(
        self,
        in_dim: int,
        num_classes: int,
        manifold: geoopt.Manifold,
        *,
        dim: int = 16,
        variant: str = "tuned",
        config: Config | None = None,
        backend: str = "auto",
    ) -> None:
        super().__init__()
        if config is None:
            from hgeo.models._config import defaults

            names = {"tuned": "hat", "paper": "hat-paper", "uniform": "hat-uniform"}
            if variant not in names:
                raise ValueError(f"variant is {variant!r}, expected 'tuned', 'paper' or 'uniform'")
            config = defaults(names[variant], dim)
        self.config = config
        linear_head = config.readout == "linear"
        out_manifold = manifold_like(manifold)
        activation = _ACTIVATIONS[config.activation]
        # No points are needed between the layers. Logits are read as numbers: they may be longer than a point of the
        # ball is far out, and than half of a great circle.
        self.conv1 = HATConv(
            in_dim, config.dim, manifold, activation=activation, output="tangent", feat_drop=config.feat_drop,
            backend=backend, **attention_options(config, config.betas[0], manifold),
        )  # fmt: skip
        self.conv2 = HATConv(
            config.dim, config.dim if linear_head else num_classes, out_manifold, in_manifold=manifold,
            activation=activation if linear_head else None, input="tangent",
            output="tangent" if linear_head else "logits", feat_drop=config.hidden_drop, steps=config.steps,
            restart=config.restart, backend=backend, **attention_options(config, config.betas[1], out_manifold),
        )  # fmt: skip
        self.head = nn.Linear(config.dim, num_classes) if linear_head else None
        if self.head is not None:
            nn.init.xavier_uniform_(self.head.weight)
            nn.init.zeros_(self.head.bias)

    @property
    def hops(self) -> int:
        """How many steps away a node's output looks."""
        return 1 + self.config.steps

    @property
    def takes_blocks(self) -> bool:
        """Whether a graph a layer may be given instead of one for both, as a sampler makes them."""
        return self.config.steps == 1

    @property
    def hidden_manifold(self) -> Any:
        """Where :meth:`embed` puts the nodes."""
        return self.conv1.manifold

    def embed(self, graph: Any, x: Tensor) -> Tensor:
        """The hidden layer: points of :attr:`hidden_manifold`."""
        return manifolds.exp0(self.conv1.manifold, self.conv1(_for_layers(graph)[0], x))

    def forward(self, graph: Any, x: Tensor) -> Tensor:
        """Logits, a row a node; of a pair of blocks, a row a destination of the second."""
        inner, outer = _for_layers(graph)
        out: Tensor = self.conv2(outer, self.conv1(inner, x))
        return out if self.head is None else self.head(out)


def _for_layers(graph: Any) -> tuple[Any, Any]:
    """The graphs of the two layers: the same one, or a pair of blocks."""
    return tuple(graph) if isinstance(graph, list | tuple) else (graph, graph)


def attention_options(config: Config, beta: float, manifold: Any) -> dict[str, Any]:
    """The keyword arguments of :class:`~hgeo.nn.HATConv` that a :class:`Config` decides."""
    ball = manifolds.stereographic_curvature(manifold) is not None
    return {
        "score": Distance(beta, config.radius_norm, config.self_score) if beta > 0 else Uniform(),
        "degree_norm": config.degree_norm,
        "activation_space": config.activation_space if ball else "tangent",
        "bias": "tangent" if config.bias else "none",
        "attn_drop": config.attn_drop,
    }


def manifold_like(manifold: Any) -> Any:
    """Where the last layer lives: a copy of the hidden space, or Euclidean if that exists in its own dimension only."""
    if isinstance(manifold, geoopt.ProductManifold):
        return geoopt.Euclidean(1)
    return copy.deepcopy(manifold)


class HGCN(nn.Module):
    r"""Hyperbolic graph convolution (Chami et al.; Liu et al., 2019): two layers of :class:`~hgeo.nn.GCNConv`.

    A GCN's sum in the tangent space at the origin, with a bias that is a point of the manifold; the logits are log0 of
    the second layer.
    """

    hops = 2
    _aggregate: Any = "tangent"

    def __init__(
        self, in_dim: int, num_classes: int, manifold: geoopt.Manifold, *, config: Config, backend: str = "auto"
    ) -> None:
        super().__init__()
        self.config = config
        shared: dict[str, Any] = {
            "aggregate": self._aggregate, "bias": "point" if config.bias else "none", "backend": backend,
        }  # fmt: skip
        self.conv1 = GCNConv(in_dim, config.dim, manifold, activation=_ACTIVATIONS[config.activation], **shared)
        self.drop = Dropout(config.hidden_drop, manifold)
        self.conv2 = GCNConv(
            config.dim, num_classes, manifold_like(manifold), in_manifold=manifold, activation=None, **shared
        )

    @property
    def hidden_manifold(self) -> Any:
        return self.conv1.manifold

    def embed(self, graph: Any, x: Tensor) -> Tensor:
        drop = self.config.feat_drop
        hidden: Tensor = self.conv1(graph, dropout(x, drop) if self.training and drop else x)
        return hidden

    def forward(self, graph: Any, x: Tensor) -> Tensor:
        return manifolds.log0(self.conv2.manifold, self.conv2(graph, self.drop(self.embed(graph, x))))


class KappaGCN(HGCN):
    r"""Constant-curvature graph convolution (Bachmann et al., 2020): gyromidpoints scaled to a sum.

    As :class:`HGCN`, with ``GCNConv(aggregate="gyrosum")``. Give it a ``Stereographic(k, learnable=True)`` and the sign
    of the curvature is learned.
    """

    _aggregate: Any = "gyrosum"

    def __init__(
        self, in_dim: int, num_classes: int, manifold: geoopt.Manifold, *, config: Config, backend: str = "auto"
    ) -> None:
        if manifolds.stereographic_curvature(manifold) is None:
            raise ValueError(f"KappaGCN needs a manifold of the stereographic family, got {manifold}; try 'stereo:16'")
        super().__init__(in_dim, num_classes, manifold, config=config, backend=backend)
