"""One object steps weights as torch does, points as geoopt does, and is an ordinary torch optimiser."""

import copy
import math
import pickle

import geoopt
import pytest
import torch
from torch import nn

import hgeo
from hgeo.optim import clip_grad_norm_, riemannian_adam, riemannian_grad_norm, riemannian_sgd

MAKERS = {
    "adam": lambda model, **options: riemannian_adam(model, lr=0.02, **options),
    "amsgrad": lambda model, **options: riemannian_adam(model, lr=0.02, amsgrad=True, **options),
    "sgd": lambda model, **options: riemannian_sgd(model, lr=0.02, **options),
    "momentum": lambda model, **options: riemannian_sgd(model, lr=0.02, momentum=0.9, **options),
    "nesterov": lambda model, **options: riemannian_sgd(model, lr=0.02, momentum=0.9, nesterov=True, **options),
}


class Net(nn.Module):
    def __init__(self, manifold=None, dim=3):
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(3, dim)
        self.manifold = hgeo.PoincareBall(0.8, learnable=True) if manifold is None else manifold
        self.point = geoopt.ManifoldParameter(
            hgeo.exp0(self.manifold, torch.randn(5, dim) * 0.3), manifold=self.manifold
        )

    def loss(self):
        x = hgeo.exp0(self.manifold, self.linear(torch.ones(3)))
        return (hgeo.dist(self.manifold, x.expand_as(self.point), self.point) ** 2).mean()


def train(net, optimizer, steps):
    for _ in range(steps):
        optimizer.zero_grad()
        net.loss().backward()
        optimizer.step()


def numbers(net):
    return torch.cat([p.detach().as_subclass(torch.Tensor).flatten() for p in net.parameters()])


@pytest.mark.parametrize(
    ("make", "torchs"),
    [
        (lambda m: riemannian_adam(m, lr=0.1, weight_decay=0.1), lambda p: torch.optim.Adam(p, 0.1, weight_decay=0.1)),
        (lambda m: riemannian_adam(m, lr=0.1, amsgrad=True), lambda p: torch.optim.Adam(p, 0.1, amsgrad=True)),
        (lambda m: riemannian_adam(m, lr=0.1, fused=True), lambda p: torch.optim.Adam(p, 0.1, fused=True)),
        (lambda m: riemannian_adam(m, lr=0.1, foreach=True), lambda p: torch.optim.Adam(p, 0.1, foreach=True)),
        (lambda m: riemannian_sgd(m, lr=0.1, momentum=0.9), lambda p: torch.optim.SGD(p, 0.1, momentum=0.9)),
    ],
)
def test_on_weights_alone_it_is_torchs_optimiser_bit_by_bit(make, torchs):
    torch.manual_seed(0)
    ours = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    theirs = copy.deepcopy(ours)
    optimizers = make(ours), torchs(theirs.parameters())
    for step in range(10):
        x = torch.randn(16, 4, generator=torch.Generator().manual_seed(step))
        for model, optimizer in zip((ours, theirs), optimizers, strict=True):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(a, b)


def test_points_of_fixed_curvature_step_as_geoopts_riemannian_adam_does():
    ours, theirs = Net(hgeo.PoincareBall(0.8)), Net(hgeo.PoincareBall(0.8))
    train(ours, riemannian_adam(ours, lr=0.05), 10)
    reference = geoopt.optim.RiemannianAdam(theirs.parameters(), lr=0.05)
    train(theirs, reference, 10)
    torch.testing.assert_close(ours.point.as_subclass(torch.Tensor), theirs.point.as_subclass(torch.Tensor))


def test_the_momentum_of_sgd_starts_from_the_riemannian_gradient():
    # At c = 0 the metric is 4|dx|²; one step of any momentum must be a plain step.
    start = torch.tensor([0.6, 0.0])
    ends = []
    for momentum in (0.0, 0.9):
        point = geoopt.ManifoldParameter(start.clone(), manifold=hgeo.PoincareBall(1.0))
        optimizer = riemannian_sgd([point], lr=0.1, momentum=momentum)
        point.manifold.dist2(point, torch.zeros(2)).backward()
        optimizer.step()
        ends.append(point.detach().as_subclass(torch.Tensor).clone())
    assert torch.equal(*ends)


@pytest.mark.parametrize("kind", MAKERS)
def test_training_lowers_the_loss_and_keeps_points_on_the_manifold(kind):
    stock = geoopt.PoincareBall(1.0, True), geoopt.Stereographic(-0.5, True), geoopt.Lorentz(1.0, True)
    ours = "ball:3,c=learn", "stereo:3,k=learn", "sproj:3,k=learn", "lorentz:3,c=learn", "sphere:3"
    for text in (*ours, *stock):
        net = Net(text if isinstance(text, nn.Module) else hgeo.space(text).manifold)
        before = net.loss().item()
        train(net, MAKERS[kind](net, curvature_lr=1e-3), 30)
        assert net.loss().item() < before, text
        hgeo.validate(net.manifold, net.point.detach().as_subclass(torch.Tensor))


@pytest.mark.parametrize("kind", MAKERS)
def test_a_saved_and_loaded_optimiser_goes_on_as_the_uninterrupted_one(kind, tmp_path):
    straight, broken = Net(), Net()
    train(straight, MAKERS[kind](straight), 8)
    optimizer = MAKERS[kind](broken)
    train(broken, optimizer, 4)
    torch.save({"net": broken.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / "checkpoint")
    restarted = Net()
    optimizer = MAKERS[kind](restarted)
    saved = torch.load(tmp_path / "checkpoint")
    restarted.load_state_dict(saved["net"])
    optimizer.load_state_dict(saved["optimizer"])
    train(restarted, optimizer, 4)
    assert torch.equal(numbers(straight), numbers(restarted))


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda pair: pickle.loads(pickle.dumps(pair))])
def test_a_copy_of_model_and_optimiser_goes_on_independently(copied):
    net = Net()
    optimizer = MAKERS["adam"](net)
    train(net, optimizer, 3)
    other, other_optimizer = copied((net, optimizer))
    train(net, optimizer, 3)
    frozen = numbers(other).clone()
    train(other, other_optimizer, 3)
    assert not torch.equal(frozen, numbers(other))
    assert torch.equal(numbers(net), numbers(other))


def test_the_state_of_another_kind_of_model_is_refused():
    state = riemannian_adam(nn.Linear(2, 2)).state_dict()
    with pytest.raises(ValueError, match="the state has parameter groups"):
        riemannian_adam(Net()).load_state_dict(state)
    with pytest.raises(ValueError, match="saved by another optimiser"):
        riemannian_adam(nn.Linear(2, 2)).load_state_dict(torch.optim.Adam(nn.Linear(2, 2).parameters()).state_dict())


def test_a_new_group_is_refused_with_what_to_do_instead():
    optimizer = riemannian_adam(Net())
    with pytest.raises(NotImplementedError, match="make a new one with hgeo"):
        optimizer.add_param_group({"params": [nn.Parameter(torch.ones(2))]})


def test_learning_rate_schedulers_reach_every_kind_of_parameter():
    net = Net()
    optimizer = riemannian_adam(net, lr=0.1, curvature_lr=0.01)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.0)
    train(net, optimizer, 1)
    scheduler.step()
    stopped = numbers(net).clone()
    train(net, optimizer, 3)
    assert torch.equal(numbers(net), stopped)


def test_schedulers_that_set_momentum_accept_it():
    for optimizer in (riemannian_adam(Net(), lr=0.1), riemannian_sgd(Net(), lr=0.1, momentum=0.9)):
        scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=10)
        optimizer.step()
        scheduler.step()


def test_schedules_survive_loading_a_state():
    net = Net()
    optimizer = riemannian_adam(net, lr=0.1)
    optimizer.load_state_dict(optimizer.state_dict())
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    before = numbers(net).clone()
    train(net, optimizer, 2)
    assert torch.equal(numbers(net), before)


def test_a_closure_is_called_once_and_its_loss_returned():
    net, calls = Net(), []
    optimizer = riemannian_adam(net)

    def closure():
        calls.append(1)
        optimizer.zero_grad()
        loss = net.loss()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == pytest.approx(Net().loss().item())
    assert len(calls) == 1


def test_step_hooks_run_once():
    net, seen = Net(), []
    optimizer = riemannian_adam(net)
    optimizer.register_step_post_hook(lambda *_: seen.append(1))
    net.loss().backward()
    optimizer.step()
    assert seen == [1]


@pytest.mark.parametrize("manifold", [hgeo.Lorentz, geoopt.Lorentz, hgeo.PoincareBall, geoopt.PoincareBall])
def test_gradients_are_found_after_a_step_as_they_were_before(manifold):
    net = Net(manifold(1.0, learnable=True))
    net.loss().backward()
    before = [p.grad.clone() for p in net.parameters()]
    riemannian_grad_norm(net)
    riemannian_adam(net).step()
    for gradient, p in zip(before, net.parameters(), strict=True):
        assert torch.equal(gradient, p.grad)


@pytest.mark.parametrize("make", [hgeo.SphereProjection, hgeo.Stereographic])
def test_near_the_opposite_pole_of_a_projected_sphere_a_step_leads_across_it(make):
    # That pole is at infinity: x + u would square the coordinates in every step, until they overflow.
    manifold = make(1.0)
    pole = torch.tensor([-1.0, 0.0, 0.0])
    point = geoopt.ManifoldParameter(torch.tensor([1e4, 1e3]), manifold=manifold)
    optimizer = riemannian_sgd([point], lr=0.1)
    where = []
    for _ in range(8):
        optimizer.zero_grad()
        hgeo.math.stereo_to_sphere(point, k=1.0)[1].backward()  # downhill: along the first spatial axis, at speed 1
        optimizer.step()
        on_sphere = hgeo.math.stereo_to_sphere(point.detach().as_subclass(torch.Tensor), k=1.0)
        where.append(float(torch.linalg.vector_norm(on_sphere - pole)))
    assert where == sorted(where)
    assert where[0] == pytest.approx(0.1, rel=0.01)


@pytest.mark.parametrize("learnable", [False, True])
def test_far_out_on_the_hyperboloid_single_precision_steps_as_double_does(learnable):
    # There a tangent vector is almost a multiple of its point: Minkowski products of the two are noise, a squared
    # length may be negative, and a projection or a transport multiplies the momentum until it overflows.
    towards = torch.randn(20, 12, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    radii = []
    for dtype in (torch.float32, torch.float64):
        manifold = hgeo.Lorentz(1.0, learnable=learnable).to(dtype)
        start = 11 * nn.functional.normalize(towards[0], dim=-1)  # x₀ = 30,000
        net = nn.Module()
        net.manifold = manifold
        net.point = geoopt.ManifoldParameter(hgeo.exp0(manifold, start.to(dtype)), manifold=manifold)
        optimizer = riemannian_adam(net, lr=0.1)
        for direction in towards:
            optimizer.zero_grad()
            (hgeo.log0(manifold, net.point) * direction.to(dtype)).sum().backward()
            optimizer.step()
        radii.append(manifold.dist0(net.point.detach().as_subclass(torch.Tensor)).double())
        assert torch.isfinite(optimizer.state[net.point]["exp_avg"]).all()
    torch.testing.assert_close(*radii, rtol=0.01, atol=0)


def test_a_point_of_the_hyperboloid_is_stopped_where_those_of_the_ball_are():
    manifold = hgeo.Lorentz(0.5)
    point = geoopt.ManifoldParameter(hgeo.exp0(manifold, torch.tensor([5.0, 1.0])), manifold=manifold)
    optimizer = riemannian_sgd([point], lr=10.0, momentum=0.9)
    for _ in range(30):
        optimizer.zero_grad()
        (-hgeo.log0(manifold, point)[0]).backward()
        optimizer.step()
    # by its spatial part, which determines a point: 1 - √c|x| of the ball's, from √c|X'| = sinh(√c d)
    out = float(torch.linalg.vector_norm(point.detach().as_subclass(torch.Tensor)[1:].double())) * 0.5**0.5
    assert 1 - math.tanh(math.asinh(out) / 2) == pytest.approx(hgeo.math.boundary_margin(torch.float32), rel=0.01)


# --- decay ---


def test_weight_decay_acts_on_weights_and_on_nothing_else():
    net = Net()
    optimizer = riemannian_sgd(net, lr=0.5, weight_decay=0.1)
    weight, point = net.linear.weight.detach().clone(), net.point.detach().clone()
    for p in net.parameters():
        p.grad = torch.zeros_like(p)
    optimizer.step()
    torch.testing.assert_close(net.linear.weight.detach(), weight * (1 - 0.5 * 0.1))
    assert torch.equal(net.point.detach(), point)
    assert net.manifold.c.item() == pytest.approx(0.8)


@pytest.mark.parametrize("text", ["ball:3", "ball:3,c=0", "lorentz:3", "sphere:3", "euclidean:3", "ball:2 x sphere:1"])
def test_point_decay_shrinks_tangent_coordinates(text):
    manifold, dim = hgeo.space(text)
    net = Net(manifold, dim)
    optimizer = riemannian_sgd(net, lr=0.5, point_decay=0.2)
    before = hgeo.log0(manifold, net.point.detach().as_subclass(torch.Tensor)).clone()
    for p in net.parameters():
        p.grad = torch.zeros_like(p)
    optimizer.step()
    after = hgeo.log0(manifold, net.point.detach().as_subclass(torch.Tensor))
    torch.testing.assert_close(after, 0.9 * before, rtol=1e-4, atol=1e-6)


def test_point_decay_at_zero_curvature_is_the_decay_of_adamw():
    start = torch.tensor([1.0, -2.0])
    point = geoopt.ManifoldParameter(start.clone(), manifold=geoopt.Euclidean(1))
    weight = nn.Parameter(start.clone())
    ours, torchs = riemannian_sgd([point], lr=0.1, point_decay=0.3), torch.optim.AdamW([weight], 0.1, weight_decay=0.3)
    for p, optimizer in ((point, ours), (weight, torchs)):
        p.grad = torch.zeros(2)
        optimizer.step()
    torch.testing.assert_close(point.detach().as_subclass(torch.Tensor), weight.detach())


# --- clipping ---


def test_the_riemannian_norm_does_not_depend_on_the_model_of_the_space():
    ball, lorentz = hgeo.PoincareBall(0.7), hgeo.Lorentz(0.7)
    v = torch.randn(6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    norms = []
    for manifold in (ball, lorentz):
        x = hgeo.exp0(manifold, v * (2 / hgeo.frame_scale(manifold)) / 2)
        point = geoopt.ManifoldParameter(x, manifold=manifold)
        hgeo.dist(manifold, point[:3], point[3:]).square().sum().backward()
        norms.append(riemannian_grad_norm([point]))
    torch.testing.assert_close(*norms, rtol=1e-6, atol=0)


def test_clipping_brings_the_norm_to_the_limit_and_keeps_the_direction():
    net = Net()
    net.loss().backward()
    before = net.point.grad.clone()
    norm = clip_grad_norm_(net, 0.5)
    assert norm.item() > 0.5
    assert riemannian_grad_norm(net).item() == pytest.approx(0.5, rel=1e-4)
    cosine = torch.cosine_similarity(before.flatten(), net.point.grad.flatten(), dim=0)
    assert cosine.item() == pytest.approx(1.0)


def test_clipping_leaves_small_gradients_alone():
    net = Net()
    net.loss().backward()
    before = net.point.grad.clone()
    clip_grad_norm_(net, 1e6)
    assert torch.equal(before, net.point.grad)


def test_the_optimiser_clips_when_asked():
    def moved(limit):
        net = Net(hgeo.PoincareBall(0.8))
        before = numbers(net).clone()
        train(net, riemannian_sgd(net, lr=1e-3, max_grad_norm=limit), 1)
        return (numbers(net) - before).norm().item()

    assert moved(0.1) < 0.2 * moved(None)
    assert moved(1e6) == moved(None)


# --- sparse tables ---


@pytest.mark.parametrize(
    "make", [lambda m: riemannian_adam(m, lr=0.1), lambda m: riemannian_sgd(m, lr=0.1, momentum=0.9)]
)
@pytest.mark.parametrize(
    "make_manifold", [lambda: hgeo.PoincareBall(learnable=True), lambda: hgeo.Lorentz(learnable=True)]
)
def test_a_sparse_gradient_moves_its_rows_only(make, make_manifold):
    manifold = make_manifold()
    table = geoopt.ManifoldParameter(hgeo.exp0(manifold, torch.randn(10, 3) * 0.1), manifold=manifold)
    dense = geoopt.ManifoldParameter(hgeo.exp0(manifold, torch.randn(3) * 0.1), manifold=manifold)
    before = hgeo.log0(manifold, table.detach().as_subclass(torch.Tensor))
    optimizer = make([table, dense])
    rows = nn.functional.embedding(torch.tensor([2, 5, 5]), table, sparse=True)
    hgeo.dist(manifold, rows, dense.expand_as(rows)).sum().backward()
    assert table.grad.is_sparse
    optimizer.step()
    hgeo.validate(manifold, table.detach().as_subclass(torch.Tensor))
    with torch.no_grad():
        moved = (hgeo.log0(manifold, table.detach().as_subclass(torch.Tensor)) - before).abs().amax(-1) > 1e-3
    assert moved.nonzero().flatten().tolist() == [2, 5]
    assert dense in optimizer.state


SPARSE = {
    "adam": (riemannian_adam, geoopt.optim.SparseRiemannianAdam, {"lr": 0.1, "betas": (0.8, 0.95)}),
    "sgd": (riemannian_sgd, geoopt.optim.SparseRiemannianSGD, {"lr": 0.1}),
}


def _table_and_steps(manifold, make, gradients, **options):
    """A table of points after a step for each of the gradients."""
    torch.manual_seed(0)
    table = geoopt.ManifoldParameter(0.3 * torch.randn(6, 3, dtype=torch.float64), manifold=manifold)
    optimizer = make([table], **options)
    for gradient in gradients:
        table.grad = gradient.clone()
        optimizer.step()
    return table.detach().as_subclass(torch.Tensor)


@pytest.mark.parametrize("name", SPARSE)
def test_a_step_of_a_tables_rows_is_geoopts(name):
    ours, theirs, options = SPARSE[name]
    index, values = torch.tensor([[4, 1, 4]]), torch.randn(3, 3, dtype=torch.float64)
    gradients = [torch.sparse_coo_tensor(index, scale * values, (6, 3)) for scale in (1.0, -0.3, 2.0)]
    tables = [_table_and_steps(hgeo.PoincareBall(0.7), make, gradients, **options) for make in (ours, theirs)]
    torch.testing.assert_close(*tables, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (riemannian_adam, {"lr": 0.1}),
        (riemannian_sgd, {"lr": 0.1, "momentum": 0.9}),
        (riemannian_sgd, {"lr": 0.1, "momentum": 0.9, "dampening": 0.2}),
        (riemannian_sgd, {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    ],
)
@pytest.mark.parametrize("manifold", [hgeo.PoincareBall(0.7), hgeo.SphereProjection(0.7)])
def test_where_every_row_is_touched_a_sparse_step_is_a_dense_one(manifold, make, options):
    dense = [torch.randn(6, 3, dtype=torch.float64) for _ in range(3)]
    sparse = [gradient.to_sparse(1) for gradient in dense]
    tables = [_table_and_steps(manifold, make, gradients, **options) for gradients in (dense, sparse)]
    torch.testing.assert_close(*tables, rtol=1e-12, atol=1e-14)


def test_sparse_amsgrad_is_refused():
    table = geoopt.ManifoldParameter(torch.zeros(4, 2), manifold=hgeo.PoincareBall())
    optimizer = riemannian_adam([table], amsgrad=True)
    nn.functional.embedding(torch.tensor([1]), table, sparse=True).sum().backward()
    with pytest.raises(ValueError, match="amsgrad=False or an embedding with sparse=False"):
        optimizer.step()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lr": -1.0}, "lr must be a number ≥ 0, got -1"),
        ({"curvature_lr": float("nan")}, "curvature_lr must be a number ≥ 0, got nan"),
        ({"point_decay": -0.1}, "point_decay must be a number ≥ 0"),
        ({"max_grad_norm": 0.0}, "max_grad_norm must be positive"),
        ({"betas": (1.0, 0.9)}, "Invalid beta"),
    ],
)
def test_impossible_settings_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        riemannian_adam(Net(), **options)
