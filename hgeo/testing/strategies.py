"""Hypothesis strategies for geometry. Each visits the hard places on purpose and shrinks to something one can read.

>>> from hypothesis import given
>>> import geoopt, torch
>>> from hgeo.testing import strategies
>>> ball = geoopt.PoincareBall()
>>> @given(strategies.points(ball, 3), strategies.points(ball, 3))
... def distances_are_symmetric(x, y):
...     assert torch.allclose(ball.dist(x, y), ball.dist(y, x))

The places themselves (curvatures, radii, relations between points) are lists in ``hgeo/testing/_places.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import torch
from hypothesis import strategies as st
from torch import Tensor

from hgeo.testing import _places
from hgeo.testing._space import Space

__all__ = [
    "EdgeList",
    "Isometry",
    "curvatures",
    "graphs",
    "isometries",
    "matrices",
    "points",
    "scalars",
    "tangents",
]

T = TypeVar("T")


class _Drawn:
    """A recipe's source of choices that is a hypothesis draw."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw

    def pick(self, choices: Sequence[T]) -> T:
        return self._draw(st.sampled_from(list(choices)))

    def uniform(self, low: float, high: float) -> float:
        # Hundredths are dense enough to find trouble and short enough to read.
        return low + (high - low) * self._draw(st.integers(0, 100)) / 100

    def integer(self, low: int, high: int) -> int:
        return self._draw(st.integers(low, high))


def _tensor(value: Any, dtype: torch.dtype) -> Tensor:
    return torch.from_numpy(_places.numpy_array(value)).to(dtype)


def curvatures(sign: str = "any") -> st.SearchStrategy[float]:
    """Signed curvatures k: exactly 0, 1e-12 … 1e4, and anything between.

    ``sign`` is ``"any"``, ``"negative"`` (hyperbolic, and 0) or ``"positive"`` (spherical, and 0).
    """
    factors = {"any": (-1.0, 1.0), "negative": (-1.0,), "positive": (1.0,)}
    if sign not in factors:
        raise ValueError(f"sign must be one of {', '.join(factors)}; got {sign!r}")
    size = st.one_of(st.sampled_from(_places.CURVATURES), st.floats(1e-12, 1e4))
    return st.builds(lambda factor, value: factor * value, st.sampled_from(factors[sign]), size)


def scalars() -> st.SearchStrategy[float]:
    """Factors for scalar multiplication: 1, 0, −1, tiny, ordinary."""
    return st.composite(lambda draw: _places.scalar(_Drawn(draw)))()


def matrices(rows: int, columns: int | None = None, dtype: torch.dtype = torch.float64) -> st.SearchStrategy[Tensor]:
    """Matrices of spectral norm about 1: the identity, zero, rank one, any."""

    @st.composite
    def build(draw: st.DrawFn) -> Tensor:
        return _tensor(_places.matrix(_Drawn(draw), rows, rows if columns is None else columns), dtype)

    return build()


@st.composite
def points(
    draw: st.DrawFn, manifold: Any, dim: int, *, near: Tensor | None = None, dtype: torch.dtype = torch.float64
) -> Tensor:
    """A point of ``manifold``: the origin, the edge, every scale between.

    With ``near=x`` the point stands in a chosen relation to ``x``: the same, close by, opposite, on its ray, antipodal,
    or none. ``dim`` is the intrinsic dimension.
    """
    space = Space(manifold, dim, dtype)
    source = _Drawn(draw)
    if near is None:
        return space.embed([_places.point(source, space.domain)])[0]
    base = space.coordinates(near)
    return space.embed([_places.neighbour(source, space.domain, base)])[0]


@st.composite
def tangents(draw: st.DrawFn, manifold: Any, x: Tensor) -> Tensor:
    """A tangent vector at ``x``: zero, tiny, ordinary, and as long as the precision lets a geodesic be."""
    dim = x.shape[-1]
    space = Space(manifold, dim, x.dtype, ambient=True)
    drawn = _places.tangent(_Drawn(draw), space.direction_domain, space.room(x.unsqueeze(0))[0])
    return space.tangents(x.unsqueeze(0), [drawn])[0]


@dataclass(frozen=True)
class Isometry:
    """x ↦ p ⊕ Qx: every isometry of the stereographic models is of this form."""

    manifold: Any
    translation: Tensor
    rotation: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        return self.manifold.mobius_add(self.translation, x @ self.rotation.mT)


@st.composite
def isometries(draw: st.DrawFn, manifold: Any, dim: int, *, dtype: torch.dtype = torch.float64) -> Isometry:
    """Isometries of a stereographic manifold: the identity, rotations, reflections, translations and what they make."""
    rotation = _tensor(_places.orthogonal(_Drawn(draw), dim), dtype)
    return Isometry(manifold, draw(points(manifold, dim, dtype=dtype)), rotation)


class EdgeList(NamedTuple):
    """A directed graph: ``edge_index`` (2, E) with the source row first, and the number of nodes."""

    edge_index: Tensor
    num_nodes: int


@st.composite
def graphs(draw: st.DrawFn, *, max_nodes: int = 8) -> EdgeList:
    """Graphs: a path, no edge at all, only self-loops, a star, a tree, complete, with duplicate edges, any."""
    nodes, pairs = _places.edges(_Drawn(draw), max_nodes)
    return EdgeList(torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).T.contiguous(), nodes)
