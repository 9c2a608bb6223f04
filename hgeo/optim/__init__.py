"""Which parameter steps how, and what happens when a curvature moves.

Points of manifolds need Riemannian steps, curvatures a learning rate of their own and no weight decay, and where a
curvature has moved, the points on its manifold follow. Knows manifolds, no layers. One call sorts the parameters of any
module into weights, points of manifolds and curvatures, and gives one optimiser:

>>> import torch, hgeo
>>> from geoopt import ManifoldParameter
>>> ball = hgeo.PoincareBall(learnable=True)
>>> class Net(torch.nn.Module):
...     def __init__(self):
...         super().__init__()
...         self.linear, self.ball = torch.nn.Linear(2, 2), ball
...         self.point = ManifoldParameter(torch.tensor([0.5, 0.0]), manifold=ball)
>>> optimizer = hgeo.optim.riemannian_adam(Net(), lr=0.01, curvature_lr=0.001, weight_decay=1e-4)
>>> [(group["kind"], len(group["params"]), group["lr"]) for group in optimizer.param_groups]
[('weights', 2, 0.01), ('points', 1, 0.01), ('curvature', 1, 0.001)]
"""

from hgeo.optim._clip import clip_grad_norm_, riemannian_grad_norm
from hgeo.optim._make import riemannian_adam, riemannian_sgd
from hgeo.optim._optimizer import RiemannianOptimizer
from hgeo.optim._roles import Roles, parameter_roles

__all__ = [
    "RiemannianOptimizer",
    "Roles",
    "clip_grad_norm_",
    "parameter_roles",
    "riemannian_adam",
    "riemannian_grad_norm",
    "riemannian_sgd",
]
