"""The law kit is sharp: it finds the known defects of geoopt 0.5.1's stereographic maths, and says where."""

from __future__ import annotations

import geoopt
import pytest
import torch

from hgeo.testing import Functions, check_manifold, laws
from hgeo.testing.report import DEFECTS


@pytest.mark.parametrize(
    ("what", "name", "c", "dtype"),
    [(what, name, c, dtype) for what, _, name, c, dtype in DEFECTS],
    ids=[f"{name}-{dtype}" for _, _, name, _, dtype in DEFECTS],
)
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
