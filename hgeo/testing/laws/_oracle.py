"""Agreement with the oracle: every operation, and every derivative of it, against sixty right digits.

The bound is that of the project: norm-wise relative error ≤ 16 eps/(1 − c|x|²), x the outermost point; on spheres
32 eps, near antipodes absolute in units of π/√k. One table says for each operation which examples it takes.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hgeo.testing import _batch, oracle
from hgeo.testing._space import Functions, Space
from hgeo.testing.laws import _boundary
from hgeo.testing.laws._law import SKIPPED, TOLERANCES, Law, WrongShape, law

__all__ = ["BY_NAME", "Operation", "by_curvature", "call"]

_FACTORS = ("r", "s", "t")


@dataclass(frozen=True)
class Operation:
    """How an operation meets its oracle."""

    name: str
    arguments: tuple[str, ...]
    result: str  # "number", "point", "vector": how its error is measured
    scale: str = "result"  # relative to the result itself, or to the size of what cancels in it
    exact: str = ""  # the oracle's name, if it is another
    curvature: str = "any"  # "negative", "positive": where it is defined
    derivatives: tuple[str, ...] = ()  # the arguments by which it is differentiated, besides the curvature

    @property
    def function(self) -> Callable[..., Any]:
        return getattr(oracle, self.exact or self.name)

    @property
    def needs(self) -> list[str]:
        where = {"any": "curvature", "negative": "negative curvature", "positive": "positive curvature"}
        return [self.name, where[self.curvature]]

    @property
    def parameter(self) -> str:
        return "c" if self.curvature == "negative" else "k"

    def is_pure(self, index: int) -> bool:
        """Whether an argument is a factor, or a time between 0 and 1: a number whatever the unit of length."""
        return self.arguments[index] in _FACTORS and self.name != "geodesic_unit"


_TABLE = (
    Operation("lambda_x", ("x",), "number", derivatives=("x",)),
    Operation("inner", ("x", "u", "v"), "number", scale="pairing", derivatives=("x", "u", "v")),
    Operation("norm", ("x", "u"), "number", derivatives=("x", "u")),
    Operation("egrad2rgrad", ("x", "g"), "vector", derivatives=("x",)),
    Operation("mobius_add", ("x", "y"), "point", derivatives=("x", "y")),
    Operation("mobius_sub", ("x", "y"), "point", derivatives=("y",)),
    Operation("mobius_coadd", ("x", "y"), "point", derivatives=("x", "y")),
    Operation("mobius_cosub", ("x", "y"), "point", derivatives=("y",)),
    Operation("gyration", ("x", "y", "g"), "vector", derivatives=("x", "y", "g")),
    Operation("mobius_scalar_mul", ("r", "x"), "point", derivatives=("r", "x")),
    Operation("mobius_matvec", ("m", "x"), "point", scale="matrix", derivatives=("x",)),
    Operation("mobius_pointwise_mul", ("g", "x"), "point", derivatives=("g", "x")),
    Operation("expmap0", ("p",), "point", derivatives=("p",)),
    Operation("logmap0", ("x",), "vector", derivatives=("x",)),
    Operation("expmap", ("x", "u"), "point", scale="journey", derivatives=("x", "u")),
    Operation("logmap", ("x", "y"), "vector", derivatives=("x", "y")),
    Operation("geodesic", ("t", "x", "y"), "point", scale="ends", derivatives=("t", "x", "y")),
    Operation("geodesic_unit", ("t", "x", "g"), "point", scale="journey", derivatives=("t", "x", "g")),
    Operation("transp", ("x", "y", "g"), "vector", exact="parallel_transport", derivatives=("x", "y", "g")),
    Operation("transp0", ("y", "g"), "vector", exact="parallel_transport0", derivatives=("y", "g")),
    Operation("transp0back", ("x", "g"), "vector", exact="parallel_transport0back", derivatives=("x", "g")),
    Operation("dist", ("x", "y"), "number", derivatives=("x", "y")),
    Operation("dist2", ("x", "y"), "number", exact="sqdist", derivatives=("x", "y")),
    Operation("dist0", ("x",), "number", derivatives=("x",)),
    Operation("dist2plane", ("x", "y", "g"), "number", scale="plane", derivatives=("x", "y", "g")),
    Operation("antipode", ("x",), "point", derivatives=("x",)),
    Operation("weighted_midpoint", ("xs", "ws"), "point", scale="cloud", derivatives=("xs", "ws")),
    Operation("ball_to_lorentz", ("x",), "vector", curvature="negative", derivatives=("x",)),
    Operation("ball_to_klein", ("x",), "vector", curvature="negative", derivatives=("x",)),
    Operation("klein_to_ball", ("x",), "vector", curvature="negative", derivatives=("x",)),
    Operation("stereo_to_sphere", ("x",), "vector", curvature="positive", derivatives=("x",)),
)

_OF_POINTS = ("journey", "ends", "cloud")
"""The scales at which an error is relative to the largest point, should the result itself be smaller."""

BY_NAME = {operation.name: operation for operation in _TABLE}


# --------------------------------------------------------------------------------------------------------- one example


def _options(name: str) -> dict[str, Any]:
    return {"reducedim": [1]} if name == "weighted_midpoint" else {}


def call(manifold: Any, operation: Operation, values: Sequence[Tensor]) -> Tensor:
    return getattr(manifold, operation.name)(*values, **_options(operation.name))


def _rows(manifold: Any, operation: Operation, batch: Sequence[Tensor]) -> Tensor:
    """The results of a batch of examples, (rows, entries)."""
    return _one_a_row(operation, call(manifold, operation, batch), batch[0].shape[0])


def _one_a_row(operation: Operation, result: Tensor, count: int) -> Tensor:
    if result.shape[:1] != (count,) or (operation.result == "number" and result.numel() != count):
        raise WrongShape(f"{operation.name} of {count} examples has the shape {tuple(result.shape)} (try it on two)")
    return result.reshape(count, -1)


def _relative(deviation: Any, scale: Any) -> float:
    """A deviation in parts of a scale. Where the right result is exactly 0, any other is infinitely wrong."""
    return float(deviation / scale) if scale > 0 else math.inf


def _curvature(space: Space, operation: Operation) -> float:
    k = space.k or 0.0
    return -k if operation.parameter == "c" else k


def _exact_arguments(values: Sequence[Tensor], names: Sequence[str]) -> list[Any]:
    return [value.item() if name in _FACTORS else value for name, value in zip(names, values, strict=True)]


def _gap(space: Space, name: str, value: Tensor) -> float:
    """1 − c|x|² of a point argument, exactly; 1 for what is not a point and where the curvature is not negative."""
    k = space.k or 0.0
    if k >= 0 or name not in ("x", "y", "z", "xs"):
        return 1.0
    rows = value.reshape(-1, value.shape[-1])
    quick = float((1 + k * rows.double().square().sum(-1)).min())
    if quick > 1e-6:  # float64 is enough unless nearly all of it cancels
        return quick
    return min(float(1 + k * oracle.length(row) ** 2) for row in rows)


def _size(value: Any) -> Any:
    return oracle.length(value) if isinstance(value, list) else abs(value)


def _scale(space: Space, operation: Operation, values: Sequence[Tensor], exact: Any) -> Any:
    """What the error is relative to."""
    k = space.k or 0.0
    size = _size(exact)
    if operation.scale == "matrix":
        inner = oracle.length(oracle.logmap0(values[1], k=k)) * float(torch.linalg.matrix_norm(values[0].double(), 2))
        return max(size, min(inner, 1 / math.sqrt(-k)) if k < 0 else inner)
    if operation.scale == "pairing":
        product = oracle.length(values[1]) * oracle.length(values[2])
        return oracle.lambda_x(values[0], k=k) ** 2 * product
    if operation.scale == "plane":
        return max(size, oracle.dist(values[0], values[1], k=k))
    if operation.scale in _OF_POINTS:
        # a sum of points, or x ⊕ (something that was rounded): what cancels is of the size of the points
        points = [v for n, v in zip(operation.arguments, values, strict=True) if n in ("x", "y", "xs")]
        return max([size, *[oracle.length(row) for p in points for row in p.reshape(-1, p.shape[-1])]])
    return size


def _journey(space: Space, operation: Operation, values: Sequence[Tensor], exact: Any) -> float:
    """How much farther out than its arguments an operation passes or ends: 1/(1 − c|·|²) of the way it goes."""
    k = space.k or 0.0
    if k >= 0:
        return 1.0
    worst = 1.0
    if operation.scale == "journey":
        length = oracle.norm(values[0], values[1], k=k) if operation.name == "expmap" else values[0].item()
        worst = float(oracle.mp.cosh(math.sqrt(-k) * length / 2) ** 2)
    if operation.result == "point" and operation.scale in ("journey", "cloud"):
        worst = max(worst, float(1 / (1 + k * oracle.length(exact) ** 2)))
    return worst


def _exact(space: Space, operation: Operation, values: Sequence[Tensor]) -> Any | None:
    """The right result, or None where the operation has none that coordinates can express."""
    k = space.k or 0.0
    if operation.name == "geodesic_unit" and not float(values[2].norm()) > 0:
        return None
    if k > 0 and not _expressible(space, operation, values, k):
        return None
    try:
        exact = operation.function(
            *_exact_arguments(values, operation.arguments), **{operation.parameter: _curvature(space, operation)}
        )
    except ZeroDivisionError:  # the point at infinity of a sphere
        return None
    if operation.result == "point" and k != 0:
        reach = oracle.length(exact) * math.sqrt(abs(k))
        # Near infinity a sphere's coordinates end; beyond the projection limit a manifold returns the limit, and what
        # it does there is a law of its own.
        if reach > space.eps**-0.5 or (k < 0 and reach >= space.domain.limit and operation.name != "antipode"):
            return None
    return exact


def _expressible(space: Space, operation: Operation, values: Sequence[Tensor], k: float) -> bool:
    """Whether, on a sphere, the operation is not at an antipode, where it has many values or none."""
    points = [v for n, v in zip(operation.arguments, values, strict=True) if n in ("x", "y")]
    if operation.name == "antipode":
        return float(values[0].double().norm()) * math.sqrt(k) > 1e-6
    if operation.name == "weighted_midpoint":
        xs, ws = values[0].double(), values[1].double()
        factor = 2 / (1 + k * xs.square().sum(-1))
        height, along = (ws * (factor - 1)).sum(), (ws * factor) @ xs
        length = (height**2 + k * along.square().sum()).sqrt()
        return bool(length > 0.1 * ws.sum()) and bool(height > -0.999 * length)
    if operation.name in ("logmap", "geodesic", "gyration", "transp", "mobius_coadd", "mobius_cosub"):
        return _away_from_antipode(k, points) > space.eps**0.5
    if operation.name == "dist2plane":
        return _away_from_antipode(k, points) > space.eps**0.5
    return True


def _error(space: Space, operation: Operation, values: Sequence[Tensor], computed: Tensor) -> float:
    names = operation.arguments
    exact = _exact(space, operation, values)
    if exact is None:
        return SKIPPED
    if not bool(torch.isfinite(computed).all()):
        return math.inf
    deviation = oracle.difference(computed, exact)
    if deviation <= oracle.TINY:
        return 0.0
    scale = _scale(space, operation, values, exact)
    # below this, squares vanish in the dtype
    floor = math.sqrt(torch.finfo(space.dtype).tiny) * 1e3
    if scale < floor and deviation < floor * space.eps:
        return 0.0
    gap = min(_gap(space, name, value) for name, value in zip(names, values, strict=True))
    if gap <= 0:
        return SKIPPED
    error = _relative(deviation, scale) * min(gap, 1 / _journey(space, operation, values, exact))
    k = space.k or 0.0
    if k > 0:
        absolute = error
        if operation.result == "point":
            absolute = float(oracle.dist(computed, exact, k=k)) * math.sqrt(k) / math.pi
            if operation.name == "geodesic":
                absolute *= _away_from_antipode(k, values[1:])
            elif operation.name in ("mobius_coadd", "mobius_cosub"):  # a quotient whose both parts vanish at antipodes
                absolute *= math.sqrt(_away_from_antipode(k, values))
        elif operation.result == "number" and operation.name in ("dist", "dist0", "dist2plane"):
            absolute = float(deviation) * math.sqrt(k) / math.pi
        elif operation.name in ("gyration", "transp", "logmap"):
            absolute = error * _away_from_antipode(k, values)
        error = min(error, absolute) / 2
    return error


def _away_from_antipode(k: float, values: Sequence[Tensor]) -> float:
    """cos² of half the angle between the first two points: where it vanishes a rotation between them is undefined."""
    x, y = values[0], values[1]
    half = oracle.dist(x, y, k=k) * math.sqrt(k) / 2
    opposite = oracle.dist(x, -y, k=k) * math.sqrt(k) / 2
    return min(float(oracle.mp.cos(half) ** 2), float(oracle.mp.cos(opposite) ** 2))


_CLEARLY = 1 / 8
"""The part of a tolerance up to which extended precision settles an example; the rest is for sixty digits."""


def _settled(
    space: Space,
    operation: Operation,
    batch: Sequence[Tensor],
    computed: Tensor,
    tolerance: float,
    wrt: int | str | None = None,
    direction: Tensor | None = None,
) -> Tensor:
    """Errors of the examples that extended precision can settle, NaN for the others.

    ``computed`` (rows, entries) are values or, with ``wrt``, derivatives. The error of a value is taken relative to the
    result itself, with no credit for what cancels in it, so it is never below what :func:`_error` would say; that of a
    derivative is relative to what :func:`_derivative_error` divides by.
    """
    count = batch[0].shape[0]
    if not _batch.AVAILABLE:
        return torch.full((count,), math.nan, dtype=torch.float64)
    values = [v.squeeze(-1) if n in _FACTORS else v for n, v in zip(operation.arguments, batch, strict=True)]
    if direction is not None and isinstance(wrt, int):
        direction = direction.reshape(values[wrt].shape)
    arguments = [_batch.columns(value, direction if i == wrt else None) for i, value in enumerate(values)]
    curvature = _batch.Batch(np.full(count, _curvature(space, operation)), 1.0 if wrt == "k" else 0.0)
    value, slope = _batch.evaluate(operation.function, arguments, **{operation.parameter: curvature})
    exact = value if wrt is None else -slope if wrt == "k" and operation.parameter == "c" else slope
    found = computed.detach().double().reshape(count, -1).numpy().astype(np.longdouble)
    with np.errstate(all="ignore"):
        deviation = np.sqrt(np.square(found - exact).sum(-1))
        scale = np.sqrt(np.square(exact).sum(-1))
        if wrt is not None and operation.scale != "pairing":
            size, largest = np.sqrt(np.square(value).sum(-1)), _outermost(operation, values)
            if operation.scale in _OF_POINTS:
                size = np.maximum(size, largest)
            if wrt == "k":
                natural = size * largest**2
            else:
                argument = values[int(wrt)].detach().double().reshape(count, -1).norm(dim=-1).numpy()
                argument = np.where(argument == 0, largest, argument)
                natural = size / (1.0 if operation.is_pure(int(wrt)) else argument)
            scale = np.fmax(scale, _UNIT * natural)
        error = np.where(deviation == 0, 0.0, deviation / scale)
        error = error * np.minimum(_narrowest(space, operation, values), 1.0) ** (2 if isinstance(wrt, int) else 1)
        clear = np.isfinite(error) & (error >= 0) & (error <= _CLEARLY * tolerance)
    return torch.from_numpy(np.where(clear, error, math.nan).astype(np.float64))


_UNIT = 1e-2
"""Where a derivative vanishes its error is absolute, in this part of its natural size: that of the result divided by
that of the argument, which is 1 for a pure number."""


def _narrowest(space: Space, operation: Operation, values: Sequence[Tensor]) -> _batch.Column:
    """1 − c|x|² of a row's outermost point; 1 where the curvature is not negative."""
    k, count = space.k or 0.0, values[0].shape[0]
    gaps = [
        (1 + k * np.square(v.detach().double().numpy().astype(np.longdouble)).sum(-1)).reshape(count, -1).min(-1)
        for n, v in zip(operation.arguments, values, strict=True)
        if k < 0 and n in ("x", "y", "z", "xs")
    ]
    return np.min(gaps, axis=0) if gaps else np.ones(count)


def _outermost(operation: Operation, values: Sequence[Tensor]) -> _batch.Column:
    """The largest norm of a row's points."""
    count = values[0].shape[0]
    sizes = [
        v.detach().double().norm(dim=-1).reshape(count, -1).amax(-1).numpy()
        for n, v in zip(operation.arguments, values, strict=True)
        if n in ("x", "y", "xs", "p")
    ]
    return np.max(sizes, axis=0) if sizes else np.zeros(count)


def _unsettled(errors: Tensor) -> list[int]:
    return torch.isnan(errors).nonzero().flatten().tolist()


def _nothing(batch: Sequence[Tensor]) -> Tensor:
    return torch.full((batch[0].shape[0],), SKIPPED, dtype=torch.float64)


def _value_law(operation: Operation) -> Law:
    statement = f"{operation.name} is right: its error against sixty digits is at most 16 eps/(1 − c|x|²)"

    def check(space: Space, *batch: Tensor) -> Tensor:
        with torch.no_grad():
            computed = _rows(space.manifold, operation, batch)
        errors = _settled(space, operation, batch, computed, TOLERANCES["oracle"][space.dtype])
        for i in _unsettled(errors):
            errors[i] = _error(space, operation, [value[i] for value in batch], computed[i])
        return errors

    return law(
        statement,
        needs=operation.needs,
        tolerance="oracle",
        group="oracle",
        name=f"oracle_{operation.name}",
        examples=operation.arguments,
        # a journey is x ⊕ (a rounded point): two operations, each of them allowed its own error
        factor=4.0 if operation.scale in ("journey", "cloud", "plane") or operation.name == "logmap" else 1.0,
    )(check)


# -------------------------------------------------------------------------------------------------------- derivatives


class _Call(torch.nn.Module):
    """A manifold's operation as a module, so that its curvature can be replaced by one a row."""

    def __init__(self, manifold: torch.nn.Module, operation: Operation) -> None:
        super().__init__()
        self.manifold, self.operation = manifold, operation

    def forward(self, *values: Tensor) -> Tensor:
        return call(self.manifold, self.operation, values)


def by_curvature(space: Space, operation: Operation, batch: Sequence[Tensor]) -> Tensor | None:
    """d(operation)/dk by autograd, row by row; None if the space has no curvature that can be learned."""
    count = batch[0].shape[0]
    shape = (count, *[1] * (batch[0].dim() - 1 if batch[0].dim() > 1 else 1))
    if operation.name == "mobius_matvec":
        shape = (count, 1)
    k = space.k or 0.0
    if isinstance(space.manifold, Functions):
        stored = torch.full(shape, k, dtype=space.dtype, requires_grad=True)
        value = _rows(Functions(space.manifold.module, stored), operation, batch)
        return _jacobian(value, stored, count)
    copied = space.trainable()
    if copied is None:
        return None
    learnable, name, parameter = copied
    module = _Call(learnable, operation)
    chain = _jacobian(learnable.k, parameter, 1)[0]
    stored = parameter.detach().expand(shape).clone().requires_grad_()
    plain = module(*batch)
    try:
        value = torch.func.functional_call(module, {f"manifold.{name}": stored}, tuple(batch))
    except RuntimeError:
        value = plain
    _one_a_row(operation, plain, count)
    if value.shape == plain.shape and value is not plain:
        return _jacobian(value, stored, count) / chain
    # a manifold that does not broadcast its curvature is asked row by row
    rows = []
    for i in range(count):
        single = module(*[value[i : i + 1] for value in batch])
        rows.append(_jacobian(single, parameter, 1)[0])
    return torch.stack(rows) / chain


def _jacobian(value: Tensor, parameter: Tensor, count: int) -> Tensor:
    """Derivative of every entry of a row by the row's curvature: (count, entries)."""
    flat = value.reshape(count, -1)
    columns = []
    for j in range(flat.shape[1]):
        if not flat.requires_grad:
            columns.append(torch.zeros(count, dtype=flat.dtype))
            continue
        # At the end of a one-sided family a gradient may pass only when it points inward: ask in both directions.
        total = flat[:, j].sum()
        there, back = (
            torch.autograd.grad(sign * total, parameter, retain_graph=True, allow_unused=True)[0]
            for sign in (1.0, -1.0)
        )
        if there is None or back is None:
            columns.append(torch.zeros(count, dtype=flat.dtype))
        else:
            columns.append(torch.where(there != 0, there, -back).reshape(count, -1).sum(-1))
    return torch.stack(columns, dim=-1).detach()


def _largest(values: Sequence[Tensor], names: Sequence[str]) -> float:
    sizes = [
        float(v.double().norm(dim=-1).max()) for n, v in zip(names, values, strict=True) if n in ("x", "y", "xs", "p")
    ]
    return max(sizes, default=0.0)


def _smooth(space: Space, operation: Operation, values: Sequence[Tensor]) -> bool:
    """Whether the operation is differentiable there, and the derivative is not that of a cancellation."""
    k = space.k or 0.0
    if operation.name == "antipode" and k == 0:
        return False  # −x on one side, −x/(k|x|²) on the other
    if operation.name in ("dist", "geodesic", "logmap") or (k > 0 and len(values) > 1):
        points = [v for n, v in zip(operation.arguments, values, strict=True) if n in ("x", "y")]
        if len(points) == 2:
            if operation.name == "dist" and torch.equal(points[0], points[1]):
                return False
            if k > 0 and _away_from_antipode(k, points) < 5e-2:
                return False
    if operation.name == "dist2plane":
        size = oracle.dist2plane(*values, k=k)
        farthest = 5 if k <= 0 else 0.45 * math.pi  # a quarter of the sphere away there is a kink
        return bool(1e-2 * oracle.dist(values[0], values[1], k=k) < size < farthest / (math.sqrt(abs(k)) or 1.0))
    if k > 0 and operation.name in (
        "mobius_scalar_mul",
        "mobius_matvec",
        "mobius_pointwise_mul",
        "geodesic_unit",
        "expmap",
    ):
        exact = operation.function(*_exact_arguments(values, operation.arguments), k=k)
        return bool(oracle.length(exact) * math.sqrt(k) < 10)
    if operation.name in ("norm", "dist0", "geodesic_unit"):
        return float(values[-1].double().norm()) > 0
    return True


def _smooth_value(space: Space, operation: Operation, values: Sequence[Tensor]) -> Any | None:
    """The right result where the operation has one and is differentiable, else None."""
    value = _exact(space, operation, values)
    return value if value is not None and _smooth(space, operation, values) else None


def _derivative_error(
    space: Space,
    operation: Operation,
    values: Sequence[Tensor],
    computed: Tensor,
    wrt: int | str,
    value: Any,
    direction: Any = None,
) -> float:
    names = operation.arguments
    exact_values = _exact_arguments(values, names)
    curvature = _curvature(space, operation)
    try:
        function = operation.function
        if isinstance(wrt, int) and names[wrt] == "xs":
            others = list(exact_values[0])
            exact = oracle.derivative(
                lambda x, k: operation.function([x, *others[1:]], *exact_values[1:], k=k),
                others[0],
                k=curvature,
                wrt=0,
                direction=direction,
                value=value,
            )
        else:
            exact = oracle.derivative(
                function,
                *exact_values,
                k=curvature,
                wrt=wrt,
                direction=direction,
                parameter=operation.parameter,
                value=value,
            )
    except ZeroDivisionError:
        return SKIPPED
    if wrt == "k" and operation.parameter == "c":
        exact = [-entry for entry in exact] if isinstance(exact, list) else -exact
    if not bool(torch.isfinite(computed).all()):
        return math.inf
    deviation = float(oracle.difference(computed, exact))
    if deviation <= oracle.TINY:
        return 0.0
    # what cancels in a pairing or a matrix product cancels in its derivative, too
    size, largest = float(_scale(space, operation, values, value)), _largest(values, names)
    if operation.scale in _OF_POINTS:
        size = max(size, largest)
    if wrt == "k":
        scale = max(float(_size(exact)), _UNIT * size * largest**2)
    elif operation.scale == "pairing" and names[int(wrt)] != "x":
        other = values[2 if names[int(wrt)] == "u" else 1]
        scale = _UNIT * float(oracle.lambda_x(values[0], k=curvature) ** 2 * oracle.length(other))
        scale = max(scale, float(_size(exact)))
    else:
        argument = 1.0 if operation.is_pure(int(wrt)) else float(values[int(wrt)].double().norm()) or largest
        scale = max(float(_size(exact)), _UNIT * size / argument if argument else 0.0)
    floor = math.sqrt(torch.finfo(space.dtype).tiny) * 1e3
    if scale < floor and deviation < floor:
        return 0.0
    gap = min(_gap(space, name, entry) for name, entry in zip(names, values, strict=True))
    if gap <= 0:
        return SKIPPED
    gap = min(gap, 1 / _journey(space, operation, values, value))
    if (space.k or 0.0) < 0 and operation.result == "point":
        gap = min(gap, max(float(1 + (space.k or 0.0) * oracle.length(value) ** 2), space.eps))
    # By an argument a derivative may lose to the boundary twice what the value does: the argument's own relative change
    # of size eps changes 1 - c|x|² by eps/(1 - c|x|²) of itself. By the curvature it is allowed no more than a value.
    return _relative(deviation, scale) * (gap if wrt == "k" else gap**2)


Places = Callable[..., Sequence[Tensor]]


def _curvature_law(operation: Operation, places: Places | None = None, name: str = "", statement: str = "") -> Law:
    """The law of one operation's k-derivative, or, with ``places``, of that at examples made from the drawn ones."""
    statement = (
        statement or f"the derivative of {operation.name} by the curvature is right, at 0 and on both sides of it"
    )
    where = [] if places is None else ["negative curvature"]

    def check(space: Space, *drawn: Tensor) -> Tensor:
        batch = drawn if places is None else places(space, *drawn)
        derivatives = by_curvature(space, operation, batch)
        if derivatives is None:
            return _nothing(batch)
        errors = _settled(space, operation, batch, derivatives, TOLERANCES["derivative"][space.dtype], "k")
        for i in _unsettled(errors):
            row = [value[i] for value in batch]
            value = _smooth_value(space, operation, row)
            errors[i] = (
                SKIPPED if value is None else _derivative_error(space, operation, row, derivatives[i], "k", value)
            )
        return errors

    return law(
        statement,
        needs=[*operation.needs, *where, "trainable curvature"],
        tolerance="derivative",
        group="derivative",
        name=name or f"curvature_derivative_of_{operation.name}",
        examples=operation.arguments if places is None else _words_of(places),
    )(check)


def _words_of(places: Places) -> list[str]:
    return list(inspect.signature(places).parameters)[1:]


def _gradient_law(operation: Operation) -> Law:
    by = " and ".join(operation.derivatives)
    statement = f"the derivative of {operation.name} by {by} is right"

    def check(space: Space, *batch: Tensor) -> Tensor:
        count = batch[0].shape[0]
        worst = _nothing(batch)
        rows = list(zip(*batch, strict=True))
        exact: dict[int, Any] = {}
        generator = torch.Generator().manual_seed(count)
        for name in operation.derivatives:
            index = operation.arguments.index(name)
            base = batch[index].detach()
            along = torch.randn(base.shape, generator=generator, dtype=torch.float64)
            # half of it along the argument itself: that is where radial formulas go wrong
            size = base.double().norm(dim=-1, keepdim=True)
            along = along / along.norm(dim=-1, keepdim=True).clamp_min(1e-12)
            along = (along + base.double() / size.clamp_min(1e-300)).to(space.dtype)
            if name == "xs":
                along[:, 1:] = 0.0  # the first point moves, the others stay
            moved = base.clone().requires_grad_()
            value = _rows(space.manifold, operation, [*batch[:index], moved, *batch[index + 1 :]])
            columns = []
            for j in range(value.shape[1]):
                (gradient,) = torch.autograd.grad(value[:, j].sum(), moved, retain_graph=True)
                columns.append((gradient.double() * along.double()).reshape(count, -1).sum(-1))
            computed = torch.stack(columns, dim=-1)
            errors = _settled(space, operation, batch, computed, TOLERANCES["gradient"][space.dtype], index, along)
            worst = torch.maximum(worst, torch.nan_to_num(errors, nan=SKIPPED))
            for i in _unsettled(errors):
                row = rows[i]
                if i not in exact:
                    exact[i] = _smooth_value(space, operation, row)
                if exact[i] is None:
                    continue
                direction = along[i, 0] if name == "xs" else along[i]
                pointer = direction.item() if name in _FACTORS else direction
                error = _derivative_error(space, operation, row, computed[i], index, exact[i], pointer)
                worst[i] = max(float(worst[i]), error)
        return worst

    return law(
        statement,
        needs=operation.needs,
        tolerance="gradient",
        group="derivative",
        name=f"gradient_of_{operation.name}",
        examples=operation.arguments,
    )(check)


for _operation in _TABLE:
    _value_law(_operation)
for _operation in _TABLE:
    _curvature_law(_operation)
for _name, _places, _words, _title in (
    ("logmap", _boundary.touching, "of two points that touch", "logmap"),
    ("logmap", _boundary.touched, "of two points that touch, the other way round,", "logmap_back"),
    ("mobius_cosub", _boundary.touching, "of two points that touch", "mobius_cosub"),
    ("transp", _boundary.facing, "between points equally far out", "transp"),
    ("transp", _boundary.turned, "between opposite points", "transp_opposite"),
    ("dist2plane", _boundary.across, "to a plane that passes the origin", "dist2plane"),
    ("weighted_midpoint", _boundary.crowds, "of points equally far out", "weighted_midpoint"),
    ("weighted_midpoint", _boundary.couples, "of opposite points", "weighted_midpoint_opposite"),
):
    _curvature_law(
        BY_NAME[_name],
        _places,
        f"curvature_derivative_near_the_boundary_of_{_title}",
        f"near the boundary the derivative of {_name} {_words} by the curvature is right",
    )
for _operation in _TABLE:
    _gradient_law(_operation)
