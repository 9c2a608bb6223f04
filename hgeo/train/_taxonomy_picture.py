"""The pictures of a taxonomy's embedding: a disk with names along the rim, and a page to move through."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from hgeo.data import Pairs
from hgeo.train._hierarchy import HierarchyEmbedding
from hgeo.viz import embedding_page, embedding_panels, save_figure, save_page, tree_branches, tree_figure

__all__ = ["draw_taxonomy", "taxonomy_figure"]

_MOST_POINTS = 3000  # on paper; more of them make the disk grey


def draw_taxonomy(
    embedding: HierarchyEmbedding, pairs: Pairs, folder: Path, *, title: str = "", way: str | None = None
) -> list[Path]:
    """``embedding.png``, ``.svg`` and ``.html`` in a folder; returns their paths."""
    figure = taxonomy_figure(embedding, pairs, title=title, way=way)
    shown = _tree_data(embedding, pairs)
    page = embedding_page(embedding.points, _manifold(embedding), title=title or embedding.space, **shown)
    return [*save_figure(figure, folder / "embedding"), save_page(page, folder / "embedding.html")]


def taxonomy_figure(
    embedding: HierarchyEmbedding, pairs: Pairs, *, names: int = 56, title: str = "", way: str | None = None
) -> Any:
    """A matplotlib ``Figure`` of the embedding, with up to so many ``names``, and the way up from the node ``way``.

    A line leads from each node to that of its parents that has the fewest nodes below it. Of a large taxonomy the nodes
    with the most below them are drawn. Without ``way`` the deepest node is shown with its way.
    """
    below, parents = _tree(pairs)
    depth = _depths(parents)
    chosen = int(depth.argmax()) if way is None else pairs.place(way)
    rank = np.argsort(-below, kind="stable")
    path = _path(parents, chosen)
    shown = np.unique(np.concatenate([rank[:_MOST_POINTS], path]))
    place = np.full(pairs.count + 1, -1)  # the last stands for no parent
    place[shown] = np.arange(len(shown))
    panel = embedding_panels(embedding.points[torch.from_numpy(shown)], _manifold(embedding))[0].to_read()
    return tree_figure(
        panel,
        place[parents[shown]],
        below[shown],
        [embedding.names[node] for node in shown],
        shown=names,
        way=int(place[chosen]),
        title=title or embedding.space,
        note=f"{len(shown):,} of {pairs.count:,} nodes, a colour for each subtree",
    )


def _tree_data(embedding: HierarchyEmbedding, pairs: Pairs) -> dict[str, Any]:
    below, parents = _tree(pairs)
    branch = tree_branches(parents, below)
    top = np.flatnonzero((branch >= 0) & (np.append(branch, -1)[parents] != branch))  # of a subtree: above it is none
    tops = top[np.argsort(branch[top])]
    child = np.flatnonzero(parents >= 0)
    return {
        "edge_index": torch.from_numpy(np.stack([parents[child], child])),
        "labels": torch.from_numpy(branch),
        "class_names": [embedding.names[top] for top in tops],
        "unlabelled": "others",
        "names": embedding.names,
        "parents": torch.from_numpy(parents),
        "weights": torch.from_numpy(below),
    }


def _manifold(embedding: HierarchyEmbedding) -> Any:
    return None if embedding.space.startswith("inner") else embedding.manifold


def _tree(pairs: Pairs) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How many nodes are below each, and the parent of each that has the fewest below it; -1 of a root."""
    below = np.bincount(pairs.index[:, 1], minlength=pairs.count)
    order = np.lexsort((below[pairs.index[:, 1]], pairs.index[:, 0]))
    children, first = np.unique(pairs.index[order, 0], return_index=True)
    parents = np.full(pairs.count, -1)
    parents[children] = pairs.index[order, 1][first]
    return below, parents


def _path(parents: NDArray[np.int64], node: int) -> list[int]:
    path: list[int] = []
    while node >= 0:
        path.append(node)
        node = int(parents[node])
    return path


def _depths(parents: NDArray[np.int64]) -> NDArray[np.int64]:
    depth = np.zeros(len(parents), dtype=np.int64)
    above = parents.copy()
    while (above >= 0).any():
        depth += above >= 0
        above = np.where(above >= 0, parents[above], -1)
    return depth
