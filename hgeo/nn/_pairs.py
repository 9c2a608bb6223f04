"""The two ways to say which points a link decoder compares."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hgeo import manifolds

__all__ = ["pair_distance"]


def pair_distance(name: str, manifold: Any, x: Tensor, y: Tensor) -> Tensor:
    """d(x, y) of points of one shape, or d(x[i], x[j]) for ``y`` = (2, E) whole numbers, a pair (i, j) a column."""
    if not y.is_floating_point():
        if y.dim() != 2 or y.shape[0] != 2 or x.dim() != 2:
            raise ValueError(
                f"{name}: pairs of rows are whole numbers of shape (2, E) into points (N, numbers), got "
                f"{tuple(y.shape)} into {tuple(x.shape)}"
            )
        x, y = x[y[0]], x[y[1]]
    if x.shape[-1] != y.shape[-1]:
        raise ValueError(f"{name}: the points compared have shapes {tuple(x.shape)} and {tuple(y.shape)}")
    x, y = torch.broadcast_tensors(x, y)
    return manifolds.dist(manifold, x, y)
