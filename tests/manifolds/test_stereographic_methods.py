"""Every manifold method that layers use: one graph, on every device, in every precision, and drop-in for geoopt."""

import geoopt
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import hgeo

MANIFOLDS = {
    "ball": lambda: hgeo.PoincareBall(0.7, learnable=True),
    "stereo": lambda: hgeo.Stereographic(-0.2, learnable=True),
    "sproj": lambda: hgeo.SphereProjection(0.4, learnable=True),
    "lorentz": lambda: hgeo.Lorentz(0.7, learnable=True),
    "klein": lambda: hgeo.Klein(0.7, learnable=True),
    "product": lambda: hgeo.space("ball:2,c=learn x lorentz:2 x klein:1 x sphere:1 x euclidean:1").manifold,
}
METHODS = {
    "projx": lambda m, x, y, u, v: m.projx(x),
    "proju": lambda m, x, y, u, v: m.proju(x, u),
    "inner": lambda m, x, y, u, v: m.inner(x, u, v),
    "dist": lambda m, x, y, u, v: m.dist(x, y),
    "expmap": lambda m, x, y, u, v: m.expmap(x, u),
    "logmap": lambda m, x, y, u, v: m.logmap(x, y),
    "transp": lambda m, x, y, u, v: m.transp(x, y, u),
    "egrad2rgrad": lambda m, x, y, u, v: m.egrad2rgrad(x, u),
    "retr": lambda m, x, y, u, v: m.retr(x, u),
}
OF_THE_FAMILY = {
    "lambda_x": lambda m, x, y, u, v: m.lambda_x(x),
    "dist0": lambda m, x, y, u, v: m.dist0(x),
    "expmap0": lambda m, x, y, u, v: m.expmap0(u),
    "logmap0": lambda m, x, y, u, v: m.logmap0(x),
    "mobius_add": lambda m, x, y, u, v: m.mobius_add(x, y),
    "mobius_sub": lambda m, x, y, u, v: m.mobius_sub(x, y),
    "mobius_coadd": lambda m, x, y, u, v: m.mobius_coadd(x, y),
    "mobius_scalar_mul": lambda m, x, y, u, v: m.mobius_scalar_mul(torch.ones_like(x[..., :1]) / 2, x),
    "mobius_matvec": lambda m, x, y, u, v: m.mobius_matvec(u[:, :].T @ v, x),
    "mobius_fn_apply": lambda m, x, y, u, v: m.mobius_fn_apply(torch.tanh, x),
    "gyration": lambda m, x, y, u, v: m.gyration(x, y, u),
    "transp0": lambda m, x, y, u, v: m.transp0(x, u),
    "transp0back": lambda m, x, y, u, v: m.transp0back(x, u),
    "dist2plane": lambda m, x, y, u, v: m.dist2plane(x, y, u, signed=True),
    "geodesic": lambda m, x, y, u, v: m.geodesic(torch.tensor(0.3), x, y),
    "weighted_midpoint": lambda m, x, y, u, v: m.weighted_midpoint(x, torch.ones_like(x[..., 0]), reducedim=[0]),
    "antipode": lambda m, x, y, u, v: m.antipode(x),
}
# The three of the stereographic family share their methods: one of them stands for all.
CASES = [(name, method) for name in ("ball", "lorentz", "klein", "product") for method in METHODS]
CASES += [("ball", method) for method in OF_THE_FAMILY]


def arguments(manifold, dtype=torch.float32):
    d = manifold.dim if isinstance(manifold, hgeo.Product) else 3
    generator = torch.Generator().manual_seed(0)
    x, y = (hgeo.exp0(manifold, 0.3 * torch.randn(4, d, generator=generator, dtype=dtype)).detach() for _ in range(2))
    u, v = (manifold.proju(x, 0.3 * torch.randn(x.shape, generator=generator, dtype=dtype)).detach() for _ in range(2))
    return x, y, u, v


@pytest.mark.parametrize(("name", "method"), CASES)
def test_it_compiles_to_one_graph(name, method):
    manifold = MANIFOLDS[name]()
    call = {**METHODS, **OF_THE_FAMILY}[method]
    torch._dynamo.reset()
    compiled = torch.compile(lambda *tensors: call(manifold, *tensors), fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(*arguments(manifold)), call(manifold, *arguments(manifold)))


@pytest.mark.parametrize("name", MANIFOLDS)
@pytest.mark.parametrize("function", [hgeo.exp0, hgeo.log0, hgeo.dist], ids=["exp0", "log0", "dist"])
def test_the_origin_frame_compiles_to_one_graph(name, function):
    manifold = MANIFOLDS[name]()
    x, y, _, _ = arguments(manifold)
    given = {"exp0": [hgeo.log0(manifold, x).detach()], "log0": [x], "dist": [x, y]}[function.__name__]
    torch._dynamo.reset()
    compiled = torch.compile(lambda *tensors: function(manifold, *tensors), fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(*given), function(manifold, *given))


@pytest.mark.parametrize("name", ["ball", "stereo", "sproj", "lorentz", "klein"])
def test_the_methods_run_on_fake_cuda_tensors(name):
    manifold = MANIFOLDS[name]()
    with FakeTensorMode(), torch.no_grad():
        for part in manifold.modules():  # .to("cuda") itself needs a real device
            for stored in dict(part.named_parameters(recurse=False)):
                setattr(part, stored, torch.nn.Parameter(torch.empty((), device="cuda")))
        n = hgeo.ambient_dim(manifold, 3)
        x, y, u, v = (torch.empty(4, n, device="cuda") for _ in range(4))
        for call in METHODS.values():
            assert call(manifold, x, y, u, v).device.type == "cuda"
        assert hgeo.exp0(manifold, torch.empty(4, 3, device="cuda")).device.type == "cuda"
        assert hgeo.log0(manifold, x).device.type == "cuda"
        assert hgeo.dist(manifold, x, y).device.type == "cuda"


def test_points_on_another_device_than_the_manifold_are_refused():
    with pytest.raises(ValueError, match=r"the curvature 'k' is on cpu, the points on meta; move the manifold there"):
        hgeo.PoincareBall().dist(torch.empty(2, device="meta"), torch.empty(2, device="meta"))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", ["ball", "stereo", "sproj", "lorentz", "klein"])
def test_half_precision_points_are_right_to_their_own_precision(name, dtype):
    manifold = MANIFOLDS[name]()
    x, y, u, v = arguments(manifold)
    x, y, u, v = (tensor.to(dtype) for tensor in (x, y, u, v))
    eps = torch.finfo(dtype).eps
    for method, call in METHODS.items():
        low = call(manifold, x, y, u, v)
        high = call(manifold, x.double(), y.double(), u.double(), v.double())
        torch.testing.assert_close(
            low.double(), high, rtol=8 * eps, atol=4 * eps, msg=lambda m, at=method: f"{at}: {m}"
        )


def test_autocast_keeps_geometry_in_the_precision_of_its_points():
    ball = hgeo.PoincareBall(0.7)
    x = torch.randn(4, 3) * 0.2
    weight = torch.randn(3, 3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(ball.expmap0(x), hgeo.PoincareBall(0.7).expmap0(x))
        moved = ball.mobius_matvec(weight, x)
        assert moved.dtype == torch.float32
        assert torch.isfinite(moved).all()
        low = torch.nn.functional.linear(x, weight)
        assert low.dtype == torch.bfloat16
        assert torch.isfinite(ball.expmap0(low)).all()


@pytest.mark.parametrize("name", MANIFOLDS)
def test_double_points_on_a_single_precision_manifold_are_computed_in_double(name):
    manifold = MANIFOLDS[name]()
    x, y, u, v = arguments(manifold, torch.float64)
    for call in METHODS.values():
        assert call(manifold, x, y, u, v).dtype == torch.float64


@pytest.mark.parametrize("name", ["ball", "stereo", "sproj", "lorentz"])
def test_it_is_a_geoopt_manifold_of_that_name(name):
    manifold = MANIFOLDS[name]()
    assert isinstance(manifold, getattr(geoopt, type(manifold).__name__))
    point = geoopt.ManifoldParameter(manifold.random_normal(5, 3), manifold=manifold)
    assert manifold.check_point_on_manifold(point.detach())
    optimizer = geoopt.optim.RiemannianAdam([point], lr=0.01)
    target = manifold.origin(3).as_subclass(torch.Tensor)
    before = manifold.dist(point, target).sum()
    for _ in range(10):
        optimizer.zero_grad()
        manifold.dist(point, target).sum().backward()
        optimizer.step()
    assert manifold.dist(point, target).sum() < before
    hgeo.validate(manifold, point.detach().as_subclass(torch.Tensor))


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (hgeo.PoincareBall(0.7).double(), geoopt.PoincareBall(0.7).double()),
        (hgeo.Stereographic(-0.2).double(), geoopt.Stereographic(-0.2).double()),
        (hgeo.SphereProjection(0.4).double(), geoopt.SphereProjection(0.4).double()),
    ],
)
def test_well_inside_it_agrees_with_geoopt(ours, theirs):
    x, y, u, v = arguments(ours, torch.float64)
    # geoopt stores c in single precision before the conversion: compare at the curvature it really has.
    with torch.no_grad():
        next(ours.parameters()).copy_(theirs.k.abs() if hasattr(ours, "curvature_bound") else theirs.k)
    for method, call in {**METHODS, **OF_THE_FAMILY}.items():
        # geoopt's antipode is none for k < 0, and its inner without keepdim makes a matrix of rows by rows.
        if method in {"antipode", "weighted_midpoint", "inner"}:
            continue
        if method == "retr" and float(ours.k) > 0:
            # geoopt adds coordinates, which on a sphere leads into the point at infinity; ours is the exponential map.
            torch.testing.assert_close(call(ours, x, y, u, v), theirs.expmap(x, u), rtol=1e-6, atol=1e-8)
            continue
        ours_is, theirs_is = call(ours, x, y, u, v), call(theirs, x, y, u, v)
        torch.testing.assert_close(ours_is, theirs_is, rtol=1e-6, atol=1e-8, msg=lambda m, at=method: f"{at}: {m}")
    torch.testing.assert_close(ours.inner(x, u, v, keepdim=True), theirs.inner(x, u, v, keepdim=True))
