"""What needs no learning or no graph stands beside models, and is judged as they are."""

import dataclasses

import numpy as np
import pytest
import torch

from hgeo.data import load, make_dataset
from hgeo.tasks import NODE_BASELINES, binary_f1, node_baselines


def example(classes=2, count=240, *, told=True, sparse=False):
    """Nodes whose class the features tell, or do not."""
    random = np.random.default_rng(0)
    label = random.choice(classes, count, p=[0.7, 0.3] if classes == 2 else None)
    place = np.eye(classes)[label] if told else np.eye(classes)[random.integers(classes, size=count)]
    noise = random.random((count, 6)) * (random.random((count, 6)) < 0.1) if sparse else random.normal(size=(count, 2))
    parts = np.split(random.permutation(count), [count // 2, 3 * count // 4])
    masks = dict(zip(("train", "val", "test"), parts, strict=True))
    edges = random.integers(count, size=(2, count))
    return make_dataset("example", edges, np.hstack([4 * place, noise]), label, masks=masks)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("sparse", [False, True])
def test_baselines_that_see_the_features_learn_from_them(classes, sparse):
    data = example(classes, sparse=sparse)
    assert data.is_sparse == sparse
    found = node_baselines(data)
    assert set(found) == set(NODE_BASELINES) - ({"all positive"} if classes == 3 else set())
    for name in ("nearest neighbours", "random forest", "MLP"):
        assert found[name]["test_accuracy"] > 0.95, name
        assert ("test_f1" in found[name]) == (classes == 2)


def test_constant_predictions_have_the_scores_that_the_labels_imply():
    data = example(told=False)
    positive = float((data.labels[data.test_idx] == 1).double().mean())
    found = node_baselines(data, names=["majority", "all positive"])
    assert found["majority"]["test_accuracy"] == pytest.approx(1 - positive)
    assert found["majority"]["test_f1"] == 0
    assert found["all positive"]["test_f1"] == pytest.approx(2 * positive / (1 + positive))


def test_the_choice_of_a_baseline_does_not_depend_on_test_labels():
    data = example(told=False)
    turned = data.labels.clone()
    turned[data.test_idx] = 1 - turned[data.test_idx]
    other = dataclasses.replace(data, labels=turned)
    for name, scores in node_baselines(data).items():
        mirrored = node_baselines(other, names=[name])[name]
        assert mirrored["val_accuracy"] == scores["val_accuracy"]
        assert mirrored["test_accuracy"] == pytest.approx(1 - scores["test_accuracy"])


def test_a_few_nodes_are_enough_and_an_unknown_name_is_an_error():
    assert node_baselines(load("karate"))["nearest neighbours"]["test_accuracy"] > 0
    with pytest.raises(ValueError, match="no baseline 'tree'; known: majority"):
        node_baselines(load("karate"), names=["tree"])


def test_the_f1_of_the_positive_class():
    logits = torch.tensor([[0.0, 1.0], [0.0, 1.0], [1.0, 0.0], [1.0, 0.0]])
    assert binary_f1(logits, torch.tensor([1, 0, 1, 0])) == 0.5
    assert binary_f1(logits[2:], torch.tensor([0, 0])) == 0
