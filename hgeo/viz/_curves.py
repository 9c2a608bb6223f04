"""Curves of a run: loss, accuracy, curvature, health."""

from __future__ import annotations

from typing import Any

from hgeo.viz._palette import INK, color_of

__all__ = ["curves_figure"]


def curves_figure(metrics: list[dict[str, Any]], *, title: str = "") -> Any:
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
    ):  # one that never moves is no curve
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
        axes.legend(fontsize=8, frameon=False)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    if title:
        figure.suptitle(title, fontsize=11, color=INK, parse_math=False)
    return figure


def _words(key: str) -> str:
    """The name of a score of ``metrics.jsonl`` as a reader says it."""
    return key.removeprefix("val_").replace("_", " ")


def _mark_best(axes: Any, metrics: list[dict[str, Any]]) -> None:
    finite = [row for row in metrics if row["val_loss"] is not None]  # JSON writes null for nan
    best = max(finite or metrics, key=lambda row: (row["val_accuracy"], -(row["val_loss"] or 0.0)))
    axes.axvline(best["epoch"], color=INK, linewidth=0.8, linestyle=":", label=f"best: {best['val_accuracy']:.3f}")
