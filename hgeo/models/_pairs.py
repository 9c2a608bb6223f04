"""Compiled loops under the shallow embeddings: a pair of related nodes against nodes drawn as noise.

Skip-gram and LINE descend pair by pair, as word2vec and LINE's own program do: a step an update of some rows of ``dim``
numbers. From Python, or through BLAS calls on such short rows, a step costs many times what its arithmetic does.

A row is one vector value of :mod:`hgeo.kernels.simd`, of the next power of two above ``dim``; the coordinates
that pad it are zero, and stay so.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numba import njit, types
from torch import Tensor

from hgeo.kernels.simd import vfma, vload, vmul, vsplat, vstore, vsub, vsum

__all__ = ["Neighbours", "Noise", "Rows", "contrast_edges", "contrast_walks", "poincare_gradient"]

_F32 = types.float32
_jit: Any = njit(nogil=True, error_model="numpy", fastmath={"contract"})
_inline: Any = njit(nogil=True, error_model="numpy", fastmath={"contract"}, inline="always")

# σ from a table, as word2vec has it: beyond ±6 it is taken to be σ(±6)
_BOUND, _CELLS = 6.0, 2048
_SIGMOID = (1 / (1 + np.exp(_BOUND - 2 * _BOUND * (np.arange(_CELLS) + 0.5) / _CELLS))).astype(np.float32)


class Rows:
    """Numbers of every node in rows that are padded with zeros to a power of two."""

    def __init__(self, values: Tensor) -> None:
        self.dim = values.shape[1]
        width = 1 << max(1, (self.dim - 1).bit_length())
        self.array = np.zeros((len(values), width), np.float32)
        self.array[:, : self.dim] = values.detach().numpy()

    @property
    def width(self) -> int:
        return int(self.array.shape[1])

    def tensor(self) -> Tensor:
        return torch.from_numpy(self.array[:, : self.dim].copy())


class Noise:
    """Nodes drawn with probability ∝ ``weight``: Walker's alias table, two look-ups a draw."""

    def __init__(self, weight: np.ndarray) -> None:
        if not weight.sum() > 0:
            raise ValueError("no node can be drawn: all weights are zero (a graph without edges?)")
        share, self.alias = _alias(weight.astype(np.float64) * (len(weight) / weight.sum()))
        self.threshold = np.minimum(share * 2.0**32, 2.0**32 - 1).astype(np.uint32)


class Neighbours:
    """A graph to walk on: the nodes that each node's edges lead to, node by node."""

    def __init__(self, edges: np.ndarray, nodes: int) -> None:
        order = np.argsort(edges[0], kind="stable")
        self.indptr = np.concatenate([[0], np.cumsum(np.bincount(edges[0], minlength=nodes))]).astype(np.int64)
        self.source, self.target = edges[0][order].astype(np.int32), edges[1][order].astype(np.int32)


@_jit
def _alias(share: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Nodes with less than the mean are filled up, each by one that has more."""
    n = len(share)
    alias = np.arange(n).astype(np.int32)
    small, large = np.empty(n, np.int64), np.empty(n, np.int64)
    smalls = larges = 0
    for node in range(n):
        if share[node] < 1.0:
            small[smalls] = node
            smalls += 1
        else:
            large[larges] = node
            larges += 1
    while smalls and larges:
        poor, rich = small[smalls - 1], large[larges - 1]
        smalls -= 1
        alias[poor] = rich
        share[rich] -= 1.0 - share[poor]
        if share[rich] < 1.0:
            larges -= 1
            small[smalls] = rich
            smalls += 1
    for left in range(smalls):  # by rounding only
        share[small[left]] = 1.0
    return share, alias


@_inline
def _next(state: int) -> int:
    """Marsaglia's xorshift; :func:`_bits` scrambles a state (Vigna, 2014: xorshift64*)."""
    state ^= state >> np.uint64(12)
    state ^= state << np.uint64(25)
    state ^= state >> np.uint64(27)
    return state


@_inline
def _bits(state: int) -> int:
    return state * np.uint64(2685821657736338717)


@_inline
def _below(bits: int, limit: int) -> int:
    """A number in 0 … limit - 1 from the upper 32 bits."""
    return np.int64(((bits >> np.uint64(32)) * np.uint64(limit)) >> np.uint64(32))


@_inline
def _draw(bits: int, threshold: np.ndarray, alias: np.ndarray) -> int:
    node = _below(bits, len(threshold))
    return node if np.uint32(bits & np.uint64(0xFFFFFFFF)) <= threshold[node] else np.int64(alias[node])


def _state(seed: int | Sequence[int]) -> np.uint64:
    """A state that is never zero, and far from that of the next seed."""
    return np.uint64(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0] | np.uint64(1))


@functools.cache
def _loops(width: int) -> tuple[Callable[..., None], Callable[..., None]]:
    """Skip-gram over walks, and LINE over edges, for rows of ``width``."""

    @_inline
    def contrast(x, y, node, other, negative, threshold, alias, state, rate, bounded):  # type: ignore[no-untyped-def]
        """One step up log σ(x·y) + Σ log σ(-x·y') for noise y'; word2vec: x moves after all of the y.

        ``bounded``: a score beyond ±6 moves nothing, as in gensim; else it moves as one of ±6, as in LINE's program.
        """
        row = vload(x, node * width, _F32, width)
        move = vsplat(_F32(0.0), width)
        for number in range(negative + 1):
            target, label = other, _F32(1.0)
            if number:
                state = _next(state)
                target, label = _draw(_bits(state), threshold, alias), _F32(0.0)
                if target == other:
                    continue
            there = vload(y, target * width, _F32, width)
            score = vsum(vmul(row, there))
            if bounded and abs(score) >= _F32(_BOUND):
                continue
            score = min(max(score, _F32(-_BOUND)), _F32(_BOUND))
            cell = min(np.int64((score + _F32(_BOUND)) * _F32(_CELLS / (2 * _BOUND))), _CELLS - 1)
            slope = vsplat((label - _SIGMOID[cell]) * rate, width)
            move = vfma(slope, there, move)
            vstore(y, target * width, vfma(slope, row, there))
        # read again: where x and y are one table, noise may have been the node itself
        vstore(x, node * width, vfma(vsplat(_F32(1.0), width), vload(x, node * width, _F32, width), move))
        return state

    @_jit
    def walk_loop(x, y, walks, window, negative, threshold, alias, state, rate, last):  # type: ignore[no-untyped-def]
        count, length = walks.shape
        for number in range(count):
            now = _F32(rate + (last - rate) * number / count)
            for place in range(length):
                other = np.int64(walks[number, place])
                if other < 0:  # -1: the walk ended here, because no edge leads on
                    break
                state = _next(state)
                reach = 1 + _below(_bits(state), window)
                for near in range(max(0, place - reach), min(length, place + reach + 1)):
                    node = np.int64(walks[number, near])
                    if node < 0:
                        break
                    if near != place:
                        state = contrast(x, y, node, other, negative, threshold, alias, state, now, True)

    @_jit
    def edge_loop(x, y, source, target, samples, negative, threshold, alias, state, rate, last):  # type: ignore[no-untyped-def]
        for number in range(samples):
            now = _F32(rate + (last - rate) * number / samples)
            state = _next(state)
            edge = _below(_bits(state), len(source))
            node, other = np.int64(source[edge]), np.int64(target[edge])
            state = contrast(x, y, node, other, negative, threshold, alias, state, now, False)

    return walk_loop, edge_loop


def contrast_walks(
    vectors: Rows, contexts: Rows, walks: np.ndarray, noise: Noise, *, window: int, negative: int, epochs: int,
    lr: float, last_lr: float, seed: int,
) -> None:  # fmt: skip
    """Skip-gram with negative sampling, in place, over ``walks`` (int32, -1 after a dead end) in their order.

    As gensim does it: the window of every place is drawn from 1 … ``window``, the rate falls linearly, a score beyond
    ±6 moves nothing.
    """
    walk_loop, _ = _loops(vectors.width)
    rates = np.linspace(lr, last_lr, epochs + 1)
    for epoch in range(epochs):
        walk_loop(
            vectors.array.ctypes.data, contexts.array.ctypes.data, walks, window, negative, noise.threshold,
            noise.alias, _state((seed, epoch)), rates[epoch], rates[epoch + 1],
        )  # fmt: skip


def contrast_edges(
    vectors: Rows, contexts: Rows, edges: np.ndarray, noise: Noise, *, samples: int, negative: int, lr: float,
    last_lr: float, seed: int,
) -> None:  # fmt: skip
    """LINE's descent, in place: ``samples`` edges drawn at random; first order if both tables are one."""
    _, edge_loop = _loops(vectors.width)
    edge_loop(
        vectors.array.ctypes.data, contexts.array.ctypes.data, edges[0], edges[1], samples, negative, noise.threshold,
        noise.alias, _state(seed), lr, last_lr,
    )  # fmt: skip


@functools.cache
def _poincare_loop(width: int) -> Callable[..., float]:
    @_jit
    def loop(  # type: ignore[no-untyped-def]
        points, gradient, indptr, source, target, batch, window, negative, threshold, alias, state, c
    ):
        others = np.empty(negative + 1, np.int64)
        square, excess, distance = np.empty((3, negative + 1))
        loss, used = 0.0, 0
        for _ in range(batch):
            state = _next(state)
            node = np.int64(source[_below(_bits(state), len(source))])
            state = _next(state)
            reached = node
            for _ in range(1 + _below(_bits(state), window)):
                degree = indptr[reached + 1] - indptr[reached]
                if degree == 0:
                    break
                state = _next(state)
                reached = np.int64(target[indptr[reached] + _below(_bits(state), degree)])
            if reached == node:
                continue
            used += 1
            x = vload(points, node * width, _F32, width)
            a = 1.0 - c * vsum(vmul(x, x))
            nearest = np.inf
            for number in range(negative + 1):
                others[number] = reached
                if number:
                    state = _next(state)
                    others[number] = _draw(_bits(state), threshold, alias)
                y = vload(points, others[number] * width, _F32, width)
                apart = vsub(x, y)
                square[number] = c * vsum(vmul(apart, apart))
                # cosh(√c d) - 1
                excess[number] = 2.0 * square[number] / (a * (1.0 - c * vsum(vmul(y, y))))
                distance[number] = math.log1p(excess[number] + math.sqrt(excess[number] * (excess[number] + 2.0)))
                distance[number] /= math.sqrt(c)
                nearest = min(nearest, distance[number])
            total = 0.0
            for number in range(negative + 1):
                total += math.exp(nearest - distance[number])
            loss += distance[0] - nearest + math.log(total)
            move = vsplat(_F32(0.0), width)
            for number in range(negative + 1):
                if excess[number] == 0.0:  # the same place: the distance has no slope there
                    continue
                weight = (1.0 if number == 0 else 0.0) - math.exp(nearest - distance[number]) / total
                # ∂d/∂x = 2√c / (a b sinh(√c d)) · 2 ((1 + c|x-y|²/a) x - y), and likewise for y with b
                y = vload(points, others[number] * width, _F32, width)
                sinh = math.sqrt(excess[number] * (excess[number] + 2.0))
                b = 2.0 * square[number] / (a * excess[number])
                slope = weight * 4.0 * math.sqrt(c) / (a * b * sinh)
                back = vsplat(_F32(-slope), width)
                move = vfma(vsplat(_F32(slope * (1.0 + square[number] / a)), width), x, vfma(back, y, move))
                there = vload(gradient, others[number] * width, _F32, width)
                there = vfma(vsplat(_F32(slope * (1.0 + square[number] / b)), width), y, vfma(back, x, there))
                vstore(gradient, others[number] * width, there)
            here = vload(gradient, node * width, _F32, width)
            vstore(gradient, node * width, vfma(vsplat(_F32(1.0), width), here, move))
        return loss / max(used, 1)

    loop_of: Callable[..., float] = loop
    return loop_of


def poincare_gradient(
    points: Tensor, graph: Neighbours, noise: Noise, *, batch: int, window: int, negative: int, c: float,
    seed: int | Sequence[int],
) -> tuple[float, Tensor]:  # fmt: skip
    """Mean loss and the Euclidean gradient of its sum, over ``batch`` walks of 1 … ``window`` steps from random edges.

    A walk that ends where it began is left out.
    """
    rows = Rows(points)
    gradient = Rows(torch.zeros_like(points))
    loss = _poincare_loop(rows.width)(
        rows.array.ctypes.data, gradient.array.ctypes.data, graph.indptr, graph.source, graph.target, batch, window,
        negative, noise.threshold, noise.alias, _state(seed), c,
    )  # fmt: skip
    return loss, gradient.tensor()
