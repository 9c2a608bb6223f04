"""The embedded unit sphere, geoopt's, seen from its first axis."""

from __future__ import annotations

import torch
from torch import Tensor

import hgeo.math as hm
from hgeo._geoopt import geoopt
from hgeo.manifolds._functions import register
from hgeo.manifolds._geometry import ConstantCurvature, dot, refuse_rows, unit
from hgeo.manifolds._pairwise import chordal_pairs
from hgeo.manifolds._words import Word

__all__ = ["SphereGeometry"]


class SphereGeometry(ConstantCurvature):
    """Points among vectors whose weighted sums point at gyromidpoints as they are. T_p is the rotation in the plane of
    the first axis and p."""

    extra_numbers = 1

    def curvature(self, manifold: geoopt.Manifold) -> Tensor:
        return torch.ones(())

    def exp0(self, manifold: geoopt.Manifold, v: Tensor) -> Tensor:
        return hm.sphere_expmap0(v, k=1.0)

    def log0(self, manifold: geoopt.Manifold, x: Tensor) -> Tensor:
        return hm.sphere_logmap0(x, k=1.0)

    def dist(self, manifold: geoopt.Manifold, x: Tensor, y: Tensor) -> Tensor:
        return hm.sphere_dist(x, y, k=1.0)

    def sqdist(self, manifold: geoopt.Manifold, x: Tensor, y: Tensor) -> Tensor:
        return self.dist(manifold, x, y) ** 2

    def pairs(self, manifold: geoopt.Manifold, x: Tensor, y: Tensor) -> Tensor:
        return chordal_pairs(x, y)

    def to_ball(self, manifold: geoopt.Manifold, x: Tensor) -> Tensor:
        return hm.sphere_to_stereo(x, k=1.0)

    def from_ball(self, manifold: geoopt.Manifold, y: Tensor) -> Tensor:
        return self.project(manifold, hm.stereo_to_sphere(y, k=1.0))

    def project(self, manifold: geoopt.Manifold, x: Tensor) -> Tensor:
        squared = dot(x, x)
        nothing = squared == 0
        pole = torch.zeros_like(x)
        pole[..., 0] = 1.0
        return torch.where(nothing, pole, x * torch.rsqrt(torch.where(nothing, 1.0, squared)))

    def translate(self, manifold: geoopt.Manifold, p: Tensor, x: Tensor) -> Tensor:
        return self.project(manifold, self._rotated(p[..., :1], p[..., 1:], x))

    def translate_back(self, manifold: geoopt.Manifold, p: Tensor, x: Tensor) -> Tensor:
        return self.project(manifold, self._rotated(p[..., :1], -p[..., 1:], x))

    @staticmethod
    def _rotated(p_pole: Tensor, p_rest: Tensor, x: Tensor) -> Tensor:
        pole, rest = x[..., :1], x[..., 1:]
        # Near the opposite pole 1 + p₀ cancels; it equals |p'|²/(1 - p₀). At that pole itself every geodesic is as good
        # as another, and p' = 0 leaves x' alone.
        below = p_pole < 0
        height = torch.where(below, dot(p_rest, p_rest) / torch.where(below, 1 - p_pole, 1.0), 1 + p_pole)
        along = dot(p_rest, rest)
        turned = rest + p_rest * (pole - along / torch.where(height == 0, 1.0, height))
        return torch.cat([p_pole * pole - along, turned], dim=-1)

    def lifted_dim(self, manifold: geoopt.Manifold, n: int) -> int:
        return n

    def lift(self, manifold: geoopt.Manifold, x: Tensor) -> Tensor:
        return x

    def lower(self, manifold: geoopt.Manifold, s: Tensor) -> Tensor:
        return self.project(manifold, s)

    def plane_distance(self, manifold: geoopt.Manifold, x: Tensor, p: Tensor, a: Tensor) -> Tensor:
        moved = self._rotated(p[..., :1], -p[..., 1:], x)
        normal = unit(a)
        sine = dot(moved[..., 1:], normal)
        within = torch.cat([moved[..., :1], moved[..., 1:] - sine * normal], dim=-1)
        # atan2, not arcsine: right up to the pole of the hyperplane.
        return torch.atan2(sine, hm.safe_sqrt(dot(within, within))).squeeze(-1)

    def validate(self, manifold: geoopt.Manifold, x: Tensor, name: str) -> None:
        tolerance = 64 * torch.finfo(x.dtype).eps
        length = x.norm(dim=-1)
        refuse_rows(name, (length - 1).abs() > tolerance, lambda at: f"|x| = {float(length[at]):.9g} instead of 1")
        projector = getattr(manifold, "projector", None)
        if projector is not None:  # a sphere of a subspace
            wide = x.to(torch.promote_types(x.dtype, projector.dtype))
            off = (wide - wide @ projector.to(wide.dtype).transpose(-1, -2)).norm(dim=-1)
            bad = off > max(tolerance, 64 * torch.finfo(projector.dtype).eps)
            refuse_rows(name, bad, lambda at: f"it lies {float(off[at]):.9g} off the subspace of {manifold}")


register(geoopt.Sphere, SphereGeometry(), word=Word("sphere", geoopt.Sphere))
