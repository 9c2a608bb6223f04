"""Hyper-parameter search: the same budget for every method, validation nodes only.

A cell is (data set, dimension, method). Trials are proposed by optuna's TPE sampler in rounds, for validation accuracy;
the runs of a round share batches of :mod:`hgeo.train._batched`. The best few are then run again with further seeds, in
two finals, and the best over all its seeds is frozen: one configuration for node classification, by the mean accuracy
of the validation nodes, and one for clustering, by the mean NMI of their clusters. Test nodes are never evaluated here.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import torch

from hgeo.models._config import Config, defaults
from hgeo.tasks import clustering_nmi
from hgeo.train._batched import BATCHED_METHODS, Run, Views, train_runs
from hgeo.train._cells import LARGE, Cell, graph_price

__all__ = [
    "TASKS",
    "Budget",
    "frozen_configs",
    "search_space",
    "tune_cell",
    "tuning_cell",
    "usual_budget",
    "write_frozen",
]

#: runs of a search use seeds from here on, those of a table the seeds from 0: no table run was ever chosen by
TUNING_SEED = 1000
#: what a configuration can be frozen for
TASKS = ("classification", "clustering")


@dataclass(frozen=True)
class Budget:
    """How much a cell may spend, whatever the method.

    ``finals`` are (how many trials go on for each task, with how many further seeds each), one final after the other:
    a few seeds on a few hundred validation nodes are too little to choose by, and too much to spend on a poor trial.
    """

    rounds: int = 4
    trials: int = 16
    seeds: int = 3
    finals: tuple[tuple[int, int], ...] = ((8, 4), (3, 8))
    epochs: int = 300
    patience: int = 50
    eval_every: int = 2


def usual_budget(dataset: str) -> Budget:
    """What a cell gets if nothing else is asked for, whatever the method; on a large graph fewer and shorter runs."""
    if dataset in LARGE:
        return Budget(rounds=3, seeds=1, finals=((6, 3), (3, 6)), epochs=150, patience=40, eval_every=3)
    return Budget()


def search_space(method: str) -> dict[str, Any]:
    """optuna's distributions of everything that is searched for a method.

    Training, dropouts, the read-out and degree normalisation are the same for all methods where they apply (a GCN is
    always normalised, and drops edges where the others drop attention); HAT adds its two sharpnesses, the self-loop's
    score and whether radii are normalised. The printed HAT has no further choice: c = 1, β = 1, no bias, log0 of the
    second layer.
    """
    from optuna.distributions import CategoricalDistribution, FloatDistribution

    space: dict[str, Any] = {
        "lr": FloatDistribution(0.005, 0.06, log=True),
        "weight_decay": FloatDistribution(5e-5, 1e-2, log=True),
        "feat_drop": FloatDistribution(0.2, 0.8, step=0.2),
        "hidden_drop": CategoricalDistribution([0.0, 0.3, 0.6]),
        "attn_drop": CategoricalDistribution([0.0, 0.3, 0.6]),
        "label_smoothing": CategoricalDistribution([0.0, 0.1, 0.2]),
    }
    if method != "hat-paper":
        space["readout"] = CategoricalDistribution(["log0", "linear"])
    if method in ("hat", "hat-uniform", "gat"):
        space["degree_norm"] = CategoricalDistribution([False, True])
    if method == "hat":
        space["beta"] = FloatDistribution(0.03, 3.0, log=True)
        space["beta_out"] = FloatDistribution(0.03, 3.0, log=True)
        space["self_score"] = CategoricalDistribution(["zero", "mean"])
        space["radius_norm"] = CategoricalDistribution([True, False])
    return space


def tune_cell(
    dataset: str, dim: int, method: str, budget: dict[str, Any], data_dir: str | None = None
) -> dict[str, Any]:
    """Search one cell; returns what was chosen for each task with its validation score, and every trial."""
    import optuna

    from hgeo.data import load

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    allowed = Budget(**budget)
    views = Views(load(dataset, data_dir=data_dir))
    space = search_space(method)
    base = replace(defaults(method, dim), epochs=allowed.epochs, patience=allowed.patience)
    study = optuna.create_study(
        direction="maximize", sampler=optuna.samplers.TPESampler(seed=0, multivariate=True, n_startup_trials=8)
    )
    for start in _starting_points(base):
        study.enqueue_trial({name: _admissible(_value(start, name), kind) for name, kind in space.items()})

    tried: list[_Trial] = []
    for _ in range(allowed.rounds):
        asked = [study.ask(space) for _ in range(allowed.trials)]
        proposed = [_Trial(replace(base, **trial.params)) for trial in asked]
        _run(views, proposed, allowed.seeds, allowed.eval_every)
        for trial, answer in zip(asked, proposed, strict=True):
            study.tell(trial, answer.score("classification"))
        tried += proposed

    best = dict.fromkeys(TASKS, tried)
    for count, seeds in allowed.finals:
        best = {task: _ranked(trials, task)[:count] for task, trials in best.items()}
        _run(
            views,
            list({id(trial): trial for trials in best.values() for trial in trials}.values()),
            seeds,
            allowed.eval_every,
        )
    winners = {task: _ranked(trials, task)[0] for task, trials in best.items()}
    return {
        "chosen": {task: {"config": trial.config.to_dict(), **trial.means()} for task, trial in winners.items()},
        "trials": [
            {"config": trial.config.to_dict(), "runs": [run._asdict() for run in trial.runs]} for trial in tried
        ],
    }


class _Score(NamedTuple):
    """What one run reached on validation nodes."""

    accuracy: float
    loss: float
    nmi: float


@dataclass
class _Trial:
    """A configuration and its runs, seed by seed."""

    config: Config
    runs: list[_Score] = field(default_factory=list)

    def score(self, task: str) -> float:
        """Mean NMI, or mean accuracy and a hundredth of the loss to tell apart what 500 nodes cannot."""
        if task == "clustering":
            return statistics.fmean(run.nmi for run in self.runs)
        return statistics.fmean(run.accuracy - 0.01 * min(run.loss, 10.0) for run in self.runs)

    def means(self) -> dict[str, Any]:
        return {
            "val_accuracy": statistics.fmean(run.accuracy for run in self.runs),
            "val_nmi": statistics.fmean(run.nmi for run in self.runs),
            "seeds": len(self.runs),
        }


def _ranked(trials: Iterable[_Trial], task: str) -> list[_Trial]:
    return sorted(trials, key=lambda trial: trial.score(task), reverse=True)


def _run(views: Views, trials: Sequence[_Trial], seeds: int, eval_every: int) -> None:
    """Run every trial with its next ``seeds`` seeds."""
    owners = [trial for trial in trials for _ in range(seeds)]
    runs = [Run(trial.config, TUNING_SEED + len(trial.runs) + extra) for trial in trials for extra in range(seeds)]
    labels = views.labels[torch.from_numpy(views.val.nodes)]
    for trial, result in zip(owners, train_runs(views, runs, evaluate=views.val, eval_every=eval_every), strict=True):
        assert result.hidden is not None
        # a run that has diverged has no clusters
        finite = bool(torch.isfinite(result.hidden).all())
        nmi = clustering_nmi(result.hidden, labels, seed=result.seed) if finite else 0.0
        trial.runs.append(_Score(result.val_accuracy, result.val_loss, nmi))


def _starting_points(base: Config) -> list[Config]:
    """Where every search begins, whatever the method: the defaults, three more strongly regularised forms of them, and
    a weakly regularised one with a linear read-out, for graphs that have more to learn than their labels tell.

    Some normalise by degree, where that is a choice; where there is a β, one attends as the paper prints it and the
    others softly.
    """
    return [
        base,
        replace(base, weight_decay=2e-3, attn_drop=0.6, degree_norm=True, beta=0.1),
        replace(base, feat_drop=0.8, lr=0.02, weight_decay=1e-3, beta=0.1),
        replace(base, weight_decay=5e-3, attn_drop=0.6, beta=1.0, self_score="zero", radius_norm=False),
        replace(base, feat_drop=0.4, weight_decay=1e-4, lr=0.03, degree_norm=False, beta=0.1, readout="linear"),
    ]


def _value(config: Config, name: str) -> Any:
    return config.betas[1] if name == "beta_out" else getattr(config, name)


def _admissible(value: Any, kind: Any) -> Any:
    """The value if the space contains it, else the nearest that it does."""
    if hasattr(kind, "choices"):
        numbers = [choice for choice in kind.choices if not isinstance(choice, str | bool)]
        return min(numbers, key=lambda choice: abs(choice - value)) if numbers else value
    value = min(max(value, kind.low), kind.high)
    return value if kind.step is None else kind.low + round((value - kind.low) / kind.step) * kind.step


def tuning_cell(dataset: str, dim: int, method: str, budget: Budget) -> Cell:
    """The search of one table cell as a piece of cached work."""
    if method not in BATCHED_METHODS:
        raise ValueError(f"cannot tune {method!r}; the search knows {', '.join(BATCHED_METHODS)}")
    arguments = {"dataset": dataset, "dim": dim, "method": method, "budget": asdict(budget)}
    return Cell("hgeo.train._tune:tune_cell", arguments, cost=graph_price(dataset, dim), version=2)


# ---------------------------------------------------------------------------------------------------------------------
# Frozen configurations


def frozen_configs(path: Path | None = None, task: str = "classification") -> dict[str, Config]:
    """What the search chose for a task, by ``dataset/dimension/method``; from the package unless ``path`` is given."""
    if path is None:
        source = resources.files("hgeo.models").joinpath("configs/paper.json")
        text = source.read_text() if source.is_file() else '{"cells": {}}'
    else:
        text = path.read_text()
    return {key: Config.from_dict(cell[task]["config"]) for key, cell in json.loads(text)["cells"].items()}


def write_frozen(path: Path, chosen: Iterable[tuple[Cell, dict[str, Any]]]) -> int:
    """Write (merge into) the file of frozen configurations; returns how many cells it holds."""
    known: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {"about": _ABOUT, "cells": {}}
    for cell, result in chosen:
        where = cell.arguments
        known["cells"][f"{where['dataset']}/{where['dim']}/{where['method']}"] = {
            "trials": len(result["trials"]),
            **{task: _rounded(choice) for task, choice in result["chosen"].items()},
        }
    known["cells"] = dict(sorted(known["cells"].items(), key=_table_order))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(known, indent=1) + "\n")
    return len(known["cells"])


def _rounded(choice: dict[str, Any]) -> dict[str, Any]:
    return {name: round(value, 4) if isinstance(value, float) else value for name, value in choice.items()}


_ABOUT = "Chosen by `hgeo tune` on validation nodes; test nodes were not evaluated. Keys: data set/dimension/method."


def _table_order(item: tuple[str, Any]) -> tuple[str, int, str]:
    dataset, dim, method = item[0].split("/")
    return dataset, int(dim), method
