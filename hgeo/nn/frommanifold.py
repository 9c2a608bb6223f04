"""Points to plain vectors."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from hgeo import manifolds
from hgeo.nn._layer import Layer

__all__ = ["FromManifold"]


class FromManifold(Layer):
    r"""Points to their tangent coordinates at the origin, the inverse of :class:`ToManifold`.

    .. math:: v = \log_0(x)

    Args:
        manifold: where the points lie (``in_manifold`` of the layer; its output is plain).

    Shapes:
        - x: (..., ambient dimension of d)
        - output: (..., d)

    As c → 0 it is the identity.

    >>> import torch, hgeo
    >>> ball = hgeo.PoincareBall(c=1.0)
    >>> hgeo.nn.FromManifold(ball)(hgeo.exp0(ball, torch.tensor([1.0, 0.5])))
    tensor([1.0000, 0.5000])
    """

    def __init__(self, manifold: Any) -> None:
        super().__init__(manifold, None)

    def forward(self, x: Tensor) -> Tensor:
        """log0."""
        self.check(x)
        return manifolds.log0(self.in_manifold, x)
