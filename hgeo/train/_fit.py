"""The training loop: full batch, early stopping, resumable after an interruption to the last bit."""

from __future__ import annotations

import contextlib
import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from hgeo.data import Dataset
from hgeo.models import TrainSettings
from hgeo.tasks import Epoch, Nodes, Task
from hgeo.train._batches import source_for
from hgeo.train._folder import RunFolder, TrainingWarning
from hgeo.train._interrupt import deferred_interrupt
from hgeo.train._monitor import curvature_reader, curvatures, inspect
from hgeo.train._optimizer import make_optimizer
from hgeo.train._progress import Progress, copy_state, restore, snapshot
from hgeo.train._team import Team

__all__ = ["FitResult", "TrainingError", "TrainingWarning", "fit"]

_MONITOR_EVERY = 20  # epochs between looks at radii and attention: one forward pass each
_CHECKPOINT_SECONDS = 10.0


class TrainingError(ValueError):
    """Not a single epoch gave a finite loss, so there is no model to keep."""


@dataclass(frozen=True)
class FitResult:
    """What came out of a run; ``state`` holds the weights of the best epoch, which the model carries too.

    ``scores`` are those of the task, of the best epoch: ``val_accuracy``, ``test_accuracy`` and so on. Each of them is
    an attribute, too.
    """

    epochs: int
    best_epoch: int
    scores: dict[str, float]
    curvatures: list[float]
    seconds: float
    parameters: int
    warnings: list[str]
    extra: dict[str, Any]
    state: dict[str, Tensor] = field(repr=False, compare=False)

    def __getattr__(self, name: str) -> float:
        scores: dict[str, float] = self.__dict__.get("scores", {})
        if name in scores:
            return scores[name]
        raise AttributeError(f"a result has no {name!r}; the scores of this one are {', '.join(scores)}")

    def to_dict(self) -> dict[str, Any]:
        """Everything but the weights, for ``result.json``."""
        own = {name: value for name, value in vars(self).items() if name not in ("state", "extra", "scores")}
        return {**self.extra, **self.scores, **own}


class _Run:
    """A training under way: model, task, what steps the model, and where it is."""

    def __init__(self, model: nn.Module, task: Task, settings: TrainSettings, seed: int) -> None:
        torch.manual_seed(seed)
        self.model, self.task, self.settings, self.seed = model, task, settings, seed
        self.optimizer = make_optimizer(model, lr=settings.lr, weight_decay=settings.weight_decay)
        self.team, self.source = Team(), source_for(model, task, settings)
        self.at, self.best = Progress(), copy_state(model)
        self.read_curvatures = curvature_reader(model)

    def goes_on(self) -> bool:
        """Whether another epoch is wanted."""
        at, settings = self.at, self.settings
        late = at.epoch >= settings.min_epochs and at.epoch - 1 - at.best_epoch >= settings.patience
        return at.epoch < settings.epochs and not late

    def epoch(self) -> dict[str, Any] | None:
        """Train and judge once; gives the line of the metrics, or None if the loss is not finite: that is the end."""
        at, loss = self.at, self.step()
        if not math.isfinite(loss):
            if at.best_epoch >= 0:
                self.warn(f"the loss is {loss} in epoch {at.epoch}; training stopped. Try a smaller lr.")
            at.epoch += 1
            return None
        scores = self.judge()
        row: dict[str, Any] = {"epoch": at.epoch, "loss": loss, **scores, "curvatures": self.read_curvatures()}
        self.keep(scores)
        if at.epoch % _MONITOR_EVERY == 0:
            row.update(self.monitor())
        at.epoch += 1
        return row

    def step(self) -> float:
        """An epoch: a step of the optimizer a batch; gives the mean of the losses before each step."""
        self.model.train()
        total = 0.0
        for share, loss in self.source.losses(Epoch(self.at.epoch, self.seed, self.settings)):
            self.optimizer.zero_grad(set_to_none=True)
            with self.team.answering():
                loss.backward()
            self.optimizer.step()
            total += share * float(loss.detach())
        return self.team.sum(total)

    @torch.no_grad()
    def judge(self) -> dict[str, float]:
        """Validation scores as they are now."""
        self.model.eval()
        found = self.task.evaluate(self.model, self.source.output("val"), "val")
        return {f"val_{name}": value for name, value in found.items()}

    def keep(self, scores: dict[str, float]) -> None:
        """Keep the weights if no epoch before was as good. One whose scores are not finite never is."""
        at = self.at
        if not all(map(math.isfinite, scores.values())):  # the weights have moved since the loss was taken
            return
        if at.best_epoch < 0 or self.task.watched(scores) > self.task.watched(at.scores):
            at.best_epoch, at.scores = at.epoch, scores
            self.best = copy_state(self.model)

    def monitor(self) -> dict[str, float | None]:
        """How the network is; a warning if something in it has stopped working."""
        health = inspect(self.model, *self.source.probe())
        problem, said = health.warning(), {text.split()[0] for text in self.at.warnings}
        # An untrained network may look odd; and what was said once need not be said again.
        if problem is not None and self.at.epoch > 0 and problem.split()[0] not in said:
            self.warn(problem)
        return {"at_limit": health.at_limit, "attention_entropy": health.entropy, "max_radius": health.max_radius}

    def warn(self, message: str) -> None:
        self.at.warnings.append(message)
        warnings.warn(message, TrainingWarning, stacklevel=3)

    @torch.no_grad()
    def result(self, extra: dict[str, Any]) -> FitResult:
        """What the model with its best weights is worth, on the whole graph."""
        tested = self.task.evaluate(self.model, self.source.output("test"), "test")
        return FitResult(
            epochs=self.at.epoch,
            best_epoch=self.at.best_epoch,
            scores={**self.at.scores, **{f"test_{name}": value for name, value in tested.items()}},
            curvatures=curvatures(self.model),
            seconds=self.at.seconds,
            parameters=sum(parameter.numel() for parameter in self.model.parameters()),
            warnings=list(self.at.warnings),
            extra=extra,
            state=copy_state(self.model),
        )


def fit(
    model: nn.Module,
    data: Dataset | Task,
    settings: TrainSettings | None = None,
    *,
    seed: int = 0,
    folder: RunFolder | None = None,
    resume: bool = False,
    on_epoch: Callable[[dict[str, Any]], None] | None = None,
    on_finish: Callable[[nn.Module], dict[str, Any]] | None = None,
) -> FitResult:
    """Train ``model`` on a task and keep the epoch with the best validation scores.

    ``data`` is a :class:`hgeo.tasks.Task`, or a data set, whose nodes are classified then. The model is called as
    ``model(graph, features)`` and returns a row a node. The task says what the loss is and which of two epochs is the
    better one; the loop stops when no better one has come for ``patience`` epochs. The test part is looked at once, at
    the end. An epoch whose scores are not finite is never the best; where none is finite there is a
    :class:`TrainingError`.

    ``folder`` receives ``metrics.jsonl`` as the loop goes, a checkpoint every few seconds and at the end,
    ``model.safetensors`` and ``result.json``. An interruption (Ctrl-C, SIGTERM) ends the epoch, writes a checkpoint and
    raises :class:`Interrupted`, a ``KeyboardInterrupt``; with ``resume`` the loop goes on from there and ends in the
    same bits as if it had never stopped.

    Processes that ``torchrun`` has started share out each batch, and the first of them writes ``folder``.

    ``on_epoch`` sees every line of the metrics, with ``best_epoch`` and ``best``, the scores of the best one;
    ``on_finish`` gets the model with its best weights, and what it returns joins the result.
    """
    run = _Run(model, data if isinstance(data, Task) else Nodes(data), settings or TrainSettings(), seed)
    if resume and folder is not None and folder.has_checkpoint:
        run.at, run.best = restore(folder, model, run.optimizer)
    at, folder = run.at, folder if run.team.is_first else None

    def checkpoint() -> None:
        if folder is not None:
            folder.write_checkpoint(snapshot(model, run.optimizer, at, run.best))

    log = folder.log(keep=at.epoch) if folder is not None else contextlib.nullcontext(None)
    with log as write, deferred_interrupt() as asked:
        started, saved = time.perf_counter() - at.seconds, time.perf_counter()
        while run.goes_on() and (row := run.epoch()) is not None:
            at.seconds = time.perf_counter() - started
            if write is not None:
                write(row)
            if on_epoch is not None:
                on_epoch({**row, "best_epoch": at.best_epoch, "best": at.scores})
            asked.signal = run.team.largest(asked.signal or 0) or None  # all processes stop after the same epoch
            if asked.signal is not None:
                checkpoint()
                asked.obey()
            if time.perf_counter() - saved > _CHECKPOINT_SECONDS:
                checkpoint()
                saved = time.perf_counter()
        if at.best_epoch < 0:
            raise TrainingError(
                f"the loss is not finite: none of {at.epoch} epoch(s) gave a model to keep. Try a smaller lr."
            )
        checkpoint()
    model.load_state_dict(run.best)
    model.eval()
    result = run.result(on_finish(model) if on_finish is not None else {})
    if folder is not None:
        folder.write_weights(result.state)
        folder.write_result(result.to_dict())  # last: a folder with a result is a finished one
    return result
