"""Curves of a run: loss, accuracy, curvature, health; and how far out nodes of each degree lie."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from hgeo.viz._palette import INK, QUIET, color_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["curves_figure", "radius_figure"]


def curves_figure(metrics: list[dict[str, Any]], *, title: str = "") -> Figure:
    """A matplotlib ``Figure`` of the lines of ``metrics.jsonl``.

    >>> rows = [{"epoch": e, "loss": 2 - e / 10, "val_loss": 2.0, "val_accuracy": e / 10} for e in range(10)]
    >>> len(curves_figure(rows).axes)
    2
    """
    from matplotlib.figure import Figure

    if not metrics:
        raise ValueError("there is no finished epoch in this run, nothing to draw")
    scores = [key for key in metrics[0] if key.startswith("val_") and key != "val_loss"]
    panels = [
        ("loss", [("loss", "training: dropout,\nsmoothed labels"), ("val_loss", "validation: neither")]),
    ]
    if scores:
        name = "accuracy" if scores == ["val_accuracy"] else "scores"
        panels.append((name, [(key, "validation" if len(scores) == 1 else _words(key)) for key in scores]))
    if any(
        row.get("curvatures") != metrics[0].get("curvatures") for row in metrics
    ):  # a curvature that is fixed gets no curve
        panels.append(("curvature", []))
    if any(row.get("attention_entropy") is not None or row.get("at_limit") is not None for row in metrics):
        panels.append(("health", [("attention_entropy", "attention entropy"), ("at_limit", "share at the limit")]))
    figure = Figure(figsize=(3.4 * len(panels), 3.0), dpi=150, facecolor="white", layout="constrained")
    for number, (name, lines) in enumerate(panels):
        axes = figure.add_subplot(1, len(panels), number + 1)
        if name == "curvature":
            count = len(metrics[-1]["curvatures"])
            for index in range(count):
                values = [row["curvatures"][index] for row in metrics]
                axes.plot([row["epoch"] for row in metrics], values, color=color_of(index), label=f"layer {index + 1}")
        for index, (key, label) in enumerate(lines):
            rows = [row for row in metrics if row.get(key) is not None]
            if rows:
                axes.plot(
                    [row["epoch"] for row in rows], [row[key] for row in rows], color=color_of(index), label=label
                )
        if name == "accuracy":
            _mark_best(axes, metrics)
        if name == "health":
            axes.set_ylim(-0.05, 1.05)
        axes.set_title(name, fontsize=10, color=INK)
        axes.set_xlabel("epoch", fontsize=9)
        axes.tick_params(labelsize=8)
        for text in axes.legend(fontsize=8, frameon=False).get_texts():
            text.set_parse_math(False)  # a dollar in a score's name is a dollar
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    if title:
        figure.suptitle(title, fontsize=11, color=INK, parse_math=False)
    return figure


def _words(key: str) -> str:
    """The name of a score of ``metrics.jsonl`` as a reader says it."""
    return key.removeprefix("val_").replace("_", " ")


def _mark_best(axes: Axes, metrics: list[dict[str, Any]]) -> None:
    finite = [row for row in metrics if row["val_loss"] is not None]  # JSON writes null for nan
    best = max(finite or metrics, key=lambda row: (row["val_accuracy"], -(row["val_loss"] or 0.0)))
    axes.axvline(best["epoch"], color=INK, linewidth=0.8, linestyle=":", label=f"best: {best['val_accuracy']:.3f}")


def radius_figure(degrees: Tensor, radii: Tensor, *, title: str = "") -> Figure:
    """A matplotlib ``Figure``: the distance of each node to the mean against its degree, with the quartiles.

    In a hierarchy that was found, hubs lie near the middle and leaves far out.

    >>> import torch
    >>> len(radius_figure(torch.tensor([1, 2, 9]), torch.tensor([3.0, 2.0, 0.5])).axes)
    1
    """
    from matplotlib.figure import Figure

    degree = degrees.detach().cpu().double().numpy()
    radius = radii.detach().cpu().double().numpy()
    figure = Figure(figsize=(5.2, 3.8), dpi=130, facecolor="white", layout="constrained")
    axes = figure.add_subplot()
    spread = np.random.default_rng(0).uniform(-0.25, 0.25, size=len(degree))  # nodes of one degree beside each other
    axes.scatter(
        (degree + spread).clip(min=0.5), radius, s=float(np.clip(6000 / max(len(degree), 1), 1, 20)), alpha=0.35,
        c=color_of(0), linewidths=0,
    )  # fmt: skip
    edges = np.unique(np.round(2 ** np.arange(0, np.log2(max(degree.max(initial=1), 1)) + 1.5, 0.5)))
    rows = [
        (np.sqrt(low * (high - 1)), *np.quantile(radius[inside], [0.25, 0.5, 0.75]))
        for low, high in itertools.pairwise(edges)
        if (inside := (degree >= low) & (degree < high)).sum() >= 5
    ]
    if rows:
        middle, low, median, high = np.array(rows).T
        axes.fill_between(middle, low, high, color=color_of(3), alpha=0.25, linewidth=0, label="half of the nodes")
        axes.plot(middle, median, color=color_of(3), marker="o", markersize=3, label="median")
        axes.legend(fontsize=8, frameon=False)
    axes.set_xscale("log")
    axes.set_xlabel("degree", fontsize=9)
    axes.set_ylabel("distance to the mean", fontsize=9)
    axes.tick_params(labelsize=8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.set_title(title, fontsize=11, color=INK, loc="left", parse_math=False)
    axes.set_title(f"rank correlation {_rank_correlation(degree, radius):+.2f}", fontsize=8, color=QUIET, loc="right")
    return figure


def _rank_correlation(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    ranks = [_ranks(values) for values in (x, y)]
    spread = [rank - rank.mean() for rank in ranks]
    size = float(np.sqrt((spread[0] ** 2).sum() * (spread[1] ** 2).sum()))
    return float((spread[0] * spread[1]).sum()) / size if size else 0.0


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Equal values share the mean of their ranks."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    return (last - (count - 1) / 2)[place]
