"""Classification by the nearest centroid."""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from torch import Tensor, nn

from hgeo import manifolds
from hgeo.nn._layer import Layer, choice, point_parameter

__all__ = ["CentroidClassifier"]


class CentroidClassifier(Layer):
    r"""Class scores that fall with the distance to a learned centroid a class.

    .. math:: \ell_k(x) = -\beta\, d(x, p_k)^q

    Args:
        in_dim: intrinsic dimension of the input.
        classes: number of classes.
        manifold: where input and centroids lie. The scores are plain.
        power: q, 2 (with a softmax: a Gaussian a class) or 1.
        beta: β > 0 at the start; it is learned as exp(``log_beta``).

    Shapes:
        - x: (..., ambient dimension of ``in_dim``)
        - output: (..., classes)

    Initialised with centroids whose tangent coordinates are uniform in ±1/√in_dim.

    As c → 0 on the stereographic family it is −β (2|x−p|)^q: with q = 2 a linear classifier.

    >>> import torch, hgeo
    >>> hgeo.nn.CentroidClassifier(4, 3, hgeo.PoincareBall())(torch.zeros(2, 4)).shape
    torch.Size([2, 3])
    """

    def __init__(
        self, in_dim: int, classes: int, manifold: Any, *, power: Literal[1, 2] = 2, beta: float = 1.0
    ) -> None:
        super().__init__(manifold, None, in_dim, classes)
        choice("CentroidClassifier", "power", power, (1, 2))
        if not 0 < beta < math.inf:
            raise ValueError(f"CentroidClassifier: beta must be positive, got {beta!r}")
        self.power, self._initial_log_beta = power, math.log(beta)
        self.centroids = point_parameter(manifold, in_dim, classes)
        self.log_beta = nn.Parameter(torch.empty(()))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Centroids with tangent coordinates uniform in ±1/√in_dim, β as given."""
        assert self.in_dim is not None
        bound = 1 / math.sqrt(self.in_dim)
        with torch.no_grad():
            v = self.centroids.new_empty(self.out_dim, self.in_dim).as_subclass(Tensor).uniform_(-bound, bound)
            self.centroids.copy_(manifolds.exp0(self.in_manifold, v))
            self.log_beta.fill_(self._initial_log_beta)

    def forward(self, x: Tensor) -> Tensor:
        """Scores (..., classes), to be given to a softmax."""
        self.check(x, self.log_beta)
        centroids = manifolds.project(self.in_manifold, self.centroids)
        points, centroids = torch.broadcast_tensors(x.unsqueeze(-2), centroids)
        distance = manifolds.dist(self.in_manifold, points, centroids)
        return -self.log_beta.exp() * (distance * distance if self.power == 2 else distance)
