"""The origin frame of every space, a home-made one included."""

import geoopt
import pytest
import torch

import hgeo
from hgeo.manifolds import Geometry, geometry, stereographic_curvature

SPACES = {
    "ball": (lambda: hgeo.PoincareBall(0.7), 3),
    "flat ball": (lambda: hgeo.PoincareBall(0.0), 3),
    "stereo": (lambda: hgeo.Stereographic(-0.3), 3),
    "sproj": (lambda: hgeo.SphereProjection(0.4), 3),
    "lorentz": (lambda: hgeo.Lorentz(0.7), 3),
    "klein": (lambda: hgeo.Klein(0.7), 3),
    "geoopt ball": (lambda: geoopt.PoincareBall(0.7), 3),
    "geoopt lorentz": (lambda: geoopt.Lorentz(2.0), 3),
    "sphere": (geoopt.Sphere, 3),
    "euclidean": (lambda: geoopt.Euclidean(1), 3),
    "scaled sphere": (lambda: geoopt.Scaled(geoopt.Sphere(), 2.0), 3),
    "product": (lambda: hgeo.Product((hgeo.PoincareBall(0.7), 2), (geoopt.Sphere(), 1)), 3),
    "nested product": (
        lambda: hgeo.Product(
            (hgeo.Product((hgeo.PoincareBall(), 1), (hgeo.Lorentz(), 1)), 2), (geoopt.Euclidean(1), 1)
        ),
        3,
    ),
    "geoopt product": (lambda: geoopt.ProductManifold((geoopt.PoincareBall(), 2), (geoopt.Sphere(), 2)), 3),
    "home-made": (lambda: Paraboloid(), 3),
}


class Paraboloid(geoopt.Euclidean):
    """A manifold that hgeo has never seen: the flat space of points (y, |y|²), with its own exp and log."""

    name = "Paraboloid"

    def __init__(self):
        super().__init__(1)

    def _lift(self, y):
        return torch.cat([y, (y * y).sum(-1, keepdim=True)], -1)

    def origin(self, *size, dtype=None, device=None, seed=42):
        return torch.zeros(*size, dtype=dtype, device=device)

    def proju(self, x, u):
        y, du = x[..., :-1], u[..., :-1]
        return torch.cat([du, 2 * (y * du).sum(-1, keepdim=True)], -1)

    def inner(self, x, u, v=None, *, keepdim=False):
        v = u if v is None else v
        return (u[..., :-1] * v[..., :-1]).sum(-1, keepdim=keepdim)

    def expmap(self, x, u):
        return self._lift(x[..., :-1] + u[..., :-1])

    def logmap(self, x, y):
        return self.proju(x, y - x)

    def dist(self, x, y, *, keepdim=False):
        return (x - y)[..., :-1].norm(dim=-1, keepdim=keepdim)


@pytest.mark.parametrize("name", SPACES)
def test_log0_inverts_exp0_and_lengths_are_those_of_the_scale(name):
    make, d = SPACES[name]
    manifold = make()
    v = 0.4 * torch.randn(20, d, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    x = hgeo.exp0(manifold, v)
    assert x.shape == (20, hgeo.ambient_dim(manifold, d))
    assert hgeo.intrinsic_dim(manifold, x.shape[-1]) == d
    torch.testing.assert_close(hgeo.log0(manifold, x), v, rtol=1e-6, atol=1e-9)
    origin = hgeo.exp0(manifold, torch.zeros_like(v))
    lengths = hgeo.dist(manifold, origin, x)
    torch.testing.assert_close(lengths, hgeo.frame_scale(manifold) * v.norm(dim=-1), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", [name for name in SPACES if name != "home-made"])
def test_points_of_the_frame_are_points_of_the_manifold(name):
    make, d = SPACES[name]
    manifold = make()
    v = torch.randn(20, d, generator=torch.Generator().manual_seed(0))
    hgeo.validate(manifold, hgeo.exp0(manifold, v))


@pytest.mark.parametrize("name", SPACES)
def test_the_frame_has_gradients_at_the_origin(name):
    make, d = SPACES[name]
    manifold = make()
    v = torch.zeros(d, dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(lambda v: hgeo.log0(manifold, hgeo.exp0(manifold, v)), v)
    torch.testing.assert_close(jacobian, torch.eye(d, dtype=torch.float64), rtol=1e-6, atol=1e-9)


def test_the_pole_of_the_embedded_sphere_is_its_first_axis():
    torch.testing.assert_close(hgeo.exp0(geoopt.Sphere(), torch.zeros(2)), torch.tensor([1.0, 0.0, 0.0]))


def test_a_short_geometry_makes_a_users_manifold_work():
    class LogScale(geoopt.Euclidean):
        """Positive numbers, with distances of their logarithms."""

    class LogGeometry(Geometry):
        def exp0(self, manifold, v):
            return v.exp()

        def log0(self, manifold, x):
            return x.log()

        def ambient_dim(self, manifold, d):
            return d

        def intrinsic_dim(self, manifold, n):
            return n

        def dist(self, manifold, x, y):
            return (x.log() - y.log()).norm(dim=-1)

    hgeo.register(LogScale, LogGeometry())
    manifold = hgeo.Product((LogScale(1), 2), (hgeo.PoincareBall(), 1))
    v = torch.tensor([0.3, -0.2, 0.1])
    x = hgeo.exp0(manifold, v)
    torch.testing.assert_close(x[:2], v[:2].exp())
    torch.testing.assert_close(hgeo.log0(manifold, x), v)
    assert type(geometry(LogScale(1))) is LogGeometry


def test_a_missing_operation_is_named_in_the_error():
    with pytest.raises(TypeError, match=r"expected an instance of hgeo\.Geometry"):
        hgeo.register(geoopt.Euclidean, object())
    with pytest.raises(TypeError, match=r"give an instance: Geometry\(\)"):
        hgeo.register(geoopt.Euclidean, Geometry)
    with pytest.raises(TypeError, match="expected a geoopt manifold, got str"):
        hgeo.exp0("ball", torch.zeros(2))
    with pytest.raises(TypeError, match="points of 2 dimensions; hgeo's layers work on vectors: register a geometry"):
        hgeo.exp0(geoopt.Stiefel(), torch.zeros(2))


def test_only_the_stereographic_family_has_a_stereographic_curvature():
    assert stereographic_curvature(hgeo.PoincareBall(0.5)).item() == -0.5
    assert stereographic_curvature(geoopt.PoincareBall(0.5)).item() == pytest.approx(-0.5)
    assert stereographic_curvature(geoopt.Sphere()) is None


# --- products ---


def test_each_factor_of_a_product_has_a_curvature_of_its_own():
    space = hgeo.space("ball:2,c=0.5,learn x ball:2,c=2,learn").manifold
    assert [round(p.item(), 3) for p in space.parameters()] == [0.5, 2.0]
    x = hgeo.exp0(space, torch.tensor([0.3, 0.1, 0.2, 0.4]))
    y = hgeo.exp0(space, torch.tensor([0.1, 0.1, -0.2, 0.4]))
    gradients = torch.autograd.grad(space.dist(x.detach(), y.detach()), list(space.parameters()))
    assert all(gradient.item() != 0 for gradient in gradients)


def test_the_distance_of_a_product_is_the_root_of_the_sum_of_squares():
    space = hgeo.space("ball:2 x lorentz:2 x euclidean:1").manifold
    x, y = (hgeo.exp0(space, torch.randn(6, 5, generator=torch.Generator().manual_seed(i))) for i in (0, 1))
    parts = [hgeo.dist(m, p, q) for (m, p), (_, q) in zip(space.factors(x), space.factors(y), strict=True)]
    torch.testing.assert_close(hgeo.dist(space, x, y), torch.stack(parts).square().sum(0).sqrt())
    torch.testing.assert_close(space.dist2(x, y), hgeo.dist(space, x, y) ** 2)


def test_a_product_of_one_factor_is_that_factor():
    space, ball = hgeo.Product((hgeo.PoincareBall(0.7), 3)), hgeo.PoincareBall(0.7)
    v = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(hgeo.exp0(space, v), hgeo.exp0(ball, v))
    assert hgeo.frame_scale(space) == hgeo.frame_scale(ball) == 2.0


@pytest.mark.parametrize(
    ("factors", "error", "message"),
    [
        ((), ValueError, "at least one factor"),
        ((hgeo.PoincareBall(),), TypeError, r"a pair \(manifold, intrinsic dimension\)"),
        (((hgeo.PoincareBall(), 0),), ValueError, "must be at least 1, got 0"),
        (((hgeo.PoincareBall(), 2.0),), TypeError, "a pair"),
    ],
)
def test_an_impossible_product_is_refused(factors, error, message):
    with pytest.raises(error, match=message):
        hgeo.Product(*factors)


def test_points_and_coordinates_of_the_wrong_size_are_refused():
    space = hgeo.space("ball:2 x sphere:2").manifold
    with pytest.raises(ValueError, match=r"tangent coordinates of .* have 4 numbers in their last dimension, got 3"):
        hgeo.exp0(space, torch.zeros(3))
    with pytest.raises(ValueError, match=r"points of .* have 5 numbers in their last dimension, got 4"):
        hgeo.log0(space, torch.zeros(4))
    with pytest.raises(ValueError, match="has dimension 4, asked for 5"):
        hgeo.ambient_dim(space, 5)


class Stretched(geoopt.manifolds.base.Manifold):
    """A user's manifold without a frame, whose metric trains."""

    name, ndim, reversible = "Stretched", 1, False

    def __init__(self, s):
        super().__init__()
        self.s = torch.nn.Parameter(torch.tensor(s, dtype=torch.float64))

    def _check_point_on_manifold(self, x, *, atol=1e-5, rtol=1e-5):
        return True, None

    _check_vector_on_tangent = _check_point_on_manifold

    def projx(self, x):
        return x

    def proju(self, x, u):
        return u

    def egrad2rgrad(self, x, u):
        return u / self.s**2

    def inner(self, x, u, v=None, *, keepdim=False):
        return (self.s**2 * u * (u if v is None else v)).sum(-1, keepdim=keepdim)

    def retr(self, x, u):
        return x + u

    expmap = retr

    def logmap(self, x, y):
        return y - x

    def transp(self, x, y, v):
        return v

    def dist(self, x, y, *, keepdim=False):
        return self.s * (x - y).norm(dim=-1, keepdim=keepdim)

    def origin(self, *size, dtype=None, device=None, seed=42):
        return torch.zeros(*size, dtype=dtype)


def test_the_general_frame_follows_a_metric_that_trains():
    manifold, v = Stretched(1.0), torch.tensor([1.0, 2.0], dtype=torch.float64)
    assert hgeo.ambient_dim(manifold, 2) == 2
    for s in (1.0, 2.0, 0.5):
        with torch.no_grad():
            manifold.s.fill_(s)
        x = hgeo.exp0(manifold, v)
        torch.testing.assert_close(x, v / s, check_dtype=False)
        torch.testing.assert_close(hgeo.log0(manifold, x), v)
        (slope,) = torch.autograd.grad(x.sum(), manifold.s)
        assert slope.item() == pytest.approx(-v.sum().item() / s**2)
    compiled = torch.compile(lambda v: hgeo.exp0(manifold, v), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(v), 2 * v)


def test_the_general_frame_follows_plain_attributes_and_is_kept_where_nothing_changes():
    class Fixed(Stretched):
        def __init__(self, s):
            super().__init__(s)
            del self.s
            self.s = s

    manifold, v = Fixed(1.0), torch.tensor([1.0, 2.0], dtype=torch.float64)
    torch.testing.assert_close(hgeo.exp0(manifold, v), v)
    frame = geometry(manifold)
    assert frame._basis(manifold, 2) is frame._basis(manifold, 2)
    manifold.s = 2.0
    torch.testing.assert_close(hgeo.exp0(manifold, v), v / 2)
