"""Node classification: which class is a node of?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from hgeo.tasks._classification import accuracy, binary_f1, macro_f1
from hgeo.tasks._clustering import clustering_nmi
from hgeo.tasks._node_baselines import node_baselines
from hgeo.tasks._task import Batch, Epoch, Part, Task, register_task

__all__ = ["Nodes"]

_QUICK = 50_000_000  # pairs of nodes that a nearest neighbour is looked for in


@register_task("nodes")
class Nodes(Task):
    """Cross entropy of the classes of the training nodes, with label smoothing.

    The best epoch has the highest validation accuracy, and of several such epochs the lowest validation loss.

    >>> from hgeo.data import load
    >>> Nodes(load("karate")).out_dim(16)
    2
    """

    columns: Mapping[str, str] = {"test_accuracy": "accuracy", "test_macro_f1": "macro F1", "test_nmi": "NMI"}

    def out_dim(self, dim: int) -> int:
        return self.dataset.num_classes

    def nodes(self, part: Part) -> Tensor:
        index: Tensor = getattr(self.dataset, f"{part}_idx")
        return index

    def loss(self, model: nn.Module, output: Tensor, epoch: Epoch) -> Tensor:
        return self._loss(output, self._labels("train"), epoch)

    @property
    def num_examples(self) -> int:
        return len(self.dataset.train_idx)

    def batch(self, chosen: Tensor, epoch: Epoch) -> Batch:
        nodes = self.dataset.train_idx[chosen]
        return Batch(nodes, lambda model, output: self._loss(output, self.dataset.labels[nodes], epoch))

    def _loss(self, output: Tensor, labels: Tensor, epoch: Epoch) -> Tensor:
        return F.cross_entropy(output, labels, label_smoothing=epoch.training.label_smoothing)

    def evaluate(self, model: nn.Module, output: Tensor, part: Part) -> dict[str, float]:
        labels = self._labels(part)
        scores = {"loss": float(F.cross_entropy(output, labels)), "accuracy": accuracy(output, labels)}
        if part == "test":
            scores["macro_f1"] = macro_f1(output, labels)
            if self.dataset.num_classes == 2:
                scores["f1"] = binary_f1(output, labels)
        return scores

    def watched(self, scores: Mapping[str, float]) -> tuple[float, ...]:
        return scores["val_accuracy"], -scores["val_loss"]

    def more(self, points: Tensor, manifold: Any, seed: int) -> dict[str, float]:
        test = self.dataset.test_idx
        return {"test_nmi": clustering_nmi(points[test], self.dataset.labels[test], manifold=manifold, seed=seed)}

    def beside(self) -> dict[str, dict[str, float]]:
        """What is quick: the most frequent class, "positive", and nearest neighbours on graphs of some thousand nodes.

        :func:`node_baselines` has more.
        """
        quick = ["majority", "all positive"]
        here = self.dataset.parts is None
        small = here and len(self.dataset.train_idx) * self.dataset.num_nodes < _QUICK
        return node_baselines(self.dataset, names=[*quick, "nearest neighbours"] if small else quick)

    def _labels(self, part: Part) -> Tensor:
        return self.dataset.labels[self.nodes(part)]
