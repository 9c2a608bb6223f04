"""Gyromidpoints: weighted sums on the hyperboloid or sphere, scaled back to it and seen stereographically."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from hgeo.kernels import Ambient, Number, Operation, Row, careful_flatness, dot, maximum, minimum, sqrt, where
from hgeo.math._contract import Curvature, geometry, operation
from hgeo.math._stereographic import lowered, mobius_scalar_mul

__all__ = ["centroid", "segment_midpoint", "weighted_midpoint"]


@operation
def _centroid(spatial: Row, height: Number, weight: Number, k: Number) -> Row:
    length2 = height * height + k * dot(spatial, spatial)
    floor = where(height > 0, minimum(weight, height), 0.0) ** 2
    return lowered(spatial, height, maximum(length2, floor), k)


def centroid(spatial: Tensor, height: Tensor, weight: Tensor, *, k: Curvature, dim: int = -1) -> Tensor:
    """Midpoint from sums that anything may have made: V = Σ w λ x, T = Σ w (λ - 1) and W = Σ w, w ≥ 0.

    ``height`` and ``weight`` have size 1 along ``dim``; sums of 0 give the origin. Near the boundary of a ball
    T² - c|V|² cancels; W² is a lower bound of it. :func:`weighted_midpoint` and :func:`segment_midpoint`, which see the
    points, lose nothing there.
    """
    return _centroid(spatial, height, weight, k=k, dim=dim)


@Operation
def _lifted(x: Row, w: Number, k: Number) -> Ambient:
    """w (λ - 1) and w λ x. Weights of points near the boundary are as good as 1 + k|x|² is there; their derivatives by
    k cancel in the sums."""
    factor = 2 / careful_flatness(x, k)
    return Ambient(w * (factor - 1), w * factor * x)


def _steep(sums: Ambient, k: Number) -> tuple[Number, Number, Number, Number]:
    """T² + k|V|², and whether that is a small difference, as near the boundary of a ball; then √-k and |V|, else 1."""
    squared = dot(sums.rest, sums.rest)
    length2 = sums.first * sums.first + k * squared
    steep = 2 * length2 < sums.first * sums.first
    return length2, steep, sqrt(where(steep, -k, 1.0)), sqrt(where(steep, squared, 1.0))


@Operation
def _axis(sums: Ambient, k: Number) -> Row:
    """V/(√-k |V|)."""
    _, _, root, extent = _steep(sums, k)
    return sums.rest / (root * extent)


@Operation
def _offset(x: Row, axis: Row, w: Number, k: Number) -> Number:
    """w |x - V/(√-k |V|)|²/(1 + k|x|²)."""
    gap = x - axis
    return w * dot(gap, gap) / careful_flatness(x, k)


@Operation
def _middle(sums: Ambient, small: Number, k: Number) -> Row:
    # Near the boundary of a ball T² and c|V|² are huge and almost equal. There N² = (T - √c|V|)(T + √c|V|), and with
    # e = V/|V| the small factor is Σ w |√c x - e|²/(1 - c|x|²), a sum of positive terms.
    length2, steep, root, extent = _steep(sums, k)
    return lowered(sums.rest, sums.first, where(steep, root * root * small * (sums.first + root * extent), length2), k)


def _midpoint(
    x: Tensor, w: Tensor, k: Curvature, total: Callable[..., Tensor], spread: Callable[[Tensor], Tensor]
) -> Tensor:
    """Midpoints of groups: ``total`` adds up an operation over a group, ``spread`` hands its row to its members."""
    sums = total(_lifted, x, w, k)
    small = total(_offset, x, spread(_axis(sums, k)), w, k)
    return _middle(sums, small, k)


@geometry
def weighted_midpoint(
    xs: Tensor,
    weights: Tensor | None = None,
    *,
    k: Curvature,
    reducedim: Sequence[int] | int | None = None,
    dim: int = -1,
    keepdim: bool = False,
    lincomb: bool = False,
) -> Tensor:
    r"""Gyromidpoint of points with weights w ≥ 0, over ``reducedim`` (default: all but ``dim``).

    .. math:: m = \frac12 \otimes \frac{\sum_i w_i \lambda_i x_i}{\sum_i w_i (\lambda_i - 1)}

    computed as the normalised weighted sum on the hyperboloid or sphere, so that it is right on both sides of a
    sphere's equator. At k = 0 it is the weighted mean; no weight at all gives the origin. ``weights`` has the shape of
    ``xs`` without ``dim``. ``lincomb`` multiplies the result by Σw (Möbius scalar multiplication).
    """
    dim = dim % xs.dim()
    w = torch.ones_like(xs.select(dim, 0)) if weights is None else weights
    if reducedim is None:
        axes = [axis for axis in range(xs.dim()) if axis != dim]
    else:
        axes = sorted(axis % xs.dim() for axis in ([reducedim] if isinstance(reducedim, int) else reducedim))
    kept = [axis for axis in range(xs.dim()) if axis not in (*axes, dim)]
    order = [*kept, *axes, dim]

    def grouped(value: Tensor) -> Tensor:
        """Groups first, then their members, then the vector."""
        value = value.permute(order)
        return value.flatten(len(kept), -2) if axes else value.unsqueeze(-2)

    w = grouped(w.unsqueeze(dim).expand([1 if axis == dim else size for axis, size in enumerate(xs.shape)]))
    bent = k
    if isinstance(k, Tensor) and k.dim():
        bent = grouped(k.reshape((1,) * (xs.dim() - k.dim()) + k.shape))
    middle = _midpoint(grouped(xs), w, bent, Operation.total, lambda row: row)
    if lincomb:
        middle = mobius_scalar_mul(w.sum(-2, keepdim=True), middle, k=bent)
    middle = middle.reshape([xs.shape[axis] if axis in (*kept, dim) else 1 for axis in order])
    middle = middle.permute([order.index(axis) for axis in range(xs.dim())])
    return middle if keepdim or not axes else middle.squeeze(axes)


@geometry
def segment_midpoint(x: Tensor, weights: Tensor, index: Tensor, num_segments: int, *, k: Curvature) -> Tensor:
    """Gyromidpoints of segments: row i of ``x`` (E, ..., d) with weight ``weights[i]`` (E, ...) belongs to segment
    ``index[i]``. An empty segment gives the origin.
    """

    def total(member: Operation, *arguments: Any) -> Tensor:
        value = member(*arguments)
        return value.new_zeros((num_segments, *value.shape[1:])).index_add(0, index, value)

    return _midpoint(x, weights.unsqueeze(-1), k, total, lambda row: row.index_select(0, index))
