"""Link prediction: what is hidden is hidden, what is asked is fair."""

import numpy as np
import pytest
import torch

from hgeo.data import DataError, hierarchy, karate, load, make_dataset
from hgeo.models import TrainSettings, build
from hgeo.tasks import (
    Epoch,
    Links,
    LinksSettings,
    draw_non_links,
    link_heuristics,
    link_scores,
    official_links,
    split_links,
)
from hgeo.tasks import _links as links_module
from hgeo.train import fit


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


def test_equal_scores_for_all_pairs_give_one_half():
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


def hgcn_mask_edges(adjacency, seed):
    """The positive and negative pairs of HGCN's ``mask_edges``, which shuffles whole tables of pairs."""
    generator = np.random.RandomState(seed)
    positive = np.stack(np.nonzero(np.triu(adjacency)), axis=1)
    generator.shuffle(positive)
    negative = np.stack(np.nonzero(np.triu(1 - adjacency)), axis=1)
    generator.shuffle(negative)
    val, test = int(0.05 * len(positive)), int(0.1 * len(positive))
    ends = val, val + test
    return np.split(positive, ends), np.split(negative, ends)


@pytest.mark.parametrize("seed", [1234, 7])
@pytest.mark.parametrize("make", [karate, lambda: hierarchy(depth=3)])
def test_the_official_split_is_the_one_of_hgcns_code(make, seed):
    data = make()
    adjacency = np.zeros((data.num_nodes,) * 2)
    adjacency[tuple(data.edge_index.numpy())] = 1
    (val, test, train), (val_not, test_not, _) = hgcn_mask_edges(adjacency, seed)
    split = official_links(data, seed=seed)
    found = (split.val_pos, split.test_pos, split.train_pos, split.val_neg, split.test_neg)
    for ours, theirs in zip(found, (val, test, train, val_not, test_not), strict=True):
        assert ours.T.tolist() == theirs.tolist()


def test_negatives_of_training_in_a_clean_split_are_nothing_that_is_hidden():
    split = split_links(karate(), seed=0)
    drawn = pairs(draw_non_links(split, 20_000, seed=0))
    hidden = [pairs(part) for part in (split.val_pos, split.val_neg, split.test_pos, split.test_neg)]
    everything = {(a, b) for b in range(34) for a in range(b)}
    assert drawn == everything - pairs(split.train_pos) - set.union(*hidden)


def test_negatives_of_training_in_an_official_split_are_all_pairs_that_are_not_trained_on():
    split = official_links(karate())
    drawn = draw_non_links(split, 50_000, seed=0)
    everything = {(a, b) for b in range(34) for a in range(b + 1)}
    assert pairs(drawn) == everything - pairs(split.train_pos)
    _, counts = np.unique(drawn.numpy(), axis=1, return_counts=True)
    mean = counts.mean()
    assert abs(counts - mean).max() < 6 * mean**0.5  # each is as likely as any other


def test_a_graph_of_too_few_links_says_how_many_it_needs():
    path = make_dataset("path", np.array([[0, 1, 2], [1, 2, 3]]), np.eye(4), np.arange(4) % 2)
    with pytest.raises(DataError, match=r"3 links are too few to hide 5% and 10% of them; expected at least 20"):
        Links(path)


def test_heuristics_count_the_links_that_are_left():
    edges = np.array([[0, 0, 1, 1, 2, 4], [2, 3, 2, 3, 3, 3]])
    square = make_dataset("square", edges, np.eye(5), np.arange(5) % 2)
    found = link_heuristics(square, torch.tensor([[0, 0], [1, 4]]))  # degrees are 2, 2, 3, 4, 1
    assert found["degree product"].tolist() == [4.0, 2.0]
    assert found["degree difference"].tolist() == [0.0, 1.0]
    assert found["common neighbours"].tolist() == [2.0, 1.0]
    assert found["Adamic-Adar"].tolist() == pytest.approx([1 / np.log(3) + 1 / np.log(4), 1 / np.log(4)])


def test_ranks_count_half_of_what_scores_the_same():
    scores = link_scores(torch.tensor([5.0, 2.0, 0.0]), torch.tensor([4.0, 2.0, 1.0, 1.0]), hits=2)
    assert scores["hits_2"] == pytest.approx(1 / 3)  # the second best of the others has 2
    assert scores["mrr"] == pytest.approx((1 + 1 / 2.5 + 1 / 5) / 3)


def test_no_message_goes_along_a_hidden_link_and_no_degree_counts_it():
    data = load("karate", features="auto+degrees")
    task = Links(data, seed=3)
    visible = pairs(task.dataset.edge_index)
    hidden = pairs(torch.cat([task.links.val_pos, task.links.test_pos], dim=1))
    assert not visible & (hidden | {(b, a) for a, b in hidden})
    features, degree = task.dataset.features.to_dense(), torch.bincount(task.dataset.edge_index[1], minlength=34)
    assert torch.equal(features[:, -7:-1].argmax(1), degree.clamp(max=5))
    model = task.attach(build("gcn", task.dataset, "ball:2", out_dim=2)).eval()
    there = model(task.dataset.graph, task.dataset.features)
    other = data.with_edges(torch.tensor([list(pair) for pair in sorted(visible)]).T)
    assert torch.equal(there, model(other.graph, other.features))


def test_the_same_epoch_draws_the_same_negatives_and_the_next_one_others():
    task = Links(karate())
    torch.manual_seed(0)
    model = task.attach(build("gcn", task.dataset, "ball:2", out_dim=2)).eval()
    points = model(task.dataset.graph, task.dataset.features)
    losses = [task.loss(model, points, Epoch(number, 0, None)).item() for number in (4, 4, 5)]
    assert losses[0] == losses[1] != losses[2]


@pytest.mark.parametrize("split", ["clean", "official"])
def test_links_that_an_epoch_asks_for_are_not_in_the_graph_that_its_step_sees(split, monkeypatch):
    data = load("karate", features="auto+degrees")
    task = Links(data, LinksSettings(mask=0.25), split=split, seed=1)
    epoch, other = Epoch(3, 0, TrainSettings()), Epoch(4, 0, TrainSettings())
    seen, train = task.seen(epoch), pairs(task.links.train_pos)
    left = {(a, b) for a, b in pairs(seen.edge_index) if a < b}
    assert pairs(seen.edge_index) == pairs(seen.edge_index.flip(0))
    assert left < train
    assert len(train - left) == round(0.25 * len(train))
    assert torch.equal(seen.edge_index, task.seen(epoch).edge_index)
    assert left != {(a, b) for a, b in pairs(task.seen(other).edge_index) if a < b}
    recounted = task.dataset.with_edges(seen.edge_index)
    torch.testing.assert_close(seen.features.to_dense(), recounted.features.to_dense())
    assert (seen.features.to_dense() != task.dataset.features.to_dense()).any()
    asked = []
    monkeypatch.setattr(
        links_module, "_logits", lambda model, points, yes, no: (asked.append(yes), (yes[0] * 0.0,) * 2)[1]
    )
    task.loss(None, None, epoch)
    assert pairs(asked[0]) == train - left


def test_without_a_mask_every_epoch_sees_the_graph_and_asks_for_all_of_its_links():
    task = Links(karate(), LinksSettings(mask=0.0))
    assert task.seen(Epoch(0, 0, TrainSettings())) is None


def test_a_network_that_sees_the_links_that_it_is_asked_for_learns_to_look_them_up():
    def reached(mask):
        task = Links(hierarchy(depth=6), LinksSettings(mask=mask))
        torch.manual_seed(0)
        model = task.attach(build("sage", task.dataset, "euclidean:8", out_dim=8, feat_drop=0.0, hidden_drop=0.0))
        return fit(model, task, TrainSettings(lr=0.01, epochs=60, patience=60)).val_roc_auc

    assert reached(0.3) > reached(0.0) + 0.05


def test_a_network_without_a_decoder_is_refused():
    task = Links(karate())
    with pytest.raises(TypeError, match=r"expected what task\.attach\(network\) gives, got a Linear"):
        task.evaluate(torch.nn.Linear(2, 2), torch.zeros(34, 2), "val")


def test_an_unknown_decoder_gets_an_error_that_lists_the_known_ones():
    with pytest.raises(ValueError, match="the decoder is 'dirac', expected one of fermi-dirac, "):
        Links(karate(), LinksSettings(decoder="dirac"))
