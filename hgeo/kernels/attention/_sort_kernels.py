"""Kernels that sort the edges of a graph, as Numba compiles them; called as those of :mod:`._kernels` are."""

from __future__ import annotations

from collections.abc import Callable

from numba import types

from hgeo.kernels.attention._layout import ROW_PADDING
from hgeo.kernels.simd import load, store

__all__ = ["make_sorts"]

_INT = types.int64
_ID = types.int32


def make_sorts() -> dict[str, Callable[..., None]]:
    """The kernels, as Python functions for Numba to compile."""
    padding = ROW_PADDING

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

    return {"counting_sort": counting_sort, "sort_with_loops": sort_with_loops, "transpose": transpose}
