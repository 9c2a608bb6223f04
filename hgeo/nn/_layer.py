"""What every layer has: where its input and output live, a check of what it is given, a line that shows both."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter

from hgeo import manifolds
from hgeo._geoopt import geoopt
from hgeo.manifolds import describe

__all__ = [
    "Layer",
    "carry_factor",
    "check_shares",
    "choice",
    "coordinates",
    "describe",
    "manifold_of_heads",
    "point_parameter",
    "positive",
    "sized_map",
]


class Layer(nn.Module):
    """A module that names ``in_manifold`` and ``manifold``, and the intrinsic dimensions ``in_dim`` and ``out_dim``.

    A manifold of None means plain vectors, a dimension of None any (the output then has that of the input).
    """

    in_dim: int | None
    out_dim: int | None

    def __init__(self, in_manifold: Any, manifold: Any, in_dim: int | None = None, out_dim: int | None = None) -> None:
        super().__init__()
        own_name = type(self).__name__
        for value in (manifold, in_manifold):
            if value is not None and not isinstance(value, geoopt.Manifold):
                raise TypeError(f"{own_name}: expected a geoopt manifold, got {_what(value)}")
        for name, size in (("in_dim", in_dim), ("out_dim", out_dim)):
            if size is not None:
                positive(own_name, name, size)
        self.in_manifold, self.manifold = in_manifold, manifold
        self.in_dim, self.out_dim = in_dim, out_dim
        # How many numbers a row of the input has; a manifold without that dimension says so here.
        try:
            self._numbers = None if in_dim is None else self.numbers_of(in_dim)
            if out_dim is not None and manifold is not None:
                manifolds.ambient_dim(manifold, out_dim)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{own_name}: {error}") from error

    def numbers_of(self, dim: int) -> int:
        """How many numbers an input of this intrinsic dimension has."""
        return dim if self.in_manifold is None else manifolds.ambient_dim(self.in_manifold, dim)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        # a map that waits for its size has nothing to detach
        lazy = any(isinstance(weight, UninitializedParameter) for weight in self._parameters.values())
        super()._save_to_state_dict(destination, prefix, keep_vars or lazy)

    def check(self, x: Tensor, like: Tensor | None = None) -> None:
        """Refuse an input whose kind, size, device or dtype does not fit; values are not looked at."""
        name = type(self).__name__
        if not isinstance(x, Tensor):
            raise TypeError(f"{name}: expected a tensor, got {type(x).__name__}")
        if not x.dtype.is_floating_point:
            raise TypeError(f"{name}: points and vectors are floating-point, got {x.dtype}; convert with .float()")
        if x.dim() == 0 or (self._numbers is not None and x.shape[-1] != self._numbers):
            expected = f"(..., {self._numbers})" if self._numbers is not None else "(..., numbers of a point)"
            raise ValueError(
                f"{name}: expected {describe(self.in_manifold, self.in_dim)} of shape {expected}, "
                f"got shape {tuple(x.shape)}"
            )
        if like is not None and x.device != like.device:
            raise ValueError(f"{name}: the input is on {x.device}, the layer on {like.device}; move one with .to()")
        if like is not None and x.dtype != like.dtype and not torch.is_autocast_enabled(x.device.type):
            raise TypeError(
                f"{name}: the input is {x.dtype}, the layer {like.dtype}; convert one, for example layer.to(x.dtype)"
            )

    def extra_repr(self) -> str:
        """Where it leads from and to."""
        return f"{describe(self.in_manifold, self.in_dim)} → {describe(self.manifold, self.out_dim)}"


def _what(value: Any) -> str:
    """What was given instead of a manifold, and what to do."""
    if isinstance(value, str):
        return f"the text {value!r}; hgeo.space(text).manifold makes one of a text such as 'ball:16'"
    if isinstance(value, int):
        return f"the number {value}; all that is no dimension of input and output and no manifold is given by name"
    if isinstance(value, manifolds.Space):
        return "a Space, which is a pair: give its .manifold, and its .dim as the dimension"
    return f"{type(value).__name__}: {value!r}"


def sized_map(rows: int, size: int | None) -> nn.Parameter:
    """The weights of a linear map from ``size`` numbers, or ones that wait for it."""
    lazy: Any = UninitializedParameter  # a Parameter, as torch does not say
    return lazy() if size is None else nn.Parameter(torch.empty(rows, size))


def positive(layer: str, name: str, value: Any) -> None:
    """Refuse what is not a whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{layer}: {name} must be a whole number of at least 1, got {value!r}")


def choice(layer: str, name: str, value: Any, choices: tuple[Any, ...]) -> None:
    """Refuse what is not one of ``choices``."""
    if value not in choices:
        raise ValueError(f"{layer}: {name} must be one of {', '.join(map(repr, choices))}, got {value!r}")


def check_shares(layer: str, **shares: Any) -> None:
    """Refuse what is not a number in [0, 1)."""
    for name, share in shares.items():
        if not isinstance(share, int | float) or not 0.0 <= share < 1.0:
            raise ValueError(f"{layer}: {name} must lie in [0, 1), got {share!r}")


def coordinates(manifold: Any, x: Tensor) -> Tensor:
    """Tangent coordinates at the origin: log0 of points; plain vectors (manifold None) are coordinates already."""
    return x if manifold is None else manifolds.log0(manifold, x)


def carry_factor(source: Any, target: Any) -> float:
    """What coordinates are multiplied by to keep their Riemannian length from one origin frame to another."""
    if source is None or target is None:
        return 1.0
    return manifolds.frame_scale(source) / manifolds.frame_scale(target)


def point_parameter(manifold: Any, dim: int, *batch: int) -> Any:
    """A ``geoopt.ManifoldParameter`` of points at the origin, shape (*batch, numbers of a point)."""
    origin = manifolds.exp0(manifold, torch.zeros(*batch, dim)).detach()
    return geoopt.ManifoldParameter(origin, manifold=manifold)


def manifold_of_heads(layer: str, manifold: Any, dim: int, heads: int, merge: str) -> Any:
    """Where the merged output of heads of this dimension lives; ``manifold`` is one for all, or a sequence."""
    positive(layer, "out_dim", dim)
    positive(layer, "heads", heads)
    several = isinstance(manifold, list | tuple) and not isinstance(manifold, manifolds.Space)
    if merge == "product" and not isinstance(manifold, manifolds.Space):
        of_heads = list(manifold) if several else [manifold] * heads
        if len(of_heads) != heads:
            raise ValueError(f"a sequence of manifolds must have one a head: got {len(of_heads)} for {heads} heads")
        return manifolds.Product(*[(factor, dim) for factor in of_heads])
    if several:
        raise ValueError(f"a sequence of manifolds is for merge='product'; got merge={merge!r}")
    return manifold  # the layer says what a Space is
