"""What every pure function of geometry checks and promises about its arguments.

Only metadata is looked at (dtype, device, shape), never a value, so that nothing here stalls a GPU or breaks a graph.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

__all__ = ["Curvature", "boundary_margin", "floating", "geometry", "of_vectors", "same_dimension"]

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


def geometry(function: F) -> F:
    """Give a pure function of points and ``k`` the common contract.

    Integer tensors, tensors on different devices and a curvature that is not a finite number are refused. float16 and
    bfloat16 points are computed in float32 and rounded once at the end. A curvature computes in the points' dtype. A
    function with an argument ``margin`` is told that of the points' own dtype.
    """
    signature = inspect.signature(function)
    near_the_edge = "margin" in signature.parameters
    curvature_name = "k" if "k" in signature.parameters else "c"

    index_at = list(signature.parameters).index("index") if "index" in signature.parameters else None

    def index_of(args: Any, kwargs: Any) -> Any:
        """The one argument that is to be of integers, if the function has one."""
        if index_at is None:
            return None
        return args[index_at] if len(args) > index_at else kwargs.get("index")

    def name_of(value: Any, args: Any, kwargs: Any) -> str:
        bound = signature.bind(*args, **kwargs)
        return next(name for name, given in bound.arguments.items() if given is value)

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Tensor:
        curvature = kwargs.get(curvature_name)
        points = [value for value in args if isinstance(value, Tensor)]
        points += [v for n, v in kwargs.items() if n != curvature_name and isinstance(v, Tensor)]
        if not points:
            raise TypeError(f"{function.__name__}: expected a tensor of points as the first argument, got {args[:1]}")
        dtype, device = points[0].dtype, points[0].device
        for value in points:
            if not value.dtype.is_floating_point:
                if value.dtype == torch.int64 and value is index_of(args, kwargs):
                    continue
                floating(function.__name__, name_of(value, args, kwargs), value)
            if value.device != device:
                raise ValueError(
                    f"{function.__name__}: {name_of(value, args, kwargs)!r} is on {value.device}, the first argument "
                    f"on {device}; move them to one device"
                )
            dtype = torch.promote_types(dtype, value.dtype)
        if near_the_edge:
            kwargs.setdefault("margin", boundary_margin(dtype))
        half = dtype in _HALF
        inner = torch.float32 if half else dtype
        if isinstance(curvature, Tensor):
            if not curvature.dtype.is_floating_point:
                raise TypeError(f"{function.__name__}: {curvature_name!r} is a {curvature.dtype} tensor; give a float")
            if curvature.device != device:
                raise ValueError(
                    f"{function.__name__}: the curvature {curvature_name!r} is on {curvature.device}, the points on "
                    f"{device}; move the manifold there with .to()"
                )
            if curvature.dtype != inner:
                kwargs[curvature_name] = curvature.to(inner)
        elif isinstance(curvature, float | int):
            if not math.isfinite(curvature):
                raise ValueError(f"{function.__name__}: {curvature_name!r} must be a finite number, got {curvature}")
        elif curvature is not None or curvature_name in signature.parameters:
            raise TypeError(
                f"{function.__name__}: the curvature {curvature_name!r} must be a number or a tensor given by keyword, "
                f"got {type(curvature).__name__}"
            )
        if half:
            args = tuple(_raised(value) for value in args)
            kwargs = {name: _raised(value) for name, value in kwargs.items()}
            return function(*args, **kwargs).to(dtype)
        return function(*args, **kwargs)

    return cast(F, checked)


def same_dimension(function: str, dim: int, **points: Tensor) -> None:
    """Refuse vectors whose size along ``dim`` differs: broadcasting would silently repeat a coordinate."""
    sizes = {name: value.shape[dim] if value.dim() else 0 for name, value in points.items()}
    if len(set(sizes.values())) != 1 or 0 in {value.dim() for value in points.values()}:
        given = ", ".join(f"{name} {tuple(value.shape)}" for name, value in points.items())
        raise ValueError(f"{function}: vectors must have one size along dim={dim}, got {given}")
