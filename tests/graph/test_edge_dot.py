"""Inner products of the rows at the ends of edges: the same by every backend, with the same gradients."""

from __future__ import annotations

import pytest
import torch
from fused_cases import SHAPES, make_graph
from torch import Tensor

import hgeo
from hgeo.graph import Graph, backends, edge_dot


def by_hand(graph: Graph, left: Tensor, right: Tensor) -> Tensor:
    return (left[graph.row] * right[graph.col]).sum(-1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("backend", [name for name, reason in backends().items() if reason is None])
@pytest.mark.parametrize("shape", SHAPES)
def test_products_and_gradients_are_those_of_the_formula(shape: str, backend: str, dtype: torch.dtype) -> None:
    graph = make_graph(shape, loops=False)
    left = torch.randn(graph.num_dst, 5, dtype=dtype, requires_grad=True)
    right = torch.randn(graph.num_src, 5, dtype=dtype, requires_grad=True)
    found, expected = edge_dot(graph, left, right, backend=backend), by_hand(graph, left, right)
    torch.testing.assert_close(found, expected)
    slopes = [torch.autograd.grad(products.square().sum(), (left, right)) for products in (found, expected)]
    for mine, theirs in zip(*slopes, strict=True):
        torch.testing.assert_close(mine, theirs)


def test_second_derivatives_are_right_or_refused() -> None:
    graph = make_graph("directed")
    left = torch.randn(graph.num_dst, 3, dtype=torch.float64, requires_grad=True)
    right = torch.randn(graph.num_src, 3, dtype=torch.float64, requires_grad=True)
    torch.autograd.gradgradcheck(lambda *rows: edge_dot(graph, *rows, backend="reference"), (left, right))
    with pytest.raises(RuntimeError, match='choose backend="reference"'):
        torch.autograd.grad(edge_dot(graph, left, right, backend="torch").square().sum(), left, create_graph=True)


def test_it_compiles_in_one_graph() -> None:
    edges, rows = torch.tensor([[0, 1, 2], [1, 2, 0]]), torch.randn(3, 4)

    def products(edges: Tensor, rows: Tensor) -> Tensor:
        return edge_dot(hgeo.graph.as_graph(edges, 3), rows, rows)

    compiled = torch.compile(products, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(edges, rows), products(edges, rows))


def test_rows_that_do_not_fit_are_refused() -> None:
    graph = make_graph("directed")
    rows = torch.randn(graph.num_src, 3)
    with pytest.raises(ValueError, match=r"left must have shape \(\d+, heads, dim\)"):
        edge_dot(graph, rows[1:], rows)
    with pytest.raises(ValueError, match=r"rows of one size and dtype, got .*, 2\) and .*, 3\)"):
        edge_dot(graph, rows[: graph.num_dst, :2], rows)
