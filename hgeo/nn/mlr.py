"""Multinomial logistic regression by hyperplanes."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from hgeo import manifolds
from hgeo.nn._layer import Layer, point_parameter

__all__ = ["MLR"]


class MLR(Layer):
    r"""Class scores as signed distances to hyperplanes.

    .. math:: \ell_k(x) = \|a_k\| \; d_\pm\big(x, H(p_k, a_k)\big)

    H is the hyperplane through the point p_k orthogonal to a_k, a vector in the origin's frame carried to p_k; ‖a‖ is
    its Riemannian length (``frame_scale`` times |a|), d_± the distance with the sign of the side. On the ball

    .. math:: d_\pm = \frac{1}{\sqrt c} \operatorname{arsinh}
              \frac{2\sqrt c\,\langle -p \oplus x, a\rangle}{(1 - c|-p \oplus x|^2)\,|a|} ,

    as in Ganea et al., "Hyperbolic neural networks" (2018). On a product the scores of the factors are added.

    Args:
        in_dim: intrinsic dimension of the input.
        classes: number of classes.
        manifold: where the input lies. The scores are plain.

    Shapes:
        - x: (..., ambient dimension of ``in_dim``)
        - output: (..., classes)

    Initialised so that p is the origin and the scores at c → 0 are those of ``nn.Linear(in_dim, classes, bias=False)``.

    As c → 0 on the stereographic family it is 4⟨x−p, a⟩ (⟨x−p, a⟩ on Euclidean space, whose frame has unit scale).

    >>> import torch, hgeo
    >>> hgeo.nn.MLR(4, 3, hgeo.PoincareBall())(torch.zeros(2, 4)).shape
    torch.Size([2, 3])
    """

    def __init__(self, in_dim: int, classes: int, manifold: Any) -> None:
        super().__init__(manifold, None, in_dim, classes)
        _refuse_without_planes(manifold, in_dim)
        self.point = point_parameter(manifold, in_dim, classes)
        self.normal = nn.Parameter(torch.empty(classes, in_dim))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """p at the origin; a uniform, of the size that gives the scores of torch's Linear at c → 0."""
        assert self.in_dim is not None
        bound = 1 / math.sqrt(self.in_dim) / manifolds.frame_scale(self.in_manifold) ** 2
        with torch.no_grad():
            self.normal.uniform_(-bound, bound)
            self.point.copy_(manifolds.exp0(self.in_manifold, torch.zeros_like(self.normal)))

    def forward(self, x: Tensor) -> Tensor:
        """Scores (..., classes), to be given to a softmax."""
        self.check(x, self.normal)
        point = manifolds.project(self.in_manifold, self.point)
        return manifolds.geometry(self.in_manifold).plane_score(self.in_manifold, x.unsqueeze(-2), point, self.normal)


def _refuse_without_planes(manifold: Any, dim: int) -> None:
    """Ask for a score once, so that a manifold without hyperplanes is refused when the layer is made."""
    with torch.no_grad():
        zero = torch.zeros(1, dim)
        origin = manifolds.exp0(manifold, zero)
        manifolds.geometry(manifold).plane_score(manifold, origin, origin, zero)
