"""Which parameter steps how, in one place."""

from __future__ import annotations

import torch
from torch import nn

from hgeo._geoopt import geoopt

__all__ = ["make_optimizer"]


def make_optimizer(model: nn.Module, *, lr: float, weight_decay: float) -> torch.optim.Optimizer:
    """Adam, with decay on weights and biases but on no lone number (a curvature, a β) and no point on a manifold.

    Where a parameter is a point on a manifold, Riemannian Adam steps it.
    """
    weights = [p for p in model.parameters() if p.dim() > 0 and not isinstance(p, geoopt.ManifoldParameter)]
    chosen = {id(p) for p in weights}
    others = [p for p in model.parameters() if id(p) not in chosen]
    groups = [{"params": weights, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]
    groups = [group for group in groups if group["params"]]
    if any(isinstance(p, geoopt.ManifoldParameter) for p in others):
        return geoopt.optim.RiemannianAdam(groups, lr=lr)
    return torch.optim.Adam(groups, lr=lr)
