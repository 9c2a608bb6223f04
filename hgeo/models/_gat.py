"""Graph attention without curvature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hgeo._geoopt import geoopt
from hgeo.graph import GraphLike, edge_softmax, weighted_sum
from hgeo.models._network import ACTIVATIONS, Network, graphs_of, linear_head, looped
from hgeo.models._recipes import recipes
from hgeo.models._registry import register
from hgeo.models._settings import Choice, Range, Settings, setting, share
from hgeo.nn import feature_dropout, feature_linear

__all__ = ["GAT", "GATConv", "GATSettings"]

_SLOPE = 0.2  # of LeakyReLU below 0


class GATConv(nn.Module):
    r"""Computes graph attention (Veličković et al., 2018).

    .. math:: w_{ij} = \mathrm{softmax}_{j \in N_i}\ \mathrm{LeakyReLU}(a_l^\top W h_j + a_r^\top W h_i), \qquad
              h'_i = \sum_{j \in N_i} w_{ij} W h_j + b

    N_i are the in-neighbours of i and i itself: what DGL's ``GATConv`` computes on the graph with self-loops. Its
    parameters have the names and shapes that they have there.

    Args:
        in_dim, out_dim: how many numbers a node has; of the output, for each head.
        heads: how many attentions, side by side.
        feat_drop, attn_drop: dropout of the input, which may be sparse, and of the weights.
        bias: whether there is a b.
        degree_norm: multiply the weights by √(d_i/d_j), with in-degrees d, self-loops counted; on a block, that of a
            symmetric graph, with the out-degrees of its sources.
        backend: a name of :func:`hgeo.graph.backends`, or "auto".

    >>> GATConv(3, 2, heads=4)(torch.tensor([[0], [1]]), torch.eye(2, 3)).shape
    torch.Size([2, 4, 2])
    """

    def __init__(
        self,
        in_dim: int,
        out_dim: int,
        heads: int = 1,
        *,
        feat_drop: float = 0.0,
        attn_drop: float = 0.0,
        bias: bool = True,
        degree_norm: bool = False,
        backend: str = "auto",
    ) -> None:
        super().__init__()
        self.fc = nn.Linear(in_dim, heads * out_dim, bias=False)
        self.attn_l = nn.Parameter(torch.empty(1, heads, out_dim))
        self.attn_r = nn.Parameter(torch.empty(1, heads, out_dim))
        self.bias = nn.Parameter(torch.zeros(heads * out_dim)) if bias else None
        self.feat_drop, self.attn_drop, self.degree_norm, self.backend = feat_drop, attn_drop, degree_norm, backend
        for weight in (self.fc.weight, self.attn_l, self.attn_r):
            nn.init.xavier_normal_(weight, gain=nn.init.calculate_gain("relu"))

    def forward(self, graph: GraphLike, x: Tensor) -> Tensor:
        """(num_dst, heads, out_dim) of x (num_src, in_dim)."""
        given = looped(graph, x)
        values = feature_linear(feature_dropout(x, self.feat_drop, self.training), self.fc.weight)
        values = values.view(x.shape[0], *self.attn_l.shape[1:])
        left, right = (values * self.attn_l).sum(-1), (values[: given.num_dst] * self.attn_r).sum(-1)
        scores = F.leaky_relu(left.index_select(0, given.col) + right.index_select(0, given.row), _SLOPE)
        weights = F.dropout(edge_softmax(given, scores, backend=self.backend), self.attn_drop, self.training)
        if self.degree_norm:
            own = given.in_degrees.to(x.dtype)
            # a block knows of its sources only how many edges lead out of them
            its = own if given.num_src == given.num_dst else given.out_degrees.to(x.dtype).clamp(min=1)
            weights = weights * (own[given.row] / its[given.col]).sqrt().unsqueeze(1)
        out = weighted_sum(given, weights, values, backend=self.backend)
        return out if self.bias is None else out + self.bias.view(1, *self.attn_l.shape[1:])


@dataclass(frozen=True)
class GATSettings(Settings):
    """What a GAT is made of."""

    activation: Literal["elu", "relu"] = setting("elu", "activation of the hidden layer")
    bias: bool = setting(True, "whether layers have a bias")
    readout: Literal["log0", "linear"] = setting(
        "log0", "logits are the last layer, or a linear map of it", search=Choice(("log0", "linear"))
    )
    degree_norm: bool = setting(
        False, "multiply attention by √(deg_i/deg_j), as a GCN does", search=Choice((False, True))
    )
    feat_drop: float = share(0.6, "dropout of features", search=Range(0.2, 0.8, step=0.2))
    hidden_drop: float = share(0.3, "dropout of the hidden layer", search=Choice((0.0, 0.3, 0.6)))
    attn_drop: float = share(0.3, "dropout of attention", search=Choice((0.0, 0.3, 0.6)))


@register("gat", label="GAT", recipes=recipes(GATSettings), curved=False)
class GAT(Network):
    r"""A graph attention network (Veličković et al., 2018) of two layers with one head, see :class:`GATConv`.

    .. math:: h' = \sigma(\mathrm{GATConv}(G, h))
    """

    Settings = GATSettings

    def __init__(
        self,
        in_dim: int,
        num_classes: int,
        manifold: geoopt.Manifold | None = None,
        *,
        dim: int = 16,
        settings: GATSettings | None = None,
        backend: str = "auto",
    ) -> None:
        own = settings or GATSettings()
        super().__init__(manifold, own, hops=2)
        shared: dict[str, Any] = {
            "attn_drop": own.attn_drop, "bias": own.bias, "degree_norm": own.degree_norm, "backend": backend,
        }  # fmt: skip
        out_dim = dim if own.readout == "linear" else num_classes
        self.conv1 = GATConv(in_dim, dim, feat_drop=own.feat_drop, **shared)
        self.conv2 = GATConv(dim, out_dim, feat_drop=own.hidden_drop, **shared)
        self.head = linear_head(own.readout, dim, num_classes)

    def embed(self, graph: GraphLike, x: Tensor) -> Tensor:
        return ACTIVATIONS[self.settings.activation](self.conv1(graphs_of(graph, 2)[0], x).squeeze(1))

    def classify(self, graph: GraphLike, hidden: Tensor) -> Tensor:
        out: Tensor = self.conv2(graphs_of(graph, 2)[1], hidden).squeeze(1)
        return out if self.head is None else self.head(ACTIVATIONS[self.settings.activation](out))
