r"""Entailment cones (Ganea, Bécigneul and Hofmann, 2018): at every point a cone that opens away from the origin.

The cone of x holds y if the angle at x between the outward ray and the geodesic to y is at most the half aperture ψ(x),

.. math:: \sin\psi(x) = \frac{2K}{\sinh(\sqrt c\, d(0,x))}
          = \frac{K(1 - c|x|^2)}{\sqrt c\,|x|} \text{ on the ball}
          = \frac{2K}{\sqrt c\,|X'|} \text{ on the hyperboloid.}

With sinh(√c d) in the denominator cones are nested: whatever lies in the cone of y, which lies in that of x, lies in
that of x. Nearer to the origin than sinh(√c d) = 2K no such angle exists, and the cone is the half-space beyond x,
ψ = π/2. As c → 0 that holds ever further out: at c = 0 every cone is a half-space.
"""

from __future__ import annotations

import torch
from torch import Tensor

from hgeo.math._contract import Curvature, geometry, same_dimension
from hgeo.math._hyperboloid import lorentz_to_ball
from hgeo.math._scalars import safe_sqrt
from hgeo.math._stereographic import lambda_x

__all__ = [
    "cone_angle",
    "cone_aperture",
    "cone_energy",
    "lorentz_cone_angle",
    "lorentz_cone_aperture",
    "lorentz_cone_energy",
]


def _squared(x: Tensor, dim: int) -> Tensor:
    return (x * x).sum(dim, keepdim=True)


def _reduced(value: Tensor, dim: int, keepdim: bool) -> Tensor:
    return value if keepdim else value.squeeze(dim)


def _aperture(sine: Tensor | float, squared: Tensor) -> Tensor:
    """The angle whose sine is ``sine``/√``squared``, or π/2 where that is more than 1, with derivative 0 there."""
    sine = sine + torch.zeros_like(squared)
    return torch.atan2(sine, safe_sqrt((squared - sine * sine).clamp(min=0.0)))


def _angle(p: Tensor, step: Tensor, flatness: Tensor, c: Curvature, dim: int) -> Tensor:
    """The angle at the ball's point p between p and -p ⊕ (p + step), with 1 - c|p|² as ``flatness``."""
    ahead = flatness * step - c * _squared(step, dim) * p
    sides = _squared(p, dim), _squared(ahead, dim)
    nowhere = (sides[0] == 0) | (sides[1] == 0)
    ray, ahead = (
        v * torch.rsqrt(torch.where(length == 0, 1.0, length)) for v, length in zip((p, ahead), sides, strict=True)
    )
    # not by the cosine, which stands still at the angles 0 and π
    chord, cochord = safe_sqrt(_squared(ahead - ray, dim)), safe_sqrt(_squared(ahead + ray, dim))
    return torch.where(nowhere, 0.0, 2 * torch.atan2(chord, torch.where(nowhere, 1.0, cochord)))


@geometry
def cone_aperture(x: Tensor, *, c: Curvature, K: float = 0.1, dim: int = -1, keepdim: bool = False) -> Tensor:
    r"""Computes the half aperture of the entailment cone at points of the ball of curvature -c, c ≥ 0.

    .. math:: \psi(x) = \arcsin\frac{K(1 - c|x|^2)}{\sqrt c\,|x|}

    and π/2 where the fraction is more than 1, at c = 0 everywhere.

    >>> cone_aperture(torch.tensor([[0.5, 0.0], [0.0, 0.0]]), c=1.0)
    tensor([0.1506, 1.5708])
    """
    flatness = 2 / lambda_x(x, k=-c, dim=dim, keepdim=True)
    return _reduced(_aperture(K * flatness, c * _squared(x, dim)), dim, keepdim)


@geometry
def cone_angle(x: Tensor, y: Tensor, *, c: Curvature, dim: int = -1, keepdim: bool = False) -> Tensor:
    r"""Computes the angle at x between the ray that comes from the origin and the geodesic to y, on the ball, c ≥ 0.

    .. math:: \varphi(x, y) = \angle(x,\ -x\oplus y)

    0 if y lies further out on the ray, π if it lies between x and the origin; 0 at x = y and at x = 0, whose cone is
    the whole space.

    >>> cone_angle(torch.tensor([0.5, 0.0]), torch.tensor([[0.9, 0.0], [0.1, 0.0]]), c=1.0)
    tensor([0.0000, 3.1416])
    """
    same_dimension("cone_angle", dim, x=x, y=y)
    flatness = 2 / lambda_x(x, k=-c, dim=dim, keepdim=True)
    return _reduced(_angle(x, y - x, flatness, c, dim), dim, keepdim)


@geometry
def cone_energy(x: Tensor, y: Tensor, *, c: Curvature, K: float = 0.1, dim: int = -1, keepdim: bool = False) -> Tensor:
    """Computes by how far y misses the cone of x, max(0, φ(x, y) - ψ(x)), on the ball, c ≥ 0. 0: x entails y.

    >>> cone_energy(torch.tensor([0.5, 0.0]), torch.tensor([[0.9, 0.0], [0.0, 0.9]]), c=1.0)
    tensor([0.0000, 2.3502])
    """
    same_dimension("cone_energy", dim, x=x, y=y)
    angle = cone_angle(x, y, c=c, dim=dim, keepdim=keepdim)
    return torch.relu(angle - cone_aperture(x, c=c, K=K, dim=dim, keepdim=keepdim))


@geometry
def lorentz_cone_aperture(x: Tensor, *, c: Curvature, K: float = 0.1, keepdim: bool = False) -> Tensor:
    """Computes the half aperture of the entailment cone on the hyperboloid, arcsin(2K/(√c|X'|)), or π/2; c > 0."""
    spatial = x.narrow(-1, 1, x.shape[-1] - 1)
    return _reduced(_aperture(2 * K, c * _squared(spatial, -1)), -1, keepdim)


@geometry
def lorentz_cone_angle(x: Tensor, y: Tensor, *, c: Curvature, keepdim: bool = False) -> Tensor:
    """Computes the angle of :func:`cone_angle` on the hyperboloid, c > 0.

    In the ball, where angles are what they look like; 1 - c|p|² = 2/(1 + √c X₀) has all of its digits there.
    """
    same_dimension("lorentz_cone_angle", -1, x=x, y=y)
    p = lorentz_to_ball(x, c=c)
    root = torch.sqrt(c) if isinstance(c, Tensor) else c**0.5
    return _reduced(_angle(p, lorentz_to_ball(y, c=c) - p, 2 / (1 + root * x.narrow(-1, 0, 1)), c, -1), -1, keepdim)


@geometry
def lorentz_cone_energy(x: Tensor, y: Tensor, *, c: Curvature, K: float = 0.1, keepdim: bool = False) -> Tensor:
    """Computes by how far y misses the cone of x on the hyperboloid, as :func:`cone_energy` does on the ball; c > 0."""
    same_dimension("lorentz_cone_energy", -1, x=x, y=y)
    angle = lorentz_cone_angle(x, y, c=c, keepdim=keepdim)
    return torch.relu(angle - lorentz_cone_aperture(x, c=c, K=K, keepdim=keepdim))
