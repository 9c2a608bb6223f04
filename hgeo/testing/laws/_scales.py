"""One number an example, and what its error is relative to, for the laws of any manifold."""

from __future__ import annotations

from torch import Tensor

from hgeo.testing._space import Space

__all__ = ["carried_scale", "distances", "numbers", "pairing_scale"]


def numbers(value: Tensor, count: int) -> Tensor:
    """A scalar an example, whatever the manifold's habits about trailing dimensions."""
    return value.detach().double().reshape(count, -1).amax(-1)


def distances(space: Space, x: Tensor, y: Tensor) -> Tensor:
    return numbers(space.manifold.dist(x, y), x.shape[0])


def pairing_scale(space: Space, x: Tensor, u: Tensor, v: Tensor) -> Tensor:
    """What the error of ⟨u, v⟩ is relative to: |u||v| on conformal models, the size of what cancels in it elsewhere."""
    if space.k is not None:
        return space.length(x, u) * space.length(x, v)
    return space.vector_rounding(x, u) * space.vector_rounding(x, v)


def carried_scale(space: Space, x: Tensor, y: Tensor, u: Tensor, moved: Tensor) -> Tensor:
    """What the error of a vector's numbers is relative to when it was carried from x to y."""
    if space.k is not None:
        return space.euclidean(moved) * space.condition(x, y)
    return space.vector_rounding(x, u) + space.vector_rounding(y, moved)
