"""Node classification without learning, or without the graph: what a model on a graph has to beat."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from hgeo.data import Dataset
from hgeo.tasks._classification import accuracy, binary_f1, macro_f1

__all__ = ["NODE_BASELINES", "node_baselines"]

_MOST_ROWS = 20_000  # training nodes that are learned from; a sample of more

Array = np.ndarray[Any, Any]
# An estimator of scikit-learn, or something with its ``fit`` and ``predict``.
Candidates = Callable[[int], Sequence[Any]]


class _Always:
    """Says the same of every node: ``value``, or the most frequent training label."""

    def __init__(self, value: int | None = None) -> None:
        self._value = value

    def fit(self, x: Any, y: Array) -> None:
        if self._value is None:
            self._value = int(np.bincount(y).argmax())

    def predict(self, x: Any) -> Array:
        assert self._value is not None
        return np.full(x.shape[0], self._value)


def _neighbours(seed: int) -> Sequence[Any]:
    from sklearn.neighbors import KNeighborsClassifier

    return [KNeighborsClassifier(k, weights="distance") for k in (1, 5, 15)]


def _forest(seed: int) -> Sequence[Any]:
    from sklearn.ensemble import RandomForestClassifier

    return [RandomForestClassifier(200, min_samples_leaf=leaf, random_state=seed) for leaf in (1, 4)]


def _mlp(seed: int) -> Sequence[Any]:
    from sklearn.neural_network import MLPClassifier

    usual = {"learning_rate_init": 0.01, "max_iter": 400, "tol": 3e-4, "n_iter_no_change": 20, "random_state": seed}
    choices = (((64,), 0.1), ((64, 64), 1e-4), ((64, 64), 1.0))
    return [MLPClassifier(hidden, alpha=alpha, **usual) for hidden, alpha in choices]


#: what a table shows beside models, by its name: what may be chosen from, by validation accuracy, for a seed
NODE_BASELINES: Mapping[str, Candidates] = {
    "majority": lambda seed: [_Always()],
    "all positive": lambda seed: [_Always(1)],
    "nearest neighbours": _neighbours,
    "random forest": _forest,
    "MLP": _mlp,
}


def node_baselines(
    dataset: Dataset, *, seed: int = 0, names: Collection[str] | None = None
) -> dict[str, dict[str, float]]:
    """Test scores of what needs no learning or sees no graph: a name, and scores as results of training name them.

    The most frequent class of the training nodes; of two classes, "positive" everywhere; nearest neighbours, a random
    forest and a multi-layer perceptron on the features alone. Each has two or three settings, chosen on validation
    nodes. Of more than 20,000 training nodes a sample is learned from.

    >>> from hgeo.data import load
    >>> node_baselines(load("karate"), names=["majority", "all positive"])["all positive"]["test_accuracy"]
    0.5
    """
    wanted = list(NODE_BASELINES) if names is None else list(names)
    unknown = [name for name in wanted if name not in NODE_BASELINES]
    if unknown:
        raise ValueError(f"no baseline {unknown[0]!r}; known: {', '.join(NODE_BASELINES)}")
    features, labels = _matrix(dataset.features), dataset.labels.cpu()
    train, val, test = (part.cpu().numpy() for part in (dataset.train_idx, dataset.val_idx, dataset.test_idx))
    if len(train) > _MOST_ROWS:
        train = np.random.default_rng([seed, 0xBA5E]).choice(train, _MOST_ROWS, replace=False)
    rows = {}
    for name in wanted:
        if name == "all positive" and dataset.num_classes != 2:
            continue
        best, score = None, -1.0
        for candidate in NODE_BASELINES[name](seed):
            if getattr(candidate, "n_neighbors", 0) > len(train):
                continue
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="Stochastic Optimizer: Maximum iterations")
                candidate.fit(features[train], labels.numpy()[train])
            found = float((candidate.predict(features[val]) == labels.numpy()[val]).mean())
            if found > score:
                best, score = candidate, found
        assert best is not None, "the first candidate fits any training set"
        predicted = torch.from_numpy(np.asarray(best.predict(features[test]), dtype=np.int64))
        rows[name] = {"val_accuracy": score, **_scores(predicted, labels[test], dataset.num_classes)}
    return rows


def _scores(predicted: Tensor, labels: Tensor, classes: int) -> dict[str, float]:
    logits = torch.nn.functional.one_hot(predicted, classes).double()
    found = {"test_accuracy": accuracy(logits, labels), "test_macro_f1": macro_f1(logits, labels)}
    return {**found, "test_f1": binary_f1(logits, labels)} if classes == 2 else found


def _matrix(features: Tensor) -> Any:
    """The features as scikit-learn reads them."""
    if features.layout != torch.sparse_csr:
        return features.cpu().numpy()
    parts = (features.values(), features.col_indices().int(), features.crow_indices().int())
    return scipy.sparse.csr_matrix(tuple(part.cpu().numpy() for part in parts), shape=tuple(features.shape))
