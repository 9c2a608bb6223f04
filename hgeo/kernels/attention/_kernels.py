"""The CPU kernels, as Numba compiles them: one set for each (dtype, tile width).

Every kernel has the signature ``(args, begin, end, scratch, partial)`` of 64-bit integers: ``args`` is the address of
a row that leads to the :class:`Slots`, ``[begin, end)`` the nodes or row blocks to do, ``scratch`` the address of
memory that belongs to the calling thread, ``partial`` that of three float64 numbers for gradients of scalars.

Layout. One head is one problem: its *table* has, a source, a point and a record of four numbers,

    p (padded with 0)       p = τ u = T(z) s u the point, a = 1 + k|p|²,
    1/a, value_scale/τ, τ, T'

so that one read of a neighbour serves its distance and its value u_j = p_j/τ_j. The backward's *pair table* has

    p, g/Z (padded)         g = ∂L/∂out, Z the softmax's normaliser,
    1/a, value_scale/τ, (g·out)/Z, σ

a destination; σ is what a self-loop's score gives to each other edge when it is their mean. The points of all heads
come first, then their records, so that a point begins where a cache line does whenever it fills one.

A *block* is a run of rows with about ``block`` edges. Points are gathered twice a block, from memory and then from
cache. The first time rows do not matter: a group of edges, as many as a vector has lanes, becomes a vector of
distances. The second time a row adds up what its edges give it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numba
from numba import types

from hgeo.kernels.attention._layout import (
    MAPS,
    NODES,
    PHASE,
    PHASE_DONE,
    PHASE_NEXT,
    ROW,
    ROW_PADDING,
    Slots,
    edge_lanes,
)
from hgeo.kernels.simd import (
    TAN_SLOPE,
    call,
    distance_flat_or_hyperbolic,
    distance_spherical,
    fetch_add,
    load,
    node_maps_flat_or_hyperbolic,
    prefetch,
    slope_flat_or_hyperbolic,
    slope_spherical,
    store,
    vdots,
    velu,
    velu_slope,
    vexp,
    vfma,
    vfold,
    vload,
    vmul,
    vrecords,
    vsplat,
    vsquares,
    vstore,
    vsub,
    vsum,
    vsums,
)

__all__ = ["make_kernels"]

_INT = types.int64
_ID = types.int32
_DOUBLE = types.float64
_AT = Slots(*range(len(Slots._fields)))  # the places of the slots

# how many edges ahead a record is asked for, and how many of its cache lines; the hardware fetches on from there
_AHEAD = 24
# a table of so many bytes stays in a core's own cache, where asking ahead costs more than it saves
_NEAR = 512 * 1024
_MAX_LINES = 8

# how often a thread looks whether the others are ready before it lets go of its core
_PATIENCE = 2000

# in units of eps, as hgeo.math.project has it: points beyond √c|p| = 1 - 4 eps are put at 1 - 6 eps
_MARGIN, _PLACED = 4.0, 6.0


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
    slope_terms = len(TAN_SLOPE)
    tan_slope = TAN_SLOPE
    size = bits // 8
    lanes = edge_lanes(bits)
    double_width = 2 * width
    fold = min(width, lanes)
    nodes = NODES
    padding = ROW_PADDING
    maps_bytes = MAPS * NODES * 8
    jit: Any = numba.njit(error_model="numpy", fastmath={"contract"})

    @jit
    def row_of(args: int) -> tuple[int, int, int]:
        """The address of the slots, the head and the address of its numbers, from that of a row."""
        return args + load(args, 0, _INT), load(args, 1, _INT), load(args, 2, _INT)

    @jit
    def row_length(args: int) -> int:
        """Numbers in a row of all heads."""
        return load(args, _AT.heads, _INT) * load(args, _AT.dim, _INT)

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
    def group_maps(k: float, scale: float, memory: int) -> None:
        """Node maps of a group of nodes. Memory holds, in float64, their |u|²; behind these come τ, 1/a and T'."""
        if k <= 0.0:
            square8 = vload(memory, 0, _DOUBLE, nodes)
            tau8, inverse_a8, slope8 = node_maps_flat_or_hyperbolic(
                square8, (_DOUBLE(k), _DOUBLE(scale), _DOUBLE(limit_angle), _DOUBLE(rim), _DOUBLE(rim_inverse_a))
            )
            vstore(memory, nodes, tau8)
            vstore(memory, 2 * nodes, inverse_a8)
            vstore(memory, 3 * nodes, slope8)
        else:
            for n in range(nodes):
                tau, inverse_a, slope = node_maps(k, scale, load(memory, n, _DOUBLE))
                store(memory, nodes + n, tau)
                store(memory, 2 * nodes + n, inverse_a)
                store(memory, 3 * nodes + n, slope)

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
    def copy_run(source: int, start: int, target: int, place: int, count: int) -> None:
        """target[place : place+count] = source[start : start+count]."""
        full = count // lanes * lanes
        for y in range(0, full, lanes):
            vstore(target, place + y, vload(source, start + y, real, lanes))
        for y in range(full, count):
            store(target, place + y, load(source, start + y, real))

    @jit
    def fill_rows(rowptr: int, r0: int, r1: int, start: int, n: int, ids: int) -> None:
        """ids[e] = the row of edge start + e; whole vectors, so that short rows cost one store."""
        for i in range(r0, r1):
            row = vsplat(_ID(i), lanes)
            for y in range(load(rowptr, i, _INT) - start, load(rowptr, i + 1, _INT) - start, lanes):
                vstore(ids, y, row)
        vstore(ids, n, vsplat(_ID(r0), lanes))

    @jit
    def fetch(table: int, stride: int, lines: int, ids: int, index: int) -> None:
        """Ask for what a group of edges will need: the first cache lines at these ids."""
        for x in range(index, index + lanes):
            place = _INT(load(ids, x, _ID)) * stride
            for t in range(0, lines, line):
                prefetch(table, place + t, real)

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
    def far_complement(table: int, records: int, i: int, j: int, padded: int, k: float) -> float:
        """1 - k q by differences: |x + k|x|² y|²/(|x|² a_i a_j), x the point farther out, y the other."""
        if load(records, 4 * i, real) > load(records, 4 * j, real):
            i, j = j, i
        ix, iy, x, y = load(records, 4 * i, real), load(records, 4 * j, real), i * padded, j * padded
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
        args, head, reals = row_of(args)
        k, scale = load(reals, 0, _DOUBLE), load(reals, 2, _DOUBLE)
        heads, sources = load(args, _AT.heads, _INT), load(args, _AT.num_src, _INT)
        dim, padded = load(args, _AT.dim, _INT), load(args, _AT.padded, _INT)
        u, table = load(args, _AT.u, _INT), load(args, _AT.table, _INT)
        value_scale = load(args, _AT.value_scale, _INT)
        records = table + heads * sources * padded * size
        for first in range(begin, end, nodes):
            last = min(first + nodes, end)
            vstore(scratch, 0, vsplat(0.0, nodes))
            for j in range(first, last):
                square = square_norm(u, (j * heads + head) * dim, dim)
                store(scratch, j - first, _DOUBLE(square))
            group_maps(k, scale, scratch)
            for j in range(first, last):
                tau = load(scratch, nodes + j - first, _DOUBLE)
                place = head * sources + j
                copy_padded(u, (j * heads + head) * dim, dim, table, place * padded, padded, tau)
                value = 1.0
                if value_scale != 0:
                    value = _DOUBLE(load(value_scale, j, real))
                store(records, 4 * place, real(load(scratch, 2 * nodes + j - first, _DOUBLE)))
                store(records, 4 * place + 1, real(value / tau))
                store(records, 4 * place + 2, real(tau))
                store(records, 4 * place + 3, real(load(scratch, 3 * nodes + j - first, _DOUBLE)))

    def forward(args: int, begin: int, end: int, scratch: int, partial: int) -> None:
        """Scores, softmax and weighted sum for row blocks [begin, end)."""
        args, head, reals = row_of(args)
        k, beta = load(reals, 0, _DOUBLE), load(reals, 1, _DOUBLE)
        root, twice_inverse_root = real(load(reals, 3, _DOUBLE)), real(2.0 / load(reals, 3, _DOUBLE))
        heads = load(args, _AT.heads, _INT)
        rows = load(args, _AT.num_dst, _INT)
        dim, padded, block = load(args, _AT.dim, _INT), load(args, _AT.padded, _INT), load(args, _AT.block, _INT)
        rowptr, col = load(args, _AT.rowptr, _INT), load(args, _AT.col, _INT)
        bias, factor = load(args, _AT.bias, _INT), load(args, _AT.factor, _INT)
        bias_edge, bias_head = load(args, _AT.bias_edge, _INT), load(args, _AT.bias_head, _INT) * head
        factor_edge, factor_head = load(args, _AT.factor_edge, _INT), load(args, _AT.factor_head, _INT) * head
        sources = load(args, _AT.num_src, _INT)
        table = load(args, _AT.table, _INT) + head * sources * padded * size
        records = load(args, _AT.table, _INT) + (heads * padded + 4 * head) * sources * size
        edges = load(rowptr, rows, _INT)
        out, zinv = load(args, _AT.out, _INT), load(args, _AT.zinv, _INT) + head * rows * size
        q_all, e_all = load(args, _AT.q, _INT) + head * edges * size, load(args, _AT.e, _INT) + head * edges * size
        self_mean, needs_max = load(args, _AT.self_mean, _INT) != 0, load(args, _AT.needs_max, _INT) != 0
        keep = load(args, _AT.keep, _INT) != 0
        spherical = k > 0.0
        far = real(0.75 / k) if spherical else real(math.inf)
        minus_beta = vsplat(real(-beta), lanes)
        lines = min((padded + line - 1) // line, _MAX_LINES) * line
        fetching = sources * padded * size > _NEAR
        spare = scratch + maps_bytes
        squares = spare + width * size
        ids = squares + lanes * fold * size
        for b in range(begin, end):
            r0, r1 = first_row(rowptr, rows, b * block), first_row(rowptr, rows, (b + 1) * block)
            start, stop = load(rowptr, r0, _INT), load(rowptr, r1, _INT)
            n = stop - start
            capacity = (n + 2 * lanes) * size
            qs, es, weights = ids + capacity, ids + 2 * capacity, ids + 3 * capacity
            fill_rows(rowptr, r0, r1, start, n, ids)
            # 1. a group of edges: q = |p_i - p_j|²/(a_i a_j), the score, and without a maximum exp of it
            for y in range(0, n, lanes):
                if fetching:
                    fetch(table, padded, lines, col, start + y + _AHEAD)
                    fetch(records, 4, line, col, start + y + _AHEAD)
                if padded == width:
                    total = vsquares(table, ids, y, width, table, col, start + y, width, real, width, lanes)
                else:
                    for x in range(y, y + lanes):
                        pi, pj = _INT(load(ids, x, _ID)) * padded, _INT(load(col, start + x, _ID)) * padded
                        tile = vsplat(real(zero), width)
                        for t in range(0, padded, width):
                            v = vsub(vload(table, pi + t, real, width), vload(table, pj + t, real, width))
                            tile = vfma(v, v, tile)
                        vstore(squares, (x - y) * fold, vfold(tile, fold))
                    total = vsums(squares, real, fold, lanes)
                inverse_a_i, _, _, _ = vrecords(records, ids, y, real, lanes)
                inverse_a_j, value_j, _, _ = vrecords(records, col, start + y, real, lanes)
                vstore(qs, y, vmul(vmul(total, inverse_a_i), inverse_a_j))
                vstore(weights, y, value_j)
            for y in range(0, n, lanes):
                if spherical:
                    for x in range(y, y + lanes):
                        if load(qs, x, real) > far:
                            i, j = _INT(load(ids, x, _ID)), _INT(load(col, start + x, _ID))
                            store(qs, x, -far_complement(table, records, i, j, padded, k))
                    d8 = distance_spherical(vload(qs, y, real, lanes), (real(k), root, twice_inverse_root))
                else:
                    d8 = distance_flat_or_hyperbolic(vload(qs, y, real, lanes), (root, twice_inverse_root))
                s8 = vmul(minus_beta, d8)
                if not needs_max:
                    s8 = vexp(s8)
                vstore(es, y, s8)
            # 2. with a maximum, row by row: exp(score - max)
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
                for y in range(0, n, lanes):
                    vstore(es, y, vexp(vload(es, y, real, lanes)))
            if keep:
                copy_run(qs, 0, q_all, start, n)
                copy_run(es, 0, e_all, start, n)
            for y in range(0, n, lanes):
                vstore(weights, y, vmul(vload(weights, y, real, lanes), vload(es, y, real, lanes)))
            if factor != 0:
                for y in range(n):
                    f = load(factor, (start + y) * factor_edge + factor_head, real)
                    store(weights, y, real(load(weights, y, real) * f))
            # 3. Σ w u, row by row
            for i in range(r0, r1):
                e0, e1 = load(rowptr, i, _INT), load(rowptr, i + 1, _INT)
                place = (i * heads + head) * dim
                inverse_z = real(zero)
                for t in range(0, padded, width):
                    z = real(zero)
                    total = vsplat(real(zero), width)
                    for e in range(e0, e1):
                        pj = _INT(load(col, e, _ID)) * padded + t
                        z += load(es, e - start, real)
                        weight = vsplat(load(weights, e - start, real), width)
                        total = vfma(weight, vload(table, pj, real, width), total)
                    inverse_z = real(one) / z if z != real(zero) else real(zero)
                    total = vmul(total, vsplat(inverse_z, width))
                    if t + width <= dim:
                        vstore(out, place + t, total)
                    else:
                        vstore(spare, 0, total)
                        for x in range(dim - t):
                            store(out, place + t + x, load(spare, x, real))
                store(zinv, i, inverse_z)

    # -----------------------------------------------------------------------------------------------------------------

    def pack_backward(args: int, begin: int, end: int, scratch: int, partial: int) -> None:
        """Fill the pair table for destinations [begin, end)."""
        args, head, _ = row_of(args)
        heads = load(args, _AT.heads, _INT)
        sources, rows = load(args, _AT.num_src, _INT), load(args, _AT.num_dst, _INT)
        dim, padded = load(args, _AT.dim, _INT), load(args, _AT.padded, _INT)
        table, pairs = load(args, _AT.table, _INT), load(args, _AT.pairs, _INT)
        out, grad_out, zinv = load(args, _AT.out, _INT), load(args, _AT.grad_out, _INT), load(args, _AT.zinv, _INT)
        rowptr, col = load(args, _AT.rowptr, _INT), load(args, _AT.col, _INT)
        edges = load(rowptr, rows, _INT)
        e_all = load(args, _AT.e, _INT) + head * edges * (bits // 8)
        factor = load(args, _AT.factor, _INT)
        factor_edge, factor_head = load(args, _AT.factor_edge, _INT), load(args, _AT.factor_head, _INT) * head
        self_mean = load(args, _AT.self_mean, _INT) != 0
        table_records = table + heads * sources * padded * size
        pair_records = pairs + heads * rows * 2 * padded * size
        for i in range(begin, end):
            place = (i * heads + head) * dim
            source, record = head * sources + i, 4 * (head * rows + i)
            pair = (head * rows + i) * 2 * padded
            inverse_z = load(zinv, head * rows + i, real)
            for t in range(0, padded, width):
                vstore(pairs, pair + t, vload(table, source * padded + t, real, width))
            copy_padded(grad_out, place, dim, pairs, pair + padded, padded, inverse_z)
            value = load(table_records, 4 * source + 1, real)
            mean = real(dot(grad_out, place, out, place, dim) * inverse_z)
            sigma = real(zero)
            if self_mean:
                own = dot(pairs, pair, pairs, pair + padded, padded) * value
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
            store(pair_records, record, load(table_records, 4 * source, real))
            store(pair_records, record + 1, value)
            store(pair_records, record + 2, mean)
            store(pair_records, record + 3, real(sigma))

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
        minus_beta = vsplat(real(-beta), lanes)
        zeros = vsplat(real(zero), lanes)
        by_beta, by_k = zeros, zeros
        for y in range(0, n, lanes):
            q8 = vload(qs, y, real, lanes)
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
                a8 = vload(own, y, real, lanes)
                by_beta = vfma(a8, d8, by_beta)
                by_k = vfma(a8, slope_k, by_k)
            g8 = vmul(vmul(minus_beta, vload(both, y, real, lanes)), slope_q)
            vstore(both, y, vmul(g8, q8))
            vstore(inverse_aa, y, vmul(g8, vload(inverse_aa, y, real, lanes)))
        if needs_scalars:
            store(partial, 0, load(partial, 0, _DOUBLE) - _DOUBLE(vsum(by_beta)))
            store(partial, 1, load(partial, 1, _DOUBLE) - beta * _DOUBLE(vsum(by_k)))

    @jit
    def radial_slope(k: float, scale: float, square: float, t: float, slope: float, gu: float, radial: float) -> float:
        """m = T' g·v - T ∂L/∂ln(1/a), with g = ∂L/∂p, gu = g·u, t = T.

        p = T(z) v with v = s u, z = k|v|², and d ln(1/a)/dz = -T, so ∂L/∂v = T g + 2k m v and ∂L/∂k = |v|² m.
        A clipped point only turns: its m takes the radial part away.
        """
        if k * scale * scale * square < -limit_angle * limit_angle:
            return -t * gu / (2.0 * k * scale * square)
        return slope * gu * scale - t * radial

    @jit
    def finish_node(
        points: int, place: int, square: float, along: float, sums: int, radial: float, value: float, record: int,
        scalars: tuple[float, float, float], grad_u: int, target: int, dim: int, padded: int, partial: int,
    ) -> None:  # fmt: skip
        """∂L/∂u of one source, from ``sums`` = (g/2, ∂L/∂value) with g = ∂L/∂p, and ``radial`` = ∂L/∂ln(1/a).

        ``square`` is |p|², ``along`` is p·g/2, and ``scalars`` are k, score scale and its inverse. u is not read: the
        point, which was needed for the sums, is τ u.
        """
        k, scale, inverse_scale = scalars
        tau, slope = _DOUBLE(load(record, 2, real)), _DOUBLE(load(record, 3, real))
        inverse_tau = 1.0 / tau
        square_u = _DOUBLE(square) * inverse_tau * inverse_tau
        t, gu = tau * inverse_scale, 2.0 * _DOUBLE(along) * inverse_tau
        m = radial_slope(k, scale, square_u, t, slope, gu, _DOUBLE(radial))
        store(partial, 1, load(partial, 1, _DOUBLE) + scale * scale * square_u * m)
        store(partial, 2, load(partial, 2, _DOUBLE) + t * gu + 2.0 * k * m * scale * square_u)
        c_point, c_value = real(2.0 * tau), real(value)
        c_u = real(2.0 * k * scale * scale * m * inverse_tau)
        g8, u8, v8 = vsplat(c_point, width), vsplat(c_u, width), vsplat(c_value, width)
        full = dim // width * width
        for x in range(0, full, width):
            total = vfma(g8, vload(sums, x, real, width), vmul(v8, vload(sums, padded + x, real, width)))
            vstore(grad_u, target + x, vfma(u8, vload(points, place + x, real, width), total))
        for x in range(full, dim):
            g = c_value * load(sums, padded + x, real) + c_point * load(sums, x, real)
            store(grad_u, target + x, real(g + c_u * load(points, place + x, real)))

    def backward_symmetric(args: int, begin: int, end: int, scratch: int, partial: int) -> None:
        """∂L/∂u for row blocks [begin, end) of a symmetric graph: an edge and its mirror at once, rows only."""
        args, head, reals = row_of(args)
        heads, rows = load(args, _AT.heads, _INT), load(args, _AT.num_dst, _INT)
        dim, padded, block = load(args, _AT.dim, _INT), load(args, _AT.padded, _INT), load(args, _AT.block, _INT)
        rowptr, col, mirror = load(args, _AT.rowptr, _INT), load(args, _AT.col, _INT), load(args, _AT.csc_pos, _INT)
        factor = load(args, _AT.factor, _INT)
        factor_edge, factor_head = load(args, _AT.factor_edge, _INT), load(args, _AT.factor_head, _INT) * head
        pairs = load(args, _AT.pairs, _INT) + head * rows * 2 * padded * size
        gradients = pairs + padded * size
        fetching = rows * 2 * padded * size > _NEAR
        records = load(args, _AT.pairs, _INT) + (heads * 2 * padded + 4 * head) * rows * size
        node_records = load(args, _AT.table, _INT) + (heads * padded + 4 * head) * rows * size
        edges = load(rowptr, rows, _INT)
        q_all, e_all = load(args, _AT.q, _INT) + head * edges * size, load(args, _AT.e, _INT) + head * edges * size
        scalars = load(reals, 0, _DOUBLE), load(reals, 2, _DOUBLE), 1.0 / load(reals, 2, _DOUBLE)
        value_scale = load(args, _AT.value_scale, _INT)
        grad_u, grad_bias = load(args, _AT.grad_u, _INT), load(args, _AT.grad_bias, _INT)
        self_mean, needs_scalars = load(args, _AT.self_mean, _INT) != 0, load(args, _AT.needs_scalars, _INT) != 0
        # without a maximum, a bias or a factor, an edge and its mirror have the same unnormalised weight
        mirrored = load(args, _AT.needs_max, _INT) == 0 and factor == 0
        lines = min((2 * padded + line - 1) // line, 2 * _MAX_LINES) * line
        sums = scratch + maps_bytes
        to_own, to_mirror = sums + 2 * padded * size, sums + (2 * padded + lanes * fold) * size
        ids = to_mirror + lanes * fold * size
        for b in range(begin, end):
            r0, r1 = first_row(rowptr, rows, b * block), first_row(rowptr, rows, (b + 1) * block)
            start, stop = load(rowptr, r0, _INT), load(rowptr, r1, _INT)
            n = stop - start
            capacity = (n + 2 * lanes) * size
            own, both, inverse_aa, weights, qs = (
                ids + capacity,
                ids + 2 * capacity,
                ids + 3 * capacity,
                ids + 4 * capacity,
                ids + 5 * capacity,
            )
            fill_rows(rowptr, r0, r1, start, n, ids)
            copy_run(q_all, start, qs, 0, n)
            copy_run(e_all, start, own, 0, n)
            vstore(qs, n, vsplat(real(zero), lanes))
            vstore(own, n, vsplat(real(zero), lanes))
            if mirrored:
                copy_run(own, 0, weights, 0, n)
            else:  # ``both`` and ``inverse_aa`` hold the two factors for now
                for y in range(n):
                    other = _INT(load(mirror, start + y, _ID))
                    prefetch(e_all, _INT(load(mirror, start + y + _AHEAD, _ID)), real)
                    f_own, f_mirror = real(one), real(one)
                    if factor != 0:
                        f_own = load(factor, (start + y) * factor_edge + factor_head, real)
                        f_mirror = load(factor, other * factor_edge + factor_head, real)
                    store(weights, y, load(e_all, other, real))
                    store(both, y, f_own)
                    store(inverse_aa, y, f_mirror)
            # 1. a group of edges: ∂L/∂score of the edge and of its mirror
            for y in range(0, n, lanes):
                if fetching:
                    fetch(pairs, 2 * padded, lines, col, start + y + _AHEAD)
                    fetch(records, 4, line, col, start + y + _AHEAD)
                if padded == width:
                    to_i = vdots(
                        gradients, ids, y, double_width, pairs, col, start + y, double_width, real, width, lanes
                    )
                    to_j = vdots(
                        pairs, ids, y, double_width, gradients, col, start + y, double_width, real, width, lanes
                    )
                else:
                    for x in range(y, y + lanes):
                        pi, pj = _INT(load(ids, x, _ID)) * 2 * padded, _INT(load(col, start + x, _ID)) * 2 * padded
                        at_i, at_j = vsplat(real(zero), width), vsplat(real(zero), width)
                        for t in range(pi, pi + padded, width):
                            p_i, g_i = vload(pairs, t, real, width), vload(gradients, t, real, width)
                            p_j, g_j = (
                                vload(pairs, pj + t - pi, real, width),
                                vload(gradients, pj + t - pi, real, width),
                            )
                            at_i, at_j = vfma(g_i, p_j, at_i), vfma(p_i, g_j, at_j)
                        vstore(to_own, (x - y) * fold, vfold(at_i, fold))
                        vstore(to_mirror, (x - y) * fold, vfold(at_j, fold))
                    to_i, to_j = vsums(to_own, real, fold, lanes), vsums(to_mirror, real, fold, lanes)
                inverse_a_i, value_i, mean_i, _ = vrecords(records, ids, y, real, lanes)
                inverse_a_j, value_j, mean_j, _ = vrecords(records, col, start + y, real, lanes)
                own8, mirror8 = vload(own, y, real, lanes), vload(weights, y, real, lanes)
                value_j, value_i = vmul(value_j, to_i), vmul(value_i, to_j)
                if not mirrored:
                    f_own8, f_mirror8 = vload(both, y, real, lanes), vload(inverse_aa, y, real, lanes)
                    value_j, value_i = vmul(f_own8, value_j), vmul(f_mirror8, value_i)
                    vstore(weights, y, vmul(mirror8, f_mirror8))
                own8 = vmul(own8, vsub(value_j, mean_i))
                vstore(own, y, own8)
                vstore(both, y, vfma(mirror8, vsub(value_i, mean_j), own8))
                vstore(inverse_aa, y, vmul(inverse_a_i, inverse_a_j))
            if grad_bias != 0:
                copy_run(own, 0, grad_bias, head * edges + start, n)
            if self_mean:
                for y in range(n):
                    i, j = _INT(load(ids, y, _ID)), _INT(load(col, start + y, _ID))
                    if i != j:
                        sigma_i, sigma_j = load(records, 4 * i + 3, real), load(records, 4 * j + 3, real)
                        store(own, y, real(load(own, y, real) + sigma_i))
                        store(both, y, real(load(both, y, real) + sigma_i + sigma_j))
            for tail in (own, both, inverse_aa):
                vstore(tail, n, vsplat(real(zero), lanes))
            # 2. the transcendental part
            edge_derivatives(own, both, inverse_aa, qs, n, reals, needs_scalars, partial)
            # 3. gather again, from cache
            for i in range(r0, r1):
                e0, e1 = load(rowptr, i, _INT), load(rowptr, i + 1, _INT)
                pi = i * 2 * padded
                radial = real(zero)
                square, along = vsplat(real(zero), width), vsplat(real(zero), width)
                for t in range(0, padded, width):
                    radial = real(zero)
                    point = vload(pairs, pi + t, real, width)
                    g_point, g_value = vsplat(real(zero), width), vsplat(real(zero), width)
                    for e in range(e0, e1):
                        pj = _INT(load(col, e, _ID)) * 2 * padded + t
                        radial += load(both, e - start, real)
                        difference = vsub(point, vload(pairs, pj, real, width))
                        g_point = vfma(vsplat(load(inverse_aa, e - start, real), width), difference, g_point)
                        g_value = vfma(
                            vsplat(load(weights, e - start, real), width),
                            vload(pairs, pj + padded, real, width),
                            g_value,
                        )
                    square, along = vfma(point, point, square), vfma(point, g_point, along)
                    vstore(sums, t, g_point)
                    vstore(sums, padded + t, g_value)
                value = 1.0
                if value_scale != 0:
                    value = _DOUBLE(load(value_scale, i, real))
                finish_node(
                    pairs, pi, vsum(square), vsum(along), sums, radial, value, node_records + 4 * i * size,
                    scalars, grad_u, (i * heads + head) * dim, dim, padded, partial,
                )  # fmt: skip

    def backward_rows(args: int, begin: int, end: int, scratch: int, partial: int) -> None:
        """Directed graphs, first pass, row blocks [begin, end): what edges give to destinations, and edge terms.

        Edge terms, 4 numbers an edge: ∂L/∂|p_i - p_j|², weight · Z, q ∂L/∂q, 0. Row terms, padded + 1 a destination.
        """
        args, head, reals = row_of(args)
        heads = load(args, _AT.heads, _INT)
        sources, rows = load(args, _AT.num_src, _INT), load(args, _AT.num_dst, _INT)
        padded, block = load(args, _AT.padded, _INT), load(args, _AT.block, _INT)
        rowptr, col = load(args, _AT.rowptr, _INT), load(args, _AT.col, _INT)
        factor = load(args, _AT.factor, _INT)
        factor_edge, factor_head = load(args, _AT.factor_edge, _INT), load(args, _AT.factor_head, _INT) * head
        table = load(args, _AT.table, _INT) + head * sources * padded * size
        table_records = load(args, _AT.table, _INT) + (heads * padded + 4 * head) * sources * size
        pairs = load(args, _AT.pairs, _INT) + head * rows * 2 * padded * size
        pair_records = load(args, _AT.pairs, _INT) + (heads * 2 * padded + 4 * head) * rows * size
        edges = load(rowptr, rows, _INT)
        q_all, e_all = load(args, _AT.q, _INT) + head * edges * size, load(args, _AT.e, _INT) + head * edges * size
        terms, row_terms = load(args, _AT.edge_terms, _INT), load(args, _AT.row_terms, _INT)
        grad_bias = load(args, _AT.grad_bias, _INT)
        self_mean, needs_scalars = load(args, _AT.self_mean, _INT) != 0, load(args, _AT.needs_scalars, _INT) != 0
        lines = min((padded + line - 1) // line, _MAX_LINES) * line
        gradients = pairs + padded * size
        fetching = sources * padded * size > _NEAR
        dots = scratch + maps_bytes
        ids = dots + lanes * fold * size
        for b in range(begin, end):
            r0, r1 = first_row(rowptr, rows, b * block), first_row(rowptr, rows, (b + 1) * block)
            start, stop = load(rowptr, r0, _INT), load(rowptr, r1, _INT)
            n = stop - start
            capacity = (n + 2 * lanes) * size
            own, both, inverse_aa, weights, qs = (
                ids + capacity,
                ids + 2 * capacity,
                ids + 3 * capacity,
                ids + 4 * capacity,
                ids + 5 * capacity,
            )
            fill_rows(rowptr, r0, r1, start, n, ids)
            copy_run(q_all, start, qs, 0, n)
            copy_run(e_all, start, own, 0, n)
            copy_run(e_all, start, weights, 0, n)
            vstore(qs, n, vsplat(real(zero), lanes))
            vstore(own, n, vsplat(real(zero), lanes))
            if factor != 0:
                for y in range(n):
                    f = load(factor, (start + y) * factor_edge + factor_head, real)
                    store(weights, y, real(load(weights, y, real) * f))
            for y in range(0, n, lanes):
                if fetching:
                    fetch(table, padded, lines, col, start + y + _AHEAD)
                    fetch(table_records, 4, line, col, start + y + _AHEAD)
                if padded == width:
                    total = vdots(gradients, ids, y, double_width, table, col, start + y, width, real, width, lanes)
                else:
                    for x in range(y, y + lanes):
                        pi, pj = _INT(load(ids, x, _ID)) * 2 * padded, _INT(load(col, start + x, _ID)) * padded
                        tile = vsplat(real(zero), width)
                        for t in range(0, padded, width):
                            tile = vfma(vload(gradients, pi + t, real, width), vload(table, pj + t, real, width), tile)
                        vstore(dots, (x - y) * fold, vfold(tile, fold))
                    total = vsums(dots, real, fold, lanes)
                inverse_a_i, _, mean_i, _ = vrecords(pair_records, ids, y, real, lanes)
                inverse_a_j, value_j, _, _ = vrecords(table_records, col, start + y, real, lanes)
                value_j = vmul(vmul(value_j, total), vload(weights, y, real, lanes))
                s8 = vsub(value_j, vmul(vload(own, y, real, lanes), mean_i))
                vstore(own, y, s8)
                vstore(inverse_aa, y, vmul(inverse_a_i, inverse_a_j))
            if grad_bias != 0:
                copy_run(own, 0, grad_bias, head * edges + start, n)
            if self_mean:
                for y in range(n):
                    i = _INT(load(ids, y, _ID))
                    if i != _INT(load(col, start + y, _ID)):
                        store(own, y, real(load(own, y, real) + load(pair_records, 4 * i + 3, real)))
            copy_run(own, 0, both, 0, n)
            for tail in (own, both, inverse_aa):
                vstore(tail, n, vsplat(real(zero), lanes))
            edge_derivatives(own, both, inverse_aa, qs, n, reals, needs_scalars, partial)
            for i in range(r0, r1):
                e0, e1 = load(rowptr, i, _INT), load(rowptr, i + 1, _INT)
                pi = i * 2 * padded
                radial = real(zero)
                for e in range(e0, e1):
                    y = e - start
                    radial += load(both, y, real)
                    store(terms, 4 * e, load(inverse_aa, y, real))
                    store(terms, 4 * e + 1, load(weights, y, real))
                    store(terms, 4 * e + 2, load(both, y, real))
                for t in range(0, padded, width):
                    point = vload(pairs, pi + t, real, width)
                    g_point = vsplat(real(zero), width)
                    for e in range(e0, e1):
                        pj = _INT(load(col, e, _ID)) * padded + t
                        difference = vsub(point, vload(table, pj, real, width))
                        g_point = vfma(vsplat(load(inverse_aa, e - start, real), width), difference, g_point)
                    vstore(row_terms, i * (padded + 1) + t, g_point)
                store(row_terms, i * (padded + 1) + padded, real(radial))

    def backward_columns(args: int, begin: int, end: int, scratch: int, partial: int) -> None:
        """Directed graphs, second pass, column blocks [begin, end): what edges give to sources, and ∂L/∂u."""
        args, head, reals = row_of(args)
        heads = load(args, _AT.heads, _INT)
        sources, rows = load(args, _AT.num_src, _INT), load(args, _AT.num_dst, _INT)
        dim, padded, block = load(args, _AT.dim, _INT), load(args, _AT.padded, _INT), load(args, _AT.block, _INT)
        colptr, row, pos = load(args, _AT.colptr, _INT), load(args, _AT.csc_row, _INT), load(args, _AT.csc_pos, _INT)
        pair_stride = 2 * padded
        table = load(args, _AT.table, _INT) + head * sources * padded * size
        records = load(args, _AT.table, _INT) + (heads * padded + 4 * head) * sources * size
        pairs = load(args, _AT.pairs, _INT) + head * rows * pair_stride * size
        terms, row_terms = load(args, _AT.edge_terms, _INT), load(args, _AT.row_terms, _INT)
        scalars = load(reals, 0, _DOUBLE), load(reals, 2, _DOUBLE), 1.0 / load(reals, 2, _DOUBLE)
        value_scale, grad_u = load(args, _AT.value_scale, _INT), load(args, _AT.grad_u, _INT)
        lines = min((2 * padded + line - 1) // line, 2 * _MAX_LINES) * line
        for b in range(begin, end):
            for j in range(first_row(colptr, sources, b * block), first_row(colptr, sources, (b + 1) * block)):
                f0, f1 = load(colptr, j, _INT), load(colptr, j + 1, _INT)
                pj = j * padded
                radial = real(zero)
                if j < rows:
                    radial += load(row_terms, j * (padded + 1) + padded, real)
                square, along = vsplat(real(zero), width), vsplat(real(zero), width)
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
                    square, along = vfma(point, point, square), vfma(point, g_point, along)
                    vstore(scratch, t, g_point)
                    vstore(scratch, padded + t, g_value)
                value = 1.0
                if value_scale != 0:
                    value = _DOUBLE(load(value_scale, j, real))
                finish_node(
                    table, pj, vsum(square), vsum(along), scratch, radial, value, records + 4 * j * size,
                    scalars, grad_u, (j * heads + head) * dim, dim, padded, partial,
                )  # fmt: skip

    # -----------------------------------------------------------------------------------------------------------------

    def points(args: int, begin: int, end: int, scratch: int, partial: int) -> None:
        """Sums [begin, end), all heads of a row as one vector u, become exp0(u), kept inside the rim, or ELU of it."""
        args, _, reals = row_of(args)
        k, scale, dim = load(reals, 0, _DOUBLE), load(reals, 2, _DOUBLE), row_length(args)
        u, out, elu = load(args, _AT.out, _INT), load(args, _AT.points, _INT), load(args, _AT.elu, _INT) != 0
        full = dim // width * width
        spare = scratch + maps_bytes
        for first in range(begin, end, nodes):
            last = min(first + nodes, end)
            vstore(scratch, 0, vsplat(0.0, nodes))
            for j in range(first, last):
                store(scratch, j - first, _DOUBLE(square_norm(u, j * dim, dim)))
            group_maps(k, scale, scratch)
            for j in range(first, last):
                source = j * dim
                tau8 = vsplat(real(load(scratch, nodes + j - first, _DOUBLE)), width)
                for t in range(0, full, width):
                    y8 = vmul(tau8, vload(u, source + t, real, width))
                    vstore(out, source + t, velu(y8) if elu else y8)
                if full < dim:
                    for t in range(dim - full):
                        store(spare, t, load(u, source + full + t, real))
                    for t in range(dim - full, width):
                        store(spare, t, real(zero))
                    y8 = vmul(tau8, vload(spare, 0, real, width))
                    vstore(spare, 0, velu(y8) if elu else y8)
                    for t in range(dim - full):
                        store(out, source + full + t, load(spare, t, real))

    def points_backward(args: int, begin: int, end: int, scratch: int, partial: int) -> None:
        """The derivative of ``points`` by u and k, from that by the points and from these."""
        args, _, reals = row_of(args)
        k, scale, dim = load(reals, 0, _DOUBLE), load(reals, 2, _DOUBLE), row_length(args)
        u, out, elu = load(args, _AT.out, _INT), load(args, _AT.points, _INT), load(args, _AT.elu, _INT) != 0
        grad_out, grad_u = load(args, _AT.grad_points, _INT), load(args, _AT.grad_out, _INT)
        full = dim // width * width
        by_k, inverse_scale = 0.0, 1.0 / scale
        for first in range(begin, end, nodes):
            last = min(first + nodes, end)
            vstore(scratch, 0, vsplat(0.0, nodes))
            for j in range(first, last):
                source = j * dim
                if elu:  # grad_u holds ∂L/∂(exp0 u) for now
                    for t in range(0, full, width):
                        slope8 = velu_slope(vload(out, source + t, real, width))
                        vstore(grad_u, source + t, vmul(vload(grad_out, source + t, real, width), slope8))
                    for t in range(full, dim):
                        y = load(out, source + t, real)
                        slope1 = real(one) if y > real(zero) else real(y + real(one))
                        store(grad_u, source + t, real(load(grad_out, source + t, real) * slope1))
                else:
                    copy_padded(grad_out, source, dim, grad_u, source, dim, 1.0)
                store(scratch, j - first, _DOUBLE(square_norm(u, source, dim)))
                store(scratch, 4 * nodes + j - first, _DOUBLE(dot(grad_u, source, u, source, dim)))
            group_maps(k, scale, scratch)
            for j in range(first, last):
                source = j * dim
                square, tau = load(scratch, j - first, _DOUBLE), load(scratch, nodes + j - first, _DOUBLE)
                slope, gu = load(scratch, 3 * nodes + j - first, _DOUBLE), load(scratch, 4 * nodes + j - first, _DOUBLE)
                m = radial_slope(k, scale, square, tau * inverse_scale, slope, gu, 0.0)
                by_k += scale * scale * square * m
                c_u = real(2.0 * k * scale * scale * m)
                tau8, u8 = vsplat(real(tau), width), vsplat(c_u, width)
                for t in range(0, full, width):
                    g8 = vmul(tau8, vload(grad_u, source + t, real, width))
                    vstore(grad_u, source + t, vfma(u8, vload(u, source + t, real, width), g8))
                for t in range(full, dim):
                    g = real(tau) * load(grad_u, source + t, real) + c_u * load(u, source + t, real)
                    store(grad_u, source + t, real(g))
        store(partial, 1, load(partial, 1, _DOUBLE) + by_k)

    def drive(args: int, begin: int, end: int, scratch: int, partial: int) -> None:
        """Phases [begin, end) of a program, by as many threads as call this; see _layout.phase.

        A thread takes the next job of a phase until there is none, then waits for the others to finish theirs. One that
        comes late finds nothing to do: nobody waits for it. ``partial`` is a function that lets other threads run.
        """
        for number in range(begin, end):
            here = args + number * (8 * PHASE)
            kernel, rows, jobs = load(here, 0, _INT), here + load(here, 1, _INT), load(here, 2, _INT)
            jobs_a_row, chunk, count = load(here, 3, _INT), load(here, 4, _INT), load(here, 5, _INT)
            sums = load(here, 6, _INT)
            job = fetch_add(here + 8 * PHASE_NEXT, 1)
            while job < jobs:
                row, part = job // jobs_a_row, job % jobs_a_row
                start, stop = part * chunk, min(part * chunk + chunk, count)
                call(kernel, (rows + row * (8 * ROW), start, stop, scratch, sums + 24 * job))
                fetch_add(here + 8 * PHASE_DONE, 1)
                job = fetch_add(here + 8 * PHASE_NEXT, 1)
            looked = 0
            while fetch_add(here + 8 * PHASE_DONE, 0) < jobs:
                looked += 1
                if looked > _PATIENCE:
                    call(partial, ())

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

    def sort_with_loops(args: int, begin: int, end: int, scratch: int, partial: int) -> None:
        """Sort ``begin`` edges and the loops they lack by (destination, source); see _sort.sorted_with_loops.

        There are ``end`` sources and ``scratch`` destinations. The int64 arrays must be 0 at the start.
        """
        src, dst, rowptr, colptr = load(args, 0, _INT), load(args, 1, _INT), load(args, 2, _INT), load(args, 3, _INT)
        looped, info, col, csc_row = load(args, 4, _INT), load(args, 5, _INT), load(args, 6, _INT), load(args, 7, _INT)
        csc_pos, perm, order = load(args, 8, _INT), load(args, 9, _INT), load(args, 10, _INT)
        for n in range(begin):
            s, d = load(src, n, _INT), load(dst, n, _INT)
            if s < 0 or s >= end or d < 0 or d >= scratch:
                store(info, 2, _INT(-1))
                return
            store(colptr, s + 1, load(colptr, s + 1, _INT) + 1)
            store(rowptr, d + 1, load(rowptr, d + 1, _INT) + 1)
            if s == d:
                store(looped, d, _INT(1))
        for i in range(scratch):
            missing = 1 - load(looped, i, _INT)
            store(colptr, i + 1, load(colptr, i + 1, _INT) + missing)
            store(rowptr, i + 1, load(rowptr, i + 1, _INT) + missing)
        for j in range(end):
            store(colptr, j + 1, load(colptr, j + 1, _INT) + load(colptr, j, _INT))
        for i in range(scratch):
            store(rowptr, i + 1, load(rowptr, i + 1, _INT) + load(rowptr, i, _INT))
        count = load(rowptr, scratch, _INT)
        for i in range(scratch):  # where none is missing, the loop that is there comes in its place
            spot = load(colptr, i, _INT)
            store(order, spot, _ID(begin + i))
            store(colptr, i, spot + 1 - load(looped, i, _INT))
        for n in range(begin):
            s = load(src, n, _INT)
            spot = load(colptr, s, _INT)
            store(order, spot, _ID(n))
            store(colptr, s, spot + 1)
        for n in range(count):  # by source, so that this is the transpose as well
            place = _INT(load(order, n, _ID))
            s, d = place - begin, place - begin
            if place < begin:
                s, d = load(src, place, _INT), load(dst, place, _INT)
            spot = load(rowptr, d, _INT)
            store(col, spot, _ID(s))
            store(perm, spot, _ID(place))
            store(csc_row, n, _ID(d))
            store(csc_pos, n, _ID(spot))
            store(rowptr, d, spot + 1)
        largest = _INT(0)
        for i in range(scratch, 0, -1):  # every pointer has moved on to where the next begins
            store(rowptr, i, load(rowptr, i - 1, _INT))
            if i < scratch:
                largest = max(largest, load(rowptr, i + 1, _INT) - load(rowptr, i, _INT))
        store(rowptr, 0, _INT(0))
        if scratch > 0:
            largest = max(largest, load(rowptr, 1, _INT))
        for j in range(end, 0, -1):
            store(colptr, j, load(colptr, j - 1, _INT))
        store(colptr, 0, _INT(0))
        for n in range(count, count + padding):
            store(col, n, _ID(0))
            store(csc_row, n, _ID(0))
            store(csc_pos, n, _ID(0))
        store(info, 0, _INT(1))
        store(info, 1, largest)
        store(info, 2, count)

    def transpose(args: int, begin: int, end: int, scratch: int, partial: int) -> None:
        """The ``begin`` edges of sorted rows in the order of their ``end`` columns; see _sort.transposed."""
        row, col, colptr = load(args, 0, _INT), load(args, 1, _INT), load(args, 2, _INT)
        csc_row, csc_pos = load(args, 3, _INT), load(args, 4, _INT)
        for e in range(begin):
            after = load(col, e, _INT) + 1
            store(colptr, after, load(colptr, after, _INT) + 1)
        for j in range(end):
            store(colptr, j + 1, load(colptr, j + 1, _INT) + load(colptr, j, _INT))
        for e in range(begin):
            j = load(col, e, _INT)
            spot = load(colptr, j, _INT)
            store(csc_row, spot, _ID(load(row, e, _INT)))
            store(csc_pos, spot, _ID(e))
            store(colptr, j, spot + 1)
        for j in range(end, 0, -1):
            store(colptr, j, load(colptr, j - 1, _INT))
        store(colptr, 0, _INT(0))

    return {
        "counting_sort": counting_sort,
        "sort_with_loops": sort_with_loops,
        "transpose": transpose,
        "drive": drive,
        "points": points,
        "points_backward": points_backward,
        "pack": pack,
        "forward": forward,
        "pack_backward": pack_backward,
        "backward_symmetric": backward_symmetric,
        "backward_rows": backward_rows,
        "backward_columns": backward_columns,
    }
