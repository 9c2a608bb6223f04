"""The mean of a set of points."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hgeo.manifolds import describe
from hgeo.nn._layer import Layer, choice, positive
from hgeo.nn._means import How, check_mean, segment_mean

__all__ = ["Midpoint"]


class Midpoint(Layer):
    r"""The weighted mean of points along one dimension.

    - ``how="gyro"``: the gyromidpoint :math:`\tfrac12 \otimes \frac{\sum w \lambda x}{\sum w (\lambda - 1)}`, on every
      model the normalised weighted sum in the space around the hyperboloid or sphere;
    - ``how="tangent"``: :math:`\exp_0(\sum w \log_0 x / \sum w)`;
    - ``how="frechet"``: the point that minimises :math:`\sum w\, d(x, \mu)^2`, by ``iterations`` monotone steps and one
      Newton step. Its first derivatives are exact (implicit function theorem); second ones are not offered.

    Args:
        manifold: where the points lie.
        how: "gyro", "tangent" or "frechet".
        dim: the dimension over which the mean is taken (not the last, which holds a point's numbers).
        iterations: of the Fréchet mean before its Newton step.

    Shapes:
        - x: (..., m, ..., n), the m points along ``dim``
        - weights: as x without the last dimension; default: ones
        - output: x's shape without ``dim``

    As c → 0 all three are the weighted mean.

    >>> import torch, hgeo
    >>> ball = hgeo.PoincareBall(c=1.0)
    >>> x = torch.tensor([[0.5, 0.0], [-0.5, 0.0]])
    >>> hgeo.nn.Midpoint(ball, how="frechet")(x).abs().max() < 1e-6
    tensor(True)
    """

    def __init__(self, manifold: Any, how: How = "gyro", *, dim: int = -2, iterations: int = 16) -> None:
        super().__init__(manifold, manifold)
        choice("Midpoint", "how", how, ("gyro", "tangent", "frechet"))
        positive("Midpoint", "iterations", iterations)
        check_mean(manifold, how)
        self.how, self.dim, self.iterations = how, dim, iterations

    def forward(self, x: Tensor, weights: Tensor | None = None) -> Tensor:
        """The mean over ``dim``."""
        self.check(x)
        if x.dim() < 2 or not -x.dim() <= self.dim < x.dim() or self.dim % x.dim() == x.dim() - 1:
            raise ValueError(
                f"Midpoint: dim={self.dim} of shape {tuple(x.shape)} does not count points; the last dimension holds "
                "the numbers of a point, and the mean is taken over one of the others"
            )
        if weights is None:
            weights = x.new_ones(x.shape[:-1])
        elif weights.shape != x.shape[:-1]:
            raise ValueError(
                f"Midpoint: expected a weight a point, shape {tuple(x.shape[:-1])}, got {tuple(weights.shape)}"
            )
        dim = self.dim % x.dim()
        x, weights = x.movedim(dim, -2), weights.movedim(dim, -1)
        batch, count = x.shape[:-2], x.shape[-2]
        segments = batch.numel()
        index = torch.arange(segments, device=x.device).repeat_interleave(count)
        flat = x.reshape(segments * count, x.shape[-1])
        mean = segment_mean(
            self.manifold, self.how, flat, weights.reshape(-1), index, segments, iterations=self.iterations
        )
        return mean.view(*batch, mean.shape[-1])

    def extra_repr(self) -> str:
        return f"{describe(self.manifold)}, how={self.how!r}, dim={self.dim}"
