"""The field's benchmark as a page: means with their errors, differences to the flat twin, what is published."""

from __future__ import annotations

import json
from typing import Any

from hgeo._files import write_atomically
from hgeo.reproduce._field import Column, FieldCell, Row, columns, compute, mean_error, rows
from hgeo.reproduce._request import Request

__all__ = ["field"]

Found = dict[tuple[Row, str], FieldCell]

# Chami et al. (2019), table 1, and the best that the survey of the design found for links.
_PUBLISHED = {
    ("links", "disease"): ".908 HGCN, .968 HyboNet",
    ("links", "airport"): ".964 HGCN, .974 best",
    ("links", "cora"): ".929 HGCN, .943 HyboNet",
    ("links", "pubmed"): ".963 HGCN, .964 HyboNet",
    ("nodes", "disease"): ".745 HGCN, on another graph (1,044 nodes) and a balanced test set",
    ("nodes", "airport"): ".906 HGCN, on the split that leaks",
    ("nodes", "cora"): ".799 HGCN",
    ("nodes", "pubmed"): ".803 HGCN",
}
_TITLES = {"nodes": "Nodes", "links": "Links"}


def field(request: Request) -> list[str]:
    """Makes ``field.md`` and ``field.json``; returns their paths and the tables."""
    table = rows(request)
    found, beside = compute(request, table)
    tasks = list(dict.fromkeys(row.task for row in table))
    sections = [_section(request, task, [row for row in table if row.task == task], found, beside) for task in tasks]
    text = "\n\n".join([_intro(request), *sections, *_missing(request, table, found)]) + "\n"
    paths = [request.out / "field.md", request.out / "field.json"]
    write_atomically(paths[0], text)
    write_atomically(paths[1], json.dumps(_plain(found, beside), indent=1) + "\n")
    return [*(str(path) for path in paths), *sections]


def _intro(request: Request) -> str:
    return (
        "# The field's benchmark\n\nMean ± standard error over seeds on test data. Made by\n\n"
        f"    {_command(request)}\n\n"
        f"Each cell is a model in its own space at c = 1. {request.trials} settings, the same for all models, were "
        "tried with a seed of their own and compared on validation data; the best one was trained with "
        f'{request.seeds} fresh seeds. "flat" is the same code without curvature. Nodes: the public split of Cora and '
        "PubMed, stratified ones of "
        "Airport (70/15/15) and Disease (30/10/60, the graph of 2,665 nodes). Links: the split of HGCN's code for the "
        "seed 1234, degrees among the features of Airport and Disease. Bold: the best mean of a line."
    )


def _command(request: Request) -> str:
    words = ["hgeo reproduce field"]
    for name in ("tasks", "datasets", "dims", "methods"):
        value = getattr(request, name)
        if value:
            words.append(f"--{name} {' '.join(map(str, value))}")
    words += [f"--trials {request.trials}", f"--seeds {request.seeds}"]
    return " ".join(words + ([f"--epochs {request.epochs}"] if request.epochs is not None else []))


def _metric(row: Row) -> str:
    if row.task == "links":
        return "test_roc_auc"
    return "test_f1" if row.dataset.startswith("disease") else "test_accuracy"


def _section(
    request: Request, task: str, table: list[Row], found: Found, beside: dict[Row, dict[str, dict[str, float]]]
) -> str:
    shown = {column.name: column for row in table for column in columns(request, row)}
    what = "ROC AUC" if task == "links" else "accuracy, of Disease F1"
    lines = [f"## {_TITLES.get(task, task)}: {what}", "", _line(["data", "d", *shown]), _rule(2 + len(shown))]
    for row in table:
        means = {name: mean_error(values) for name in shown if (values := _values(found, row, name))}
        best = max((mean for mean, _ in means.values()), default=0.0)
        cells = [_cell(*means[name], bold=means[name][0] == best) if name in means else "" for name in shown]
        lines.append(_line([row.dataset, str(row.dim), *cells]))
    return "\n".join([*lines, "", _twins(list(shown.values()), table, found), "", _others(table, beside)])


def _values(found: Found, row: Row, name: str) -> list[float]:
    return found[row, name].values(_metric(row)) if (row, name) in found else []


def _twins(shown: list[Column], table: list[Row], found: Found) -> str:
    twins = [(column.twin_of, column.name) for column in shown if column.twin_of is not None]
    lines = ["Curved minus flat, seed by seed; bold where it is more than two standard errors:", ""]
    lines += [_line(["data", "d", *(str(curved) for curved, _ in twins)]), _rule(2 + len(twins))]
    for row in table:
        cells = []
        for curved, flat in twins:
            pair = found.get((row, str(curved))), found.get((row, flat))
            gap = pair[0].difference(pair[1], _metric(row)) if pair[0] and pair[1] else None
            cells.append("" if gap is None else _cell(*gap, bold=abs(gap[0]) > 2 * gap[1] > 0, sign=True))
        lines.append(_line([row.dataset, str(row.dim), *cells]))
    return "\n".join(lines) if twins else ""


def _others(table: list[Row], beside: dict[Row, dict[str, dict[str, float]]]) -> str:
    """What needs no learning or no graph, and the published numbers, a line a data set."""
    first = {row.dataset: row for row in reversed(table)}
    kinds = list(dict.fromkeys(name for row in table for name in beside.get(row, {})))
    lines = ["Without learning or without a graph, and what is published:", ""]
    lines += [_line(["data", *kinds, "published"]), _rule(2 + len(kinds))]
    for dataset, row in reversed(first.items()):
        scores = beside.get(row, {})
        cells = [f"{scores[kind][_metric(row)]:.3f}" if kind in scores else "" for kind in kinds]
        lines.append(_line([dataset, *cells, _PUBLISHED.get((row.task, dataset), "")]))
    return "\n".join(lines)


def _missing(request: Request, table: list[Row], found: Found) -> list[str]:
    """Which cells are not there, and which have fewer runs than were asked for."""
    lines = []
    for row in table:
        runs = {c.name: len(found[row, c.name].runs) if (row, c.name) in found else 0 for c in columns(request, row)}
        absent = [name for name, count in runs.items() if count == 0]
        short = [f"{name} ({count} seeds)" for name, count in runs.items() if 0 < count < request.seeds]
        parts = [f"without {'; '.join(absent)}" if absent else "", f"unfinished: {'; '.join(short)}" if short else ""]
        if any(parts):
            lines.append(f"- {row.task}, {row.dataset}, d = {row.dim}: {', '.join(filter(None, parts))}.")
    if not lines:
        return []
    return ["\n".join(["## Not computed yet", "", "The same command goes on with these:", "", *lines])]


def _cell(mean: float, error: float, *, bold: bool, sign: bool = False) -> str:
    text = f"{mean:+.3f} ± {error:.3f}" if sign else f"{mean:.3f} ± {error:.3f}"
    return f"**{text}**" if bold else text


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _rule(count: int) -> str:
    return "|" + "---|" * count


def _plain(found: Found, beside: dict[Row, dict[str, dict[str, float]]]) -> dict[str, Any]:
    cells = [
        {
            **row._asdict(),
            "column": name,
            "options": cell.options,
            "trials": [{"options": options, "watched": score} for options, score in cell.trials],
            "runs": cell.runs,
        }
        for (row, name), cell in found.items()
    ]
    return {"cells": cells, "beside": [{**row._asdict(), "scores": scores} for row, scores in beside.items()]}
