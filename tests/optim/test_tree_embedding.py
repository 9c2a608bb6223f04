"""A tree fits into the 2-ball: the experiment of benchmarks/tree_embedding.py, at the size a test can afford."""

import importlib.util
import pathlib

import pytest
import torch

import hgeo

PATH = pathlib.Path(__file__).parents[2] / "benchmarks" / "tree_embedding.py"
SPEC = importlib.util.spec_from_file_location("tree_embedding", PATH)
tree_embedding = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(tree_embedding)


def test_tree_distances_are_numbers_of_edges():
    edges = tree_embedding.binary_tree(2)
    assert edges.tolist() == [[0, 0, 1, 1, 2, 2], [1, 2, 3, 4, 5, 6]]
    hops = tree_embedding.tree_distances(edges)
    assert torch.equal(hops, hops.T)
    assert hops[3].tolist() == [2, 1, 3, 0, 2, 4, 4]


def test_precision_is_one_for_the_tree_itself_and_less_for_a_bad_picture():
    edges = tree_embedding.binary_tree(3)
    hops = tree_embedding.tree_distances(edges)
    assert tree_embedding.mean_average_precision(hops, edges) == 1.0
    assert tree_embedding.mean_average_precision(10 - hops, edges) < 0.3


def test_a_tree_unfolds_in_the_ball_and_not_in_the_plane():
    # Seven levels are the fewest for which the drawing at the start is wrong and the plane too narrow.
    curved = tree_embedding.embed(7)
    flat = tree_embedding.embed(7, space="euclidean:2")
    assert curved.mean_average_precision >= 0.99 > 0.6 > curved.precision_at_start
    assert flat.mean_average_precision < 0.98
    assert curved.average_distortion < flat.average_distortion / 2
    hgeo.validate(hgeo.PoincareBall(), curved.points)


@pytest.mark.slow
def test_a_tree_of_depth_eight_is_embedded_with_a_precision_of_99_percent():
    result = tree_embedding.embed(8)
    assert result.mean_average_precision >= 0.99
    assert result.average_distortion < 0.2
