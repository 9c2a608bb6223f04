"""Normalisation of a point's coordinates by their mean and spread."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from hgeo.nn._norms import Coordinates, PointNorm

__all__ = ["LayerNorm"]


class LayerNorm(PointNorm):
    r"""Takes their mean from the coordinates of a point, divides by their spread, applies a learned gain and shift.

    .. math:: y = \exp_0\!\Big(g \odot \frac{v - \bar v}{\sqrt{\frac1d |v - \bar v|^2 + \epsilon}} + b\Big), \qquad
              v = \log_0 x, \quad \bar v = \frac1d \sum_k v_k

    after Ba et al., "Layer normalization" (2016), vectors being as long as they are in the tangent space; with
    ``coordinates="spatial"`` v and the result are spatial coordinates of the hyperboloid.

    But for b points leave with one radius, as of :class:`RMSNorm`, and the direction (1, …, 1) is a special one. No
    model of hgeo has it unless asked.

    Args:
        dim: intrinsic dimension.
        manifold: where the points lie.
        coordinates: "tangent", or, on hyperbolic and flat spaces, "spatial".
        radius: the length of v at first, the distance from the origin: g begins at radius/√d, b at 0.
        eps: ε.
        learnable: whether g and b are trained.

    Shapes:
        - x, output: (..., ambient dimension of ``dim``)

    As c → 0 it is :class:`torch.nn.LayerNorm` with the weight g and the bias b, on the stereographic family of 2x and
    halved.

    >>> import torch, hgeo
    >>> norm = hgeo.nn.LayerNorm(3, hgeo.Lorentz(), radius=2.0)
    >>> x = hgeo.exp0(norm.manifold, torch.randn(5, 3))
    >>> bool(torch.allclose(hgeo.log0(norm.manifold, norm(x)).norm(dim=1), torch.tensor(2.0), atol=1e-3))
    True
    """

    def __init__(
        self,
        dim: int,
        manifold: Any,
        *,
        coordinates: Coordinates = "tangent",
        radius: float = 1.0,
        eps: float = 1e-5,
        learnable: bool = True,
    ) -> None:
        super().__init__(dim, manifold, coordinates, radius, eps, learnable)
        self.shift = nn.Parameter(torch.zeros(dim), requires_grad=learnable)

    def reset_parameters(self) -> None:
        """The gain at radius/√d, no shift."""
        super().reset_parameters()
        if hasattr(self, "shift"):
            nn.init.zeros_(self.shift)

    def normalised(self, v: Tensor) -> Tensor:
        centred = v - v.mean(-1, keepdim=True)
        return self.gain * centred * torch.rsqrt((centred * centred).mean(-1, keepdim=True) + self.eps) + self.shift
