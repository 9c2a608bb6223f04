"""A curvature is what it was made of, trains through 0, and travels with its manifold."""

import copy
import pickle

import geoopt
import numpy as np
import pytest
import torch

import hgeo
from hgeo.manifolds import bounded_below
from hgeo.nn import HATConv
from hgeo.optim import riemannian_adam, riemannian_sgd

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
def test_the_given_curvature_is_stored_exactly(c, dtype):
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
def test_training_can_leave_curvature_zero_and_never_crosses_it(make, cls):
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


def test_a_read_at_the_bound_passes_its_whole_gradient():
    for stored, sign, expected in ((0.0, 1.0, 1.0), (0.0, -1.0, -1.0), (-0.5, -1.0, -1.0), (0.5, 1.0, 1.0)):
        p = torch.tensor(stored, requires_grad=True)
        version = p._version
        (sign * bounded_below(p)).backward()
        assert p.grad.item() == expected
        assert p.item() == max(stored, 0.0)
        assert p._version == version
    inner = torch.tensor(-0.5, requires_grad=True)
    (2 * bounded_below(3 * inner, 1e-6)).backward()  # a number that is computed cannot be put back, and reads the bound
    assert (inner.item(), inner.grad.item()) == (-0.5, 6.0)
    assert bounded_below(3 * inner, 1e-6).item() == torch.tensor(1e-6).item()


# --- at the bound, with many reads in one loss ---

AT_THE_BOUND = {
    "ball": (lambda: hgeo.PoincareBall(torch.zeros((), dtype=torch.float64), learnable=True), -1.0, 0.0),
    "sproj": (lambda: hgeo.SphereProjection(torch.zeros((), dtype=torch.float64), learnable=True), 1.0, 0.0),
    "lorentz": (lambda: hgeo.Lorentz(torch.tensor(1e-6, dtype=torch.float64), learnable=True), -1.0, 1e-6),
    "klein": (lambda: hgeo.Klein(torch.tensor(1e-6, dtype=torch.float64), learnable=True), -1.0, 1e-6),
}


class Shared(torch.nn.Module):
    """Two layers on one manifold; its curvature is read again and again."""

    def __init__(self, manifold, seed=3):
        super().__init__()
        torch.manual_seed(seed)
        self.manifold = manifold
        self.first = HATConv(3, 3, manifold, backend="reference").double()
        self.second = HATConv(3, 2, manifold, in_manifold=manifold, backend="reference").double()

    def forward(self, edges, x):
        return hgeo.log0(self.manifold, self.second(edges, self.first(edges, x)))


def many_reads(manifold, seed):
    generator = torch.Generator().manual_seed(seed)
    u, v = torch.randn(2, 5, 3, dtype=torch.float64, generator=generator)
    w = torch.randn(5, dtype=torch.float64, generator=generator)
    return (w * hgeo.dist(manifold, hgeo.exp0(manifold, u), hgeo.exp0(manifold, v))).sum()


def slope(loss, stored, at):
    """The one-sided derivative by differences of third order: nothing is read beyond the bound."""
    step = 2e-4
    values = []
    with torch.no_grad():
        for count in range(4):
            stored.fill_(at + count * step)
            values.append(loss().item())
        stored.fill_(at)
    return (-11 * values[0] + 18 * values[1] - 9 * values[2] + 2 * values[3]) / (6 * step)


@pytest.mark.parametrize("kind", AT_THE_BOUND)
def test_at_the_bound_the_gradient_is_that_of_the_whole_loss(kind):
    make, _, bound = AT_THE_BOUND[kind]
    signs = set()
    for seed in range(6):
        manifold = make()
        (stored,) = manifold.parameters()
        many_reads(manifold, seed).backward()
        expected = slope(lambda manifold=manifold, seed=seed: many_reads(manifold, seed), stored, bound)
        assert stored.grad.item() == pytest.approx(expected, rel=1e-4, abs=1e-6)
        signs.add(expected > 0)
    assert signs == {True, False}  # outward ones are true as well


@pytest.mark.parametrize("kind", ["ball", "sproj"])
def test_at_the_bound_two_layers_that_share_a_manifold_agree_with_the_signed_family(kind):
    make, sign, _ = AT_THE_BOUND[kind]
    edges = torch.tensor([[0, 1, 2, 3, 4, 0, 2], [1, 2, 3, 4, 0, 2, 4]])
    x = torch.randn(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    w = torch.randn(5, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    ours, signed = Shared(make()), Shared(hgeo.Stereographic(torch.zeros((), dtype=torch.float64), learnable=True))
    for net in (ours, signed):
        (w * net(edges, x)).sum().backward()
    (stored,) = ours.manifold.parameters()
    assert signed.manifold.k.grad.abs() > 0.01
    assert stored.grad.item() == pytest.approx(sign * signed.manifold.k.grad.item(), rel=1e-10)


STEPPERS = {
    "adam": lambda m: torch.optim.Adam(m.parameters(), 0.01),
    "sgd": lambda m: torch.optim.SGD(m.parameters(), 0.01),
    "sgd with momentum": lambda m: torch.optim.SGD(m.parameters(), 0.01, momentum=0.9),
    "geoopt adam": lambda m: geoopt.optim.RiemannianAdam(m.parameters(), 0.01),
    "geoopt sgd": lambda m: geoopt.optim.RiemannianSGD(m.parameters(), 0.01),
    "hgeo adam": lambda m: riemannian_adam(m, 0.01),
    "hgeo sgd": lambda m: riemannian_sgd(m, 0.01),
}


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("stepper", STEPPERS)
@pytest.mark.parametrize("kind", AT_THE_BOUND)
def test_steps_beyond_the_bound_do_not_add_up(kind, stepper, compiled):
    make, sign, bound = AT_THE_BOUND[kind]
    manifold = make()
    (stored,) = manifold.parameters()
    optimizer = STEPPERS[stepper](manifold)

    def read():
        return manifold.c if kind in ("lorentz", "klein") else sign * manifold.k

    def loss():
        return 3 * read() - 2 * read()

    if compiled:
        if stepper not in ("adam", "sgd"):
            pytest.skip("compiled with two of them")
        torch.compiler.reset()
        loss = torch.compile(loss, fullgraph=True, backend="aot_eager")

    def step(direction):
        optimizer.zero_grad()
        for _ in range(2):  # a gradient that is accumulated
            (direction * loss()).backward()
        assert stored.grad.item() == 2 * direction
        optimizer.step()
        assert stored.item() >= bound - 0.2  # one step of momentum
        with torch.no_grad():  # looks, and puts nothing back
            return read().item()

    for _ in range(100):
        assert step(1.0) == bound
    assert any(step(-1.0) > 1e-3 for _ in range(10))


def test_a_state_dict_holds_no_number_beyond_the_bound():
    for kind in AT_THE_BOUND:
        make, _, bound = AT_THE_BOUND[kind]
        manifold = make()
        (stored,) = manifold.parameters()
        with torch.no_grad():
            stored.fill_(-0.25)  # as a step of torch's leaves it
        (saved,) = manifold.state_dict().values()
        assert saved.item() == bound
        make().load_state_dict(manifold.state_dict())


def test_graphs_that_share_a_curvature_accept_each_others_gradients():
    ball = hgeo.PoincareBall(0.0, learnable=True)
    with torch.no_grad():
        ball.stored_c.fill_(-0.5)
    torch.compiler.reset()
    first = torch.compile(lambda u: ball.expmap0(u), fullgraph=True, backend="aot_eager_decomp_partition")
    second = torch.compile(lambda x, y: ball.dist(x, y), fullgraph=True, backend="aot_eager_decomp_partition")
    u, v = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0))
    second(first(u), ball.expmap0(v)).sum().backward()
    compiled, ball.stored_c.grad = ball.stored_c.grad, None
    assert ball.stored_c.item() == 0.0
    ball.dist(ball.expmap0(u), ball.expmap0(v)).sum().backward()
    torch.testing.assert_close(compiled, ball.stored_c.grad)


class Exp0(torch.nn.Module):
    def __init__(self, ball):
        super().__init__()
        self.ball = ball

    def forward(self, v):
        return self.ball.expmap0(v)


def test_a_curvature_is_a_function_of_its_number_for_torch_func():
    ball = hgeo.PoincareBall(0.5, learnable=True)
    u, v = torch.randn(2, 4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))

    def loss(c):
        x = torch.func.functional_call(Exp0(ball), {"ball.stored_c": c}, (u,))
        return hgeo.math.dist(x, v, k=-c).sum()

    many = torch.tensor([0.0, 1e-3, 0.04], dtype=torch.float64)
    gradients = torch.func.vmap(torch.func.grad(loss))(many)
    for c, gradient in zip(many, gradients, strict=True):
        leaf = c.clone().requires_grad_(True)
        torch.testing.assert_close(gradient, torch.autograd.grad(loss(leaf), leaf)[0])


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
        (hgeo.PoincareBall, 1e39, ValueError, r"c = 1e\+39 is infinite in torch\.float32; give a float64 tensor"),
        (hgeo.PoincareBall, torch.tensor(True), TypeError, r"must be a real number, got a torch\.bool tensor"),
        (hgeo.Stereographic, torch.tensor(1j), TypeError, r"must be a real number, got a torch\.complex64 tensor"),
        (hgeo.Klein, 0.0, ValueError, r"got 0.*Klein's ball needs curvature"),
        (hgeo.SphereProjection, -1.0, ValueError, r"k must be a finite number ≥ 0.*hgeo\.PoincareBall"),
        (hgeo.Stereographic, float("nan"), ValueError, "k must be a finite number, got nan"),
        (hgeo.Lorentz, 0.0, ValueError, r"c must be a finite number ≥ 1e-06, got 0.*hgeo\.PoincareBall"),
        (hgeo.Klein, -1.0, ValueError, r"c must be a finite number ≥ 1e-06, got -1"),
    ],
)
def test_an_impossible_curvature_is_refused_with_advice(cls, value, error, message):
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


def test_numbers_of_numpy_are_numbers():
    for value in (np.float32(1), np.float64(1), np.int64(1)):
        assert hgeo.PoincareBall(value).c.item() == 1.0
    assert hgeo.PoincareBall(torch.tensor(1e39, dtype=torch.float64)).c.item() == 1e39


@pytest.mark.parametrize("kind", FAMILY)
def test_a_state_dict_with_an_impossible_curvature_is_refused_by_name(kind):
    module = torch.nn.Module()
    module.space = FAMILY[kind]()
    before = magnitude(module.space)
    (name,) = module.state_dict()
    wrong = [float("nan"), float("inf")] + ([] if kind == "stereo" else [-1.0])
    for value in wrong:
        with pytest.raises(RuntimeError, match=rf"the curvature '{name[6:]}'|the curvature '{name}'"):
            module.load_state_dict({name: torch.tensor(value)})
        assert magnitude(module.space) == before
    if kind != "klein":
        with pytest.raises(RuntimeError, match=f"the curvature '{name}'.*got 1e"):
            module.load_state_dict({name: torch.tensor(1e300, dtype=torch.float64)})
