"""An operation of geometry: one plain function of rows and numbers, carried out by torch or as one compiled loop."""

from __future__ import annotations

import contextlib
import contextvars
import ctypes
import functools
import inspect
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hgeo.kernels._derivative import backward
from hgeo.kernels._library import Compiled, compiled
from hgeo.kernels._llvm import Argument, write
from hgeo.kernels._symbols import NumberSymbol, RowSymbol, Tape
from hgeo.kernels._vocabulary import Ambient

__all__ = ["Operation", "plain_torch"]

_KINDS = {torch.float32: "float", torch.float64: "double"}
_PARTS = {"Number": ("Number",), "Row": ("Row",), "Ambient": ("Number", "Row")}


class Operation:
    """An operation that is declared by one plain function, its *formula*.

    The formula is written in the words of :mod:`hgeo.kernels`; its arguments are annotated as ``Row``, ``Number`` or
    ``Ambient`` (a vector whose first number stands apart), and so is its result. It is carried out on torch's tensors
    as it stands: that gives the form for ``torch.compile``, ``torch.func``, devices other than the CPU, and derivatives
    of any order. On float32 and float64 tensors of the CPU it is called once with symbols, written down as a loop over
    the rows, differentiated, compiled (llvmlite, which comes with Numba) and kept in the user's cache. Where that is
    not possible it is torch's form again.

    Rows and numbers broadcast; a number has size 1 in its last dimension, or is a float or a tensor of no dimension.

    >>> import torch
    >>> from hgeo.kernels import Number, Operation, Row, dot
    >>> @Operation
    ... def reflection(x: Row, a: Row) -> Row:
    ...     return x - 2 * dot(x, a) / dot(a, a) * a
    >>> x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    >>> reflection(x, torch.tensor([1.0, 0.0]))
    tensor([[-1.,  2.],
            [-3.,  4.]], grad_fn=<_FusedBackward>)
    """

    def __init__(self, formula: Callable[..., Any]) -> None:
        self.formula = formula
        parameters = inspect.signature(formula).parameters.values()
        self.names = [p.name for p in parameters]
        self.kinds = [_word(p.annotation) for p in parameters]
        self.gives = _word(inspect.signature(formula).return_annotation)
        self.is_row = [kind != "Number" for kind in self.kinds]
        self.gives_row = self.gives != "Number"
        self.curved = "k" in self.names or "c" in self.names
        self._first = self.is_row.index(True)
        self._whole = "Ambient" not in self.kinds  # each argument is one of the kernel's
        self._signs = (True, False) if self.curved else (False,)  # hyperbolic first; a loop for that refuses k > 0
        self._kernels: dict[Any, Compiled | None] = {}
        functools.update_wrapper(self, formula)

    def __call__(self, *arguments: Any) -> Any:
        """The operation. A number comes back with size 1 in its last dimension."""
        return self._carried_out(False, arguments)

    def total(self, *arguments: Any) -> Any:
        """The sum of the results over the dimension before the last, which stays with size 1."""
        return self._carried_out(True, arguments)

    def _carried_out(self, summed: bool, arguments: tuple[Any, ...]) -> Any:
        if not self._fits(arguments):
            return self.by_torch(summed, arguments)
        if torch.is_grad_enabled() and any(isinstance(a, Tensor) and a.requires_grad for a in arguments):
            return _Fused.apply(self, summed, *arguments)
        return self.forward(summed, arguments)

    def by_torch(self, summed: bool, arguments: Sequence[Any]) -> Any:
        given = arguments if self._whole else map(_apart, arguments, self.kinds)
        result = self.formula(*given)
        if isinstance(result, Ambient):
            result = _together(result)
        if not summed:
            return result
        shapes = [a.shape[:-1] for a in arguments if isinstance(a, Tensor)]
        return result.expand(*torch.broadcast_shapes(*shapes), result.shape[-1]).sum(-2, keepdim=True)

    # --- which form ---

    def _fits(self, arguments: Sequence[Any]) -> bool:
        """Whether the compiled loop can take these arguments; only what metadata show is looked at."""
        if torch.compiler.is_compiling() or not _ALLOWED.get() or _transformed():
            return False
        dtype = size = None
        for value, kind in zip(arguments, self.kinds, strict=True):
            is_row = kind != "Number"
            if not isinstance(value, Tensor):
                if is_row or not isinstance(value, float | int):
                    return False
                continue
            if not _in_memory(value) or value.dtype not in _KINDS:
                return False
            if is_row:
                if not value.dim():
                    return False
                length = value.shape[-1] - (kind == "Ambient")
                if dtype is None:
                    dtype, size = value.dtype, length
                elif dtype != value.dtype or size != length:
                    return False
                if length < 0:
                    return False
            elif value.dim() and value.shape[-1] != 1:
                return False
        return dtype is not None

    # --- the compiled form ---

    def _kernel(self, key: tuple[Any, ...]) -> Compiled | None:
        """The compiled loop for what :meth:`written` takes; None if it cannot be had."""
        if key not in self._kernels:
            kernel = None
            try:
                kernel = compiled(self.written(*key))
            except ImportError:  # Numba, and llvmlite with it, is not installed
                pass
            except Exception as error:
                warnings.warn(
                    f"{self.formula.__name__}: no compiled kernel ({type(error).__name__}: {error}); torch does it, "
                    "more slowly",
                    RuntimeWarning,
                    stacklevel=2,
                )
            self._kernels[key] = kernel
        return self._kernels[key]

    def written(
        self,
        dtypes: tuple[torch.dtype, ...],
        wanted: tuple[bool, ...] | None = None,
        summed: bool = False,
        hyperbolic: bool = False,
    ) -> str:
        """The loop in LLVM's language for arguments of these dtypes: forward, or backward to those ``wanted``."""
        dtype = dtypes[self._first]
        kind = _KINDS[dtype]
        tape = Tape(eps=torch.finfo(dtype).eps, wide=dtype == torch.float64, hyperbolic=hyperbolic)
        symbols: list[Any] = []
        arguments: list[Argument] = []
        for word, of in zip(self.kinds, dtypes, strict=True):
            symbols.append(_symbol(tape, word, len(arguments)))
            arguments += [Argument(part, _KINDS[of]) for part in _parts(tape, symbols[-1])]
        given = len(arguments)
        made = _parts(tape, self.formula(*symbols))
        results = [Argument(part, "double" if summed else kind) for part in made]
        if wanted is not None:
            gradient = _parts(tape, _symbol(tape, self.gives, given))
            arguments += [Argument(part, kind) for part in gradient]
            results = self._slopes(tape, arguments[:given], wanted, kind, zip(made, gradient, strict=True))
        bent: NumberSymbol | None = None
        if hyperbolic:
            bent = symbols[self.names.index("k")] if "k" in self.names else -symbols[self.names.index("c")]
        return write("kernel", tape, arguments, results, bent, summed=summed and wanted is None)

    def _slopes(
        self, tape: Tape, arguments: Sequence[Argument], wanted: tuple[bool, ...], kind: str, results: Any
    ) -> list[Argument]:
        """The gradients of the wanted arguments: numbers in float64, since they are yet to be added up."""
        rows, numbers = backward(tape, results)
        slopes, place, count = [], 0, 0
        for word, want in zip(self.kinds, wanted, strict=True):
            for part in _PARTS[word]:
                is_row = part == "Row"
                slope: Any = RowSymbol(tape, {}) if is_row else tape.constant(0.0)
                slope = rows.get(count, slope) if is_row else numbers.get(place, slope)
                if want:
                    slopes.append(Argument(slope, "double" if word == "Number" else kind))
                place, count = place + 1, count + is_row
        return slopes

    def run(
        self, summed: bool, arguments: Sequence[Any], wanted: tuple[bool, ...] | None, gradient: Tensor | None
    ) -> list[Tensor] | None:
        """Carries out the loop, forward or backward; None if there is none."""
        given = [a if isinstance(a, Tensor) else _constant(float(a)) for a in arguments]
        row = given[self._first]
        dtype, size = row.dtype, row.shape[-1] - (self.kinds[self._first] == "Ambient")
        batch = _batch(tuple([value.shape[:-1] for value in given]))
        key: tuple[Any, ...] = (tuple([value.dtype for value in given]), wanted, summed)
        if gradient is not None:
            given.append(gradient)
        integers, keep, count = _layout(given, batch, size, summed)
        if not self._whole or self.gives == "Ambient":
            integers = _spread(integers, (*self.kinds, self.gives), dtype.itemsize)
        if wanted is not None:
            asked = [word for word, want in zip(self.kinds, wanted, strict=True) if want]
            results = [_empty(batch, word, size, dtype if word != "Number" else torch.float64) for word in asked]
        elif summed:
            asked = [self.gives]
            results = [_empty((*batch[:-1], 1), self.gives, size, torch.float64).zero_()]
        else:
            asked = [self.gives]
            results = [_empty(batch, self.gives, size, dtype)]
        for word, result in zip(asked, results, strict=True):
            address, stride = result.data_ptr(), result.shape[-1]
            integers += [address, stride]
            if word == "Ambient":
                integers += [address + result.element_size(), stride]
        array = _array(len(integers))(*integers)
        for hyperbolic in self._signs if count else ():
            kernel = self._kernels.get((*key, hyperbolic)) or self._kernel((*key, hyperbolic))
            if kernel is None:
                return None
            if kernel(array) == 0:
                break
            if summed and wanted is None:
                results[0].zero_()
        del keep  # copies of arguments that had to be made
        return results

    def forward(self, summed: bool, arguments: Sequence[Any]) -> Tensor:
        """The result without a graph, by the loop if there is one."""
        results = self.run(summed, arguments, None, None)
        if results is None:
            return self.by_torch(summed, [a.detach() if isinstance(a, Tensor) else a for a in arguments])
        return results[0].to(arguments[self._first].dtype) if summed else results[0]

    def backward(
        self, summed: bool, arguments: Sequence[Any], wanted: tuple[bool, ...], gradient: Tensor
    ) -> list[Tensor] | None:
        """The gradients of the wanted arguments by the loop; None where torch has to find them."""
        if torch.is_grad_enabled() or _transformed() or not _in_memory(gradient):
            return None
        return self.run(summed, arguments, wanted, gradient)


class _Fused(torch.autograd.Function):
    """An operation in one loop; only its arguments are kept for the way back."""

    @staticmethod
    def forward(ctx: Any, operation: Operation, summed: bool, *arguments: Any) -> Tensor:
        ctx.operation, ctx.summed = operation, summed
        ctx.floats = [None if isinstance(a, Tensor) else a for a in arguments]
        ctx.save_for_backward(*[a for a in arguments if isinstance(a, Tensor)])
        return operation.forward(summed, arguments)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        operation, saved = ctx.operation, iter(ctx.saved_tensors)
        arguments = [next(saved) if number is None else number for number in ctx.floats]
        wanted = tuple(ctx.needs_input_grad[2:])
        results = operation.backward(ctx.summed, arguments, wanted, gradient)
        if results is None:  # derivatives of derivatives are torch's
            return None, None, *_by_torch(operation, ctx.summed, arguments, wanted, gradient)
        given = iter(results)
        return (
            None,
            None,
            *[
                _reduced(next(given), argument) if want else None
                for argument, want in zip(arguments, wanted, strict=True)
            ],
        )


def _by_torch(
    operation: Operation, summed: bool, arguments: list[Any], wanted: tuple[bool, ...], gradient: Tensor
) -> list[Any]:
    create = torch.is_grad_enabled()
    with torch.enable_grad():
        inner = [
            a if create or not want else a.detach().requires_grad_() for a, want in zip(arguments, wanted, strict=True)
        ]
        result = operation.by_torch(summed, inner)
        asked = [a for a, want in zip(inner, wanted, strict=True) if want]
        found = iter(torch.autograd.grad(result, asked, gradient, create_graph=create, allow_unused=True))
    return [next(found) if want else None for want in wanted]


# --- symbols ----------------------------------------------------------------------------------------------------------


def _symbol(tape: Tape, word: str, place: int) -> Any:
    if word == "Row":
        return tape.new_row()
    number = tape.argument(place)
    return Ambient(number, tape.new_row()) if word == "Ambient" else number


def _parts(tape: Tape, value: Any) -> list[Any]:
    """The symbols that an argument or a result is made of."""
    parts = list(value) if isinstance(value, Ambient) else [value]
    return [part if isinstance(part, NumberSymbol | RowSymbol) else tape.constant(part) for part in parts]


# --- arguments --------------------------------------------------------------------------------------------------------


def _word(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))


_ALLOWED = contextvars.ContextVar("compiled loops", default=True)


@contextlib.contextmanager
def plain_torch() -> Iterator[None]:
    """Inside, operations are torch's, as they are where nothing can be compiled.

    >>> with plain_torch():
    ...     length = Operation(lambda x: x)  # and whatever else is called
    """
    token = _ALLOWED.set(False)
    try:
        yield
    finally:
        _ALLOWED.reset(token)


def _transformed() -> bool:
    """Whether torch.func, forward-mode differentiation or a mode that watches operators is at work."""
    return (
        torch._C._functorch.peek_interpreter_stack() is not None
        or torch._C._len_torch_dispatch_stack() > 0
        or torch.autograd.forward_ad._current_level >= 0
    )


_DISABLED = torch._C._disabled_torch_function_impl


def _in_memory(value: Tensor) -> bool:
    """Whether a tensor lies in the CPU's memory and is of no subclass that wants to see the operators."""
    kind = type(value)
    return (
        (kind is Tensor or kind.__torch_function__ is _DISABLED)
        and value.device.type == "cpu"
        and value.layout is torch.strided
        and not value.is_neg()
    )


@functools.lru_cache(4096)
def _constant(value: float) -> Tensor:
    return torch.tensor([value], dtype=torch.float64)


@functools.lru_cache(64)
def _array(length: int) -> Any:
    return ctypes.c_int64 * length


@functools.lru_cache(4096)
def _batch(shapes: tuple[torch.Size, ...]) -> torch.Size:
    """The shape that the arguments broadcast to, without their last dimension."""
    try:
        return torch.Size(np.broadcast_shapes(*shapes))  # torch's function imports sympy, half a second
    except ValueError:
        return torch.broadcast_shapes(*shapes)  # its error is the one that users of torch know


def _layout(given: Sequence[Tensor], batch: torch.Size, size: int, summed: bool) -> tuple[list[int], list[Tensor], int]:
    """Rows from, rows to, inner length, size of a row; then address, outer and inner stride of each argument."""
    count = batch.numel()
    integers, keep = [0, count, count or 1, size], []
    for value in given:
        if summed:
            return _strided(given, batch, size, summed)
        if value.numel() == 1:
            strides = (0, 0)
        elif value.shape[:-1] == batch and value.is_contiguous():
            strides = (0, value.shape[-1])
        elif value.numel() == value.shape[-1]:
            value, strides = value.contiguous(), (0, 0)
        else:
            return _strided(given, batch, size, summed)
        keep.append(value)
        integers += [value.data_ptr(), *strides]
    return integers, keep, count


def _spread(integers: list[int], words: Sequence[str], itemsize: int) -> list[int]:
    """A layout in which each part of an argument has its own address."""
    spread = integers[:4]
    for place, word in zip(range(4, len(integers), 3), words, strict=False):
        address, *strides = integers[place : place + 3]
        spread += [address, *strides]
        if word == "Ambient":
            spread += [address + itemsize, *strides]
    return spread


def _empty(batch: Sequence[int], word: str, size: int, dtype: torch.dtype) -> Tensor:
    return torch.empty((*batch, {"Number": 1, "Row": size, "Ambient": size + 1}[word]), dtype=dtype)


def _apart(value: Any, word: str) -> Any:
    """A tensor as a formula takes it."""
    if word != "Ambient":
        return value
    # not by slicing, which fake CUDA tensors do not survive without CUDA
    return Ambient(value.narrow(-1, 0, 1), value.narrow(-1, 1, value.shape[-1] - 1))


def _together(point: Ambient) -> Tensor:
    first, rest = point
    if not isinstance(first, Tensor):
        first = rest.new_full((1,), first)
    if first.shape[:-1] != rest.shape[:-1]:
        batch = torch.broadcast_shapes(first.shape[:-1], rest.shape[:-1])
        first, rest = first.expand(*batch, 1), rest.expand(*batch, rest.shape[-1])
    return torch.cat([first, rest], dim=-1)


def _strided(
    given: Sequence[Tensor], batch: torch.Size, size: int, summed: bool
) -> tuple[list[int], list[Tensor], int]:
    """The same where arguments are views or are broadcast: with two axes at most, else they are copied. Of a sum over
    the last axis of the batch that axis is the inner one."""
    views = [value.expand(*batch, value.shape[-1] if value.dim() else 1) for value in given]
    views = [v if v.stride(-1) == 1 or v.shape[-1] == 1 else v.contiguous() for v in views]
    axes = _axes(batch, views, summed)
    if axes is None:
        views = [v.contiguous() for v in views]
        axes = _axes(batch, views, summed)
    assert axes is not None
    (outer, far), (inner, near) = axes
    integers = [0, outer * inner, inner or 1, size]
    for view, *strides in zip(views, far, near, strict=True):
        integers += [view.data_ptr(), *strides]
    return integers, views, outer * inner


_Axis = tuple[int, list[int]]


def _axes(batch: torch.Size, views: Sequence[Tensor], summed: bool) -> tuple[_Axis, _Axis] | None:
    """Outer and inner axis of a batch with their strides, neighbours made one where all arguments allow it."""
    axes: list[_Axis] = []
    for axis, length in enumerate(batch):
        steps = [view.stride(axis) for view in views]
        last = summed and axis == len(batch) - 1
        if length == 1 and not last:
            continue
        joined = axes and not last
        if joined and all(before == length * step for before, step in zip(axes[-1][1], steps, strict=True)):
            axes[-1] = (axes[-1][0] * length, steps)
        else:
            axes.append((length, steps))
    if len(axes) > 2:
        return None
    axes = [(1, [0] * len(views))] * (2 - len(axes)) + axes
    return axes[0], axes[1]


def _reduced(gradient: Tensor, argument: Tensor) -> Tensor:
    """The gradient of an argument that was broadcast, in its dtype."""
    if gradient.shape != argument.shape:
        gradient = (
            gradient.sum().reshape(argument.shape) if argument.numel() == 1 else gradient.sum_to_size(argument.shape)
        )
    return gradient if gradient.dtype == argument.dtype else gradient.to(argument.dtype)
