"""How a node aggregates its neighbours: weighted sums of tangent rows, Möbius sums or gyromidpoints of points."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from hgeo import manifolds
from hgeo import math as hm
from hgeo.graph._checks import Description, from_word, one_of
from hgeo.graph._mobius import mobius_sum

if TYPE_CHECKING:
    from hgeo.graph._work import Work

__all__ = ["Aggregate", "Midpoint", "MobiusSum", "TangentSum", "as_aggregate", "diffuse"]


@dataclass(frozen=True, repr=False)
class TangentSum(Description):
    r"""The sum :math:`z_i = \sum_j w_{ij} u_j` of tangent rows; the point is exp0 of it.

    With several ``steps`` it is walked again and again along the same weights, from :math:`z = u` on:
    :math:`z_i \leftarrow (1 - a) \sum_j w_{ij} z_j + a\, u_i`.

    Args:
        degree_norm: sum :math:`w_{ij}\sqrt{\deg_i/\deg_j}\, u_j` instead (in-degree of i, out-degree of j, self-loops
            counted): with uniform weights that is a GCN's :math:`1/\sqrt{\deg_i \deg_j}`.
        steps: how often the weights are walked along, on a graph whose sources are its destinations.
        restart: a, in [0, 1), the share of its own row with which each of several steps restarts.
    """

    degree_norm: bool = False
    steps: int = 1
    restart: float = 0.1

    def __post_init__(self) -> None:
        one_of("degree_norm", self.degree_norm, (False, True))
        if isinstance(self.steps, bool) or not isinstance(self.steps, int) or self.steps < 1:
            raise ValueError(f"steps must be a whole number of at least 1, got {self.steps!r}")
        if not isinstance(self.restart, int | float) or not 0.0 <= self.restart < 1.0:
            raise ValueError(f"restart must lie in [0, 1), got {self.restart!r}")

    def __call__(self, work: Work, weights: Tensor) -> Tensor:
        """(num_dst, heads, d) tangent rows."""
        graph, source, target = work.graph, work.source_scale, work.target_scale
        if self.steps > 1 and graph.num_src != graph.num_dst:
            raise ValueError(
                f"{self.steps} steps need a graph whose sources are its destinations, got a block from {graph.num_src} "
                f"to {graph.num_dst} nodes; use steps=1, or the graph of all the block's sources"
            )

        def step(z: Tensor) -> Tensor:
            z = z if source is None else z * source.view(-1, 1, 1)
            out = work.operations.weighted_sum(graph, work.dropped(weights), z)
            return out if target is None else out * target

        return diffuse(step, work.u, self.steps, self.restart)


@dataclass(frozen=True, repr=False)
class MobiusSum(Description):
    r"""The Möbius sum :math:`w_{ij_1} \otimes h_{j_1} \oplus w_{ij_2} \otimes h_{j_2} \oplus \cdots` of points h =
    exp0(u), from the left, in the order of source ids.

    Args:
        degree_norm: as in :class:`TangentSum`.
    """

    degree_norm: bool = False

    def __post_init__(self) -> None:
        one_of("degree_norm", self.degree_norm, (False, True))

    def check(self, manifold: Any, dim: int) -> None:
        if not manifolds.has_mobius(manifold):
            raise ValueError(
                f"aggregate='mobius' needs Möbius addition, which {manifolds.describe(manifold)} does not have; use "
                "'tangent' or 'midpoint', or a manifold of the stereographic family"
            )

    def __call__(self, work: Work, weights: Tensor) -> Tensor:
        """(num_dst, heads, d) tangent rows of the sums."""
        weights = work.dropped(weights)
        if work.source_scale is not None and work.target_scale is not None:
            source, target = work.source_scale, work.target_scale.flatten()
            per_edge = source.index_select(0, work.graph.col) * target.index_select(0, work.graph.row)
            weights = weights * per_edge.unsqueeze(-1)
        sums = [
            hm.logmap0(mobius_sum(work.graph, weights, rows, k=part.k), k=part.k.unsqueeze(-1))
            for part, rows in work.rows_of_parts(work.u)
        ]
        return sums[0] if len(sums) == 1 else torch.cat(sums, -1)


@dataclass(frozen=True, repr=False)
class Midpoint(Description):
    r"""The gyromidpoint :math:`\tfrac12 \otimes \sum_j w_{ij} \lambda_j h_j / \sum_j w_{ij} (\lambda_j - 1)` of points
    h = exp0(u).

    Args:
        degree_norm: weigh by :math:`w_{ij}/\sqrt{\deg_j}`; the midpoint normalises by its weights.
    """

    degree_norm: bool = False

    def __post_init__(self) -> None:
        one_of("degree_norm", self.degree_norm, (False, True))

    def check(self, manifold: Any, dim: int) -> None:
        manifolds.lift(manifold, manifolds.exp0(manifold, torch.zeros(dim)))  # a manifold without midpoints says so

    def __call__(self, work: Work, weights: Tensor) -> Tensor:
        """(num_dst, heads, d) tangent rows of the midpoints."""
        weight = None if work.source_scale is None else work.source_scale.view(-1, 1, 1)
        lifted = manifolds.lift_rows(work.manifold, work.u, weight)
        sums = work.operations.weighted_sum(work.graph, work.dropped(weights), lifted)
        return manifolds.lower_rows(work.manifold, sums)


Aggregate = TangentSum | MobiusSum | Midpoint


def as_aggregate(aggregate: Any, **options: Any) -> Aggregate:
    """A description of an aggregation, from one or from its word and those options that are not None."""
    if aggregate in ("mobius", "midpoint") and (options.get("steps") or 1) != 1:
        raise ValueError(f"several steps are walked with aggregate='tangent' only, got {aggregate!r}")
    words = {"tangent": TangentSum, "mobius": MobiusSum, "midpoint": Midpoint}
    found: Aggregate = from_word("aggregate", aggregate, words, options)
    return found


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
