"""The CPU kernels, as Numba compiles them: one set for each (dtype, tile width).

Every kernel has the signature ``(args, begin, end, scratch, partial)`` of 64-bit integers: ``args`` is the address of
a row that leads to the :class:`Slots`, ``[begin, end)`` the nodes or row blocks to do, ``scratch`` the address of
memory that belongs to the calling thread, ``partial`` that of three float64 numbers a part for gradients by β, k and
score scale.

Layout. One head is one problem on a space of one or several *parts*, whose squared distances add up. Its *table* has, a
source, the points of all parts side by side, and a record of four numbers a part:

    p (padded with 0)       p = τ u = T(z) s u the point, a = 1 + k|p|²,
    1/a, value_scale/τ, τ, T'

so that one read of a neighbour serves its distance and its value u_j = p_j/τ_j. The backward's *pair table* has

    p, g/Z (padded)         g = ∂L/∂out, Z the softmax's normaliser,
    1/a, value_scale/τ, (g·out)/Z, σ

a destination; σ is what a self-loop's score gives to each other edge when it is their mean. The points of all heads
come first, then the records, part after part of every head, so that a point begins where a cache line does whenever it
fills one.

A *block* is a run of rows with about ``block`` edges. Points are gathered twice a block, from memory and then from
cache. The first time rows do not matter: a group of edges, as many as a vector has lanes, becomes a vector of
distances. The second time a row adds up what its edges give it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numba
from numba import types

from hgeo.kernels.attention._layout import (
    MAPS,
    NODES,
    PART,
    PHASE,
    PHASE_DONE,
    PHASE_NEXT,
    REALS,
    ROW,
    TEAM_NEXT,
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
    vadd,
    vdots,
    velu,
    velu_slope,
    vexp,
    vfma,
    vfold,
    vinverse,
    vload,
    vmul,
    vrecords,
    vsplat,
    vsqrt,
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


class _Problem(NamedTuple):
    """What kernels over blocks of edges know of one head; addresses are those of its own numbers."""

    reals: int
    parts: int
    part_table: int
    heads: int
    head: int
    sources: int
    rows: int
    edges: int
    dim: int
    padded: int
    block: int
    rowptr: int
    col: int
    table: int
    records: int
    pairs: int
    pair_records: int
    q: int
    e: int
    factor: int
    factor_edge: int
    value_scale: int
    grad_u: int
    self_mean: bool
    needs_max: bool
    needs_scalars: bool


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
    part_bytes, reals_bytes, slots_bytes = 8 * PART, 8 * REALS, 8 * len(_AT)
    maps_bytes = MAPS * NODES * 8
    jit: Any = numba.njit(error_model="numpy", fastmath={"contract"})
    inline: Any = numba.njit(error_model="numpy", fastmath={"contract"}, forceinline=True)

    @jit
    def row_of(args: int) -> tuple[int, int, int]:
        """The address of the slots, the head and the address of its numbers, from that of a row."""
        return args + load(args, 0, _INT), load(args, 1, _INT), load(args, 2, _INT)

    @jit
    def problem_of(args: int) -> _Problem:
        """What a row leads to, for kernels over blocks of edges."""
        args, head, reals = row_of(args)
        heads, parts = load(args, _AT.heads, _INT), load(args, _AT.parts, _INT)
        sources, rows = load(args, _AT.num_src, _INT), load(args, _AT.num_dst, _INT)
        padded, rowptr = load(args, _AT.padded, _INT), load(args, _AT.rowptr, _INT)
        table, pairs, edges = load(args, _AT.table, _INT), load(args, _AT.pairs, _INT), load(rowptr, rows, _INT)
        factor, factor_head = load(args, _AT.factor, _INT), load(args, _AT.factor_head, _INT)
        return _Problem(
            reals,
            parts,
            args + slots_bytes,
            heads,
            head,
            sources,
            rows,
            edges,
            load(args, _AT.dim, _INT),
            padded,
            load(args, _AT.block, _INT),
            rowptr,
            load(args, _AT.col, _INT),
            table + head * sources * padded * size,
            table + (heads * padded + 4 * head * parts) * sources * size,
            pairs + head * rows * 2 * padded * size,
            pairs + (2 * heads * padded + 4 * head * parts) * rows * size,
            load(args, _AT.q, _INT) + head * parts * edges * size,
            load(args, _AT.e, _INT) + head * edges * size,
            factor + head * factor_head * size if factor != 0 else 0,
            load(args, _AT.factor_edge, _INT),
            load(args, _AT.value_scale, _INT),
            load(args, _AT.grad_u, _INT),
            load(args, _AT.self_mean, _INT) != 0,
            load(args, _AT.needs_max, _INT) != 0,
            load(args, _AT.needs_scalars, _INT) != 0,
        )

    @jit
    def part_of(part_table: int, part: int) -> tuple[int, int, int, int]:
        """Where its coordinates begin, how many they are, padded, and where these begin in a row of a table."""
        at = part_table + part_bytes * part
        return load(at, 0, _INT), load(at, 1, _INT), load(at, 2, _INT), load(at, 3, _INT)

    @jit
    def block_of(pointer: int, rows: int, block: int, b: int) -> tuple[int, int, int, int]:
        """Its first row, the row behind its last, its first edge and how many it has."""
        r0, r1 = first_row(pointer, rows, b * block), first_row(pointer, rows, (b + 1) * block)
        start = load(pointer, r0, _INT)
        return r0, r1, start, load(pointer, r1, _INT) - start

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
    def far_complement(table: int, records: int, i: int, j: int, stride: int, padded: int, k: float) -> float:
        """1 - k q by differences: |x + k|x|² y|²/(|x|² a_i a_j), x the point farther out, y the other."""
        if load(records, 4 * i, real) > load(records, 4 * j, real):
            i, j = j, i
        ix, iy, x, y = load(records, 4 * i, real), load(records, 4 * j, real), i * stride, j * stride
        kn = real(one) / ix - real(one)
        knv = vsplat(kn, width)
        total = vsplat(real(zero), width)
        for t in range(0, padded, width):
            v = vfma(knv, vload(table, y + t, real, width), vload(table, x + t, real, width))
            total = vfma(v, v, total)
        m = vsum(total) * real(k) / kn * ix * iy
        return max(m, real(1e-30))

    @inline
    def squared_distances(p: Any, part: int, ids: int, y: int, at: int, scratch: int) -> Any:
        """|p_i - p_j|²/(a_i a_j) of a group of edges in one part, and value_scale/τ of their sources."""
        _, _, padded, offset = part_of(p.part_table, part)
        table, records = p.table + offset * size, p.records + 4 * part * p.sources * size
        if p.padded == width:
            total = vsquares(table, ids, y, width, table, p.col, at, width, real, width, lanes)
        elif padded == width:
            total = vsquares(table, ids, y, p.padded, table, p.col, at, p.padded, real, width, lanes)
        else:
            for x in range(lanes):
                pi, pj = _INT(load(ids, y + x, _ID)) * p.padded, _INT(load(p.col, at + x, _ID)) * p.padded
                tile = vsplat(real(zero), width)
                for t in range(0, padded, width):
                    v = vsub(vload(table, pi + t, real, width), vload(table, pj + t, real, width))
                    tile = vfma(v, v, tile)
                vstore(scratch, x * fold, vfold(tile, fold))
            total = vsums(scratch, real, fold, lanes)
        inverse_a_i, _, _, _ = vrecords(records, ids, y, real, lanes)
        inverse_a_j, value_j, _, _ = vrecords(records, p.col, at, real, lanes)
        return vmul(vmul(total, inverse_a_i), inverse_a_j), value_j

    @jit
    def distances(p: Any, part: int, qs: int, ids: int, start: int, n: int, ds: int) -> None:
        """From q of the edges of a block in one part, in place, to their distances; with several, to sums of squares.

        On a sphere q of a far pair gives way to what slope_spherical reads.
        """
        reals = p.reals + reals_bytes * part
        k, root_k = load(reals, 0, _DOUBLE), load(reals, 3, _DOUBLE)
        root, twice_inverse_root = real(root_k), real(2.0 / root_k)
        _, _, padded, offset = part_of(p.part_table, part)
        table, records = p.table + offset * size, p.records + 4 * part * p.sources * size
        spherical = k > 0.0
        far = real(0.75 / k) if spherical else real(math.inf)
        for y in range(0, n, lanes):
            if spherical:
                for x in range(y, y + lanes):
                    if load(qs, x, real) > far:
                        i, j = _INT(load(ids, x, _ID)), _INT(load(p.col, start + x, _ID))
                        store(qs, x, -far_complement(table, records, i, j, p.padded, padded, k))
                d8 = distance_spherical(vload(qs, y, real, lanes), (real(k), root, twice_inverse_root))
            else:
                d8 = distance_flat_or_hyperbolic(vload(qs, y, real, lanes), (root, twice_inverse_root))
            if p.parts > 1:
                d8 = vfma(d8, d8, vload(ds, y, real, lanes)) if part > 0 else vmul(d8, d8)
            vstore(ds, y, d8)

    # -----------------------------------------------------------------------------------------------------------------

    def pack(args: int, begin: int, end: int, scratch: int, partial: int) -> None:
        """Fill the table for sources [begin, end)."""
        p = problem_of(args)
        u = load(args + load(args, 0, _INT), _AT.u, _INT)
        for part in range(p.parts):
            reals = p.reals + reals_bytes * part
            k, scale = load(reals, 0, _DOUBLE), load(reals, 2, _DOUBLE)
            start, dim, padded, offset = part_of(p.part_table, part)
            start += p.head * p.dim
            records = p.records + 4 * part * p.sources * size
            for first in range(begin, end, nodes):
                last = min(first + nodes, end)
                vstore(scratch, 0, vsplat(0.0, nodes))
                for j in range(first, last):
                    store(scratch, j - first, _DOUBLE(square_norm(u, j * p.heads * p.dim + start, dim)))
                group_maps(k, scale, scratch)
                for j in range(first, last):
                    tau = load(scratch, nodes + j - first, _DOUBLE)
                    copy_padded(u, j * p.heads * p.dim + start, dim, p.table, j * p.padded + offset, padded, tau)
                    value = 1.0
                    if p.value_scale != 0:
                        value = _DOUBLE(load(p.value_scale, j, real))
                    store(records, 4 * j, real(load(scratch, 2 * nodes + j - first, _DOUBLE)))
                    store(records, 4 * j + 1, real(value / tau))
                    store(records, 4 * j + 2, real(tau))
                    store(records, 4 * j + 3, real(load(scratch, 3 * nodes + j - first, _DOUBLE)))

    @jit
    def shifted_scores(p: Any, bias: int, bias_edge: int, r0: int, r1: int, start: int, es: int) -> None:
        """Row by row: a self-loop's score as the mean of the others, a bias, and all minus their maximum."""
        for i in range(r0, r1):
            e0, e1 = load(p.rowptr, i, _INT), load(p.rowptr, i + 1, _INT)
            mean = real(zero)
            if p.self_mean:
                others = 0
                for e in range(e0, e1):
                    if _INT(load(p.col, e, _ID)) != i:
                        mean += load(es, e - start, real)
                        others += 1
                mean = mean / real(max(others, 1))
            largest = real(-math.inf)
            for e in range(e0, e1):
                s = load(es, e - start, real)
                if p.self_mean and _INT(load(p.col, e, _ID)) == i:
                    s = mean
                if bias != 0:
                    s += load(bias, e * bias_edge, real)
                largest = max(largest, s)
                store(es, e - start, s)
            if largest == real(-math.inf):  # every edge is masked: weights 0
                largest = real(zero)
            for e in range(e0, e1):
                store(es, e - start, real(load(es, e - start, real) - largest))

    @jit
    def sum_rows(p: Any, part: int, out: int, zinv: int, r0: int, r1: int, start: int, es: int, weights: int,
                 spare: int) -> None:  # fmt: skip
        """Σ w u of a part, row by row, divided by the sum of the masses."""
        begin, dim, padded, offset = part_of(p.part_table, part)
        for i in range(r0, r1):
            e0, e1 = load(p.rowptr, i, _INT), load(p.rowptr, i + 1, _INT)
            place = (i * p.heads + p.head) * p.dim + begin
            inverse_z = real(zero)
            for t in range(0, padded, width):
                z = real(zero)
                total = vsplat(real(zero), width)
                for e in range(e0, e1):
                    pj = _INT(load(p.col, e, _ID)) * p.padded + offset + t
                    z += load(es, e - start, real)
                    weight = vsplat(load(weights, e - start, real), width)
                    total = vfma(weight, vload(p.table, pj, real, width), total)
                inverse_z = real(one) / z if z != real(zero) else real(zero)
                total = vmul(total, vsplat(inverse_z, width))
                if t + width <= dim:
                    vstore(out, place + t, total)
                else:
                    vstore(spare, 0, total)
                    for x in range(dim - t):
                        store(out, place + t + x, load(spare, x, real))
            store(zinv, i, inverse_z)

    def forward(args: int, begin: int, end: int, scratch: int, partial: int) -> None:
        """Scores, softmax and weighted sum for row blocks [begin, end)."""
        p = problem_of(args)
        slots = args + load(args, 0, _INT)
        bias, bias_edge = load(slots, _AT.bias, _INT), load(slots, _AT.bias_edge, _INT)
        if bias != 0:
            bias += load(slots, _AT.bias_head, _INT) * p.head * size
        out, zinv = load(slots, _AT.out, _INT), load(slots, _AT.zinv, _INT) + p.head * p.rows * size
        keep = load(slots, _AT.keep, _INT) != 0
        minus_beta = vsplat(real(-load(p.reals, 1, _DOUBLE)), lanes)
        lines = min((p.padded + line - 1) // line, _MAX_LINES) * line
        fetching = p.sources * p.padded * size > _NEAR
        spare = scratch + maps_bytes
        squares = spare + width * size
        ids = squares + lanes * fold * size
        for b in range(begin, end):
            r0, r1, start, n = block_of(p.rowptr, p.rows, p.block, b)
            capacity = (n + 2 * lanes) * size
            es, qs = ids + capacity, ids + 2 * capacity
            weights = qs + p.parts * capacity
            fill_rows(p.rowptr, r0, r1, start, n, ids)
            # 1. a group of edges: q = |p_i - p_j|²/(a_i a_j), then distances
            for y in range(0, n, lanes):
                if fetching:
                    fetch(p.table, p.padded, lines, p.col, start + y + _AHEAD)
                    fetch(p.records, 4, line, p.col, start + y + _AHEAD)
                for part in range(p.parts):
                    q8, value_j = squared_distances(p, part, ids, y, start + y, squares)
                    vstore(qs + part * capacity, y, q8)
                    vstore(weights + part * capacity, y, value_j)
            for part in range(p.parts):
                distances(p, part, qs + part * capacity, ids, start, n, es)
            # 2. scores; their exp, after the maximum of a row is known if it has to be
            for y in range(0, n, lanes):
                d8 = vload(es, y, real, lanes)
                s8 = vmul(minus_beta, vsqrt(d8) if p.parts > 1 else d8)
                vstore(es, y, s8 if p.needs_max else vexp(s8))
            if p.needs_max:
                shifted_scores(p, bias, bias_edge, r0, r1, start, es)
                for y in range(0, n, lanes):
                    vstore(es, y, vexp(vload(es, y, real, lanes)))
            if keep:
                copy_run(es, 0, p.e, start, n)
            # 3. Σ w u
            for part in range(p.parts):
                shares = weights + part * capacity
                if keep:
                    copy_run(qs + part * capacity, 0, p.q + part * p.edges * size, start, n)
                for y in range(0, n, lanes):
                    vstore(shares, y, vmul(vload(shares, y, real, lanes), vload(es, y, real, lanes)))
                if p.factor != 0:
                    for y in range(n):
                        f = load(p.factor, (start + y) * p.factor_edge, real)
                        store(shares, y, real(load(shares, y, real) * f))
                sum_rows(p, part, out, zinv, r0, r1, start, es, shares, spare)

    # -----------------------------------------------------------------------------------------------------------------

    def pack_backward(args: int, begin: int, end: int, scratch: int, partial: int) -> None:
        """Fill the pair table for destinations [begin, end)."""
        p = problem_of(args)
        slots = args + load(args, 0, _INT)
        out, grad_out = load(slots, _AT.out, _INT), load(slots, _AT.grad_out, _INT)
        zinv = load(slots, _AT.zinv, _INT) + p.head * p.rows * size
        for i in range(begin, end):
            place, pair = (i * p.heads + p.head) * p.dim, i * 2 * p.padded
            inverse_z = load(zinv, i, real)
            mean = real(dot(grad_out, place, out, place, p.dim) * inverse_z)
            own = real(zero)
            for t in range(0, p.padded, width):
                vstore(p.pairs, pair + t, vload(p.table, i * p.padded + t, real, width))
            for part in range(p.parts):
                start, dim, padded, offset = part_of(p.part_table, part)
                gradient = pair + p.padded + offset
                copy_padded(grad_out, place + start, dim, p.pairs, gradient, padded, inverse_z)
                if p.self_mean:
                    value = load(p.records, 4 * (part * p.sources + i) + 1, real)
                    own += dot(p.pairs, pair + offset, p.pairs, gradient, padded) * value
            sigma = real(zero)
            if p.self_mean:
                others = 0
                for e in range(load(p.rowptr, i, _INT), load(p.rowptr, i + 1, _INT)):
                    if _INT(load(p.col, e, _ID)) == i:
                        f = real(one)
                        if p.factor != 0:
                            f = load(p.factor, e * p.factor_edge, real)
                        sigma += load(p.e, e, real) * (f * own - mean)
                    else:
                        others += 1
                sigma = sigma / real(others) if others > 0 else real(zero)
            for part in range(p.parts):
                source, record = 4 * (part * p.sources + i), 4 * (part * p.rows + i)
                store(p.pair_records, record, load(p.records, source, real))
                store(p.pair_records, record + 1, load(p.records, source + 1, real))
                store(p.pair_records, record + 2, mean)
                store(p.pair_records, record + 3, real(sigma))

    @jit
    def edge_derivatives(
        p: Any, own: int, both: int, radial: int, inverse_aa: int, qs: int, capacity: int, n: int, partial: int
    ) -> None:
        """From ∂L/∂score of the edges of a block to coefficients.

        ``own`` holds ∂L/∂s of the edge, ``both`` that plus its mirror edge's. The others hold an array of ``capacity``
        bytes a part: ``qs`` q, ``inverse_aa`` 1/(a_i a_j), which becomes ∂L/∂|p_i - p_j|², and ``radial``, which
        becomes q ∂L/∂q, and which of a space of one part may be ``both``.
        """
        zeros = vsplat(real(zero), lanes)
        several = p.parts > 1
        if several:  # ∂d/∂d_p = d_p/d: ``radial`` has that for now; at d = 0 it is 0
            for y in range(0, n, lanes):
                total = zeros
                for part in range(p.parts):
                    d8 = distance_of(p.reals + reals_bytes * part, vload(qs + part * capacity, y, real, lanes))
                    vstore(radial + part * capacity, y, d8)
                    total = vfma(d8, d8, total)
                inverse8 = vinverse(vsqrt(total))
                for part in range(p.parts):
                    here = radial + part * capacity
                    vstore(here, y, vmul(vload(here, y, real, lanes), inverse8))
        for part in range(p.parts):
            reals = p.reals + reals_bytes * part
            k, beta, root_k = load(reals, 0, _DOUBLE), load(reals, 1, _DOUBLE), load(reals, 3, _DOUBLE)
            c, inverse_c = real(abs(k)), real(1.0 / (root_k * root_k))
            minus_beta = vsplat(real(-beta), lanes)
            pulls, rests = inverse_aa + part * capacity, radial + part * capacity
            by_beta, by_k = zeros, zeros
            for y in range(0, n, lanes):
                q8, both8, d8 = vload(qs + part * capacity, y, real, lanes), vload(both, y, real, lanes), zeros
                if several:
                    both8 = vmul(both8, vload(rests, y, real, lanes))
                if p.needs_scalars:
                    d8 = distance_of(reals, q8)
                if k > 0.0:
                    q8, slope_q, slope_k = slope_spherical(q8, d8, (c, inverse_c))
                else:
                    q8, slope_q, slope_k = slope_flat_or_hyperbolic(q8, d8, (c, inverse_c))
                if p.needs_scalars:
                    a8 = vload(own, y, real, lanes)
                    if several:
                        a8 = vmul(a8, vload(rests, y, real, lanes))
                    by_beta = vfma(a8, d8, by_beta)
                    by_k = vfma(a8, slope_k, by_k)
                g8 = vmul(vmul(minus_beta, both8), slope_q)
                vstore(rests, y, vmul(g8, q8))
                vstore(pulls, y, vmul(g8, vload(pulls, y, real, lanes)))
            if p.needs_scalars:
                sums = partial + 24 * part
                store(sums, 0, load(sums, 0, _DOUBLE) - _DOUBLE(vsum(by_beta)))
                store(sums, 1, load(sums, 1, _DOUBLE) - beta * _DOUBLE(vsum(by_k)))

    @inline
    def distance_of(reals: int, q8: Any) -> Any:
        """Distances in a part from the stored q of edges."""
        k, root_k = load(reals, 0, _DOUBLE), load(reals, 3, _DOUBLE)
        root, twice_inverse_root = real(root_k), real(2.0 / root_k)
        if k > 0.0:
            return distance_spherical(q8, (real(k), root, twice_inverse_root))
        return distance_flat_or_hyperbolic(q8, (root, twice_inverse_root))

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
        p: Any, part: int, node: int, points: int, place: int, square: float, along: float, sums: int, radial: float,
        partial: int,
    ) -> None:  # fmt: skip
        """∂L/∂u of a source in one part, from ``sums`` = (g/2, ∂L/∂value) with g = ∂L/∂p, and ``radial`` = ∂L/∂ln(1/a).

        ``square`` is |p|², ``along`` is p·g/2. u is not read: the point, which was needed for the sums and is at this
        ``place``, is τ u.
        """
        reals, record = p.reals + reals_bytes * part, 4 * (part * p.sources + node)
        k, scale = load(reals, 0, _DOUBLE), load(reals, 2, _DOUBLE)
        begin, dim, padded, _ = part_of(p.part_table, part)
        target = (node * p.heads + p.head) * p.dim + begin
        tau, slope = _DOUBLE(load(p.records, record + 2, real)), _DOUBLE(load(p.records, record + 3, real))
        inverse_tau = 1.0 / tau
        square_u = _DOUBLE(square) * inverse_tau * inverse_tau
        t, gu = tau / scale, 2.0 * _DOUBLE(along) * inverse_tau
        m = radial_slope(k, scale, square_u, t, slope, gu, _DOUBLE(radial))
        sums_of_part = partial + 24 * part
        store(sums_of_part, 1, load(sums_of_part, 1, _DOUBLE) + scale * scale * square_u * m)
        store(sums_of_part, 2, load(sums_of_part, 2, _DOUBLE) + t * gu + 2.0 * k * m * scale * square_u)
        value = load(p.value_scale, node, real) if p.value_scale != 0 else real(one)
        c_point, c_u = real(2.0 * tau), real(2.0 * k * scale * scale * m * inverse_tau)
        g8, u8, v8 = vsplat(c_point, width), vsplat(c_u, width), vsplat(value, width)
        full = dim // width * width
        for x in range(0, full, width):
            total = vfma(g8, vload(sums, x, real, width), vmul(v8, vload(sums, padded + x, real, width)))
            vstore(p.grad_u, target + x, vfma(u8, vload(points, place + x, real, width), total))
        for x in range(full, dim):
            g = value * load(sums, padded + x, real) + c_point * load(sums, x, real)
            store(p.grad_u, target + x, real(g + c_u * load(points, place + x, real)))

    @jit
    def to_others(p: Any, ids: int, start: int, n: int, own: int, both: int, mirrored: bool) -> None:
        """What a self-loop's score, the mean of the others, gives to them, and with ``mirrored`` to their mirrors."""
        for y in range(n):
            i, j = _INT(load(ids, y, _ID)), _INT(load(p.col, start + y, _ID))
            if i != j:
                sigma_i = load(p.pair_records, 4 * i + 3, real)
                store(own, y, real(load(own, y, real) + sigma_i))
                if mirrored:
                    sigma_j = load(p.pair_records, 4 * j + 3, real)
                    store(both, y, real(load(both, y, real) + sigma_i + sigma_j))

    def backward_symmetric(args: int, begin: int, end: int, scratch: int, partial: int) -> None:
        """∂L/∂u for row blocks [begin, end) of a symmetric graph: an edge and its mirror at once, rows only."""
        p = problem_of(args)
        slots = args + load(args, 0, _INT)
        mirror, grad_bias = load(slots, _AT.csc_pos, _INT), load(slots, _AT.grad_bias, _INT)
        fetching = p.rows * 2 * p.padded * size > _NEAR
        # without a maximum, a bias or a factor, an edge and its mirror have the same unnormalised weight
        mirrored = not p.needs_max and p.factor == 0
        lines = min((2 * p.padded + line - 1) // line, 2 * _MAX_LINES) * line
        sums = scratch + maps_bytes
        to_own, to_mirror = sums + 2 * p.padded * size, sums + (2 * p.padded + lanes * fold) * size
        ids = to_mirror + lanes * fold * size
        for b in range(begin, end):
            r0, r1, start, n = block_of(p.rowptr, p.rows, p.block, b)
            capacity = (n + 2 * lanes) * size
            own, both, weights, qs = ids + capacity, ids + 2 * capacity, ids + 3 * capacity, ids + 4 * capacity
            inverse_aa = qs + p.parts * capacity
            radial = inverse_aa + p.parts * capacity if p.parts > 1 else both
            fill_rows(p.rowptr, r0, r1, start, n, ids)
            copy_run(p.e, start, own, 0, n)
            vstore(own, n, vsplat(real(zero), lanes))
            for part in range(p.parts):
                copy_run(p.q + part * p.edges * size, start, qs + part * capacity, 0, n)
                vstore(qs + part * capacity, n, vsplat(real(zero), lanes))
            if mirrored:
                copy_run(own, 0, weights, 0, n)
            else:  # ``both`` and ``inverse_aa`` hold the two factors for now
                for y in range(n):
                    other = _INT(load(mirror, start + y, _ID))
                    prefetch(p.e, _INT(load(mirror, start + y + _AHEAD, _ID)), real)
                    f_own, f_mirror = real(one), real(one)
                    if p.factor != 0:
                        f_own = load(p.factor, (start + y) * p.factor_edge, real)
                        f_mirror = load(p.factor, other * p.factor_edge, real)
                    store(weights, y, load(p.e, other, real))
                    store(both, y, f_own)
                    store(inverse_aa, y, f_mirror)
            # 1. a group of edges: ∂L/∂score of the edge and of its mirror
            for y in range(0, n, lanes):
                if fetching:
                    fetch(p.pairs, 2 * p.padded, lines, p.col, start + y + _AHEAD)
                    fetch(p.pair_records, 4, line, p.col, start + y + _AHEAD)
                f_mirror8 = vload(inverse_aa, y, real, lanes)
                to_i, to_j, mean_i, mean_j = pair_gains(p, ids, y, start + y, to_own, to_mirror, inverse_aa, capacity)
                own8, mirror8 = vload(own, y, real, lanes), vload(weights, y, real, lanes)
                if not mirrored:
                    to_i, to_j = vmul(vload(both, y, real, lanes), to_i), vmul(f_mirror8, to_j)
                    vstore(weights, y, vmul(mirror8, f_mirror8))
                own8 = vmul(own8, vsub(to_i, mean_i))
                vstore(own, y, own8)
                vstore(both, y, vfma(mirror8, vsub(to_j, mean_j), own8))
            if grad_bias != 0:
                copy_run(own, 0, grad_bias, p.head * p.edges + start, n)
            if p.self_mean:
                to_others(p, ids, start, n, own, both, True)
            clear_tails(own, both, inverse_aa, p.parts, capacity, n)
            # 2. the transcendental part
            edge_derivatives(p, own, both, radial, inverse_aa, qs, capacity, n, partial)
            # 3. gather again, from cache
            for part in range(p.parts):
                _, _, padded, offset = part_of(p.part_table, part)
                pulls, rests = inverse_aa + part * capacity, radial + part * capacity
                points, gradients = p.pairs + offset * size, p.pairs + (p.padded + offset) * size
                for i in range(r0, r1):
                    e0, e1 = load(p.rowptr, i, _INT), load(p.rowptr, i + 1, _INT)
                    pi = i * 2 * p.padded
                    rest = real(zero)
                    square, along = vsplat(real(zero), width), vsplat(real(zero), width)
                    for t in range(0, padded, width):
                        rest = real(zero)
                        point = vload(points, pi + t, real, width)
                        g_point, g_value = vsplat(real(zero), width), vsplat(real(zero), width)
                        for e in range(e0, e1):
                            pj = _INT(load(p.col, e, _ID)) * 2 * p.padded + t
                            rest += load(rests, e - start, real)
                            difference = vsub(point, vload(points, pj, real, width))
                            g_point = vfma(vsplat(load(pulls, e - start, real), width), difference, g_point)
                            weight = vsplat(load(weights, e - start, real), width)
                            g_value = vfma(weight, vload(gradients, pj, real, width), g_value)
                        square, along = vfma(point, point, square), vfma(point, g_point, along)
                        vstore(sums, t, g_point)
                        vstore(sums, padded + t, g_value)
                    finish_node(p, part, i, points, pi, vsum(square), vsum(along), sums, rest, partial)

    @inline
    def pair_gains(
        p: Any, ids: int, y: int, at: int, to_own: int, to_mirror: int, inverse_aa: int, capacity: int
    ) -> Any:
        """Of a group of edges: g_i·u_j/Z_i, g_j·u_i/Z_j, the means at i and at j; ``inverse_aa`` is filled."""
        gain_i, gain_j = vsplat(real(zero), lanes), vsplat(real(zero), lanes)
        mean_i, mean_j = gain_i, gain_j
        stride = 2 * p.padded
        for part in range(p.parts):
            _, _, padded, offset = part_of(p.part_table, part)
            points, gradients = p.pairs + offset * size, p.pairs + (p.padded + offset) * size
            records = p.pair_records + 4 * part * p.rows * size
            if p.padded == width:
                to_i = vdots(gradients, ids, y, double_width, points, p.col, at, double_width, real, width, lanes)
                to_j = vdots(points, ids, y, double_width, gradients, p.col, at, double_width, real, width, lanes)
            elif padded == width:
                to_i = vdots(gradients, ids, y, stride, points, p.col, at, stride, real, width, lanes)
                to_j = vdots(points, ids, y, stride, gradients, p.col, at, stride, real, width, lanes)
            else:
                for x in range(lanes):
                    pi, pj = _INT(load(ids, y + x, _ID)) * stride, _INT(load(p.col, at + x, _ID)) * stride
                    at_i, at_j = vsplat(real(zero), width), vsplat(real(zero), width)
                    for t in range(0, padded, width):
                        g_i, p_j = vload(gradients, pi + t, real, width), vload(points, pj + t, real, width)
                        p_i, g_j = vload(points, pi + t, real, width), vload(gradients, pj + t, real, width)
                        at_i, at_j = vfma(g_i, p_j, at_i), vfma(p_i, g_j, at_j)
                    vstore(to_own, x * fold, vfold(at_i, fold))
                    vstore(to_mirror, x * fold, vfold(at_j, fold))
                to_i, to_j = vsums(to_own, real, fold, lanes), vsums(to_mirror, real, fold, lanes)
            inverse_a_i, value_i, mean_i, _ = vrecords(records, ids, y, real, lanes)
            inverse_a_j, value_j, mean_j, _ = vrecords(records, p.col, at, real, lanes)
            gain_i, gain_j = vfma(value_j, to_i, gain_i), vfma(value_i, to_j, gain_j)
            vstore(inverse_aa + part * capacity, y, vmul(inverse_a_i, inverse_a_j))
        return gain_i, gain_j, mean_i, mean_j

    @jit
    def clear_tails(own: int, both: int, inverse_aa: int, parts: int, capacity: int, n: int) -> None:
        """Zeros behind the n edges of a block, where the last group of edges reads."""
        zeros = vsplat(real(zero), lanes)
        vstore(own, n, zeros)
        vstore(both, n, zeros)
        for part in range(parts):
            vstore(inverse_aa + part * capacity, n, zeros)

    def backward_rows(args: int, begin: int, end: int, scratch: int, partial: int) -> None:
        """Directed graphs, first pass, row blocks [begin, end): what edges give to destinations, and edge terms.

        Edge terms, 2 + 2 · parts numbers an edge: weight · Z, 0, and a part ∂L/∂|p_i - p_j|², q ∂L/∂q. Row terms,
        padded + parts numbers a destination: g/2, and a part Σ q ∂L/∂q.
        """
        p = problem_of(args)
        slots = args + load(args, 0, _INT)
        terms, row_terms = load(slots, _AT.edge_terms, _INT), load(slots, _AT.row_terms, _INT)
        grad_bias = load(slots, _AT.grad_bias, _INT)
        lines = min((p.padded + line - 1) // line, _MAX_LINES) * line
        fetching = p.sources * p.padded * size > _NEAR
        stride, row_stride = 2 + 2 * p.parts, p.padded + p.parts
        dots = scratch + maps_bytes
        ids = dots + lanes * fold * size
        for b in range(begin, end):
            r0, r1, start, n = block_of(p.rowptr, p.rows, p.block, b)
            capacity = (n + 2 * lanes) * size
            own, both, weights, qs = ids + capacity, ids + 2 * capacity, ids + 3 * capacity, ids + 4 * capacity
            inverse_aa = qs + p.parts * capacity
            radial = inverse_aa + p.parts * capacity if p.parts > 1 else both
            fill_rows(p.rowptr, r0, r1, start, n, ids)
            copy_run(p.e, start, own, 0, n)
            copy_run(own, 0, weights, 0, n)
            vstore(own, n, vsplat(real(zero), lanes))
            for part in range(p.parts):
                copy_run(p.q + part * p.edges * size, start, qs + part * capacity, 0, n)
                vstore(qs + part * capacity, n, vsplat(real(zero), lanes))
            if p.factor != 0:
                for y in range(n):
                    f = load(p.factor, (start + y) * p.factor_edge, real)
                    store(weights, y, real(load(weights, y, real) * f))
            for y in range(0, n, lanes):
                if fetching:
                    fetch(p.table, p.padded, lines, p.col, start + y + _AHEAD)
                    fetch(p.records, 4, line, p.col, start + y + _AHEAD)
                gain, mean_i = row_gains(p, ids, y, start + y, dots, inverse_aa, capacity)
                gain = vmul(gain, vload(weights, y, real, lanes))
                vstore(own, y, vsub(gain, vmul(vload(own, y, real, lanes), mean_i)))
            if grad_bias != 0:
                copy_run(own, 0, grad_bias, p.head * p.edges + start, n)
            if p.self_mean:
                to_others(p, ids, start, n, own, own, False)
            copy_run(own, 0, both, 0, n)
            clear_tails(own, both, inverse_aa, p.parts, capacity, n)
            edge_derivatives(p, own, both, radial, inverse_aa, qs, capacity, n, partial)
            for y in range(n):
                store(terms, stride * (start + y), load(weights, y, real))
            for part in range(p.parts):
                _, _, padded, offset = part_of(p.part_table, part)
                pulls, rests = inverse_aa + part * capacity, radial + part * capacity
                for i in range(r0, r1):
                    e0, e1 = load(p.rowptr, i, _INT), load(p.rowptr, i + 1, _INT)
                    rest = real(zero)
                    for e in range(e0, e1):
                        rest += load(rests, e - start, real)
                        store(terms, stride * e + 2 + 2 * part, load(pulls, e - start, real))
                        store(terms, stride * e + 3 + 2 * part, load(rests, e - start, real))
                    for t in range(offset, offset + padded, width):
                        point = vload(p.pairs, i * 2 * p.padded + t, real, width)
                        g_point = vsplat(real(zero), width)
                        for e in range(e0, e1):
                            pj = _INT(load(p.col, e, _ID)) * p.padded + t
                            difference = vsub(point, vload(p.table, pj, real, width))
                            g_point = vfma(vsplat(load(pulls, e - start, real), width), difference, g_point)
                        vstore(row_terms, i * row_stride + t, g_point)
                    store(row_terms, i * row_stride + p.padded + part, real(rest))

    @inline
    def row_gains(p: Any, ids: int, y: int, at: int, scratch: int, inverse_aa: int, capacity: int) -> Any:
        """Of a group of edges: g_i·u_j/Z_i and the mean at i; ``inverse_aa`` is filled."""
        gain, mean_i = vsplat(real(zero), lanes), vsplat(real(zero), lanes)
        stride = 2 * p.padded
        for part in range(p.parts):
            _, _, padded, offset = part_of(p.part_table, part)
            points, gradients = p.table + offset * size, p.pairs + (p.padded + offset) * size
            if p.padded == width:
                total = vdots(gradients, ids, y, double_width, points, p.col, at, width, real, width, lanes)
            elif padded == width:
                total = vdots(gradients, ids, y, stride, points, p.col, at, p.padded, real, width, lanes)
            else:
                for x in range(lanes):
                    pi, pj = _INT(load(ids, y + x, _ID)) * stride, _INT(load(p.col, at + x, _ID)) * p.padded
                    tile = vsplat(real(zero), width)
                    for t in range(0, padded, width):
                        tile = vfma(vload(gradients, pi + t, real, width), vload(points, pj + t, real, width), tile)
                    vstore(scratch, x * fold, vfold(tile, fold))
                total = vsums(scratch, real, fold, lanes)
            inverse_a_i, _, mean_i, _ = vrecords(p.pair_records + 4 * part * p.rows * size, ids, y, real, lanes)
            inverse_a_j, value_j, _, _ = vrecords(p.records + 4 * part * p.sources * size, p.col, at, real, lanes)
            gain = vfma(value_j, total, gain)
            vstore(inverse_aa + part * capacity, y, vmul(inverse_a_i, inverse_a_j))
        return gain, mean_i

    def backward_columns(args: int, begin: int, end: int, scratch: int, partial: int) -> None:
        """Directed graphs, second pass, column blocks [begin, end): what edges give to sources, and ∂L/∂u."""
        p = problem_of(args)
        slots = args + load(args, 0, _INT)
        colptr, row, pos = load(slots, _AT.colptr, _INT), load(slots, _AT.csc_row, _INT), load(slots, _AT.csc_pos, _INT)
        terms, row_terms = load(slots, _AT.edge_terms, _INT), load(slots, _AT.row_terms, _INT)
        stride, row_stride, pair_stride = 2 + 2 * p.parts, p.padded + p.parts, 2 * p.padded
        lines = min((pair_stride + line - 1) // line, 2 * _MAX_LINES) * line
        for b in range(begin, end):
            first, last, _, _ = block_of(colptr, p.sources, p.block, b)
            for j in range(first, last):
                f0, f1 = load(colptr, j, _INT), load(colptr, j + 1, _INT)
                for part in range(p.parts):
                    _, _, padded, offset = part_of(p.part_table, part)
                    points, pairs = p.table + offset * size, p.pairs + offset * size
                    of_part = 2 + 2 * part
                    radial = real(zero)
                    if j < p.rows:
                        radial += load(row_terms, j * row_stride + p.padded + part, real)
                    square, along = vsplat(real(zero), width), vsplat(real(zero), width)
                    for t in range(0, padded, width):
                        point = vload(points, j * p.padded + t, real, width)
                        g_point, g_value = vsplat(real(zero), width), vsplat(real(zero), width)
                        if j < p.rows:
                            g_point = vload(row_terms, j * row_stride + offset + t, real, width)
                        for f in range(f0, f1):
                            place = stride * _INT(load(pos, f, _ID))
                            if t == 0:
                                if part == 0:
                                    ahead = _INT(load(row, f + _AHEAD, _ID)) * pair_stride
                                    for x in range(0, lines, line):
                                        prefetch(p.pairs, ahead + x, real)
                                    prefetch(terms, stride * _INT(load(pos, f + _AHEAD, _ID)), real)
                                radial += load(terms, place + of_part + 1, real)
                            pi = _INT(load(row, f, _ID)) * pair_stride + t
                            difference = vsub(point, vload(pairs, pi, real, width))
                            g_point = vfma(vsplat(load(terms, place + of_part, real), width), difference, g_point)
                            weight = vsplat(load(terms, place, real), width)
                            g_value = vfma(weight, vload(pairs, pi + p.padded, real, width), g_value)
                        square, along = vfma(point, point, square), vfma(point, g_point, along)
                        vstore(scratch, t, g_point)
                        vstore(scratch, padded + t, g_value)
                    finish_node(p, part, j, points, j * p.padded, vsum(square), vsum(along), scratch, radial, partial)

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

    def pad(args: int, begin: int, end: int, scratch: int, partial: int) -> None:
        """Rows [begin, end) of u, scaled, become those of the table, padded to whole tiles."""
        args, _, _ = row_of(args)
        u, table, scale = load(args, _AT.u, _INT), load(args, _AT.table, _INT), load(args, _AT.value_scale, _INT)
        dim, padded = load(args, _AT.dim, _INT), load(args, _AT.padded, _INT)
        for j in range(begin, end):
            factor = _DOUBLE(load(scale, j, real)) if scale != 0 else 1.0
            copy_padded(u, j * dim, dim, table, j * padded, padded, factor)

    def neighbour_sum(args: int, begin: int, end: int, scratch: int, partial: int) -> None:
        """Sums of the table's rows over the edges of every destination, scaled, for row blocks [begin, end)."""
        args, _, _ = row_of(args)
        rowptr, col, rows = load(args, _AT.rowptr, _INT), load(args, _AT.col, _INT), load(args, _AT.num_dst, _INT)
        table, out, scale = load(args, _AT.table, _INT), load(args, _AT.out, _INT), load(args, _AT.zinv, _INT)
        dim, padded, block = load(args, _AT.dim, _INT), load(args, _AT.padded, _INT), load(args, _AT.block, _INT)
        fetching = load(args, _AT.num_src, _INT) * padded * size > _NEAR
        lines = min((padded + line - 1) // line, _MAX_LINES) * line
        for b in range(begin, end):
            r0, r1, _, _ = block_of(rowptr, rows, block, b)
            for i in range(r0, r1):
                e0, e1 = load(rowptr, i, _INT), load(rowptr, i + 1, _INT)
                if fetching:
                    for e in range(e0, e1):
                        place = _INT(load(col, e + _AHEAD, _ID)) * padded
                        for t in range(0, lines, line):
                            prefetch(table, place + t, real)
                for t in range(0, padded, width):
                    even, odd = vsplat(real(zero), width), vsplat(real(zero), width)
                    for e in range(e0, e1 - 1, 2):
                        even = vadd(even, vload(table, _INT(load(col, e, _ID)) * padded + t, real, width))
                        odd = vadd(odd, vload(table, _INT(load(col, e + 1, _ID)) * padded + t, real, width))
                    if (e1 - e0) % 2 == 1:
                        even = vadd(even, vload(table, _INT(load(col, e1 - 1, _ID)) * padded + t, real, width))
                    total = vadd(even, odd)
                    if scale != 0:
                        total = vmul(total, vsplat(load(scale, i, real), width))
                    if t + width <= dim:
                        vstore(out, i * dim + t, total)
                    else:
                        vstore(scratch, 0, total)
                        for x in range(dim - t):
                            store(out, i * dim + t + x, load(scratch, x, real))

    def drive(args: int, begin: int, end: int, scratch: int, partial: int) -> None:
        """Phases [begin, end) of a program, by as many threads as call this; see _layout.phase.

        A thread takes the next job of a phase until there is none, then waits for the others to finish theirs. One that
        comes late finds nothing to do: nobody waits for it. ``partial`` is a function that lets other threads run.
        """
        for number in range(begin, end):
            here = args + number * (8 * PHASE)
            kernel, rows, jobs = load(here, 0, _INT), here + load(here, 1, _INT), load(here, 2, _INT)
            jobs_a_row, chunk, count = load(here, 3, _INT), load(here, 4, _INT), load(here, 5, _INT)
            sums, sums_bytes = load(here, 6, _INT), load(here, 7, _INT)
            job = fetch_add(here + 8 * PHASE_NEXT, 1)
            while job < jobs:
                row, part = job // jobs_a_row, job % jobs_a_row
                start, stop = part * chunk, min(part * chunk + chunk, count)
                call(kernel, (rows + row * (8 * ROW), start, stop, scratch, sums + sums_bytes * job))
                fetch_add(here + 8 * PHASE_DONE, 1)
                job = fetch_add(here + 8 * PHASE_NEXT, 1)
            looked = 0
            while fetch_add(here + 8 * PHASE_DONE, 0) < jobs:
                looked += 1
                if looked > _PATIENCE:
                    call(partial, ())

    def team(args: int, begin: int, end: int, scratch: int, partial: int) -> None:
        """What each thread of torch's own pool does: it drives a program with scratch memory of its own.

        Six integers: the address of ``drive``, of the phases, their number, of a function that lets other threads run,
        of the scratch memory, its bytes a thread; and, TEAM_NEXT integers on, how many threads have come.
        """
        comes = fetch_add(args + 8 * TEAM_NEXT, 1)
        memory = load(args, 4, _INT) + comes * load(args, 5, _INT)
        call(load(args, 0, _INT), (load(args, 1, _INT), 0, load(args, 2, _INT), memory, load(args, 3, _INT)))

    return {
        "team": team,
        "drive": drive,
        "pad": pad,
        "neighbour_sum": neighbour_sum,
        "points": points,
        "points_backward": points_backward,
        "pack": pack,
        "forward": forward,
        "pack_backward": pack_backward,
        "backward_symmetric": backward_symmetric,
        "backward_rows": backward_rows,
        "backward_columns": backward_columns,
    }
