"""Derivatives at the places where formulas break: coincident points, the origin, the zero vector."""

from __future__ import annotations

import torch
from torch import Tensor

from hgeo.testing import oracle
from hgeo.testing._space import Space, ratio
from hgeo.testing.laws._law import law, only

__all__: list[str] = []


def _rows(space: Space, function: object, x: Tensor) -> Tensor:
    """Jacobians of a batch, row by row: (count, out, in)."""
    return torch.stack([torch.autograd.functional.jacobian(function, row) for row in x])


@law(
    "the Jacobian of log0 and of exp0 at 0 is the identity",
    needs=["logmap0", "expmap0", "curvature"],
    group="smooth",
    limit=1,
)
def origin_maps_are_the_identity_to_first_order(space: Space, x: Tensor) -> Tensor:
    zero, eye = torch.zeros_like(x[:1]), torch.eye(space.dim, dtype=space.dtype)
    log, exp = _rows(space, space.manifold.logmap0, zero), _rows(space, space.manifold.expmap0, zero)
    error = torch.maximum((log[0] - eye).abs().amax(), (exp[0] - eye).abs().amax())
    return error.reshape(1).expand(x.shape[0])


@law("the Jacobian of M ⊗ x at x = 0 is M", needs=["mobius_matvec", "curvature"], group="smooth", limit=8)
def matrix_product_is_linear_at_the_origin(space: Space, m: Tensor) -> Tensor:
    zero = torch.zeros(space.dim, dtype=space.dtype)
    jacobians = [
        torch.autograd.functional.jacobian(lambda x, matrix=matrix: space.manifold.mobius_matvec(matrix, x), zero)
        for matrix in m
    ]
    return (torch.stack(jacobians) - m).abs().amax((-1, -2)).double()


@law("the Jacobian of r ⊗ x at x = 0 is rI", needs=["mobius_scalar_mul", "curvature"], group="smooth", limit=8)
def scalar_product_is_linear_at_the_origin(space: Space, r: Tensor) -> Tensor:
    zero, eye = torch.zeros(space.dim, dtype=space.dtype), torch.eye(space.dim, dtype=space.dtype)
    jacobians = [
        torch.autograd.functional.jacobian(lambda x, factor=factor: space.manifold.mobius_scalar_mul(factor, x), zero)
        for factor in r
    ]
    return (torch.stack(jacobians) - r.unsqueeze(-1) * eye).abs().amax((-1, -2)).double()


@law(
    "at x = y the gradient of the distance is finite (0) and its second derivatives are finite",
    needs=["dist"],
    tolerance="exact",
    group="smooth",
    limit=16,
)
def distance_is_differentiable_at_coincidence(space: Space, x: Tensor) -> Tensor:
    a, b = x.detach().clone().requires_grad_(), x.detach().clone().requires_grad_()
    distance = space.manifold.dist(a, b)
    first = torch.autograd.grad(distance.sum(), (a, b), create_graph=True)
    finite = torch.stack([torch.isfinite(g).reshape(len(x), -1).all(-1) for g in first]).all(0)
    still = torch.stack([(g == 0).reshape(len(x), -1).all(-1) for g in first]).all(0)
    total = sum((g.sum() for g in first), torch.zeros((), dtype=space.dtype))
    if total.requires_grad:
        second = torch.autograd.grad(total, (a, b), allow_unused=True)
        finite &= torch.stack(
            [torch.isfinite(g).reshape(len(x), -1).all(-1) for g in second if g is not None] or [finite]
        ).all(0)
    return torch.where(finite & still, 0.0, 1.0)


@law(
    "dist0 and norm have finite derivatives at 0",
    needs=["dist0", "norm", "curvature"],
    tolerance="exact",
    group="smooth",
    limit=8,
)
def lengths_are_differentiable_at_zero(space: Space, x: Tensor) -> Tensor:
    zero = torch.zeros_like(x).requires_grad_()
    first = torch.autograd.grad(space.manifold.dist0(zero).sum(), zero)[0]
    second = torch.autograd.grad(space.manifold.norm(x, zero).sum(), zero)[0]
    finite = torch.isfinite(first).all(-1) & torch.isfinite(second).all(-1)
    return torch.where(finite, 0.0, 1.0)


@law(
    "the Hessian of the squared distance at x = y is 2λ²I",
    needs=["dist2", "lambda_x", "curvature"],
    tolerance="second derivative",
    group="smooth",
    limit=16,
)
def squared_distance_has_its_hessian(space: Space, x: Tensor) -> Tensor:
    errors = []
    eye = torch.eye(space.dim, dtype=torch.float64)
    for row in x:
        hessian = torch.autograd.functional.hessian(lambda a, base=row: space.manifold.dist2(a, base), row).double()
        expected = 2 * float(2 / (1 + (space.k or 0.0) * row.double().square().sum())) ** 2 * eye
        errors.append(ratio((hessian - expected).norm(), expected.norm()))
    errors_tensor = torch.stack(errors)
    return only(space.condition(x) < 1e3, errors_tensor / space.condition(x) ** 2)


@law(
    "the last point before the boundary has finite distances, factors and gradients",
    needs=["dist", "lambda_x", "logmap0", "mobius_add", "transp0back", "negative curvature"],
    tolerance="exact",
    group="smooth",
)
def the_edge_is_finite(space: Space, x: Tensor, y: Tensor) -> Tensor:
    ray = x.double() / space.euclidean(x).clamp_min(1e-300).unsqueeze(-1)
    edge = (ray * (space.domain.unit * (1 - space.eps / 4))).to(space.dtype)  # nearer than a projection leaves it
    size = space.euclidean(y).unsqueeze(-1) / space.domain.unit
    inner = (y.double() * (0.5 / size.clamp_min(0.5))).to(space.dtype)
    f = space.manifold
    finite = torch.ones(len(x), dtype=torch.bool)
    for operation in (
        lambda a: f.dist(a, inner),
        lambda a: f.dist(inner, a),
        f.lambda_x,
        f.logmap0,
        lambda a: f.mobius_add(a, inner),
        lambda a: f.transp0back(a, inner),
    ):
        point = edge.clone().requires_grad_()
        value = operation(point)
        (slope,) = torch.autograd.grad(value.sum(), point)
        finite &= torch.isfinite(value).reshape(len(x), -1).all(-1) & torch.isfinite(slope).all(-1)
    # rounded to the boundary itself, a point is none
    real = torch.tensor([bool(1 + (space.k or 0.0) * oracle.length(row) ** 2 > 0) for row in edge])
    return only(real & (space.euclidean(x) > 0), torch.where(finite, 0.0, 1.0))


def _inside(space: Space, value: Tensor) -> Tensor:
    """Away from boundary and antipodes, so that finite differences mean something."""
    size = value.double().norm(dim=-1, keepdim=True) / space.domain.unit
    return value.double() * (0.5 / size.clamp_min(0.5))


@law(
    "first and second derivatives agree with finite differences (gradcheck, gradgradcheck in float64)",
    needs=["dist2", "expmap0", "logmap0", "mobius_add", "expmap", "logmap", "mobius_scalar_mul", "transp", "curvature"],
    tolerance="exact",
    group="smooth",
    limit=3,
)
def gradcheck_passes(space: Space, x: Tensor, y: Tensor, g: Tensor) -> Tensor:
    manifold = space.sibling(space.k or 0.0) or space.manifold
    manifold = manifold.double() if isinstance(manifold, torch.nn.Module) else manifold
    unit = space.domain.unit
    if not 1e-3 < unit < 1e3:  # differences of 1e-6 need a space of ordinary size
        return torch.full((x.shape[0],), -1.0, dtype=torch.float64)
    verdicts = []
    for a, b, c in zip(_inside(space, x), _inside(space, y), g.double() * unit * 0.3, strict=True):
        inputs = tuple(value.clone().requires_grad_() for value in (a, b, c))
        ok = True
        for operation in ("dist2", "mobius_add", "expmap", "logmap"):
            ok &= _checked(getattr(manifold, operation), inputs[:2])
        for operation in ("expmap0", "logmap0"):
            ok &= _checked(getattr(manifold, operation), inputs[:1])
        ok &= _checked(manifold.transp, inputs)
        verdicts.append(0.0 if ok else 1.0)
    return torch.tensor(verdicts, dtype=torch.float64)


def _checked(function: object, inputs: tuple[Tensor, ...]) -> bool:
    first = torch.autograd.gradcheck(function, inputs, raise_exception=False, fast_mode=True)  # type: ignore[arg-type]
    second = torch.autograd.gradgradcheck(function, inputs, raise_exception=False, fast_mode=True, atol=1e-4)  # type: ignore[arg-type]
    return bool(first and second)
