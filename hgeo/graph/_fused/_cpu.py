"""Host side of the CPU kernels: buffers, row blocks, threads."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from torch import Tensor

from hgeo.graph._fused._compiler import load_kernel
from hgeo.graph._fused._layout import LANES, SLOTS, padded_dim, tile_width

__all__ = ["backward", "forward", "points", "points_backward"]

_PLACE = {name: place for place, name in enumerate(SLOTS)}
# Gathered records of a block should stay in a core's second-level cache until they are gathered again.
_BLOCK_BYTES = 192 * 1024
_JOBS = 32  # a head's blocks are dealt out in about that many jobs, whatever the number of threads
_NODES = 2048  # nodes in a job of the packing kernels
_SERIAL_WORK = 60_000  # edge coordinates below which a second thread costs more than it does
_FLAT_ROOT = 2.0**-50  # stands for √|k| at k = 0, see _simd
_TINY_SCALE = 2.0**-40  # stands for a score scale of exactly 0: scores vanish in rounding, values stay exact


class _Call:
    """The argument arrays of one call, one a head, and the tensors that they point to."""

    def __init__(self, u: Tensor, k: Tensor, beta: Tensor, scale: Tensor) -> None:
        _, self.heads, self.dim = u.shape
        self.bits = 32 if u.dtype == torch.float32 else 64
        self.width = tile_width(self.bits, self.dim)
        self.padded = padded_dim(self.bits, self.dim)
        self.kept: list[object] = []
        self.arrays = np.zeros((self.heads, len(SLOTS)), dtype=np.int64)
        ks, betas, scales = (t.detach().double().cpu().numpy().reshape(-1) for t in (k, beta, scale))
        self.reals = np.empty((self.heads, 4))
        self.reals[:, 0], self.reals[:, 1] = ks, betas
        self.reals[:, 2] = np.where(scales == 0.0, _TINY_SCALE, scales)
        self.reals[:, 3] = np.maximum(np.sqrt(np.abs(ks)), _FLAT_ROOT)
        self.arrays[:, _PLACE["reals"]] = self.reals.ctypes.data + self.reals.strides[0] * np.arange(self.heads)
        self.arrays[:, _PLACE["head"]] = np.arange(self.heads)
        self.set(heads=self.heads, dim=self.dim, padded=self.padded, u=u)

    def set(self, **values: Tensor | int | bool | None) -> None:
        for name, value in values.items():
            place = _PLACE[name]
            if isinstance(value, Tensor):
                self.kept.append(value)
                self.arrays[:, place] = value.data_ptr()
            else:
                self.arrays[:, place] = 0 if value is None else int(value)

    def set_edge_numbers(self, name: str, values: Tensor | None) -> None:
        """An (E, 1) or (E, heads) tensor, read with strides."""
        self.set(**{name: values})
        if values is not None:
            heads = values.shape[1]
            self.set(**{f"{name}_edge_stride": heads, f"{name}_head_stride": 1 if heads > 1 else 0})

    def run(self, kernel: str, count: int, chunk: int, scratch: int, heads: Sequence[int], work: int) -> np.ndarray:
        """Run a kernel over [0, count) in chunks for the given heads; return the (heads, 3) partial sums."""
        function = load_kernel(self.bits, self.width, kernel)
        jobs = [(head, begin, min(begin + chunk, count)) for head in heads for begin in range(0, count, chunk)]
        partial = np.zeros((max(len(jobs), 1), 3))
        base, row = self.arrays.ctypes.data, self.arrays.strides[0]
        todo = iter(range(len(jobs)))
        lock = threading.Lock()

        def worker() -> None:
            memory = np.empty(scratch, dtype=np.uint8)
            while True:
                with lock:
                    number = next(todo, None)
                if number is None:
                    return
                head, begin, end = jobs[number]
                place = partial.ctypes.data + number * partial.strides[0]
                function(base + head * row, begin, end, memory.ctypes.data, place)

        threads = min(torch.get_num_threads(), len(jobs))
        if threads <= 1 or work < _SERIAL_WORK:
            worker()
        else:
            others = [_pool(threads - 1).submit(worker) for _ in range(threads - 1)]
            worker()
            for other in others:
                other.result()
        sums = np.zeros((self.heads, 3))
        for (head, _, _), values in zip(jobs, partial, strict=False):
            sums[head] += values
        return sums

    def block(self, stride: int) -> int:
        return max(256, min(4096, _BLOCK_BYTES // (stride * self.bits // 8)))

    def scratch(self, arrays: int, block: int, max_degree: int) -> int:
        return (2 * self.padded + self.width + arrays * (block + max_degree + LANES)) * (self.bits // 8) + 64


_pools: dict[tuple[int, int], ThreadPoolExecutor] = {}


def _pool(size: int) -> ThreadPoolExecutor:
    key = (os.getpid(), size)  # threads do not survive a fork
    if key not in _pools:
        _pools[key] = ThreadPoolExecutor(size, thread_name_prefix="hgeo")
    return _pools[key]


def _needs_max(self_mean: bool, bias: Tensor | None, all_loops: int, reals: np.ndarray) -> bool:
    # With a self-loop at distance 0 and nothing added to the scores, the largest of a row is known to be 0.
    return self_mean or bias is not None or not all_loops or bool((reals[:, 1] < 0).any())


def forward(
    u: Tensor,
    k: Tensor,
    beta: Tensor,
    scale: Tensor,
    bias: Tensor | None,
    factor: Tensor | None,
    value_scale: Tensor | None,
    rowptr: Tensor,
    col: Tensor,
    info: Tensor,
    num_edges: int,
    self_mean: bool,
    keep: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """(out, table, q, e, 1/Z): see _kernels for the layout of what is kept for the backward."""
    all_loops, max_degree = info.tolist()
    num_src, heads, dim = u.shape
    num_dst = rowptr.shape[0] - 1
    call = _Call(u, k, beta, scale)
    stride = call.padded + 4
    block = call.block(stride)
    out = u.new_empty(num_dst, heads, dim)
    table = u.new_empty(heads, num_src, stride)
    q = u.new_empty(heads, num_edges if keep else 0)
    e = u.new_empty(heads, num_edges if keep else 0)
    zinv = u.new_empty(heads, num_dst)
    call.set(num_src=num_src, num_dst=num_dst, block=block, rowptr=rowptr, col=col, value_scale=value_scale)
    call.set(table=table, q=q, e=e, zinv=zinv, out=out, self_mean=self_mean, keep=keep)
    call.set(needs_max=_needs_max(self_mean, bias, all_loops, call.reals))
    call.set_edge_numbers("bias", bias)
    call.set_edge_numbers("factor", factor)
    everyone = range(heads)
    call.run("pack", num_src, _NODES, 64, everyone, num_src * heads * dim)
    blocks = num_edges // block + 1
    scratch = call.scratch(2, block, max_degree)
    call.run("forward", blocks, max(1, blocks // _JOBS), scratch, everyone, num_edges * heads * dim)
    return out, table, q, e, zinv


def backward(
    grad_out: Tensor,
    u: Tensor,
    k: Tensor,
    beta: Tensor,
    scale: Tensor,
    bias: Tensor | None,
    factor: Tensor | None,
    value_scale: Tensor | None,
    rowptr: Tensor,
    col: Tensor,
    colptr: Tensor,
    csc_row: Tensor,
    csc_pos: Tensor,
    info: Tensor,
    out: Tensor,
    table: Tensor,
    q: Tensor,
    e: Tensor,
    zinv: Tensor,
    num_edges: int,
    self_mean: bool,
    symmetric: bool,
    needs_scalars: bool,
    needs_bias: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of (u, k, beta, score_scale, edge_bias), the last (E, heads)."""
    all_loops, max_degree = info.tolist()
    num_src, heads, dim = u.shape
    num_dst = rowptr.shape[0] - 1
    call = _Call(u, k, beta, scale)
    pair_stride = 2 * call.padded + 4
    block = call.block(pair_stride)
    pairs = u.new_empty(heads, num_dst, pair_stride)
    grad_u = torch.empty_like(u)
    grad_bias = u.new_empty(heads, num_edges) if needs_bias else None
    call.set(num_src=num_src, num_dst=num_dst, block=block, rowptr=rowptr, col=col, value_scale=value_scale)
    call.set(colptr=colptr, csc_row=csc_row, csc_pos=csc_pos, pairs=pairs, grad_out=grad_out, out=out)
    call.set(table=table, q=q, e=e, zinv=zinv, self_mean=self_mean, grad_u=grad_u, grad_bias=grad_bias)
    call.set(needs_max=_needs_max(self_mean, bias, all_loops, call.reals), needs_scalars=needs_scalars)
    call.set_edge_numbers("factor", factor)
    everyone = range(heads)
    call.run("pack_backward", num_dst, _NODES, 64, everyone, num_dst * heads * dim)
    blocks = num_edges // block + 1
    chunk = max(1, blocks // _JOBS)
    scratch = call.scratch(5, block, max_degree)
    if symmetric:
        sums = call.run("backward_symmetric", blocks, chunk, scratch, everyone, num_edges * heads * dim)
    else:
        # the edge terms, the largest buffer, are those of one head
        edge_terms, row_terms = u.new_empty(num_edges + 1, 4), u.new_empty(num_dst, call.padded + 1)
        call.set(edge_terms=edge_terms, row_terms=row_terms)
        sums = np.zeros((heads, 3))
        for head in everyone:
            sums += call.run("backward_rows", blocks, chunk, scratch, (head,), num_edges * dim)
            sums += call.run("backward_columns", blocks, chunk, scratch, (head,), num_edges * dim)
    by_beta, by_k, by_scale = (torch.from_numpy(sums[:, n].copy()) for n in range(3))
    grad_bias = u.new_empty(0, heads) if grad_bias is None else grad_bias.t().contiguous()
    return grad_u, by_k.to(k.dtype), by_beta.to(beta.dtype), by_scale.to(scale.dtype), grad_bias


def _rows(tangent: Tensor, k: Tensor, elu: bool) -> _Call:
    """A call of a kernel that maps rows: one head, as long as all of them together."""
    rows, heads, dim = tangent.shape
    call = _Call(tangent.view(rows, 1, heads * dim), k, k, torch.ones_like(k))
    call.set(keep=elu)
    return call


def points(tangent: Tensor, k: Tensor, elu: bool) -> Tensor:
    """exp0 of the (num_dst, heads·d) rows of ``tangent`` (num_dst, heads, d), and ELU of that."""
    call = _rows(tangent, k, elu)
    out = tangent.new_empty(tangent.shape[0], call.dim)
    call.set(out=out)
    call.run("points", tangent.shape[0], _NODES, call.scratch(0, 0, 0), (0,), tangent.numel())
    return out


def points_backward(grad: Tensor, tangent: Tensor, k: Tensor, result: Tensor, elu: bool) -> tuple[Tensor, Tensor]:
    """Gradients of (tangent, k)."""
    call = _rows(tangent, k, elu)
    grad_tangent = torch.empty_like(tangent)
    call.set(out=result, grad_out=grad, grad_u=grad_tangent)
    sums = call.run("points_backward", tangent.shape[0], _NODES, call.scratch(0, 0, 0), (0,), tangent.numel())
    return grad_tangent, torch.tensor(sums[0, 1], dtype=k.dtype).reshape(k.shape)
