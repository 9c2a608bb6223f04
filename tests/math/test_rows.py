"""Tangent rows go where their points go, with digits that points lose near the boundary."""

from __future__ import annotations

import geoopt
import pytest
import torch
from torch import Tensor

import hgeo
from hgeo import math as hm
from hgeo.kernels import plain_torch
from hgeo.manifolds import exp0, fold, lift, lift_rows, log0, lower, lower_rows, translate, translate_rows

SPACES = (
    "ball:4", "ball:4,c=0.01", "ball:4,c=0", "stereo:4,k=0.5", "lorentz:4,c=2.5", "klein:4", "sphere:4", "sproj:4",
    "euclidean:4", "ball:2 x sphere:2", "lorentz:2 x euclidean:2",
)  # fmt: skip


def rows(*shape: int, length: float = 0.7) -> Tensor:
    return length * torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def gradients(value: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
    return torch.autograd.grad((value * torch.linspace(0.5, 1.5, value.numel()).view_as(value)).sum(), inputs)


def space_of(text: str) -> geoopt.Manifold:
    return hgeo.Scaled(hgeo.PoincareBall(), 2.0) if text == "scaled" else hgeo.space(text).manifold


@pytest.mark.parametrize("compiled", [True, False], ids=["loop", "torch"])
@pytest.mark.parametrize("text", [*SPACES, "scaled"])
def test_rows_are_translated_as_points_are(text: str, compiled: bool) -> None:
    space, u = space_of(text), rows(30, 4).requires_grad_()
    point = exp0(space, rows(4)).detach()
    right = log0(space, translate(space, exp0(space, u), point))
    if compiled:
        found = translate_rows(space, u, point)
    else:
        with plain_torch():
            found = translate_rows(space, u, point)
    torch.testing.assert_close(found, right)
    torch.testing.assert_close(gradients(found, u), gradients(right, u))


@pytest.mark.parametrize("compiled", [True, False], ids=["loop", "torch"])
@pytest.mark.parametrize("text", [*SPACES, "scaled"])
def test_midpoints_of_rows_are_those_of_points(text: str, compiled: bool) -> None:
    space, u = space_of(text), rows(5, 6, 4).requires_grad_()
    weights = rows(5, 6, 1).abs()
    right = log0(space, lower(space, (weights * lift(space, exp0(space, u))).sum(0)))
    if compiled:
        found = lower_rows(space, lift_rows(space, u, weights).sum(0))
    else:
        with plain_torch():
            found = lower_rows(space, lift_rows(space, u, weights).sum(0))
    torch.testing.assert_close(found, right)
    torch.testing.assert_close(gradients(found, u), gradients(right, u))


@pytest.mark.parametrize("text", [*SPACES, "scaled"])
def test_the_midpoint_of_nothing_is_the_origin(text: str) -> None:
    space, u = space_of(text), rows(3, 4).requires_grad_()
    middle = lower_rows(space, lift_rows(space, u, torch.zeros(3, 1)))
    assert torch.equal(middle, torch.zeros_like(middle))
    assert all(torch.isfinite(slope).all() for slope in gradients(middle, u))


def test_rows_along_one_geodesic_add_up_to_where_numbers_end() -> None:
    # as points the last ones differ from the boundary by less than a millionth, and in float32 not at all
    for dtype, reach in ((torch.float32, 3.5), (torch.float64, 8.0)):
        lengths = torch.linspace(0, reach, 50, dtype=dtype).unsqueeze(-1)
        u, w = lengths * torch.tensor([1.0, 0.0], dtype=dtype), torch.tensor([reach, 0.0], dtype=dtype)
        torch.testing.assert_close(hm.translated_row(u, w, k=-1.0), u + w, rtol=4 * torch.finfo(dtype).eps, atol=0)


def test_opposite_rows_meet_at_the_origin_however_far_out() -> None:
    u = 7.0 * torch.nn.functional.normalize(rows(20, 4).float(), dim=-1)
    assert not hm.translated_row(u, -u, k=-1.0).any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("text", ["ball:2", "lorentz:2", "klein:2"])
def test_rows_end_where_points_of_their_dtype_do(text: str, dtype: torch.dtype) -> None:
    space, far = space_of(text), torch.tensor([[300.0, 0.0]], dtype=dtype)
    end = fold(space, far)
    moved = translate_rows(space, far, exp0(space, torch.tensor([0.1, 0.0], dtype=dtype)))
    assert 0.9 < (moved[0, 0] / end[0, 0]).item() < 1.1
    assert torch.isfinite(lower_rows(space, lift_rows(space, far))).all()


def test_a_kept_point_is_the_projected_one() -> None:
    for dtype in (torch.float16, torch.float32, torch.float64):
        v = (rows(50, 3) * torch.logspace(-3, 3, 50, dtype=torch.float64).unsqueeze(-1)).to(dtype)
        for k in (-2.0, 0.0, 0.5):
            right = hm.project(hm.expmap0(v, k=k), k=k)
            torch.testing.assert_close(hm.kept_expmap0(v, k=k), right, rtol=8 * torch.finfo(dtype).eps, atol=0)


def test_derivatives_by_the_curvature_are_those_of_differences() -> None:
    u, w = rows(5, 3), rows(3)
    for number in (-0.7, 0.0, 0.4):
        k = torch.tensor(number, dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(lambda k: hm.translated_row(u, w, k=k), (k,))
        assert torch.autograd.gradcheck(
            lambda k: hm.lowered_row(hm.lifted_row(u, 0.5, k=k), torch.tensor(0.5, dtype=k.dtype), k=k), (k,)
        )
