"""Batch normalisation of points."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from hgeo import manifolds
from hgeo.manifolds import describe
from hgeo.nn._layer import Layer, choice, point_parameter, positive
from hgeo.nn._means import How, check_mean, segment_mean

__all__ = ["BatchNorm"]


class BatchNorm(Layer):
    r"""Moves the mean of a batch to a learned point and its spread to a learned size.

    .. math:: y = \beta \oplus \exp_0\!\Big(\frac{\gamma}{\sqrt{\sigma^2 + \epsilon}}\,
              \log_0(\ominus\mu \oplus x)\Big), \qquad \sigma^2 = \frac1n \sum_i d(x_i, \mu)^2

    with μ the mean of the batch. There is one scalar variance, since a rotation about μ must not change the result.

    Args:
        dim: intrinsic dimension.
        manifold: where the points lie.
        mean: "gyro", "tangent" or "frechet", as for :class:`Midpoint`.
        iterations: of a Fréchet mean before its Newton step.
        eps: ε.
        momentum: share of a new batch in the running statistics; None: plain averages over all batches.
        affine: whether β (a ``geoopt.ManifoldParameter``, at first the origin) and γ (at first 1) are learned.
        track_running_stats: whether evaluation uses running statistics, or those of its batch.

    Attributes:
        running_mean: tangent coordinates of the running mean, valid whatever the curvature becomes. The new one is
            the mean, in the sense of ``mean``, of the old one and the batch's.
        running_var: the running variance, with torch's factor n/(n−1).

    Shapes:
        - x: (..., ambient dimension of ``dim``); all rows are one batch, of at least two in training
        - output: like x

    As c → 0 on the stereographic family: γ (x−μ)/√(4 s² + ε) + β with s² = mean |x−μ|², since distances are 2|x−y|; on
    Euclidean space γ (x−μ)/√(s² + ε) + β.

    >>> import torch, hgeo
    >>> norm = hgeo.nn.BatchNorm(2, hgeo.PoincareBall())
    >>> norm(hgeo.exp0(norm.manifold, torch.randn(8, 2))).shape
    torch.Size([8, 2])
    """

    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(
        self,
        dim: int,
        manifold: Any,
        *,
        mean: How = "gyro",
        iterations: int = 16,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
    ) -> None:
        super().__init__(manifold, manifold, dim, dim)
        choice("BatchNorm", "mean", mean, ("gyro", "tangent", "frechet"))
        positive("BatchNorm", "iterations", iterations)
        if momentum is not None and not 0 <= momentum <= 1:
            raise ValueError(f"BatchNorm: momentum must lie in [0, 1] or be None, got {momentum!r}")
        check_mean(manifold, mean)
        self.mean, self.iterations, self.eps, self.momentum = mean, iterations, eps, momentum
        self.point = point_parameter(manifold, dim) if affine else None
        self.gain = nn.Parameter(torch.ones(())) if affine else None
        tracked = track_running_stats
        self.register_buffer("running_mean", torch.zeros(dim) if tracked else None)
        self.register_buffer("running_var", torch.ones(()) if tracked else None)
        self.register_buffer("num_batches_tracked", torch.zeros((), dtype=torch.long) if tracked else None)

    def forward(self, x: Tensor) -> Tensor:
        """Points of the same manifold."""
        self.check(x, self.gain if self.gain is not None else self.running_var)
        rows = x.reshape(-1, x.shape[-1])
        if self.training or self.running_mean is None or self.running_var is None:
            if self.training and rows.shape[0] < 2:
                raise ValueError(
                    f"BatchNorm: a batch of shape {tuple(x.shape)} has no spread; give at least two points"
                )
            middle, variance = self._statistics(rows)
            if self.training:
                self._track(middle.detach(), variance.detach(), rows.shape[0])
        else:
            middle, variance = manifolds.exp0(self.manifold, self.running_mean), self.running_var
        v = manifolds.log0(self.manifold, manifolds.translate_back(self.manifold, middle, x))
        scale = torch.rsqrt(variance + self.eps)
        y = manifolds.exp0(self.manifold, v * (scale if self.gain is None else scale * self.gain))
        if self.point is None:
            return y
        return manifolds.translate(self.manifold, manifolds.project(self.manifold, self.point), y)

    def _statistics(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        weights = rows.new_ones(rows.shape[0])
        middle = self._mean_of(rows, weights)
        distance = manifolds.dist(self.manifold, rows, middle.expand_as(rows))
        return middle, (distance * distance).mean()

    def _mean_of(self, rows: Tensor, weights: Tensor) -> Tensor:
        one = torch.zeros(rows.shape[0], dtype=torch.long, device=rows.device)
        mean = segment_mean(self.manifold, self.mean, rows, weights, one, 1, iterations=self.iterations)
        return mean.squeeze(0)

    @torch.no_grad()
    def _track(self, middle: Tensor, variance: Tensor, count: int) -> None:
        if self.running_mean is None or self.running_var is None or self.num_batches_tracked is None:
            return
        self.num_batches_tracked += 1
        share = 1 / self.num_batches_tracked.to(variance.dtype) if self.momentum is None else self.momentum
        share = torch.as_tensor(share, dtype=variance.dtype, device=variance.device)
        old = manifolds.exp0(self.manifold, self.running_mean)
        weights = torch.stack([1 - share, share])
        one = torch.zeros(2, dtype=torch.long, device=variance.device)
        new = segment_mean(
            self.manifold, self.mean, torch.stack([old, middle]), weights, one, 1, iterations=16
        ).squeeze(0)
        self.running_mean.copy_(manifolds.log0(self.manifold, new))
        self.running_var.lerp_((variance * (count / (count - 1))).to(self.running_var.dtype), share)

    def extra_repr(self) -> str:
        return f"{describe(self.manifold, self.in_dim)}, mean={self.mean!r}, eps={self.eps:g}, momentum={self.momentum}"
