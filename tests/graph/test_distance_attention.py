"""Distance attention: every backend computes the operation that its docstring states."""

import gc
import math
import os
import subprocess
import sys
import weakref

import pytest
import torch
from fused_cases import attention_by
from torch._subclasses.fake_tensor import FakeTensorMode

import hgeo
import hgeo.math as hm
from hgeo.graph import (
    Distance,
    Finish,
    Graph,
    TangentSum,
    _torch,
    _torch_attention,
    attend,
    backends,
    distance_attention,
    edge_distance,
    edge_softmax,
    mobius_sum,
    self_distance_as_mean,
    weighted_sum,
)

CURVATURES = [-1.0, -0.3, -1e-7, 0.0, 0.4, [-0.5, 0.0, 0.5]]


def points_for(graph: Graph, dtype: torch.dtype = torch.float64, heads: int = 3, dim: int = 4) -> torch.Tensor:
    generator = torch.Generator().manual_seed(graph.num_edges)
    u = 0.6 * torch.randn(graph.num_src, heads, dim, generator=generator, dtype=torch.float64)
    u[1] = u[0]  # coincident
    u[3] = u[2] + 1e-3  # nearly
    u[4] = 0.0  # at the origin
    return u.float().to(dtype)  # numbers that float32 has, too


def by_loops(graph, u, k, beta, scale, bias, factor, value_scale, self_score):
    """The definition, an edge at a time, with curved trigonometry as its formulas read."""
    out = torch.zeros(graph.num_dst, *u.shape[1:], dtype=u.dtype)
    weights = torch.zeros(graph.num_edges, u.shape[1], dtype=u.dtype)

    def tan(r, k):
        root = abs(k) ** 0.5
        return r if k == 0 else torch.tan(root * r) / root if k > 0 else torch.tanh(root * r) / root

    def point(v, k):
        r = v.norm()
        return v if r == 0 else tan(r, k) * v / r

    def distance(x, y, k):
        q = (x - y).norm() / ((1 + k * x @ x) * (1 + k * y @ y)).sqrt()
        root = abs(k) ** 0.5
        return 2 * (q if k == 0 else torch.asin(root * q) / root if k > 0 else torch.asinh(root * q) / root)

    for h in range(u.shape[1]):
        p = [point(scale[h] * v, float(k[h])) for v in u[:, h]]
        for i in range(graph.num_dst):
            edges = list(range(int(graph.rowptr[i]), int(graph.rowptr[i + 1])))
            sources = [int(graph.col[e]) for e in edges]
            d = [distance(p[i], p[j], float(k[h])) if i != j else u.new_zeros(()) for j in sources]
            others = [value for value, j in zip(d, sources, strict=True) if j != i]
            if self_score == "mean" and others:
                mean = sum(others) / len(others)
                d = [mean if j == i else value for value, j in zip(d, sources, strict=True)]
            scores = [-beta[h] * value + bias[e, h] for value, e in zip(d, edges, strict=True)]
            mass = [s.exp() for s in scores]
            for m, e, j in zip(mass, edges, sources, strict=True):
                weights[e, h] = m / sum(mass)
                out[i, h] += weights[e, h] * factor[e, h] * value_scale[j] * u[j, h]
    return out, weights


@pytest.mark.parametrize("self_score", ["zero", "mean"])
@pytest.mark.parametrize("k", [-0.7, 0.0, 0.4])
def test_attention_is_computed_as_its_docstring_says(graph: Graph, backend: str, k: float, self_score: str) -> None:
    u = points_for(graph)
    bias, factor = torch.randn(graph.num_edges, 3).double(), torch.rand(graph.num_edges, 3).double()
    value_scale, beta = torch.rand(graph.num_src).double(), torch.tensor([0.5, 1.0, 3.0]).double()
    ours = distance_attention(
        graph,
        u,
        k=k,
        beta=beta,
        score_scale=1.2,
        edge_bias=bias,
        edge_factor=factor,
        value_scale=value_scale,
        self_score=self_score,
        return_weights=True,
        backend=backend,
    )
    expected = by_loops(graph, u, [k] * 3, beta, [1.2] * 3, bias, factor, value_scale, self_score)
    torch.testing.assert_close(ours, expected, rtol=1e-12, atol=1e-13)


def _everything(graph: Graph, backend: str, k, dtype: torch.dtype, *, through_weights: bool = True):
    """Outputs and gradients, through the returned weights and to the edge factors as well if asked."""
    generator = torch.Generator().manual_seed(7)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator).to(dtype)

    inputs = {
        "u": points_for(graph, dtype),
        "k": torch.tensor(k).to(dtype),
        "beta": torch.tensor([0.5, 1.0, 2.0]).to(dtype),
        "score_scale": torch.tensor(1.1).to(dtype),
        "edge_bias": random(graph.num_edges, 1),
        "edge_factor": random(graph.num_edges, 3).abs(),
    }
    for value in inputs.values():
        value.requires_grad_()
    if not through_weights:
        inputs["edge_factor"].requires_grad_(False)
    rest = {name: value for name, value in inputs.items() if name != "u"}
    options = {"value_scale": random(graph.num_src).abs(), "self_score": "mean", "return_weights": through_weights}
    out, weights = attention_by(backend, graph, inputs["u"], **rest, **options)
    loss = (out * random(*out.shape)).sum()
    if through_weights:
        loss = loss + (weights * random(*weights.shape)).sum()
    wanted = {name: value for name, value in inputs.items() if value.requires_grad}
    gradients = torch.autograd.grad(loss, list(wanted.values()), allow_unused=True, materialize_grads=True)
    return {"out": out.detach()} | dict(zip(wanted, gradients, strict=True))


@pytest.mark.parametrize("k", CURVATURES, ids=str)
def test_backends_agree_in_values_and_gradients(graph: Graph, backend: str, k) -> None:
    for through_weights in (False, True):
        ours = _everything(graph, backend, k, torch.float64, through_weights=through_weights)
        expected = _everything(graph, "reference", k, torch.float64, through_weights=through_weights)
        for name, value in expected.items():
            scale = max(float(value.abs().max()) if value.numel() else 0.0, 1.0)
            torch.testing.assert_close(ours[name], value, rtol=0, atol=1e-11 * scale, msg=f"{name}, {through_weights=}")


@pytest.mark.parametrize("k", [-1.0, 0.0, 0.4])
def test_single_precision_is_as_good_as_that_of_the_plain_formulas(graph: Graph, backend: str, k: float) -> None:
    truth = _everything(graph, "reference", k, torch.float64, through_weights=False)
    yardstick = _everything(graph, "plain", k, torch.float32, through_weights=False)
    ours = _everything(graph, backend, k, torch.float32, through_weights=False)
    for name, value in truth.items():
        if not value.numel():
            continue
        own = float((yardstick[name] - value).abs().max())
        allowed = 4 * own + 2e-6 * float(value.abs().max().clamp(min=1))
        assert float((ours[name] - value).abs().max()) <= allowed, name


@pytest.mark.parametrize("gap", [1e-1, 1e-2, 1e-3])
@pytest.mark.parametrize("radius", [0.3, 0.9, 0.999])
def test_near_duplicates_keep_their_digits_in_float32(backend: str, gap: float, radius: float) -> None:
    src, dst = torch.tensor([0, 1, 2, 3]), torch.tensor([1, 0, 3, 2])
    graph = Graph(src, dst)
    direction = torch.nn.functional.normalize(torch.randn(4, 8, generator=torch.Generator().manual_seed(3)), dim=-1)
    u = math.atanh(radius) * direction
    gap = gap * (1 - radius)  # of the points, about
    u[1], u[3] = u[0] + gap * direction[2], u[2] + gap * direction[0]
    u = u.unsqueeze(1).float().requires_grad_()
    exact = u.detach().double().requires_grad_()
    ours = edge_distance(graph, u, k=-1.0, backend=backend)
    truth = edge_distance(graph, exact, k=-1.0, backend="reference")
    conditioning = 1 / (1 - radius**2)
    # The reference rounds the distance, the others round the points, which moves them by a share of the gap.
    rounded = 1.0 if backend == "reference" else 1 / gap
    torch.testing.assert_close(ours.double(), truth, rtol=16 * 2**-23 * conditioning * rounded, atol=0)
    (slope,) = torch.autograd.grad(ours.sum(), u)
    (true_slope,) = torch.autograd.grad(truth.sum(), exact)
    error = (slope.double() - true_slope).norm() / true_slope.norm()
    assert error < 64 * 2**-23 * conditioning * rounded


@pytest.mark.parametrize("learned", [False, True])
def test_points_brought_back_to_the_rim_have_the_references_gradients(
    graph: Graph, monkeypatch: pytest.MonkeyPatch, learned: bool
) -> None:
    for module in (
        "hgeo.math",
        "hgeo.math._contract",
        "hgeo.math._stereographic",
    ):  # a rim so wide that 1 - c|x|² keeps its digits there
        monkeypatch.setattr(f"{module}.boundary_margin", lambda dtype: 1e-2)
    far = points_for(graph)
    far[::3] *= 40.0
    finish, results = Finish(activation=torch.nn.functional.elu, activation_space="ball"), []
    for name in ("torch", "reference"):
        u, radius = far.clone().requires_grad_(), torch.full((3,), 0.9, dtype=torch.float64, requires_grad=True)
        ball = hgeo.PoincareBall(1.0, learnable=learned)
        out, _ = attend(
            graph, u, ball, Distance(0.1, radius_norm=True), TangentSum(), finish, mean_radius=radius, backend=name
        )
        loss = (out * torch.linspace(-1, 1, out.numel(), dtype=torch.float64).view_as(out)).sum()
        results.append((out, *torch.autograd.grad(loss, (u, radius, *([ball.stored_c] if learned else [])))))
    torch.testing.assert_close(*results, rtol=1e-10, atol=1e-12)


def test_antipodes_of_a_sphere_keep_their_digits(backend: str) -> None:
    graph = Graph(torch.tensor([1]), torch.tensor([0]), num_src=2)
    p = torch.tensor([[[0.8, 0.6]], [[-0.8, -0.6]]]).float() * torch.tensor([1.0, 0.999]).view(2, 1, 1)
    u = hm.logmap0(p, k=1.0)
    ours = edge_distance(graph, u, k=1.0, backend=backend)
    truth = hm.dist(*hm.expmap0(u.double(), k=1.0), k=1.0)
    assert abs(float(ours) - float(truth)) < 1e-6 * math.pi


def test_a_point_is_at_distance_exactly_zero_from_itself(graph: Graph, backend: str) -> None:
    d = edge_distance(graph, points_for(graph, torch.float32), k=-1.0, backend=backend)
    assert (d[graph.row == graph.col] == 0).all()


@pytest.mark.parametrize("k", [-1.0, 0.0, 0.5])
def test_the_distances_of_edges_are_those_of_the_points(graph: Graph, backend: str, k: float) -> None:
    u = points_for(graph)
    p = hm.expmap0(u, k=k)
    torch.testing.assert_close(
        edge_distance(graph, u, k=k, backend=backend), hm.dist(p[graph.row], p[graph.col], k=k), rtol=1e-12, atol=1e-13
    )


@pytest.mark.parametrize("k", [-1.0, 0.0, 0.5])
@pytest.mark.parametrize("spread", [1.0, 3.0])
def test_the_reference_is_the_most_exact_backend(graph: Graph, backend: str, k: float, spread: float) -> None:
    u = (spread if k < 0 else 1.0) * points_for(graph, torch.float32)[..., :2].contiguous()

    def error(name: str) -> float:
        _, ours = distance_attention(graph, u, k=k, beta=1.0, return_weights=True, backend=name)
        _, truth = distance_attention(graph, u.double(), k=k, beta=1.0, return_weights=True, backend="reference")
        return float((ours - truth).abs().max()) if ours.numel() else 0.0

    assert error("reference") <= 2**-24
    assert error("reference") <= error(backend)


def test_weights_sum_to_one_where_there_are_edges(graph: Graph, backend: str) -> None:
    scores = 50 * torch.randn(graph.num_edges, 2, generator=torch.Generator().manual_seed(0))
    w = edge_softmax(graph, scores, backend=backend)
    assert ((w >= 0) & (w <= 1)).all()
    sums = torch.zeros(graph.num_dst, 2).index_add(0, graph.row, w)
    torch.testing.assert_close(sums, (graph.in_degrees > 0).float().unsqueeze(1).expand(-1, 2))


def test_scores_of_any_size_do_not_overflow(graph: Graph, backend: str) -> None:
    w = edge_softmax(graph, torch.full((graph.num_edges, 1), 1e30), backend=backend)
    torch.testing.assert_close(w, 1 / graph.in_degrees[graph.row].float().unsqueeze(1))


def test_a_score_of_minus_infinity_takes_the_edge_out(backend: str) -> None:
    graph = Graph(torch.tensor([0, 1, 2]), torch.tensor([0, 0, 0]), num_src=3)
    u = torch.randn(3, 1, 2, requires_grad=True)
    bias = torch.tensor([[0.0], [-math.inf], [0.0]])
    out, w = distance_attention(
        graph, u, k=-1.0, beta=1.0, edge_bias=bias, self_score="mean", return_weights=True, backend=backend
    )
    assert float(w[1].detach()) < 1e-30
    (slope,) = torch.autograd.grad(out.sum(), u)
    assert torch.isfinite(slope).all()


def test_a_destination_without_edges_gets_zero(backend: str) -> None:
    graph = Graph(torch.tensor([1]), torch.tensor([0]), num_src=3)
    out, _ = distance_attention(graph, torch.randn(3, 2, 4), k=-1.0, beta=1.0, backend=backend)
    assert (out[1:] == 0).all()


def test_one_weight_may_serve_all_heads(graph: Graph, backend: str) -> None:
    weights, values = torch.randn(graph.num_edges, 1).double(), points_for(graph)
    weights.requires_grad_()
    ours = weighted_sum(graph, weights, values, backend=backend)
    expected = weighted_sum(graph, weights.expand(-1, 3), values, backend="reference")
    torch.testing.assert_close(ours, expected)
    torch.testing.assert_close(*(torch.autograd.grad(o.square().sum(), weights)[0] for o in (ours, expected)))


def test_there_may_be_more_edges_than_pairs_of_nodes(backend: str) -> None:
    graph = Graph(torch.tensor([0, 1, 1] * 4), torch.tensor([1, 0, 1] * 4), num_src=2)
    u = torch.randn(2, 1, 3, generator=torch.Generator().manual_seed(0)).requires_grad_()
    ours, expected = (
        torch.autograd.grad(distance_attention(graph, u, k=-1.0, beta=1.0, backend=name)[0].square().sum(), u)[0]
        for name in (backend, "reference")
    )
    torch.testing.assert_close(ours, expected)


def test_a_nan_reaches_only_the_nodes_that_it_is_sent_to(graph: Graph, backend: str) -> None:
    u = points_for(graph, torch.float32)
    clean, _ = distance_attention(graph, u, k=-1.0, beta=1.0, self_score="mean", backend=backend)
    u[2] = math.nan
    out, _ = distance_attention(graph, u, k=-1.0, beta=1.0, self_score="mean", backend=backend)
    sees = torch.zeros(graph.num_dst, dtype=torch.bool)
    sees[graph.row[graph.col == 2]] = True
    sees[2:3] |= graph.in_degrees[2:3] > 0  # its own distances are unknown
    assert out[sees].isnan().all()
    torch.testing.assert_close(out[~sees], clean[~sees])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_computed_in_float32(graph: Graph, backend: str, dtype: torch.dtype) -> None:
    u = points_for(graph, dtype)
    out, w = distance_attention(graph, u, k=-1.0, beta=1.0, return_weights=True, backend=backend)
    exact, exact_w = distance_attention(graph, u.float(), k=-1.0, beta=1.0, return_weights=True, backend=backend)
    assert out.dtype == w.dtype == dtype
    torch.testing.assert_close(out, exact.to(dtype))
    torch.testing.assert_close(w, exact_w.to(dtype))


@pytest.mark.parametrize("k", [-1.0, 0.0, 0.5])
def test_reference_is_differentiable_twice(k: float) -> None:
    graph = Graph(torch.tensor([1, 2, 0]), torch.tensor([0, 0, 1]), num_src=3).with_self_loops()
    u = torch.randn(3, 1, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1), requires_grad=True)
    k = torch.tensor(k, dtype=torch.float64, requires_grad=True)

    def attend(u, k):
        return distance_attention(graph, u, k=k, beta=1.0, self_score="mean", backend="reference")[0]

    torch.autograd.gradcheck(attend, (u, k))
    torch.autograd.gradgradcheck(attend, (u, k))


def test_second_derivatives_of_the_torch_backend_are_refused_with_advice() -> None:
    graph = Graph(torch.tensor([1, 2, 0]), torch.tensor([0, 0, 1]), num_src=3).with_self_loops()
    u = torch.randn(3, 1, 2, requires_grad=True)
    out, _ = distance_attention(graph, u, k=-1.0, beta=1.0, backend="torch")
    (grad,) = torch.autograd.grad(out.square().sum(), u, create_graph=True)
    with pytest.raises(RuntimeError, match='choose backend="reference"'):
        grad.sum().backward()


@pytest.mark.parametrize("k", [-1.0, -1e-3, 0.0, 0.5])
def test_torch_backend_passes_gradcheck(k: float) -> None:
    graph = Graph(torch.tensor([1, 2, 0]), torch.tensor([0, 0, 1]), num_src=3).with_self_loops()
    u = torch.randn(3, 2, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1), requires_grad=True)
    k = torch.tensor(k, dtype=torch.float64, requires_grad=True)
    torch.autograd.gradcheck(lambda u, k: distance_attention(graph, u, k=k, beta=1.3, backend="torch")[0], (u, k))


def test_torch_operators_keep_the_contract_of_custom_operators() -> None:
    graph = Graph(torch.tensor([1, 2, 0, 2]), torch.tensor([0, 0, 1, 2]), num_src=3)
    csc = graph.csc
    p, flatness = (0.2 * torch.randn(3, 2, 4)).requires_grad_(), torch.rand(3, 2).requires_grad_()
    k = torch.tensor([-1.0, 0.3], requires_grad=True)
    ops = torch.ops.hgeo
    tests = ("test_schema", "test_faketensor", "test_autograd_registration")
    torch.library.opcheck(
        ops.edge_distance.default,
        (p, flatness, k, graph.rowptr, graph.row, graph.col, *csc, False, True),
        test_utils=tests,
    )
    scores = torch.randn(4, 2, requires_grad=True)
    torch.library.opcheck(ops.edge_softmax.default, (scores, graph.rowptr, graph.row), test_utils=tests)
    weights = torch.rand(4, 2, requires_grad=True)
    torch.library.opcheck(
        ops.weighted_sum.default, (weights, p, graph.rowptr, graph.row, graph.col, *csc), test_utils=tests
    )


def test_computing_in_blocks_of_edges_changes_no_result(monkeypatch: pytest.MonkeyPatch, graph: Graph) -> None:
    whole = _everything(graph, "torch", -1.0, torch.float64)
    monkeypatch.setattr("hgeo.graph._torch._BLOCK", 60)  # five edges of three heads and four numbers
    blocked = _everything(graph, "torch", -1.0, torch.float64)
    for name, value in whole.items():
        torch.testing.assert_close(blocked[name], value, rtol=1e-12, atol=1e-12, msg=lambda m, n=name: f"{n}: {m}")


@pytest.mark.parametrize("name", ["reference", "torch"])
def test_it_compiles_to_one_graph(name: str) -> None:
    graph = Graph(torch.tensor([1, 2, 0]), torch.tensor([0, 0, 1]), num_src=3)

    def attend(u, k):
        looped = graph.with_self_loops()
        return distance_attention(looped, u, k=k, beta=1.0, self_score="mean", backend=name)[0]

    u, k = torch.randn(3, 1, 2, requires_grad=True), torch.tensor(-1.0, requires_grad=True)
    compiled = torch.compile(attend, fullgraph=True, backend="aot_eager")(u, k)
    eager = attend(u, k)
    torch.testing.assert_close(compiled, eager)
    for ours, expected in zip(*(torch.autograd.grad(o.sum(), (u, k)) for o in (compiled, eager)), strict=True):
        torch.testing.assert_close(ours, expected)


@pytest.mark.parametrize("name", ["reference", "torch"])
def test_it_runs_on_fake_cuda_tensors(name: str) -> None:
    with FakeTensorMode(), torch.no_grad():
        device = torch.device("cuda")
        graph = Graph(
            torch.zeros(7, dtype=torch.long, device=device), torch.zeros(7, dtype=torch.long, device=device), 5
        )
        looped = graph.with_self_loops()
        out, w = distance_attention(
            looped,
            torch.randn(5, 2, 3, device=device),
            k=torch.tensor(-1.0, device=device),
            beta=1.0,
            self_score="mean",
            return_weights=True,
            backend=name,
        )
        assert out.shape == (5, 2, 3)
        assert w.shape == (12, 2)
        assert out.device.type == w.device.type == "cuda"


def test_the_mean_distance_of_a_lonely_loop_is_zero() -> None:
    graph = Graph(torch.tensor([0, 1, 2]), torch.tensor([0, 1, 1]), num_src=3)
    d = self_distance_as_mean(graph, torch.tensor([[5.0], [5.0], [3.0]]))
    assert d.flatten().tolist() == [0.0, 3.0, 3.0]


LOOPED = Graph(torch.tensor([1, 0]), torch.tensor([0, 1]))
U = torch.randn(2, 3, 4)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda: distance_attention(LOOPED, U[:1], k=0.0, beta=1.0),
            ValueError,
            r"u must have shape \(2, heads, dim\)",
        ),
        (lambda: distance_attention(LOOPED, U[0], k=0.0, beta=1.0), ValueError, r"got \(3, 4\)"),
        (lambda: distance_attention(LOOPED, U.long(), k=0.0, beta=1.0), TypeError, "floating-point, got torch.int64"),
        (lambda: distance_attention(LOOPED, U, k=torch.zeros(2), beta=1.0), ValueError, r"k must.*\(3,\), got \(2,\)"),
        (lambda: distance_attention(LOOPED, U, k=0.0, beta=torch.ones(3, 1)), ValueError, "beta must be a number"),
        (
            lambda: distance_attention(LOOPED, U, k=0.0, beta=1.0, edge_bias=torch.ones(5, 1)),
            ValueError,
            r"edge_bias must have shape \(2, 3\) or \(2, 1\).*got \(5, 1\)",
        ),
        (lambda: distance_attention(LOOPED, U, k=0.0, beta=1.0, edge_factor=torch.ones(2)), ValueError, "edge_factor"),
        (
            lambda: distance_attention(LOOPED, U, k=0.0, beta=1.0, value_scale=torch.ones(3)),
            ValueError,
            r"value_scale must have shape \(2,\)",
        ),
        (
            lambda: distance_attention(LOOPED, U, k=0.0, beta=1.0, self_score="one"),
            ValueError,
            "'zero', 'mean', got 'one'",
        ),
        (
            lambda: distance_attention(LOOPED, U.to("meta"), k=0.0, beta=1.0),
            ValueError,
            r"meta.*cpu.*graph.to\('meta'\)",
        ),
        (
            lambda: distance_attention(LOOPED, U, k=0.0, beta=1.0, backend="fast"),
            ValueError,
            "no backend 'fast'.*'torch'",
        ),
        (
            lambda: distance_attention(LOOPED, U, k=0.0, beta=1.0, value_scale=torch.ones(2, device="meta")),
            ValueError,
            "value_scale is on meta, the graph on cpu",
        ),
        (
            lambda: distance_attention(torch.tensor([[0], [1]]), U, k=0.0, beta=1.0),
            TypeError,
            "must be an hgeo.Graph, got Tensor; hgeo.graph.as_graph",
        ),
        (lambda: edge_softmax(LOOPED, torch.ones(3, 1)), ValueError, r"\(2, heads\), got \(3, 1\)"),
        (lambda: edge_softmax(LOOPED, torch.ones(2, 1, device="meta")), ValueError, "scores is on meta"),
        (lambda: weighted_sum(LOOPED, torch.ones(2, 1).double(), U), TypeError, "weights are torch.float64, values"),
        (lambda: mobius_sum(LOOPED, torch.ones(3, 1), U, k=-1.0), ValueError, r"weights must have shape.*got \(3, 1\)"),
        (
            lambda: weighted_sum(LOOPED, torch.ones(2, 2), U),
            ValueError,
            r"weights must have shape \(2, 3\) or \(2, 1\)",
        ),
        (lambda: edge_distance(LOOPED, U[:1], k=0.0), ValueError, r"u must have shape \(2, heads, dim\)"),
    ],
)
def test_wrong_arguments_are_named(call, error, words) -> None:
    with pytest.raises(error, match=words):
        call()


def test_the_table_of_backends_says_what_runs_and_why_not() -> None:
    table = backends("cpu")
    assert table["torch"] is None
    assert table["reference"] is None
    assert "fastest first ('auto' takes" in str(table)
    elsewhere = backends("meta")
    assert all(elsewhere[name] for name in ("dgl", "scatter", "fused"))
    assert "no: " in str(elsewhere)


def test_auto_does_not_choose_the_kernels_where_they_were_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    assert "'auto' takes 'torch'" in str(backends("cpu"))


def test_without_cuda_the_fused_kernels_say_so() -> None:
    pytest.importorskip("triton")
    assert (backends("cuda")["fused"] is None) == torch.cuda.is_available()


NO_NUMBA = """
import importlib.metadata, sys
version = importlib.metadata.version
def hidden(name):
    if name in ("numba", "llvmlite"):
        raise importlib.metadata.PackageNotFoundError(name)
    return version(name)
importlib.metadata.version = hidden
"""
BROKEN_NUMBA = "import sys\n"


@pytest.mark.parametrize(("setup", "reason"), [(NO_NUMBA, "not installed"), (BROKEN_NUMBA, "cannot be used")])
def test_a_machine_without_a_working_numba_takes_the_torch_backend(tmp_path, setup: str, reason: str) -> None:
    script = setup + (
        "sys.modules['numba'] = None  # whoever imports it gets an ImportError\n"
        "import torch, hgeo\n"
        "conv = hgeo.nn.HATConv(3, 2, hgeo.PoincareBall(1.0))\n"
        "many = torch.arange(5000) % 3\n"
        "conv(torch.stack([many, many.flip(0)]), torch.randn(3, 3)).sum().backward()\n"
        "print(hgeo.graph.backends())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"HGEO_CACHE": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "'auto' takes 'torch'" in done.stdout
    assert reason in done.stdout


def test_a_backend_that_cannot_run_says_why() -> None:
    missing = [name for name, reason in backends("meta").items() if reason is not None]
    assert missing
    for name in missing:
        with pytest.raises(ValueError, match=f"backend '{name}' cannot run on meta: .*Use backend='auto'"):
            edge_softmax(LOOPED.to("meta"), torch.ones(2, 1, device="meta"), backend=name)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("backend", ["reference", "torch", "dgl", "fused"])
def test_the_parts_compute_half_precision_in_float32(backend, dtype) -> None:
    graph = Graph(torch.tensor([0, 1]), torch.tensor([1, 0]), num_src=2).with_self_loops()
    p = torch.tensor([[[0.1, 0.2]], [[0.3, -0.1]]]).to(dtype)
    distance = edge_distance(graph, p, k=-1.0, backend=backend)
    weights = edge_softmax(graph, -distance, backend=backend)
    out = weighted_sum(graph, weights, p, backend=backend)
    exact = edge_distance(graph, p.float(), k=-1.0, backend="reference")
    assert {distance.dtype, weights.dtype, out.dtype} == {dtype}
    torch.testing.assert_close(distance.float(), exact, rtol=0.01, atol=1e-6)
    torch.testing.assert_close(weights.float(), edge_softmax(graph, -exact, backend="reference"), rtol=0.02, atol=1e-6)


@pytest.mark.parametrize("backend", ["reference", "torch", "dgl", "fused"])
def test_a_destination_whose_edges_are_all_taken_out_gets_weights_of_zero(backend) -> None:
    graph = Graph(torch.tensor([0, 0, 1]), torch.tensor([0, 1, 1]), num_src=2)
    scores = torch.tensor([[-torch.inf], [-torch.inf], [0.5]], requires_grad=True)
    weights = edge_softmax(graph, scores, backend=backend)
    assert weights.flatten().tolist() == [0.0, 0.0, 1.0]
    weights.sum().backward()
    assert bool(torch.isfinite(scores.grad).all())


def test_dgl_says_that_it_has_no_second_derivative() -> None:
    graph = Graph(torch.tensor([0, 1]), torch.tensor([1, 0]), num_src=2).with_self_loops()
    u = torch.randn(2, 1, 3, dtype=torch.float64, requires_grad=True)
    out, _ = distance_attention(graph, u, k=-1.0, beta=1.0, backend="dgl")
    (slope,) = torch.autograd.grad(out.square().sum(), u, create_graph=True)
    with pytest.raises(RuntimeError, match='backend="reference"'):
        slope.sum().backward()


def ring(nodes: int = 5) -> Graph:
    ids = torch.arange(nodes)
    return Graph(torch.cat([ids, ids.roll(1)]), torch.cat([ids.roll(1), ids]), num_src=nodes).with_self_loops()


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("written", ["out", "factor", "u"])
def test_the_torch_backend_notices_writes_before_its_backward_pass(written: str, heads: int) -> None:
    graph = ring()
    leaf = torch.randn(5, heads, 3, generator=torch.Generator().manual_seed(0)).requires_grad_()
    u, factor = leaf.clone(), torch.ones(graph.num_edges, heads)
    out, _ = distance_attention(graph, u, k=-1.0, beta=1.0, edge_factor=factor, backend="torch")
    loss = out.sum()
    with torch.no_grad():
        {"out": out, "factor": factor, "u": u}[written].mul_(5.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.parametrize("activation", ["sums alone", None, torch.nn.functional.elu])
def test_the_torch_backend_is_freed_without_a_garbage_collection(monkeypatch: pytest.MonkeyPatch, activation) -> None:
    buffers, forward = [], _torch_attention._forward

    def spy(*arguments):
        found = forward(*arguments)
        buffers.append(weakref.ref(found[2].heads[0].mass))
        return found

    monkeypatch.setattr(_torch_attention, "_forward", spy)
    u = torch.randn(5, 2, 3, requires_grad=True)
    gc.disable()
    try:
        if activation == "sums alone":
            out, _ = distance_attention(ring(), u, k=-1.0, beta=1.0, backend="torch")
        else:
            finish = Finish(activation=activation, activation_space="ball")
            out, _ = attend(ring(), u, hgeo.PoincareBall(1.0), Distance(), TangentSum(), finish, backend="torch")
        buffers.append(weakref.ref(out))
        assert len(buffers) == 2
        del out
        assert [buffer() for buffer in buffers] == [None, None]
    finally:
        gc.enable()


@pytest.mark.parametrize("size", [1.0, 300.0])
def test_a_negative_beta_prefers_the_far_and_does_not_overflow(backend: str, size: float) -> None:
    graph, found = ring(), []
    for name in (backend, "reference"):
        u = (size * torch.randn(5, 1, 3, generator=torch.Generator().manual_seed(0)).double()).requires_grad_()
        _, weights = distance_attention(graph, u.detach(), k=-1e-4, beta=-5.0, return_weights=True, backend=name)
        out, _ = distance_attention(graph, u, k=-1e-4, beta=-5.0, backend=name)
        found.append((out, weights, *torch.autograd.grad(out.square().sum(), u)))
    assert all(t.isfinite().all() for t in found[0])
    for ours, reference in zip(*found, strict=True):
        torch.testing.assert_close(ours, reference, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("k", [0.0, -1e-30])
@pytest.mark.parametrize("size", [1.0, 1e4, 1e8, 1e12])
def test_a_flat_space_is_flat_for_points_of_any_size(size: float, k: float) -> None:
    graph = ring()
    u = (size * torch.randn(5, 1, 3, generator=torch.Generator().manual_seed(0))).requires_grad_()
    _, weights = distance_attention(graph, u.detach(), k=k, beta=1 / size, return_weights=True, backend="torch")
    out, _ = distance_attention(graph, u, k=k, beta=1 / size, backend="torch")
    assert weights is not None
    v = u.detach().double().requires_grad_()
    distance = 2 * torch.linalg.vector_norm(v[graph.row] - v[graph.col] + 1e-200, dim=-1)
    expected = edge_softmax(graph, -distance / size, backend="reference")
    torch.testing.assert_close(weights.double(), expected.detach(), rtol=1e-5, atol=1e-6)
    (slope,) = torch.autograd.grad((out / size).square().sum(), u)
    mean = weighted_sum(graph, expected, v, backend="reference")
    (true,) = torch.autograd.grad((mean / size).square().sum(), v)
    torch.testing.assert_close(slope.double() * size, true * size, rtol=1e-4, atol=1e-5)


def test_the_default_device_does_not_matter() -> None:
    graph, points = ring(), torch.randn(5, 3)
    arguments = graph.row, graph.col, graph.rowptr, torch.ones(graph.num_edges, 1)
    expected = _torch.Differences(points, graph.num_edges).sums(*arguments)
    with torch.device("meta"):
        pulls = _torch.Differences(points, graph.num_edges).sums(*arguments)
    torch.testing.assert_close(pulls, expected)
