"""Link prediction: what is hidden is hidden, what is asked is fair."""

import numpy as np
import pytest
import torch

from hgeo.data import DataError, hierarchy, karate, make_dataset
from hgeo.tasks import draw_non_links, link_scores, split_links


def pairs(tensor):
    return set(map(tuple, tensor.T.tolist()))


@pytest.fixture(scope="module")
def split():
    return split_links(hierarchy(depth=4), seed=1)


def test_hidden_links_are_gone_from_the_graph_in_both_directions(split):
    left = pairs(split.dataset.edge_index)
    for hidden in (split.val_pos, split.test_pos):
        assert not left & pairs(hidden)
        assert not left & pairs(hidden.flip(0))


def test_the_parts_together_are_the_graph(split):
    whole = {(a, b) for a, b in pairs(hierarchy(depth=4).edge_index) if a < b}
    parts = [pairs(part) for part in (split.train_pos, split.val_pos, split.test_pos)]
    assert set.union(*parts) == whole
    assert sum(map(len, parts)) == len(whole)


def test_negatives_are_no_links_of_any_part_and_distinct(split):
    whole = pairs(hierarchy(depth=4).edge_index)
    val, test = pairs(split.val_neg), pairs(split.test_neg)
    assert not (val | test) & whole
    assert not val & test
    assert len(val) == split.val_pos.shape[1]
    assert len(test) == split.test_pos.shape[1]
    assert all(a < b for a, b in val | test)


def test_the_seed_fixes_links_and_negatives():
    data = karate()
    first, again, other = (split_links(data, seed=seed) for seed in (5, 5, 6))
    assert torch.equal(first.test_neg, again.test_neg)
    assert torch.equal(first.test_pos, again.test_pos)
    assert not torch.equal(first.test_pos, other.test_pos)


def test_features_and_labels_stay(split):
    assert torch.equal(split.dataset.features, hierarchy(depth=4).features)


def test_negatives_of_an_epoch_avoid_the_links_that_are_left_and_change_with_the_seed(split):
    first, again, other = (draw_non_links(split, 200, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert not pairs(first) & pairs(split.dataset.edge_index)
    assert len(pairs(first)) == 200


def test_scores_that_say_nothing_give_a_half():
    same = torch.zeros(50)
    assert link_scores(same, same) == {"roc_auc": 0.5, "average_precision": 0.5}


@pytest.mark.parametrize(("val", "test"), [(0.0, 0.1), (0.6, 0.5), (0.1, 1.0)])
def test_shares_that_leave_nothing_are_refused(val, test):
    with pytest.raises(ValueError, match="shares"):
        split_links(karate(), val=val, test=test)


def test_a_complete_graph_has_no_negatives_to_draw():
    everyone = np.array([(a, b) for a in range(30) for b in range(30) if a != b]).T
    data = make_dataset("all", everyone, np.eye(30), np.arange(30) % 2)
    with pytest.raises(DataError, match="non-links"):
        split_links(data)
