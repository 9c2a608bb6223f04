"""The two optimisers."""

from __future__ import annotations

from typing import Any

from hgeo.optim._optimizer import ADAM, SGD, Algorithm, RiemannianOptimizer
from hgeo.optim._roles import Parameters, parameter_roles

__all__ = ["riemannian_adam", "riemannian_sgd"]


def riemannian_adam(
    model: Parameters,
    lr: float = 1e-3,
    *,
    curvature_lr: float | None = None,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    point_decay: float = 0.0,
    amsgrad: bool = False,
    max_grad_norm: float | None = None,
    foreach: bool | None = None,
    fused: bool | None = None,
) -> RiemannianOptimizer:
    """Adam for a model of weights, points of manifolds and curvatures.

    Weights and curvatures step by :class:`torch.optim.Adam`, points by ``geoopt.optim.RiemannianAdam`` (of a
    sparse gradient only the rows that it touches). See :class:`RiemannianOptimizer` for what happens when c moves.

    Args:
        model: a module, or modules, parameters and (name, parameter) pairs in any mixture, such as
            ``model.parameters()``; a curvature is found to be one either way. Frozen parameters are included and step
            once they require a gradient.
        lr: learning rate of weights and points.
        curvature_lr: learning rate of curvatures; default: ``lr``.
        betas, eps, amsgrad: as in :class:`torch.optim.Adam`.
        weight_decay: torch's L2 penalty, on weights only: never on points or curvatures.
        point_decay: tangent-space decay of points, x ← exp0((1 - lr · point_decay) log0(x)) after each step; at c = 0
            it is the decoupled decay of AdamW.
        max_grad_norm: clip all gradients together, by :func:`hgeo.optim.clip_grad_norm_`.
        foreach, fused: torch's implementations, for weights and curvatures.

    >>> import torch, hgeo
    >>> from geoopt import ManifoldParameter
    >>> ball = hgeo.PoincareBall()
    >>> x = ManifoldParameter(torch.tensor([0.9, 0.0]), manifold=ball)
    >>> optimizer = hgeo.optim.riemannian_adam([x], lr=0.1)
    >>> for _ in range(300):
    ...     optimizer.zero_grad()
    ...     ball.dist2(x, torch.tensor([0.0, 0.5])).backward()
    ...     _ = optimizer.step()
    >>> bool(ball.dist(x, torch.tensor([0.0, 0.5])) < 1e-3)
    True
    """
    shared = {"lr": lr, "betas": betas, "eps": eps, "amsgrad": amsgrad}
    kernels = {"foreach": foreach, "fused": fused}
    return _make(ADAM, model, lr, curvature_lr, weight_decay, point_decay, max_grad_norm, shared, kernels)


def riemannian_sgd(
    model: Parameters,
    lr: float = 1e-2,
    *,
    curvature_lr: float | None = None,
    momentum: float = 0.0,
    dampening: float = 0.0,
    nesterov: bool = False,
    weight_decay: float = 0.0,
    point_decay: float = 0.0,
    max_grad_norm: float | None = None,
    foreach: bool | None = None,
    fused: bool | None = None,
) -> RiemannianOptimizer:
    """Stochastic gradient descent for a model of weights, points of manifolds and curvatures.

    Weights and curvatures step by :class:`torch.optim.SGD`, points by ``geoopt.optim.RiemannianSGD``. Arguments as in
    :func:`riemannian_adam` and :class:`torch.optim.SGD`.
    """
    shared = {"lr": lr, "momentum": momentum, "dampening": dampening, "nesterov": nesterov}
    kernels = {"foreach": foreach, "fused": fused}
    return _make(SGD, model, lr, curvature_lr, weight_decay, point_decay, max_grad_norm, shared, kernels)


def _make(
    algorithm: Algorithm,
    model: Parameters,
    lr: float,
    curvature_lr: float | None,
    weight_decay: float,
    point_decay: float,
    max_grad_norm: float | None,
    shared: dict[str, Any],
    kernels: dict[str, Any],
) -> RiemannianOptimizer:
    curvature_lr = lr if curvature_lr is None else curvature_lr
    for name, value in (("lr", lr), ("curvature_lr", curvature_lr), ("point_decay", point_decay)):
        if not value >= 0:
            raise ValueError(f"{name} must be a number ≥ 0, got {value}")
    if max_grad_norm is not None and not max_grad_norm > 0:
        raise ValueError(f"max_grad_norm must be positive, or None for no clipping, got {max_grad_norm}")
    roles = parameter_roles(model)
    groups = [
        {"params": roles.weights, "kind": "weights", "weight_decay": weight_decay},
        {"params": roles.points, "kind": "points", "weight_decay": 0.0, "point_decay": point_decay},
        {"params": roles.curvatures, "kind": "curvature", "weight_decay": 0.0, "lr": curvature_lr},
    ]
    return RiemannianOptimizer(algorithm, roles, [g for g in groups if g["params"]], shared, kernels, max_grad_norm)
