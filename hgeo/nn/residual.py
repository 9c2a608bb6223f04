"""Skip connections between points."""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hgeo import manifolds
from hgeo.manifolds import describe
from hgeo.nn._layer import Layer, choice
from hgeo.nn._means import check_mean

__all__ = ["Residual"]


class Residual(Layer):
    r"""A skip connection: the weighted midpoint of x and what a layer made of it.

    .. math:: z = \mathrm{mid}\big((x, 1), (y, w)\big), \qquad w = \mathrm{softplus}(\theta)

    which lies on the geodesic between them, and is carried along by every isometry: the sum of two points of Chen et
    al., "Fully hyperbolic neural networks" (2022), with a weight that is learned. As θ → -∞ it is x exactly, so that a
    layer can be switched in.

    Args:
        manifold: where x and y lie.
        how: the mean, "gyro" (on the hyperboloid the centroid) or "tangent", as for :class:`Midpoint`.
        weight: the first w > 0; θ is its inverse softplus.
        learnable: whether θ is trained.

    Shapes:
        - x, y, output: (..., ambient dimension)

    As c → 0 it is (x + w y)/(1 + w). That is the sum x + w y of a Euclidean residual layer, made smaller by the factor
    1 + w, which a linear layer after it takes back: what such a network can compute is the same. A plain x + y is twice
    the midpoint at w = 1. The sum itself has no counterpart: twice a point depends on where the origin is.

    >>> import torch, hgeo
    >>> residual = hgeo.nn.Residual(hgeo.space("euclidean:2").manifold)
    >>> residual(torch.tensor([0.0, 0.0]), torch.tensor([1.0, 3.0])).detach().round(decimals=4)
    tensor([0.5000, 1.5000])
    """

    def __init__(
        self,
        manifold: Any,
        *,
        how: Literal["gyro", "tangent"] = "gyro",
        weight: float = 1.0,
        learnable: bool = True,
    ) -> None:
        super().__init__(manifold, manifold)
        choice("Residual", "how", how, ("gyro", "tangent"))
        if not 0 < weight < math.inf:
            raise ValueError(f"Residual: weight must be positive, got {weight!r}")
        check_mean(manifold, how)
        self.how = how
        theta = weight + math.log(-math.expm1(-weight))
        self.theta = nn.Parameter(torch.tensor(theta), requires_grad=learnable)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """The point between x and y."""
        self.check(x)
        self.check(y)
        if x.shape[-1] != y.shape[-1]:
            raise ValueError(f"Residual: x has shape {tuple(x.shape)}, y {tuple(y.shape)}: they lie on one manifold")
        weight = F.softplus(self.theta).to(x.dtype)
        if self.how == "gyro":
            middle = manifolds.lower(
                self.manifold, manifolds.lift(self.manifold, x) + weight * manifolds.lift(self.manifold, y)
            )
        else:
            here, there = manifolds.log0(self.manifold, x), manifolds.log0(self.manifold, y)
            middle = manifolds.exp0(self.manifold, (here + weight * there) / (1 + weight))
        return torch.where(weight == 0, x, middle)

    def extra_repr(self) -> str:
        weight = float(F.softplus(self.theta.detach()))
        return f"{describe(self.manifold)}, how={self.how!r}, weight={weight:.3g}"
