"""Graphs of any size whose degrees follow a power law, from a seed."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from hgeo.data._dataset import DataError, Dataset, make_dataset

__all__ = ["POWER_LAW", "power_law"]

#: names of such graphs: power-law-1e6 has a million edges
POWER_LAW = re.compile(r"power-law-([1-9]\d*(?:e\d)?)")

Array = np.ndarray[Any, Any]


def power_law(
    num_edges: int,
    *,
    seed: int = 0,
    degree: int = 20,
    exponent: float = 2.5,
    classes: int = 8,
    alike: float = 0.6,
    features: int = 16,
) -> Dataset:
    """A graph of ``num_edges`` directed edges whose degrees d have a density of d^-``exponent``, ``degree`` on average.

    Both ends of a link are drawn by weights i^(-1/(exponent - 1)) of node i (Chung and Lu, 2002), of the share
    ``alike`` both in the same class; parallel links count once. A node's features are normal numbers around a
    point of its class. A tenth of the nodes is trained on, a tenth is for validation, a fifth for the test.

    >>> power_law(10_000)
    Dataset(power-law-10000: 500 nodes, 10000 edges, 16 features, 8 classes, 50/50/100 train/val/test)
    """
    links, nodes = num_edges // 2, num_edges // degree
    if nodes < 10 * classes or exponent <= 2 or links > nodes * nodes // 8:
        raise DataError(
            f"a power law of {num_edges} edges, {degree} a node, {classes} classes and exponent {exponent} is none "
            f"that can be drawn; expected {10 * degree * classes} edges or more, and an exponent above 2"
        )
    random = np.random.default_rng(seed)
    keys = np.empty(0, dtype=np.int64)
    while len(keys) < links:
        keys = np.unique(np.concatenate([keys, _links(links, nodes, exponent, classes, alike, random)]))
    keys = keys[np.sort(random.permutation(len(keys))[:links])]
    label = random.permutation(nodes)  # no order of the ids tells how many neighbours a node has
    source, destination = label[keys // nodes], label[keys % nodes]
    kinds = np.empty(nodes, dtype=np.int64)
    kinds[label] = np.arange(nodes) % classes
    centres = random.standard_normal((classes, features)).astype(np.float32)
    rows = 0.5 * (0.5 * centres[kinds] + random.standard_normal((nodes, features), dtype=np.float32))
    order = random.permutation(nodes)
    parts = np.split(order, [nodes // 10, nodes // 5, 2 * nodes // 5])
    masks = {name: np.sort(part) for name, part in zip(("train", "val", "test"), parts, strict=False)}
    return make_dataset(
        f"power-law-{num_edges}", np.stack([source, destination]), rows / features**0.5, kinds, masks=masks,
        normalize="none", num_classes=classes,
    )  # fmt: skip


def _links(count: int, nodes: int, exponent: float, classes: int, alike: float, random: np.random.Generator) -> Array:
    """Numbers of ``count`` pairs of nodes or some fewer, the smaller id first."""
    power = (exponent - 1) / (exponent - 2)  # the inverse of the share of all weight that the first nodes have
    a, b = (np.minimum(nodes * random.random(count) ** power, nodes - 1).astype(np.int64) for _ in range(2))
    same = random.random(count) < alike
    b = np.where(same, np.minimum(b - b % classes + a % classes, nodes - 1), b)
    low, high = np.minimum(a, b), np.maximum(a, b)
    return np.asarray((low * nodes + high)[low < high])
