"""What the operations of the graph room ask of their arguments before a kernel sees them, and what they refuse."""

from __future__ import annotations

from typing import Any, NoReturn

import torch
from torch import Tensor

from hgeo.graph._graph import Graph

__all__ = ["check_device", "check_edges", "check_graph", "check_rows", "no_second_derivative", "per_head"]


def per_head(name: str, value: float | Tensor, like: Tensor) -> Tensor:
    """A number, () or (H,) as a (H,) tensor in the dtype of the points."""
    heads = like.shape[1]
    if isinstance(value, Tensor):
        if value.shape == (heads,) and value.dtype == like.dtype and value.device == like.device:
            return value
        if value.dim() > 1 or (value.dim() == 1 and value.shape[0] not in (1, heads)):
            raise ValueError(f"{name} must be a number or have shape () or ({heads},), got {tuple(value.shape)}")
        if value.device != like.device and value.dim() > 0:
            raise ValueError(f"{name} is on {value.device}, the points on {like.device}; move both to one device")
        return value.to(device=like.device, dtype=like.dtype).expand(heads)
    return torch.full((heads,), float(value), dtype=like.dtype, device=like.device)


def check_graph(graph: Any) -> None:
    if not isinstance(graph, Graph):
        raise TypeError(f"graph must be an hgeo.Graph, got {type(graph).__name__}; hgeo.graph.as_graph makes one of it")


def check_device(graph: Graph, name: str, value: Tensor) -> None:
    if value.device != graph.device:
        raise ValueError(
            f"{name} is on {value.device}, the graph on {graph.device}; move one of them, "
            f"for example with graph.to({value.device.type!r})"
        )


def check_rows(graph: Graph, name: str, value: Tensor, rows: int) -> None:
    if not value.is_floating_point():
        raise TypeError(f"{name} must be floating-point, got {value.dtype}")
    if value.dim() != 3 or value.shape[0] != rows:
        raise ValueError(f"{name} must have shape ({rows}, heads, dim), a row a node; got {tuple(value.shape)}")
    check_device(graph, name, value)


def check_edges(graph: Graph, name: str, value: Tensor, heads: int) -> None:
    if value.dim() != 2 or value.shape[0] != graph.num_edges or value.shape[1] not in (1, heads):
        raise ValueError(
            f"{name} must have shape ({graph.num_edges}, {heads}) or ({graph.num_edges}, 1), a row an edge; "
            f"got {tuple(value.shape)}"
        )
    check_device(graph, name, value)


def no_second_derivative(ctx: Any, *grads: Tensor | None) -> NoReturn:
    """The autograd formula of a kernel that computes a first derivative itself."""
    raise RuntimeError(
        "the fast backends have first derivatives only; for second derivatives (create_graph=True) "
        'choose backend="reference"'
    )
