"""Where a training is: what a checkpoint holds, and how a run goes on from one."""

from __future__ import annotations

import struct
from typing import Any

import torch
from msgspec import to_builtins
from torch import Tensor, nn

from hgeo.train._folder import RunFolder
from hgeo.train._schema import Checkpoint, Progress, checked

__all__ = ["Progress", "copy_state", "restore", "snapshot"]


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
        "progress": to_builtins(at),
    }


def restore(
    folder: RunFolder, model: nn.Module, optimizer: torch.optim.Optimizer
) -> tuple[Progress, dict[str, Tensor]]:
    """Brings model, optimizer and random numbers to a checkpoint; gives its progress and the best weights."""
    state = folder.checkpoint()
    try:
        return _restored(checked(_renewed(state), Checkpoint, "it"), model, optimizer)
    except (TypeError, AttributeError, ValueError, RuntimeError, struct.error) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise ValueError(
            f"the checkpoint in {folder.path} does not fit this model ({reason}); delete its folder to begin anew"
        ) from error


def _restored(
    kept: Checkpoint, model: nn.Module, optimizer: torch.optim.Optimizer
) -> tuple[Progress, dict[str, Tensor]]:
    own = optimizer.state_dict()
    theirs = [(group.kind, group.params) for group in kept.optimizer.param_groups]
    if theirs != [(group["kind"], group["params"]) for group in own["param_groups"]]:
        raise ValueError("its optimizer steps other parameters")
    _check_moments(kept.optimizer.state, optimizer)
    model.load_state_dict(kept.best)
    model.load_state_dict(kept.model)
    # How to step is said by this run. A file of somebody's could choose torch's fused kernel.
    optimizer.load_state_dict({"state": kept.optimizer.state, "param_groups": own["param_groups"]})
    torch.set_rng_state(_checked_generator(kept.generators[0]))
    for device, generator in enumerate(kept.generators[1:]):
        if device < torch.cuda.device_count():
            torch.cuda.set_rng_state(generator, device)
    return kept.progress, kept.best


def _check_moments(state: dict[int, dict[str, Any]], optimizer: torch.optim.Optimizer) -> None:
    """What an optimizer remembers of a parameter is numbers, and tensors of its size or of one number."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for place, remembered in state.items():
        shape = parameters[place].shape if place < len(parameters) else None
        for name, value in remembered.items():
            fits = value.shape in (shape, ()) if isinstance(value, Tensor) else isinstance(value, int | float)
            if shape is None or not fits:
                raise ValueError(f"its optimizer remembers no such {name} of parameter {place}")


def _checked_generator(state: Tensor) -> Tensor:
    """torch reads as many numbers as the state says are left, also beyond the end of its table of 624."""
    _seed, left, _seeded, place = struct.unpack_from("<QiiQ", state.numpy().tobytes())
    if left + place > 625:
        raise ValueError("its random generator has no such state")
    return state


def _renewed(state: dict[str, Any]) -> dict[str, Any]:
    """The form of today of a checkpoint; edition 0.1 knew one task, and kept two scores of it."""
    progress = state.get("progress")
    if not isinstance(progress, dict) or "best_accuracy" not in progress:
        return state
    kept = dict(progress)
    scores = {"val_accuracy": kept.pop("best_accuracy"), "val_loss": kept.pop("best_loss", None)}
    return {**state, "progress": {**kept, "scores": scores if kept.get("best_epoch") != -1 else {}}}
