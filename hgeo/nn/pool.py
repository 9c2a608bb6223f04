"""One point for each graph of a batch."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hgeo.graph import Graph
from hgeo.manifolds import describe
from hgeo.nn._layer import Layer, choice, positive
from hgeo.nn._means import How, check_mean, segment_mean

__all__ = ["Pool"]


class Pool(Layer):
    r"""The mean of the points of each graph of a batch, in the sense of :class:`Midpoint`.

    .. math:: y_g = \operatorname{mean}_{i \,:\, \mathrm{graph}(i) = g} x_i

    Args:
        manifold: where the points lie.
        how: "gyro", "tangent" or "frechet", as for :class:`Midpoint`.
        iterations: of the Fréchet mean before its Newton step.

    Shapes:
        - graph: a DGLGraph, batched or single; an ``hgeo.Graph`` (one graph); or (N,), the number of each
          row's graph (PyG's ``batch.batch``)
        - x: (N, ambient dimension)
        - weights: (N,); default: ones
        - output: (number of graphs, ambient dimension); a graph without nodes gets the origin

    As c → 0 it is mean pooling.

    >>> import torch, hgeo
    >>> pool = hgeo.nn.Pool(hgeo.PoincareBall(), how="tangent")
    >>> pool(torch.tensor([0, 0, 1]), torch.tensor([[0.1, 0.0], [0.1, 0.0], [0.0, 0.3]]))
    tensor([[0.1000, 0.0000],
            [0.0000, 0.3000]])
    """

    def __init__(self, manifold: Any, how: How = "gyro", *, iterations: int = 16) -> None:
        super().__init__(manifold, manifold)
        choice("Pool", "how", how, ("gyro", "tangent", "frechet"))
        positive("Pool", "iterations", iterations)
        check_mean(manifold, how)
        self.how, self.iterations = how, iterations

    def forward(self, graph: Any, x: Tensor, weights: Tensor | None = None, *, num_graphs: int | None = None) -> Tensor:
        """A point a graph. ``num_graphs`` must be given with row numbers under ``torch.compile``."""
        if isinstance(graph, Tensor) and graph.is_floating_point():
            raise TypeError(
                f"Pool: expected a graph first, got a {graph.dtype} tensor of shape {tuple(graph.shape)}; if these are "
                "points, the arguments are swapped: call pool(graph, x)"
            )
        self.check(x)
        if x.dim() != 2:
            raise ValueError(f"Pool: expected a row a node, (N, numbers of a point), got shape {tuple(x.shape)}")
        index, count = _segments(graph, x, num_graphs)
        if weights is None:
            weights = x.new_ones(x.shape[0])
        elif weights.shape != x.shape[:1]:
            raise ValueError(f"Pool: expected weights of shape ({x.shape[0]},), got {tuple(weights.shape)}")
        return segment_mean(self.manifold, self.how, x, weights, index, count, iterations=self.iterations)

    def extra_repr(self) -> str:
        return f"{describe(self.manifold)}, how={self.how!r}"


def _segments(graph: Any, x: Tensor, num_graphs: int | None) -> tuple[Tensor, int]:
    """The graph of each row, and how many graphs there are."""
    rows = x.shape[0]
    if isinstance(graph, Graph):
        _check_rows(graph.num_dst, rows)
        return torch.zeros(rows, dtype=torch.long, device=x.device), 1
    if hasattr(graph, "batch_num_nodes"):
        sizes = graph.batch_num_nodes().to(x.device)
        _check_rows(graph.num_nodes(), rows)
        return torch.arange(len(sizes), device=x.device).repeat_interleave(sizes, output_size=rows), len(sizes)
    if not isinstance(graph, Tensor) or graph.dim() != 1:
        given = f"{graph.dtype} {tuple(graph.shape)}" if isinstance(graph, Tensor) else type(graph).__name__
        raise TypeError(
            f"Pool: expected a DGLGraph, an hgeo.Graph, or the graph of each row as whole numbers of shape ({rows},) "
            f"(of a PyG batch: batch.batch), got {given}"
        )
    _check_rows(graph.shape[0], rows)
    if num_graphs is None:
        if torch.compiler.is_compiling():
            raise ValueError("Pool: give num_graphs while compiling: the largest row number is not known then")
        num_graphs = int(graph.max()) + 1 if rows else 0
    return graph.long(), num_graphs


def _check_rows(expected: int, rows: int) -> None:
    if expected != rows:
        raise ValueError(f"Pool: the graph has {expected} nodes, x has {rows} rows")
