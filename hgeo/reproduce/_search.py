"""Hyper-parameter search: the same budget for every method, validation nodes only.

A cell is (data set, dimension, method). Trials are proposed by optuna's TPE sampler in rounds, in turns for the
accuracy of validation nodes and for the NMI of their clusters; the runs of a round share batches of
:mod:`hgeo.reproduce._batched`. The best few are then run again with further seeds, in two finals, and the best over all
its seeds is frozen: one configuration for node classification and one for clustering. Test nodes are never evaluated
here.

A search may go on from what earlier ones froze. It then begins with the winners of *every* method of the cell, in its
own method's terms: what one method has found out about a graph (how much dropout it bears, say) serves all of them.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from hgeo._files import write_atomically
from hgeo.reproduce._batched import BATCHED_METHODS, Run, Views, train_runs
from hgeo.reproduce._cells import LARGE, Cell, cell_work, graph_price
from hgeo.reproduce._flat import Config, defaults
from hgeo.reproduce._runs import FIXED_SPLIT
from hgeo.tasks import clustering_nmi

if TYPE_CHECKING:
    from hgeo.data import Dataset

__all__ = [
    "SEARCHED_METHODS",
    "TASKS",
    "Budget",
    "frozen_configs",
    "frozen_trials",
    "frozen_winners",
    "redrawn_splits",
    "search_space",
    "tune_cell",
    "tuning_cell",
    "usual_budget",
    "write_frozen",
]

#: what is searched if nothing else is asked for; a uniform HAT has the settings of HAT
SEARCHED_METHODS = ("hat", "hat-paper", "gcn", "gat")
#: runs of a search use seeds from here on, those of a table the seeds from 0: no table run was ever chosen by
TUNING_SEED = 1000
# One split that all trials share would be learned by heart. Of data with a public split, its own and four further draws
# of the training nodes from those that train or validate there; of others none on which a table is run (1 to 5).
_REDRAWN_SPLITS = 4
_TUNING_SPLITS = (0, 6, 7)
# A network that may walk several steps goes on with so many from the winner of one that may not.
_FIRST_STEPS = 4
# Methods whose second layer may walk several steps.
_DIFFUSED = ("hat", "hat-uniform", "gcn-diffused")
#: what a configuration can be frozen for
TASKS = ("classification", "clustering")


@dataclass(frozen=True)
class Budget:
    """How much a cell may spend, whatever the method.

    ``finals`` are (how many trials go on for each task, with how many further seeds each), one final after the other:
    a few seeds on a few hundred validation nodes are too little to choose by, and too much to spend on a poor trial.
    """

    rounds: int = 4
    trials: int = 12
    seeds: int = 5
    finals: tuple[tuple[int, int], ...] = ((6, 5), (2, 10))
    epochs: int = 300
    patience: int = 50
    eval_every: int = 2


def usual_budget(dataset: str) -> Budget:
    """What a cell gets if nothing else is asked for, whatever the method; on a large graph fewer and shorter runs."""
    if dataset in LARGE:
        return Budget(rounds=3, seeds=3, finals=((6, 3), (3, 6)), epochs=150, patience=40, eval_every=3)
    return Budget()


def search_space(method: str) -> dict[str, Any]:
    """optuna's distributions of everything that is searched for a method.

    Training, dropouts, the read-out and degree normalisation are the same for all methods where they apply (a GCN is
    always normalised, and drops edges where the others drop attention); HAT and the diffused GCN add the steps of their
    second layer and the restart; HAT adds its two sharpnesses, the self-loop's score and whether radii are normalised.
    The printed HAT has no further choice: c = 1, β = 1, no bias, log0 of the
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
        space["beta"] = FloatDistribution(0.01, 3.0, log=True)
        space["beta_out"] = FloatDistribution(0.01, 3.0, log=True)
        space["self_score"] = CategoricalDistribution(["zero", "mean"])
        space["radius_norm"] = CategoricalDistribution([True, False])
    if method in _DIFFUSED:
        space["steps"] = CategoricalDistribution([1, 4, 8])
        space["restart"] = FloatDistribution(0.1, 0.3, step=0.1)
    return space


def redrawn_splits(data: Dataset, count: int) -> list[Dataset]:
    """The data with other training nodes, as many a class, drawn from its training and validation nodes; the others
    validate. Test nodes stay test nodes."""
    nodes = torch.cat([data.train_idx, data.val_idx]).numpy()
    labels = data.labels.numpy()
    splits = []
    for seed in range(count):
        generator = np.random.default_rng(seed)
        train = [
            generator.permutation(nodes[labels[nodes] == label])[:size]
            for label, size in enumerate(np.bincount(labels[data.train_idx.numpy()]))
        ]
        chosen = np.sort(np.concatenate(train))
        rest = np.setdiff1d(nodes, chosen)
        splits.append(replace(data, train_idx=torch.from_numpy(chosen), val_idx=torch.from_numpy(rest)))
    return splits


def _tuning_splits(dataset: str, data_dir: str | None) -> list[Dataset]:
    from hgeo.data import load

    if dataset in FIXED_SPLIT:
        data = load(dataset, data_dir=data_dir)
        return [data, *redrawn_splits(data, _REDRAWN_SPLITS)]
    return [load(dataset, data_dir=data_dir, split_seed=split) for split in _TUNING_SPLITS]


@cell_work("tune cell")
def tune_cell(
    dataset: str,
    dim: int,
    method: str,
    budget: dict[str, Any],
    starts: Sequence[dict[str, Any]] = (),
    data_dir: str | None = None,
) -> dict[str, Any]:
    """Search one cell; returns what was chosen for each task with its validation score, and every trial.

    ``starts`` are configurations of any method to begin with, in place of the usual ones.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    allowed = Budget(**budget)
    views = Views(*_tuning_splits(dataset, data_dir))
    space = search_space(method)
    base = replace(defaults(method, dim), epochs=allowed.epochs, patience=allowed.patience)
    studies = {
        task: optuna.create_study(
            direction="maximize", sampler=optuna.samplers.TPESampler(seed=0, multivariate=True, n_startup_trials=8)
        )
        for task in TASKS
    }
    waiting = [_within(_adopted(Config.from_dict(start), base), space) for start in starts]
    waiting = list(dict.fromkeys(waiting or (_searched(start, base, space) for start in _starting_points(base))))

    tried: list[_Trial] = []
    for number in range(allowed.rounds):
        task = TASKS[number % len(TASKS)]
        given, waiting = waiting[: allowed.trials], waiting[allowed.trials :]
        asked = [studies[task].ask(space) for _ in range(allowed.trials - len(given))]
        proposed = [_Trial(config) for config in given] + [_Trial(replace(base, **trial.params)) for trial in asked]
        _run(views, proposed, allowed.seeds, allowed.eval_every)
        for trial, answer in zip(asked, proposed[len(given) :], strict=True):
            studies[task].tell(trial, answer.score(task))
        for place, answer in enumerate(proposed):
            values = {name: _value(answer.config, name) for name in space}
            can_be_proposed = replace(base, **values) == answer.config
            for learner, study in studies.items():
                asked_here = learner == task and place >= len(given)
                if can_be_proposed and not asked_here:
                    study.add_trial(
                        optuna.trial.create_trial(params=values, distributions=space, value=answer.score(learner))
                    )
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
        return statistics.fmean(run.accuracy - 0.01 * (run.loss if run.loss < 10 else 10.0) for run in self.runs)

    def means(self) -> dict[str, Any]:
        return {
            "val_accuracy": statistics.fmean(run.accuracy for run in self.runs),
            "val_nmi": statistics.fmean(run.nmi for run in self.runs),
            "seeds": len(self.runs),
        }


def _ranked(trials: Iterable[_Trial], task: str) -> list[_Trial]:
    return sorted(trials, key=lambda trial: trial.score(task), reverse=True)


def _run(views: Views, trials: Sequence[_Trial], seeds: int, eval_every: int) -> None:
    """Run every trial with its next ``seeds`` seeds; if there are several splits, in turns on them."""
    owners = [(trial, len(trial.runs) + extra) for trial in trials for extra in range(seeds)]
    runs = [Run(trial.config, TUNING_SEED + turn, turn % len(views.val_share)) for trial, turn in owners]
    labels = views.labels[torch.from_numpy(views.val.nodes)]
    results = train_runs(views, runs, evaluate=views.val, eval_every=eval_every)
    for (trial, _), result in zip(owners, results, strict=True):
        assert result.hidden is not None
        mine = views.val_share[result.split] > 0
        hidden = result.hidden[mine]
        # a run that has diverged has no clusters
        finite = bool(torch.isfinite(hidden).all())
        nmi = clustering_nmi(hidden, labels[mine], seed=result.seed) if finite else 0.0
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


def _adopted(start: Config, base: Config) -> Config:
    """A configuration of any method, in the terms of ``base``'s: the training settings that all methods share, and
    what describes the model where both have it. A GCN is the HAT of the softest attention, normalised by degree; HAT
    as printed is a HAT."""
    method = base.method
    if start.method == method or (method, start.method) == ("hat", "hat-paper"):
        config = replace(start, method=method)
    else:
        shared = {name: getattr(start, name) for name in search_space("hat-paper")}
        config = replace(base, **shared, beta=0.0 if method == "hat" else base.beta)
        if method != "hat-paper":
            normalised = start.degree_norm or start.kind == "gcn"
            config = replace(config, readout=start.readout, degree_norm=base.kind != "gcn" and normalised)
        if method in _DIFFUSED:
            walked = start.steps if start.method in _DIFFUSED else _FIRST_STEPS
            config = replace(config, steps=walked, restart=start.restart)
    return replace(config, epochs=base.epochs, patience=base.patience)


def _within(config: Config, space: dict[str, Any]) -> Config:
    """The configuration with everything that is searched moved to the nearest value that the search can propose."""
    return _searched(config, config, space)


def _searched(config: Config, base: Config, space: dict[str, Any]) -> Config:
    """``base`` with what is searched taken from a configuration: what the search could have proposed."""
    return replace(base, **{name: _admissible(_value(config, name), kind) for name, kind in space.items()})


def _value(config: Config, name: str) -> Any:
    return config.betas[1] if name == "beta_out" else getattr(config, name)


def _admissible(value: Any, kind: Any) -> Any:
    """The value if the space contains it, else the nearest that it does."""
    if hasattr(kind, "choices"):
        numbers = [choice for choice in kind.choices if not isinstance(choice, str | bool)]
        return min(numbers, key=lambda choice: abs(choice - value)) if numbers else value
    value = min(max(value, kind.low), kind.high)
    # the last value of a grid may be rounded to one beyond it
    return value if kind.step is None else min(kind.high, kind.low + round((value - kind.low) / kind.step) * kind.step)


def tuning_cell(
    dataset: str, dim: int, method: str, budget: Budget, winners: dict[str, dict[str, Config]] | None = None
) -> Cell:
    """The search of one table cell as a piece of cached work; ``winners`` (:func:`frozen_winners`) are where it goes
    on from, if there are any of this data set and dimension."""
    if method not in BATCHED_METHODS:
        raise ValueError(f"cannot tune {method!r}; the search knows {', '.join(BATCHED_METHODS)}")
    starts = [
        config.to_dict()
        for found in (winners or {}).values()
        for name, config in found.items()
        if name.rpartition("/")[0] == f"{dataset}/{dim}"
    ]
    arguments = {"dataset": dataset, "dim": dim, "method": method, "budget": asdict(budget), "starts": starts}
    return Cell(tune_cell, arguments, cost=graph_price(dataset, dim), version=5)


# ---------------------------------------------------------------------------------------------------------------------
# Frozen configurations


def frozen_configs(path: Path | None = None, task: str = "classification") -> dict[str, Config]:
    """What the search chose for a task, by ``dataset/dimension/method``; from the package unless ``path`` is given."""
    return {key: Config.from_dict(cell[task]["config"]) for key, cell in _frozen_cells(path).items()}


def frozen_trials(path: Path | None, methods: Sequence[str]) -> dict[str, set[int]]:
    """How many trials the cells of each data set were chosen from, for the ``methods``; the uniform HAT's are HAT's."""
    searched = {"hat" if method == "hat-uniform" else method for method in methods}
    counts: dict[str, set[int]] = {}
    for key, cell in sorted(_frozen_cells(path).items()):
        if "trials" in cell and key.rpartition("/")[2] in searched:  # a file may be written by hand
            counts.setdefault(key.partition("/")[0], set()).add(cell["trials"])
    return counts


def _frozen_cells(path: Path | None) -> dict[str, Any]:
    source = resources.files("hgeo.reproduce").joinpath("paper.json") if path is None else path
    if path is None and not source.is_file():
        return {}
    try:
        cells: dict[str, Any] = json.loads(source.read_text(encoding="utf-8"))["cells"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{source} is no file that hgeo tune --freeze has written: {error!r}") from error
    return cells


def frozen_winners(path: Path) -> dict[str, dict[str, Config]]:
    """All that a file of frozen configurations holds, by task and by ``dataset/dimension/method``."""
    return {task: frozen_configs(path, task) for task in TASKS}


def write_frozen(path: Path, chosen: Iterable[tuple[Cell, dict[str, Any]]], gone_on_from: Path | None = None) -> int:
    """Write (merge into) the file of frozen configurations; returns how many cells it holds.

    Where a search has gone on from earlier ones, their trials count, too.
    """
    earlier = _frozen_cells(gone_on_from) if gone_on_from else {}
    known: dict[str, Any] = (
        json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {"about": _ABOUT, "cells": {}}
    )
    for cell, result in chosen:
        where = cell.arguments
        name = f"{where['dataset']}/{where['dim']}/{where['method']}"
        known["cells"][name] = {
            "trials": len(result["trials"]) + earlier.get(name, {}).get("trials", 0),
            **{task: _rounded(choice) for task, choice in result["chosen"].items()},
        }
    known["cells"] = dict(sorted(known["cells"].items(), key=_table_order))
    write_atomically(path, json.dumps(known, indent=1) + "\n")
    return len(known["cells"])


def _rounded(choice: dict[str, Any]) -> dict[str, Any]:
    return {name: round(value, 4) if isinstance(value, float) else value for name, value in choice.items()}


_ABOUT = "Chosen by `hgeo tune` on validation nodes; test nodes were not evaluated. Keys: data set/dimension/method."


def _table_order(item: tuple[str, Any]) -> tuple[str, int, str]:
    dataset, dim, method = item[0].split("/")
    return dataset, int(dim), method
