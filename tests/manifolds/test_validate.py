"""Looking at values: which row is wrong, and by how much."""

from fractions import Fraction

import geoopt
import pytest
import torch

import hgeo


@pytest.mark.parametrize(
    "text", ["ball:3", "ball:3,c=0", "stereo:3", "sproj:3", "lorentz:3", "klein:3", "sphere:3", "euclidean:3"]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_validate_returns_points_that_are_right(text, dtype):
    manifold, d = hgeo.space(text)
    x = hgeo.exp0(manifold, torch.randn(30, d, dtype=dtype, generator=torch.Generator().manual_seed(0)))
    assert hgeo.validate(manifold, x) is x


@pytest.mark.parametrize(
    ("manifold", "x", "message"),
    [
        (
            hgeo.PoincareBall(),
            torch.tensor([[0.1, 0.2], [0.0, 0.0], [3.0, 4.0]]),
            r"x: 1 of 3 rows are wrong; the first is row 2: √c\|x\| = 5, .*projx",
        ),
        (hgeo.PoincareBall(4.0), torch.tensor([0.3, 0.4]), r"x: √c\|x\| = 1\.00000002, "),
        (hgeo.Klein(), torch.tensor([[0.0, 0.5], [0.0, 3.0]]), r"row 1: √c\|x\| = 3"),
        (hgeo.Stereographic(-1.0), torch.tensor([[[0.0, 2.0]]]), r"row \(0, 0\): √c\|x\| = 2"),
        (hgeo.PoincareBall(), torch.tensor([[0.1], [float("nan")]]), r"row 1: \[nan\] is not finite"),
        (geoopt.Euclidean(1), torch.tensor([[float("inf")]]), "is not finite"),
        (geoopt.Sphere(), torch.tensor([[1.0, 0.0], [1.0, 1.0]]), r"row 1: \|x\| = 1\.4142.* instead of 1"),
        (hgeo.Lorentz(), torch.tensor([[1.0, 1.0]]), r"row 0: c\(-x₀² \+ \|x'\|²\) = 0 instead of -1"),
        (hgeo.Lorentz(), torch.tensor([[-1.0, 0.0]]), "with x₀ > 0"),
        (hgeo.space("euclidean:1 x ball:1").manifold, torch.tensor([[9.0, 2.0]]), r"x, factor 1: .*= 2"),
        (geoopt.Scaled(geoopt.Sphere(), 2.0), torch.tensor([[2.0, 0.0]]), r"\|x\| = 2 instead of 1"),
    ],
)
def test_a_wrong_row_is_named_with_its_error(manifold, x, message):
    with pytest.raises(ValueError, match=message):
        hgeo.validate(manifold, x)


def test_the_error_names_the_argument():
    with pytest.raises(ValueError, match=r"^features: "):
        hgeo.validate(hgeo.PoincareBall(), torch.ones(1, 2), name="features")


@pytest.mark.parametrize(("x", "kind"), [(torch.zeros(2, dtype=torch.int64), "int64"), ([0.0, 0.0], "list")])
def test_an_argument_that_is_no_tensor_of_points_is_refused(x, kind):
    with pytest.raises(TypeError, match=f"expected a floating-point tensor of points, got .*{kind}"):
        hgeo.validate(hgeo.PoincareBall(), x)


def test_rows_that_only_the_manifold_itself_can_judge_are_named():
    frames = torch.stack([torch.eye(3)[:, :2], torch.ones(3, 2), torch.eye(3)[:, 1:]])
    with pytest.raises(ValueError, match=r"1 of 3 rows are wrong; the first is row 1: not a point of Stiefel"):
        hgeo.validate(geoopt.Stiefel(), frames)
    with pytest.raises(ValueError, match=r"row 2: it lies 1 off the subspace"):
        hgeo.validate(geoopt.Sphere(intersection=torch.eye(3)[:, :2]), torch.eye(3))
    hgeo.validate(geoopt.Sphere(intersection=torch.eye(3)[:, :2]), torch.eye(3)[:2])


def test_an_object_that_is_no_manifold_and_an_empty_point_are_refused():
    with pytest.raises(TypeError, match="expected a geoopt manifold, got str"):
        hgeo.validate("ball", torch.zeros(2))
    with pytest.raises(ValueError, match=r"expected points of shape \(\.\.\., n\), n ≥ 1, got shape \(3, 0\)"):
        hgeo.validate(hgeo.Lorentz(), torch.rand(3, 0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("make", [hgeo.PoincareBall, hgeo.Klein])
def test_points_one_ulp_inside_the_boundary_are_points(make, dtype):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(4000, 3, dtype=torch.float64, generator=generator)
    x = (x / x.norm(dim=-1, keepdim=True)).to(dtype)
    x = x[[sum(Fraction(number) ** 2 for number in row) < 1 for row in x.tolist()]]
    assert len(x) > 500
    manifold = make(torch.tensor(1.0, dtype=dtype))
    hgeo.validate(manifold, x)
    assert manifold.check_point_on_manifold(x)
    with pytest.raises(ValueError, match="√c"):
        hgeo.validate(manifold, torch.nextafter(x.sign(), 2 * x.sign()))
