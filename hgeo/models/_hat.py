"""The hyperbolic graph attention network."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor, nn

from hgeo import manifolds
from hgeo._geoopt import geoopt
from hgeo.graph import Distance, GraphLike, Uniform
from hgeo.models._network import ACTIVATIONS, Round, graphs_of, linear_head
from hgeo.models._recipes import Sizes, recipes
from hgeo.models._registry import register
from hgeo.models._settings import Choice, Range, Settings, setting, share, whole
from hgeo.nn import HATConv

__all__ = ["HAT", "HATSettings"]


@dataclass(frozen=True)
class HATSettings(Settings):
    """What a HAT is made of. The defaults attend with the weight softmax(−β d) of points whose mean radius is divided
    out, let the self-loop compete with the mean distance to the neighbours instead of distance 0, and add a tangent
    bias: the paper's form collapses onto its self-loops as the points move out."""

    beta: float = setting(
        0.3, "sharpness of the attention of all layers but the last; 0 is uniform", search=Range(0.01, 3.0, log=True)
    )
    beta_out: float | None = setting(
        None, "sharpness of the last layer's; None: the others'", search=Range(0.01, 3.0, log=True)
    )
    radius_norm: bool = setting(
        True, "divide points by their mean radius before distances are taken", search=Choice((True, False))
    )
    self_score: Literal["zero", "mean"] = setting(
        "mean", "distance of a self-loop: 0, or the mean to the neighbours", search=Choice(("zero", "mean"))
    )
    degree_norm: bool = setting(
        False, "multiply attention by √(deg_i/deg_j), as a GCN does", search=Choice((False, True))
    )
    activation: Literal["elu", "relu"] = setting("elu", "activation of the hidden layer")
    activation_space: Literal["ball", "tangent"] = setting(
        "tangent", "activation of the ball's coordinates, or of tangent coordinates"
    )
    bias: bool = setting(True, "whether layers have a tangent bias")
    readout: Literal["log0", "linear"] = setting(
        "log0", "logits are log0 of the last layer, or a linear map of it", search=Choice(("log0", "linear"))
    )
    layers: int = whole(2, "number of layers, the last one included", low=2)
    residual: bool = setting(False, "whether layers between the first and the last add their input to their sum")
    self_weight: bool = setting(False, "whether every layer adds a linear map of a node's own input to its sum")
    steps: int = whole(1, "how often the last layer's attention is walked along", search=Choice((1, 4, 8)))
    restart: float = share(
        0.1, "share of a node's own vector in each of several steps", search=Range(0.1, 0.3, step=0.1)
    )
    feat_drop: float = share(0.6, "dropout of features", search=Range(0.2, 0.8, step=0.2))
    hidden_drop: float = share(0.3, "dropout of the hidden layer", search=Choice((0.0, 0.3, 0.6)))
    attn_drop: float = share(0.3, "dropout of attention", search=Choice((0.0, 0.3, 0.6)))

    @property
    def betas(self) -> tuple[float, float]:
        """Sharpness of the layers before the last, and of that."""
        return self.beta, self.beta if self.beta_out is None else self.beta_out


# Eqs. (9)-(15) as printed: scores are minus the distance, the self-loop competes with distance 0, no bias, ELU on the
# coordinates of the ball, plain cross entropy.
_PRINTED = {
    "beta": 1.0, "radius_norm": False, "self_score": "zero", "degree_norm": False, "activation_space": "ball",
    "bias": False,
}  # fmt: skip
_DROPS = ("feat_drop", "hidden_drop", "attn_drop")


def _walk(sizes: Sizes) -> dict[str, Any]:
    """Weights that are nearly uniform, walked along; logits of two numbers are too few."""
    return {"steps": 4, "degree_norm": sizes.dim > 2, "readout": "linear" if sizes.dim <= 2 else "log0"}


def _blunt(values: dict[str, Any]) -> dict[str, Any]:
    return {"beta": 0.02, **values}


@register(
    "hat-paper",
    label="HAT as printed",
    recipes=recipes(
        HATSettings,
        lambda sizes: _PRINTED,
        training={"label_smoothing": 0.0},
        keeps=("readout", "layers", "residual", "self_weight"),
    ),
    attends=True,
    searched=_DROPS,
)
@register(
    "hat-uniform",
    label="HAT, uniform weights",
    recipes=recipes(
        HATSettings,
        lambda sizes: {"beta": 0.0, "degree_norm": sizes.wide},
        walk=_walk,
        decay=lambda sizes: {**_walk(sizes), "readout": "log0"},
    ),
    attends=True,
    fixed=("beta", "beta_out"),
    searched=("readout", "degree_norm", "steps", "restart", *_DROPS),
)
@register(
    "hat",
    label="HAT",
    recipes=recipes(
        HATSettings,
        lambda sizes: {"degree_norm": sizes.wide},
        walk=lambda sizes: _blunt(_walk(sizes)),
        decay=lambda sizes: _blunt({**_walk(sizes), "readout": "log0"}),
        dense=lambda sizes: {"beta": 0.1},
        hierarchy=lambda sizes: {"beta": 0.3, "radius_norm": False, "self_score": "zero"},
    ),
    attends=True,
)
class HAT(nn.Module):
    r"""Layers of hyperbolic graph attention for node classification: two, unless the settings say more.

    .. math:: h = \mathrm{HATConv}_1(G, x) \in \mathcal{M}^d, \qquad \mathrm{logits} = \log_0 \mathrm{HATConv}_2(G, h)

    With ``layers`` = L there are L - 2 between these two, from :math:`\mathcal{M}^d` to :math:`\mathcal{M}^d`, and h is
    what the last of them gives. ``residual`` adds to the sum of each of them its own input, ``self_weight`` to the sum
    of every layer a linear map of its input, so that a node need not look like its neighbours.

    ``hat-paper`` is the recipe of the network as printed, ``hat-uniform`` that with the attention switched off.

    Args:
        in_dim: number of input features.
        num_classes: number of classes.
        manifold: the hidden space; ``hgeo.space("ball:16").manifold``, say.
        dim: its dimension.
        settings: everything else.
        backend: who computes the attention, see :func:`hgeo.graph.backends`.

    Example:
        >>> import torch, hgeo
        >>> from hgeo.models import HAT
        >>> model = HAT(8, 3, hgeo.PoincareBall(), dim=2)
        >>> edge_index = torch.tensor([[0, 1, 2], [1, 2, 0]])
        >>> model(edge_index, torch.randn(3, 8)).shape, model.embed(edge_index, torch.randn(3, 8)).shape
        (torch.Size([3, 3]), torch.Size([3, 2]))
    """

    Settings = HATSettings

    def __init__(
        self,
        in_dim: int,
        num_classes: int,
        manifold: geoopt.Manifold,
        *,
        dim: int = 16,
        settings: HATSettings | None = None,
        backend: str = "auto",
    ) -> None:
        super().__init__()
        self.settings = own = settings or HATSettings()
        linear = own.readout == "linear"
        out_manifold = manifold_like(manifold)
        activation = ACTIVATIONS[own.activation]
        # Layers hand on tangent rows: points are not needed between them. Logits are plain numbers, which are not
        # limited to the radius of the ball or to half of a great circle.
        shared: dict[str, Any] = {"self_weight": own.self_weight, "backend": backend}
        inner = {**attention_options(own, own.betas[0], manifold), **shared, "activation": activation}
        self.conv1 = HATConv(in_dim, dim, manifold, output="tangent", feat_drop=own.feat_drop, **inner)
        self.between = nn.ModuleList(
            HATConv(
                dim, dim, manifold, in_manifold=manifold, input="tangent", output="tangent", feat_drop=own.hidden_drop,
                residual=own.residual, **inner,
            )
            for _ in range(own.layers - 2)
        )  # fmt: skip
        self.conv2 = HATConv(
            dim, dim if linear else num_classes, out_manifold, in_manifold=manifold,
            activation=activation if linear else None, input="tangent",
            output="tangent" if linear else "logits", feat_drop=own.hidden_drop, steps=own.steps,
            restart=own.restart, **shared, **attention_options(own, own.betas[1], out_manifold),
        )  # fmt: skip
        self.head = linear_head(own.readout, dim, num_classes)

    @property
    def hops(self) -> int:
        """How many steps away a node's output looks."""
        return self.settings.layers - 1 + self.settings.steps

    @property
    def hidden_manifold(self) -> geoopt.Manifold:
        """Where :meth:`embed` puts the nodes."""
        return self.conv1.manifold

    @property
    def rounds(self) -> tuple[Round, ...] | None:
        """What is done along the graph of each layer, one after the other; None of a last layer of several steps."""
        if self.settings.steps > 1:
            return None
        convs = (self.conv1, *self.between)
        of_radii = [conv.radii if conv.needs_mean_radius else None for conv in (*convs, self.conv2)]
        return tuple(map(Round, (*convs, self._logits), of_radii))

    def embed(self, graph: GraphLike | Sequence[GraphLike], x: Tensor) -> Tensor:
        """The layer before the last: points of :attr:`hidden_manifold`."""
        graphs = graphs_of(graph, self.settings.layers)
        return manifolds.exp0(self.conv1.manifold, self._hidden(graphs, x, [None] * len(graphs)))

    def forward(
        self, graph: GraphLike | Sequence[GraphLike], x: Tensor, mean_radii: Sequence[Tensor | None] | None = None
    ) -> Tensor:
        """Logits, a row a node; of a list of blocks, one a layer, a row a destination of the last.

        ``mean_radii`` are the mean radii of the larger graph that the blocks belong to, one a layer; without them a
        layer takes those of the rows that it sees.
        """
        graphs = graphs_of(graph, self.settings.layers)
        radii = [None] * len(graphs) if mean_radii is None else list(mean_radii)
        return self._logits(graphs[-1], self._hidden(graphs, x, radii), mean_radius=radii[-1])

    def _hidden(self, graphs: Sequence[GraphLike], x: Tensor, radii: Sequence[Tensor | None]) -> Tensor:
        """Tangent rows of the layer before the last."""
        rows: Tensor = self.conv1(graphs[0], x, mean_radius=radii[0])
        for conv, graph, radius in zip(self.between, graphs[1:-1], radii[1:-1], strict=True):
            rows = conv(graph, rows, mean_radius=radius)
        return rows

    def _logits(self, graph: GraphLike, rows: Tensor, mean_radius: Tensor | None = None) -> Tensor:
        out: Tensor = self.conv2(graph, rows, mean_radius=mean_radius)
        return out if self.head is None else self.head(out)


def attention_options(settings: HATSettings, beta: float, manifold: geoopt.Manifold) -> dict[str, Any]:
    """The keyword arguments of :class:`~hgeo.nn.HATConv` that :class:`HATSettings` decide."""
    ball = manifolds.stereographic_curvature(manifold) is not None
    return {
        "score": Distance(beta, settings.radius_norm, settings.self_score) if beta > 0 else Uniform(),
        "degree_norm": settings.degree_norm,
        "activation_space": settings.activation_space if ball else "tangent",
        "bias": "tangent" if settings.bias else "none",
        "attn_drop": settings.attn_drop,
    }


def manifold_like(manifold: geoopt.Manifold) -> geoopt.Manifold:
    """Where the last layer lives: a copy of the hidden space, or Euclidean if that exists in its own dimension only."""
    if isinstance(manifold, geoopt.ProductManifold):
        return geoopt.Euclidean(1)
    return copy.deepcopy(manifold)
