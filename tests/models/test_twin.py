"""The flat twin is the same code without curvature: what a model becomes as c goes to 0."""

from __future__ import annotations

import pytest
import torch

import hgeo
from hgeo.data import load
from hgeo.models import build, find, flat_twin, names

# the least curvature of a hyperboloid; elsewhere nearly none
ALMOST_FLAT = {"ball:3,c=1e-12": 1e-9, "klein:3,c=1e-6": 1e-4, "lorentz:3,c=1e-6": 1e-4, "sproj:3,k=1e-12": 1e-9}


# a κ-GCN is made of the stereographic family's operations
MODELS = [
    (name, space)
    for name in names(lambda entry: entry.curved)
    for space in ALMOST_FLAT
    if name != "kappa-gcn" or space.startswith(("ball", "sproj"))
    if name != "lorentz" or not space.startswith("sproj")
]


@pytest.mark.parametrize(("name", "space"), MODELS)
def test_every_curved_model_becomes_the_one_on_its_flat_twin(name: str, space: str) -> None:
    data, logits = load("karate").to(dtype=torch.float64), []
    for where in (space, flat_twin(space)):
        torch.manual_seed(0)
        model = build(name, data, where).double().eval()
        logits.append(model(data.graph, data.features))
    torch.testing.assert_close(logits[0], logits[1], rtol=ALMOST_FLAT[space], atol=ALMOST_FLAT[space])


@pytest.mark.parametrize("space", ["ball:3", "stereo:3,k=learn", "sproj:3", "lorentz:3", "sphere:3", "klein:3"])
def test_a_unit_of_the_frame_is_as_long_on_the_twin_and_nothing_is_curved(space: str) -> None:
    twin = hgeo.space(flat_twin(space))
    assert twin.dim == 3
    assert hgeo.frame_scale(twin.manifold) == hgeo.frame_scale(hgeo.space(space).manifold)
    assert float(hgeo.geometry(twin.manifold).curvature(twin.manifold)) == 0.0
    assert not any(p.requires_grad for p in twin.manifold.parameters())


def test_the_twin_of_a_product_has_the_twins_of_its_factors() -> None:
    assert flat_twin("ball:2,c=learn x euclidean:3 x lorentz:2") == "ball:2,c=0 x euclidean:3 x euclidean:2"
    assert flat_twin(flat_twin("ball:2 x sphere:2")) == flat_twin("ball:2 x sphere:2")


def test_a_model_without_curvature_is_its_own_twin() -> None:
    assert flat_twin(find("gcn").space_for("ball:4")) == find("gcn").space_for("ball:4")
