"""Host side of the CPU kernels: buffers, row blocks, threads."""

from __future__ import annotations

import ctypes
import functools
import itertools
import math
import os
import sys
import threading
from array import array
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hgeo.kernels.attention._arguments import Inputs, Kept, Shape
from hgeo.kernels.attention._compiler import kernel_address, load_kernel
from hgeo.kernels.attention._layout import (
    PART,
    PHASE,
    REALS,
    ROW,
    TEAM,
    Slots,
    padded_dims,
    part_words,
    phase,
    scratch_bytes,
    tile_width,
)

__all__ = ["backward", "forward", "neighbour_sum"]

# Gathered records of a block should stay in a core's second-level cache until they are gathered again.
_BLOCK_BYTES = 192 * 1024
_JOBS = 32  # a head's blocks are dealt out in about that many jobs, whatever the number of threads
_NODES = 2048  # nodes in a job of the packing kernels
_SERIAL_WORK = 300_000  # edge coordinates below which a second thread costs more than it does
_KEPT_SCRATCH = 4 * 1024 * 1024  # bytes of scratch memory that a thread keeps
_FLAT_ROOT = 2.0**-50  # stands for √|k| at k = 0, see _simd
_MANY_BYTES, _PAGE, _HUGE_PAGES = 8 * 1024 * 1024, 4096, 14  # from so many bytes on; a page; what madvise calls it
_TINY_SCALE = 2.0**-40  # stands for a score scale of exactly 0: scores vanish in rounding, values stay exact


class _Program:
    """Kernels to run one after the other, each by all threads.

    On a small graph making this takes longer than the kernels do, so it is done with plain Python numbers: each touch
    of a tensor or a NumPy array costs as much as ten of those.

    Args:
        parts: of the space, see Slots.
        reals: REALS numbers a part and row, see there, too.
        tensors: whose memory the kernels use; a thread that starts late may come when the caller has given up.
    """

    def __init__(self, parts: list[int], reals: list[float], *tensors: Any) -> None:
        self.parts, self.reals = parts, reals
        self.count = len(parts) // PART
        self.tensors = tensors
        self.phases: list[tuple[int, int, int, int, int, int]] = []
        self.scratch = 0
        self.errors: list[BaseException] = []

    def add(self, kernel: int, first: int, rows: int, count: int, chunk: int, scratch: int) -> None:
        """The kernel at this address over [0, count) in chunks, for so many rows from ``first`` on."""
        jobs_a_row = -(-count // chunk)
        self.phases.append((kernel, first, jobs_a_row * rows, jobs_a_row, chunk, count))
        self.scratch = max(self.scratch, scratch)

    def run(self, slots: Sequence[int], work: int) -> None:
        """Do it all, by more than one thread if there is enough work."""
        self._assemble(slots)
        threads = torch.get_num_threads() if work >= _SERIAL_WORK else 1
        if threads == 1:
            self._take_part()
        elif (pool := _torchs_pool(threads)) is not None:
            self._run_in(pool, threads)
        else:
            self._run_in_threads_of_our_own(threads)

    def _run_in(self, pool: Callable[[int, int, int, int], None], threads: int) -> None:
        """By the threads that torch's operators run in: threads of our own would share cores with them, which wait
        busily for the next operator."""
        bytes_a_thread = -(-self.scratch // 64) * 64
        begin, count = self._begin, len(self.phases)
        drive, yields = kernel_address(64, 8, "drive"), _yield_address()
        try:
            memory = _memory.address(threads * bytes_a_thread)
            words = (drive, begin, count, yields, memory, bytes_a_thread)
            team = array("q", (*words, *[0] * (TEAM - len(words))))
            pool(kernel_address(64, 8, "team"), team.buffer_info()[0], threads, 0)
        finally:
            _memory.tidy()

    def _run_in_threads_of_our_own(self, threads: int) -> None:
        queue = _helpers(threads - 1)
        for _ in range(threads - 1):
            queue.put(self._help)  # keeps what it needs alive, if it starts late
        self._take_part()
        if self.errors:
            raise self.errors[0]

    def sums(self, number: int) -> list[list[float]]:
        """What the jobs of a phase that has run left: three numbers a part and row, each the sum over its jobs."""
        width = 3 * self.count
        begin = len(self.reals) + width * sum(jobs for _, _, jobs, *_ in self.phases[:number])
        _, _, jobs, jobs_a_row, _, _ = self.phases[number]
        ends = range(begin, begin + width * jobs + 1, width * jobs_a_row) if jobs else [begin, begin]
        return [[math.fsum(self.numbers[a + n : b : width]) for n in range(width)] for a, b in itertools.pairwise(ends)]

    def _assemble(self, slots: Sequence[int]) -> None:
        """An array of integers: slots, parts, rows, phases; one of float64: reals, then three a part and job."""
        width, reals = 3 * self.count, REALS * self.count
        self.numbers = array("d", self.reals)
        self.numbers.frombytes(bytes(8 * width * sum(jobs for _, _, jobs, *_ in self.phases)))
        place = self.numbers.buffer_info()[0]
        words = [*slots, *self.parts]
        rows = 8 * len(words)
        for row in range(len(self.reals) // reals):
            words += (-rows - 8 * ROW * row, row, place + 8 * reals * row)
        partial = place + 8 * len(self.reals)
        for kernel, first, jobs, jobs_a_row, chunk, count in self.phases:
            to_row = rows + 8 * ROW * first - 8 * len(words)
            words += phase(kernel, to_row, jobs, jobs_a_row, chunk, count, partial, width)
            partial += 8 * width * jobs
        self.words = array("q", words)

    def _help(self) -> None:
        """Take part in a thread that lives on whatever happens; the caller, unless it is done already, hears of it."""
        try:
            self._take_part()
        except BaseException as error:
            self.errors.append(error)

    def _take_part(self) -> None:
        drive, memory = load_kernel(64, 8, "drive"), _memory.address(self.scratch)
        try:
            drive(self._begin, 0, len(self.phases), memory, _yield_address())
        finally:
            _memory.tidy()

    @property
    def _begin(self) -> int:
        """The address of the first phase."""
        place, length = self.words.buffer_info()
        return int(place + 8 * (length - PHASE * len(self.phases)))


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


@functools.cache
def _openmp() -> tuple[Any, Any, int] | None:
    """What runs a function in every thread of the OpenMP that torch loaded, what says how many these are, and the
    process; None where torch uses something else."""
    if sys.platform != "linux":
        return None
    library = ctypes.CDLL(None)
    try:
        pool, count = library.GOMP_parallel, library.omp_get_max_threads
    except AttributeError:
        return None
    pool.argtypes, pool.restype = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint], None
    return pool, count, os.getpid()


def _torchs_pool(threads: int) -> Callable[[int, int, int, int], None] | None:
    """GOMP_parallel(function, argument, threads, flags) of torch's own OpenMP, which is the one that has its number of
    threads; None where it cannot be used, as in a child process, where its threads are gone."""
    found = _openmp()
    if found is None or found[1]() != threads or found[2] != os.getpid():
        return None
    pool: Callable[[int, int, int, int], None] = found[0]
    return pool


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


@functools.cache
def _address(bits: int, dims: tuple[int, ...], name: str) -> int:
    """Of a kernel for parts of these dimensions."""
    return kernel_address(bits, tile_width(bits, dims), name)


@functools.cache
def _part_words(bits: int, dims: tuple[int, ...]) -> list[int]:
    return part_words(dims, padded_dims(bits, dims))


@functools.cache
def _row_scratch(bits: int, dims: tuple[int, ...]) -> int:
    """Of kernels that do one row at a time."""
    return scratch_bytes(bits, sum(padded_dims(bits, dims)), 0, 0)


def _reals(a: Inputs, parts: int) -> list[float]:
    """The numbers of every head's row, part after part, and of that of the points behind them."""
    ks, betas = a.k.tolist(), a.beta.tolist()
    scales = [1.0] * len(ks) if a.scale is None else a.scale.tolist()
    rows = [(k, betas[n // parts], scale) for n, (k, scale) in enumerate(zip(ks, scales, strict=True))]
    if a.out_k is not None:
        rows.append((a.out_k.tolist()[0], 1.0, 1.0))
    reals: list[float] = []
    for k, beta, scale in rows:
        reals += (k, beta, scale or _TINY_SCALE, max(math.sqrt(abs(k)), _FLAT_ROOT))
    return reals


def _strided(values: Tensor | None) -> tuple[int, int, int]:
    """The address of an (E, 1) or (E, heads) tensor and its strides."""
    if values is None:
        return 0, 0, 0
    heads = values.shape[1]
    return values.data_ptr(), heads, int(heads > 1)


def _block(bits: int, record: int) -> int:
    """Edges of a row block in which every edge gathers so many numbers."""
    return max(256, min(4096, _BLOCK_BYTES // (record * bits // 8)))


@functools.cache
def _madvise() -> Any:
    """Linux' madvise; None elsewhere."""
    return ctypes.CDLL(None).madvise if sys.platform == "linux" else None


def _empty(like: Tensor, *shape: int) -> Tensor:
    """New memory; if it is large, in large pages where the system has any.

    With pages of 4 kB a step on ten million edges spends a quarter of its time on getting fresh ones, and each gathered
    record waits for the page's address, too.
    """
    out = like.new_empty(shape)
    size = out.numel() * out.element_size()
    if size >= _MANY_BYTES and (advise := _madvise()) is not None:
        begin = -(-out.data_ptr() // _PAGE) * _PAGE
        end = (out.data_ptr() + size) // _PAGE * _PAGE
        advise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), _HUGE_PAGES)
    return out


def _slots(
    a: Inputs,
    shape: Shape,
    places: Kept,
    block: int,
    all_loops: int,
    reals: list[float],
    result: Tensor,
    nodes: Tensor,
    edges: Tensor,
    **more: int,
) -> Slots:
    """What both directions have in common, and ``more`` that only the backward has."""
    num_src, num_dst, heads, dim, parts, padded = shape
    begin, of_edges, size = nodes.data_ptr(), edges.data_ptr(), a.u.element_size()
    out, points = result.data_ptr(), 0
    if a.out_k is not None:
        out, points = begin + size * places.tangent, out
    bias, bias_edge, bias_head = _strided(a.bias)
    factor, factor_edge, factor_head = _strided(a.factor)
    # With a self-loop at distance 0 and nothing added to the scores, the largest of a row is known to be 0.
    betas = reals[1 : REALS * heads * parts : REALS]
    needs_max = a.self_mean or a.bias is not None or not all_loops or min(betas, default=0.0) < 0
    return Slots(
        heads=heads,
        parts=parts,
        num_src=num_src,
        num_dst=num_dst,
        dim=dim,
        padded=padded,
        block=block,
        rowptr=a.rowptr.data_ptr(),
        col=a.col.data_ptr(),
        u=a.u.data_ptr(),
        value_scale=0 if a.value_scale is None else a.value_scale.data_ptr(),
        bias=bias,
        bias_edge=bias_edge,
        bias_head=bias_head,
        factor=factor,
        factor_edge=factor_edge,
        factor_head=factor_head,
        table=begin,
        q=of_edges,
        e=of_edges + size * places.e,
        zinv=begin + size * places.zinv,
        out=out,
        points=points,
        self_mean=a.self_mean,
        needs_max=needs_max,
        keep=a.keep,
        elu=a.elu,
        **more,
    )


def forward(a: Inputs) -> tuple[Tensor, Tensor, Tensor]:
    """The result, and what is kept for the backward: see Kept."""
    u, shape = a.u, a.shape
    num_src, num_dst, heads, dim, parts, padded = shape
    all_loops, max_degree = a.info.tolist()
    bits, places, dims = 8 * u.element_size(), Kept.of(a, shape), tuple(a.dims)
    nodes, edges = _empty(u, places.nodes), _empty(u, places.edges)
    result = _empty(u, num_dst, heads, dim) if a.out_k is None else _empty(u, num_dst, heads * dim)
    reals, block = _reals(a, parts), _block(bits, padded + 4 * parts)
    program = _Program(_part_words(bits, dims), reals, a, result, nodes, edges)
    program.add(_address(bits, dims, "pack"), 0, heads, num_src, _NODES, _row_scratch(bits, dims))
    blocks = a.num_edges // block + 1
    scratch = scratch_bytes(bits, padded, 2 + 2 * parts, block + max_degree)
    program.add(_address(bits, dims, "forward"), 0, heads, blocks, max(1, blocks // _JOBS), scratch)
    if a.out_k is not None:
        length = (heads * dim,)
        program.add(_address(bits, length, "points"), heads, 1, num_dst, _NODES, _row_scratch(bits, length))
    slots = _slots(a, shape, places, block, all_loops, reals, result, nodes, edges)
    program.run(slots, a.num_edges * heads * dim)
    return result, nodes, edges


def backward(
    grad: Tensor, a: Inputs, result: Tensor, nodes: Tensor, edges: Tensor, needs_scalars: bool, needs_bias: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of u, of the scalars and of the bias; see _ops."""
    u, shape = a.u, a.shape
    _, num_dst, heads, dim, parts, padded = shape
    all_loops, max_degree = a.info.tolist()
    bits, dims = 8 * u.element_size(), tuple(a.dims)
    reals, block = _reals(a, parts), _block(bits, 2 * padded + 4 * parts)
    pairs = _empty(u, heads, num_dst, 2 * padded + 4 * parts)
    tangents = grad if a.out_k is None else _empty(u, num_dst, heads, dim)  # ∂L/∂tangent
    # the edge terms, the largest buffer, are those of one head at a time, as the row terms
    terms, sides = (0, 0) if a.symmetric else (a.num_edges + 1, num_dst)
    edge_terms, row_terms = _empty(u, terms, 2 + 2 * parts), _empty(u, sides, padded + parts)
    grad_u = _empty(u, *u.shape)
    grad_bias = u.new_empty(heads, a.num_edges) if needs_bias else None
    tensors = a, result, nodes, edges, grad, pairs, tangents, edge_terms, row_terms, grad_u, grad_bias
    program = _Program(_part_words(bits, dims), reals, *tensors)
    if a.out_k is not None:
        length = (heads * dim,)
        program.add(_address(bits, length, "points_backward"), heads, 1, num_dst, _NODES, _row_scratch(bits, length))
    program.add(_address(bits, dims, "pack_backward"), 0, heads, num_dst, _NODES, _row_scratch(bits, dims))
    blocks, arrays = a.num_edges // block + 1, 6 if parts == 1 else 4 + 3 * parts
    chunk, scratch = max(1, blocks // _JOBS), scratch_bytes(bits, padded, arrays, block + max_degree)
    first = len(program.phases)
    if a.symmetric:
        program.add(_address(bits, dims, "backward_symmetric"), 0, heads, blocks, chunk, scratch)
    else:
        both = _address(bits, dims, "backward_rows"), _address(bits, dims, "backward_columns")
        for head in range(heads):
            for kernel in both:
                program.add(kernel, head, 1, blocks, chunk, scratch)
    slots = _slots(
        a, shape, Kept.of(a, shape), block, all_loops, reals, result, nodes, edges,
        colptr=a.colptr.data_ptr(),
        csc_row=a.csc_row.data_ptr(),
        csc_pos=a.csc_pos.data_ptr(),
        grad_out=tangents.data_ptr(),
        grad_points=grad.data_ptr(),
        pairs=pairs.data_ptr(),
        edge_terms=edge_terms.data_ptr(),
        row_terms=row_terms.data_ptr(),
        grad_u=grad_u.data_ptr(),
        grad_bias=0 if grad_bias is None else grad_bias.data_ptr(),
        needs_scalars=needs_scalars,
    )  # fmt: skip
    program.run(slots, a.num_edges * heads * dim)
    scalars = u.new_empty(0)
    if needs_scalars:
        if a.symmetric:
            sums = program.sums(first)
        else:  # by rows and by columns, head after head
            passes = [program.sums(first + n)[0] for n in range(2 * heads)]
            sums = [[x + y for x, y in zip(*passes[n : n + 2], strict=True)] for n in range(0, 2 * heads, 2)]
        by_k, by_scale = ([number for row in sums for number in row[n::3]] for n in (1, 2))
        numbers = [*by_k, *(math.fsum(row[::3]) for row in sums), *by_scale]
        if a.out_k is not None:
            numbers.append(program.sums(0)[0][1])
        scalars = torch.tensor(numbers, dtype=u.dtype, device=u.device)
    bias = u.new_empty(0, heads) if grad_bias is None else grad_bias.t().contiguous()
    return grad_u, scalars, bias


def neighbour_sum(
    rows: Tensor, rowptr: Tensor, col: Tensor, num_edges: int, source: Tensor | None, target: Tensor | None
) -> Tensor:
    """(num_dst, d): the rows (num_src, d) of the sources of every destination's edges, added up; see EdgeLists.

    A row is multiplied by its number of ``source``, a sum by that of ``target``.
    """
    rows = rows.contiguous()
    (num_src, dim), num_dst = rows.shape, rowptr.shape[0] - 1
    bits, dims = 8 * rows.element_size(), (dim,)
    (padded,) = padded_dims(bits, dims)
    table, out = _empty(rows, num_src, padded), _empty(rows, num_dst, dim)
    program = _Program(_part_words(bits, dims), [0.0] * REALS, rows, rowptr, col, table, out, source, target)
    program.add(_address(bits, dims, "pad"), 0, 1, num_src, _NODES, 0)
    block = _block(bits, padded)
    blocks = num_edges // block + 1
    program.add(_address(bits, dims, "neighbour_sum"), 0, 1, blocks, max(1, blocks // _JOBS), _row_scratch(bits, dims))
    addresses = {"rowptr": rowptr, "col": col, "u": rows, "table": table, "out": out}
    counts = {"heads": 1, "parts": 1, "num_src": num_src, "num_dst": num_dst, "dim": dim, "padded": padded}
    addresses |= {n: scale for n, scale in (("value_scale", source), ("zinv", target)) if scale is not None}
    given = counts | {"block": block} | {name: tensor.data_ptr() for name, tensor in addresses.items()}
    program.run([given.get(name, 0) for name in Slots._fields], num_edges * dim)
    return out
