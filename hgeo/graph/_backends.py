"""Which implementations of message passing exist, which of them can run here, and which is the fastest."""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from hgeo.graph import _dgl, _fused, _reference, _scatter, _torch, _torch_attention

if TYPE_CHECKING:
    from hgeo.graph._work import OneCall, Work

__all__ = ["BACKENDS", "Backend", "BackendTable", "backends", "resolve"]


@dataclass(frozen=True)
class Backend:
    """Three operations on the edges of a graph, in its own edge order, and, if there is one, all of them fused.

    Attributes:
        name: what ``backend=`` calls it.
        why_not: why it cannot run on a kind of device ("cpu", "cuda", …), or None if it can.
        edge_distance: (graph, u (S, H, d), k (H,)) → (E, H), of the points exp0(u).
        edge_softmax: (graph, scores (E, H)) → (E, H), summing to 1 over the edges into a destination.
        weighted_sum: (graph, weights (E, H) or (E, 1), None: all 1, values (S, H, d)) → (D, H, d).
        plan: (work) → what computes it in one call, or a sentence why it is composed of the three. The work is one
            weighted sum of tangent rows by distance, on a space of known parts (``work.why_not_one_sum()`` is None).
        scaled_sum: (graph, values, source or None, target or None) → that sum of weights 1, its terms and results
            multiplied by columns, in one pass; None where it cannot.
        in_double: compute in float64 whatever is given, and round once.
    """

    name: str
    why_not: Callable[[str], str | None]
    edge_distance: Callable[..., Tensor]
    edge_softmax: Callable[..., Tensor]
    weighted_sum: Callable[..., Tensor]
    plan: Callable[[Work], OneCall | str] | None = None
    scaled_sum: Callable[..., Tensor | None] | None = None
    in_double: bool = False

    def raised(self, values: Tensor) -> Tensor:
        """``values`` in the dtype in which this backend computes: half precision in float32."""
        if self.in_double and values.device.type != "mps":  # which has no float64
            return values.double()
        return values.float() if values.dtype in (torch.float16, torch.bfloat16) else values


def _why_not_fused(device_type: str) -> str | None:
    can, reason = _fused.available(device_type)
    return None if can else reason


def _always(device_type: str) -> str | None:
    return None


# fastest first: "auto" takes the first that can run
_BACKENDS = {
    backend.name: backend
    for backend in (
        Backend(
            "fused",
            _why_not_fused,
            _torch.edge_distance,
            _torch.edge_softmax,
            _fused.weighted_sum,
            _fused.plan,
            _fused.scaled_sum,
        ),
        Backend(
            "torch",
            _always,
            _torch.edge_distance,
            _torch.edge_softmax,
            _torch.weighted_sum,
            _torch_attention.plan,
        ),
        Backend("dgl", _dgl.why_not, _dgl.edge_distance, _dgl.edge_softmax, _dgl.weighted_sum),
        Backend("scatter", _scatter.why_not, _scatter.edge_distance, _scatter.edge_softmax, _scatter.weighted_sum),
        Backend(
            "reference",
            _always,
            _reference.edge_distance,
            _reference.edge_softmax,
            _reference.weighted_sum,
            in_double=True,
        ),
    )
}

BACKENDS = tuple(_BACKENDS)
# Where the vectors of the CPU kernels were measured. Elsewhere they run if asked for, but may be slow.
_MEASURED_PROCESSORS = ("x86_64", "AMD64")


def _fastest(device_type: str) -> str:
    """What "auto" takes."""
    slow_here = {"fused"} if device_type == "cpu" and platform.machine() not in _MEASURED_PROCESSORS else set()
    # one after the other: asking a backend whether it can run takes as long as the kernels do on a small graph
    return next(n for n, backend in _BACKENDS.items() if n not in slow_here and backend.why_not(device_type) is None)


def _usable(name: str, device_type: str) -> str:
    """The name of the backend to use; what is installed does not change while a process runs."""
    if name == "auto":
        return _fastest(device_type)
    if name not in _BACKENDS:
        raise ValueError(f"there is no backend {name!r}; there are 'auto', " + ", ".join(map(repr, _BACKENDS)))
    reason = _BACKENDS[name].why_not(device_type)
    if reason is not None:
        raise ValueError(f"backend {name!r} cannot run on {device_type}: {reason}. Use backend='auto'")
    return name


# What torch.compiler.assume_constant_result does; calling it would import the whole compiler with this module.
_usable._dynamo_marked_constant = True  # type: ignore[attr-defined]


def resolve(name: str, device_type: str) -> Backend:
    """The backend of that name, or with "auto" the fastest that can run on that kind of device."""
    return _BACKENDS[_usable(name, device_type)]


class BackendTable(dict[str, str | None]):
    """Backend name → why it cannot run, or None if it can; prints as a table."""

    def __init__(self, device_type: str) -> None:
        super().__init__({name: backend.why_not(device_type) for name, backend in _BACKENDS.items()})
        self.device_type = device_type

    def __repr__(self) -> str:
        lines = [f"backends on {self.device_type}, fastest first ('auto' takes {_fastest(self.device_type)!r})"]
        lines += [f"  {name:<10} {'available' if reason is None else 'no: ' + reason}" for name, reason in self.items()]
        return "\n".join(lines)

    __str__ = __repr__


def backends(device_type: str = "cpu") -> BackendTable:
    """What can run on this kind of device, and why the rest cannot.

    Example:
        >>> import hgeo.graph
        >>> print(hgeo.graph.backends())  # doctest: +ELLIPSIS
        backends on cpu, fastest first ('auto' takes ...
        >>> hgeo.graph.backends()["reference"] is None
        True
    """
    return BackendTable(device_type)
