"""Sorting edges by counting: compiled, in time proportional to their number."""

from __future__ import annotations

from array import array

import torch
from torch import Tensor

from hgeo.graph._fused._compiler import load_kernel

__all__ = ["counting_order"]


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
