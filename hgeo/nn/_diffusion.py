"""Walking one step of aggregation several times."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

__all__ = ["diffuse"]


def diffuse(step: Callable[[Tensor], Tensor], u: Tensor, steps: int, restart: float) -> Tensor:
    r"""z after ``steps`` of :math:`z \leftarrow (1 - a)\,\mathrm{step}(z) + a\,u` from z = u, with a the ``restart``.

    A single step is ``step(u)`` alone. Many steps of a linear map approach personalised PageRank (Gasteiger et al.,
    2019), in which a node keeps the share a of its own vector however far the others come from.
    """
    if steps == 1:
        return step(u)
    z = u
    for _ in range(steps):
        z = (1 - restart) * step(z) + restart * u
    return z
