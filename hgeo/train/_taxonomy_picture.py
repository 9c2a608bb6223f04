"""A hierarchy's embedding as a picture: the disk, lines upwards, names of the nodes with the most below them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from hgeo.data import Pairs
from hgeo.train._hierarchy import HierarchyEmbedding

__all__ = ["taxonomy_figure"]

_MOST_POINTS = 3000  # more of them make the disk grey
_APART = 0.055  # of the disk's radius, between names


def taxonomy_figure(embedding: HierarchyEmbedding, pairs: Pairs, *, names: int = 40) -> Any:
    """A matplotlib ``Figure`` of the embedding, with up to so many ``names``.

    A line leads from each node to that of its parents that has the fewest nodes below it. Of a large taxonomy the nodes
    with the most below them are drawn.
    """
    from hgeo.viz import disk_coordinates, draw_disk, embedding_figure

    below = np.bincount(pairs.index[:, 1], minlength=pairs.count)
    shown = np.sort(np.argsort(-below, kind="stable")[:_MOST_POINTS])
    place = np.full(pairs.count, -1)
    place[shown] = np.arange(len(shown))
    links = _upwards(pairs, below)
    links = place[links[(place[links] >= 0).all(axis=1)]]
    plain = embedding.space.startswith("inner")
    points = disk_coordinates(embedding.points[torch.from_numpy(shown)], None if plain else embedding.manifold)
    figure = embedding_figure(points[:1])
    axes = figure.axes[0]
    axes.clear()
    draw_disk(axes, points, edge_index=torch.from_numpy(links.T.copy()), title=embedding.space)
    written: list[np.ndarray[Any, Any]] = []
    for node in np.argsort(-below[shown], kind="stable"):
        at = points[node].numpy()
        if len(written) >= names or not below[shown[node]]:
            break
        if all(np.abs(at - other).max() > _APART for other in written):
            written.append(at)
            text = axes.annotate(
                embedding.names[shown[node]], at, xytext=(3, 3), textcoords="offset points", fontsize=6, zorder=5
            )
            text.set_parse_math(False)  # a dollar in a name is a dollar
    return figure


def _upwards(pairs: Pairs, below: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """One pair a child: the parent with the fewest nodes below it."""
    order = np.lexsort((below[pairs.index[:, 1]], pairs.index[:, 0]))
    children, first = np.unique(pairs.index[order, 0], return_index=True)
    return np.stack([children, pairs.index[order, 1][first]], axis=1)
