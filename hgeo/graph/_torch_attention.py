r"""Distance attention in few torch operators: one pass for scores, softmax and sums, its gradient written by hand.

For curvatures k ≤ 0, on a CPU, outside of a compiler: there a look at the numbers costs nothing, and a small graph
costs what its operator calls cost. Everything else is composed of the three operations of :mod:`hgeo.graph._torch`, of
which this is the same mathematics with fewer passes:

- With :math:`v = s\,u`, :math:`t = \sqrt c\,|v|`: :math:`p = \tanh(t)/t\; v` and :math:`1 - c|p|^2 = 1/\cosh^2 t`, so
  that :math:`\sinh^2(\sqrt c\, d_{ij}/2) = c\,|p_i - p_j|^2 \cosh^2 t_i \cosh^2 t_j`, from differences of points.
- Sums are divided by Z once a destination, not weights once an edge.
- :math:`\sum_e w_e\, \partial L/\partial w_e` of a destination is ⟨∂L/∂out, out⟩, without a look at its edges.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from hgeo import math as hm
from hgeo.graph import _torch
from hgeo.graph._graph import Graph, values_unknown
from hgeo.graph._work import OneCall
from hgeo.kernels.attention import no_second_derivative

if TYPE_CHECKING:
    from hgeo.graph._work import Work

__all__ = ["plan"]


def plan(work: Work) -> OneCall | str:
    """One pass over the edges, where the numbers may be looked at."""
    assert work.parts is not None
    if work.several_parts:
        return f"the manifold has {len(work.parts)} parts"
    u, k, graph = work.u, work.parts[0].k, work.graph
    if values_unknown(u, k, graph.col) or u.device.type != "cpu":
        return "numbers cannot be looked at while compiling, nor on a device"
    if graph.padding is not None or not graph.num_edges:
        return "the graph has edges that only fill up a shape" if graph.num_edges else "the graph has no edges"
    if _torch.may_be_spherical(k):
        return "a curvature is positive"
    finishes = work.ends_in_a_point and not k.requires_grad
    return OneCall(functools.partial(_attend, finishes=finishes), finishes)


def _attend(work: Work, *, finishes: bool) -> tuple[Tensor, Tensor | None]:
    """The sums (num_dst, heads, d), or points (num_dst, heads · d); and the weights, which have no gradient here."""
    assert work.parts is not None
    u, k, scale, training = work.u, work.parts[0].k, work.part_scale, work.training
    edges = _Edges(
        work.graph,
        work.factors(),
        work.source_scale,
        self_mean=getattr(work.score, "self_score", "zero") == "mean",
        has_bias=work.edge_bias is not None,
        training=training,
        keeps_distance=training and work.beta.requires_grad,
        return_weights=work.return_weights,
    )
    elu = work.finish is not None and work.finish.activation is not None
    ending = _Ending(float(-k[0]), elu) if finishes else None
    inputs = u, k, work.beta, u.new_ones(u.shape[1]) if scale is None else scale, work.edge_bias
    out, weights = _Attend.apply(edges, ending, *inputs) if training else _forward(edges, ending, *inputs)[:2]
    return out if work.target_scale is None else out * work.target_scale, weights


class _Ending(NamedTuple):
    """The sums go on to points of curvature -c, and to their ELU."""

    c: float
    elu: bool


class _Edges:
    """What all heads share: who talks to whom, and the numbers an edge or source that have no gradient."""

    def __init__(
        self,
        graph: Graph,
        factor: Tensor | None,
        value_scale: Tensor | None,
        *,
        self_mean: bool,
        has_bias: bool,
        training: bool,
        keeps_distance: bool,
        return_weights: bool,
    ) -> None:
        self.num_dst, self.num_src = graph.num_dst, graph.num_src
        self.rowptr, self.row, self.col = graph.rowptr, graph.row, graph.col
        self.factor, self.has_bias = factor, has_bias
        self.keeps_distance, self.return_weights = keeps_distance, return_weights
        self.value_scale = None if value_scale is None else value_scale.detach().unsqueeze(1)
        self.looped_at_zero = graph.is_looped and not self_mean
        self.symmetric = training and graph.is_symmetric
        self.csc = graph.csc if training else None
        self.loops = _loops(graph) if self_mean else None

    def top_is_zero(self, beta: float) -> bool:
        """Whether the largest score of a row is known: a self-loop has distance 0, and the others are not below."""
        return self.looped_at_zero and not self.has_bias and beta >= 0

    def row_sum(self, values: Tensor) -> Tensor:
        """(E,) → (num_dst,)"""
        return _torch.row_sum(values, self.rowptr)


class _Loops(NamedTuple):
    place: Tensor  # of the self-loops among the edges
    node: Tensor  # theirs
    share: Tensor  # (num_dst,) 1/(number of other edges), 1 if there is none: their sum is 0 then


def _loops(graph: Graph) -> _Loops:
    found: _Loops | None = graph.cache.get("torch loops")
    if found is None:
        place = (graph.row == graph.col).nonzero().squeeze(1)
        node = graph.row.index_select(0, place)
        others = graph.rowptr.diff().index_add(0, node, node.new_full((1,), -1).expand_as(node))
        found = graph.cache["torch loops"] = _Loops(place, node, others.clamp(min=1).double().reciprocal())
    return found


class _Attend(torch.autograd.Function):
    """(out, weights); the weights have no gradient here."""

    @staticmethod
    def forward(ctx: Any, edges: _Edges, ending: _Ending | None, *inputs: Any) -> tuple[Tensor, Tensor | None]:
        out, weights, kept = _forward(edges, ending, *inputs)
        tensors, *ctx.roots = kept.taken_apart()
        # All through autograd, which notices writes and makes no cycle of an output; of the last two only to notice.
        ctx.save_for_backward(*inputs, *tensors, edges.factor, edges.value_scale)
        ctx.edges, ctx.ending = edges, ending
        ctx.set_materialize_grads(False)
        if weights is not None:
            ctx.mark_non_differentiable(weights)
        return out, weights

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        if grads[0] is None:
            return (None,) * 7
        saved, needs = ctx.saved_tensors, tuple(ctx.needs_input_grad[2:])
        inputs, kept = saved[: len(needs)], _Kept.put_together(saved[len(needs) :], *ctx.roots)
        found = _AttendBackward.apply(ctx.edges, ctx.ending, kept, needs, grads[0].contiguous(), *inputs)
        return None, None, *found


class _AttendBackward(torch.autograd.Function):
    """The first derivative; asking for its own derivative is an error that says what to do."""

    @staticmethod
    def forward(ctx: Any, edges: _Edges, ending: _Ending | None, kept: _Kept, needs: Any, *tensors: Any) -> Any:
        return _backward(edges, ending, kept, needs, *tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        no_second_derivative(ctx, *grads)


# --- the exponential map at the origin --------------------------------------------------------------------------------


class _Exp0(NamedTuple):
    """Of points p = factor·v; the radial part of a gradient is multiplied by ``along``, the rest by ``factor``."""

    root: float  # √c
    norm: Tensor
    tanh: Tensor
    factor: Tensor
    cosh2: Tensor
    outside: Tensor | None  # the points that were brought back inside the rim


def _root(c: float, norm: Tensor) -> float:
    """√c. A curvature that rows of these norms cannot tell from 0 is replaced by one that they cannot tell either."""
    eps = torch.finfo(norm.dtype).eps
    if c >= eps**2:
        return c**0.5
    longest = float(torch.where(norm.isfinite(), norm, 0.0).max()) if norm.numel() else 0.0
    return max(c**0.5, eps / max(longest, 1.0))


def _exp0(v: Tensor, c: float) -> tuple[Tensor, _Exp0]:
    """exp0 of rows, projected as :func:`hgeo.math.project` does."""
    margin = hm.boundary_margin(v.dtype)
    norm = torch.linalg.vector_norm(v, dim=-1)
    root = _root(c, norm)
    t = norm.mul(root).clamp_(min=torch.finfo(v.dtype).tiny ** 0.5)
    tanh, cosh2 = t.tanh(), t.cosh().square_()
    outside = tanh > 1 - margin
    if bool(outside.any()):
        rim = 1 - 1.5 * margin
        tanh, cosh2 = torch.where(outside, rim, tanh), torch.where(outside, 1 / (1 - rim**2), cosh2)
    else:
        outside = None
    factor = tanh / t
    return v * factor.unsqueeze(1), _Exp0(root, norm, tanh, factor, cosh2, outside)


def _exp0_backward(grad: Tensor, v: Tensor, at: _Exp0, outward: Tensor | None = None) -> Tensor:
    """Gradient of v from that of the points; ``outward`` is ∂L/∂ log cosh²t, which vanishes on the rim."""
    along = at.cosh2.reciprocal()
    if at.outside is not None:
        along.masked_fill_(at.outside, 0.0)
    inverse = at.norm.clamp(min=torch.finfo(v.dtype).tiny ** 0.5).reciprocal_()
    radial = torch.linalg.vecdot(grad, v).mul_(inverse).mul_(along.sub_(at.factor))
    if outward is not None:
        slope = at.tanh * (2 * at.root)
        if at.outside is not None:
            slope.masked_fill_(at.outside, 0.0)
        radial.add_(slope.mul_(outward))
    return (grad * at.factor.unsqueeze(1)).addcmul_(v, radial.mul_(inverse).unsqueeze(1))


# --- forward ----------------------------------------------------------------------------------------------------------


class _Head(NamedTuple):
    """What the backward pass of a head needs."""

    at: _Exp0
    v: Tensor
    points: Tensor
    values: Tensor
    s2: Tensor  # (E,) sinh² of half the distance times √c
    distance: Tensor | None  # (E,) as the scores use it; only where a gradient needs it
    mass: Tensor  # (E,) exp(score - top)
    inverse_z: Tensor  # (num_dst,)


class _Kept(NamedTuple):
    heads: list[_Head]
    sums: Tensor
    ending: _Exp0 | None
    result: Tensor | None  # with an ELU

    def taken_apart(self) -> tuple[list[Tensor | None], list[float], float | None]:
        """Its tensors, which autograd is to keep, the √c of the heads and that of the ending."""
        tensors = [self.sums, self.result, *(() if self.ending is None else self.ending[1:])]
        for head in self.heads:
            tensors += [*head.at[1:], *head[1:]]
        return tensors, [head.at.root for head in self.heads], None if self.ending is None else self.ending.root

    @classmethod
    def put_together(cls, tensors: Iterable[Any], roots: list[float], ending_root: float | None) -> _Kept:
        rest = iter(tensors)

        def take(root: float) -> _Exp0:
            return _Exp0(root, *islice(rest, len(_Exp0._fields) - 1))

        sums, result = next(rest), next(rest)
        ending = None if ending_root is None else take(ending_root)
        heads = [_Head(take(root), *islice(rest, len(_Head._fields) - 1)) for root in roots]
        return cls(heads, sums, ending, result)


def _squared_distances(points: Tensor, row: Tensor, col: Tensor) -> Tensor:
    """|p_i - p_j|² an edge, from differences, a block of edges at a time."""
    ones, out = points.new_ones(points.shape[1]), points.new_empty(row.shape[0])
    differences = _torch.Differences(points, row.shape[0])
    for start, end in differences.blocks:
        torch.mv(differences.of(row[start:end], col[start:end]).square_(), ones, out=out[start:end])
    return out


def _asinh(s2: Tensor) -> Tensor:
    """asinh(√s2) = log1p(s + s²/(1 + √(1+s²))); torch's own asinh has no vector form."""
    other = s2.add(1).sqrt_().add_(1)
    return torch.div(s2, other, out=other).add_(s2.sqrt()).log1p_()


def _head(
    edges: _Edges, u: Tensor, c: float, beta: float, scale: float, bias: Tensor | None, factor: Tensor | None
) -> tuple[Tensor, _Head]:
    v = u if scale == 1 else u * scale
    points, at = _exp0(v, c)
    root = at.root
    stretch = at.cosh2 * root
    s2 = _squared_distances(points, edges.row, edges.col)
    s2.mul_(stretch.index_select(0, edges.row)).mul_(stretch.index_select(0, edges.col))
    scores = _asinh(s2).mul_(2 / root)
    if edges.loops is not None:
        place, node, share = edges.loops
        mean = edges.row_sum(scores).mul_(share.to(u.dtype))
        scores.index_copy_(0, place, mean.index_select(0, node))
    distance = scores.clone() if edges.keeps_distance else None
    scores.mul_(-beta)
    if bias is not None:
        scores.add_(bias)
    if not edges.top_is_zero(beta):
        scores.sub_(_torch.row_top(scores, edges.rowptr).index_select(0, edges.row))
    mass = scores.exp_()
    z = edges.row_sum(mass)
    inverse_z = z.masked_fill_(z == 0, 1.0).reciprocal_()
    values = u if edges.value_scale is None else u * edges.value_scale
    out = _torch.bag(values, edges.col, edges.rowptr, mass if factor is None else mass * factor)
    return out.mul_(inverse_z.unsqueeze(1)), _Head(at, v, points, values, s2, distance, mass, inverse_z)


def _column(values: Tensor | None, head: int) -> Tensor | None:
    """(E,) numbers of a head of (E, heads) or (E, 1)."""
    return None if values is None else values[:, head if values.shape[1] > 1 else 0].contiguous()


def _forward(
    edges: _Edges, ending: _Ending | None, u: Tensor, k: Tensor, beta: Tensor, scale: Tensor, bias: Tensor | None
) -> tuple[Tensor, Tensor | None, _Kept]:
    numbers = zip(k.tolist(), beta.tolist(), scale.tolist(), strict=True)
    outs, heads = [], []
    for h, (k_h, beta_h, scale_h) in enumerate(numbers):
        out, head = _head(
            edges, u[:, h].contiguous(), -k_h, beta_h, scale_h, _column(bias, h), _column(edges.factor, h)
        )
        outs.append(out)
        heads.append(head)
    sums = outs[0].unsqueeze(1) if len(outs) == 1 else torch.stack(outs, 1)
    weights = None
    if edges.return_weights:
        shares = [head.mass * head.inverse_z.index_select(0, edges.row) for head in heads]
        weights = torch.stack(shares, 1)
    if ending is None:
        return sums, weights, _Kept(heads, sums, None, None)
    points, at = _exp0(sums.flatten(1), ending.c)
    if not ending.elu:
        return points, weights, _Kept(heads, sums, at, None)
    result = torch.nn.functional.elu(points)
    return result, weights, _Kept(heads, sums, at, result)


# --- backward ---------------------------------------------------------------------------------------------------------


class _Gradients(NamedTuple):
    """Of a head; None where not needed."""

    u: Tensor
    k: Tensor | None
    beta: Tensor | None
    scale: Tensor | None
    bias: Tensor | None


def _head_backward(
    edges: _Edges,
    head: _Head,
    grad: Tensor,
    out: Tensor,
    u: Tensor,
    k: Tensor,
    beta: float,
    scale: float,
    factor: Tensor | None,
    needs: tuple[bool, ...],
) -> _Gradients:
    _, needs_k, _, needs_scale, needs_bias = needs
    at, v, points, values, s2, distance, mass, inverse_z = head
    assert edges.csc is not None
    colptr, row_of_csc, edge_pos = edges.csc
    tiny = torch.finfo(u.dtype).tiny ** 0.5
    root = at.root

    # the sums, and the softmax
    grad = grad * inverse_z.unsqueeze(1)
    lost = torch.linalg.vecdot(grad, out)
    flow = _torch.dots(grad, values, edges.rowptr, edges.row, edges.col)
    sent = mass
    if factor is not None:
        flow.mul_(factor)
        sent = mass * factor
    flow.sub_(lost.index_select(0, edges.row)).mul_(mass)
    # On a symmetric graph exp(score) is the same on the edge back, if scores are distances and nothing else.
    same_back = edges.symmetric and edges.top_is_zero(beta) and factor is None
    grad_u = _torch.bag(grad, row_of_csc, colptr, sent if same_back else sent.index_select(0, edge_pos))
    if edges.value_scale is not None:
        grad_u.mul_(edges.value_scale)
    grad_bias = flow.clone() if needs_bias else None
    grad_beta = flow.dot(distance).neg_() if distance is not None else None

    # the distances
    flow.mul_(-beta)
    if edges.loops is not None:
        place, node, share = edges.loops
        to_mean = flow.new_zeros(edges.num_dst).index_add_(0, node, flow.index_select(0, place))
        # What stays on a loop itself meets a difference of 0.
        flow.index_fill_(0, place, 0.0).add_(to_mean.mul_(share.to(u.dtype)).index_select(0, edges.row))
    cosine, s = s2.add(1).sqrt_(), s2.sqrt()
    grad_k = None
    if needs_k:
        q = (s / root).square_()
        ratio = _asinh(s2).div_(s.clamp(min=tiny)).masked_fill_(s < tiny, 1.0)
        grad_k = flow.dot(_torch.bend(k * q, q, s / root, ratio, cosine))
    flow.div_(cosine).mul_(1 / root)
    if edges.symmetric:
        # The edge back has the same points, hence the same derivatives: one pass serves both of its ends.
        flow.add_(flow.index_select(0, edge_pos))
    stretch = at.cosh2 * root
    outward = flow * s
    pull = flow.mul_(2).div_(s.clamp_(min=tiny))
    pull.mul_(stretch.index_select(0, edges.row)).mul_(stretch.index_select(0, edges.col))
    total = edges.row_sum(outward)
    differences = _torch.Differences(points, edges.row.shape[0])
    pull = pull.unsqueeze(1)
    grad_p = differences.sums(edges.row, edges.col, edges.rowptr, pull).squeeze(1)
    if not edges.symmetric:
        source = edges.col.index_select(0, edge_pos)
        from_rows, rows = grad_p, total
        total = _torch.row_sum(outward.index_select(0, edge_pos), colptr)
        grad_p = differences.sums(source, row_of_csc, colptr, pull.index_select(0, edge_pos)).squeeze(1)
        total[: edges.num_dst] += rows
        grad_p[: edges.num_dst] += from_rows
    if grad_k is not None:
        grad_k = grad_k + _points_curvature_slope(v, k, grad_p, total)
    grad_v = _exp0_backward(grad_p, v, at, total)
    grad_scale = torch.sum(grad_v * u) if needs_scale else None
    return _Gradients(grad_u.add_(grad_v, alpha=scale), grad_k, grad_beta, grad_scale, grad_bias)


def _points_curvature_slope(v: Tensor, k: Tensor, grad_points: Tensor, outward: Tensor) -> Tensor:
    """∂L/∂k through the points exp0(v) and their 1 + k|p|², by the formulas that keep their digits as k → 0."""
    with torch.enable_grad():
        k = k.detach().requires_grad_()
        points = hm.project(hm.expmap0(v, k=k), k=k)
        flatness = (1 + k * points.square().sum(-1)).log()
        (slope,) = torch.autograd.grad([points, flatness], k, [grad_points, -outward])
    return slope


def _backward(
    edges: _Edges,
    ending: _Ending | None,
    kept: _Kept,
    needs: tuple[bool, ...],
    grad: Tensor,
    u: Tensor,
    k: Tensor,
    beta: Tensor,
    scale: Tensor,
    bias: Tensor | None,
) -> tuple[Tensor | None, ...]:
    if ending is not None:
        assert kept.ending is not None
        if kept.result is not None:
            grad = kept.result.clamp(max=0).add_(1).mul_(grad)  # elu'(x) = 1, or elu(x) + 1
        tangent = kept.sums.flatten(1)
        grad = _exp0_backward(grad, tangent, kept.ending).view_as(kept.sums)
    found = [
        _head_backward(
            edges, head, grad[:, h], kept.sums[:, h], u[:, h], k[h], beta_h, scale_h, _column(edges.factor, h), needs,
        )
        for h, (head, beta_h, scale_h) in enumerate(zip(kept.heads, beta.tolist(), scale.tolist(), strict=True))
    ]  # fmt: skip
    stacked: list[Tensor | None] = []
    for of_heads, needed in zip(zip(*found, strict=True), needs, strict=True):
        stacked.append(torch.stack(of_heads, int(of_heads[0].dim() > 0)) if needed else None)
    if bias is not None and stacked[-1] is not None and bias.shape[1] == 1:
        stacked[-1] = stacked[-1].sum(1, keepdim=True)
    return tuple(stacked)
