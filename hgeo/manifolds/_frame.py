"""The origin frame: coordinates of a manifold's tangent space at one point, so that layers need not know which it is.

    exp0(manifold, v)         coordinates (..., d) -> a point (..., ambient_dim(manifold, d))
    log0(manifold, x)         its inverse
    frame_scale(manifold)     Riemannian length of a unit coordinate vector
    dist(manifold, x, y)      the most accurate distance known

A :class:`Frame` says how for a class of manifolds; :func:`register_frame` adds one. Without a registered frame a
manifold of vectors is served through its own ``origin``, ``proju``, ``expmap`` and ``logmap``.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

import hgeo.math as hm
from hgeo._geoopt import geoopt
from hgeo.manifolds._lorentz import lorentz_curvature
from hgeo.manifolds._pairwise import chordal_pairs, flat_pairs, hyperbolic_pairs
from hgeo.manifolds._stereographic import Stereographic
from hgeo.math._contract import floating, geometry

__all__ = [
    "Frame",
    "ambient_dim",
    "dist",
    "exp0",
    "frame_of",
    "frame_scale",
    "intrinsic_dim",
    "log0",
    "register_frame",
]


class Frame:
    """How one class of manifolds is seen from its origin. Override what the manifold knows better.

    This base class is the general one: an orthonormal basis B of the tangent space at ``manifold.origin``, and
    exp0(v) = expmap(origin, v Bᵀ), log0(x) = coordinates of logmap(origin, x). A manifold with parameters or buffers
    gets its basis anew each time, with gradients to them; of any other it is kept.
    """

    def exp0(self, manifold: Any, v: Tensor) -> Tensor:
        origin, basis = self._origin_and_basis(manifold, self.ambient_dim(manifold, v.shape[-1]), v)
        return self._call(manifold, "expmap", origin.expand(*v.shape[:-1], -1), v @ basis)

    def log0(self, manifold: Any, x: Tensor) -> Tensor:
        origin, basis = self._origin_and_basis(manifold, x.shape[-1], x)
        tangent = self._call(manifold, "logmap", origin.expand_as(x), x)
        inner = [self._call(manifold, "inner", origin, tangent, direction) for direction in basis]
        return torch.stack(inner, dim=-1)

    def scale(self, manifold: Any) -> float:
        return 1.0

    def ambient_dim(self, manifold: Any, d: int) -> int:
        for size in (d, d + 1):
            if self.intrinsic_dim(manifold, size) == d:
                return size
        raise TypeError(
            f"{manifold} has no origin frame of dimension {d}: points of {d} or {d + 1} numbers have tangent spaces of "
            "another dimension there; give it a frame with hgeo.register_frame"
        )

    def intrinsic_dim(self, manifold: Any, n: int) -> int:
        axes = manifold.__dict__.get("_hgeo_axes", {}).get(n)
        return len(self._basis(manifold, n)[1] if axes is None else axes)

    def dist(self, manifold: Any, x: Tensor, y: Tensor) -> Tensor:
        return self._call(manifold, "dist", x, y)

    def pairs(self, manifold: Any, x: Tensor, y: Tensor) -> Tensor:
        """Distances (..., N, M) of all pairs of points (..., N, n) and (..., M, n), as many as one tile has."""
        return self.dist(manifold, x.unsqueeze(-2), y.unsqueeze(-3))

    @staticmethod
    def _call(manifold: Any, operation: str, *args: Tensor) -> Tensor:
        method = getattr(manifold, operation, None)
        if method is None or method is NotImplemented:
            raise TypeError(
                f"{manifold} has no {operation!r}, which hgeo's origin frame needs; add it to the manifold, or "
                f"register a frame: hgeo.register_frame({type(manifold).__name__}, YourFrame())"
            )
        try:
            return method(*args)
        except NotImplementedError as error:
            raise TypeError(
                f"{type(manifold).__name__}.{operation} is not implemented, and hgeo's origin frame needs it; "
                f"implement it, or register a frame: hgeo.register_frame({type(manifold).__name__}, YourFrame())"
            ) from error

    def _basis(self, manifold: Any, n: int) -> tuple[Tensor, Tensor]:
        """The origin (n,) and an orthonormal basis (d, n) of the tangent space there, in float64."""
        if getattr(manifold, "ndim", 1) > 1:
            raise TypeError(
                f"{manifold} has points of {manifold.ndim} dimensions; hgeo's layers work on vectors: register a "
                f"frame that flattens them: hgeo.register_frame({type(manifold).__name__}, YourFrame())"
            )
        if not any(True for _ in (*manifold.parameters(), *manifold.buffers())):
            # Nothing trains here. What is left to change are plain attributes.
            plain = [(k, v) for k, v in vars(manifold).items() if isinstance(v, int | float | str | tuple)]
            key = (n, repr(sorted(plain)))
            cache = manifold.__dict__.setdefault("_hgeo_frames", {})
            if key not in cache:
                with torch.no_grad():
                    origin, _, rows = self._orthonormal(manifold, n, None)
                cache[key] = origin, rows
            return cache[key]
        axes = manifold.__dict__.setdefault("_hgeo_axes", {})
        # Which axes make a basis is a question of values: traced code takes the answer that was found last.
        traced = torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()
        origin, axes[n], rows = self._orthonormal(manifold, n, axes.get(n) if traced else None)
        return origin, rows

    def _orthonormal(self, manifold: Any, n: int, axes: list[int] | None) -> tuple[Tensor, list[int], Tensor]:
        """The origin, the axes whose tangent parts make a basis (``axes`` if they are known), and the basis that Gram
        and Schmidt make of them."""
        origin = self._origin(manifold, n)
        eye = torch.eye(n, dtype=origin.dtype, device=origin.device)
        kept: list[int] = []
        rows: list[Tensor] = []
        for axis in range(n) if axes is None else axes:
            u = self._call(manifold, "proju", origin, eye[axis])
            for _ in range(2):  # twice is enough
                for row in rows:
                    u = u - self._call(manifold, "inner", origin, u, row) * row
            squared = self._call(manifold, "inner", origin, u, u)
            if axes is not None or float(squared.detach()) > 1e-12:
                kept.append(axis)
                rows.append(u * torch.rsqrt(squared))
        return origin, kept, torch.stack(rows) if rows else origin.new_zeros((0, n))

    @classmethod
    def _origin(cls, manifold: Any, n: int) -> Tensor:
        method = getattr(manifold, "origin", None)
        if method is None:
            return cls._call(manifold, "origin")
        try:
            origin = method(n, dtype=torch.float64)
            if type(origin) is not Tensor and not torch.compiler.is_compiling():  # which cannot trace it, nor needs it
                origin = origin.as_subclass(Tensor)
            home = next(iter((*manifold.parameters(), *manifold.buffers())), None)
            return origin.to("cpu" if home is None else home.device)
        except NotImplementedError:
            return cls._call(manifold, "origin", torch.empty(0))

    def _origin_and_basis(self, manifold: Any, n: int, like: Tensor) -> tuple[Tensor, Tensor]:
        origin, basis = self._basis(manifold, n)
        return origin.to(like), basis.to(like)


class _StereographicFrame(Frame):
    """x = tan_k(|v|) v/|v|; a unit coordinate vector has length λ_0 = 2."""

    def exp0(self, manifold: Any, v: Tensor) -> Tensor:
        k = manifold.k  # reading a trained curvature costs a graph node
        return hm.project(hm.expmap0(v, k=k), k=k)

    def log0(self, manifold: Any, x: Tensor) -> Tensor:
        return hm.logmap0(x, k=manifold.k)

    def scale(self, manifold: Any) -> float:
        return 2.0

    def ambient_dim(self, manifold: Any, d: int) -> int:
        return d

    def intrinsic_dim(self, manifold: Any, n: int) -> int:
        return n

    def dist(self, manifold: Any, x: Tensor, y: Tensor) -> Tensor:
        return hm.dist(x, y, k=manifold.k)

    def pairs(self, manifold: Any, x: Tensor, y: Tensor) -> Tensor:
        if not isinstance(manifold, geoopt.PoincareBall):  # the only one whose curvature has a known sign
            return super().pairs(manifold, x, y)
        k = manifold.k.to(x.dtype)
        f, g = (hm.lambda_x(points, k=k, keepdim=True) / 2 for points in (x, y))
        return hyperbolic_pairs(x, y, f=f, g=g, c=-k)


class _EuclideanFrame(Frame):
    """Coordinates are points."""

    def exp0(self, manifold: Any, v: Tensor) -> Tensor:
        return v

    def log0(self, manifold: Any, x: Tensor) -> Tensor:
        return x

    def ambient_dim(self, manifold: Any, d: int) -> int:
        return d

    def intrinsic_dim(self, manifold: Any, n: int) -> int:
        return n

    def dist(self, manifold: Any, x: Tensor, y: Tensor) -> Tensor:
        # Half the distance of the stereographic metric at k = 0, with its derivatives at x = y.
        return hm.dist(x, y, k=0.0) / 2

    def pairs(self, manifold: Any, x: Tensor, y: Tensor) -> Tensor:
        return flat_pairs(x, y)


class _OneMoreNumber(Frame):
    def ambient_dim(self, manifold: Any, d: int) -> int:
        return d + 1

    def intrinsic_dim(self, manifold: Any, n: int) -> int:
        return n - 1


@geometry
def _stopped(v: Tensor, *, c: hm.Curvature, margin: float = 0.0) -> Tensor:
    """Tangent vectors at the radius at which the ball's points are stopped: beyond it a dtype cannot tell points apart,
    and soon sinh is infinite."""
    limit = 2 * math.atanh(1 - margin)
    squared = c * (v * v).sum(-1, keepdim=True)
    outside = squared > limit * limit
    factor = limit * torch.rsqrt(torch.where(outside, squared, 1.0))
    return torch.where(outside, v * factor, v)


class _LorentzFrame(_OneMoreNumber):
    def exp0(self, manifold: Any, v: Tensor) -> Tensor:
        c = lorentz_curvature(manifold)
        return hm.lorentz_expmap0(_stopped(v, c=c), c=c)

    def log0(self, manifold: Any, x: Tensor) -> Tensor:
        return hm.lorentz_logmap0(x, c=lorentz_curvature(manifold))

    def dist(self, manifold: Any, x: Tensor, y: Tensor) -> Tensor:
        return hm.lorentz_dist(x, y, c=lorentz_curvature(manifold))

    def pairs(self, manifold: Any, x: Tensor, y: Tensor) -> Tensor:
        c = lorentz_curvature(manifold).to(x.dtype)
        # 1 - c|p|² of a point p of the ball is 2/(1 + √c X₀), without cancellation
        f, g = ((1 + torch.sqrt(c) * points.narrow(-1, 0, 1)) / 2 for points in (x, y))
        return hyperbolic_pairs(hm.lorentz_to_ball(x, c=c), hm.lorentz_to_ball(y, c=c), f=f, g=g, c=c)


class _SphereFrame(_OneMoreNumber):
    """The unit sphere seen from its first axis."""

    def exp0(self, manifold: Any, v: Tensor) -> Tensor:
        return hm.sphere_expmap0(v, k=1.0)

    def log0(self, manifold: Any, x: Tensor) -> Tensor:
        return hm.sphere_logmap0(x, k=1.0)

    def dist(self, manifold: Any, x: Tensor, y: Tensor) -> Tensor:
        return hm.sphere_dist(x, y, k=1.0)

    def pairs(self, manifold: Any, x: Tensor, y: Tensor) -> Tensor:
        return chordal_pairs(x, y)


class _ScaledFrame(Frame):
    """Distances are ``scale`` times the base's, coordinates too: a unit one keeps its length."""

    def exp0(self, manifold: Any, v: Tensor) -> Tensor:
        return exp0(manifold.base, v / manifold.scale.to(v.dtype))

    def log0(self, manifold: Any, x: Tensor) -> Tensor:
        return log0(manifold.base, x) * manifold.scale.to(x.dtype)

    def scale(self, manifold: Any) -> float:
        return frame_scale(manifold.base)

    def ambient_dim(self, manifold: Any, d: int) -> int:
        return ambient_dim(manifold.base, d)

    def intrinsic_dim(self, manifold: Any, n: int) -> int:
        return intrinsic_dim(manifold.base, n)

    def dist(self, manifold: Any, x: Tensor, y: Tensor) -> Tensor:
        return dist(manifold.base, x, y) * manifold.scale.to(x.dtype)

    def pairs(self, manifold: Any, x: Tensor, y: Tensor) -> Tensor:
        return frame_of(manifold.base).pairs(manifold.base, x, y) * manifold.scale.to(x.dtype)


class _ProductFrame(Frame):
    """Coordinates are those of the factors, side by side. Where the factors' scales differ they become 1."""

    def _parts(self, manifold: Any) -> list[tuple[Any, int, int]]:
        """(factor, intrinsic dimension, numbers) of each factor."""
        sizes = [part.stop - part.start for part in manifold.slices]
        return [(m, intrinsic_dim(m, n), n) for m, n in zip(manifold.manifolds, sizes, strict=True)]

    def _check(self, manifold: Any, given: int, expected: int, what: str) -> None:
        if given != expected:
            raise ValueError(f"{what} of {manifold} have {expected} numbers in their last dimension, got {given}")

    def exp0(self, manifold: Any, v: Tensor) -> Tensor:
        parts = self._parts(manifold)
        dims = [d for _, d, _ in parts]
        self._check(manifold, v.shape[-1], sum(dims), "tangent coordinates")
        whole = self.scale(manifold)
        pieces = v.split(dims, dim=-1)
        return torch.cat(
            [exp0(m, piece * (whole / frame_scale(m))) for (m, _, _), piece in zip(parts, pieces, strict=True)], dim=-1
        )

    def log0(self, manifold: Any, x: Tensor) -> Tensor:
        whole = self.scale(manifold)
        return torch.cat(
            [log0(m, piece) * (frame_scale(m) / whole) for m, piece in self.pieces(manifold, x)],
            dim=-1,
        )

    def pieces(self, manifold: Any, x: Tensor) -> list[tuple[Any, Tensor]]:
        """Each factor with its part of the point."""
        parts = self._parts(manifold)
        sizes = [n for _, _, n in parts]
        self._check(manifold, x.shape[-1], sum(sizes), "points")
        return [(m, piece) for (m, _, _), piece in zip(parts, x.split(sizes, dim=-1), strict=True)]

    def scale(self, manifold: Any) -> float:
        scales = {frame_scale(m) for m in manifold.manifolds}
        return scales.pop() if len(scales) == 1 else 1.0

    def _own(self, manifold: Any) -> tuple[int, int]:
        parts = self._parts(manifold)
        return sum(d for _, d, _ in parts), sum(n for _, _, n in parts)

    def ambient_dim(self, manifold: Any, d: int) -> int:
        own, numbers = self._own(manifold)
        if d != own:
            raise ValueError(f"{manifold} has dimension {own}, asked for {d}; a product's dimension is fixed once made")
        return numbers

    def intrinsic_dim(self, manifold: Any, n: int) -> int:
        own, numbers = self._own(manifold)
        self._check(manifold, n, numbers, "points")
        return own

    def dist(self, manifold: Any, x: Tensor, y: Tensor) -> Tensor:
        pairs = zip(self.pieces(manifold, x), self.pieces(manifold, y), strict=True)
        squares = [_squared_distance(m, px, py) for (m, px), (_, py) in pairs]
        return hm.safe_sqrt(torch.stack(squares, dim=-1).sum(-1))

    def pairs(self, manifold: Any, x: Tensor, y: Tensor) -> Tensor:
        factors = zip(self.pieces(manifold, x), self.pieces(manifold, y), strict=True)
        squares = [frame_of(m).pairs(m, px, py) ** 2 for (m, px), (_, py) in factors]
        return hm.safe_sqrt(torch.stack(squares, dim=-1).sum(-1))


def _squared_distance(manifold: Any, x: Tensor, y: Tensor) -> Tensor:
    # Smooth at x = y where it can be: a root of a sum of squares must not meet the kink of each term.
    return hm.sqdist(x, y, k=manifold.k) if isinstance(manifold, Stereographic) else dist(manifold, x, y) ** 2


_FRAMES: dict[type, Frame] = {}
_GENERAL = Frame()


def register_frame(cls: type, frame: Frame) -> None:
    """Tell hgeo how manifolds of class ``cls`` (and its subclasses) are seen from their origin.

    >>> class Doubled(Frame):
    ...     "A line whose coordinates count half."
    ...     def exp0(self, manifold, v): return 2 * v
    ...     def log0(self, manifold, x): return x / 2
    """
    if not isinstance(frame, Frame):
        raise TypeError(f"register_frame: expected an instance of hgeo.manifolds.Frame, got {frame!r}")
    _FRAMES[cls] = frame


for _cls, _frame in (
    (geoopt.Stereographic, _StereographicFrame()),
    (geoopt.Euclidean, _EuclideanFrame()),
    (geoopt.Lorentz, _LorentzFrame()),
    (geoopt.Sphere, _SphereFrame()),
    (geoopt.Scaled, _ScaledFrame()),
    (geoopt.ProductManifold, _ProductFrame()),
):
    register_frame(_cls, _frame)


def frame_of(manifold: Any) -> Frame:
    """The frame that serves a manifold: the one registered for the nearest of its classes, else the general one."""
    for cls in type(manifold).__mro__:
        if cls in _FRAMES:
            return _FRAMES[cls]
    if not isinstance(manifold, geoopt.Manifold):
        raise TypeError(f"expected a geoopt manifold, got {type(manifold).__name__}: {manifold!r}")
    return _GENERAL


def exp0(manifold: Any, v: Tensor) -> Tensor:
    """The point with tangent coordinates ``v`` at the origin of ``manifold``.

    >>> import torch, hgeo
    >>> hgeo.exp0(hgeo.PoincareBall(), torch.tensor([1.0, 0.0]))
    tensor([0.7616, 0.0000])
    """
    floating("exp0", "v", v)
    return frame_of(manifold).exp0(manifold, v)


def log0(manifold: Any, x: Tensor) -> Tensor:
    """Tangent coordinates of the point ``x`` at the origin: the inverse of :func:`exp0`."""
    floating("log0", "x", x)
    return frame_of(manifold).log0(manifold, x)


def frame_scale(manifold: Any) -> float:
    """Riemannian length of a unit coordinate vector at the origin: 2 on the stereographic family, else 1."""
    return frame_of(manifold).scale(manifold)


def ambient_dim(manifold: Any, d: int) -> int:
    """How many numbers a point has on the manifold of intrinsic dimension ``d``."""
    return frame_of(manifold).ambient_dim(manifold, d)


def intrinsic_dim(manifold: Any, n: int) -> int:
    """The intrinsic dimension of the manifold whose points have ``n`` numbers: the inverse of :func:`ambient_dim`."""
    return frame_of(manifold).intrinsic_dim(manifold, n)


def dist(manifold: Any, x: Tensor, y: Tensor) -> Tensor:
    """Geodesic distance of points (..., n), by the most accurate formula known for that manifold."""
    floating("dist", "x", x)
    floating("dist", "y", y)
    return frame_of(manifold).dist(manifold, x, y)
