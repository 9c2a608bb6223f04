"""Decoders of links: one interface, by name; the nearer or the more alike, the likelier."""

from __future__ import annotations

import pytest
import torch

import hgeo
import hgeo.nn as hnn

NEAR_THEN_FAR = torch.tensor([[0, 0], [1, 2]])


@pytest.mark.parametrize("name", hnn.DECODERS)
@pytest.mark.parametrize("space", ["ball:2,c=learn", "lorentz:2", "sphere:2", "ball:1 x euclidean:1"])
def test_each_decoder_by_name_says_that_near_points_are_linked_rather_than_far_ones(name: str, space: str) -> None:
    manifold = hgeo.space(space).manifold
    points = hgeo.exp0(manifold, torch.tensor([[0.5, 0.2], [0.6, 0.2], [-0.5, -0.4]]))
    logits = hnn.decoder(name, manifold).logits(points, NEAR_THEN_FAR)
    assert logits[0] > logits[1]
    torch.testing.assert_close(hnn.decoder(name, manifold).logits(points[:1], points[1:]), logits)


def test_the_fermi_dirac_decoder_by_name_is_hgcns_and_learns_nothing() -> None:
    decoder = hnn.decoder("fermi-dirac", hgeo.PoincareBall())
    x = torch.tensor([[0.3, 0.0], [-0.3, 0.0]])
    expected = 2.0 - hgeo.dist(decoder.in_manifold, x[0], x[1]) ** 2
    torch.testing.assert_close(decoder.logits(x, torch.tensor([[0], [1]])), expected[None])
    assert not any(p.requires_grad for p in decoder.parameters())


def test_the_inner_product_is_one_number_on_ball_and_hyperboloid() -> None:
    v, pairs = torch.randn(5, 3, dtype=torch.float64), torch.tensor([[0, 1], [2, 4]])
    ball, hyperboloid = hgeo.PoincareBall().double(), hgeo.Lorentz().double()
    on_ball = hnn.InnerProductDecoder(ball).double()(hgeo.exp0(ball, v / 2), pairs)
    torch.testing.assert_close(on_ball, hnn.InnerProductDecoder(hyperboloid).double()(hgeo.exp0(hyperboloid, v), pairs))


def test_an_unknown_decoder_and_a_useless_scale_are_named() -> None:
    with pytest.raises(ValueError, match=r"no decoder 'cosine'; there are fermi-dirac, .*inner-product"):
        hnn.decoder("cosine", hgeo.PoincareBall())
    with pytest.raises(ValueError, match="InnerProductDecoder: beta must be positive, got 0"):
        hnn.InnerProductDecoder(hgeo.PoincareBall(), beta=0.0)
