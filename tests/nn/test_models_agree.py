"""The ball and the hyperboloid are one space: a layer gives the same points on both, carried by the isometry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from layer_table import ROWS, call
from torch.nn import functional as F

import hgeo
import hgeo.nn as hnn

DIM, C = 3, 0.6

# Two names a layer where the unit of the frame enters (twice as long on the hyperboloid).
LAYERS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "Linear": (lambda m: hnn.Linear(DIM, DIM, m),) * 2,
    "Activation relu": (lambda m: hnn.Activation(torch.relu, m),) * 2,
    "Activation elu": (lambda m: hnn.Activation(F.elu, m), lambda m: hnn.Activation(F.elu, m, scale=0.5)),
    "MLR": (lambda m: hnn.MLR(DIM, 4, m),) * 2,
    "CentroidClassifier": (lambda m: hnn.CentroidClassifier(DIM, 4, m),) * 2,
    "BatchNorm": (lambda m: hnn.BatchNorm(DIM, m),) * 2,
    "BatchNorm frechet": (lambda m: hnn.BatchNorm(DIM, m, mean="frechet"),) * 2,
    "Midpoint": (lambda m: hnn.Midpoint(m),) * 2,
    "Midpoint tangent": (lambda m: hnn.Midpoint(m, how="tangent"),) * 2,
    "Midpoint frechet": (lambda m: hnn.Midpoint(m, how="frechet"),) * 2,
    "Pool": (lambda m: hnn.Pool(m),) * 2,
    "FermiDiracDecoder": (lambda m: hnn.FermiDiracDecoder(m),) * 2,
    "DistanceDecoder": (lambda m: hnn.DistanceDecoder(m),) * 2,
    "GCNConv": (lambda m: hnn.GCNConv(DIM, DIM, m, in_manifold=m),) * 2,
    "GCNConv midpoint": (lambda m: hnn.GCNConv(DIM, DIM, m, in_manifold=m, aggregate="midpoint"),) * 2,
    "GCNConv gyrosum": (lambda m: hnn.GCNConv(DIM, DIM, m, in_manifold=m, aggregate="gyrosum"),) * 2,
    "HATConv": (lambda m: hnn.HATConv(DIM, DIM, m, in_manifold=m, activation=torch.relu, activation_space="tangent"),)
    * 2,
    "Dropout": (lambda m: hnn.Dropout(0.4, m),) * 2,
    "Embedding": (lambda m: hnn.Embedding(ROWS, DIM, m),) * 2,
}


@pytest.mark.parametrize("model", [hgeo.Lorentz, hgeo.manifolds.Klein])
@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_is_the_same_on_the_ball_and_on_the_other_models(name: str, model: Any) -> None:
    torch.manual_seed(0)
    ball, hyperboloid = hgeo.PoincareBall(c=C).double(), model(c=C).double()
    to_hyperboloid = hnn.Transfer(ball, hyperboloid, how="isometry")
    on_ball, on_hyperboloid = LAYERS[name][0](ball).double(), LAYERS[name][1](hyperboloid).double()
    theirs = dict(on_hyperboloid.named_parameters())
    with torch.no_grad():
        for place, mine in on_ball.named_parameters():
            if "manifold" in place:
                continue
            if hasattr(mine, "manifold"):
                mine.copy_(hgeo.exp0(ball, 0.4 * torch.randn(*mine.shape, dtype=torch.float64)))
                theirs[place].copy_(to_hyperboloid(mine))
            elif place == "normal":  # the same tangent vector has twice the coordinates on the hyperboloid
                theirs[place].copy_(2 * mine)
            else:
                theirs[place].copy_(mine)
    x = hgeo.exp0(ball, torch.randn(ROWS, DIM, dtype=torch.float64))
    outputs = []
    for layer, points in ((on_ball, x), (on_hyperboloid, to_hyperboloid(x))):
        torch.manual_seed(7)  # the same coordinates are dropped
        outputs.append(layer(torch.arange(ROWS)) if name == "Embedding" else call(layer, points))
    y, other = outputs
    if on_ball.manifold is not None:
        y = to_hyperboloid(y)
    torch.testing.assert_close(other, y, atol=1e-11, rtol=1e-11)


@pytest.mark.parametrize(
    ("source", "target", "ratio"),
    [
        (hgeo.PoincareBall(c=0.5), hgeo.Lorentz(c=0.5), 1.0),
        (hgeo.Lorentz(c=2.0), hgeo.PoincareBall(c=0.5), 2.0),
        (hgeo.PoincareBall(c=0.5), hgeo.manifolds.Klein(c=0.5), 1.0),
        (hgeo.manifolds.Klein(c=2.0), hgeo.Lorentz(c=0.5), 2.0),
        (hgeo.PoincareBall(c=2.0), hgeo.Stereographic(k=-0.5), 2.0),
        (hgeo.SphereProjection(k=1.0), hgeo.space("sphere:3").manifold, 1.0),
        (hgeo.space("sphere:3").manifold, hgeo.Stereographic(k=0.25), 2.0),
        (hgeo.Stereographic(k=0.0), hgeo.space("euclidean:3").manifold, 1.0),
    ],
)
def test_an_isometric_transfer_keeps_all_distances_up_to_the_ratio_of_the_radii(
    source: Any, target: Any, ratio: float
) -> None:
    torch.manual_seed(0)
    x, y = hgeo.exp0(source, 0.5 * torch.randn(2, ROWS, DIM, dtype=torch.float64))
    move, back = hnn.Transfer(source, target, how="isometry"), hnn.Transfer(target, source, how="isometry")
    torch.testing.assert_close(hgeo.dist(target, move(x), move(y)), ratio * hgeo.dist(source, x, y))
    torch.testing.assert_close(back(move(x)), x)


def test_a_tangent_transfer_keeps_the_distance_to_the_origin() -> None:
    torch.manual_seed(0)
    spaces = [
        hgeo.PoincareBall(c=2.0),
        hgeo.Lorentz(c=0.3),
        *[hgeo.space(f"{n}:3").manifold for n in ("sphere", "sproj")],
    ]
    for source in spaces:
        for target in spaces:
            v = 0.3 * torch.randn(ROWS, DIM, dtype=torch.float64)
            zero = torch.zeros_like(v)
            x = hgeo.exp0(source, v)
            y = hnn.Transfer(source, target)(x)
            torch.testing.assert_close(
                hgeo.dist(target, y, hgeo.exp0(target, zero)), hgeo.dist(source, x, hgeo.exp0(source, zero))
            )


def test_between_equal_curvatures_the_tangent_transfer_is_the_isometry() -> None:
    torch.manual_seed(0)
    ball, hyperboloid = hgeo.PoincareBall(c=0.7), hgeo.Lorentz(c=0.7)
    x = hgeo.exp0(ball, torch.randn(ROWS, DIM, dtype=torch.float64))
    torch.testing.assert_close(hnn.Transfer(ball, hyperboloid)(x), hnn.Transfer(ball, hyperboloid, how="isometry")(x))


@pytest.mark.parametrize("text", ["sphere:3", "sproj:3", "euclidean:3"])
def test_between_curvatures_of_different_sign_there_is_no_isometry(text: str) -> None:
    with pytest.raises(ValueError, match="one sign"):
        hnn.Transfer(hgeo.PoincareBall(), hgeo.space(text).manifold, how="isometry")


@pytest.mark.parametrize("text", ["ball:3,c=0.7", "lorentz:3,c=0.7", "sphere:3", "sproj:3,k=0.7", "euclidean:3"])
def test_translations_move_the_origin_keep_distances_and_have_an_inverse(text: str) -> None:
    from hgeo.manifolds import translate, translate_back

    torch.manual_seed(0)
    manifold = hgeo.space(text).manifold
    p, x, y = hgeo.exp0(manifold, 0.6 * torch.randn(3, ROWS, DIM, dtype=torch.float64))
    origin = hgeo.exp0(manifold, torch.zeros(ROWS, DIM, dtype=torch.float64))
    torch.testing.assert_close(translate(manifold, p, origin), p)
    torch.testing.assert_close(translate_back(manifold, p, translate(manifold, p, x)), x)
    moved = hgeo.dist(manifold, translate(manifold, p, x), translate(manifold, p, y))
    torch.testing.assert_close(moved, hgeo.dist(manifold, x, y))


def test_the_embedded_and_the_projected_sphere_agree_too() -> None:
    torch.manual_seed(0)
    projected, embedded = hgeo.SphereProjection(k=1.0).double(), hgeo.space("sphere:3").manifold
    move = hnn.Transfer(projected, embedded, how="isometry")
    x = hgeo.exp0(projected, 0.3 * torch.randn(ROWS, DIM, dtype=torch.float64))
    for how in ("gyro", "tangent", "frechet"):
        mine, theirs = hnn.Midpoint(projected, how=how)(x), hnn.Midpoint(embedded, how=how)(move(x))
        torch.testing.assert_close(move(mine), theirs, atol=1e-12, rtol=1e-12)
    a, b = hnn.MLR(DIM, 4, projected).double(), hnn.MLR(DIM, 4, embedded).double()
    with torch.no_grad():
        a.point.copy_(hgeo.exp0(projected, 0.3 * torch.randn(4, DIM, dtype=torch.float64)))
        b.point.copy_(move(a.point))
        b.normal.copy_(2 * a.normal)
    torch.testing.assert_close(a(x), b(move(x)))
