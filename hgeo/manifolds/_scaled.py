"""A space with another unit of length, geoopt's ``Scaled``."""

from __future__ import annotations

from types import MethodType
from typing import Any

from torch import Tensor

from hgeo._geoopt import geoopt
from hgeo.manifolds._functions import (
    ambient_dim,
    describe,
    dist,
    exp0,
    fold,
    frame_scale,
    geometry,
    intrinsic_dim,
    lift,
    lift_rows,
    log0,
    lower,
    lower_rows,
    project,
    register,
    sqdist,
    translate,
    translate_back,
    translate_rows,
    validate,
)
from hgeo.manifolds._geometry import Geometry, Part

__all__ = ["Scaled", "ScaledGeometry"]


class Scaled(geoopt.Scaled):
    """A ``geoopt.Scaled``, distances times ``scale``, that can be pickled.

    geoopt's keeps its rescaled operations as methods bound to itself, and a pickle of these asks the space that is
    being made for them, without end.

    >>> import torch, hgeo, pickle
    >>> wide = pickle.loads(pickle.dumps(hgeo.Scaled(hgeo.PoincareBall(), 2.0)))
    >>> float(wide.dist(torch.zeros(2), torch.tensor([0.5, 0.0])))  # twice ln 3
    2.1972246170043945
    """

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        state = {name: value for name, value in vars(self).items() if not isinstance(value, MethodType)}
        return type(self), (self.base,), state


class ScaledGeometry(Geometry):
    """The base's points. Distances are ``scale`` times the base's, coordinates too: a unit one keeps its length."""

    def exp0(self, manifold: geoopt.Manifold, v: Tensor) -> Tensor:
        return exp0(manifold.base, v / manifold.scale.to(v.dtype))

    def log0(self, manifold: geoopt.Manifold, x: Tensor) -> Tensor:
        return log0(manifold.base, x) * manifold.scale.to(x.dtype)

    def fold(self, manifold: geoopt.Manifold, v: Tensor) -> Tensor:
        unit = manifold.scale.to(v.dtype)
        return fold(manifold.base, v / unit) * unit

    def scale(self, manifold: geoopt.Manifold) -> float:
        return frame_scale(manifold.base)

    def ambient_dim(self, manifold: geoopt.Manifold, d: int) -> int:
        return ambient_dim(manifold.base, d)

    def intrinsic_dim(self, manifold: geoopt.Manifold, n: int) -> int:
        return intrinsic_dim(manifold.base, n)

    def dist(self, manifold: geoopt.Manifold, x: Tensor, y: Tensor) -> Tensor:
        return dist(manifold.base, x, y) * manifold.scale.to(x.dtype)

    def sqdist(self, manifold: geoopt.Manifold, x: Tensor, y: Tensor) -> Tensor:
        return sqdist(manifold.base, x, y) * manifold.scale.to(x.dtype) ** 2

    def pairs(self, manifold: geoopt.Manifold, x: Tensor, y: Tensor) -> Tensor:
        return geometry(manifold.base).pairs(manifold.base, x, y) * manifold.scale.to(x.dtype)

    def project(self, manifold: geoopt.Manifold, x: Tensor) -> Tensor:
        return project(manifold.base, x)

    def translate(self, manifold: geoopt.Manifold, p: Tensor, x: Tensor) -> Tensor:
        return translate(manifold.base, p, x)

    def translate_back(self, manifold: geoopt.Manifold, p: Tensor, x: Tensor) -> Tensor:
        return translate_back(manifold.base, p, x)

    def lifted_dim(self, manifold: geoopt.Manifold, n: int) -> int:
        return geometry(manifold.base).lifted_dim(manifold.base, n)

    def lift(self, manifold: geoopt.Manifold, x: Tensor) -> Tensor:
        return lift(manifold.base, x)

    def lower(self, manifold: geoopt.Manifold, s: Tensor) -> Tensor:
        return lower(manifold.base, s)

    def translate_rows(self, manifold: geoopt.Manifold, u: Tensor, x: Tensor) -> Tensor:
        unit = manifold.scale.to(u.dtype)
        return translate_rows(manifold.base, u / unit, x) * unit

    def lifted_rows_dim(self, manifold: geoopt.Manifold, d: int) -> int:
        return geometry(manifold.base).lifted_rows_dim(manifold.base, d)

    def lift_rows(self, manifold: geoopt.Manifold, u: Tensor, weights: Tensor | None = None) -> Tensor:
        return lift_rows(manifold.base, u / manifold.scale.to(u.dtype), weights)

    def lower_rows(self, manifold: geoopt.Manifold, s: Tensor) -> Tensor:
        return lower_rows(manifold.base, s) * manifold.scale.to(s.dtype)

    def plane_distance(self, manifold: geoopt.Manifold, x: Tensor, p: Tensor, a: Tensor) -> Tensor:
        return manifold.scale.to(x.dtype) * geometry(manifold.base).plane_distance(manifold.base, x, p, a)

    def plane_score(self, manifold: geoopt.Manifold, x: Tensor, p: Tensor, a: Tensor) -> Tensor:
        return manifold.scale.to(x.dtype) * geometry(manifold.base).plane_score(manifold.base, x, p, a)

    def to_ball(self, manifold: geoopt.Manifold, x: Tensor) -> Tensor:
        return geometry(manifold.base).to_ball(manifold.base, x) * manifold.scale.to(x.dtype)

    def from_ball(self, manifold: geoopt.Manifold, y: Tensor) -> Tensor:
        return geometry(manifold.base).from_ball(manifold.base, y / manifold.scale.to(y.dtype))

    def has_spatial(self, manifold: geoopt.Manifold) -> bool:
        return geometry(manifold.base).has_spatial(manifold.base)

    def to_spatial(self, manifold: geoopt.Manifold, x: Tensor) -> Tensor:
        return geometry(manifold.base).to_spatial(manifold.base, x) * manifold.scale.to(x.dtype)

    def from_spatial(self, manifold: geoopt.Manifold, s: Tensor) -> Tensor:
        return geometry(manifold.base).from_spatial(manifold.base, s / manifold.scale.to(s.dtype))

    def curvature(self, manifold: geoopt.Manifold) -> Tensor | None:
        k = geometry(manifold.base).curvature(manifold.base)
        return None if k is None else k / manifold.scale.to(k) ** 2

    def parts(self, manifold: geoopt.Manifold, d: int) -> list[Part] | None:
        inside = geometry(manifold.base).parts(manifold.base, d)
        return inside and [
            part._replace(curvature=part.curvature / manifold.scale.to(part.curvature) ** 2) for part in inside
        ]

    def free_coordinates(self, manifold: geoopt.Manifold) -> bool:
        return geometry(manifold.base).free_coordinates(manifold.base)

    def validate(self, manifold: geoopt.Manifold, x: Tensor, name: str) -> None:
        validate(manifold.base, x, name=name)

    def describe(self, manifold: geoopt.Manifold, dim: int | None = None) -> str:
        return f"{float(manifold.scale.detach()):.4g}·({describe(manifold.base, dim)})"


register(geoopt.Scaled, ScaledGeometry())
