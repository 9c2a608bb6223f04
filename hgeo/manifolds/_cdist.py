"""All pairs of two sets of points: their distances, and each point's nearest ones, a tile at a time."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from hgeo._geoopt import geoopt
from hgeo.manifolds._functions import dist, geometry

__all__ = ["Nearest", "cdist", "nearest"]

# A tile has at most so many pairs, and at most so many numbers where differences of points are stored: what it needs
# stays in a processor's cache.
_TILE_PAIRS = 2**16
_TILE_NUMBERS = 2**19


class Nearest(NamedTuple):
    """The nearest points: their distances (..., N, k), ascending, and their rows in ``y`` (..., N, k)."""

    distances: Tensor
    indices: Tensor


def cdist(manifold: geoopt.Manifold, x: Tensor, y: Tensor) -> Tensor:
    """Computes the geodesic distance of every point of ``x`` to every point of ``y``.

    As right as :func:`hgeo.dist`, near-duplicates and far points included, and differentiable in points and curvature.
    It works tile by tile, forward and backward, so that nothing larger than the answer is ever stored. (A second
    derivative stores N × M × n numbers, and so does the function inside ``torch.func`` transforms.)

    Args:
        manifold: any manifold that :func:`hgeo.dist` knows.
        x: points (..., N, n).
        y: points (..., M, n); leading dimensions broadcast.

    Returns:
        distances (..., N, M).

    >>> import torch, hgeo
    >>> x = torch.tensor([[0.0, 0.0], [0.5, 0.0]])
    >>> hgeo.cdist(hgeo.PoincareBall(), x, x)
    tensor([[0.0000, 1.0986],
            [1.0986, 0.0000]])
    """
    x, y = _points("cdist", manifold, x, y)
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
        return dist(manifold, x.unsqueeze(-2), y.unsqueeze(-3))
    dtype = torch.promote_types(x.dtype, y.dtype)
    inner = torch.float32 if dtype.itemsize < 4 else dtype
    batch, x, y = _in_one_batch(x.to(inner), y.to(inner))
    parameters = dict(manifold.named_parameters())
    distances = _Tiled.apply(_Measure(manifold), tuple(parameters), x, y, *parameters.values())
    return distances.reshape(*batch, *distances.shape[-2:]).to(dtype)


def nearest(manifold: geoopt.Manifold, x: Tensor, y: Tensor | None = None, *, k: int = 1) -> Nearest:
    """Finds the ``k`` nearest points of ``y`` for every point of ``x``, tile by tile.

    The distances are differentiable; which points are the nearest is not. The search stores N × k numbers.

    Args:
        manifold: any manifold that :func:`hgeo.dist` knows.
        x: points (..., N, n).
        y: points (..., M, n); leading dimensions broadcast. None: the points of ``x``, each without itself.
        k: how many.

    Returns:
        ``distances`` and ``indices``, both (..., N, k), the nearest first.

    >>> import torch, hgeo
    >>> x = torch.tensor([[0.0, 0.0], [0.5, 0.0], [0.6, 0.0]])
    >>> hgeo.nearest(hgeo.PoincareBall(), x).indices
    tensor([[1],
            [2],
            [1]])
    """
    alone = y is not None
    x, y = _points("nearest", manifold, x, x if y is None else y)
    available = y.shape[-2] - (not alone)
    if not 1 <= k <= available:
        raise ValueError(f"nearest: k must be between 1 and the {available} points there are to choose from, got {k}")
    batch, x, y = _in_one_batch(x, y)
    indices = _search(manifold, x.detach(), y.detach(), k, among_themselves=not alone)
    found = torch.take_along_dim(y.unsqueeze(1), indices.unsqueeze(-1), dim=2)
    distances, order = dist(manifold, x.unsqueeze(2), found).sort(dim=-1)
    indices = torch.take_along_dim(indices, order, dim=-1)
    return Nearest(distances.reshape(*batch, -1, k), indices.reshape(*batch, -1, k))


@torch.no_grad()
def _search(manifold: geoopt.Manifold, x: Tensor, y: Tensor, k: int, *, among_themselves: bool) -> Tensor:
    """Rows of the ``k`` nearest points (B, N, k), for points (B, N, n) and (B, M, n)."""
    indices = torch.empty((*x.shape[:-1], k), dtype=torch.int64, device=x.device)
    best: Tensor | None = None
    for some, rows, columns in _tiles(x, y):
        if columns.start == 0:
            best = None
        distances = cdist(manifold, x[some, rows], y[some, columns])
        names = torch.arange(columns.start, columns.start + distances.shape[-1], device=x.device).expand_as(distances)
        if among_themselves:
            own = torch.arange(rows.start, rows.start + distances.shape[-2], device=x.device).unsqueeze(-1)
            distances = distances.masked_fill(names == own, math.inf)
        if best is not None:
            distances, names = (
                torch.cat([best, distances], -1),
                torch.cat([indices[some, rows, : best.shape[-1]], names], -1),
            )
        best, chosen = distances.topk(min(k, distances.shape[-1]), dim=-1, largest=False)
        indices[some, rows, : best.shape[-1]] = torch.take_along_dim(names, chosen, dim=-1)
    return indices


def _points(function: str, manifold: geoopt.Manifold, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """The points, refused if metadata show that they cannot be."""
    geometry(manifold)  # an error if it is no manifold
    for name, value in (("x", x), ("y", y)):
        if not isinstance(value, Tensor) or not value.dtype.is_floating_point:
            kind = value.dtype if isinstance(value, Tensor) else type(value).__name__
            raise TypeError(f"{function}: {name!r}: expected a floating-point tensor of points, got {kind}")
        if value.dim() < 2:
            raise ValueError(f"{function}: {name!r}: expected points of shape (..., N, n), got {tuple(value.shape)}")
    if x.shape[-1] != y.shape[-1]:
        raise ValueError(
            f"{function}: points of {x.shape[-1]} numbers (x) and of {y.shape[-1]} (y) lie on different manifolds"
        )
    if x.device != y.device:
        raise ValueError(f"{function}: 'x' is on {x.device}, 'y' on {y.device}; move them to one device")
    return x, y


def _in_one_batch(x: Tensor, y: Tensor) -> tuple[torch.Size, Tensor, Tensor]:
    """The leading dimensions of the pairs, and the points as plain tensors (B, N, n) and (B, M, n)."""
    batch = torch.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    count = math.prod(batch)
    x, y = (p.as_subclass(Tensor).expand(*batch, -1, -1).reshape(count, *p.shape[-2:]) for p in (x, y))
    return batch, x, y


def _tiles(x: Tensor, y: Tensor) -> Iterator[tuple[slice, slice, slice]]:
    """Which batches, rows of ``x`` and rows of ``y`` each tile takes; a row's tiles follow each other."""
    batches, many, size = x.shape
    others = y.shape[1]
    pairs = max(1, min(_TILE_PAIRS, _TILE_NUMBERS // max(size, 1)))
    columns = max(1, min(others, max(math.isqrt(pairs), pairs // max(many, 1))))
    rows = max(1, min(many, pairs // columns))
    some = max(1, pairs // (rows * columns))
    axes = [
        [slice(start, start + step) for start in range(0, length, step)]
        for length, step in ((batches, some), (many, rows), (others, columns))
    ]
    return itertools.product(*axes)


class _Measure(nn.Module):
    """A manifold's distances as a function of its parameters, which ``functional_call`` puts in place."""

    def __init__(self, manifold: geoopt.Manifold) -> None:
        super().__init__()
        self.manifold = manifold

    def forward(self, x: Tensor, y: Tensor, twice: bool = False) -> Tensor:
        if twice:  # to be differentiated twice
            return dist(self.manifold, x.unsqueeze(-2), y.unsqueeze(-3))
        return geometry(self.manifold).pairs(self.manifold, x, y)


class _Tiled(torch.autograd.Function):
    """Distances (B, N, M) of points (B, N, n) and (B, M, n). The backward pass computes each tile anew."""

    @staticmethod
    def forward(
        ctx: Any, measure: _Measure, names: tuple[str, ...], x: Tensor, y: Tensor, *parameters: Tensor
    ) -> Tensor:
        ctx.measure, ctx.names = measure, names
        ctx.save_for_backward(x, y, *parameters)
        distances = x.new_empty((*x.shape[:-1], y.shape[-2]))
        for some, rows, columns in _tiles(x, y):
            distances[some, rows, columns] = measure(x[some, rows], y[some, columns])
        return distances

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, y, *parameters = ctx.saved_tensors
        wanted = ctx.needs_input_grad[2:]

        def distances(x: Tensor, y: Tensor, parameters: list[Tensor], twice: bool) -> Tensor:
            state = {f"manifold.{name}": value for name, value in zip(ctx.names, parameters, strict=True)}
            return torch.func.functional_call(ctx.measure, state, (x, y, twice))

        if torch.is_grad_enabled():  # somebody asks for a second derivative
            inputs = [value for value, want in zip((x, y, *parameters), wanted, strict=True) if want]
            whole = distances(x, y, parameters, True)
            found = iter(torch.autograd.grad(whole, inputs, grad, create_graph=True, allow_unused=True))
            return (None, None, *[next(found) if want else None for want in wanted])
        totals = [
            torch.zeros_like(value) if want else None for value, want in zip((x, y, *parameters), wanted, strict=True)
        ]
        for some, rows, columns in _tiles(x, y):
            parts = [x[some, rows], y[some, columns], *parameters]
            parts = [part.detach().requires_grad_(want) for part, want in zip(parts, wanted, strict=True)]
            with torch.enable_grad():
                tile = distances(parts[0], parts[1], parts[2:], False)
            inputs = [part for part, want in zip(parts, wanted, strict=True) if want]
            found = iter(torch.autograd.grad(tile, inputs, grad[some, rows, columns], allow_unused=True))
            where = [(some, rows), (some, columns), *[()] * len(parameters)]
            for total, place in zip(totals, where, strict=True):
                part = None if total is None else next(found)
                if total is not None and part is not None:
                    total[place] += part
        return (None, None, *totals)
