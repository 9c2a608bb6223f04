"""Products of manifolds, by intrinsic dimension."""

from __future__ import annotations

import numbers
from typing import Any

from torch import Tensor

import hgeo.math as hm
from hgeo._geoopt import geoopt
from hgeo.manifolds._frame import ambient_dim, dist, frame_of

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

    def __init__(self, *factors: tuple[Any, int]) -> None:
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

    def factors(self, x: Tensor) -> list[tuple[Any, Tensor]]:
        """Each factor with its part of the points ``x``."""
        return frame_of(self).pieces(self, x)  # type: ignore[attr-defined]

    def extra_repr(self) -> str:
        return f"dims={self.dims}"
