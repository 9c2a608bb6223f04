"""The argument array that host and kernels share."""

from __future__ import annotations

__all__ = ["LANES", "ROW_PADDING", "SLOTS", "padded_dim", "tile_width"]

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

# Kernels ask for records this many edges ahead without looking whether there are any.
ROW_PADDING = 16

# Edge functions work on this many edges at once.
LANES = 8


def tile_width(bits: int, dim: int) -> int:
    """Numbers in a register tile of a CPU kernel: few tiles, little padding."""
    widths = (8, 16, 64) if bits == 32 else (8, 32)
    return min(widths, key=lambda width: -(-dim // width) * (width + 6))


def padded_dim(bits: int, dim: int) -> int:
    """``dim`` rounded up to whole tiles."""
    width = tile_width(bits, dim)
    return -(-dim // width) * width
