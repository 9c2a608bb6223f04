"""The fused attention on CUDA: Triton kernels over edges, node-level maps in torch.

One program does one destination (or source) of one head and walks its edges in chunks, so nothing of size E×d exists.
The table has the shape of the CPU one (see :mod:`._kernels`), but a record of ``padded + 4`` numbers a source.

With ``TRITON_INTERPRET=1`` set before this module is imported, the same kernels run on CPU tensors in Triton's
interpreter; that is how they are tested where there is no GPU.
"""

from __future__ import annotations

import contextlib
import math
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from hgeo.kernels.attention._arguments import Inputs, Kept

__all__ = ["backward", "forward"]

_FLAT_ROOT = tl.constexpr(2.0**-50)  # stands for √|k| at k = 0: powers of two cancel exactly, and d = 2√q
_TINY_SCALE = 2.0**-40  # stands for a score scale of exactly 0
_HALF_PI = tl.constexpr(math.pi / 2)
_FAR = tl.constexpr(0.75)  # beyond this k q the number 1 - k q is kept instead, with a minus sign
_SERIES = tl.constexpr(0.05)


# ---------------------------------------------------------------------------------------------------------------------
# functions of edges


@triton.jit
def _log1p(g):  # type: ignore[no-untyped-def]
    # log(1+g) = 2 artanh(g/(2+g)), a short series for small g; there log(1+g) would lose digits
    s = tl.where(g < 0.4, g, 0.0) / (2.0 + tl.where(g < 0.4, g, 0.0))
    s2 = s * s
    series = 1.0 / 25.0
    for n in tl.static_range(12):
        series = series * s2 + 1.0 / (23 - 2 * n)
    # a NaN is not above 0.4, and its series is 0: it must come back as itself
    return tl.where(g >= 0.4, tl.log(1.0 + g), tl.where(g < 0.4, 2.0 * s * series, g))


@triton.jit
def _atan_unit(x):  # type: ignore[no-untyped-def]
    # the angle is halved twice, then x² ≤ 0.04
    x = x / (1.0 + tl.sqrt(1.0 + x * x))
    x = x / (1.0 + tl.sqrt(1.0 + x * x))
    x2 = x * x
    series = 1.0 / 25.0
    for n in tl.static_range(12):
        series = 1.0 / (23 - 2 * n) - x2 * series
    return 4.0 * x * series


@triton.jit
def _decode(stored, k):  # type: ignore[no-untyped-def]
    # (q, 1 - k q): stored is q, or -(1 - k q) in a sphere's far hemisphere
    far = stored < 0.0
    q = tl.where(far, (1.0 + stored) / tl.where(k > 0.0, k, 1.0), stored)
    return q, tl.where(far, -stored, 1.0 - k * stored)


@triton.jit
def _distance(stored, k):  # type: ignore[no-untyped-def]
    root = tl.maximum(tl.sqrt(tl.abs(k)), _FLAT_ROOT)
    q, m = _decode(stored, k)
    x = root * tl.sqrt(q)
    if k > 0.0:
        cosine = tl.sqrt(m)
        near = _atan_unit(x / tl.where(cosine > 0.7, cosine, 1.0))
        far = _HALF_PI - _atan_unit(cosine / tl.where(x > 0.7, x, 1.0))
        angle = tl.where(x > cosine, far, near)
    else:
        t = x * x
        angle = _log1p(x + t / (1.0 + tl.sqrt(1.0 + t)))
    return 2.0 / root * angle


@triton.jit
def _slopes(stored, distance, k):  # type: ignore[no-untyped-def]
    # (q, ∂d/∂q, ∂d/∂k at fixed q)
    q, m = _decode(stored, k)
    root, cosine = tl.sqrt(q), tl.sqrt(m)
    positive = q > 0.0
    by_q = tl.where(positive, 1.0 / tl.where(positive, root * cosine, 1.0), q)
    z = k * q
    # d/dz of asin(√z)/√z = Σ n a_n z^(n-1), a_n = a_{n-1} (2n-1)²/(2n(2n+1)), by Horner's rule from the last factor
    series = 1.0
    for n in tl.static_range(13):
        j = 14 - n  # n·a_n / ((n-1)·a_{n-1})
        series = 1.0 + z * (((2.0 * j - 1.0) * (2.0 * j - 1.0)) / (2.0 * j * (2.0 * j + 1.0)) * j / (j - 1.0)) * series
    near = tl.abs(z) < _SERIES
    closed = (root / cosine - 0.5 * distance) / tl.where(k == 0.0, 1.0, k)
    return q, by_q, tl.where(near, 2.0 * root * q * series / 6.0, closed)


# ---------------------------------------------------------------------------------------------------------------------
# kernels


@triton.jit
def _scores_kernel(  # type: ignore[no-untyped-def]
    rowptr, col, table, ks, betas, q_out, s_out, num_src, num_edges, padded,
    BLOCK_E: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """q and -β d of the edges of one row."""
    i, head = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    k, beta = tl.load(ks + head), tl.load(betas + head)
    stride = padded + 4
    table += head * num_src * stride
    place = tl.arange(0, BLOCK_D)
    inside = place < padded
    p_i = tl.load(table + i * stride + place, mask=inside, other=0.0)
    a_i = tl.load(table + i * stride + padded)
    end = tl.load(rowptr + i + 1)
    for start in range(tl.load(rowptr + i), end, BLOCK_E):
        e = start + tl.arange(0, BLOCK_E)
        real = e < end
        j = tl.load(col + e, mask=real, other=0).to(tl.int64) * stride
        p_j = tl.load(table + j[:, None] + place[None, :], mask=real[:, None] & inside[None, :], other=0.0)
        a_j = tl.load(table + j + padded, mask=real, other=1.0)
        difference = p_i[None, :] - p_j
        q = tl.sum(difference * difference, axis=1) * a_i * a_j
        if k > 0.0:
            # 1 - k q by differences: |x + k|x|² y|²/(|x|² a_i a_j), x the point farther out, y the other
            j_is_farther = a_j < a_i
            kn = 1.0 / tl.minimum(a_j, a_i) - 1.0
            kn = tl.where(kn > 0.0, kn, 1.0)
            x = tl.where(j_is_farther[:, None], p_j, p_i[None, :])
            y = tl.where(j_is_farther[:, None], p_i[None, :], p_j)
            v = x + kn[:, None] * y
            m = tl.maximum(tl.sum(v * v, axis=1) * k / kn * a_i * a_j, 1e-30)
            q = tl.where(k * q > _FAR, -m, q)
        tl.store(q_out + head * num_edges + e, q, mask=real)
        tl.store(s_out + head * num_edges + e, -beta * _distance(q, k), mask=real)


@triton.jit
def _sum_kernel(  # type: ignore[no-untyped-def]
    rowptr, col, table, s_in, bias, bias_edge, bias_head, factor, factor_edge, factor_head,
    e_out, zinv_out, out, num_src, num_edges, heads, dim, padded,
    SELF_MEAN: tl.constexpr, HAS_BIAS: tl.constexpr, HAS_FACTOR: tl.constexpr,
    BLOCK_E: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """Softmax and weighted sum of one row."""
    i, head = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    stride = padded + 4
    table += head * num_src * stride
    s_in += head * num_edges
    e_out += head * num_edges
    bias += head * bias_head
    factor += head * factor_head
    begin, end = tl.load(rowptr + i), tl.load(rowptr + i + 1)
    total = tl.zeros([BLOCK_E], dtype=table.dtype.element_ty)
    others = tl.zeros([BLOCK_E], dtype=table.dtype.element_ty)
    if SELF_MEAN:
        for start in range(begin, end, BLOCK_E):
            e = start + tl.arange(0, BLOCK_E)
            real = e < end
            other = real & (tl.load(col + e, mask=real, other=0) != i)
            total += tl.load(s_in + e, mask=other, other=0.0)
            others += other.to(total.dtype)
    mean = tl.sum(total, axis=0) / tl.maximum(tl.sum(others, axis=0), 1.0)
    largest = tl.full([BLOCK_E], float("-inf"), dtype=table.dtype.element_ty)
    for start in range(begin, end, BLOCK_E):
        e = start + tl.arange(0, BLOCK_E)
        real = e < end
        s = tl.load(s_in + e, mask=real, other=float("-inf"))
        if SELF_MEAN:
            s = tl.where(real & (tl.load(col + e, mask=real, other=0) == i), mean, s)
        if HAS_BIAS:
            s += tl.load(bias + e * bias_edge, mask=real, other=0.0)
        largest = tl.maximum(largest, s)
    top = tl.max(largest, axis=0)
    top = tl.where(top == float("-inf"), 0.0, top)
    place = tl.arange(0, BLOCK_D)
    inside = place < padded
    z = tl.zeros([BLOCK_E], dtype=table.dtype.element_ty)
    result = tl.zeros([BLOCK_D], dtype=table.dtype.element_ty)
    for start in range(begin, end, BLOCK_E):
        e = start + tl.arange(0, BLOCK_E)
        real = e < end
        node = tl.load(col + e, mask=real, other=0).to(tl.int64)
        s = tl.load(s_in + e, mask=real, other=float("-inf"))
        if SELF_MEAN:
            s = tl.where(real & (node == i), mean, s)
        if HAS_BIAS:
            s += tl.load(bias + e * bias_edge, mask=real, other=0.0)
        w = tl.exp(s - top)
        tl.store(e_out + e, w, mask=real)
        z += w
        j = node * stride
        w *= tl.load(table + j + padded + 1, mask=real, other=0.0)
        if HAS_FACTOR:
            w *= tl.load(factor + e * factor_edge, mask=real, other=0.0)
        p_j = tl.load(table + j[:, None] + place[None, :], mask=real[:, None] & inside[None, :], other=0.0)
        result += tl.sum(w[:, None] * p_j, axis=0)
    total_z = tl.sum(z, axis=0)
    zinv = tl.where(total_z == 0.0, 0.0, 1.0 / tl.where(total_z == 0.0, 1.0, total_z))
    tl.store(zinv_out + head * tl.num_programs(0) + i, zinv)
    tl.store(out + (i * heads + head) * dim + place, result * zinv, mask=place < dim)


@triton.jit
def _backward_rows_kernel(  # type: ignore[no-untyped-def]
    rowptr, col, table, g_table, means, ks, betas, q_in, e_in, factor, factor_edge, factor_head,
    coefficient_out, radial_edge_out, score_out, point_out, radial_out, scalars_out,
    num_src, num_edges, padded,
    SELF_MEAN: tl.constexpr, HAS_FACTOR: tl.constexpr, BLOCK_E: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """∂L/∂score of the edges of one row, what they give to the destination, and what they will give to sources."""
    i, head = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    rows = tl.num_programs(0)
    k, beta = tl.load(ks + head), tl.load(betas + head)
    stride = padded + 4
    table += head * num_src * stride
    edge_base = head * num_edges
    factor += head * factor_head
    begin, end = tl.load(rowptr + i), tl.load(rowptr + i + 1)
    place = tl.arange(0, BLOCK_D)
    inside = place < padded
    p_i = tl.load(table + i * stride + place, mask=inside, other=0.0)
    a_i = tl.load(table + i * stride + padded)
    g_i = tl.load(g_table + (head * rows + i) * padded + place, mask=inside, other=0.0)
    mean = tl.load(means + head * rows + i)
    sigma = mean * 0.0
    if SELF_MEAN:
        # a self-loop's score is the mean of the others': what it receives is shared among them
        own = tl.sum(p_i * g_i, axis=0) * tl.load(table + i * stride + padded + 1)
        received = tl.zeros([BLOCK_E], dtype=table.dtype.element_ty)
        others = tl.zeros([BLOCK_E], dtype=table.dtype.element_ty)
        for start in range(begin, end, BLOCK_E):
            e = start + tl.arange(0, BLOCK_E)
            real = e < end
            loop = real & (tl.load(col + e, mask=real, other=0) == i)
            gain = tl.zeros([BLOCK_E], dtype=table.dtype.element_ty) + own
            if HAS_FACTOR:
                gain *= tl.load(factor + e * factor_edge, mask=real, other=0.0)
            received += tl.where(loop, tl.load(e_in + edge_base + e, mask=real, other=0.0) * (gain - mean), 0.0)
            others += (real & (loop == 0)).to(others.dtype)
        sigma = tl.sum(received, axis=0) / tl.maximum(tl.sum(others, axis=0), 1.0)
    point = tl.zeros([BLOCK_D], dtype=table.dtype.element_ty)
    radial = tl.zeros([BLOCK_E], dtype=table.dtype.element_ty)
    by_beta = tl.zeros([BLOCK_E], dtype=table.dtype.element_ty)
    by_k = tl.zeros([BLOCK_E], dtype=table.dtype.element_ty)
    for start in range(begin, end, BLOCK_E):
        e = start + tl.arange(0, BLOCK_E)
        real = e < end
        node = tl.load(col + e, mask=real, other=0).to(tl.int64)
        j = node * stride
        p_j = tl.load(table + j[:, None] + place[None, :], mask=real[:, None] & inside[None, :], other=0.0)
        a_j = tl.load(table + j + padded, mask=real, other=1.0)
        gain = tl.sum(g_i[None, :] * p_j, axis=1) * tl.load(table + j + padded + 1, mask=real, other=0.0)
        if HAS_FACTOR:
            gain *= tl.load(factor + e * factor_edge, mask=real, other=0.0)
        score = tl.load(e_in + edge_base + e, mask=real, other=0.0) * (gain - mean)
        tl.store(score_out + edge_base + e, score, mask=real)
        if SELF_MEAN:
            score = tl.where(node == i, score, score + sigma)
        score = tl.where(real, score, 0.0)
        stored = tl.load(q_in + edge_base + e, mask=real, other=0.0)
        distance = _distance(stored, k)
        q, slope_q, slope_k = _slopes(stored, distance, k)
        by_beta -= score * distance
        by_k -= beta * score * slope_k
        g_q = -beta * score * slope_q
        coefficient = g_q * a_i * a_j
        tl.store(coefficient_out + edge_base + e, coefficient, mask=real)
        tl.store(radial_edge_out + edge_base + e, g_q * q, mask=real)
        radial += g_q * q
        point += tl.sum(coefficient[:, None] * (p_i[None, :] - p_j), axis=0)
    tl.store(point_out + (head * rows + i) * padded + place, point, mask=inside)
    tl.store(radial_out + head * rows + i, tl.sum(radial, axis=0))
    tl.store(scalars_out + head * rows + i, tl.sum(by_beta, axis=0))
    tl.store(scalars_out + (tl.num_programs(1) + head) * rows + i, tl.sum(by_k, axis=0))


@triton.jit
def _backward_columns_kernel(  # type: ignore[no-untyped-def]
    colptr, csc_row, csc_pos, table, g_table, e_in, factor, factor_edge, factor_head,
    coefficient_in, radial_edge_in, point_in, radial_in, point_out, value_out, radial_out,
    num_dst, num_edges, padded,
    HAS_FACTOR: tl.constexpr, BLOCK_E: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """½ ∂L/∂p, ∂L/∂value and ∂L/∂ln(1/a) of one source."""
    j, head = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    sources = tl.num_programs(0)
    stride = padded + 4
    table += head * sources * stride
    edge_base = head * num_edges
    factor += head * factor_head
    place = tl.arange(0, BLOCK_D)
    inside = place < padded
    p_j = tl.load(table + j * stride + place, mask=inside, other=0.0)
    listens = j < num_dst
    row = head * num_dst + tl.where(listens, j, 0)
    point = tl.load(point_in + row * padded + place, mask=place < tl.where(listens, padded, 0), other=0.0)
    value = tl.zeros([BLOCK_D], dtype=table.dtype.element_ty)
    radial = tl.zeros([BLOCK_E], dtype=table.dtype.element_ty)
    end = tl.load(colptr + j + 1)
    for start in range(tl.load(colptr + j), end, BLOCK_E):
        f = start + tl.arange(0, BLOCK_E)
        real = f < end
        i = tl.load(csc_row + f, mask=real, other=0).to(tl.int64)
        e = tl.load(csc_pos + f, mask=real, other=0).to(tl.int64)
        both = real[:, None] & inside[None, :]
        p_i = tl.load(table + i[:, None] * stride + place[None, :], mask=both, other=0.0)
        g_i = tl.load(g_table + (head * num_dst + i[:, None]) * padded + place[None, :], mask=both, other=0.0)
        weight = tl.load(e_in + edge_base + e, mask=real, other=0.0)
        if HAS_FACTOR:
            weight *= tl.load(factor + e * factor_edge, mask=real, other=0.0)
        coefficient = tl.load(coefficient_in + edge_base + e, mask=real, other=0.0)
        radial += tl.load(radial_edge_in + edge_base + e, mask=real, other=0.0)
        point += tl.sum(coefficient[:, None] * (p_j[None, :] - p_i), axis=0)
        value += tl.sum(weight[:, None] * g_i, axis=0)
    total = tl.sum(radial, axis=0) + tl.where(listens, tl.load(radial_in + row), 0.0)
    tl.store(point_out + (head * sources + j) * padded + place, point, mask=inside)
    tl.store(value_out + (head * sources + j) * padded + place, value, mask=inside)
    tl.store(radial_out + head * sources + j, total)


# ---------------------------------------------------------------------------------------------------------------------
# nodes, in torch


def _node_maps(u: Tensor, k: Tensor, scale: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """float64 (num_src, heads): τ, 1/a, dT/dz, |u|² and whether the point is clipped; see _kernels.node_maps."""
    eps = torch.finfo(u.dtype).eps
    rim = 1.0 - 6.0 * eps
    square = u.double().square().sum(-1)
    z = k * scale * scale * square
    x = z.abs().sqrt()
    clipped = (z < 0) & (x > math.atanh(1.0 - 4.0 * eps))
    safe = torch.where((x > 0) & ~clipped, x, 1.0)
    y = torch.expm1(-2.0 * safe)
    negative, positive = -y / ((2.0 + y) * safe), torch.tan(safe) / safe
    t = torch.where(z < 0, negative, torch.where(z > 0, positive, 1.0))
    t = torch.where(clipped, rim / torch.where(clipped, x, 1.0), t)
    inverse_a = torch.where(z < 0, (2.0 + y).square() / (4.0 * (1.0 + y)), 1.0 / (1.0 + z * t * t))
    inverse_a = torch.where(clipped, 1.0 / (6.0 * eps * (2.0 - 6.0 * eps)), inverse_a)
    series = torch.zeros_like(z)
    for coefficient in reversed(_tan_slope_coefficients()):
        series = series * z + coefficient
    near = z.abs() < 0.05
    slope = torch.where(near, series, (1.0 / inverse_a - t) / (2.0 * torch.where(near, 1.0, z)))
    return scale * t, inverse_a, slope, square, clipped


def _tan_slope_coefficients(count: int = 9) -> list[float]:
    """d/dz of tan(√z)/√z = Σ t_n zⁿ, (2n+1) t_n = Σ_{i+j=n-1} t_i t_j: the numbers n·t_n."""
    t = [1.0]
    for n in range(1, count):
        t.append(sum(t[i] * t[n - 1 - i] for i in range(n)) / (2 * n + 1))
    return [n * t[n] for n in range(1, count)]


def _heads(a: Inputs) -> tuple[Tensor, Tensor, Tensor]:
    """float64 k, beta and scale, contiguous: kernels read a number a head."""
    k, beta = (t.detach().double().contiguous() for t in (a.k, a.beta))
    scale = torch.ones_like(k) if a.scale is None else a.scale.detach().double().contiguous()
    return k, beta, torch.where(scale == 0, _TINY_SCALE, scale)


def _blocks(padded: int) -> dict[str, int]:
    block_d = triton.next_power_of_2(padded)
    return {"BLOCK_E": max(4, min(64, 4096 // block_d)), "BLOCK_D": block_d}


def _on(device: torch.device) -> Any:
    return torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext()


def _edge_numbers(values: Tensor | None, like: Tensor) -> tuple[Tensor, int, int]:
    """An (E, 1) or (E, heads) tensor with its two strides; a stand-in where there is none."""
    if values is None:
        return like, 0, 0
    heads = values.shape[1]
    return values, heads, 1 if heads > 1 else 0


def _sums(a: Inputs, parts: dict[str, Tensor], out: Tensor) -> None:
    """Fill ``out`` with the weighted sums and the parts of what is kept."""
    u, rowptr, col, num_edges, factor, bias = a.u, a.rowptr, a.col, a.num_edges, a.factor, a.bias
    num_src, num_dst, heads, dim, _, padded = a.shape
    table, zinv = parts["table"], parts["zinv"]
    ks, betas, scales = _heads(a)
    tau, inverse_a, _, _, _ = _node_maps(u, ks, scales)
    values = 1.0 / tau if a.value_scale is None else a.value_scale.double()[:, None] / tau
    table.zero_()
    table[:, :, :dim] = (tau.to(u.dtype)[:, :, None] * u).transpose(0, 1)
    table[:, :, padded] = inverse_a.t()
    table[:, :, padded + 1] = values.t()
    ks, betas = ks.to(u.dtype), betas.to(u.dtype)
    q, s, e = (u.new_empty(heads, num_edges) for _ in range(3))
    if a.keep:
        q, e = parts["q"], parts["e"]
    grid, blocks = (num_dst, heads), _blocks(padded)
    if num_dst and heads:
        with _on(u.device):
            _scores_kernel[grid](rowptr, col, table, ks, betas, q, s, num_src, num_edges, padded, **blocks)
            _sum_kernel[grid](
                rowptr, col, table, s, *_edge_numbers(bias, table), *_edge_numbers(factor, table), e, zinv, out,
                num_src, num_edges, heads, dim, padded,
                SELF_MEAN=a.self_mean, HAS_BIAS=bias is not None, HAS_FACTOR=factor is not None, **blocks,
            )  # fmt: skip


def _sums_backward(
    grad_out: Tensor, a: Inputs, parts: dict[str, Tensor], out: Tensor, needs_bias: bool
) -> tuple[Tensor, list[Tensor], Tensor]:
    """Gradients of u, of (k, beta, scale), and of the bias."""
    u, rowptr, col, num_edges, factor = a.u, a.rowptr, a.col, a.num_edges, a.factor
    colptr, csc_row = (rowptr, col) if a.symmetric else (a.colptr, a.csc_row)
    table, q, e, zinv = (parts[name] for name in ("table", "q", "e", "zinv"))
    num_src, num_dst, heads, dim, _, padded = a.shape
    ks, betas, scales = _heads(a)
    ks_here, betas_here = ks.to(u.dtype), betas.to(u.dtype)
    g = grad_out * zinv.t()[:, :, None]
    g_table = u.new_zeros(heads, num_dst, padded)
    g_table[:, :, :dim] = g.transpose(0, 1)
    means = (g * out).sum(-1).t().contiguous()
    coefficient, radial_edge, score = (u.new_empty(heads, num_edges) for _ in range(3))
    row_point, row_radial = u.new_empty(heads, num_dst, padded), u.new_empty(heads, num_dst)
    scalars = u.new_empty(2, heads, num_dst)
    point, value = (u.new_zeros(heads, num_src, padded) for _ in range(2))
    radial = u.new_zeros(heads, num_src)
    blocks = _blocks(padded)
    numbers = _edge_numbers(factor, table)
    if num_dst and heads:
        with _on(u.device):
            _backward_rows_kernel[(num_dst, heads)](
                rowptr, col, table, g_table, means, ks_here, betas_here, q, e, *numbers,
                coefficient, radial_edge, score, row_point, row_radial, scalars, num_src, num_edges, padded,
                SELF_MEAN=a.self_mean, HAS_FACTOR=factor is not None, **blocks,
            )  # fmt: skip
            _backward_columns_kernel[(num_src, heads)](
                colptr, csc_row, a.csc_pos, table, g_table, e, *numbers,
                coefficient, radial_edge, row_point, row_radial, point, value, radial, num_dst, num_edges, padded,
                HAS_FACTOR=factor is not None, **blocks,
            )  # fmt: skip
    # p = T(z) v, v = s u, z = k|v|², d ln(1/a)/dz = -T; with m = T' g·v - T ∂L/∂ln(1/a):
    # ∂L/∂v = T g + 2k m v, ∂L/∂k = |v|² m. A clipped point only turns.
    tau, _, slope, square, clipped = _node_maps(u, ks, scales)
    g_point = 2.0 * point[:, :, :dim].transpose(0, 1)
    gu = (g_point.double() * u).sum(-1)
    t = tau / scales
    m = slope * gu * scales - t * radial.t().double()
    m = torch.where(clipped, -t * gu / (2.0 * ks * scales * torch.where(clipped, square, 1.0)), m)
    g_value = value[:, :, :dim].transpose(0, 1)
    if a.value_scale is not None:
        g_value = a.value_scale[:, None, None] * g_value
    along = (2.0 * ks * scales * scales * m).to(u.dtype)
    grad_u = (g_value + tau.to(u.dtype)[:, :, None] * g_point + along[:, :, None] * u).contiguous()
    by_beta, by_k = scalars.double().sum(-1)
    by_k = by_k + (scales * scales * square * m).sum(0)
    by_scale = (t * gu + 2.0 * ks * m * scales * square).sum(0)
    grad_bias = score.t().contiguous() if needs_bias else u.new_empty(0, heads)
    return grad_u, [by_k, by_beta, by_scale], grad_bias


def _points(tangent: Tensor, k: Tensor, elu: bool) -> Tensor:
    """exp0 of the (num_dst, heads·d) rows of ``tangent`` (num_dst, heads, d), and ELU of that."""
    rows = tangent.flatten(1)
    one = torch.ones_like(k, dtype=torch.float64)
    tau, *_ = _node_maps(rows, k.double(), one)
    p = tau.to(rows.dtype)[:, None] * rows
    return torch.nn.functional.elu(p) if elu else p


def _points_backward(grad: Tensor, tangent: Tensor, k: Tensor, result: Tensor, elu: bool) -> tuple[Tensor, Tensor]:
    """Gradients of (tangent, k)."""
    rows, curvature = tangent.flatten(1), k.double()
    tau, _, slope, square, clipped = _node_maps(rows, curvature, torch.ones_like(curvature))
    g = grad * torch.where(result > 0, 1.0, result + 1.0) if elu else grad
    gu = (g.double() * rows).sum(-1)
    m = torch.where(clipped, -tau * gu / (2.0 * curvature * torch.where(clipped, square, 1.0)), slope * gu)
    grad_rows = tau.to(rows.dtype)[:, None] * g + (2.0 * curvature * m).to(rows.dtype)[:, None] * rows
    return grad_rows.view(tangent.shape), (square * m).sum().to(k.dtype).reshape(k.shape)


def forward(a: Inputs) -> tuple[Tensor, Tensor, Tensor]:
    """The result and what is kept, as on the CPU; nothing here waits for the device."""
    _, num_dst, heads, dim, _, _ = shape = a.shape
    places = Kept.of(a, shape)
    nodes, edges = a.u.new_empty(places.nodes), a.u.new_empty(places.edges)
    parts = places.views(nodes, edges, a)
    if a.out_k is None:
        result = a.u.new_empty(num_dst, heads, dim)
        _sums(a, parts, result)
        return result, nodes, edges
    _sums(a, parts, parts["tangent"])
    return _points(parts["tangent"], a.out_k, a.elu), nodes, edges


def backward(
    grad: Tensor, a: Inputs, result: Tensor, nodes: Tensor, edges: Tensor, needs_scalars: bool, needs_bias: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of u, of the scalars and of the bias; see _ops."""
    parts = Kept.of(a, a.shape).views(nodes, edges, a)
    out, more = result, []
    if a.out_k is not None:
        out = parts["tangent"]
        grad, by_out_k = _points_backward(grad, out, a.out_k, result, a.elu)
        more.append(by_out_k)
    grad_u, scalars, grad_bias = _sums_backward(grad, a, parts, out, needs_bias)
    numbers = torch.cat([t.to(a.u.dtype) for t in (*scalars, *more)]) if needs_scalars else a.u.new_empty(0)
    return grad_u, numbers, grad_bias
