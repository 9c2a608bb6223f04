"""Steps of the rows of a table of points that a sparse gradient touches; all other rows stay where they are."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hgeo._geoopt import geoopt

__all__ = ["adam_rows", "sgd_rows"]


def adam_rows(point: geoopt.ManifoldParameter, group: dict[str, Any], state: dict[str, Any]) -> None:
    """Riemannian Adam on the touched rows, as ``geoopt.optim.SparseRiemannianAdam`` has it."""
    table, rows, values = _touched_rows(point)
    if not state:
        state.update(step=0, exp_avg=torch.zeros_like(table), exp_avg_sq=torch.zeros_like(table))
    state["step"] += 1
    first, second = group["betas"]
    x, manifold = table.index_select(0, rows), point.manifold
    average, squares = (state[name].index_select(0, rows) for name in ("exp_avg", "exp_avg_sq"))
    gradient = manifold.egrad2rgrad(x, values)
    average.mul_(first).add_(gradient, alpha=1 - first)
    squares.mul_(second).add_(manifold.component_inner(x, gradient), alpha=1 - second)
    state["exp_avg_sq"].index_copy_(0, rows, squares)
    size = squares.div_(1 - second ** state["step"]).sqrt_().add_(group["eps"])
    step = (average / size).mul_(-group["lr"] / (1 - first ** state["step"]))
    x, average = manifold.retr_transp(x, step, average)
    table.index_copy_(0, rows, x)
    state["exp_avg"].index_copy_(0, rows, average)


def sgd_rows(point: geoopt.ManifoldParameter, group: dict[str, Any], state: dict[str, Any]) -> None:
    """Riemannian gradient descent of the touched rows, as ``geoopt.optim.SparseRiemannianSGD`` has it."""
    table, rows, values = _touched_rows(point)
    x, manifold, momentum = table.index_select(0, rows), point.manifold, group["momentum"]
    gradient = manifold.egrad2rgrad(x, values)
    if not momentum > 0:
        table.index_copy_(0, rows, manifold.retr(x, gradient * -group["lr"]))
        return
    if not state:
        state["momentum_buffer"] = torch.zeros_like(table)
    buffer = state["momentum_buffer"].index_select(0, rows)
    buffer.mul_(momentum).add_(gradient, alpha=1 - group["dampening"])
    direction = gradient + momentum * buffer if group["nesterov"] else buffer
    x, buffer = manifold.retr_transp(x, direction * -group["lr"], buffer)
    table.index_copy_(0, rows, x)
    state["momentum_buffer"].index_copy_(0, rows, buffer)


def _touched_rows(point: geoopt.ManifoldParameter) -> tuple[Tensor, Tensor, Tensor]:
    """The table, the rows that its gradient touches, each once, and the gradient there."""
    gradient = point.grad.coalesce()
    return point.detach().as_subclass(Tensor), gradient.indices()[0], gradient.values()
