"""The Triton kernels say the same as the reference: in Triton's interpreter here, on a GPU where there is one.

The interpreter must be chosen before Triton is imported, so without ``TRITON_INTERPRET=1`` this file starts a process
that has it and runs the tests below there.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
from typing import Any

import pytest
import torch
from fused_cases import SHAPES, assert_same, error, evaluate, make_graph, make_inputs
from torch import Tensor

from hgeo.graph import Graph, backends, distance_attention
from hgeo.kernels.attention import _ops

triton = pytest.importorskip("triton")

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
interpreted = pytest.mark.skipif(not INTERPRETED, reason="runs in the interpreter's process, started below")


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Triton kernels take the place of the CPU's."""
    from hgeo.kernels.attention import _cuda

    monkeypatch.setattr(_ops, "_implementation", lambda device: _cuda)


@pytest.mark.skipif(INTERPRETED, reason="this is the interpreter's process")
def test_the_kernels_in_tritons_interpreter() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__],
        env=os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:]
    assert " passed" in done.stdout


@interpreted
@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("self_score", ["zero", "mean"])
@pytest.mark.parametrize("options", ["", "bias factor value"])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_form_of_the_operation_matches_the_reference(shape: str, options: str, self_score: str) -> None:
    graph = make_graph(shape, loops=options == "", nodes=10, edges=24)
    inputs = make_inputs(graph, [-1.0, 0.4], options=options)
    right = evaluate(graph, inputs, "reference", self_score=self_score)
    assert_same(evaluate(graph, inputs, "fused", self_score=self_score), right, 1e-11)


@interpreted
@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("k", [0.0, -1e-12, 1e-12, -1e-4, 1e-4, -2.0, 1.0])
def test_values_and_the_gradient_of_the_curvature_are_right_on_both_sides_of_zero(k: float) -> None:
    graph = make_graph("directed", nodes=8, edges=20)
    inputs = make_inputs(graph, [k])
    right = evaluate(graph, inputs, "reference")
    assert_same(evaluate(graph, inputs, "fused"), right, 1e-10)
    single = evaluate(graph, inputs, "fused", torch.float32)
    assert error(single["k"], right["k"]) < 1e-4
    assert error(single["out"], right["out"]) < 1e-6


@interpreted
@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("dim", [1, 7, 17, 100])
def test_every_dimension_matches_the_reference(dim: int) -> None:
    graph = make_graph("block", nodes=8, edges=20)
    inputs = make_inputs(graph, [-1.0], dim=dim)
    assert_same(evaluate(graph, inputs, "fused"), evaluate(graph, inputs, "reference"), 1e-11)


@interpreted
@pytest.mark.usefixtures("kernels")
def test_a_row_longer_than_a_chunk_of_edges() -> None:
    src = torch.arange(150)
    graph = Graph(src, torch.zeros(150, dtype=torch.long), num_src=150, num_dst=3).with_self_loops()
    inputs = make_inputs(graph, [-1.0], options="factor")
    right = evaluate(graph, inputs, "reference", self_score="mean")
    assert_same(evaluate(graph, inputs, "fused", self_score="mean"), right, 1e-11)


@interpreted
@pytest.mark.usefixtures("kernels")
def test_masked_rows_and_rows_without_edges_give_zero() -> None:
    graph = make_graph("directed", loops=False, nodes=8, edges=20)
    inputs = make_inputs(graph, [-1.0], options="bias1")
    inputs["edge_bias"][graph.row == 1] = -math.inf
    out, _ = distance_attention(graph, inputs.pop("u"), **inputs, backend="fused")
    assert bool((out[1] == 0).all())
    assert bool((out[-1] == 0).all())
    assert bool(torch.isfinite(out).all())


@interpreted
@pytest.mark.usefixtures("kernels")
def test_a_nan_stays_in_the_rows_that_it_is_sent_to() -> None:
    graph = make_graph("directed", nodes=10, edges=24)
    inputs = make_inputs(graph, [-1.0])
    clean = evaluate(graph, inputs, "fused")
    inputs["u"][4, 0, 2] = math.nan
    dirty = evaluate(graph, inputs, "fused")
    sees = torch.zeros(graph.num_dst, dtype=torch.bool)
    sees[graph.row[graph.col == 4]] = True
    assert bool(dirty["out"][sees].isnan().all())
    torch.testing.assert_close(dirty["out"][~sees], clean["out"][~sees], rtol=0, atol=0)


def kernel_signatures(real: str) -> dict[str, tuple[dict[str, str], dict[str, Any]]]:
    """The types of each kernel's arguments as a call has them, and its constants."""
    from hgeo.kernels.attention import _cuda

    ids = {"rowptr": "*i64", "colptr": "*i64", "col": "*i32", "csc_row": "*i32", "csc_pos": "*i32"}
    counts = {"num_src", "num_dst", "num_edges", "heads", "dim", "padded"}
    counts |= {"bias_edge", "bias_head", "factor_edge", "factor_head"}
    constants = {"SELF_MEAN": True, "HAS_BIAS": True, "HAS_FACTOR": True, "BLOCK_E": 64, "BLOCK_D": 64}
    kernels = {}
    for name in ("_scores_kernel", "_sum_kernel", "_backward_rows_kernel", "_backward_columns_kernel"):
        arguments = getattr(_cuda, name).arg_names
        types = {a: ids.get(a, "i32" if a in counts else f"*{real}") for a in arguments if a not in constants}
        types |= {a: "constexpr" for a in arguments if a in constants}
        kernels[name] = (types, {a: constants[a] for a in arguments if a in constants})
    return kernels


@pytest.mark.skipif(INTERPRETED, reason="the interpreter does not compile")
@pytest.mark.parametrize("real", ["fp32", "fp64"])
def test_the_kernels_compile_for_an_a100(real: str) -> None:
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from hgeo.kernels.attention import _cuda

    for name, (types, constants) in kernel_signatures(real).items():
        source = ASTSource(fn=getattr(_cuda, name), signature=types, constexprs=constants)
        compiled = triton.compile(source, target=GPUTarget("cuda", 80, 32))
        assert ".target sm_80" in compiled.asm["ptx"], name


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("self_score", ["zero", "mean"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("backend", ["fused", "dgl", "torch", "reference"])
def test_kernels_match_the_reference_on_a_gpu(backend: str, shape: str, self_score: str, dtype: torch.dtype) -> None:
    if backends("cuda")[backend] is not None:
        pytest.skip(f"backend {backend}: {backends('cuda')[backend]}")
    graph = make_graph(shape)
    inputs = make_inputs(graph, [-1.0, 0.0, 0.4], dim=16, options="bias factor value")
    right = evaluate(graph, inputs, "reference", self_score=self_score)
    there: dict[str, Tensor] = {name: value.cuda() for name, value in inputs.items()}
    result = evaluate(graph.to("cuda"), there, backend, dtype, self_score)
    tolerance = 1e-10 if dtype == torch.float64 else 1e-4
    assert_same({name: value.cpu() for name, value in result.items()}, right, tolerance)
