"""Entailment cones: laws that any formula for them must obey, and what a wrong one breaks."""

import math

import pytest
import torch

import hgeo
import hgeo.math as hm

CURVATURES = pytest.mark.parametrize("c", [0.05, 1.0, 7.0])


def points(*shape, c, seed, spread=1.5):
    """Points of the ball whose distances to the origin do not depend on c but for the unit 1/√c."""
    v = spread * torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return hm.expmap0(v / math.sqrt(c), k=-c) if c else v


def aperture_is_the_same_on_both_models(aperture_on_the_hyperboloid, c):
    x = points(50, 3, c=c, seed=1)
    return torch.allclose(aperture_on_the_hyperboloid(hm.ball_to_lorentz(x, c=c)), hm.cone_aperture(x, c=c), rtol=1e-9)


@CURVATURES
def test_apertures_and_angles_are_the_same_on_ball_and_hyperboloid(c):
    x, y = points(200, 3, c=c, seed=1), points(200, 3, c=c, seed=2)
    high_x, high_y = hm.ball_to_lorentz(x, c=c), hm.ball_to_lorentz(y, c=c)
    assert aperture_is_the_same_on_both_models(lambda X: hm.lorentz_cone_aperture(X, c=c), c)
    torch.testing.assert_close(hm.lorentz_cone_angle(high_x, high_y, c=c), hm.cone_angle(x, y, c=c))
    torch.testing.assert_close(hm.lorentz_cone_energy(high_x, high_y, c=c), hm.cone_energy(x, y, c=c))


def test_a_root_of_the_curvature_on_the_wrong_side_breaks_that_law():
    """geoopt's Lorentz.half_aperture (geoopt#240), with its k = 1/c: √k stands below instead of above."""

    def misplaced(c):
        k = 1 / c
        return lambda X: torch.asin((2 * 0.1 / (X[..., 1:].norm(dim=-1) * math.sqrt(k))).clamp(max=1))

    assert aperture_is_the_same_on_both_models(misplaced(1.0), 1.0)
    assert not aperture_is_the_same_on_both_models(misplaced(0.05), 0.05)
    assert not aperture_is_the_same_on_both_models(misplaced(7.0), 7.0)


@CURVATURES
def test_the_unit_of_length_does_not_matter(c):
    x, y = points(50, 3, c=1.0, seed=1), points(50, 3, c=1.0, seed=2)
    small_x, small_y = x / math.sqrt(c), y / math.sqrt(c)  # the isometry up to scale between curvatures -1 and -c
    torch.testing.assert_close(hm.cone_aperture(small_x, c=c), hm.cone_aperture(x, c=1.0))
    torch.testing.assert_close(hm.cone_angle(small_x, small_y, c=c), hm.cone_angle(x, y, c=1.0))


@CURVATURES
def test_the_aperture_is_the_printed_one_and_a_half_space_near_the_origin(c):
    x = points(50, 3, c=c, seed=1)
    printed = 0.1 * (1 - c * x.square().sum(-1)) / (math.sqrt(c) * x.norm(dim=-1))
    torch.testing.assert_close(hm.cone_aperture(x, c=c), torch.asin(printed.clamp(max=1)))
    near = 1e-3 * x
    torch.testing.assert_close(hm.cone_aperture(near, c=c), torch.full((50,), math.pi / 2, dtype=torch.float64))
    sine = 2 * 0.3 / torch.sinh(math.sqrt(c) * hm.dist0(x, k=-c))
    torch.testing.assert_close(hm.cone_aperture(x, c=c, K=0.3), torch.asin(sine.clamp(max=1)))


@pytest.mark.parametrize("c", [0.0, 0.05, 1.0, 7.0])
def test_the_angle_is_that_of_the_logarithms(c):
    x, y = points(200, 3, c=c, seed=1), points(200, 3, c=c, seed=2)
    outward, ahead = -hm.logmap(x, torch.zeros_like(x), k=-c), hm.logmap(x, y, k=-c)
    cosine = torch.nn.functional.cosine_similarity(outward, ahead, dim=-1)
    torch.testing.assert_close(hm.cone_angle(x, y, c=c), torch.acos(cosine), rtol=1e-7, atol=1e-7)


@CURVATURES
def test_the_law_of_sines_holds(c):
    """In the triangle of the origin, x and y: sinh(a)/sin(α) is the same at every corner."""
    x, y = points(200, 3, c=c, seed=1), points(200, 3, c=c, seed=2)
    root = math.sqrt(c)
    at_x = torch.sin(math.pi - hm.cone_angle(x, y, c=c)) / torch.sinh(root * hm.dist0(y, k=-c))
    at_y = torch.sin(math.pi - hm.cone_angle(y, x, c=c)) / torch.sinh(root * hm.dist0(x, k=-c))
    torch.testing.assert_close(at_x, at_y, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("c", [0.0, 0.05, 1.0, 7.0])
def test_a_point_further_out_on_the_ray_lies_inside_and_one_before_it_behind(c, dtype):
    x = points(100, 3, c=c, seed=1, spread=0.7).to(dtype)
    t = torch.linspace(1.1, 3, 100, dtype=dtype).unsqueeze(-1)
    beyond, before = hm.mobius_scalar_mul(t, x, k=-c), hm.mobius_scalar_mul(1 / t, x, k=-c)
    tiny = 2e4 * torch.finfo(dtype).eps  # the ray's own points are rounded, and next to x that is an angle
    assert hm.cone_angle(x, beyond, c=c).max() < tiny
    assert (math.pi - hm.cone_angle(x, before, c=c)).max() < tiny
    wide = hm.cone_aperture(x, c=c) > tiny
    assert wide.sum() > 90
    assert hm.cone_energy(x, beyond, c=c)[wide].max() == 0
    assert hm.cone_energy(x, before, c=c).min() > 1


@CURVATURES
@pytest.mark.parametrize("K", [0.1, 0.4])
def test_cones_are_nested(c, K):
    generator = torch.Generator().manual_seed(5)

    def inside_the_cone_of(x):
        """Points at random lengths, at random angles up to the aperture, and a tenth of them at the aperture itself."""
        share = (2.2 * torch.rand(x.shape[:-1], generator=generator, dtype=torch.float64) - 1.1).clamp(-1, 1)
        angle = (share * hm.cone_aperture(x, c=c, K=K)).unsqueeze(-1)
        outward = torch.nn.functional.normalize(x, dim=-1)
        across = torch.stack([-outward[..., 1], outward[..., 0]], dim=-1)
        length = 4 * torch.rand(angle.shape, generator=generator, dtype=torch.float64) / math.sqrt(c)
        return hm.geodesic_unit(length, x, torch.cos(angle) * outward + torch.sin(angle) * across, k=-c)

    x = points(3000, 2, c=c, seed=1, spread=1.0)
    x = x[torch.sinh(math.sqrt(c) * hm.dist0(x, k=-c)) >= 2 * K]  # no law where the cone is a half-space
    assert len(x) > 1000
    y = inside_the_cone_of(x)
    z = inside_the_cone_of(y)
    for inner, outer in ((x, y), (y, z), (x, z)):
        assert hm.cone_energy(inner, outer, c=c, K=K).max() < 1e-7


def test_flat_cones_are_half_spaces_and_their_limit():
    x, y = points(50, 3, c=0.0, seed=1), points(50, 3, c=0.0, seed=2)
    torch.testing.assert_close(hm.cone_aperture(x, c=0.0), torch.full((50,), math.pi / 2, dtype=torch.float64))
    outside = ((y - x) * x).sum(-1) < 0
    assert torch.equal(hm.cone_energy(x, y, c=0.0) > 0, outside)
    near = hm.cone_energy(x, y, c=1e-9)
    torch.testing.assert_close(near, hm.cone_energy(x, y, c=0.0), rtol=1e-6, atol=1e-6)
    c = torch.zeros((), dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(hm.cone_energy(x, y, c=c).sum(), c)
    step = 1e-5
    forward = hm.cone_energy(x, y, c=step).sum() - hm.cone_energy(x, y, c=0.0).sum()
    torch.testing.assert_close(slope, forward / step, rtol=1e-3, atol=0)


def test_the_origin_entails_everything_and_every_point_itself():
    x = points(20, 3, c=1.0, seed=1)
    for first, second in ((torch.zeros_like(x), x), (x, x), (torch.zeros_like(x), torch.zeros_like(x))):
        first, second = first.clone().requires_grad_(), second.clone().requires_grad_()
        c = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
        energy = hm.cone_energy(first, second, c=c)
        assert torch.equal(energy, torch.zeros_like(energy))
        angle = hm.cone_angle(first, second, c=c)
        for slope in torch.autograd.grad(angle.sum(), [first, second, c]):
            assert torch.isfinite(slope).all()


def test_the_aperture_has_finite_gradients_where_it_stops_growing():
    x = torch.tensor([[0.0, 0.0], [1e-30, 0.0], [math.sqrt(1.01) - 0.1, 0.0]], dtype=torch.float64, requires_grad=True)
    c = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
    for slope in torch.autograd.grad(hm.cone_aperture(x, c=c).sum(), [x, c]):
        assert torch.isfinite(slope).all()


def test_far_out_on_the_hyperboloid_angles_keep_their_digits():
    """The textbook's arccos of Minkowski products is noise there."""
    generator = torch.Generator().manual_seed(1)
    direction = torch.nn.functional.normalize(torch.randn(50, 3, generator=generator, dtype=torch.float64), dim=-1)
    x = hm.lorentz_expmap0(9 * direction, c=1.0)
    step = torch.randn(50, 3, generator=generator, dtype=torch.float64)
    space = hgeo.Lorentz()
    y = space.expmap(x, space.transp0(x, torch.cat([torch.zeros_like(step[:, :1]), step], dim=-1))).float()
    x = x.float()

    def exactly(x):  # the points of the hyperboloid that the spatial parts determine
        spatial = x[..., 1:].double()
        return torch.cat([(1 + spatial.square().sum(-1, keepdim=True)).sqrt(), spatial], dim=-1)

    exact = hm.lorentz_cone_angle(exactly(x), exactly(y), c=1.0)
    torch.testing.assert_close(hm.lorentz_cone_angle(x, y, c=1.0).double(), exact, rtol=0, atol=5e-3)
    product = (x[:, 1:] * y[:, 1:]).sum(-1) - x[:, 0] * y[:, 0]
    above = y[:, 0] + x[:, 0] * product
    below = x[:, 1:].norm(dim=-1) * torch.sqrt((product**2 - 1).clamp(min=1e-8))
    assert (torch.acos((above / below).clamp(-1, 1)) - exact).abs().max() > 0.1


@pytest.mark.parametrize("make", [hgeo.Lorentz, hgeo.Klein], ids=["hyperboloid", "Klein"])
def test_every_hyperbolic_manifold_has_the_same_cones(make):
    import geoopt

    ball, other = hgeo.PoincareBall(0.6), make(0.6)
    generator = torch.Generator().manual_seed(4)
    v, w = (torch.randn(30, 3, generator=generator, dtype=torch.float64) for _ in range(2))
    x, y = hgeo.exp0(ball, v / 2), hgeo.exp0(ball, w / 2)
    far_x, far_y = hgeo.exp0(other, v), hgeo.exp0(other, w)
    for scaled in (other, geoopt.Scaled(other, 3.0)):
        torch.testing.assert_close(hgeo.cone_aperture(scaled, far_x, K=0.2), hgeo.cone_aperture(ball, x, K=0.2))
        torch.testing.assert_close(hgeo.cone_angle(scaled, far_x, far_y), hgeo.cone_angle(ball, x, y))
        torch.testing.assert_close(hgeo.cone_energy(scaled, far_x, far_y), hgeo.cone_energy(ball, x, y))


def test_a_learnable_curvature_gets_a_gradient():
    ball = hgeo.PoincareBall(0.6, learnable=True)
    x, y = torch.tensor([[0.5, 0.1]]), torch.tensor([[-0.2, 0.6]])
    hgeo.cone_energy(ball, x, y).sum().backward()
    assert ball.stored_c.grad.abs() > 0


def test_spaces_without_cones_are_refused_in_words():
    import geoopt

    for manifold in (geoopt.Sphere(), hgeo.SphereProjection(), geoopt.Euclidean(1)):
        with pytest.raises(TypeError, match=r"known on hyperbolic spaces .*; got .*PoincareBall\(c=0\.0\)"):
            hgeo.cone_energy(manifold, torch.zeros(3), torch.zeros(3))
