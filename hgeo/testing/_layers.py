"""What every layer on a manifold promises, put to a layer of yours by :func:`check_layer`."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from hgeo import manifolds
from hgeo._geoopt import geoopt
from hgeo.testing._check import FAIL, NOT_APPLICABLE, PASS, Report, Result
from hgeo.testing.laws import Law

__all__ = ["check_layer"]

_CURVATURES = (1e-3, 1e-5, 1e-7)
_EQUIVARIANT = ("isometries", "rotations", "rows")


class _DoesNotApply(Exception):
    """A promise that this layer, or this manifold, cannot be asked for."""


class _Broken(Exception):
    """A promise that is broken, and where."""

    def __init__(self, where: str, error: float = math.inf) -> None:
        super().__init__(where)
        self.error = error


@dataclass
class _Subject:
    """A layer and how to ask it."""

    given: Any
    manifold: Any
    dim: int
    dtype: torch.dtype
    rows: int
    seed: int
    takes: str | None
    gives: str | None
    call: Callable[[Any, Tensor], Tensor]
    frame_vectors: tuple[str, ...]
    equivariant: tuple[str, ...]
    _start: dict[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        layer = self.on(self.manifold)
        self.takes = self.takes or ("points" if getattr(layer, "in_manifold", self.manifold) is not None else "vectors")
        self.gives = self.gives or ("points" if getattr(layer, "manifold", self.manifold) is not None else "vectors")
        self.equivariant = self.equivariant or tuple(getattr(layer, "equivariant", ()))
        unknown = set(self.equivariant) - set(_EQUIVARIANT)
        if unknown:
            raise ValueError(f"check_layer: equivariant must be of {', '.join(_EQUIVARIANT)}; got {sorted(unknown)}")

    @property
    def is_made(self) -> bool:
        """Whether one finished layer was given, and not the function that makes it on any manifold."""
        return isinstance(self.given, nn.Module)

    def on(self, manifold: Any) -> Any:
        """The layer on ``manifold``, the same parameters each time as far as their shapes are the same."""
        if not self.is_made:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(self.seed)
                return self.given(manifold).to(self.dtype)
        return copy.deepcopy(self.given, {id(self.manifold): manifold}).to(self.dtype)

    def source(self, layer: Any, manifold: Any) -> Any:
        """Where the layer's input lives."""
        return getattr(layer, "in_manifold", None) or manifold

    def target(self, layer: Any, manifold: Any) -> Any:
        """Where its output lives."""
        return getattr(layer, "manifold", None) or manifold

    def input(self, layer: Any, manifold: Any, v: Tensor) -> Tensor:
        """The input whose tangent coordinates are ``v``."""
        if self.takes == "numbers":
            return torch.arange(self.rows)
        return v if self.takes == "vectors" else manifolds.exp0(self.source(layer, manifold), v).detach()

    def ask(self, layer: Any, x: Tensor) -> Tensor:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed + 1)  # what is dropped is dropped each time
            return self.call(layer, x)

    def some(self, scale: float = 1.0) -> Tensor:
        generator = torch.Generator().manual_seed(self.seed)
        return scale * torch.randn(self.rows, self.dim, dtype=self.dtype, generator=generator)

    def places(self) -> dict[str, Tensor]:
        """Tangent coordinates of the rows at the places where formulas break."""
        some = self.some()
        along = torch.nn.functional.normalize(torch.arange(1.0, self.dim + 1, dtype=self.dtype), dim=0)
        signs = torch.tensor([1.0, -1.0], dtype=self.dtype).repeat(self.rows)[: self.rows, None]
        half = torch.cat([torch.zeros_like(some[: self.rows // 2]), 30 * some[self.rows // 2 :]])
        return {
            "ordinary rows": 0.6 * some,
            "the origin": torch.zeros_like(some),
            "rows all but at the origin": some * 1e-20,
            "rows that coincide": along.expand_as(some).clone(),
            "far rows": 30 * some,
            "far rows that coincide": 30 * along.expand_as(some).clone(),
            "the origin and far rows": half,
            "opposite rows": 2 * signs * along,
            "far opposite rows": 30 * signs * along,
        }

    def reachable(self, v: Tensor) -> Tensor:
        """``v``, within a quarter of a great circle where the space closes, and as far as a stranger can compute."""
        curved = manifolds.geometry(self.manifold).curvature(self.manifold)
        parts = None if curved is not None else manifolds.geometry(self.manifold).parts(self.manifold, self.dim)
        known = [curved] if curved is not None else [part.curvature for part in parts or []]
        most = max((float(k.detach()) for k in known), default=1.0)
        return v.clamp(-1 / math.sqrt(most), 1 / math.sqrt(most)) if most > 0 else v


def _numbers(layer: nn.Module) -> Iterable[tuple[str, nn.Parameter]]:
    """What a layer learns, without the curvatures."""
    inside = {id(p) for module in layer.modules() if isinstance(module, geoopt.Manifold) for p in module.parameters()}
    return [(name, p) for name, p in layer.named_parameters() if id(p) not in inside]


# ------------------------------------------------------------------------------------------------------------ promises


def _stays(subject: _Subject) -> float:
    layer = subject.on(subject.manifold)
    for where, v in subject.places().items():
        x = subject.input(layer, subject.manifold, subject.reachable(v))
        y = subject.ask(layer, x)
        if not isinstance(y, Tensor):
            raise _Broken(f"{where}: the answer is no tensor but a {type(y).__name__}")
        if y.dtype != subject.dtype:
            raise _Broken(f"{where}: the answer is {y.dtype}, the layer {subject.dtype}")
        if not bool(torch.isfinite(y).all()):
            raise _Broken(f"{where}: the answer is not finite")
        if subject.gives == "points":
            try:
                manifolds.validate(subject.target(layer, subject.manifold), y.detach(), name=where)
            except ValueError as reason:
                raise _Broken(str(reason)) from reason
    return 0.0


def _keeps_its_input(subject: _Subject) -> float:
    layer = subject.on(subject.manifold)
    x = subject.input(layer, subject.manifold, 0.6 * subject.some())
    before, state = x.clone(), {name: p.detach().clone() for name, p in _numbers(layer)}
    subject.ask(layer, x)
    if not torch.equal(before, x):
        raise _Broken("the input was written over")
    changed = [name for name, p in _numbers(layer) if not torch.equal(state[name], p.detach())]
    if changed:
        raise _Broken(f"a call changed the parameter {changed[0]}")
    return 0.0


def _gradients(subject: _Subject) -> float:
    layer = subject.on(subject.manifold)
    for where, v in subject.places().items():
        x = subject.input(layer, subject.manifold, subject.reachable(v))
        if x.is_floating_point():
            x.requires_grad_()
        layer.zero_grad()
        y = subject.ask(layer, x)
        if not y.requires_grad:
            raise _Broken(f"{where}: the answer has no gradient")
        y.square().sum().backward()
        named = [*layer.named_parameters(), *([("the input", x)] if x.is_floating_point() else [])]
        for name, value in named:
            if value.grad is not None and not bool(torch.isfinite(value.grad).all()):
                raise _Broken(f"{where}: the gradient of {name} is not finite")
    return 0.0


def _learns(subject: _Subject) -> float:
    layer = subject.on(subject.manifold)
    v = subject.reachable(0.6 * subject.some())
    x = subject.input(layer, subject.manifold, v)
    wanted: list[Tensor] = [p for _, p in _numbers(layer) if p.requires_grad]
    if x.is_floating_point():
        wanted.append(x.requires_grad_())
    weights = torch.ones_like(subject.ask(layer, x))
    y = (subject.ask(layer, x) * weights.cumsum(-1)).sum()
    worst = 0.0
    for value, slope in zip(wanted, torch.autograd.grad(y, wanted, allow_unused=True), strict=True):
        along = torch.randn(value.shape, dtype=value.dtype, generator=torch.Generator().manual_seed(subject.seed))
        along = along / along.double().norm().clamp_min(1.0).to(along.dtype)
        home = getattr(value, "manifold", None) or (
            subject.source(layer, subject.manifold) if value is x and subject.takes == "points" else None
        )
        if home is not None:  # a step that leaves a point a point
            along = home.proju(value.detach(), along)
        step = 1e-5 if subject.dtype == torch.float64 else 1e-2
        with torch.no_grad():
            start = value.detach().clone()
            ends = []
            for sign in (1.0, -1.0):
                moved = start + sign * step * along
                value.copy_(moved if home is None else manifolds.project(home, moved))
                ends.append(float((subject.ask(layer, x) * weights.cumsum(-1)).sum().double()))
            value.copy_(start)
        expected = (ends[0] - ends[1]) / (2 * step)
        found = 0.0 if slope is None else float((slope.double() * along.double()).sum().detach())
        worst = max(worst, abs(found - expected) / (abs(expected) + abs(float(y.detach())) * 1e-3 + 1e-6))
    return worst


def _copied(subject: _Subject, source: Any, target: Any, here: Any, there: Any, carry: Any) -> None:
    """The parameters of ``source`` on the manifold ``here`` written into ``target`` on ``there``."""
    theirs = dict(_numbers(target))
    factor = manifolds.frame_scale(here) / manifolds.frame_scale(there)
    with torch.no_grad():
        for name, mine in _numbers(source):
            if isinstance(mine, geoopt.ManifoldParameter):
                theirs[name].copy_(carry(mine))
            elif name.rsplit(".", 1)[-1] in subject.frame_vectors:
                theirs[name].copy_(factor * mine)
            else:
                theirs[name].copy_(mine)


def _scattered(subject: _Subject, layer: Any) -> Any:
    """The layer with its points away from the origin, where they begin, and its other numbers away from 0."""
    generator = torch.Generator().manual_seed(subject.seed + 2)
    with torch.no_grad():
        for _, p in _numbers(layer):
            v = 0.3 * torch.randn(p.shape, dtype=p.dtype, generator=generator)
            if isinstance(p, geoopt.ManifoldParameter):
                d = manifolds.intrinsic_dim(p.manifold, p.shape[-1])
                p.copy_(manifolds.exp0(p.manifold, v[..., :d]))
            elif bool((p == 0).all()):
                p.copy_(v)
    return layer


def _on_kin(subject: _Subject, manifold: Any) -> Any:
    try:
        return subject.on(manifold)
    except (TypeError, ValueError) as reason:
        raise _DoesNotApply(f"it cannot be made on {manifolds.describe(manifold)}: {reason}") from reason


def _flat_limit(subject: _Subject) -> float:
    """The layer at k = ±1e-3 … ±1e-7 beside itself at 0: value and gradient differ by O(k)."""
    flat_space = manifolds.Stereographic(k=0.0).to(subject.dtype)
    if not isinstance(subject.manifold, geoopt.Stereographic):
        raise _DoesNotApply("its manifold is not of the stereographic family, which contains flat space")
    flat = _scattered(subject, _on_kin(subject, flat_space))
    v = 0.6 * subject.some()
    expected = _value_and_gradients(subject, flat, flat_space, v)
    worst, rounding = 0.0, 64 * float(torch.finfo(subject.dtype).eps)
    for size in _CURVATURES:
        for k in (-size, size):
            near_space = manifolds.Stereographic(k=k).to(subject.dtype)
            try:
                near = _on_kin(subject, near_space)
            except _DoesNotApply:
                if k < 0:
                    raise
                continue  # a layer of hyperbolic spaces has its limit from one side
            _copied(subject, flat, near, flat_space, near_space, lambda p: p)
            found = _value_and_gradients(subject, near, near_space, v)
            slopes = max((float(slope.double().norm()) for slope in expected[1:]), default=0.0)
            for i, (mine, theirs) in enumerate(zip(found, expected, strict=True)):
                size_of = max(slopes if i else 0.0, float(theirs.double().norm())) + 1e-3
                allowed = 64 * size + rounding
                error = float((mine.double() - theirs.double()).norm()) / size_of / allowed
                if not error <= 1.0:
                    raise _Broken(f"at k = {k:g} it is {error * allowed:.1e} away from itself at k = 0", error)
                worst = max(worst, error)
    return worst


def _value_and_gradients(subject: _Subject, layer: Any, manifold: Any, v: Tensor) -> list[Tensor]:
    v = v.clone().requires_grad_()
    x = manifolds.exp0(subject.source(layer, manifold), v) if subject.takes == "points" else v
    wanted: list[Tensor] = [p for _, p in _numbers(layer) if p.requires_grad]
    wanted += [v] if subject.takes != "numbers" else []
    y = subject.ask(layer, x if subject.takes != "numbers" else subject.input(layer, manifold, v))
    slopes = torch.autograd.grad(y.square().sum(), wanted, allow_unused=True, materialize_grads=True)
    return [y.detach(), *[slope.as_subclass(Tensor) for slope in slopes]]


def _models_agree(subject: _Subject) -> float:
    """On the ball and on the hyperboloid, with the parameters carried by the isometry between them."""
    if subject.is_made:
        raise _DoesNotApply("give a function that makes the layer on a manifold instead of a finished layer")
    if not isinstance(subject.manifold, geoopt.PoincareBall | manifolds.Lorentz) or subject.gives not in (
        "points",
        "vectors",
    ):
        raise _DoesNotApply("its manifold is neither a ball nor a hyperboloid")
    c = float(subject.manifold.c.detach())
    if c <= 0:
        raise _DoesNotApply("its curvature is 0, and there is no flat hyperboloid")
    ball, hyperboloid = manifolds.PoincareBall(c=c).to(subject.dtype), manifolds.Lorentz(c=c).to(subject.dtype)
    one, other = _scattered(subject, _on_kin(subject, ball)), _on_kin(subject, hyperboloid)

    def carry(points: Tensor) -> Tensor:
        return manifolds.geometry(hyperboloid).from_ball(hyperboloid, points.detach().as_subclass(Tensor))

    _copied(subject, one, other, ball, hyperboloid, carry)
    v, homes = 0.6 * subject.some(), (subject.source(one, ball), subject.source(other, hyperboloid))
    factor = manifolds.frame_scale(homes[0]) / manifolds.frame_scale(homes[1])
    x = subject.input(one, ball, v)
    mine = subject.ask(one, x).detach()
    theirs = subject.ask(other, subject.input(other, hyperboloid, factor * v)).detach()
    if subject.gives == "points":
        mine = carry(mine) if subject.target(one, ball) is ball else mine
    elif getattr(one, "manifold", ball) is None and subject.takes == "points" and mine.shape == x.shape:
        # vectors of the frame: the same one has twice the coordinates on the hyperboloid
        mine = 2 * mine if float((2 * mine - theirs).norm()) < float((mine - theirs).norm()) else mine
    if mine.shape != theirs.shape:
        raise _Broken(f"answers of shape {tuple(mine.shape)} on the ball and {tuple(theirs.shape)} on the hyperboloid")
    return float((mine.double() - theirs.double()).norm() / (mine.double().norm() + 1e-3))


def _moves_with_isometries(subject: _Subject) -> float:
    return max(_moves(subject, True), _moves(subject, False))


def _moves_with_rotations(subject: _Subject) -> float:
    return _moves(subject, False)


def _moves(subject: _Subject, translation: bool) -> float:
    """f(T x) = T f(x) for a translation or a rotation T; f(T x) = f(x) where the answer is no point."""
    what = "isometries" if translation else "rotations"
    if what not in subject.equivariant and "isometries" not in subject.equivariant:
        raise _DoesNotApply(f"it does not say that it is equivariant under {what}")
    manifold = subject.manifold
    layer = _scattered(subject, subject.on(manifold))
    generator = torch.Generator().manual_seed(subject.seed + 3)
    # a product has the rotations of its factors
    sizes = [part.coordinates for part in manifolds.parts(manifold, subject.dim) or []] or [slice(0, subject.dim)]
    widths = [part.stop - part.start for part in sizes]
    blocks = [torch.randn(size, size, dtype=subject.dtype, generator=generator) for size in widths]
    q = torch.block_diag(*[torch.linalg.qr(block)[0] for block in blocks])
    p = manifolds.exp0(manifold, 0.4 * torch.ones(subject.dim, dtype=subject.dtype))

    def move(points: Tensor) -> Tensor:
        if translation:
            return manifolds.translate(manifold, p.expand_as(points), points)
        return manifolds.exp0(manifold, manifolds.log0(manifold, points) @ q.T)

    points = subject.input(layer, manifold, subject.reachable(0.4 * subject.some()))
    # its own points are part of the picture, and move with it
    moved_layer = copy.deepcopy(layer)
    with torch.no_grad():
        for _, parameter in _numbers(moved_layer):
            if isinstance(parameter, geoopt.ManifoldParameter):
                parameter.copy_(move(parameter.detach().as_subclass(Tensor)))
    plain, moved = subject.ask(layer, points).detach(), subject.ask(moved_layer, move(points).detach()).detach()
    expected = move(plain).detach() if subject.gives == "points" else plain
    return float((moved.double() - expected.double()).norm() / (expected.double().norm() + 1e-3))


def _rows_are_equal(subject: _Subject) -> float:
    if "rows" not in subject.equivariant:
        raise _DoesNotApply("it does not say that it treats each row alike, and alone")
    layer = _scattered(subject, subject.on(subject.manifold)).eval()
    x = subject.input(layer, subject.manifold, subject.reachable(0.6 * subject.some()))
    together = subject.ask(layer, x).detach().double()
    turned = subject.ask(layer, x.flip(0)).detach().double().flip(0)
    alone = torch.cat([subject.ask(layer, row.unsqueeze(0)).detach().double() for row in x])
    return float(torch.maximum((turned - together).norm(), (alone - together).norm()) / (together.norm() + 1e-3))


_PROMISES: tuple[tuple[str, str, str, Callable[[_Subject], float]], ...] = (
    ("answers_are_points", "answers are finite points of the manifold, of the layer's dtype", "exact", _stays),
    ("a_call_changes_nothing", "a call changes neither its input nor a parameter", "exact", _keeps_its_input),
    ("gradients_are_finite", "gradients of input and parameters are finite everywhere", "exact", _gradients),
    ("gradients_are_right", "gradients agree with finite differences", "differences", _learns),
    ("flat_limit", "as k → 0 from both sides it becomes itself at k = 0, value and gradients", "limit", _flat_limit),
    ("ball_is_hyperboloid", "it is the same function on the ball and on the hyperboloid", "chain", _models_agree),
    ("moves_with_isometries", "f(T x) = T f(x) for every isometry T", "chain", _moves_with_isometries),
    ("moves_with_rotations", "f(Q x) = Q f(x) for every rotation Q of the frame", "chain", _moves_with_rotations),
    ("rows_are_equal", "each row is treated alike, and alone", "chain", _rows_are_equal),
)


def check_layer(
    layer: Any,
    manifold: Any,
    *,
    dim: int | None = None,
    dtype: torch.dtype = torch.float64,
    call: Callable[[Any, Tensor], Tensor] | None = None,
    takes: str | None = None,
    gives: str | None = None,
    equivariant: Iterable[str] = (),
    frame_vectors: Iterable[str] = (),
    rows: int = 6,
    seed: int = 0,
    name: str | None = None,
) -> Report:
    """Check what every layer on a manifold promises; the report is one of laws, as :func:`check_manifold`'s.

    Args:
        layer: a layer, or a function that makes it on a manifold: ``lambda m: MyLayer(4, 4, m)``. Of a function it is
            also asked whether the ball and the hyperboloid give the same, which a finished layer cannot be.
        manifold: the manifold it is on. Where its input and output live is what ``in_manifold`` and ``manifold`` of the
            layer say (None: plain vectors), or else this one.
        dim: the intrinsic dimension of its input (default: that of a product, else 4).
        call: how it is called, ``call(layer, x)``, if it needs more than x: ``lambda f, x: f(edges, x)``.
        takes, gives: "points" or "vectors" (``takes`` also "numbers" of rows), if the layer does not say it.
        equivariant: what it moves with: "isometries", "rotations" of the origin's frame, "rows" (each treated alike,
            and alone); by default what its attribute ``equivariant`` says.
        frame_vectors: names of parameters that are tangent vectors at the origin; they have other coordinates on the
            hyperboloid, whose frame has another unit.

    >>> import hgeo
    >>> report = check_layer(lambda m: hgeo.nn.Linear(4, 4, m), hgeo.PoincareBall(), equivariant=["rows"])
    >>> report.passed, report["flat_limit"].verdict
    (True, 'pass')
    """
    if not isinstance(manifold, geoopt.Manifold):
        raise TypeError(
            f"check_layer: expected check_layer(layer, manifold), got {type(manifold).__name__} as manifold"
        )
    if not callable(layer):
        raise TypeError(f"check_layer: expected a layer or a function manifold -> layer, got {type(layer).__name__}")
    if isinstance(layer, nn.Module) and isinstance(layer, geoopt.Manifold):
        raise TypeError("check_layer: the layer comes first: check_layer(layer, manifold)")
    dim = int(getattr(manifold, "dim", 4)) if dim is None else dim
    space = copy.deepcopy(manifold).to(dtype) if not isinstance(layer, nn.Module) else manifold
    subject = _Subject(
        layer,
        space,
        dim,
        dtype,
        rows,
        seed,
        takes,
        gives,
        call or (lambda module, x: module(x)),
        tuple(frame_vectors),
        tuple(equivariant),
    )
    made = subject.on(space)
    text = name or f"{type(made).__name__} on {manifolds.describe(manifold, dim)}"
    results = []
    for title, statement, tolerance, check in _PROMISES:
        law = Law(title, statement, (), tolerance, "layer", lambda *_: torch.zeros(1), ())
        result = Result(law, PASS, law.tolerance(dtype), examples=rows)
        try:
            result.error = check(subject)
            if not result.error <= result.tolerance:
                result.verdict = FAIL
        except _DoesNotApply as reason:
            result.verdict, result.note = NOT_APPLICABLE, str(reason)
        except _Broken as reason:
            result.verdict, result.error, result.note = FAIL, reason.error, str(reason)
        except Exception as reason:  # whatever a layer raises on a legal input is a verdict
            result.verdict, result.error = FAIL, math.inf
            result.note = f"raised {type(reason).__name__}: {reason}"
        results.append(result)
    return Report(text, dim, dtype, seed, results)
