"""A network whose outputs are points, and what reads pairs of them."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from hgeo import manifolds
from hgeo.models import Round

__all__ = ["PointsAndPairs", "decoder_of"]


class PointsAndPairs(nn.Module):
    """A network with a decoder of pairs: its output are points of the network's hidden space, a row a node.

    What the network gives are coordinates in the tangent space at the origin, unless it has a method ``points``.
    """

    def __init__(self, network: nn.Module, decoder: nn.Module) -> None:
        super().__init__()
        self.network, self.decoder = network, decoder

    @property
    def hidden_manifold(self) -> Any:
        """Where the points are."""
        return self.network.hidden_manifold

    @property
    def rounds(self) -> tuple[Round, ...] | None:
        """Those of the network, the last one with points as its output."""
        own = None if hasattr(self.network, "points") else getattr(self.network, "rounds", None)
        if not own:
            return own

        def to_points(*rows: Any, **more: Any) -> Tensor:
            return manifolds.exp0(self.hidden_manifold, own[-1].run(*rows, **more))

        return (*own[:-1], own[-1]._replace(run=to_points))

    def forward(self, graph: Any, x: Tensor, **more: Any) -> Tensor:
        """Points, a row a node."""
        own = getattr(self.network, "points", None)
        if own is not None:
            points: Tensor = own(graph, x, **more)
            return points
        return manifolds.exp0(self.hidden_manifold, self.network(graph, x, **more))

    def embed(self, graph: Any, x: Tensor) -> Tensor:
        """The same points: for pictures."""
        return self.forward(graph, x)


def decoder_of(model: nn.Module) -> Any:
    """The decoder of a model that a task has attached itself to."""
    if not isinstance(model, PointsAndPairs):
        raise TypeError(f"expected what task.attach(network) gives, got a {type(model).__name__}")
    return model.decoder
