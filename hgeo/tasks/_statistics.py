"""The shape of a graph: degrees, and how far it is from a tree."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import connected_components, shortest_path
from torch import Tensor

from hgeo.data import Dataset

__all__ = ["GraphStatistics", "graph_statistics", "hyperbolicity"]


@dataclass(frozen=True)
class GraphStatistics:
    """What is worth knowing about a graph before training on it."""

    nodes: int
    edges: int
    features: int
    feature_density: float
    classes: int
    train: int
    val: int
    test: int
    components: int
    largest_component: int
    isolated: int
    degree_mean: float
    degree_median: float
    degree_max: int
    degree_gini: float
    homophily: float
    mean_distance: float
    diameter_at_least: int
    delta_mean: float
    delta_max: float
    delta_relative: float
    delta_spread: float
    samples: int

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def advice(self) -> str:
        """A sentence or two: will a curved space help here?

        Mean δ is compared with two things, since either alone is deceived. With the mean distance
        (``delta_relative``): on lattices, rings and geometric graphs δ grows as distances do, 0.19 to 0.33 there. And
        with the standard deviation of distances (``delta_spread``): in random graphs and block models all distances are
        about the same, so that δ has to be small, tree or not; there it is 0.6 to 1. A graph is

        - *very tree-like* if they are at most 0.05 and 0.25: trees, trees with 1 % more links;
        - *moderately tree-like* if they are at most 0.16 and 0.55: trees with 5 % more links (0.12, 0.50), Cora
          (0.12, 0.38), Citeseer (0.11, 0.32), Pubmed (0.11, 0.49), Photo (0.13, 0.41), the karate club (0.13, 0.35);
        - *not tree-like* else: a 40 × 40 grid (0.23, 0.45), a torus (0.33, 0.82), a ring (0.25, 0.44), block models
          (0.15 to 0.19, 0.78 to 0.90), random graphs (0.17 to 0.22, 0.62 to 1.03), preferential attachment of two links
          or more (0.13 to 0.16, 0.59 to 0.80). The built-in ``hierarchy`` is here, too (0.17, 0.83): it has a random
          link a node beside its tree, and its distances are those of a random graph, though features and classes
          follow the tree. Distances between nodes cannot show that.
        """
        if self.largest_component < 4:
            return "There is no component of four nodes, so hyperbolicity says nothing here."
        if self.diameter_at_least < 2:
            return "All distances are 1, so hyperbolicity says nothing here."
        shape = (
            f"2·mean δ is {self.delta_relative:.2f} of the mean distance and {self.delta_spread:.2f} of how much "
            "distances vary (0 is a tree)"
        )
        if self.delta_relative <= 0.05 and self.delta_spread <= 0.25:
            return f"Very tree-like: {shape}. Try hyperbolic spaces, small dimensions first."
        if self.delta_relative <= 0.16 and self.delta_spread <= 0.55:
            return f"Moderately tree-like: {shape}. Hyperbolic spaces may help at small dimensions; compare euclidean."
        return (
            f"Not tree-like: {shape}. Expect little from negative curvature, unless features or classes follow "
            "a hierarchy that the links hide; compare euclidean and products."
        )


def graph_statistics(dataset: Dataset, *, samples: int = 20000, seed: int = 0) -> GraphStatistics:
    """Sizes, degrees, homophily and sampled hyperbolicity of a data set.

    >>> from hgeo.data import load
    >>> graph_statistics(load("karate")).degree_max
    17
    """
    adjacency = _adjacency(dataset.edge_index, dataset.num_nodes)
    degree = np.diff(adjacency.indptr)
    count, member = connected_components(adjacency, directed=False)
    sizes = np.bincount(member, minlength=count)
    source, destination = dataset.edge_index.cpu().numpy()
    label = dataset.labels.cpu().numpy()
    known = (label[source] >= 0) & (label[destination] >= 0)
    same = label[source][known] == label[destination][known]
    delta = hyperbolicity(dataset.edge_index, dataset.num_nodes, samples=samples, seed=seed)
    stored = dataset.features.values().numel() if dataset.is_sparse else int(dataset.features.count_nonzero())
    return GraphStatistics(
        nodes=dataset.num_nodes,
        edges=dataset.num_edges,
        features=dataset.num_features,
        feature_density=stored / (dataset.num_nodes * dataset.num_features),
        classes=dataset.num_classes,
        train=len(dataset.train_idx),
        val=len(dataset.val_idx),
        test=len(dataset.test_idx),
        components=int(count),
        largest_component=int(sizes.max()),
        isolated=int((degree == 0).sum()),
        degree_mean=float(degree.mean()),
        degree_median=float(np.median(degree)),
        degree_max=int(degree.max()),
        degree_gini=_gini(degree),
        homophily=float(same.mean()) if known.any() else float("nan"),
        mean_distance=delta["mean_distance"],
        diameter_at_least=int(delta["largest_distance"]),
        delta_mean=delta["mean"],
        delta_max=delta["max"],
        delta_relative=delta["relative"],
        delta_spread=delta["spread"],
        samples=int(delta["samples"]),
    )


def hyperbolicity(edge_index: Tensor, num_nodes: int, *, samples: int = 20000, seed: int = 0) -> dict[str, float]:
    """Gromov's δ on sampled quadruples of the largest component: 0 on every tree, large on grids and cycles.

    For four nodes let S ≥ M ≥ L be the sums of distances of the three ways to pair them; δ = (S − M) / 2. ``relative``
    is 2·mean δ / mean distance, ``spread`` 2·mean δ / standard deviation of distances: what they say is in
    :meth:`GraphStatistics.advice`. Distances come from breadth first searches from a sample of nodes, so the cost does
    not grow with the square of the graph.

    >>> import torch
    >>> path = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])
    >>> hyperbolicity(path, 5)["max"]
    0.0
    """
    adjacency = _adjacency(edge_index, num_nodes)
    count, member = connected_components(adjacency, directed=False)
    nodes = np.flatnonzero(member == np.bincount(member, minlength=count).argmax())
    if len(nodes) < 4:
        names = ("mean", "max", "relative", "spread", "mean_distance", "largest_distance", "samples")
        return dict.fromkeys(names, 0.0)
    generator = np.random.default_rng(seed)
    pool = generator.choice(nodes, size=min(len(nodes), 400), replace=False)
    distance = shortest_path(adjacency, method="D", unweighted=True, directed=False, indices=pool)[:, pool]
    quadruple = generator.integers(len(pool), size=(4, 2 * samples))
    ordered = np.sort(quadruple, axis=0)
    quadruple = quadruple[:, (np.diff(ordered, axis=0) > 0).all(axis=0)][:, :samples]
    a, b, c, d = quadruple
    sums = np.stack([distance[a, b] + distance[c, d], distance[a, c] + distance[b, d], distance[a, d] + distance[b, c]])
    sums.sort(axis=0)
    delta = (sums[2] - sums[1]) / 2
    apart = distance[~np.eye(len(pool), dtype=bool)]
    mean_distance, deviation = float(apart.mean()), float(apart.std())
    return {
        "mean": float(delta.mean()),
        "max": float(delta.max()),
        "relative": 2 * float(delta.mean()) / mean_distance,
        "spread": 2 * float(delta.mean()) / (deviation or 1.0),  # where all distances are the same δ is 0
        "mean_distance": mean_distance,
        "largest_distance": float(distance.max()),
        "samples": float(quadruple.shape[1]),
    }


def _adjacency(edge_index: Tensor, num_nodes: int) -> scipy.sparse.csr_matrix:
    source, destination = edge_index.cpu().numpy()
    ones = np.ones(2 * len(source), dtype=np.int8)
    pairs = (np.concatenate([source, destination]), np.concatenate([destination, source]))
    adjacency = scipy.sparse.csr_matrix((ones, pairs), shape=(num_nodes, num_nodes))
    adjacency.sum_duplicates()
    adjacency.data[:] = 1
    return adjacency


def _gini(values: np.ndarray) -> float:
    """0: all alike; towards 1: a few have it all."""
    ordered = np.sort(values).astype(np.float64)
    total = ordered.sum()
    if total == 0:
        return 0.0
    ranks = np.arange(1, len(ordered) + 1)
    return float((2 * ranks - len(ordered) - 1) @ ordered / (len(ordered) * total))
