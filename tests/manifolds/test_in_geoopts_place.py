"""hgeo's manifolds stand where geoopt's stood: they take its call forms, and a scaled space can be pickled."""

import copy
import pickle
import subprocess
import sys

import geoopt
import pytest
import torch

import hgeo

REPLACED = """
import geoopt, hgeo, torch
for name in ("PoincareBall", "Stereographic", "SphereProjection", "Lorentz"):
    setattr(geoopt, name, getattr(hgeo, name))
spaces = [geoopt.PoincareBall(c=0.5), geoopt.Stereographic(-1.0), geoopt.SphereProjection(1.0), geoopt.Lorentz(k=2.0)]
x = hgeo.exp0(hgeo.Product(*[(space, 2) for space in spaces]), torch.randn(3, 8))
assert torch.isfinite(x).all()
"""


def test_a_program_may_put_hgeos_classes_in_place_of_geoopts():
    subprocess.run([sys.executable, "-c", REPLACED], check=True)


def test_the_hyperboloid_takes_geoopts_k_and_tangent_vectors_without_their_point():
    ours, theirs = hgeo.Lorentz(k=2.0), geoopt.Lorentz(k=2.0)
    assert ours.c.item() == 0.5
    x = theirs.projx(torch.randn(5, 4))
    u, v = (theirs.proju(x, torch.randn(5, 4)) for _ in range(2))
    torch.testing.assert_close(ours.norm(u), theirs.norm(u))
    torch.testing.assert_close(ours.norm(x, u), theirs.norm(u))
    torch.testing.assert_close(ours.inner(None, u, v, keepdim=True), theirs.inner(None, u, v, keepdim=True))
    torch.testing.assert_close(ours.inner(x, u, v), theirs.inner(x, u, v), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("space", [hgeo.PoincareBall(), hgeo.SphereProjection(), hgeo.Lorentz()])
def test_a_time_is_a_number_or_a_tensor(space):
    x, y = (hgeo.exp0(space, 0.3 * torch.randn(4, 3)) for _ in range(2))
    u = space.logmap(x, y)
    torch.testing.assert_close(space.geodesic(1, x, y), y)
    for one in (1, torch.tensor(1)):
        torch.testing.assert_close(space.geodesic_unit(one, x, u), space.geodesic_unit(torch.tensor(1.0), x, u))


def test_the_inner_product_of_vectors_without_a_point_is_minkowskis():
    ours = hgeo.Lorentz()
    x = hgeo.exp0(ours, torch.randn(4, 3, dtype=torch.float64))
    u = ours.proju(x, torch.randn(4, 4, dtype=torch.float64))
    torch.testing.assert_close(ours.inner(u, u), ours.inner(None, u, u))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_arcsine_of_one_has_a_finite_gradient(dtype):
    sine, k = torch.ones(3, dtype=dtype, requires_grad=True), torch.ones(3, dtype=dtype, requires_grad=True)
    value = hgeo.math.arsin_k(sine, k=k)
    value.sum().backward()
    torch.testing.assert_close(value, torch.full_like(value, torch.pi / 2))
    assert torch.isfinite(sine.grad).all()
    assert torch.isfinite(k.grad).all()


def test_a_factor_is_a_number_or_a_tensor():
    ball, x = hgeo.PoincareBall(), torch.tensor([0.3, 0.1])
    torch.testing.assert_close(ball.mobius_scalar_mul(2, x), ball.mobius_add(x, x))


@pytest.mark.parametrize("k", [-1.0, 0.0, 0.5])
def test_the_embedding_has_its_inverse_and_finite_gradients_also_without_curvature(k):
    space = hgeo.Stereographic(k, learnable=True)
    x = (0.3 * torch.randn(4, 3)).requires_grad_()
    back = space.sproj(space.inv_sproj(x))
    torch.testing.assert_close(back, x)
    back.sum().backward()
    assert torch.isfinite(x.grad).all()
    assert torch.isfinite(space.k.grad)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda space: pickle.loads(pickle.dumps(space))])
@pytest.mark.parametrize("learnable", [False, True])
def test_a_scaled_space_is_copied_with_its_scale(copied, learnable):
    space = hgeo.Scaled(hgeo.Scaled(hgeo.PoincareBall(0.5, learnable=learnable), 2.0), 1.5, learnable=learnable)
    twin = copied(space)
    x, y = hgeo.exp0(space, torch.randn(2, 4, 3)).detach()
    torch.testing.assert_close(twin.dist(x, y), space.dist(x, y))
    assert twin.dist.__self__ is twin
    assert twin.state_dict().keys() == space.state_dict().keys()
    assert hgeo.manifolds.describe(twin, 3) == hgeo.manifolds.describe(space, 3)
