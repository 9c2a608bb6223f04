"""The loops that embed a hierarchy, as Numba compiles them: an epoch of mini-batches, and the ranks of pairs.

One set for each (family of spaces, width). A point is a row of ``width`` numbers, padded with zeros. With

    q(x, y) = |x - y|² / 4                                  flat
            = (|x' - y'|² - (x₀ - y₀)²) / 4                 hyperboloid, x₀ first
            = |x - y|² / ((1 - c|x|²)(1 - c|y|²))           ball

a distance is d = (2/√c) asinh √(cq), 2√q at c = 0, and dd/dq = 1/√(q(1 + cq)). ``inner`` has d = -⟨x, y⟩ instead.

Every batch has two phases. First each thread takes some of its pairs: negatives, distances, the derivative of the loss
by each of them, and the gradient of the child's row. Then each thread takes some blocks of rows, adds up what all pairs
of the batch have for them, in the order of the pairs, and steps. So the result does not depend on how many threads
there are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import extending, types
from numba.core import cgutils
from numba.np.arrayobj import make_array, populate_array

__all__ = ["make_epoch", "make_ranks"]

_BLOCK_SHIFT = 6  # rows are dealt out in blocks of 64, so that threads do not write the same cache lines
_PATIENCE = 2000  # how often a waiting thread checks for the others before it gives up its core
_RIM = 1.0 - 1e-10  # of the ball, for √c|x|

# No array is made here, only looked at. Sums may be reordered, so that they fill vectors.
_OPTIONS: Any = {"error_model": "numpy", "fastmath": {"contract", "reassoc", "nsz"}, "_nrt": False}

# Numba gives an intrinsic the Python signature of its typing function, which is not the one it is called with.
_intrinsic: Any = extending.intrinsic


@_intrinsic
def _fetch_add(typingctx: Any, array: Any, amount: Any) -> Any:
    """Add to the 64-bit integer that a pointer leads to, as one step for all threads; return what was there."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.atomic_rmw("add", args[0], args[1], "seq_cst")

    return types.int64(types.CPointer(types.int64), types.int64), codegen


@_intrinsic
def _call(typingctx: Any, address: Any) -> Any:
    """Call the C function without arguments at this address."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [])
        builder.call(builder.inttoptr(args[0], ir.PointerType(kind)), [])
        return context.get_dummy_value()

    return types.void(types.int64), codegen


@_intrinsic
def _fetch(typingctx: Any, pointer: Any, place: Any) -> Any:
    """Asks for the cache line that holds this element, which will be needed soon."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word, address = ir.IntType(32), builder.gep(args[0], [args[1]])
        kind = ir.FunctionType(ir.VoidType(), [address.type, word, word, word])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [address, word(0), word(3), word(1)])
        return context.get_dummy_value()

    return types.void(pointer, types.int64), codegen


def _view(dimensions: int) -> Any:
    """Numba's ``carray`` for kernels without its run time: an array of this shape that begins at a pointer."""

    @_intrinsic
    def view(typingctx: Any, pointer: Any, shape: Any) -> Any:
        array = types.Array(pointer.dtype, dimensions, "C")

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            data = context.get_data_type(pointer.dtype)
            size = context.get_constant(types.intp, context.get_abi_sizeof(data))
            lengths = [builder.extract_value(args[1], axis) for axis in range(dimensions)]
            strides = [size]
            for length in lengths[:0:-1]:
                strides.insert(0, builder.mul(strides[0], length))
            made = make_array(array)(context, builder)
            populate_array(made, data=args[0], shape=lengths, strides=strides, itemsize=size, meminfo=None)
            return made._getvalue()

        return array(pointer, types.UniTuple(types.intp, dimensions)), codegen

    return view


_row, _table = _view(1), _view(2)


def _helpers(family: str, width: int) -> tuple[Any, Any]:
    """The functions ``gap(x, i, y, j, c) -> (q, 1 - c|y_j|²)`` and ``length(q, c)``."""
    jit: Any = numba.njit(**_OPTIONS)
    inner, ball, hyperboloid = (family == name for name in ("inner", "ball", "hyperboloid"))

    @jit
    def gap(x: Any, i: int, y: Any, j: int, c: float, flatness: float) -> tuple[float, float]:
        total, squared = 0.0, 0.0
        if inner:
            for k in range(width):
                total -= x[i, k] * y[j, k]
            return total, 1.0
        for k in range(width):
            difference = x[i, k] - y[j, k]
            total += difference * difference
        if ball:
            for k in range(width):
                squared += y[j, k] * y[j, k]
            other = 1.0 - c * squared
            return total / (flatness * other), other
        if hyperboloid:
            difference = x[i, 0] - y[j, 0]
            total -= 2.0 * difference * difference
        return 0.25 * max(total, 0.0), 1.0

    @jit
    def length(q: float, c: float) -> tuple[float, float]:
        """The distance, and its derivative by q."""
        if inner:
            return q, 1.0
        root = math.sqrt(q)
        slope = 1.0 / ((root + 1e-150) * math.sqrt(1.0 + c * q))
        if c == 0.0:
            return 2.0 * root, slope
        s = math.sqrt(c) * root
        return 2.0 / math.sqrt(c) * math.log1p(s + s * s / (1.0 + math.sqrt(1.0 + s * s))), slope

    return gap, length


def _step(family: str, width: int) -> Any:
    """The function ``step(x, j, g, i, rate, limit, c)``: row j of x goes along the negative gradient, row i of g."""
    jit: Any = numba.njit(**_OPTIONS)
    ball, hyperboloid = family == "ball", family == "hyperboloid"

    @jit
    def step(x: Any, j: int, g: Any, i: int, rate: float, limit: float, c: float) -> None:
        if hyperboloid:
            along, squared = -g[i, 0] * x[j, 0], 0.0
            for k in range(1, width):
                along += g[i, k] * x[j, k]
            across = 0.0
            for k in range(1, width):
                g[i, k] += c * along * x[j, k]
                squared += g[i, k] * g[i, k]
                across += g[i, k] * x[j, k]
            across /= x[j, 0]
            norm = math.sqrt(max(squared - across * across, 1e-300))
            angle = math.sqrt(c) * min(rate * norm, limit)
            stretch, shift = math.cosh(angle), -math.sinh(angle) / (math.sqrt(c) * norm)
            squared = 0.0
            for k in range(1, width):
                x[j, k] = stretch * x[j, k] + shift * g[i, k]
                squared += x[j, k] * x[j, k]
            x[j, 0] = math.sqrt(1.0 / c + squared)
        else:
            squared, other, mixed = 0.0, 0.0, 0.0
            for k in range(width):
                squared += g[i, k] * g[i, k]
                other += x[j, k] * x[j, k]
                mixed += g[i, k] * x[j, k]
            norm = math.sqrt(max(squared, 1e-300))
            if ball:
                flatness = 1.0 - c * other
                half = 0.5 * min(0.5 * rate * flatness * norm, limit)
                if c > 0.0:
                    half = math.tanh(math.sqrt(c) * half) / math.sqrt(c)
                # x ⊕ y with y = shift·g, without cancellation: s = x + y
                shift = -half / norm
                summed = c * max(other + 2.0 * shift * mixed + half * half, 0.0)
                below = 1.0 / (flatness * (1.0 - c * half * half) + summed)
                stretch, shift = (flatness + summed) * below, flatness * shift * below
                squared = 0.0
                for k in range(width):
                    x[j, k] = stretch * x[j, k] + shift * g[i, k]
                    squared += x[j, k] * x[j, k]
                if c * squared > _RIM * _RIM:
                    shrink = _RIM / math.sqrt(c * squared)
                    for k in range(width):
                        x[j, k] *= shrink
            else:
                shift = -min(rate * norm, limit) / norm
                for k in range(width):
                    x[j, k] += shift * g[i, k]

    return step


def _negatives(width: int) -> Any:
    """The function that draws the negatives of a pair; :func:`hgeo.kernels.hierarchy.draw` is the same in NumPy."""
    jit: Any = numba.njit(**_OPTIONS)

    @jit
    def draw(
        nodes: Any, row: int, child: int, first: int, count: int, many: int, starts: Any, known: Any, points: Any
    ) -> None:  # fmt: skip
        found, attempt = 1, 0
        while found <= many and attempt < 4 * many:
            z = np.uint64(first + attempt) * np.uint64(0x9E3779B97F4A7C15)
            z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            node = np.int64(((z >> np.uint64(32)) * np.uint64(count)) >> np.uint64(32))
            attempt += 1
            free = node != child
            for place in range(starts[child], starts[child + 1]):
                if known[place] == node:
                    free = False
            if free:
                nodes[row, found] = node
                found += 1
                for line in range(0, width, 8):
                    _fetch(points, node * width + line)
                _fetch(points, node * width + width - 1)
        while found <= many:
            nodes[row, found] = -1
            found += 1

    return draw


def make_epoch(family: str, width: int) -> Callable[..., None]:
    """One thread's part of an epoch. Its arguments are those of :class:`hgeo.kernels.hierarchy.Epoch`."""
    gap, length = _helpers(family, width)
    step, draw = _step(family, width), _negatives(width)
    jit: Any = numba.njit(**_OPTIONS)
    inner, ball = family == "inner", family == "ball"

    @jit
    def meet(counter: Any, goal: int, rest: int) -> None:
        """Waits until all threads have come to this point."""
        _fetch_add(counter, 1)
        looks = 0
        while _fetch_add(counter, 0) < goal:
            looks += 1
            if looks > _PATIENCE:
                _call(rest)

    @jit
    def pair(x: Any, nodes: Any, pull: Any, turn: Any, own: Any, i: int, child: int, c: float, sharp: float) -> float:
        """The loss of a pair; its derivatives go to ``pull`` and ``turn``, the gradient of the child to ``own``."""
        many = nodes.shape[1]
        flatness = 1.0
        if ball:
            squared = 0.0
            for k in range(width):
                squared += x[child, k] * x[child, k]
            flatness = 1.0 - c * squared
        for k in range(width):
            own[i, k] = 0.0
        nearest, first = math.inf, 0.0
        for a in range(many):
            node = nodes[i, a]
            if node >= 0:
                q, other = gap(x, child, x, node, c, flatness)
                d, slope = length(q, c)
                pull[i, a], turn[i, a] = sharp * d, slope
                nearest = min(nearest, sharp * d)
        first, total = pull[i, 0], 0.0
        for a in range(many):
            if nodes[i, a] >= 0:
                pull[i, a] = math.exp(nearest - pull[i, a])
                total += pull[i, a]
        for a in range(many):
            node = nodes[i, a]
            if node >= 0:
                share = pull[i, a] / total
                by_q = sharp * ((1.0 - share) if a == 0 else -share) * turn[i, a]
                if inner:
                    pull[i, a] = by_q
                    for k in range(width):
                        own[i, k] -= by_q * x[node, k]
                elif ball:
                    q, other = gap(x, child, x, node, c, flatness)
                    towards, outwards = 2.0 * by_q / (flatness * other), 2.0 * c * by_q * q
                    pull[i, a], turn[i, a] = towards, outwards / other
                    for k in range(width):
                        own[i, k] += towards * (x[child, k] - x[node, k]) + outwards / flatness * x[child, k]
                else:
                    towards = 0.5 * by_q
                    pull[i, a] = towards
                    for k in range(width):
                        own[i, k] += towards * (x[child, k] - x[node, k])
        return first - nearest + math.log(total)

    @jit
    def take(slot: Any, mine: Any, g: Any, node: int, at: int) -> int:
        """Gives a row of g to a node; returns the next free one."""
        slot[node], mine[at] = at, node
        for k in range(width):
            g[at, k] = 0.0
        return at + 1

    def epoch(
        points: Any, gradient: Any, children: Any, parents: Any, starts: Any, known: Any, losses: Any,
        slots: Any, touched: Any, nodes: Any, pull: Any, turn: Any, own: Any, kept: Any, counter: Any,
        count: int, pairs: int, batch: int, many: int, key: int, thread: int, threads: int, rest: int,
        rate: float, c: float, sharp: float, limit: float,
    ) -> None:  # fmt: skip
        x, room = _table(points, (count, width)), batch * (many + 2)
        g = _table(gradient, (threads * room, width))
        child_of, parent_of, loss = _row(children, (pairs,)), _row(parents, (pairs,)), _row(losses, (pairs,))
        begins, relatives = _row(starts, (count + 1,)), _row(known, (pairs,))
        slot, mine = _row(slots, (count,)), _row(touched, (threads * room,))
        of_pair = _table(nodes, (batch, many + 1))
        pulls, turns = _table(pull, (batch, many + 1)), _table(turn, (batch, many + 1))
        owns, anchors = _table(own, (batch, width)), _table(kept, (batch, width))
        meetings = 0
        for begin in range(0, pairs, batch):
            size = min(batch, pairs - begin)
            for i in range(size * thread // threads, size * (thread + 1) // threads):
                child = child_of[begin + i]
                of_pair[i, 0] = parent_of[begin + i]
                draw(of_pair, i, child, key + (begin + i) * 4 * many, count, many, begins, relatives, points)
                for k in range(width):
                    anchors[i, k] = x[child, k]
                loss[begin + i] = pair(x, of_pair, pulls, turns, owns, i, child, c, sharp)
            meetings += 1
            if threads > 1:
                meet(counter, meetings * threads, rest)
            found = thread * room  # rows of g: one for each row that the batch has something for
            for i in range(size):
                child = child_of[begin + i]
                if threads == 1 or (child >> _BLOCK_SHIFT) % threads == thread:
                    at = slot[child]
                    if at < 0:
                        at = found
                        found = take(slot, mine, g, child, found)
                    for k in range(width):
                        g[at, k] += owns[i, k]
                for a in range(many + 1):
                    node = of_pair[i, a]
                    if node >= 0 and (threads == 1 or (node >> _BLOCK_SHIFT) % threads == thread):
                        at = slot[node]
                        if at < 0:
                            at = found
                            found = take(slot, mine, g, node, found)
                        if inner:
                            for k in range(width):
                                g[at, k] -= pulls[i, a] * anchors[i, k]
                        elif ball:
                            for k in range(width):
                                g[at, k] += pulls[i, a] * (x[node, k] - anchors[i, k]) + turns[i, a] * x[node, k]
                        else:
                            for k in range(width):
                                g[at, k] += pulls[i, a] * (x[node, k] - anchors[i, k])
            for at in range(thread * room, found):
                slot[mine[at]] = -1
                step(x, mine[at], g, at, rate, limit, c)
            meetings += 1
            if threads > 1:
                meet(counter, meetings * threads, rest)

    return epoch


def make_ranks(family: str, width: int) -> Callable[..., None]:
    """How many nodes are at most as far from a child as each of its wanted parents, known parents left out."""
    gap, _ = _helpers(family, width)

    def ranks(
        points: Any, starts: Any, wanted: Any, known_starts: Any, known: Any, nearer: Any, scores: Any, best: Any,
        count: int, pairs: int, known_pairs: int, most: int, begin: int, end: int, c: float,
    ) -> None:  # fmt: skip
        x, score, own = _table(points, (count, width)), _row(scores, (count,)), _row(best, (most,))
        begins, parents = _row(starts, (count + 1,)), _row(wanted, (pairs,))
        known_begins, relatives = _row(known_starts, (count + 1,)), _row(known, (known_pairs,))
        result = _row(nearer, (pairs,))
        for node in range(begin, end):
            first, many = begins[node], begins[node + 1] - begins[node]
            if many == 0:
                continue
            squared = 0.0
            for k in range(width):
                squared += x[node, k] * x[node, k]
            for other in range(count):
                score[other] = gap(x, node, x, other, c, 1.0 - c * squared)[0]
            for place in range(many):  # sorted by insertion: a node has few parents
                value, at = score[parents[first + place]], place
                while at > 0 and own[at - 1] > value:
                    own[at] = own[at - 1]
                    at -= 1
                own[at] = value
            for place in range(many):
                score[parents[first + place]] = math.inf
                result[first + place] = 0
            for place in range(known_begins[node], known_begins[node + 1]):
                score[relatives[place]] = math.inf
            score[node] = math.inf
            for other in range(count):
                place = many - 1
                while place >= 0 and score[other] <= own[place]:
                    place -= 1
                if place < many - 1:
                    result[first + place + 1] += 1
            for place in range(1, many):
                result[first + place] += result[first + place - 1]

    return ranks
