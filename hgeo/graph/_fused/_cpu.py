"""Host side of the CPU kernels: buffers, row blocks, threads."""

from __future__ import annotations

import ctypes
import functools
import itertools
import math
import os
import threading
from array import array
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hgeo.graph._fused._compiler import kernel_address, load_kernel
from hgeo.graph._fused._layout import PHASE, SLOTS, padded_dim, phase, scratch_bytes, tile_width

__all__ = ["backward", "forward"]

_PLACE = {name: place for place, name in enumerate(SLOTS)}
# Gathered records of a block should stay in a core's second-level cache until they are gathered again.
_BLOCK_BYTES = 192 * 1024
_JOBS = 32  # a head's blocks are dealt out in about that many jobs, whatever the number of threads
_NODES = 2048  # nodes in a job of the packing kernels
_SERIAL_WORK = 300_000  # edge coordinates below which a second thread costs more than it does
_KEPT_SCRATCH = 4 * 1024 * 1024  # bytes of scratch memory that a thread keeps
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

    def rows(self, heads: Sequence[int]) -> array[int]:
        """The arguments as they are now, a row a head."""
        rows, reals = array("q"), self.reals.buffer_info()[0]
        for head in heads:
            self.row[_PLACE["head"]], self.row[_PLACE["reals"]] = head, reals + 32 * head
            rows.extend(self.row)
        return rows

    def block(self, stride: int) -> int:
        return max(256, min(4096, _BLOCK_BYTES // (stride * self.bits // 8)))

    def scratch(self, arrays: int = 0, edges: int = 0) -> int:
        return scratch_bytes(self.bits, self.padded, arrays, edges)


class _Program:
    """Kernels to run one after the other, each by all threads."""

    def __init__(self) -> None:
        self.phases = array("q")
        self.kept: list[Any] = []
        self.scratch = 0
        self.errors: list[BaseException] = []

    def add(
        self, call: _Call, kernel: str, count: int, chunk: int, scratch: int, heads: Sequence[int] | None = None
    ) -> Callable[[], list[list[float]]]:
        """A kernel over [0, count) in chunks, for all heads or these.

        What is returned gives, once the program has run, the sums of what the jobs left: three lists, a number a head.
        """
        heads = range(call.heads) if heads is None else heads
        per_head = -(-count // chunk)
        jobs = per_head * len(heads)
        rows, partial = call.rows(heads), array("d", bytes(24 * jobs))
        address = kernel_address(call.bits, call.width, kernel)
        places = rows.buffer_info()[0], partial.buffer_info()[0]
        self.phases.extend(phase(address, places[0], jobs, per_head, chunk, count, places[1]))
        self.kept += (call, rows, partial)
        self.scratch = max(self.scratch, scratch)

        def sums() -> list[list[float]]:
            ends = range(0, 3 * jobs + 1, 3 * per_head) if per_head else [0] * (len(heads) + 1)
            return [[math.fsum(partial[a + n : b : 3]) for a, b in itertools.pairwise(ends)] for n in range(3)]

        return sums

    def run(self, work: int) -> None:
        """Do it all, by more than one thread if there is enough work."""
        threads = torch.get_num_threads() if work >= _SERIAL_WORK else 1
        if threads > 1:
            queue = _helpers(threads - 1)
            for _ in range(threads - 1):
                queue.put(self._help)  # keeps what it needs alive, if it starts late
        self._take_part()
        if self.errors:
            raise self.errors[0]

    def _help(self) -> None:
        """Take part in a thread that lives on whatever happens; the caller, unless it is done already, hears of it."""
        try:
            self._take_part()
        except BaseException as error:
            self.errors.append(error)

    def _take_part(self) -> None:
        place = self.phases.buffer_info()[0]
        count = len(self.phases) // PHASE
        try:
            load_kernel(64, 8, "drive")(place, 0, count, _memory.address(self.scratch), _yield_address())
        finally:
            _memory.tidy()


class _Memory(threading.local):
    """Scratch memory of a thread, kept from call to call unless it is large."""

    kept: Any = None
    size = -1

    def address(self, size: int) -> int:
        if size > self.size:
            self.kept = np.empty(size + 64, dtype=np.uint8)
            self.size = size if size < _KEPT_SCRATCH else -1
            # vectors that begin where cache lines do
            self.place = -(-self.kept.ctypes.data // 64) * 64
        return self.place

    def tidy(self) -> None:
        if self.size < 0:
            self.kept = None


_memory = _Memory()


@functools.cache
def _yield_address() -> int:
    """A C function without arguments that lets other threads run."""
    if os.name == "nt":
        return ctypes.cast(ctypes.WinDLL("kernel32").SwitchToThread, ctypes.c_void_p).value or 0  # type: ignore[attr-defined]
    return ctypes.cast(ctypes.CDLL(None).sched_yield, ctypes.c_void_p).value or 0


_queues: dict[int, tuple[SimpleQueue[Callable[[], None]], list[threading.Thread]]] = {}
_queues_lock = threading.Lock()


def _helpers(count: int) -> SimpleQueue[Callable[[], None]]:
    """The queue of at least so many waiting threads."""
    with _queues_lock:
        queue, threads = _queues.setdefault(os.getpid(), (SimpleQueue(), []))  # threads do not survive a fork
        while len(threads) < count:
            threads.append(threading.Thread(target=_help, args=(queue,), name="hgeo", daemon=True))
            threads[-1].start()
    return queue


def _help(queue: SimpleQueue[Callable[[], None]]) -> None:
    while True:
        queue.get()()


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
    out_k: Tensor | None,
    num_edges: int,
    self_mean: bool,
    keep: bool,
    elu: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """(result, tangent, table, q, e, 1/Z): see _kernels for the layout of what is kept for the backward."""
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
    program = _Program()
    program.add(call, "pack", num_src, _NODES, call.scratch())
    blocks = num_edges // block + 1
    program.add(call, "forward", blocks, max(1, blocks // _JOBS), call.scratch(4, block + max_degree))
    result, tangent = out, u.new_empty(0)
    if out_k is not None:
        result, tangent = u.new_empty(num_dst, heads * dim), out
        rows = _rows(tangent, out_k, elu)
        rows.set(out=result)
        program.add(rows, "points", num_dst, _NODES, rows.scratch())
    program.run(num_edges * heads * dim)
    return result, tangent, table, q, e, zinv


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
    out_k: Tensor | None,
    result: Tensor,
    tangent: Tensor,
    table: Tensor,
    q: Tensor,
    e: Tensor,
    zinv: Tensor,
    num_edges: int,
    self_mean: bool,
    symmetric: bool,
    elu: bool,
    needs_scalars: bool,
    needs_bias: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of (u, k, beta, score_scale, edge_bias, out_k); that of the bias is (E, heads)."""
    all_loops, max_degree = info.tolist()
    num_src, heads, dim = u.shape
    num_dst = rowptr.shape[0] - 1
    program = _Program()
    of_points = None
    if out_k is not None:
        rows = _rows(tangent, out_k, elu)
        rows.set(out=result, grad_out=grad_out)
        result, grad_out = tangent, torch.empty_like(tangent)
        rows.set(grad_u=grad_out)
        of_points = program.add(rows, "points_backward", num_dst, _NODES, rows.scratch())
    call = _Call(u, k, beta, scale)
    pair_stride = 2 * call.padded + 4
    block = call.block(pair_stride)
    pairs = u.new_empty(heads, num_dst, pair_stride)
    grad_u = torch.empty_like(u)
    grad_bias = u.new_empty(heads, num_edges) if needs_bias else None
    call.set(num_src=num_src, num_dst=num_dst, block=block, rowptr=rowptr, col=col, value_scale=value_scale)
    call.set(colptr=colptr, csc_row=csc_row, csc_pos=csc_pos, pairs=pairs, grad_out=grad_out, out=result)
    call.set(table=table, q=q, e=e, zinv=zinv, self_mean=self_mean, grad_u=grad_u, grad_bias=grad_bias)
    call.set(needs_max=_needs_max(self_mean, bias, all_loops, call.betas), needs_scalars=needs_scalars)
    call.set_edge_numbers("factor", factor)
    program.add(call, "pack_backward", num_dst, _NODES, call.scratch())
    blocks = num_edges // block + 1
    chunk = max(1, blocks // _JOBS)
    scratch = call.scratch(6, block + max_degree)
    parts = []
    if symmetric:
        parts.append(program.add(call, "backward_symmetric", blocks, chunk, scratch))
    else:
        # the edge terms, the largest buffer, are those of one head
        edge_terms, row_terms = u.new_empty(num_edges + 1, 4), u.new_empty(num_dst, call.padded + 1)
        call.set(edge_terms=edge_terms, row_terms=row_terms)
        for head in range(heads):
            for kernel in ("backward_rows", "backward_columns"):
                parts.append(program.add(call, kernel, blocks, chunk, scratch, (head,)))
    program.run(num_edges * heads * dim)
    if symmetric:
        sums = parts[0]()
    else:  # by rows and by columns, head after head
        both = [part() for part in parts]
        sums = [[both[2 * head][n][0] + both[2 * head + 1][n][0] for head in range(heads)] for n in range(3)]
    by_beta, by_k, by_scale = (torch.tensor(numbers, dtype=k.dtype, device=k.device) for numbers in sums)
    grad_bias = u.new_empty(0, heads) if grad_bias is None else grad_bias.t().contiguous()
    grad_out_k = u.new_empty(0)
    if of_points is not None:
        grad_out_k = torch.tensor(of_points()[1], dtype=k.dtype, device=k.device)
    return grad_u, by_k, by_beta, by_scale, grad_bias, grad_out_k


def _rows(tangent: Tensor, k: Tensor, elu: bool) -> _Call:
    """A call of a kernel that maps rows: one head, as long as all of them together."""
    rows, heads, dim = tangent.shape
    call = _Call(tangent.view(rows, 1, heads * dim), k, k, torch.ones_like(k))
    call.set(keep=elu)
    return call
