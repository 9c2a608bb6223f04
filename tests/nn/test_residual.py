"""A skip connection of points: between its ends, x itself where its weight is nothing, the same from everywhere."""

from __future__ import annotations

import pytest
import torch

import hgeo
import hgeo.nn as hnn


def pair(manifold: object) -> tuple[torch.Tensor, torch.Tensor]:
    x, y = hgeo.exp0(manifold, 0.6 * torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(0)))
    return x, y


@pytest.mark.parametrize("how", ["gyro", "tangent"])
@pytest.mark.parametrize("space", ["ball:3", "lorentz:3", "sphere:3", "ball:2 x euclidean:1"])
def test_without_weight_it_is_x_to_the_last_bit(space: str, how: str) -> None:
    manifold = hgeo.space(space).manifold
    residual, (x, y) = hnn.Residual(manifold, how=how), pair(manifold)
    with torch.no_grad():
        residual.theta.fill_(-torch.inf)
        assert torch.equal(residual(x, y), x)
        residual.theta.fill_(-200.0)
        assert torch.equal(residual(x, y), x)


@pytest.mark.parametrize("space", ["ball:3", "lorentz:3", "sphere:3"])
def test_it_lies_on_the_geodesic_and_in_the_middle_at_weight_one(space: str) -> None:
    manifold = hgeo.space(space).manifold
    x, y = pair(manifold)
    for weight, middle in ((1.0, True), (3.0, False)):
        z = hnn.Residual(manifold, weight=weight)(x, y).detach()
        near, far, whole = hgeo.dist(manifold, x, z), hgeo.dist(manifold, z, y), hgeo.dist(manifold, x, y)
        torch.testing.assert_close(near + far, whole, rtol=1e-4, atol=1e-5)
        if middle:
            torch.testing.assert_close(near, far, rtol=1e-4, atol=1e-5)
        else:
            assert (near > far).all()


def test_its_weight_is_learned() -> None:
    manifold = hgeo.PoincareBall()
    residual, (x, y) = hnn.Residual(manifold), pair(manifold)
    hgeo.dist(manifold, residual(x, y), y).sum().backward()
    assert residual.theta.grad < 0  # nearer to y with more weight
    assert not any(p.requires_grad for p in hnn.Residual(manifold, learnable=False).parameters())


def test_wrong_words_weights_and_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="Residual: weight must be positive, got -1"):
        hnn.Residual(hgeo.PoincareBall(), weight=-1.0)
    with pytest.raises(ValueError, match=r"x has shape \(2, 3\), y \(2, 4\)"):
        hnn.Residual(hgeo.PoincareBall())(torch.zeros(2, 3), torch.zeros(2, 4))


@pytest.mark.parametrize("coordinates", ["tangent", "spatial"])
@pytest.mark.parametrize("kind", [hnn.LayerNorm, hnn.RMSNorm])
def test_a_normalised_point_forgets_its_radius_until_the_gain_learns(kind: type, coordinates: str) -> None:
    space = hgeo.Lorentz()
    norm = kind(3, space, coordinates=coordinates, radius=2.0)
    v = torch.tensor([[1.0, 0.2, -0.4]])
    near, far = (norm(hgeo.exp0(space, scale * v)) for scale in (0.5, 2.0))
    torch.testing.assert_close(near, far, rtol=1e-3, atol=1e-3)
    length = hgeo.log0(space, far).norm() if coordinates == "tangent" else far[:, 1:].norm()
    assert float(length.detach()) == pytest.approx(2.0, rel=1e-3)


def test_a_sphere_has_no_spatial_coordinates_to_normalise() -> None:
    with pytest.raises(ValueError, match="RMSNorm: coordinates='spatial' works in spatial coordinates"):
        hnn.RMSNorm(3, hgeo.space("sphere:3").manifold, coordinates="spatial")
