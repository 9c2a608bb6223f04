"""Dropout of points."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.nn import functional as F

from hgeo import manifolds
from hgeo.manifolds import describe
from hgeo.nn._layer import Layer

__all__ = ["Dropout"]


class Dropout(Layer):
    r"""Dropout of tangent coordinates: in training :math:`y = \exp_0\big(\tfrac{m}{1-p} \log_0 x\big)` with a mask m of
    zeros (with probability p) and ones, in evaluation y = x.

    Args:
        p: probability of a zero, 0 ≤ p < 1.
        manifold: where the points lie.

    Shapes:
        - x, output: (..., ambient dimension)

    As c → 0 it is :class:`torch.nn.Dropout`.

    >>> import torch, hgeo
    >>> layer = hgeo.nn.Dropout(0.5, hgeo.PoincareBall())
    >>> layer.eval()(torch.tensor([0.1, 0.2]))
    tensor([0.1000, 0.2000])
    """

    def __init__(self, p: float, manifold: Any) -> None:
        super().__init__(manifold, manifold)
        if isinstance(p, bool) or not isinstance(p, int | float) or not 0 <= p < 1:
            raise ValueError(f"Dropout: p must lie in [0, 1), got {p!r}")
        self.p = float(p)

    def forward(self, x: Tensor) -> Tensor:
        """Points of the same manifold."""
        self.check(x)
        if not self.training or self.p == 0:
            return x
        return manifolds.exp0(self.manifold, F.dropout(manifolds.log0(self.manifold, x), self.p))

    def extra_repr(self) -> str:
        return f"{self.p:g}, {describe(self.manifold)}"
