"""What the Euclidean networks share: a hidden layer, logits from it, features dense or sparse, the graph as read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch.nn.functional as F
from torch import Tensor, nn

from hgeo._geoopt import geoopt
from hgeo.graph import Graph, GraphLike, as_graph
from hgeo.nn import feature_dropout, feature_linear

__all__ = ["ACTIVATIONS", "FeatureLinear", "Network", "Round", "graphs_of", "linear_head", "looped"]

#: activations by the names that settings have for them
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"elu": F.elu, "relu": F.relu}


def looped(graph: GraphLike, x: Tensor) -> Graph:
    """The graph, in whatever format, with a self-loop a node; ``x`` has a row a source."""
    return as_graph(graph, num_nodes=x.shape[0]).with_self_loops()


class Round(NamedTuple):
    """What a network does along the edges of one graph, from a row a source to a row a destination.

    ``run(graph, rows)`` is the whole of it; where there are ``radii``, ``run(graph, rows, mean_radius=…)`` may be told
    the mean over all nodes of what ``radii(rows)`` gives for each, (nodes, heads) numbers.
    """

    run: Callable[..., Tensor]
    radii: Callable[[Tensor], Tensor] | None = None


def graphs_of(graph: Any, layers: int) -> Sequence[Any]:
    """The graph of each layer: the same one, or those of a list, as a sampler makes it."""
    if not isinstance(graph, list | tuple):
        return [graph] * layers
    if len(graph) != layers:
        raise ValueError(f"{layers} layers take a graph, or a list of {layers} blocks; got {len(graph)}")
    return graph


class FeatureLinear(nn.Linear):
    """x Wᵀ without bias, with dropout of x, for dense or sparse x."""

    def __init__(self, in_dim: int, out_dim: int, drop: float) -> None:
        super().__init__(in_dim, out_dim, bias=False)
        nn.init.xavier_uniform_(self.weight)
        self.drop = drop

    def forward(self, x: Tensor) -> Tensor:
        return feature_linear(feature_dropout(x, self.drop, self.training), self.weight)


class Network(nn.Module):
    """Logits are a function of the hidden layer; ``hops`` is how many steps away a node's output looks.

    A list of two blocks, as a sampler makes them, does for the graph of a network of two hops.
    """

    def __init__(self, manifold: geoopt.Manifold | None, settings: Any, hops: int) -> None:
        super().__init__()
        self.settings, self.hops = settings, hops
        self.hidden_manifold = geoopt.Euclidean(1) if manifold is None else manifold

    @property
    def rounds(self) -> tuple[Round, ...] | None:
        """What is done along the graph of each layer, one after the other; None where that cannot be taken apart."""
        return {0: (), 2: (Round(self.embed), Round(self.classify))}.get(self.hops)

    def embed(self, graph: GraphLike, x: Tensor) -> Tensor:
        """The hidden layer, a row a node."""
        raise NotImplementedError

    def classify(self, graph: GraphLike, hidden: Tensor) -> Tensor:
        """Logits from the hidden layer."""
        raise NotImplementedError

    def forward(self, graph: GraphLike, x: Tensor) -> Tensor:
        return self.classify(graph, self.embed(graph, x))


def linear_head(readout: str, dim: int, num_classes: int) -> nn.Linear | None:
    """What makes logits of the last layer's ``dim`` numbers, where the layer does not make them itself."""
    if readout != "linear":
        return None
    head = nn.Linear(dim, num_classes)
    nn.init.xavier_uniform_(head.weight)
    nn.init.zeros_(head.bias)
    return head
