"""Layers of the hyperboloid, written in its spatial coordinates.

A point of the hyperboloid of curvature -c is (√(1/c + |s|²), s): its spatial part s, of the length of vectors at the
origin, is enough. With t = √c x₀ = √(1 + c|s|²) nothing here divides by c, so that flat space, s = x and t = 1, is the
same code, and every other model of hyperbolic space goes through it by its isometry.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

import hgeo.math as hm
from hgeo import manifolds
from hgeo.kernels import Number, Operation, Row, dot, sqrt
from hgeo.manifolds import describe

__all__ = [
    "check_spatial",
    "excess",
    "from_spatial",
    "is_near",
    "lorentz_sqdist",
    "lorentz_sqdist_rows",
    "minus_curvature",
    "of_length",
    "plane_scores",
    "to_spatial",
    "with_distances",
    "within_radius",
]


def check_spatial(layer: str, what: str, *spaces: Any) -> None:
    """Refuse a manifold that is neither hyperbolic nor flat; None, plain vectors, is flat."""
    for manifold in spaces:
        if manifold is not None and not manifolds.geometry(manifold).has_spatial(manifold):
            raise ValueError(
                f"{layer}: {what} works in spatial coordinates of the hyperboloid, which hyperbolic and flat spaces "
                f"have and {describe(manifold)} has not; take another form or space"
            )


def _dot(x: Tensor, y: Tensor) -> Tensor:
    return (x * y).sum(-1, keepdim=True)


def _along(u: Tensor, q: Tensor) -> Tensor:
    """The part of u along q, 0 if q is 0. The length of q does not matter; the square of a tiny q would underflow."""
    largest = q.detach().abs().amax(-1, keepdim=True)
    q = q / torch.where(largest == 0, 1.0, largest)
    squared = _dot(q, q)
    return _dot(u, q) / torch.where(squared == 0, 1.0, squared) * q


def to_spatial(manifold: Any, x: Tensor) -> Tensor:
    """The spatial coordinates of points; plain vectors (None) are such of flat space."""
    return x if manifold is None else manifolds.geometry(manifold).to_spatial(manifold, x)


def from_spatial(manifold: Any, s: Tensor) -> Tensor:
    """The points with spatial coordinates ``s``, within the radius that the dtype can tell apart."""
    return manifolds.geometry(manifold).from_spatial(manifold, s)


def minus_curvature(manifold: Any, like: Tensor) -> Tensor:
    """c ≥ 0 as a scalar of the dtype and device of ``like``; 0 for plain vectors."""
    k = None if manifold is None else manifolds.curvature(manifold)
    return like.new_zeros(()) if k is None else -k.to(like)


@Operation
def excess(s: Row, c: Number) -> Number:
    """(..., 1): t - 1 = c|s|²/(1 + t), without cancellation; 0 where space is flat."""
    squared = c * dot(s, s)
    return squared / (1 + sqrt(1 + squared))


def lorentz_sqdist(q: Tensor, k: Tensor, c: Tensor) -> Tensor:
    r"""(...): the squared Lorentzian distance :math:`|q-k|^2 - (q_0-k_0)^2 = \frac4c \sinh^2(\sqrt c\,d/2)`.

    Without curvature it is |q - k|². As printed it is noise far out: at radii 9 and 8 each square is 6e6 times as large
    as their difference. With u = k - q and u⊥ its part orthogonal to q

    .. math:: 2\,\frac{|u|^2 + c|q|^2|u_\perp|^2}{1 + t_q t_k + c\langle q, k\rangle}
              = 2\Big(\frac{|q|^2}{1+t_q} + \frac{|k|^2}{1+t_k} + \frac{c|q|^2|k|^2}{(1+t_q)(1+t_k)}
              - \langle q, k\rangle\Big) ;

    all terms of the first are positive for points on one side of the origin, all of the second for the others.
    """
    qq, kk, along, u = _dot(q, q), _dot(k, k), _dot(q, k), k - q
    time_q, time_k = torch.sqrt(1 + c * qq), torch.sqrt(1 + c * kk)
    across = u - _along(u, q)
    one_side = along > 0
    near = (_dot(u, u) + c * qq * _dot(across, across)) / (1 + time_q * time_k + c * torch.where(one_side, along, 0.0))
    a, b = qq / (1 + time_q), kk / (1 + time_k)
    return (2 * torch.where(one_side, near, a + b + c * a * b - along)).squeeze(-1)


def lorentz_sqdist_rows(q: Tensor, k: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    r"""Rows whose inner products are the squared Lorentzian distances of q and k: :math:`2(a + b + c\,ab - \langle q,
    k\rangle)` with a = |q|²/(1 + t_q) and b = |k|²/(1 + t_k).

    Of float32 points within radius 3 that difference of products is right to 1e-5. Farther out the rows are float64,
    which has ten digits to spare at radius 9.
    """
    if q.device.type != "mps" and not (is_near(q, c, 3.0) and is_near(k, c, 3.0)):
        q, k, c = q.double(), k.double(), c.double()
    a, b = _height(q, c), _height(k, c)
    return 2 * torch.cat([-q, a, 1 + c * a], dim=-1), torch.cat([k, torch.ones_like(b), b], dim=-1)


def is_near(s: Tensor, c: Tensor, radius: float) -> bool:
    """Whether all of these float32 points are known to lie within a radius, that of curvature 1."""
    if s.dtype != torch.float32 or not manifolds.can_look(s):
        return False
    return not s.numel() or bool(excess(s.detach(), c.detach()).amax() <= math.cosh(radius) - 1)


@Operation
def _height(s: Row, c: Number) -> Number:
    """|s|²/(1 + t)."""
    squared = dot(s, s)
    return squared / (1 + sqrt(1 + c * squared))


def plane_scores(s: Tensor, weight: Tensor, shift: Tensor | None, c: Tensor) -> Tensor:
    r"""(..., out): |W_k| times the signed distance of s to the hyperplane orthogonal to W_k, -shift_k from the origin.

    .. math:: v_k = \frac{|W_k|}{\sqrt c} \operatorname{arsinh}\big(\sqrt c \langle s, \hat W_k\rangle
              \cosh\sqrt c\,b_k + t \sinh\sqrt c\,b_k\big)
    """
    squared = (weight * weight).sum(-1)
    length = torch.sqrt(torch.where(squared == 0, 1.0, squared))
    # Autocast may multiply in a lower precision; the geometry goes on in that of the weights.
    sine = torch.matmul(s, (weight / length.unsqueeze(-1)).mT).to(weight.dtype)
    if shift is not None:
        z = -c * shift * shift
        sine = sine * hm.cos_ratio(z) + (1 + excess(s, c)) * shift * hm.sin_ratio(z)
    return torch.where(squared == 0, 0.0, length) * sine * hm.arsin_ratio(-c * sine * sine)


def with_distances(v: Tensor, c: Tensor) -> Tensor:
    """The spatial coordinates sinh(√c v)/√c of the point whose signed distances to the coordinate hyperplanes are v."""
    # sinh is finite up to twice the largest radius of a point.
    limit = 4 * math.atanh(1 - hm.boundary_margin(v.dtype)) * torch.rsqrt(torch.where(c == 0, 1.0, c))
    v = torch.where((v.abs() > limit) & (c > 0), v.sign() * limit, v)
    return v * hm.sin_ratio(-c * v * v)


def of_length(direction: Tensor, radius: Tensor, c: Tensor) -> Tensor:
    """The spatial coordinates of the point in a direction at a distance ``radius`` (..., 1) from the origin."""
    squared = _dot(direction, direction)
    unit = direction * torch.rsqrt(torch.where(squared == 0, 1.0, squared))
    return unit * (radius * hm.sin_ratio(-c * radius * radius))


def within_radius(s: Tensor, c: Tensor, dtype: torch.dtype) -> Tensor:
    """The spatial coordinates of the point in the same direction, not beyond the radius that ``dtype`` can tell apart:
    that at which a ball's points end."""
    rho = 1 - hm.boundary_margin(dtype)
    limit = 2 * rho / ((1 - rho) * (1 + rho))
    squared = c * _dot(s, s)
    if manifolds.can_look(squared) and not bool(
        (squared > limit * limit).any()
    ):  # most rows are within the radius: then there is nothing to do
        return s
    outside = squared > limit * limit
    return torch.where(outside, s * (limit * torch.rsqrt(torch.where(outside, squared, 1.0))), s)
