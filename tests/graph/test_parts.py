"""On products of spaces of constant curvature one call does what is composed elsewhere, in value and every gradient."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from fused_cases import SHAPES, error, make_graph
from torch import Tensor

import hgeo
from hgeo.graph import Distance, Finish, Graph, TangentSum, attend, backends, plan

pytestmark = pytest.mark.skipif(backends()["fused"] is not None, reason=str(backends()["fused"]))

SPACES = (
    "ball:3,c=learn x stereo:2,k=0.4,learn",
    "lorentz:2,c=0.5,learn x euclidean:3 x sphere:1",
    "klein:8 x sproj:8,k=0.3,learn",
    "euclidean:17 x ball:1,c=learn",
    "sphere:3",
    "klein:3",
)


def computed(
    backend: str, graph: Graph, text: str, score: Distance, dtype: torch.dtype = torch.float64, **numbers: Any
) -> dict[str, Tensor]:
    """Output and gradients by u, β, bias and curvatures, in float64."""
    space, dim = hgeo.space(text)
    space.double().to(dtype)
    random = torch.Generator().manual_seed(2)
    u = 0.6 * torch.randn(graph.num_src, 1, dim, generator=random)
    leaves = {"u": u.to(dtype), "beta": torch.tensor([0.7], dtype=dtype)}
    leaves |= {name: value.to(dtype) for name, value in numbers.items() if name != "factors"}
    leaves = {name: value.detach().requires_grad_() for name, value in leaves.items()}
    options = {name: value for name, value in leaves.items() if name != "u"}
    if "factors" in numbers:
        options["edge_factors"] = lambda: numbers["factors"].to(dtype)
    steps = score, TangentSum(degree_norm="factors" in numbers), Finish()
    chosen = plan(graph, leaves["u"], space, *steps, backend=backend, **options)
    assert ("score" in chosen.one_call) == (backend == "fused")
    out, _ = attend(graph, leaves["u"], space, *steps, backend=backend, **options)
    direction = torch.randn(out.shape, generator=torch.Generator().manual_seed(9)).to(out)
    (out * direction).sum().backward()
    found = {"out": out.detach()} | {name: leaf.grad for name, leaf in leaves.items()}
    found |= {name: parameter.grad for name, parameter in space.named_parameters()}
    return {name: value.double() for name, value in found.items() if value is not None}


@pytest.mark.parametrize("text", SPACES)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_product_matches_the_reference(shape: str, text: str) -> None:
    graph = make_graph(shape)
    score = Distance(radius_norm=True)
    right = computed("reference", graph, text, score)
    for name, value in computed("fused", graph, text, score).items():
        assert error(value, right[name]) < 1e-11, name
    for name, value in computed("fused", graph, text, score, torch.float32).items():
        assert error(value, right[name]) < 1e-4, name


@pytest.mark.parametrize("self_score", ["zero", "mean"])
@pytest.mark.parametrize("options", ["", "bias factors"])
@pytest.mark.parametrize("loops", [True, False], ids=["loops", "no loops"])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_form_of_the_operation_matches_the_reference(
    shape: str, loops: bool, options: str, self_score: Any
) -> None:
    graph = make_graph(shape, loops=loops)
    random = torch.Generator().manual_seed(4)
    numbers = {"edge_bias": torch.randn(graph.num_edges, 1, generator=random)} if "bias" in options else {}
    if "factors" in options:
        numbers["factors"] = 2.0 * (torch.rand(graph.num_edges, 1, generator=random) > 0.5)
    score = Distance(self_score=self_score)
    right = computed("reference", graph, SPACES[0], score, **numbers)
    for name, value in computed("fused", graph, SPACES[0], score, **numbers).items():
        assert error(value, right[name]) < 1e-11, name


@pytest.mark.parametrize("shape", SHAPES)
def test_points_that_coincide_have_finite_gradients(shape: str) -> None:
    graph = make_graph(shape)
    u = torch.zeros(graph.num_src, 1, 5, requires_grad=True)
    space, _ = hgeo.space(SPACES[0])
    attend(graph, u, space, Distance(), TangentSum(), Finish(), backend="fused")[0].sum().backward()
    assert u.grad is not None
    assert bool(u.grad.isfinite().all())
    assert all(bool(p.grad.isfinite().all()) for p in space.parameters() if p.grad is not None)


@pytest.mark.parametrize("merge", ["product", "concat"])
def test_heads_attend_together_or_apart_as_in_the_reference(merge: Any) -> None:
    graph, x = make_graph("symmetric", loops=False), torch.randn(24, 5, dtype=torch.float64)
    manifolds = [hgeo.PoincareBall(1.0), hgeo.Lorentz(0.5)] if merge == "product" else hgeo.Lorentz(0.5)
    torch.manual_seed(0)
    conv = hgeo.nn.HATConv(5, 3, manifolds, heads=2, merge=merge, radius_norm=True).double()
    found = []
    for conv.backend in ("fused", "reference"):
        y, weights = conv(graph, x, return_attention=True)
        y_alone = conv(graph, x)
        found.append((y, weights.edges, *torch.autograd.grad(y_alone.sum(), conv.weight)))
    for result, right in zip(*found, strict=True):
        assert error(result.detach(), right.detach()) < 1e-12


def test_the_operator_on_parts_keeps_torchs_rules_and_compiles_to_one_graph() -> None:
    graph, x = make_graph("directed"), torch.randn(24, 4)
    for text in SPACES[:2]:
        conv = hgeo.nn.HATConv(4, hgeo.space(text).dim, hgeo.space(text).manifold, backend="fused")
        eager = conv(graph, x)
        torch.testing.assert_close(torch.compile(conv, fullgraph=True, backend="aot_eager")(graph, x), eager)
        (slope,) = torch.autograd.grad(conv(graph, x).square().sum(), conv.weight, create_graph=True)
        with pytest.raises(RuntimeError, match='backend="reference"'):
            slope.sum().backward()


def test_no_tensor_holds_a_vector_for_each_edge() -> None:
    graph = make_graph("directed", nodes=200, edges=6000)
    space, dim = hgeo.space("sphere:16 x klein:16")
    u = torch.randn(graph.num_src, 1, dim, requires_grad=True)

    def step() -> None:
        attend(graph, u, space, Distance(), TangentSum(), Finish(), backend="fused")[0].sum().backward()

    step()
    with torch.profiler.profile(profile_memory=True) as profile:
        step()
    assert max(event.cpu_memory_usage for event in profile.events()) < 4 * graph.num_edges * dim / 2


def test_threads_do_not_change_the_answer() -> None:
    graph = make_graph("directed", nodes=600, edges=12000)
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found.append(computed("fused", graph, "ball:8,c=learn x sphere:24", Distance()))
    finally:
        torch.set_num_threads(before)
    for (name, alone), together in zip(found[0].items(), found[1].values(), strict=True):
        assert torch.equal(alone, together), name
