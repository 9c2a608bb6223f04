"""Manifolds that hgeo does not know, as a user would write them: healthy ones, and the same with one thing wrong.

``HEALTHY`` are right and must pass every law that applies. ``SICK`` names a fault, and gives the manifold that has it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import geoopt
import torch
from torch import Tensor

import hgeo


def root(square: Tensor) -> Tensor:
    """The square root, with derivative 0 at 0."""
    zero = square == 0
    return torch.where(zero, 0.0, torch.where(zero, 1.0, square).sqrt())


class Strange(geoopt.manifolds.base.Manifold):
    """What geoopt asks of every manifold, where all numbers are points and all vectors are tangent."""

    name, ndim, reversible = "Strange", 1, True

    def _check_point_on_manifold(self, x: Tensor, *, atol: float = 1e-5, rtol: float = 1e-5) -> tuple[bool, str | None]:
        return bool(torch.isfinite(x).all()), "not finite"

    def _check_vector_on_tangent(self, x: Tensor, u: Tensor, *, atol: float = 1e-5, rtol: float = 1e-5) -> Any:
        return True, None

    def projx(self, x: Tensor) -> Tensor:
        return x

    def proju(self, x: Tensor, u: Tensor) -> Tensor:
        return u

    def retr(self, x: Tensor, u: Tensor) -> Tensor:
        return self.expmap(x, u)

    def norm(self, x: Tensor, u: Tensor, *, keepdim: bool = False) -> Tensor:
        return root(self.inner(x, u, keepdim=keepdim))


class HalfPlane(Strange):
    """Points (x', h), h > 0, with the metric (|dx'|² + dh²)/h²: hyperbolic space of any dimension."""

    name = "HalfPlane"

    def origin(self, *size: int, dtype: Any = None, device: Any = None, seed: Any = None) -> Tensor:
        point = torch.zeros(*size, dtype=dtype, device=device)
        point[..., -1] = 1.0
        return point

    def _check_point_on_manifold(self, x: Tensor, *, atol: float = 1e-5, rtol: float = 1e-5) -> tuple[bool, str | None]:
        return bool((x[..., -1] > 0).all()), "the height must be positive"

    def projx(self, x: Tensor) -> Tensor:
        return torch.cat([x[..., :-1], x[..., -1:].clamp_min(1e-30)], dim=-1)

    def inner(self, x: Tensor, u: Tensor, v: Tensor | None = None, *, keepdim: bool = False) -> Tensor:
        return (u / x[..., -1:] * ((u if v is None else v) / x[..., -1:])).sum(-1, keepdim=keepdim)

    def egrad2rgrad(self, x: Tensor, u: Tensor) -> Tensor:
        return x[..., -1:].square() * u

    def dist(self, x: Tensor, y: Tensor, *, keepdim: bool = False) -> Tensor:
        gap = root((x - y).square().sum(-1, keepdim=keepdim))
        heights = x[..., -1:] * y[..., -1:] if keepdim else x[..., -1] * y[..., -1]
        return 2 * torch.asinh(gap / (2 * heights.sqrt()))

    def expmap(self, x: Tensor, u: Tensor) -> Tensor:
        h, v = x[..., -1:], u / x[..., -1:]
        length = root(v.square().sum(-1, keepdim=True))
        across, up = v[..., :-1], v[..., -1:]
        safe = torch.where(length == 0, 1.0, length)
        share = torch.where(length == 0, 1.0, torch.sinh(length) / safe)  # sinh(r)/r
        side = across.square().sum(-1, keepdim=True)
        rest = torch.where(up > 0, side / (safe + up.clamp_min(0)), length - up)  # r − up, without cancelling
        below = torch.exp(-length) + share * rest  # cosh r − up·sinh(r)/r
        return torch.cat([x[..., :-1] + h * across * share / below, h / below], dim=-1)

    def logmap(self, x: Tensor, y: Tensor) -> Tensor:
        h = x[..., -1:]
        p, q = (y[..., :-1] - x[..., :-1]) / h, y[..., -1:] / h
        distance = self.dist(x, y, keepdim=True)
        share = torch.where(distance == 0, 1.0, distance / torch.sinh(torch.where(distance == 0, 1.0, distance)))
        up = (p.square().sum(-1, keepdim=True) + (q - 1) * (q + 1)) / (2 * q)
        return h * share * torch.cat([p / q, up], dim=-1)

    def transp(self, x: Tensor, y: Tensor, v: Tensor) -> Tensor:
        h = x[..., -1:]
        p, q = (y[..., :-1] - x[..., :-1]) / h, y[..., -1:] / h
        side = root(p.square().sum(-1, keepdim=True))
        axis = p / torch.where(side == 0, 1.0, side)
        total = (1 + q).square() + side.square()
        cosine, sine = (1 + q - side) * (1 + q + side) / total, 2 * side * (1 + q) / total
        along, up = (v[..., :-1] * axis).sum(-1, keepdim=True), v[..., -1:]
        turned = along * cosine + up * sine
        return q * torch.cat([v[..., :-1] + (turned - along) * axis, up * cosine - along * sine], dim=-1)


class ProperVelocity(Strange):
    """Hyperbolic space in the spatial coordinates of its hyperboloid: |dx|² − (x·dx)²/(1 + |x|²)."""

    name = "ProperVelocity"

    def origin(self, *size: int, dtype: Any = None, device: Any = None, seed: Any = None) -> Tensor:
        return torch.zeros(*size, dtype=dtype, device=device)

    def to_unit_ball(self, x: Tensor) -> Tensor:
        return x / (1 + torch.sqrt(1 + x.square().sum(-1, keepdim=True)))

    def from_unit_ball(self, y: Tensor) -> Tensor:
        return 2 * y / hgeo.math.careful_flatness(y, -1.0, dim=-1)

    def inner(self, x: Tensor, u: Tensor, v: Tensor | None = None, *, keepdim: bool = False) -> Tensor:
        v = u if v is None else v
        radial = (x * u).sum(-1, keepdim=True) * (x * v).sum(-1, keepdim=True)
        total = (u * v).sum(-1, keepdim=True) - radial / (1 + x.square().sum(-1, keepdim=True))
        return total if keepdim else total.squeeze(-1)

    def egrad2rgrad(self, x: Tensor, u: Tensor) -> Tensor:
        return u + x * (x * u).sum(-1, keepdim=True)

    def dist(self, x: Tensor, y: Tensor, *, keepdim: bool = False) -> Tensor:
        return hgeo.math.dist(self.to_unit_ball(x), self.to_unit_ball(y), k=-1.0, keepdim=keepdim)

    def expmap(self, x: Tensor, u: Tensor) -> Tensor:
        y, v = torch.func.jvp(self.to_unit_ball, (x,), (u,))
        return self.from_unit_ball(hgeo.math.project(hgeo.math.expmap(y, v, k=-1.0), k=-1.0))

    def logmap(self, x: Tensor, y: Tensor) -> Tensor:
        a, b = self.to_unit_ball(x), self.to_unit_ball(y)
        return torch.func.jvp(self.from_unit_ball, (a,), (hgeo.math.logmap(a, b, k=-1.0),))[1]

    def transp(self, x: Tensor, y: Tensor, v: Tensor) -> Tensor:
        (a, w), b = torch.func.jvp(self.to_unit_ball, (x,), (v,)), self.to_unit_ball(y)
        moved = hgeo.math.parallel_transport(a, b, w, k=-1.0)
        return torch.func.jvp(self.from_unit_ball, (b,), (moved,))[1]


class Torus(Strange):
    """Angles modulo the circumference, with the flat metric: geodesics come back."""

    name = "Torus"

    def __init__(self, circumference: float = 2 * math.pi) -> None:
        super().__init__()
        self.circumference = circumference

    def origin(self, *size: int, dtype: Any = None, device: Any = None, seed: Any = None) -> Tensor:
        return torch.zeros(*size, dtype=dtype, device=device)

    def projx(self, x: Tensor) -> Tensor:
        return x - self.circumference * torch.round(x / self.circumference)

    def inner(self, x: Tensor, u: Tensor, v: Tensor | None = None, *, keepdim: bool = False) -> Tensor:
        return (u * (u if v is None else v)).sum(-1, keepdim=keepdim)

    def egrad2rgrad(self, x: Tensor, u: Tensor) -> Tensor:
        return u

    def dist(self, x: Tensor, y: Tensor, *, keepdim: bool = False) -> Tensor:
        return root(self.logmap(x, y).square().sum(-1, keepdim=keepdim))

    def expmap(self, x: Tensor, u: Tensor) -> Tensor:
        return self.projx(x + u)

    def logmap(self, x: Tensor, y: Tensor) -> Tensor:
        return self.projx(y - x)

    def transp(self, x: Tensor, y: Tensor, v: Tensor) -> Tensor:
        return v


class Cholesky(Strange):
    """Positive definite 2 × 2 matrices by their Cholesky factors (a, b, l), a, b > 0: (da/a)² + (db/b)² + dl²."""

    name = "Cholesky"

    def origin(self, *size: int, dtype: Any = None, device: Any = None, seed: Any = None) -> Tensor:
        return torch.tensor([1.0, 1.0, 0.0], dtype=dtype, device=device).expand(*size).clone()

    def _check_point_on_manifold(self, x: Tensor, *, atol: float = 1e-5, rtol: float = 1e-5) -> tuple[bool, str | None]:
        return bool((x[..., :2] > 0).all()), "the diagonal must be positive"

    def _weight(self, x: Tensor) -> Tensor:
        return torch.cat([x[..., :2], torch.ones_like(x[..., 2:])], dim=-1)

    def projx(self, x: Tensor) -> Tensor:
        return torch.cat([x[..., :2].clamp_min(1e-30), x[..., 2:]], dim=-1)

    def inner(self, x: Tensor, u: Tensor, v: Tensor | None = None, *, keepdim: bool = False) -> Tensor:
        weight = self._weight(x)
        return (u / weight * ((u if v is None else v) / weight)).sum(-1, keepdim=keepdim)

    def egrad2rgrad(self, x: Tensor, u: Tensor) -> Tensor:
        return self._weight(x).square() * u

    def dist(self, x: Tensor, y: Tensor, *, keepdim: bool = False) -> Tensor:
        difference = torch.cat([torch.log(x[..., :2]) - torch.log(y[..., :2]), (x - y)[..., 2:]], dim=-1)
        return root(difference.square().sum(-1, keepdim=keepdim))

    def expmap(self, x: Tensor, u: Tensor) -> Tensor:
        return torch.cat([x[..., :2] * torch.exp(u[..., :2] / x[..., :2]), (x + u)[..., 2:]], dim=-1)

    def logmap(self, x: Tensor, y: Tensor) -> Tensor:
        return self._weight(x) * torch.cat([torch.log(y[..., :2]) - torch.log(x[..., :2]), (y - x)[..., 2:]], dim=-1)

    def transp(self, x: Tensor, y: Tensor, v: Tensor) -> Tensor:
        return self._weight(y) * (v / self._weight(x))


def scaled_product() -> Any:
    """A torus beside a ball of twice the size, and a half-plane."""
    return hgeo.Product((geoopt.Scaled(hgeo.PoincareBall(), 2.0), 2), (Torus(), 1), (HalfPlane(), 2))


HEALTHY: dict[str, tuple[Callable[[], Any], int]] = {
    "half-plane": (HalfPlane, 2),
    "proper velocity": (ProperVelocity, 3),
    "torus": (Torus, 2),
    "positive definite matrices through a frame": (Cholesky, 3),
    "a product with a scaled factor": (scaled_product, 5),
}


# ------------------------------------------------------------------------------------------------------------ sick ones


def sick(kind: type[Strange], **methods: Callable[..., Any]) -> Callable[[], Any]:
    """``kind`` with some of its methods replaced; each gets the healthy manifold first."""
    healthy = kind()

    def replaced(method: Callable[..., Any]) -> Callable[..., Any]:
        return lambda self, *args, **options: method(healthy, *args, **options)

    return type(f"Sick{kind.__name__}", (kind,), {name: replaced(method) for name, method in methods.items()})


def scaled(name: str, factor: float) -> Callable[..., Any]:
    """The operation ``name`` with its result multiplied."""
    return lambda m, *args, **options: factor * getattr(m, name)(*args, **options)


def beyond(d: Tensor, limit: float, then: Tensor) -> Tensor:
    return torch.where(d > limit, then, d)


def far_dist(change: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    return lambda m, x, y, *, keepdim=False: change(m.dist(x, y, keepdim=keepdim))


def far_log(change: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    """The logarithm with its length changed."""

    def log(m: Any, x: Tensor, y: Tensor) -> Tensor:
        u = m.logmap(x, y)
        length = m.norm(x, u, keepdim=True)
        return u * torch.where(length == 0, 1.0, change(length) / torch.where(length == 0, 1.0, length))

    return log


def swapped(name: str) -> Callable[..., Any]:
    return lambda m, x, y, *rest, **options: getattr(m, name)(y, x, *rest, **options)


def turned(x: Tensor, angle: float) -> Tensor:
    """Vectors turned in their last two numbers."""
    a, b = x[..., -2:-1], x[..., -1:]
    c, s = math.cos(angle), math.sin(angle)
    return torch.cat([x[..., :-2], c * a - s * b, s * a + c * b], dim=-1)


def wrong_product(**methods: Callable[..., Any]) -> Callable[[], Any]:
    """A product of which the half-plane has something wrong."""
    return lambda: hgeo.Product((geoopt.Scaled(hgeo.PoincareBall(), 2.0), 2), (sick(HalfPlane, **methods)(), 2))


class WrongScale(geoopt.Scaled):
    """A scaled space whose distance is not."""

    def __init__(self, manifold: Any, scale: float) -> None:
        super().__init__(manifold, scale)
        self.dist = manifold.dist


SICK: dict[str, tuple[Callable[[], Any], int]] = {
    # --- far from the origin only ---
    "half-plane: distances too long by a tenth beyond 4": (
        sick(HalfPlane, dist=far_dist(lambda d: beyond(d, 4.0, 1.1 * d))),
        2,
    ),
    "half-plane: distances that end at 8": (sick(HalfPlane, dist=far_dist(lambda d: d.clamp_max(8.0))), 2),
    "half-plane: distances that end at 8, and logarithms": (
        sick(HalfPlane, dist=far_dist(lambda d: d.clamp_max(8.0)), logmap=far_log(lambda d: d.clamp_max(8.0))),
        2,
    ),
    "half-plane: distances too short by a hundredth beyond 6": (
        sick(HalfPlane, dist=far_dist(lambda d: beyond(d, 6.0, 0.99 * d))),
        2,
    ),
    "half-plane: an exponential that ends at 5": (
        sick(
            HalfPlane,
            expmap=lambda m, x, u: m.expmap(
                x, u * (m.norm(x, u, keepdim=True).clamp(1e-9, 5.0) / m.norm(x, u, keepdim=True).clamp_min(1e-9))
            ),
        ),
        2,
    ),
    "half-plane: a transport that turns beyond 5": (
        sick(
            HalfPlane,
            transp=lambda m, x, y, v: torch.where(
                m.dist(x, y, keepdim=True) > 5, turned(m.transp(x, y, v), 0.1), m.transp(x, y, v)
            ),
        ),
        2,
    ),
    "half-plane: no numbers beyond 6": (sick(HalfPlane, dist=far_dist(lambda d: beyond(d, 6.0, d * math.nan))), 2),
    "proper velocity: distances too long by a hundredth beyond 4": (
        sick(ProperVelocity, dist=far_dist(lambda d: beyond(d, 4.0, 1.01 * d))),
        3,
    ),
    "proper velocity: a logarithm too short beyond 5": (
        sick(ProperVelocity, logmap=far_log(lambda d: beyond(d, 5.0, 0.9 * d))),
        3,
    ),
    "matrices: distances that end at 10": (sick(Cholesky, dist=far_dist(lambda d: d.clamp_max(10.0))), 3),
    "a product whose far distances are too long": (wrong_product(dist=far_dist(lambda d: beyond(d, 4.0, 1.1 * d))), 4),
    # --- distance and metric ---
    "half-plane: half the distance": (sick(HalfPlane, dist=scaled("dist", 0.5)), 2),
    "half-plane: a distance by the heights alone": (
        sick(
            HalfPlane,
            dist=lambda m, x, y, *, keepdim=False: (x[..., -1:] / y[..., -1:]).log().abs().sum(-1, keepdim=keepdim),
        ),
        2,
    ),
    "half-plane: a distance that is not symmetric": (
        sick(
            HalfPlane,
            dist=lambda m, x, y, *, keepdim=False: (
                m.dist(x, y, keepdim=keepdim) * (1 + 0.01 * torch.tanh(x[..., -1:].sum(-1, keepdim=keepdim)))
            ),
        ),
        2,
    ),
    "half-plane: a distance to itself that is not 0": (sick(HalfPlane, dist=far_dist(lambda d: d + 1e-6)), 2),
    "half-plane: the metric divided by the height once": (
        sick(
            HalfPlane,
            inner=lambda m, x, u, v=None, *, keepdim=False: (
                m.inner(x, u, v, keepdim=True).mul(x[..., -1:]).sum(-1, keepdim=keepdim)
            ),
        ),
        2,
    ),
    "half-plane: an inner product that forgets v": (
        sick(HalfPlane, inner=lambda m, x, u, v=None, *, keepdim=False: m.inner(x, u, u, keepdim=keepdim)),
        2,
    ),
    "half-plane: a norm without its root": (
        sick(HalfPlane, norm=lambda m, x, u, *, keepdim=False: m.inner(x, u, keepdim=keepdim)),
        2,
    ),
    "half-plane: a gradient without the metric": (sick(HalfPlane, egrad2rgrad=lambda m, x, u: u), 2),
    "half-plane: a gradient that goes uphill": (sick(HalfPlane, egrad2rgrad=scaled("egrad2rgrad", -1.0)), 2),
    "half-plane: dist2 that is dist": (
        sick(HalfPlane, dist2=lambda m, x, y, *, keepdim=False: m.dist(x, y, keepdim=keepdim)),
        2,
    ),
    "half-plane: distances of a batch as a matrix": (
        sick(
            HalfPlane,
            dist=lambda m, x, y, *, keepdim=False: (
                m.dist(x.unsqueeze(-2), y.unsqueeze(-3)) if x.dim() > 1 else m.dist(x, y)
            ),
        ),
        2,
    ),
    "torus: a metric that is negative": (sick(Torus, inner=scaled("inner", -1.0)), 2),
    "torus: one angle does not come back": (
        sick(
            Torus,
            dist=lambda m, x, y, *, keepdim=False: torch.cat([(y - x)[..., :1], m.logmap(x, y)[..., 1:]], -1).norm(
                dim=-1, keepdim=keepdim
            ),
        ),
        2,
    ),
    "torus: distances of the taxi": (
        sick(Torus, dist=lambda m, x, y, *, keepdim=False: m.logmap(x, y).abs().sum(-1, keepdim=keepdim)),
        2,
    ),
    # --- maps ---
    "half-plane: an exponential a hundredth too long": (
        sick(HalfPlane, expmap=lambda m, x, u: m.expmap(x, 1.01 * u)),
        2,
    ),
    "half-plane: an exponential that is its retraction": (
        sick(HalfPlane, expmap=lambda m, x, u: m.projx(x + u)),
        2,
    ),
    "half-plane: a logarithm from the other end": (sick(HalfPlane, logmap=swapped("logmap")), 2),
    "half-plane: a logarithm a thousandth too short": (sick(HalfPlane, logmap=scaled("logmap", 1 - 1e-3)), 2),
    "half-plane: a retraction that goes backwards": (sick(HalfPlane, retr=lambda m, x, u: m.expmap(x, -u)), 2),
    "half-plane: an exponential below the ground": (
        sick(
            HalfPlane,
            expmap=lambda m, x, u: (
                m.expmap(x, u) * torch.cat([torch.ones_like(u[..., :-1]), -torch.ones_like(u[..., -1:])], -1)
            ),
        ),
        2,
    ),
    "proper velocity: the exponential of flat space": (sick(ProperVelocity, expmap=lambda m, x, u: x + u), 3),
    "proper velocity: a logarithm turned by a little": (
        sick(ProperVelocity, logmap=lambda m, x, y: turned(m.logmap(x, y), 1e-2)),
        3,
    ),
    "torus: a logarithm the long way round": (sick(Torus, logmap=lambda m, x, y: y - x), 2),
    "torus: an exponential that forgets to come back": (sick(Torus, expmap=lambda m, x, u: x + 1.5 * u), 2),
    "matrices: an exponential to second order": (
        sick(
            Cholesky,
            expmap=lambda m, x, u: torch.cat(
                [x[..., :2] + u[..., :2] + u[..., :2].square() / (2 * x[..., :2]), (x + u)[..., 2:]], -1
            ),
        ),
        3,
    ),
    "matrices: a logarithm without its base": (sick(Cholesky, logmap=lambda m, x, y: m.logmap(x, y) / m._weight(x)), 3),
    # --- transport and projection ---
    "half-plane: a transport that keeps numbers": (sick(HalfPlane, transp=lambda m, x, y, v: v), 2),
    "half-plane: a transport that turns the other way": (
        sick(HalfPlane, transp=lambda m, x, y, v: m.transp(y, x, v) * (y[..., -1:] / x[..., -1:]).square()),
        2,
    ),
    "half-plane: a transport that scales only": (
        sick(HalfPlane, transp=lambda m, x, y, v: v * y[..., -1:] / x[..., -1:]),
        2,
    ),
    "proper velocity: a transport from the wrong end": (
        sick(ProperVelocity, transp=lambda m, x, y, v: m.transp(y, x, v)),
        3,
    ),
    "torus: a transport that is not linear": (sick(Torus, transp=lambda m, x, y, v: v * (1 + v.square())), 2),
    "torus: a projection that is not one": (sick(Torus, projx=lambda m, x: 0.9 * m.projx(x)), 2),
    "matrices: a gradient divided by the metric": (
        sick(Cholesky, egrad2rgrad=lambda m, x, u: u / m._weight(x).square()),
        3,
    ),
    "matrices: everything is a point": (
        sick(Cholesky, _check_point_on_manifold=lambda m, x, *, atol=1e-5, rtol=1e-5: (True, None)),
        3,
    ),
    "a scaled torus whose distance is not scaled": (lambda: WrongScale(Torus(), 2.0), 2),
    "a product whose half-plane walks backwards": (wrong_product(expmap=lambda m, x, u: m.expmap(x, -u)), 4),
    "a product whose half-plane has no metric": (wrong_product(egrad2rgrad=lambda m, x, u: u), 4),
}
