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
from typing import Any

from hgeo._files import write_atomically

__all__ = ["Entry", "Table", "baseline_findings", "findings", "write_table"]

_TITLES = {
    "deepwalk": "DeepWalk",
    "node2vec": "Node2vec",
    "line-1st": "LINE (1st)",
    "line-2nd": "LINE (2nd)",
    "poincare": "PoincaréEmb",
    "gcn": "GCN",
    "gcn-diffused": "GCN, several steps",
    "gat": "GAT",
    "hat-paper": "HAT as printed",
    "hat": "HAT (ours)",
    "hat-uniform": "uniform weights",
    "hgcn": "HGCN",
    "kappa-gcn": "κ-GCN",
}


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
        head = ["data", "d", *(_TITLES.get(column, column) for column in self.columns)]
        lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
        for (dataset, dim), row in self.entries.items():
            best = max((entry.mean for entry in row.values()), default=0.0)
            cells = []
            for column in self.columns:
                entry = row.get(column)
                text = "–" if entry is None else str(entry)
                cells.append(f"**{text}**" if entry is not None and entry.mean == best else text)
            lines.append("| " + " | ".join([dataset, str(dim), *cells]) + " |")
        return "\n".join(lines)

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


def findings(table: Table) -> str:
    """What a table shows, counted: ours against the paper's HAT, GCN, GAT and uniform weights, in standard errors."""
    lines = []
    for method, title in (("hat", "Our HAT"), ("hat-paper", "HAT as printed")):
        pairs = [
            (row, entry[method]) for row, entry in table.entries.items() if method in entry and entry[method].paper
        ]
        if not pairs:
            continue
        assert all(entry.paper is not None for _, entry in pairs)
        limit = 1 if method == "hat" else 2
        above = [row for row, entry in pairs if entry.mean > (entry.paper or 0)]
        below = [
            f"{row[0]} {row[1]} ({_short(entry.mean)} against {_short(entry.paper or 0)})"
            for row, entry in pairs
            if entry.mean + limit * entry.error < (entry.paper or 0)
        ]
        lines.append(
            f"- {title} is above the paper's HAT in {len(above)} of {len(pairs)} cells, and below it by more than "
            f"{'one standard error' if limit == 1 else 'two standard errors'} in {len(below)}"
            + (f": {', '.join(below)}." if below else ".")
        )
    for other, title in (
        ("gcn", "GCN"),
        ("gcn-diffused", "GCN with several steps"),
        ("gat", "GAT"),
        ("hat-uniform", "the same model with uniform weights"),
    ):
        rows = [
            (row, entry["hat"], entry[other]) for row, entry in table.entries.items() if {"hat", other} <= set(entry)
        ]
        if not rows:
            continue
        wins, losses = [], []
        for row, ours, theirs in rows:
            error = math.hypot(ours.error, theirs.error)
            gap = ours.mean - theirs.mean
            name = f"{row[0]} {row[1]} ({gap:+.3f})"
            if gap > 2 * error:
                wins.append(name)
            if gap < -error:
                losses.append(name)
        lines.append(
            f"- Against {title}: above by more than two standard errors of the difference in {len(wins)} of "
            f"{len(rows)} cells{_list(wins)}; below by more than one in {len(losses)}{_list(losses)}."
        )
    return "\n".join(lines)


def baseline_findings(table: Table, points: float = 0.02) -> str:
    """In which cells a baseline is below the paper's number by more than two ``points``, and how often it is not."""
    pairs = [
        (row, method, entry, entry.paper)
        for row, columns in table.entries.items()
        for method, entry in columns.items()
        if entry.paper is not None and not method.startswith("hat")
    ]
    if not pairs:
        return ""
    below = [
        f"{_TITLES.get(method, method)} {row[0]} {row[1]} ({_short(entry.mean)} against {_short(paper)})"
        for row, method, entry, paper in sorted(pairs, key=lambda pair: list(table.columns).index(pair[1]))
        if entry.mean < paper - points
    ]
    return (
        f"- Baselines: at most two points below the paper's number, or above it, in {len(pairs) - len(below)} of "
        f"{len(pairs)} cells" + (f"; further below in {len(below)}: {', '.join(below)}." if below else ".")
    )


def _list(names: Sequence[str]) -> str:
    return f" ({', '.join(names)})" if names else ""


def write_table(table: Table, folder: Path, *, intro: str, notes: str) -> list[Path]:
    """Write ``name.md``, ``name.csv`` and ``name.json`` and return their paths."""
    pages = {
        ".md": f"{intro}\n\n{table.markdown()}\n\n{notes}\n",
        ".csv": table.csv(),
        ".json": json.dumps(table.json(), indent=1) + "\n",
    }
    paths = []
    for suffix, text in pages.items():
        path = folder / f"{table.name}{suffix}"
        write_atomically(path, text)
        paths.append(path)
    return paths
