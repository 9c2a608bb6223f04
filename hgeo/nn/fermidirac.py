"""Link probabilities from distances, by the Fermi-Dirac distribution."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from hgeo.manifolds import describe
from hgeo.nn._layer import Layer
from hgeo.nn._pairs import pair_distance

__all__ = ["FermiDiracDecoder"]


class FermiDiracDecoder(Layer):
    r"""The probability of a link between two points.

    .. math:: p(x, y) = \frac{1}{e^{(d(x, y)^2 - r)/t} + 1}

    Args:
        manifold: where the points lie. The output is plain.
        r: squared distance at which a link is as likely as not.
        t: temperature > 0, how soft that threshold is; stored as exp(``log_t``).
        learnable: whether r and t are trained.

    Shapes:
        - x, y: (..., ambient dimension), broadcast; or x (N, ambient dimension) and pairs of its rows, y (2, E)
        - output: (...) or (E,)

    :meth:`logits` gives (r − d²)/t, for ``binary_cross_entropy_with_logits``. As c → 0 on the stereographic family
    d² = 4|x−y|².

    >>> import torch, hgeo
    >>> decoder = hgeo.nn.FermiDiracDecoder(hgeo.PoincareBall(), r=2.0, t=1.0)
    >>> decoder(torch.zeros(2), torch.zeros(2))
    tensor(0.8808, grad_fn=<SigmoidBackward0>)
    """

    def __init__(self, manifold: Any, *, r: float = 2.0, t: float = 1.0, learnable: bool = True) -> None:
        super().__init__(manifold, None)
        if not 0 < t < math.inf:
            raise ValueError(f"FermiDiracDecoder: t must be positive, got {t!r}")
        self.r = nn.Parameter(torch.tensor(float(r)), requires_grad=learnable)
        self.log_t = nn.Parameter(torch.tensor(math.log(t)), requires_grad=learnable)

    def logits(self, x: Tensor, y: Tensor) -> Tensor:
        """(r - d²)/t."""
        self.check(x)
        distance = pair_distance("FermiDiracDecoder", self.in_manifold, x, y)
        return (self.r - distance * distance) * torch.exp(-self.log_t)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Probabilities."""
        return torch.sigmoid(self.logits(x, y))

    def extra_repr(self) -> str:
        return f"{describe(self.in_manifold)}, r={float(self.r):.3g}, t={math.exp(float(self.log_t)):.3g}"
