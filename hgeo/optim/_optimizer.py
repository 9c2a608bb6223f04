"""One optimiser over weights, points and curvatures."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

import torch
from torch import Tensor

from hgeo._geoopt import geoopt
from hgeo.manifolds import exp0, log0
from hgeo.optim._clip import clip_grad_norm_, touched, writes_into_gradient
from hgeo.optim._roles import Roles
from hgeo.optim._rows import adam_rows, sgd_rows

__all__ = ["Algorithm", "RiemannianOptimizer"]


@contextmanager
def _compiler_unasked() -> Iterator[None]:
    """Torch keeps its compiler out of some methods of an optimiser, and imports it (a second) to do so.

    As long as nobody has imported it nothing is traced, and the methods are called as they are.
    """
    kept = "__dynamo_disable"  # where torch looks for the method that its compiler made
    named = (torch.optim.Optimizer.add_param_group, torch.optim.Optimizer.zero_grad, torch.optim.Optimizer.state_dict)
    plain = [getattr(method, "__wrapped__", None) for method in named]
    free = [method for method in plain if method is not None and not hasattr(method, kept)]
    if "torch._dynamo" in sys.modules:
        free = []
    for method in free:
        setattr(method, kept, method)
    try:
        yield
    finally:
        for method in free:
            delattr(method, kept)


@dataclass(frozen=True)
class Algorithm:
    """Who steps what: torch's optimiser for numbers, geoopt's for points, ours for the rows of a table."""

    name: str
    flat: type[torch.optim.Optimizer]
    curved: type[torch.optim.Optimizer]
    # a step of the rows that a sparse gradient touches
    rows: Callable[[geoopt.ManifoldParameter, dict[str, Any], dict[str, Any]], None]
    momentum: str  # the state that is a tangent vector at the point


class RiemannianOptimizer(torch.optim.Optimizer):
    """A :class:`torch.optim.Optimizer` whose groups step by what they are: ``group["kind"]`` is ``"weights"``,
    ``"points"`` or ``"curvature"``. Made by :func:`hgeo.optim.riemannian_adam` and :func:`hgeo.optim.riemannian_sgd`.

    A step, at gradients taken at points x and curvature c:

    1. points step on the manifold of curvature c (geoopt), then decay towards the origin if asked;
    2. weights and curvatures step (torch), a curvature that went below its bound returns to it;
    3. whatever lies on a manifold whose curvature moved is projected onto the new one, momentum onto its tangent space.

    Points are projected, not carried along with c. So on the stereographic family the coordinates of a point do not
    change when c does, and the gradient of c is the partial derivative at fixed x, which autograd gives. On the
    hyperboloid the projection keeps the spatial coordinates and moves x₀ = √(1/c + |x'|²); that motion is added to the
    gradient of c, as ⟨∂L/∂x, ∂proj_c(x)/∂c⟩. Either way c descends along the path on which it and its points move.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        roles: Roles,
        groups: list[dict[str, Any]],
        options: dict[str, Any],
        kernels: dict[str, Any],
        max_grad_norm: float | None,
    ) -> None:
        self._algorithm, self._roles, self._options, self._kernels = algorithm, roles, options, kernels
        self.max_grad_norm = max_grad_norm
        self._made = False
        with _compiler_unasked():
            super().__init__(groups, dict(options))
            self._made = True
            self._connect()

    def _connect(self) -> None:
        """Let torch's and geoopt's optimisers work on this one's groups and state, so that there is one of each."""
        flat = [group for group in self.param_groups if group["kind"] != "points"]
        curved = [group for group in self.param_groups if group["kind"] == "points"]
        self._flat = self._algorithm.flat(flat, **self._options, **self._kernels) if flat else None
        self._curved: Any = self._algorithm.curved(curved, **self._options) if curved else None
        for part in (self._flat, self._curved):
            if part is not None:
                part.state = self.state

    def __getstate__(self) -> dict[str, Any]:
        own = ("_algorithm", "_roles", "_options", "_kernels", "max_grad_norm", "_made")
        return {**super().__getstate__(), **{name: getattr(self, name) for name in own}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._connect()

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        if self._made:
            self._refuse_group()
        super().add_param_group(param_group)

    @staticmethod
    def _refuse_group() -> NoReturn:
        raise NotImplementedError(
            "this optimiser sorts parameters by what they are (weights, points, curvatures) when it is made, and takes "
            "no group afterwards: make a new one with hgeo.optim.riemannian_adam(model, ...) and, to keep the old "
            "moments, copy them: new.state.update(old.state). Parameters that are frozen now may be in it already: "
            "they begin to step when requires_grad is set"
        )

    def zero_grad(self, set_to_none: bool = True) -> None:
        with _compiler_unasked():
            super().zero_grad(set_to_none)

    def state_dict(self) -> dict[str, Any]:
        with _compiler_unasked():
            return super().state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        mine = [group["kind"] for group in self.param_groups]
        theirs = [group.get("kind", "no kind") for group in state_dict["param_groups"]]
        if mine != theirs:
            raise ValueError(
                f"the state has parameter groups {theirs}, this optimiser has {mine}: it belongs to a model with other "
                "kinds of parameters, or was saved by another optimiser"
            )
        super().load_state_dict(state_dict)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take one step; a ``closure`` that computes the loss and its gradients is called once, first."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if self.max_grad_norm is not None:
            clip_grad_norm_([p for group in self.param_groups for p in group["params"]], self.max_grad_norm)
        moving = [c for c in self._roles.curvatures if c.grad is not None]
        if self._curved is None and not moving:  # there are only weights: torch's own step does all
            self._step_flat()
            return loss
        with torch.no_grad(), self._gradient_along_the_path(moving):
            if self._curved is not None:
                self._step_points()
                self._decay_points()
            self._step_flat()
            if moving:
                self._settle({id(c) for c in moving})
        return loss

    def _step_flat(self) -> None:
        """torch's step; as long as nobody has imported its compiler, without the wrapping that would (a second)."""
        flat = self._flat
        if flat is None:
            return
        if "torch._dynamo" in sys.modules or flat.defaults.get("differentiable"):
            flat.step()
            return
        with torch.no_grad():
            inspect.unwrap(type(flat).step)(flat)

    # --- points ---

    def _step_points(self) -> None:
        sparse: list[dict[str, Any]] = []
        for group in self._curved.param_groups:
            rows = [p for p in group["params"] if p.grad is not None and p.grad.is_sparse]
            if rows and group.get("amsgrad"):
                raise ValueError(
                    f"a table of points of shape {tuple(rows[0].shape)} has a sparse gradient, for which geoopt's "
                    "amsgrad is wrong: use amsgrad=False or an embedding with sparse=False"
                )
            if group.get("momentum", 0.0) > 0:
                # geoopt would start from the Euclidean gradient, which is not tangent and not of the metric's scale.
                for p in group["params"]:
                    if p.grad is not None and not self.state[p]:
                        self.state[p]["momentum_buffer"] = torch.zeros_like(p)
            if rows:
                sparse.append({**group, "params": rows})
        with self._gradients_lent():
            self._step_dense_and_sparse(sparse)

    def _step_dense_and_sparse(self, sparse: list[dict[str, Any]]) -> None:
        if not sparse:
            self._curved.step()
            return
        tables = {id(p) for group in sparse for p in group["params"]}
        whole = self._curved.param_groups
        try:
            self._curved.param_groups = [
                {**g, "params": [p for p in g["params"] if id(p) not in tables]} for g in whole
            ]
            self._curved.step()
        finally:
            self._curved.param_groups = whole
        for group in sparse:
            for point in group["params"]:
                self._algorithm.rows(point, group, self.state[point])

    @contextmanager
    def _gradients_lent(self) -> Iterator[None]:
        """geoopt.Lorentz.egrad2rgrad writes into the gradient it is given: it gets a copy."""
        lent = [p for p in self._roles.points if p.grad is not None and writes_into_gradient(p.manifold)]
        saved = [p.grad for p in lent]
        for p in lent:
            p.grad = p.grad.clone()
        try:
            yield
        finally:
            for p, before in zip(lent, saved, strict=True):
                p.grad = before

    def _decay_points(self) -> None:
        """x ← exp0((1 - lr·decay) log0(x)), the momentum transported along."""
        for group in self._curved.param_groups:
            if group["point_decay"] == 0:
                continue
            keep = 1 - group["lr"] * group["point_decay"]
            for point in group["params"]:
                if point.grad is None:
                    continue
                x, manifold = point.detach().as_subclass(Tensor), point.manifold
                y = exp0(manifold, keep * log0(manifold, x))
                momentum = self.state[point].get(self._algorithm.momentum)
                if momentum is not None:
                    momentum.copy_(manifold.transp(x, y, momentum))
                point.copy_(y)

    # --- curvatures ---

    def _on(self, moving: set[int]) -> Iterator[Any]:
        """What lies on a manifold whose curvature is among ``moving``."""
        for point in self._roles.placed:
            if any(id(c) in moving for c in point.manifold.parameters()):
                yield point

    @contextmanager
    def _gradient_along_the_path(self, moving: list[Tensor]) -> Iterator[None]:
        """Add to the gradient of each curvature the motion that projecting its points will cause; undo it afterwards,
        so that a caller finds the gradients as they were.
        """
        if not moving:
            yield
            return
        saved = [c.grad for c in moving]
        for point in self._on({id(c) for c in moving}):
            if point.grad is None:
                continue
            x, gradient = touched(point)
            with torch.enable_grad():
                projected = point.manifold.projx(x)
            own = [c for c in point.manifold.parameters() if c.requires_grad and c.grad is not None]
            if projected.requires_grad and own:
                parts = torch.autograd.grad(projected, own, gradient, allow_unused=True)
                for c, part in zip(own, parts, strict=True):
                    if part is not None and c.grad is not None:
                        c.grad = c.grad + part
        try:
            yield
        finally:
            for c, before in zip(moving, saved, strict=True):
                c.grad = before

    def _settle(self, moving: set[int]) -> None:
        """Put curvatures back on their bounds, and everything on a manifold that moved onto the new one."""
        for manifold in self._roles.manifolds:
            stored, minimum = getattr(manifold, "curvature_bound", (None, 0.0))
            if stored is None or id(stored) not in moving:
                continue
            momentum = self.state[stored].get(self._algorithm.momentum)
            if momentum is not None:  # at the bound, momentum that points outwards is set to 0
                momentum.copy_(torch.where(stored <= minimum, momentum.clamp(max=0.0), momentum))
            stored.clamp_(min=minimum)
        for point in self._on(moving):
            manifold = point.manifold
            x = manifold.projx(point.detach().as_subclass(Tensor))
            point.copy_(x)
            momentum = self.state[point].get(self._algorithm.momentum) if point in self.state else None
            if momentum is not None:
                momentum.copy_(manifold.proju(x, momentum))


ADAM = Algorithm(
    "riemannian_adam",
    torch.optim.Adam,
    geoopt.optim.RiemannianAdam,
    adam_rows,
    "exp_avg",
)
SGD = Algorithm(
    "riemannian_sgd",
    torch.optim.SGD,
    geoopt.optim.RiemannianSGD,
    sgd_rows,
    "momentum_buffer",
)
