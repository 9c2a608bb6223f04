"""Sarkar's construction: a tree in the hyperbolic plane whose distances are those of the tree."""

import doctest
import importlib

import geoopt
import networkx
import numpy as np
import pytest
import torch
from scipy.sparse.csgraph import shortest_path

import hgeo


def edge_index(graph):
    return torch.tensor(list(graph.edges)).T.reshape(2, -1)


def random_tree(count, seed):
    generator = np.random.default_rng(seed)
    return torch.stack([torch.tensor([int(generator.integers(n)) for n in range(1, count)]), torch.arange(1, count)])


TREES = {
    "an edge": edge_index(networkx.path_graph(2)),
    "a path": edge_index(networkx.path_graph(20)),
    "a star": edge_index(networkx.star_graph(40)),
    "a binary tree": edge_index(networkx.balanced_tree(2, 4)),
    "a tree of threes": edge_index(networkx.balanced_tree(3, 3)),
    "a random tree": random_tree(60, seed=1),
    "another": random_tree(60, seed=3),
    "a caterpillar": torch.tensor([[0, 1, 2, 3, 0, 0, 1, 1, 2, 2, 3, 4], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]]),
}
SPACES = {
    "ball": lambda: hgeo.PoincareBall(),
    "small ball": lambda: hgeo.PoincareBall(torch.tensor(5.0, dtype=torch.float64)),
    "geoopt ball": lambda: geoopt.PoincareBall(),
    "stereo": lambda: hgeo.Stereographic(torch.tensor(-0.2, dtype=torch.float64)),
    "lorentz": lambda: hgeo.Lorentz(torch.tensor(0.5, dtype=torch.float64)),
    "geoopt lorentz": lambda: geoopt.Lorentz(),
    "scaled": lambda: geoopt.Scaled(hgeo.PoincareBall(), 3.0),
    "klein": lambda: hgeo.Klein(),
}


def ratios(tree, manifold, **settings):
    """Distances of the points over those of the tree, for all pairs of nodes."""
    points, edge_length = hgeo.embed_tree(tree, manifold, **settings)
    hgeo.validate(manifold, points)
    count = len(points)
    adjacency = np.zeros((count, count))
    adjacency[tree[0], tree[1]] = 1
    steps = torch.from_numpy(shortest_path(adjacency, directed=False, unweighted=True))
    pairs = steps > 0
    return (hgeo.cdist(manifold, points, points) / edge_length)[pairs] / steps[pairs], steps[pairs]


@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("distortion", [1.4, 2.0, 4.0])
def test_no_distance_is_off_by_more_than_the_distortion(name, distortion):
    found, steps = ratios(TREES[name], hgeo.PoincareBall(), distortion=distortion)
    assert found.max() < 1 + 1e-3
    assert found.min() > (1 - 1e-3) / distortion
    assert (found[steps == 1] - 1).abs().max() < 1e-3


@pytest.mark.parametrize(
    ("name", "distortion"), [("an edge", 1.01), ("a star", 1.12), ("a binary tree", 1.12), ("a caterpillar", 1.09)]
)
def test_a_shallow_tree_is_embedded_with_almost_no_distortion(name, distortion):
    found, _ = ratios(TREES[name], hgeo.PoincareBall(), distortion=distortion)
    assert found.min() > (1 - 1e-3) / distortion


@pytest.mark.parametrize("name", SPACES)
def test_every_hyperbolic_space_holds_trees(name):
    found, _ = ratios(TREES["a binary tree"], SPACES[name](), distortion=1.5)
    assert found.max() < 1 + 1e-3
    assert found.min() > (1 - 1e-3) / 1.5


def test_a_path_is_a_geodesic():
    found, _ = ratios(TREES["a path"], hgeo.PoincareBall(), distortion=1.001)
    torch.testing.assert_close(found, torch.ones_like(found), rtol=1e-5, atol=0)


def test_the_centre_is_at_the_origin_and_siblings_are_symmetric():
    points, edge_length = hgeo.embed_tree(TREES["a star"], distortion=1.5)
    assert torch.equal(points[0], torch.zeros(2, dtype=torch.float64))
    ball = hgeo.PoincareBall()
    leaves = points[1:]
    step = hgeo.dist(ball, leaves, leaves.roll(1, 0))
    torch.testing.assert_close(step, step[:1].expand_as(step), rtol=1e-9, atol=0)
    torch.testing.assert_close(ball.dist0(points[1:]), torch.full((40,), edge_length, dtype=torch.float64))


def test_the_same_tree_in_another_format_gives_the_same_embedding():
    tree = TREES["a caterpillar"]
    expected = hgeo.embed_tree(tree).points
    both = torch.cat([tree, tree.flip(0)], dim=1)
    for other in (both, tree.flip(0), hgeo.Graph(both[0], both[1])):
        torch.testing.assert_close(hgeo.embed_tree(other).points, expected)


def test_one_node_is_a_tree():
    points, _ = hgeo.embed_tree(torch.zeros(2, 0, dtype=torch.int64), num_nodes=1)
    assert torch.equal(points, torch.zeros(1, 2, dtype=torch.float64))


def test_a_tree_that_is_too_deep_is_refused_with_what_would_fit():
    deep = edge_index(networkx.balanced_tree(2, 7))
    with pytest.raises(ValueError, match=r"too deep: a height of 7 with edges of .*; a distortion of") as refusal:
        hgeo.embed_tree(deep, distortion=1.05)
    fitting = float(str(refusal.value).partition("a distortion of ")[2].partition("fits")[0].rpartition("of ")[2])
    found, _ = ratios(deep, hgeo.PoincareBall(), distortion=fitting)
    assert found.min() > (1 - 1e-3) / fitting
    with pytest.raises(ValueError, match=r"no tree whose nodes have so many neighbours fits with a height over 2[0-9]"):
        hgeo.embed_tree(edge_index(networkx.path_graph(200)))
    with pytest.raises(ValueError, match="too deep"):  # Klein's ball has half of the room
        hgeo.embed_tree(TREES["a random tree"], hgeo.Klein(), distortion=2.0)
    assert hgeo.embed_tree(TREES["a random tree"], distortion=2.0).edge_length > 1


def test_a_graph_that_is_no_tree_is_refused():
    cycle = torch.tensor([[0, 1, 2], [1, 2, 0]])
    with pytest.raises(
        ValueError, match="a tree of 3 nodes is in one piece and has 2 edges; this graph is in 1 and has 3"
    ):
        hgeo.embed_tree(cycle)
    with pytest.raises(
        ValueError, match="a tree of 4 nodes is in one piece and has 3 edges; this graph is in 2 and has 2"
    ):
        hgeo.embed_tree(torch.tensor([[0, 2], [1, 3]]))
    with pytest.raises(
        ValueError, match="a tree of 4 nodes is in one piece and has 3 edges; this graph is in 2 and has 3"
    ):
        hgeo.embed_tree(cycle, num_nodes=4)


def test_a_space_without_room_for_a_tree_is_refused():
    for manifold in (hgeo.PoincareBall(0.0), geoopt.Euclidean(1), geoopt.Sphere(), hgeo.SphereProjection()):
        with pytest.raises(ValueError, match="a tree needs a hyperbolic space"):
            hgeo.embed_tree(TREES["an edge"], manifold)
    with pytest.raises(ValueError, match="distortion must be a number greater than 1, got 1"):
        hgeo.embed_tree(TREES["an edge"], distortion=1.0)


def test_its_example_runs():
    assert doctest.testmod(importlib.import_module("hgeo.data._trees")).failed == 0
