"""Link scores by the inner product at the origin."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from hgeo import manifolds
from hgeo.manifolds import describe
from hgeo.nn._layer import Layer
from hgeo.nn._pairs import pairs_of_points

__all__ = ["InnerProductDecoder"]


class InnerProductDecoder(Layer):
    r"""A score that grows with the inner product of two points, seen from the origin.

    .. math:: s(x, y) = b + \beta \langle \log_0 x, \log_0 y \rangle

    as long as vectors are in the tangent space at the origin. It is the decoder of Kipf & Welling, "Variational graph
    auto-encoders" (2016), and what a distance has to beat: it depends on the origin, as no distance does.

    Args:
        manifold: where the points lie. The output is plain.
        beta: β > 0; stored as exp(``log_beta``).
        shift: b.
        learnable: whether β and b are trained.

    Shapes:
        - x, y: (..., ambient dimension), broadcast; or x (N, ambient dimension) and pairs of its rows, y (2, E)
        - output: (...) or (E,)

    As c → 0 on the stereographic family it is b + 4β⟨x, y⟩, on Euclidean space b + β⟨x, y⟩.

    >>> import torch, hgeo
    >>> hgeo.nn.InnerProductDecoder(hgeo.PoincareBall())(torch.zeros(3, 2), torch.tensor([[0], [2]]))
    tensor([0.])
    """

    def __init__(self, manifold: Any, *, beta: float = 1.0, shift: float = 0.0, learnable: bool = False) -> None:
        super().__init__(manifold, None)
        if not 0 < beta < math.inf:
            raise ValueError(f"InnerProductDecoder: beta must be positive, got {beta!r}")
        self.log_beta = nn.Parameter(torch.tensor(math.log(beta)), requires_grad=learnable)
        self.shift = nn.Parameter(torch.tensor(float(shift)), requires_grad=learnable)

    def logits(self, x: Tensor, y: Tensor) -> Tensor:
        """The scores, for ``binary_cross_entropy_with_logits``."""
        self.check(x)
        x, y = pairs_of_points("InnerProductDecoder", x, y)
        unit = manifolds.frame_scale(self.in_manifold)
        product = (manifolds.log0(self.in_manifold, x) * manifolds.log0(self.in_manifold, y)).sum(-1)
        return self.shift + self.log_beta.exp() * unit**2 * product

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Scores: the larger, the likelier a link."""
        return self.logits(x, y)

    def extra_repr(self) -> str:
        return describe(self.in_manifold)
