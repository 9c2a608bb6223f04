"""Neighbours' mean beside the node itself, without curvature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from hgeo._geoopt import geoopt
from hgeo.graph import GraphLike, as_graph, weighted_sum
from hgeo.models._network import ACTIVATIONS, FeatureLinear, Network, graphs_of
from hgeo.models._recipes import recipes
from hgeo.models._registry import register
from hgeo.models._settings import Choice, Range, Settings, setting, share
from hgeo.nn import feature_dropout

__all__ = ["SAGE", "SAGEConv", "SAGESettings"]


class SAGEConv(nn.Module):
    r"""Computes the layer of GraphSAGE (Hamilton et al., 2017) with the mean as its aggregator.

    .. math:: h'_i = W_{self} h_i + W_{neigh} \frac{1}{d_i} \sum_{j \in N_i} h_j + b

    N_i are the d_i in-neighbours of i; i itself is one only if the graph has that loop. A node without neighbours keeps
    its own part. This is what DGL's ``SAGEConv(…, "mean")`` computes; the parameters have the names they have there.

    Args:
        in_dim, out_dim: how many numbers a node has.
        drop: dropout of the input, which may be sparse.
        bias: whether there is a b.
        backend: a name of :func:`hgeo.graph.backends`, or "auto".

    >>> SAGEConv(3, 2)(torch.tensor([[0], [1]]), torch.eye(2, 3)).shape
    torch.Size([2, 2])
    """

    def __init__(
        self, in_dim: int, out_dim: int, *, drop: float = 0.0, bias: bool = True, backend: str = "auto"
    ) -> None:
        super().__init__()
        self.fc_self, self.fc_neigh = FeatureLinear(in_dim, out_dim, 0.0), FeatureLinear(in_dim, out_dim, 0.0)
        self.fc_self.register_parameter("bias", nn.Parameter(torch.zeros(out_dim)) if bias else None)
        self.drop, self.backend = drop, backend

    def forward(self, graph: GraphLike, x: Tensor) -> Tensor:
        """(num_dst, out_dim) of x (num_src, in_dim)."""
        given = as_graph(graph, num_nodes=x.shape[0])
        x = feature_dropout(x, self.drop, self.training)
        own = self.fc_self(x)[: given.num_dst]
        mean = (1 / given.edges_into.clamp(min=1).to(own.dtype)).index_select(0, given.row).unsqueeze(1)
        values = self.fc_neigh(x).unsqueeze(1)
        out = own + weighted_sum(given, mean, values, backend=self.backend).squeeze(1)
        return out if self.fc_self.bias is None else out + self.fc_self.bias


@dataclass(frozen=True)
class SAGESettings(Settings):
    """What a SAGE is made of."""

    activation: Literal["elu", "relu"] = setting("elu", "activation of the hidden layer")
    bias: bool = setting(True, "whether layers have a bias")
    feat_drop: float = share(0.6, "dropout of features", search=Range(0.2, 0.8, step=0.2))
    hidden_drop: float = share(0.3, "dropout of the hidden layer", search=Choice((0.0, 0.3, 0.6)))


@register("sage", label="SAGE", recipes=recipes(SAGESettings), curved=False)
class SAGE(Network):
    r"""GraphSAGE (Hamilton et al., 2017) of two layers, see :class:`SAGEConv`: a node has a weight of its own.

    .. math:: h' = \sigma(\mathrm{SAGEConv}(G, h))
    """

    Settings = SAGESettings

    def __init__(
        self,
        in_dim: int,
        num_classes: int,
        manifold: geoopt.Manifold | None = None,
        *,
        dim: int = 16,
        settings: SAGESettings | None = None,
        backend: str = "auto",
    ) -> None:
        own = settings or SAGESettings()
        super().__init__(manifold, own, hops=2)
        self.conv1 = SAGEConv(in_dim, dim, drop=own.feat_drop, bias=own.bias, backend=backend)
        self.conv2 = SAGEConv(dim, num_classes, drop=own.hidden_drop, bias=own.bias, backend=backend)

    def embed(self, graph: GraphLike, x: Tensor) -> Tensor:
        return ACTIVATIONS[self.settings.activation](self.conv1(graphs_of(graph, 2)[0], x))

    def classify(self, graph: GraphLike, hidden: Tensor) -> Tensor:
        out: Tensor = self.conv2(graphs_of(graph, 2)[1], hidden)
        return out
