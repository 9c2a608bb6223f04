"""What the operations of the graph room ask of their arguments before a kernel sees them, and what they refuse."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor

from hgeo.graph._graph import Graph

__all__ = [
    "Description",
    "check_device",
    "check_edges",
    "check_graph",
    "check_rows",
    "from_word",
    "one_of",
    "per_head",
]


class Description:
    """What a step of an attention does: a frozen dataclass that shows only what differs from its defaults."""

    def check(self, manifold: Any, dim: int) -> None:
        """Refuse what a manifold cannot do in this dimension, when a layer is made."""

    def __repr__(self) -> str:
        shown = []
        for field in fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if value != field.default:
                shown.append(f"{field.name}={getattr(value, '__name__', None) or repr(value)}")
        return f"{type(self).__name__}({', '.join(shown)})"


def one_of(name: str, value: Any, choices: tuple[Any, ...]) -> None:
    """Refuse what is not one of ``choices``."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")


def from_word(name: str, given: Any, words: Mapping[str, type], options: Mapping[str, Any]) -> Any:
    """A description, from itself or from its word and those options that it knows; None is an option not given."""
    wanted = {option: value for option, value in options.items() if value is not None}
    if callable(given) and not isinstance(given, type):  # a description, or a user's own function
        if wanted:
            option = next(iter(wanted))
            raise ValueError(f"{option} belongs into {name}={type(given).__name__}({option}=…), got it beside {given}")
        return given
    if not isinstance(given, str) or given not in words:
        classes = " or ".join(cls.__name__ for cls in words.values())
        raise ValueError(f"{name} must be one of {', '.join(map(repr, words))}, or {classes}, got {given!r}")
    known = {field.name for field in fields(words[given])}
    return words[given](**{option: value for option, value in wanted.items() if option in known})


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
