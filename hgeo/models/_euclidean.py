"""Euclidean baselines on DGL's layers, and the networks that do not look at the graph."""

from __future__ import annotations

import weakref
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hgeo import manifolds
from hgeo._dgl import import_dgl
from hgeo._geoopt import geoopt
from hgeo.graph import Graph, as_graph, diffuse
from hgeo.models._config import Config
from hgeo.nn import Activation, Dropout, Linear
from hgeo.nn._inputs import dropout, linear
from hgeo.nn._layer import point_parameter

__all__ = ["GAT", "GCN", "HNN", "MLP", "dgl_graph"]

_BASELINES = "a GCN or GAT, made of DGL's layers,"
_CONVERTED: weakref.WeakKeyDictionary[Graph, Any] = weakref.WeakKeyDictionary()


def dgl_graph(graph: Any, num_nodes: int | None = None) -> Any:
    """``graph`` as a DGLGraph with self-loops, made once for each :class:`hgeo.Graph`."""
    dgl = import_dgl(_BASELINES)
    if isinstance(graph, dgl.DGLGraph):
        graph = as_graph(graph)
    elif not isinstance(graph, Graph):
        graph = as_graph(graph, num_nodes=num_nodes) if isinstance(graph, Tensor) else as_graph(graph)
    if graph not in _CONVERTED:
        looped = graph.with_self_loops()
        _CONVERTED[graph] = dgl.graph((looped.col, looped.row), num_nodes=looped.num_src)
    return _CONVERTED[graph]


class _SparseLinear(nn.Linear):
    """x Wᵀ without bias, with dropout of x, for dense or sparse x."""

    def __init__(self, in_dim: int, out_dim: int, drop: float) -> None:
        super().__init__(in_dim, out_dim, bias=False)
        nn.init.xavier_uniform_(self.weight)
        self.drop = drop

    def forward(self, x: Tensor) -> Tensor:
        return linear(dropout(x, self.drop) if self.training and self.drop else x, self.weight)


def _activation(config: Config) -> Any:
    return F.elu if config.activation == "elu" else F.relu


class _Network(nn.Module):
    """What the Euclidean networks share: a hidden layer, logits from it, and where the hidden layer lives."""

    def __init__(self, config: Config, hops: int = 2) -> None:
        super().__init__()
        self.config = config
        #: how many steps away a node's output looks
        self.hops = hops
        self.hidden_manifold = geoopt.Euclidean(1)

    def embed(self, graph: Any, x: Tensor) -> Tensor:
        """The hidden layer, a row a node."""
        raise NotImplementedError

    def classify(self, graph: Any, hidden: Tensor) -> Tensor:
        """Logits from the hidden layer."""
        raise NotImplementedError

    def forward(self, graph: Any, x: Tensor) -> Tensor:
        return self.classify(graph, self.embed(graph, x))


class GCN(_Network):
    r"""Graph convolution (Kipf and Welling, 2017) on DGL's ``GraphConv``.

    .. math:: h' = \sigma\big(D^{-1/2} (A + I) D^{-1/2}\, h\, W + b\big)

    ``attn_drop`` drops edges. With uniform attention and degree normalisation HAT is this network, also where
    ``steps`` of the second layer's sum are walked, with ``restart``, as in APPNP (Gasteiger et al., 2019).
    """

    def __init__(self, in_dim: int, num_classes: int, *, config: Config) -> None:
        super().__init__(config, hops=1 + config.steps)
        layer = import_dgl(_BASELINES, "dgl.nn.pytorch").GraphConv
        out_dim = config.dim if config.readout == "linear" else num_classes
        self.linear1 = _SparseLinear(in_dim, config.dim, config.feat_drop)
        self.linear2 = _SparseLinear(config.dim, out_dim, config.hidden_drop)
        self.conv1 = layer(config.dim, config.dim, weight=False, bias=config.bias)
        once = config.steps == 1  # in each of several steps DGL's layer would add its bias again
        self.conv2 = layer(out_dim, out_dim, weight=False, bias=config.bias and once)
        self.bias2 = nn.Parameter(torch.zeros(out_dim)) if config.bias and not once else None
        self.head = _head(config, num_classes)

    def _convolve(self, conv: nn.Module, graph: Any, x: Tensor) -> Tensor:
        weights = None
        if self.training and self.config.attn_drop:
            weights = F.dropout(x.new_ones(graph.num_edges()), self.config.attn_drop)
        out: Tensor = conv(graph, x, edge_weight=weights)
        return out

    def embed(self, graph: Any, x: Tensor) -> Tensor:
        graph = dgl_graph(graph, x.shape[0])
        hidden: Tensor = _activation(self.config)(self._convolve(self.conv1, graph, self.linear1(x)))
        return hidden

    def classify(self, graph: Any, hidden: Tensor) -> Tensor:
        graph = dgl_graph(graph, hidden.shape[0])
        u = self.linear2(hidden)
        out = diffuse(lambda z: self._convolve(self.conv2, graph, z), u, self.config.steps, self.config.restart)
        out = out if self.bias2 is None else out + self.bias2
        return out if self.head is None else self.head(_activation(self.config)(out))


class GAT(_Network):
    r"""Graph attention (Veličković et al., 2018) with one head on DGL's ``GATConv``.

    .. math:: w_{ij} = \mathrm{softmax}_j\ \mathrm{LeakyReLU}(a_l^\top W h_j + a_r^\top W h_i), \qquad
              h'_i = \sigma\Big(\sum_j w_{ij} W h_j + b\Big)

    ``degree_norm`` multiplies the weights by √(deg_i/deg_j), as in :class:`HAT`.
    """

    def __init__(self, in_dim: int, num_classes: int, *, config: Config) -> None:
        super().__init__(config)
        layer = import_dgl(_BASELINES, "dgl.nn.pytorch").GATConv
        out_dim = config.dim if config.readout == "linear" else num_classes
        self.conv1 = layer(in_dim, config.dim, 1, attn_drop=config.attn_drop, bias=config.bias)
        self.conv2 = layer(config.dim, out_dim, 1, attn_drop=config.attn_drop, bias=config.bias)
        # DGL's layer drops and multiplies dense features; these two do the same to sparse ones.
        for conv, drop, width in ((self.conv1, config.feat_drop, in_dim), (self.conv2, config.hidden_drop, config.dim)):
            weight = conv.fc.weight
            conv.feat_drop = nn.Identity()
            conv.fc = _SparseLinear(width, weight.shape[0], drop)
            conv.fc.weight = weight
        self.head = _head(config, num_classes)

    def _edge_weight(self, graph: Any) -> Tensor | None:
        if not self.config.degree_norm:
            return None
        source, destination = graph.edges()
        degree = graph.in_degrees().to(self.conv1.fc.weight.dtype)
        return (degree[destination] / degree[source]).sqrt()

    def embed(self, graph: Any, x: Tensor) -> Tensor:
        graph = dgl_graph(graph, x.shape[0])
        hidden: Tensor = _activation(self.config)(self.conv1(graph, x, edge_weight=self._edge_weight(graph)).squeeze(1))
        return hidden

    def classify(self, graph: Any, hidden: Tensor) -> Tensor:
        graph = dgl_graph(graph, hidden.shape[0])
        out: Tensor = self.conv2(graph, hidden, edge_weight=self._edge_weight(graph)).squeeze(1)
        return out if self.head is None else self.head(_activation(self.config)(out))


def _head(config: Config, num_classes: int) -> nn.Linear | None:
    if config.readout != "linear":
        return None
    head = nn.Linear(config.dim, num_classes)
    nn.init.xavier_uniform_(head.weight)
    nn.init.zeros_(head.bias)
    return head


class MLP(_Network):
    """Two linear layers on the features; the graph is not looked at."""

    def __init__(self, in_dim: int, num_classes: int, *, config: Config) -> None:
        super().__init__(config, hops=0)
        self.linear1 = _SparseLinear(in_dim, config.dim, config.feat_drop)
        self.bias1 = nn.Parameter(torch.zeros(config.dim))
        self.linear2 = nn.Linear(config.dim, num_classes)

    def embed(self, graph: Any, x: Tensor) -> Tensor:
        hidden: Tensor = _activation(self.config)(self.linear1(x) + self.bias1)
        return hidden

    def classify(self, graph: Any, hidden: Tensor) -> Tensor:
        return self.linear2(F.dropout(hidden, self.config.hidden_drop, self.training))


class HNN(_Network):
    r"""Hyperbolic neural network (Ganea et al., 2018) on the features: Möbius layers with a bias on the manifold.

    .. math:: h = \sigma^{\otimes}\big(M_1 \otimes \exp_0(x) \oplus b_1\big), \qquad
              \mathrm{logits} = \log_0\big(M_2 \otimes h \oplus b_2\big)

    The graph is not looked at: what this reaches below HAT is what the edges are worth.
    """

    def __init__(self, in_dim: int, num_classes: int, manifold: geoopt.Manifold, *, config: Config) -> None:
        from hgeo.models._hat import manifold_like

        super().__init__(config, hops=0)
        self.hidden_manifold = manifold
        # the features' product stays sparse; what follows is the point bias alone
        self.linear1 = _SparseLinear(in_dim, config.dim, config.feat_drop)
        self.bias1 = point_parameter(manifold, config.dim)
        self.activation = Activation(_activation(config), manifold)
        self.drop = Dropout(config.hidden_drop, manifold)
        self.linear2 = Linear(config.dim, num_classes, manifold_like(manifold), in_manifold=manifold)

    def embed(self, graph: Any, x: Tensor) -> Tensor:
        manifold = self.hidden_manifold
        hidden: Tensor = self.activation(
            manifolds.translate(manifold, manifolds.exp0(manifold, self.linear1(x)), self.bias1)
        )
        return hidden

    def classify(self, graph: Any, hidden: Tensor) -> Tensor:
        return manifolds.log0(self.linear2.manifold, self.linear2(self.drop(hidden)))
