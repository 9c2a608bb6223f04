"""The wrapped normal distribution: laws of any density, and of this one."""

import doctest
import importlib
import math

import geoopt
import mpmath
import numpy as np
import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

import hgeo
from hgeo.distributions import WrappedNormal


def number(value):
    return torch.tensor(value, dtype=torch.float64)


# name -> (manifold, intrinsic dimension, curvature)
SPACES = {
    "ball": (lambda: hgeo.PoincareBall(number(1.3)), 2, -1.3),
    "ball in three dimensions": (lambda: hgeo.PoincareBall(number(0.6)), 3, -0.6),
    "flat ball": (lambda: hgeo.PoincareBall(number(0.0)), 2, 0.0),
    "stereo": (lambda: hgeo.Stereographic(number(-0.5)), 2, -0.5),
    "lorentz": (lambda: hgeo.Lorentz(number(0.8)), 2, -0.8),
    "lorentz in three dimensions": (lambda: hgeo.Lorentz(number(1.0)), 3, -1.0),
    "klein": (lambda: hgeo.Klein(number(0.7)), 2, -0.7),
    "euclidean": (lambda: geoopt.Euclidean(1), 2, 0.0),
    "sphere": (lambda: geoopt.Sphere(), 2, 1.0),
    "sphere in three dimensions": (lambda: geoopt.Sphere(), 3, 1.0),
    "projected sphere": (lambda: hgeo.SphereProjection(number(1.7)), 2, 1.7),
    "scaled": (lambda: geoopt.Scaled(hgeo.PoincareBall(number(1.0)), 2.0), 2, -0.25),
    "scaled sphere": (lambda: geoopt.Scaled(geoopt.Sphere(), 0.5), 2, 4.0),
}
EVERY = pytest.mark.parametrize("name", SPACES)


def made(name, sigma=(0.5, 0.3, 0.4)):
    """The space, a distribution on it with its own deviation along every coordinate, and its dimension."""
    make, d, k = SPACES[name]
    manifold = make()
    loc = hgeo.exp0(manifold, number([0.4, -0.3, 0.2])[:d])
    sigma = number(sigma)[:d] / math.sqrt(max(k, 1.0))  # so that none to speak of goes around a sphere
    return manifold, WrappedNormal(manifold, loc, sigma), d, k


def gauss(count, end):
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return torch.from_numpy((nodes + 1) * end / 2), torch.from_numpy(weights * end / 2)


def directions(d):
    """Unit vectors of the plane or of space, and the weights of an integral over them."""
    turn = torch.arange(80, dtype=torch.float64) * (2 * math.pi / 80)
    circle = torch.stack([torch.cos(turn), torch.sin(turn)], dim=-1)
    if d == 2:
        return circle, torch.full((80,), 2 * math.pi / 80, dtype=torch.float64)
    height, weight = gauss(40, 2.0)
    height = height - 1
    flat = torch.sqrt(1 - height * height)
    vectors = torch.cat([flat[:, None, None] * circle, height[:, None, None].expand(-1, 80, 1)], dim=-1)
    return vectors.reshape(-1, 3), (weight[:, None] * (2 * math.pi / 80)).expand(-1, 80).reshape(-1)


def integral(manifold, density, d, k, reach):
    """∫ density dvolume in geodesic polar coordinates around the origin; dvolume = (sin_k r)^(d-1) dr dω."""
    reach = min(reach, math.pi / math.sqrt(k)) if k > 0 else reach
    radius, weight = gauss(160, reach)
    unit, share = directions(d)
    sine = torch.sinh(math.sqrt(-k) * radius) / math.sqrt(-k) if k < 0 else radius
    if k > 0:
        sine = torch.sin(math.sqrt(k) * radius) / math.sqrt(k)
    v = radius[:, None, None] * unit / hgeo.frame_scale(manifold)
    values = density(hgeo.exp0(manifold, v))
    return float((values * (weight * sine ** (d - 1))[:, None] * share).sum())


@pytest.fixture(autouse=True)
def checks_are_on(monkeypatch):
    """torch.compile turns the checks of all distributions off for the rest of the process."""
    monkeypatch.setattr(torch.distributions.Distribution, "_validate_args", True)


@EVERY
def test_it_integrates_to_1(name):
    manifold, normal, d, k = made(name)
    total = integral(manifold, lambda x: normal.log_prob(x).exp(), d, k, reach=6.0)
    assert total == pytest.approx(1, abs=2e-6)


@pytest.mark.parametrize("sigma", [1.0, 2.0, 3.0])
@pytest.mark.parametrize("name", ["sphere", "projected sphere"])
def test_it_integrates_to_1_where_it_goes_around_the_sphere(name, sigma):
    manifold, _, d, k = made(name)
    centre = hgeo.exp0(manifold, torch.zeros(d, dtype=torch.float64))
    normal = WrappedNormal(manifold, centre, sigma / math.sqrt(k))
    total = integral(manifold, lambda x: normal.log_prob(x).exp(), d, k, reach=10.0)
    assert total == pytest.approx(1, abs=3e-3)
    shortest_way_only = 1 - math.exp(-((math.pi / sigma) ** 2) / 2)
    assert abs(total - 1) < (1 - shortest_way_only) / 2


def test_on_a_circle_it_is_the_classic_wrapped_normal():
    circle = geoopt.Sphere()
    angle = torch.linspace(-3, 3, 13, dtype=torch.float64)
    normal = WrappedNormal(circle, number([1.0, 0.0]), 1.5)
    ours = normal.log_prob(torch.stack([torch.cos(angle), torch.sin(angle)], dim=-1)).exp()
    images = angle[:, None] + 2 * math.pi * torch.arange(-9, 10, dtype=torch.float64)
    classic = torch.distributions.Normal(number(0.0), number(1.5)).log_prob(images).exp().sum(-1)
    torch.testing.assert_close(ours, classic, rtol=1e-9, atol=0)


@pytest.mark.parametrize("name", ["flat ball", "euclidean"])
def test_on_flat_space_it_is_the_normal_distribution(name):
    manifold, normal, d, _ = made(name)
    unit = hgeo.frame_scale(manifold)  # distances are 2|x - y| on the flat ball
    classic = torch.distributions.MultivariateNormal(unit * normal.loc, torch.diag(normal.scale**2))
    x = torch.randn(50, d, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(normal.log_prob(x), classic.log_prob(unit * x), rtol=1e-12, atol=1e-12)


def test_the_normal_distribution_is_its_limit_from_both_signs():
    x = 0.5 * torch.randn(50, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))

    def log_prob(k):
        return WrappedNormal(hgeo.Stereographic(number(k)), number([0.2, 0.1]), 0.7).log_prob(x)

    torch.testing.assert_close(log_prob(1e-9), log_prob(0.0), rtol=1e-7, atol=1e-7)
    torch.testing.assert_close(log_prob(-1e-9), log_prob(0.0), rtol=1e-7, atol=1e-7)
    manifold = hgeo.Stereographic(number(0.0), learnable=True)
    slope = torch.autograd.grad(WrappedNormal(manifold, number([0.2, 0.1]), 0.7).log_prob(x).sum(), manifold.k)[0]
    step = 1e-5
    torch.testing.assert_close(slope, (log_prob(step) - log_prob(-step)).sum() / (2 * step), rtol=1e-6, atol=0)


@EVERY
def test_samples_have_the_centre_as_mean_and_the_deviations_as_scatter(name):
    manifold, normal, _, _ = made(name)
    torch.manual_seed(3)
    count = 20_000
    x = normal.sample((count,))
    hgeo.validate(manifold, x[:100])
    back = hgeo.manifolds.translate_back(manifold, normal.loc, x)
    v = hgeo.log0(manifold, back) * hgeo.frame_scale(manifold)
    scatter = v.T @ v / count
    error = torch.outer(normal.scale, normal.scale) * math.sqrt(2 / count)
    assert ((scatter - torch.diag(normal.scale**2)).abs() < 5 * error).all()
    assert (v.mean(0).abs() < 5 * normal.scale / math.sqrt(count)).all()


@EVERY
def test_samples_are_distributed_as_the_density_says(name):
    """The share of samples in a ball around the origin is the integral of the density over it."""
    manifold, normal, d, k = made(name)
    torch.manual_seed(4)
    count, radius = 20_000, 0.8 / math.sqrt(max(k, 1.0))
    x = normal.sample((count,))
    origin = hgeo.exp0(manifold, torch.zeros(d, dtype=torch.float64))
    share = float((hgeo.dist(manifold, origin.expand_as(x), x) < radius).double().mean())
    expected = integral(manifold, lambda x: normal.log_prob(x).exp(), d, k, reach=radius)
    assert 0.1 < expected < 0.9
    assert abs(share - expected) < 5 * math.sqrt(expected * (1 - expected) / count)


def test_all_models_of_a_space_have_the_same_density():
    v, w = 0.8 * torch.randn(2, 40, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    found = []
    for manifold in (hgeo.PoincareBall(number(0.7)), hgeo.Lorentz(number(0.7)), hgeo.Klein(number(0.7))):
        unit = hgeo.frame_scale(manifold)
        normal = WrappedNormal(manifold, hgeo.exp0(manifold, v / unit), number([0.5, 0.3, 0.9]))
        found.append(normal.log_prob(hgeo.exp0(manifold, w / unit)))
    torch.testing.assert_close(found[1], found[0], rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(found[2], found[0], rtol=1e-9, atol=1e-9)
    scaled = WrappedNormal(geoopt.Scaled(hgeo.PoincareBall(number(2.8)), 2.0), number([0.0, 0.0, 0.0]), 0.5)
    plain = WrappedNormal(hgeo.PoincareBall(number(0.7)), number([0.0, 0.0, 0.0]), 0.5)
    x = 0.1 * w
    torch.testing.assert_close(scaled.log_prob(x), plain.log_prob(2 * x))


def test_on_a_product_the_factors_are_independent():
    ball, sphere = hgeo.PoincareBall(number(0.7)), geoopt.Sphere()
    product = hgeo.Product((ball, 2), (sphere, 1))
    first, second = number([0.2, 0.1]), number([0.6, 0.8])
    normal = WrappedNormal(product, torch.cat([first, second]), number([0.3, 0.4, 0.5]))
    torch.manual_seed(0)
    x = normal.sample((100,))
    parts = WrappedNormal(ball, first, number([0.3, 0.4])), WrappedNormal(sphere, second, 0.5)
    torch.testing.assert_close(normal.log_prob(x), parts[0].log_prob(x[:, :2]) + parts[1].log_prob(x[:, 2:]))
    turned = hgeo.manifolds.translate_back(sphere, second, x[:, 2:])
    assert float(hgeo.log0(sphere, turned).std()) == pytest.approx(0.5, rel=0.2)
    moved = hgeo.manifolds.translate_back(ball, first, x[:, :2])
    assert float((2 * hgeo.log0(ball, moved)).std(0)[0]) == pytest.approx(0.3, rel=0.2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", SPACES)
def test_derivatives_are_finite_and_right_at_the_centre_itself(name, dtype):
    make, d, _ = SPACES[name]
    manifold = make()
    start = hgeo.exp0(manifold, number([0.4, -0.3, 0.2])[:d]).to(dtype)
    loc, x = start.clone().requires_grad_(), start.clone().requires_grad_()
    scale = torch.tensor(0.4, dtype=dtype, requires_grad=True)
    top = WrappedNormal(manifold, loc, scale, validate_args=False).log_prob(x)
    torch.testing.assert_close(top.double(), number(-d * math.log(0.4 * math.sqrt(2 * math.pi))), rtol=1e-5, atol=1e-6)
    slopes = torch.autograd.grad(top, [loc, x, scale])
    for slope in slopes:
        assert torch.isfinite(slope).all()
    assert slopes[0].abs().max() < 1e-4
    assert slopes[1].abs().max() < 1e-4
    torch.testing.assert_close(slopes[2].double(), number(-d / 0.4), rtol=1e-4, atol=0)


def test_first_and_second_derivatives_are_right():
    ball = hgeo.PoincareBall(number(0.8), learnable=True)
    loc, scale = number([[0.2, 0.1], [0.0, 0.3]]), number([0.4, 0.7])
    apart = number([[0.5, -0.3], [0.0, 0.3 + 1e-3]])

    def log_prob(x, loc, scale, c):
        return WrappedNormal(ball, loc, scale).log_prob(x)

    inputs = [value.requires_grad_() for value in (apart, loc, scale, ball.stored_c)]
    assert gradcheck(log_prob, inputs)
    assert gradgradcheck(log_prob, inputs)
    x = loc.detach().clone().requires_grad_()  # the second derivative by the point at the centre is λ²/σ²
    curvature = torch.autograd.functional.hessian(lambda x: log_prob(x, loc, 0.5, None)[0], x)[0, :, 0, :]
    length = hgeo.math.lambda_x(loc[0], k=-0.8).detach()
    volume = 0.8 / 3  # and half of it from the volume, (d - 1) c/3
    torch.testing.assert_close(curvature, -(length**2) * (4 + volume) * torch.eye(2, dtype=torch.float64))


def test_samples_carry_gradients_to_the_centre_the_deviations_and_the_curvature():
    ball = hgeo.PoincareBall(number(0.8), learnable=True)

    def sample(loc, scale, c):
        torch.manual_seed(0)
        return WrappedNormal(ball, loc, scale).rsample((5,))

    inputs = number([[0.2, 0.1], [0.0, 0.3]]).requires_grad_(), number([0.4, 0.7]).requires_grad_(), ball.stored_c
    assert gradcheck(sample, inputs)
    assert not WrappedNormal(ball, inputs[0], 0.3).sample().requires_grad


@pytest.mark.parametrize(("dtype", "radius"), [(torch.float32, 12.0), (torch.float64, 30.0)])
@pytest.mark.parametrize("make", [hgeo.PoincareBall, hgeo.Lorentz])
def test_far_out_it_keeps_its_digits(dtype, radius, make):
    manifold, sigma, d = make(), 4.0, 3
    v = torch.zeros(2, d, dtype=dtype)
    v[0, 0], v[1, 0] = radius / 2, -radius / 2
    near, far = hgeo.exp0(manifold, v / hgeo.frame_scale(manifold))
    normal = WrappedNormal(manifold, near, sigma)
    distance = mpmath.mpf(float(hgeo.dist(manifold, near.double(), far.double())))
    exact = -(distance**2) / (2 * sigma**2) - d * mpmath.log(sigma * mpmath.sqrt(2 * mpmath.pi))
    exact -= (d - 1) * mpmath.log(mpmath.sinh(distance) / distance)
    assert float(normal.log_prob(far)) == pytest.approx(float(exact), rel=3e-6 if dtype == torch.float32 else 1e-13)


@pytest.mark.parametrize("z", [-1e6, -30.0, -1.0000001, -0.9999999, -1e-3, 0.0, 1e-3, 1.0, 9.0])
def test_the_volume_of_a_ball_s_shell_is_right_from_the_centre_to_far_out(z):
    k = math.copysign(1.0, z)
    manifold = hgeo.Stereographic(number(k if z else -1.0))
    r = math.sqrt(abs(z))
    if k < 0 and r > 34:
        r = 34.0
    coordinates = number([[r / 2, 0.0, 0.0]])
    x = hgeo.exp0(manifold, coordinates)
    r = float(hgeo.dist(manifold, torch.zeros_like(x), x))
    found = WrappedNormal(manifold, torch.zeros_like(x), 1.0).log_prob(x)
    sine = mpmath.sinh(r) if k < 0 else mpmath.sin(r)
    ways = [r + 2 * math.pi * m for m in ((0,) if k < 0 or not r else (-2, -1, 0, 1, 2))]
    expected = mpmath.log(sum(mpmath.exp(-(way**2) / 2) * ((way / sine) ** 2 if r else 1) for way in ways))
    expected -= 1.5 * mpmath.log(2 * mpmath.pi)
    assert float(found) == pytest.approx(float(expected), rel=1e-9, abs=1e-7)


def test_shapes_are_those_of_torch_s_distributions():
    ball = hgeo.PoincareBall()
    normal = WrappedNormal(ball, torch.zeros(4, 1, 2), torch.ones(3, 1))
    assert (normal.batch_shape, normal.event_shape) == ((4, 3), (2,))
    assert normal.rsample((5,)).shape == (5, 4, 3, 2)
    assert normal.log_prob(torch.zeros(2)).shape == (4, 3)
    wide = WrappedNormal(ball, torch.zeros(2), 0.5).expand((6, 4))
    assert (wide.batch_shape, wide.sample().shape, wide.mean.shape) == ((6, 4), (6, 4, 2), (6, 4, 2))
    assert torch.distributions.Independent(normal, 2).log_prob(normal.sample((7,))).shape == (7,)
    assert "ball" in repr(normal)
    lorentz = hgeo.Lorentz()
    centre = hgeo.exp0(lorentz, torch.zeros(3, 2))
    assert WrappedNormal(lorentz, centre, torch.tensor([0.2, 0.3])).scale.shape == (3, 2)
    inside = torch.tensor([[0.1, 0.2], [3.0, 4.0]])
    assert normal.support.check(inside).tolist() == [True, False]


def test_it_goes_into_a_compiled_graph():
    ball = hgeo.PoincareBall(number(0.8))
    x = 0.2 * torch.randn(6, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch._dynamo.reset()

    def log_prob(x, loc):
        return WrappedNormal(ball, loc, 0.5, validate_args=False).log_prob(x)

    compiled = torch.compile(log_prob, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(x, x.flip(0)), log_prob(x, x.flip(0)))


def test_wrong_arguments_are_refused_with_a_message():
    ball = hgeo.PoincareBall()
    with pytest.raises(ValueError, match=r"loc: √c\|x\| = 5"):
        WrappedNormal(ball, torch.tensor([3.0, 4.0]), 1.0)
    with pytest.raises(ValueError, match="scale"):
        WrappedNormal(ball, torch.zeros(2), -1.0)
    with pytest.raises(ValueError, match=r"'scale' has 3 numbers in its last dimension, and .* has dimension 2"):
        WrappedNormal(ball, torch.zeros(2), torch.ones(3))
    with pytest.raises(ValueError, match="do not broadcast"):
        WrappedNormal(ball, torch.zeros(4, 2), torch.ones(3, 1))
    with pytest.raises(TypeError, match=r"'loc': expected a floating-point tensor of points"):
        WrappedNormal(ball, torch.zeros(2, dtype=torch.int64), 1.0)
    normal = WrappedNormal(ball, torch.zeros(2), 1.0)
    with pytest.raises(ValueError, match=r"value: 1 of 2 rows are wrong"):
        normal.log_prob(torch.tensor([[0.1, 0.2], [3.0, 4.0]]))
    with pytest.raises(ValueError, match="points have 2 numbers here"):
        normal.log_prob(torch.zeros(3))
    unchecked = WrappedNormal(ball, torch.tensor([3.0, 4.0]), 1.0, validate_args=False)
    assert unchecked.batch_shape == ()


@pytest.mark.parametrize("module", ["", "._density", "._wrapped_normal"])
def test_its_examples_run(module):
    assert doctest.testmod(importlib.import_module("hgeo.distributions" + module)).failed == 0
