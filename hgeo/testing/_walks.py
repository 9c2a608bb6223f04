"""How far a manifold that nobody knows can be explored: from a base point along its own exponential map.

Of a manifold of geoopt or hgeo it is known where its numbers end, and what a rounding costs where. Of any other this is
found out: points are reached by walking from a base point, at lengths of many scales, as long as the numbers that come
out are some that can be computed with. :func:`changes` says how far one rounding of its arguments moves a result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from hgeo.testing._space import Space

__all__ = ["SCALES", "LocalFrame", "far_scales", "moved"]

SCALES = (4.0, 5.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 48.0, 64.0, 256.0, 1024.0, 1e4)
"""Metric lengths of walks, beyond those that are tried on every manifold."""

_SIDES = 6
_RESOLVED = 1e-3


def moved(value: Tensor, seed: int, step: Tensor, *, each: bool = False) -> Tensor:
    """``value`` (rows, ...) with its numbers moved by a row's ``step``, relative to its largest, or ``each`` to itself.

    Every row is moved in the same way, so that one row alone is moved as it is among others.
    """
    generator = torch.Generator().manual_seed(seed)
    shape = (1, *value.shape[1:])
    signs = torch.randint(0, 2, shape, generator=generator) * 2 - 1
    parts = (signs * (0.5 + 0.5 * torch.rand(shape, generator=generator, dtype=torch.float64))).to(value.dtype)
    size, lead = value.detach().abs(), (-1, *[1] * (value.dim() - 1))
    if not each and value.dim() > 1:
        size = size.reshape(len(value), -1).amax(-1).reshape(lead)
    return value + parts * size * step.to(value.dtype).reshape(lead)


class LocalFrame:
    """Coordinates by the exponential map at one point, for a manifold to which hgeo gives no origin frame."""

    def __init__(self, manifold: Any, shape: Sequence[int], dtype: torch.dtype) -> None:
        self.manifold, self.shape = manifold, tuple(shape)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.base = self._some_point().detach().as_subclass(Tensor).to(dtype)
        self.basis = self._orthonormal()

    def _some_point(self) -> Tensor:
        point: Tensor
        for name in ("origin", "random"):
            try:
                point = getattr(self.manifold, name)(*self.shape)
                return point
            except Exception:  # an origin that cannot be had, for whatever reason, is one that is not there
                continue
        point = self.manifold.projx(torch.randn(*self.shape))
        return point

    def _orthonormal(self) -> Tensor:
        size, rows = math.prod(self.shape), list[Tensor]()
        for axis in torch.eye(size, dtype=self.base.dtype):
            u = self.manifold.proju(self.base, axis.reshape(self.shape))
            for _ in range(2):  # twice is enough
                for row in rows:
                    u = u - self.manifold.inner(self.base, u, row).reshape(()) * row
            squared = float(self.manifold.inner(self.base, u, u))
            if squared > 1e-6:
                rows.append(u / math.sqrt(squared))
        return torch.stack(rows)

    @property
    def dim(self) -> int:
        return len(self.basis)

    def exp0(self, v: Tensor) -> Tensor:
        """The points with coordinates ``v`` (rows, dim)."""
        tangents = torch.tensordot(v, self.basis.to(v), dims=1)
        point: Tensor = self.manifold.expmap(self.base.to(v).expand_as(tangents).clone(), tangents)
        return point

    def log0(self, x: Tensor) -> Tensor:
        """The coordinates of points."""
        base = self.base.to(x).expand_as(x).clone()
        tangents = self.manifold.logmap(base, x)
        parts = [self.manifold.inner(base, tangents, row.to(x).expand_as(x)).reshape(len(x)) for row in self.basis]
        return torch.stack(parts, dim=-1)


def far_scales(space: Space, walk: Callable[[Tensor], Tensor], dim: int) -> tuple[float, ...]:
    """The :data:`SCALES` at which walking still leads to numbers that can be computed with."""
    generator = torch.Generator().manual_seed(0)
    axes = torch.eye(dim, dtype=torch.float64)[:4]
    rows = torch.cat([axes, -axes, torch.randn(4, dim, dtype=torch.float64, generator=generator)])
    rows = (rows / rows.norm(dim=-1, keepdim=True)).to(space.dtype)
    reached = []
    for length in SCALES:
        try:
            with torch.no_grad():
                usable = _is_usable(space, walk, rows, length)
        except Exception:  # where a manifold raises, its numbers have ended
            break
        if not usable:
            break
        reached.append(length)
    return tuple(reached)


def _is_usable(space: Space, walk: Callable[[Tensor], Tensor], rows: Tensor, length: float) -> bool:
    points = walk(length * rows)
    if (
        not bool(torch.isfinite(points).all())
        or float(space.euclidean(points).max()) > torch.finfo(space.dtype).max ** 0.1
    ):
        return False  # what an operation multiplies must not overflow: the tenth power of a number can be represented
    if not float((space.rounding(points) * space.eps).max()) <= _RESOLVED:
        return False
    # two points may be twice as far apart, and then a formula may pass through numbers that are as coarse as there
    if not float((space.rounding(walk(2 * length * rows)) * space.eps).max()) <= space.eps ** (1 / 6):
        return False
    if space.has("projx") and not float(space.length(points, space.manifold.projx(points) - points).max()) <= _RESOLVED:
        return False
    # where equal steps do not change the numbers about equally, their digits have ended
    path = [walk((length + stride * _RESOLVED) * rows) for stride in range(5)]
    strides = torch.stack([space.euclidean(there - here) for here, there in pairwise(path)])
    goes_on = strides.amax(0) < 1.5 * strides.amin(0)
    if space.has("dist"):
        base = walk(0 * rows)
        distance = _numbers(space.manifold.dist(base, points))
        for side in range(2):
            beside = moved(points, side, torch.full((len(rows),), space.eps))
            # a distance that is no number does not end a walk among numbers that can be computed with
            goes_on &= ~((_numbers(space.manifold.dist(base, beside)) - distance).abs() > _RESOLVED * length)
    return bool(goes_on.double().mean() >= 0.5)


def _numbers(value: Tensor) -> Tensor:
    return value.double().reshape(len(value), -1).amax(-1)
