"""What graph layers share: reading their two arguments, dropout, sparse features."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from hgeo.graph import Graph, as_graph
from hgeo.nn._sparse import sparse_linear, with_values

__all__ = [
    "check_features",
    "dropout",
    "dropout_factors",
    "edge_numbers",
    "linear",
    "read_graph",
]


def read_graph(graph: Any, x: Tensor | tuple[Tensor, Tensor]) -> Graph:
    """``graph`` in whatever format, checked against the rows and the device of ``x``.

    Of a pair, features of sources and of destinations, it is the graph from these to those, whose nodes are the
    destinations and behind them the sources.
    """
    if isinstance(x, tuple):
        return _read_pair(graph, x)
    if not isinstance(x, Tensor):
        hint = "; put a layer an edge type into dgl.nn.HeteroGraphConv (in PyG: HeteroConv)"
        hint = hint if isinstance(x, dict) else "; call layer(graph, x)"
        raise TypeError(f"x must be a tensor of node features, got {type(x).__name__}{hint}")
    _check_rows(graph, x)
    # an edge_index does not know how many there are
    dense = isinstance(graph, Tensor) and graph.layout == torch.strided
    try:
        read = as_graph(graph, num_nodes=x.shape[0] if dense else None)
    except ValueError as error:
        if not dense:
            raise
        raise ValueError(f"{error} (x, of shape {tuple(x.shape)}, has a row a node)") from error
    if x.shape[0] != read.num_src:
        raise ValueError(
            f"x must have a row for each of the {read.num_src} source nodes of the graph, got shape {tuple(x.shape)}"
        )
    _check_device(x, read)
    return read


def _check_rows(graph: Any, x: Tensor) -> None:
    if x.dim() != 2:
        raise ValueError(f"x must have a row a node, shape (nodes, numbers); got shape {tuple(x.shape)}")
    if isinstance(graph, Tensor) and x.device != graph.device:
        raise ValueError(f"x is on {x.device}, the graph on {graph.device}; move both to one device")


def _read_pair(graph: Any, x: Any) -> Graph:
    if len(x) != 2 or not all(isinstance(rows, Tensor) for rows in x):
        kinds = ", ".join(type(rows).__name__ for rows in x)
        raise TypeError(f"a pair is (features of sources, features of destinations), two tensors; got ({kinds})")
    for rows in x:
        _check_rows(graph, rows)
    if x[0].device != x[1].device or x[0].dtype != x[1].dtype:
        kinds = " and ".join(f"{rows.dtype} on {rows.device}" for rows in x)
        raise ValueError(f"the features of a pair must be of one dtype on one device, got {kinds}")
    try:
        read = as_graph(graph, num_nodes=(x[0].shape[0], x[1].shape[0]))
    except ValueError as error:
        shapes = " and ".join(str(tuple(rows.shape)) for rows in x)
        raise ValueError(f"{error} (the pair has rows of shapes {shapes}, sources first)") from error
    _check_device(x[0], read)
    return read


def _check_device(x: Tensor, graph: Graph) -> None:
    if x.device != graph.device:
        raise ValueError(
            f"x is on {x.device}, the graph on {graph.device}; move one of them, for example graph.to(...)"
        )


def check_features(layer: torch.nn.Module, x: Tensor, numbers: int, weight: Tensor) -> None:
    """Refuse features whose kind, size, dtype or device does not fit the layer."""
    name = type(layer).__name__
    if not x.is_floating_point():
        raise TypeError(f"{name}: x is a {x.dtype} tensor; features are floating-point: convert it with x.float()")
    if x.shape[1] != numbers:
        raise ValueError(f"{name}: x must have {numbers} numbers a node, got shape {tuple(x.shape)}")
    if x.device != weight.device:
        raise ValueError(f"{name}: x is on {x.device}, the layer on {weight.device}; move both to one device")
    # autocast converts what has at most the precision of a float32
    convertible = torch.is_autocast_enabled(x.device.type) and torch.float64 not in (x.dtype, weight.dtype)
    if x.dtype != weight.dtype and not convertible:
        raise TypeError(f"{name}: x is {x.dtype}, the layer {weight.dtype}; convert one, for example layer.to(x.dtype)")


def dropout(x: Tensor, share: float) -> Tensor:
    """Dropout that keeps sparse features sparse."""
    if x.layout == torch.sparse_coo:
        kept = _drop(x._values(), share)
        return torch.sparse_coo_tensor(
            x._indices(), kept, x.shape, is_coalesced=x.is_coalesced(), check_invariants=False
        )
    if x.layout == torch.sparse_csr:
        return with_values(x, _drop(x.values(), share))
    return _drop(x, share)


def _drop(x: Tensor, share: float) -> Tensor:
    """Dropout of numbers; on a CPU a uniform number is drawn four times as fast as torch draws a Bernoulli one."""
    if not _draws_fast(x):
        return F.dropout(x, share)
    return x * _kept(torch.rand_like(x), share)


def _draws_fast(x: Tensor) -> bool:
    return x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64)


def _kept(uniform: Tensor, share: float) -> Tensor:
    """1/(1-share) where a uniform number is at least ``share``, else 0; overwrites it."""
    return uniform.add_(1 - share).floor_().mul_(1 / (1 - share))


def dropout_factors(like: Tensor, shape: tuple[int, ...], share: float) -> Tensor:
    """Dropout of ones."""
    if not _draws_fast(like):
        return F.dropout(like.new_ones(shape), share)
    return _kept(torch.rand(shape, dtype=like.dtype, device=like.device), share)


def edge_numbers(name: str, values: Any, given: Graph, columns: int, *, one_will_do: bool = True) -> Tensor | None:
    """The caller's numbers of edges as (E, columns), or (E, 1) if one will do, in the caller's order."""
    if values is None:
        return None
    if not isinstance(values, Tensor):
        raise TypeError(f"{name} must be a tensor with a number an edge, got {type(values).__name__}")
    if values.is_complex():
        raise TypeError(f"{name} must be real numbers, got {values.dtype}")
    edges, column = given.num_edges_given, values.unsqueeze(-1) if values.dim() == 1 else values
    if tuple(column.shape) not in ((edges, 1 if one_will_do else columns), (edges, columns)):
        forms = [f"({edges},)"] * (one_will_do or columns == 1) + [f"({edges}, {columns})"]
        raise ValueError(
            f"{name} must have shape {' or '.join(forms)}, a row an edge in your edge order; got {tuple(values.shape)}"
        )
    if column.device != given.device:
        raise ValueError(f"{name} is on {column.device}, the graph on {given.device}; move both to one device")
    return column


def linear(x: Tensor, weight: Tensor) -> Tensor:
    """x Wᵀ for dense or sparse x, which is never made dense."""
    return F.linear(x, weight) if x.layout == torch.strided else sparse_linear(x, weight)
