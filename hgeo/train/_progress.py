"""Where a training is: what a checkpoint holds, and how a run goes on from one."""

from __future__ import annotations

import struct
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from hgeo.train._folder import RunFolder

__all__ = ["Progress", "copy_state", "restore", "snapshot"]


@dataclass
class Progress:
    """Where the loop is; all of it goes into a checkpoint. ``scores`` are the validation scores of the best epoch."""

    epoch: int = 0
    best_epoch: int = -1
    scores: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    warnings: list[str] = field(default_factory=list)


def copy_state(model: nn.Module) -> dict[str, Tensor]:
    """The weights as they are now."""
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def snapshot(
    model: nn.Module, optimizer: torch.optim.Optimizer, at: Progress, best: dict[str, Tensor]
) -> dict[str, Any]:
    """What a checkpoint holds."""
    generators = [torch.get_rng_state()]
    if torch.cuda.is_available():
        generators += torch.cuda.get_rng_state_all()
    return {
        "model": dict(model.state_dict()),
        "best": best,
        "optimizer": optimizer.state_dict(),
        "generators": generators,
        "progress": asdict(at),
    }


def restore(
    folder: RunFolder, model: nn.Module, optimizer: torch.optim.Optimizer
) -> tuple[Progress, dict[str, Tensor]]:
    """Brings model, optimizer and random numbers to a checkpoint; gives its progress and the best weights."""
    state = folder.checkpoint()
    try:
        return _restored(state, model, optimizer)
    except (KeyError, IndexError, TypeError, AttributeError, ValueError, RuntimeError) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise ValueError(
            f"the checkpoint in {folder.path} does not fit this model ({reason}); delete its folder to begin anew"
        ) from error


def _restored(
    state: dict[str, Any], model: nn.Module, optimizer: torch.optim.Optimizer
) -> tuple[Progress, dict[str, Tensor]]:
    saved, own = state["optimizer"], optimizer.state_dict()
    theirs, mine = ([(group["kind"], group["params"]) for group in kept["param_groups"]] for kept in (saved, own))
    if theirs != mine:
        raise ValueError("its optimizer steps other parameters")
    at = _progress(state["progress"])
    model.load_state_dict(state["model"])
    # How to step is said by this run. A file of somebody's could choose torch's fused kernel, which writes past the
    # end of moments that are too short.
    optimizer.load_state_dict({"state": saved["state"], "param_groups": own["param_groups"]})
    generator = state["generators"][0]
    torch.set_rng_state(_checked_generator(generator))
    for device, generator in enumerate(state["generators"][1:]):
        if device < torch.cuda.device_count():
            torch.cuda.set_rng_state(generator, device)
    best: dict[str, Tensor] = state["best"]
    return at, best


def _checked_generator(state: Tensor) -> Tensor:
    """torch reads as many numbers as the state says are left, also beyond the end of its table of 624."""
    _seed, left, _seeded, place = struct.unpack_from("<QiiQ", state.numpy().tobytes())
    if left + place > 625:
        raise ValueError("its random generator has no such state")
    return state


def _progress(kept: dict[str, Any]) -> Progress:
    if "best_accuracy" in kept:  # edition 0.1 knew one task
        scores = {"val_loss": kept["best_loss"], "val_accuracy": kept["best_accuracy"]}
        rest = {name: value for name, value in kept.items() if name not in ("best_accuracy", "best_loss")}
        kept = {**rest, "scores": scores if kept["best_epoch"] >= 0 else {}}
    at = Progress()
    for name, value in kept.items():
        if type(value) is not type(vars(at)[name]):
            raise ValueError(f"its {name} is {value!r}")
        setattr(at, name, value)
    if not all(type(value) is float for value in at.scores.values()):
        raise ValueError(f"its scores are {at.scores!r}")
    return at
