"""Attention among points: torch's in flat space, nearest first in curved ones, the same seen from everywhere."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import hgeo
import hgeo.nn as hnn

SPACES = ["ball:4", "lorentz:4", "klein:4", "sphere:4", "sproj:4", "ball:2 x sphere:2", "euclidean:4"]


def points(manifold: object, *shape: int, seed: int = 0, size: float = 0.5) -> torch.Tensor:
    v = size * torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return hgeo.exp0(manifold, v)


def test_in_flat_space_it_is_torchs_but_for_the_length_of_keys() -> None:
    plain = hgeo.space("euclidean:4").manifold
    q, k, v = torch.randn(3, 2, 5, 4, dtype=torch.float64)
    bias = -k.square().sum(-1).unsqueeze(-2) / 4  # half of 1/√d
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=bias.expand(2, 5, 5))
    torch.testing.assert_close(hnn.set_attention(q, k, v, manifold=plain), expected)


@pytest.mark.parametrize("space", SPACES[:3])
def test_scores_are_minus_half_the_squared_lorentzian_distance_and_values_meet_in_their_midpoint(space: str) -> None:
    manifold = hgeo.space(space).manifold.double()
    q, k, v = (points(manifold, n, 4, seed=n) for n in (3, 5, 5))
    apart = 4 * torch.sinh(hgeo.dist(manifold, q[:, None], k) / 2) ** 2
    weights = (-0.7 / 2 * apart).softmax(-1)
    expected = hnn.Midpoint(manifold)(v.expand(3, 5, -1), weights)
    torch.testing.assert_close(hnn.set_attention(q, k, v, scale=0.7, manifold=manifold), expected)


@pytest.mark.parametrize("space", SPACES)
def test_an_isometry_of_the_input_is_an_isometry_of_the_output(space: str) -> None:
    manifold = hgeo.space(space).manifold.double()
    x, p = points(manifold, 5, 4), points(manifold, 4, seed=9)

    def move(y: torch.Tensor) -> torch.Tensor:
        return hgeo.manifolds.translate(manifold, p.expand_as(y), y)

    moved = hnn.set_attention(move(x), move(x), move(x), manifold=manifold)
    torch.testing.assert_close(moved, move(hnn.set_attention(x, x, x, manifold=manifold)))


@pytest.mark.parametrize("radius", [2.0, 9.0])
def test_float32_points_far_out_are_attended_to_as_exactly_as_float64_ones(radius: float) -> None:
    space = hgeo.Lorentz().double()
    x = hgeo.exp0(space, torch.tensor([[0.0, 0.0], [0.1, 0.0], [0.0, 0.3]], dtype=torch.float64))
    p = hgeo.exp0(space, torch.tensor([radius, 0.0], dtype=torch.float64)).expand_as(x)
    y = hgeo.manifolds.translate(space, p, x).float()
    found = hnn.set_attention(y, y, y, scale=4.0, manifold=space)
    assert found.dtype == torch.float32
    exact = hgeo.manifolds.project(space, y.double())
    expected = hnn.set_attention(exact, exact, exact, scale=4.0, manifold=space)
    # one rounding of a float32 moves a point so far, out there
    rounding = 2 * torch.finfo(torch.float32).eps * torch.cosh(torch.tensor(radius + 0.3))
    gap = hgeo.dist(space, hgeo.manifolds.project(space, found.double()), expected)
    assert (gap < rounding.clamp(min=1e-5)).all()


@pytest.mark.parametrize("space", ["ball:4", "sphere:4"])
def test_a_mask_says_which_points_are_attended_to(space: str) -> None:
    manifold = hgeo.space(space).manifold.double()
    x = points(manifold, 2, 4, 4)
    past = torch.ones(4, 4, dtype=torch.bool).tril()
    causal = hnn.set_attention(x, x, x, is_causal=True, manifold=manifold)
    torch.testing.assert_close(hnn.set_attention(x, x, x, past, manifold=manifold), causal)
    numbers = torch.zeros(4, 4, dtype=torch.float64).masked_fill(~past, -torch.inf)
    torch.testing.assert_close(hnn.set_attention(x, x, x, numbers, manifold=manifold), causal)
    torch.testing.assert_close(causal[:, 0], x[:, 0])  # who hears only itself stays
    first = hnn.set_attention(x[:, :2], x[:, :2], x[:, :2], is_causal=True, manifold=manifold)
    torch.testing.assert_close(causal[:, :2], first)
    with pytest.raises(ValueError, match="is_causal or an attn_mask, not both"):
        hnn.set_attention(x, x, x, past, is_causal=True, manifold=manifold)


def test_a_point_with_an_empty_mask_gets_the_origin_and_finite_gradients() -> None:
    ball = hgeo.PoincareBall()
    x = points(ball, 3, 4).float().requires_grad_()
    mask = torch.ones(3, 3, dtype=torch.bool)
    mask[1] = False
    y = hnn.set_attention(x, x, x, mask, manifold=ball)
    assert not y[1].any()
    y.sum().backward()
    assert torch.isfinite(x.grad).all()


def test_heads_attend_separately_and_memory_is_another_set() -> None:
    torch.manual_seed(0)
    layer = hnn.SetAttention(4, hgeo.Lorentz(), heads=2).double().eval()
    x, memory = points(layer.manifold, 2, 3, 4), points(layer.manifold, 2, 5, 4, seed=1)
    assert layer(x, memory).shape == (2, 3, 5)
    torch.testing.assert_close(layer(x, x), layer(x))
    torch.testing.assert_close(layer(x.flip(1)), layer(x).flip(1))  # a set has no order
    mask = torch.rand(2, 3, 5, generator=torch.Generator().manual_seed(2)) < 0.5
    mask[..., 0] = True
    masked = torch.stack([layer(x[n], memory[n], attn_mask=mask[n]) for n in range(2)])
    torch.testing.assert_close(layer(x, memory, attn_mask=mask), masked)
    assert layer.log_scale.exp().tolist() == pytest.approx([2**-0.5] * 2)


def test_dropout_of_weights_happens_in_training_only() -> None:
    layer = hnn.SetAttention(4, hgeo.PoincareBall(), dropout=0.5)
    x = points(layer.manifold, 6, 4).float()
    assert not torch.equal(layer(x), layer(x))
    layer.eval()
    assert torch.equal(layer(x), layer(x))


def test_bad_sets_and_heads_are_refused_in_words() -> None:
    ball = hgeo.PoincareBall()
    with pytest.raises(ValueError, match=r"SetAttention: 3 heads do not divide dim=4; give head_dim"):
        hnn.SetAttention(4, ball, heads=3)
    with pytest.raises(ValueError, match=r"set_attention: query .* got shapes \(2, 3\), \(5, 4\) and \(5, 4\)"):
        hnn.set_attention(torch.zeros(2, 3), torch.zeros(5, 4), torch.zeros(5, 4), manifold=ball)


@pytest.mark.parametrize("space", SPACES)
def test_autocast_does_not_touch_differences_of_products(space: str) -> None:
    manifold = hgeo.space(space).manifold
    x = points(manifold, 12, 4).float()
    expected = hnn.set_attention(x, x, x, scale=4.0, manifold=manifold)
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(hnn.set_attention(x, x, x, scale=4.0, manifold=manifold), expected)
