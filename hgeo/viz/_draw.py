"""Points, edges, densities and names on a matplotlib ``Axes``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hgeo.viz._layout import Panel
from hgeo.viz._palette import EDGE, FAINT, INK, QUIET, RING, color_of, dark, marker_of, name_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_mistakes", "draw_panel", "place_names", "spanning_forest"]

Array: TypeAlias = NDArray[np.float64]

_FEW = 300  # points that are told apart one by one, with their own shapes and all of their edges
_GRID = 320  # cells along a side where a density is computed
_WITHIN = (0.9, 0.7, 0.45, 0.2)  # shares of a class that the shades enclose
_SHADES = (0.10, 0.16, 0.22, 0.30)  # how dark each shade is
_MOST_NAMES = 16


def draw_panel(
    axes: Axes,
    panel: Panel,
    *,
    edge_index: Tensor | None = None,
    labels: Tensor | None = None,
    class_names: Sequence[str] | None = None,
    names: bool = True,
    shades: bool = True,
) -> None:
    """The panel's frame, few faint edges, densities of the classes where points overlap, points, names of classes.

    Of a large graph the edges are a spanning forest, the shortest one in the picture. Shades enclose 20, 45, 70 and
    90 % of a class.
    """
    view = _frame(axes, panel)
    classes = np.zeros(len(panel.points), dtype=np.int64) if labels is None else labels.cpu().numpy()
    if edge_index is not None and edge_index.shape[1]:
        _edges(axes, panel, edge_index, classes if labels is not None else None)
    densities = {} if len(classes) <= _FEW else _densities(panel.points.numpy(), classes, view)
    if shades:
        _shade(axes, panel.kind, densities, view)
    _points(axes, panel, classes)
    if labels is not None and names:
        anchors = _anchors(panel.points.numpy(), classes, view, densities)
        place_names(axes, {name_of(c, class_names): (*anchors[c], dark(color_of(c))) for c in anchors})


@dataclass(frozen=True)
class _View:
    """The square that is drawn."""

    x: float
    y: float
    half: float

    def cells(self, points: Array) -> tuple[Array, Array]:
        """Which cell of the grid each point is in, as real numbers."""
        scale = _GRID / (2 * self.half)
        return (points[:, 0] - self.x + self.half) * scale, (points[:, 1] - self.y + self.half) * scale

    def middles(self) -> tuple[Array, Array]:
        step: Array = (np.arange(_GRID, dtype=np.float64) + 0.5) * (2 * self.half / _GRID) - self.half
        return self.x + step, self.y + step


def _frame(axes: Axes, panel: Panel) -> _View:
    """The rim with rings of equal distance, the globe's net, or the plane's grid."""
    from matplotlib.patches import Circle
    from matplotlib.ticker import MaxNLocator

    axes.set_aspect("equal")
    for spine in axes.spines.values():
        spine.set_visible(False)
    if panel.kind == "plane":
        points = panel.points.numpy()
        low, high = points.min(axis=0), points.max(axis=0)
        x, y = (low + high) / 2
        view = _View(float(x), float(y), 0.54 * float((high - low).max()) or 1.0)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(MaxNLocator(6))
        axes.grid(color=RING, linewidth=0.6)
        axes.set_axisbelow(True)
        axes.tick_params(labelsize=6.5, colors=QUIET, length=0)
    else:
        view = _View(0.0, 0.0, _round_half(panel.points))
        axes.add_patch(Circle((0, 0), 1, facecolor="white", edgecolor=INK, linewidth=1.0, zorder=0))
        _rings(axes, panel, view)
        axes.set_xticks([])
        axes.set_yticks([])
    axes.set_xlim(view.x - view.half, view.x + view.half)
    axes.set_ylim(view.y - view.half, view.y + view.half)
    return view


def _round_half(points: Tensor) -> float:
    """Half of the side of the square that is shown: the whole rim, or less where most points are near the middle."""
    furthest = float(points.norm(dim=1).quantile(0.995)) if len(points) else 1.0
    return 1.03 if furthest > 0.6 else max(1.35 * furthest, 1e-3)


def _rings(axes: Axes, panel: Panel, view: _View) -> None:
    """Circles of equal distance from the middle, and on a globe twelve meridians."""
    from matplotlib.patches import Circle

    furthest = min(view.half, 0.99)
    if panel.kind == "polar":
        rings = [(distance / panel.reach, f"{distance:g}") for distance in _round_steps(panel.reach)]
    elif panel.kind == "disk":
        reach = 2 * math.atanh(furthest)
        distances = [1.0, 2.0, 3.0] if view.half > 1 else _round_steps(reach)
        rings = [(math.tanh(distance / 2), f"{distance:g}") for distance in distances]
    else:
        reach = math.degrees(2 * math.asin(furthest))
        angles = [45.0, 90.0, 135.0] if view.half > 1 else _round_steps(reach)
        rings = [(math.sin(math.radians(angle) / 2), f"{angle:g}°") for angle in angles]
        for turn in range(12):
            c, s = math.cos(turn * math.pi / 6), math.sin(turn * math.pi / 6)
            axes.plot([0, c], [0, s], color=RING, linewidth=0.5, zorder=0.05)
    for radius, text in rings:
        axes.add_patch(Circle((0, 0), radius, facecolor="none", edgecolor=RING, linewidth=0.7, zorder=0.1))
        axes.text(0, -radius, text, fontsize=6, color=QUIET, ha="center", va="center", zorder=0.2, clip_on=True,
                  bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8})  # fmt: skip


def _round_steps(reach: float) -> list[float]:
    """Two to five round numbers up to ``reach``."""
    power = 10.0 ** math.floor(math.log10(reach / 2))
    step = next(power * factor for factor in (1, 2, 5, 10) if reach / (power * factor) < 5)
    return [step * number for number in range(1, int(reach / step) + 1)]


def spanning_forest(panel: Panel, edge_index: Tensor) -> Tensor:
    """(2, F) edges that join what is joined, the shortest ones in the picture, each once."""
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import minimum_spanning_tree

    source, target = edge_index.cpu()
    keep = source != target
    source, target = source[keep], target[keep]
    low, high = torch.minimum(source, target), torch.maximum(source, target)
    pairs = torch.unique(torch.stack([low, high]), dim=1)
    # SciPy takes a stored 0 for a missing edge
    length = panel.lengths(pairs[0], pairs[1]).clamp(min=1e-12).numpy()
    size = len(panel.points)
    tree = minimum_spanning_tree(csr_matrix((length, pairs.numpy()), shape=(size, size))).tocoo()
    return torch.from_numpy(np.stack([tree.row, tree.col]).astype(np.int64))


def _edges(axes: Axes, panel: Panel, edge_index: Tensor, classes: NDArray[np.int64] | None) -> None:
    """Links inside a class in its colour, above the grey ones between classes."""
    from matplotlib.collections import LineCollection

    few = len(panel.points) <= _FEW and edge_index.shape[1] <= 4 * _FEW
    links = edge_index[:, edge_index[0] < edge_index[1]].cpu() if few else spanning_forest(panel, edge_index)
    lines = panel.lines(links[0], links[1], steps=40 if links.shape[1] <= 4 * _FEW else 14).numpy()
    ends = np.full(links.shape, -1) if classes is None else classes[links.numpy()]
    kind = np.where(ends[0] == ends[1], ends[0], -1)
    for label in np.unique(kind):
        inside = label >= 0
        axes.add_collection(
            LineCollection(
                list(lines[kind == label]),
                colors=color_of(int(label)) if inside else EDGE,
                linewidths=0.8 if few else 0.4,
                alpha=(0.7 if few else 0.28) if inside else (0.5 if few else 0.18),
                zorder=1.5 if inside else 1.4,
            )
        )


def _densities(points: Array, classes: NDArray[np.int64], view: _View) -> dict[int, Array]:
    """Each class's density on the grid."""
    width = 0.012 * _GRID + 0.25 * _GRID / math.sqrt(max(len(points), 1))
    steps = np.arange(_GRID)
    blur = np.exp(-((steps[:, None] - steps[None]) ** 2) / (2 * width**2))
    blur /= blur.sum(axis=0)
    found = {}
    for label in np.unique(classes):
        column, row = (np.clip(c.astype(np.int64), 0, _GRID - 1) for c in view.cells(points[classes == label]))
        count = np.zeros((_GRID, _GRID))
        np.add.at(count, (row, column), 1.0)
        found[int(label)] = blur.T @ count @ blur
    return found


def _shade(axes: Axes, kind: str, densities: dict[int, Array], view: _View) -> None:
    """The smallest regions that hold given shares of each class."""
    from matplotlib.patches import Circle

    x, y = view.middles()
    for label, density in densities.items():
        if label < 0:
            continue
        order = np.sort(density.ravel())[::-1]
        mass = np.cumsum(order) / order.sum()
        levels = sorted({float(order[np.searchsorted(mass, share)]) for share in _WITHIN})
        if len(levels) == len(_WITHIN):
            shown = axes.contourf(
                x, y, density, levels=[*levels, math.inf], colors=[color_of(label)] * len(levels), zorder=1
            )
            shown.set_alpha(list(_SHADES))
            if kind != "plane":  # nothing lies beyond the rim
                shown.set_clip_path(Circle((0, 0), 1, transform=axes.transData))


def _points(axes: Axes, panel: Panel, classes: NDArray[np.int64]) -> None:
    points = panel.points.numpy()
    few = len(points) <= _FEW
    size = float(np.clip(9000 / max(len(points), 1), 1.6, 60))
    # Classes are drawn in several layers, in turns: else the last one would hide the others in a crowd.
    layer = np.random.default_rng(0).integers(min(1 + len(points) // 500, 12), size=len(points))
    for number in range(int(layer.max(initial=0)) + 1):
        for label in np.unique(classes):
            x, y = points[(classes == label) & (layer == number)].T
            axes.scatter(
                x,
                y,
                s=size,
                c=color_of(int(label)),
                marker=marker_of(int(label)) if few else "o",
                linewidths=0.4 if few else 0,
                edgecolors="white" if few else "none",
                alpha=0.95 if few else 0.75,
                zorder=2 if label < 0 else 3,
            )


def _anchors(
    points: Array, classes: NDArray[np.int64], view: _View, densities: dict[int, Array]
) -> dict[int, tuple[float, float]]:
    """Where the name of each class belongs: where it is densest and most by itself, the largest classes first."""
    counts = {int(label): int((classes == label).sum()) for label in np.unique(classes) if label >= 0}
    largest = sorted(counts, key=lambda label: -counts[label])[:_MOST_NAMES]
    x, y = view.middles()
    if not densities:
        return {c: tuple(np.median(points[classes == c], axis=0).tolist()) for c in largest}
    total = sum(densities.values()) + 1e-12
    anchors = {}
    for label in largest:
        row, column = np.unravel_index(int(np.argmax(densities[label] ** 2 / total)), (_GRID, _GRID))
        anchors[label] = (float(x[column]), float(y[row]))
    return anchors


def place_names(axes: Axes, wanted: dict[str, tuple[float, float, str]], *, size: float = 9.0) -> None:
    """Names near their places (x, y, colour), moved aside where they would cover each other."""
    from matplotlib.patheffects import withStroke

    low, high = axes.get_xlim()
    bottom, top = axes.get_ylim()
    inches = min(axes.bbox.width, axes.bbox.height) / axes.figure.dpi
    unit = (high - low) / max(inches, 1e-6) / 72  # of data, a point of type
    taken: list[tuple[float, float, float, float]] = []
    for name, (x, y, color) in wanted.items():
        half_width, half_height = 0.29 * size * unit * max(len(name), 2), 0.75 * size * unit
        best = (x, y)
        for reach in range(9):
            spots = [
                (x + reach * 1.1 * size * unit * math.cos(t), y + reach * 1.1 * size * unit * math.sin(t))
                for t in (math.pi / 2 + math.pi / 6 * turn for turn in range(12 if reach else 1))
            ]
            free = [
                (a, b)
                for a, b in spots
                if low + half_width <= a <= high - half_width
                and bottom + half_height <= b <= top - half_height
                and all(abs(a - p) > half_width + w or abs(b - q) > half_height + h for p, q, w, h in taken)
            ]
            if free:
                best = free[0]
                break
        taken.append((*best, half_width, half_height))
        text = axes.text(*best, name, fontsize=size, color=color, ha="center", va="center", zorder=6, fontweight="bold",
                         parse_math=False)  # fmt: skip
        text.set_path_effects([withStroke(linewidth=2.6, foreground="white", alpha=0.9)])


def draw_mistakes(
    axes: Axes, panel: Panel, labels: Tensor, predicted: Tensor, class_names: Sequence[str] | None = None
) -> None:
    """What was predicted right in grey, what was not in the colour of the class that it was taken for."""
    view = _frame(axes, panel)
    truth, said = labels.cpu().numpy(), predicted.cpu().numpy()
    points = panel.points.numpy()
    wrong = (truth >= 0) & (truth != said)
    size = float(np.clip(9000 / max(len(points), 1), 1.6, 60))
    x, y = points[~wrong].T
    axes.scatter(x, y, s=size, c=FAINT, linewidths=0, zorder=1)
    few = len(points) <= _FEW
    for label in np.unique(said[wrong]):
        x, y = points[wrong & (said == label)].T
        axes.scatter(
            x,
            y,
            s=1.6 * size,
            c=color_of(int(label)),
            marker=marker_of(int(label)) if few else "o",
            linewidths=0,
            alpha=0.9,
            zorder=3,
        )
    densities = {} if few else _densities(points[wrong], said[wrong], view)
    anchors = _anchors(points[wrong], said[wrong], view, densities)
    place_names(axes, {name_of(c, class_names): (*anchors[c], dark(color_of(c))) for c in anchors}, size=8.0)
