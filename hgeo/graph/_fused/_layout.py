"""The argument array that host and kernels share."""

from __future__ import annotations

__all__ = [
    "MAPS",
    "NODES",
    "PHASE",
    "PHASE_DONE",
    "PHASE_NEXT",
    "ROW_PADDING",
    "SLOTS",
    "edge_lanes",
    "padded_dim",
    "phase",
    "scratch_bytes",
    "tile_width",
]

# One 64-bit integer each: a count, a flag, a stride in elements, or an address (0: not given).
SLOTS = (
    "reals",  # float64: k, beta, score_scale, √|k| (2⁻⁵⁰ at k = 0)
    "head",
    "heads",
    "num_src",
    "num_dst",
    "dim",
    "padded",  # dim rounded up to whole tiles
    "block",  # edges in a row block, about
    "rowptr",  # int64
    "col",  # int32, ROW_PADDING longer than the edges, as are the next two
    "colptr",  # int64
    "csc_row",
    "csc_pos",
    "u",
    "value_scale",
    "bias",
    "bias_edge_stride",
    "bias_head_stride",
    "factor",
    "factor_edge_stride",
    "factor_head_stride",
    "table",
    "q",
    "e",
    "zinv",
    "out",
    "grad_out",
    "pairs",
    "edge_terms",
    "row_terms",
    "grad_u",
    "grad_bias",
    "self_mean",
    "needs_max",
    "keep",
    "needs_scalars",
)

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
    """Memory a thread needs: node functions, two rows, a vector an edge for twice as many as lanes, arrays of edges."""
    lanes = edge_lanes(bits)
    numbers = 2 * padded + 64 + 2 * lanes * lanes + arrays * (edges + 2 * lanes)
    return MAPS * NODES * 8 + numbers * (bits // 8)


def tile_width(bits: int, dim: int) -> int:
    """Numbers in a register tile of a CPU kernel: few tiles, little padding."""
    widths = (8, 16, 64) if bits == 32 else (8, 32)
    return min(widths, key=lambda width: -(-dim // width) * (width + 6))


def padded_dim(bits: int, dim: int) -> int:
    """``dim`` rounded up to whole tiles."""
    width = tile_width(bits, dim)
    return -(-dim // width) * width


# 64-bit integers of a phase; the two counters that threads share have a cache line each.
PHASE, PHASE_NEXT, PHASE_DONE = 24, 8, 16


def phase(kernel: int, rows: int, jobs: int, jobs_a_row: int, chunk: int, count: int, partial: int) -> list[int]:
    """What :func:`drive` of the kernels reads: a kernel to run over [0, count) in chunks, for one or several heads.

    Args:
        kernel: address of the kernel.
        rows: address of its argument rows, one a head.
        jobs: chunks of all heads.
        jobs_a_row: chunks of a head.
        chunk: what a job covers.
        count: what a head has.
        partial: address of three float64 numbers a job, or 0.
    """
    return [kernel, rows, jobs, jobs_a_row, chunk, count, partial] + [0] * (PHASE - 7)
