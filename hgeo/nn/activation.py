"""A nonlinearity of points."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from torch import Tensor, nn

from hgeo import manifolds
from hgeo.manifolds import describe
from hgeo.nn._layer import Layer, choice

__all__ = ["Activation"]


class Activation(Layer):
    r"""A function of coordinates, applied to points.

    ``space="tangent"``, on every manifold: :math:`y = \exp_0(\sigma(s \log_0 x) / s)` with s = ``scale``.
    ``space="point"``, on the stereographic family and Euclidean space: σ acts on the coordinates of the point, which
    are then projected.

    Args:
        function: σ, of tensors, keeping the last dimension; a module becomes a submodule.
        manifold: where the points lie.
        space: "tangent" or "point".
        scale: the unit that σ sees. Coordinates of one point are twice as long on Lorentz as on the ball (see
            ``hgeo.frame_scale``): scale=0.5 there makes the same layer. It does not matter for ReLU.

    Shapes:
        - x, output: (..., ambient dimension)

    As c → 0 it is σ(x).

    >>> import torch, hgeo
    >>> ball = hgeo.PoincareBall(c=1.0)
    >>> hgeo.nn.Activation(torch.relu, ball)(hgeo.exp0(ball, torch.tensor([1.0, -1.0])))
    tensor([0.7616, 0.0000])
    """

    def __init__(
        self,
        function: Callable[[Tensor], Tensor],
        manifold: Any,
        *,
        space: Literal["tangent", "point"] = "tangent",
        scale: float = 1.0,
    ) -> None:
        super().__init__(manifold, manifold)
        choice("Activation", "space", space, ("tangent", "point"))
        if not callable(function):
            raise TypeError(f"Activation: expected a function of tensors first, got {type(function).__name__}")
        if not scale > 0:
            raise ValueError(f"Activation: scale must be positive, got {scale!r}")
        if space == "point" and not manifolds.geometry(manifold).free_coordinates(manifold):
            raise ValueError(
                f"Activation: space='point' needs coordinates that may move freely, which {describe(manifold)} does "
                "not have; use space='tangent'"
            )
        self.function, self.space, self.scale = function, space, scale

    def forward(self, x: Tensor) -> Tensor:
        """Points of the same manifold."""
        self.check(x)
        if self.space == "point":
            return manifolds.project(self.manifold, self.function(x * self.scale) / self.scale)
        v = manifolds.log0(self.manifold, x)
        return manifolds.exp0(self.manifold, self.function(v * self.scale) / self.scale)

    def extra_repr(self) -> str:
        name = (
            ""
            if isinstance(self.function, nn.Module)
            else getattr(self.function, "__name__", repr(self.function)) + ", "
        )
        scale = "" if self.scale == 1 else f", scale={self.scale:g}"
        return f"{name}{describe(self.manifold)}" + ("" if self.space == "tangent" else ", space='point'") + scale
