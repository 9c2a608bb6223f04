"""Host side of the CPU kernels: buffers, row blocks, threads."""

from __future__ import annotations

import functools
import math
import os
import threading
from array import array
from collections.abc import Iterable, Iterator, Sequence
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


@functools.cache
def _sizes(bits: int, dim: int) -> tuple[int, int]:
    return tile_width(bits, dim), padded_dim(bits, dim)


class _Call:
    """The numbers that a kernel reads, a row of SLOTS a head, and the tensors that they point to.

    On a small graph making these takes longer than the kernels do, so it is done with plain Python numbers: each
    touch of a tensor or a NumPy array costs as much as ten of those.
    """

    def __init__(self, u: Tensor, k: Tensor, beta: Tensor, scale: Tensor) -> None:
        _, self.heads, self.dim = u.shape
        self.bits = 32 if u.dtype == torch.float32 else 64
        self.width, self.padded = _sizes(self.bits, self.dim)
        self.betas = beta.tolist()
        self.reals = array("d")
        for curvature, sharpness, size in zip(k.tolist(), self.betas, scale.tolist(), strict=True):
            root = max(math.sqrt(abs(curvature)), _FLAT_ROOT)
            self.reals.extend((curvature, sharpness, size or _TINY_SCALE, root))
        self.kept: list[Tensor] = []
        self.row = [0] * len(SLOTS)
        self.set(heads=self.heads, dim=self.dim, padded=self.padded, u=u)

    def set(self, **values: Tensor | int | bool | None) -> None:
        for name, value in values.items():
            if isinstance(value, Tensor):
                self.kept.append(value)
                value = value.data_ptr()
            self.row[_PLACE[name]] = value or 0

    def set_edge_numbers(self, name: str, values: Tensor | None) -> None:
        """An (E, 1) or (E, heads) tensor, read with strides."""
        if values is not None:
            heads = values.shape[1]
            self.set(**{name: values})
            self.set(**{f"{name}_edge_stride": heads, f"{name}_head_stride": heads > 1})

    def run(
        self, kernel: str, count: int, chunk: int, scratch: int, work: int, heads: Sequence[int] | None = None
    ) -> np.ndarray:
        """Run a kernel over [0, count) in chunks, for all heads or these; return their (len(heads), 3) partial sums."""
        function = load_kernel(self.bits, self.width, kernel)
        heads = range(self.heads) if heads is None else heads
        per_head = -(-count // chunk)
        jobs = per_head * len(heads)
        rows, partial = array("q"), array("d", bytes(24 * jobs))
        reals, sums = self.reals.buffer_info()[0], partial.buffer_info()[0]
        for head in heads:
            self.row[_PLACE["head"]], self.row[_PLACE["reals"]] = head, reals + 32 * head
            rows.extend(self.row)
        arguments = rows.buffer_info()[0]

        def work_through(numbers: Iterable[int]) -> None:
            memory = np.empty(scratch, dtype=np.uint8)
            place = memory.ctypes.data
            for number in numbers:
                turn, part = divmod(number, per_head)
                begin, end = part * chunk, min(part * chunk + chunk, count)
                function(arguments + 8 * len(SLOTS) * turn, begin, end, place, sums + 24 * number)

        threads = min(torch.get_num_threads(), jobs) if work >= _SERIAL_WORK else 1
        if threads <= 1:
            work_through(range(jobs))
        else:
            todo, lock = iter(range(jobs)), threading.Lock()

            def taken() -> Iterator[int]:
                while True:
                    with lock:
                        number = next(todo, None)
                    if number is None:
                        return
                    yield number

            others = [_pool(threads - 1).submit(work_through, taken()) for _ in range(threads - 1)]
            work_through(taken())
            for other in others:
                other.result()
        return np.frombuffer(partial).reshape(len(heads), per_head, 3).sum(1)

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


def _needs_max(self_mean: bool, bias: Tensor | None, all_loops: int, betas: list[float]) -> bool:
    # With a self-loop at distance 0 and nothing added to the scores, the largest of a row is known to be 0.
    return self_mean or bias is not None or not all_loops or min(betas, default=0.0) < 0


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
    call.set(needs_max=_needs_max(self_mean, bias, all_loops, call.betas))
    call.set_edge_numbers("bias", bias)
    call.set_edge_numbers("factor", factor)
    call.run("pack", num_src, _NODES, 64, num_src * heads * dim)
    blocks = num_edges // block + 1
    scratch = call.scratch(2, block, max_degree)
    call.run("forward", blocks, max(1, blocks // _JOBS), scratch, num_edges * heads * dim)
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
    call.set(needs_max=_needs_max(self_mean, bias, all_loops, call.betas), needs_scalars=needs_scalars)
    call.set_edge_numbers("factor", factor)
    call.run("pack_backward", num_dst, _NODES, 64, num_dst * heads * dim)
    blocks = num_edges // block + 1
    chunk = max(1, blocks // _JOBS)
    scratch = call.scratch(5, block, max_degree)
    if symmetric:
        sums = call.run("backward_symmetric", blocks, chunk, scratch, num_edges * heads * dim)
    else:
        # the edge terms, the largest buffer, are those of one head
        edge_terms, row_terms = u.new_empty(num_edges + 1, 4), u.new_empty(num_dst, call.padded + 1)
        call.set(edge_terms=edge_terms, row_terms=row_terms)
        sums = np.zeros((heads, 3))
        for head in range(heads):
            for kernel in ("backward_rows", "backward_columns"):
                sums[head] += call.run(kernel, blocks, chunk, scratch, num_edges * dim, (head,))[0]
    by_beta, by_k, by_scale = (torch.from_numpy(column.copy()).to(k.dtype) for column in sums.T)
    grad_bias = u.new_empty(0, heads) if grad_bias is None else grad_bias.t().contiguous()
    return grad_u, by_k, by_beta, by_scale, grad_bias


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
    call.run("points", tangent.shape[0], _NODES, call.scratch(0, 0, 0), tangent.numel())
    return out


def points_backward(grad: Tensor, tangent: Tensor, k: Tensor, result: Tensor, elu: bool) -> tuple[Tensor, Tensor]:
    """Gradients of (tangent, k)."""
    call = _rows(tangent, k, elu)
    grad_tangent = torch.empty_like(tangent)
    call.set(out=result, grad_out=grad, grad_u=grad_tangent)
    sums = call.run("points_backward", tangent.shape[0], _NODES, call.scratch(0, 0, 0), tangent.numel())
    return grad_tangent, torch.tensor([sums[0, 1]], dtype=k.dtype)
