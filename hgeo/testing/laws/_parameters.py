"""A curvature as a trained number: it survives its own parametrisation, trains through 0, and is never stale."""

from __future__ import annotations

import copy
import io
from typing import Any

import torch
from torch import Tensor

from hgeo._geoopt import geoopt
from hgeo.testing._space import Functions, Space, ratio, signed_curvature
from hgeo.testing.laws._law import everywhere, law

__all__: list[str] = []

_VALUES = (0.0, 1e-12, 1e-8, 1e-4, 1.0, 100.0, 1e4)


def _make(space: Space, size: float, *, learnable: bool = False) -> tuple[Any, float]:
    """A manifold of the same class with a curvature of this size, made in the dtype, and the k it should have."""
    kind = type(space.manifold)
    number = torch.tensor(size, dtype=space.dtype)
    if isinstance(space.manifold, geoopt.PoincareBall):
        return kind(c=number, learnable=learnable), -float(number)
    negative = not isinstance(space.manifold, geoopt.SphereProjection) and (space.k or 0.0) < 0
    signed = -number if negative else number
    return kind(k=signed, learnable=learnable), float(signed)


@law(
    "a curvature c in {0, 1e-12, …, 1e4} is c after construction",
    needs=["curvature", "module"],
    tolerance="last bits",
    group="curvature",
    limit=1,
)
def curvature_survives_construction(space: Space, x: Tensor) -> Tensor:
    worst = 0.0
    for size in _VALUES:
        made, wanted = _make(space, size)
        kept = float(signed_curvature(made))  # type: ignore[arg-type]
        error = abs(kept - wanted) / abs(wanted) if wanted else abs(kept)
        worst = max(worst, error if error == error else torch.inf)
    return everywhere(x, worst)


def _signed_loss(made: Any, wish: float) -> Tensor:
    """A loss that wants |k| to grow (wish = 1) or to shrink (wish = −1)."""
    size = made.k if isinstance(made, geoopt.SphereProjection) else -made.k
    return -wish * size.sum()


def _train(made: Any, wish: float, steps: int, rate: float, optimiser: Any) -> list[float]:
    stepper = optimiser(made.parameters(), lr=rate)
    seen = []
    for _ in range(steps):
        stepper.zero_grad()
        _signed_loss(made, wish).backward()
        stepper.step()
        seen.append(float(signed_curvature(made)))  # type: ignore[arg-type]
    return seen


@law(
    "c = 0 is trainable: it leaves 0 when the gradient says so, under Adam and Riemannian Adam",
    needs=["curvature", "module"],
    tolerance="exact",
    group="curvature",
    limit=1,
)
def zero_curvature_trains(space: Space, x: Tensor) -> Tensor:
    for optimiser in (torch.optim.Adam, geoopt.optim.RiemannianAdam):
        made, _ = _make(space, 0.0, learnable=True)
        seen = _train(made, 1.0, 10, 0.01, optimiser)
        moved = abs(seen[-1])
        if not 0.01 < moved < 10.0:
            return everywhere(x, 1.0)
    return everywhere(x, 0.0)


@law(
    "a curvature that is pushed through 0 stays legal, and comes back when it is asked to",
    needs=["curvature", "module"],
    tolerance="exact",
    group="curvature",
    limit=1,
)
def curvature_stays_legal(space: Space, x: Tensor) -> Tensor:
    made, _ = _make(space, 0.05, learnable=True)
    signs = 1.0 if isinstance(space.manifold, geoopt.SphereProjection) else -1.0
    one_sided = isinstance(space.manifold, geoopt.PoincareBall | geoopt.SphereProjection)
    down = _train(made, -1.0, 30, 0.1, torch.optim.Adam)
    legal = all(value == value and abs(value) < 1e6 and (signs * value >= 0 or not one_sided) for value in down)
    # however long it was pushed, it is ten steps away and not thirty: nothing piled up behind the bound
    up = _train(made, 1.0, 10, 0.1, torch.optim.Adam)
    back = signs * up[-1] > (0.0 if one_sided else signs * down[-1])
    return everywhere(x, 0.0 if legal and back else 1.0)


@law(
    "operations see the curvature as it is now, not as it was",
    needs=["curvature", "module", "family", "dist", "expmap0", "logmap0", "mobius_add"],
    group="curvature",
)
def curvature_is_never_stale(space: Space, x: Tensor, y: Tensor, p: Tensor) -> Tensor:
    changed = (
        0.5 * (space.k or 0.0) if space.k else (0.25 if isinstance(space.manifold, geoopt.SphereProjection) else -0.25)
    )
    other = space.sibling(changed)
    if other is None:
        return everywhere(x, -1.0)
    x, y = (
        (value.double() * (0.5 / value.double().norm(dim=-1, keepdim=True).clamp_min(0.5))).to(space.dtype)
        for value in (x, y)
    )
    mine = copy.deepcopy(space.manifold)
    operations = (("dist", (x, y)), ("expmap0", (p,)), ("logmap0", (x,)), ("mobius_add", (x, y)))
    for name, values in operations:  # fill any cache there may be
        getattr(mine, name)(*values)
    mine.load_state_dict(other.state_dict())
    errors = []
    for name, values in operations:
        now, expected = getattr(mine, name)(*values), getattr(other, name)(*values)
        errors.append(
            ratio(
                (now - expected).double().reshape(len(x), -1).norm(dim=-1),
                expected.double().reshape(len(x), -1).norm(dim=-1),
            )
        )
    return torch.stack(errors).amax(0)


@law(
    "a curvature computes in the dtype of the points: it changes neither their dtype nor its own gradient",
    needs=["dist", "expmap0", "mobius_add", "curvature"],
    tolerance="identity",
    group="curvature",
    limit=32,
)
def curvature_takes_the_dtype_of_the_points(space: Space, x: Tensor, y: Tensor, p: Tensor) -> Tensor:
    other = torch.float32 if space.dtype == torch.float64 else torch.float64

    def reads(dtype: torch.dtype) -> tuple[list[Tensor], list[Tensor]]:
        if isinstance(space.manifold, Functions):
            stored = torch.full((1,), space.k or 0.0, dtype=dtype, requires_grad=True)
            manifold: Any = Functions(space.manifold.module, stored)
        else:
            manifold = copy.deepcopy(space.manifold).to(dtype).requires_grad_()
            stored = next(manifold.parameters())
        values = [manifold.dist(x, y), manifold.expmap0(p), manifold.mobius_add(x, y)]
        slopes = [torch.autograd.grad(value.sum(), stored, allow_unused=True)[0] for value in values]
        return values, [torch.zeros_like(stored) if slope is None else slope for slope in slopes]

    (mine, mine_slopes), (theirs, their_slopes) = reads(space.dtype), reads(other)
    if any(value.dtype != space.dtype for value in theirs):
        return everywhere(x, torch.inf)
    if any(bool(a != 0) and not bool(b != 0) for a, b in zip(mine_slopes, their_slopes, strict=True)):
        return everywhere(x, torch.inf)  # nothing of the gradient has come through
    if not _is_the_same_in(other, space.k or 0.0):
        return everywhere(x, -1.0)
    errors = [
        ratio((a - b).double().reshape(len(x), -1).norm(dim=-1), a.double().reshape(len(x), -1).norm(dim=-1))
        for a, b in zip(mine, theirs, strict=True)
    ]
    return torch.stack(errors).amax(0)


def _is_the_same_in(dtype: torch.dtype, number: float) -> bool:
    return float(torch.tensor(number, dtype=dtype)) == number


@law(
    "a state dict of geoopt's manifold of that name loads, and brings its curvature along",
    needs=["stored curvature"],
    tolerance="identity",
    group="curvature",
    limit=1,
)
def state_dicts_of_geoopt_load(space: Space, x: Tensor) -> Tensor:
    kinds = (geoopt.PoincareBall, geoopt.SphereProjection, geoopt.Stereographic, geoopt.Lorentz)
    kind = next((kind for kind in kinds if isinstance(space.manifold, kind)), None)
    if kind is None:
        return everywhere(x, -1.0)
    worst = 0.0
    for size in (0.3, 1.0, 2.5):
        saved, mine = kind(size).to(space.dtype), copy.deepcopy(space.manifold)
        mine.load_state_dict(saved.state_dict())
        kept, wanted = (float(torch.as_tensor(manifold.k).detach()) for manifold in (mine, saved))
        worst = max(worst, abs(kept - wanted) / abs(wanted))
    return everywhere(x, worst)


@law(
    "copies, pickles and dtype changes keep the curvature and the class",
    needs=["curvature", "module"],
    tolerance="last bits",
    group="curvature",
    limit=1,
)
def curvature_survives_copying(space: Space, x: Tensor) -> Tensor:
    manifold, k = space.manifold, space.k or 0.0
    stored = io.BytesIO()
    torch.save(manifold, stored)
    stored.seek(0)
    copies = [copy.deepcopy(manifold), torch.load(stored, weights_only=False), copy.deepcopy(manifold).to(space.dtype)]
    worst = 0.0
    for duplicate in copies:
        kept = float(signed_curvature(duplicate))  # type: ignore[arg-type]
        same = type(duplicate) is type(manifold)
        worst = max(worst, abs(kept - k) / abs(k) if k and same else (0.0 if same and kept == k else torch.inf))
    return everywhere(x, worst)


@law(
    "at c = 0 the gradient of a loss that reads the curvature twice is the sum of both",
    needs=["curvature", "module"],
    tolerance="last bits",
    group="curvature",
    limit=1,
)
def zero_curvature_counts_every_read(space: Space, x: Tensor) -> Tensor:
    def slope(*weights: float) -> float:
        made, _ = _make(space, 0.0, learnable=True)
        loss = sum((_signed_loss(made, weight) for weight in weights), torch.zeros((), dtype=space.dtype))
        return float(torch.autograd.grad(loss, next(made.parameters()))[0])

    inward = slope(1.0)
    worst = max(abs(slope(5.0, -3.0) - 2 * inward), abs(slope(3.0, -5.0) + 2 * inward))
    return everywhere(x, worst / abs(inward) if inward else 0.0)


@law(
    "whatever number is stored, the curvature that is read and saved is legal, and grows no larger beyond its bound",
    needs=["stored curvature"],
    tolerance="exact",
    group="curvature",
    limit=1,
)
def stored_curvature_is_guarded(space: Space, x: Tensor) -> Tensor:
    one_sided = isinstance(space.manifold, geoopt.PoincareBall | geoopt.SphereProjection)
    if not one_sided or len(list(space.manifold.parameters())) != 1:
        return everywhere(x, -1.0)
    sign = 1.0 if isinstance(space.manifold, geoopt.SphereProjection) else -1.0

    def size(manifold: Any) -> float:
        return sign * float(signed_curvature(manifold))  # type: ignore[arg-type]

    sizes = []
    for number in (-3.0, -6.0):
        for trained in (False, True):
            made, _ = _make(space, 1.0, learnable=trained)
            next(made.parameters()).data.fill_(number)
            saved, _ = _make(space, 1.0, learnable=trained)
            with torch.no_grad():
                sizes.append(size(made))  # before a read that takes part in a gradient may have put it back
            sizes.append(size(made))
            saved.load_state_dict(made.state_dict())
            sizes.append(size(saved))
    legal = all(0 <= value < 1 for value in sizes)
    return everywhere(x, 0.0 if legal and max(sizes[6:]) <= max(sizes[:6]) else 1.0)


@law(
    "a curvature that is not a finite number is not loaded",
    needs=["stored curvature"],
    tolerance="exact",
    group="curvature",
    limit=1,
)
def curvature_is_checked_when_loaded(space: Space, x: Tensor) -> Tensor:
    if len(space.manifold.state_dict()) != 1:
        return everywhere(x, -1.0)
    mine = copy.deepcopy(space.manifold)
    ((name, value),) = mine.state_dict().items()
    before = value.clone()
    refused = False
    try:
        mine.load_state_dict({name: torch.full_like(value, torch.nan)})
    except RuntimeError:
        refused = True
    return everywhere(x, 0.0 if refused and torch.equal(mine.state_dict()[name], before) else 1.0)


@law(
    "a curvature is trained if it was made to be, and not otherwise",
    needs=["curvature", "module"],
    tolerance="exact",
    group="curvature",
    limit=1,
)
def curvature_learns_when_told(space: Space, x: Tensor) -> Tensor:
    made = [_make(space, 1.0, learnable=learnable)[0] for learnable in (False, True)]
    return everywhere(x, 0.0 if [torch.as_tensor(m.k).requires_grad for m in made] == [False, True] else 1.0)
