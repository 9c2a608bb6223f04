"""How well a hierarchy's embedding finds parents: the rank of each, the mean of the ranks, and MAP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from hgeo.data import Pairs
from hgeo.kernels.hierarchy import index_pairs

__all__ = ["Ranking", "count_nearer", "guessed", "ranking"]

Array = np.ndarray[Any, Any]

_ROWS = 64  # children whose scores are kept at once


class Ranking(NamedTuple):
    """``map``: the mean over children of the average precision of their parents; ``mean_rank`` of all parents, from 1.

    A parent's rank is among the nodes that are no known and no other wanted parent of its child, equals before it.
    """

    map: float
    mean_rank: float


def ranking(wanted: Pairs, nearer: Array) -> Ranking:
    """From how many other nodes are at most as far as each wanted parent, by child and then by distance."""
    starts, _ = index_pairs(wanted.index[:, 0], wanted.index[:, 1], wanted.count)
    many = np.diff(starts)
    place = np.arange(len(nearer)) - starts[:-1].repeat(many)
    precision = (place + 1) / (nearer + place + 1)
    child = np.arange(wanted.count).repeat(many)
    sums = np.bincount(child, precision, wanted.count)[many > 0]
    return Ranking(float((sums / many[many > 0]).mean()), float(nearer.mean() + 1))


def count_nearer(scores: Callable[[Array], Array], wanted: Pairs, known: Pairs | None) -> Array:
    """What :func:`hgeo.kernels.hierarchy.nearer` counts, for scores (b, N) of any kind, the smaller the nearer."""
    starts, parents = index_pairs(wanted.index[:, 0], wanted.index[:, 1], wanted.count)
    index = np.empty((0, 2), dtype=np.int64) if known is None else known.index
    known_starts, relatives = index_pairs(index[:, 0], index[:, 1], wanted.count)
    result = np.empty(len(parents), dtype=np.int64)
    children = np.flatnonzero(np.diff(starts))
    for begin in range(0, len(children), _ROWS):
        block = children[begin : begin + _ROWS]
        for child, row in zip(block, scores(block), strict=True):
            own = parents[starts[child] : starts[child + 1]]
            best = np.sort(row[own])
            others = np.ones(len(row), dtype=bool)
            others[own] = others[child] = False
            others[relatives[known_starts[child] : known_starts[child + 1]]] = False
            result[starts[child] : starts[child + 1]] = np.searchsorted(np.sort(row[others]), best, side="right")
    return result


def guessed(wanted: Pairs, known: Pairs | None) -> Ranking:
    """What needs no learning: first the parents of known parents, then the nodes with the most known children.

    Without ``known`` pairs, all nodes by how many children they have among the wanted pairs themselves.
    """
    source = wanted if known is None else known
    children = np.bincount(source.index[:, 1], minlength=source.count).astype(float)
    closed = None if known is None else known.closure()
    above = (source if closed is None else closed).index
    starts, parents = index_pairs(above[:, 0], above[:, 1], source.count)

    def scores(block: Array) -> Array:
        rows = np.tile(-children, (len(block), 1))
        if closed is not None:
            for row, child in zip(rows, block, strict=True):
                row[parents[starts[child] : starts[child + 1]]] -= 2.0 * children.max()
        return rows

    return ranking(wanted, count_nearer(scores, wanted, known))
