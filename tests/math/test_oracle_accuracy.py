"""The promised accuracy of hgeo.math, against sixty digits, on random and adversarial inputs.

Values: norm-wise relative error ≤ 16 eps/(1 − c|x|²), x the outermost point; on spheres 32 eps, near antipodes absolute
in units of π/√k. Curvature derivatives: 1e-3 in float32, 1e-9 in float64. The laws of the groups ``oracle`` and
``derivative`` state these bounds; here they meet every size of curvature, as numbers and as tensors, and dimensions to
512.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator

import pytest
import torch

import hgeo.math as hm
from hgeo.kernels import plain_torch
from hgeo.testing import Functions, check_manifold, oracle

DTYPES = [torch.float64, torch.float32]


@pytest.fixture(params=["loops", "torch"], autouse=True)
def _form(request: pytest.FixtureRequest) -> Iterator[None]:
    """What is promised holds for the compiled loops and for the same formulas on tensors."""
    with plain_torch() if request.param == "torch" else contextlib.nullcontext():
        yield


PROMISED = [
    f"oracle_{name}"
    for name in (
        "dist", "dist0", "expmap0", "logmap0", "mobius_add", "mobius_sub", "mobius_scalar_mul", "mobius_matvec",
        "gyration", "transp", "transp0", "transp0back",
    )
]  # fmt: skip


def _within_bounds(target: Functions, laws: object, dtype: torch.dtype, *, dim: int = 3, examples: int = 60) -> None:
    report = check_manifold(target, dim=dim, laws=laws, dtype=dtype, max_examples=examples, seed=7)
    assert report.passed, str(report)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("k", [-1e4, -100.0, -1e-4, -1e-8, -1e-12, 1e-12, 1e-4, 1e4])
def test_functions_are_accurate_at_every_size_of_curvature(k: float, dtype: torch.dtype) -> None:
    _within_bounds(Functions(hm, k=torch.tensor(k, dtype=torch.float64)), "oracle", dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("k", [-100.0, -1e-4, -1e-12, 0.0, 1e-12, 1e-4])
def test_curvature_derivatives_at_every_size_of_curvature(k: float, dtype: torch.dtype) -> None:
    _within_bounds(Functions(hm, k=k), "curvature_derivative_of_*", dtype, examples=20)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("k", [-1.0, 1.0])
@pytest.mark.parametrize("dim", [1, 2, 32])
def test_functions_are_accurate_in_every_dimension(dim: int, k: float, dtype: torch.dtype) -> None:
    _within_bounds(Functions(hm, k=k), PROMISED, dtype, dim=dim, examples=30)


@pytest.mark.parametrize("dtype", DTYPES)
def test_five_hundred_and_twelve_dimensions(dtype: torch.dtype) -> None:
    laws = [name for name in PROMISED if "matvec" not in name]
    _within_bounds(Functions(hm, k=-1.0), laws, dtype, dim=512, examples=8)


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_ulp_from_the_boundary_all_results_are_finite(dtype: torch.dtype) -> None:
    eps = torch.finfo(dtype).eps
    x = torch.tensor([1 - eps / 2, 0.0], dtype=dtype)
    y = torch.tensor([0.3, -0.4], dtype=dtype)
    for result in (
        hm.dist(x, y, k=-1.0),
        hm.dist(x, -x, k=-1.0),
        hm.dist0(x, k=-1.0),
        hm.logmap0(x, k=-1.0),
        hm.mobius_add(y, x, k=-1.0),
        hm.mobius_add(x, y, k=-1.0),
        hm.gyration(x, y, y, k=-1.0),
        hm.mobius_scalar_mul(torch.tensor(0.5, dtype=dtype), x, k=-1.0),
        hm.project(x, k=-1.0),
    ):
        assert bool(torch.isfinite(result).all())
    exact = oracle.dist0(x, k=-1.0)
    assert float(oracle.difference(hm.dist0(x, k=-1.0), exact) / exact) <= 16 * eps / float(1 - oracle.length(x) ** 2)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [1e-1, 1e-5, 1e-7, 1e-8, 1e-12])
def test_log0_of_tiny_vectors_is_as_exact_as_anywhere(size: float, dtype: torch.dtype) -> None:
    x = torch.tensor([0.6 * size, -0.8 * size], dtype=dtype)
    exact = oracle.logmap0(x, k=-1.0)
    assert float(oracle.difference(hm.logmap0(x, k=-1.0), exact) / oracle.length(exact)) <= 2 * torch.finfo(dtype).eps


@pytest.mark.parametrize(("dtype", "length"), [(torch.float32, 7.0), (torch.float64, 16.0)])
def test_long_tangent_vectors_survive(dtype: torch.dtype, length: float) -> None:
    v = torch.tensor([length, 0.0], dtype=dtype, requires_grad=True)
    y = hm.project(hm.expmap0(v, k=-1.0), k=-1.0)
    back = hm.logmap0(y, k=-1.0)
    assert math.isclose(float(back.detach().norm()), length, rel_tol=0.02)
    (gradient,) = torch.autograd.grad(back[0], v)
    assert float(gradient[0]) > 0.3


@pytest.mark.parametrize("dtype", DTYPES)
def test_antipodal_distances_on_a_sphere_are_exact_in_units_of_pi(dtype: torch.dtype) -> None:
    x = torch.tensor([0.7, -0.2], dtype=dtype)
    for gap in (0.0, 1e-2, 1e-4, 1e-6):
        y = hm.antipode(x, k=1.0) * (1 + gap)
        exact = oracle.dist(x, y, k=1.0)
        assert float(oracle.difference(hm.dist(x, y, k=1.0), exact)) <= 32 * torch.finfo(dtype).eps * math.pi


def test_the_curvature_of_a_flat_centroid_has_its_derivative() -> None:
    """At k = 0 Σ w (λ - 1) and Σ w are one number: of two equal bounds the derivative is that of the true one."""
    generator = torch.Generator().manual_seed(0)
    x = 0.3 * torch.randn(5, 3, dtype=torch.float64, generator=generator)
    w = torch.rand(5, 1, dtype=torch.float64, generator=generator)
    k = torch.zeros((), dtype=torch.float64, requires_grad=True)
    lam = hm.lambda_x(x, k=k, keepdim=True)
    middle = hm.centroid((w * lam * x).sum(0), (w * (lam - 1)).sum(0), w.sum(0), k=k)
    exact = hm.weighted_midpoint(x, w.squeeze(-1), k=k)
    slopes = [torch.autograd.grad(value.sum(), k, retain_graph=True)[0] for value in (middle, exact)]
    torch.testing.assert_close(*slopes, rtol=1e-12, atol=0)
