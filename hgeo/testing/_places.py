"""The hard places of geometry, in one list each, and recipes that visit them on purpose.

A recipe draws from a :class:`Source`. Two sources exist: hypothesis (readable, shrinking examples, in
``hgeo.testing.strategies``) and a seeded generator (thousands of examples a second, in ``check_manifold``). Choices
are ordered from simple to hard, because hypothesis shrinks towards the first one.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

__all__ = [
    "CURVATURES",
    "LENGTHS",
    "REACHES",
    "SCALARS",
    "SPHERE_REACHES",
    "Domain",
    "RandomSource",
    "Source",
    "direction",
    "edges",
    "matrix",
    "neighbour",
    "orthogonal",
    "point",
    "scalar",
    "tangent",
    "weights",
]

T = TypeVar("T")
Array = npt.NDArray[np.float64]

CURVATURES = (1.0, 0.0, 1e-12, 1e-8, 1e-6, 1e-4, 1e-2, 0.5, 2.0, 10.0, 100.0, 1e4)
"""Sizes of curvature: exactly 0, far below every dtype's eps, around it, ordinary, and large."""

REACHES = (0.5, 0.0, 0.1, 0.9, 1e-3, 1e-5, 1e-8, 1e-12, 0.14, 0.7, 0.99, 0.999, 0.9999)
"""√c|x| on the ball, to which the edge itself (1 − 4 eps of the dtype) is added; also |x| in flat space.

At 0.14, where z = c|x|² is 0.02, series are about to give way to closed forms."""

SPHERE_REACHES = (0.5, 0.0, 0.1, 1.0, 1e-3, 1e-5, 1e-8, 1e-12, 0.14, 2.0, 10.0, 100.0)
"""√k|x| on the stereographic sphere: 1 is the equator, ∞ the antipode of the origin."""

LENGTHS = (0.5, 0.0, 1.0, 0.1, 1e-3, 1e-5, 1e-8, 0.28, 2.0, 3.0)
"""Metric lengths of tangent vectors times √|k|."""

SCALARS = (1.0, 0.0, -1.0, 0.5, 2.0, -0.5, 1e-3, 1e-7, 3.0)
"""Factors of scalar multiplication."""

GAPS = (1e-3, 1e-2, 1e-5, 1e-1)
"""Separations of neighbours, relative to the space that is left to the boundary."""


class Source(Protocol):
    """Where a recipe's choices come from."""

    def pick(self, choices: Sequence[T]) -> T: ...

    def uniform(self, low: float, high: float) -> float: ...

    def integer(self, low: int, high: int) -> int: ...


class RandomSource:
    """A :class:`Source` that is a seeded generator."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def pick(self, choices: Sequence[T]) -> T:
        return choices[int(self._random.random() * len(choices))]

    def uniform(self, low: float, high: float) -> float:
        return low + (high - low) * self._random.random()

    def integer(self, low: int, high: int) -> int:
        return low + int(self._random.random() * (high - low + 1))


@dataclass(frozen=True)
class Domain:
    """Where points may lie: signed curvature, dimension, and how far from the origin (√|k||x|) they may go."""

    k: float
    dim: int
    limit: float = math.inf
    far: tuple[float, ...] = ()  # lengths beyond the usual ones, of a space whose end was found by walking

    @property
    def unit(self) -> float:
        """The length that belongs to the curvature, 1/√|k|; 1 in flat space."""
        return 1.0 / math.sqrt(abs(self.k)) if self.k else 1.0

    def clip(self, x: Array) -> Array:
        size = float(np.linalg.norm(x)) / self.unit
        return x * (self.limit / size) if self.k < 0 and size > self.limit else x


def direction(source: Source, dim: int) -> Array:
    """A unit vector: an axis, the diagonal, one with few coordinates, or one of no particular kind."""
    # A kind takes as many choices as the harder ones or fewer: hypothesis holds what needs fewer for simpler.
    kind = source.pick(("axis", "diagonal", "any", "any", "few"))
    value = np.zeros(dim)
    if kind == "axis":
        place = source.integer(0, 2 * dim - 1)
        value[place % dim] = 1.0 if place < dim else -1.0
    elif kind == "diagonal":
        value[:] = source.pick((1.0, -1.0))
    elif kind == "few":
        for _ in range(min(3, dim)):
            value[source.integer(0, dim - 1)] = source.integer(-3, 3)
    else:
        value = np.random.default_rng(source.integer(0, 2**31 - 1)).standard_normal(dim)
    size = float(np.linalg.norm(value))
    if size == 0.0:
        value[0] = size = 1.0
    return np.asarray(value / size)


def _goes_far(source: Source, domain: Domain) -> bool:
    choices = (False, True)
    return bool(domain.far) and source.pick(choices)


def _reach(source: Source, domain: Domain) -> float:
    if _goes_far(source, domain):
        return source.pick(domain.far)
    if source.pick((False, False, True)):
        return min(source.uniform(0.0, 1.0), domain.limit)
    if domain.k > 0:
        return source.pick(SPHERE_REACHES)
    if domain.k < 0:
        # The edge counts twice: most of what goes wrong goes wrong there.
        edge = domain.limit if math.isfinite(domain.limit) else REACHES[-1]
        return min(source.pick((*REACHES, edge, edge)), domain.limit)
    return source.pick((*REACHES, 10.0, 100.0))


def point(source: Source, domain: Domain) -> Array:
    """A point in stereographic coordinates: the origin, the edge, every scale between them."""
    reach = _reach(source, domain)
    if domain.k and abs(domain.k) < 1e-3 and source.pick((False, True)):
        # In a nearly flat space points of ordinary size are the ones that people have.
        return domain.clip(direction(source, domain.dim) * reach)
    return direction(source, domain.dim) * (reach * domain.unit)


def neighbour(source: Source, domain: Domain, x: Array) -> Array:
    """A point in a chosen relation to ``x``: any, the same, near, touching, opposite, nearly so, on its ray, antipodal,
    or as far from the origin in another direction."""
    kinds = ["any", "any", "any", "same", "near", "near", "opposite", "nearly opposite", "ray", "origin"]
    kinds += ["touching", "turned"]
    if domain.k > 0:
        kinds += ["antipode", "nearly antipode"]
    kind = source.pick(kinds)
    size = float(np.linalg.norm(x))
    # what is left to the boundary, in coordinates: a neighbour at a fixed coordinate distance would fall outside
    room = max(1.0 - (size / domain.unit) ** 2, 0.0) * domain.unit if domain.k < 0 else max(size, 1e-3 * domain.unit)
    if kind == "same":
        return x.copy()
    if kind == "near":
        return domain.clip(x + direction(source, domain.dim) * (source.pick(GAPS) * room))
    if kind == "touching":  # the next floats
        gap = max(source.pick((2e-7, 4e-16)) * size, 1e-15 * domain.unit)  # whose square is a float32, too
        return domain.clip(x + direction(source, domain.dim) * gap)
    if kind == "turned":  # its 1 - c|x|² is the same and is rounded in another way
        return domain.clip(direction(source, domain.dim) * size)
    if kind == "opposite":
        return -x
    if kind == "nearly opposite":
        return domain.clip(-x + direction(source, domain.dim) * (source.pick(GAPS) * room))
    if kind == "ray":
        return domain.clip(x * source.pick((0.5, -0.5, 1e-3, 0.999)))
    if kind == "origin":
        return np.zeros(domain.dim)
    if kind in ("antipode", "nearly antipode") and size > 1e-3 * domain.unit:
        opposite = -x * (domain.unit / size) ** 2
        if kind == "nearly antipode":
            # an arcsine is at its worst there before it is good for nothing
            gap = source.pick((*GAPS, 3e-3, 5e-3))
            opposite = opposite + direction(source, domain.dim) * (gap * float(np.linalg.norm(opposite)))
        return opposite
    return point(source, domain)


def tangent(source: Source, domain: Domain, room: float) -> Array:
    """A vector of metric length at most ``room`` (in units of 1/√|k|), not yet scaled by the metric."""
    if _goes_far(source, domain):
        return direction(source, domain.dim) * min(source.pick(domain.far), room)
    length = source.pick((*LENGTHS, math.inf)) if source.pick((True, True, False)) else source.uniform(0.0, 1.0)
    if math.isinf(length):
        length = room
    return direction(source, domain.dim) * (min(length, room) * domain.unit)


def scalar(source: Source) -> float:
    """A factor: 0, ±1, small, ordinary."""
    return source.pick(SCALARS) if source.pick((True, True, False)) else source.uniform(-2.0, 2.0)


def orthogonal(source: Source, dim: int) -> Array:
    """An orthogonal matrix: the identity, a reflection, a permutation, or one of no particular kind."""
    kind = source.pick(("identity", "reflection", "permutation", "any", "any"))
    if kind == "identity":
        return np.eye(dim)
    if kind == "reflection":
        return -np.eye(dim)
    rng = np.random.default_rng(source.integer(0, 2**31 - 1))
    if kind == "permutation":
        return np.asarray(np.eye(dim)[rng.permutation(dim)])
    q, r = np.linalg.qr(rng.standard_normal((dim, dim)))
    return np.asarray(q * np.sign(np.diag(r)))


def matrix(source: Source, rows: int, columns: int) -> Array:
    """A matrix of spectral norm about 1: zero, a multiple of the identity, of rank one, or of no particular kind."""
    kind = source.pick(("identity", "zero", "rank one", "any", "any"))
    size = source.pick((1.0, 0.5, 1e-3, 1.5))
    if kind == "identity":
        return size * np.eye(rows, columns)
    if kind == "zero":
        return np.zeros((rows, columns))
    if kind == "rank one":
        return size * np.outer(direction(source, rows), direction(source, columns))
    rng = np.random.default_rng(source.integer(0, 2**31 - 1))
    value = rng.standard_normal((rows, columns))
    return np.asarray(value * (size / float(np.linalg.norm(value, 2))))


def weights(source: Source, count: int) -> Array:
    """Positive weights, not normalised: equal, one-sided, of many sizes."""
    kind = source.pick(("equal", "one-sided", "any"))
    if kind == "equal":
        return np.ones(count)
    if kind == "one-sided":
        value = np.full(count, 1e-3)
        value[source.integer(0, count - 1)] = 1.0
        return value
    return np.array([source.uniform(0.1, 2.0) for _ in range(count)])


def edges(source: Source, max_nodes: int) -> tuple[int, list[tuple[int, int]]]:
    """A graph as (number of nodes, directed edges): no edge, self-loops, duplicates, a star, a path, a tree, any."""
    nodes = source.integer(1, max_nodes)
    kind = source.pick(("path", "empty", "loops", "star", "tree", "complete", "any", "any", "duplicates"))
    pairs: list[tuple[int, int]] = []
    if kind == "path":
        pairs = [(i, i + 1) for i in range(nodes - 1)]
    elif kind == "loops":
        pairs = [(i, i) for i in range(nodes)]
    elif kind == "star":
        pairs = [(i, 0) for i in range(1, nodes)] + [(0, i) for i in range(1, nodes)]
    elif kind == "tree":
        pairs = [pair for i in range(1, nodes) for pair in ((i, (i - 1) // 2), ((i - 1) // 2, i))]
    elif kind == "complete":
        pairs = [(i, j) for i in range(nodes) for j in range(nodes)][: 40 * max_nodes]
    elif kind in ("any", "duplicates"):
        count = source.integer(0, 3 * nodes)
        pairs = [(source.integer(0, nodes - 1), source.integer(0, nodes - 1)) for _ in range(count)]
        if kind == "duplicates":
            pairs = pairs + pairs[: max(1, len(pairs) // 2)]
    return nodes, pairs


def numpy_array(value: Any) -> Array:
    """``value`` as an array of float64."""
    return np.asarray(value, dtype=np.float64)
