"""Node classification: accuracy and F1."""

from __future__ import annotations

from torch import Tensor

__all__ = ["accuracy", "binary_f1", "macro_f1"]


def accuracy(logits: Tensor, labels: Tensor) -> float:
    """Share of rows whose largest logit is the label.

    >>> import torch
    >>> accuracy(torch.tensor([[2.0, 1.0], [0.0, 3.0]]), torch.tensor([0, 0]))
    0.5
    """
    return float((logits.argmax(dim=-1) == labels).double().mean())


def binary_f1(logits: Tensor, labels: Tensor) -> float:
    """F1 = 2·TP / (2·TP + FP + FN) of class 1, of two classes; 0 where nothing is positive.

    >>> import torch
    >>> binary_f1(torch.tensor([[0.0, 1.0], [0.0, 1.0]]), torch.tensor([1, 0]))  # "positive" everywhere
    0.6666666666666666
    """
    positive, right = logits.argmax(dim=-1) == 1, labels == 1
    total = int(positive.sum()) + int(right.sum())
    return 2 * int((positive & right).sum()) / total if total else 0.0


def macro_f1(logits: Tensor, labels: Tensor) -> float:
    """F1 = 2·TP / (2·TP + FP + FN) of each class that occurs in the labels or the predictions, averaged.

    >>> import torch
    >>> macro_f1(torch.eye(3), torch.tensor([0, 1, 2]))
    1.0
    """
    import torch

    predicted, classes = logits.argmax(dim=-1), logits.shape[-1]
    hit = torch.bincount(labels[predicted == labels], minlength=classes).double()
    total = (torch.bincount(predicted, minlength=classes) + torch.bincount(labels, minlength=classes)).double()
    occurs = total > 0
    return float((2 * hit[occurs] / total[occurs]).mean())
