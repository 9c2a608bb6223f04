"""Link prediction: hide links before training, ask for them afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hgeo.data import Dataset
from hgeo.models import Settings, setting, share, whole
from hgeo.nn import DECODERS, decoder
from hgeo.tasks._link_split import LinkSplit, draw_non_links, official_links, split_links
from hgeo.tasks._points import PointsAndPairs, decoder_of
from hgeo.tasks._task import Batch, Epoch, Part, Task, register_task

__all__ = ["Links", "LinksSettings", "link_heuristics", "link_scores"]


@dataclass(frozen=True)
class LinksSettings(Settings):
    """How links are read from points, and how they are ranked."""

    decoder: str = setting("squared-distance", f"what scores a pair of points: {', '.join(DECODERS)}")
    mask: float = share(
        0.2, "share of the known links that an epoch takes out of the graph, and asks for those; 0: it asks for all"
    )
    hits: int = whole(20, "K of Hits@K: how many links score above all but K - 1 of the non-links")


@register_task("links")
class Links(Task):
    r"""Tells hidden links from pairs of nodes that are none, by a decoder of the distance of two points.

    .. math:: L = -\frac{1}{|P|} \sum_{(u,v) \in P} \log p(u, v) - \frac{1}{|N|} \sum_{(u,v) \in N} \log (1 - p(u, v))

    over links P and as many negatives N, both drawn anew for each epoch: P are a share of the known links, ``mask``,
    which the network does not see in that epoch, for it would learn to look them up. 5 % of the links are
    for validation and 10 % for the test, with as many negatives; no message ever goes along a hidden link. The best
    epoch has the highest mean of ROC AUC and average precision.

    ``split="clean"``: negatives of training are neither links nor negatives of validation and test.
    ``split="official"``: as in HGCN's code (:func:`official_links`).

    A node's point is exp0 of what the network gives for it, in the network's hidden space; a network may say itself
    where its nodes are (``network.points(graph, x)``).

    >>> from hgeo.data import load
    >>> task = Links(load("karate"), seed=1)
    >>> task.dataset.num_edges, round(task.beside()["degree product"]["test_roc_auc"], 3)
    (136, 0.857)
    """

    Settings = LinksSettings
    title = "hidden links"
    columns: Mapping[str, str] = {"test_roc_auc": "ROC AUC", "test_average_precision": "AP"}
    splits = ("clean", "official")
    usual: ClassVar[Mapping[str, Any]] = {
        "lr": 0.01, "weight_decay": 1e-3, "epochs": 1000, "patience": 100, "min_epochs": 250,
        "feat_drop": 0.0, "hidden_drop": 0.0, "attn_drop": 0.0, "self_weight": True, "readout": "log0",
    }  # fmt: skip

    def __init__(
        self, dataset: Dataset, settings: LinksSettings | None = None, *, split: str | None = None, seed: int = 0
    ) -> None:
        super().__init__(dataset, settings, split=split, seed=seed)
        own = self.settings
        if own.decoder not in DECODERS:
            raise ValueError(f"the decoder is {own.decoder!r}, expected one of {', '.join(DECODERS)}")
        make = official_links if self.split == "official" else split_links
        self.links: LinkSplit = make(dataset, seed=seed)
        self.dataset = self.links.dataset
        self.columns = {
            **self.columns,
            f"test_hits_{own.hits}": f"Hits@{own.hits}",
            "test_mrr": "MRR",
        }

    def attach(self, network: nn.Module) -> nn.Module:
        return PointsAndPairs(network, decoder(self.settings.decoder, network.hidden_manifold))

    def seen(self, epoch: Epoch) -> Dataset | None:
        if self.settings.mask == 0:
            return None
        left = self.links.train_pos[:, ~self._asked(epoch)]
        edges = torch.cat([left, left.flip(0)], dim=1)
        order = torch.argsort(edges[1] * self.dataset.num_nodes + edges[0])
        return self.dataset.with_edges(edges[:, order])

    def _asked(self, epoch: Epoch) -> Tensor:
        """Which of the links of training an epoch asks for."""
        count, device = self.links.train_pos.shape[1], self.links.train_pos.device
        if self.settings.mask == 0:
            return torch.ones(count, dtype=torch.bool, device=device)
        order = epoch.generator.permutation(count)
        return torch.from_numpy(order < max(1, round(self.settings.mask * count))).to(device)

    def loss(self, model: nn.Module, output: Tensor, epoch: Epoch) -> Tensor:
        positive = self.links.train_pos[:, self._asked(epoch)]
        negative = draw_non_links(self.links, positive.shape[1], seed=(epoch.seed, epoch.number))
        return _loss(*_logits(model, output, positive, negative))

    @property
    def num_examples(self) -> int:
        return self.links.train_pos.shape[1]

    def batch(self, chosen: Tensor, epoch: Epoch) -> Batch:
        """These links and as many negatives, drawn by the seed, the epoch and the first of the links.

        The graph lacks these links meanwhile, unless ``mask`` is 0.
        """
        if self.settings.mask and self.dataset.counted is not None:
            raise ValueError(
                "features of degrees would tell the links that a batch asks for; leave out +degrees, or set mask=0"
            )
        positive = self.links.train_pos[:, chosen]
        negative = draw_non_links(self.links, len(chosen), seed=(epoch.seed, epoch.number, int(chosen[0])))
        nodes, rows = torch.cat([positive, negative], dim=1).unique(return_inverse=True)

        def loss(model: nn.Module, output: Tensor) -> Tensor:
            return _loss(*_logits(model, output, *rows.split(len(chosen), dim=1)))

        hidden = None if self.settings.mask == 0 else torch.cat([positive, positive.flip(0)], dim=1)
        return Batch(nodes, loss, hidden)

    def evaluate(self, model: nn.Module, output: Tensor, part: Part) -> dict[str, float]:
        positive, negative = _logits(model, output, *self._pairs(part))
        scores = link_scores(positive, negative, hits=None if part == "val" else self.settings.hits)
        return {"loss": float(_loss(positive, negative)), **scores}

    def watched(self, scores: Mapping[str, float]) -> tuple[float, ...]:
        return ((scores["val_roc_auc"] + scores["val_average_precision"]) / 2,)

    def beside(self) -> dict[str, dict[str, float]]:
        positive, negative = self._pairs("test")
        found = link_heuristics(self.dataset, torch.cat([positive, negative], dim=1))
        rows = {}
        for name, scores in found.items():
            of = link_scores(*scores.split([positive.shape[1], negative.shape[1]]), hits=self.settings.hits)
            rows[name] = {f"test_{score}": value for score, value in of.items()}
        return rows

    def _pairs(self, part: Part) -> tuple[Tensor, Tensor]:
        """Links and non-links of validation or test."""
        links = self.links
        return (links.val_pos, links.val_neg) if part == "val" else (links.test_pos, links.test_neg)


def link_scores(positive: Tensor, negative: Tensor, *, hits: int | None = None) -> dict[str, float]:
    """ROC AUC and average precision of scores (larger: more likely a link) of links and of non-links.

    With ``hits`` also Hits@K, the share of links that score higher than the K-th best non-link, and the mean of 1/rank
    of each link among all non-links; of equal scores half count as higher.

    >>> link_scores(torch.tensor([3.0, 0.5]), torch.tensor([1.0, 0.0]), hits=1)
    {'roc_auc': 0.75, 'average_precision': 0.8333333333333333, 'hits_1': 0.5, 'mrr': 0.75}
    """
    from sklearn.metrics import average_precision_score, roc_auc_score

    scores = torch.cat([positive, negative]).detach().cpu().double().numpy()
    if not np.isfinite(scores).all():
        return dict.fromkeys(("roc_auc", "average_precision"), float("nan"))
    truth = np.concatenate([np.ones(len(positive)), np.zeros(len(negative))])
    found = {
        "roc_auc": float(roc_auc_score(truth, scores)),
        "average_precision": float(average_precision_score(truth, scores)),
    }
    if hits is None:
        return found
    links, others = scores[: len(positive)], np.sort(scores[len(positive) :])
    above = len(others) - np.searchsorted(others, links, side="right")
    equal = np.searchsorted(others, links, side="right") - np.searchsorted(others, links, side="left")
    best = others[-hits] if hits <= len(others) else -np.inf
    return {
        **found,
        f"hits_{hits}": float((links > best).mean()),
        "mrr": float((1.0 / (1.0 + above + equal / 2)).mean()),
    }


def link_heuristics(dataset: Dataset, pairs: Tensor) -> dict[str, Tensor]:
    """Scores of (2, M) pairs by what needs no learning, from the links of ``dataset`` alone.

    The product of the degrees, their difference, the number of common neighbours, and Adamic and Adar's sum of
    1/log(degree) over these.

    >>> from hgeo.data import load
    >>> link_heuristics(load("karate"), torch.tensor([[0], [33]]))["common neighbours"]
    tensor([4.], dtype=torch.float64)
    """
    source, destination = dataset.edge_index.cpu().numpy()
    shape = (dataset.num_nodes, dataset.num_nodes)
    adjacency = scipy.sparse.csr_matrix((np.ones(len(source)), (source, destination)), shape=shape)
    degree = np.asarray(adjacency.sum(axis=1)).ravel()
    u, v = pairs.cpu().numpy()
    common = adjacency[u].multiply(adjacency[v]).tocsr()
    weight = 1.0 / np.log(np.maximum(degree, 2.0))  # a common neighbour of two nodes has two neighbours at least
    return {
        "degree product": torch.from_numpy(degree[u] * degree[v]),
        "degree difference": torch.from_numpy(np.abs(degree[u] - degree[v])),
        "common neighbours": torch.from_numpy(np.asarray(common.sum(axis=1)).ravel()),
        "Adamic-Adar": torch.from_numpy(np.asarray(common @ weight).ravel()),
    }


def _logits(model: nn.Module, points: Tensor, positive: Tensor, negative: Tensor) -> tuple[Tensor, Tensor]:
    logits: Tensor = decoder_of(model).logits(points, torch.cat([positive, negative], dim=1))
    first, second = logits.split([positive.shape[1], negative.shape[1]])
    return first, second


def _loss(positive: Tensor, negative: Tensor) -> Tensor:
    return F.softplus(-positive).mean() + F.softplus(negative).mean()
