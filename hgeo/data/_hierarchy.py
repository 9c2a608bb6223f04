"""A generated hierarchy: a taxonomy, traits that drift along it, and links that cut across it."""

from __future__ import annotations

import numpy as np

from hgeo.data._dataset import Dataset, make_dataset

__all__ = ["hierarchy"]


def hierarchy(
    *,
    seed: int = 0,
    split_seed: int = 0,
    branches: int = 8,
    depth: int = 6,
    num_features: int = 32,
    drift: float = 1.0,
    noise: float = 2.0,
    cross_links: float = 0.5,
) -> Dataset:
    """A deep random tree for node classification: which branch of the root does a node belong to?

    - The root has ``branches`` children; every other inner node has 2 to 4, down to ``depth`` levels.
    - Every node carries hidden traits that drift from its parent's by a Gaussian step of length ``drift`` (Brownian
      motion along the tree, as traits evolve along a phylogeny): two nodes share the traits of the path that they
      share, and the farther from the root, the farther apart the branches. What is seen is the traits plus a noise of
      length ``noise``, so a node's own features say little and its neighbourhood must be asked.
    - ``cross_links`` per node join random pairs, as *see also* links do; they lead out of the branch, and whoever
      averages over them blindly mixes the branches.
    - The label is the branch. The root has none.

    The same ``seed`` gives the same graph, ``split_seed`` the split: 20 nodes a class, 500, 1000.
    """
    generator = np.random.default_rng(seed)
    parent, branch = _grow(generator, branches, depth)
    num_nodes = len(parent)
    step = generator.normal(size=(num_nodes, num_features)) * (drift / np.sqrt(num_features))
    traits = np.zeros((num_nodes, num_features))
    for node in range(1, num_nodes):  # parents come before their children
        traits[node] = traits[parent[node]] + step[node]
    seen = traits + generator.normal(size=traits.shape) * (noise / np.sqrt(num_features))
    tree = np.stack([parent[1:], np.arange(1, num_nodes)])
    cross = generator.integers(num_nodes, size=(2, round(cross_links * num_nodes)))
    return make_dataset(
        "hierarchy",
        np.concatenate([tree, cross], axis=1),
        seen,
        branch,
        split_seed=split_seed,
        num_classes=branches,
    )


def _grow(generator: np.random.Generator, branches: int, depth: int) -> tuple[np.ndarray, np.ndarray]:
    parent, branch = [-1], [-1]
    frontier = [0]
    for _ in range(depth):
        grown = []
        for node in frontier:
            children = branches if node == 0 else int(generator.integers(2, 5))
            for child in range(children):
                grown.append(len(parent))
                parent.append(node)
                branch.append(child if node == 0 else branch[node])
        frontier = grown
    return np.array(parent), np.array(branch)
