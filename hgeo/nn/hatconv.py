"""Hyperbolic graph attention: attend by distance, aggregate on the manifold."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hgeo import manifolds
from hgeo import math as hm
from hgeo._geoopt import geoopt
from hgeo.graph import (
    Graph,
    distance_attention,
    edge_distance,
    edge_softmax,
    midpoint,
    mobius_sum,
    self_distance_as_mean,
    weighted_sum,
)
from hgeo.nn._inputs import (
    check_features,
    constant_curvature,
    dropout,
    is_stereographic,
    linear,
    project,
    read_graph,
    translate,
)

__all__ = ["Attention", "HATConv"]


class Attention(NamedTuple):
    """Attention weights of a layer.

    Attributes:
        edges: (E, heads) of the caller's edges, in the caller's order.
        loops: (num_dst, heads) of the self-loops that the layer added; 0 for a node that had one already, whose weight
            stands among ``edges``.
    """

    edges: Tensor
    loops: Tensor


class HATConv(nn.Module):
    r"""The hyperbolic graph attention layer, on any manifold with an origin frame.

    With tangent coordinates :math:`v_j` of the input (the features themselves, or :math:`\log_0` of points), and
    :math:`N_i` the in-neighbours of i and i itself,

    .. math::
        u_j &= M v_j, \qquad h_j = \exp_0(u_j) && \text{project: Möbius matrix multiplication} \\
        w_{ij} &= \mathrm{softmax}_{j \in N_i}\big(-\beta\, d(h_i, h_j)\big) && \text{attend} \\
        h'_i &= \exp_0\Big(\sum_{j \in N_i} w_{ij} u_j\Big) && \text{aggregate: "tangent"} \\
        h'_i &= w_{ij_1} \otimes h_{j_1} \oplus w_{ij_2} \otimes h_{j_2} \oplus \cdots
             && \text{"mobius": from the left, in the order of source ids} \\
        h'_i &= \tfrac12 \otimes \frac{\sum_j w_{ij} \lambda_j h_j}{\sum_j w_{ij} (\lambda_j - 1)}
             && \text{"midpoint": the gyromidpoint} \\
        y_i &= \sigma(h'_i) && \text{activate}

    The defaults are the equations of Zhang et al., "Hyperbolic Graph Attention Network" (AAAI 2021).

    Args:
        in_dim: intrinsic dimension of the input.
        out_dim: intrinsic dimension of a head.
        manifold: where a head lives. With ``merge="product"`` it may be a sequence, a manifold a head.
        in_manifold: where the input lives; None: raw features, read as tangent coordinates at the origin.
        heads: number of heads.
        merge: "concat": exp0 of the concatenated log0 of the heads; "mean": exp0 of their mean; "product": the output
            lies on the product of the heads' manifolds, and one attention from the product distance √Σd² serves all.
        aggregate: "tangent", "mobius" or "midpoint"; the last two on the stereographic family.
        attention: "distance", or "uniform": the same weight for every neighbour.
        beta: β > 0, or "learn": one β a head, starting at 1, kept positive as exp of the parameter ``log_beta``.
        radius_norm: compute the scores from :math:`u_j / \bar r`, where :math:`\bar r` is the mean of :math:`|u_j|`
            over the sources, a head (gradients flow through it). The attention then does not depend on how far out the
            points lie.
        self_score: distance of a node to itself in the scores: "zero", as it is, or "mean", the mean distance to its
            other neighbours.
        degree_norm: aggregate :math:`w_{ij}\sqrt{\deg_i/\deg_j}` instead of :math:`w_{ij}` (in-degree of i, out-degree
            of j, self-loops counted): with uniform weights that is a GCN's :math:`1/\sqrt{\deg_i \deg_j}`. The midpoint
            normalises by its weights, so that there only :math:`\deg_j` acts.
        activation: a function of tensors, or None.
        activation_space: "ball": σ acts on the coordinates of the point, then projects; "tangent": on its tangent
            coordinates at the origin. Default: "ball" on the stereographic family, "tangent" elsewhere.
        bias: "none"; "tangent": added to the aggregated tangent coordinates; "point": a point of the manifold, added by
            Möbius addition (elsewhere: exponential map of its transported logarithm), a ``geoopt.ManifoldParameter``.
        feat_drop: dropout of input coordinates.
        attn_drop: dropout of attention weights.
        backend: a name of :func:`hgeo.graph.backends`, or "auto".

    Attributes:
        in_manifold, manifold: where input and output live.
        in_dim, out_dim: intrinsic dimensions of input and head; ``output_dim`` is that of the merged output.

    Shapes:
        - x: (num_src, in_dim), dense or sparse (torch COO or CSR, raw features only); points of ``in_manifold`` in its
          own coordinates.
        - output: (num_dst, ambient dimension of ``output_dim``).

    Example:
        >>> import torch, hgeo
        >>> conv = hgeo.nn.HATConv(8, 4, hgeo.PoincareBall(c=1.0), heads=2)
        >>> edge_index = torch.tensor([[0, 1, 2], [1, 2, 0]])
        >>> y, attention = conv(edge_index, torch.randn(3, 8), return_attention=True)
        >>> y.shape, attention.edges.shape, attention.loops.shape
        (torch.Size([3, 8]), torch.Size([3, 2]), torch.Size([3, 2]))
    """

    def __init__(
        self,
        in_dim: int,
        out_dim: int,
        manifold: geoopt.Manifold | Sequence[geoopt.Manifold],
        *,
        in_manifold: geoopt.Manifold | None = None,
        heads: int = 1,
        merge: Literal["concat", "mean", "product"] = "concat",
        aggregate: Literal["tangent", "mobius", "midpoint"] = "tangent",
        attention: Literal["distance", "uniform"] = "distance",
        beta: float | Literal["learn"] = 1.0,
        radius_norm: bool = False,
        self_score: Literal["zero", "mean"] = "zero",
        degree_norm: bool = False,
        activation: Callable[[Tensor], Tensor] | None = F.elu,
        activation_space: Literal["ball", "tangent"] | None = None,
        bias: Literal["none", "tangent", "point"] = "none",
        feat_drop: float = 0.0,
        attn_drop: float = 0.0,
        backend: str = "auto",
    ) -> None:
        super().__init__()
        for name, value, choices in (
            ("merge", merge, ("concat", "mean", "product")),
            ("aggregate", aggregate, ("tangent", "mobius", "midpoint")),
            ("attention", attention, ("distance", "uniform")),
            ("self_score", self_score, ("zero", "mean")),
            ("activation_space", activation_space, ("ball", "tangent", None)),
            ("bias", bias, ("none", "tangent", "point")),
        ):
            if value not in choices:
                raise ValueError(f"{name} must be one of {choices}, got {value!r}")
        for name, count in (("in_dim", in_dim), ("out_dim", out_dim), ("heads", heads)):
            if not isinstance(count, int) or count < 1:
                raise ValueError(f"{name} must be a positive integer, got {count!r}")
        for name, share in (("feat_drop", feat_drop), ("attn_drop", attn_drop)):
            if not 0.0 <= share < 1.0:
                raise ValueError(f"{name} must lie in [0, 1), got {share!r}")
        if beta != "learn" and not (isinstance(beta, int | float) and 0 < beta < math.inf):
            raise ValueError(f"beta must be a positive number or 'learn', got {beta!r}")

        self.in_dim, self.out_dim, self.heads, self.merge = in_dim, out_dim, heads, merge
        self.output_dim = out_dim if merge == "mean" else out_dim * heads
        self.aggregate, self.attention, self.self_score = aggregate, attention, self_score
        self.radius_norm, self.degree_norm = radius_norm, degree_norm
        self.feat_drop, self.attn_drop, self.backend = feat_drop, attn_drop, backend
        self.activation = activation
        self.in_manifold = in_manifold
        self.manifold = _output_manifold(manifold, out_dim, heads, merge)
        # both say what is wrong if the manifold has no such dimension
        self._in_numbers = in_dim if in_manifold is None else manifolds.ambient_dim(in_manifold, in_dim)
        manifolds.ambient_dim(self.manifold, self.output_dim)
        stereographic = is_stereographic(self.manifold)
        if aggregate != "tangent" and not stereographic:
            raise ValueError(
                f"aggregate={aggregate!r} needs Möbius operations, which {self.manifold} does not have; "
                f"use aggregate='tangent', or a manifold of the stereographic family"
            )
        if activation_space == "ball" and activation is not None and not stereographic:
            raise ValueError(
                f"activation_space='ball' needs ball coordinates, which {self.manifold} lacks; use 'tangent'"
            )
        self.activation_space = activation_space or ("ball" if stereographic else "tangent")

        self.weight = nn.Parameter(torch.empty(heads * out_dim, in_dim))
        self.beta = beta
        attentions = 1 if merge == "product" else heads
        self.log_beta = nn.Parameter(torch.zeros(attentions)) if beta == "learn" else None
        self.bias: Tensor | None = None
        if bias == "tangent":
            self.bias = nn.Parameter(torch.zeros(self.output_dim))
        elif bias == "point":
            origin = manifolds.exp0(self.manifold, torch.zeros(self.output_dim)).detach()
            self.bias = geoopt.ManifoldParameter(origin, manifold=self.manifold)
        self.bias_kind = bias
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Glorot's uniform weights; no bias; β = 1 where it is learned."""
        nn.init.xavier_uniform_(self.weight)
        with torch.no_grad():
            if self.log_beta is not None:
                self.log_beta.zero_()
            if self.bias is not None:
                zero = self.weight.new_zeros(self.output_dim)
                self.bias.copy_(manifolds.exp0(self.manifold, zero) if self.bias_kind == "point" else zero)

    def forward(
        self,
        graph: Any,
        x: Tensor,
        return_attention: bool = False,
        *,
        edge_bias: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, Attention]:
        """Points of ``manifold`` for the destinations of ``graph``.

        Args:
            graph: whatever :func:`hgeo.graph.as_graph` reads. Self-loops are added where they are missing.
            x: a row a source node.
            return_attention: also return :class:`Attention`.
            edge_bias: (E,), (E, 1) or (E, heads) numbers in the caller's edge order, added to the scores.
        """
        given = read_graph(graph, x)
        check_features(self, x, self._in_numbers, self.weight)
        looped = given.with_self_loops()
        u = self._project(x)
        out, weights = self._attend(looped, u, self._edge_bias(given, looped, edge_bias))
        y = self._activate(self._merge(out))
        if not return_attention:
            return y
        assert weights is not None
        return y, Attention(*looped.to_caller_order(weights))

    # --- project ---

    def _project(self, x: Tensor) -> Tensor:
        """(num_src, heads, out_dim) tangent coordinates u = M v of the Möbius product M ⊗ exp0(v)."""
        if self.in_manifold is None:
            v = x
        else:  # carried from one tangent space to the other with its Riemannian length
            ratio = manifolds.frame_scale(self.in_manifold) / manifolds.frame_scale(self.manifold)
            v = manifolds.log0(self.in_manifold, x) * ratio
        if self.training and self.feat_drop:
            v = dropout(v, self.feat_drop)
        # Autocast may multiply in a lower precision; the geometry goes on in that of the weights.
        return linear(v, self.weight).to(self.weight.dtype).view(-1, self.heads, self.out_dim)

    # --- attend and aggregate ---

    def _attend(self, graph: Graph, u: Tensor, edge_bias: Tensor | None) -> tuple[Tensor, Tensor]:
        """(num_dst, heads, out_dim) tangent coordinates of the aggregated points, and the (E, heads) weights."""
        drop = None
        if self.training and self.attn_drop:
            drop = F.dropout(u.new_ones(graph.num_edges, self._attentions), self.attn_drop)
        source_scale = graph.out_degrees.clamp(min=1).to(u.dtype).rsqrt() if self.degree_norm else None
        k = self._curvature()
        if k is not None and self.attention == "distance" and self.aggregate == "tangent" and self.merge != "product":
            out, weights = distance_attention(
                graph,
                u,
                k=k,
                beta=self._beta(),
                score_scale=self._score_scale(u, k),
                edge_bias=edge_bias,
                edge_factor=drop,
                value_scale=source_scale,
                self_score=self.self_score,
                return_weights=True,
                backend=self.backend,
            )
            assert weights is not None
        else:
            scores = u.new_zeros(graph.num_edges, self._attentions)
            if self.attention == "distance":
                distance = self._distance(graph, u, k)
                if self.self_score == "mean":
                    distance = self_distance_as_mean(graph, distance)
                scores = -self._beta() * distance
            weights = edge_softmax(graph, scores if edge_bias is None else scores + edge_bias, backend=self.backend)
            out = self._aggregate(graph, weights if drop is None else weights * drop, u, source_scale)
        if self.degree_norm and self.aggregate == "tangent":
            out = out * graph.in_degrees.to(u.dtype).sqrt().view(-1, 1, 1)
        return out, weights

    def _distance(self, graph: Graph, u: Tensor, k: Tensor | None) -> Tensor:
        """(E, heads) distances for the scores; (E, 1) on a product."""
        scale = self._score_scale(u, k)
        u = u if scale is None else scale.view(-1, 1) * u
        if k is not None:
            p = hm.project(hm.expmap0(u, k=k.view(-1, 1)), k=k.view(-1, 1))
            distance = edge_distance(graph, p, k=k, backend=self.backend)
            return hm.safe_sqrt(distance.square().sum(1, keepdim=True)) if self.merge == "product" else distance
        p = manifolds.exp0(self.manifold, u.flatten(1).unsqueeze(1) if self.merge == "product" else u)
        return manifolds.dist(self.manifold, p[graph.row], p[graph.col])

    def _aggregate(self, graph: Graph, weights: Tensor, u: Tensor, source_scale: Tensor | None) -> Tensor:
        if self.aggregate == "tangent":
            values = u if source_scale is None else source_scale.view(-1, 1, 1) * u
            return weighted_sum(graph, weights, values, backend=self.backend)
        if source_scale is not None:
            weights = weights * source_scale[graph.col].unsqueeze(-1)
        weights = weights.expand(-1, self.heads)
        k = self._curvature()
        assert k is not None
        k = k.expand(self.heads).to(u.dtype)
        if self.aggregate == "mobius":
            if self.degree_norm:
                weights = weights * graph.in_degrees.to(u.dtype).sqrt()[graph.row].unsqueeze(-1)
            return hm.logmap0(mobius_sum(graph, weights, u, k=k), k=k.view(-1, 1))
        return hm.logmap0(midpoint(graph, weights, u, k=k, backend=self.backend), k=k.view(-1, 1))

    # --- activate ---

    def _merge(self, heads: Tensor) -> Tensor:
        """(num_dst, output_dim) tangent coordinates."""
        return heads.mean(1) if self.merge == "mean" else heads.flatten(1)

    def _activate(self, tangent: Tensor) -> Tensor:
        """Points of the output manifold: bias and activation act where the layer was told to."""
        if self.bias is not None and self.bias_kind == "tangent":
            tangent = tangent + self.bias
        elif self.bias is not None:
            moved = translate(self.manifold, manifolds.exp0(self.manifold, tangent), self.bias)
            if self.activation is None or self.activation_space == "ball":
                return self._activate_point(moved)
            tangent = manifolds.log0(self.manifold, moved)
        if self.activation is not None and self.activation_space == "tangent":
            return manifolds.exp0(self.manifold, self.activation(tangent))
        return self._activate_point(manifolds.exp0(self.manifold, tangent))

    def _activate_point(self, y: Tensor) -> Tensor:
        return y if self.activation is None else project(self.manifold, self.activation(y))

    # --- what the steps need ---

    @property
    def _attentions(self) -> int:
        return 1 if self.merge == "product" else self.heads

    def _beta(self) -> float | Tensor:
        return float(self.beta) if self.log_beta is None else self.log_beta.exp()

    def _curvature(self) -> Tensor | None:
        """(1,) or (heads,) curvature of the heads where each has constant curvature, else None."""
        factors = self.manifold.manifolds if self.merge == "product" else [self.manifold]
        known = [k.to(self.weight) for k in map(constant_curvature, factors) if k is not None]
        return torch.stack(known) if len(known) == len(factors) else None

    def _score_scale(self, u: Tensor, k: Tensor | None) -> Tensor | None:
        """(heads,) factor between u and the coordinates that the scores are computed from; None: 1."""
        scale = None
        if self.radius_norm:
            radius = torch.linalg.vector_norm(u, dim=-1)
            known = ~radius.isnan()  # a NaN row must not reach nodes that do not see it
            mean = torch.where(known, radius, 0.0).sum(0) / known.sum(0).clamp(min=1)
            scale = 1 / mean.clamp(min=torch.finfo(u.dtype).tiny)
        if k is not None and manifolds.frame_scale(self.manifold) != 2:
            # the stereographic model of the same curvature, on which a unit coordinate vector has length 2
            half = manifolds.frame_scale(self.manifold) / 2
            scale = u.new_full((self.heads,), half) if scale is None else scale * half
        return scale

    def _edge_bias(self, given: Graph, looped: Graph, edge_bias: Tensor | None) -> Tensor | None:
        """The caller's numbers in the edge order of the graph with self-loops."""
        if edge_bias is not None:
            if edge_bias.shape[:1] != (given.num_edges,) or edge_bias[:1].numel() not in (0, 1, self._attentions):
                raise ValueError(
                    f"edge_bias must have shape ({given.num_edges},) or ({given.num_edges}, {self._attentions}), "
                    f"a number an edge in your edge order; got {tuple(edge_bias.shape)}"
                )
            edge_bias = looped.from_caller_order(edge_bias.view(given.num_edges, -1))
        if looped.padding is not None:
            none = torch.where(looped.padding, -torch.inf, 0.0).to(self.weight.dtype).unsqueeze(-1)
            edge_bias = none if edge_bias is None else edge_bias + none
        return edge_bias

    def extra_repr(self) -> str:
        parts = [f"{self.in_dim}, {self.out_dim}"]
        for name, default in _DEFAULTS.items():
            value = getattr(self, name)
            if value != default:
                parts.append(f"{name}={value!r}")
        if self.bias_kind != "none":
            parts.append(f"bias={self.bias_kind!r}")
        return ", ".join(parts)


_DEFAULTS = {
    "heads": 1,
    "merge": "concat",
    "aggregate": "tangent",
    "attention": "distance",
    "beta": 1.0,
    "radius_norm": False,
    "self_score": "zero",
    "degree_norm": False,
    "feat_drop": 0.0,
    "attn_drop": 0.0,
    "backend": "auto",
}


def _output_manifold(manifold: Any, out_dim: int, heads: int, merge: str) -> Any:
    factors = list(manifold) if isinstance(manifold, list | tuple) else [manifold] * heads
    for factor in factors:
        if not isinstance(factor, geoopt.Manifold):
            raise TypeError(f"manifold must be a geoopt manifold, got {type(factor).__name__}: {factor!r}")
    if merge == "product":
        if len(factors) != heads:
            raise ValueError(f"a sequence of manifolds must have one a head: got {len(factors)} for {heads} heads")
        return manifolds.Product(*[(factor, out_dim) for factor in factors])
    if isinstance(manifold, list | tuple):
        raise ValueError(f"a sequence of manifolds is for merge='product'; got merge={merge!r}")
    return manifold
