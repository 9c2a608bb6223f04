"""Results as tables: mean ± standard deviation beside the paper's number, in Markdown, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from hgeo._files import write_atomically
from hgeo.models import find, names

__all__ = ["Entry", "Table", "baselines", "comparisons", "write_table"]

# Columns that the table calls otherwise than the model is called, and those that are no models by name.
_TITLES = {
    "deepwalk": "DeepWalk",
    "node2vec": "Node2vec",
    "line-1st": "LINE (1st)",
    "line-2nd": "LINE (2nd)",
    "poincare": "PoincaréEmb",
    "hat": "HAT (ours)",
    "hat-uniform": "uniform weights",
}


def _title(column: str) -> str:
    return _TITLES.get(column) or (find(column).label if column in names() else column)


@dataclass(frozen=True)
class Entry:
    """The values of one cell, a run each, and what the paper prints there."""

    values: tuple[float, ...]
    paper: float | None = None

    @property
    def mean(self) -> float:
        return statistics.fmean(self.values)

    @property
    def std(self) -> float:
        return statistics.stdev(self.values) if len(self.values) > 1 else 0.0

    @property
    def error(self) -> float:
        """Standard error of the mean."""
        return self.std / math.sqrt(len(self.values))

    def __str__(self) -> str:
        text = f"{_short(self.mean)}±{_short(self.std)}"
        return text if self.paper is None else f"{text} ({_short(self.paper)})"


def _short(number: float) -> str:
    text = f"{number:.3f}"
    return text[1:] if text.startswith("0.") else text


@dataclass
class Table:
    """Entries by (row, column); a row is (data set, dimension)."""

    name: str
    metric: str
    columns: Sequence[str]
    entries: dict[tuple[str, int], dict[str, Entry]]

    def markdown(self) -> str:
        head = ["data", "d", *(_title(column) for column in self.columns)]
        rows = []
        for (dataset, dim), row in self.entries.items():
            best = max((entry.mean for entry in row.values()), default=0.0)
            cells = []
            for column in self.columns:
                entry = row.get(column)
                text = "–" if entry is None else str(entry)
                cells.append(f"**{text}**" if entry is not None and entry.mean == best else text)
            rows.append([dataset, str(dim), *cells])
        return _markdown(head, rows)

    def csv(self) -> str:
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["dataset", "dim", "method", "mean", "std", "runs", "paper"])
        for (dataset, dim), row in self.entries.items():
            for column, entry in row.items():
                paper = "" if entry.paper is None else entry.paper
                writer.writerow(
                    [dataset, dim, column, f"{entry.mean:.4f}", f"{entry.std:.4f}", len(entry.values), paper]
                )
        return out.getvalue()

    def json(self) -> dict[str, Any]:
        return {
            "table": self.name,
            "metric": self.metric,
            "cells": [
                {
                    "dataset": dataset, "dim": dim, "method": column, "mean": entry.mean, "std": entry.std,
                    "runs": list(entry.values), "paper": entry.paper,
                }
                for (dataset, dim), row in self.entries.items()
                for column, entry in row.items()
            ],
        }  # fmt: skip


#: what is compared, by data set and dimension
_Pairs: TypeAlias = dict[tuple[str, int], tuple[Entry, Entry]]


def comparisons(table: Table) -> str:
    """Our HAT beside the others, in a table: in how many cells the difference of the means is more than two standard
    errors, in how many it is less than minus one, and where. A printed number has no error of its own."""
    pairs: dict[str, _Pairs] = {}
    for ours in ("hat", "hat-paper"):
        pairs[f"{_title(ours)}, the paper's HAT"] = {
            where: (entry, Entry((entry.paper,)))
            for where, row in table.entries.items()
            if (entry := row.get(ours)) and entry.paper is not None
        }
    for other in ("gcn", "gcn-diffused", "gat", "hat-uniform"):
        pairs[f"{_title('hat')}, {_title(other)}"] = {
            where: (row["hat"], row[other]) for where, row in table.entries.items() if {"hat", other} <= set(row)
        }
    head = ("compared", "cells", "above by > 2 standard errors", "below by > 1", "above in", "below in")
    return _markdown(head, [_comparison(title, some) for title, some in pairs.items() if some])


def _comparison(title: str, pairs: _Pairs) -> list[str]:
    above, below = [], []
    for (dataset, dim), (ours, theirs) in pairs.items():
        gap, error = ours.mean - theirs.mean, math.hypot(ours.error, theirs.error)
        name = f"{dataset} {dim} ({gap:+.3f})"
        if gap > 2 * error:
            above.append(name)
        if gap < -error:
            below.append(name)
    return [title, str(len(pairs)), str(len(above)), str(len(below)), ", ".join(above), ", ".join(below)]


def baselines(table: Table, points: float = 0.02) -> str:
    """How often a baseline is below the paper's number by more than two ``points``, and where, in a table."""
    rows = []
    for method in table.columns:
        known = {
            where: (entry.mean, entry.paper)
            for where, row in table.entries.items()
            if (entry := row.get(method)) and entry.paper is not None and not method.startswith("hat")
        }
        below = [
            f"{dataset} {dim} ({_short(mean)} against {_short(paper)})"
            for (dataset, dim), (mean, paper) in known.items()
            if mean < paper - points
        ]
        if known:
            rows.append([_title(method), str(len(known)), str(len(below)), ", ".join(below)])
    return _markdown(("baseline", "cells", f"below by > {_short(points)}", "below in"), rows)


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; nothing where it has no row."""
    lines = ["| " + " | ".join(row) + " |" for row in (head, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]]) if rows else ""


def write_table(table: Table, folder: Path, intro: str, sections: Sequence[str] = ()) -> list[Path]:
    """Write ``name.md``, ``name.csv`` and ``name.json`` and return their paths; empty sections are left out."""
    pages = {
        ".md": "\n\n".join(part for part in (intro, table.markdown(), *sections) if part) + "\n",
        ".csv": table.csv(),
        ".json": json.dumps(table.json(), indent=1) + "\n",
    }
    paths = []
    for suffix, text in pages.items():
        path = folder / f"{table.name}{suffix}"
        write_atomically(path, text)
        paths.append(path)
    return paths
