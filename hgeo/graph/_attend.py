"""Attention on a graph: scores, a softmax over each node's neighbours, an aggregation, a finish.

Small frozen objects describe each of them: :mod:`._score`, :mod:`._aggregate`, :mod:`._finish`. This module is the only
place that chooses how they are computed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from hgeo import manifolds
from hgeo.graph import _backends, _score
from hgeo.graph._aggregate import Aggregate, TangentSum, as_aggregate
from hgeo.graph._checks import Description, check_device, check_edges, check_graph, check_rows, one_of, per_head
from hgeo.graph._finish import Finish
from hgeo.graph._graph import Graph
from hgeo.graph._score import Distance, Score, as_score
from hgeo.graph._work import OneCall, Piece, Work

__all__ = ["Plan", "attend", "check_steps", "described", "distance_attention", "plan"]

_STEPS = ("score", "aggregate", "finish")


@dataclass(frozen=True, repr=False)
class Plan:
    """Which code computes an attention; its text says so.

    Attributes:
        backend: who computes it.
        steps: the score, the aggregate, the finish.
        one_call: those that one call of the backend does together, by name.
        why: why a fast backend goes a step at a time here, or None.
    """

    backend: str
    steps: tuple[Any, ...]
    one_call: tuple[str, ...]
    why: str | None
    call: OneCall | None

    def __repr__(self) -> str:
        lines = [f"backend {self.backend!r}" + (f", a step at a time: {self.why}" if self.why else "")]
        for name, step in zip(_STEPS, self.steps, strict=False):
            lines.append(f"  {name:<9} {step!r}" + ("  (in one call)" if name in self.one_call else ""))
        return "\n".join(lines)


def described(layer: str, score: Any, aggregate: Any, options: dict[str, Any]) -> tuple[Score, Aggregate]:
    """The descriptions that words and options stand for; an option belongs to the score or to the aggregate."""
    of_score = {name: options[name] for name in ("beta", "radius_norm", "self_score") if name in options}
    of_aggregate = {name: options[name] for name in ("degree_norm", "steps", "restart") if name in options}
    for name in options:
        if name not in of_score | of_aggregate:
            raise TypeError(f"{layer}: there is no option {name!r}")
    return as_score(score, **of_score), as_aggregate(aggregate, **of_aggregate)


def check_steps(manifold: Any, dim: int, *steps: Any) -> None:
    """Refuse what a manifold cannot do in this dimension, when a layer is made. Own functions are not checked."""
    for step in steps:
        if isinstance(step, Description):
            step.check(manifold, dim)


def _plan(work: Work) -> Plan:
    chosen, steps = work.operations, (work.score, work.aggregate, work.finish)
    found: OneCall | str | None = None
    if chosen.plan is not None:
        found = work.why_not_one_sum() or chosen.plan(work)
    if isinstance(found, OneCall):
        return Plan(chosen.name, steps, _STEPS if found.finishes else _STEPS[:2], None, found)
    return Plan(chosen.name, steps, (), found, None)


def _compute(work: Work, chosen: Plan) -> tuple[Tensor, Tensor | None]:
    """(result, weights): sums (num_dst, heads, d), or points if the plan's call does the finish, too."""
    if chosen.call is not None:
        return chosen.call.run(work)
    scores = work.score(work)
    scores = scores if work.edge_bias is None else scores + work.edge_bias
    weights = work.operations.edge_softmax(work.graph, work.graph.without_padding(scores, -torch.inf))
    return work.aggregate(work, weights), weights


def attend(
    graph: Graph,
    u: Tensor,
    manifold: Any,
    score: Score,
    aggregate: Aggregate,
    finish: Finish,
    *,
    bias: Tensor | None = None,
    backend: str = "auto",
    **options: Any,
) -> tuple[Tensor, Tensor | None]:
    """Attend, aggregate and finish.

    Args:
        graph: the graph; add self-loops first if they are wanted.
        u: (num_src, heads, d) tangent coordinates at the origin of ``manifold``.
        manifold: where a head lives.
        score, aggregate, finish: what to compute.
        bias: of the finish.
        backend: a name of :func:`hgeo.graph.backends`, or "auto".
        options: ``beta``, a number or a tensor () or (heads,), in place of that of :class:`Distance`; ``edge_bias``,
            (E, heads) or (E, 1) in the graph's edge order, added to the scores; ``edge_factors``, a function that makes
            (E, heads) or (E, 1) factors of the weights (attention dropout), called in each step; ``mean_radius``,
            (heads,), what ``radius_norm`` divides by in place of the mean over the rows of ``u``; ``radius_groups``,
            how many rows with a radius of their own stand side by side in a head of ``u``; ``edge_weight``, (E, 1)
            numbers that are not negative and multiply the shares of edges before these are made to sum to 1, and count
            in degrees (weight 0 is no edge); ``edge_mask``, (E, 1) or (E, heads) differentiable factors of the weights
            after the softmax; ``own``, (num_dst, heads or 1, d) rows that are added to the aggregated ones;
            ``return_weights``.

    Returns:
        What ``finish`` says, a row a destination, and the weights (E, heads) before ``edge_factors``, or None.
    """
    work = _work(graph, u, manifold, score, aggregate, finish, backend, **options)
    chosen = _plan(work)
    out, weights = _compute(work, chosen)
    out = out.to(u.dtype)
    out = out if work.own is None else out + work.own
    y = finish.of_points(manifold, out) if "finish" in chosen.one_call else finish(manifold, out, bias)
    return y, weights.to(u.dtype) if weights is not None and work.return_weights else None


def plan(
    graph: Graph,
    u: Tensor,
    manifold: Any,
    score: Score,
    aggregate: Aggregate,
    finish: Finish,
    *,
    backend: str = "auto",
    **options: Any,
) -> Plan:
    """How :func:`attend` with these arguments computes; of ``u`` only shape, dtype and device matter."""
    return _plan(_work(graph, u, manifold, score, aggregate, finish, backend, **options))


def _work(
    graph: Graph,
    u: Tensor,
    manifold: Any,
    score: Score,
    aggregate: Aggregate,
    finish: Finish,
    backend: str,
    *,
    beta: float | Tensor | None = None,
    edge_bias: Tensor | None = None,
    edge_factors: Callable[[], Tensor | None] | None = None,
    mean_radius: Tensor | None = None,
    radius_groups: int = 1,
    edge_weight: Tensor | None = None,
    edge_mask: Tensor | None = None,
    own: Tensor | None = None,
    return_weights: bool = False,
) -> Work:
    """The numbers behind the descriptions, in the dtype in which the backend computes."""
    check_graph(graph)
    check_rows(graph, "u", u, graph.num_src)
    chosen = _backends.resolve(backend, u.device.type)
    rows = chosen.raised(u)
    parts = manifolds.parts(manifold, u.shape[-1])
    scale = None
    if isinstance(score, Distance) and score.radius_norm:
        groups = rows.view(rows.shape[0], rows.shape[1] * radius_groups, -1)
        radius = _score.mean_radius(groups) if mean_radius is None else per_head("mean_radius", mean_radius, groups)
        scale = 1 / radius.clamp(min=torch.finfo(u.dtype).tiny)
        if radius_groups > 1:
            scale = scale.view(rows.shape[1], -1).repeat_interleave(groups.shape[2], 1)
    if beta is None:
        beta = score.beta if isinstance(score, Distance) and score.beta != "learn" else 1.0
    if edge_weight is not None:
        edge_weight = edge_weight.to(rows.dtype)
        edge_bias = _with_log(edge_weight, edge_bias)
    source, target = None, None
    if getattr(aggregate, "degree_norm", False):
        source, target = _degree_scales(graph, rows.dtype, edge_weight)
    return Work(
        graph,
        rows,
        manifold,
        None if parts is None else tuple(Piece(p, per_head("k", k, rows), size / 2) for p, k, size in parts),
        score,
        aggregate,
        chosen,
        torch.promote_types(u.dtype, torch.float32),
        beta=per_head("beta", beta, rows),
        score_scale=scale,
        edge_bias=None if edge_bias is None else edge_bias.to(rows.dtype),
        edge_factors=edge_factors,
        edge_weight=edge_weight,
        edge_mask=None if edge_mask is None else edge_mask.to(rows.dtype),
        own=own,
        source_scale=source,
        target_scale=target,
        return_weights=return_weights,
        finish=finish,
    )


def _with_log(weight: Tensor, bias: Tensor | None) -> Tensor:
    """log a added to scores; of weight 0 it is -∞ and has no gradient, for there is no edge."""
    there = weight > 0
    log = torch.where(there, torch.where(there, weight, 1.0).log(), -torch.inf)
    return log if bias is None else log + bias


def _degree_scales(graph: Graph, dtype: torch.dtype, weight: Tensor | None) -> tuple[Tensor, Tensor]:
    """1/√deg of the sources (num_src,), √deg of the destinations (num_dst, 1, 1); without weights made once a graph."""
    if weight is not None:
        into, out = graph.weighted_degrees(weight.squeeze(-1))
        return _power(out, -0.5), _power(into, 0.5).view(-1, 1, 1)
    tracing = torch.compiler.is_compiling()
    scales: tuple[Tensor, Tensor] | None = None if tracing else graph.cache.get(("degree scales", dtype))
    if scales is None:
        scales = graph.out_degrees.clamp(min=1).to(dtype).rsqrt(), graph.in_degrees.to(dtype).sqrt().view(-1, 1, 1)
        if not tracing:
            graph.cache["degree scales", dtype] = scales
    return scales


def _power(degrees: Tensor, exponent: float) -> Tensor:
    """Degrees to a power; 0 of a node without weighted edges, whose gradient is 0, too."""
    return torch.where(degrees > 0, torch.where(degrees > 0, degrees, 1.0) ** exponent, 0.0)


def distance_attention(
    graph: Graph,
    u: Tensor,
    *,
    k: float | Tensor,
    beta: float | Tensor,
    score_scale: float | Tensor | None = None,
    edge_bias: Tensor | None = None,
    edge_factor: Tensor | None = None,
    value_scale: Tensor | None = None,
    self_score: Literal["zero", "mean"] = "zero",
    return_weights: bool = False,
    backend: str = "auto",
) -> tuple[Tensor, Tensor | None]:
    r"""Attend by distance, sum in the tangent space at the origin: the one sum that kernels do, from numbers alone.

    With :math:`p = \exp_0(s\,u)` (projected), for the edges :math:`e = (j \to i)`

    .. math:: \alpha_e = -\beta\, d_k(p_i, p_j) + b_e, \qquad w = \mathrm{softmax}_i(\alpha), \qquad
              o_i = \sum_{e = (j \to i)} w_e\, f_e\, v_j\, u_j .

    Everything an edge is in the graph's own order (``graph.from_caller_order`` brings it there). Differentiable in
    ``u``, ``k``, ``beta``, ``score_scale``, ``edge_bias`` and ``edge_factor``. A destination without edges gets 0.

    Args:
        graph: the graph; add self-loops first if they are wanted.
        u: (num_src, H, d) tangent coordinates at the origin.
        k: signed curvature, () or (H,).
        beta: sharpness β, () or (H,).
        score_scale: s, () or (H,); 1 if not given.
        edge_bias: b, (E, H) or (E, 1), added to the scores; -inf takes an edge out.
        edge_factor: f, (E, H) or (E, 1), multiplies the weights after the softmax (attention dropout).
        value_scale: v, (num_src,), without gradient.
        self_score: the distance of a self-loop: "zero", as it is, or "mean", the mean distance over the destination's
            other edges (0 if it has none).
        return_weights: also return w (E, H), before ``edge_factor``.
        backend: a name of :func:`hgeo.graph.backends`, or "auto".

    Returns:
        (num_dst, H, d) sums, and the weights or None.

    Example:
        >>> import torch, hgeo
        >>> g = hgeo.Graph(torch.tensor([0, 1, 1]), torch.tensor([0, 0, 1]), num_src=2)
        >>> u = torch.tensor([[[0.0, 0.0]], [[1.0, 0.0]]])
        >>> out, w = hgeo.graph.distance_attention(g, u, k=0.0, beta=1.0, return_weights=True)
        >>> w.squeeze(1)
        tensor([0.8808, 0.1192, 1.0000])
    """
    check_graph(graph)
    check_rows(graph, "u", u, graph.num_src)
    one_of("self_score", self_score, ("zero", "mean"))
    for name, value in (("edge_bias", edge_bias), ("edge_factor", edge_factor)):
        if value is not None:
            check_edges(graph, name, value, u.shape[1])
    if value_scale is not None:
        if tuple(value_scale.shape) != (graph.num_src,):
            raise ValueError(f"value_scale must have shape ({graph.num_src},), got {tuple(value_scale.shape)}")
        check_device(graph, "value_scale", value_scale)
    chosen = _backends.resolve(backend, u.device.type)
    rows = chosen.raised(u)
    work = Work(
        graph,
        rows,
        None,
        (Piece(slice(None), per_head("k", k, rows), 1.0),),
        Distance(self_score=self_score),
        TangentSum(),
        chosen,
        torch.promote_types(u.dtype, torch.float32),
        beta=per_head("beta", beta, rows),
        score_scale=None if score_scale is None else per_head("score_scale", score_scale, rows),
        edge_bias=None if edge_bias is None else edge_bias.to(rows.dtype),
        edge_factors=None if edge_factor is None else lambda: edge_factor,
        factors_learn=edge_factor is not None and edge_factor.requires_grad and torch.is_grad_enabled(),
        source_scale=None if value_scale is None else value_scale.to(rows.dtype),
        return_weights=return_weights,
    )
    out, weights = _compute(work, _plan(work))
    return out.to(u.dtype), weights.to(u.dtype) if weights is not None and return_weights else None
