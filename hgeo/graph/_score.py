"""Scores of edges. Their softmax over the edges into a node is its attention."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from hgeo import manifolds
from hgeo import math as hm
from hgeo.graph._checks import Description, from_word, one_of
from hgeo.graph._graph import Graph, values_unknown
from hgeo.graph._points import limited

if TYPE_CHECKING:
    from hgeo.graph._work import Work

__all__ = ["Distance", "Score", "Uniform", "as_score", "mean_radius", "self_distance_as_mean"]


@dataclass(frozen=True, repr=False)
class Distance(Description):
    r"""Scores :math:`-\beta\, d(\exp_0 (s u_i), \exp_0 (s u_j))`.

    Args:
        beta: β > 0, or "learn": a layer then has one β a head, starting at 1.
        radius_norm: s is 1/r̄, where r̄ is the mean of :math:`|u_j|` over the sources, a head (gradients flow through
            it): the scores do not depend on how far out the points lie. Otherwise s = 1.
        self_score: distance of a node to itself: "zero", as it is, or "mean", the mean distance to its other
            neighbours.
    """

    beta: float | Literal["learn"] = 1.0
    radius_norm: bool = False
    self_score: Literal["zero", "mean"] = "zero"

    def __post_init__(self) -> None:
        if self.beta != "learn" and not (isinstance(self.beta, int | float) and 0 < self.beta < math.inf):
            raise ValueError(f"beta must be a positive number or 'learn', got {self.beta!r}")
        one_of("radius_norm", self.radius_norm, (False, True))
        one_of("self_score", self.self_score, ("zero", "mean"))

    def check(self, manifold: Any, dim: int) -> None:
        origin = manifolds.exp0(manifold, torch.zeros(dim))
        manifolds.dist(manifold, origin, origin)  # a manifold without a distance says so

    def __call__(self, work: Work) -> Tensor:
        """(E, heads) scores, in the order of the graph's edges."""
        distance = self._distance(work)
        if self.self_score == "mean":
            distance = self_distance_as_mean(work.graph, distance, work.edge_weight)
        return -work.beta * distance

    def _distance(self, work: Work) -> Tensor:
        u, graph = work.scaled_rows, work.graph
        if work.parts is None:  # the manifold's own distance, of points
            p = manifolds.exp0(work.manifold, u)
            return manifolds.dist(work.manifold, p.index_select(0, graph.row), p.index_select(0, graph.col))
        found = [
            work.operations.edge_distance(graph, limited(rows, part.k, work.points_dtype), part.k)
            for part, rows in work.rows_of_parts(u)
        ]
        return found[0] if len(found) == 1 else hm.safe_sqrt(torch.stack(found).square().sum(0))


@dataclass(frozen=True, repr=False)
class Uniform(Description):
    """The same score for every neighbour."""

    def __call__(self, work: Work) -> Tensor:
        """(E, heads) zeros."""
        return work.u.new_zeros(work.graph.num_edges, work.u.shape[1])


Score = Distance | Uniform


def as_score(score: Any, **options: Any) -> Score:
    """A description of scores, from one or from its word and those options that are not None."""
    found: Score = from_word("score", score, {"distance": Distance, "uniform": Uniform}, options)
    return found


def self_distance_as_mean(graph: Graph, distance: Tensor, weight: Tensor | None = None) -> Tensor:
    """(E, H) distances in which a self-loop has the mean distance over its destination's other edges (0 if none).

    With (E, 1) weights of the edges it is the weighted mean.
    """
    loop = torch.eq(graph.row, graph.col).unsqueeze(-1)
    share = torch.where(loop, 0.0, distance.new_ones(()) if weight is None else weight)
    others = torch.where(share == 0, 0.0, share * distance)
    total = others.new_zeros(graph.num_dst, others.shape[1]).index_add(0, graph.row, others)
    count = total.new_zeros(graph.num_dst, 1).index_add(0, graph.row, share)
    mean = total / torch.where(count == 0, 1.0, count)
    return torch.where(loop, mean.index_select(0, graph.row), distance)


def mean_radius(u: Tensor) -> Tensor:
    """(heads,) mean of |u| over the nodes of (nodes, heads, d). A row that is NaN does not count."""
    opaque = torch._C._are_functorch_transforms_active() or values_unknown(u)
    if u.shape[0] and u.device.type == "cpu" and not opaque:
        mean: Tensor = _MeanRadius.apply(u)
        if not math.isnan(float(mean.detach().sum())):
            return mean
    radius = torch.linalg.vector_norm(u, dim=-1)
    known = radius.isnan().logical_not()
    return torch.where(known, radius, 0.0).sum(0) / known.sum(0).clamp(min=1)


class _MeanRadius(torch.autograd.Function):
    """The mean of |u|, whose gradient u/(n|u|) takes half of the operator calls that autograd would make."""

    @staticmethod
    def forward(ctx: Any, u: Tensor) -> Tensor:
        radius = torch.linalg.vector_norm(u, dim=-1, keepdim=True)
        ctx.save_for_backward(u, radius)
        return radius.mean((0, 2))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        u, radius = ctx.saved_tensors
        if torch.is_grad_enabled():  # this derivative will be differentiated, too
            radius = torch.linalg.vector_norm(u, dim=-1, keepdim=True)
        share = (grads[0] / u.shape[0]).view(1, -1, 1) / radius.clamp(min=torch.finfo(u.dtype).tiny)
        return u * share
