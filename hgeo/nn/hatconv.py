"""Hyperbolic graph attention: attend by distance, aggregate on the manifold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hgeo import manifolds
from hgeo._geoopt import geoopt
from hgeo.graph import (
    BACKENDS,
    Aggregate,
    Distance,
    Finish,
    Plan,
    Score,
    TangentSum,
    attend,
    check_steps,
    described,
    plan,
)
from hgeo.nn._edges import Attention, Edges, FillValue, GraphLayer
from hgeo.nn._inputs import dropout, dropout_factors, edge_numbers, linear
from hgeo.nn._layer import check_shares, choice, manifold_of_heads, point_parameter

__all__ = ["HATConv"]


class HATConv(GraphLayer):
    r"""The hyperbolic graph attention layer, on any manifold with an origin frame.

    With tangent coordinates :math:`v_j` of the input (the features themselves, or :math:`\log_0` of points), and
    :math:`N_i` the in-neighbours of i and i itself,

    .. math::
        u_j &= M v_j, \qquad h_j = \exp_0(u_j) && \text{project: Möbius matrix multiplication} \\
        w_{ij} &= \mathrm{softmax}_{j \in N_i}\big(-\beta\, d(h_i, h_j)\big) && \text{attend: score="distance"} \\
        h'_i &= \exp_0\Big(\sum_{j \in N_i} w_{ij} u_j\Big) && \text{aggregate="tangent"} \\
        h'_i &= w_{ij_1} \otimes h_{j_1} \oplus w_{ij_2} \otimes h_{j_2} \oplus \cdots
             && \text{"mobius": from the left, in the order of source ids} \\
        h'_i &= \tfrac12 \otimes \frac{\sum_j w_{ij} \lambda_j h_j}{\sum_j w_{ij} (\lambda_j - 1)}
             && \text{"midpoint": the gyromidpoint} \\
        y_i &= \sigma(h'_i) && \text{activate}

    An edge of weight a adds log a to the score (0 is no edge), one with attributes f a learned term E f.
    The defaults are the equations of Zhang et al., "Hyperbolic Graph Attention Network" (AAAI 2021).

    Args:
        in_dim: intrinsic dimension of the input, -1: of the first input; a pair: of sources and of destinations.
        out_dim: intrinsic dimension of a head.
        manifold: where a head lives. With ``merge="product"`` it may be a sequence, a manifold a head.
        in_manifold: where the input lives; None: raw features, read as tangent coordinates at the origin. After another
            layer it is that one's ``manifold``: points read as raw features are no error, but not what was meant.
        heads: number of heads.
        merge: "concat": exp0 of the concatenated log0 of the heads; "mean": exp0 of their mean; "product": the output
            lies on the product of the heads' manifolds, and one attention from the product distance √Σd² serves all.
        score: "distance" or "uniform", with the options ``beta``, ``radius_norm`` and ``self_score``; or a description,
            :class:`~hgeo.graph.Distance` or :class:`~hgeo.graph.Uniform`.
        aggregate: "tangent", "mobius" (on the stereographic family) or "midpoint", with the options ``degree_norm``,
            ``steps`` and ``restart``; or a :class:`~hgeo.graph.TangentSum`, :class:`~hgeo.graph.MobiusSum` or
            :class:`~hgeo.graph.Midpoint`.
        activation: a function of tensors, or None.
        activation_space: "ball": σ acts on the coordinates of the point, then projects; "tangent": on its tangent
            coordinates at the origin. Default: "ball" on the stereographic family, "tangent" elsewhere.
        bias: "none"; "tangent": added to the aggregated tangent coordinates; "point": a point of the manifold, added by
            Möbius addition (elsewhere: exponential map of its transported logarithm), a ``geoopt.ManifoldParameter``.
        input: "points" of ``in_manifold``, or "tangent": their log0, as a layer with ``output="tangent"`` gives them.
        output: "points"; "tangent": log0 of them, which saves the way to points and back between two layers; "logits":
            tangent coordinates to be read as numbers, that do not end where the points of a dtype or a sphere do.
        feat_drop: dropout of input coordinates.
        attn_drop: dropout of attention weights, anew in each step.
        edge_dim: the number of attributes of an edge, whose learned linear map is a term of the score.
        add_self_loops, fill_value: whether a node without a self-loop gets one, and its weight and attributes (a
            number, "mean", "add", "min" or "max" over its edges; None: weight 1 and the mean of the attributes).
        residual, self_weight: add to the aggregate a node's own input, or a linear map of it.
        backend: a name of :func:`hgeo.graph.backends`, or "auto".
        options: those of the score and the aggregate, where words stand for these.

    Attributes:
        score, aggregate, finish: what the layer does after the projection.
        in_dim, out_dim: intrinsic dimensions of input and head; ``output_dim`` is that of the merged output.

    Shapes:
        - x: (num_src, in_dim), dense or sparse (torch COO or CSR, raw features only); points of ``in_manifold`` in its
          own coordinates. Where sources and destinations are two sets of nodes, a pair of these.
        - output: (num_dst, ambient dimension of ``output_dim``), or (num_dst, ``output_dim``) if it is not points.

    As c → 0 on the stereographic family: distance attention in flat space, :math:`\sigma(\sum_j w_{ij} W x_j)` with
    :math:`w_{ij}` the softmax of :math:`-2\beta|W x_i - W x_j|`.

    Example:
        >>> import torch, hgeo
        >>> conv = hgeo.nn.HATConv(8, 4, hgeo.PoincareBall(c=1.0), heads=2)
        >>> edge_index = torch.tensor([[0, 1, 2], [1, 2, 0]])
        >>> y, attention = conv(edge_index, torch.randn(3, 8), return_attention=True)
        >>> y.shape, attention.edges.shape, attention.loops.shape
        (torch.Size([3, 8]), torch.Size([3, 2]), torch.Size([3, 2]))
        >>> following = hgeo.nn.HATConv(conv.output_dim, 2, conv.manifold, in_manifold=conv.manifold)
        >>> following(edge_index, y).shape
        torch.Size([3, 2])
    """

    def __init__(
        self,
        in_dim: int | tuple[int, int],
        out_dim: int,
        manifold: geoopt.Manifold | Sequence[geoopt.Manifold],
        *,
        in_manifold: geoopt.Manifold | None = None,
        heads: int = 1,
        merge: Literal["concat", "mean", "product"] = "concat",
        score: Score | Literal["distance", "uniform"] = "distance",
        aggregate: Aggregate | Literal["tangent", "mobius", "midpoint"] = "tangent",
        activation: Callable[[Tensor], Tensor] | None = F.elu,
        activation_space: Literal["ball", "tangent"] | None = None,
        bias: Literal["none", "tangent", "point"] = "none",
        input: Literal["points", "tangent"] = "points",
        output: Literal["points", "tangent", "logits"] = "points",
        feat_drop: float = 0.0,
        attn_drop: float = 0.0,
        edge_dim: int | None = None,
        add_self_loops: bool = True,
        fill_value: FillValue = None,
        residual: bool = False,
        self_weight: bool = False,
        backend: str = "auto",
        **options: Any,
    ) -> None:
        there = manifold_of_heads("HATConv", manifold, out_dim, heads, merge)
        super().__init__(in_manifold, there, in_dim, None, edge_dim, add_self_loops, fill_value, residual, self_weight)
        for name, value, choices in (
            ("merge", merge, ("concat", "mean", "product")),
            ("input", input, ("points", "tangent")),
            ("backend", backend, ("auto", *BACKENDS)),
        ):
            choice("HATConv", name, value, choices)
        check_shares("HATConv", feat_drop=feat_drop, attn_drop=attn_drop)
        self.out_dim, self.heads, self.merge = out_dim, heads, merge
        self.output_dim = out_dim if merge == "mean" else out_dim * heads
        self.attentions = 1 if merge == "product" else heads  # the heads of a product attend together
        self.input, self.output = input, output
        self.feat_drop, self.attn_drop, self.backend = feat_drop, attn_drop, backend
        score = options.pop("attention", score)  # the older name of ``score``
        self.score, self.aggregate = described("HATConv", score, aggregate, options)
        where = activation_space or ("ball" if manifolds.has_mobius(self.manifold) else "tangent")
        self.finish = Finish("mean" if merge == "mean" else "concat", bias, activation, where, output)
        check_steps(self.manifold, self.output_dim, self.finish, self.score, self.aggregate)
        self.make_maps(heads * out_dim, self.output_dim)
        self.make_edge_map(self.attentions, gate=False)
        learns = isinstance(self.score, Distance) and self.score.beta == "learn"
        self.log_beta = nn.Parameter(torch.zeros(self.attentions)) if learns else None
        self.bias: Tensor | None = None
        if bias == "tangent":
            self.bias = nn.Parameter(torch.zeros(self.output_dim))
        elif bias == "point":
            self.bias = point_parameter(self.manifold, self.output_dim)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Glorot's uniform weights; no bias; β = 1 where it is learned."""
        for weight in self.maps():
            nn.init.xavier_uniform_(weight)
        with torch.no_grad():
            if self.log_beta is not None:
                self.log_beta.zero_()
            if self.bias is not None:
                zero = self.bias.new_zeros(self.output_dim)
                self.bias.copy_(manifolds.exp0(self.manifold, zero) if self.finish.bias == "point" else zero)

    def forward(
        self,
        graph: Any,
        x: Tensor | tuple[Tensor, Tensor],
        return_attention: bool = False,
        *,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        edge_bias: Tensor | None = None,
        edge_mask: Tensor | None = None,
        mean_radius: Tensor | None = None,
    ) -> Any:
        """The output for the destinations of ``graph``; with ``return_attention`` also an :class:`Attention`.

        Args:
            graph: whatever :func:`hgeo.graph.as_graph` reads.
            x: a row a source node; or a pair, rows of the sources and of the destinations.
            edge_weight: (E,) numbers of at least 0, in the caller's edge order, which multiply exp of the scores.
            edge_attr: (E, edge_dim) attributes.
            edge_bias: (E,), (E, 1) or (E, heads) numbers, added to the scores.
            edge_mask: (E,) factors of the messages, after the softmax: what explainers learn.
            mean_radius: (heads,) what ``radius_norm`` divides by in a part of a graph; None: the mean over the sources.
        """
        edges = self.read(graph, x, edge_weight=edge_weight, edge_attr=edge_attr, edge_mask=edge_mask)
        u, own = self.rows(x, edges)
        y, weights = attend(
            edges.graph,
            u.unflatten(1, (self.attentions, -1)),
            self.manifold,
            *self.steps,
            bias=self.bias,
            mean_radius=mean_radius,
            **self._terms(edges, edge_bias, own, return_attention),
        )
        return (y, Attention(*edges.graph.to_caller_order(weights))) if weights is not None else y

    @property
    def needs_mean_radius(self) -> bool:
        """Whether the score divides by the mean radius of all nodes."""
        return isinstance(self.score, Distance) and self.score.radius_norm

    def radii(self, x: Tensor) -> Tensor:
        """(nodes, heads) radii of projected rows, whose mean over a whole graph is its ``mean_radius``."""
        u = linear(self.coordinates(x), self.weight).to(self.weight.dtype)
        return torch.linalg.vector_norm(u.view(x.shape[0], self.heads, -1), dim=-1)

    @property
    def steps(self) -> tuple[Score, Aggregate, Finish]:
        """What follows the projection."""
        return self.score, self.aggregate, self.finish

    def coordinates(self, x: Tensor) -> Tensor:
        """Tangent coordinates v of the input, after dropout."""
        v = super().coordinates(x)
        return dropout(v, self.feat_drop) if self.training and self.feat_drop else v

    def _terms(self, edges: Edges, edge_bias: Tensor | None, own: Tensor | None, return_attention: bool) -> Any:
        """The arguments of ``attend`` beside the rows u."""
        given = edge_numbers("edge_bias", edge_bias, edges.given, self.attentions)
        biases = [] if given is None else [edges.graph.from_caller_order(given)]
        biases += [] if edges.attr is None else [self.edge_rows(edges.attr)]
        shape, drops = (edges.graph.num_edges, self.attentions), self.training and self.attn_drop
        return {
            "beta": None if self.log_beta is None else self.log_beta.exp(),
            "edge_weight": edges.weight,
            "edge_bias": sum(biases) if biases else None,
            "edge_mask": edges.mask,
            "edge_factors": (lambda: dropout_factors(self.weight, shape, self.attn_drop)) if drops else None,
            "own": None if own is None else own.unflatten(1, (-1, self.weight.shape[0] // self.attentions)),
            "radius_groups": self.heads // self.attentions,
            "return_weights": return_attention,
            "backend": self.backend,
        }

    def plan(self, graph: Any, *, return_attention: bool = False, **of_edges: Any) -> Plan:
        """How ``forward`` with these arguments attends, aggregates and activates on this graph; print it."""
        edges = self.arranged(graph, **of_edges)
        u = self.weight[:, :1].t().expand(edges.graph.num_src, -1).unflatten(1, (self.attentions, -1))
        own = u[:1].flatten(1) if self.residual or self.self_weight else None
        return plan(edges.graph, u, self.manifold, *self.steps, **self._terms(edges, None, own, return_attention))

    def extra_repr(self) -> str:
        usual = {"heads": 1, "merge": "concat", "score": Distance(), "aggregate": TangentSum(), "input": "points"}
        usual |= {"output": "points", "feat_drop": 0.0, "attn_drop": 0.0, "backend": "auto"}
        shown = [f"{name}={getattr(self, name)!r}" for name, value in usual.items() if getattr(self, name) != value]
        shown += [] if self.finish.bias == "none" else [f"bias={self.finish.bias!r}"]
        return ", ".join([super().extra_repr(), *shown])
