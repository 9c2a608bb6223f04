"""Sorting edges by counting: compiled, in time proportional to their number."""

from __future__ import annotations

from array import array
from typing import NamedTuple

import torch
from torch import Tensor

from hgeo.kernels.attention._arguments import EdgeLists
from hgeo.kernels.attention._compiler import load_kernel
from hgeo.kernels.attention._layout import ROW_PADDING

__all__ = ["Sorted", "counting_order", "sorted_with_loops", "transposed"]


def counting_order(ids: Tensor, count: int, given: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """(order, pointer): the places of id b are ``order[pointer[b]:pointer[b+1]]``, as they come, or as in ``given``.

    Args:
        ids: (E,) int64 on the CPU, in [0, count), which the caller has checked.
        count: how many ids there are.
        given: (E,) int64, an order to keep among equal ids.
    """
    ids = ids.contiguous()
    order, pointer = torch.empty_like(ids), ids.new_zeros(count + 1)
    addresses = array("q", [ids.data_ptr(), 0, order.data_ptr(), pointer.data_ptr()])
    if given is not None:
        addresses[1] = given.data_ptr()
    load_kernel(64, 8, "counting_sort")(addresses.buffer_info()[0], ids.shape[0], count, 0, 0)
    return order, pointer


class Sorted(NamedTuple):
    """Edges by (destination, source), and how the kernels read them."""

    perm: Tensor  # int32
    lists: EdgeLists


def sorted_with_loops(src: Tensor, dst: Tensor, num_src: int, num_dst: int) -> Sorted | None:
    """These edges and a loop for every destination that has none; None if an id is out of range.

    Args:
        src: (E,) int64 on the CPU.
        dst: (E,) int64.
        num_src: number of sources.
        num_dst: number of destinations, which are the first sources.
    """
    src, dst = src.contiguous(), dst.contiguous()
    edges = src.shape[0]
    most = edges + num_dst
    longs = (num_dst + 1, num_src + 1, num_dst, 3)
    shorts = (most + ROW_PADDING, most + ROW_PADDING, most + ROW_PADDING, most, most)
    rowptr, colptr, looped, info = src.new_zeros(sum(longs)).split(longs)
    col, csc_row, csc_pos, perm, order = src.new_empty(sum(shorts), dtype=torch.int32).split(shorts)
    tensors = (src, dst, rowptr, colptr, looped, info, col, csc_row, csc_pos, perm, order)
    addresses = array("q", [tensor.data_ptr() for tensor in tensors])
    load_kernel(64, 8, "sort_with_loops")(addresses.buffer_info()[0], edges, num_src, num_dst, 0)
    count = info.tolist()[2]
    if count < 0:
        return None
    if count < most:
        col, csc_row, csc_pos = (ids[: count + ROW_PADDING] for ids in (col, csc_row, csc_pos))
    return Sorted(perm[:count], EdgeLists(rowptr, col, colptr, csc_row, csc_pos, info[:2]))


def transposed(row: Tensor, col: Tensor, num_src: int, padding: int) -> tuple[Tensor, Tensor, Tensor]:
    """(colptr, row, place) of edges sorted by row, in the order of their columns; the last two int32 with zeros behind.

    Args:
        row: (E,) int64 on the CPU.
        col: (E,) int64, in [0, num_src).
        num_src: number of columns.
        padding: number of zeros behind.
    """
    edges = row.shape[0]
    colptr = row.new_zeros(num_src + 1)
    csc_row, csc_pos = row.new_empty(2, edges + padding, dtype=torch.int32).unbind(0)
    csc_row[edges:] = 0
    csc_pos[edges:] = 0
    tensors = (row, col, colptr, csc_row, csc_pos)
    addresses = array("q", [tensor.data_ptr() for tensor in tensors])
    load_kernel(64, 8, "transpose")(addresses.buffer_info()[0], edges, num_src, 0, 0)
    return colptr, csc_row, csc_pos
