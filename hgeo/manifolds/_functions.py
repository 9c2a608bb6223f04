"""The registry of geometries, and the functions that ask them: ``hgeo.exp0(manifold, v)`` and its like."""

from __future__ import annotations

import torch
from torch import Tensor

import hgeo.math as hm
from hgeo._geoopt import geoopt
from hgeo.manifolds._geometry import Geometry, Part, refuse_rows
from hgeo.manifolds._words import Word, add_word

__all__ = [
    "ambient_dim",
    "curvature",
    "describe",
    "dist",
    "exp0",
    "factors",
    "fold",
    "frame_scale",
    "geometry",
    "has_mobius",
    "intrinsic_dim",
    "lift",
    "lift_rows",
    "log0",
    "lower",
    "lower_rows",
    "parts",
    "plane_distance",
    "project",
    "register",
    "sqdist",
    "translate",
    "translate_back",
    "translate_rows",
    "validate",
]

_GEOMETRIES: dict[type, Geometry] = {}
_GENERAL = Geometry()


def register(cls: type, geometry: Geometry, *, word: Word | None = None) -> None:
    """Tell hgeo how manifolds of class ``cls`` (and its subclasses) answer, and their word in a space string.

    >>> class Doubled(Geometry):
    ...     "A line whose coordinates count half."
    ...     def exp0(self, manifold, v): return 2 * v
    ...     def log0(self, manifold, x): return x / 2
    """
    if not isinstance(geometry, Geometry):
        hint = f"; give an instance: {geometry.__name__}()" if isinstance(geometry, type) else ""
        raise TypeError(f"register: expected an instance of hgeo.Geometry, got {geometry!r}{hint}")
    if word is not None:
        add_word(cls, word)
    _GEOMETRIES[cls] = geometry


def geometry(manifold: geoopt.Manifold) -> Geometry:
    """The geometry that serves a manifold: the one registered for the nearest of its classes, else the general one."""
    for cls in type(manifold).__mro__:
        if cls in _GEOMETRIES:
            return _GEOMETRIES[cls]
    if not isinstance(manifold, geoopt.Manifold):
        raise TypeError(f"expected a geoopt manifold, got {type(manifold).__name__}: {manifold!r}")
    return _GENERAL


def exp0(manifold: geoopt.Manifold, v: Tensor) -> Tensor:
    """The point with tangent coordinates ``v`` at the origin of ``manifold``.

    >>> import torch, hgeo
    >>> hgeo.exp0(hgeo.PoincareBall(), torch.tensor([1.0, 0.0]))
    tensor([0.7616, 0.0000])
    """
    hm.floating("exp0", "v", v)
    return geometry(manifold).exp0(manifold, v)


def log0(manifold: geoopt.Manifold, x: Tensor) -> Tensor:
    """Tangent coordinates of the point ``x`` at the origin: the inverse of :func:`exp0`."""
    hm.floating("log0", "x", x)
    return geometry(manifold).log0(manifold, x)


def frame_scale(manifold: geoopt.Manifold) -> float:
    """Riemannian length of a unit coordinate vector at the origin: 2 on the stereographic family, else 1."""
    return geometry(manifold).scale(manifold)


def ambient_dim(manifold: geoopt.Manifold, d: int) -> int:
    """How many numbers a point has on the manifold of intrinsic dimension ``d``."""
    return geometry(manifold).ambient_dim(manifold, d)


def intrinsic_dim(manifold: geoopt.Manifold, n: int) -> int:
    """The intrinsic dimension of the manifold whose points have ``n`` numbers: the inverse of :func:`ambient_dim`."""
    return geometry(manifold).intrinsic_dim(manifold, n)


def dist(manifold: geoopt.Manifold, x: Tensor, y: Tensor) -> Tensor:
    """Geodesic distance of points (..., n), by the most accurate formula known for that manifold."""
    hm.floating("dist", "x", x)
    hm.floating("dist", "y", y)
    return geometry(manifold).dist(manifold, x, y)


def sqdist(manifold: geoopt.Manifold, x: Tensor, y: Tensor) -> Tensor:
    """The squared distance, smooth at x = y where it can be."""
    return geometry(manifold).sqdist(manifold, x, y)


def project(manifold: geoopt.Manifold, x: Tensor) -> Tensor:
    """x brought back onto the manifold, within the radius that its dtype can tell apart."""
    return geometry(manifold).project(manifold, x)


def translate(manifold: geoopt.Manifold, p: Tensor, x: Tensor) -> Tensor:
    """T_p(x): the isometry that carries the origin to p along their geodesic, applied to x.

    p ⊕ x on the stereographic family; everywhere exp_p of log_0(x) transported from the origin to p.
    """
    return geometry(manifold).translate(manifold, p, x)


def translate_back(manifold: geoopt.Manifold, p: Tensor, x: Tensor) -> Tensor:
    """The inverse of :func:`translate` in x: log0 of it is log_p(x) transported to the origin; ⊖p ⊕ x."""
    return geometry(manifold).translate_back(manifold, p, x)


def fold(manifold: geoopt.Manifold, v: Tensor) -> Tensor:
    """log0(exp0(v)): frame coordinates brought to where they stand for points. Nothing happens where space is flat;
    hyperbolic points end at the radius limit of their dtype, and a sphere's geodesics come back from the other side.

    >>> import torch, hgeo
    >>> fold(hgeo.space("sphere:2").manifold, torch.tensor([3.5, 0.0]))
    tensor([-2.7832, -0.0000])
    """
    return geometry(manifold).fold(manifold, v)


def lift(manifold: geoopt.Manifold, x: Tensor) -> Tensor:
    """Vectors whose weighted sums :func:`lower` turns into gyromidpoints."""
    return geometry(manifold).lift(manifold, x)


def lower(manifold: geoopt.Manifold, s: Tensor) -> Tensor:
    """The gyromidpoint of a weighted sum of lifted points. A sum of nothing gives the origin."""
    return geometry(manifold).lower(manifold, s)


def translate_rows(manifold: geoopt.Manifold, u: Tensor, x: Tensor) -> Tensor:
    """log0(exp0(u) ⊕ x): frame coordinates (..., d) of x after the translations that carry the origin to exp0(u)."""
    return geometry(manifold).translate_rows(manifold, u, x)


def lift_rows(manifold: geoopt.Manifold, u: Tensor, weights: Tensor | None = None) -> Tensor:
    """Vectors for the points exp0(u), times ``weights`` (..., 1), for sums that :func:`lower_rows` reads."""
    return geometry(manifold).lift_rows(manifold, u, weights)


def lower_rows(manifold: geoopt.Manifold, s: Tensor) -> Tensor:
    """log0 of the gyromidpoint of points, from a sum of their :func:`lift_rows`; 0 of a sum of nothing.

    >>> import torch, hgeo
    >>> u = torch.tensor([[1.0, 0.0], [0.0, 0.0]])
    >>> lower_rows(hgeo.PoincareBall(), lift_rows(hgeo.PoincareBall(), u).sum(0))
    tensor([0.5000, 0.0000])
    """
    return geometry(manifold).lower_rows(manifold, s)


def plane_distance(manifold: geoopt.Manifold, x: Tensor, p: Tensor, a: Tensor) -> Tensor:
    """Signed distance of x to the hyperplane through p orthogonal to a, a vector in the origin's frame carried to p."""
    return geometry(manifold).plane_distance(manifold, x, p, a)


def curvature(manifold: geoopt.Manifold) -> Tensor | None:
    """The signed sectional curvature, a scalar, of a space that has the same one everywhere and tells it; else None."""
    return geometry(manifold).curvature(manifold)


def parts(manifold: geoopt.Manifold, d: int) -> list[Part] | None:
    """The constant-curvature factors of a space of dimension ``d``, by slices of frame coordinates; None if unknown."""
    return geometry(manifold).parts(manifold, d)


def factors(manifold: geoopt.Manifold) -> list[tuple[geoopt.Manifold, slice]] | None:
    """The factors of a product, each with its slice of a point's numbers; None for anything else."""
    return geometry(manifold).factors(manifold)


def has_mobius(manifold: geoopt.Manifold) -> bool:
    """Whether points have ball coordinates and Möbius operations: the stereographic family, and products of it."""
    return geometry(manifold).has_mobius(manifold)


def describe(manifold: geoopt.Manifold, dim: int | None = None) -> str:
    """A space in the notation of space strings, such as ``ball:16,c=0.5,learn``; ``R:8`` for plain vectors (None)."""
    if manifold is None:
        return "R" if dim is None else f"R:{dim}"
    return geometry(manifold).describe(manifold, dim)


def validate(manifold: geoopt.Manifold, x: Tensor, *, name: str = "x") -> Tensor:
    """Check that ``x`` holds points of ``manifold`` and return it; the error says which row is wrong, and by how much.

    Layers and manifold methods do not look at values (that would stall a GPU and break compilation): call this where
    data enter.

    >>> import torch, hgeo
    >>> hgeo.validate(hgeo.PoincareBall(), torch.tensor([[0.1, 0.2], [3.0, 4.0]]))
    Traceback (most recent call last):
    ValueError: x: 1 of 2 rows are wrong; the first is row 1: √c|x| = 5, and a point of the ball has less than 1; ...
    """
    if not isinstance(x, Tensor) or not x.dtype.is_floating_point:
        kind = x.dtype if isinstance(x, Tensor) else type(x).__name__
        raise TypeError(f"{name}: expected a floating-point tensor of points, got {kind}")
    found = geometry(manifold)  # an error if it is no manifold
    if getattr(manifold, "ndim", 1) > 0 and (x.dim() == 0 or x.shape[-1] == 0):
        raise ValueError(f"{name}: expected points of shape (..., n), n ≥ 1, got shape {tuple(x.shape)}")
    with torch.no_grad():
        refuse_rows(name, ~torch.isfinite(x).all(-1), lambda at: f"{x[at].tolist()[:8]} is not finite")
        found.validate(manifold, x, name)
    return x
