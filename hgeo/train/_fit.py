"""The training loop: full batch, early stopping, resumable after an interruption to the last bit."""

from __future__ import annotations

import contextlib
import math
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hgeo.data import Dataset
from hgeo.models import TrainSettings
from hgeo.tasks import accuracy, macro_f1
from hgeo.train._folder import RunFolder
from hgeo.train._monitor import Health, curvature_reader, curvatures, inspect
from hgeo.train._optimizer import make_optimizer
from hgeo.train._views import full_view, view_for

__all__ = ["FitResult", "TrainingError", "TrainingWarning", "fit"]

_MONITOR_EVERY = 20  # epochs between looks at radii and attention: one forward pass each
_CHECKPOINT_SECONDS = 10.0


class TrainingWarning(UserWarning):
    """Training goes on, but something about it needs attention; the message says what and what to try."""


class TrainingError(ValueError):
    """Not a single epoch gave a finite loss, so there is no model to keep."""


@dataclass(frozen=True)
class FitResult:
    """What came out of a run; ``state`` holds the weights of the best epoch, which the model carries too."""

    epochs: int
    best_epoch: int
    val_accuracy: float
    val_loss: float
    test_accuracy: float
    test_macro_f1: float
    curvatures: list[float]
    seconds: float
    parameters: int
    warnings: list[str]
    extra: dict[str, Any]
    state: dict[str, Tensor] = field(repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the weights, for ``result.json``."""
        return {**self.extra, **{name: value for name, value in vars(self).items() if name not in ("state", "extra")}}


@dataclass
class _Progress:
    """Where the loop is; all of it goes into a checkpoint."""

    epoch: int = 0
    best_epoch: int = -1
    best_accuracy: float = -1.0
    best_loss: float = math.inf
    seconds: float = 0.0
    warnings: list[str] = field(default_factory=list)


def fit(
    model: nn.Module,
    dataset: Dataset,
    settings: TrainSettings | None = None,
    *,
    seed: int = 0,
    folder: RunFolder | None = None,
    resume: bool = False,
    on_epoch: Callable[[dict[str, Any]], None] | None = None,
    on_finish: Callable[[nn.Module], dict[str, Any]] | None = None,
) -> FitResult:
    """Train ``model`` on the training nodes of ``dataset`` and keep the epoch with the best validation accuracy.

    The model is called as ``model(graph, features)`` and returns logits, one row a node. Cross entropy with label
    smoothing; of two epochs with the same validation accuracy the one with the lower validation loss is better; the
    loop stops when no better one has come for ``patience`` epochs. Test nodes are looked at once, at the end. An epoch
    whose loss is not finite is never the best; where none is finite there is a :class:`TrainingError`.

    ``folder`` receives ``metrics.jsonl`` as the loop goes, a checkpoint every few seconds and at the end,
    ``model.safetensors`` and ``result.json``. An interruption (Ctrl-C) ends the epoch, writes a checkpoint and raises
    ``KeyboardInterrupt``; with ``resume`` the loop goes on from there and ends in the same bits as if it had never
    stopped.

    ``on_epoch`` sees every line of the metrics; ``on_finish`` gets the model with its best weights, and what it returns
    joins the result.
    """
    config = settings if settings is not None else TrainSettings()
    torch.manual_seed(seed)
    optimizer = make_optimizer(model, lr=config.lr, weight_decay=config.weight_decay)
    train, val = view_for(model, dataset, dataset.train_idx), view_for(model, dataset, dataset.val_idx)
    train_labels, val_labels = dataset.labels[dataset.train_idx], dataset.labels[dataset.val_idx]
    at, best, read_curvatures = _Progress(), _copy(model), curvature_reader(model)
    if resume and folder is not None and folder.has_checkpoint:
        best = _restored(folder, model, optimizer, at)

    def checkpoint() -> None:
        if folder is not None:
            folder.write_checkpoint(_snapshot(model, optimizer, at, best))

    log = folder.log(keep=at.epoch) if folder is not None else contextlib.nullcontext(None)
    with log as write, _deferred_interrupt() as interrupted:
        started, saved = time.perf_counter() - at.seconds, time.perf_counter()
        while at.epoch < config.epochs and (
            at.epoch < config.min_epochs or at.epoch - 1 - at.best_epoch < config.patience
        ):
            model.train()
            optimizer.zero_grad(set_to_none=True)
            loss = F.cross_entropy(train.logits(model), train_labels, label_smoothing=config.label_smoothing)
            loss.backward()
            optimizer.step()
            row: dict[str, Any] = {"epoch": at.epoch, "loss": float(loss.detach())}
            row.update(_evaluate(model, val, val_labels), curvatures=read_curvatures())
            if not math.isfinite(row["loss"]):
                if at.best_epoch >= 0:
                    _warn(at, f"the loss is {row['loss']} in epoch {at.epoch}; training stopped. Try a smaller lr.")
                at.epoch += 1
                break
            finite = math.isfinite(row["val_loss"])  # the weights have moved since the loss was taken
            if finite and (row["val_accuracy"], -row["val_loss"]) > (at.best_accuracy, -at.best_loss):
                at.best_epoch, at.best_accuracy, at.best_loss = at.epoch, row["val_accuracy"], row["val_loss"]
                best = _copy(model)
            if at.epoch % _MONITOR_EVERY == 0:
                row.update(_monitor(model, val.graph, val.features, at))
            at.epoch += 1
            at.seconds = time.perf_counter() - started
            if write is not None:
                write(row)
            if on_epoch is not None:
                on_epoch({**row, "best_epoch": at.best_epoch, "best_accuracy": at.best_accuracy})
            if interrupted.is_set():
                checkpoint()
                raise KeyboardInterrupt
            if time.perf_counter() - saved > _CHECKPOINT_SECONDS:
                checkpoint()
                saved = time.perf_counter()
        if at.best_epoch < 0:
            raise TrainingError(
                f"the loss is not finite: none of {at.epoch} epoch(s) gave a model to keep. Try a smaller lr."
            )
        checkpoint()
    model.load_state_dict(best)
    model.eval()
    result = _result(model, dataset, at, on_finish(model) if on_finish is not None else {})
    if folder is not None:
        folder.write_weights(result.state)
        folder.write_result(result.to_dict())  # last: a folder with a result is a finished one
    return result


@torch.no_grad()
def _evaluate(model: nn.Module, view: Any, labels: Tensor) -> dict[str, float]:
    model.eval()
    logits = view.logits(model)
    return {"val_loss": float(F.cross_entropy(logits, labels)), "val_accuracy": accuracy(logits, labels)}


@torch.no_grad()
def _result(model: nn.Module, dataset: Dataset, at: _Progress, extra: dict[str, Any]) -> FitResult:
    logits, labels = full_view(dataset, dataset.test_idx).logits(model), dataset.labels[dataset.test_idx]
    return FitResult(
        epochs=at.epoch,
        best_epoch=at.best_epoch,
        val_accuracy=at.best_accuracy,
        val_loss=at.best_loss,
        test_accuracy=accuracy(logits, labels),
        test_macro_f1=macro_f1(logits, labels),
        curvatures=curvatures(model),
        seconds=at.seconds,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        warnings=list(at.warnings),
        extra=extra,
        state=_copy(model),
    )


def _monitor(model: nn.Module, graph: Any, features: Tensor, at: _Progress) -> dict[str, float | None]:
    health: Health = inspect(model, graph, features)
    problem = health.warning()
    # An untrained network may look odd; and what was said once need not be said again.
    if problem is not None and at.epoch > 0 and not any(text.split()[0] == problem.split()[0] for text in at.warnings):
        _warn(at, problem)
    return {"at_limit": health.at_limit, "attention_entropy": health.entropy, "max_radius": health.max_radius}


def _warn(at: _Progress, message: str) -> None:
    at.warnings.append(message)
    warnings.warn(message, TrainingWarning, stacklevel=3)


def _copy(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def _snapshot(
    model: nn.Module, optimizer: torch.optim.Optimizer, at: _Progress, best: dict[str, Tensor]
) -> dict[str, Any]:
    generators = [torch.get_rng_state()]
    if torch.cuda.is_available():
        generators += torch.cuda.get_rng_state_all()
    return {
        "model": dict(model.state_dict()),
        "best": best,
        "optimizer": optimizer.state_dict(),
        "generators": generators,
        "progress": dict(vars(at)),
    }


def _restored(
    folder: RunFolder, model: nn.Module, optimizer: torch.optim.Optimizer, at: _Progress
) -> dict[str, Tensor]:
    state = folder.checkpoint()
    try:
        return _restore(state, model, optimizer, at)
    except (KeyError, IndexError, TypeError, AttributeError, ValueError, RuntimeError) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise ValueError(
            f"the checkpoint in {folder.path} does not fit this model ({reason}); delete its folder to begin anew"
        ) from error


def _restore(
    state: dict[str, Any], model: nn.Module, optimizer: torch.optim.Optimizer, at: _Progress
) -> dict[str, Tensor]:
    saved, own = state["optimizer"], optimizer.state_dict()
    theirs, mine = ([(group["kind"], group["params"]) for group in kept["param_groups"]] for kept in (saved, own))
    if theirs != mine:
        raise ValueError("its optimizer steps other parameters")
    for name, value in state["progress"].items():
        if type(value) is not type(vars(at)[name]):
            raise ValueError(f"its {name} is {value!r}")
        setattr(at, name, value)
    model.load_state_dict(state["model"])
    # How to step is said by this run. A file of somebody's could choose torch's fused kernel, which writes past the
    # end of moments that are too short.
    optimizer.load_state_dict({"state": saved["state"], "param_groups": own["param_groups"]})
    torch.set_rng_state(state["generators"][0])
    for device, generator in enumerate(state["generators"][1:]):
        if device < torch.cuda.device_count():
            torch.cuda.set_rng_state(generator, device)
    best: dict[str, Tensor] = state["best"]
    return best


@contextlib.contextmanager
def _deferred_interrupt() -> Iterator[threading.Event]:
    """An event that Ctrl-C sets, so that an epoch is finished; a second Ctrl-C interrupts at once."""
    event = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield event
        return

    def handler(number: int, frame: Any) -> None:
        if event.is_set():
            raise KeyboardInterrupt
        event.set()

    previous = signal.signal(signal.SIGINT, handler)
    try:
        yield event
    finally:
        signal.signal(signal.SIGINT, previous)
