"""Graph convolution without curvature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hgeo._geoopt import geoopt
from hgeo.graph import GraphLike, diffuse, weighted_sum
from hgeo.models._network import ACTIVATIONS, FeatureLinear, Network, graphs_of, linear_head, looped
from hgeo.models._recipes import recipes
from hgeo.models._registry import register
from hgeo.models._settings import Choice, Range, Settings, setting, share, whole

__all__ = ["GCN", "GCNSettings", "GraphConv"]


class GraphConv(nn.Module):
    r"""Computes the sum over the neighbours, and the node itself, of a graph convolution (Kipf and Welling, 2017).

    .. math:: h'_i = \sum_{j \in N_i} \frac{h_j}{\sqrt{d_i d_j}} + b

    N_i are the in-neighbours of i and i itself, d_i their number, d_j the out-degree of j, self-loops counted: what
    DGL's ``GraphConv`` computes on the graph with self-loops.

    Args:
        dim: how many numbers a node has.
        bias: whether there is a b.
        edge_drop: share of the edges that are dropped in training.
        backend: a name of :func:`hgeo.graph.backends`, or "auto".

    >>> GraphConv(2, bias=False)(torch.tensor([[0, 1], [1, 0]]), torch.eye(2))
    tensor([[0.5000, 0.5000],
            [0.5000, 0.5000]])
    """

    def __init__(self, dim: int, *, bias: bool = True, edge_drop: float = 0.0, backend: str = "auto") -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(dim)) if bias else None
        self.edge_drop, self.backend = edge_drop, backend

    def forward(self, graph: GraphLike, x: Tensor) -> Tensor:
        """(num_dst, dim) sums of x (num_src, dim)."""
        given = looped(graph, x)
        inside, outside = given.in_degrees.to(x.dtype).rsqrt(), given.out_degrees.to(x.dtype).clamp(min=1).rsqrt()
        inside = inside if given.of_all is None else inside * given.of_all.to(x.dtype)
        weights = inside.index_select(0, given.row) * outside.index_select(0, given.col)
        if given.padding is not None:
            weights = torch.where(given.padding, 0.0, weights)
        weights = F.dropout(weights, self.edge_drop, self.training)
        out = weighted_sum(given, weights.unsqueeze(1), x.unsqueeze(1), backend=self.backend).squeeze(1)
        return out if self.bias is None else out + self.bias


@dataclass(frozen=True)
class GCNSettings(Settings):
    """What a GCN is made of."""

    activation: Literal["elu", "relu"] = setting("elu", "activation of the hidden layer")
    bias: bool = setting(True, "whether layers have a bias")
    readout: Literal["log0", "linear"] = setting(
        "log0", "logits are the last layer, or a linear map of it", search=Choice(("log0", "linear"))
    )
    steps: int = whole(1, "how often the second layer's sum is taken", search=Choice((1, 4, 8)))
    restart: float = share(
        0.1, "share of a node's own vector in each of several steps", search=Range(0.1, 0.3, step=0.1)
    )
    feat_drop: float = share(0.6, "dropout of features", search=Range(0.2, 0.8, step=0.2))
    hidden_drop: float = share(0.3, "dropout of the hidden layer", search=Choice((0.0, 0.3, 0.6)))
    attn_drop: float = share(0.3, "share of edges that are dropped", search=Choice((0.0, 0.3, 0.6)))


_ONE_STEP = ("readout", "feat_drop", "hidden_drop", "attn_drop")


@register(
    "gcn-diffused",
    label="GCN, diffused",
    recipes=recipes(GCNSettings, lambda sizes: {"steps": 4}),
    curved=False,
)
@register("gcn", label="GCN", recipes=recipes(GCNSettings), curved=False, searched=_ONE_STEP)
class GCN(Network):
    r"""A graph convolutional network (Kipf and Welling, 2017) of two layers.

    .. math:: h' = \sigma\big(D^{-1/2} (A + I) D^{-1/2}\, h\, W + b\big)

    With uniform attention and degree normalisation HAT is this network, also where ``steps`` of the second layer's sum
    are walked, with ``restart``, as in APPNP (Gasteiger et al., 2019).
    """

    Settings = GCNSettings

    def __init__(
        self,
        in_dim: int,
        num_classes: int,
        manifold: geoopt.Manifold | None = None,
        *,
        dim: int = 16,
        settings: GCNSettings | None = None,
        backend: str = "auto",
    ) -> None:
        own = settings or GCNSettings()
        super().__init__(manifold, own, hops=1 + own.steps)
        out_dim = dim if own.readout == "linear" else num_classes
        self.linear1 = FeatureLinear(in_dim, dim, own.feat_drop)
        self.linear2 = FeatureLinear(dim, out_dim, own.hidden_drop)
        once = own.steps == 1  # the bias is added once, not in each of several steps
        self.conv1 = GraphConv(dim, bias=own.bias, edge_drop=own.attn_drop, backend=backend)
        self.conv2 = GraphConv(out_dim, bias=own.bias and once, edge_drop=own.attn_drop, backend=backend)
        self.bias2 = nn.Parameter(torch.zeros(out_dim)) if own.bias and not once else None
        self.head = linear_head(own.readout, dim, num_classes)

    def embed(self, graph: GraphLike, x: Tensor) -> Tensor:
        first, _ = graphs_of(graph, 2)
        return ACTIVATIONS[self.settings.activation](self.conv1(first, self.linear1(x)))

    def classify(self, graph: GraphLike, hidden: Tensor) -> Tensor:
        u = self.linear2(hidden)
        _, last = graphs_of(graph, 2)
        out = diffuse(lambda z: self.conv2(last, z), u, self.settings.steps, self.settings.restart)
        out = out if self.bias2 is None else out + self.bias2
        return out if self.head is None else self.head(ACTIVATIONS[self.settings.activation](out))
