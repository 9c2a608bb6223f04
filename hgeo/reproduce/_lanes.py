"""Message passing for many independent runs at once: the kernels under :mod:`hgeo.reproduce._batched`.

Runs (seeds, trials) are a tensor axis. They are packed in groups of :data:`LANES`, the width of a vector register,
and the lane is the *last* axis, so that one vector instruction advances eight runs and every gather over the graph is
paid once for eight of them:

======================  ========================================
node values             ``(groups, nodes, dim, LANES)``
node scalars            ``(groups, nodes, LANES)``
edge scalars            ``(groups, edges, LANES)``
a number a run          ``(groups, LANES)``
======================  ========================================

Every random number is a hash of (the run's seed, the step, the place in the model, the index), so a run's result does
not depend on which other runs share its batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor

from hgeo.reproduce._simd import LANES, hashed_mask, larger, load, root, splat, store

__all__ = [
    "LANES",
    "Block",
    "SparseRows",
    "adam_step",
    "aggregate",
    "dropout",
    "edge_add",
    "edge_softmax",
    "edge_weighted_sqdist",
    "keys_for",
    "label_leads",
    "lane_matmul",
    "replace_self_scores",
    "row_norm",
    "row_scale",
    "sparse_matmul",
]


@dataclass(frozen=True)
class Block:
    """Edges from ``num_src`` sources into ``num_dst`` destinations, which are the first sources; by destination.

    Every destination has exactly one self-loop; ``self_edge[i]`` is its position among the edges.
    """

    indptr: np.ndarray
    src: np.ndarray
    self_edge: np.ndarray
    num_src: int
    src_degree: Tensor
    dst_degree: Tensor

    @property
    def num_dst(self) -> int:
        return len(self.indptr) - 1

    @property
    def num_edges(self) -> int:
        return len(self.src)


@dataclass(frozen=True)
class SparseRows:
    """Some rows of a sparse matrix, in place: no copy of the matrix is made for a view of the graph."""

    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    rows: np.ndarray
    num_columns: int


# Kernels are written with one vector (eight runs) as the unit: load(x, (g*n + i)*dim + k) is coordinate k of node i in
# the eight runs of group g.

_kernel = njit(nogil=True, cache=True, fastmath=True, error_model="numpy")


def _data(x: Tensor) -> np.ndarray:
    if x.dtype != torch.float32:
        raise TypeError(f"lane kernels compute in float32, got {x.dtype}")
    return x.detach().contiguous().numpy()


# ---------------------------------------------------------------------------------------------------------------------
# Random numbers


# How many random tensors a step of training may have; a further one would repeat the first of the next step.
_PLACES = 128


def keys_for(seeds: np.ndarray, step: int, place: int) -> np.ndarray:
    """A 32-bit key a run for one random tensor: ``place`` names the tensor, ``step`` the time."""
    if not 0 <= place < _PLACES:
        raise ValueError(f"random tensor {place} of a step: there may be {_PLACES}; walk fewer steps")

    def mix(x: np.ndarray) -> np.ndarray:
        x = x ^ (x >> np.uint64(16))
        x = (x * np.uint64(0x7FEB352D)) & np.uint64(0xFFFFFFFF)
        x = x ^ (x >> np.uint64(15))
        x = (x * np.uint64(0x846CA68B)) & np.uint64(0xFFFFFFFF)
        return x ^ (x >> np.uint64(16))

    base = mix(seeds.astype(np.uint64) & np.uint64(0xFFFFFFFF))
    moment = mix(np.asarray([step * _PLACES + place + 1], dtype=np.uint64) & np.uint64(0xFFFFFFFF))
    return mix(base ^ moment).astype(np.uint32)


def _masks(rate: Tensor, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Keep where hash ≥ threshold; what is kept is multiplied by 1/(1 − rate)."""
    p = rate.detach().double().numpy()
    return keys, (p * 2.0**32).astype(np.uint32), (1.0 / (1.0 - p)).astype(np.float32)


@_kernel
def _dropout_mask(out: Any, keys: Any, thresholds: Any, scales: Any) -> None:  # pragma: no cover - compiled
    n = out.shape[1]
    for g in range(out.shape[0]):
        for i in range(n):
            store(out, g * n + i, hashed_mask(i, keys, thresholds, scales, g))


def dropout(x: Tensor, rate: Tensor, keys: np.ndarray) -> Tensor:
    """Inverted dropout with a rate and a stream of random numbers for each run; ``rate`` is ``(groups, LANES)``."""
    if not bool((rate > 0).any()):
        return x
    mask = torch.empty(x.shape[0], x[0, ..., 0].numel(), LANES)
    _dropout_mask(mask.numpy(), *_masks(rate, keys))
    return x * mask.view(x.shape)


# ---------------------------------------------------------------------------------------------------------------------
# dropout(X) W, with X sparse and shared by all runs, and a W and a dropout mask for each run


@_kernel
def _spmm(
    indptr: Any, indices: Any, values: Any, rows: Any, w: Any, out: Any, keys: Any, thr: Any, scale: Any, drop: bool
) -> None:  # pragma: no cover - compiled
    groups, columns, dim, _ = w.shape
    n = len(rows)
    for g in range(groups):
        for i in range(n):
            o = (g * n + i) * dim
            for k in range(dim):
                store(out, o + k, splat(0.0))
            for q in range(indptr[rows[i]], indptr[rows[i] + 1]):
                m = splat(values[q])
                if drop:
                    m = m * hashed_mask(q, keys, thr, scale, g)
                at = (g * columns + indices[q]) * dim
                for k in range(dim):
                    store(out, o + k, load(out, o + k) + m * load(w, at + k))


@_kernel
def _spmm_backward(
    indptr: Any, indices: Any, values: Any, rows: Any, grad: Any, out: Any, keys: Any, thr: Any, scale: Any, drop: bool
) -> None:  # pragma: no cover - compiled
    groups, columns, dim, _ = out.shape
    n = len(rows)
    for g in range(groups):
        for i in range(n):
            o = (g * n + i) * dim
            for q in range(indptr[rows[i]], indptr[rows[i] + 1]):
                m = splat(values[q])
                if drop:
                    m = m * hashed_mask(q, keys, thr, scale, g)
                at = (g * columns + indices[q]) * dim
                for k in range(dim):
                    store(out, at + k, load(out, at + k) + m * load(grad, o + k))


class _SparseMatmul(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, w: Tensor, x: SparseRows, masks: tuple[Any, ...]) -> Tensor:
        ctx.x, ctx.masks, ctx.shape = x, masks, w.shape
        out = torch.empty(w.shape[0], len(x.rows), w.shape[2], LANES)
        _spmm(x.indptr, x.indices, x.values, x.rows, _data(w), out.numpy(), *masks)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        out, x = torch.zeros(ctx.shape), ctx.x
        _spmm_backward(x.indptr, x.indices, x.values, x.rows, _data(grads[0]), out.numpy(), *ctx.masks)
        return out, None, None


def sparse_matmul(x: SparseRows, w: Tensor, rate: Tensor, keys: np.ndarray | None) -> Tensor:
    """``dropout(X) W`` a run; ``keys=None`` switches dropout off. X has no gradient."""
    drop = keys is not None and bool((rate > 0).any())
    blank = np.zeros(tuple(rate.shape), dtype=np.uint32)
    return _SparseMatmul.apply(w, x, (*_masks(rate, blank if keys is None else keys), drop))


# ---------------------------------------------------------------------------------------------------------------------
# Nodes: x W for small dense x; lengths; a factor a node


@_kernel
def _matmul(x: Any, w: Any, out: Any) -> None:  # pragma: no cover - compiled
    groups, n, a, _ = x.shape
    b = w.shape[2]
    for g in range(groups):
        for i in range(n):
            o = (g * n + i) * b
            for c in range(b):
                store(out, o + c, splat(0.0))
            for k in range(a):
                m = load(x, (g * n + i) * a + k)
                for c in range(b):
                    store(out, o + c, load(out, o + c) + m * load(w, (g * a + k) * b + c))


@_kernel
def _matmul_backward(x: Any, w: Any, grad: Any, gx: Any, gw: Any) -> None:  # pragma: no cover - compiled
    groups, n, a, _ = x.shape
    b = w.shape[2]
    for g in range(groups):
        for i in range(n):
            for k in range(a):
                m = load(x, (g * n + i) * a + k)
                total = splat(0.0)
                for c in range(b):
                    slope, at = load(grad, (g * n + i) * b + c), (g * a + k) * b + c
                    total = total + slope * load(w, at)
                    store(gw, at, load(gw, at) + slope * m)
                store(gx, (g * n + i) * a + k, total)


class _Matmul(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor) -> Tensor:
        ctx.save_for_backward(x, w)
        out = torch.empty(x.shape[0], x.shape[1], w.shape[2], LANES)
        _matmul(_data(x), _data(w), out.numpy())
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        x, w = ctx.saved_tensors
        gx, gw = torch.empty(x.shape), torch.zeros(w.shape)
        _matmul_backward(_data(x), _data(w), _data(grads[0]), gx.numpy(), gw.numpy())
        return gx, gw


def lane_matmul(x: Tensor, w: Tensor) -> Tensor:
    """``x @ w`` run by run: (groups, n, a, L) × (groups, a, b, L) → (groups, n, b, L)."""
    return _Matmul.apply(x, w)


@_kernel
def _row_norm(x: Any, out: Any) -> None:  # pragma: no cover - compiled
    dim = x.shape[2]
    for i in range(x.shape[0] * x.shape[1]):
        total = splat(0.0)
        for k in range(dim):
            v = load(x, i * dim + k)
            total = total + v * v
        store(out, i, root(total))


@_kernel
def _row_norm_backward(x: Any, norm: Any, grad: Any, out: Any) -> None:  # pragma: no cover - compiled
    dim = x.shape[2]
    for i in range(x.shape[0] * x.shape[1]):
        # at x = 0 the quotient is 0/tiny = 0: the gradient of least length
        m = load(grad, i) / larger(load(norm, i), splat(1e-30))
        for k in range(dim):
            store(out, i * dim + k, m * load(x, i * dim + k))


class _RowNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        out = torch.empty(x.shape[0], x.shape[1], LANES)
        _row_norm(_data(x), out.numpy())
        ctx.save_for_backward(x, out)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        x, norm = ctx.saved_tensors
        out = torch.empty(x.shape)
        _row_norm_backward(_data(x), _data(norm), _data(grads[0]), out.numpy())
        return out


def row_norm(x: Tensor) -> Tensor:
    """|x| of every node: (groups, n, dim, L) → (groups, n, L), with gradient 0 at x = 0."""
    return _RowNorm.apply(x)


@_kernel
def _row_scale(x: Any, factor: Any, out: Any) -> None:  # pragma: no cover - compiled
    dim = x.shape[2]
    for i in range(x.shape[0] * x.shape[1]):
        m = load(factor, i)
        for k in range(dim):
            store(out, i * dim + k, m * load(x, i * dim + k))


@_kernel
def _row_dot(x: Any, y: Any, out: Any) -> None:  # pragma: no cover - compiled
    dim = x.shape[2]
    for i in range(x.shape[0] * x.shape[1]):
        total = splat(0.0)
        for k in range(dim):
            total = total + load(x, i * dim + k) * load(y, i * dim + k)
        store(out, i, total)


class _RowScale(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: Tensor) -> Tensor:
        ctx.save_for_backward(x, factor)
        out = torch.empty(x.shape)
        _row_scale(_data(x), _data(factor), out.numpy())
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        x, factor = ctx.saved_tensors
        gx, gf = torch.empty(x.shape), torch.empty(factor.shape)
        grad = _data(grads[0])
        _row_scale(grad, _data(factor), gx.numpy())
        _row_dot(grad, _data(x), gf.numpy())
        return gx, gf


def row_scale(x: Tensor, factor: Tensor) -> Tensor:
    """factor_i · x_i for every node; ``factor`` is (groups, n, L)."""
    return _RowScale.apply(x, factor)


# ---------------------------------------------------------------------------------------------------------------------
# Edges


@_kernel
def _sqdist(indptr: Any, src: Any, x: Any, w: Any, out: Any) -> None:  # pragma: no cover - compiled
    groups, n, dim, _ = x.shape
    edges = len(src)
    for g in range(groups):
        for i in range(len(indptr) - 1):
            a = g * n + i
            for e in range(indptr[i], indptr[i + 1]):
                b = g * n + src[e]
                total = splat(0.0)
                for k in range(dim):
                    delta = load(x, a * dim + k) - load(x, b * dim + k)
                    total = total + delta * delta
                store(out, g * edges + e, total * load(w, a) * load(w, b))


@_kernel
def _sqdist_backward(
    indptr: Any, src: Any, x: Any, w: Any, grad: Any, gx: Any, gw: Any
) -> None:  # pragma: no cover - compiled
    groups, n, dim, _ = x.shape
    edges = len(src)
    for g in range(groups):
        for i in range(len(indptr) - 1):
            a = g * n + i
            for e in range(indptr[i], indptr[i + 1]):
                b = g * n + src[e]
                slope, wa, wb = load(grad, g * edges + e), load(w, a), load(w, b)
                m = (slope + slope) * wa * wb
                total = splat(0.0)
                for k in range(dim):
                    p, q = a * dim + k, b * dim + k
                    delta = load(x, p) - load(x, q)
                    total = total + delta * delta
                    store(gx, p, load(gx, p) + m * delta)
                    store(gx, q, load(gx, q) - m * delta)
                store(gw, a, load(gw, a) + slope * total * wb)
                store(gw, b, load(gw, b) + slope * total * wa)


class _WeightedSqdist(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, block: Block) -> Tensor:
        ctx.save_for_backward(x, w)
        ctx.block = block
        out = torch.empty(x.shape[0], block.num_edges, LANES)
        _sqdist(block.indptr, block.src, _data(x), _data(w), out.numpy())
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        x, w = ctx.saved_tensors
        gx, gw = torch.zeros(x.shape), torch.zeros(w.shape)
        _sqdist_backward(ctx.block.indptr, ctx.block.src, _data(x), _data(w), _data(grads[0]), gx.numpy(), gw.numpy())
        return gx, gw, None


def edge_weighted_sqdist(x: Tensor, w: Tensor, block: Block) -> Tensor:
    """w_i·w_j·|x_i − x_j|² per edge, from differences."""
    return _WeightedSqdist.apply(x, w, block)


@_kernel
def _edge_add(indptr: Any, src: Any, a: Any, b: Any, out: Any) -> None:  # pragma: no cover - compiled
    edges = len(src)
    for g in range(a.shape[0]):
        for i in range(len(indptr) - 1):
            left = load(a, g * a.shape[1] + i)
            for e in range(indptr[i], indptr[i + 1]):
                store(out, g * edges + e, left + load(b, g * b.shape[1] + src[e]))


@_kernel
def _edge_add_backward(indptr: Any, src: Any, grad: Any, ga: Any, gb: Any) -> None:  # pragma: no cover - compiled
    edges = len(src)
    for g in range(ga.shape[0]):
        for i in range(len(indptr) - 1):
            total = splat(0.0)
            for e in range(indptr[i], indptr[i + 1]):
                slope, at = load(grad, g * edges + e), g * gb.shape[1] + src[e]
                total = total + slope
                store(gb, at, load(gb, at) + slope)
            store(ga, g * ga.shape[1] + i, total)


class _EdgeAdd(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, block: Block) -> Tensor:
        ctx.block, ctx.shapes = block, (a.shape, b.shape)
        out = torch.empty(a.shape[0], block.num_edges, LANES)
        _edge_add(block.indptr, block.src, _data(a), _data(b), out.numpy())
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        ga, gb = (torch.zeros(shape) for shape in ctx.shapes)
        _edge_add_backward(ctx.block.indptr, ctx.block.src, _data(grads[0]), ga.numpy(), gb.numpy())
        return ga, gb, None


def edge_add(dst: Tensor, src: Tensor, block: Block) -> Tensor:
    """dst_i + src_j per edge (i ← j), of node scalars."""
    return _EdgeAdd.apply(dst, src, block)


@_kernel
def _minus_row_max(indptr: Any, s: Any, out: Any) -> None:  # pragma: no cover - compiled
    edges = s.shape[1]
    for g in range(s.shape[0]):
        for i in range(len(indptr) - 1):
            first, last = g * edges + indptr[i], g * edges + indptr[i + 1]
            top = load(s, first)
            for e in range(first + 1, last):
                top = larger(top, load(s, e))
            for e in range(first, last):
                store(out, e, load(s, e) - top)


@_kernel
def _normalise_rows(indptr: Any, p: Any) -> None:  # pragma: no cover - compiled
    edges = p.shape[1]
    for g in range(p.shape[0]):
        for i in range(len(indptr) - 1):
            first, last = g * edges + indptr[i], g * edges + indptr[i + 1]
            total = splat(0.0)
            for e in range(first, last):
                total = total + load(p, e)
            inverse = splat(1.0) / total
            for e in range(first, last):
                store(p, e, load(p, e) * inverse)


@_kernel
def _softmax_backward(indptr: Any, p: Any, grad: Any, out: Any) -> None:  # pragma: no cover - compiled
    edges = p.shape[1]
    for g in range(p.shape[0]):
        for i in range(len(indptr) - 1):
            first, last = g * edges + indptr[i], g * edges + indptr[i + 1]
            total = splat(0.0)
            for e in range(first, last):
                total = total + load(p, e) * load(grad, e)
            for e in range(first, last):
                store(out, e, load(p, e) * (load(grad, e) - total))


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, s: Tensor, block: Block) -> Tensor:
        ctx.block = block
        p = torch.empty(s.shape)
        _minus_row_max(block.indptr, _data(s), p.numpy())
        p.exp_()
        _normalise_rows(block.indptr, p.numpy())
        ctx.save_for_backward(p)
        return p

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (p,) = ctx.saved_tensors
        out = torch.empty(p.shape)
        _softmax_backward(ctx.block.indptr, _data(p), _data(grads[0]), out.numpy())
        return out, None


def edge_softmax(scores: Tensor, block: Block) -> Tensor:
    """Softmax over the edges of each destination."""
    return _Softmax.apply(scores, block)


@_kernel
def _self_mean(indptr: Any, self_edge: Any, s: Any, flag: Any) -> None:  # pragma: no cover - compiled
    edges = s.shape[1]
    for g in range(s.shape[0]):
        share = load(flag, g)
        for i in range(len(indptr) - 1):
            own = g * edges + self_edge[i]
            store(s, own, splat(0.0))
            total = splat(0.0)
            for e in range(g * edges + indptr[i], g * edges + indptr[i + 1]):
                total = total + load(s, e)
            count = max(indptr[i + 1] - indptr[i] - 1, 1)
            store(s, own, share * total / splat(np.float32(count)))


@_kernel
def _self_mean_backward(indptr: Any, self_edge: Any, grad: Any, flag: Any) -> None:  # pragma: no cover - compiled
    edges = grad.shape[1]
    for g in range(grad.shape[0]):
        share = load(flag, g)
        for i in range(len(indptr) - 1):
            own = g * edges + self_edge[i]
            count = max(indptr[i + 1] - indptr[i] - 1, 1)
            m = share * load(grad, own) / splat(np.float32(count))
            for e in range(g * edges + indptr[i], g * edges + indptr[i + 1]):
                store(grad, e, load(grad, e) + m)
            store(grad, own, splat(0.0))


class _SelfScores(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, s: Tensor, flag: Tensor, block: Block) -> Tensor:
        ctx.block = block
        ctx.save_for_backward(flag)
        out = s.detach().clone(memory_format=torch.contiguous_format)
        _self_mean(block.indptr, block.self_edge, out.numpy(), _data(flag))
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (flag,) = ctx.saved_tensors
        out = grads[0].clone(memory_format=torch.contiguous_format)
        _self_mean_backward(ctx.block.indptr, ctx.block.self_edge, out.numpy(), _data(flag))
        return out, None, None


def replace_self_scores(scores: Tensor, use_mean: Tensor, block: Block) -> Tensor:
    """The self-loop's score becomes 0, or where ``use_mean`` is 1 the mean score of the node's neighbours."""
    return _SelfScores.apply(scores, use_mean, block)


@_kernel
def _aggregate(indptr: Any, src: Any, x: Any, a: Any, out: Any) -> None:  # pragma: no cover - compiled
    groups, n, dim, _ = x.shape
    edges, rows = len(src), len(indptr) - 1
    for g in range(groups):
        for i in range(rows):
            o = (g * rows + i) * dim
            for k in range(dim):
                store(out, o + k, splat(0.0))
            for e in range(indptr[i], indptr[i + 1]):
                m, at = load(a, g * edges + e), (g * n + src[e]) * dim
                for k in range(dim):
                    store(out, o + k, load(out, o + k) + m * load(x, at + k))


@_kernel
def _aggregate_backward(
    indptr: Any, src: Any, x: Any, a: Any, grad: Any, gx: Any, ga: Any
) -> None:  # pragma: no cover - compiled
    groups, n, dim, _ = x.shape
    edges, rows = len(src), len(indptr) - 1
    for g in range(groups):
        for i in range(rows):
            o = (g * rows + i) * dim
            for e in range(indptr[i], indptr[i + 1]):
                m, at = load(a, g * edges + e), (g * n + src[e]) * dim
                total = splat(0.0)
                for k in range(dim):
                    slope = load(grad, o + k)
                    total = total + slope * load(x, at + k)
                    store(gx, at + k, load(gx, at + k) + slope * m)
                store(ga, g * edges + e, total)


class _Aggregate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, a: Tensor, block: Block) -> Tensor:
        ctx.save_for_backward(x, a)
        ctx.block = block
        out = torch.empty(x.shape[0], block.num_dst, x.shape[2], LANES)
        _aggregate(block.indptr, block.src, _data(x), _data(a), out.numpy())
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        x, a = ctx.saved_tensors
        gx, ga = torch.zeros(x.shape), torch.empty(a.shape)
        block = ctx.block
        _aggregate_backward(block.indptr, block.src, _data(x), _data(a), _data(grads[0]), gx.numpy(), ga.numpy())
        return gx, ga, None


def aggregate(x: Tensor, weights: Tensor, block: Block) -> Tensor:
    """Σ_j weights_ij x_j into each destination."""
    return _Aggregate.apply(x, weights, block)


@_kernel
def _lead(logits: Any, labels: Any, out: Any) -> None:  # pragma: no cover - compiled
    groups, n, classes, _ = logits.shape
    for g in range(groups):
        for i in range(n):
            o = (g * n + i) * classes
            top = splat(-np.inf)
            for c in range(classes):
                if c != labels[i]:
                    top = larger(top, load(logits, o + c))
            store(out, g * n + i, load(logits, o + labels[i]) - top)


def label_leads(logits: Tensor, labels: Tensor) -> Tensor:
    """1 where the label's logit is larger than every other, else 0: (groups, n, classes, L) → (groups, n, L)."""
    out = torch.empty(logits.shape[0], logits.shape[1], LANES)
    _lead(_data(logits), labels.numpy(), out.numpy())
    return (out > 0).to(out.dtype)


# ---------------------------------------------------------------------------------------------------------------------
# The optimiser


@_kernel
def adam_step(
    p: Any, grad: Any, first: Any, second: Any, lr: Any, decay: Any, step: int
) -> None:  # pragma: no cover - compiled
    """Adam (Kingma & Ba) with L2 weight decay, a learning rate and a decay a run; arrays are (groups, n, LANES)."""
    n = p.shape[1]
    bias1, bias2 = splat(np.float32(1.0 - 0.9**step)), splat(np.float32(1.0 - 0.999**step))
    for g in range(p.shape[0]):
        rate, shrink = load(lr, g), load(decay, g)
        for i in range(g * n, (g + 1) * n):
            old = load(p, i)
            slope = load(grad, i) + shrink * old
            m = splat(0.9) * load(first, i) + splat(0.1) * slope
            v = splat(0.999) * load(second, i) + splat(0.001) * slope * slope
            store(first, i, m)
            store(second, i, v)
            store(p, i, old - rate * (m / bias1) / (root(v / bias2) + splat(1e-8)))
