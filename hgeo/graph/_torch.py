r"""Fast message passing with nothing but torch.

Distances come from differences of points, so near-duplicates keep their digits; the gradients are written by hand, so
that no tensor with a vector an edge outlives a block of edges that fits the cache. The operations are
``torch.library`` operators: opaque to ``torch.compile``, which therefore makes one graph around them. They are
differentiable once; ``backend="reference"`` is differentiable twice.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from hgeo.graph import _reference
from hgeo.graph._graph import CSC, Graph, values_unknown
from hgeo.graph._points import points_and_flatness
from hgeo.kernels.attention import no_second_derivative

__all__ = ["edge_distance", "edge_dot", "edge_softmax", "weighted_sum"]

# A block of edges has so many numbers: 1 MB in float32, which a core's second-level cache holds.
_BLOCK = 1 << 18
# Below this |z| the derivative of arsin_ratio comes from its series, Σ n f_n zⁿ⁻¹: the closed form cancels there.
_SERIES_RADIUS = 0.05


def _arsin_slope_coefficients(count: int) -> list[float]:
    """n f_n for n = 1, 2, …, where f_n = f_{n-1} (2n-1)²/(2n(2n+1)) are the coefficients of arsin_ratio."""
    f, out = 1.0, []
    for n in range(1, count + 1):
        f *= (2 * n - 1) ** 2 / (2 * n * (2 * n + 1))
        out.append(n * f)
    return out


_SERIES = _arsin_slope_coefficients(11)


def edge_distance(graph: Graph, u: Tensor, k: Tensor) -> Tensor:
    training = torch.is_grad_enabled() and (u.requires_grad or k.requires_grad)
    csc = graph.csc if training else (None, None, None)
    symmetric, needs_k = training and graph.is_symmetric, training and k.requires_grad
    points, flatness = points_and_flatness(u, k)
    return _distance(points, flatness, k, graph.rowptr, graph.row, graph.col, *csc, symmetric, needs_k)[0]


def edge_softmax(graph: Graph, scores: Tensor) -> Tensor:
    return _softmax(scores, graph.rowptr, graph.row)


def edge_dot(graph: Graph, left: Tensor, right: Tensor) -> Tensor:
    if values_unknown(left, right, graph.col) or torch._C._are_functorch_transforms_active():
        return _reference.edge_dot(graph, left, right)
    training = torch.is_grad_enabled() and (left.requires_grad or right.requires_grad)
    there = graph.rowptr, graph.row, graph.col
    products: Tensor = _EdgeDots.apply(left, right, there, graph.csc if training else None)
    return products


def weighted_sum(graph: Graph, weights: Tensor | None, values: Tensor) -> Tensor:
    if torch._C._are_functorch_transforms_active():  # which know no rule for an operator of ours
        return _reference.weighted_sum(graph, weights, values)
    if weights is None and values_unknown(values, graph.col):
        weights = values.new_ones(graph.num_edges, 1)
    if weights is None:
        flat, symmetric = values.flatten(1), graph.is_symmetric
        ones = _ones(graph, values) if _is_slow_in_bags(values) else None
        there = graph.col, graph.rowptr, ones
        back = there if symmetric or not values.requires_grad else (graph.csc.row, graph.csc.colptr, ones)
        total: Tensor = _PlainSum.apply(flat, there, back)
        return total.view(-1, *values.shape[1:])
    training = torch.is_grad_enabled() and (values.requires_grad or weights.requires_grad)
    csc = graph.csc if training else (None, None, None)
    return _sum(weights, values, graph.rowptr, graph.row, graph.col, *csc)


class _EdgeDots(torch.autograd.Function):
    """Inner products of the rows at the ends of edges; gradients are sums over the edges of a row, without a tensor
    that has a row an edge."""

    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor, there: tuple[Tensor, ...], back: CSC | None) -> Tensor:
        ctx.save_for_backward(left, right)
        ctx.lists = there, back
        return dots(left, right, *there)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            no_second_derivative(ctx, *grads)
        (left, right), ((rowptr, _, col), back), (grad,) = ctx.saved_tensors, ctx.lists, grads
        by_left = bag(right, col, rowptr, grad) if ctx.needs_input_grad[0] else None
        by_right = None
        if ctx.needs_input_grad[1]:
            by_right = bag(left, back.row, back.colptr, grad.index_select(0, back.edge_pos))
        return by_left, by_right, None, None


_Lists = tuple[Tensor, Tensor, Tensor | None]
"""The source of each edge, where each destination's edges begin, and ones where a product wants numbers."""


def _ones(graph: Graph, like: Tensor) -> Tensor:
    """A one an edge, made once a graph."""
    ones: Tensor | None = graph.cache.get(("ones", like.dtype))
    if ones is None:
        ones = graph.cache["ones", like.dtype] = like.new_ones(graph.num_edges)
    return ones


class _PlainSum(torch.autograd.Function):
    """Sums rows over neighbours. Its derivative is the same sum over the reversed edges, to any order."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, there: _Lists, back: _Lists) -> Tensor:
        ctx.lists = there, back
        index, pointer, ones = there
        if ones is not None:
            return bag(rows.contiguous(), index, pointer, ones)
        return F.embedding_bag(index, rows.contiguous(), pointer, mode="sum", include_last_offset=True)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        there, back = ctx.lists
        return _PlainSum.apply(grads[0], back, there), None, None


# --- building blocks --------------------------------------------------------------------------------------------------


def row_sum(values: Tensor, pointer: Tensor) -> Tensor:
    """(E, …) summed over the edges pointer[i]:pointer[i+1]."""
    return torch.segment_reduce(values, "sum", offsets=pointer, axis=0, unsafe=True, initial=0)


def row_top(scores: Tensor, pointer: Tensor) -> Tensor:
    """The largest score of each row; 0 where there is none, or none that is finite."""
    top = torch.segment_reduce(scores, "max", offsets=pointer, axis=0, unsafe=True, initial=-torch.inf)
    return torch.where(torch.isfinite(top), top, 0.0)


def bag(table: Tensor, index: Tensor, pointer: Tensor, weights: Tensor) -> Tensor:
    """(E, d) → (rows, d): Σ weights[e] · table[index[e]] over each row's edges."""
    if _is_slow_in_bags(table):
        return _csr(pointer, index, weights, (pointer.shape[0] - 1, table.shape[0])) @ table
    return F.embedding_bag(index, table, pointer, mode="sum", per_sample_weights=weights, include_last_offset=True)


def _is_slow_in_bags(table: Tensor) -> bool:
    """In float64 torch sums bags seven times as slowly as MKL multiplies by a sparse matrix."""
    return table.dtype == torch.float64 and table.device.type == "cpu" and torch.backends.mkl.is_available()


def _head_bags(table: Tensor, index: Tensor, pointer: Tensor, weights: Tensor) -> Tensor:
    """The same a head: table (S, H, d), weights (E, H) → (rows, H, d)."""
    heads = [bag(table[:, h].contiguous(), index, pointer, weights[:, h].contiguous()) for h in range(table.shape[1])]
    return heads[0].unsqueeze(1) if len(heads) == 1 else torch.stack(heads, 1)


def blocks(edges: int, numbers_per_edge: int) -> list[tuple[int, int]]:
    size = max(_BLOCK // max(numbers_per_edge, 1), 1)
    return [(start, min(start + size, edges)) for start in range(0, edges, size)]


class Differences:
    """p_i - p_j of the edges, a block at a time, always in the same memory.

    New memory for every block goes back to the system between two blocks, and costs more than the differences.
    """

    def __init__(self, points: Tensor, edges: int) -> None:
        self.points = points
        self.blocks = blocks(edges, points.shape[1])
        size = self.blocks[0][1] if self.blocks else 0
        self.left, self.right = points.new_empty(2, size, points.shape[1]).unbind(0)

    def of(self, left: Tensor, right: Tensor) -> Tensor:
        """Of nodes ``left`` from nodes ``right``; overwritten by the next."""
        count = left.shape[0]
        result = torch.index_select(self.points, 0, left, out=self.left[:count])
        return result.sub_(torch.index_select(self.points, 0, right, out=self.right[:count]))

    def sums(self, row: Tensor, col: Tensor, pointer: Tensor, factor: Tensor) -> Tensor:
        """(rows, H, d): Σ_e factor[e] · (p[i] - p[col[e]]) over the edges e of row i; points (N, H·d), factor (E, H).

        The differences are taken before they are weighted and summed: factor·p[i] - Σ factor·p[j] would cancel.
        """
        on_cpu, heads = row.device.type == "cpu", factor.shape[1]
        places = torch.arange(self.blocks[0][1] if self.blocks else 0, device=row.device)
        if on_cpu and len(self.blocks) == 1:
            return _head_bags(self.of(row, col).view(row.shape[0], heads, -1), places, pointer, factor)
        out = self.points.new_zeros(pointer.shape[0] - 1, heads, self.points.shape[1] // heads)
        for start, end in self.blocks:
            rows, weights = row[start:end], factor[start:end]
            difference = self.of(rows, col[start:end]).view(end - start, heads, -1)
            if not on_cpu:  # devices that would have to wait for the value of a row pointer
                out.index_add_(0, rows, difference.mul_(weights.unsqueeze(-1)))
                continue
            first, last = int(rows[0]), int(rows[-1]) + 1
            local = pointer[first : last + 1].clamp(start, end).sub_(start)
            out[first:last] += _head_bags(difference, places[: end - start], local, weights)
        return out


def dots(left: Tensor, right: Tensor, rowptr: Tensor, row: Tensor, col: Tensor) -> Tensor:
    """(E,): ⟨left[row], right[col]⟩, of (rows, d) and (columns, d)."""
    # torch's sampled product takes no more entries than the matrix has places
    if left.device.type == "cpu" and left.dtype == torch.float32 and row.shape[0] <= left.shape[0] * right.shape[0]:
        pattern = _csr(rowptr, col, left.new_zeros(row.shape[0]), (left.shape[0], right.shape[0]))
        return torch.sparse.sampled_addmm(pattern, left, right.t(), beta=0.0).values()
    ones, out = left.new_ones(left.shape[1]), left.new_empty(row.shape[0])
    for start, end in blocks(row.shape[0], left.shape[1]):
        product = left.index_select(0, row[start:end]).mul_(right.index_select(0, col[start:end]))
        torch.mv(product, ones, out=out[start:end])
    return out


def _csr(pointer: Tensor, index: Tensor, values: Tensor, size: tuple[int, int]) -> Tensor:
    with warnings.catch_warnings():
        # torch warns once that sparse CSR is in beta, which concerns no caller of a layer
        warnings.simplefilter("ignore", UserWarning)
        return torch.sparse_csr_tensor(pointer, index, values, size=size, check_invariants=False)


# --- distances --------------------------------------------------------------------------------------------------------


def may_be_spherical(k: Tensor) -> bool:
    """Whether a curvature may be positive, so that both forms of a distance must be computed."""
    # Reading the value is free on a CPU. Other devices would have to wait for it, so both forms are computed there.
    return k.device.type != "cpu" or bool((k > 0).any())


def _complement(x: Tensor, y: Tensor, k: Tensor) -> Tensor:
    """1 + 2k⟨x,y⟩ + k²|x|²|y|² = |far/|far| + k|far| near|², for k > 0; it vanishes at antipodes."""
    k = k.unsqueeze(-1)
    xx, yy = x.square().sum(-1, keepdim=True), y.square().sum(-1, keepdim=True)
    swap = yy > xx
    far, near, far2 = torch.where(swap, y, x), torch.where(swap, x, y), torch.where(swap, yy, xx)
    use = k * far2 > 0.25
    length = torch.sqrt(torch.where(use, far2, 1.0))
    gap = (far / length + k * length * near).square().sum(-1, keepdim=True)
    plain = (1 + k * xx) * (1 + k * yy) - k * (x - y).square().sum(-1, keepdim=True)
    return torch.where(use, gap, plain).squeeze(-1)


def _distance_block(x: Tensor, y: Tensor, ab: Tensor, k: Tensor, spherical: bool, needs_k: bool) -> list[Tensor]:
    """d and its partial derivatives for a block of edges; ``x`` is overwritten.

    With q = |x-y|²/ab, ab = (1+k|x|²)(1+k|y|²) and d = 2 arsin_k(√q): d, q ∂d/∂q, 2 ∂d/∂|x-y|², ∂d/∂k at fixed q.
    """
    tiny = torch.finfo(x.dtype).tiny ** 0.5
    complement = _complement(x, y, k) if spherical else None
    q = x.sub_(y).square_().sum(-1).div_(ab)
    root = q.sqrt()
    # asinh(s)/s = log1p(s + s²/(1 + √(1+s²)))/s, which is 1 to the last digit at the smallest s let in
    z = torch.mul(q, -k).clamp_(min=torch.finfo(x.dtype).eps ** 3)
    cosine = (z + 1).sqrt_()
    s = z.sqrt()
    ratio = z.div_(cosine + 1).add_(s).log1p_().div_(s)
    if complement is not None:
        angle_cosine = complement.div_(ab).clamp_(min=0.0).sqrt_()
        sine = k.clamp(min=0.0).sqrt() * root
        angle = torch.atan2(sine, angle_cosine) / torch.where(sine > 0, sine, 1.0)
        ratio = torch.where(sine > 0, angle, ratio)
        cosine = torch.where(k > 0, torch.where(angle_cosine > 0, angle_cosine, torch.inf), cosine)
    # Points that coincide have difference 0, so their gradient is 0 as long as the factor is finite.
    pull = 2 / (ab * root.clamp(min=tiny) * cosine)
    parts = [2 * root * ratio, root / cosine, pull]
    if needs_k:
        parts.append(bend(k * q, q, root, ratio, cosine))
    return parts


def bend(z: Tensor, q: Tensor, root: Tensor, ratio: Tensor, cosine: Tensor) -> Tensor:
    """∂d/∂k of d = 2√q F(kq) at fixed q, that is 2 q√q F'(z) at z = kq; ``z`` is overwritten.

    F' = (1/√(1-z) - F)/(2z), or its series where that cancels. (Masks multiply: torch.where costs ten times as much.)
    """
    small = (z.abs() < _SERIES_RADIUS).to(z.dtype)
    near = z * small
    terms = _SERIES if z.dtype == torch.float64 else _SERIES[:7]
    slope = torch.full_like(z, terms[-1])
    for coefficient in reversed(terms[:-1]):
        slope.mul_(near).add_(coefficient)
    far = cosine.reciprocal().sub_(ratio).div_(z.add_(small).mul_(2)).mul_(1 - small)
    return slope.mul_(small).add_(far).mul_(q).mul_(root).mul_(2)


@torch.library.custom_op("hgeo::edge_distance", mutates_args=())
def _distance(
    p: Tensor,
    flatness: Tensor,
    k: Tensor,
    rowptr: Tensor,
    row: Tensor,
    col: Tensor,
    colptr: Tensor | None,
    row_of_csc: Tensor | None,
    edge_pos: Tensor | None,
    symmetric: bool,
    needs_k: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The four numbers of ``_distance_block`` a head and edge; the last is empty if it is not needed."""
    _, heads, dim = p.shape
    edges = row.shape[0]
    flat = p.reshape(-1, heads * dim)
    spherical = may_be_spherical(k)
    out = [p.new_empty(edges, heads) for _ in range(3)] + [p.new_empty(edges if needs_k else 0, heads)]
    for start, end in blocks(edges, heads * dim):
        rows, cols = row[start:end], col[start:end]
        x = flat.index_select(0, rows).view(-1, heads, dim)
        y = flat.index_select(0, cols).view(-1, heads, dim)
        ab = flatness.index_select(0, rows).mul_(flatness.index_select(0, cols))
        for whole, part in zip(out, _distance_block(x, y, ab, k, spherical, needs_k), strict=False):
            whole[start:end] = part
    return out[0], out[1], out[2], out[3]


@_distance.register_fake
def _(
    p: Tensor, flatness: Tensor, k: Tensor, rowptr: Tensor, row: Tensor, *rest: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    edges, heads = row.shape[0], p.shape[1]
    last = p.new_empty(edges if rest[-1] else 0, heads)
    return p.new_empty(edges, heads), p.new_empty(edges, heads), p.new_empty(edges, heads), last


@torch.library.custom_op("hgeo::edge_distance_backward", mutates_args=())
def _distance_backward(
    grad: Tensor,
    p: Tensor,
    flatness: Tensor,
    k: Tensor,
    radial: Tensor,
    pull: Tensor,
    bend: Tensor,
    rowptr: Tensor,
    row: Tensor,
    col: Tensor,
    colptr: Tensor,
    row_of_csc: Tensor,
    edge_pos: Tensor,
    symmetric: bool,
    needs_k: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    grad_k = (grad * bend).sum(0) if needs_k else torch.zeros_like(k)
    backwards = grad.index_select(0, edge_pos)
    differences = Differences(p.flatten(1), row.shape[0])
    if symmetric:
        # The edge back has the same points, hence the same derivatives: one pass serves both of its ends.
        both = backwards.add_(grad)
        total = row_sum(both * radial, rowptr)
        grad_p = differences.sums(row, col, rowptr, both.mul_(pull))
    else:
        total = row_sum(backwards * radial.index_select(0, edge_pos), colptr)
        total[: rowptr.shape[0] - 1] += row_sum(grad * radial, rowptr)
        source = torch.repeat_interleave(colptr.diff(), output_size=row.shape[0])
        grad_p = differences.sums(source, row_of_csc, colptr, backwards.mul_(pull.index_select(0, edge_pos)))
        grad_p[: rowptr.shape[0] - 1] += differences.sums(row, col, rowptr, grad * pull)
    return grad_p, total.div_(flatness).neg_(), grad_k


@_distance_backward.register_fake
def _(grad: Tensor, p: Tensor, flatness: Tensor, k: Tensor, *rest: Any) -> tuple[Tensor, Tensor, Tensor]:
    return torch.empty_like(p), torch.empty_like(flatness), torch.empty_like(k)


def _distance_setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *points, rowptr, row, col, colptr, row_of_csc, edge_pos, symmetric, needs_k = inputs
    ctx.save_for_backward(*points, *output[1:], rowptr, row, col, colptr, row_of_csc, edge_pos)
    ctx.flags = symmetric, needs_k
    ctx.mark_non_differentiable(*output[1:])


def _distance_vjp(ctx: Any, grad: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
    grad_p, grad_flatness, grad_k = _distance_backward(grad.contiguous(), *ctx.saved_tensors, *ctx.flags)
    return (grad_p, grad_flatness, grad_k if ctx.flags[1] else None, *[None] * 8)


_distance.register_autograd(_distance_vjp, setup_context=_distance_setup)
_distance_backward.register_autograd(no_second_derivative)


# --- softmax ----------------------------------------------------------------------------------------------------------


@torch.library.custom_op("hgeo::edge_softmax", mutates_args=())
def _softmax(scores: Tensor, rowptr: Tensor, row: Tensor) -> Tensor:
    mass = (scores - row_top(scores, rowptr).index_select(0, row)).exp_()
    total = row_sum(mass, rowptr)
    return mass.div_(torch.where(total == 0, 1.0, total).index_select(0, row))


@_softmax.register_fake
def _(scores: Tensor, rowptr: Tensor, row: Tensor) -> Tensor:
    return torch.empty_like(scores)


@torch.library.custom_op("hgeo::edge_softmax_backward", mutates_args=())
def _softmax_backward(grad: Tensor, weights: Tensor, rowptr: Tensor, row: Tensor) -> Tensor:
    flow = grad * weights
    return flow.sub_(row_sum(flow, rowptr).index_select(0, row).mul_(weights))


@_softmax_backward.register_fake
def _(grad: Tensor, weights: Tensor, rowptr: Tensor, row: Tensor) -> Tensor:
    return torch.empty_like(weights)


def _softmax_setup(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    ctx.save_for_backward(output, *inputs[1:])


def _softmax_vjp(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    return _softmax_backward(grad.contiguous(), *ctx.saved_tensors), None, None


_softmax.register_autograd(_softmax_vjp, setup_context=_softmax_setup)
_softmax_backward.register_autograd(no_second_derivative)


# --- weighted sum -----------------------------------------------------------------------------------------------------


@torch.library.custom_op("hgeo::weighted_sum", mutates_args=())
def _sum(
    weights: Tensor,
    values: Tensor,
    rowptr: Tensor,
    row: Tensor,
    col: Tensor,
    colptr: Tensor | None,
    row_of_csc: Tensor | None,
    edge_pos: Tensor | None,
) -> Tensor:
    return _head_bags(values, col, rowptr, weights.expand(-1, values.shape[1]))


@_sum.register_fake
def _(weights: Tensor, values: Tensor, rowptr: Tensor, *rest: Any) -> Tensor:
    return values.new_empty(rowptr.shape[0] - 1, *values.shape[1:])


@torch.library.custom_op("hgeo::weighted_sum_backward", mutates_args=())
def _sum_backward(
    grad: Tensor,
    weights: Tensor,
    values: Tensor,
    rowptr: Tensor,
    row: Tensor,
    col: Tensor,
    colptr: Tensor,
    row_of_csc: Tensor,
    edge_pos: Tensor,
    needs_weights: bool,
) -> tuple[Tensor, Tensor]:
    heads = values.shape[1]
    transposed = weights.index_select(0, edge_pos).expand(-1, heads)
    grad_values = _head_bags(grad, row_of_csc, colptr, transposed)
    if not needs_weights:
        return torch.zeros_like(weights), grad_values
    of_heads = [dots(grad[:, h].contiguous(), values[:, h].contiguous(), rowptr, row, col) for h in range(heads)]
    grad_weights = torch.stack(of_heads, 1)
    return grad_weights.sum(1, keepdim=True) if weights.shape[1] != heads else grad_weights, grad_values


@_sum_backward.register_fake
def _(grad: Tensor, weights: Tensor, values: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    return torch.empty_like(weights), values.new_empty(values.shape)


def _sum_setup(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _sum_vjp(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    grad_weights, grad_values = _sum_backward(grad.contiguous(), *ctx.saved_tensors, ctx.needs_input_grad[0])
    return (grad_weights if ctx.needs_input_grad[0] else None, grad_values, *[None] * 6)


_sum.register_autograd(_sum_vjp, setup_context=_sum_setup)
_sum_backward.register_autograd(no_second_derivative)
