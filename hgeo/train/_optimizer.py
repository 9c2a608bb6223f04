"""Which parameter steps how, in one place."""

from __future__ import annotations

import torch
from torch import nn

from hgeo.optim import riemannian_adam

__all__ = ["make_optimizer"]


def make_optimizer(model: nn.Module, *, lr: float, weight_decay: float) -> torch.optim.Optimizer:
    """Adam: Riemannian on points, torch's on weights and curvatures, with decay on weights only.

    >>> import hgeo
    >>> optimizer = make_optimizer(hgeo.nn.HATConv(8, 2, hgeo.PoincareBall(), bias="point"), lr=0.01, weight_decay=5e-4)
    >>> [(group["kind"], group["weight_decay"]) for group in optimizer.param_groups]
    [('weights', 0.0005), ('points', 0.0), ('curvature', 0.0)]
    """
    return riemannian_adam(model, lr=lr, weight_decay=weight_decay)
