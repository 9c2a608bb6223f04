"""Products of manifolds, by intrinsic dimension."""

from __future__ import annotations

import numbers

import torch
from torch import Tensor

import hgeo.math as hm
from hgeo._geoopt import geoopt
from hgeo.manifolds._functions import (
    ambient_dim,
    describe,
    dist,
    exp0,
    fold,
    frame_scale,
    geometry,
    has_mobius,
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

__all__ = ["Product"]


class Product(geoopt.ProductManifold):
    """The product of manifolds, with distance √Σd². Each factor keeps a curvature of its own.

    A :class:`geoopt.ProductManifold` whose factors are given by *intrinsic* dimension, and whose points are those of
    the factors side by side.

    Args:
        factors: pairs (manifold, intrinsic dimension). A factor may itself be a product.

    >>> import torch, hgeo
    >>> from geoopt import Sphere
    >>> space = hgeo.Product((hgeo.PoincareBall(), 2), (Sphere(), 2))
    >>> space.dim, hgeo.ambient_dim(space, 4)
    (4, 5)
    """

    def __init__(self, *factors: tuple[geoopt.Manifold, int]) -> None:
        if not factors:
            raise ValueError("a product needs at least one factor: Product((manifold, dimension), ...)")
        for factor in factors:
            pair = isinstance(factor, tuple) and len(factor) == 2
            if not pair or isinstance(factor[1], bool) or not isinstance(factor[1], numbers.Integral):
                raise TypeError(f"a factor of a product is a pair (manifold, intrinsic dimension), got {factor!r}")
            if factor[1] < 1:
                raise ValueError(f"a factor's dimension must be at least 1, got {factor[1]} for {factor[0]}")
        dims = tuple(int(d) for _, d in factors)
        super().__init__(*[(m, ambient_dim(m, d)) for (m, _), d in zip(factors, dims, strict=True)])
        self.dims: tuple[int, ...] = dims

    @property
    def dim(self) -> int:
        """The intrinsic dimension, the sum of the factors'."""
        return sum(self.dims)

    def dist(self, x: Tensor, y: Tensor, *, keepdim: bool = False) -> Tensor:
        distance = dist(self, x, y)
        return distance.unsqueeze(-1) if keepdim else distance

    def dist2(self, x: Tensor, y: Tensor, *, keepdim: bool = False) -> Tensor:
        return self.dist(x, y, keepdim=keepdim) ** 2

    def norm(self, x: Tensor, u: Tensor, *, keepdim: bool = False) -> Tensor:
        """Length of a tangent vector at x, with derivatives 0, not infinite, at the zero vector."""
        return hm.safe_sqrt(self.inner(x, u, keepdim=keepdim))

    def factors(self, x: Tensor) -> list[tuple[geoopt.Manifold, Tensor]]:
        """Each factor with its part of the points ``x``."""
        return _pieces(self, x)

    def extra_repr(self) -> str:
        return f"dims={self.dims}"


def _factors(manifold: geoopt.Manifold) -> list[tuple[geoopt.Manifold, int, int]]:
    """(factor, intrinsic dimension, numbers) of each factor."""
    sizes = [part.stop - part.start for part in manifold.slices]
    return [(m, intrinsic_dim(m, n), n) for m, n in zip(manifold.manifolds, sizes, strict=True)]


def _check(manifold: geoopt.Manifold, given: int, expected: int, what: str) -> None:
    if given != expected:
        raise ValueError(f"{what} of {manifold} have {expected} numbers in their last dimension, got {given}")


def _pieces(manifold: geoopt.Manifold, x: Tensor) -> list[tuple[geoopt.Manifold, Tensor]]:
    """Each factor with its part of the point."""
    sizes = [part.stop - part.start for part in manifold.slices]
    _check(manifold, x.shape[-1], sum(sizes), "points")
    return list(zip(manifold.manifolds, x.split(sizes, dim=-1), strict=True))


class ProductGeometry(Geometry):
    """Factor by factor. Coordinates are those of the factors, side by side; where their scales differ they become 1."""

    def _coordinates(self, manifold: geoopt.Manifold, v: Tensor) -> list[tuple[geoopt.Manifold, Tensor, float]]:
        """Each factor with its coordinates in its own unit, and what they were multiplied by."""
        dims = [d for _, d, _ in _factors(manifold)]
        _check(manifold, v.shape[-1], sum(dims), "tangent coordinates")
        whole = self.scale(manifold)
        pieces = zip(manifold.manifolds, v.split(dims, dim=-1), strict=True)
        return [
            (m, piece if unit == 1 else piece * unit, unit) for m, piece in pieces for unit in (whole / frame_scale(m),)
        ]

    def exp0(self, manifold: geoopt.Manifold, v: Tensor) -> Tensor:
        return torch.cat([exp0(m, piece) for m, piece, _ in self._coordinates(manifold, v)], dim=-1)

    def log0(self, manifold: geoopt.Manifold, x: Tensor) -> Tensor:
        whole = self.scale(manifold)
        return torch.cat([log0(m, piece) * (frame_scale(m) / whole) for m, piece in _pieces(manifold, x)], dim=-1)

    def fold(self, manifold: geoopt.Manifold, v: Tensor) -> Tensor:
        return torch.cat([fold(m, piece) / unit for m, piece, unit in self._coordinates(manifold, v)], dim=-1)

    def scale(self, manifold: geoopt.Manifold) -> float:
        scales = {frame_scale(m) for m in manifold.manifolds}
        return scales.pop() if len(scales) == 1 else 1.0

    def ambient_dim(self, manifold: geoopt.Manifold, d: int) -> int:
        factors = _factors(manifold)
        own = sum(d for _, d, _ in factors)
        if d != own:
            raise ValueError(f"{manifold} has dimension {own}, asked for {d}; a product's dimension is fixed once made")
        return sum(n for _, _, n in factors)

    def intrinsic_dim(self, manifold: geoopt.Manifold, n: int) -> int:
        factors = _factors(manifold)
        _check(manifold, n, sum(n for _, _, n in factors), "points")
        return sum(d for _, d, _ in factors)

    def dist(self, manifold: geoopt.Manifold, x: Tensor, y: Tensor) -> Tensor:
        return hm.safe_sqrt(self.sqdist(manifold, x, y))

    def sqdist(self, manifold: geoopt.Manifold, x: Tensor, y: Tensor) -> Tensor:
        pairs = zip(_pieces(manifold, x), _pieces(manifold, y), strict=True)
        return torch.stack([sqdist(m, a, b) for (m, a), (_, b) in pairs], dim=-1).sum(-1)

    def pairs(self, manifold: geoopt.Manifold, x: Tensor, y: Tensor) -> Tensor:
        factors = zip(_pieces(manifold, x), _pieces(manifold, y), strict=True)
        squares = [geometry(m).pairs(m, a, b) ** 2 for (m, a), (_, b) in factors]
        return hm.safe_sqrt(torch.stack(squares, dim=-1).sum(-1))

    def project(self, manifold: geoopt.Manifold, x: Tensor) -> Tensor:
        return torch.cat([project(m, part) for m, part in _pieces(manifold, x)], dim=-1)

    def translate(self, manifold: geoopt.Manifold, p: Tensor, x: Tensor) -> Tensor:
        pairs = zip(_pieces(manifold, p), _pieces(manifold, x), strict=True)
        return torch.cat([translate(m, a, b) for (m, a), (_, b) in pairs], dim=-1)

    def translate_back(self, manifold: geoopt.Manifold, p: Tensor, x: Tensor) -> Tensor:
        pairs = zip(_pieces(manifold, p), _pieces(manifold, x), strict=True)
        return torch.cat([translate_back(m, a, b) for (m, a), (_, b) in pairs], dim=-1)

    def _lifted_dims(self, manifold: geoopt.Manifold) -> list[int]:
        return [geometry(m).lifted_dim(m, n) for m, _, n in _factors(manifold)]

    def lifted_dim(self, manifold: geoopt.Manifold, n: int) -> int:
        return sum(self._lifted_dims(manifold))

    def lift(self, manifold: geoopt.Manifold, x: Tensor) -> Tensor:
        return torch.cat([lift(m, part) for m, part in _pieces(manifold, x)], dim=-1)

    def lower(self, manifold: geoopt.Manifold, s: Tensor) -> Tensor:
        parts = s.split(self._lifted_dims(manifold), dim=-1)
        return torch.cat([lower(m, part) for m, part in zip(manifold.manifolds, parts, strict=True)], dim=-1)

    def translate_rows(self, manifold: geoopt.Manifold, u: Tensor, x: Tensor) -> Tensor:
        pairs = zip(self._coordinates(manifold, u), _pieces(manifold, x), strict=True)
        return torch.cat([translate_rows(m, v, point) / unit for (m, v, unit), (_, point) in pairs], dim=-1)

    def lifted_rows_dim(self, manifold: geoopt.Manifold, d: int) -> int:
        return sum(self._lifted_rows_dims(manifold))

    def _lifted_rows_dims(self, manifold: geoopt.Manifold) -> list[int]:
        return [geometry(m).lifted_rows_dim(m, size) for m, size, _ in _factors(manifold)]

    def lift_rows(self, manifold: geoopt.Manifold, u: Tensor, weights: Tensor | None = None) -> Tensor:
        return torch.cat([lift_rows(m, v, weights) for m, v, _ in self._coordinates(manifold, u)], dim=-1)

    def lower_rows(self, manifold: geoopt.Manifold, s: Tensor) -> Tensor:
        whole, sums = self.scale(manifold), s.split(self._lifted_rows_dims(manifold), dim=-1)
        rows = [
            lower_rows(m, part) * (frame_scale(m) / whole) for m, part in zip(manifold.manifolds, sums, strict=True)
        ]
        return torch.cat(rows, dim=-1)

    def plane_score(self, manifold: geoopt.Manifold, x: Tensor, p: Tensor, a: Tensor) -> Tensor:
        points = zip(_pieces(manifold, x), _pieces(manifold, p), self._coordinates(manifold, a), strict=True)
        # A normal keeps its Riemannian length in the unit of the factor.
        scores = [geometry(m).plane_score(m, part, q, b) for (m, part), (_, q), (_, b, _) in points]
        return torch.stack(scores, dim=-1).sum(-1)

    def parts(self, manifold: geoopt.Manifold, d: int) -> list[Part] | None:
        found, start, whole = [], 0, self.scale(manifold)
        for m, size, _ in _factors(manifold):
            inside = geometry(m).parts(m, size)
            if inside is None:
                return None
            for part in inside:
                place = slice(start + part.coordinates.start, start + part.coordinates.stop)
                found.append(Part(place, part.curvature, whole))
            start += size
        return found

    def factors(self, manifold: geoopt.Manifold) -> list[tuple[geoopt.Manifold, slice]]:
        return list(zip(manifold.manifolds, manifold.slices, strict=True))

    def has_mobius(self, manifold: geoopt.Manifold) -> bool:
        return all(has_mobius(m) for m in manifold.manifolds)

    def free_coordinates(self, manifold: geoopt.Manifold) -> bool:
        return all(geometry(m).free_coordinates(m) for m in manifold.manifolds)

    def validate(self, manifold: geoopt.Manifold, x: Tensor, name: str) -> None:
        for index, (factor, part) in enumerate(_pieces(manifold, x)):
            validate(factor, part, name=f"{name}, factor {index}")

    def describe(self, manifold: geoopt.Manifold, dim: int | None = None) -> str:
        parts = [describe(m, d) for m, d, _ in _factors(manifold)]
        return " x ".join(f"({part})" if " x " in part else part for part in parts)


register(geoopt.ProductManifold, ProductGeometry())
