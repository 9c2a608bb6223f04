"""The CPU kernels, as Numba compiles them: one set for each (dtype, tile width).

Every kernel has the signature ``(args, begin, end, scratch, partial)`` of 64-bit integers: ``args`` is the address of
the array whose places :data:`SLOTS` names, ``[begin, end)`` the nodes or row blocks to do, ``scratch`` the address of
memory that belongs to the calling thread, ``partial`` that of three float64 numbers for gradients of scalars.

Layout. One head is one problem: its *table* has a record of ``padded + 4`` numbers a source,

    p (padded with 0), 1/a, value_scale/τ, τ, T'       p = τ u = T(z) s u the point, a = 1 + k|p|²,

so that one read of a neighbour serves its distance and its value u_j = p_j/τ_j. The backward's *pair table* has

    p, g/Z (padded), 1/a, value_scale/τ, (g·out)/Z, σ  g = ∂L/∂out, Z the softmax's normaliser,

a destination; σ is what a self-loop's score gives to each other edge when it is their mean.

A *block* is a run of rows with about ``block`` edges. Records are gathered twice a block, from memory and then from
cache, and everything in between, the transcendental part, runs over the block's edges in full vectors.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numba
from numba import types

from hgeo.graph._fused._layout import LANES, SLOTS
from hgeo.graph._fused._simd import (
    distance_flat_or_hyperbolic,
    distance_spherical,
    load,
    prefetch,
    slope_flat_or_hyperbolic,
    slope_spherical,
    store,
    velu,
    velu_slope,
    vexp,
    vfma,
    vload,
    vmul,
    vsplat,
    vstore,
    vsub,
    vsum,
)

__all__ = ["make_kernels"]

_INT = types.int64
_ID = types.int32
_DOUBLE = types.float64
(
    _REALS,
    _HEAD,
    _HEADS,
    _NUM_SRC,
    _NUM_DST,
    _DIM,
    _PADDED,
    _BLOCK,
    _ROWPTR,
    _COL,
    _COLPTR,
    _CSC_ROW,
    _CSC_POS,
    _U,
    _VALUE_SCALE,
    _BIAS,
    _BIAS_EDGE,
    _BIAS_HEAD,
    _FACTOR,
    _FACTOR_EDGE,
    _FACTOR_HEAD,
    _TABLE,
    _Q,
    _E,
    _ZINV,
    _OUT,
    _GRAD_OUT,
    _PAIRS,
    _EDGE_TERMS,
    _ROW_TERMS,
    _GRAD_U,
    _GRAD_BIAS,
    _SELF_MEAN,
    _NEEDS_MAX,
    _KEEP,
    _NEEDS_SCALARS,
) = range(len(SLOTS))

# how many edges ahead a record is asked for, and how many of its cache lines; the hardware fetches on from there
_AHEAD = 12
_MAX_LINES = 8

# in units of eps, as hgeo.math.project has it: points beyond √c|p| = 1 - 4 eps are put at 1 - 6 eps
_MARGIN, _PLACED = 4.0, 6.0

# tan(x)/x = Σ t_n z^n (z = x²), from tan' = 1 + tan²; here n·t_n, the series of its derivative
_TAN_SLOPE = (
    1 / 3,
    4 / 15,
    51 / 315,
    248 / 2835,
    6910 / 155925,
    131064 / 6081075,
    6506983 / 638512875,
    51153264 / 10854718875,
)


@functools.cache
def make_kernels(bits: int, width: int) -> dict[str, Callable[..., None]]:
    """The kernels for numbers of ``bits`` bits in tiles of ``width``, as Python functions for Numba to compile."""
    real = types.float32 if bits == 32 else types.float64
    line = 64 // (bits // 8)  # numbers in a cache line
    eps = 2.0 ** (-23 if bits == 32 else -52)
    limit_angle = math.atanh(1.0 - _MARGIN * eps)
    rim = 1.0 - _PLACED * eps
    rim_inverse_a = 1.0 / (_PLACED * eps * (2.0 - _PLACED * eps))
    zero, one = 0.0, 1.0
    slope_terms = len(_TAN_SLOPE)
    tan_slope = _TAN_SLOPE
    jit: Any = numba.njit(error_model="numpy", fastmath={"contract"})

    @jit
    def node_maps(k: float, scale: float, square: float) -> tuple[float, float, float]:
        """(τ, 1/a, T') for |u|² = square: p = τ u = T(z) s u, z = k s²|u|², T' = dT/dz (not set if clipped)."""
        z = k * scale * scale * square
        if z < 0.0:
            x = math.sqrt(-z)
            if x > limit_angle:
                return scale * rim / x, rim_inverse_a, 0.0
            y = math.expm1(-2.0 * x)
            t = -y / ((2.0 + y) * x)
            e = 1.0 + y
            inverse_a = (1.0 + e) * (1.0 + e) / (4.0 * e)
        elif z > 0.0:
            x = math.sqrt(z)
            t = math.tan(x) / x
            inverse_a = 1.0 / (1.0 + z * t * t)
        else:
            t = 1.0
            inverse_a = 1.0
        if -0.05 < z < 0.05:
            slope = 0.0
            for n in range(slope_terms):
                slope = slope * z + tan_slope[slope_terms - 1 - n]
        else:
            slope = (1.0 / inverse_a - t) / (2.0 * z)
        return scale * t, inverse_a, slope

    @jit
    def copy_padded(source: int, start: int, dim: int, target: int, place: int, padded: int, factor: float) -> None:
        """target[place : place+padded] = factor · source[start : start+dim], then zeros."""
        f = vsplat(real(factor), width)
        full = dim // width * width
        for t in range(0, full, width):
            vstore(target, place + t, vmul(f, vload(source, start + t, real, width)))
        for t in range(full, dim):
            store(target, place + t, real(real(factor) * load(source, start + t, real)))
        for t in range(dim, padded):
            store(target, place + t, real(zero))

    @jit
    def square_norm(source: int, start: int, dim: int) -> float:
        total = vsplat(real(zero), width)
        full = dim // width * width
        for t in range(0, full, width):
            v = vload(source, start + t, real, width)
            total = vfma(v, v, total)
        square = vsum(total)
        for t in range(full, dim):
            v1 = load(source, start + t, real)
            square += v1 * v1
        return square

    @jit
    def dot(a: int, start_a: int, b: int, start_b: int, dim: int) -> float:
        total = vsplat(real(zero), width)
        full = dim // width * width
        for t in range(0, full, width):
            total = vfma(vload(a, start_a + t, real, width), vload(b, start_b + t, real, width), total)
        result = vsum(total)
        for t in range(full, dim):
            result += load(a, start_a + t, real) * load(b, start_b + t, real)
        return result

    @jit
    def first_row(rowptr: int, rows: int, edge: int) -> int:
        """The first row that begins at ``edge`` or later."""
        low, high = 0, rows
        while low < high:
            middle = (low + high) // 2
            if load(rowptr, middle, _INT) < edge:
                low = middle + 1
            else:
                high = middle
        return low

    @jit
    def far_complement(table: int, i: int, j: int, padded: int, k: float) -> float:
        """1 - k q by differences: |x + k|x|² y|²/(|x|² a_i a_j), x the point farther out, y the other."""
        if load(table, i + padded, real) > load(table, j + padded, real):
            x, y = j, i
        else:
            x, y = i, j
        ix, iy = load(table, x + padded, real), load(table, y + padded, real)
        kn = real(one) / ix - real(one)
        knv = vsplat(kn, width)
        total = vsplat(real(zero), width)
        for t in range(0, padded, width):
            v = vfma(knv, vload(table, y + t, real, width), vload(table, x + t, real, width))
            total = vfma(v, v, total)
        m = vsum(total) * real(k) / kn * ix * iy
        return max(m, real(1e-30))

    # -----------------------------------------------------------------------------------------------------------------

    def pack(args: int, begin: int, end: int, scratch: int, partial: int) -> None:
        """Fill the table for sources [begin, end)."""
        reals = load(args, _REALS, _INT)
        k, scale = load(reals, 0, _DOUBLE), load(reals, 2, _DOUBLE)
        head, heads, sources = load(args, _HEAD, _INT), load(args, _HEADS, _INT), load(args, _NUM_SRC, _INT)
        dim, padded = load(args, _DIM, _INT), load(args, _PADDED, _INT)
        u, table = load(args, _U, _INT), load(args, _TABLE, _INT)
        value_scale = load(args, _VALUE_SCALE, _INT)
        for j in range(begin, end):
            source = (j * heads + head) * dim
            record = (head * sources + j) * (padded + 4)
            tau, inverse_a, slope = node_maps(k, scale, _DOUBLE(square_norm(u, source, dim)))
            copy_padded(u, source, dim, table, record, padded, tau)
            value = 1.0
            if value_scale != 0:
                value = _DOUBLE(load(value_scale, j, real))
            store(table, record + padded, real(inverse_a))
            store(table, record + padded + 1, real(value / tau))
            store(table, record + padded + 2, real(tau))
            store(table, record + padded + 3, real(slope))

    def forward(args: int, begin: int, end: int, scratch: int, partial: int) -> None:
        """Scores, softmax and weighted sum for row blocks [begin, end)."""
        reals = load(args, _REALS, _INT)
        k, beta = load(reals, 0, _DOUBLE), load(reals, 1, _DOUBLE)
        root, twice_inverse_root = real(load(reals, 3, _DOUBLE)), real(2.0 / load(reals, 3, _DOUBLE))
        head, heads = load(args, _HEAD, _INT), load(args, _HEADS, _INT)
        rows = load(args, _NUM_DST, _INT)
        dim, padded, block = load(args, _DIM, _INT), load(args, _PADDED, _INT), load(args, _BLOCK, _INT)
        rowptr, col = load(args, _ROWPTR, _INT), load(args, _COL, _INT)
        bias, factor = load(args, _BIAS, _INT), load(args, _FACTOR, _INT)
        bias_edge, bias_head = load(args, _BIAS_EDGE, _INT), load(args, _BIAS_HEAD, _INT) * head
        factor_edge, factor_head = load(args, _FACTOR_EDGE, _INT), load(args, _FACTOR_HEAD, _INT) * head
        stride = padded + 4
        table = load(args, _TABLE, _INT) + head * load(args, _NUM_SRC, _INT) * stride * (bits // 8)
        edges = load(rowptr, rows, _INT)
        out, zinv = load(args, _OUT, _INT), load(args, _ZINV, _INT) + head * rows * (bits // 8)
        q_all, e_all = (
            load(args, _Q, _INT) + head * edges * (bits // 8),
            load(args, _E, _INT) + head * edges * (bits // 8),
        )
        self_mean, needs_max = load(args, _SELF_MEAN, _INT) != 0, load(args, _NEEDS_MAX, _INT) != 0
        keep = load(args, _KEEP, _INT) != 0
        spherical = k > 0.0
        far = real(0.75 / k) if spherical else real(math.inf)
        minus_beta = vsplat(real(-beta), LANES)
        lines = min((stride + line - 1) // line, _MAX_LINES) * line
        for b in range(begin, end):
            r0, r1 = first_row(rowptr, rows, b * block), first_row(rowptr, rows, (b + 1) * block)
            start, stop = load(rowptr, r0, _INT), load(rowptr, r1, _INT)
            n = stop - start
            spare = scratch
            qs = scratch + 2 * padded * (bits // 8)
            es = qs + (n + LANES) * (bits // 8)
            # 1. q = |p_i - p_j|²/(a_i a_j) of every edge
            for i in range(r0, r1):
                pi = i * stride
                inverse_a = load(table, pi + padded, real)
                for e in range(load(rowptr, i, _INT), load(rowptr, i + 1, _INT)):
                    ahead = _INT(load(col, e + _AHEAD, _ID)) * stride
                    for t in range(0, lines, line):
                        prefetch(table, ahead + t, real)
                    pj = _INT(load(col, e, _ID)) * stride
                    total = vsplat(real(zero), width)
                    for t in range(0, padded, width):
                        v = vsub(vload(table, pi + t, real, width), vload(table, pj + t, real, width))
                        total = vfma(v, v, total)
                    q = vsum(total) * inverse_a * load(table, pj + padded, real)
                    if q > far:
                        q = -far_complement(table, pi, pj, padded, k)
                    store(qs, e - start, q)
            for y in range(n, n + LANES):
                store(qs, y, real(zero))
            # 2. the unnormalised weights exp(score - max)
            for y in range(0, n, LANES):
                q8 = vload(qs, y, real, LANES)
                if spherical:
                    d8 = distance_spherical(q8, (real(k), root, twice_inverse_root))
                else:
                    d8 = distance_flat_or_hyperbolic(q8, (root, twice_inverse_root))
                s8 = vmul(minus_beta, d8)
                if not needs_max:
                    s8 = vexp(s8)
                vstore(es, y, s8)
            if needs_max:
                for i in range(r0, r1):
                    e0, e1 = load(rowptr, i, _INT), load(rowptr, i + 1, _INT)
                    mean = real(zero)
                    if self_mean:
                        others = 0
                        for e in range(e0, e1):
                            if _INT(load(col, e, _ID)) != i:
                                mean += load(es, e - start, real)
                                others += 1
                        mean = mean / real(max(others, 1))
                    largest = real(-math.inf)
                    for e in range(e0, e1):
                        s = load(es, e - start, real)
                        if self_mean and _INT(load(col, e, _ID)) == i:
                            s = mean
                        if bias != 0:
                            s += load(bias, e * bias_edge + bias_head, real)
                        largest = max(largest, s)
                        store(es, e - start, s)
                    if largest == real(-math.inf):  # every edge is masked: weights 0
                        largest = real(zero)
                    for e in range(e0, e1):
                        store(es, e - start, real(load(es, e - start, real) - largest))
                for y in range(0, n, LANES):
                    vstore(es, y, vexp(vload(es, y, real, LANES)))
            if keep:
                for y in range(n):
                    store(q_all, start + y, load(qs, y, real))
                for y in range(n):
                    store(e_all, start + y, load(es, y, real))
            # 3. Σ w u; the scores' memory becomes that of the coefficients
            for i in range(r0, r1):
                e0, e1 = load(rowptr, i, _INT), load(rowptr, i + 1, _INT)
                z = real(zero)
                for e in range(e0, e1):
                    w = load(es, e - start, real)
                    z += w
                    pj = _INT(load(col, e, _ID)) * stride
                    w *= load(table, pj + padded + 1, real)
                    if factor != 0:
                        w *= load(factor, e * factor_edge + factor_head, real)
                    store(qs, e - start, w)
                inverse_z = real(one) / z if z != real(zero) else real(zero)
                store(zinv, i, inverse_z)
                scale8 = vsplat(inverse_z, width)
                place = (i * heads + head) * dim
                for t in range(0, padded, width):
                    total = vsplat(real(zero), width)
                    for e in range(e0, e1):
                        pj = _INT(load(col, e, _ID)) * stride + t
                        total = vfma(vsplat(load(qs, e - start, real), width), vload(table, pj, real, width), total)
                    total = vmul(total, scale8)
                    if t + width <= dim:
                        vstore(out, place + t, total)
                    else:
                        vstore(spare, 0, total)
                        for x in range(dim - t):
                            store(out, place + t + x, load(spare, x, real))

    # -----------------------------------------------------------------------------------------------------------------

    def pack_backward(args: int, begin: int, end: int, scratch: int, partial: int) -> None:
        """Fill the pair table for destinations [begin, end)."""
        head, heads = load(args, _HEAD, _INT), load(args, _HEADS, _INT)
        sources, rows = load(args, _NUM_SRC, _INT), load(args, _NUM_DST, _INT)
        dim, padded = load(args, _DIM, _INT), load(args, _PADDED, _INT)
        table, pairs = load(args, _TABLE, _INT), load(args, _PAIRS, _INT)
        out, grad_out, zinv = load(args, _OUT, _INT), load(args, _GRAD_OUT, _INT), load(args, _ZINV, _INT)
        rowptr, col = load(args, _ROWPTR, _INT), load(args, _COL, _INT)
        edges = load(rowptr, rows, _INT)
        e_all = load(args, _E, _INT) + head * edges * (bits // 8)
        factor = load(args, _FACTOR, _INT)
        factor_edge, factor_head = load(args, _FACTOR_EDGE, _INT), load(args, _FACTOR_HEAD, _INT) * head
        self_mean = load(args, _SELF_MEAN, _INT) != 0
        for i in range(begin, end):
            place = (i * heads + head) * dim
            source = (head * sources + i) * (padded + 4)
            record = (head * rows + i) * (2 * padded + 4)
            inverse_z = load(zinv, head * rows + i, real)
            for t in range(0, padded, width):
                vstore(pairs, record + t, vload(table, source + t, real, width))
            copy_padded(grad_out, place, dim, pairs, record + padded, padded, inverse_z)
            value = load(table, source + padded + 1, real)
            mean = real(dot(grad_out, place, out, place, dim) * inverse_z)
            sigma = real(zero)
            if self_mean:
                own = dot(pairs, record, pairs, record + padded, padded) * value
                others = 0
                for e in range(load(rowptr, i, _INT), load(rowptr, i + 1, _INT)):
                    if _INT(load(col, e, _ID)) == i:
                        f = real(one)
                        if factor != 0:
                            f = load(factor, e * factor_edge + factor_head, real)
                        sigma += load(e_all, e, real) * (f * own - mean)
                    else:
                        others += 1
                sigma = sigma / real(others) if others > 0 else real(zero)
            store(pairs, record + 2 * padded, load(table, source + padded, real))
            store(pairs, record + 2 * padded + 1, value)
            store(pairs, record + 2 * padded + 2, mean)
            store(pairs, record + 2 * padded + 3, real(sigma))

    @jit
    def edge_derivatives(
        own: int, both: int, inverse_aa: int, qs: int, n: int, reals: int, needs_scalars: bool, partial: int
    ) -> None:
        """From ∂L/∂score of the edges to coefficients, in place.

        ``own`` holds ∂L/∂s of the edge, ``both`` that plus its mirror edge's. On return ``both`` holds q ∂L/∂q and
        ``inverse_aa`` holds ∂L/∂|p_i - p_j|².
        """
        k, beta, root_k = load(reals, 0, _DOUBLE), load(reals, 1, _DOUBLE), load(reals, 3, _DOUBLE)
        root, twice_inverse_root = real(root_k), real(2.0 / root_k)
        c, inverse_c = real(abs(k)), real(1.0 / (root_k * root_k))
        spherical = k > 0.0
        minus_beta = vsplat(real(-beta), LANES)
        zeros = vsplat(real(zero), LANES)
        by_beta, by_k = zeros, zeros
        for y in range(0, n, LANES):
            q8 = vload(qs, y, real, LANES)
            d8 = zeros
            if spherical:
                if needs_scalars:
                    d8 = distance_spherical(q8, (c, root, twice_inverse_root))
                q8, slope_q, slope_k = slope_spherical(q8, d8, (c, inverse_c))
            else:
                if needs_scalars:
                    d8 = distance_flat_or_hyperbolic(q8, (root, twice_inverse_root))
                q8, slope_q, slope_k = slope_flat_or_hyperbolic(q8, d8, (c, inverse_c))
            if needs_scalars:
                a8 = vload(own, y, real, LANES)
                by_beta = vfma(a8, d8, by_beta)
                by_k = vfma(a8, slope_k, by_k)
            g8 = vmul(vmul(minus_beta, vload(both, y, real, LANES)), slope_q)
            vstore(both, y, vmul(g8, q8))
            vstore(inverse_aa, y, vmul(g8, vload(inverse_aa, y, real, LANES)))
        if needs_scalars:
            store(partial, 0, load(partial, 0, _DOUBLE) - _DOUBLE(vsum(by_beta)))
            store(partial, 1, load(partial, 1, _DOUBLE) - beta * _DOUBLE(vsum(by_k)))

    @jit
    def radial_slope(
        k: float, scale: float, square: float, tau: float, slope: float, gu: float, radial: float
    ) -> float:  # fmt: skip
        """m = T' g·v - T ∂L/∂ln(1/a), with g = ∂L/∂p and gu = g·u.

        p = T(z) v with v = s u, z = k|v|², and d ln(1/a)/dz = -T, so ∂L/∂v = T g + 2k m v and ∂L/∂k = |v|² m.
        A clipped point only turns: its m takes the radial part away.
        """
        t = tau / scale
        if k * scale * scale * square < -limit_angle * limit_angle:
            return -t * gu / (2.0 * k * scale * square)
        return slope * gu * scale - t * radial

    @jit
    def finish_node(
        u: int, source: int, dim: int, padded: int, sums: int, radial: float, value: float, reals: int, record: int,
        grad_u: int, partial: int,
    ) -> None:  # fmt: skip
        """∂L/∂u of one source, from ``sums`` = (½ ∂L/∂p, ∂L/∂value), and ``radial`` = ∂L/∂ln(1/a)."""
        k, scale = load(reals, 0, _DOUBLE), load(reals, 2, _DOUBLE)
        square = _DOUBLE(square_norm(u, source, dim))
        tau, slope = _DOUBLE(load(record, padded + 2, real)), _DOUBLE(load(record, padded + 3, real))
        gu = 2.0 * _DOUBLE(dot(sums, 0, u, source, dim))
        m = radial_slope(k, scale, square, tau, slope, gu, _DOUBLE(radial))
        store(partial, 1, load(partial, 1, _DOUBLE) + scale * scale * square * m)
        store(partial, 2, load(partial, 2, _DOUBLE) + tau / scale * gu + 2.0 * k * m * scale * square)
        c_point, c_u, c_value = real(2.0 * tau), real(2.0 * k * scale * scale * m), real(value)
        p8, u8, v8 = vsplat(c_point, width), vsplat(c_u, width), vsplat(c_value, width)
        full = dim // width * width
        for x in range(0, full, width):
            g8 = vmul(v8, vload(sums, padded + x, real, width))
            g8 = vfma(p8, vload(sums, x, real, width), g8)
            vstore(grad_u, source + x, vfma(u8, vload(u, source + x, real, width), g8))
        for x in range(full, dim):
            g = c_value * load(sums, padded + x, real) + c_point * load(sums, x, real)
            store(grad_u, source + x, real(g + c_u * load(u, source + x, real)))

    def backward_symmetric(args: int, begin: int, end: int, scratch: int, partial: int) -> None:
        """∂L/∂u for row blocks [begin, end) of a symmetric graph: an edge and its mirror at once, rows only."""
        reals = load(args, _REALS, _INT)
        head, heads, rows = load(args, _HEAD, _INT), load(args, _HEADS, _INT), load(args, _NUM_DST, _INT)
        dim, padded, block = load(args, _DIM, _INT), load(args, _PADDED, _INT), load(args, _BLOCK, _INT)
        rowptr, col, mirror = load(args, _ROWPTR, _INT), load(args, _COL, _INT), load(args, _CSC_POS, _INT)
        factor = load(args, _FACTOR, _INT)
        factor_edge, factor_head = load(args, _FACTOR_EDGE, _INT), load(args, _FACTOR_HEAD, _INT) * head
        stride = 2 * padded + 4
        pairs = load(args, _PAIRS, _INT) + head * rows * stride * (bits // 8)
        record_bytes = (padded + 4) * (bits // 8)
        table = load(args, _TABLE, _INT) + head * rows * record_bytes
        edges = load(rowptr, rows, _INT)
        q_all, e_all = (
            load(args, _Q, _INT) + head * edges * (bits // 8),
            load(args, _E, _INT) + head * edges * (bits // 8),
        )
        u, value_scale = load(args, _U, _INT), load(args, _VALUE_SCALE, _INT)
        grad_u, grad_bias = load(args, _GRAD_U, _INT), load(args, _GRAD_BIAS, _INT)
        self_mean, needs_scalars = load(args, _SELF_MEAN, _INT) != 0, load(args, _NEEDS_SCALARS, _INT) != 0
        # without a maximum, a bias or a factor, an edge and its mirror have the same unnormalised weight
        mirrored = load(args, _NEEDS_MAX, _INT) == 0 and factor == 0
        lines = min((stride + line - 1) // line, 2 * _MAX_LINES) * line
        for b in range(begin, end):
            r0, r1 = first_row(rowptr, rows, b * block), first_row(rowptr, rows, (b + 1) * block)
            start, stop = load(rowptr, r0, _INT), load(rowptr, r1, _INT)
            n = stop - start
            capacity = (n + LANES) * (bits // 8)
            own = scratch + 2 * padded * (bits // 8)
            both, inverse_aa, weights, qs = own + capacity, own + 2 * capacity, own + 3 * capacity, own + 4 * capacity
            for y in range(n):
                store(qs, y, load(q_all, start + y, real))
            for y in range(n, n + LANES):
                store(qs, y, real(zero))
                store(own, y, real(zero))
                store(both, y, real(zero))
                store(inverse_aa, y, real(zero))
            # 1. ∂L/∂score of the edge and of its mirror
            for i in range(r0, r1):
                pi = i * stride
                inverse_a, value_i = load(pairs, pi + 2 * padded, real), load(pairs, pi + 2 * padded + 1, real)
                mean_i, sigma_i = load(pairs, pi + 2 * padded + 2, real), load(pairs, pi + 2 * padded + 3, real)
                for e in range(load(rowptr, i, _INT), load(rowptr, i + 1, _INT)):
                    ahead = _INT(load(col, e + _AHEAD, _ID)) * stride
                    for t in range(0, lines, line):
                        prefetch(pairs, ahead + t, real)
                    j = _INT(load(col, e, _ID))
                    pj = j * stride
                    to_i, to_j = vsplat(real(zero), width), vsplat(real(zero), width)
                    for t in range(0, padded, width):
                        to_i = vfma(vload(pairs, pi + padded + t, real, width), vload(pairs, pj + t, real, width), to_i)
                        to_j = vfma(vload(pairs, pi + t, real, width), vload(pairs, pj + padded + t, real, width), to_j)
                    value_j, mean_j = load(pairs, pj + 2 * padded + 1, real), load(pairs, pj + 2 * padded + 2, real)
                    e_own = load(e_all, e, real)
                    e_mirror = e_own
                    f_own, f_mirror = real(one), real(one)
                    if not mirrored:
                        other = _INT(load(mirror, e, _ID))
                        prefetch(e_all, _INT(load(mirror, e + _AHEAD, _ID)), real)
                        e_mirror = load(e_all, other, real)
                        if factor != 0:
                            f_own = load(factor, e * factor_edge + factor_head, real)
                            f_mirror = load(factor, other * factor_edge + factor_head, real)
                    s_own = e_own * (f_own * value_j * vsum(to_i) - mean_i)
                    s_mirror = e_mirror * (f_mirror * value_i * vsum(to_j) - mean_j)
                    if grad_bias != 0:
                        store(grad_bias, head * edges + e, real(s_own))
                    if self_mean and j != i:
                        s_own += sigma_i
                        s_mirror += load(pairs, pj + 2 * padded + 3, real)
                    y = e - start
                    store(own, y, real(s_own))
                    store(both, y, real(s_own + s_mirror))
                    store(inverse_aa, y, real(inverse_a * load(pairs, pj + 2 * padded, real)))
                    store(weights, y, real(e_mirror * f_mirror))
            # 2. the transcendental part
            edge_derivatives(own, both, inverse_aa, qs, n, reals, needs_scalars, partial)
            # 3. gather again, from cache
            for i in range(r0, r1):
                e0, e1 = load(rowptr, i, _INT), load(rowptr, i + 1, _INT)
                pi = i * stride
                radial = real(zero)
                for e in range(e0, e1):
                    radial += load(both, e - start, real)
                for t in range(0, padded, width):
                    point = vload(pairs, pi + t, real, width)
                    g_point, g_value = vsplat(real(zero), width), vsplat(real(zero), width)
                    for e in range(e0, e1):
                        pj = _INT(load(col, e, _ID)) * stride + t
                        difference = vsub(point, vload(pairs, pj, real, width))
                        g_point = vfma(vsplat(load(inverse_aa, e - start, real), width), difference, g_point)
                        g_value = vfma(
                            vsplat(load(weights, e - start, real), width),
                            vload(pairs, pj + padded, real, width),
                            g_value,
                        )
                    vstore(scratch, t, g_point)
                    vstore(scratch, padded + t, g_value)
                value = 1.0
                if value_scale != 0:
                    value = _DOUBLE(load(value_scale, i, real))
                source, record = (i * heads + head) * dim, table + i * record_bytes
                finish_node(u, source, dim, padded, scratch, radial, value, reals, record, grad_u, partial)

    def backward_rows(args: int, begin: int, end: int, scratch: int, partial: int) -> None:
        """Directed graphs, first pass, row blocks [begin, end): what edges give to destinations, and edge terms.

        Edge terms, 4 numbers an edge: ∂L/∂|p_i - p_j|², weight · Z, q ∂L/∂q, 0. Row terms, padded + 1 a destination.
        """
        reals = load(args, _REALS, _INT)
        head, rows = load(args, _HEAD, _INT), load(args, _NUM_DST, _INT)
        padded, block = load(args, _PADDED, _INT), load(args, _BLOCK, _INT)
        rowptr, col = load(args, _ROWPTR, _INT), load(args, _COL, _INT)
        factor = load(args, _FACTOR, _INT)
        factor_edge, factor_head = load(args, _FACTOR_EDGE, _INT), load(args, _FACTOR_HEAD, _INT) * head
        stride, pair_stride = padded + 4, 2 * padded + 4
        table = load(args, _TABLE, _INT) + head * load(args, _NUM_SRC, _INT) * stride * (bits // 8)
        pairs = load(args, _PAIRS, _INT) + head * rows * pair_stride * (bits // 8)
        edges = load(rowptr, rows, _INT)
        q_all, e_all = (
            load(args, _Q, _INT) + head * edges * (bits // 8),
            load(args, _E, _INT) + head * edges * (bits // 8),
        )
        terms, row_terms = load(args, _EDGE_TERMS, _INT), load(args, _ROW_TERMS, _INT)
        grad_bias = load(args, _GRAD_BIAS, _INT)
        self_mean, needs_scalars = load(args, _SELF_MEAN, _INT) != 0, load(args, _NEEDS_SCALARS, _INT) != 0
        lines = min((stride + line - 1) // line, _MAX_LINES) * line
        for b in range(begin, end):
            r0, r1 = first_row(rowptr, rows, b * block), first_row(rowptr, rows, (b + 1) * block)
            start, stop = load(rowptr, r0, _INT), load(rowptr, r1, _INT)
            n = stop - start
            capacity = (n + LANES) * (bits // 8)
            own = scratch + 2 * padded * (bits // 8)
            both, inverse_aa, qs = own + capacity, own + 2 * capacity, own + 3 * capacity
            for y in range(n):
                store(qs, y, load(q_all, start + y, real))
            for y in range(n, n + LANES):
                store(qs, y, real(zero))
                store(own, y, real(zero))
                store(both, y, real(zero))
                store(inverse_aa, y, real(zero))
            for i in range(r0, r1):
                pi = i * pair_stride
                inverse_a = load(pairs, pi + 2 * padded, real)
                mean, sigma = load(pairs, pi + 2 * padded + 2, real), load(pairs, pi + 2 * padded + 3, real)
                for e in range(load(rowptr, i, _INT), load(rowptr, i + 1, _INT)):
                    ahead = _INT(load(col, e + _AHEAD, _ID)) * stride
                    for t in range(0, lines, line):
                        prefetch(table, ahead + t, real)
                    j = _INT(load(col, e, _ID))
                    pj = j * stride
                    total = vsplat(real(zero), width)
                    for t in range(0, padded, width):
                        total = vfma(
                            vload(pairs, pi + padded + t, real, width), vload(table, pj + t, real, width), total
                        )
                    weight = load(e_all, e, real)
                    f = real(one)
                    if factor != 0:
                        f = load(factor, e * factor_edge + factor_head, real)
                    s = weight * (f * load(table, pj + padded + 1, real) * vsum(total) - mean)
                    if grad_bias != 0:
                        store(grad_bias, head * edges + e, real(s))
                    if self_mean and j != i:
                        s += sigma
                    y = e - start
                    store(own, y, real(s))
                    store(both, y, real(s))
                    store(inverse_aa, y, real(inverse_a * load(table, pj + padded, real)))
                    store(terms, 4 * e + 1, real(weight * f))
            edge_derivatives(own, both, inverse_aa, qs, n, reals, needs_scalars, partial)
            for i in range(r0, r1):
                e0, e1 = load(rowptr, i, _INT), load(rowptr, i + 1, _INT)
                pi = i * pair_stride
                radial = real(zero)
                for e in range(e0, e1):
                    y = e - start
                    radial += load(both, y, real)
                    store(terms, 4 * e, load(inverse_aa, y, real))
                    store(terms, 4 * e + 2, load(both, y, real))
                for t in range(0, padded, width):
                    point = vload(pairs, pi + t, real, width)
                    g_point = vsplat(real(zero), width)
                    for e in range(e0, e1):
                        pj = _INT(load(col, e, _ID)) * stride + t
                        difference = vsub(point, vload(table, pj, real, width))
                        g_point = vfma(vsplat(load(inverse_aa, e - start, real), width), difference, g_point)
                    vstore(row_terms, i * (padded + 1) + t, g_point)
                store(row_terms, i * (padded + 1) + padded, real(radial))

    def backward_columns(args: int, begin: int, end: int, scratch: int, partial: int) -> None:
        """Directed graphs, second pass, column blocks [begin, end): what edges give to sources, and ∂L/∂u."""
        reals = load(args, _REALS, _INT)
        head, heads = load(args, _HEAD, _INT), load(args, _HEADS, _INT)
        sources, rows = load(args, _NUM_SRC, _INT), load(args, _NUM_DST, _INT)
        dim, padded, block = load(args, _DIM, _INT), load(args, _PADDED, _INT), load(args, _BLOCK, _INT)
        colptr, row, pos = load(args, _COLPTR, _INT), load(args, _CSC_ROW, _INT), load(args, _CSC_POS, _INT)
        pair_stride = 2 * padded + 4
        table = load(args, _TABLE, _INT) + head * sources * (padded + 4) * (bits // 8)
        pairs = load(args, _PAIRS, _INT) + head * rows * pair_stride * (bits // 8)
        terms, row_terms = load(args, _EDGE_TERMS, _INT), load(args, _ROW_TERMS, _INT)
        u, value_scale, grad_u = load(args, _U, _INT), load(args, _VALUE_SCALE, _INT), load(args, _GRAD_U, _INT)
        lines = min((2 * padded + line - 1) // line, 2 * _MAX_LINES) * line
        for b in range(begin, end):
            for j in range(first_row(colptr, sources, b * block), first_row(colptr, sources, (b + 1) * block)):
                f0, f1 = load(colptr, j, _INT), load(colptr, j + 1, _INT)
                pj = j * (padded + 4)
                radial = real(zero)
                if j < rows:
                    radial += load(row_terms, j * (padded + 1) + padded, real)
                for t in range(0, padded, width):
                    point = vload(table, pj + t, real, width)
                    g_point, g_value = vsplat(real(zero), width), vsplat(real(zero), width)
                    if j < rows:
                        g_point = vload(row_terms, j * (padded + 1) + t, real, width)
                    for f in range(f0, f1):
                        place = 4 * _INT(load(pos, f, _ID))
                        if t == 0:
                            ahead = _INT(load(row, f + _AHEAD, _ID)) * pair_stride
                            for x in range(0, lines, line):
                                prefetch(pairs, ahead + x, real)
                            prefetch(terms, 4 * _INT(load(pos, f + _AHEAD, _ID)), real)
                            radial += load(terms, place + 2, real)
                        pi = _INT(load(row, f, _ID)) * pair_stride + t
                        difference = vsub(point, vload(pairs, pi, real, width))
                        g_point = vfma(vsplat(load(terms, place, real), width), difference, g_point)
                        g_value = vfma(
                            vsplat(load(terms, place + 1, real), width),
                            vload(pairs, pi + padded, real, width),
                            g_value,
                        )
                    vstore(scratch, t, g_point)
                    vstore(scratch, padded + t, g_value)
                value = 1.0
                if value_scale != 0:
                    value = _DOUBLE(load(value_scale, j, real))
                source, record = (j * heads + head) * dim, table + pj * (bits // 8)
                finish_node(u, source, dim, padded, scratch, radial, value, reals, record, grad_u, partial)

    # -----------------------------------------------------------------------------------------------------------------

    def points(args: int, begin: int, end: int, scratch: int, partial: int) -> None:
        """out = exp0 of the rows [begin, end) of u, kept inside the rim, and, if ``keep`` says so, ELU of that."""
        reals = load(args, _REALS, _INT)
        k, scale, dim = load(reals, 0, _DOUBLE), load(reals, 2, _DOUBLE), load(args, _DIM, _INT)
        u, out, elu = load(args, _U, _INT), load(args, _OUT, _INT), load(args, _KEEP, _INT) != 0
        for j in range(begin, end):
            source = j * dim
            tau, _, _ = node_maps(k, scale, _DOUBLE(square_norm(u, source, dim)))
            tau8 = vsplat(real(tau), width)
            full = dim // width * width
            for t in range(0, full, width):
                y8 = vmul(tau8, vload(u, source + t, real, width))
                vstore(out, source + t, velu(y8) if elu else y8)
            if full < dim:
                for t in range(dim - full):
                    store(scratch, t, load(u, source + full + t, real))
                for t in range(dim - full, width):
                    store(scratch, t, real(zero))
                y8 = vmul(tau8, vload(scratch, 0, real, width))
                vstore(scratch, 0, velu(y8) if elu else y8)
                for t in range(dim - full):
                    store(out, source + full + t, load(scratch, t, real))

    def points_backward(args: int, begin: int, end: int, scratch: int, partial: int) -> None:
        """The derivative of ``points`` by u and k, from grad_out and out."""
        reals = load(args, _REALS, _INT)
        k, scale, dim = load(reals, 0, _DOUBLE), load(reals, 2, _DOUBLE), load(args, _DIM, _INT)
        u, out, elu = load(args, _U, _INT), load(args, _OUT, _INT), load(args, _KEEP, _INT) != 0
        grad_out, grad_u = load(args, _GRAD_OUT, _INT), load(args, _GRAD_U, _INT)
        for j in range(begin, end):
            source = j * dim
            full = dim // width * width
            if elu:
                for t in range(0, full, width):
                    slope8 = velu_slope(vload(out, source + t, real, width))
                    vstore(scratch, t, vmul(vload(grad_out, source + t, real, width), slope8))
                for t in range(full, dim):
                    y = load(out, source + t, real)
                    slope1 = real(one) if y > real(zero) else real(y + real(one))
                    store(scratch, t, real(load(grad_out, source + t, real) * slope1))
            else:
                copy_padded(grad_out, source, dim, scratch, 0, dim, 1.0)
            square = _DOUBLE(square_norm(u, source, dim))
            tau, _, slope = node_maps(k, scale, square)
            m = radial_slope(k, scale, square, tau, slope, _DOUBLE(dot(scratch, 0, u, source, dim)), 0.0)
            store(partial, 1, load(partial, 1, _DOUBLE) + scale * scale * square * m)
            c_u = real(2.0 * k * scale * scale * m)
            tau8, u8 = vsplat(real(tau), width), vsplat(c_u, width)
            for t in range(0, full, width):
                g8 = vmul(tau8, vload(scratch, t, real, width))
                vstore(grad_u, source + t, vfma(u8, vload(u, source + t, real, width), g8))
            for t in range(full, dim):
                g = real(tau) * load(scratch, t, real) + c_u * load(u, source + t, real)
                store(grad_u, source + t, real(g))

    def counting_sort(args: int, begin: int, end: int, scratch: int, partial: int) -> None:
        """Places of ``begin`` ids below ``end``, by id, equal ones in a given order; see _sort.counting_order."""
        ids, given, order, pointer = (
            load(args, 0, _INT),
            load(args, 1, _INT),
            load(args, 2, _INT),
            load(args, 3, _INT),
        )
        for n in range(begin):
            after = load(ids, n, _INT) + 1
            store(pointer, after, load(pointer, after, _INT) + 1)
        for b in range(end):
            store(pointer, b + 1, load(pointer, b + 1, _INT) + load(pointer, b, _INT))
        for n in range(begin):
            place = _INT(n)
            if given != 0:
                place = load(given, n, _INT)
            b = load(ids, place, _INT)
            spot = load(pointer, b, _INT)
            store(order, spot, place)
            store(pointer, b, spot + 1)
        for b in range(end, 0, -1):  # every pointer has moved on to where the next begins
            store(pointer, b, load(pointer, b - 1, _INT))
        store(pointer, 0, _INT(0))

    return {
        "counting_sort": counting_sort,
        "points": points,
        "points_backward": points_backward,
        "pack": pack,
        "forward": forward,
        "pack_backward": pack_backward,
        "backward_symmetric": backward_symmetric,
        "backward_rows": backward_rows,
        "backward_columns": backward_columns,
    }
