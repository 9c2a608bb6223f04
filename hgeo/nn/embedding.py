"""A table of points."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from hgeo import manifolds
from hgeo.manifolds import describe
from hgeo.nn._layer import Layer, point_parameter, positive

__all__ = ["Embedding"]


class Embedding(Layer):
    r"""Points looked up by number, trained by Riemannian steps.

    .. math:: y_i = E_{\mathrm{index}_i}, \qquad E_j = \exp_0(v_j), \quad v_j \sim N(0, \mathrm{std}^2 I)
              \text{ at first}

    With ``sparse=True`` only the rows that were looked up get a gradient, and :func:`hgeo.optim.riemannian_adam` and
    ``riemannian_sgd`` move only those (as geoopt's ``SparseRiemannianAdam`` and ``SparseRiemannianSGD`` do).

    Args:
        num: number of points.
        dim: intrinsic dimension.
        manifold: where the points lie; ``weight`` is a ``geoopt.ManifoldParameter`` on it.
        std: of the first tangent coordinates. 1 is that of :class:`torch.nn.Embedding`; the default keeps points near
            the origin, from where Riemannian steps lead everywhere.
        sparse: whether gradients are sparse.

    Shapes:
        - index: (...) whole numbers in [0, num)
        - output: (..., ambient dimension of ``dim``)

    As c → 0 it is :class:`torch.nn.Embedding`.

    >>> import torch, hgeo
    >>> table = hgeo.nn.Embedding(10, 2, hgeo.PoincareBall())
    >>> table(torch.tensor([[1, 2], [3, 3]])).shape
    torch.Size([2, 2, 2])
    """

    def __init__(self, num: int, dim: int, manifold: Any, *, std: float = 0.01, sparse: bool = True) -> None:
        super().__init__(None, manifold, None, dim)
        positive("Embedding", "num", num)
        if not std >= 0:
            raise ValueError(f"Embedding: std must not be negative, got {std!r}")
        self.num, self.std, self.sparse = num, std, sparse
        self.weight = point_parameter(manifold, dim, num)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """exp0 of normal tangent coordinates."""
        with torch.no_grad():
            v = self.weight.new_empty(self.num, self.out_dim).as_subclass(Tensor).normal_(0, self.std)
            self.weight.copy_(manifolds.exp0(self.manifold, v))

    def forward(self, index: Tensor) -> Tensor:
        """The points of these numbers."""
        if not isinstance(index, Tensor) or index.is_floating_point() or index.dtype == torch.bool:
            given = index.dtype if isinstance(index, Tensor) else type(index).__name__
            raise TypeError(f"Embedding: expected whole numbers in [0, {self.num}), got {given}")
        # The curvature may just have moved: the rows that are looked up are projected, the table stays as it is.
        return manifolds.project(self.manifold, F.embedding(index, self.weight, sparse=self.sparse))

    def extra_repr(self) -> str:
        return f"{self.num} points of {describe(self.manifold, self.out_dim)}" + (", sparse" if self.sparse else "")
