"""Hyper-parameter search: the same budget for every method, validation nodes only.

A cell is (data set, dimension, method). Trials are proposed by optuna's TPE sampler in rounds; the runs of a round
share batches of :mod:`hgeo.train._batched`. The best few are then run again with further seeds, in two finals, and the
one with the best mean validation accuracy over all its seeds is frozen. Test nodes are never evaluated here.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any

from hgeo.models._config import Config, defaults
from hgeo.train._batched import BATCHED_METHODS, Run, Views, train_runs
from hgeo.train._cells import LARGE, Cell, graph_price

__all__ = [
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


@dataclass(frozen=True)
class Budget:
    """How much a cell may spend, whatever the method.

    ``finals`` are (how many trials go on, with how many further seeds each), one final after the other: a single seed
    on a few hundred validation nodes is too little to choose by, and too much to spend on a poor trial.
    """

    rounds: int = 3
    trials: int = 16
    seeds: int = 1
    finals: tuple[tuple[int, int], ...] = ((8, 2), (3, 8))
    epochs: int = 300
    patience: int = 50
    eval_every: int = 2

    @property
    def total_trials(self) -> int:
        return self.rounds * self.trials

    @property
    def runs(self) -> int:
        return self.total_trials * self.seeds + sum(trials * seeds for trials, seeds in self.finals)


def usual_budget(dataset: str, dim: int) -> Budget:
    """What a cell gets if nothing else is asked for: the same for every method.

    A large graph gets shorter runs. Few dimensions leave much to the seed (a standard deviation of 0.03 at d = 2 on
    Cora), so there a trial is judged by three of them.
    """
    if dataset in LARGE:
        return Budget(epochs=150, patience=40, eval_every=3)
    return Budget(seeds=3 if dim <= 4 else 1)


def search_space(method: str) -> dict[str, Any]:
    """optuna's distributions of everything that is searched for a method.

    Training, dropouts, the read-out and degree normalisation are the same for all methods where they apply (a GCN is
    always normalised, and drops edges where the others drop attention); HAT adds its two sharpnesses and the
    self-loop's score. The printed HAT has no further choice: c = 1, β = 1, no bias, log0 of the second layer.
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
    return space


def tune_cell(
    dataset: str, dim: int, method: str, budget: dict[str, Any], data_dir: str | None = None
) -> dict[str, Any]:
    """Search one cell; returns the chosen configuration, its validation accuracy, and every trial."""
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
            study.tell(trial, answer.score)
        tried += proposed

    best = tried
    for count, seeds in allowed.finals:
        best = sorted(best, key=lambda trial: trial.score, reverse=True)[:count]
        _run(views, best, seeds, allowed.eval_every)
    winner = max(best, key=lambda trial: trial.score)
    return {
        "config": winner.config.to_dict(),
        "val_accuracy": statistics.fmean(winner.accuracies),
        "seeds": len(winner.accuracies),
        "trials": [{"config": trial.config.to_dict(), "val_accuracy": trial.accuracies} for trial in tried],
    }


@dataclass
class _Trial:
    """A configuration and what its runs reached on validation nodes, seed by seed."""

    config: Config
    accuracies: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)

    @property
    def score(self) -> float:
        """Mean accuracy, and a hundredth of the loss to tell apart what 500 nodes cannot."""
        return statistics.fmean(self.accuracies) - 0.01 * statistics.fmean(min(loss, 10.0) for loss in self.losses)


def _run(views: Views, trials: Sequence[_Trial], seeds: int, eval_every: int) -> None:
    """Run every trial with its next ``seeds`` seeds."""
    owners = [trial for trial in trials for _ in range(seeds)]
    runs = [
        Run(trial.config, TUNING_SEED + len(trial.accuracies) + extra) for trial in trials for extra in range(seeds)
    ]
    for trial, result in zip(owners, train_runs(views, runs, eval_every=eval_every), strict=True):
        trial.accuracies.append(result.val_accuracy)
        trial.losses.append(result.val_loss)


def _starting_points(base: Config) -> list[Config]:
    """Where every search begins, whatever the method: the defaults, two more strongly regularised forms of them, and a
    weakly regularised one with a linear read-out, for graphs that have more to learn than their labels tell.

    Some normalise by degree, where that is a choice; all but the first attend softly, where there is a β.
    """
    return [
        base,
        replace(base, weight_decay=2e-3, attn_drop=0.6, degree_norm=True, beta=0.1),
        replace(base, feat_drop=0.8, lr=0.02, weight_decay=1e-3, beta=0.1),
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
    return Cell("hgeo.train._tune:tune_cell", arguments, cost=graph_price(dataset, dim))


# ---------------------------------------------------------------------------------------------------------------------
# Frozen configurations


def frozen_configs(path: Path | None = None) -> dict[str, Config]:
    """What the search chose, by ``dataset/dimension/method``; from the package unless ``path`` is given."""
    if path is None:
        source = resources.files("hgeo.models").joinpath("configs/paper.json")
        text = source.read_text() if source.is_file() else '{"cells": {}}'
    else:
        text = path.read_text()
    return {key: Config.from_dict(cell["config"]) for key, cell in json.loads(text)["cells"].items()}


def write_frozen(path: Path, chosen: Iterable[tuple[Cell, dict[str, Any]]]) -> int:
    """Write (merge into) the file of frozen configurations; returns how many cells it holds."""
    known: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {"about": _ABOUT, "cells": {}}
    for cell, result in chosen:
        where = cell.arguments
        known["cells"][f"{where['dataset']}/{where['dim']}/{where['method']}"] = {
            "config": result["config"],
            "val_accuracy": round(result["val_accuracy"], 4),
            "trials": len(result["trials"]),
            "seeds": result["seeds"],
        }
    known["cells"] = dict(sorted(known["cells"].items(), key=_table_order))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(known, indent=1) + "\n")
    return len(known["cells"])


_ABOUT = "Chosen by `hgeo tune` on validation nodes; test nodes were not evaluated. Keys: data set/dimension/method."


def _table_order(item: tuple[str, Any]) -> tuple[str, int, str]:
    dataset, dim, method = item[0].split("/")
    return dataset, int(dim), method
