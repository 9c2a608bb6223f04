"""Plain vectors to points."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from hgeo import manifolds
from hgeo.nn._layer import Layer

__all__ = ["ToManifold"]


class ToManifold(Layer):
    r"""Vectors, read as tangent coordinates at the origin, to points.

    .. math:: y = \exp_0(v)

    Points are kept within the radius that their dtype can tell apart (√c d ≤ 15 in float32, 35 in float64).

    Args:
        manifold: where the points lie.

    Shapes:
        - v: (..., d)
        - output: (..., ambient dimension of d)

    As c → 0 it is the identity.

    >>> import torch, hgeo
    >>> hgeo.nn.ToManifold(hgeo.PoincareBall(c=1.0))(torch.tensor([1.0, 0.0]))
    tensor([0.7616, 0.0000])
    """

    def __init__(self, manifold: Any) -> None:
        super().__init__(None, manifold)

    def forward(self, v: Tensor) -> Tensor:
        """exp0."""
        self.check(v)
        return manifolds.exp0(self.manifold, v)
