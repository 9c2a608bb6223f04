"""Attention by distance: distances, softmax and weighted sum in one pass over the edges, with no E×d tensor.

Numba on CPU (:mod:`._kernels`), Triton on CUDA (:mod:`._cuda`), behind one pair of torch operators (:mod:`._ops`).
"""

from hgeo.kernels.attention._arguments import EdgeLists, Inputs, Kept
from hgeo.kernels.attention._compiler import available as available_on_cpu
from hgeo.kernels.attention._layout import ROW_PADDING
from hgeo.kernels.attention._ops import fused_attention, neighbour_sum, no_second_derivative
from hgeo.kernels.attention._sort import Sorted, counting_order, sorted_with_loops, transposed

__all__ = [
    "ROW_PADDING",
    "EdgeLists",
    "Inputs",
    "Kept",
    "Sorted",
    "available_on_cpu",
    "counting_order",
    "fused_attention",
    "neighbour_sum",
    "no_second_derivative",
    "sorted_with_loops",
    "transposed",
]
