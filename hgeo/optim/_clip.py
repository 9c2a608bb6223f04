"""The size of a gradient, measured where its parameter lies."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from hgeo._geoopt import geoopt

__all__ = ["clip_grad_norm_", "riemannian_grad_norm", "touched", "writes_into_gradient"]


def touched(point: geoopt.ManifoldTensor) -> tuple[Tensor, Tensor]:
    """The points that a gradient moves, and the dense gradient there: all of them, or the rows of a sparse gradient."""
    x, gradient = point.detach().as_subclass(Tensor), point.grad
    if not gradient.is_sparse:
        return x, gradient
    gradient = gradient.coalesce()
    return x[gradient.indices()[0]], gradient.values()


def writes_into_gradient(manifold: geoopt.Manifold) -> bool:
    """Whether egrad2rgrad changes its argument, as geoopt.Lorentz's does (it flips the sign of the time part)."""
    return any(getattr(type(part), "egrad2rgrad", None) is geoopt.Lorentz.egrad2rgrad for part in manifold.modules())


def _squared_norm(parameter: Any) -> Tensor:
    if isinstance(parameter, geoopt.ManifoldTensor):
        x, gradient = touched(parameter)
        if writes_into_gradient(parameter.manifold):
            gradient = gradient.clone()
        riemannian = parameter.manifold.egrad2rgrad(x, gradient)
        # A form that is not positive by construction (Minkowski's) may round below 0.
        return parameter.manifold.inner(x, riemannian).clamp(min=0.0).sum()
    gradient = parameter.grad.coalesce().values() if parameter.grad.is_sparse else parameter.grad
    return torch.linalg.vector_norm(gradient) ** 2


def riemannian_grad_norm(parameters: nn.Module | Iterable[Tensor]) -> Tensor:
    """√Σ|grad|², where the gradient at a point of a manifold is the Riemannian one, with its Riemannian length.

    On the ball that length is |∂L/∂x|/λ: it does not explode at the boundary as the Euclidean one does, and does not
    depend on the model of the space.

    >>> import torch, hgeo
    >>> from geoopt import ManifoldParameter
    >>> x = ManifoldParameter(torch.tensor([0.8, 0.0]), manifold=hgeo.PoincareBall())
    >>> x.manifold.dist0(x).backward()
    >>> f"{x.grad.norm():.3f}, {riemannian_grad_norm([x]):.3f}"  # a distance has slope 1
    '5.556, 1.000'
    """
    with torch.no_grad():
        tensors = parameters.parameters() if isinstance(parameters, nn.Module) else parameters
        squares = [_squared_norm(tensor) for tensor in tensors if tensor.grad is not None]
        if not squares:
            return torch.zeros(())
        return torch.stack([square.to(squares[0].device) for square in squares]).sum().sqrt()


def clip_grad_norm_(parameters: nn.Module | Iterable[Tensor], max_norm: float) -> Tensor:
    """Scale all gradients down so that :func:`riemannian_grad_norm` is at most ``max_norm``; returns what it was.

    The counterpart of :func:`torch.nn.utils.clip_grad_norm_`.
    """
    if not max_norm > 0:
        raise ValueError(f"max_norm must be positive, got {max_norm}")
    tensors = list(parameters.parameters() if isinstance(parameters, nn.Module) else parameters)
    if not any(isinstance(tensor, geoopt.ManifoldTensor) for tensor in tensors):
        return nn.utils.clip_grad_norm_(tensors, max_norm)
    total = riemannian_grad_norm(tensors)
    # Always multiply, by at most 1: a branch on the norm would make a GPU wait.
    factor = (max_norm / (total + 1e-6)).clamp(max=1.0)
    for tensor in tensors:
        if tensor.grad is not None:
            tensor.grad.mul_(factor.to(tensor.grad.device))
    return total
