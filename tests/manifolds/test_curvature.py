"""A curvature is what it was made of, trains through 0, and travels with its manifold."""

import copy
import pickle

import geoopt
import pytest
import torch

import hgeo
from hgeo.manifolds import bounded_below
from hgeo.optim import riemannian_adam

EVERY_SIZE = [0.0, 1e-12, 1e-8, 1e-4, 1.0, 100.0, 1e4]
FAMILY = {
    "ball": lambda **options: hgeo.PoincareBall(0.3, **options),
    "stereo": lambda **options: hgeo.Stereographic(-0.2, **options),
    "sproj": lambda **options: hgeo.SphereProjection(0.4, **options),
    "lorentz": lambda **options: hgeo.Lorentz(0.7, **options),
    "klein": lambda **options: hgeo.Klein(0.7, **options),
}


def magnitude(manifold):
    """The curvature of any of them, as it is called there."""
    return (manifold.c if isinstance(manifold, hgeo.Klein) else manifold.k).item()


@pytest.mark.parametrize("c", EVERY_SIZE)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_it_survives_its_own_parametrisation_to_the_last_bit(c, dtype):
    exact = torch.tensor(c, dtype=dtype)
    assert hgeo.PoincareBall(exact).c.item() == exact.item()
    assert hgeo.PoincareBall(exact).k.item() == -exact.item()
    assert hgeo.SphereProjection(exact).k.item() == exact.item()
    assert hgeo.Stereographic(-exact).k.item() == -exact.item()
    assert hgeo.PoincareBall(c).to(dtype).c.item() == torch.tensor(c).to(dtype).item()


def test_zero_curvature_is_exactly_euclidean():
    generator = torch.Generator().manual_seed(0)
    x, y, u = (torch.randn(50, 4, generator=generator) for _ in range(3))
    for manifold in (hgeo.PoincareBall(0.0), hgeo.Stereographic(0.0), hgeo.SphereProjection(0.0)):
        assert torch.equal(manifold.mobius_add(x, y), x + y)
        assert torch.equal(manifold.expmap0(u), u)
        assert torch.equal(manifold.logmap0(x), x)
        assert torch.equal(manifold.expmap(x, u), x + u)
        assert torch.equal(manifold.transp(x, y, u), u)
        assert torch.equal(manifold.projx(1e6 * x), 1e6 * x)
        assert torch.equal(manifold.gyration(x, y, u), u)
        torch.testing.assert_close(manifold.dist(x, y), 2 * (x - y).norm(dim=-1), rtol=1e-6, atol=0)


@pytest.mark.parametrize("make", [lambda m: torch.optim.Adam(m.parameters(), 0.01), lambda m: riemannian_adam(m, 0.01)])
@pytest.mark.parametrize("cls", [hgeo.PoincareBall, hgeo.SphereProjection])
def test_zero_is_left_when_the_gradient_says_so_and_never_crossed(make, cls):
    manifold = cls(0.0, learnable=True)
    optimizer = make(manifold)
    x, y = torch.tensor([0.4, 0.0]), torch.tensor([0.0, 0.4])
    flat = manifold.dist(x, y).item()

    def pull(target):
        optimizer.zero_grad()
        (manifold.dist(x, y) - target).square().backward()
        optimizer.step()
        magnitude = manifold.k.abs().item()
        assert manifold.k.isfinite()
        assert manifold.k.item() * (1 if cls is hgeo.SphereProjection else -1) >= 0
        return magnitude

    bent = 1.2 if cls is hgeo.PoincareBall else 0.8  # distances at fixed coordinates grow with c, shrink with k
    grown = [pull(bent * flat) for _ in range(30)]
    assert grown[0] > 0
    assert grown[-1] > 0.1
    shrunk = [pull((2 - bent) * flat) for _ in range(100)]
    assert shrunk[-1] == 0
    assert max(pull(bent * flat) for _ in range(60)) > 0.1  # and back again


def test_a_signed_curvature_crosses_zero_in_training():
    manifold = hgeo.Stereographic(-0.3, learnable=True)
    optimizer = torch.optim.Adam(manifold.parameters(), 0.02)
    x, y = torch.tensor([0.4, 0.0]), torch.tensor([0.0, 0.4])
    target = hgeo.math.dist(x, y, k=0.3)
    for _ in range(200):
        optimizer.zero_grad()
        (manifold.dist(x, y) - target).square().backward()
        optimizer.step()
    assert manifold.k.item() == pytest.approx(0.3, abs=0.01)


def test_the_bound_passes_gradients_that_lead_inside_and_stops_those_that_lead_out():
    for stored, sign, expected in ((0.0, 1.0, 0.0), (0.0, -1.0, -1.0), (-0.5, -1.0, -1.0), (0.5, 1.0, 1.0)):
        p = torch.tensor(stored, requires_grad=True)
        (sign * bounded_below(p)).backward()
        assert p.grad.item() == expected


@pytest.mark.parametrize("kind", FAMILY)
@pytest.mark.parametrize(
    "copied",
    [
        copy.deepcopy,
        lambda m: pickle.loads(pickle.dumps(m)),
        lambda m: m.to(torch.float64),
        lambda m: copy.deepcopy(m).double(),
        lambda m: copy.deepcopy(m).to("cpu"),
    ],
    ids=["deepcopy", "pickle", "to", "double", "device"],
)
@pytest.mark.parametrize("learnable", [True, False])
def test_copies_and_conversions_keep_class_and_curvature(kind, copied, learnable):
    manifold = FAMILY[kind](learnable=learnable)
    before = magnitude(manifold)
    other = copied(manifold)
    assert type(other) is type(manifold)
    assert other.learnable is learnable
    assert magnitude(other) == pytest.approx(before, rel=1e-6)
    assert repr(other) == repr(manifold)


@pytest.mark.parametrize("kind", FAMILY)
def test_a_state_dict_restores_the_curvature(kind):
    manifold, fresh = FAMILY[kind](), FAMILY[kind]()
    with torch.no_grad():
        next(fresh.parameters()).mul_(2)
    assert magnitude(fresh) != magnitude(manifold)
    fresh.load_state_dict(manifold.state_dict())
    assert magnitude(fresh) == magnitude(manifold)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (geoopt.PoincareBall(0.37), hgeo.PoincareBall(1.0)),
        (geoopt.SphereProjection(0.37), hgeo.SphereProjection(1.0)),
        (geoopt.Stereographic(-0.37), hgeo.Stereographic(1.0)),
        (geoopt.Lorentz(2.5), hgeo.Lorentz(1.0)),
    ],
)
def test_state_dicts_of_geoopts_manifolds_load(theirs, ours):
    ours.load_state_dict(theirs.state_dict())
    assert ours.k.item() == pytest.approx(theirs.k.item(), rel=1e-6)


def test_state_dicts_of_geoopts_manifolds_load_inside_a_model():
    theirs, ours = torch.nn.Module(), torch.nn.Module()
    theirs.manifold, ours.manifold = geoopt.PoincareBall(0.37), hgeo.PoincareBall(1.0)
    ours.load_state_dict(theirs.state_dict())
    assert ours.manifold.c.item() == pytest.approx(0.37, rel=1e-6)


@pytest.mark.parametrize(
    ("cls", "value", "error", "message"),
    [
        (hgeo.PoincareBall, -1.0, ValueError, r"c must be a finite number ≥ 0, got -1.*hgeo\.SphereProjection"),
        (hgeo.PoincareBall, float("nan"), ValueError, "c must be a finite number ≥ 0, got nan"),
        (hgeo.PoincareBall, float("inf"), ValueError, "got inf"),
        (hgeo.PoincareBall, torch.tensor(-2.0), ValueError, "got -2"),
        (hgeo.PoincareBall, torch.ones(2), ValueError, r"must be one number, got a tensor of shape \(2,\)"),
        (hgeo.PoincareBall, "1", TypeError, "must be a number or a scalar tensor, got str"),
        (hgeo.PoincareBall, True, TypeError, "got bool"),
        (hgeo.SphereProjection, -1.0, ValueError, r"k must be a finite number ≥ 0.*hgeo\.PoincareBall"),
        (hgeo.Stereographic, float("nan"), ValueError, "k must be a finite number, got nan"),
        (hgeo.Lorentz, 0.0, ValueError, r"c must be a finite number ≥ 1e-06, got 0.*hgeo\.PoincareBall"),
        (hgeo.Klein, -1.0, ValueError, r"c must be a finite number ≥ 1e-06, got -1"),
    ],
)
def test_an_impossible_curvature_is_refused_with_the_way_out(cls, value, error, message):
    with pytest.raises(error, match=message):
        cls(value)


@pytest.mark.parametrize(("dtype", "length"), [(torch.float32, 7.0), (torch.float64, 16.0)])
@pytest.mark.parametrize("c", [0.01, 1.0, 100.0])
def test_far_tangent_vectors_survive_the_ball_with_a_gradient_that_does_not_vanish(dtype, length, c):
    ball = hgeo.PoincareBall(torch.tensor(c, dtype=dtype))
    direction = torch.tensor([0.6, -0.48, 0.64], dtype=dtype)
    v = (direction * length / c**0.5).requires_grad_(True)
    back = hgeo.log0(ball, hgeo.exp0(ball, v))
    torch.testing.assert_close(back, v, rtol=0.02, atol=0)
    (gradient,) = torch.autograd.grad((back * direction).sum(), v)
    assert gradient.norm() > 0.5
