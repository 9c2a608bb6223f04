"""Distances between nodes: what is given is given, what is asked is hidden."""

import numpy as np
import pytest
import torch

from hgeo.data import DataError, karate, make_dataset
from hgeo.models import build
from hgeo.tasks import Distances, DistancesSettings


def path_of(nodes):
    steps = np.arange(nodes - 1)
    return make_dataset("path", np.stack([steps, steps + 1]), np.eye(nodes), np.arange(nodes) % 2)


def test_only_links_among_the_given_pairs_are_seen():
    task = Distances(karate(), seed=1)
    given = set(map(tuple, task.pairs("train").T.tolist()))
    assert all((min(a, b), max(a, b)) in given for a, b in task.dataset.edge_index.T.tolist())
    assert 0 < task.dataset.num_edges < karate().num_edges / 4


def test_the_parts_are_disjoint_and_together_all_pairs():
    task = Distances(karate())
    parts = [set(map(tuple, task.pairs(part).T.tolist())) for part in ("train", "val", "test")]
    assert set.union(*parts) == {(a, b) for b in range(34) for a in range(b)}
    assert sum(map(len, parts)) == 34 * 33 // 2
    assert len(parts[0]) == 56  # a tenth


def test_targets_are_numbers_of_steps():
    task = Distances(path_of(40))
    for part in ("train", "val", "test"):
        pairs = task.pairs(part)
        assert torch.equal(task.steps(part), (pairs[1] - pairs[0]).float())


def test_shortest_paths_go_over_the_given_pairs_alone():
    task = Distances(path_of(12), DistancesSettings(given=0.5), seed=2)
    lengths = np.full((12, 12), np.inf)
    for (a, b), steps in zip(task.pairs("train").T.tolist(), task.steps("train").tolist(), strict=True):
        lengths[a, b] = lengths[b, a] = steps
    for middle in range(12):  # Floyd and Warshall
        lengths = np.minimum(lengths, lengths[:, middle : middle + 1] + lengths[middle : middle + 1])
    errors = [lengths[a, b] / (b - a) - 1 for a, b in task.pairs("test").T.tolist()]
    found = task.beside()["shortest paths over the given pairs"]["test_relative_error"]
    assert 0 < found == pytest.approx(np.mean(errors))


def test_points_on_a_line_have_no_error():
    task = Distances(path_of(40))
    model = task.attach(build("mlp", task.dataset, "euclidean:1", out_dim=1))
    line = torch.arange(40.0).unsqueeze(1)
    with torch.no_grad():
        scores = task.evaluate(model, line, "test")
    assert scores["relative_error"] == pytest.approx(0.0, abs=1e-6)
    assert scores["correlation"] == pytest.approx(1.0)


def test_a_graph_of_two_islands_asks_no_distance_between_them():
    islands = make_dataset(
        "islands",
        np.array([[*range(19), *range(20, 39)], [*range(1, 20), *range(21, 40)]]),
        np.eye(40),
        np.arange(40) % 2,
    )
    task = Distances(islands)
    for part in ("train", "val", "test"):
        low, high = task.pairs(part)
        assert torch.equal(low < 20, high < 20)


def test_a_graph_that_is_too_small_is_refused():
    with pytest.raises(DataError, match="6 pairs of nodes that a path joins are too few to split"):
        Distances(path_of(4))
