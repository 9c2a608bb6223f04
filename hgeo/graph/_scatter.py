"""torch-scatter's segment kernels for the reductions. Not traceable by torch.compile."""

from __future__ import annotations

import importlib
from typing import Any

import torch
from torch import Tensor

from hgeo.graph import _reference
from hgeo.graph._graph import Graph

__all__ = ["edge_distance", "edge_softmax", "weighted_sum", "why_not"]

edge_distance = _reference.edge_distance


def why_not(device_type: str) -> str | None:
    try:
        scatter = importlib.import_module("torch_scatter")
    except Exception as error:  # an extension built for another torch raises whatever the loader raises
        return f"torch-scatter cannot be imported ({type(error).__name__}: {error})"
    if device_type == "cpu":
        return None
    if device_type == "cuda" and getattr(scatter, "__version__", None) and torch.cuda.is_available():
        return None
    return f"torch-scatter has no kernels for {device_type} here"


def _scatter() -> Any:
    return importlib.import_module("torch_scatter")


def edge_softmax(graph: Graph, scores: Tensor) -> Tensor:
    if not graph.num_edges:
        return scores
    top, _ = _scatter().segment_max_csr(scores.detach(), graph.rowptr)
    top = torch.where(torch.isfinite(top), top, 0.0)
    mass = torch.exp(scores - _scatter().gather_csr(top, graph.rowptr))
    total = _scatter().segment_sum_csr(mass, graph.rowptr)
    return mass / _scatter().gather_csr(torch.where(total == 0, 1.0, total), graph.rowptr)


def weighted_sum(graph: Graph, weights: Tensor | None, values: Tensor) -> Tensor:
    messages = values.index_select(0, graph.col)
    return _scatter().segment_sum_csr(messages if weights is None else weights.unsqueeze(-1) * messages, graph.rowptr)
