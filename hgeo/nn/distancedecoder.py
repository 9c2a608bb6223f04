"""Link scores that are linear in the distance."""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from torch import Tensor, nn

from hgeo.manifolds import describe
from hgeo.nn._layer import Layer, choice
from hgeo.nn._pairs import pair_distance

__all__ = ["DistanceDecoder"]


class DistanceDecoder(Layer):
    r"""A score that falls with the distance of two points.

    .. math:: s(x, y) = b - \beta\, d(x, y)^q

    Args:
        manifold: where the points lie. The output is plain.
        power: q, 1 or 2.
        beta: β > 0; stored as exp(``log_beta``).
        shift: b.
        learnable: whether β and b are trained.

    Shapes:
        - x, y: (..., ambient dimension), broadcast; or x (N, ambient dimension) and pairs of its rows, y (2, E)
        - output: (...) or (E,)

    As c → 0 on the stereographic family d = 2|x−y|.

    >>> import torch, hgeo
    >>> hgeo.nn.DistanceDecoder(hgeo.PoincareBall())(torch.zeros(3, 2), torch.tensor([[0], [2]]))
    tensor([0.])
    """

    def __init__(
        self,
        manifold: Any,
        *,
        power: Literal[1, 2] = 1,
        beta: float = 1.0,
        shift: float = 0.0,
        learnable: bool = False,
    ) -> None:
        super().__init__(manifold, None)
        choice("DistanceDecoder", "power", power, (1, 2))
        if not 0 < beta < math.inf:
            raise ValueError(f"DistanceDecoder: beta must be positive, got {beta!r}")
        self.power = power
        self.log_beta = nn.Parameter(torch.tensor(math.log(beta)), requires_grad=learnable)
        self.shift = nn.Parameter(torch.tensor(float(shift)), requires_grad=learnable)

    def logits(self, x: Tensor, y: Tensor) -> Tensor:
        """The scores, for ``binary_cross_entropy_with_logits``."""
        self.check(x)
        distance = pair_distance("DistanceDecoder", self.in_manifold, x, y)
        return self.shift - self.log_beta.exp() * (distance * distance if self.power == 2 else distance)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Scores: the larger, the likelier a link."""
        return self.logits(x, y)

    def extra_repr(self) -> str:
        return f"{describe(self.in_manifold)}, power={self.power}"
