"""Shallow embeddings put neighbours near each other."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from hgeo.data import load, make_dataset
from hgeo.manifolds import dist, validate
from hgeo.models import LINE, SHALLOW_METHODS, DeepWalk, Node2vec, PoincareEmbedding, shallow

QUICK = {
    "deepwalk": {"walks": 40, "length": 40, "epochs": 5},
    "node2vec": {"walks": 40, "length": 40, "epochs": 5},
    "line-1st": {"samples": 100_000},
    "line-2nd": {"samples": 100_000},
    "poincare": {"steps": 500},
}


@pytest.fixture(scope="module")
def two_cliques():
    """Two cliques of ten nodes with one link between them, and a node that knows nobody."""
    pairs = [(a + 10 * side, b + 10 * side) for side in (0, 1) for a in range(10) for b in range(a)] + [(0, 10)]
    label = np.array([0] * 10 + [1] * 10 + [0])
    masks = {"train": np.array([1, 11]), "val": np.array([2, 12]), "test": np.array([3, 13])}
    return make_dataset("cliques", np.array(pairs).T, np.eye(21, dtype=np.float32), label, masks=masks)


@pytest.mark.parametrize(
    ("name", "more"), [*((name, {}) for name in SHALLOW_METHODS), ("deepwalk", {"engine": "gensim"})]
)
def test_nodes_of_a_clique_are_nearer_to_each_other_than_to_the_other_clique(name, more, two_cliques):
    model = shallow(name, 4, **QUICK[name], **more)
    points = model.fit(two_cliques, seed=1).double()
    assert points.shape == (21, 4)
    validate(model.manifold, points)
    distance = dist(model.manifold, points[:20, None], points[None, :20])
    same = torch.zeros(20, 20, dtype=torch.bool)
    same[:10, :10] = same[10:, 10:] = True
    off = ~torch.eye(20, dtype=torch.bool)
    assert distance[same & off].mean() < 0.8 * distance[~same].mean()


@pytest.mark.parametrize("name", SHALLOW_METHODS)
def test_the_same_seed_gives_the_same_embedding(name):
    data = load("karate")
    options = dict.fromkeys(QUICK[name], 5)
    first, again, other = (shallow(name, 2, **options).fit(data, seed=seed) for seed in (3, 3, 4))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_an_unknown_name_is_answered_with_the_known_ones():
    with pytest.raises(ValueError, match="known: deepwalk, node2vec"):
        shallow("word2vec", 2)
    with pytest.raises(ValueError, match="order is 3"):
        LINE(order=3)
    with pytest.raises(ValueError, match="engine is 'word2vec', expected 'compiled' or 'gensim'"):
        shallow("node2vec", 2, engine="word2vec")
    with pytest.raises(ValueError, match=r"c is 0\.0, expected a number above 0"):
        shallow("poincare", 2, c=0.0)


@pytest.mark.parametrize("name", ["line-1st", "line-2nd", "poincare"])
def test_a_graph_without_edges_has_no_noise_to_draw(name):
    label = np.array([0, 1, 0, 1])
    masks = {"train": np.array([0, 1]), "val": np.array([2]), "test": np.array([3])}
    data = make_dataset("alone", np.zeros((2, 0), dtype=np.int64), np.eye(4, dtype=np.float32), label, masks=masks)
    with pytest.raises(ValueError, match="a graph without edges"):
        shallow(name, 2).fit(data)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: DeepWalk(dim=0), "dim"),
        (lambda: Node2vec(p=0), "p"),
        (lambda: Node2vec(q=-1.0), "q"),
        (lambda: LINE(dim=-1), "dim"),
        (lambda: PoincareEmbedding(dim=0), "dim"),
        (lambda: PoincareEmbedding(c=0.0), "c"),
    ],
)
def test_impossible_values_are_refused_by_the_name_of_their_argument(make, name):
    with pytest.raises(ValueError, match=rf"{name} is .*expected a number above 0"):
        make()
