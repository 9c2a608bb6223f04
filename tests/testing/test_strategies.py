"""Strategies make what they say, visit the hard places, and shrink to what one can read."""

from __future__ import annotations

import geoopt
import pytest
import torch
from hypothesis import HealthCheck, find, given, settings
from hypothesis import strategies as st

import hgeo
from hgeo.testing import strategies

few = settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
search = settings(max_examples=2000, deadline=None, derandomize=True)

BALL = hgeo.PoincareBall(1.0).double()


@few
@given(st.data(), strategies.curvatures("negative"), st.sampled_from([1, 2, 5, 512]))
def test_points_lie_on_the_manifold(data: st.DataObject, k: float, dim: int) -> None:
    ball = hgeo.PoincareBall(torch.tensor(-k, dtype=torch.float64))
    x = data.draw(strategies.points(ball, dim))
    assert x.shape == (dim,)
    hgeo.validate(ball, x)


@pytest.mark.parametrize(
    "manifold", [geoopt.Sphere(), geoopt.Lorentz(), geoopt.Euclidean(ndim=1), hgeo.SphereProjection(2.0)]
)
def test_points_lie_on_other_manifolds_too(manifold: geoopt.Manifold) -> None:
    @few
    @given(strategies.points(manifold, 3))
    def check(x: torch.Tensor) -> None:
        hgeo.validate(manifold.double(), x)

    check()


@few
@given(st.data())
def test_tangents_are_short_enough_to_follow(data: st.DataObject) -> None:
    x = data.draw(strategies.points(BALL, 3))
    u = data.draw(strategies.tangents(BALL, x))
    assert bool(torch.isfinite(BALL.expmap(x, u)).all())


def test_the_origin_and_the_edge_are_visited() -> None:
    assert find(strategies.points(BALL, 2), lambda x: bool(x.norm() == 0), settings=search).tolist() == [0.0, 0.0]
    edge = find(strategies.points(BALL, 2), lambda x: bool(1 - x.norm() < 1e-14), settings=search)
    assert float(edge.norm()) < 1


@pytest.mark.parametrize(
    "relation",
    [
        lambda x, y: torch.equal(x, y),
        lambda x, y: torch.equal(x, -y),
        lambda x, y: 0 < float((x - y).norm()) < 1e-3,
        lambda x, y: 0 < float((x + y).norm()) < 1e-3,
    ],
    ids=["the same", "opposite", "close", "nearly opposite"],
)
def test_neighbours_stand_in_every_relation(relation: object) -> None:
    x = torch.tensor([0.5, 0.25], dtype=torch.float64)
    find(strategies.points(BALL, 2, near=x), lambda y: relation(x, y), settings=search)  # type: ignore[operator]


def test_antipodes_are_visited_on_a_sphere() -> None:
    sphere, x = hgeo.SphereProjection(1.0).double(), torch.tensor([0.5, 0.0], dtype=torch.float64)
    far = find(
        strategies.points(sphere, 2, near=x), lambda y: float(sphere.dist(x, y)) > torch.pi - 1e-9, settings=search
    )
    assert far.tolist() == [-2.0, 0.0]


def test_a_point_shrinks_to_something_readable() -> None:
    assert find(strategies.points(BALL, 3), lambda x: float(x.norm()) > 0.3, settings=search).tolist() == [
        0.5,
        0.0,
        0.0,
    ]


def test_curvatures_visit_both_signs_zero_and_the_extremes() -> None:
    for wanted in (0.0, 1e-12, -1e-12, 1e4, -1e4, -1.0):
        assert find(strategies.curvatures(), lambda k, wanted=wanted: k == wanted, settings=search) == wanted
    with pytest.raises(ValueError, match="sign must be one of"):
        strategies.curvatures("both")


@few
@given(strategies.matrices(3, 2), strategies.scalars())
def test_matrices_and_scalars(m: torch.Tensor, r: float) -> None:
    assert m.shape == (3, 2)
    assert float(torch.linalg.matrix_norm(m, 2)) <= 1.6
    assert abs(r) <= 3.0


@few
@given(strategies.isometries(BALL, 2), strategies.points(BALL, 2), strategies.points(BALL, 2))
def test_isometries_keep_distances(move: strategies.Isometry, x: torch.Tensor, y: torch.Tensor) -> None:
    ball = hgeo.PoincareBall(1.0).double()
    rounding = max(float(ball.lambda_x(p)) for p in (x, y, move(x), move(y), move.translation))
    assert float(ball.dist(move(x), move(y)) - ball.dist(x, y)) <= 1e-13 * rounding + 1e-13


@few
@given(strategies.graphs())
def test_graphs_are_graphs(graph: strategies.EdgeList) -> None:
    assert graph.edge_index.shape[0] == 2
    assert graph.num_nodes >= 1
    assert (
        not graph.edge_index.numel()
        or 0 <= int(graph.edge_index.min()) <= int(graph.edge_index.max()) < graph.num_nodes
    )


@pytest.mark.parametrize(
    "kind",
    [
        lambda g: g.edge_index.numel() == 0 and g.num_nodes > 1,
        lambda g: bool((g.edge_index[0] == g.edge_index[1]).any()),
        lambda g: len({tuple(e) for e in g.edge_index.T.tolist()}) < g.edge_index.shape[1],
        lambda g: (
            g.num_nodes > 3 and int(torch.bincount(g.edge_index[1], minlength=g.num_nodes).max()) == g.num_nodes - 1
        ),
    ],
    ids=["no edge", "self-loop", "duplicate", "star"],
)
def test_graphs_of_every_kind_are_visited(kind: object) -> None:
    find(strategies.graphs(), kind, settings=search)  # type: ignore[arg-type]
