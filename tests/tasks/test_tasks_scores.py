"""Scores agree with scikit-learn's, and are what they say on cases that one can count by hand."""

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, f1_score

import hgeo
from hgeo.tasks import accuracy, clustering_nmi, macro_f1


@pytest.mark.parametrize("seed", range(5))
def test_accuracy_and_macro_f1_agree_with_scikit_learn(seed):
    generator = torch.Generator().manual_seed(seed)
    logits, labels = torch.randn(60, 5, generator=generator), torch.randint(4, (60,), generator=generator)
    predicted = logits.argmax(dim=1).numpy()
    assert accuracy(logits, labels) == pytest.approx(accuracy_score(labels.numpy(), predicted))
    assert macro_f1(logits, labels) == pytest.approx(f1_score(labels.numpy(), predicted, average="macro"))


def test_a_class_that_is_nowhere_does_not_lower_macro_f1():
    logits = torch.eye(4)[[0, 1, 1, 0]]
    assert macro_f1(logits, torch.tensor([0, 1, 1, 0])) == 1.0


def test_clusters_of_points_far_out_on_the_ball_are_found_through_log0():
    ball = hgeo.PoincareBall(c=1.0)
    generator = torch.Generator().manual_seed(0)
    centres = torch.tensor([[5.0, 0.0], [0.0, 5.0], [-5.0, -5.0]])
    labels = torch.arange(90) % 3
    points = hgeo.exp0(ball, (centres[labels] + 0.5 * torch.randn(90, 2, generator=generator)).double())
    assert clustering_nmi(points, labels, manifold=ball) == pytest.approx(1.0)


def test_clusters_that_ignore_the_classes_have_little_information():
    generator = torch.Generator().manual_seed(0)
    labels = torch.from_numpy(np.random.default_rng(0).integers(3, size=300))
    assert clustering_nmi(torch.randn(300, 2, generator=generator), labels) < 0.05
