"""The tables of the paper as pages: a line that says how each was made, the table, comparisons, notes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

from hgeo.models import SHALLOW_METHODS
from hgeo.reproduce._cells import Cell
from hgeo.reproduce._field_page import field
from hgeo.reproduce._figures import attention, timing, visualization
from hgeo.reproduce._frozen import frozen_options, frozen_trials
from hgeo.reproduce._request import Request
from hgeo.reproduce._runs import (
    DATASETS,
    DIMENSIONS,
    TABLE_METHODS,
    TWINS,
    Options,
    ablation_cells,
    graph_cells,
    published,
    shallow_cells,
)
from hgeo.reproduce._tables import Entry, Table, baselines, comparisons, write_table

__all__ = ["PAGES", "make_page"]


class _Metric(NamedTuple):
    key: str
    name: str
    title: str


_METRICS = {
    "classification": _Metric("accuracy", "accuracy", "Node classification: accuracy"),
    "clustering": _Metric("nmi", "NMI", "Node clustering: normalised mutual information"),
}
#: the runs of each column, by data set and dimension
_Rows: TypeAlias = dict[tuple[str, int], dict[str, list[Cell]]]
_HOW = "How the table is made is said in `docs/reproduce.md`, what it shows in `docs/findings.md`."


def _paper_table(request: Request, page: str) -> list[str]:
    """A table with the paper's numbers in brackets, made and written."""
    metric = _METRICS[page]
    frozen = frozen_options(request.configs, page)
    columns = list(request.methods or TABLE_METHODS)
    rows = {
        (dataset, dim): _paper_cells(request, dataset, dim, frozen)
        for dataset in request.datasets or DATASETS
        for dim in request.dims or DIMENSIONS
    }
    entries = _entries(request, rows, metric.key)
    for where, row in entries.items():
        for method, entry in row.items():
            row[method] = Entry(entry.values, _printed(metric.key, *where, method))
    table = Table(page, metric.key, columns, entries)
    intro = (
        f"# {metric.title}\n\nMean ± standard deviation over runs, in brackets the paper's number. Made by\n\n"
        f"    {request.command(page)}\n\nwith the hyper-parameters that `hgeo tune` froze for this table in "
        f"`{request.configs or 'hgeo/reproduce/paper.json'}`, by the {metric.name} of validation nodes; the "
        'seeds here were not used there. "HAT as printed" has the paper\'s number of HAT beside it, and so has ours; '
        '"uniform weights" is our HAT, same hyper-parameters, with its attention switched off. Bold: the best '
        f"mean of a row. {_HOW}"
    )
    notes = [*_notes_on_runs(request, table), *_notes_on_settings(request, frozen, _untuned(table, frozen))]
    sections = [
        _section("Comparisons", comparisons(table)),
        _section("Baselines beside the paper's numbers", baselines(table)),
        _section("Notes", "\n".join(f"- {note}" for note in notes)),
    ]
    return [str(path) for path in write_table(table, request.out, intro, sections)] + [table.markdown()]


def _paper_cells(request: Request, dataset: str, dim: int, frozen: Mapping[str, Options]) -> dict[str, list[Cell]]:
    """The runs of each column of a row."""
    cells = {}
    for method in request.methods or TABLE_METHODS:
        if method in SHALLOW_METHODS:
            options = request.walk_options(dataset, method)
            cells[method] = shallow_cells(dataset, dim, method, options, range(request.shallow_seeds))
        else:
            cells[method] = graph_cells(dataset, dim, method, frozen, range(request.seeds))
    return cells


def _entries(request: Request, rows: _Rows, metric: str) -> dict[tuple[str, int], dict[str, Entry]]:
    """The numbers of a table from the runs of each place in it; what has no run is left out."""
    cells = [cell for row in rows.values() for some in row.values() for cell in some]
    # the first seed of every place before the second of any: a table that is stopped early has no empty corner
    results = request.results(sorted(cells, key=lambda cell: int(cell.arguments["seed"])))
    entries: dict[tuple[str, int], dict[str, Entry]] = {}
    for where, row in rows.items():
        entries[where] = {}
        for column, some in row.items():
            runs = [run for cell in some for known in results.get(cell.key, {}).values() for run in known]
            if runs:
                entries[where][column] = Entry(tuple(run[metric] for run in runs))
    return entries


def _printed(metric: str, dataset: str, dim: int, method: str) -> float | None:
    """The paper's number for a cell: HAT's stands beside HAT as printed and beside ours."""
    facts = published()
    printed = facts[metric].get(dataset, {}).get(str(dim))
    source = "hat" if method in ("hat", "hat-paper") else method
    return printed[facts["methods"].index(source)] if printed and source in facts["methods"] else None


def _untuned(table: Table, frozen: Mapping[str, Options]) -> set[str]:
    """The places of graph networks that have the settings of a usual recipe."""
    return {
        f"{dataset} {dim} {method}"
        for (dataset, dim), row in table.entries.items()
        for method in row
        if method not in SHALLOW_METHODS and f"{dataset}/{dim}/{TWINS.get(method, method)}" not in frozen
    }


def _notes_on_runs(request: Request, table: Table) -> list[str]:
    notes = [f"Runs a cell: {request.seeds} of a graph network, {request.shallow_seeds} of a shallow embedding."]
    if request.quick_walks is not None:
        where = f" on {', '.join(request.quick_walks)}" if request.quick_walks else ""
        notes.append(f"DeepWalk and Node2vec{where} with 10 walks of 40 nodes instead of the paper's 40 walks of 80.")
    fewer = []
    for method in SHALLOW_METHODS:
        counts = {len(row[method].values) for row in table.entries.values() if method in row}
        if counts and min(counts) < request.shallow_seeds:
            fewer.append(f"{method} {_range(counts)}")
    if fewer:
        notes.append(f"Fewer runs a cell so far (the CSV file says how many where): {', '.join(fewer)}.")
    missing = [
        f"{name} {dim} {method}"
        for (name, dim), row in table.entries.items()
        for method in table.columns
        if method not in row
    ]
    return [*notes, f"Not computed yet (–): {', '.join(missing)}."] if missing else notes


def _notes_on_settings(request: Request, frozen: Mapping[str, Options], untuned: set[str]) -> list[str]:
    notes = []
    if request.configs is None:
        notes.append(f"Trials of the search, a cell: {_trials(request) or 'none'}.")
    printed_is_ours = [
        " ".join(key.split("/")[:2]) for key, options in frozen.items() if key.endswith("/hat") and not options["bias"]
    ]
    if printed_is_ours:
        notes.append(f"Our HAT has the form of HAT as printed in: {', '.join(printed_is_ours)}.")
    if untuned:
        notes.append(f"Default settings, no search: {', '.join(sorted(untuned))}.")
    return notes


def _trials(request: Request) -> str:
    """How many trials the package's settings were chosen from, by data set."""
    counts: dict[str, list[str]] = {}
    for dataset, found in frozen_trials(None, request.methods or TABLE_METHODS).items():
        if not request.datasets or dataset in request.datasets:
            counts.setdefault(_range(found), []).append(dataset)
    return "; ".join(f"{count} on {', '.join(names)}" for count, names in counts.items())


def _range(counts: set[int]) -> str:
    return " to ".join(str(n) for n in sorted({min(counts), max(counts)}))


def _section(title: str, content: str) -> str:
    return f"## {title}\n\n{content}" if content else ""


def _ablation(request: Request) -> list[str]:
    rows = {
        (dataset, dim): ablation_cells(dataset, dim, range(request.seeds))
        for dataset in request.datasets or ("hierarchy", "cora", "citeseer", "photo")
        for dim in request.dims or (2, 4, 16)
    }
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    table = Table("ablation", "accuracy", columns, _entries(request, rows, "accuracy"))
    intro = (
        "# Where distance attention acts\n\nTest accuracy, mean ± standard deviation over seeds, default settings, no "
        f'search. Made by\n\n    {request.command("ablation")}\n\n"HAT (ours)" is here the default model with β = 1 in '
        "both layers; every other column changes one thing. The `hierarchy` is the built-in tree with links that cut "
        "across it; `cora+0.5` is Cora with half as many links again between random nodes. What it shows is said in "
        "`docs/findings.md`."
    )
    paths = write_table(table, request.out, intro, [_section("Comparisons", comparisons(table))])
    return [str(path) for path in paths] + [table.markdown()]


#: what can be made, and the function that makes it and returns what to print
PAGES: dict[str, Callable[[Request], list[str]]] = {
    "classification": lambda request: _paper_table(request, "classification"),
    "clustering": lambda request: _paper_table(request, "clustering"),
    "attention": attention,
    "visualization": visualization,
    "timing": timing,
    "ablation": _ablation,
    "field": field,
}


def make_page(name: str, request: Request) -> list[str]:
    """Make one of :data:`PAGES`, write it into ``request.out``, and return lines to show: paths, then the table."""
    return PAGES[name](request)
