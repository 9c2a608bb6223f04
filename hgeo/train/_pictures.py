"""The pictures of a run folder, and of several runs beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

from torch import Tensor, nn

from hgeo.data import Dataset
from hgeo.manifolds import intrinsic_dim
from hgeo.tasks import find_task
from hgeo.train._folder import RunFolder
from hgeo.train._session import embed
from hgeo.viz import (
    comparison_figure,
    curves_figure,
    embedding_figure,
    embedding_page,
    save_figure,
    save_page,
)

__all__ = ["compare_runs", "draw_run"]

Run: TypeAlias = tuple[nn.Module, Dataset, RunFolder]


def draw_run(run: Run) -> list[Path]:
    """``embedding.png``, ``.svg``, ``.html`` and ``curves.png``, ``.svg`` of a run; returns their paths.

    ``run`` is what :func:`hgeo.train.load_run` gives.
    """
    model, dataset, folder = run
    points, manifold = embed(model, dataset), getattr(model, "hidden_manifold", None)
    title = _title(dataset, folder, points, manifold)
    shown: dict[str, Any] = {"edge_index": dataset.edge_index, "labels": dataset.labels}
    written = save_figure(
        embedding_figure(points, manifold, title="\n".join(title), **shown), folder.path / "embedding"
    )
    page = embedding_page(points, manifold, title=": ".join(title), **shown)
    written.append(save_page(page, folder.path / "embedding.html"))
    metrics = folder.metrics()
    if metrics:
        written += save_figure(curves_figure(metrics, title=": ".join(title)), folder.path / "curves")
    return written


def compare_runs(runs: Sequence[Run], target: Path) -> list[Path]:
    """One picture of several runs on the same data, a panel a run, saved as ``target`` with ``.png`` and ``.svg``."""
    panels = []
    for model, dataset, folder in runs:
        points, manifold = embed(model, dataset), getattr(model, "hidden_manifold", None)
        panels.append(("\n".join(_title(dataset, folder, points, manifold)), points, manifold))
    dataset = runs[0][1]
    return save_figure(comparison_figure(panels, edge_index=dataset.edge_index, labels=dataset.labels), target)


def _title(dataset: Dataset, folder: RunFolder, points: Tensor, manifold: Any) -> list[str]:
    dim = points.shape[1] if manifold is None else intrinsic_dim(manifold, points.shape[1])
    shown = f"{dim} dimensions" if dim <= 2 else f"two main directions of {dim}"
    config, result = folder.config(), folder.result() if folder.is_complete else {}
    columns = find_task(config.get("task", "nodes")).columns
    scores = [f"test {columns[key]} {result[key]:.3f}" for key in columns if key in result]
    return [f"{config['model'].upper()} on {dataset.name}, {shown}", *scores[:1]]
