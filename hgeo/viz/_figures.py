"""Whole pictures of embeddings: one, with its mistakes beside it, or several beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from hgeo._files import write_atomically
from hgeo._geoopt import geoopt
from hgeo.viz._draw import draw_mistakes, draw_panel
from hgeo.viz._layout import Panel, embedding_panels
from hgeo.viz._palette import INK, QUIET, color_of, marker_of, name_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["add_legend", "comparison_figure", "draw_embedding", "embedding_figure", "save_figure"]

_SIDE = 5.0  # inches of a panel


def embedding_figure(
    points: Tensor,
    manifold: geoopt.Manifold | None = None,
    *,
    edge_index: Tensor | None = None,
    labels: Tensor | None = None,
    predicted: Tensor | None = None,
    title: str = "",
    note: str = "",
    class_names: Sequence[str] | None = None,
) -> Figure:
    """A matplotlib ``Figure``: the points of each factor, few edges, the classes by name; where ``predicted`` is given,
    the same places again with the mistakes.

    >>> import torch
    >>> figure = embedding_figure(torch.randn(5, 2), labels=torch.tensor([0, 0, 1, 1, 2]))
    >>> len(figure.axes)
    1
    """
    panels = [panel.to_read() for panel in embedding_panels(points, manifold)]
    shown = labels is not None and predicted is not None
    single = len(panels) == 1
    columns = (2 if shown else 1) if single else len(panels)
    figure, cells = _sheet(columns, 2 if shown and not single else 1, title, note)
    for number, panel in enumerate(panels):
        axes = cells[number]
        heading = "true classes" if shown else ""
        _below(axes, panel, heading)
        draw_panel(axes, panel, edge_index=edge_index, labels=labels, class_names=class_names)
        if labels is not None and predicted is not None:
            axes = cells[number + len(panels)]
            _below(axes, None, _mistakes(labels, predicted))
            draw_mistakes(axes, panel, labels, predicted, class_names)
    return figure


def comparison_figure(
    panels: Sequence[tuple[str, Tensor, geoopt.Manifold | None]],
    *,
    edge_index: Tensor | None = None,
    labels: Tensor | None = None,
    class_names: Sequence[str] | None = None,
) -> Figure:
    """Embeddings of the same nodes beside each other; a panel is a title, the points and their manifold."""
    drawn = [
        (title if number == 0 else "", panel.to_read())
        for title, points, manifold in panels
        for number, panel in enumerate(embedding_panels(points, manifold))
    ]
    columns = min(len(drawn), 4)
    figure, cells = _sheet(columns, -(-len(drawn) // columns), "", "")
    for axes, (title, panel) in zip(cells, drawn, strict=False):
        _below(axes, panel, title)
        draw_panel(axes, panel, edge_index=edge_index, labels=labels, class_names=class_names)
    return figure


def draw_embedding(
    axes: Axes,
    points: Tensor,
    manifold: geoopt.Manifold,
    *,
    edge_index: Tensor | None = None,
    labels: Tensor | None = None,
    title: str = "",
) -> None:
    """The first factor of an embedding on somebody's ``Axes``, without names: :func:`add_legend` has them."""
    draw_panel(axes, embedding_panels(points, manifold)[0].to_read(), edge_index=edge_index, labels=labels, names=False)
    axes.set_title(title, fontsize=11, color=INK, parse_math=False)


def add_legend(axes: Axes, labels: Tensor, class_names: Sequence[str] | None = None) -> None:
    """A legend of the classes that occur, to the right of the picture."""
    from matplotlib.lines import Line2D

    present = [int(label) for label in torch.unique(labels)]
    handles = [
        Line2D([], [], linestyle="", marker=marker_of(label), color=color_of(label), markersize=6) for label in present
    ]
    names = [name_of(label, class_names) for label in present]
    legend = axes.legend(handles, names, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=9)
    for text in legend.get_texts():
        text.set_parse_math(False)  # no TeX: a dollar sign in a name is shown as it is


def save_figure(figure: Figure, path: str | Path, formats: Sequence[str] = ("png", "svg")) -> list[Path]:
    """Save beside each other in each of ``formats`` (``png``, ``svg``, ``pdf``); returns the paths.

    The same run gives the same files. Texts are drawn by matplotlib itself, whatever its settings say: TeX would take a
    title for a program.
    """
    import matplotlib
    from matplotlib.text import Text

    metadata = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None, "Producer": None}}
    unknown = [name for name in formats if name not in metadata]
    if unknown:
        raise ValueError(f"pictures are saved as {', '.join(metadata)}, not as {', '.join(unknown)}")
    for text in figure.findobj(Text):
        text.set_usetex(False)
    written = []
    for name in formats:
        target = Path(path).with_suffix(f".{name}")
        with matplotlib.rc_context({"svg.hashsalt": "hgeo", "text.usetex": False}):
            content = BytesIO()
            figure.savefig(content, format=name, metadata=metadata[name])
            write_atomically(target, content.getvalue())
        written.append(target)
    return written


def _sheet(columns: int, rows: int, title: str, note: str) -> tuple[Figure, list[Axes]]:
    """A figure of square cells, row by row, under a title."""
    from matplotlib.figure import Figure

    head = 0.66 if note else 0.42 if title else 0.1
    under, over, gap = 0.46, 0.30, 0.24
    width = columns * (_SIDE + gap) + gap
    height = rows * (_SIDE + under + over) + head
    figure = Figure(figsize=(width, height), dpi=130, facecolor="white")
    if title:
        figure.text(gap / width, 1 - 0.17 / height, title, fontsize=13, fontweight="bold", color=INK, va="top",
                    parse_math=False)  # fmt: skip
    if note:
        figure.text(gap / width, 1 - 0.44 / height, note, fontsize=9, color=QUIET, va="top", parse_math=False)
    cells = []
    for row in range(rows):
        for column in range(columns):
            left, low = gap + column * (_SIDE + gap), height - head - (row + 1) * (_SIDE + under + over) + under
            cells.append(figure.add_axes((left / width, low / height, _SIDE / width, _SIDE / height)))
    for axes in cells:
        axes.set_axis_off()
    return figure, cells


def _mistakes(labels: Tensor, predicted: Tensor) -> str:
    known = labels >= 0
    wrong = int((known & (labels != predicted)).sum())
    return f"predicted: {wrong:,} of {int(known.sum()):,} wrong, in the colour of what was predicted"


def _below(axes: Axes, panel: Panel | None, heading: str) -> None:
    """What is seen here, above and below the picture."""
    axes.set_axis_on()
    axes.set_title(heading, fontsize=9.5, color=INK, loc="left", parse_math=False)
    if panel is not None:
        lines = [f"{panel.space}: {panel.reading}", panel.note]
        axes.text(0, -0.045, "\n".join(lines).strip(), transform=axes.transAxes, fontsize=6.5, color=QUIET, va="top",
                  parse_math=False)  # fmt: skip
