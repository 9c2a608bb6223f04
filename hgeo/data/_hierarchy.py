"""A generated hierarchy: a taxonomy, traits that drift along it, and links that cut across it."""

from __future__ import annotations

import numpy as np

from hgeo.data._dataset import Dataset, Normalize, make_dataset

__all__ = ["hierarchy"]


def hierarchy(
    *,
    seed: int = 0,
    split_seed: int = 0,
    branches: int = 6,
    depth: int = 6,
    num_features: int = 32,
    fade: float = 0.7,
    noise: float = 1.0,
    cross_links: float = 1.0,
    normalize: Normalize = "auto",
) -> Dataset:
    """A deep random tree for node classification: which branch of the root does a node belong to?

    - The root has ``branches`` children; every other inner node has 2 to 4, down to ``depth`` levels.
    - Every node carries hidden traits that drift from its parent's by a Gaussian step (Brownian motion along the tree,
      as traits evolve along a phylogeny). The steps from the root have length 1 and ``fade`` with every level below:
      what two nodes share is the path they share, and the nearer to the root they part, the farther they are apart.
    - What is seen are the traits plus a noise of length ``noise``, so that it pays to ask the neighbours.
    - ``cross_links`` per node join random pairs, as *see also* links in an encyclopedia do. Most lead out of the
      branch; who averages over all neighbours alike mixes the branches, and how far a neighbour's traits are is what
      tells the two kinds of link apart.
    - The label is the branch. The root has none.

    The same ``seed`` gives the same graph, ``split_seed`` the split: 20 nodes a class, 500, 1000.
    """
    generator = np.random.default_rng(seed)
    parent, branch = _grow(generator, branches, depth)
    num_nodes = len(parent)
    length = np.zeros(num_nodes)
    traits = np.zeros((num_nodes, num_features))
    for node in range(1, num_nodes):  # parents come before their children
        length[node] = 1.0 if parent[node] == 0 else fade * length[parent[node]]
        step = generator.normal(size=num_features) * (length[node] / np.sqrt(num_features))
        traits[node] = traits[parent[node]] + step
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
        normalize=normalize,
        class_names=[f"branch {number + 1}" for number in range(branches)],
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
