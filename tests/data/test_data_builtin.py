"""The data sets that need no download."""

import numpy as np
import torch

from hgeo.data import hierarchy, karate
from hgeo.tasks import hyperbolicity


def test_karate_is_zacharys_club():
    club = karate()
    degree = torch.bincount(club.edge_index[1])
    assert (club.num_nodes, club.num_edges) == (34, 156)
    assert degree[0] == 16
    assert degree[33] == 17
    assert torch.bincount(club.labels).tolist() == [17, 17]
    assert club.train_idx.tolist() == [0, 33]


def test_the_same_seed_grows_the_same_hierarchy():
    first, again, other = hierarchy(seed=3), hierarchy(seed=3), hierarchy(seed=4)
    assert torch.equal(first.edge_index, again.edge_index)
    assert torch.equal(first.features, again.features)
    assert first.num_edges != other.num_edges


def test_the_split_seed_changes_the_split_and_nothing_else():
    first, other = hierarchy(), hierarchy(split_seed=1)
    assert torch.equal(first.features, other.features)
    assert not torch.equal(first.train_idx, other.train_idx)


def test_without_cross_links_the_hierarchy_is_a_tree_and_has_no_hyperbolicity():
    tree = hierarchy(cross_links=0)
    assert tree.num_edges == 2 * (tree.num_nodes - 1)
    assert hyperbolicity(tree.edge_index, tree.num_nodes)["max"] == 0.0


def test_the_root_has_no_label_and_every_branch_is_a_class():
    tree = hierarchy(cross_links=0, branches=5)
    assert tree.labels[0] == -1
    assert tree.num_classes == 5
    source, destination = tree.edge_index
    inner = (source > 0) & (destination > 0)
    assert torch.equal(tree.labels[source[inner]], tree.labels[destination[inner]])


def test_features_spread_along_the_tree():
    """Neighbours are more alike than members of a branch, these more alike than strangers."""
    tree = hierarchy(cross_links=0, noise=0.0)
    points, (source, destination) = tree.features, tree.edge_index
    generator = np.random.default_rng(0)
    left, right = (torch.from_numpy(generator.integers(1, tree.num_nodes, size=4000)) for _ in range(2))
    gap = (points[left] - points[right]).norm(dim=1)
    same = tree.labels[left] == tree.labels[right]
    neighbours = (points[source] - points[destination]).norm(dim=1).mean()
    assert neighbours < gap[same].mean() < gap[~same].mean()
