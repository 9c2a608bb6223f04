"""What every pure function of geometry checks and promises about its arguments.

Only metadata is looked at (dtype, device, shape), never a value, so that nothing here stalls a GPU or breaks a graph.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar, cast

import torch
from torch import Tensor

from hgeo.kernels import Operation

__all__ = ["Curvature", "boundary_margin", "floating", "geometry", "of_vectors", "operation", "same_dimension"]

Curvature = float | Tensor
"""A curvature: a number, or a tensor that broadcasts against the points."""

_HALF = (torch.float16, torch.bfloat16)

F = TypeVar("F", bound=Callable[..., Tensor])


def boundary_margin(dtype: torch.dtype) -> float:
    """The one projection margin: points of a ball are kept at √c|x| ≤ 1 - margin, margin = 4·eps of the dtype.

    It leaves tangent vectors up to √c|v| ≈ 7.6 (float32) or 17.7 (float64) apart from each other under exp0.

    >>> boundary_margin(torch.float32)
    4.76837158203125e-07
    """
    return 4.0 * torch.finfo(dtype).eps


def _raised(value: Any) -> Any:
    """A half-precision tensor in float32; anything else as it is."""
    return value.float() if isinstance(value, Tensor) and value.dtype in _HALF else value


def of_vectors(method: F) -> F:
    """Give a manifold's method whose tensors are all points or vectors of one size the common contract.

    Integer tensors, other devices and other sizes are refused; float16 and bfloat16 are computed in float32 and rounded
    once at the end. A method with an argument ``margin`` is told that of the dtype that was given.
    """
    names = list(inspect.signature(method).parameters)[1:]
    near_the_edge = "margin" in names  # such a method gets the margin of the points as they came

    @functools.wraps(method)
    def checked(manifold: Any, *args: Any, **kwargs: Any) -> Tensor:
        title = f"{type(manifold).__name__}.{method.__name__}"
        if args:
            floating(title, names[0], args[0])
        given = {name: value for name, value in zip(names, args, strict=False) if isinstance(value, Tensor)}
        for name, value in given.items():
            floating(title, name, value)
            if value.device != args[0].device:
                raise ValueError(
                    f"{title}: {name!r} is on {value.device}, the first argument on {args[0].device}; move them to one "
                    "device"
                )
        same_dimension(title, -1, **given)
        dtype = functools.reduce(torch.promote_types, [value.dtype for value in given.values()])
        if near_the_edge:
            kwargs.setdefault("margin", boundary_margin(dtype))
        if dtype not in _HALF:
            return method(manifold, *args, **kwargs)
        return method(manifold, *[_raised(value) for value in args], **kwargs).to(dtype)

    return cast(F, checked)


def floating(function: str, name: str, value: Any) -> None:
    """Refuse a tensor of integers, and what is no tensor."""
    if not isinstance(value, Tensor):
        raise TypeError(
            f"{function}: {name!r}: expected a torch tensor, got {type(value).__name__}; convert it, for example with "
            "torch.as_tensor(...).float()"
        )
    if not value.dtype.is_floating_point:
        raise TypeError(
            f"{function}: {name!r} is a {value.dtype} tensor; points and vectors are floating-point: convert it, for "
            "example with .float()"
        )


class PublicOperation(Protocol):
    """A function of tensors, and the formula that it carries out, for other formulas to use."""

    formula: Callable[..., Any]

    def __call__(self, *args: Any, **kwargs: Any) -> Tensor: ...


def operation(formula: Callable[..., Any]) -> PublicOperation:
    """Makes of a formula of rows and numbers, whose last argument is the curvature, a public function of tensors.

    Vectors lie along ``dim``, the curvature is given by keyword, and a function that gives numbers has ``keepdim``.
    Integer tensors, tensors on different devices, vectors of different sizes and a curvature that is not a finite
    number are refused. float16 and bfloat16 are computed in float32 and rounded once at the end. A curvature computes
    in the points' dtype. See :class:`hgeo.kernels.Operation` for how a formula is carried out.

    >>> from hgeo.kernels import Number, Row, dot
    >>> @operation
    ... def height(x: Row, k: Number) -> Number:
    ...     return (1 - k * dot(x, x)) / (1 + k * dot(x, x))
    >>> height(torch.tensor([[0.0, 0.5], [0.6, 0.0]]), k=-1.0)
    tensor([1.6667, 2.1250])
    """
    compute = Operation(formula)
    *names, curvature_name = compute.names
    is_row, title = compute.is_row, formula.__name__

    def public(*args: Any, dim: int = -1, keepdim: bool = False, **kwargs: Any) -> Tensor:
        curvature = kwargs.pop(curvature_name, None)
        if kwargs or len(args) != len(names):
            args = _by_name(title, names, args, kwargs)
        dtype = checked(title, names, args, is_row, curvature_name, curvature, dim)
        inner = torch.float32 if dtype in _HALF else dtype
        values = [
            value.to(inner) if isinstance(value, Tensor) and value.dtype != inner else value
            for value in (*args, curvature)
        ]
        if dim != -1:
            values = _along_the_last(values, is_row, dim)
        result = compute(*values)
        if not compute.gives_row and not keepdim:
            result = result.squeeze(-1)
        elif dim != -1:
            result = result.movedim(-1, dim)
        return result if inner == dtype else result.to(dtype)

    functools.update_wrapper(public, formula)
    signature = _signature(names, curvature_name, keepdim=not compute.gives_row)
    vars(public).update(formula=formula, __signature__=signature)
    return cast(PublicOperation, public)


def _signature(names: Sequence[str], curvature: str, *, keepdim: bool) -> inspect.Signature:
    """That of a public function: its tensors, then by keyword the curvature and how its vectors lie."""
    kinds = inspect.Parameter
    parameters = [kinds(name, kinds.POSITIONAL_OR_KEYWORD, annotation=Tensor) for name in names]
    parameters.append(kinds(curvature, kinds.KEYWORD_ONLY, annotation=Curvature))
    parameters.append(kinds("dim", kinds.KEYWORD_ONLY, default=-1, annotation=int))
    if keepdim:
        parameters.append(kinds("keepdim", kinds.KEYWORD_ONLY, default=False, annotation=bool))
    return inspect.Signature(parameters, return_annotation=Tensor)


def _by_name(title: str, names: Sequence[str], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """All arguments in their order, some of which were given by name."""
    rest = names[len(args) :]
    if len(args) > len(names) or set(kwargs) != set(rest):
        raise TypeError(f"{title} takes {', '.join(names)}; got {len(args)} in a row and {sorted(kwargs)} by name")
    return (*args, *[kwargs[name] for name in rest])


def _along_the_last(values: list[Any], is_row: Sequence[bool], dim: int) -> list[Any]:
    """Vectors along ``dim`` turned to lie along the last dimension; numbers and curvatures with them."""
    rows = [value for value, row in zip(values, is_row, strict=True) if row]
    count = max(row.dim() for row in rows)
    axis = dim - count if dim >= 0 else dim
    turned = []
    for value, row in zip(values, is_row, strict=True):
        if not isinstance(value, Tensor) or (not row and value.dim() == 0):
            turned.append(value)
            continue
        padded = value if row else value.reshape((1,) * (count - value.dim()) + value.shape)
        turned.append(padded.movedim(axis, -1))
    return turned


def checked(
    title: str,
    names: Sequence[str],
    values: Sequence[Any],
    is_row: Sequence[bool],
    curvature_name: str,
    curvature: Any,
    dim: int = -1,
) -> torch.dtype:
    """The common dtype of the arguments of a function, once it is sure that they have one; nothing but metadata is
    looked at.
    """
    dtype = device = size = None
    for name, value, row in zip(names, values, is_row, strict=False):
        if not isinstance(value, Tensor):
            if row or not isinstance(value, float | int):
                floating(title, name, value)
            continue
        if not value.dtype.is_floating_point:
            floating(title, name, value)
        if device is None:
            device = value.device
        elif value.device != device:
            raise ValueError(
                f"{title}: {name!r} is on {value.device}, the first argument on {device}; move them to one device"
            )
        if row:
            length = value.shape[dim] if value.dim() else 0
            if size is None:
                size = length
            if length != size or not value.dim():
                same_dimension(title, dim, **{n: v for n, v, r in zip(names, values, is_row, strict=False) if r})
        if dtype is None:
            dtype = value.dtype
        elif value.dtype != dtype:
            dtype = torch.promote_types(dtype, value.dtype) if value.dim() else dtype
    if dtype is None:
        raise TypeError(f"{title}: expected a tensor of points as the first argument, got {values[:1]}")
    check_curvature(title, curvature_name, curvature, device)
    return dtype


def check_curvature(title: str, name: str, curvature: Any, device: Any) -> None:
    """Refuse what is no finite number and no tensor of floats on the points' device."""
    if isinstance(curvature, Tensor):
        if not curvature.dtype.is_floating_point:
            raise TypeError(f"{title}: {name!r} is a {curvature.dtype} tensor; give a float")
        if curvature.device != device:
            raise ValueError(
                f"{title}: the curvature {name!r} is on {curvature.device}, the points on {device}; move the manifold "
                "there with .to()"
            )
    elif isinstance(curvature, float | int):
        if not math.isfinite(curvature):
            raise ValueError(f"{title}: {name!r} must be a finite number, got {curvature}")
    else:
        raise TypeError(
            f"{title}: the curvature {name!r} must be a number or a tensor given by keyword, got "
            f"{type(curvature).__name__}"
        )


def geometry(function: F) -> F:
    """The contract of :func:`operation` for a function of tensors that is no formula of rows: its tensors are checked
    and raised, their shapes are its own affair. An argument ``index`` is one of integers.
    """
    parameters = list(inspect.signature(function).parameters)
    curvature_name = "k" if "k" in parameters else "c"

    @functools.wraps(function)
    def contracted(*args: Any, **kwargs: Any) -> Tensor:
        curvature = kwargs.get(curvature_name)
        given = {**dict(zip(parameters, args, strict=False)), **kwargs}
        given = {n: v for n, v in given.items() if isinstance(v, Tensor) and n not in (curvature_name, "index")}
        title = function.__name__
        dtype = checked(title, list(given), list(given.values()), [False] * len(given), curvature_name, curvature)
        inner = torch.float32 if dtype in _HALF else dtype
        args = tuple(_raised(value) for value in args)
        kwargs = {name: _raised(value) for name, value in kwargs.items()}
        if isinstance(curvature, Tensor):
            kwargs[curvature_name] = curvature.to(inner)
        return function(*args, **kwargs).to(dtype)

    return cast(F, contracted)


def same_dimension(function: str, dim: int, **points: Tensor) -> None:
    """Refuse vectors whose size along ``dim`` differs: broadcasting would silently repeat a coordinate."""
    sizes = {name: value.shape[dim] if value.dim() else 0 for name, value in points.items()}
    if len(set(sizes.values())) != 1 or 0 in {value.dim() for value in points.values()}:
        given = ", ".join(f"{name} {tuple(value.shape)}" for name, value in points.items())
        raise ValueError(f"{function}: vectors must have one size along dim={dim}, got {given}")
