"""The last step of attention: merge heads, add a bias, apply an activation, and give points or tangent rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch.nn.functional as F
from torch import Tensor

from hgeo import manifolds
from hgeo.graph._checks import Description, one_of

__all__ = ["Finish"]


@dataclass(frozen=True, repr=False)
class Finish(Description):
    r"""From the tangent rows of the heads to the output.

    Args:
        merge: "concat": the heads side by side; "mean": their mean.
        bias: "none"; "tangent": added to the tangent rows; "point": a point of the manifold, added by Möbius addition
            (elsewhere: exponential map of its transported logarithm).
        activation: a function of tensors, or None.
        activation_space: "ball": it acts on the coordinates of the point, then projects; "tangent": on tangent rows.
        output: "points" of the manifold; "tangent": the log0 of these points; "logits": tangent rows to be read as
            numbers. Those are not brought to where points lie: on a sphere log0 turns a row back that is longer than
            half of a great circle, and points of a dtype end at its radius limit.
    """

    merge: Literal["concat", "mean"] = "concat"
    bias: Literal["none", "tangent", "point"] = "none"
    activation: Callable[[Tensor], Tensor] | None = None
    activation_space: Literal["ball", "tangent"] = "tangent"
    output: Literal["points", "tangent", "logits"] = "points"

    def __post_init__(self) -> None:
        one_of("merge", self.merge, ("concat", "mean"))
        one_of("bias", self.bias, ("none", "tangent", "point"))
        one_of("activation_space", self.activation_space, ("ball", "tangent"))
        one_of("output", self.output, ("points", "tangent", "logits"))
        if self.activation is not None and not callable(self.activation):
            raise TypeError(f"activation must be a function of tensors or None, got {self.activation!r}")

    def check(self, manifold: Any, dim: int) -> None:
        manifolds.ambient_dim(manifold, dim)  # says so if there is no such dimension
        if self.activation is not None and self.activation_space == "ball" and not manifolds.has_mobius(manifold):
            raise ValueError(
                f"activation_space='ball' needs ball coordinates, which {manifolds.describe(manifold)} does not have; "
                "use 'tangent'"
            )

    @property
    def ends_in_a_point(self) -> bool:
        """Whether the output is exp0 of the heads side by side, or ELU of that on the ball, and log0 if it must."""
        if self.merge == "mean" or self.bias != "none":
            return False
        if self.activation is None:
            return self.output == "points"
        return self.activation is F.elu and self.activation_space == "ball"

    def __call__(self, manifold: Any, heads: Tensor, bias: Tensor | None) -> Tensor:
        """(num_dst, numbers) from the (num_dst, heads, d) tangent rows of the aggregated points."""
        v = heads.mean(1) if self.merge == "mean" else heads.flatten(1)
        on_points = self.activation is not None and self.activation_space == "ball"
        if bias is not None and self.bias == "tangent":
            v = v + bias
        elif bias is not None:
            point = manifolds.project(manifold, bias)  # its curvature may have moved since the last step
            v = manifolds.translate_rows(manifold, v, point)
        if on_points:
            return self.of_points(manifold, self._activated(manifold, manifolds.exp0(manifold, v)))
        v = v if self.activation is None else self.activation(v)
        if self.output == "points":
            return manifolds.exp0(manifold, v)
        return manifolds.fold(manifold, v) if self.output == "tangent" else v

    def of_points(self, manifold: Any, points: Tensor) -> Tensor:
        """The output from what it is as points."""
        return points if self.output == "points" else manifolds.log0(manifold, points)

    def _activated(self, manifold: Any, points: Tensor) -> Tensor:
        return points if self.activation is None else manifolds.project(manifold, self.activation(points))
