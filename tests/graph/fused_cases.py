"""Graphs, arguments and comparisons that the tests of the fused kernels share."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

import hgeo.math as hm
from hgeo.graph import Graph, distance_attention, self_distance_as_mean
from hgeo.kernels import plain_torch

SHAPES = ("symmetric", "directed", "block")


def make_graph(shape: str, *, nodes: int = 24, edges: int = 90, loops: bool = True, seed: int = 0) -> Graph:
    """A random graph with parallel edges, isolated nodes and one hub."""
    random = torch.Generator().manual_seed(seed)
    targets = nodes - 3 if shape != "block" else nodes // 2
    src = torch.randint(nodes - 3, (edges,), generator=random)
    dst = torch.randint(targets, (edges,), generator=random)
    src[: edges // 6], dst[edges // 6 : edges // 3] = 1, 1
    if shape == "symmetric":
        src, dst = torch.cat([src, dst]), torch.cat([dst, src])
    graph = Graph(src, dst, num_src=nodes, num_dst=nodes // 2 if shape == "block" else nodes)
    graph = graph.with_self_loops() if loops else graph
    assert graph.is_symmetric == (shape == "symmetric")
    return graph


def make_inputs(
    graph: Graph, k: list[float], *, dim: int = 5, spread: float = 1.0, options: str = "", seed: int = 1
) -> dict[str, Tensor]:
    """float64 arguments, every number of which float32 has as well; ``options`` names the optional ones."""
    random = torch.Generator().manual_seed(seed)
    heads = len(k)
    inputs = {
        "u": spread / math.sqrt(dim) * torch.randn(graph.num_src, heads, dim, generator=random),
        "k": torch.tensor(k),
        "beta": 0.5 + torch.rand(heads, generator=random),
        "score_scale": 0.5 + torch.rand(heads, generator=random),
    }
    if "bias" in options:
        columns = 1 if "bias1" in options else heads
        inputs["edge_bias"] = torch.randn(graph.num_edges, columns, generator=random)
    if "factor" in options:
        inputs["edge_factor"] = 2.0 * (torch.rand(graph.num_edges, heads, generator=random) > 0.5)
    if "value" in options:
        inputs["value_scale"] = torch.rand(graph.num_src, generator=random)
    return {name: value.double() for name, value in inputs.items()}


def attention_by(backend: str, graph: Graph, u: Tensor, **options: Any) -> tuple[Tensor, Tensor | None]:
    """``distance_attention`` by a backend, or by "plain" formulas: one after the other in the dtype of u."""
    if backend != "plain":
        return distance_attention(graph, u, **options, backend=backend)
    numbers = {"score_scale": 1.0, "edge_bias": 0.0, "edge_factor": 1.0, "value_scale": torch.ones(())} | options
    k, scale = (torch.as_tensor(numbers[name], dtype=u.dtype).view(-1, 1) for name in ("k", "score_scale"))
    with plain_torch():  # the loops compute inner products in float64
        p = hm.project(hm.expmap0(scale * u, k=k), k=k)
        distance = hm.dist(p[graph.row], p[graph.col], k=k)
    if numbers.get("self_score") == "mean":
        distance = self_distance_as_mean(graph, distance)
    scores = numbers["edge_bias"] - torch.as_tensor(numbers["beta"], dtype=u.dtype) * distance
    top = torch.full((graph.num_dst, u.shape[1]), -torch.inf, dtype=u.dtype)
    mass = (scores - top.index_reduce(0, graph.row, scores.detach(), "amax")[graph.row]).exp()
    weights = mass / torch.zeros_like(top).index_add(0, graph.row, mass)[graph.row]
    values = u * numbers["value_scale"].to(u.dtype).view(-1, 1, 1)
    messages = (weights * numbers["edge_factor"]).unsqueeze(-1) * values[graph.col]
    return u.new_zeros(graph.num_dst, *u.shape[1:]).index_add(0, graph.row, messages), weights


LEARNED = ("u", "k", "beta", "score_scale", "edge_bias")


def evaluate(
    graph: Graph, inputs: dict[str, Tensor], backend: str, dtype: torch.dtype = torch.float64, self_score: Any = "zero"
) -> dict[str, Tensor]:
    """Output and gradients, in float64, of the operation computed in ``dtype``."""
    leaves = {n: t.to(dtype).detach().clone().requires_grad_(n in LEARNED) for n, t in inputs.items()}
    u = leaves.pop("u")
    out, _ = attention_by(backend, graph, u, **leaves, self_score=self_score)
    direction = torch.randn(out.shape, generator=torch.Generator().manual_seed(9)).to(out)
    out.backward(direction)
    results = {"out": out.detach(), "u": u.grad}
    results |= {name: leaf.grad for name, leaf in leaves.items() if name in LEARNED}
    return {name: value.double() for name, value in results.items()}


def error(result: Tensor, right: Tensor) -> float:
    """Relative error; absolute below 0.05 (on a line, d = 1, the derivative by the curvature is exactly 0)."""
    return float((result - right).norm() / right.norm().clamp(min=0.05))


def assert_same(result: dict[str, Tensor], right: dict[str, Tensor], tolerance: float) -> None:
    for name, value in right.items():
        assert error(result[name], value) < tolerance, name
