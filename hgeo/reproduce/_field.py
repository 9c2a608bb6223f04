"""The field's benchmark: nodes and links of four graphs, every model with the same search, curved beside flat."""

from __future__ import annotations

import dataclasses
import itertools
import math
import statistics
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from hgeo.data import load
from hgeo.models import find, flat_twin
from hgeo.reproduce._cells import Cell, cell_work, graph_price
from hgeo.reproduce._request import Request
from hgeo.tasks import find_task, node_baselines
from hgeo.train import Job, TrainingError

__all__ = ["FIELD_DATASETS", "FIELD_MODELS", "Column", "FieldCell", "Row", "columns", "compute", "rows"]

FIELD_DATASETS = ("disease", "airport", "cora", "pubmed")
FIELD_MODELS = ("mlp", "gcn", "gat", "sage", "hgcn", "hat", "hat-uniform", "lorentz")

_LOW = ("disease", "airport")  # also in two dimensions, and with learned curvatures and products
_SPLIT_SEED = {"nodes": 0, "links": 1234}  # of HGCN's links; no trial sees a test node or link of the runs
_SEARCH_SEED = 1000  # no seed of a reported run
_LINK_FEATURES = dict.fromkeys(_LOW, "auto+degrees")

Options = dict[str, Any]


class Row(NamedTuple):
    """A line of a table."""

    task: str
    dataset: str
    dim: int


class Column(NamedTuple):
    """A model in a space; ``twin_of`` names the curved column that a flat one belongs to."""

    name: str
    model: str
    space: str
    twin_of: str | None = None


@dataclasses.dataclass(frozen=True)
class FieldCell:
    """What came out: the settings that were chosen, the validation score of each choice, and the runs by seed."""

    options: Options
    trials: list[tuple[Options, list[float]]]
    runs: list[dict[str, Any]]

    def values(self, metric: str) -> list[float]:
        """The metric of each run that gave a model."""
        return [run[metric] for run in self.runs if metric in run]

    def difference(self, other: FieldCell, metric: str) -> tuple[float, float] | None:
        """Mean and standard error of the differences, seed by seed."""
        beside = {run["seed"]: run[metric] for run in other.runs if metric in run}
        found = [run[metric] - beside[run["seed"]] for run in self.runs if metric in run and run["seed"] in beside]
        return mean_error(found) if found else None


def mean_error(values: Sequence[float]) -> tuple[float, float]:
    """Mean and standard error."""
    error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    return statistics.fmean(values), error


def rows(request: Request) -> list[Row]:
    """The lines that are asked for: the field's, or each data set in each dimension."""
    datasets, dims = request.datasets or FIELD_DATASETS, request.dims
    return [
        Row(task, dataset, dim)
        for task in request.tasks or ("nodes", "links")
        for dataset in datasets
        for dim in dims or ((16, 2) if dataset in _LOW else (16,))
    ]


def columns(request: Request, row: Row) -> list[Column]:
    """Models that need no curvature, and curved ones, each with its flat twin behind it."""
    found = []
    for model in request.methods or FIELD_MODELS:
        entry = find(model)
        if not entry.curved:
            found.append(Column(model, model, f"euclidean:{row.dim}"))
            continue
        space = entry.space_for(None, row.dim)
        found += [Column(model, model, space), Column(f"{model}, flat", model, flat_twin(space), model)]
        if row.dataset in _LOW and model == "hat":
            found.append(Column(f"{model}, c learned", model, f"ball:{row.dim},c=learn"))
            if row.dim >= 4:
                half = row.dim // 2
                found.append(Column(f"{model}, product", model, f"ball:{half} x euclidean:{row.dim - half}"))
    return found


def _choices(task: str) -> Iterator[Options]:
    """Eight settings, the same for every model; the first are tried if fewer are asked for."""
    if task == "links":
        for mask, weight_decay in itertools.product((0.2, 0.5), (1e-3, 1e-4)):
            for decoder in ("squared-distance", "inner-product"):
                yield {"mask": mask, "weight_decay": weight_decay, "decoder": decoder}
        return
    for recipe in ("deep", "dense", "own", "walk", "decay", "hierarchy"):
        yield {"recipe": recipe}
    yield {"recipe": "deep", "lr": 0.03}
    yield {"recipe": "dense", "weight_decay": 2e-3}


@cell_work("field run")
def field_run(
    task: str,
    dataset: str,
    model: str,
    space: str,
    options: Options,
    features: str,
    split: str | None,
    split_seed: int,
    seed: int,
    *,
    data_dir: str | None = None,
) -> dict[str, Any]:
    """One training: its scores, and ``watched``, what a choice of settings compares."""
    settings = dict(options)
    job = Job(
        dataset, model, space, task=task, split=split, features=features, seed=seed, split_seed=split_seed,
        recipe=settings.pop("recipe", "usual"), options=settings, data_dir=data_dir,
    )  # fmt: skip
    prepared = job.prepare(job.load())
    try:
        result = job.run(prepared)
    except TrainingError:
        return {"seed": seed, "watched": [-math.inf]}
    kept = ("seed", "epochs", "cpu_seconds", "curvatures", "parameters")
    scores = {name: value for name, value in result.items() if name.startswith(("val_", "test_")) or name in kept}
    validation = {name: value for name, value in result.items() if name.startswith("val_")}
    return {**scores, "watched": list(prepared.watched(validation))}


@cell_work("field beside")
def field_beside(
    task: str, dataset: str, features: str, split: str | None, split_seed: int, *, data_dir: str | None = None
) -> dict[str, dict[str, float]]:
    """Test scores of what needs no learning or no graph."""
    data = load(
        dataset, data_dir=data_dir, features=features, split=None if task == "links" else split, split_seed=split_seed
    )
    if task == "nodes":
        return node_baselines(data)
    return find_task(task)(data, split=split, seed=split_seed).beside()


def _how(row: Row) -> dict[str, Any]:
    """Data, features and split of a line."""
    links = row.task == "links"
    return {
        "task": row.task,
        "dataset": row.dataset,
        "features": _LINK_FEATURES.get(row.dataset, "auto") if links else "auto",
        "split": "official" if links else None,
        "split_seed": _SPLIT_SEED[row.task],
    }


def _cell(request: Request, row: Row, column: Column, options: Options, seed: int) -> Cell:
    if request.epochs is not None:
        options = {**options, "epochs": request.epochs}
    arguments = {**_how(row), "model": column.model, "space": column.space, "options": options, "seed": seed}
    price = graph_price(row.dataset, row.dim) * (3.0 if row.task == "links" else 1.0)
    return Cell(field_run, arguments, price)


def compute(
    request: Request, table: Sequence[Row]
) -> tuple[dict[tuple[Row, str], FieldCell], dict[Row, dict[str, dict[str, float]]]]:
    """All trials, then the runs with the settings that won on validation data; and what stands beside each line."""
    places = [(row, column) for row in table for column in columns(request, row)]
    choices = {row: list(itertools.islice(_choices(row.task), request.trials)) for row in table}
    tried = {
        (row, column): [_cell(request, row, column, options, _SEARCH_SEED) for options in choices[row]]
        for row, column in places
    }
    results = request.results([cell for cells in tried.values() for cell in cells])
    trials, chosen = {}, {}
    for place, cells in tried.items():
        if all(cell.key in results for cell in cells):
            scores = [results[cell.key]["watched"] for cell in cells]
            trials[place] = list(zip(choices[place[0]], scores, strict=True))
            chosen[place] = max(trials[place], key=lambda trial: trial[1])[0]
    wanted = {
        place: [_cell(request, *place, options, seed) for seed in range(request.seeds)]
        for place, options in chosen.items()
    }
    beside = {row: Cell(field_beside, _how(row), 0.2) for row in table}
    by_seed = itertools.chain(*zip(*wanted.values(), strict=True))  # a table that is not finished compares what it has
    results = request.results([*beside.values(), *by_seed])
    found = {
        (place[0], place[1].name): FieldCell(
            chosen[place], trials[place], [results[cell.key] for cell in cells if cell.key in results]
        )
        for place, cells in wanted.items()
    }
    return found, {row: results[cell.key] for row, cell in beside.items() if cell.key in results}
