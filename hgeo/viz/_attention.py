"""Whom a node listens to: its neighbours, their classes, their weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from hgeo.viz._palette import EDGE, INK, color_of, marker_of, name_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Listener", "attention_figure", "attention_rows", "attention_table"]


@dataclass(frozen=True)
class Listener:
    """One neighbour of a node (or the node itself), its class, and the weight it gets, averaged over heads."""

    node: int
    label: int
    weight: float


def attention_rows(edge_index: Tensor, labels: Tensor, attention: tuple[Tensor, Tensor], node: int) -> list[Listener]:
    """The weights that ``node`` gives to itself and to its neighbours, the largest first.

    Args:
        edge_index: (2, E), the source row first.
        labels: (N,), the class of every node.
        attention: what a layer returns for this graph: the weights (E, heads) of the edges in their order, and those
            (N, heads) of the added self-loops.
        node: from 0 to N - 1.
    """
    if not 0 <= node < len(labels):
        raise ValueError(f"node is {node}, expected 0 … {len(labels) - 1}")
    edges, loops = (part.detach().cpu() for part in attention)
    source, destination = edge_index.cpu()
    into = (destination == node).nonzero().flatten()
    rows = [Listener(node, int(labels[node]), float(loops[node].mean()))]
    rows += [Listener(int(source[e]), int(labels[source[e]]), float(edges[e].mean())) for e in into]
    return sorted(rows, key=lambda row: (-row.weight, row.node))


def attention_table(rows: list[Listener], node: int) -> str:
    """A Markdown table of :func:`attention_rows`.

    >>> print(attention_table([Listener(3, 0, 0.75), Listener(5, 1, 0.25)], 3))
    | neighbour | class | weight |
    |---|---|---|
    | 3 (itself) | 0 | 0.750 |
    | 5 | 1 | 0.250 |
    """
    lines = ["| neighbour | class | weight |", "|---|---|---|"]
    for row in rows:
        name = f"{row.node} (itself)" if row.node == node else str(row.node)
        lines.append(f"| {name} | {row.label if row.label >= 0 else 'none'} | {row.weight:.3f} |")
    return "\n".join(lines)


def attention_figure(
    rows: list[Listener],
    node: int,
    *,
    title: str = "",
    most: int = 24,
    class_names: Sequence[str] | None = None,
) -> Figure:
    """A matplotlib ``Figure``: the node in the middle, its neighbours around it, lines as wide as the weights."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    own = next((row for row in rows if row.node == node), None)
    around = [row for row in rows if row.node != node]
    left_out = len(around) - most
    # neighbours of one class stand together
    around = sorted(around[:most], key=lambda row: (row.label, -row.weight))
    figure = Figure(figsize=(5.6, 6.2), dpi=150, facecolor="white")
    axes = figure.add_axes((0.02, 0.10, 0.96, 0.84))
    largest = max((row.weight for row in around), default=1.0) or 1.0
    for index, row in enumerate(around):
        angle = math.pi / 2 - 2 * math.pi * index / max(len(around), 1)
        x, y = math.cos(angle), math.sin(angle)
        axes.plot([0, x], [0, y], color=EDGE, linewidth=0.6 + 8 * row.weight / largest, alpha=0.55, zorder=1)
        axes.plot(x, y, marker=marker_of(row.label), color=color_of(row.label), markersize=11, zorder=3)
        axes.text(
            1.17 * x, 1.17 * y, f"{row.node}\n{row.weight:.3f}", ha="center", va="center", fontsize=7.5, color=INK
        )
    label = own.label if own is not None else -1
    axes.plot(0, 0, marker=marker_of(label), color=color_of(label), markersize=17, markeredgecolor=INK, zorder=4)
    own_weight = f"\nitself {own.weight:.3f}" if own is not None else ""
    backing = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1.5}
    axes.text(0, -0.13, f"{node}{own_weight}", ha="center", va="top", fontsize=8.5, color=INK, zorder=5, bbox=backing)
    axes.set_xlim(-1.35, 1.35)
    axes.set_ylim(-1.35, 1.35)
    axes.set_aspect("equal")
    axes.axis("off")
    present = sorted({row.label for row in [*around, *([own] if own else [])]})
    handles = [Line2D([], [], linestyle="", marker=marker_of(c), color=color_of(c), markersize=7) for c in present]
    names = [name_of(c, class_names) for c in present]
    legend = axes.legend(
        handles, names, loc="upper center", bbox_to_anchor=(0.5, 0.03), ncols=2, frameon=False, fontsize=8.5
    )
    for text in legend.get_texts():
        text.set_parse_math(False)  # no TeX: a dollar sign in a name is shown as it is
    note = f" ({left_out} lighter ones not shown)" if left_out > 0 else ""
    axes.set_title((title or f"whom node {node} listens to") + note, fontsize=11, color=INK, parse_math=False)
    return figure
