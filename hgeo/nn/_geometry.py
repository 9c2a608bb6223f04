r"""What layers ask of a manifold beyond its origin frame: translations, midpoints, hyperplanes, bounds.

    project(manifold, x)               x brought back onto the manifold, within the radius its dtype can tell apart
    translate(manifold, p, x)          T_p(x), the isometry that carries the origin to p along their geodesic; p ⊕ x
    translate_back(manifold, p, x)     T_p⁻¹(x); ⊖p ⊕ x
    lift(manifold, x), lower(…, s)     points -> vectors whose weighted sums are lowered to gyromidpoints
    plane_distance(manifold, x, p, a)  signed distance to the hyperplane through p orthogonal to the transported a
    curvature(manifold)                the signed curvature of a space of constant curvature, else None

One class a kind of manifold, found by the manifold's class as in :mod:`hgeo.manifolds`. A kind not listed is served by
its own ``expmap``, ``logmap`` and ``transp``, and has no midpoint and no hyperplanes.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hgeo import manifolds
from hgeo import math as hm
from hgeo._geoopt import geoopt

__all__ = [
    "check_midpoint",
    "curvature",
    "lift",
    "lower",
    "plane_distance",
    "project",
    "translate",
    "translate_back",
]


def _dot(x: Tensor, y: Tensor) -> Tensor:
    return (x * y).sum(-1, keepdim=True)


def _unit(a: Tensor) -> Tensor:
    """a/|a|, and 0 for a = 0."""
    squared = _dot(a, a)
    return a * torch.rsqrt(torch.where(squared == 0, 1.0, squared))


def _raised(x: Tensor) -> Tensor:
    """float16 and bfloat16 in float32; anything else as it is."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


class Geometry:
    """Any manifold with expmap, logmap and transp."""

    def curvature(self, manifold: Any) -> Tensor | None:
        return None

    def project(self, manifold: Any, x: Tensor) -> Tensor:
        return manifold.projx(x)

    def translate(self, manifold: Any, p: Tensor, x: Tensor) -> Tensor:
        p, x = torch.broadcast_tensors(p, x)
        origin = self._origin(manifold, x)
        return manifold.expmap(p, manifold.transp(origin, p, manifold.logmap(origin, x)))

    def translate_back(self, manifold: Any, p: Tensor, x: Tensor) -> Tensor:
        p, x = torch.broadcast_tensors(p, x)
        origin = self._origin(manifold, x)
        return manifold.expmap(origin, manifold.transp(p, origin, manifold.logmap(p, x)))

    def check_midpoint(self, manifold: Any) -> None:
        if type(self) is Geometry:
            raise self._missing(manifold, "a gyromidpoint", "use how='tangent' or how='frechet'")

    def lifted_dim(self, manifold: Any, n: int) -> int:
        raise self._missing(manifold, "a gyromidpoint", "use how='tangent' or how='frechet'")

    def lift(self, manifold: Any, x: Tensor) -> Tensor:
        raise self._missing(manifold, "a gyromidpoint", "use how='tangent' or how='frechet'")

    def lower(self, manifold: Any, s: Tensor) -> Tensor:
        raise self._missing(manifold, "a gyromidpoint", "use how='tangent' or how='frechet'")

    def plane_distance(self, manifold: Any, x: Tensor, p: Tensor, a: Tensor) -> Tensor:
        raise self._missing(manifold, "hyperplanes", "use CentroidClassifier, or FromManifold and torch.nn.Linear")

    @staticmethod
    def _origin(manifold: Any, like: Tensor) -> Tensor:
        zero = like.new_zeros(manifolds.intrinsic_dim(manifold, like.shape[-1]))
        return manifolds.exp0(manifold, zero).expand_as(like)

    @staticmethod
    def _missing(manifold: Any, what: str, instead: str) -> TypeError:
        return TypeError(
            f"{what} known to hgeo.nn: the stereographic family, Lorentz, Klein, Sphere, Euclidean, Scaled and "
            f"products of these; got {type(manifold).__name__}; {instead}"
        )


class _Stereographic(Geometry):
    def curvature(self, manifold: Any) -> Tensor:
        return manifold.k

    def project(self, manifold: Any, x: Tensor) -> Tensor:
        return hm.project(x, k=manifold.k)

    def translate(self, manifold: Any, p: Tensor, x: Tensor) -> Tensor:
        k = manifold.k
        return hm.project(hm.mobius_add(p, x, k=k), k=k)

    def translate_back(self, manifold: Any, p: Tensor, x: Tensor) -> Tensor:
        k = manifold.k
        return hm.project(hm.mobius_add(-p, x, k=k), k=k)

    def lifted_dim(self, manifold: Any, n: int) -> int:
        return n + 2

    def lift(self, manifold: Any, x: Tensor) -> Tensor:
        lam = hm.lambda_x(x, k=manifold.k, keepdim=True)
        return torch.cat([lam * x, lam - 1, torch.ones_like(lam)], dim=-1)

    def lower(self, manifold: Any, s: Tensor) -> Tensor:
        k = manifold.k
        return hm.project(hm.centroid(s[..., :-2], s[..., -2:-1], s[..., -1:], k=k), k=k)

    def plane_distance(self, manifold: Any, x: Tensor, p: Tensor, a: Tensor) -> Tensor:
        return hm.dist2plane(x, p, a, k=manifold.k, signed=True)


class _Euclidean(Geometry):
    def curvature(self, manifold: Any) -> Tensor:
        return torch.zeros(())

    def project(self, manifold: Any, x: Tensor) -> Tensor:
        return x

    def translate(self, manifold: Any, p: Tensor, x: Tensor) -> Tensor:
        return p + x

    def translate_back(self, manifold: Any, p: Tensor, x: Tensor) -> Tensor:
        return x - p

    def lifted_dim(self, manifold: Any, n: int) -> int:
        return n + 1

    def lift(self, manifold: Any, x: Tensor) -> Tensor:
        return torch.cat([x, torch.ones_like(x[..., :1])], dim=-1)

    def lower(self, manifold: Any, s: Tensor) -> Tensor:
        total = s[..., -1:]
        return s[..., :-1] / torch.where(total == 0, 1.0, total)

    def plane_distance(self, manifold: Any, x: Tensor, p: Tensor, a: Tensor) -> Tensor:
        return _dot(x - p, _unit(a)).squeeze(-1)


class _Ambient(Geometry):
    """Points among vectors whose weighted sums point at gyromidpoints as they are."""

    def lifted_dim(self, manifold: Any, n: int) -> int:
        return n

    def lift(self, manifold: Any, x: Tensor) -> Tensor:
        return x


class _Lorentz(_Ambient):
    """The hyperboloid. Of a point only the spatial part X' is computed: it determines the time X₀ = √(1/c + |X'|²)."""

    def curvature(self, manifold: Any) -> Tensor:
        return -manifolds.lorentz_curvature(manifold)

    def project(self, manifold: Any, x: Tensor) -> Tensor:
        return self._point(manifold, x[..., 1:])

    def _point(self, manifold: Any, spatial: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        """The point of ``dtype`` (that of ``spatial`` unless it is given) with this spatial part, or one nearer."""
        dtype = spatial.dtype if dtype is None else dtype
        spatial = _raised(spatial)  # squares of what float16 can hold are more than it can hold
        c = manifolds.lorentz_curvature(manifold).to(spatial.dtype)
        # The radius that the ball's margin allows: √c|X'| = 2ρ/(1-ρ²) at ρ = √c|x|.
        rho = 1 - hm.boundary_margin(dtype)
        limit = 2 * rho / ((1 - rho) * (1 + rho))
        squared = c * _dot(spatial, spatial)
        outside = squared > limit * limit
        spatial = torch.where(outside, spatial * (limit * torch.rsqrt(torch.where(outside, squared, 1.0))), spatial)
        return torch.cat([torch.sqrt(1 / c + _dot(spatial, spatial)), spatial], dim=-1).to(dtype)

    def translate(self, manifold: Any, p: Tensor, x: Tensor) -> Tensor:
        return self._point(manifold, self._translated(manifold, p[..., 1:], p[..., :1], x))

    def translate_back(self, manifold: Any, p: Tensor, x: Tensor) -> Tensor:
        return self._point(manifold, self._translated(manifold, -p[..., 1:], p[..., :1], x))

    @staticmethod
    def _translated(manifold: Any, p_spatial: Tensor, p_time: Tensor, x: Tensor) -> Tensor:
        """The spatial part of P ⊕ X, in the form of Möbius addition that does not cancel.

        With h = 1 + √c X₀ the ball point is X'/h and 1 - c|X'/h|² = 2/h, so that a sum s of ball points gives
        h_x (s + c|s|² P'/2).
        """
        c = manifolds.lorentz_curvature(manifold).to(x.dtype)
        root = torch.sqrt(c)
        height = 1 + root * x[..., :1]
        s = p_spatial / (1 + root * p_time) + x[..., 1:] / height
        return height * (s + c * _dot(s, s) * p_spatial / 2)

    def lower(self, manifold: Any, s: Tensor) -> Tensor:
        dtype, s = s.dtype, _raised(s)
        c = manifolds.lorentz_curvature(manifold).to(s.dtype)
        time, spatial = s[..., :1], s[..., 1:]
        squared = time * time
        # Far out the difference is rounding noise of the size of eps·X₀²: no smaller length can be believed.
        length = torch.maximum(squared - _dot(spatial, spatial), torch.finfo(s.dtype).eps * squared)
        return self._point(manifold, spatial * torch.rsqrt(c * torch.where(squared == 0, 1.0, length)), dtype)

    def plane_distance(self, manifold: Any, x: Tensor, p: Tensor, a: Tensor) -> Tensor:
        c = manifolds.lorentz_curvature(manifold).to(x.dtype)
        sine = _dot(self._translated(manifold, -p[..., 1:], p[..., :1], x), _unit(a))
        return (sine * hm.arsin_ratio(-c * sine * sine)).squeeze(-1)


class _Klein(Geometry):
    """Klein's ball, through the Poincaré ball; the gyromidpoint is Einstein's, Σwγx/Σwγ."""

    def curvature(self, manifold: Any) -> Tensor:
        return -manifold.c

    def translate(self, manifold: Any, p: Tensor, x: Tensor) -> Tensor:
        return self._translated(manifold, p, x)

    def translate_back(self, manifold: Any, p: Tensor, x: Tensor) -> Tensor:
        return self._translated(manifold, -p, x)

    @staticmethod
    def _translated(manifold: Any, p: Tensor, x: Tensor) -> Tensor:
        c = manifold.c
        moved = hm.mobius_add(hm.klein_to_ball(p, c=c), hm.klein_to_ball(x, c=c), k=-c)
        return manifold.projx(hm.ball_to_klein(moved, c=c))

    def lifted_dim(self, manifold: Any, n: int) -> int:
        return n + 1

    def lift(self, manifold: Any, x: Tensor) -> Tensor:
        floor = torch.finfo(x.dtype).eps / 2  # rounding makes 0 of what a point some ulps inside the boundary has
        gamma = torch.rsqrt((1 - manifold.c.to(x.dtype) * _dot(x, x)).clamp(min=floor))
        return torch.cat([gamma * x, gamma], dim=-1)

    def lower(self, manifold: Any, s: Tensor) -> Tensor:
        total = s[..., -1:]
        return manifold.projx(s[..., :-1] / torch.where(total == 0, 1.0, total))

    def plane_distance(self, manifold: Any, x: Tensor, p: Tensor, a: Tensor) -> Tensor:
        c = manifold.c
        return hm.dist2plane(hm.klein_to_ball(x, c=c), hm.klein_to_ball(p, c=c), a, k=-c, signed=True)


class _Sphere(_Ambient):
    """The embedded unit sphere, seen from its first axis. T_p is the rotation in the plane of the axis and p."""

    def curvature(self, manifold: Any) -> Tensor:
        return torch.ones(())

    def project(self, manifold: Any, x: Tensor) -> Tensor:
        squared = _dot(x, x)
        nothing = squared == 0
        pole = torch.zeros_like(x)
        pole[..., 0] = 1.0
        return torch.where(nothing, pole, x * torch.rsqrt(torch.where(nothing, 1.0, squared)))

    def translate(self, manifold: Any, p: Tensor, x: Tensor) -> Tensor:
        return self.project(manifold, self._rotated(p[..., :1], p[..., 1:], x))

    def translate_back(self, manifold: Any, p: Tensor, x: Tensor) -> Tensor:
        return self.project(manifold, self._rotated(p[..., :1], -p[..., 1:], x))

    @staticmethod
    def _rotated(p_pole: Tensor, p_rest: Tensor, x: Tensor) -> Tensor:
        pole, rest = x[..., :1], x[..., 1:]
        # Near the opposite pole 1 + p₀ cancels; it equals |p'|²/(1 - p₀). At that pole itself every geodesic is as good
        # as another, and p' = 0 leaves x' alone.
        below = p_pole < 0
        height = torch.where(below, _dot(p_rest, p_rest) / torch.where(below, 1 - p_pole, 1.0), 1 + p_pole)
        along = _dot(p_rest, rest)
        turned = rest + p_rest * (pole - along / torch.where(height == 0, 1.0, height))
        return torch.cat([p_pole * pole - along, turned], dim=-1)

    def lower(self, manifold: Any, s: Tensor) -> Tensor:
        return self.project(manifold, s)

    def plane_distance(self, manifold: Any, x: Tensor, p: Tensor, a: Tensor) -> Tensor:
        moved = self._rotated(p[..., :1], -p[..., 1:], x)
        normal = _unit(a)
        sine = _dot(moved[..., 1:], normal)
        within = torch.cat([moved[..., :1], moved[..., 1:] - sine * normal], dim=-1)
        # atan2, not arcsine: right up to the pole of the hyperplane.
        return torch.atan2(sine, hm.safe_sqrt(_dot(within, within))).squeeze(-1)


class _Scaled(Geometry):
    """The base's points with distances times ``scale``."""

    def project(self, manifold: Any, x: Tensor) -> Tensor:
        return project(manifold.base, x)

    def translate(self, manifold: Any, p: Tensor, x: Tensor) -> Tensor:
        return translate(manifold.base, p, x)

    def translate_back(self, manifold: Any, p: Tensor, x: Tensor) -> Tensor:
        return translate_back(manifold.base, p, x)

    def check_midpoint(self, manifold: Any) -> None:
        check_midpoint(manifold.base)

    def lifted_dim(self, manifold: Any, n: int) -> int:
        return geometry_of(manifold.base).lifted_dim(manifold.base, n)

    def lift(self, manifold: Any, x: Tensor) -> Tensor:
        return lift(manifold.base, x)

    def lower(self, manifold: Any, s: Tensor) -> Tensor:
        return lower(manifold.base, s)


class _Product(Geometry):
    """Factor by factor."""

    @staticmethod
    def _pieces(manifold: Any, x: Tensor) -> list[tuple[Any, Tensor]]:
        return manifolds.frame_of(manifold).pieces(manifold, x)  # type: ignore[attr-defined]

    def project(self, manifold: Any, x: Tensor) -> Tensor:
        return torch.cat([project(m, part) for m, part in self._pieces(manifold, x)], dim=-1)

    def translate(self, manifold: Any, p: Tensor, x: Tensor) -> Tensor:
        pairs = zip(self._pieces(manifold, p), self._pieces(manifold, x), strict=True)
        return torch.cat([translate(m, a, b) for (m, a), (_, b) in pairs], dim=-1)

    def translate_back(self, manifold: Any, p: Tensor, x: Tensor) -> Tensor:
        pairs = zip(self._pieces(manifold, p), self._pieces(manifold, x), strict=True)
        return torch.cat([translate_back(m, a, b) for (m, a), (_, b) in pairs], dim=-1)

    def check_midpoint(self, manifold: Any) -> None:
        for factor in manifold.manifolds:
            check_midpoint(factor)

    def _lifted_dims(self, manifold: Any) -> list[int]:
        sizes = [part.stop - part.start for part in manifold.slices]
        return [geometry_of(m).lifted_dim(m, n) for m, n in zip(manifold.manifolds, sizes, strict=True)]

    def lifted_dim(self, manifold: Any, n: int) -> int:
        return sum(self._lifted_dims(manifold))

    def lift(self, manifold: Any, x: Tensor) -> Tensor:
        return torch.cat([lift(m, part) for m, part in self._pieces(manifold, x)], dim=-1)

    def lower(self, manifold: Any, s: Tensor) -> Tensor:
        parts = s.split(self._lifted_dims(manifold), dim=-1)
        return torch.cat([lower(m, part) for m, part in zip(manifold.manifolds, parts, strict=True)], dim=-1)


_GEOMETRIES: dict[type, Geometry] = {
    geoopt.Stereographic: _Stereographic(),
    geoopt.Euclidean: _Euclidean(),
    geoopt.Lorentz: _Lorentz(),
    manifolds.Klein: _Klein(),
    geoopt.Sphere: _Sphere(),
    geoopt.Scaled: _Scaled(),
    geoopt.ProductManifold: _Product(),
}
_GENERAL = Geometry()


def geometry_of(manifold: Any) -> Geometry:
    for cls in type(manifold).__mro__:
        if cls in _GEOMETRIES:
            return _GEOMETRIES[cls]
    return _GENERAL


def curvature(manifold: Any) -> Tensor | None:
    """The signed sectional curvature, a scalar, of a space that has the same one everywhere and tells it; else None."""
    return geometry_of(manifold).curvature(manifold)


def project(manifold: Any, x: Tensor) -> Tensor:
    """x brought back onto the manifold, within the radius that its dtype can tell apart."""
    return geometry_of(manifold).project(manifold, x)


def translate(manifold: Any, p: Tensor, x: Tensor) -> Tensor:
    """T_p(x): the isometry that carries the origin to p along their geodesic, applied to x.

    p ⊕ x on the stereographic family; everywhere exp_p of log_0(x) transported from the origin to p.
    """
    return geometry_of(manifold).translate(manifold, p, x)


def translate_back(manifold: Any, p: Tensor, x: Tensor) -> Tensor:
    """The inverse of :func:`translate` in x: log0 of it is log_p(x) transported to the origin."""
    return geometry_of(manifold).translate_back(manifold, p, x)


def check_midpoint(manifold: Any) -> None:
    """Refuse a manifold for which no gyromidpoint is known."""
    geometry_of(manifold).check_midpoint(manifold)


def lift(manifold: Any, x: Tensor) -> Tensor:
    """Vectors whose weighted sums :func:`lower` turns into gyromidpoints."""
    return geometry_of(manifold).lift(manifold, x)


def lower(manifold: Any, s: Tensor) -> Tensor:
    """The gyromidpoint of a weighted sum of lifted points. A sum of nothing gives the origin."""
    return geometry_of(manifold).lower(manifold, s)


def plane_distance(manifold: Any, x: Tensor, p: Tensor, a: Tensor) -> Tensor:
    """Signed distance of x to the hyperplane through p orthogonal to a, a vector in the origin's frame carried to p."""
    return geometry_of(manifold).plane_distance(manifold, x, p, a)
