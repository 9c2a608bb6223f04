"""check_layer finds what is wrong with a layer, and leaves a right one alone. hgeo's own go through it in tests/nn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import hgeo
from hgeo.testing import check_layer

DIM = 3


class Halved(nn.Module):
    """A right layer: half of the way from the origin."""

    def __init__(self, manifold: Any) -> None:
        super().__init__()
        self.manifold = self.in_manifold = manifold
        self.share = nn.Parameter(torch.tensor(0.5))

    def forward(self, x: Tensor) -> Tensor:
        return hgeo.exp0(self.manifold, self.share * hgeo.log0(self.manifold, x))


class LeavesTheBall(Halved):
    def forward(self, x: Tensor) -> Tensor:
        return 3 * x


class NotANumberAtTheOrigin(Halved):
    def forward(self, x: Tensor) -> Tensor:
        v = hgeo.log0(self.manifold, x)
        return hgeo.exp0(self.manifold, self.share * v * v.norm(dim=-1, keepdim=True) ** 0.5)


class ForgetsItsGradient(Halved):
    def forward(self, x: Tensor) -> Tensor:
        return hgeo.exp0(self.manifold, self.share * hgeo.log0(self.manifold, x.detach()))


class WritesOverItsInput(Halved):
    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            x.mul_(0.5)
        return super().forward(x)


class AnotherDtype(Halved):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).float()


class BreaksInFlatSpace(Halved):
    def forward(self, x: Tensor) -> Tensor:
        k = hgeo.geometry(self.manifold).curvature(self.manifold)
        return hgeo.exp0(self.manifold, (self.share + k.abs().sqrt()) * hgeo.log0(self.manifold, x))


class UsesCoordinatesOfTheBall(Halved):
    def forward(self, x: Tensor) -> Tensor:
        v = hgeo.log0(self.manifold, x)
        return hgeo.exp0(self.manifold, v * torch.sigmoid(v.square().sum(-1, keepdim=True)) * self.share)


class LooksAtItsNeighbours(Halved):
    equivariant = ("rows",)

    def forward(self, x: Tensor) -> Tensor:
        v = hgeo.log0(self.manifold, x)
        return hgeo.exp0(self.manifold, self.share * v + 0.1 * v.mean(0))


class PrefersADirection(Halved):
    equivariant = ("rotations",)

    def forward(self, x: Tensor) -> Tensor:
        v = hgeo.log0(self.manifold, x)
        return hgeo.exp0(self.manifold, torch.relu(v) * self.share)


class KnowsTheOrigin(Halved):
    equivariant = ("isometries",)


SICK = {
    LeavesTheBall: "answers_are_points",
    NotANumberAtTheOrigin: "gradients_are_finite",
    ForgetsItsGradient: "gradients_are_right",
    WritesOverItsInput: "a_call_changes_nothing",
    AnotherDtype: "answers_are_points",
    BreaksInFlatSpace: "flat_limit",
    UsesCoordinatesOfTheBall: "ball_is_hyperboloid",
    LooksAtItsNeighbours: "rows_are_equal",
    PrefersADirection: "moves_with_rotations",
    KnowsTheOrigin: "moves_with_isometries",
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("space", ["ball:3,c=0.7", "lorentz:3", "sphere:3", "sproj:3", "ball:2 x euclidean:1"])
def test_a_right_layer_passes(space: str, dtype: torch.dtype) -> None:
    manifold = hgeo.space(space).manifold
    report = check_layer(Halved, manifold, dim=DIM, dtype=dtype, equivariant=["rotations", "rows"])
    failed = {result.law.name for result in report.failures} - ({"moves_with_rotations"} if " x " in space else set())
    assert not failed, str(report)


def test_a_product_is_checked_in_its_own_dimension() -> None:
    manifold = hgeo.space("ball:3 x euclidean:2").manifold
    assert check_layer(Halved, manifold).dim == 5
    report = hgeo.testing.check_manifold(manifold, laws="frame", max_examples=5)
    assert report.dim == 5
    assert report.passed, str(report)


@pytest.mark.parametrize("kind", SICK, ids=lambda kind: kind.__name__)
def test_a_wrong_layer_is_found_out(kind: Callable[[Any], nn.Module]) -> None:
    report = check_layer(kind, hgeo.PoincareBall(c=0.7), dim=DIM)
    assert not report.passed
    assert report[SICK[kind]].verdict == "FAIL", str(report)


def test_a_finished_layer_is_asked_all_but_whether_the_models_agree() -> None:
    ball = hgeo.PoincareBall()
    report = check_layer(Halved(ball), ball, dim=DIM)
    assert report.passed
    assert report["flat_limit"].verdict == "pass"
    assert "give a function" in report["ball_is_hyperboloid"].note


def test_what_check_layer_cannot_use_is_refused_in_words() -> None:
    ball = hgeo.PoincareBall()
    with pytest.raises(TypeError, match="the layer comes first"):
        check_layer(ball, ball)
    with pytest.raises(TypeError, match=r"expected check_layer\(layer, manifold\)"):
        check_layer(Halved(ball), "ball:3")
    with pytest.raises(ValueError, match="equivariant must be of isometries, rotations, rows"):
        check_layer(Halved, ball, equivariant=["translations"])
