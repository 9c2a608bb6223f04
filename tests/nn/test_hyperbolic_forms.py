"""Linear maps and classifiers in HNN++'s and HyboNet's forms, against the formulas as the papers print them."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import Tensor, nn

import hgeo
import hgeo.nn as hnn

C = 0.7
SPACES = [
    hgeo.PoincareBall(c=C),
    hgeo.Lorentz(c=C),
    hgeo.manifolds.Klein(c=C),
    hgeo.Scaled(hgeo.PoincareBall(c=4 * C), 2.0),
]


def filled(layer: nn.Module) -> nn.Module:
    torch.manual_seed(1)
    layer = layer.double()
    with torch.no_grad():
        for parameter in layer.parameters():
            if parameter.requires_grad and not hasattr(parameter, "manifold"):
                parameter.copy_(0.5 * torch.randn_like(parameter))
    return layer


def vectors(rows: int = 5, dim: int = 3) -> Tensor:
    return torch.randn(rows, dim, dtype=torch.float64, generator=torch.Generator().manual_seed(2))


def shimizu(x: Tensor, z: Tensor, r: Tensor) -> Tensor:
    """v_k(x) of "Hyperbolic neural networks++", equation 6, for points of the ball."""
    root, length = math.sqrt(C), z.norm(dim=1)
    lam = 2 / (1 - C * x.square().sum(1, keepdim=True))
    inner = lam * root * (x @ (z / length[:, None]).T) * torch.cosh(2 * root * r)
    return 2 * length / root * torch.asinh(inner - (lam - 1) * torch.sinh(2 * root * r))


def test_hnn_plus_plus_is_the_papers_fully_connected_layer_on_the_ball() -> None:
    layer = filled(hnn.Linear(3, 4, SPACES[0], form="hnn++"))
    x = hgeo.exp0(layer.manifold, 0.4 * vectors())
    w = torch.sinh(math.sqrt(C) * shimizu(x, layer.weight / 2, -layer.bias / 2)) / math.sqrt(C)
    expected = w / (1 + torch.sqrt(1 + C * w.square().sum(1, keepdim=True)))
    torch.testing.assert_close(layer(x), expected)


def test_hnn_plus_plus_scores_are_the_papers_on_the_ball() -> None:
    layer = filled(hnn.MLR(3, 4, SPACES[0], form="hnn++"))
    x = hgeo.exp0(layer.in_manifold, 0.4 * vectors())
    torch.testing.assert_close(layer(x), shimizu(x, layer.normal / 2, -layer.bias / 2))


def test_hnn_plus_plus_scores_are_those_of_the_same_hyperplanes_with_a_point() -> None:
    ball = SPACES[0]
    short, long = filled(hnn.MLR(3, 4, ball, form="hnn++")), hnn.MLR(3, 4, ball).double()
    direction = short.normal / short.normal.norm(dim=1, keepdim=True)
    with torch.no_grad():
        long.normal.copy_(short.normal / 2)  # a unit coordinate vector has length 2
        long.point.copy_(hgeo.exp0(ball, -direction * short.bias[:, None] / 2))
    x = hgeo.exp0(ball, 0.4 * vectors())
    torch.testing.assert_close(long(x), short(x))


def test_the_lorentz_form_is_hybonets_linear_map_of_all_coordinates() -> None:
    space = hgeo.Lorentz(c=1.0)
    layer = filled(hnn.Linear(3, 4, space, form="lorentz", activation=torch.relu))
    x = hgeo.exp0(space, 0.4 * vectors())
    weight = torch.cat([layer.time_weight[:, None], layer.weight], dim=1)
    spatial = torch.relu(x @ weight.T + (layer.bias - layer.time_weight))
    expected = torch.cat([torch.sqrt(1 + spatial.square().sum(1, keepdim=True)), spatial], dim=1)
    torch.testing.assert_close(layer(x), expected)


def test_a_gate_sets_the_radius_and_the_map_the_direction() -> None:
    space = hgeo.Lorentz(c=1.0)
    layer = filled(hnn.Linear(3, 4, space, form="lorentz", gate=True))
    y = layer(hgeo.exp0(space, 0.4 * vectors()))
    assert (y[:, 0] > 1.1).all()
    assert (y[:, 0] < 1.1 + layer.log_reach.exp()).all()
    hgeo.validate(space, y.detach())


def test_lorentz_scores_are_minkowski_products_with_points_of_the_classes() -> None:
    space = hgeo.Lorentz(c=1.0)
    layer = filled(hnn.MLR(3, 4, space, form="lorentz"))
    x = hgeo.exp0(space, 0.4 * vectors())
    point = space.projx(layer.point)  # which was made in float32
    product = x[:, 1:] @ point[:, 1:].T - x[:, :1] @ point[:, :1].T
    torch.testing.assert_close(layer(x), layer.bias + 2 + 2 * product)
    single = copy.deepcopy(layer).float()  # float32 scores come of products made in float64
    torch.testing.assert_close(single(x.float()).double(), layer(x), rtol=1e-5, atol=1e-5)


def test_lorentz_scores_keep_their_digits_far_from_the_origin() -> None:
    space = hgeo.Lorentz(c=1.0)
    layer = hnn.MLR(2, 1, space, form="lorentz")
    for other in (8.0, -8.0, 0.0):
        with torch.no_grad():
            layer.point.copy_(hgeo.exp0(space, torch.tensor([[9.0, 0.0]])))
            score = layer(hgeo.exp0(space, torch.tensor([[other, 0.0]])))
        # of the difference of squares no digit is right here in float32
        assert float(score) == pytest.approx(-4 * math.sinh((9 - other) / 2) ** 2, rel=1e-5)


@pytest.mark.parametrize("options", [{"form": "lorentz"}, {"form": "lorentz", "gate": True}, {"form": "hnn++"}])
def test_every_model_of_hyperbolic_space_gives_the_same_point(options: dict) -> None:
    answers = []
    for space in SPACES:
        layer, unit = filled(hnn.Linear(3, 4, space, **options)), hgeo.frame_scale(space)
        answers.append(unit * hgeo.log0(space, layer(hgeo.exp0(space, 0.4 * vectors() / unit))))
    for answer in answers[1:]:
        torch.testing.assert_close(answer, answers[0])


@pytest.mark.parametrize("form", ["lorentz", "hnn++"])
def test_curvatures_of_input_and_output_both_move(form: str) -> None:
    inside, outside = hgeo.Lorentz(c=1.0, learnable=True).double(), hgeo.Lorentz(c=0.5, learnable=True).double()
    layer = filled(hnn.Linear(3, 3, outside, in_manifold=inside, form=form))
    y = layer(hgeo.exp0(inside, vectors()))
    hgeo.validate(outside, y.detach())
    hgeo.dist(outside, y[:1], y[1:]).sum().backward()
    assert abs(float(inside.stored_c.grad)) > 1e-3
    assert abs(float(outside.stored_c.grad)) > 1e-3


@pytest.mark.parametrize("form", ["lorentz", "hnn++"])
def test_a_space_that_is_or_may_become_a_sphere_is_refused(form: str) -> None:
    for word in ("sphere:3", "sproj:3", "stereo:3,k=learn"):
        with pytest.raises(ValueError, match=r"spatial coordinates of the hyperboloid.*take another form or space"):
            hnn.Linear(3, 3, hgeo.space(word).manifold, form=form)


def test_an_activation_or_gate_of_another_form_is_refused() -> None:
    with pytest.raises(ValueError, match="belong to form='lorentz'"):
        hnn.Linear(3, 3, SPACES[0], gate=True)
