"""What the normalisations of single points share."""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from torch import Tensor, nn

from hgeo import manifolds
from hgeo.nn._layer import Layer, choice
from hgeo.nn._spatial import check_spatial, from_spatial, to_spatial

__all__ = ["Coordinates", "PointNorm"]

Coordinates = Literal["tangent", "spatial"]


class PointNorm(Layer):
    """Coordinates of each point, normalised by :meth:`normalised`, times a gain a coordinate."""

    def __init__(
        self, dim: int, manifold: Any, coordinates: Coordinates, radius: float, eps: float, learnable: bool
    ) -> None:
        super().__init__(manifold, manifold, dim, dim)
        name = type(self).__name__
        choice(name, "coordinates", coordinates, ("tangent", "spatial"))
        if coordinates == "spatial":
            check_spatial(name, "coordinates='spatial'", manifold)
        if not 0 < radius < math.inf:
            raise ValueError(f"{name}: radius must be positive, got {radius!r}")
        self.coordinates, self.radius, self.eps = coordinates, radius, eps
        self.gain = nn.Parameter(torch.empty(dim), requires_grad=learnable)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """A gain that puts the coordinates of points at the length ``radius``."""
        assert self.in_dim is not None
        nn.init.constant_(self.gain, self.radius / math.sqrt(self.in_dim))

    def normalised(self, v: Tensor) -> Tensor:
        """The coordinates, of mean square 1."""
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        """Points of the same manifold."""
        self.check(x, self.gain)
        if self.coordinates == "spatial":
            return from_spatial(self.manifold, self.normalised(to_spatial(self.manifold, x)))
        unit = manifolds.frame_scale(self.manifold)
        return manifolds.exp0(self.manifold, self.normalised(unit * manifolds.log0(self.manifold, x)) / unit)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, coordinates={self.coordinates!r}, radius={self.radius:g}"
