"""The fused CPU kernels say the same as the reference, in value and in every gradient."""

from __future__ import annotations

import contextlib
import math
import os
import platform
import subprocess
import sys
import threading
import time
import tracemalloc
import types
import warnings
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from fused_cases import LEARNED, SHAPES, assert_same, error, evaluate, make_graph, make_inputs
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import hgeo
from hgeo.graph import Distance, Finish, Graph, TangentSum, _fused, attend, backends, distance_attention, plan
from hgeo.kernels.attention import _cpu
from hgeo.kernels.attention._layout import PART, Slots
from hgeo.nn._inputs import dropout_factors

pytestmark = pytest.mark.skipif(backends()["fused"] is not None, reason=str(backends()["fused"]))


@pytest.mark.parametrize("self_score", ["zero", "mean"])
@pytest.mark.parametrize("options", ["", "factor value", "bias1", "bias factor value"])
@pytest.mark.parametrize("loops", [True, False], ids=["loops", "no loops"])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_form_of_the_operation_matches_the_reference(
    shape: str, loops: bool, options: str, self_score: str
) -> None:
    graph = make_graph(shape, loops=loops)
    inputs = make_inputs(graph, [-1.0, 0.4], options=options)
    right = evaluate(graph, inputs, "reference", self_score=self_score)
    assert_same(evaluate(graph, inputs, "fused", self_score=self_score), right, 1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("dim", [1, 2, 7, 8, 16, 17, 64, 100, 256])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_dimension_matches_the_reference(shape: str, dim: int, dtype: torch.dtype) -> None:
    graph = make_graph(shape)
    inputs = make_inputs(graph, [-1.0], dim=dim)
    tolerance = 1e-12 if dtype == torch.float64 else 2e-5
    assert_same(evaluate(graph, inputs, "fused", dtype), evaluate(graph, inputs, "reference"), tolerance)


@pytest.mark.parametrize(
    "k", [0.0, *(sign * 10.0**n for sign in (-1, 1) for n in (-30, -12, -8, -6, -4, -3, -2, -1, 0))]
)
@pytest.mark.parametrize("shape", SHAPES)
def test_values_and_the_gradient_of_the_curvature_are_right_on_both_sides_of_zero(shape: str, k: float) -> None:
    graph = make_graph(shape)
    inputs = make_inputs(graph, [k])
    right = evaluate(graph, inputs, "reference")
    assert_same(evaluate(graph, inputs, "fused"), right, 1e-11)
    single = evaluate(graph, inputs, "fused", torch.float32)
    assert error(single["k"], right["k"]) < 1e-4
    assert error(single["out"], right["out"]) < 1e-6


def test_curvature_zero_is_exactly_the_euclidean_distance() -> None:
    graph = make_graph("symmetric")
    inputs = make_inputs(graph, [0.0])
    inputs |= {"beta": torch.ones(1).double(), "score_scale": torch.ones(1).double()}
    u = inputs["u"]
    _, weights = distance_attention(graph, u, k=inputs["k"], beta=inputs["beta"], backend="fused", return_weights=True)
    assert weights is not None
    scores = -2.0 * (u[graph.row] - u[graph.col]).norm(dim=-1)
    by_hand = scores.exp()
    total = torch.zeros(graph.num_dst, 1).double().index_add(0, graph.row, by_hand)
    torch.testing.assert_close(weights, by_hand / total[graph.row], rtol=1e-13, atol=0)


@pytest.mark.parametrize("k", [-1.0, -1e-6, 0.0, 0.5])
@pytest.mark.parametrize("gap", [1e-1, 1e-3, 1e-5])
def test_near_duplicates_are_as_accurate_as_in_the_plain_formulas(gap: float, k: float) -> None:
    graph = make_graph("symmetric", nodes=40, edges=200)
    inputs = make_inputs(graph, [k], dim=16)
    u = inputs["u"]
    inputs["u"] = (u[:1] + gap * u).float().double()
    inputs["beta"] = inputs["beta"] / gap
    right = evaluate(graph, inputs, "reference")
    yardstick = evaluate(graph, inputs, "plain", torch.float32)
    fused = evaluate(graph, inputs, "fused", torch.float32)
    for name in ("out", "u"):
        assert error(fused[name], right[name]) <= 4 * error(yardstick[name], right[name]) + 1e-7, name


@pytest.mark.parametrize("k", [-1.0, 1.0])
def test_far_apart_points_are_as_accurate_as_in_the_plain_formulas(k: float) -> None:
    graph = make_graph("symmetric", nodes=40, edges=200)
    inputs = make_inputs(graph, [k], dim=3, spread=5.0 if k < 0 else 1.2)
    inputs["beta"] = inputs["beta"] / 4
    right = evaluate(graph, inputs, "reference")
    yardstick = evaluate(graph, inputs, "plain", torch.float32)
    fused = evaluate(graph, inputs, "fused", torch.float32)
    for name in ("out", "u", "k"):
        assert error(fused[name], right[name]) <= 4 * error(yardstick[name], right[name]) + 1e-7, name


@pytest.mark.parametrize("shape", SHAPES)
def test_a_tangent_vector_beyond_the_rim_scores_as_if_it_were_cut_there(shape: str) -> None:
    graph = make_graph(shape)
    inputs = make_inputs(graph, [-1.5], options="value")
    inputs["u"][::3] *= 60.0
    inputs["value_scale"][::3] = 0.0
    inputs["beta"] /= 10
    rim = math.atanh(1 - 6 * torch.finfo(torch.float64).eps)

    def cut(u: Tensor, k: Tensor, scale: Tensor) -> Tensor:
        radius = scale[:, None] * (-k[:, None]).sqrt() * u.norm(dim=-1, keepdim=True)
        return u * (rim / radius).clamp(max=1.0)

    def gradients(prepare: Any) -> list[Tensor]:
        leaves = [inputs[name].clone().requires_grad_() for name in ("u", "k", "score_scale")]
        u, k, scale = leaves
        out, _ = distance_attention(
            graph,
            prepare(u, k, scale),
            k=k,
            beta=inputs["beta"],
            score_scale=scale,
            value_scale=inputs["value_scale"],
            backend="fused",
        )
        return [out.detach(), *torch.autograd.grad(out.square().sum(), leaves)]

    for result, right in zip(gradients(lambda u, k, scale: u), gradients(cut), strict=True):
        assert error(result, right) < 1e-8


def test_antipodes_keep_their_distance() -> None:
    graph = Graph(torch.tensor([0, 1, 2]), torch.tensor([1, 0, 0]), num_src=3).with_self_loops()
    for tilt in (0.0, 1e-5, 1e-3):
        u = torch.tensor([[[0.7, 0.0]], [[tilt - math.pi / 2 + 0.7, 0.0]], [[0.0, 0.5]]])
        _, weights = distance_attention(
            graph, u, k=torch.ones(1), beta=torch.ones(1), backend="fused", return_weights=True
        )
        assert weights is not None
        row1 = weights[graph.row == 1, 0]
        distance = float((row1[1] / row1[0]).log())
        angle = 2 * float(u[0, 0, 0].double() - u[1, 0, 0].double())
        assert distance == pytest.approx(min(angle, 2 * math.pi - angle), abs=2e-6)


def test_a_score_scale_of_zero_weighs_all_neighbours_alike() -> None:
    graph = make_graph("directed")
    inputs = make_inputs(graph, [-1.0])
    inputs["score_scale"] = torch.zeros(1).double()
    out, weights = distance_attention(graph, inputs.pop("u"), **inputs, backend="fused", return_weights=True)
    assert weights is not None
    torch.testing.assert_close(weights[:, 0], 1.0 / graph.in_degrees[graph.row].double(), rtol=1e-9, atol=0)
    assert bool(torch.isfinite(out).all())


@pytest.mark.parametrize("shape", SHAPES)
def test_a_nan_stays_in_the_rows_that_it_is_sent_to(shape: str) -> None:
    graph = make_graph(shape)
    inputs = make_inputs(graph, [-1.0, 0.3], options="factor")
    clean = evaluate(graph, inputs, "fused")
    inputs["u"][4, 0, 2] = math.nan
    dirty = evaluate(graph, inputs, "fused")
    sees = torch.zeros(graph.num_dst, dtype=torch.bool)
    sees[graph.row[graph.col == 4]] = True
    assert bool(dirty["out"][sees, 0].isnan().all())
    torch.testing.assert_close(dirty["out"][~sees], clean["out"][~sees], rtol=0, atol=0)
    torch.testing.assert_close(dirty["out"][:, 1], clean["out"][:, 1], rtol=0, atol=0)


def test_weights_are_a_softmax_and_a_masked_row_gives_zero() -> None:
    graph = make_graph("directed", loops=False)
    inputs = make_inputs(graph, [-1.0], options="bias1")
    inputs["edge_bias"][graph.row == 1] = -torch.inf
    out, weights = distance_attention(graph, inputs.pop("u"), **inputs, backend="fused", return_weights=True)
    assert weights is not None
    total = torch.zeros(graph.num_dst).double().index_add(0, graph.row, weights[:, 0])
    expected = (graph.in_degrees > 0).double()
    expected[1] = 0.0
    torch.testing.assert_close(total, expected)
    assert bool((out[1] == 0).all())
    assert bool((out[-1] == 0).all())


def test_graphs_without_nodes_or_edges_give_empty_results() -> None:
    nothing = torch.empty(0, dtype=torch.long)
    for nodes in (0, 3):
        graph = Graph(nothing, nothing, num_src=nodes)
        u = torch.randn(nodes, 2, 4, requires_grad=True)
        out, _ = distance_attention(graph, u, k=-1.0, beta=1.0, backend="fused")
        assert bool((out == 0).all())
        assert out.shape == (nodes, 2, 4)
        out.sum().backward()
        assert u.grad is not None
        assert bool((u.grad == 0).all())


@pytest.mark.parametrize("kind", ["directed", "symmetric"])
def test_threads_do_not_change_the_answer(kind: str) -> None:
    graph = make_graph(kind, nodes=600, edges=12000)
    inputs = make_inputs(graph, [-1.0, 0.5], dim=16, options="factor")
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = evaluate(graph, inputs, "fused")
        torch.set_num_threads(2)
        together = evaluate(graph, inputs, "fused")
    finally:
        torch.set_num_threads(before)
    for name, value in alone.items():
        torch.testing.assert_close(together[name], value, rtol=0, atol=0)


class _Watching(TorchDispatchMode):
    """Sees every operator, as a tracer would."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


def on_the_ball(graph: Graph, u: Tensor, manifold: Any, activation: Any = F.elu) -> Tensor:
    """Points that one call of the kernels computes."""
    finish = Finish(activation=activation, activation_space="ball")
    steps = Distance(), TangentSum(), finish
    assert "finish" in plan(graph, u, manifold, *steps, backend="fused").one_call
    return attend(graph, u, manifold, *steps, backend="fused")[0]


def test_a_mode_that_watches_operators_sees_the_kernels_and_changes_no_result() -> None:
    graph = make_graph("symmetric")
    u = make_inputs(graph, [-1.0])["u"].detach().requires_grad_()
    found, watching = [], _Watching()
    for mode in (contextlib.nullcontext(), watching):
        with mode:
            out = on_the_ball(graph, u, hgeo.PoincareBall(1.0))
            found.append((out, *torch.autograd.grad(out.square().sum(), u)))
    assert {"hgeo.fused_attention.default", "hgeo.fused_attention_backward.default"} <= set(watching.seen)
    for direct, operator in zip(*found, strict=True):
        torch.testing.assert_close(direct, operator, rtol=0, atol=0)


def test_half_precision_is_computed_in_float32() -> None:
    graph = make_graph("symmetric")
    u = make_inputs(graph, [-1.0])["u"].bfloat16()
    out, _ = distance_attention(graph, u, k=-1.0, beta=1.0, backend="fused")
    right, _ = distance_attention(graph, u.float(), k=-1.0, beta=1.0, backend="fused")
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out, right.bfloat16(), rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("elu", [False, True])
@pytest.mark.parametrize("k", [-1.0, -1e-6, 0.0, 0.3])
@pytest.mark.parametrize("dim", [5, 16])
def test_points_are_exp0_of_the_sums_and_elu_of_that(dim: int, k: float, elu: bool, dtype: torch.dtype) -> None:
    graph = make_graph("directed")
    u = make_inputs(graph, [k, k], dim=dim, spread=3.0 if k < 0 else 0.5)["u"].to(dtype)

    def gradients(whole: bool) -> list[Tensor]:
        rows, space = u.clone().requires_grad_(), hgeo.Stereographic(k, learnable=True).to(dtype)
        if whole:
            y = on_the_ball(graph, rows, space, F.elu if elu else None)
        else:
            sums, _ = distance_attention(graph, rows, k=space.k, beta=1.0, backend="fused")
            y = hgeo.exp0(space, sums.flatten(1))
            y = F.elu(y) if elu else y
        direction = torch.randn(y.shape, generator=torch.Generator().manual_seed(3)).to(y)
        return [y.detach(), *torch.autograd.grad((y * direction).sum(), [rows, *space.parameters()])]

    for result, right in zip(gradients(True), gradients(False), strict=True):
        assert error(result, right) < (1e-12 if dtype == torch.float64 else 5e-6)


def operator_arguments(shape: str, self_mean: bool) -> tuple[Any, ...]:
    graph = make_graph(shape)
    inputs = make_inputs(graph, [-1.0, 0.2], options="bias factor value")
    learned = [inputs[name].float().requires_grad_() for name in LEARNED]
    symmetric = shape == "symmetric"
    return (
        *learned, inputs["edge_factor"].float(), inputs["value_scale"].float(),
        *_fused._lists(graph, symmetric), torch.tensor([-0.5], requires_grad=True), [5],
        graph.num_edges, self_mean, symmetric, True, True,
    )  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
def test_the_operator_keeps_torchs_rules(shape: str) -> None:
    torch.library.opcheck(torch.ops.hgeo.fused_attention.default, operator_arguments(shape, self_mean=True))


def test_compiles_to_one_graph_with_gradients() -> None:
    graph = make_graph("symmetric")
    u = torch.randn(graph.num_src, 1, 8)

    def layer(u: Tensor, k: Tensor) -> Tensor:
        return distance_attention(graph, u, k=k, beta=1.0, backend="fused")[0].square().sum()

    def gradients(function: Any) -> list[Tensor]:
        leaves = [u.clone().requires_grad_(), torch.tensor([-1.0], requires_grad=True)]
        function(*leaves).backward()
        return [leaf.grad for leaf in leaves if leaf.grad is not None]

    eager, compiled = gradients(layer), gradients(torch.compile(layer, fullgraph=True, backend="aot_eager"))
    for a, b in zip(eager, compiled, strict=True):
        torch.testing.assert_close(a, b)


def test_second_derivatives_are_refused_with_advice() -> None:
    graph = make_graph("symmetric")
    u = torch.randn(graph.num_src, 1, 4, requires_grad=True)
    out, _ = distance_attention(graph, u, k=-1.0, beta=1.0, backend="fused")
    (grad,) = torch.autograd.grad(out.square().sum(), u, create_graph=True)
    with pytest.raises(RuntimeError, match='backend="reference"'):
        grad.sum().backward()


SCRIPT = """
import sys, torch
import hgeo
from hgeo.graph import Graph, distance_attention
graph = Graph(torch.tensor([0, 1]), torch.tensor([1, 0]), num_src=2).with_self_loops()
u = torch.tensor([[[0.0]], [[1.0]]])
out, _ = distance_attention(graph, u, k=0.0, beta=1.0, backend="fused")
print(round(float(out[0, 0, 0]), 4), "numba" in sys.modules)
"""


def run_script(folder: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=os.environ | {"HGEO_CACHE": folder} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    if "Warning" in done.stderr:
        warnings.warn(done.stderr, stacklevel=2)
    return done.stdout.strip()


def test_a_second_process_takes_the_compiled_kernels_from_the_cache(tmp_path: Any) -> None:
    assert run_script(str(tmp_path)) == "0.1192 True"
    assert run_script(str(tmp_path)) == "0.1192 False"
    for file in (tmp_path / "kernels").iterdir():
        file.write_bytes(file.read_bytes()[:-1])
    assert run_script(str(tmp_path)) == "0.1192 True"


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
@pytest.mark.parametrize("place", ["kernels", "kernels/*.o"])
def test_a_kernel_that_somebody_else_may_have_planted_is_not_run(tmp_path: Any, place: str) -> None:
    assert run_script(str(tmp_path)) == "0.1192 True"
    for path in tmp_path.glob(place):
        path.chmod(path.stat().st_mode | 0o022)
    with pytest.warns(UserWarning, match=r"CacheWarning: the cache .*kernels is not used: others can write"):
        assert run_script(str(tmp_path)) == "0.1192 True"


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="names a processor of the x86-64 family")
def test_the_cache_keeps_the_kernels_of_each_processor_apart(tmp_path: Any) -> None:
    assert run_script(str(tmp_path)) == "0.1192 True"
    here = set((tmp_path / "kernels").iterdir())
    assert run_script(str(tmp_path), NUMBA_CPU_NAME="nehalem") == "0.1192 True"
    there = set((tmp_path / "kernels").iterdir()) - here
    assert len(there) == len(here)
    assert {file.read_bytes() for file in here}.isdisjoint(file.read_bytes() for file in there)


def test_a_cache_folder_that_cannot_be_made_is_no_error(tmp_path: Any) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("in the way")
    assert run_script(str(blocker / "cache")) == "0.1192 True"


def test_a_cache_folder_that_cannot_be_written_is_no_error(tmp_path: Any) -> None:
    if os.geteuid() == 0:
        pytest.skip("nothing is read-only for root")
    tmp_path.chmod(0o500)
    try:
        assert run_script(str(tmp_path)) == "0.1192 True"
    finally:
        tmp_path.chmod(0o700)


@pytest.mark.parametrize("shape", SHAPES)
def test_no_tensor_holds_a_vector_for_each_edge(shape: str) -> None:
    graph = make_graph(shape, nodes=200, edges=6000)
    heads, dim = 2, 32
    u = torch.randn(graph.num_src, heads, dim, requires_grad=True)

    def step() -> None:
        on_the_ball(graph, u, hgeo.PoincareBall(1.0, learnable=True)).sum().backward()

    step()  # what is derived from the graph is made once
    with torch.profiler.profile(profile_memory=True) as profile:
        step()
    tracemalloc.start()  # scratch memory is NumPy's; not under the profiler, which makes many objects of its own
    step()
    by_python = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    largest = max(event.cpu_memory_usage for event in profile.events())
    vectors = 4 * graph.num_edges * dim  # one head in float32
    assert largest > 0
    assert largest < vectors / 2
    assert by_python < vectors / 2


@pytest.mark.parametrize("num_dst", [300, 700])
def test_counting_sorts_edges_as_comparing_does(monkeypatch: pytest.MonkeyPatch, num_dst: int) -> None:
    random = torch.Generator().manual_seed(0)
    src = torch.randint(700, (5000,), generator=random)
    dst = torch.randint(num_dst, (5000,), generator=random)
    counted = Graph(src, dst, num_src=700, num_dst=num_dst).with_self_loops()
    counted_csc = counted.csc
    monkeypatch.setattr("hgeo.graph._graph._MANY_EDGES", 10**9)
    compared = Graph(src, dst, num_src=700, num_dst=num_dst).with_self_loops()
    for name in ("rowptr", "row", "col", "perm"):
        assert torch.equal(getattr(counted, name), getattr(compared, name)), name
    assert all(map(torch.equal, counted_csc, compared.csc))


@pytest.mark.parametrize("loops", [0, 1, 2], ids=["no loop", "some loops", "all loops"])
@pytest.mark.parametrize("num_dst", [300, 700])
def test_edges_sorted_with_their_loops_at_once_are_those_sorted_before(num_dst: int, loops: int) -> None:
    random = torch.Generator().manual_seed(0)
    src = torch.randint(700, (5000,), generator=random)
    dst = torch.randint(num_dst, (5000,), generator=random)
    src[src == dst] = 699 if num_dst == 300 else 0
    if loops:
        present = torch.arange(num_dst)[:: 3 - loops]
        src, dst = torch.cat([src, present]), torch.cat([dst, present])
    at_once = Graph.unsorted(src, dst, 700, num_dst).with_self_loops()
    assert at_once._sorted is not None
    before = Graph(src, dst, num_src=700, num_dst=num_dst).with_self_loops()
    assert before._sorted is None
    assert at_once.num_edges == before.num_edges
    for name in ("rowptr", "row", "col", "perm"):
        assert torch.equal(getattr(at_once, name), getattr(before, name)), name
    assert all(map(torch.equal, at_once.csc, before.csc))
    symmetric = before.is_symmetric
    assert at_once.is_symmetric == symmetric
    lists = [_fused._lists(graph, symmetric) for graph in (at_once, before)]
    assert [found.info.tolist() for found in lists] == [[1, int(before.in_degrees.max())]] * 2
    # the transpose may list the edges of a source in another order
    places = [torch.sort(found.csc_pos[: before.num_edges].long())[0] for found in lists]
    assert torch.equal(*places)
    for found in lists:
        assert torch.equal(before.col[found.csc_pos[: before.num_edges].long()], torch.sort(before.col)[0])
        assert torch.equal(
            before.row[found.csc_pos[: before.num_edges].long()], found.csc_row[: before.num_edges].long()
        )
        assert not found.col[before.num_edges :].any()
        assert found.col.shape == found.csc_row.shape == found.csc_pos.shape


def test_kernels_ignore_torchs_default_device() -> None:
    src, dst = torch.randint(30, (2, 100))
    inputs = {name: torch.full((2,), value) for name, value in (("k", -1.0), ("beta", 1.0))}
    conv = hgeo.nn.HATConv(4, 2, hgeo.PoincareBall(1.0), backend="fused")
    u, x = torch.randn(30, 2, 3, requires_grad=True), torch.randn(30, 4)
    with torch.device("meta"):
        graph = Graph(src, dst, 30)
        out, _ = distance_attention(graph, u, backend="fused", **inputs)
        out.sum().backward()
        again = conv(graph, x)
        again.sum().backward()
        factors = dropout_factors(x, (3,), 0.5)
    assert {t.device.type for t in (out, u.grad, again, conv.weight.grad, factors)} == {"cpu"}


@pytest.mark.skipif(sys.platform != "linux", reason="torch's pool is libgomp's on Linux only")
def test_kernels_run_in_the_threads_of_torch_and_start_none() -> None:
    graph = make_graph("symmetric", nodes=600, edges=12000)
    inputs = make_inputs(graph, [-1.0], dim=32)
    before, alive = torch.get_num_threads(), threading.active_count()
    try:
        torch.set_num_threads(2)
        assert _cpu._torchs_pool(2) is not None
        evaluate(graph, inputs, "fused")
    finally:
        torch.set_num_threads(before)
    assert threading.active_count() == alive


def test_an_error_in_a_helping_thread_reaches_the_caller_and_the_thread_lives_on(monkeypatch) -> None:
    program, caller = _cpu._Program([0] * PART, []), threading.current_thread()

    def address(size: int) -> int:
        if threading.current_thread() is not caller:
            raise MemoryError("no scratch memory")
        deadline = time.monotonic() + 60
        while not program.errors and time.monotonic() < deadline:
            time.sleep(0.001)
        return 0

    monkeypatch.setattr(_cpu, "_memory", types.SimpleNamespace(address=address, tidy=lambda: None))
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    with pytest.raises(MemoryError, match="no scratch"):
        program.run((), _cpu._SERIAL_WORK)
    _, threads = _cpu._queues[os.getpid()]
    assert all(thread.is_alive() for thread in threads)


def test_memory_is_kept_for_helping_threads_that_start_after_the_caller_gave_up(monkeypatch) -> None:
    """Their addresses are in the program: who has the program must have the tensors."""
    programs = []
    run = _cpu._Program.run
    monkeypatch.setattr(_cpu._Program, "run", lambda self, *args: (programs.append(self), run(self, *args))[1])
    src, dst = torch.randint(30, (2, 100))
    u = torch.randn(30, 1, 3, requires_grad=True)
    inputs = {name: torch.full((1,), value) for name, value in (("k", -1.0), ("beta", 1.0))}
    out, _ = distance_attention(Graph(src, dst, 30), u, backend="fused", **inputs)
    out.sum().backward()
    assert len(programs) == 2
    for program in programs:
        held = [t for t in (*program.tensors[0], *program.tensors[1:]) if isinstance(t, torch.Tensor)]
        blocks = [(t.data_ptr(), t.data_ptr() + t.untyped_storage().nbytes()) for t in held]
        slots = dict(zip(Slots._fields, program.words, strict=False))
        for name in ("rowptr", "col", "u", "table", "q", "out"):
            assert any(begin <= slots[name] < end for begin, end in blocks), name
    for name in ("pairs", "grad_u", "grad_out"):
        assert any(begin <= slots[name] < end for begin, end in blocks), name


def _by_jvp(f: Any, x: Tensor) -> Tensor:
    return torch.func.jvp(f, (x,), (torch.ones_like(x),))[1]


def _by_dual_numbers(f: Any, x: Tensor) -> Tensor:
    with torch.autograd.forward_ad.dual_level():
        return torch.autograd.forward_ad.unpack_dual(f(torch.autograd.forward_ad.make_dual(x, torch.ones_like(x))))[1]


@pytest.mark.parametrize("tangent", [_by_jvp, _by_dual_numbers])
def test_forward_mode_derivatives_are_refused_with_advice(tangent) -> None:
    graph, x = Graph(*torch.randint(8, (2, 20)), 8), torch.randn(8, 3)
    conv = hgeo.nn.HATConv(3, 2, hgeo.PoincareBall(1.0), backend="fused")
    conv(graph, x)
    with pytest.raises(RuntimeError, match='backend="reference"'):
        tangent(lambda x: conv(graph, x), x)
    plain = hgeo.nn.HATConv(3, 2, hgeo.PoincareBall(1.0), backend="reference")
    assert tangent(lambda x: plain(graph, x), x).abs().max() > 0


@pytest.mark.parametrize("large", [False, True])
def test_only_small_buffers_are_kept_between_calls(large: bool, monkeypatch) -> None:
    monkeypatch.setattr(_cpu, "_memory", _cpu._Memory())
    program = _cpu._Program([0] * PART, [])
    program.scratch = _cpu._KEPT_SCRATCH if large else 1000
    program.run((), 0)
    assert (_cpu._memory.kept is None) == large
