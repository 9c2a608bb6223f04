"""What users of an operation may rely on: any dimension, broadcasting, half precision, vmap, one compiled graph."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from hgeo.testing._space import Functions, Space, converted
from hgeo.testing.laws._law import SKIPPED, Law, law
from hgeo.testing.laws._oracle import BY_NAME, Operation, call

__all__: list[str] = []

_VECTORS = ("x", "y", "z", "u", "v", "p", "w", "g")

_PLAIN = tuple(
    operation
    for operation in BY_NAME.values()
    if operation.curvature == "any" and operation.name not in ("weighted_midpoint", "antipode")
)


def _modest(
    names: Sequence[str], batch: Sequence[Tensor], space: Space, dtype: torch.dtype | None = None
) -> list[Tensor]:
    """The examples at no more than half of the radius of curvature, rounded to ``dtype``."""
    kept = []
    for name, value in zip(names, batch, strict=True):
        if name in _VECTORS:
            limit = 0.5 * min(space.domain.unit, 2.0)
            size = value.double().norm(dim=-1, keepdim=True)
            value = (value.double() * (limit / size.clamp_min(limit))).to(value.dtype)
        kept.append(value.to(dtype or space.dtype))
    return kept


def _relative(computed: Tensor, expected: Tensor, count: int) -> Tensor:
    computed, expected = computed.double().reshape(count, -1), expected.double().reshape(count, -1)
    if computed.shape != expected.shape:
        return torch.full((count,), torch.inf, dtype=torch.float64)
    deviation = (computed - expected).norm(dim=-1)
    return torch.where(deviation == 0, 0.0, deviation / expected.norm(dim=-1).clamp_min(1e-300))


def _takes(manifold: Any, operation: Operation, word: str) -> bool:
    function = getattr(manifold, operation.name)
    if isinstance(manifold, Functions):
        function = manifold.underlying(operation.name)
    try:
        return word in inspect.signature(function).parameters
    except ValueError:
        return False


def _axes_law(operation: Operation) -> Law:
    names = operation.arguments

    def check(space: Space, *batch: Tensor) -> Tensor:
        values = _modest(names, batch, space)
        count = values[0].shape[0]
        expected = call(space.manifold, operation, values)
        floor = 1e-6 if space.dtype == torch.float64 else 1e-2
        size = expected.double().reshape(count, -1).norm(dim=-1)
        errors = []
        if operation.name == "mobius_matvec" and _takes(space.manifold, operation, "dim"):
            one, many = values[0][0], values[1]
            along = space.manifold.mobius_matvec(one, many.movedim(-1, 0), dim=0).movedim(0, -1)
            errors.append(_relative(along, space.manifold.mobius_matvec(one, many), count))
        elif _takes(space.manifold, operation, "dim"):
            turned = [value.movedim(-1, 0) for value in values]
            along = getattr(space.manifold, operation.name)(*turned, dim=0)
            errors.append(_relative(along.movedim(0, -1) if along.dim() > 1 else along, expected, count))
        if _takes(space.manifold, operation, "keepdim"):
            kept = getattr(space.manifold, operation.name)(*values, keepdim=True)
            shape_ok = kept.shape == (*expected.shape, 1)
            errors.append(_relative(kept, expected, count) if shape_ok else torch.full((count,), torch.inf))
        # a batch against a single example, and an extra leading dimension
        led = call(space.manifold, operation, [value.unsqueeze(0) for value in values])
        errors.append(_relative(led.squeeze(0), expected, count))
        ones = [value[:1] if i else value for i, value in enumerate(values)]
        spread = [value[:1].expand_as(value) if i else value for i, value in enumerate(values)]
        repeated = call(space.manifold, operation, spread)
        error = _relative(call(space.manifold, operation, ones), repeated, count)
        whole = repeated.double().reshape(count, -1).norm(dim=-1) > floor
        errors.append(torch.where(whole | torch.isinf(error), error, 0.0))
        worst = torch.stack([error.double() for error in errors]).amax(0)
        # a result that cancelled has no digits to compare: sums in another order may differ in all of them
        return torch.where((size > floor) | torch.isinf(worst), worst, SKIPPED)

    return law(
        f"{operation.name} is the same along any dimension, with keepdim, with more dimensions and by broadcasting",
        needs=[operation.name, "curvature"],
        tolerance="chain",
        group="interface",
        name=f"axes_of_{operation.name}",
        examples=names,
    )(check)


for _operation in _PLAIN:
    _axes_law(_operation)


@law(
    "weighted_midpoint reduces the dimensions it is told to, keeps them with keepdim, and all by default",
    needs=["weighted_midpoint", "curvature"],
    tolerance="chain",
    group="interface",
    limit=16,
)
def axes_of_weighted_midpoint(space: Space, xs: Tensor, ws: Tensor) -> Tensor:
    size = xs.double().norm(dim=-1, keepdim=True)
    limit = 0.5 * min(space.domain.unit, 2.0)
    xs = (xs.double() * (limit / size.clamp_min(limit))).to(space.dtype)
    count = xs.shape[0]
    middle = space.manifold.weighted_midpoint
    expected = middle(xs, ws, reducedim=[1])
    kept = middle(xs, ws, reducedim=[1], keepdim=True)
    turned = middle(xs.movedim(1, 0), ws.movedim(1, 0), reducedim=[0])
    whole = middle(xs, ws)
    rows = middle(xs.reshape(-1, xs.shape[-1]), ws.reshape(-1), reducedim=[0])
    scale = xs.double().norm(dim=-1).amax(1).clamp_min(1e-300)
    errors = [
        (kept.squeeze(1).double() - expected.double()).norm(dim=-1) / scale,
        (turned.double() - expected.double()).norm(dim=-1) / scale,
        ((whole.double() - rows.double()).norm() / scale.max()).expand(count),
    ]
    shapes = kept.shape == (count, 1, xs.shape[-1]) and whole.shape == (xs.shape[-1],)
    worst = torch.stack(errors).amax(0)
    return worst if shapes else torch.full_like(worst, torch.inf)


def _half_law(operation: Operation) -> Law:
    names = operation.arguments

    def check(space: Space, *batch: Tensor) -> Tensor:
        count = batch[0].shape[0]
        if not 1e-2 <= space.domain.unit <= 1e2:
            return torch.full((count,), SKIPPED, dtype=torch.float64)  # float16 has no room for such a space
        worst = torch.full((count,), SKIPPED, dtype=torch.float64)
        for dtype in (torch.float16, torch.bfloat16):
            eps = torch.finfo(dtype).eps
            values = _modest(names, batch, space, dtype)
            exact = [value.double() for value in values]
            reference = call(converted(space.manifold, torch.float64), operation, exact)
            try:
                computed = call(space.manifold, operation, values)
            except (TypeError, ValueError):
                continue  # refused, with an error that says so
            size = reference.reshape(count, -1).norm(dim=-1)
            for name, value in zip(names, exact, strict=True):
                if name in ("x", "y", "u"):
                    size = torch.maximum(size, value.norm(dim=-1))
            deviation = (computed.double() - reference).reshape(count, -1).norm(dim=-1)
            good_type = computed.dtype == dtype
            error = deviation / (4 * eps * size + 4 * torch.finfo(dtype).tiny)
            error = torch.where(torch.isfinite(computed.double().reshape(count, -1)).all(-1), error, torch.inf)
            worst = torch.maximum(worst, error if good_type else torch.full_like(error, torch.inf))
        return worst

    return law(
        f"{operation.name} in float16 and bfloat16 is right to their own precision, or refused",
        needs=[operation.name, "curvature"],
        tolerance="own precision",
        group="half",
        name=f"half_precision_of_{operation.name}",
        examples=names,
    )(check)


for _operation in _PLAIN:
    _half_law(_operation)


def _vmap_law(operation: Operation) -> Law:
    names = operation.arguments

    def check(space: Space, *batch: Tensor) -> Tensor:
        values = _modest(names, batch, space)
        count = values[0].shape[0]
        expected = call(space.manifold, operation, values)
        single = torch.func.vmap(lambda *rows: call(space.manifold, operation, rows))(*values)
        size = expected.double().reshape(count, -1).norm(dim=-1)
        errors = [_relative(single, expected, count)]
        if isinstance(space.manifold, Functions):
            # and over the curvature: a curvature a row
            module, k = space.manifold.module, torch.full((count,), space.k or 0.0, dtype=space.dtype)
            over = torch.func.vmap(lambda one, *rows: call(Functions(module, one), operation, rows))(k, *values)
            errors.append(_relative(over, expected, count))
        worst = torch.stack(errors).amax(0)
        return torch.where(size > (1e-6 if space.dtype == torch.float64 else 1e-2), worst, SKIPPED)

    return law(
        f"torch.func.vmap of {operation.name} is the batched {operation.name}, over the curvature too",
        needs=[operation.name, "curvature"],
        tolerance="chain",
        group="interface",
        name=f"vmap_of_{operation.name}",
        examples=names,
        limit=32,
    )(check)


for _operation in _PLAIN:
    _vmap_law(_operation)


def _compile_law(operation: Operation) -> Law:
    names = operation.arguments

    def check(space: Space, *batch: Tensor) -> Tensor:
        values = _modest(names, [value[:2] for value in batch], space)
        function: Callable[..., Tensor] = getattr(space.manifold, operation.name)
        torch._dynamo.reset()
        try:
            compiled = torch.compile(function, fullgraph=True, backend="eager", dynamic=False)
            result = compiled(*values)
        except Exception:  # dynamo has a dozen kinds of error, and all mean: more than one graph
            return torch.ones(batch[0].shape[0], dtype=torch.float64)
        finally:
            torch._dynamo.reset()
        expected = function(*values)
        same = bool(
            ((result.double() - expected.double()).abs() <= 64 * space.eps * expected.double().abs() + 1e-30).all()
        )
        return torch.full((batch[0].shape[0],), 0.0 if same else 1.0, dtype=torch.float64)

    return law(
        f"torch.compile makes one graph of {operation.name}",
        needs=[operation.name, "curvature"],
        tolerance="exact",
        group="compile",
        name=f"one_graph_of_{operation.name}",
        examples=names,
        limit=1,
    )(check)


for _operation in _PLAIN:
    _compile_law(_operation)
