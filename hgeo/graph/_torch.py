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
from hgeo.graph._graph import Graph

__all__ = ["edge_distance", "edge_softmax", "weighted_sum"]

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


def edge_distance(graph: Graph, p_src: Tensor, p_dst: Tensor | None, k: Tensor) -> Tensor:
    if p_dst is not None:
        return _reference.edge_distance(graph, p_src, p_dst, k)
    training = torch.is_grad_enabled() and (p_src.requires_grad or k.requires_grad)
    colptr, row_of_csc, edge_pos = graph.csc if training else (None, None, None)
    symmetric = training and graph.is_symmetric
    distance, _, _ = _distance(p_src, k, graph.rowptr, graph.row, graph.col, colptr, row_of_csc, edge_pos, symmetric)
    return distance


def edge_softmax(graph: Graph, scores: Tensor) -> Tensor:
    return _softmax(scores, graph.rowptr, graph.row)


def weighted_sum(graph: Graph, weights: Tensor, values: Tensor) -> Tensor:
    training = torch.is_grad_enabled() and (values.requires_grad or weights.requires_grad)
    colptr, row_of_csc, edge_pos = graph.csc if training else (None, None, None)
    return _sum(weights, values, graph.rowptr, graph.row, graph.col, colptr, row_of_csc, edge_pos)


# --- building blocks --------------------------------------------------------------------------------------------------


def _row_sum(values: Tensor, pointer: Tensor) -> Tensor:
    """(E, H) summed over the edges pointer[i]:pointer[i+1]."""
    return torch.segment_reduce(values, "sum", offsets=pointer, axis=0, unsafe=True, initial=0)


def _bag(table: Tensor, index: Tensor, pointer: Tensor, weights: Tensor) -> Tensor:
    """(E, d) → (rows, d): Σ weights[e] · table[index[e]] over each row's edges."""
    return F.embedding_bag(index, table, pointer, mode="sum", per_sample_weights=weights, include_last_offset=True)


def _head_bags(table: Tensor, index: Tensor, pointer: Tensor, weights: Tensor) -> Tensor:
    """The same a head: table (S, H, d), weights (E, H) → (rows, H, d)."""
    heads = [_bag(table[:, h].contiguous(), index, pointer, weights[:, h].contiguous()) for h in range(table.shape[1])]
    return heads[0].unsqueeze(1) if len(heads) == 1 else torch.stack(heads, 1)


def _blocks(edges: int, numbers_per_edge: int) -> list[tuple[int, int]]:
    size = max(_BLOCK // max(numbers_per_edge, 1), 1)
    return [(start, min(start + size, edges)) for start in range(0, edges, size)]


def _add_differences(out: Tensor, p: Tensor, row: Tensor, col: Tensor, pointer: Tensor, factor: Tensor) -> None:
    """out[i] += Σ_e factor[e] · (p[i] - p[col[e]]) over the edges e of row i, a block of edges at a time.

    The differences are taken before they are weighted and summed: factor·p[i] - Σ factor·p[j] would cancel.
    """
    _, heads, dim = p.shape
    flat = p.reshape(p.shape[0], heads * dim)
    for start, end in _blocks(row.shape[0], heads * dim):
        rows, cols = row[start:end], col[start:end]
        difference = flat.index_select(0, rows).sub_(flat.index_select(0, cols)).view(-1, heads, dim)
        if p.device.type != "cpu":
            out.index_add_(0, rows, difference.mul_(factor[start:end].unsqueeze(-1)))
            continue
        first, last = int(rows[0]), int(rows[-1]) + 1
        local = pointer[first : last + 1].clamp(start, end) - start
        inside = torch.arange(end - start, device=p.device)
        out[first:last] += _head_bags(difference, inside, local, factor[start:end])


def _dots(left: Tensor, right: Tensor, rowptr: Tensor, row: Tensor, col: Tensor) -> Tensor:
    """(E, H): ⟨left[row], right[col]⟩ a head."""
    heads, dim = left.shape[1:]
    out = left.new_empty(row.shape[0], heads)
    if left.device.type == "cpu" and left.dtype == torch.float32:
        for h in range(heads):
            a, b = left[:, h].contiguous(), right[:, h].contiguous()
            pattern = _csr(rowptr, col, out.new_zeros(row.shape[0]), (a.shape[0], b.shape[0]))
            out[:, h] = torch.sparse.sampled_addmm(pattern, a, b.t(), beta=0.0).values()
        return out
    flat_left, flat_right = left.reshape(-1, heads * dim), right.reshape(-1, heads * dim)
    for start, end in _blocks(row.shape[0], heads * dim):
        product = flat_left.index_select(0, row[start:end]).mul_(flat_right.index_select(0, col[start:end]))
        torch.sum(product.view(-1, heads, dim), -1, out=out[start:end])
    return out


def _csr(pointer: Tensor, index: Tensor, values: Tensor, size: tuple[int, int]) -> Tensor:
    with warnings.catch_warnings():
        # torch announces once that sparse CSR is in beta; whoever calls a layer cannot do anything about it
        warnings.simplefilter("ignore", UserWarning)
        return torch.sparse_csr_tensor(pointer, index, values, size=size, check_invariants=False)


# --- distances --------------------------------------------------------------------------------------------------------


def may_be_spherical(k: Tensor) -> bool:
    """Whether a curvature may be positive, so that both forms of a distance must be computed."""
    # On a CPU looking costs nothing; elsewhere it would stall the device, and both forms are computed.
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


def _distance_fake(p: Tensor, k: Tensor, rowptr: Tensor, row: Tensor, *rest: Any) -> tuple[Tensor, Tensor, Tensor]:
    shape = (row.shape[0], p.shape[1])
    return p.new_empty(shape), p.new_empty(shape), p.new_empty(shape)


@torch.library.custom_op("hgeo::edge_distance", mutates_args=())
def _distance(
    p: Tensor,
    k: Tensor,
    rowptr: Tensor,
    row: Tensor,
    col: Tensor,
    colptr: Tensor | None,
    row_of_csc: Tensor | None,
    edge_pos: Tensor | None,
    symmetric: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """d, √q and √(1 - kq) a head and edge, where q = |x-y|²/((1+k|x|²)(1+k|y|²)) and d = 2 arsin_k(√q)."""
    _, heads, dim = p.shape
    flat = p.reshape(-1, heads * dim)
    squared = p.new_empty(row.shape[0], heads)
    spherical = may_be_spherical(k)
    complement = torch.empty_like(squared) if spherical else squared
    for start, end in _blocks(row.shape[0], heads * dim):
        x, y = flat.index_select(0, row[start:end]), flat.index_select(0, col[start:end])
        if spherical:
            complement[start:end] = _complement(x.view(-1, heads, dim), y.view(-1, heads, dim), k)
        torch.sum(x.sub_(y).square_().view(-1, heads, dim), -1, out=squared[start:end])
    flatness = 1 + k * p.square().sum(-1)
    ab = flatness.index_select(0, row).mul_(flatness.index_select(0, col))
    q = squared.div_(ab)
    # asinh(s)/s = log1p(s + s²/(1 + √(1+s²)))/s, which is 1 to the last digit at the smallest s let in
    z = (-k * q).clamp_(min=torch.finfo(p.dtype).eps ** 3)
    cosine = (1 + z).sqrt_()
    s = z.sqrt()
    ratio = torch.log1p(z.div_(cosine + 1).add_(s)).div_(s)
    root = q.sqrt_()
    if spherical:
        angle_cosine = complement.div_(ab).clamp_(min=0.0).sqrt_()
        sine = k.clamp(min=0.0).sqrt() * root
        safe = torch.where(sine > 0, sine, 1.0)
        ratio = torch.where(sine > 0, torch.atan2(sine, angle_cosine) / safe, ratio)
        cosine = torch.where(k > 0, angle_cosine, cosine)
    return ratio.mul_(root).mul_(2), root, cosine


_distance.register_fake(_distance_fake)


@torch.library.custom_op("hgeo::edge_distance_backward", mutates_args=())
def _distance_backward(
    grad: Tensor,
    p: Tensor,
    k: Tensor,
    distance: Tensor,
    root: Tensor,
    cosine: Tensor,
    rowptr: Tensor,
    row: Tensor,
    col: Tensor,
    colptr: Tensor,
    row_of_csc: Tensor,
    edge_pos: Tensor,
    symmetric: bool,
    needs_k: bool,
) -> tuple[Tensor, Tensor]:
    norms = p.square().sum(-1)
    flatness = 1 + k * norms
    inverse = flatness.reciprocal()
    # q ∂d/∂q = √q/√(1-kq) acts through (1+k|x|²)(1+k|y|²); ∂d/∂|x-y|² = that / (q · ab), and 0 at coincident points
    cosine = torch.where(cosine > 0, cosine, torch.inf)
    radial = grad * root / cosine
    inverse_ab = inverse.index_select(0, row).mul_(inverse.index_select(0, col))
    pull = torch.where(root > 0, 2 * grad * inverse_ab / (root * cosine), 0.0)
    total = _row_sum(radial.index_select(0, edge_pos), colptr)
    total[: rowptr.shape[0] - 1] += _row_sum(radial, rowptr)
    total *= inverse
    grad_p = p * (-2 * k * total).unsqueeze(-1)
    if symmetric:  # the edge back has the same difference: one pass serves both ends
        _add_differences(grad_p, p, row, col, rowptr, pull + pull.index_select(0, edge_pos))
    else:
        _add_differences(grad_p, p, row, col, rowptr, pull)
        source = torch.repeat_interleave(colptr.diff(), output_size=row.shape[0])
        _add_differences(grad_p, p, source, row_of_csc, colptr, pull.index_select(0, edge_pos))
    if not needs_k:
        return grad_p, torch.zeros_like(k)
    # d = 2√q F(kq): ∂d/∂k at fixed q is 2 q√q F'(kq), F' = (1/√(1-z) - F)/(2z) or its series
    q = root.square()
    z = k * q
    small = z.abs() < _SERIES_RADIUS
    slope = torch.full_like(z, _SERIES[-1])
    near = torch.where(small, z, 0.0)
    for coefficient in reversed(_SERIES[:-1]):
        slope.mul_(near).add_(coefficient)
    far = torch.where(small, 1.0, z)
    ratio = distance / torch.where(root > 0, 2 * root, 1.0)
    slope = torch.where(small, slope, (1 / cosine - ratio) / (2 * far))
    grad_k = (grad * 2 * q * root * slope).sum(0) - (total * norms).sum(0)
    return grad_p, grad_k


@_distance_backward.register_fake
def _(grad: Tensor, p: Tensor, k: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    return torch.empty_like(p), torch.empty_like(k)


def _distance_setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    p, k, *arrays, symmetric = inputs
    ctx.save_for_backward(p, k, *output, *arrays)
    ctx.symmetric = symmetric
    ctx.mark_non_differentiable(output[1], output[2])


def _distance_vjp(ctx: Any, grad: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
    p, k, distance, root, cosine, *arrays = ctx.saved_tensors
    grad_p, grad_k = _distance_backward(
        grad.contiguous(), p, k, distance, root, cosine, *arrays, ctx.symmetric, ctx.needs_input_grad[1]
    )
    return (grad_p, grad_k, *[None] * 7)


_distance.register_autograd(_distance_vjp, setup_context=_distance_setup)


# --- softmax ----------------------------------------------------------------------------------------------------------


@torch.library.custom_op("hgeo::edge_softmax", mutates_args=())
def _softmax(scores: Tensor, rowptr: Tensor, row: Tensor) -> Tensor:
    top = torch.segment_reduce(scores, "max", offsets=rowptr, axis=0, unsafe=True, initial=-torch.inf)
    top = torch.where(torch.isfinite(top), top, 0.0)
    mass = (scores - top.index_select(0, row)).exp_()
    total = _row_sum(mass, rowptr)
    return mass.div_(torch.where(total == 0, 1.0, total).index_select(0, row))


@_softmax.register_fake
def _(scores: Tensor, rowptr: Tensor, row: Tensor) -> Tensor:
    return torch.empty_like(scores)


@torch.library.custom_op("hgeo::edge_softmax_backward", mutates_args=())
def _softmax_backward(grad: Tensor, weights: Tensor, rowptr: Tensor, row: Tensor) -> Tensor:
    flow = grad * weights
    return flow.sub_(_row_sum(flow, rowptr).index_select(0, row).mul_(weights))


@_softmax_backward.register_fake
def _(grad: Tensor, weights: Tensor, rowptr: Tensor, row: Tensor) -> Tensor:
    return torch.empty_like(weights)


def _softmax_setup(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    ctx.save_for_backward(output, *inputs[1:])


def _softmax_vjp(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    return _softmax_backward(grad.contiguous(), *ctx.saved_tensors), None, None


_softmax.register_autograd(_softmax_vjp, setup_context=_softmax_setup)


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
    grad_weights = _dots(grad, values, rowptr, row, col)
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
