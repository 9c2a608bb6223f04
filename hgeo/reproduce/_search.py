"""Hyper-parameter search: the same budget for every model, validation nodes only.

A cell is (data set, dimension, model), with any model that ``--model`` takes. What is searched are the fields of its
settings and of its training that say where a search looks. Trials are proposed by optuna's TPE sampler in rounds, in
turns for the accuracy of validation nodes and for the NMI of their clusters; each run of a trial is a
:class:`hgeo.train.Job`. The best few are then run again with further seeds, in two finals, and the best over all its
seeds is frozen: settings for node classification and settings for clustering. Test nodes are never evaluated here.

A search may go on from what earlier ones froze. It then begins with the winners of *every* model of the cell, in its
own model's terms: what one model has found out about a graph (how much dropout it bears, say) serves all of them.
"""

from __future__ import annotations

import math
import statistics
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from hgeo.models import Range, TrainSettings, find, searched
from hgeo.reproduce._cells import LARGE, Cell, cell_work, graph_price
from hgeo.reproduce._frozen import TASKS
from hgeo.reproduce._runs import FIXED_SPLIT, Options, Setup, setup
from hgeo.train import TrainingError, TrainingWarning

if TYPE_CHECKING:
    from hgeo.data import Dataset

__all__ = [
    "SEARCHED_METHODS",
    "Budget",
    "redrawn_splits",
    "search_space",
    "tune_cell",
    "tuning_cell",
    "usual_budget",
]

#: what is searched if nothing else is asked for; a uniform HAT has the settings of HAT
SEARCHED_METHODS = ("hat", "hat-paper", "gcn", "gat")
#: runs of a search use seeds from here on, those of a table the seeds from 0: no table run was ever chosen by
TUNING_SEED = 1000
# One split that all trials share would be learned by heart. Of data with a public split, its own and four further draws
# of the training nodes from those that train or validate there; of others none on which a table is run (1 to 5).
_REDRAWN_SPLITS = 4
_TUNING_SPLITS = (0, 6, 7)
# What a model begins with where it searches a setting that the winner of another model has not: it walks on from one
# that could not walk, a GCN is a HAT of the softest attention, normalised by degree.
_UNKNOWN_TO_OTHERS = {"steps": 4, "beta": 0.0, "beta_out": 0.0, "degree_norm": True}


@dataclass(frozen=True)
class Budget:
    """How much a cell may spend, whatever the model.

    ``finals`` are (how many trials go on for each task, with how many further seeds each), one final after the other:
    a few seeds on a few hundred validation nodes are too little to choose by, and too much to spend on a poor trial.
    """

    rounds: int = 4
    trials: int = 12
    seeds: int = 5
    finals: tuple[tuple[int, int], ...] = ((6, 5), (2, 10))
    epochs: int = 300
    patience: int = 50


def usual_budget(dataset: str) -> Budget:
    """What a cell gets if nothing else is asked for, whatever the model; on a large graph fewer and shorter runs."""
    if dataset in LARGE:
        return Budget(rounds=3, seeds=3, finals=((6, 3), (3, 6)), epochs=150, patience=40)
    return Budget()


def search_space(model: str) -> dict[str, Any]:
    """optuna's distributions of everything that is searched for a model: what the fields of its settings and of its
    training declare.

    >>> search_space("mlp")["lr"]
    FloatDistribution(high=0.06, log=True, low=0.005, step=None)
    """
    from optuna.distributions import CategoricalDistribution, FloatDistribution

    entry = find(model)
    looked_at = {**searched(TrainSettings), **searched(entry.settings, entry.searched)}
    return {
        name: FloatDistribution(*where[:2], log=where.log, step=where.step)
        if isinstance(where, Range)
        else CategoricalDistribution(where.values)
        for name, where in looked_at.items()
        if name not in entry.fixed
    }


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
    """Splits in which the validation nodes stand in the place of test nodes, which so cannot be looked at."""
    return [replace(data, test_idx=data.val_idx) for data in _splits(dataset, data_dir)]


def _splits(dataset: str, data_dir: str | None) -> list[Dataset]:
    from hgeo.data import load

    if dataset in FIXED_SPLIT:
        data = load(dataset, data_dir=data_dir)
        return [data, *redrawn_splits(data, _REDRAWN_SPLITS)]
    return [load(dataset, data_dir=data_dir, split_seed=split) for split in _TUNING_SPLITS]


@cell_work("tune cell")
def tune_cell(
    dataset: str,
    dim: int,
    model: str,
    budget: dict[str, Any],
    starts: Sequence[tuple[str, Options]] = (),
    data_dir: str | None = None,
) -> dict[str, Any]:
    """Search one cell; returns what was chosen for each task with its validation score, and every trial.

    ``starts`` are (model, settings), of any models, to begin with in place of the usual ones.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    allowed = Budget(**budget)
    search = _Search(setup(model, dim), dataset, _tuning_splits(dataset, data_dir))
    space = search_space(model)
    base = search.usual(epochs=allowed.epochs, patience=allowed.patience)
    studies = {
        task: optuna.create_study(
            direction="maximize", sampler=optuna.samplers.TPESampler(seed=0, multivariate=True, n_startup_trials=8)
        )
        for task in TASKS
    }
    waiting = [_within(_adopted(other, options, model, base), space) for other, options in starts]
    waiting = _different(waiting or [_within(start, space) for start in _starting_points(base, space)])

    tried: list[_Trial] = []
    for number in range(allowed.rounds):
        task = TASKS[number % len(TASKS)]
        given, waiting = waiting[: allowed.trials], waiting[allowed.trials :]
        asked = [studies[task].ask(space) for _ in range(allowed.trials - len(given))]
        proposed = [_Trial(options) for options in given] + [_Trial({**base, **trial.params}) for trial in asked]
        search.run(proposed, allowed.seeds)
        for trial, answer in zip(asked, proposed[len(given) :], strict=True):
            studies[task].tell(trial, answer.score(task))
        for place, answer in enumerate(proposed):
            values = {name: answer.options[name] for name in space}
            can_be_proposed = {**base, **values} == answer.options
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
        search.run(list({id(trial): trial for trials in best.values() for trial in trials}.values()), seeds)
    winners = {task: _ranked(trials, task)[0] for task, trials in best.items()}
    return {
        "chosen": {task: {"options": trial.options, **trial.means()} for task, trial in winners.items()},
        "trials": [{"options": trial.options, "runs": [run._asdict() for run in trial.runs]} for trial in tried],
    }


class _Score(NamedTuple):
    """What one run reached on validation nodes."""

    accuracy: float
    loss: float
    nmi: float


@dataclass
class _Trial:
    """Settings and their runs, seed by seed."""

    options: Options
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


@dataclass(frozen=True)
class _Search:
    """What all trials of a cell share: model and space, and the splits on which they are run in turns."""

    setup: Setup
    dataset: str
    splits: Sequence[Dataset]

    def usual(self, **changed: Any) -> Options:
        """All settings of the usual recipe that can be set, some of them ``changed``."""
        entry, settings = find(self.setup.model), self.setup.job(self.dataset, 0).settings(self.splits[0])
        own = {**vars(settings.model), **vars(settings.training), **changed}
        return {name: value for name, value in own.items() if name not in entry.fixed}

    def run(self, trials: Sequence[_Trial], seeds: int) -> None:
        """Run every trial with its next ``seeds`` seeds."""
        for trial in trials:
            for turn in range(len(trial.runs), len(trial.runs) + seeds):
                trial.runs.append(self._score(trial.options, turn))

    def _score(self, options: Options, turn: int) -> _Score:
        job = self.setup.with_options(**options).job(self.dataset, TUNING_SEED + turn)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TrainingWarning)
            try:
                result = job.run(self.splits[turn % len(self.splits)])
            except TrainingError:
                return _Score(0.0, math.inf, 0.0)
        return _Score(result["val_accuracy"], result["val_loss"], result["test_nmi"])


def _ranked(trials: Iterable[_Trial], task: str) -> list[_Trial]:
    return sorted(trials, key=lambda trial: trial.score(task), reverse=True)


def _different(some: Iterable[Options]) -> list[Options]:
    """Each once, in their order."""
    found: list[Options] = []
    for options in some:
        if options not in found:
            found.append(options)
    return found


def _starting_points(base: Options, space: Mapping[str, Any]) -> list[Options]:
    """Where every search begins, whatever the model: its usual recipe, three more strongly regularised forms of it, and
    a weakly regularised one with a linear read-out, for graphs that have more to learn than their labels tell.

    Some normalise by degree, where that is a choice; where there is a β, one attends as the paper prints it and the
    others softly.
    """
    changes: list[Options] = [
        {},
        {"weight_decay": 2e-3, "attn_drop": 0.6, "degree_norm": True, "beta": 0.1},
        {"feat_drop": 0.8, "lr": 0.02, "weight_decay": 1e-3, "beta": 0.1},
        {"weight_decay": 5e-3, "attn_drop": 0.6, "beta": 1.0, "self_score": "zero", "radius_norm": False},
        {
            "feat_drop": 0.4, "weight_decay": 1e-4, "lr": 0.03, "degree_norm": False, "beta": 0.1, "readout": "linear",
        },
    ]  # fmt: skip
    return [{**base, **{name: value for name, value in change.items() if name in space}} for change in changes]


def _adopted(other: str, options: Mapping[str, Any], model: str, base: Options) -> Options:
    """Settings of any model in the terms of ``model``, whose usual ones are ``base``: what both search; all of them
    where both are of one class and nothing is set apart from the search (HAT as printed is a HAT)."""
    theirs, ours = search_space(other), search_space(model)
    same_class = find(other).module is find(model).module and find(model).searched is None
    taken = {
        name: value for name, value in options.items() if name in (base if same_class else set(theirs) & set(ours))
    }
    added = {name: value for name, value in _UNKNOWN_TO_OTHERS.items() if name in set(ours) - set(theirs) - set(taken)}
    return {**base, **added, **taken, "epochs": base["epochs"], "patience": base["patience"]}


def _within(options: Options, space: Mapping[str, Any]) -> Options:
    """The settings with everything that is searched moved to the nearest value that the search can propose."""
    spoken = {**options, "beta_out": options["beta"]} if options.get("beta_out", 0.0) is None else options
    return {**options, **{name: _admissible(spoken[name], kind) for name, kind in space.items()}}


def _admissible(value: Any, kind: Any) -> Any:
    """The value if the space contains it, else the nearest that it does; its first one for what is no number."""
    if hasattr(kind, "choices"):
        numbers = [choice for choice in kind.choices if isinstance(choice, int | float)]
        if value in kind.choices or not numbers or not isinstance(value, int | float):
            return value if value in kind.choices else kind.choices[0]
        return min(numbers, key=lambda choice: abs(choice - value))
    value = kind.low if value is None else min(max(value, kind.low), kind.high)
    # the last value of a grid may be rounded to one beyond it
    return value if kind.step is None else min(kind.high, kind.low + round((value - kind.low) / kind.step) * kind.step)


def tuning_cell(
    dataset: str, dim: int, model: str, budget: Budget, winners: Mapping[str, Mapping[str, Options]] | None = None
) -> Cell:
    """The search of one table cell as a piece of cached work; ``winners`` (:func:`hgeo.reproduce.frozen_winners`) are
    where it goes on from, if there are any of this data set and dimension."""
    find(model)  # an unknown one is an error now
    starts = [
        (name.split("/", 2)[2], options)
        for found in (winners or {}).values()
        for name, options in found.items()
        if name.split("/", 2)[:2] == [dataset, str(dim)]
    ]
    arguments = {"dataset": dataset, "dim": dim, "model": model, "budget": asdict(budget), "starts": starts}
    return Cell(tune_cell, arguments, cost=graph_price(dataset, dim), version=6)
