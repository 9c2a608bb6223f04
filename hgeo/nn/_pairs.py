"""The two ways to say which points a link decoder compares."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hgeo import manifolds

__all__ = ["pair_distance", "pairs_of_points"]


def pairs_of_points(name: str, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """x and y of one shape, or x[i] and x[j] for ``y`` = (2, E) whole numbers, a pair (i, j) a column."""
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
    return x, y


def pair_distance(name: str, manifold: Any, x: Tensor, y: Tensor) -> Tensor:
    """The distances of these pairs."""
    return manifolds.dist(manifold, *pairs_of_points(name, x, y))
