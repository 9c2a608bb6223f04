"""The law kit is sharp: it finds the known defects of geoopt 0.5.1's stereographic maths, and says where."""

from __future__ import annotations

import geoopt
import pytest
import torch

from hgeo.testing import Functions, check_manifold, laws

# what is wrong -> the law that says so, the curvature and the dtype at which it shows
DEFECTS = [
    ("c does not survive: 1e-8 becomes 0, 100 infinite", "curvature_survives_construction", 1.0, torch.float32),
    ("c = 0 never moves again", "zero_curvature_trains", 1.0, torch.float32),
    ("the curvature's derivative is noise at k = −1e-6", "curvature_derivative_of_logmap0", 1e-6, torch.float32),
    ("and of the wrong sign just beside 0", "derivative_limit_of_logmap0", 1.0, torch.float64),
    ("log0 is wrong for small vectors", "oracle_logmap0", 1.0, torch.float32),
    ("the Jacobian of log0 at 0 is 0", "origin_maps_are_the_identity_to_first_order", 1.0, torch.float32),
    ("the Jacobian of the matrix product at 0 is 0", "matrix_product_is_linear_at_the_origin", 1.0, torch.float32),
    ("long tangent vectors do not come back", "long_tangents_survive", 1.0, torch.float32),
    ("distances of close points are noise", "oracle_dist", 1.0, torch.float32),
    ("second derivatives at x = y are NaN", "distance_is_differentiable_at_coincidence", 1.0, torch.float32),
    ("antipodal distances saturate at 16.8 in float64", "oracle_dist", 1.0, torch.float64),
    ("float16 exp0(0) is NaN", "half_precision_of_expmap0", 1.0, torch.float32),
    ("the distance is three graphs", "one_graph_of_dist", 1.0, torch.float32),
    ("inner products of a batch come out as a matrix", "inner_product_is_conformal", 1.0, torch.float32),
]  # fmt: skip


@pytest.mark.parametrize(("what", "name", "c", "dtype"), DEFECTS, ids=[f"{what}" for what, *_ in DEFECTS])
def test_each_known_defect_is_found(what: str, name: str, c: float, dtype: torch.dtype) -> None:
    ball = geoopt.PoincareBall(c=torch.tensor(c, dtype=torch.float64))
    result = check_manifold(ball, laws=name, dtype=dtype, max_examples=100)[name]
    assert result.verdict == "FAIL", what


def test_a_counterexample_can_be_pasted() -> None:
    result = check_manifold(geoopt.PoincareBall(), laws="logarithm_at_origin_inverts", dtype=torch.float32)
    failure = result["logarithm_at_origin_inverts"]
    scope: dict[str, object] = {}
    *statements, expression = failure.counterexample.split("; ")
    exec("; ".join(statements), scope)
    error = eval(expression, scope)
    assert isinstance(error, float)
    assert not error <= laws.REGISTER["logarithm_at_origin_inverts"].tolerance(torch.float32)


def test_pure_functions_of_another_library_can_be_checked() -> None:
    import geoopt.manifolds.stereographic.math as functions

    report = check_manifold(
        Functions(functions, k=-1.0), laws=["oracle_mobius_add", "oracle_weighted_midpoint", "models"]
    )
    assert report["ratios_are_analytic"].verdict == "not applicable"
    assert report["oracle_mobius_add"].verdict in ("pass", "FAIL")
