"""What a step costs beside torch's own."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import nn

from hgeo._geoopt import geoopt
from hgeo.optim import riemannian_adam

__all__ = ["StepCost", "step_cost"]


class StepCost(NamedTuple):
    """Milliseconds of one Adam step on the same weights."""

    hgeo: float
    torch: float
    geoopt: float

    @property
    def ratio(self) -> float:
        """Time of hgeo's step over torch's."""
        return self.hgeo / self.torch


def step_cost(*, layers: int = 8, width: int = 256, steps: int = 20, rounds: int = 15) -> StepCost:
    """Time an Adam step on a model without manifold parameters: hgeo's, torch's and geoopt's, taken in turns.

    The best of ``rounds`` averages over ``steps``, so that another program on the machine disturbs little.
    """

    def stepper(make: Callable[[nn.Module], torch.optim.Optimizer]) -> torch.optim.Optimizer:
        model = nn.Sequential(*[nn.Linear(width, width) for _ in range(layers)])
        for parameter in model.parameters():
            parameter.grad = torch.randn_like(parameter)
        optimizer = make(model)
        optimizer.step()  # state is made in the first step
        return optimizer

    contenders = [
        stepper(lambda model: riemannian_adam(model)),
        stepper(lambda model: torch.optim.Adam(model.parameters())),
        stepper(lambda model: geoopt.optim.RiemannianAdam(model.parameters())),
    ]
    best = [float("inf")] * len(contenders)
    for _ in range(rounds):
        for index, optimizer in enumerate(contenders):
            start = time.perf_counter()
            for _ in range(steps):
                optimizer.step()
            best[index] = min(best[index], (time.perf_counter() - start) / steps * 1e3)
    return StepCost(*best)
