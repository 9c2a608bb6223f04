"""What graph layers share: reading their two arguments, sparse features, a few questions to a manifold."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from hgeo import manifolds
from hgeo._geoopt import geoopt
from hgeo.graph import Graph, as_graph
from hgeo.nn._geometry import translate
from hgeo.nn._sparse import sparse_linear, with_values

__all__ = [
    "check_features",
    "constant_curvature",
    "dropout",
    "dropout_factors",
    "is_stereographic",
    "linear",
    "log0_undoes_exp0",
    "read_graph",
    "translate",
]


def read_graph(graph: Any, x: Tensor) -> Graph:
    """``graph`` in whatever format, checked against the rows and the device of ``x``."""
    if not isinstance(x, Tensor):
        # DGL's own layers take a pair on a block; here the destinations are its first sources
        hint = "pass the features of all sources" if isinstance(x, list | tuple) else "call layer(graph, x)"
        raise TypeError(f"x must be a tensor of node features, got {type(x).__name__}; {hint}")
    if x.dim() != 2:
        raise ValueError(f"x must have a row a node, shape (nodes, numbers); got shape {tuple(x.shape)}")
    dense = (
        isinstance(graph, Tensor) and graph.layout == torch.strided
    )  # an edge_index does not know how many there are
    if isinstance(graph, Tensor) and x.device != graph.device:
        raise ValueError(f"x is on {x.device}, the graph on {graph.device}; move both to one device")
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
    if x.device != read.device:
        raise ValueError(f"x is on {x.device}, the graph on {read.device}; move one of them, for example graph.to(...)")
    return read


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


def linear(x: Tensor, weight: Tensor) -> Tensor:
    """x Wᵀ for dense or sparse x, which is never made dense."""
    return F.linear(x, weight) if x.layout == torch.strided else sparse_linear(x, weight)


def log0_undoes_exp0(manifold: Any) -> bool:
    """Whether log0(exp0(v)) = v for every v: geodesics never meet again where no curvature can be positive."""
    return isinstance(manifold, geoopt.PoincareBall | geoopt.Lorentz | geoopt.Euclidean)


def is_stereographic(manifold: Any) -> bool:
    """Whether points have ball coordinates and Möbius operations: the stereographic family, and products of it."""
    return manifolds.has_mobius(manifold)


def constant_curvature(manifold: Any) -> Tensor | None:
    """The sectional curvature, a scalar tensor, of the stereographic family, Euclidean space and the hyperboloid.

    With s = frame_scale/2, such a space is isometric to the stereographic model of that curvature by
    exp0(v) ↦ exp0(s v). None for any other manifold.
    """
    k = manifolds.stereographic_curvature(manifold)
    if k is not None:
        return k
    if isinstance(manifold, geoopt.Lorentz):
        return -torch.as_tensor(manifolds.lorentz_curvature(manifold))
    if isinstance(manifold, geoopt.Euclidean):
        return torch.zeros(())
    return None
