"""Batches of examples for the laws: the same recipes as the hypothesis strategies, drawn by a seeded generator."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from hgeo.testing import _places
from hgeo.testing._space import Space

__all__ = ["KINDS", "Examples"]

CLOUD = 4
"""Points of which a midpoint is taken."""


class Examples:
    """``count`` examples of everything that a law may ask for by name. Drawn when asked for, equal for equal seeds.

    ======================  =====================================================================================
    ``x``, ``y``, ``z``      points; y stands in a relation to x, z to y
    ``u``, ``v``             tangent vectors at x
    ``p``, ``w``             coordinates of tangent vectors at the origin (intrinsic dimension)
    ``r``, ``s``, ``t``      factors, and a time in [0, 1]; shape (count, 1)
    ``m``, ``n``, ``q``      matrices, and an orthogonal one
    ``e``, ``g``             an ambient vector, inside or outside, and a gradient
    ``xs``, ``ws``           four points and their positive weights
    ======================  =====================================================================================
    """

    def __init__(self, space: Space, count: int, seed: int = 0) -> None:
        self.space, self.count, self.seed = space, count, seed
        self._drawn: dict[str, Tensor] = {}

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._drawn:
            self._drawn[name] = KINDS[name](
                self, _places.RandomSource(self.seed * 1_000_003 + zlib.crc32(name.encode()))
            )
        return self._drawn[name]

    def _points(self, source: _places.RandomSource) -> Tensor:
        return self.space.embed([_places.point(source, self.space.domain) for _ in range(self.count)])

    def _neighbours(self, source: _places.RandomSource, of: str) -> Tensor:
        domain = self.space.domain
        rows = [_places.neighbour(source, domain, self.space.coordinates(base)) for base in self[of]]
        return self.space.embed(rows)

    def _tangents(self, source: _places.RandomSource) -> Tensor:
        x = self["x"]
        rows = [_places.tangent(source, self.space.direction_domain, room) for room in self.space.room(x)]
        return self.space.tangents(x, rows)

    def _coordinates(self, source: _places.RandomSource) -> Tensor:
        half = (
            0.5 if self.space.k is not None else 1.0
        )  # a coordinate vector of the stereographic frame has length 2|v|
        reach = self.space.reach * half
        return self._stack([_places.tangent(source, self.space.domain, reach) for _ in range(self.count)])

    def _ambient(self, source: _places.RandomSource) -> Tensor:
        unit, size = self.space.domain.unit, math.prod(self.space.shape)
        rows = [
            _places.direction(source, size) * unit * source.pick((0.5, 0.0, 1.0, 0.999999, 1.5, 10.0, 1e-8, 1e3))
            for _ in range(self.count)
        ]
        return self._stack(rows).reshape(self.count, *self.space.shape)

    def _gradient(self, source: _places.RandomSource) -> Tensor:
        size = math.prod(self.space.shape)
        return self._stack([_places.direction(source, size) for _ in range(self.count)]).reshape(-1, *self.space.shape)

    def _scalars(self, source: _places.RandomSource) -> Tensor:
        return self._stack([np.array([_places.scalar(source)]) for _ in range(self.count)])

    def _times(self, source: _places.RandomSource) -> Tensor:
        choices = (0.5, 0.0, 1.0, 1e-3, 0.999)
        values = [
            source.pick(choices) if source.pick((True, False)) else source.uniform(0, 1) for _ in range(self.count)
        ]
        return self._stack([np.array([value]) for value in values])

    def _matrices(self, source: _places.RandomSource) -> Tensor:
        return self._stack([_places.matrix(source, self.space.dim, self.space.dim) for _ in range(self.count)])

    def _rotations(self, source: _places.RandomSource) -> Tensor:
        return self._stack([_places.orthogonal(source, self.space.dim) for _ in range(self.count)])

    def _clouds(self, source: _places.RandomSource) -> Tensor:
        domain = self.space.domain
        rows = []
        for _ in range(self.count):
            first = _places.point(source, domain)
            rows += [first, *[_places.neighbour(source, domain, first) for _ in range(CLOUD - 1)]]
        return self.space.embed(rows).reshape(self.count, CLOUD, *self.space.shape)

    def _weights(self, source: _places.RandomSource) -> Tensor:
        return self._stack([_places.weights(source, CLOUD) for _ in range(self.count)])

    def _stack(self, rows: list[_places.Array]) -> Tensor:
        return torch.from_numpy(np.stack(rows)).to(self.space.dtype)


KINDS: dict[str, Callable[[Examples, _places.RandomSource], Tensor]] = {
    "x": Examples._points,
    "y": lambda self, source: self._neighbours(source, "x"),
    "z": lambda self, source: self._neighbours(source, "y"),
    "u": Examples._tangents,
    "v": Examples._tangents,
    "p": Examples._coordinates,
    "w": Examples._coordinates,
    "r": Examples._scalars,
    "s": Examples._scalars,
    "t": Examples._times,
    "m": Examples._matrices,
    "n": Examples._matrices,
    "q": Examples._rotations,
    "e": Examples._ambient,
    "g": Examples._gradient,
    "xs": Examples._clouds,
    "ws": Examples._weights,
}
