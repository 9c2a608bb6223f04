"""Graph convolution on curved spaces."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor, nn

from hgeo import manifolds
from hgeo.graph import Finish, Graph, weighted_sum
from hgeo.nn._edges import Edges, FillValue, GraphLayer
from hgeo.nn._layer import choice, point_parameter

__all__ = ["GCNConv"]


class GCNConv(GraphLayer):
    r"""Graph convolution, on any manifold with an origin frame.

    With N_i the in-neighbours of i and i itself, and :math:`a_{ij}` = ``norm`` of the edge j → i, times its gate
    :math:`2\,\mathrm{sigmoid}(G f_{ij} + g)` where it has attributes :math:`f_{ij}`,

    .. math::
        h_j &= (W \otimes x_j) \oplus b && \text{transform} \\
        m_i &= \exp_0\Big(\sum_{j \in N_i} a_{ij} \log_0 h_j\Big) && \text{aggregate="tangent"} \\
        m_i &= \tfrac12 \otimes \frac{\sum_j a_{ij} \lambda_j h_j}{\sum_j a_{ij} (\lambda_j - 1)}
            && \text{"midpoint": the gyromidpoint, a weighted mean} \\
        m_i &= \Big(\sum_j a_{ij}\Big) \otimes \text{that} && \text{"gyrosum": of the size of a weighted sum} \\
        y_i &= \exp_0(\sigma(\log_0 m_i)) && \text{activate}

    "tangent" with a point bias is the hyperbolic GCN of Chami et al. (HGCN, 2019; its aggregation at the origin),
    without a bias the hyperbolic GNN of Liu et al. (HGNN, 2019), "gyrosum" the constant-curvature GCN of Bachmann et
    al. (κ-GCN, 2020).

    Args:
        in_dim, out_dim: intrinsic dimensions; ``in_dim`` a pair for sources and destinations with maps of their own; -1
            (also in a pair) for what the first call brings.
        manifold: where the output lies.
        in_manifold: where the input lies; None: raw features, read as tangent coordinates at the origin. After another
            layer it is that one's ``manifold``: points read as raw features are no error, but not what was meant.
        aggregate: "tangent", "midpoint" or "gyrosum".
        norm: a_ij: "sym", 1/√(deg_i deg_j); "mean", 1/deg_i; "sum", 1; times the weight of the edge. Degrees are
            in-degree of i and out-degree of j, self-loops counted, weights added up.
        activation: σ, a function of tangent coordinates, or None.
        bias: "none" or "point" (a ``geoopt.ManifoldParameter``).
        input: "points" of ``in_manifold``, or "tangent": their log0, as a layer with ``output="tangent"`` gives them.
        output: "points"; "tangent": log0 of them, which saves the way to points and back between two layers; "logits":
            tangent coordinates to be read as numbers, that do not end where the points of a dtype or a sphere do.
        edge_dim: the number of attributes of an edge, which make its gate, at first near 1.
        add_self_loops, fill_value: whether a node without a self-loop gets one, and its weight and attributes (a
            number, "mean", "add", "min" or "max" over its edges; None: weight 1 and the mean of the attributes).
        residual, self_weight: add to the aggregate a node's own input, or a linear map of it.
        backend: a name of :func:`hgeo.graph.backends`, or "auto".

    Shapes:
        - graph: whatever :func:`hgeo.graph.as_graph` reads; self-loops are added where they are missing
        - x: (num_src, ambient dimension of ``in_dim``); raw features may be sparse; or a pair of them, of
          sources and of destinations, where these are two sets of nodes
        - output: (num_dst, ambient dimension of ``out_dim``), or (num_dst, ``out_dim``) if it is not points

    Initialised as :class:`Linear`, the bias at the origin.

    As c → 0: σ(Σ_j a_ij (W x_j + b)), and for "midpoint" the weighted mean, σ(Σ_j a_ij (W x_j + b) / Σ_j a_ij).

    >>> import torch, hgeo
    >>> conv = hgeo.nn.GCNConv(8, 4, hgeo.PoincareBall())
    >>> conv(torch.tensor([[0, 1, 2], [1, 2, 0]]), torch.randn(3, 8)).shape
    torch.Size([3, 4])
    """

    def __init__(
        self,
        in_dim: int | tuple[int, int],
        out_dim: int,
        manifold: Any,
        *,
        in_manifold: Any = None,
        aggregate: Literal["tangent", "midpoint", "gyrosum"] = "tangent",
        norm: Literal["sym", "mean", "sum"] = "sym",
        activation: Callable[[Tensor], Tensor] | None = torch.relu,
        bias: Literal["none", "point"] = "point",
        input: Literal["points", "tangent"] = "points",
        output: Literal["points", "tangent", "logits"] = "points",
        edge_dim: int | None = None,
        add_self_loops: bool = True,
        fill_value: FillValue = None,
        residual: bool = False,
        self_weight: bool = False,
        backend: str = "auto",
    ) -> None:
        super().__init__(
            in_manifold, manifold, in_dim, out_dim, edge_dim, add_self_loops, fill_value, residual, self_weight
        )
        choice("GCNConv", "aggregate", aggregate, ("tangent", "midpoint", "gyrosum"))
        choice("GCNConv", "norm", norm, ("sym", "mean", "sum"))
        choice("GCNConv", "bias", bias, ("none", "point"))
        choice("GCNConv", "input", input, ("points", "tangent"))
        self.aggregate, self.norm, self.backend = aggregate, norm, backend
        self.input, self.output = input, output
        self.finish = Finish(activation=activation, output=output)
        self.make_maps(out_dim, out_dim)
        self.make_edge_map(1, gate=True)
        self.bias = point_parameter(manifold, out_dim) if bias == "point" else None
        if aggregate != "tangent":  # a manifold without gyromidpoints says so now
            manifolds.lift(manifold, manifolds.exp0(manifold, torch.zeros(out_dim)))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """torch's weights for a Linear; the bias at the origin."""
        assert self.out_dim is not None
        for weight in self.maps():
            nn.init.kaiming_uniform_(weight, a=math.sqrt(5))
        if self.bias_edge is not None:
            nn.init.zeros_(self.bias_edge)
        if self.bias is not None:
            with torch.no_grad():
                self.bias.copy_(manifolds.exp0(self.manifold, self.bias.new_zeros(self.out_dim)))

    def forward(
        self,
        graph: Any,
        x: Tensor | tuple[Tensor, Tensor],
        *,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        edge_mask: Tensor | None = None,
    ) -> Tensor:
        """The output for the destinations of ``graph``, points of ``manifold`` if not told otherwise.

        Args:
            graph: whatever :func:`hgeo.graph.as_graph` reads. Self-loops are added where they are missing.
            x: a row a source node; or a pair, rows of the sources and of the destinations.
            edge_weight: (E,) numbers of at least 0, in the caller's edge order; weight 0 is no edge.
            edge_attr: (E, edge_dim) attributes.
            edge_mask: (E,) numbers that multiply the messages, after ``norm``: what explainers of a model learn.
        """
        edges = self.read(graph, x, edge_weight=edge_weight, edge_attr=edge_attr, edge_mask=edge_mask)
        u, own = self._transform(x, edges)
        source, target = _norm_factors(edges.graph, self.norm, self.weight.dtype, edges.weight)
        weights = self.factors(edges)

        def aggregated(rows: Tensor, *factors: Tensor | None) -> Tensor:
            named = dict(zip(("source", "target"), factors, strict=False))
            return weighted_sum(edges.graph, weights, rows.unsqueeze(1), **named, backend=self.backend).squeeze(1)

        if self.aggregate == "tangent":
            return self._finished(aggregated(u, source, target), own)
        # a factor of the sums makes no difference to a midpoint
        mean = manifolds.lower_rows(self.manifold, aggregated(manifolds.lift_rows(self.manifold, u, source)))
        if self.aggregate == "gyrosum":
            mean = mean * aggregated(u.new_ones(u.shape[0], 1), source, target)
        return self._finished(mean, own)

    def _transform(self, x: Tensor | tuple[Tensor, Tensor], edges: Edges) -> tuple[Tensor, Tensor | None]:
        """Tangent coordinates of (W ⊗ x) ⊕ b, and what each destination adds of its own."""
        u, own = self.rows(x, edges)
        if self.bias is None:
            return u, own
        point = manifolds.project(self.manifold, self.bias)  # its curvature may have moved since the last step
        return manifolds.translate_rows(self.manifold, u, point), own

    def _finished(self, mean: Tensor, own: Tensor | None) -> Tensor:
        return self.finish(self.manifold, (mean if own is None else mean + own).unsqueeze(1), None)

    def extra_repr(self) -> str:
        sides = "".join(
            f", {side}={kind!r}" for side in ("input", "output") if (kind := getattr(self, side)) != "points"
        )
        return f"{super().extra_repr()}, aggregate={self.aggregate!r}, norm={self.norm!r}{sides}"


_Column = Tensor | None


def _norm_factors(graph: Graph, norm: str, dtype: torch.dtype, weight: Tensor | None) -> tuple[_Column, _Column]:
    """Columns s (num_src, 1) and t (num_dst, 1), None where all are 1, with a_ij = t_i s_j.

    Without weights of the edges they are made once a graph.
    """
    if weight is not None:
        return _factors(norm, *graph.weighted_degrees(weight.squeeze(-1)))
    tracing = torch.compiler.is_compiling()
    factors: tuple[_Column, _Column] | None = None if tracing else graph.cache.get((norm, dtype))
    if factors is None:
        source, target = _factors(norm, graph.in_degrees.to(dtype), graph.out_degrees.to(dtype))
        if graph.of_all is not None:
            more = graph.of_all.to(dtype).unsqueeze(-1)
            target = more if target is None else target * more
        factors = source, target
        if not tracing:
            graph.cache[norm, dtype] = factors
    return factors


def _factors(norm: str, into: Tensor, out: Tensor) -> tuple[_Column, _Column]:
    if norm == "sum":
        return None, None
    # a node without edges, or with edges of weight 0 only, divides by nothing
    into, out = (torch.where(degrees > 0, degrees, 1.0).unsqueeze(-1) for degrees in (into, out))
    return (None, 1 / into) if norm == "mean" else (out.rsqrt(), into.rsqrt())
