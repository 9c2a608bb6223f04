"""The file of frozen settings: what a search chose for each data set, dimension and model."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from hgeo._files import write_atomically
from hgeo.reproduce._cells import Cell
from hgeo.reproduce._runs import TWINS, Options

__all__ = ["TASKS", "frozen_options", "frozen_trials", "frozen_winners", "write_frozen"]

#: what settings can be frozen for
TASKS = ("classification", "clustering")
_ABOUT = "Chosen by `hgeo tune` on validation nodes; test nodes were not evaluated. Keys: data set/dimension/model."


def frozen_options(path: Path | None = None, task: str = "classification") -> dict[str, Options]:
    """What the search chose for a task, by ``dataset/dimension/model``; from the package unless ``path`` is given."""
    source = _source(path)
    try:
        return {name: dict(cell[task]["options"]) for name, cell in _frozen_cells(path).items()}
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{source} is no file that this hgeo's tune --freeze has written: {error!r}") from error


def frozen_trials(path: Path | None, models: Sequence[str]) -> dict[str, set[int]]:
    """How many trials the cells of each data set were chosen from, for the ``models``."""
    searched = {TWINS.get(model, model) for model in models}
    counts: dict[str, set[int]] = {}
    for name, cell in sorted(_frozen_cells(path).items()):
        if "trials" in cell and name.split("/", 2)[2] in searched:  # a file may be written by hand
            counts.setdefault(name.partition("/")[0], set()).add(cell["trials"])
    return counts


def frozen_winners(path: Path) -> dict[str, dict[str, Options]]:
    """All that a file of frozen settings holds, by task and by ``dataset/dimension/model``."""
    return {task: frozen_options(path, task) for task in TASKS}


def write_frozen(path: Path, chosen: Iterable[tuple[Cell, dict[str, Any]]], gone_on_from: Path | None = None) -> int:
    """Write (merge into) the file of frozen settings; returns how many cells it holds.

    Where a search has gone on from earlier ones, their trials count, too.
    """
    earlier = _frozen_cells(gone_on_from) if gone_on_from else {}
    known: dict[str, Any] = (
        json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {"about": _ABOUT, "cells": {}}
    )
    for cell, result in chosen:
        where = cell.arguments
        name = f"{where['dataset']}/{where['dim']}/{where['model']}"
        known["cells"][name] = {
            "trials": len(result["trials"]) + earlier.get(name, {}).get("trials", 0),
            **{task: _rounded(choice) for task, choice in result["chosen"].items()},
        }
    known["cells"] = dict(sorted(known["cells"].items(), key=_table_order))
    write_atomically(path, json.dumps(known, indent=1) + "\n")
    return len(known["cells"])


def _source(path: Path | None) -> Any:
    return resources.files("hgeo.reproduce").joinpath("paper.json") if path is None else path


def _frozen_cells(path: Path | None) -> dict[str, Any]:
    source = _source(path)
    try:
        cells: dict[str, Any] = json.loads(source.read_text(encoding="utf-8"))["cells"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{source} is no file that hgeo tune --freeze has written: {error!r}") from error
    return cells


def _rounded(choice: dict[str, Any]) -> dict[str, Any]:
    return {name: round(value, 4) if isinstance(value, float) else value for name, value in choice.items()}


def _table_order(item: tuple[str, Any]) -> tuple[str, int, str]:
    dataset, dim, model = item[0].split("/", 2)
    return dataset, int(dim), model
