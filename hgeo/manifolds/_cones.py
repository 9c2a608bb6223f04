"""Entailment cones on any hyperbolic space: of what a point is a kind of."""

from __future__ import annotations

import torch
from torch import Tensor

import hgeo.math as hm
from hgeo._geoopt import geoopt
from hgeo.manifolds._functions import curvature, geometry
from hgeo.manifolds._lorentz import lorentz_curvature

__all__ = ["cone_angle", "cone_aperture", "cone_energy"]


# Checks that need no value of a curvature.
_NOT_HYPERBOLIC = (geoopt.Euclidean, geoopt.Sphere, geoopt.SphereProjection)


def cone_aperture(manifold: geoopt.Manifold, x: Tensor, *, K: float = 0.1) -> Tensor:
    """Computes the half aperture ψ of the entailment cone at each point, sin ψ = 2K/sinh(√c d(0, x)).

    Nearer to the origin than sinh(√c d) = 2K, and so everywhere on a flat space, it is π/2.

    Args:
        manifold: a hyperbolic space.
        x: points (..., n).
        K: the width of the cones.

    Returns:
        angles (...).

    >>> import torch, hgeo
    >>> hgeo.cone_aperture(hgeo.PoincareBall(), torch.tensor([0.5, 0.0]))
    tensor(0.1506)
    """
    if isinstance(manifold, geoopt.Scaled):  # angles do not change with the unit of length
        return cone_aperture(manifold.base, x, K=K)
    if isinstance(manifold, geoopt.Lorentz):  # whose numbers say more of far points than the ball's do
        return hm.lorentz_cone_aperture(x, c=lorentz_curvature(manifold), K=K)
    x, c = _on_the_ball(manifold, x)
    return hm.cone_aperture(x, c=c, K=K)


def cone_angle(manifold: geoopt.Manifold, x: Tensor, y: Tensor) -> Tensor:
    """Computes the angle at x between the ray that comes from the origin and the geodesic to y.

    Args:
        manifold: a hyperbolic space.
        x: points (..., n).
        y: points (..., n).

    Returns:
        angles (...), 0 for points further out on the ray of x, π for points before it.

    >>> import torch, hgeo
    >>> hgeo.cone_angle(hgeo.PoincareBall(), torch.tensor([0.5, 0.0]), torch.tensor([0.0, 0.9]))
    tensor(2.5007)
    """
    if isinstance(manifold, geoopt.Scaled):
        return cone_angle(manifold.base, x, y)
    if isinstance(manifold, geoopt.Lorentz):
        return hm.lorentz_cone_angle(x, y, c=lorentz_curvature(manifold))
    x, c = _on_the_ball(manifold, x)
    return hm.cone_angle(x, _on_the_ball(manifold, y)[0], c=c)


def cone_energy(manifold: geoopt.Manifold, x: Tensor, y: Tensor, *, K: float = 0.1) -> Tensor:
    """Computes by how far y misses the entailment cone of x: max(0, angle - aperture), 0 if x entails y.

    Args:
        manifold: a hyperbolic space.
        x: points (..., n), the more general ones.
        y: points (..., n), the more special ones.
        K: the width of the cones.

    Returns:
        energies (...).

    >>> import torch, hgeo
    >>> animal, cat, stone = torch.tensor([0.5, 0.0]), torch.tensor([0.9, 0.02]), torch.tensor([0.0, 0.9])
    >>> hgeo.cone_energy(hgeo.PoincareBall(), animal, torch.stack([cat, stone]))
    tensor([0.0000, 2.3502])
    """
    return torch.relu(cone_angle(manifold, x, y) - cone_aperture(manifold, x, K=K))


def _on_the_ball(manifold: geoopt.Manifold, x: Tensor) -> tuple[Tensor, Tensor]:
    """The points in the Poincaré ball, and its c."""
    k = None if isinstance(manifold, _NOT_HYPERBOLIC) else curvature(manifold)
    if k is None:
        raise TypeError(
            "entailment cones are known on hyperbolic spaces (PoincareBall, Stereographic, Lorentz, Klein, scaled "
            f"ones, and others whose geometry tells a curvature); got {type(manifold).__name__}; a flat space with the "
            "same code is hgeo.PoincareBall(c=0.0)"
        )
    return geometry(manifold).to_ball(manifold, x), -k
