"""Euclidean space, geoopt's: coordinates are points."""

from __future__ import annotations

import torch
from torch import Tensor

import hgeo.math as hm
from hgeo._geoopt import geoopt
from hgeo.manifolds._functions import register
from hgeo.manifolds._geometry import ConstantCurvature, Geometry, dot, unit
from hgeo.manifolds._pairwise import flat_pairs
from hgeo.manifolds._words import Word

__all__ = ["EuclideanGeometry"]


class EuclideanGeometry(ConstantCurvature):
    """A vector has its own length; half of it is the point of the stereographic model of curvature 0."""

    def curvature(self, manifold: geoopt.Manifold) -> Tensor:
        return torch.zeros(())

    def exp0(self, manifold: geoopt.Manifold, v: Tensor) -> Tensor:
        return v

    def log0(self, manifold: geoopt.Manifold, x: Tensor) -> Tensor:
        return x

    project = log0
    fold = exp0

    def to_ball(self, manifold: geoopt.Manifold, x: Tensor) -> Tensor:
        return x / 2

    def from_ball(self, manifold: geoopt.Manifold, y: Tensor) -> Tensor:
        return 2 * y

    to_spatial = log0

    def from_spatial(self, manifold: geoopt.Manifold, s: Tensor) -> Tensor:
        return s

    def dist(self, manifold: geoopt.Manifold, x: Tensor, y: Tensor) -> Tensor:
        # Half the distance of the stereographic metric at k = 0, with its derivatives at x = y.
        return hm.dist(x, y, k=0.0) / 2

    def sqdist(self, manifold: geoopt.Manifold, x: Tensor, y: Tensor) -> Tensor:
        return (x - y).square().sum(-1)

    def pairs(self, manifold: geoopt.Manifold, x: Tensor, y: Tensor) -> Tensor:
        return flat_pairs(x, y)

    def translate(self, manifold: geoopt.Manifold, p: Tensor, x: Tensor) -> Tensor:
        return p + x

    def translate_back(self, manifold: geoopt.Manifold, p: Tensor, x: Tensor) -> Tensor:
        return x - p

    def lifted_dim(self, manifold: geoopt.Manifold, n: int) -> int:
        return n + 1

    def lift(self, manifold: geoopt.Manifold, x: Tensor) -> Tensor:
        return torch.cat([x, torch.ones_like(x[..., :1])], dim=-1)

    def lower(self, manifold: geoopt.Manifold, s: Tensor) -> Tensor:
        total = s[..., -1:]
        return s[..., :-1] / torch.where(total == 0, 1.0, total)

    def translate_rows(self, manifold: geoopt.Manifold, u: Tensor, x: Tensor) -> Tensor:
        return u + x

    lifted_rows_dim = Geometry.lifted_rows_dim
    lift_rows = Geometry.lift_rows
    lower_rows = Geometry.lower_rows

    def plane_distance(self, manifold: geoopt.Manifold, x: Tensor, p: Tensor, a: Tensor) -> Tensor:
        return dot(x - p, unit(a)).squeeze(-1)

    def free_coordinates(self, manifold: geoopt.Manifold) -> bool:
        return True

    def is_plain(self, manifold: geoopt.Manifold) -> bool:
        return True


register(geoopt.Euclidean, EuclideanGeometry(), word=Word("euclidean", lambda: geoopt.Euclidean(1)))
