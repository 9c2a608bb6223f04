"""What layers, pictures and laws ask of a space: one :class:`Geometry` a kind of manifold, found by its class.

A manifold itself (a ``geoopt.Manifold``) knows points and tangent vectors. Its geometry says how the space is seen from
its *origin frame*, coordinates (..., d) of the tangent space at one point:

    exp0(manifold, v)               coordinates -> a point (..., ambient_dim(manifold, d))
    log0(manifold, x)               its inverse
    frame_scale(manifold)           Riemannian length of a unit coordinate vector
    dist(manifold, x, y)            the most accurate distance known
    translate(manifold, p, x)       the isometry that carries the origin to p, applied to x; p ⊕ x

and what else a layer may want: means, hyperplanes, curvature, its word in a space string. Without a
registered geometry a manifold of vectors is served through its own ``origin``, ``proju``, ``expmap`` and ``logmap``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, NoReturn

import torch
from torch import Tensor

import hgeo.math as hm
from hgeo._geoopt import geoopt
from hgeo.kernels import Number, Row, dot, sqrt
from hgeo.manifolds._words import describe_word

__all__ = ["ConstantCurvature", "Geometry", "Part", "can_look", "dot", "folded", "refuse_rows", "unit"]


class Part(NamedTuple):
    """A factor of constant curvature: a slice of the frame coordinates, and the length of a unit coordinate there."""

    coordinates: slice
    curvature: Tensor
    scale: float


@hm.operation
def _spatial_of_ball(x: Row, k: Number) -> Row:
    """λx: the spatial part of the hyperboloid's point that the ball has at x."""
    return hm.lambda_x.formula(x, k) * x


@hm.operation
def _ball_of_spatial(s: Row, k: Number) -> Row:
    """Its inverse s/(1 + √(1 - k|s|²))."""
    return s / (1 + sqrt(1 - k * dot(s, s)))


def unit(a: Tensor) -> Tensor:
    """a/|a|, and 0 for a = 0."""
    squared = dot(a, a)
    return a * torch.rsqrt(torch.where(squared == 0, 1.0, squared))


class Geometry:
    """How one kind of manifold answers. Override what the manifold knows better.

    This base class is the general one: an orthonormal basis B of the tangent space at ``manifold.origin``, and
    exp0(v) = expmap(origin, v Bᵀ), log0(x) = coordinates of logmap(origin, x). A manifold with parameters or buffers
    gets its basis anew each time, with gradients to them; of any other it is kept. Means and hyperplanes are not known
    here; a space of constant curvature has them by :class:`ConstantCurvature`.
    """

    # --- the origin frame ---

    def exp0(self, manifold: geoopt.Manifold, v: Tensor) -> Tensor:
        """The point with tangent coordinates ``v`` at the origin."""
        origin, basis = self._origin_and_basis(manifold, self.ambient_dim(manifold, v.shape[-1]), v)
        # contiguous: an expmap by forward derivatives cannot write into rows that are one in memory
        return self._call(manifold, "expmap", origin.expand(*v.shape[:-1], -1).contiguous(), v @ basis)

    def log0(self, manifold: geoopt.Manifold, x: Tensor) -> Tensor:
        """The inverse of :meth:`exp0`."""
        origin, basis = self._origin_and_basis(manifold, x.shape[-1], x)
        tangent = self._call(manifold, "logmap", origin.expand_as(x).contiguous(), x)
        inner = [self._call(manifold, "inner", origin, tangent, direction) for direction in basis]
        return torch.stack(inner, dim=-1)

    def scale(self, manifold: geoopt.Manifold) -> float:
        """Riemannian length of a unit coordinate vector at the origin."""
        return 1.0

    def ambient_dim(self, manifold: geoopt.Manifold, d: int) -> int:
        """How many numbers a point has where the intrinsic dimension is ``d``."""
        for size in (d, d + 1):
            if self.intrinsic_dim(manifold, size) == d:
                return size
        raise TypeError(
            f"{manifold} has no origin frame of dimension {d}: points of {d} or {d + 1} numbers have tangent spaces of "
            "another dimension there; give it a geometry with hgeo.register"
        )

    def intrinsic_dim(self, manifold: geoopt.Manifold, n: int) -> int:
        """The inverse of :meth:`ambient_dim`."""
        axes = manifold.__dict__.get("_hgeo_axes", {}).get(n)
        return len(self._basis(manifold, n)[1] if axes is None else axes)

    # --- distances ---

    def dist(self, manifold: geoopt.Manifold, x: Tensor, y: Tensor) -> Tensor:
        """Geodesic distance, by the most accurate formula known."""
        return self._call(manifold, "dist", x, y)

    def sqdist(self, manifold: geoopt.Manifold, x: Tensor, y: Tensor) -> Tensor:
        """Its square, smooth at x = y where it can be: a root of a sum of squares must not meet the kink of each."""
        return self.dist(manifold, x, y) ** 2

    def pairs(self, manifold: geoopt.Manifold, x: Tensor, y: Tensor) -> Tensor:
        """Distances (..., N, M) of all pairs of points (..., N, n) and (..., M, n), as many as one tile has."""
        return self.dist(manifold, x.unsqueeze(-2), y.unsqueeze(-3))

    # --- points ---

    def project(self, manifold: geoopt.Manifold, x: Tensor) -> Tensor:
        """x brought back onto the manifold, within the radius that its dtype can tell apart."""
        return manifold.projx(x)

    def translate(self, manifold: geoopt.Manifold, p: Tensor, x: Tensor) -> Tensor:
        """T_p(x): exp_p of log_0(x) transported from the origin to p."""
        p, x = torch.broadcast_tensors(p, x)
        origin = self._origin_like(manifold, x)
        return manifold.expmap(p, manifold.transp(origin, p, manifold.logmap(origin, x)))

    def translate_back(self, manifold: geoopt.Manifold, p: Tensor, x: Tensor) -> Tensor:
        """The inverse of :meth:`translate` in x."""
        p, x = torch.broadcast_tensors(p, x)
        origin = self._origin_like(manifold, x)
        return manifold.expmap(origin, manifold.transp(p, origin, manifold.logmap(p, x)))

    def fold(self, manifold: geoopt.Manifold, v: Tensor) -> Tensor:
        """log0(exp0(v)): the coordinates by which the point is known that ``v`` leads to."""
        return self.log0(manifold, self.exp0(manifold, v))

    # --- means and hyperplanes, where there are any ---

    def lifted_dim(self, manifold: geoopt.Manifold, n: int) -> int:
        """How many numbers a lifted point has."""
        self._lacks(manifold, "gyromidpoints", "lifted_dim", "use how='tangent' or how='frechet'")

    def lift(self, manifold: geoopt.Manifold, x: Tensor) -> Tensor:
        """Vectors whose weighted sums :meth:`lower` turns into gyromidpoints."""
        self._lacks(manifold, "gyromidpoints", "lift", "use how='tangent' or how='frechet'")

    def lower(self, manifold: geoopt.Manifold, s: Tensor) -> Tensor:
        """The gyromidpoint of a weighted sum of lifted points; the origin of a sum of nothing."""
        self._lacks(manifold, "gyromidpoints", "lower", "use how='tangent' or how='frechet'")

    # --- the same between tangent rows, for layers that want no points ---

    def translate_rows(self, manifold: geoopt.Manifold, u: Tensor, x: Tensor) -> Tensor:
        """log0(exp0(u) ⊕ x): frame coordinates of x after the translations that carry the origin to exp0(u)."""
        return self.log0(manifold, self.translate(manifold, self.exp0(manifold, u), x))

    def lifted_rows_dim(self, manifold: geoopt.Manifold, d: int) -> int:
        """How many numbers a row of :meth:`lift_rows` has where the intrinsic dimension is ``d``."""
        return self.lifted_dim(manifold, self.ambient_dim(manifold, d))

    def lift_rows(self, manifold: geoopt.Manifold, u: Tensor, weights: Tensor | None = None) -> Tensor:
        """Vectors for exp0(u), times ``weights`` (..., 1), whose sums :meth:`lower_rows` turns into log0 of their
        gyromidpoint."""
        lifted = self.lift(manifold, self.exp0(manifold, u))
        return lifted if weights is None else weights * lifted

    def lower_rows(self, manifold: geoopt.Manifold, s: Tensor) -> Tensor:
        """log0 of the gyromidpoint of a sum of :meth:`lift_rows`; 0 of a sum of nothing."""
        return self.log0(manifold, self.lower(manifold, s))

    def plane_distance(self, manifold: geoopt.Manifold, x: Tensor, p: Tensor, a: Tensor) -> Tensor:
        """Signed distance of x to the hyperplane through p orthogonal to a, a frame vector carried to p."""
        self._lacks(manifold, "hyperplanes", "plane_distance", "use CentroidClassifier, or FromManifold and a Linear")

    def plane_score(self, manifold: geoopt.Manifold, x: Tensor, p: Tensor, a: Tensor) -> Tensor:
        """The Riemannian length of a times :meth:`plane_distance`; on products the sum over factors."""
        return hm.safe_sqrt(dot(a, a)).squeeze(-1) * self.scale(manifold) * self.plane_distance(manifold, x, p, a)

    # --- facts ---

    def curvature(self, manifold: geoopt.Manifold) -> Tensor | None:
        """The signed sectional curvature, a scalar, of a space that has the same one everywhere and tells it."""
        return None

    def parts(self, manifold: geoopt.Manifold, d: int) -> list[Part] | None:
        """The constant-curvature factors of a space of dimension d; None if it is no product of such.

        d(exp0(u), exp0(w))² is the sum over the parts of the squared distance between the points with coordinates
        scale/2 · u[part] and scale/2 · w[part] of the stereographic model of that curvature.
        """
        k = self.curvature(manifold)
        return None if k is None else [Part(slice(0, d), k, self.scale(manifold))]

    def factors(self, manifold: geoopt.Manifold) -> list[tuple[geoopt.Manifold, slice]] | None:
        """The factors of a product, each with its slice of a point's numbers; None for anything else."""
        return None

    def has_mobius(self, manifold: geoopt.Manifold) -> bool:
        """Whether points have ball coordinates and Möbius operations."""
        return False

    def free_coordinates(self, manifold: geoopt.Manifold) -> bool:
        """Whether a function of a point's numbers, projected, is a point again."""
        return False

    def is_plain(self, manifold: geoopt.Manifold) -> bool:
        """Whether points are their own frame coordinates, as in Euclidean space."""
        return False

    # --- the stereographic model of the same curvature ---

    def to_ball(self, manifold: geoopt.Manifold, x: Tensor) -> Tensor:
        """The isometry to the stereographic model of the same curvature that keeps the origin and its frame."""
        self._lacks(manifold, "isometry to a ball", "to_ball", "use how='tangent'")

    def from_ball(self, manifold: geoopt.Manifold, y: Tensor) -> Tensor:
        """Its inverse, also of points at the boundary."""
        self._lacks(manifold, "isometry from a ball", "from_ball", "use how='tangent'")

    # --- the spatial coordinates of the hyperboloid of the same curvature ---

    def has_spatial(self, manifold: geoopt.Manifold) -> bool:
        """Whether the space is hyperbolic or flat, and stays so, so that it has the coordinates that follow."""
        return False

    def to_spatial(self, manifold: geoopt.Manifold, x: Tensor) -> Tensor:
        """The spatial part s (..., d) of the hyperboloid's point (√(1/c + |s|²), s); of flat space the vector itself,
        as long as it is there."""
        self._lacks(manifold, "spatial coordinates", "to_spatial", "use a hyperbolic or flat space")

    def from_spatial(self, manifold: geoopt.Manifold, s: Tensor) -> Tensor:
        """The point with that spatial part, within the radius that the dtype can tell apart."""
        self._lacks(manifold, "spatial coordinates", "from_spatial", "use a hyperbolic or flat space")

    # --- entering, naming ---

    def validate(self, manifold: geoopt.Manifold, x: Tensor, name: str) -> None:
        """Refuse finite numbers that are no points of the manifold, with the row and by how much."""
        if manifold.check_point_on_manifold(x):
            return
        _, reason = manifold.check_point_on_manifold(x, explain=True)
        lead = x.shape[: x.dim() - manifold.ndim]
        points = x.reshape(-1, *x.shape[len(lead) :])
        verdicts = [bool(manifold.check_point_on_manifold(point)) for point in points]
        bad = ~torch.tensor(verdicts, dtype=torch.bool).reshape(lead)
        refuse_rows(name, bad, lambda at: f"not a point of {manifold}: {reason}")
        # Each point is right by itself, so it is the shape of all of them that is wrong.
        raise ValueError(f"{name}: not points of {manifold}: {reason}")

    def describe(self, manifold: geoopt.Manifold, dim: int | None = None) -> str:
        """The space in the notation of space strings, such as ``ball:16,c=0.5,learn``."""
        return describe_word(manifold, dim, self.curvature(manifold))

    # --- of any manifold with an origin, expmap and logmap ---

    def _lacks(self, manifold: geoopt.Manifold, what: str, method: str, instead: str) -> NoReturn:
        raise TypeError(
            f"{self.describe(manifold)} has no {what}: its {type(self).__name__} does not say {method!r}; {instead}, "
            "or register a geometry that says it (hgeo.register)"
        )

    def _origin_like(self, manifold: geoopt.Manifold, x: Tensor) -> Tensor:
        return self.exp0(manifold, x.new_zeros(self.intrinsic_dim(manifold, x.shape[-1]))).expand_as(x)

    @staticmethod
    def _call(manifold: geoopt.Manifold, operation: str, *args: Tensor) -> Tensor:
        method = getattr(manifold, operation, None)
        kind = type(manifold).__name__
        if method is None or method is NotImplemented:
            raise TypeError(
                f"{manifold} has no {operation!r}, which hgeo's origin frame needs; add it to the manifold, or "
                f"register a geometry: hgeo.register({kind}, YourGeometry())"
            )
        try:
            return method(*args)
        except NotImplementedError as error:
            raise TypeError(
                f"{kind}.{operation} is not implemented, and hgeo's origin frame needs it; implement it, or register a "
                f"geometry: hgeo.register({kind}, YourGeometry())"
            ) from error

    def _basis(self, manifold: geoopt.Manifold, n: int) -> tuple[Tensor, Tensor]:
        """The origin (n,) and an orthonormal basis (d, n) of the tangent space there, in float64."""
        if getattr(manifold, "ndim", 1) > 1:
            raise TypeError(
                f"{manifold} has points of {manifold.ndim} dimensions; hgeo's layers work on vectors: register a "
                f"geometry that flattens them: hgeo.register({type(manifold).__name__}, YourGeometry())"
            )
        if not any(True for _ in (*manifold.parameters(), *manifold.buffers())):
            # Without parameters and buffers only plain attributes can change: they are the key of the cache.
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

    def _orthonormal(
        self, manifold: geoopt.Manifold, n: int, axes: list[int] | None
    ) -> tuple[Tensor, list[int], Tensor]:
        """The origin, the axes whose tangent parts make a basis (``axes`` if they are known), and the basis that Gram
        and Schmidt make of them."""
        origin = self._origin(manifold, n)
        eye = torch.eye(n, dtype=origin.dtype, device=origin.device)
        kept: list[int] = []
        rows: list[Tensor] = []
        for axis in range(n) if axes is None else axes:
            u = self._call(manifold, "proju", origin, eye[axis])
            for _ in range(2):  # a second pass removes the rounding errors of the first
                for row in rows:
                    u = u - self._call(manifold, "inner", origin, u, row) * row
            squared = self._call(manifold, "inner", origin, u, u)
            if axes is not None or float(squared.detach()) > 1e-12:
                kept.append(axis)
                rows.append(u * torch.rsqrt(squared))
        return origin, kept, torch.stack(rows) if rows else origin.new_zeros((0, n))

    @classmethod
    def _origin(cls, manifold: geoopt.Manifold, n: int) -> Tensor:
        method = getattr(manifold, "origin", None)
        if method is None:
            return cls._call(manifold, "origin")
        try:
            origin = method(n, dtype=torch.float64)
            if (
                type(origin) is not Tensor and not torch.compiler.is_compiling()
            ):  # the compiler cannot trace this and does not need it
                origin = origin.as_subclass(Tensor)
            home = next(iter((*manifold.parameters(), *manifold.buffers())), None)
            return origin.to("cpu" if home is None else home.device)
        except NotImplementedError:
            return cls._call(manifold, "origin", torch.empty(0))

    def _origin_and_basis(self, manifold: geoopt.Manifold, n: int, like: Tensor) -> tuple[Tensor, Tensor]:
        origin, basis = self._basis(manifold, n)
        return origin.to(like), basis.to(like)


class ConstantCurvature(Geometry):
    """A space of constant curvature, whose points have a number a dimension: all through the stereographic model.

    It asks the manifold for ``c``, minus the curvature, and for the isometry ``to_ball(x)``, ``from_ball(y)``; or
    override the three. Frame, distances, translations, means, hyperplanes and pictures follow; override those for which
    the space's own coordinates have a better formula.
    """

    extra_numbers = 0
    """How many numbers more than its dimension a point has."""

    def curvature(self, manifold: geoopt.Manifold) -> Tensor:
        return -manifold.c

    def to_ball(self, manifold: geoopt.Manifold, x: Tensor) -> Tensor:
        return self._call(manifold, "to_ball", x)

    def from_ball(self, manifold: geoopt.Manifold, y: Tensor) -> Tensor:
        return self._call(manifold, "from_ball", hm.project(y, k=self.curvature(manifold)))

    def exp0(self, manifold: geoopt.Manifold, v: Tensor) -> Tensor:
        return self.from_ball(manifold, hm.expmap0(v * (self.scale(manifold) / 2), k=self.curvature(manifold)))

    def log0(self, manifold: geoopt.Manifold, x: Tensor) -> Tensor:
        return hm.logmap0(self.to_ball(manifold, x), k=self.curvature(manifold)) * (2 / self.scale(manifold))

    def ambient_dim(self, manifold: geoopt.Manifold, d: int) -> int:
        return d + self.extra_numbers

    def intrinsic_dim(self, manifold: geoopt.Manifold, n: int) -> int:
        return n - self.extra_numbers

    def dist(self, manifold: geoopt.Manifold, x: Tensor, y: Tensor) -> Tensor:
        return hm.dist(self.to_ball(manifold, x), self.to_ball(manifold, y), k=self.curvature(manifold))

    def sqdist(self, manifold: geoopt.Manifold, x: Tensor, y: Tensor) -> Tensor:
        return hm.sqdist(self.to_ball(manifold, x), self.to_ball(manifold, y), k=self.curvature(manifold))

    def translate(self, manifold: geoopt.Manifold, p: Tensor, x: Tensor) -> Tensor:
        moved = hm.mobius_add(self.to_ball(manifold, p), self.to_ball(manifold, x), k=self.curvature(manifold))
        return self.from_ball(manifold, moved)

    def translate_back(self, manifold: geoopt.Manifold, p: Tensor, x: Tensor) -> Tensor:
        moved = hm.mobius_add(-self.to_ball(manifold, p), self.to_ball(manifold, x), k=self.curvature(manifold))
        return self.from_ball(manifold, moved)

    def fold(self, manifold: geoopt.Manifold, v: Tensor) -> Tensor:
        half = self.scale(manifold) / 2
        return folded(v * half, self.curvature(manifold)) / half

    def lifted_dim(self, manifold: geoopt.Manifold, n: int) -> int:
        return n - self.extra_numbers + 2

    def lift(self, manifold: geoopt.Manifold, x: Tensor) -> Tensor:
        y = self.to_ball(manifold, x)
        lam = hm.lambda_x(y, k=self.curvature(manifold), keepdim=True)
        return torch.cat([lam * y, lam - 1, torch.ones_like(lam)], dim=-1)

    def lower(self, manifold: geoopt.Manifold, s: Tensor) -> Tensor:
        middle = hm.centroid(s[..., :-2], s[..., -2:-1], s[..., -1:], k=self.curvature(manifold))
        return self.from_ball(manifold, middle)

    def _row_curvature(self, manifold: geoopt.Manifold) -> Tensor:
        """Of the stereographic model in which frame coordinates are what they are here."""
        half, k = self.scale(manifold) / 2, self.curvature(manifold)
        return k if half == 1 else k * (half * half)

    def _kept(self, manifold: geoopt.Manifold, u: Tensor) -> Tensor:
        """Rows as points of their dtype know them; operations, which compute in float32 or float64, know only those."""
        return u if u.dtype in (torch.float32, torch.float64) else self.fold(manifold, u)

    def translate_rows(self, manifold: geoopt.Manifold, u: Tensor, x: Tensor) -> Tensor:
        moved = hm.translated_row(self._kept(manifold, u), self.log0(manifold, x), k=self._row_curvature(manifold))
        return self._kept(manifold, moved)

    def lifted_rows_dim(self, manifold: geoopt.Manifold, d: int) -> int:
        return d + 2

    def lift_rows(self, manifold: geoopt.Manifold, u: Tensor, weights: Tensor | None = None) -> Tensor:
        w = u.new_ones(()) if weights is None else weights.to(u.dtype)
        k, u = self._row_curvature(manifold), self._kept(manifold, u)
        return torch.cat([hm.lifted_row(u, w, k=k), w.expand(*u.shape[:-1], 1)], dim=-1)

    def lower_rows(self, manifold: geoopt.Manifold, s: Tensor) -> Tensor:
        sums, weight = s.split((s.shape[-1] - 1, 1), dim=-1)
        return self._kept(manifold, hm.lowered_row(sums, weight, k=self._row_curvature(manifold)))

    def has_spatial(self, manifold: geoopt.Manifold) -> bool:
        return float(self.curvature(manifold).detach()) <= 0

    def to_spatial(self, manifold: geoopt.Manifold, x: Tensor) -> Tensor:
        return _spatial_of_ball(self.to_ball(manifold, x), k=self.curvature(manifold))

    def from_spatial(self, manifold: geoopt.Manifold, s: Tensor) -> Tensor:
        return self.from_ball(manifold, _ball_of_spatial(s, k=self.curvature(manifold)))

    def plane_distance(self, manifold: geoopt.Manifold, x: Tensor, p: Tensor, a: Tensor) -> Tensor:
        x, p = self.to_ball(manifold, x), self.to_ball(manifold, p)
        return hm.dist2plane(x, p, a, k=self.curvature(manifold), signed=True)


def folded(v: Tensor, k: Tensor) -> Tensor:
    """log0(project(exp0(v))) on the stereographic model: within the radius that a dtype can tell apart (k < 0), or
    within half of a great circle, beyond which a geodesic comes back from the other side (k > 0)."""
    if not v.numel():
        return v
    margin = hm.boundary_margin(v.dtype)
    limit, rim = math.atanh(1 - margin), math.atanh(1 - 1.5 * margin)
    if can_look(v, k):  # most rows are short enough: then there is nothing to do
        number = float(k.detach())
        furthest = limit if number < 0 else math.pi / 2
        if float(v.detach().square().sum(-1).max()) * abs(number) <= furthest**2:
            return v
    k = k.to(v)
    root = torch.where(k == 0, 1.0, k.abs()).sqrt()
    length = torch.linalg.vector_norm(v.detach(), dim=-1, keepdim=True) * root
    outside = (length > torch.where(k < 0, limit, math.pi / 2)) & (k != 0)
    length = torch.linalg.vector_norm(torch.where(outside, v, 1.0), dim=-1, keepdim=True) * root
    turned = length - math.pi * torch.round(length.detach() / math.pi)
    return torch.where(outside, v * (torch.where(k < 0, rim, turned) / length), v)


def can_look(*tensors: Tensor) -> bool:
    """Whether the numbers can be looked at without stalling a GPU or breaking a graph."""
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
        return False
    return all(type(t.detach()) is Tensor and t.device.type == "cpu" for t in tensors)


def refuse_rows(name: str, bad: Tensor, describe: Callable[[tuple[int, ...]], str]) -> None:
    """Raise an error about the first of the ``bad`` rows, if there are any; ``describe(row)`` says what is wrong."""
    if not bool(bad.any()):
        return
    if not bad.dim():
        raise ValueError(f"{name}: {describe(())}")
    rows = bad.nonzero()
    first = tuple(rows[0].tolist())
    where = first[0] if len(first) == 1 else first
    raise ValueError(
        f"{name}: {len(rows)} of {bad.numel()} rows are wrong; the first is row {where}: {describe(first)}"
    )
