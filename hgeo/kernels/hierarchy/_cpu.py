"""Host side of the kernels of a hierarchy: buffers and threads."""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from hgeo.kernels._objects import compiled, why_not

__all__ = ["FAMILIES", "available", "draw", "epoch", "index_pairs", "nearer"]

#: the kinds of rows that the kernels know
FAMILIES = ("inner", "flat", "ball", "hyperboloid")

_SOURCES = (Path(__file__).with_name("_kernels.py"),)
_EPOCH, _RANKS = "DDJJIJDJJJDDDDI" + "i" * 8 + "d" * 4, "DIJIJJDD" + "i" * 6 + "d"
_SERIAL_WORK = 2_000_000  # pairs times negatives of an epoch below which a second thread costs more than it gives
_NODES = 64  # whose pairs are ranked at once

Array = np.ndarray[Any, Any]


def available() -> str:
    """Why the kernels cannot run here; nothing if they can."""
    return why_not(_SOURCES)


def _kernel(which: str, family: str, width: int) -> Any:
    def make() -> Callable[..., None]:
        from hgeo.kernels.hierarchy import _kernels

        return (_kernels.make_epoch if which == "epoch" else _kernels.make_ranks)(family, width)

    # Sums may be reordered, so that they fill vectors.
    name, signature = f"hierarchy-{which}-{family}-{width}", _EPOCH if which == "epoch" else _RANKS
    return compiled(name, make, signature, _SOURCES, "contract", "reassoc", "nsz")


def _padded(points: Array, *tables: tuple[Array, Array]) -> Array:
    """Rows padded with zeros to whole vectors of the processor. They are as many as the ``tables`` of pairs speak of:
    the kernels read and write wherever a pair points."""
    rows, dim = points.shape
    if any(len(starts) != rows + 1 for starts, _ in tables):
        nodes = ", ".join(str(len(starts) - 1) for starts, _ in tables)
        raise ValueError(f"there are {rows} points for pairs among {nodes} nodes; each node needs one")
    padded = np.zeros((rows, -(-dim // 4) * 4))
    padded[:, :dim] = points
    return padded


def index_pairs(children: Array, parents: Array, count: int) -> tuple[Array, Array]:
    """Where each child's parents begin, and the parents, ascending."""
    order = np.lexsort((parents, children))
    starts = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(np.bincount(children, minlength=count), out=starts[1:])
    return starts, np.ascontiguousarray(parents[order], dtype=np.int32)


def draw(children: Array, first: Array, known: tuple[Array, Array], count: int, negatives: int) -> Array:
    """Draws uniform nodes (B, negatives) that are no known parent of each child, nor the child itself.

    The numbers are a hash of ``first`` + attempt; after 4 · ``negatives`` attempts -1 stands for what was not found.
    The kernels draw the same.
    """
    starts, parents = known
    attempts = first[:, None].astype(np.uint64) + np.arange(4 * negatives, dtype=np.uint64)
    z = attempts * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    nodes = (((z >> np.uint64(32)) * np.uint64(count)) >> np.uint64(32)).astype(np.int64)
    codes = np.arange(len(starts) - 1).repeat(np.diff(starts)) * count + parents  # ascending
    wanted = children[:, None] * count + nodes
    found = np.searchsorted(codes, wanted)
    free = nodes != children[:, None]
    if len(codes):
        free &= codes[np.minimum(found, len(codes) - 1)] != wanted
    place = np.cumsum(free, axis=1) - 1
    chosen = np.full((len(children), negatives), -1, dtype=np.int64)
    taken = free & (place < negatives)
    chosen[np.nonzero(taken)[0], place[taken]] = nodes[taken]
    return chosen


def epoch(
    family: str,
    points: Array,
    pairs: Array,
    known: tuple[Array, Array],
    *,
    c: float,
    rate: float,
    sharpness: float,
    negatives: int,
    batch: int,
    limit: float,
    key: int,
    threads: int = 1,
) -> tuple[Array, Array]:
    """One pass over ``pairs`` (E, 2) in their order. Returns the new points (N, n), and the loss of each pair.

    A batch's loss is the sum over its pairs of -log softmax(-sharpness · distance), of the parent among itself and
    the negatives; each row steps once a batch, by ``rate`` times its gradient and at most by ``limit``. The result is
    the same for every number of threads.
    """
    x = _padded(points, known)
    count, width = x.shape
    kernel = _kernel("epoch", family, width)
    threads = max(1, threads if len(pairs) * negatives >= _SERIAL_WORK else 1)
    batch = max(1, min(batch, len(pairs)))
    starts, parents = known
    losses = np.empty(len(pairs))
    room = threads * batch * (negatives + 2)
    arrays = (
        x,
        np.empty((room, width)),
        np.ascontiguousarray(pairs[:, 0], dtype=np.int32),
        np.ascontiguousarray(pairs[:, 1], dtype=np.int32),
        starts,
        parents,
        losses,
        np.full(count, -1, dtype=np.int32),
        np.empty(room, dtype=np.int32),
        np.empty((batch, negatives + 1), dtype=np.int32),
        np.empty((batch, negatives + 1)),
        np.empty((batch, negatives + 1)),
        np.empty((batch, width)),
        np.empty((batch, width)),
        np.zeros(1, dtype=np.int64),
    )
    addresses = [array.ctypes.data for array in arrays]
    sizes = (count, len(pairs), batch, negatives, key)

    def part(thread: int) -> None:
        kernel(*addresses, *sizes, thread, threads, _rest(), rate, c, sharpness, limit)

    _together(part, threads)
    return x[:, : points.shape[1]], losses


def nearer(
    family: str, points: Array, wanted: tuple[Array, Array], known: tuple[Array, Array], *, c: float, threads: int = 1
) -> Array:
    """For each wanted pair, by child and then by distance, how many other nodes are at most as far from the child.

    Neither the child itself nor a known or wanted parent counts as one of the others.
    """
    x = _padded(points, wanted, known)
    count, width = x.shape
    kernel = _kernel("ranks", family, width)
    starts, parents = wanted
    known_starts, relatives = known
    result = np.empty(len(parents), dtype=np.int32)
    most = int(np.diff(starts).max(initial=1))

    def part(thread: int) -> None:
        scores, best = np.empty(count), np.empty(most)
        arrays = (x, starts, parents, known_starts, relatives, result, scores, best)
        addresses = [array.ctypes.data for array in arrays]
        for begin in range(thread * _NODES, count, threads * _NODES):
            end = min(begin + _NODES, count)
            kernel(*addresses, count, len(parents), len(relatives), most, begin, end, c)

    _together(part, threads)
    return result


def _together(part: Callable[[int], None], threads: int) -> None:
    if threads == 1:
        part(0)
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(part, range(threads)))


@functools.cache
def _rest() -> int:
    """A C function without arguments that lets other threads run."""
    if os.name == "nt":
        return ctypes.cast(ctypes.WinDLL("kernel32").SwitchToThread, ctypes.c_void_p).value or 0  # type: ignore[attr-defined]
    return ctypes.cast(ctypes.CDLL(None).sched_yield, ctypes.c_void_p).value or 0
