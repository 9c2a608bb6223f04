"""The tables of the paper as pages: a line that says how each was made, the table, comparisons, notes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from hgeo.models import SHALLOW_METHODS
from hgeo.reproduce._cells import Cell
from hgeo.reproduce._field_page import field
from hgeo.reproduce._figures import attention, timing, visualization
from hgeo.reproduce._flat import Config
from hgeo.reproduce._request import Request
from hgeo.reproduce._runs import (
    DATASETS,
    DIMENSIONS,
    TABLE_METHODS,
    ablation_cells,
    graph_cells,
    published,
    shallow_cells,
)
from hgeo.reproduce._search import frozen_configs, frozen_trials
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
_HOW = "How the table is made is said in `docs/reproduce.md`, what it shows in `docs/findings.md`."


def _paper_table(request: Request, page: str) -> list[str]:
    """A table with the paper's numbers in brackets, made and written."""
    metric = _METRICS[page]
    frozen = frozen_configs(request.configs, page)
    cells = _paper_cells(request, frozen)
    results = request.results(cells)
    columns = list(request.methods or TABLE_METHODS)
    entries: dict[tuple[str, int], dict[str, Entry]] = {}
    for cell in cells:
        where = cell.arguments["dataset"], cell.arguments["dim"]
        row = entries.setdefault(where, {})
        for method, runs in results.get(cell.key, {}).items():
            known = row[method].values if method in row else ()
            values = (*known, *(run[metric.key] for run in runs))
            row[method] = Entry(values, _printed(metric.key, *where, method))
    table = Table(page, metric.key, columns, entries)
    intro = (
        f"# {metric.title}\n\nMean ± standard deviation over runs, in brackets the paper's number. Made by\n\n"
        f"    {request.command(page)}\n\nwith the hyper-parameters that `hgeo tune` froze for this table in "
        f"`{request.configs or 'hgeo/reproduce/paper.json'}`, by the {metric.name} of validation nodes; the "
        'seeds here were not used there. "HAT as printed" has the paper\'s number of HAT beside it, and so has ours; '
        '"uniform weights" is our HAT, same hyper-parameters, with its attention switched off. Bold: the best '
        f"mean of a row. {_HOW}"
    )
    untuned = _untuned(cells, results, frozen)
    notes = [*_notes_on_runs(request, table), *_notes_on_settings(request, frozen, untuned)]
    sections = [
        _section("Comparisons", comparisons(table)),
        _section("Baselines beside the paper's numbers", baselines(table)),
        _section("Notes", "\n".join(f"- {note}" for note in notes)),
    ]
    return [str(path) for path in write_table(table, request.out, intro, sections)] + [table.markdown()]


def _paper_cells(request: Request, frozen: dict[str, Config]) -> list[Cell]:
    methods = request.methods or TABLE_METHODS
    graph = [method for method in methods if method not in SHALLOW_METHODS]
    cells, embeddings = [], []
    for dataset in request.datasets or DATASETS:
        for dim in request.dims or DIMENSIONS:
            cells += graph_cells(dataset, dim, graph, frozen, range(request.seeds))
            for method in methods:
                if method in SHALLOW_METHODS:
                    options = request.walk_options(dataset, method)
                    embeddings += shallow_cells(dataset, dim, method, options, range(request.shallow_seeds))
    # the first seed of every cell before the second of any: a table that is stopped early has no empty corner
    return cells + sorted(embeddings, key=lambda cell: int(cell.arguments["seed"]))


def _printed(metric: str, dataset: str, dim: int, method: str) -> float | None:
    """The paper's number for a cell: HAT's stands beside HAT as printed and beside ours."""
    facts = published()
    printed = facts[metric].get(dataset, {}).get(str(dim))
    source = "hat" if method in ("hat", "hat-paper") else method
    return printed[facts["methods"].index(source)] if printed and source in facts["methods"] else None


def _untuned(cells: Iterable[Cell], results: dict[str, object], frozen: dict[str, Config]) -> set[str]:
    """The cells of graph networks that have default settings."""
    return {
        f"{cell.arguments['dataset']} {cell.arguments['dim']} {method}"
        for cell in cells
        if cell.key in results
        for method in cell.arguments.get("configs", ())
        if f"{cell.arguments['dataset']}/{cell.arguments['dim']}/{method.replace('hat-uniform', 'hat')}" not in frozen
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


def _notes_on_settings(request: Request, frozen: dict[str, Config], untuned: set[str]) -> list[str]:
    notes = []
    if request.configs is None:
        notes.append(f"Trials of the search, a cell: {_trials(request) or 'none'}.")
    printed_is_ours = [
        " ".join(key.split("/")[:2]) for key, config in frozen.items() if key.endswith("/hat") and not config.bias
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
    names = {"β = 1": "hat", "uniform weights": "hat-uniform", "GAT": "gat", "GCN": "gcn"}
    columns: list[str] = []
    entries: dict[tuple[str, int], dict[str, Entry]] = {}
    cells = [
        cell
        for dataset in request.datasets or ("hierarchy", "cora", "citeseer", "photo")
        for dim in request.dims or (2, 4, 16)
        for cell in ablation_cells(dataset, dim, range(request.seeds))
    ]
    results = request.results(cells)
    for cell in cells:
        row = entries.setdefault((cell.arguments["dataset"], cell.arguments["dim"]), {})
        for variant, runs in results.get(cell.key, {}).items():
            name = names.get(variant, variant)
            row[name] = Entry(tuple(run["accuracy"] for run in runs))
            if name not in columns:
                columns.append(name)
    table = Table("ablation", "accuracy", columns, entries)
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
