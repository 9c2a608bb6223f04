"""Every parameter of a model is found once, as what it is."""

import copy
import gc
import pickle

import geoopt
import pytest
import torch
from torch import nn

import hgeo
from hgeo.optim import parameter_roles, riemannian_adam, riemannian_sgd


class Net(nn.Module):
    """A weight, two points on one manifold that is a submodule, and one on a manifold that only hangs on it."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.ball = hgeo.PoincareBall(0.5, learnable=True)
        self.also_the_ball = self.ball
        self.points = nn.ParameterList(
            [geoopt.ManifoldParameter(torch.full((2,), 0.1 * i), manifold=self.ball) for i in (1, 2)]
        )
        hidden = hgeo.Stereographic(0.3, learnable=True)
        self.lonely = geoopt.ManifoldParameter(torch.zeros(2), manifold=hidden)

    def loss(self):
        x = self.ball.expmap0(self.linear(torch.ones(3)))
        total = sum(self.ball.dist2(x, point) for point in self.points)
        return total + self.lonely.manifold.dist2(self.lonely, torch.tensor([0.3, 0.4]))


def identities(tensors):
    return sorted(map(id, tensors))


def test_each_parameter_is_found_exactly_once():
    net = Net()
    roles = parameter_roles(net)
    assert identities(roles.weights) == identities(net.linear.parameters())
    assert identities(roles.points) == identities([*net.points, net.lonely])
    assert identities(roles.curvatures) == identities([net.ball.stored_c, net.lonely.manifold.k])
    in_groups = [p for group in riemannian_adam(net).param_groups for p in group["params"]]
    assert identities(in_groups) == identities({*net.parameters(), net.lonely.manifold.k})


def test_a_curvature_that_hangs_only_on_a_point_is_trained():
    net = Net()
    hidden = net.lonely.manifold
    assert all(parameter is not hidden.k for parameter in net.parameters())
    optimizer = riemannian_adam(net, lr=0.01)
    before = hidden.k.item()
    net.loss().backward()
    optimizer.step()
    assert hidden.k.item() != before


@pytest.mark.parametrize(
    "make",
    [
        lambda: hgeo.PoincareBall(1.0, learnable=True),
        lambda: hgeo.SphereProjection(1.0, learnable=True),
        lambda: hgeo.Lorentz(1.0, learnable=True),
        lambda: geoopt.PoincareBall(1.0, learnable=True),
        lambda: geoopt.Stereographic(-0.5, learnable=True),
        lambda: geoopt.Scaled(geoopt.Sphere(), 2.0, learnable=True),
        lambda: hgeo.Product((hgeo.PoincareBall(1.0, learnable=True), 2), (hgeo.Lorentz(1.0, learnable=True), 2)),
        lambda: hgeo.space("ball:1,c=learn x stereo:2,k=learn x sphere:1").manifold,
    ],
)
def test_every_learnable_number_of_any_manifold_is_a_curvature(make):
    manifold = make()
    assert len(parameter_roles(manifold).curvatures) == len(list(manifold.parameters())) > 0
    assert identities(parameter_roles([manifold]).curvatures) == identities(manifold.parameters())


def test_modules_parameters_and_named_parameters_may_be_mixed():
    net, extra = Net(), nn.Parameter(torch.ones(2))
    roles = parameter_roles([net, extra, ("again", extra), *net.linear.named_parameters()])
    assert identities(roles.weights) == identities([*net.linear.parameters(), extra])


def bare_net(make):
    """A network without a point, so that nothing but the manifold itself says what its number is."""
    net = nn.Module()
    net.linear, net.manifold = nn.Linear(3, 2), make()
    return net


@pytest.mark.parametrize(
    "make",
    [
        lambda: hgeo.PoincareBall(0.5, learnable=True),
        lambda: hgeo.Stereographic(0.5, learnable=True),
        lambda: hgeo.Klein(0.5, learnable=True),
        lambda: copy.deepcopy(hgeo.Lorentz(0.5, learnable=True)),
        lambda: pickle.loads(pickle.dumps(hgeo.SphereProjection(0.5, learnable=True))),
        lambda: geoopt.PoincareBall(0.5, learnable=True),
        lambda: geoopt.Lorentz(0.5, learnable=True),
        lambda: hgeo.space("ball:1,c=learn x stereo:2,k=learn x sphere:1").manifold,
    ],
)
@pytest.mark.parametrize("given", ["parameters", "named_parameters"])
def test_parameters_without_their_module_have_the_same_roles(make, given):
    net = bare_net(make)
    optimizer = riemannian_adam(getattr(net, given)(), lr=0.01, curvature_lr=0.001, weight_decay=0.1)
    expected = riemannian_adam(net, lr=0.01, curvature_lr=0.001, weight_decay=0.1)
    for mine, other in zip(optimizer.param_groups, expected.param_groups, strict=True):
        assert list(map(id, mine["params"])) == list(map(id, other["params"]))
        assert {**mine, "params": 0} == {**other, "params": 0}


def test_parameters_of_a_part_bring_only_their_own_curvature():
    product = hgeo.space("ball:1,c=learn x stereo:2,k=learn").manifold
    first = next(product.parameters())
    roles = parameter_roles([first, nn.Parameter(torch.ones(()))])
    assert identities(roles.curvatures) == [id(first)]
    assert len(roles.weights) == 1


def test_a_curvature_given_alone_returns_to_its_bound_in_the_step():
    net = bare_net(lambda: hgeo.PoincareBall(0.1, learnable=True))
    optimizer = riemannian_sgd(net.parameters(), lr=1.0, momentum=0.9)
    net.manifold.stored_c.grad = torch.tensor(5.0)
    optimizer.step()
    assert net.manifold.stored_c.item() == 0.0
    assert optimizer.state[net.manifold.stored_c]["momentum_buffer"].item() == 0.0


def test_a_curvature_separated_from_its_manifold_is_refused_and_not_decayed_silently():
    layer = bare_net(lambda: hgeo.PoincareBall(learnable=True))
    parameters = list(layer.named_parameters())
    assert len(parameter_roles([*parameters, layer.manifold]).weights) == 2
    del layer
    gc.collect()
    with pytest.raises(ValueError, match=r"'manifold.stored_c' is a curvature by its name.*give the module"):
        riemannian_adam(parameters)


def test_named_parameters_of_points_bring_their_curvature():
    net = Net()
    roles = parameter_roles(net.named_parameters())
    assert identities(roles.curvatures) == identities([net.ball.stored_c, net.lonely.manifold.k])


class NoGradient(geoopt.Euclidean):
    def egrad2rgrad(self, x, u):
        raise NotImplementedError("not written yet")


def test_a_manifold_that_cannot_turn_gradients_is_refused_when_the_optimiser_is_made():
    point = geoopt.ManifoldParameter(torch.zeros(2), manifold=NoGradient(1))
    with pytest.raises(TypeError, match=r"egrad2rgrad fails \(not written yet\).*implement egrad2rgrad"):
        riemannian_adam([point])


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (nn.ReLU(), ValueError, "nothing to optimise"),
        ([], ValueError, "nothing to optimise"),
        (torch.ones(2), TypeError, "expected a module"),
        (3, TypeError, "expected a module"),
        ([3], TypeError, "got 3"),
        ([{"params": [torch.ones(2)]}], TypeError, "made by the optimiser itself"),
        ([torch.ones(2, requires_grad=True) * 2], ValueError, "not a leaf"),
    ],
)
def test_what_cannot_be_optimised_is_refused_with_a_reason(given, error, message):
    with pytest.raises(error, match=message):
        riemannian_adam(given)


def test_a_frozen_parameter_is_included_and_steps_once_it_is_thawed():
    net = Net()
    net.ball.stored_c.requires_grad_(False)
    optimizer = riemannian_adam(net, lr=0.01)
    net.loss().backward()
    optimizer.step()
    assert net.ball.c.item() == 0.5
    net.ball.stored_c.requires_grad_(True)
    optimizer.zero_grad()
    net.loss().backward()
    optimizer.step()
    assert net.ball.c.item() != 0.5
