"""One attention to compute, lowered to numbers: what every backend is given."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from hgeo import manifolds
from hgeo.graph._aggregate import Aggregate, TangentSum
from hgeo.graph._finish import Finish
from hgeo.graph._graph import Graph
from hgeo.graph._score import Distance, Score

if TYPE_CHECKING:
    from hgeo.graph._backends import Backend

__all__ = ["OneCall", "Piece", "Work"]


class Piece(NamedTuple):
    """A constant-curvature part of the space: ``half`` · u[``coordinates``] are rows of the stereographic model."""

    coordinates: slice
    k: Tensor  # (heads,)
    half: float


class Work(NamedTuple):
    """Scores, softmax, aggregation, and what may follow in the same call.

    ``u`` are tangent rows (num_src, heads, d). ``parts`` are None for a manifold that is no product of spaces of
    constant curvature. ``points_dtype`` is the dtype whose points limit how far out rows may lie.
    """

    graph: Graph
    u: Tensor
    manifold: Any
    parts: tuple[Piece, ...] | None
    score: Score
    aggregate: Aggregate
    operations: Backend
    points_dtype: torch.dtype
    beta: Tensor  # (heads,)
    score_scale: Tensor | None = None  # (heads,), or (heads, d) on a space of several parts
    edge_bias: Tensor | None = None  # (E, 1) or (E, heads)
    edge_factors: Callable[[], Tensor | None] | None = None  # makes (E, 1) or (E, heads) numbers, other ones each time
    factors_learn: bool = False  # whether gradients are wanted to these
    edge_weight: Tensor | None = None  # (E, 1), not negative; its logarithm is part of edge_bias
    edge_mask: Tensor | None = None  # (E, 1) or (E, heads) factors of the messages
    own: Tensor | None = None  # (num_dst, heads or 1, d) rows that are added to the aggregated ones
    source_scale: Tensor | None = None  # (num_src,)
    target_scale: Tensor | None = None  # (num_dst, 1, 1)
    return_weights: bool = False
    finish: Finish | None = None  # None: the sums are the result

    def factors(self) -> Tensor | None:
        """(E, 1) or (E, heads) factors of the weights, other ones each time; None: 1."""
        factors = None if self.edge_factors is None else self.edge_factors()
        factors = None if factors is None else factors.to(self.u.dtype)
        if self.edge_mask is None:
            return factors
        return self.edge_mask if factors is None else self.edge_mask * factors

    def dropped(self, weights: Tensor) -> Tensor:
        """The weights after attention dropout."""
        factors = self.factors()
        return weights if factors is None else weights * factors

    @property
    def scaled_rows(self) -> Tensor:
        """The rows from which distances are taken."""
        return self.u if self.score_scale is None else self.score_scale.view(self.u.shape[1], -1) * self.u

    def rows_of_parts(self, u: Tensor) -> Iterator[tuple[Piece, Tensor]]:
        """Each part with its rows (N, heads, d) of the stereographic model."""
        assert self.parts is not None
        for part in self.parts:
            start, stop, _ = part.coordinates.indices(u.shape[-1])
            rows = u if (start, stop) == (0, u.shape[-1]) else u.narrow(-1, start, stop - start)
            yield part, rows if part.half == 1 else rows * part.half

    @property
    def several_parts(self) -> bool:
        """Whether squared distances are sums."""
        return self.parts is not None and len(self.parts) > 1

    @property
    def part_dims(self) -> list[int]:
        """How many coordinates each part has."""
        assert self.parts is not None
        bounds = [part.coordinates.indices(self.u.shape[-1]) for part in self.parts]
        return [stop - start for start, stop, _ in bounds]

    @property
    def _parts_side_by_side(self) -> bool:
        """Whether the parts share out a row of ``u``, one after the other."""
        assert self.parts is not None
        bounds = [part.coordinates.indices(self.u.shape[-1])[:2] for part in self.parts]
        starts, stops = [start for start, _ in bounds], [stop for _, stop in bounds]
        return starts == [0, *stops[:-1]] and stops[-1:] == [self.u.shape[-1]]

    @property
    def part_curvatures(self) -> Tensor:
        """(heads · parts,) signed curvatures, head after head."""
        assert self.parts is not None
        if not self.several_parts:
            return self.parts[0].k.contiguous()
        return torch.stack([part.k for part in self.parts], 1).flatten()

    @property
    def part_scale(self) -> Tensor | None:
        """(heads · parts,) what ``u`` is multiplied by for the scores, head after head; None: 1."""
        assert self.parts is not None
        halves, scale = [part.half for part in self.parts], self.score_scale
        if all(half == 1 for half in halves) and (scale is None or not self.several_parts):
            return scale
        heads = self.u.shape[1]
        if scale is None:
            return self.u.new_tensor(halves).repeat(heads)
        # a score scale that differs along a row is the same all over a part
        columns = [scale if scale.dim() == 1 else scale[:, part.coordinates.start] for part in self.parts]
        return torch.stack([half * column for half, column in zip(halves, columns, strict=True)], 1).flatten()

    @property
    def training(self) -> bool:
        """Whether something that the scores or sums depend on learns."""
        learned = [self.u, self.beta, self.score_scale, self.edge_bias, *(part.k for part in self.parts or ())]
        return torch.is_grad_enabled() and any(value is not None and value.requires_grad for value in learned)

    def why_not_one_sum(self) -> str | None:
        """Why this is not the one sum of tangent rows, weighted by distance, that kernels do; None if it is."""
        if not isinstance(self.score, Distance):
            return f"the score is {self.score}"
        if not isinstance(self.aggregate, TangentSum) or self.aggregate.steps > 1:
            return f"the aggregate is {self.aggregate}"
        if self.parts is None:
            return "the manifold is no product of spaces of constant curvature"
        if not self._parts_side_by_side:
            return "the parts of the manifold do not share out its coordinates"
        if self.edge_mask is not None:
            return "a mask of the edges multiplies the messages after the softmax"
        if self.source_scale is not None and self.source_scale.requires_grad and torch.is_grad_enabled():
            return "gradients are wanted through the degrees"
        if self.edge_weight is not None and self.score.self_score == "mean":
            return "the mean distance to the neighbours is one of weighted edges"
        if self.factors_learn or (self.return_weights and self.training):
            return "gradients are wanted through the weights"
        return None

    @property
    def ends_in_a_point(self) -> bool:
        """Whether the finish is exp0, or ELU of that on the ball, in the coordinates of the stereographic model."""
        assert self.parts is not None
        plain = self.finish is not None and self.finish.ends_in_a_point and self.target_scale is None
        plain = plain and self.own is None and not self.several_parts
        return plain and self.parts[0].half == 1 and manifolds.has_mobius(self.manifold)


class OneCall(NamedTuple):
    """What computes a :class:`Work` at once: (result, weights or None)."""

    run: Callable[[Work], tuple[Tensor, Tensor | None]]
    finishes: bool  # the result is points (num_dst, heads · d), not sums (num_dst, heads, d)
