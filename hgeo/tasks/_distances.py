"""Distances between nodes, learned from a share of the pairs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse
import torch
from scipy.sparse.csgraph import dijkstra, shortest_path
from torch import Tensor, nn

from hgeo import manifolds
from hgeo.data import DataError, Dataset
from hgeo.models import Settings, share, whole
from hgeo.tasks._points import PointsAndPairs, decoder_of
from hgeo.tasks._task import Batch, Epoch, Part, Task, register_task

__all__ = ["Distances", "DistancesSettings"]

Array = np.ndarray[Any, Any]

_MOST_NODES = 5_000  # whose pairs are looked at; chosen by the seed where there are more
_MOST_JUDGED = 200_000  # pairs of validation, and of the test
_MOST_WALKED = 20_000_000  # given pairs that shortest paths walk over, of all nodes that they begin at


@dataclass(frozen=True)
class DistancesSettings(Settings):
    """Which pairs are given, and how many of them an epoch looks at."""

    given: float = share(0.1, "share of the pairs whose distances are given")
    batch: int = whole(50_000, "pairs of an epoch")


class ScaledDistance(nn.Module):
    """The distance of two points times a learned number: a graph's unit of length is not the space's."""

    def __init__(self, manifold: Any) -> None:
        super().__init__()
        self.manifold_of_points = manifold
        self.log_scale = nn.Parameter(torch.zeros(()))

    def forward(self, points: Tensor, pairs: Tensor) -> Tensor:
        """Distances of (2, M) pairs of rows."""
        distances = manifolds.dist(self.manifold_of_points, points[pairs[0]], points[pairs[1]])
        return self.log_scale.exp() * distances


@register_task("distances")
class Distances(Task):
    r"""Fits the distances of points to the numbers of steps between nodes, of a share of the pairs.

    .. math:: L = \frac{1}{|P|} \sum_{(u,v) \in P} \left(\frac{s\, d(x_u, x_v)}{d_G(u, v)} - 1\right)^2

    with a learned scale s. The network sees those links only that are among the given pairs; of the others 5 % of all
    pairs are for validation, and the rest for the test. The best epoch has the smallest mean relative error,
    :math:`|s\,d - d_G| / d_G`. Pairs that no path joins are left out; of a graph of more than 5,000 nodes the pairs of
    5,000 are looked at.

    >>> from hgeo.data import load
    >>> task = Distances(load("karate"))
    >>> sorted(task.beside())
    ['always the median', 'shortest paths over the given pairs']
    """

    Settings = DistancesSettings
    title = "hidden distances"
    columns: Mapping[str, str] = {"test_relative_error": "relative error", "test_correlation": "correlation"}
    splits = ("clean",)
    usual: ClassVar[Mapping[str, Any]] = {
        "lr": 0.01, "weight_decay": 0.0, "epochs": 500, "patience": 50, "feat_drop": 0.0, "hidden_drop": 0.0,
        "attn_drop": 0.0,
    }  # fmt: skip

    def __init__(
        self, dataset: Dataset, settings: DistancesSettings | None = None, *, split: str | None = None, seed: int = 0
    ) -> None:
        super().__init__(dataset, settings, split=split, seed=seed)
        generator = np.random.default_rng(seed)
        pairs, steps = _all_pairs(dataset, generator)
        given, val = int(self.settings.given * len(steps)), int(0.05 * len(steps))
        if min(given, val) < 1 or given + val >= len(steps):
            raise DataError(
                f"{dataset.name}: {len(steps)} pairs of nodes that a path joins are too few to split; "
                f"{self.settings.given:.0%} are given and 5 % are for validation"
            )
        order = generator.permutation(len(steps))
        parts = np.split(order, [given, given + val])
        parts = [parts[0], parts[1][:_MOST_JUDGED], parts[2][:_MOST_JUDGED]]
        links = pairs[:, parts[0][steps[parts[0]] == 1]]
        if not links.shape[1]:
            raise DataError(f"{dataset.name}: no link is among the {given} given pairs; give more of them")
        both = np.concatenate([links, links[::-1]], axis=1)
        device = dataset.edge_index.device
        self.dataset = dataset.with_edges(
            torch.from_numpy(both[:, np.lexsort((both[0], both[1]))].astype(np.int64)).to(device)
        )
        self._pairs = {
            name: torch.from_numpy(pairs[:, part]).to(device) for name, part in zip(_PARTS, parts, strict=True)
        }
        self._steps = {name: torch.from_numpy(steps[part]).to(device) for name, part in zip(_PARTS, parts, strict=True)}

    def pairs(self, part: Part) -> Tensor:
        """(2, M) pairs i < j of a part."""
        return self._pairs[part]

    def steps(self, part: Part) -> Tensor:
        """How many steps lead from one to the other, of each pair of a part."""
        return self._steps[part]

    def attach(self, network: nn.Module) -> nn.Module:
        return PointsAndPairs(network, ScaledDistance(network.hidden_manifold))

    def loss(self, model: nn.Module, output: Tensor, epoch: Epoch) -> Tensor:
        pairs, steps = self._pairs["train"], self._steps["train"]
        if len(steps) > self.settings.batch:
            chosen = torch.from_numpy(epoch.generator.integers(len(steps), size=self.settings.batch)).to(steps.device)
            pairs, steps = pairs[:, chosen], steps[chosen]
        return _loss(decoder_of(model)(output, pairs), steps)

    @property
    def num_examples(self) -> int:
        return len(self._steps["train"])

    def batch(self, chosen: Tensor, epoch: Epoch) -> Batch:
        nodes, rows = self._pairs["train"][:, chosen].unique(return_inverse=True)
        steps = self._steps["train"][chosen]
        return Batch(nodes, lambda model, output: _loss(decoder_of(model)(output, rows), steps))

    def evaluate(self, model: nn.Module, output: Tensor, part: Part) -> dict[str, float]:
        steps = self._steps[part]
        found = decoder_of(model)(output, self._pairs[part])
        return {"loss": float(_loss(found, steps)), **_judged(found, steps)}

    def watched(self, scores: Mapping[str, float]) -> tuple[float, ...]:
        return (-scores["val_relative_error"],)

    def beside(self) -> dict[str, dict[str, float]]:
        pairs, steps = (found["test"].cpu() for found in (self._pairs, self._steps))
        given, known = (found["train"].cpu() for found in (self._pairs, self._steps))
        median = known.double().median()
        rows = {"always the median": _judged(median.expand(len(steps)), steps)}
        starts = pairs[0].unique()[: max(1, _MOST_WALKED // len(known))]
        asked = torch.isin(pairs[0], starts)
        weights = (known.double().numpy(), (given[0].numpy(), given[1].numpy()))
        graph = scipy.sparse.csr_matrix(weights, shape=(self.dataset.num_nodes, self.dataset.num_nodes))
        walked = torch.from_numpy(dijkstra(graph, directed=False, indices=starts.numpy()))
        found = walked[torch.searchsorted(starts, pairs[0, asked]), pairs[1, asked]]
        rows["shortest paths over the given pairs"] = _judged(found.where(found.isfinite(), median), steps[asked])
        return {name: {f"test_{score}": value for score, value in scores.items()} for name, scores in rows.items()}


_PARTS = ("train", "val", "test")


def _all_pairs(dataset: Dataset, generator: np.random.Generator) -> tuple[Array, Array]:
    """(2, M) pairs i < j that a path joins, and how many steps it has."""
    source, destination = dataset.edge_index.cpu().numpy()
    nodes = dataset.num_nodes
    graph = scipy.sparse.csr_matrix((np.ones(len(source)), (source, destination)), shape=(nodes, nodes))
    chosen = np.sort(generator.permutation(nodes)[:_MOST_NODES])
    steps = shortest_path(graph, unweighted=True, indices=chosen)[:, chosen]
    i, j = np.nonzero(np.triu(np.isfinite(steps), 1))
    return np.stack([chosen[i], chosen[j]]), steps[i, j].astype(np.float32)


def _loss(found: Tensor, steps: Tensor) -> Tensor:
    return (found / steps - 1).square().mean()


def _judged(found: Tensor, steps: Tensor) -> dict[str, float]:
    found, steps = found.double(), steps.double()
    error = ((found - steps).abs() / steps).mean()
    return {"relative_error": float(error), "correlation": _correlation(found, steps)}


def _correlation(found: Tensor, steps: Tensor) -> float:
    """Pearson's; 0 where one of both is the same everywhere."""
    a, b = found - found.mean(), steps - steps.mean()
    size = float(a.norm() * b.norm())
    return float(a @ b) / size if size > 0 else 0.0
