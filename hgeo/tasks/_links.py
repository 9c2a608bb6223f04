"""Link prediction: hide edges before training, ask for them afterwards."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from hgeo.data import DataError, Dataset

__all__ = ["LinkSplit", "draw_non_links", "link_scores", "split_links"]


@dataclass(frozen=True, eq=False)
class LinkSplit:
    """A data set whose graph lacks the hidden links, the links of each part, and non-links to tell them from.

    Each of the pair tensors is (2, M) with the smaller id first, one column an undirected link. ``train_pos`` are the
    links that are left in ``dataset``; negatives are drawn once, by the seed, and belong to no part of the graph.
    """

    dataset: Dataset
    train_pos: Tensor
    val_pos: Tensor
    val_neg: Tensor
    test_pos: Tensor
    test_neg: Tensor


def split_links(dataset: Dataset, *, val: float = 0.05, test: float = 0.1, seed: int = 0) -> LinkSplit:
    """Hide ``val`` and ``test`` shares of the links, in both directions, and draw as many non-links for each.

    >>> from hgeo.data import load
    >>> split = split_links(load("karate"), seed=1)
    >>> split.train_pos.shape[1], split.val_pos.shape[1], split.test_pos.shape[1], split.dataset.num_edges
    (68, 3, 7, 136)
    """
    if not (0 < val < 1 and 0 < test < 1 and val + test < 1):
        raise ValueError(f"val = {val} and test = {test} must be shares in (0, 1) that leave some links to train on")
    source, destination = dataset.edge_index.cpu().numpy()
    links = np.stack([source, destination])[:, source < destination]
    count, nodes = links.shape[1], dataset.num_nodes
    num_val, num_test = int(val * count), int(test * count)
    if num_val < 1 or num_test < 1:
        raise DataError(f"{dataset.name}: {count} links are too few to hide {val:.0%} and {test:.0%} of them")
    if nodes * (nodes - 1) // 2 - count < num_val + num_test:
        raise DataError(f"{dataset.name}: the graph is nearly complete, there are too few non-links to draw")
    generator = np.random.default_rng(seed)
    order = generator.permutation(count)
    parts = np.split(links[:, order], [num_val, num_val + num_test], axis=1)
    negatives = _non_links(links, nodes, num_val + num_test, generator)
    kept = np.concatenate([parts[2], parts[2][::-1]], axis=1)
    kept = kept[:, np.lexsort((kept[0], kept[1]))]
    device = dataset.edge_index.device

    def tensor(pairs: np.ndarray) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(pairs)).to(device)

    return LinkSplit(
        dataset=dataset.with_edges(tensor(kept)),
        train_pos=tensor(parts[2]),
        val_pos=tensor(parts[0]),
        test_pos=tensor(parts[1]),
        val_neg=tensor(negatives[:, :num_val]),
        test_neg=tensor(negatives[:, num_val:]),
    )


def draw_non_links(split: LinkSplit, count: int, *, seed: int) -> Tensor:
    """(2, count) pairs that are no links of the graph that is left to train on: negatives of one epoch.

    >>> from hgeo.data import load
    >>> draw_non_links(split_links(load("karate")), 5, seed=0).shape
    torch.Size([2, 5])
    """
    pairs = _non_links(split.train_pos.cpu().numpy(), split.dataset.num_nodes, count, np.random.default_rng(seed))
    return torch.from_numpy(pairs).to(split.train_pos.device)


def link_scores(positive: Tensor, negative: Tensor) -> dict[str, float]:
    """ROC-AUC and average precision of scores (larger: more likely a link) of links and of non-links.

    >>> import torch
    >>> link_scores(torch.tensor([3.0, 2.0]), torch.tensor([1.0, 0.0]))
    {'roc_auc': 1.0, 'average_precision': 1.0}
    """
    from sklearn.metrics import average_precision_score, roc_auc_score

    scores = torch.cat([positive, negative]).detach().cpu().double().numpy()
    truth = np.concatenate([np.ones(len(positive)), np.zeros(len(negative))])
    return {
        "roc_auc": float(roc_auc_score(truth, scores)),
        "average_precision": float(average_precision_score(truth, scores)),
    }


def _non_links(links: np.ndarray, nodes: int, wanted: int, generator: np.random.Generator) -> np.ndarray:
    taken = np.sort(links[0] * nodes + links[1])
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
