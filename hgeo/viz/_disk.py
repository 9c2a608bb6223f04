"""A picture of points in the Poincaré disk, with the geodesics that join them."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hgeo._files import write_atomically
from hgeo.manifolds import frame_scale, geometry, intrinsic_dim, log0
from hgeo.math import geodesic
from hgeo.viz._palette import EDGE, INK, NO_LABEL, color_of, marker_of, name_of

__all__ = [
    "add_legend",
    "comparison_figure",
    "disk_coordinates",
    "draw_disk",
    "draw_embedding",
    "draw_plane",
    "embedding_figure",
    "save_figure",
]

_MOST_EDGES = 6000  # more of them only make the disk grey
_POINTS_AN_EDGE = 16


@torch.no_grad()
def disk_coordinates(points: Tensor, manifold: Any = None) -> Tensor:
    """Points of any manifold as points (N, 2) of the unit disk.

    A space of at most two dimensions is shown by its own chart: a hyperbolic one as it is, isometrically, in units of
    its curvature. Of any other the tangent coordinates at the origin are shown: their two main directions, as a point
    of the disk at that distance. ``manifold=None``: the points are plain vectors. Points that are not finite have no
    place and are an error.

    >>> import torch
    >>> disk_coordinates(torch.tensor([[0.0, 0.0], [3.0, 4.0]])).norm(dim=1).max().item() < 1
    True
    """
    points = _finite(points)
    if manifold is None:
        vectors = points
    elif intrinsic_dim(manifold, points.shape[1]) <= 2:
        return _two_main_directions(geometry(manifold).chart(manifold, points))
    else:  # in the unit disk a tangent vector v is 2|v| long
        vectors = log0(manifold, points) * (frame_scale(manifold) / 2)
    vectors = _two_main_directions(vectors)
    radius = vectors.norm(dim=1, keepdim=True)
    # flat vectors may be of any length; most of them should fall well inside
    scale = torch.ones(()) if manifold is not None else 1.0 / radius.median().clamp(min=1e-9)
    return vectors * scale * _tanh_ratio(radius * scale)


def draw_disk(
    axes: Any,
    points: Tensor,
    *,
    edge_index: Tensor | None = None,
    labels: Tensor | None = None,
    title: str = "",
    seed: int = 0,
) -> None:
    """Draw points (N, 2) of the unit disk and the geodesics of ``edge_index`` on a matplotlib ``Axes``."""
    from matplotlib.patches import Circle

    axes.add_patch(Circle((0, 0), 1, facecolor="white", edgecolor=INK, linewidth=1.2, zorder=0))
    if edge_index is not None and edge_index.shape[1]:
        links = _sample_links(edge_index, seed)
        _draw_lines(axes, _geodesics(points, links), links, labels)
    _scatter(axes, points.numpy(), labels)
    axes.set_xlim(-1.03, 1.03)
    axes.set_ylim(-1.03, 1.03)
    _finish(axes, title)


def draw_plane(
    axes: Any, points: Tensor, *, edge_index: Tensor | None = None, labels: Tensor | None = None, title: str = ""
) -> None:
    """Draw flat points (N, 2): what :func:`draw_disk` is for curved ones."""
    points = _two_main_directions(_finite(points))
    if edge_index is not None and edge_index.shape[1]:
        links = _sample_links(edge_index, 0)
        _draw_lines(axes, points[links.T].numpy(), links, labels)
    _scatter(axes, points.numpy(), labels)
    axes.set_facecolor("white")
    # a square about the points, so that a plane beside a disk is as large as the disk
    low, high = points.min(dim=0).values, points.max(dim=0).values
    centre, half = (low + high) / 2, 0.54 * float((high - low).max()) or 1.0
    axes.set_xlim(float(centre[0]) - half, float(centre[0]) + half)
    axes.set_ylim(float(centre[1]) - half, float(centre[1]) + half)
    _finish(axes, title)


def embedding_figure(
    points: Tensor,
    manifold: Any = None,
    *,
    edge_index: Tensor | None = None,
    labels: Tensor | None = None,
    title: str = "",
    class_names: Sequence[str] | None = None,
) -> Any:
    """A matplotlib ``Figure``: the points in the Poincaré disk with geodesic edges and a legend of the classes.

    >>> import torch
    >>> figure = embedding_figure(torch.randn(5, 2), labels=torch.tensor([0, 0, 1, 1, 2]))
    >>> len(figure.axes)
    1
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.4, 6.4), dpi=150, facecolor="white")
    axes = figure.add_axes((0.02, 0.02, 0.80, 0.90))
    draw_embedding(axes, points, manifold, edge_index=edge_index, labels=labels, title=title)
    if labels is not None:
        add_legend(axes, labels, class_names)
    return figure


def comparison_figure(
    panels: Sequence[tuple[str, Tensor, Any]], *, edge_index: Tensor | None = None, labels: Tensor | None = None
) -> Any:
    """Embeddings of the same nodes beside each other; a panel is a title, the points and their manifold."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.2 * len(panels) + 1.0, 5.4), dpi=110, facecolor="white", layout="constrained")
    for number, (title, points, manifold) in enumerate(panels):
        axes = figure.add_subplot(1, len(panels), number + 1)
        draw_embedding(axes, points, manifold, edge_index=edge_index, labels=labels, title=title)
    if labels is not None and panels:
        add_legend(axes, labels)
    return figure


def draw_embedding(
    axes: Any,
    points: Tensor,
    manifold: Any,
    *,
    edge_index: Tensor | None = None,
    labels: Tensor | None = None,
    title: str = "",
) -> None:
    """A flat space as a plane, any other as a disk."""
    if manifold is not None and geometry(manifold).chart_kind(manifold) == "plane":
        draw_plane(axes, points, edge_index=edge_index, labels=labels, title=title)
    else:
        draw_disk(axes, disk_coordinates(points, manifold), edge_index=edge_index, labels=labels, title=title)


def add_legend(axes: Any, labels: Tensor, class_names: Sequence[str] | None = None) -> None:
    """A legend of the classes that occur, to the right of the picture."""
    from matplotlib.lines import Line2D

    present = [int(label) for label in torch.unique(labels)]
    handles = [
        Line2D([], [], linestyle="", marker=marker_of(label), color=color_of(label), markersize=6) for label in present
    ]
    names = [name_of(label, class_names) for label in present]
    legend = axes.legend(handles, names, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=9)
    for text in legend.get_texts():
        text.set_parse_math(False)  # a dollar in a name is a dollar


def save_figure(figure: Any, path: str | Path) -> list[Path]:
    """Save as ``.png`` and ``.svg`` beside each other; returns both paths. The same run gives the same files.

    Texts are drawn by matplotlib itself, whatever its settings say: TeX would take a title for a program.
    """
    import matplotlib
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        text.set_usetex(False)
    written = []
    for suffix, metadata in ((".png", {"Software": None}), (".svg", {"Date": None})):
        target = Path(path).with_suffix(suffix)
        with matplotlib.rc_context({"svg.hashsalt": "hgeo", "text.usetex": False}):
            content = BytesIO()
            figure.savefig(content, format=suffix[1:], metadata=metadata)
            write_atomically(target, content.getvalue())
        written.append(target)
    return written


def _finite(points: Tensor) -> Tensor:
    points = points.detach().cpu().double()
    lost = (~points.isfinite().all(dim=1)).nonzero().flatten()
    if len(lost):
        raise ValueError(
            f"{len(lost)} of {len(points)} points have a coordinate that is not finite, the first is point "
            f"{int(lost[0])}; they have no place in a picture: leave them out, by points[points.isfinite().all(dim=1)]"
        )
    return points


def _two_main_directions(vectors: Tensor) -> Tensor:
    """The two directions of largest spread about the origin; 2-d vectors stay as they are, 1-d ones get a zero."""
    if vectors.shape[1] == 2:
        return vectors
    if vectors.shape[1] == 1:
        return torch.cat([vectors, torch.zeros_like(vectors)], dim=1)
    _, _, directions = torch.linalg.svd(vectors, full_matrices=False)
    chosen = directions[:2]
    # a direction has no sign of its own: the larger entry is made positive, so that pictures can be compared
    sign = chosen.gather(1, chosen.abs().argmax(dim=1, keepdim=True)).sign()
    return vectors @ (chosen * sign).T


def _tanh_ratio(radius: Tensor) -> Tensor:
    return torch.where(radius > 1e-9, radius.tanh() / radius.clamp(min=1e-9), 1.0)


def _sample_links(edge_index: Tensor, seed: int) -> Tensor:
    links = edge_index.detach().cpu()
    links = links[:, links[0] < links[1]] if bool((links[0] < links[1]).any()) else links
    if links.shape[1] > _MOST_EDGES:
        chosen = np.random.default_rng(seed).choice(links.shape[1], size=_MOST_EDGES, replace=False)
        links = links[:, torch.from_numpy(np.sort(chosen))]
    return links


def _draw_lines(axes: Any, lines: np.ndarray, links: Tensor, labels: Tensor | None) -> None:
    """Links inside a class in its colour, above the grey ones between classes."""
    from matplotlib.collections import LineCollection

    alpha = float(np.clip(6 / np.sqrt(len(lines)), 0.06, 0.6))
    classes = np.full(lines.shape[0], -1)
    if labels is not None:
        ends = labels.cpu()[links].numpy()
        classes = np.where(ends[0] == ends[1], ends[0], -1)
    for label in np.unique(classes):
        inside = label >= 0
        axes.add_collection(
            LineCollection(
                list(lines[classes == label]),
                colors=color_of(int(label)) if inside else EDGE,
                linewidths=0.6 if inside else 0.35,
                alpha=min(1.0, 3 * alpha) if inside else alpha,
                zorder=1.5 if inside else 1,
            )
        )


def _geodesics(points: Tensor, links: Tensor) -> np.ndarray:
    """(number of links, points an edge, 2): the arcs, sampled evenly in hyperbolic length."""
    t = torch.linspace(0, 1, _POINTS_AN_EDGE, dtype=points.dtype).view(-1, 1, 1)
    start, end = points[links[0]].unsqueeze(0), points[links[1]].unsqueeze(0)
    return geodesic(t, start, end, k=-1.0).transpose(0, 1).numpy()


def _scatter(axes: Any, points: np.ndarray, labels: Tensor | None) -> None:
    size = float(np.clip(20000 / max(len(points), 1), 8, 60))
    if labels is None:
        axes.scatter(*points.T, s=size, c=color_of(0), linewidths=0, zorder=2)
        return
    classes = labels.cpu().numpy()
    # In a crowd every class lies above and below the others, or the last one drawn would hide them.
    layer = np.random.default_rng(0).integers(min(1 + len(points) // 1000, 16), size=len(points))
    for number in range(int(layer.max(initial=0)) + 1):
        for label in np.unique(classes):
            chosen = points[(classes == label) & (layer == number)]
            axes.scatter(
                *chosen.T,
                s=size,
                c=NO_LABEL if label < 0 else color_of(int(label)),
                marker=marker_of(int(label)),
                linewidths=0.25,
                edgecolors="white",
                alpha=0.9,
                zorder=2 if label < 0 else 3,
            )


def _finish(axes: Any, title: str) -> None:
    axes.set_aspect("equal")
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(False)
    if title:
        axes.set_title(title, fontsize=11, color=INK, parse_math=False)
