"""The pictures of a run folder, and of several runs beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from hgeo.data import Dataset
from hgeo.models import find
from hgeo.tasks import find_task
from hgeo.train._folder import RunFolder
from hgeo.train._monitor import layer_attentions
from hgeo.train._session import embed
from hgeo.viz import (
    comparison_figure,
    curves_figure,
    embedding_figure,
    embedding_page,
    embedding_panels,
    radius_figure,
    save_figure,
    save_page,
)

__all__ = ["compare_runs", "draw_run"]

Run: TypeAlias = tuple[nn.Module, Dataset, RunFolder]


def draw_run(run: Run, *, formats: Sequence[str] = ("png", "svg")) -> list[Path]:
    """``embedding``, ``radius`` and ``curves`` of a run in ``formats``, and ``embedding.html``; returns their paths.

    ``run`` is what :func:`hgeo.train.load_run` gives.
    """
    model, dataset, folder = run
    points, manifold = embed(model, dataset), getattr(model, "hidden_manifold", None)
    title, note = _title(dataset, folder)
    shown: dict[str, Any] = {
        "edge_index": dataset.edge_index,
        "labels": dataset.labels,
        "predicted": _predicted(model, dataset) if _task(folder) == "nodes" else None,
        "class_names": dataset.class_names,
        "title": title,
        "note": note,
    }
    written = save_figure(embedding_figure(points, manifold, **shown), folder.path / "embedding", formats)
    attention = _first_attention(model, dataset)
    page = embedding_page(points, manifold, attention=attention, **shown)
    written.append(save_page(page, folder.path / "embedding.html"))
    degrees = torch.bincount(dataset.edge_index[1], minlength=dataset.num_nodes)
    radii = embedding_panels(points, manifold)[0].radii
    written += save_figure(radius_figure(degrees, radii, title=title), folder.path / "radius", formats)
    metrics = folder.metrics()
    if metrics:
        written += save_figure(curves_figure(metrics, title=f"{title}: {note}"), folder.path / "curves", formats)
    return written


def compare_runs(runs: Sequence[Run], target: Path, *, formats: Sequence[str] = ("png", "svg")) -> list[Path]:
    """One picture of several runs on the same data, a panel a run, saved as ``target`` in ``formats``."""
    panels = []
    for model, dataset, folder in runs:
        points, manifold = embed(model, dataset), getattr(model, "hidden_manifold", None)
        panels.append((", ".join(_title(dataset, folder)), points, manifold))
    dataset = runs[0][1]
    figure = comparison_figure(
        panels, edge_index=dataset.edge_index, labels=dataset.labels, class_names=dataset.class_names
    )
    return save_figure(figure, target, formats)


def _title(dataset: Dataset, folder: RunFolder) -> tuple[str, str]:
    result = folder.result() if folder.is_complete else {}
    columns = find_task(_task(folder)).columns
    scores = [f"test {columns[key]} {result[key]:.3f}" for key in columns if result.get(key) is not None]
    return f"{find(folder.config().model).label} on {dataset.name}", scores[0] if scores else "not finished"


def _task(folder: RunFolder) -> str:
    return folder.config().task


@torch.no_grad()
def _predicted(model: nn.Module, dataset: Dataset) -> Tensor:
    was_training = model.training
    model.eval()
    logits: Tensor = model(dataset.graph, dataset.features)
    model.train(was_training)
    return logits.argmax(dim=1)


def _first_attention(model: nn.Module, dataset: Dataset) -> Tensor | None:
    """What each edge's target gives to its source in the first layer that attends, averaged over heads."""
    attentions = layer_attentions(model, dataset)
    return attentions[0][0].mean(dim=1) if attentions else None
