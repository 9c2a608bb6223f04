"""The argument array that host and kernels share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

__all__ = [
    "MAPS",
    "NODES",
    "PART",
    "PHASE",
    "PHASE_DONE",
    "PHASE_NEXT",
    "REALS",
    "ROW",
    "ROW_PADDING",
    "TEAM",
    "TEAM_NEXT",
    "Slots",
    "edge_lanes",
    "padded_dims",
    "part_words",
    "phase",
    "scratch_bytes",
    "tile_width",
]


class Slots(NamedTuple):
    """What kernels read of a call, one 64-bit integer each: a count, a flag, a stride in elements, an address (or 0).

    Behind them stand the parts of the space, PART integers each: where its coordinates begin in a row of u and how many
    they are; how many numbers they take in a table, rounded up to whole tiles, and where these begin in a row there.

    A kernel is given the address of a *row*, of which there is one a head and one for the points: how many bytes from
    there the slots begin, the head, and the address of float64 numbers, REALS a part: k, β, score scale, √|k| (2⁻⁵⁰ at
    k = 0).
    """

    heads: int
    parts: int
    num_src: int
    num_dst: int
    dim: int
    padded: int  # numbers of all parts in a table
    block: int  # edges in a row block, about
    rowptr: int  # int64
    col: int  # int32, ROW_PADDING longer than the edges
    u: int
    value_scale: int
    bias: int
    bias_edge: int
    bias_head: int
    factor: int
    factor_edge: int
    factor_head: int
    table: int
    q: int
    e: int
    zinv: int
    out: int  # weighted sums
    points: int  # what becomes of them, if anything
    self_mean: int
    needs_max: int
    keep: int
    elu: int
    # only the backward has these
    colptr: int = 0  # int64
    csc_row: int = 0  # int32, padded as col is, as the next
    csc_pos: int = 0
    grad_out: int = 0
    grad_points: int = 0
    pairs: int = 0
    edge_terms: int = 0
    row_terms: int = 0
    grad_u: int = 0
    grad_bias: int = 0
    needs_scalars: int = 0


ROW, REALS, PART = 3, 4, 4  # 64-bit numbers of a row, of those that it points to a part, and of a part

# Kernels read ids this far behind the last edge: they work on whole vectors of edges, and ask for records ahead.
ROW_PADDING = 64

# Node functions work on this many nodes at once, in float64: several vectors, so that while one waits for a result the
# next has work.
NODES = 32
# numbers that they keep a node: |u|², τ, 1/a, T', and in a derivative g·u
MAPS = 5


def edge_lanes(bits: int) -> int:
    """Edge functions work on this many edges at once."""
    return 512 // bits


def scratch_bytes(bits: int, padded: int, arrays: int, edges: int) -> int:
    """Memory a thread needs: node functions, two rows, a vector an edge for twice as many as lanes, arrays of edges.

    See scratch_arrays of the kernels, too.
    """
    lanes = edge_lanes(bits)
    numbers = 2 * padded + 64 + 2 * lanes * lanes + arrays * (edges + 2 * lanes)
    return MAPS * NODES * 8 + numbers * (bits // 8)


def tile_width(bits: int, dims: Sequence[int]) -> int:
    """Numbers in a register tile of a CPU kernel for parts of these dimensions: few tiles, little padding."""
    widths = (8, 16, 64) if bits == 32 else (8, 32)
    return min(widths, key=lambda width: sum(-(-dim // width) for dim in dims) * (width + 6))


def padded_dims(bits: int, dims: Sequence[int]) -> list[int]:
    """``dims`` rounded up to whole tiles."""
    width = tile_width(bits, dims)
    return [-(-dim // width) * width for dim in dims]


def part_words(dims: Sequence[int], padded: Sequence[int]) -> list[int]:
    """The parts as the kernels read them."""
    words: list[int] = []
    begin = offset = 0
    for dim, wide in zip(dims, padded, strict=True):
        words += (begin, dim, wide, offset)
        begin, offset = begin + dim, offset + wide
    return words


# 64-bit integers of a phase; the two counters that threads share have a cache line each.
PHASE, PHASE_NEXT, PHASE_DONE = 24, 8, 16
# what a team of threads reads; its counter has a cache line of its own, too
TEAM, TEAM_NEXT = 24, 8


def phase(
    kernel: int, rows: int, jobs: int, jobs_a_row: int, chunk: int, count: int, partial: int, numbers: int
) -> list[int]:
    """What :func:`drive` of the kernels reads: a kernel to run over [0, count) in chunks, for one or several rows.

    Args:
        kernel: address of the kernel.
        rows: how many bytes from here its first row begins.
        jobs: chunks of all rows.
        jobs_a_row: chunks of a row.
        chunk: what a job covers.
        count: what a row has.
        partial: address of so many float64 ``numbers`` a job.
    """
    return [kernel, rows, jobs, jobs_a_row, chunk, count, partial, 8 * numbers, *_COUNTERS]


_COUNTERS = (0,) * (PHASE - 8)
