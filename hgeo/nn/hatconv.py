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
    BACKENDS,
    Graph,
    distance_attention,
    edge_distance,
    edge_softmax,
    mobius_sum,
    self_distance_as_mean,
    weighted_sum,
)
from hgeo.nn import _geometry
from hgeo.nn._diffusion import diffuse
from hgeo.nn._inputs import (
    check_features,
    constant_curvature,
    dropout,
    dropout_factors,
    is_stereographic,
    linear,
    log0_undoes_exp0,
    read_graph,
)
from hgeo.nn._layer import Layer, carry_factor, choice, coordinates, describe, point_parameter, positive
from hgeo.nn._radius import mean_radius, within_radius

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


class HATConv(Layer):
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

    With several ``steps`` the tangent sum is walked again and again along the same weights, from :math:`z = u` on, and
    a is the share of the own vector with which a step restarts:

    .. math:: z_i \leftarrow (1 - a) \sum_{j \in N_i} w_{ij} z_j + a\, u_i, \qquad h'_i = \exp_0(z_i)

    The defaults are the equations of Zhang et al., "Hyperbolic Graph Attention Network" (AAAI 2021).

    Args:
        in_dim: intrinsic dimension of the input.
        out_dim: intrinsic dimension of a head.
        manifold: where a head lives. With ``merge="product"`` it may be a sequence, a manifold a head.
        in_manifold: where the input lives; None: raw features, read as tangent coordinates at the origin. After another
            layer it is that one's ``manifold``: points read as raw features are no error, but not what was meant.
        heads: number of heads.
        merge: "concat": exp0 of the concatenated log0 of the heads; "mean": exp0 of their mean; "product": the output
            lies on the product of the heads' manifolds, and one attention from the product distance √Σd² serves all.
        aggregate: "tangent", "mobius" (on the stereographic family) or "midpoint".
        steps: how often ``aggregate="tangent"`` is walked along the attention, on a graph whose sources are its
            destinations; 1, as in the paper: the neighbours alone.
        restart: a, in [0, 1); a single step has none.
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
        attn_drop: dropout of attention weights, anew in each step.
        backend: a name of :func:`hgeo.graph.backends`, or "auto".

    Attributes:
        in_manifold, manifold: where input and output live.
        in_dim, out_dim: intrinsic dimensions of input and head; ``output_dim`` is that of the merged output.

    Shapes:
        - x: (num_src, in_dim), dense or sparse (torch COO or CSR, raw features only); points of ``in_manifold`` in its
          own coordinates.
        - output: (num_dst, ambient dimension of ``output_dim``).

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
        in_dim: int,
        out_dim: int,
        manifold: geoopt.Manifold | Sequence[geoopt.Manifold],
        *,
        in_manifold: geoopt.Manifold | None = None,
        heads: int = 1,
        merge: Literal["concat", "mean", "product"] = "concat",
        aggregate: Literal["tangent", "mobius", "midpoint"] = "tangent",
        steps: int = 1,
        restart: float = 0.1,
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
        super().__init__(in_manifold, _output_manifold(manifold, out_dim, heads, merge), in_dim)
        for name, value, choices in (
            ("merge", merge, ("concat", "mean", "product")),
            ("aggregate", aggregate, ("tangent", "mobius", "midpoint")),
            ("attention", attention, ("distance", "uniform")),
            ("self_score", self_score, ("zero", "mean")),
            ("activation_space", activation_space, ("ball", "tangent", None)),
            ("bias", bias, ("none", "tangent", "point")),
            ("backend", backend, ("auto", *BACKENDS)),
        ):
            choice("HATConv", name, value, choices)
        for name, flag in (("radius_norm", radius_norm), ("degree_norm", degree_norm)):
            choice("HATConv", name, flag, (False, True))
        positive("HATConv", "steps", steps)
        if steps > 1 and aggregate != "tangent":
            raise ValueError(f"HATConv: several steps are walked with aggregate='tangent' only, got {aggregate!r}")
        for name, share in (("feat_drop", feat_drop), ("attn_drop", attn_drop), ("restart", restart)):
            if not isinstance(share, int | float) or not 0.0 <= share < 1.0:
                raise ValueError(f"HATConv: {name} must lie in [0, 1), got {share!r}")
        if activation is not None and not callable(activation):
            raise TypeError(f"HATConv: activation must be a function of tensors or None, got {activation!r}")
        if beta != "learn" and not (isinstance(beta, int | float) and 0 < beta < math.inf):
            raise ValueError(f"HATConv: beta must be a positive number or 'learn', got {beta!r}")

        self.out_dim, self.heads, self.merge = out_dim, heads, merge
        self.output_dim = out_dim if merge == "mean" else out_dim * heads
        self.aggregate, self.attention, self.self_score = aggregate, attention, self_score
        self.steps, self.restart = steps, restart
        self.radius_norm, self.degree_norm = radius_norm, degree_norm
        self.feat_drop, self.attn_drop, self.backend = feat_drop, attn_drop, backend
        self.activation, self.beta, self.bias_kind = activation, beta, bias
        self.weight = nn.Parameter(torch.empty(heads * out_dim, in_dim))
        self._check_manifold(activation_space)
        self.activation_space = activation_space or ("ball" if is_stereographic(self.manifold) else "tangent")
        self.log_beta = nn.Parameter(torch.zeros(self._attentions)) if beta == "learn" else None
        self.bias: Tensor | None = None
        if bias == "tangent":
            self.bias = nn.Parameter(torch.zeros(self.output_dim))
        elif bias == "point":
            self.bias = point_parameter(self.manifold, self.output_dim)
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
        assert self._numbers is not None
        check_features(self, x, self._numbers, self.weight)
        looped = self._with_loops(given)
        u = self._project(x)
        at_once = self._ends_at_once
        out, weights = self._attend(looped, u, self._edge_bias(given, looped, edge_bias), return_attention, at_once)
        y = out if at_once else self._activate(self._merge(out))
        return (y, Attention(*looped.to_caller_order(weights))) if weights is not None and return_attention else y

    def tangent(self, graph: Any, v: Tensor, *, limited: bool = True) -> Tensor:
        """log0 of the output, from tangent coordinates ``v`` of an input: log0(forward(graph, exp0(v))).

        Layers in a row may hand these on. Where bias and activation act in the tangent space of a space of curvature
        k ≤ 0, no point is needed in between, and of exp0 and log0 only the radius limit of the output remains.
        ``limited=False`` leaves that out, too, where the space is never positively curved: what is read out as
        numbers, as logits are, then ends where it would in exact arithmetic, not where the points of a dtype end.
        """
        free = not limited and self._acts_in_tangent_space and log0_undoes_exp0(self.manifold)
        if not (free or self.stays_tangent):
            x = v if self.in_manifold is None else manifolds.exp0(self.in_manifold, v)
            return manifolds.log0(self.manifold, self(graph, x))
        looped = self._with_loops(read_graph(graph, v))
        assert self.in_dim is not None
        check_features(self, v, self.in_dim, self.weight)
        out, _ = self._attend(looped, self._project(v, tangent=True), None, False, False)
        out = self._merge(out)
        out = out if self.bias is None else out + self.bias
        out = out if self.activation is None else self.activation(out)
        k = None if free else manifolds.stereographic_curvature(self.manifold)
        return out if k is None else within_radius(out, k)

    @property
    def stays_tangent(self) -> bool:
        """Whether :meth:`tangent` does without points. A curvature is not looked at on a GPU or while compiling."""
        k = manifolds.stereographic_curvature(self.manifold)
        return (
            k is not None
            and k.device.type == "cpu"
            and not torch.compiler.is_compiling()
            and self._acts_in_tangent_space
            and float(k.detach()) <= 0
        )

    @property
    def _acts_in_tangent_space(self) -> bool:
        return (self.activation is None or self.activation_space == "tangent") and self.bias_kind != "point"

    def _with_loops(self, given: Graph) -> Graph:
        if self.steps > 1 and given.num_src != given.num_dst:
            raise ValueError(
                f"HATConv: {self.steps} steps need a graph whose sources are its destinations, got a block from "
                f"{given.num_src} to {given.num_dst} nodes; use steps=1, or the graph of all the block's sources"
            )
        return given.with_self_loops()

    # --- project ---

    def _project(self, x: Tensor, tangent: bool = False) -> Tensor:
        """(num_src, heads, out_dim) tangent coordinates u = M v of the Möbius product M ⊗ exp0(v)."""
        v = x if tangent else coordinates(self.in_manifold, x)
        factor = carry_factor(self.in_manifold, self.manifold)
        v = v if factor == 1 else v * factor
        if self.training and self.feat_drop:
            v = dropout(v, self.feat_drop)
        # Autocast may multiply in a lower precision; the geometry goes on in that of the weights.
        weight = self.weight
        return linear(v, weight).to(weight.dtype).view(x.shape[0], self.heads, weight.shape[0] // self.heads)

    # --- attend and aggregate ---

    def _attend(
        self, graph: Graph, u: Tensor, edge_bias: Tensor | None, return_weights: bool, at_once: bool
    ) -> tuple[Tensor, Tensor | None]:
        """(num_dst, heads, out_dim) tangent coordinates of the aggregated points, and the (E, heads) weights.

        If the layer ends ``at_once``, not the coordinates but the layer's output.
        """
        source_scale, target_scale = _degree_scales(graph, u.dtype) if self.degree_norm else (None, None)
        k = self._curvature()
        if self._fits_one_call and k is not None:
            out, weights = distance_attention(
                graph,
                u,
                k=k,
                beta=self._beta(),
                score_scale=self._score_scale(u, k),
                edge_bias=edge_bias,
                edge_factor=self._dropout_factors(graph, u),
                value_scale=source_scale,
                self_score=self.self_score,
                return_weights=return_weights,
                points_k=k if at_once else None,
                points_elu=at_once and self.activation is not None,
                backend=self.backend,
            )
            return (out if target_scale is None else out * target_scale), weights
        scores = u.new_zeros(graph.num_edges, self._attentions)
        if self.attention == "distance":
            distance = self._distance(graph, u, k)
            if self.self_score == "mean":
                distance = self_distance_as_mean(graph, distance)
            scores = -self._beta() * distance
        weights = edge_softmax(graph, scores if edge_bias is None else scores + edge_bias, backend=self.backend)

        def step(z: Tensor) -> Tensor:
            drop = self._dropout_factors(graph, u)
            out = self._aggregate(graph, weights if drop is None else weights * drop, z, source_scale)
            return out * target_scale if target_scale is not None and self.aggregate == "tangent" else out

        return diffuse(step, u, self.steps, self.restart), weights

    def _dropout_factors(self, graph: Graph, u: Tensor) -> Tensor | None:
        """(E, heads) factors that drop attention while the layer is trained; None: 1."""
        if not (self.training and self.attn_drop):
            return None
        return dropout_factors(u, (graph.num_edges, self._attentions), self.attn_drop)

    def _distance(self, graph: Graph, u: Tensor, k: Tensor | None) -> Tensor:
        """(E, heads) distances for the scores; (E, 1) on a product."""
        scale = self._score_scale(u, k)
        u = u if scale is None else scale.view(-1, 1) * u
        if k is not None:
            p = hm.project(hm.expmap0(u, k=k.view(-1, 1)), k=k.view(-1, 1))
            distance = edge_distance(graph, p, k=k, backend=self.backend)
            return hm.safe_sqrt(distance.square().sum(1, keepdim=True)) if self.merge == "product" else distance
        p = self._points(u)
        return manifolds.dist(self.manifold, p.index_select(0, graph.row), p.index_select(0, graph.col))

    def _aggregate(self, graph: Graph, weights: Tensor, u: Tensor, source_scale: Tensor | None) -> Tensor:
        """(num_dst, heads, out_dim) tangent coordinates of the points that the weights make of their neighbours."""
        if source_scale is not None:
            weights = weights * source_scale.index_select(0, graph.col).unsqueeze(-1)
        if self.aggregate == "tangent":
            return weighted_sum(graph, weights, u, backend=self.backend)
        if self.aggregate == "mobius":
            if self.degree_norm:
                weights = weights * graph.in_degrees.to(u.dtype).sqrt().index_select(0, graph.row).unsqueeze(-1)
            k = self._curvature()
            assert k is not None
            return hm.logmap0(mobius_sum(graph, weights, u, k=k), k=k.unsqueeze(-1))
        points = self._points(u)
        sums = weighted_sum(graph, weights, _geometry.lift(self.manifold, points), backend=self.backend)
        return manifolds.log0(self.manifold, _geometry.lower(self.manifold, sums)).reshape(graph.num_dst, *u.shape[1:])

    def _points(self, u: Tensor) -> Tensor:
        """(nodes, heads, numbers) points of the heads; (nodes, 1, numbers) of the product."""
        return manifolds.exp0(self.manifold, u.flatten(1).unsqueeze(1) if self.merge == "product" else u)

    # --- activate ---

    def _merge(self, heads: Tensor) -> Tensor:
        """(num_dst, output_dim) tangent coordinates."""
        return heads.mean(1) if self.merge == "mean" else heads.flatten(1)

    def _activate(self, tangent: Tensor) -> Tensor:
        """Points of the output manifold: bias and activation act where the layer was told to."""
        if self.bias is not None and self.bias_kind == "tangent":
            tangent = tangent + self.bias
        elif self.bias is not None:
            point = _geometry.project(self.manifold, self.bias)  # its curvature may have moved since the last step
            moved = _geometry.translate(self.manifold, manifolds.exp0(self.manifold, tangent), point)
            if self.activation is None or self.activation_space == "ball":
                return self._activate_point(moved)
            tangent = manifolds.log0(self.manifold, moved)
        if self.activation is not None and self.activation_space == "tangent":
            return manifolds.exp0(self.manifold, self.activation(tangent))
        return self._activate_point(manifolds.exp0(self.manifold, tangent))

    def _activate_point(self, y: Tensor) -> Tensor:
        return y if self.activation is None else _geometry.project(self.manifold, self.activation(y))

    # --- what the steps need ---

    @property
    def _ends_at_once(self) -> bool:
        """Whether nothing but exp0 and an ELU on the ball comes after the sums: distance attention does these, too."""
        return (
            isinstance(self.manifold, geoopt.Stereographic)
            and self._fits_one_call
            and self.merge == "concat"
            and self.bias is None
            and not self.degree_norm
            and (self.activation is None or (self.activation is F.elu and self.activation_space == "ball"))
        )

    @property
    def _fits_one_call(self) -> bool:
        """Whether scores, weights and sums can be had from :func:`distance_attention`, where curvature is constant."""
        once = (self.attention, self.aggregate, self.steps) == ("distance", "tangent", 1)
        return once and self.merge != "product"

    @property
    def _attentions(self) -> int:
        return 1 if self.merge == "product" else self.heads

    def _beta(self) -> float | Tensor:
        return float(self.beta) if self.log_beta is None else self.log_beta.exp()

    def _curvature(self) -> Tensor | None:
        """(1,) or (heads,) curvature of the heads where each has constant curvature, else None."""
        weight, manifold = self.weight, self.manifold
        if self.merge != "product":
            k = constant_curvature(manifold)
            return None if k is None else k.to(weight).view(1)
        known = [k.to(weight) for k in map(constant_curvature, manifold.manifolds) if k is not None]
        return torch.stack(known) if len(known) == len(manifold.manifolds) else None

    def _score_scale(self, u: Tensor, k: Tensor | None) -> Tensor | None:
        """(heads,) factor between u and the coordinates that the scores are computed from; None: 1."""
        scale = None
        if self.radius_norm:
            scale = 1 / mean_radius(u).clamp(min=torch.finfo(u.dtype).tiny)
        if k is not None and manifolds.frame_scale(self.manifold) != 2:
            # the stereographic model of the same curvature, on which a unit coordinate vector has length 2
            half = manifolds.frame_scale(self.manifold) / 2
            scale = u.new_full((self.heads,), half) if scale is None else scale * half
        return scale

    def _edge_bias(self, given: Graph, looped: Graph, edge_bias: Tensor | None) -> Tensor | None:
        """The caller's numbers in the edge order of the graph with self-loops."""
        if edge_bias is None:
            return None
        if not isinstance(edge_bias, Tensor):
            raise TypeError(f"edge_bias must be a tensor with a number an edge, got {type(edge_bias).__name__}")
        if edge_bias.is_complex():
            raise TypeError(f"edge_bias must be real numbers, got {edge_bias.dtype}")
        column = edge_bias.unsqueeze(-1) if edge_bias.dim() == 1 else edge_bias
        if tuple(column.shape) not in ((given.num_edges, 1), (given.num_edges, self._attentions)):
            raise ValueError(
                f"edge_bias must have shape ({given.num_edges},) or ({given.num_edges}, {self._attentions}), "
                f"a number an edge in your edge order; got {tuple(edge_bias.shape)}"
            )
        if column.device != given.device:
            raise ValueError(f"edge_bias is on {column.device}, the graph on {given.device}; move both to one device")
        return looped.from_caller_order(column)

    def _check_manifold(self, activation_space: str | None) -> None:
        """Refuse, when the layer is made, what the manifold cannot do."""
        manifolds.ambient_dim(self.manifold, self.output_dim)  # says so if it has no such dimension
        stereographic = is_stereographic(self.manifold)
        if self.aggregate == "mobius" and not (stereographic and self._curvature() is not None):
            raise ValueError(
                f"HATConv: aggregate='mobius' needs Möbius addition, which {describe(self.manifold)} does not have; "
                f"use 'tangent' or 'midpoint', or a manifold of the stereographic family"
            )
        if activation_space == "ball" and self.activation is not None and not stereographic:
            raise ValueError(
                f"HATConv: activation_space='ball' needs ball coordinates, which {describe(self.manifold)} does not "
                f"have; use 'tangent'"
            )
        if self.aggregate == "midpoint":  # a manifold without one says so now
            _geometry.lift(self.manifold, manifolds.exp0(self.manifold, torch.zeros(self.output_dim)))
        if self.attention == "distance":  # and a manifold without a distance
            origin = manifolds.exp0(self.manifold, torch.zeros(self.output_dim))
            manifolds.dist(self.manifold, origin, origin)

    def extra_repr(self) -> str:
        shown = [f"{describe(self.in_manifold, self.in_dim)} → {describe(self.manifold, self.output_dim)}"]
        shown += [f"{name}={getattr(self, name)!r}" for name, usual in _USUAL.items() if getattr(self, name) != usual]
        shown += [f"restart={self.restart}"] if self.steps > 1 else []
        return ", ".join(shown)


def _degree_scales(graph: Graph, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """1/√deg of the sources (num_src,), √deg of the destinations (num_dst, 1, 1); made once a graph."""
    scales: tuple[Tensor, Tensor] | None = None
    if not torch.compiler.is_compiling():
        scales = graph.cache.get(("degree scales", dtype))
    if scales is None:
        scales = graph.out_degrees.clamp(min=1).to(dtype).rsqrt(), graph.in_degrees.to(dtype).sqrt().view(-1, 1, 1)
        if not torch.compiler.is_compiling():
            graph.cache["degree scales", dtype] = scales
    return scales


_USUAL = {
    "heads": 1,
    "merge": "concat",
    "aggregate": "tangent",
    "steps": 1,
    "attention": "distance",
    "beta": 1.0,
    "radius_norm": False,
    "self_score": "zero",
    "degree_norm": False,
    "bias_kind": "none",
    "feat_drop": 0.0,
    "attn_drop": 0.0,
    "backend": "auto",
}


def _output_manifold(manifold: Any, out_dim: int, heads: int, merge: str) -> Any:
    positive("HATConv", "out_dim", out_dim)
    positive("HATConv", "heads", heads)
    if isinstance(manifold, manifolds.Space):
        return manifold  # the layer says what a Space is
    factors = list(manifold) if isinstance(manifold, list | tuple) else [manifold] * heads
    if merge == "product":
        if len(factors) != heads:
            raise ValueError(f"a sequence of manifolds must have one a head: got {len(factors)} for {heads} heads")
        return manifolds.Product(*[(factor, out_dim) for factor in factors])
    if isinstance(manifold, list | tuple):
        raise ValueError(f"a sequence of manifolds is for merge='product'; got merge={merge!r}")
    return manifold
