"""The kit on manifolds that it has never heard of: it leaves the healthy ones alone and finds the sick ones."""

from __future__ import annotations

import pytest
import torch
from strange_manifolds import HEALTHY, SICK, HalfPlane, Torus, far_dist, sick

from hgeo.testing import check_manifold
from hgeo.testing._space import Space

FAR = [name for name in SICK if any(word in name for word in ("beyond", "end at", "ends at", "far"))]
CASES = [(name, torch.float64) for name in SICK] + [(name, torch.float32) for name in FAR]


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_manifold_passes_every_law_that_applies(name: str, dtype: torch.dtype, seed: int) -> None:
    make, dim = HEALTHY[name]
    report = check_manifold(make(), dim=dim, dtype=dtype, seed=seed, name=name)
    assert report.passed, str(report)
    assert report.counts()["pass"] > 30


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_a_sick_manifold_is_found_out(name: str, dtype: torch.dtype) -> None:
    make, dim = SICK[name]
    assert check_manifold(make(), dim=dim, dtype=dtype, name=name, shrink=False).failures


def test_there_are_five_healthy_manifolds_and_more_than_forty_sick_ones() -> None:
    assert len(HEALTHY) == 5
    assert len(SICK) > 40


@pytest.mark.parametrize(("dtype", "apart"), [(torch.float64, 20.0), (torch.float32, 10.0)])
def test_a_half_plane_is_explored_far_from_its_origin(dtype: torch.dtype, apart: float) -> None:
    assert 2 * Space(HalfPlane().to(dtype), 2, dtype).reach >= apart


def test_a_walk_ends_where_the_numbers_end() -> None:
    space = Space(HalfPlane(), 2, torch.float64)
    assert space.reach < 32, "there one rounding moves a point of the half-plane by more than a thousandth"


def test_a_space_that_comes_back_is_not_taken_for_one_whose_distances_stop_growing() -> None:
    laws = ["maps", "frame"]
    assert check_manifold(Torus(0.3), laws=laws).passed
    assert not check_manifold(sick(HalfPlane, dist=far_dist(lambda d: d.clamp_max(8.0)))(), dim=2, laws=laws).passed


def test_what_a_manifold_calls_c_is_no_curvature_unless_its_geometry_says_so() -> None:
    manifold = HalfPlane()
    manifold.c = torch.tensor(3.0)
    assert Space(manifold, 2).constant is None
    assert check_manifold(manifold, dim=2).passed
