"""The compiled epoch of a hierarchy's embedding is the descent that autograd and the geometry define."""

import math

import numpy as np
import pytest
import torch

import hgeo
from hgeo.kernels import hierarchy

SPACES = [
    ("inner", "euclidean:3"),
    ("flat", "euclidean:3"),
    ("ball", "ball:3,c=0"),
    ("ball", "ball:3"),
    ("ball", "ball:3,c=0.3"),
    ("hyperboloid", "lorentz:3"),
    ("hyperboloid", "lorentz:3,c=2"),
    ("hyperboloid", "lorentz:6,c=0.5"),
]


@pytest.fixture(autouse=True)
def _needs_the_kernels():
    if hierarchy.available():
        pytest.skip(hierarchy.available())


def example(space, count=30, seed=0):
    """Points of a space, c, pairs and the index of the pairs."""
    manifold, dim = hgeo.space(space)
    random = torch.Generator().manual_seed(seed)
    points = hgeo.exp0(manifold, torch.randn(count, dim, generator=random, dtype=torch.float64)).detach()
    pairs = np.array(
        [(child, parent) for child in range(count) for parent in range(child) if (child + parent) % 4 == 0]
    )
    k = hgeo.geometry(manifold).curvature(manifold)
    return manifold, points, -float(k), pairs, hierarchy.index_pairs(pairs[:, 0], pairs[:, 1], count)


def run(family, points, pairs, known, **options):
    usual = {"c": 1.0, "rate": 0.01, "sharpness": 1.0, "negatives": 9, "batch": 8, "limit": 1.0, "key": 12345}
    return hierarchy.epoch(family, points.numpy(), pairs, known, **{**usual, **options})


@pytest.mark.parametrize(("family", "space"), SPACES)
@pytest.mark.parametrize("limit", [math.inf, 0.02], ids=["free", "limited"])
def test_a_step_follows_the_gradient_that_autograd_finds(family, space, limit):
    manifold, points, c, pairs, known = example(space)
    moved, losses = run(family, points, pairs, known, c=c, batch=len(pairs), sharpness=1.4, rate=0.02, limit=limit)
    first = 12345 + np.arange(len(pairs)) * 4 * 9
    others = np.concatenate([pairs[:, 1:], hierarchy.draw(pairs[:, 0], first, known, len(points), 9)], axis=1)
    x = points.clone().requires_grad_()
    child, other = x[pairs[:, 0]].unsqueeze(1), x[others]
    distance = -(child * other).sum(-1) if family == "inner" else hgeo.dist(manifold, child, other)
    loss = -torch.log_softmax(-1.4 * distance, dim=1)[:, 0]
    (gradient,) = torch.autograd.grad(loss.sum(), x)
    with torch.no_grad():
        direction = manifold.egrad2rgrad(x, gradient)
        length = manifold.norm(x, direction, keepdim=True)
        step = direction * torch.clamp(limit / length.clamp(min=1e-300), max=0.02)
        expected = manifold.expmap(x, -step)
    torch.testing.assert_close(torch.from_numpy(losses), loss.detach(), rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(torch.from_numpy(moved), expected, rtol=1e-9, atol=1e-11)
    assert not torch.equal(expected, points)


def test_near_duplicates_and_points_at_one_place_have_finite_gradients():
    for family, space in SPACES[1:]:
        _, points, c, pairs, known = example(space)
        points[1::2] = points[0]
        moved, losses = run(family, points, pairs, known, c=c)
        assert np.isfinite(moved).all()
        assert np.isfinite(losses).all()


def test_points_of_the_ball_stay_in_it_however_far_they_go():
    _, points, c, pairs, known = example("ball:3")
    x = points
    for _ in range(50):
        x = torch.from_numpy(run("ball", x, pairs, known, c=c, rate=50.0, limit=3.0)[0].copy())
    assert bool((x.norm(dim=1) < 1).all())
    assert float(x.norm(dim=1).max()) > 0.999


@pytest.mark.parametrize("family", ["ball", "hyperboloid"])
def test_the_number_of_threads_does_not_change_a_bit(family):
    _, points, c, pairs, known = example({"ball": "ball:5", "hyperboloid": "lorentz:5"}[family], count=150)
    pairs = pairs[:1000]
    known = hierarchy.index_pairs(pairs[:, 0], pairs[:, 1], 150)
    many = 1 + 2_000_000 // len(pairs)  # as much work as more than one thread is used for
    results = [
        run(family, points, pairs, known, c=c, negatives=many, batch=128, threads=threads) for threads in (1, 2, 3)
    ]
    for moved, losses in results[1:]:
        assert np.array_equal(moved, results[0][0])
        assert np.array_equal(losses, results[0][1])


def test_a_negative_is_neither_the_child_nor_a_known_parent():
    _, _, _, pairs, known = example("ball:2", count=40)
    drawn = hierarchy.draw(pairs[:, 0], np.arange(len(pairs)) * 4 * 60, known, 40, 60)
    parents = {child: set(pairs[pairs[:, 0] == child, 1]) for child in range(40)}
    for child, nodes in zip(pairs[:, 0], drawn, strict=True):
        assert not (parents[child] | {child}) & set(nodes.tolist())
    assert (drawn >= 0).all()
    assert len(np.unique(drawn)) == 40


def test_where_every_node_is_a_parent_there_are_no_negatives_and_nothing_moves():
    pairs = np.array([(0, 1), (0, 2)])
    known = hierarchy.index_pairs(pairs[:, 0], pairs[:, 1], 3)
    assert (hierarchy.draw(pairs[:, 0], np.array([0, 100]), known, 3, 5) == -1).all()
    points = torch.tensor([[0.1, 0.0], [0.3, 0.1], [0.0, -0.4]], dtype=torch.float64)
    moved, losses = run("ball", points, pairs, known)
    assert np.array_equal(moved, points.numpy())
    assert (losses == 0).all()


@pytest.mark.parametrize(("family", "space"), SPACES)
def test_ranks_are_those_of_sorting_all_distances(family, space):
    manifold, points, c, pairs, _ = example(space)
    hidden, known = pairs[::2], pairs[1::2]
    tables = [hierarchy.index_pairs(part[:, 0], part[:, 1], len(points)) for part in (hidden, known)]
    x, y = points.unsqueeze(1), points.unsqueeze(0)
    distances = (-(x * y).sum(-1) if family == "inner" else hgeo.dist(manifold, x, y)).numpy()
    expected = []
    for child in np.unique(hidden[:, 0]):
        own = hidden[hidden[:, 0] == child, 1]
        others = np.setdiff1d(np.arange(len(points)), [child, *own, *known[known[:, 0] == child, 1]])
        expected += [(distances[child, others] <= best).sum() for best in np.sort(distances[child, own])]
    for threads in (1, 2):
        assert hierarchy.nearer(family, points.numpy(), *tables, c=c, threads=threads).tolist() == expected


def test_points_are_as_many_as_the_nodes_that_pairs_speak_of():
    """The kernels read and write wherever a pair points."""
    _, points, c, pairs, known = example("ball:3")
    none = hierarchy.index_pairs(pairs[:0, 0], pairs[:0, 1], 30)
    for few in (points[:1], points[:0]):
        with pytest.raises(ValueError, match=rf"there are {len(few)} points for pairs among 30 nodes"):
            run("ball", few, pairs, known, c=c)
        with pytest.raises(ValueError, match=rf"there are {len(few)} points for pairs among 30, 30 nodes"):
            hierarchy.nearer("ball", few.numpy(), known, none, c=c)
