"""A table of points moves only where it was looked up."""

from __future__ import annotations

import pytest
import torch

import hgeo
import hgeo.nn as hnn
from hgeo._geoopt import geoopt


@pytest.mark.parametrize("space", ["ball:3", "lorentz:3", "euclidean:3"])
def test_sparse_riemannian_steps_move_the_rows_looked_up_and_no_other(space: str) -> None:
    torch.manual_seed(0)
    manifold, dim = hgeo.space(space)
    table = hnn.Embedding(6, dim, manifold, std=0.3)
    before = table.weight.detach().clone()
    optimizer = geoopt.optim.SparseRiemannianAdam([table.weight], lr=0.05)
    index = torch.tensor([1, 4, 4])
    for _ in range(3):
        optimizer.zero_grad()
        points = table(index)
        target = hgeo.exp0(manifold, torch.ones(3, dim)).detach()
        hgeo.dist(manifold, points, target).sum().backward()
        assert table.weight.grad.is_sparse
        optimizer.step()
    moved = (table.weight.detach() != before).any(-1)
    assert moved.tolist() == [False, True, False, False, True, False]
    hgeo.validate(manifold, table.weight.detach())


def test_the_table_begins_near_the_origin_and_is_a_manifold_parameter() -> None:
    torch.manual_seed(0)
    table = hnn.Embedding(1000, 4, hgeo.PoincareBall(), std=0.01)
    assert isinstance(table.weight, geoopt.ManifoldParameter)
    assert 0.009 < float(table.weight.detach().std()) < 0.011
    assert table.manifold is table.weight.manifold


def test_rows_are_on_the_manifold_although_the_curvature_has_just_moved() -> None:
    ball = hgeo.PoincareBall(c=1.0, learnable=True)
    table = hnn.Embedding(4, 2, ball, std=2.0)
    with torch.no_grad():
        ball.stored_c.fill_(4.0)  # by a hand that knows nothing of the table
    hgeo.validate(ball, table(torch.arange(4)).detach())


def test_only_whole_numbers_look_up_points() -> None:
    with pytest.raises(TypeError, match=r"whole numbers in \[0, 5\)"):
        hnn.Embedding(5, 2, hgeo.PoincareBall())(torch.tensor([0.0]))
