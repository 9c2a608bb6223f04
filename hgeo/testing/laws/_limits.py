"""Spaces of another curvature: as it goes to 0 every operation becomes the Euclidean one, from both sides, at the rate
O(k); and curvature is one over a length squared, so that a quarter of it is the same space at twice the size."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hgeo.testing import _batch, oracle
from hgeo.testing._space import Space, stereographic_embedding
from hgeo.testing.laws._law import SKIPPED, TOLERANCES, Law, law
from hgeo.testing.laws._oracle import BY_NAME, Operation, by_curvature, call

__all__: list[str] = []


def _times(matrix: Tensor, x: Tensor) -> Tensor:
    return (matrix @ x.unsqueeze(-1)).squeeze(-1)


def _dot(x: Tensor, y: Tensor) -> Tensor:
    return (x * y).sum(-1)


_FLAT: dict[str, Callable[..., Tensor]] = {
    "lambda_x": lambda x: torch.full_like(x[..., 0], 2.0),
    "inner": lambda x, u, v: 4 * _dot(u, v),
    "norm": lambda x, u: 2 * u.norm(dim=-1),
    "egrad2rgrad": lambda x, g: g / 4,
    "mobius_add": lambda x, y: x + y,
    "mobius_sub": lambda x, y: x - y,
    "mobius_coadd": lambda x, y: x + y,
    "mobius_cosub": lambda x, y: x - y,
    "gyration": lambda x, y, g: g,
    "mobius_scalar_mul": lambda r, x: r * x,
    "mobius_matvec": _times,
    "mobius_pointwise_mul": lambda g, x: g * x,
    "expmap0": lambda p: p,
    "logmap0": lambda x: x,
    "expmap": lambda x, u: x + u,
    "logmap": lambda x, y: y - x,
    "geodesic": lambda t, x, y: x + t * (y - x),
    "geodesic_unit": lambda t, x, g: x + t / 2 * g / g.norm(dim=-1, keepdim=True),
    "transp": lambda x, y, g: g,
    "transp0": lambda y, g: g,
    "transp0back": lambda x, g: g,
    "dist": lambda x, y: 2 * (x - y).norm(dim=-1),
    "dist2": lambda x, y: 4 * _dot(x - y, x - y),
    "dist0": lambda x: 2 * x.norm(dim=-1),
    "dist2plane": lambda x, y, g: 2 * _dot(x - y, g).abs() / g.norm(dim=-1),
    "weighted_midpoint": lambda xs, ws: (ws.unsqueeze(-1) * xs).sum(1) / ws.sum(1, keepdim=True),
}
"""The Euclidean form of every operation, in the metric 4|dx|²."""

_STEPS = (1e-2, 1e-4, 1e-6, 1e-8)


def _ordinary(names: Sequence[str], batch: Sequence[Tensor]) -> list[Tensor]:
    """The examples brought to lengths of at most 1/2: limits are about the curvature, not about far points."""
    kept = []
    for name, value in zip(names, batch, strict=True):
        if name in ("x", "y", "z", "u", "v", "p", "w", "xs", "g"):
            size = value.double().norm(dim=-1, keepdim=True)
            value = (value.double() * (0.5 / size.clamp_min(0.5))).to(value.dtype)
        kept.append(value)
    return kept


def _entries(value: Tensor, count: int) -> Tensor:
    return value.detach().double().reshape(count, -1)


def _size(names: Sequence[str], batch: Sequence[Tensor], flat: Tensor) -> Tensor:
    """The natural size of the result: that of what is added in it."""
    count = flat.shape[0]
    sizes = [flat.norm(dim=-1)]
    for name, value in zip(names, batch, strict=True):
        if name in ("x", "y", "p", "xs"):
            sizes.append(value.double().reshape(count, -1).norm(dim=-1))
        if name in ("u", "v", "g"):
            sizes.append(value.double().norm(dim=-1))
    return torch.stack(sizes).amax(0)


def _limit_law(name: str) -> Law:
    operation = BY_NAME[name]

    def check(space: Space, *batch: Tensor) -> Tensor:
        values = _ordinary(operation.arguments, batch)
        count = values[0].shape[0]
        flat = _entries(_FLAT[name](*[value.double() for value in values]), count)
        size = _size(operation.arguments, values, flat)
        worst = torch.full((count,), SKIPPED, dtype=torch.float64)
        for k in (0.0, *[sign * step for step in _STEPS for sign in (-1.0, 1.0)]):
            sibling = space.sibling(k)
            if sibling is None:
                continue
            computed = _entries(call(sibling, operation, values), count)
            allowed = 16 * space.eps * size + 8 * abs(k) * size
            deviation = (computed - flat).norm(dim=-1)
            worst = torch.maximum(worst, torch.where(deviation == 0, 0.0, deviation / allowed.clamp_min(1e-300)))
        return worst

    return law(
        f"{name} is exactly Euclidean at k = 0 and tends to it from both sides with an error O(k)",
        needs=[name, "curvature", "family"],
        tolerance="limit",
        group="limit",
        name=f"limit_of_{name}",
        examples=operation.arguments,
    )(check)


def _derivative_limit_law(name: str) -> Law:
    operation = BY_NAME[name]

    def check(space: Space, *batch: Tensor) -> Tensor:
        values = _ordinary(operation.arguments, batch)
        computed = []
        for k in (0.0, *[sign * step for step in (1e-5, 1e-7, 1e-9) for sign in (-1.0, 1.0)]):
            sibling = space.sibling(k)
            slope = None if sibling is None else by_curvature(Space(sibling, space.dim, space.dtype), operation, values)
            if slope is not None:
                computed.append((abs(k), slope.double()))
        speaks = _differentiable(operation, values)
        worst = _slope_error(space, operation, values, computed, _flat_batch(operation, values))
        doubtful = (speaks & ~(worst <= 1 / 8)).nonzero().flatten()
        if computed and len(doubtful):
            rows = [value[doubtful] for value in values]
            found = [(k, slope[doubtful]) for k, slope in computed]
            worst[doubtful] = _slope_error(space, operation, rows, found, _flat_exact(operation, rows))
        return torch.where(speaks, worst, SKIPPED)

    return law(
        f"the k-derivative of {name} tends to its value at 0 from both sides",
        needs=[name, "curvature", "family"],
        tolerance="limit",
        group="limit",
        name=f"derivative_limit_of_{name}",
        examples=operation.arguments,
    )(check)


def _differentiable(operation: Operation, values: Sequence[Tensor]) -> Tensor:
    if operation.name == "dist2plane":
        return _FLAT["dist2plane"](*[value.double() for value in values]) > 1e-3
    if operation.name == "geodesic_unit":
        return values[2].norm(dim=-1) > 0
    return torch.ones(values[0].shape[0], dtype=torch.bool)


def _slope_error(
    space: Space,
    operation: Operation,
    values: Sequence[Tensor],
    computed: Sequence[tuple[float, Tensor]],
    flat: tuple[Tensor, Tensor],
) -> Tensor:
    """The worst deviation of the slopes at |k| from that at 0, in units of tolerance + O(k)."""
    value, exact = flat
    count = len(value)
    sizes = [
        v.double().norm(dim=-1).reshape(count, -1).amax(-1)
        for n, v in zip(operation.arguments, values, strict=True)
        if n in ("x", "y", "p", "xs")
    ]
    reach = torch.stack([torch.zeros(count, dtype=torch.float64), *sizes]).amax(0)
    if operation.name in ("expmap", "geodesic_unit"):
        reach = reach.clamp_min(0.5)
    natural = torch.maximum(value.norm(dim=-1), reach) if operation.result == "point" else value.norm(dim=-1)
    if operation.scale == "pairing":  # orthogonal vectors have no product, but their numbers do
        natural = torch.maximum(natural, 4 * values[1].double().norm(dim=-1) * values[2].double().norm(dim=-1))
    size = torch.maximum(exact.norm(dim=-1), 1e-2 * natural * reach**2)
    tolerance = TOLERANCES["derivative"].get(space.dtype, 1e-3)
    # squares of what is smaller than this vanish in the dtype, or it is 0 to the oracle
    floor = max(1e3 * float(torch.finfo(space.dtype).tiny) ** 0.5, float(oracle.TINY))
    worst = torch.full((count,), SKIPPED, dtype=torch.float64)
    for k, slope in computed:
        deviation = (slope - exact).norm(dim=-1)
        error = torch.where(deviation <= floor, 0.0, deviation / (size * (tolerance + 64 * k)).clamp_min(1e-300))
        worst = torch.maximum(worst, torch.where(torch.isnan(deviation), torch.inf, error))
    return worst


def _flat_batch(operation: Operation, values: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Values and k-derivatives at k = 0, (rows, entries), in extended precision."""
    scalars = [v.squeeze(-1) if n in ("r", "t") else v for n, v in zip(operation.arguments, values, strict=True)]
    zero = _batch.Batch(np.zeros(values[0].shape[0]), 1.0)
    value, slope = _batch.evaluate(operation.function, [_batch.columns(v) for v in scalars], k=zero)
    return torch.from_numpy(value.astype(np.float64)), torch.from_numpy(slope.astype(np.float64))


def _flat_exact(operation: Operation, values: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """The same by sixty digits."""
    found: tuple[list[Any], list[Any]] = ([], [])
    for row in zip(*values, strict=True):
        arguments = [v.item() if n in ("r", "t") else v for n, v in zip(operation.arguments, row, strict=True)]
        value = operation.function(*arguments, k=0.0)
        slope = oracle.derivative(operation.function, *arguments, k=0.0, value=value)
        for column, entries in zip(found, (value, slope), strict=True):
            column.append([float(entry) for entry in (entries if isinstance(entries, list) else [entries])])
    return torch.tensor(found[0], dtype=torch.float64), torch.tensor(found[1], dtype=torch.float64)


_LENGTHS = ("x", "y", "z", "u", "v", "p", "xs")
"""The examples that are lengths. A direction, a gradient, a factor, a matrix and a weight are numbers."""

# operation -> (its examples, with times of geodesic_unit as lengths; the power of length that its result has)
_POWERS: dict[str, tuple[tuple[str, ...], int]] = {
    **{name: (BY_NAME[name].arguments, 1) for name in BY_NAME},
    **{name: (BY_NAME[name].arguments, 0) for name in ("lambda_x", "egrad2rgrad", "gyration")},
    **{name: (BY_NAME[name].arguments, 0) for name in ("transp", "transp0", "transp0back")},
    **{name: (BY_NAME[name].arguments, 2) for name in ("inner", "dist2")},
    "projx": (("x",), 1),
    "proju": (("x", "g"), 0),
    "retr": (("x", "u"), 1),
    "lorentz_to_ball": (("above",), 1),
    "lorentz_expmap0": (("p",), 1),
    "lorentz_logmap0": (("above",), 1),
    "lorentz_dist": (("above", "beside"), 1),
    "sphere_to_stereo": (("above",), 1),
    "sphere_expmap0": (("p",), 1),
    "sphere_logmap0": (("above",), 1),
    "sphere_dist": (("above", "beside"), 1),
    "tan_k": (("radius",), 1),
    "artan_k": (("radius",), 1),
    "sin_k": (("radius",), 1),
    "arsin_k": (("radius",), 1),
    "cos_k": (("radius",), 0),
}
_MADE_OF = {"above": "x", "beside": "y", "radius": "x"}


def _stretching_law(name: str) -> Law:
    wanted, power = _POWERS[name]
    drawn = tuple(_MADE_OF.get(word, word) for word in wanted)

    def check(space: Space, *batch: Tensor) -> Tensor:
        count = batch[0].shape[0]
        values = list(batch)
        for i, word in enumerate(wanted):
            if word in ("above", "beside"):
                values[i] = stereographic_embedding(values[i], space.k or 0.0).to(space.dtype)
            elif word == "radius":
                values[i] = values[i].norm(dim=-1).clamp_max(0.7 * space.domain.unit)
        lengths = [w in _LENGTHS or w in _MADE_OF or (name == "geodesic_unit" and w == "t") for w in wanted]
        options = {"reducedim": [1]} if name == "weighted_midpoint" else {}
        kin = [(2.0, space.stretched())]
        if space.k:  # and a space of 4,096 times the curvature, at a 64th of the size
            kin.append((1 / 64, space.sibling(4096 * space.k)))
        worst = torch.zeros(count, dtype=torch.float64)
        with torch.no_grad():
            plain = _entries(getattr(space.manifold, name)(*values, **options), count)
            for size, other_space in kin:
                if other_space is None:
                    continue
                scaled = [size * value if length else value for value, length in zip(values, lengths, strict=True)]
                one = plain * size**power
                other = _entries(getattr(other_space, name)(*scaled, **options), count)
                error = (other - one).norm(dim=-1) / one.norm(dim=-1).clamp_min(1e-300)
                # squares of what is smaller than this vanish in the dtype
                floor = math.sqrt(torch.finfo(space.dtype).tiny) * 1e3
                error = torch.where((one.norm(dim=-1) < floor) & (other.norm(dim=-1) < floor), 0.0, error)
                worst = torch.maximum(worst, torch.where((other == one).all(-1), 0.0, error))
        return torch.where(torch.isfinite(plain).all(-1), worst, SKIPPED)

    models = ("lorentz", "ball", "klein"), ("sphere", "stereo")
    sign = ["negative curvature"] if name.startswith(models[0]) else ["positive curvature"]
    needs = [name, "stretching", *(sign if name.startswith(models[0] + models[1]) else [])]
    return law(
        f"{name} in a space of a quarter of the curvature is the same at twice the size, and so for 4,096 times",
        needs=needs,
        tolerance="identity",
        group="limit",
        name=f"stretching_of_{name}",
        examples=drawn,
    )(check)


for _name in _POWERS:
    _stretching_law(_name)
for _name in _FLAT:
    _limit_law(_name)
for _name in _FLAT:
    _derivative_limit_law(_name)
