"""A tree's embedding: subtrees in colours, names along the rim, the way from a node to the root."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from hgeo.viz._draw import draw_panel, place_names
from hgeo.viz._layout import Panel
from hgeo.viz._palette import INK, QUIET, color_of, dark

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["tree_branches", "tree_figure"]

Numbers = NDArray[np.int64]

_BRANCHES = 8  # as many as there are colours
_DISK, _MARGIN = 5.8, 1.45  # inches
_LONGEST = 26  # letters of a name
_INSIDE = 0.3  # of the radius, where a node has no place at the rim


def tree_branches(parents: Numbers, below: Numbers, most: int = _BRANCHES) -> Numbers:
    """(N,) the number of the subtree that each node is in, the largest 0; -1 above all of them.

    From the roots on, a subtree with more than a quarter of all nodes is taken apart into those of its children; the
    ``most`` largest of what is left have a number.

    >>> import numpy as np
    >>> tree_branches(np.array([-1, 0, 0, 1, 2]), np.array([4, 1, 1, 0, 0])).tolist()
    [-1, 0, 1, 0, 1]
    """
    children: dict[int, list[int]] = {}
    for node, parent in enumerate(parents.tolist()):
        children.setdefault(parent, []).append(node)
    tops = children.get(-1, [])
    while True:
        largest = max(tops, key=lambda top: (below[top], -top), default=-1)
        if largest < 0 or 4 * below[largest] <= len(parents) or largest not in children:
            break
        tops = [top for top in tops if top != largest] + children[largest]
    tops = [top for top in tops if below[top] > 0]
    branch = np.full(len(parents), -1)
    pending = [(top, rank) for rank, top in enumerate(sorted(tops, key=lambda top: (-below[top], top))[:most])]
    while pending:
        node, rank = pending.pop()
        branch[node] = rank
        pending += [(child, rank) for child in children.get(node, [])]
    return branch


def tree_figure(
    panel: Panel,
    parents: Numbers,
    below: Numbers,
    names: Sequence[str],
    *,
    shown: int = 56,
    way: int | None = None,
    title: str = "",
    note: str = "",
) -> Figure:
    """A matplotlib ``Figure`` of a tree.

    Args:
        panel: the points, from :func:`embedding_panels`.
        parents: (N,) the parent of each node, -1 of a root.
        below: (N,) how many nodes are below each; of two names for one place the one with more is written.
        names: of the nodes.
        shown: how many names at most.
        way: a node whose way to the root is drawn.
    """
    from matplotlib.figure import Figure

    side = _DISK + 2 * _MARGIN
    figure = Figure(figsize=(side, side + 0.35), dpi=130, facecolor="white")
    axes = figure.add_axes((_MARGIN / side, _MARGIN / (side + 0.35), _DISK / side, _DISK / (side + 0.35)))
    branch = tree_branches(parents, below)
    child = np.flatnonzero(parents >= 0)
    links = torch.from_numpy(np.stack([parents[child], child]))
    draw_panel(axes, panel, edge_index=links, labels=torch.from_numpy(branch), names=False, shades=False)
    axes.set_clip_on(False)
    places = panel.points.numpy()
    if way is not None:
        path = _draw_way(axes, panel, parents, way)
        said = "the way up:  " + "  ›  ".join(names[step] for step in path)
        figure.text(0.02, 0.012, said, fontsize=7.5, color=INK, wrap=True, parse_math=False)
    order = np.argsort(-below, kind="stable")
    if panel.kind == "plane":
        inside = [node for node in order if below[node] > 0][:shown]
        place_names(axes, {_short(names[node]): (*places[node], INK) for node in inside}, size=6.5)
    else:
        _name_along_rim(axes, places, branch, order, names, shown, way)
    figure.text(0.02, 0.985, title, fontsize=13, fontweight="bold", color=INK, va="top", parse_math=False)
    text = " · ".join(part for part in (note, f"{panel.space}: {panel.reading}", panel.note) if part)
    figure.text(0.02, 0.957, text, fontsize=8, color=QUIET, va="top", parse_math=False)
    return figure


def _name_along_rim(
    axes: Axes,
    places: NDArray[np.float64],
    branch: Numbers,
    order: Numbers,
    names: Sequence[str],
    shown: int,
    way: int | None,
) -> None:
    """A slot for each share of the circle: the node there with the most below it gets it, and a thin line to it."""
    turn = 2 * math.pi / max(shown, 1)
    # nodes outside of a magnified picture are left out
    edge = min(1.0, float(axes.get_xlim()[1]) * 0.97)
    radius = np.hypot(*places.T)
    slot = np.floor((np.arctan2(places[:, 1], places[:, 0]) % (2 * math.pi)) / turn).astype(int)
    taken: set[int] = set()
    for node in order if way is None else [way, *order]:
        if radius[node] < _INSIDE * edge or radius[node] > edge or slot[node] in taken:
            continue
        taken.add(int(slot[node]))
        angle = (slot[node] + 0.5) * turn
        x, y = math.cos(angle) * edge, math.sin(angle) * edge
        color = color_of(int(branch[node]))
        axes.plot([places[node, 0], x * 1.015], [places[node, 1], y * 1.015], color=color, linewidth=0.5, alpha=0.7,
                  clip_on=False, zorder=1.2)  # fmt: skip
        left = math.cos(angle) < 0
        axes.text(
            x * 1.03,
            y * 1.03,
            _short(names[node]),
            rotation=math.degrees(angle) + (180 if left else 0),
            rotation_mode="anchor",
            ha="right" if left else "left",
            va="center",
            fontsize=6.8,
            color=dark(color),
            parse_math=False,
        )
        x, y = places[node]
        axes.scatter(x, y, s=14, c=color, edgecolors="white", linewidths=0.6, zorder=4)


def _draw_way(axes: Axes, panel: Panel, parents: Numbers, node: int) -> list[int]:
    """The lines from a node to the root; returns the nodes on the way."""
    path = [node]
    while parents[path[-1]] >= 0:
        path.append(int(parents[path[-1]]))
    for line in panel.lines(
        torch.tensor(path[:-1], dtype=torch.long), torch.tensor(path[1:], dtype=torch.long), steps=40
    ):
        axes.plot(*line.numpy().T, color=INK, linewidth=1.4, zorder=5)
    axes.plot(*panel.points.numpy()[path].T, color=INK, linestyle="", marker="o", markersize=4, markeredgecolor="white",
              markeredgewidth=0.6, zorder=5.1)  # fmt: skip
    return path


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…"
