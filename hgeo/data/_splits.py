"""Which nodes are for training, validation and test: splits by name, and those of the field, leaks and all."""

from __future__ import annotations

import dataclasses
import warnings

import numpy as np
import torch

from hgeo.data._dataset import DataError, Dataset, DataWarning, random_split

__all__ = ["SPLITS", "stratified_split", "with_split"]

#: what ``load(split=)`` knows
SPLITS = ("official", "clean", "few")

_USUAL = (0.70, 0.15, 0.15)
_DISEASE = (0.30, 0.10, 0.60)
# of HGCN's code, of the smaller of the two classes that it sees: validation, test
_HGCN_SHARES = {"airport": (0.15, 0.15), "disease": (0.10, 0.60), "disease-nc": (0.10, 0.60)}
_PUBLIC = ("cora", "citeseer", "pubmed", "ogbn-arxiv")

Parts = tuple[np.ndarray, np.ndarray, np.ndarray]


def with_split(dataset: Dataset, split: str | None, seed: int, *, known: str | None = None) -> Dataset:
    """The data with another split of their nodes; ``known`` is their name, if they were loaded by it.

    - ``"official"``: the one that the field uses. Of the Planetoid graphs and ogbn-arxiv the public one; of Airport and
      Disease that of HGCN's code, to the bit, with the same ``seed`` (its own is 1234). What is wrong with it a warning
      says.
    - ``"clean"``: by ``seed``, 70 % of each class for training, 15 % for validation, 15 % for test; 30, 10 and 60 % of
      Disease.
    - ``"few"``: by ``seed``, 20 nodes a class, 500, 1000 (:func:`random_split`).
    - ``None``: what the data came with; of Airport and Disease the clean one.
    """
    shares = _HGCN_SHARES.get(known or "")
    if split is None and shares is None:
        return dataset
    label = dataset.labels.cpu().numpy()
    if split in (None, "clean"):
        kept = _DISEASE if known in ("disease", "disease-nc") else _USUAL
        return _taking(dataset, stratified_split(label, kept, seed, name=dataset.name))
    if split == "few":
        return _taking(dataset, random_split(label, seed=seed, name=dataset.name))
    if split != "official":
        raise DataError(f"no split {split!r}; known: {', '.join(SPLITS)}")
    if known in _PUBLIC:
        return dataset
    if shares is None:
        raise DataError(f"{dataset.name} has no official split; choose clean or few, or leave the split out")
    parts = _hgcn_split(label, *shares, seed=seed)
    warnings.warn(f"{dataset.name}: the official split {_flaw(label, *parts)}", DataWarning, stacklevel=3)
    return _taking(dataset, parts)


def _taking(dataset: Dataset, parts: Parts) -> Dataset:
    train, val, test = (torch.from_numpy(part).to(dataset.labels.device) for part in parts)
    return dataclasses.replace(dataset, train_idx=train, val_idx=val, test_idx=test)


def stratified_split(label: np.ndarray, shares: tuple[float, float, float], seed: int, *, name: str = "data") -> Parts:
    """Shares of every class for training, validation and test, rounded so that nothing is left over.

    >>> train, val, test = stratified_split(np.arange(100) % 4, (0.7, 0.15, 0.15), seed=0)
    >>> np.bincount(train % 4).tolist(), len(val), len(test)
    ([18, 18, 18, 18], 16, 12)
    """
    generator = np.random.default_rng([seed, 0x5917])
    parts: list[list[np.ndarray]] = [[], [], []]
    for value in np.unique(label[label >= 0]):
        members = generator.permutation(np.flatnonzero(label == value))
        if len(members) < 3:
            raise DataError(f"{name}: class {value} has {len(members)} node(s), too few for train, val and test")
        ends = np.round(np.cumsum(shares[:2]) * len(members)).astype(int)
        ends = np.clip(ends, [1, 2], [len(members) - 2, len(members) - 1])
        for part, chosen in zip(parts, np.split(members, ends), strict=True):
            part.append(chosen)
    train, val, test = (np.sort(np.concatenate(part)) for part in parts)
    return train, val, test


def _hgcn_split(label: np.ndarray, val: float, test: float, *, seed: int) -> Parts:
    """The split of HGCN's ``split_data``, entry for entry: of nodes with a label other than 0, and of nodes with one
    other than 1.

    These are two halves of two classes. Of more than two classes they overlap, so that a node may be in several parts,
    and in one part twice.
    """
    random = np.random.RandomState(seed)  # what numpy.random.seed seeds
    halves = [label.nonzero()[0], (1.0 - label).nonzero()[0]]
    for half in halves:
        random.shuffle(half)
    size = min(map(len, halves))
    many_val, many_test = round(val * size), round(test * size)
    cut = [np.split(half, [many_val, many_val + many_test]) for half in halves]
    found = [np.concatenate([half[part] for half in cut]) for part in range(3)]
    return found[2], found[0], found[1]


def _flaw(label: np.ndarray, train: np.ndarray, val: np.ndarray, test: np.ndarray) -> str:
    seen = int(np.isin(test, train).sum())
    if seen:
        return (
            f"leaks: it treats {len(np.unique(label))} classes as two, so that {seen} of {len(test)} test entries "
            f"({seen / len(test):.0%}) are training entries, too; 'clean' does not"
        )
    positive = float((label[test] == 1).mean())
    return (
        f"has {len(train)} / {len(val)} / {len(test)} nodes, and a test set of {positive:.0%} positives, on which "
        f"'positive' everywhere scores an F1 of {2 * positive / (1 + positive):.3f}"
    )
