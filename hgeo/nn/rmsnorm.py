"""Normalisation of a point's coordinates by their mean square."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hgeo.nn._norms import Coordinates, PointNorm

__all__ = ["RMSNorm"]


class RMSNorm(PointNorm):
    r"""Divides the coordinates of a point by their root mean square, and multiplies them by a learned gain.

    .. math:: y = \exp_0\!\Big(g \odot \frac{v}{\sqrt{\frac1d |v|^2 + \epsilon}}\Big), \qquad v = \log_0 x

    after Zhang & Sennrich, "Root mean square layer normalization" (2019), vectors being as long as they are in the
    tangent space; with ``coordinates="spatial"`` v and the result are spatial coordinates of the hyperboloid.

    Points leave with one radius, unless the gain tells coordinates apart: what the radius said, as it does in a
    hierarchy, is gone. So no model of hgeo has it unless asked.

    Args:
        dim: intrinsic dimension.
        manifold: where the points lie.
        coordinates: "tangent", or, on hyperbolic and flat spaces, "spatial".
        radius: the length of v at first, the distance from the origin: g begins at radius/√d.
        eps: ε.
        learnable: whether g is trained.

    Shapes:
        - x, output: (..., ambient dimension of ``dim``)

    As c → 0 it is :class:`torch.nn.RMSNorm` with the weight g, on the stereographic family of 2x and halved.

    >>> import torch, hgeo
    >>> norm = hgeo.nn.RMSNorm(2, hgeo.PoincareBall())
    >>> hgeo.dist(norm.manifold, torch.zeros(2), norm(torch.tensor([0.3, 0.4]))).detach().round(decimals=4)
    tensor(1.)
    """

    def __init__(
        self,
        dim: int,
        manifold: Any,
        *,
        coordinates: Coordinates = "tangent",
        radius: float = 1.0,
        eps: float = 1e-6,
        learnable: bool = True,
    ) -> None:
        super().__init__(dim, manifold, coordinates, radius, eps, learnable)

    def normalised(self, v: Tensor) -> Tensor:
        return self.gain * v * torch.rsqrt((v * v).mean(-1, keepdim=True) + self.eps)
