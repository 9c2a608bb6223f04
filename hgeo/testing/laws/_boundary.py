"""Examples near the boundary at which a formula may be right in its value and wrong in its derivative.

Two numbers that nearly cancel are rounded each in its own way there: between points that touch, are opposite to each
other, or are equally far out.
"""

from __future__ import annotations

import torch
from torch import Tensor

from hgeo.testing._space import Space

__all__ = ["across", "couples", "crowds", "facing", "touched", "touching", "turned"]


def _near_the_boundary(space: Space, x: Tensor, t: Tensor) -> Tensor:
    """Points of the rays of x that leave so little room that 1/(1 − c|x|²) is felt."""
    first, last = (-2.5, -6.0) if space.dtype == torch.float32 else (-6.0, -14.5)
    room = 10 ** (first + (last - first) * t.double())
    size = x.double().norm(dim=-1, keepdim=True)
    axis = torch.nn.functional.one_hot(torch.zeros(len(x), dtype=torch.long), x.shape[-1]).double()
    ray = torch.where(size > 0, x.double() / size.clamp_min(1e-300), axis)
    return (ray * (1 - room) * space.domain.unit).to(space.dtype)


def touching(space: Space, x: Tensor, t: Tensor, g: Tensor) -> list[Tensor]:
    near = _near_the_boundary(space, x, t)
    return [near, near + (2 * space.eps * space.domain.unit) * g]


def touched(space: Space, x: Tensor, t: Tensor, g: Tensor) -> list[Tensor]:
    near, beside = touching(space, x, t, g)
    return [beside, near]


def turned(space: Space, x: Tensor, t: Tensor, g: Tensor) -> list[Tensor]:
    near = _near_the_boundary(space, x, t)
    return [near, -near - (3 * space.eps * space.domain.unit) * g.roll(1, -1), g]


def couples(space: Space, x: Tensor, t: Tensor, ws: Tensor) -> list[Tensor]:
    near = _near_the_boundary(space, x, t)
    return [torch.stack([near, -near, near.flip(-1), -near.flip(-1)], dim=1), ws]


def facing(space: Space, x: Tensor, t: Tensor, g: Tensor) -> list[Tensor]:
    near, beside = touching(space, x, t, g)
    return [near, -beside, g]


def crowds(space: Space, x: Tensor, t: Tensor, ws: Tensor) -> list[Tensor]:
    near = _near_the_boundary(space, x, t)
    return [torch.stack([near, -near.roll(1, -1), near.flip(-1), -near.roll(2, -1)], dim=1), ws]


def across(space: Space, y: Tensor, t: Tensor, g: Tensor, x: Tensor) -> list[Tensor]:
    point = _near_the_boundary(space, y, t)
    ray = point.double() / point.double().norm(dim=-1, keepdim=True)
    normal = g.double() - (g.double() * ray).sum(-1, keepdim=True) * ray
    size = x.double().norm(dim=-1, keepdim=True) / space.domain.unit
    inner = x.double() * (0.7 / size.clamp_min(0.7)) + 0.1 * space.domain.unit * normal
    return [inner.to(space.dtype), point, normal.to(space.dtype)]
