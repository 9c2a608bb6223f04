"""A line that a report prints shows the same fault when it is pasted."""

from __future__ import annotations

import geoopt
import pytest
import torch
from strange_manifolds import SICK

from hgeo.testing import check_manifold
from hgeo.testing._check import Report


def pasted(line: str) -> float:
    """What the line gives in a fresh namespace; infinite if it raises, as the report says."""
    *statements, expression = line.split("; ")
    scope: dict[str, object] = {}
    exec("; ".join(statements), scope)
    try:
        return float(eval(expression, scope))  # type: ignore[arg-type]
    except Exception:
        return float("inf")


def assert_every_line_shows_its_fault(report: Report) -> None:
    assert report.failures
    for result in report.failures:
        error = pasted(result.counterexample)
        assert not error <= result.tolerance, f"{result.law.name} gives {error}: {result.counterexample}"
        if not result.counterexample.count("batch=True"):
            assert error <= 1.01 * result.error or result.error == float("inf"), f"{error} of {result.error}"


@pytest.mark.parametrize("name", SICK)
def test_each_counter_example_of_a_sick_manifold_can_be_pasted(name: str) -> None:
    make, dim = SICK[name]
    report = check_manifold(
        make(),
        dim=dim,
        laws=["metric", "maps", "transport", "projection"],
        max_examples=25,
        name=f"strange_manifolds.SICK[{name!r}][0]()",
    )
    assert_every_line_shows_its_fault(report)


@pytest.mark.parametrize(
    "manifold", [geoopt.PoincareBall(), geoopt.Lorentz(), geoopt.Sphere(), geoopt.SphereProjection()], ids=repr
)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_each_counter_example_of_geoopt_can_be_pasted(manifold: geoopt.Manifold, dtype: torch.dtype) -> None:
    report = check_manifold(manifold, laws=["metric", "maps", "gyro", "smooth", "interface"], dtype=dtype)
    assert_every_line_shows_its_fault(report)


def test_a_fault_that_needs_a_batch_is_shown_by_a_batch() -> None:
    law = "inner_product_is_bilinear"  # a batch of geoopt's inner products is a matrix
    (result,) = check_manifold(geoopt.PoincareBall(), laws=law).results
    assert "batch=True" in result.counterexample
    assert pasted(result.counterexample) > result.tolerance
