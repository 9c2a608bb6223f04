"""Sums over neighbours by the kernel are the reference's, in value and derivatives of any order."""

from __future__ import annotations

import pytest
import torch
from fused_cases import SHAPES, error, make_graph

import hgeo
from hgeo.graph import Graph, backends, weighted_sum
from hgeo.kernels.attention import _ops

pytestmark = pytest.mark.skipif(backends()["fused"] is not None, reason=str(backends()["fused"]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("dim", [1, 7, 16, 18, 65])
@pytest.mark.parametrize("loops", [True, False], ids=["loops", "no loops"])
@pytest.mark.parametrize("shape", SHAPES)
def test_sums_and_derivatives_match_the_reference(shape: str, loops: bool, dim: int, dtype: torch.dtype) -> None:
    graph = make_graph(shape, loops=loops)
    values = torch.randn(graph.num_src, 1, dim, dtype=dtype, requires_grad=True)
    found = []
    for backend in ("fused", "reference"):
        sums = weighted_sum(graph, None, values, backend=backend)
        (slope,) = torch.autograd.grad(sums.pow(3).sum(), values, create_graph=True)
        (bend,) = torch.autograd.grad(slope.sum(), values)
        found.append((sums.detach(), slope.detach(), bend))
    for result, right in zip(*found, strict=True):
        assert error(result.double(), right.double()) < (1e-5 if dtype == torch.float32 else 1e-13)


def test_the_kernel_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, values = make_graph("directed"), torch.randn(24, 1, 4)
    right = weighted_sum(graph, None, values, backend="torch")
    calls = []
    run = _ops._NeighbourSum.apply
    monkeypatch.setattr(_ops._NeighbourSum, "apply", lambda *args: (calls.append(args), run(*args))[1])
    torch.testing.assert_close(weighted_sum(graph, None, values, backend="fused"), right)
    assert calls


def test_a_graph_without_edges_gives_zeros() -> None:
    nothing = torch.empty(0, dtype=torch.long)
    assert not weighted_sum(Graph(nothing, nothing, num_src=3), None, torch.ones(3, 1, 4), backend="fused").any()


def test_threads_do_not_change_the_sums() -> None:
    graph, values = make_graph("directed", nodes=600, edges=12000), torch.randn(600, 1, 32)
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found.append(weighted_sum(graph, None, values, backend="fused"))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*found)


@pytest.mark.parametrize("aggregate", ["tangent", "midpoint"])
def test_a_jacobian_through_a_convolution_is_that_of_single_gradients(aggregate: str) -> None:
    graph = make_graph("directed", nodes=8, edges=20)
    conv = hgeo.nn.GCNConv(3, 2, hgeo.PoincareBall(1.0), aggregate=aggregate, activation=None, backend="fused").double()
    x = torch.randn(8, 3, dtype=torch.float64)
    jacobian = torch.func.jacrev(lambda x: conv(graph, x))(x)
    leaf = x.clone().requires_grad_()
    rows = [torch.autograd.grad(value, leaf, retain_graph=True)[0] for value in conv(graph, leaf).flatten()]
    torch.testing.assert_close(jacobian.reshape(-1, 8, 3), torch.stack(rows))
