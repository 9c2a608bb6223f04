"""hgeo's own manifolds obey every law, 100 examples each, in float32 and float64."""

from __future__ import annotations

from typing import ClassVar

import geoopt
import pytest
import torch

import hgeo
import hgeo.math
from hgeo.testing import Functions, ManifoldLaws, check_manifold, laws

ALGEBRA = ["metric", "maps", "geodesics", "transport", "projection", "gyro", "scalar", "matrix", "midpoint", "plane"]
COMPILED = "compile"
EVERYTHING = [group for group in laws.GROUPS if group != COMPILED]  # what is compiled is asked once, below
DERIVATIVES = ["derivative", "limit"]  # sixty digits of a derivative take time: 100 examples on the ball, 30 elsewhere
VALUES = [group for group in EVERYTHING if group not in DERIVATIVES]
ANY_SPACE = ["metric", "maps", "geodesics", "transport", "projection", "models", "frame", "smooth"]


class TestPoincareBall(ManifoldLaws):
    manifold = hgeo.PoincareBall(1.0)
    laws: ClassVar[list[str]] = EVERYTHING


class TestSphereProjection(ManifoldLaws):
    manifold = hgeo.SphereProjection(1.0)
    laws: ClassVar[list[str]] = VALUES


class TestSphereProjectionDerivatives(TestSphereProjection):
    laws: ClassVar[list[str]] = DERIVATIVES
    max_examples = 30


class TestFlatSpace(ManifoldLaws):
    manifold = hgeo.Stereographic(0.0)
    laws: ClassVar[list[str]] = VALUES


class TestFlatSpaceDerivatives(TestFlatSpace):
    laws: ClassVar[list[str]] = DERIVATIVES
    max_examples = 30


class TestOneGraph(ManifoldLaws):
    manifold = hgeo.PoincareBall(0.7)
    laws: ClassVar[list[str]] = [COMPILED]
    dtypes = (torch.float32,)


class TestHyperboloid(ManifoldLaws):
    manifold = hgeo.Lorentz(0.5)
    laws: ClassVar[list[str]] = ANY_SPACE


class TestKleinsBall(ManifoldLaws):
    manifold = hgeo.Klein(0.7)
    laws: ClassVar[list[str]] = ANY_SPACE


class TestProduct(ManifoldLaws):
    manifold = hgeo.space("ball:2,c=0.5 x lorentz:2,c=2 x euclidean:1").manifold
    laws: ClassVar[list[str]] = ANY_SPACE
    dim = 5


def _obeys(manifold: object, chosen: list[str], dtype: torch.dtype, dim: int = 3, examples: int = 100) -> None:
    report = check_manifold(manifold, dim=dim, laws=chosen, dtype=dtype, max_examples=examples)
    assert report.passed, str(report)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("k", [-1.0, 0.0, 1.0])
def test_pure_functions_obey_the_laws_for_a_number_as_curvature(k: float, dtype: torch.dtype) -> None:
    _obeys(Functions(hgeo.math, k=k), [*ALGEBRA, "models", "oracle"], dtype)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("c", [0.0, 1e-12, 1e-8, 1e-4, 100.0, 1e4])
def test_balls_of_every_curvature_obey_the_laws(c: float, dtype: torch.dtype) -> None:
    _obeys(hgeo.PoincareBall(c), [*ALGEBRA, "models", "frame", "curvature"], dtype)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("k", [1e-12, 1e-4, 1e4])
def test_spheres_of_every_curvature_obey_the_laws(k: float, dtype: torch.dtype) -> None:
    _obeys(hgeo.Stereographic(k), [*ALGEBRA, "models", "frame"], dtype)


@pytest.mark.parametrize("dim", [1, 2, 17, 64])
def test_every_dimension_obeys_the_laws(dim: int) -> None:
    for dtype in (torch.float64, torch.float32):
        _obeys(hgeo.PoincareBall(1.0), ALGEBRA, dtype, dim=dim, examples=100 if dim < 64 else 40)


def test_five_hundred_dimensions_obey_the_laws() -> None:
    _obeys(hgeo.PoincareBall(1.0), ["metric", "maps", "transport", "gyro"], torch.float32, dim=512, examples=20)


FRAMES = [
    (geoopt.Sphere(), 3),
    (geoopt.Lorentz(k=2.0), 3),
    (geoopt.Euclidean(ndim=1), 3),
    (geoopt.PoincareBall(c=0.5), 3),
    (geoopt.Scaled(geoopt.Sphere(), 2.0), 2),
    (geoopt.Scaled(geoopt.PoincareBall(), 0.5), 2),
    (hgeo.Product((hgeo.PoincareBall(0.5), 2), (geoopt.Sphere(), 2), (geoopt.Euclidean(ndim=1), 1)), 5),
    (hgeo.Product((hgeo.PoincareBall(2.0), 2), (hgeo.PoincareBall(0.0), 2)), 4),
    (hgeo.Klein(2.0), 1),
    (hgeo.Product((hgeo.Klein(), 2), (hgeo.SphereProjection(0.5), 2)), 4),
]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(
    ("manifold", "dim"), FRAMES, ids=[f"{type(m).__name__}-{i}" for i, (m, _) in enumerate(FRAMES)]
)
def test_origin_frames_of_every_kind_of_space(manifold: object, dim: int, dtype: torch.dtype) -> None:
    _obeys(manifold, ["frame"], dtype, dim=dim)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(
    ("kind", "c", "dim"), [("lorentz", 1e-4, 2), ("lorentz", 100.0, 17), ("klein", 1e-4, 2), ("klein", 100.0, 17)]
)
def test_other_hyperbolic_models_of_every_curvature_and_dimension(
    kind: str, c: float, dim: int, dtype: torch.dtype
) -> None:
    _obeys(hgeo.space(f"{kind}:{dim},c={c}").manifold, [*ALGEBRA, "models", "frame"], dtype, dim=dim)


FOUND = {
    "curvature_derivative_of_logmap": {"x": [-0.2865699, 0.9570155], "y": [-0.28656986, 0.9570155]},
    "curvature_derivative_of_transp": {"x": [0.7063997, -0.7063997], "y": [-0.7064008, 0.70639855], "g": [1.0, 0.0]},
    "curvature_derivative_of_dist2plane": {"x": [0.7, 0.0, 0.0], "y": [-0.7071, 0.0, 0.7071], "g": [0.6, 0.6, 0.6]},
}


# two points that touch, side by side as seen from the origin: their coaddition rests on a sum that cancels
ASIDE = {"x": [-0.5773502536345305] * 3, "y": [-0.5773502536345302, -0.5773502536345305, -0.5773502536345308]}


def test_coaddition_of_points_side_by_side_keeps_its_derivative_by_the_curvature() -> None:
    entry = laws.REGISTER["curvature_derivative_of_mobius_cosub"]
    points = {name: torch.tensor(value, dtype=torch.float64) for name, value in ASIDE.items()}
    assert entry.error(hgeo.PoincareBall(1.0), dtype=torch.float64, **points) < 0.05 * entry.tolerance(torch.float64)


@pytest.mark.parametrize("name", FOUND)
def test_what_ten_thousand_examples_found_near_the_boundary_stays_repaired(name: str) -> None:
    entry = laws.REGISTER[name]
    error = entry.error(hgeo.PoincareBall(1.0), dtype=torch.float32, **FOUND[name])
    assert error < 0.05 * entry.tolerance(torch.float32)


def test_what_ten_thousand_examples_found_far_out_on_a_sphere_stays_repaired() -> None:
    entry = laws.REGISTER["geodesic_sets_out_with_the_logarithm"]
    found = {"x": [59.0715, -80.6881], "y": [59.07, -80.69]}
    assert entry.error(hgeo.SphereProjection(1.0), dtype=torch.float32, **found) < 0.05 * entry.tolerance(torch.float32)


@pytest.mark.parametrize("k", [-1.0, 1.0])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_geodesic_between_points_that_touch_keeps_the_digits_of_its_velocity(k: float, dtype: torch.dtype) -> None:
    x = torch.tensor([0.3, 0.4], dtype=dtype)
    y, t = x * (1 + 4 * torch.finfo(dtype).eps), torch.zeros(1, dtype=dtype)
    velocity = torch.func.jacfwd(lambda t: hgeo.math.geodesic(t, x, y, k=k))(t).squeeze(-1)
    torch.testing.assert_close(velocity, hgeo.math.logmap(x, y, k=k), rtol=16 * torch.finfo(dtype).eps, atol=0)


@pytest.mark.parametrize(
    ("name", "points"),
    [
        ("gradient_of_dist", {"x": [0.0, 0.1], "y": [-6.0e-16, 0.1]}),
        ("gradient_of_dist2", {"x": [0.0, 0.14], "y": [0.0, 0.14]}),
        ("gradient_of_dist2plane", {"x": [0.0, 0.6044134], "y": [1.2747549e-15, 0.6044134], "g": [0.7, 0.7]}),
    ],
)
@pytest.mark.parametrize("manifold", [hgeo.PoincareBall(1.0), hgeo.SphereProjection(1.0), hgeo.Stereographic(0.0)])
def test_points_that_all_but_touch_keep_the_direction_of_their_gradient(
    manifold: object, name: str, points: dict[str, list[float]]
) -> None:
    entry = laws.REGISTER[name]
    assert entry.error(manifold, dtype=torch.float32, **points) < 0.05 * entry.tolerance(torch.float32)


@pytest.mark.parametrize("name", ["oracle_geodesic", "curvature_derivative_of_geodesic", "gradient_of_geodesic"])
def test_no_law_asks_for_the_point_at_infinity(name: str) -> None:
    x = torch.tensor([0.0, 0.0, -10.0])
    sphere = hgeo.SphereProjection(1.0)
    assert laws.REGISTER[name].error(sphere, dtype=torch.float64, t=[0.5], x=x, y=-x) == laws.SKIPPED
    assert 0 <= laws.REGISTER[name].error(sphere, dtype=torch.float64, t=[0.25], x=x, y=-x) < 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("manifold", [hgeo.PoincareBall(1.0), hgeo.SphereProjection(1.0), hgeo.Stereographic(0.0)])
def test_ten_thousand_examples_a_law(manifold: object, dtype: torch.dtype) -> None:
    _obeys(manifold, EVERYTHING, dtype, examples=10_000)
