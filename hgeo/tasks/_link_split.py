"""Which links are hidden, and which pairs are no links: clean, or as HGCN's code has it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hgeo.data import DataError, Dataset

__all__ = ["LinkSplit", "draw_non_links", "official_links", "split_links"]

Array = np.ndarray[Any, Any]

_MOST_PAIRS = 2**29  # HGCN's code shuffles all pairs of nodes: here 2 GB of them


@dataclass(frozen=True, eq=False)
class LinkSplit:
    """A data set whose graph lacks the hidden links, the links of each part, and non-links to tell them from.

    Each of the pair tensors is (2, M) with the smaller id first, one column an undirected link. ``train_pos`` are the
    links that are left in ``dataset``; negatives are drawn once, by the seed, and belong to no part of the graph.
    ``official``: split as HGCN's code does.
    """

    dataset: Dataset
    train_pos: Tensor
    val_pos: Tensor
    val_neg: Tensor
    test_pos: Tensor
    test_neg: Tensor
    official: bool = False

    @cached_property
    def taken(self) -> Array:
        """Sorted numbers of the pairs that are no negatives of training."""
        parts = [self.train_pos]
        if not self.official:
            parts += [self.val_pos, self.val_neg, self.test_pos, self.test_neg]
        return np.sort(np.concatenate([_keys(part.cpu().numpy(), self.dataset.num_nodes) for part in parts]))


def split_links(dataset: Dataset, *, val: float = 0.05, test: float = 0.1, seed: int = 0) -> LinkSplit:
    """Hide ``val`` and ``test`` shares of the links, in both directions, and draw as many non-links for each.

    >>> from hgeo.data import load
    >>> split = split_links(load("karate"), seed=1)
    >>> split.train_pos.shape[1], split.val_pos.shape[1], split.test_pos.shape[1], split.dataset.num_edges
    (68, 3, 7, 136)
    """
    links, num_val, num_test = _to_hide(dataset, val, test)
    nodes, count = dataset.num_nodes, links.shape[1]
    if nodes * (nodes - 1) // 2 - count < num_val + num_test:
        raise DataError(f"{dataset.name}: the graph is nearly complete, there are too few non-links to draw")
    generator = np.random.default_rng(seed)
    order = generator.permutation(count)
    negatives = _distinct(links, nodes, num_val + num_test, generator)
    return _split(dataset, links[:, order], negatives, num_val)


def official_links(dataset: Dataset, *, seed: int = 1234) -> LinkSplit:
    """The split of HGCN's code (Chami et al., 2019) for the same seed, entry for entry: 5 % validation, 10 % test.

    All pairs of nodes that are no links, a node and itself among them, are shuffled. Negatives of training are drawn
    from all of them and from the hidden links (:func:`draw_non_links`), as there.
    """
    links, num_val, num_test = _to_hide(dataset, 0.05, 0.1)
    nodes, count = dataset.num_nodes, links.shape[1]
    pairs = nodes * (nodes + 1) // 2
    if pairs > _MOST_PAIRS:
        raise DataError(
            f"{dataset.name}: HGCN's split shuffles all pairs of {nodes} nodes, and hgeo at most {_MOST_PAIRS}; choose "
            "the clean split"
        )
    if pairs - count < num_val + num_test:
        raise DataError(f"{dataset.name}: the graph is nearly complete, there are too few non-links to draw")
    links = links[:, np.lexsort((links[1], links[0]))]
    random = np.random.RandomState(seed)
    order, others = np.arange(count), np.arange(pairs - count, dtype=np.int32)
    random.shuffle(order)
    random.shuffle(others)
    # The upper triangle, row after row: where its rows start, and which of its places are links.
    rows = np.arange(nodes, dtype=np.int64)
    starts = rows * nodes - rows * (rows - 1) // 2 - rows
    place = starts[links[0]] + links[1]
    free = others[: num_val + num_test].astype(np.int64)
    free += np.searchsorted(place - np.arange(count), free, side="right")
    i = np.searchsorted(starts + rows, free, side="right") - 1
    return _split(dataset, links[:, order], np.stack([i, free - starts[i]]), num_val, official=True)


def draw_non_links(split: LinkSplit, count: int, *, seed: int | tuple[int, ...]) -> Tensor:
    """(2, count) pairs that are no links: negatives of one epoch, drawn anew from all of them.

    In a clean split none of them is hidden, neither as a link of validation or test nor as a negative there. In an
    official one any pair that is no link of training may be drawn, a node and itself too.

    >>> from hgeo.data import load
    >>> draw_non_links(split_links(load("karate")), 5, seed=0).shape
    torch.Size([2, 5])
    """
    nodes, generator, taken = split.dataset.num_nodes, np.random.default_rng(seed), split.taken
    found = np.empty(0, dtype=np.int64)
    if len(taken) >= nodes * (nodes + 1 if split.official else nodes - 1) // 2:
        raise DataError(f"{split.dataset.name}: the graph is nearly complete, there are no non-links to train on")
    while len(found) < count:
        keys = _pairs(nodes, 2 * count + 16, generator, loops=split.official)
        place = np.searchsorted(taken, keys).clip(max=len(taken) - 1)
        found = np.concatenate([found, keys[taken[place] != keys]])
    found = found[:count]
    return torch.from_numpy(np.stack([found // nodes, found % nodes])).to(split.train_pos.device)


def _to_hide(dataset: Dataset, val: float, test: float) -> tuple[Array, int, int]:
    """The links with the smaller id first, and how many of them to hide."""
    if not (0 < val < 1 and 0 < test < 1 and val + test < 1):
        raise ValueError(f"val = {val} and test = {test} must be shares in (0, 1) that leave some links to train on")
    source, destination = dataset.edge_index.cpu().numpy()
    links = np.stack([source, destination])[:, source < destination]
    num_val, num_test = int(val * links.shape[1]), int(test * links.shape[1])
    if num_val < 1 or num_test < 1:
        raise DataError(
            f"{dataset.name}: {links.shape[1]} links are too few to hide {val:.0%} and {test:.0%} of them; "
            f"expected at least {int(np.ceil(1 / min(val, test)))}"
        )
    return links, num_val, num_test


def _split(dataset: Dataset, links: Array, negatives: Array, num_val: int, *, official: bool = False) -> LinkSplit:
    """``links`` in the order of validation, test and training, as many ``negatives`` as the first two."""
    hidden = negatives.shape[1]
    val, test, train = np.split(links, [num_val, hidden], axis=1)
    kept = np.concatenate([train, train[::-1]], axis=1)
    kept = kept[:, np.lexsort((kept[0], kept[1]))]
    device = dataset.edge_index.device

    def tensor(pairs: Array) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(pairs, dtype=np.int64)).to(device)

    return LinkSplit(
        dataset=dataset.with_edges(tensor(kept)),
        train_pos=tensor(train),
        val_pos=tensor(val),
        test_pos=tensor(test),
        val_neg=tensor(negatives[:, :num_val]),
        test_neg=tensor(negatives[:, num_val:]),
        official=official,
    )


def _keys(pairs: Array, nodes: int) -> Array:
    """A number a pair."""
    return np.asarray(pairs[0] * nodes + pairs[1])


def _pairs(nodes: int, count: int, generator: np.random.Generator, *, loops: bool) -> Array:
    """Numbers of random pairs i < j, or i ≤ j with ``loops``, each as likely as any other."""
    n = nodes if loops else nodes - 1
    a, b = generator.integers(n, size=count), generator.integers(n + 1, size=count)
    # The n (n + 1) pairs (a, b) are two copies of the pairs i ≤ j < n.
    i, j = np.where(b > a, a, n - 1 - a), np.where(b > a, b - 1, n - 1 - b)
    return np.asarray(i * nodes + (j if loops else j + 1))


def _distinct(links: Array, nodes: int, wanted: int, generator: np.random.Generator) -> Array:
    taken = np.sort(_keys(links, nodes))
    found = np.empty(0, dtype=np.int64)
    while len(found) < wanted:
        low, high = np.sort(generator.integers(nodes, size=(2, 2 * wanted + 16)), axis=0)
        key = (low * nodes + high)[low < high]
        key = key[~np.isin(key, taken)]
        # unique() sorts; the order of drawing is kept, so that val and test negatives look alike
        pool = np.concatenate([found, key])
        _, first = np.unique(pool, return_index=True)
        found = pool[np.sort(first)]
    return np.stack([found[:wanted] // nodes, found[:wanted] % nodes])
