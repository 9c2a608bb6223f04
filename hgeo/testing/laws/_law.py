"""What a law is, what precision it may ask for, and the register of all laws."""

from __future__ import annotations

import fnmatch
import inspect
import math
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from hgeo.testing._examples import Examples
from hgeo.testing._space import Space, converted
from hgeo.testing._walks import moved

__all__ = [
    "GROUPS",
    "REGISTER",
    "SKIPPED",
    "TOLERANCES",
    "Law",
    "WrongShape",
    "dimension",
    "everywhere",
    "law",
    "only",
    "select",
]

_SIDES = 6
_ROUNDINGS = 64.0  # of how many roundings an answer may be the sum
_UNRESOLVED = 1e-3  # an answer that one rounding changes by so much is none

SKIPPED = -1.0
"""The error of an example that a law does not speak about (a geodesic through a cut locus, say)."""


class WrongShape(ValueError):
    """An operation gave something else than one result an example."""


_EPS = {dtype: float(torch.finfo(dtype).eps) for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16)}


def _times_eps(factor: float) -> dict[torch.dtype, float]:
    return {dtype: factor * eps for dtype, eps in _EPS.items()}


def _numbers(float64: float, float32: float) -> dict[torch.dtype, float]:
    return {torch.float64: float64, torch.float32: float32}


TOLERANCES: dict[str, dict[torch.dtype, float]] = {
    # kind: how large the error that a law reports may be. Errors are relative and already divided by the conditioning
    # (1/(1 − c|x|²) for comparisons with the oracle, the metric size of one rounding for identities).
    "exact": _times_eps(0.0),
    "last bits": _times_eps(4.0),
    "oracle": _times_eps(16.0),
    "identity": _times_eps(64.0),
    "chain": _times_eps(512.0),
    "derivative": _numbers(1e-9, 1e-3),
    "gradient": _numbers(1e-9, 1e-3),
    "second derivative": _numbers(1e-6, 5e-2),
    "differences": _numbers(1e-5, 5e-2),  # finite ones, which have half of the digits
    "limit": _numbers(1.0, 1.0),
    "first order": _numbers(1.0, 1.0),
    "two percent": _numbers(0.02, 0.02),
    "own precision": _numbers(1.0, 1.0),
}
"""The one table of tolerances: kind of law × dtype."""


@dataclass(frozen=True)
class Law:
    """A named statement about geometry that can be checked on any manifold that offers what it needs.

    >>> from hgeo.testing import laws
    >>> laws.distance_is_symmetric.statement
    'd(x, y) = d(y, x)'
    >>> import geoopt
    >>> laws.distance_is_symmetric.error(geoopt.PoincareBall(), x=[0.5, 0.0], y=[0.0, 0.5])
    0.0
    """

    name: str
    statement: str
    needs: tuple[str, ...]
    tolerance_kind: str
    group: str
    check: Callable[..., Tensor]
    examples: tuple[str, ...]
    limit: int | None = None
    factor: float = field(default=1.0)

    def tolerance(self, dtype: torch.dtype) -> float:
        """The largest error that is still right, from :data:`TOLERANCES`."""
        table = TOLERANCES[self.tolerance_kind]
        return self.factor * table.get(dtype, table[torch.float32])

    def missing(self, space: Space) -> list[str]:
        """The operations that this law needs and the space does not have."""
        return [operation for operation in self.needs if not space.has(operation)]

    def errors(self, space: Space, examples: Examples, count: int | None = None) -> Tensor:
        """The error of the first ``count`` examples, in float64; :data:`SKIPPED` where the law does not speak."""
        return self.judge(space, [examples[name][:count] for name in self.examples])

    def judge(self, space: Space, values: Sequence[Tensor]) -> Tensor:
        """The errors of a batch; on a manifold that nobody knows, with the allowance that its rounding asks for."""
        errors = self.check(space, *values).detach().double()
        if not space.stranger or errors.dim() != 1 or not bool((~(errors <= self.tolerance(space.dtype))).any()):
            return errors
        return self._forgiven(space, values, errors)

    def _forgiven(self, space: Space, values: Sequence[Tensor], errors: Tensor) -> Tensor:
        """``errors`` in parts of what rounding makes of the law's answers, where that is more than the tolerance;
        :data:`SKIPPED` where it is so much that there are no answers."""
        noise, tolerance = self._noise(space, values, errors), self.tolerance(space.dtype)
        allowed = (_ROUNDINGS * noise).clamp_min(tolerance)
        broken = ~(errors <= allowed)
        lasting = errors * (tolerance / allowed) if tolerance else errors
        lost = (noise > _UNRESOLVED) & ~(errors <= tolerance)
        return torch.where(lost, SKIPPED, torch.where(broken, lasting, errors.clamp_max(tolerance)))

    def _noise(self, space: Space, values: Sequence[Tensor], errors: Tensor) -> Tensor:
        """How much of the answers is rounding: what they change when the examples move by one ulp.

        Where an operation passes through coarser numbers than it is given, one ulp changes nothing. So the examples
        are also moved farther, to both sides: what is smooth cancels, by the square of the step.
        """
        noise = torch.zeros_like(errors)
        step = (_finite(errors.abs()).sqrt() / _ROUNDINGS).clamp(space.eps, _UNRESOLVED)
        for side in range(_SIDES):
            beside = self._beside(space, values, side, torch.full_like(errors, 1.5 * space.eps), each=False)
            lost = torch.isfinite(beside) & ~torch.isfinite(errors)  # a number beside, none here
            noise = torch.maximum(noise, torch.where(lost, math.inf, _finite((beside - errors).abs())))
            pair = [self._beside(space, values, side, way * step, each=True) for way in (1.0, -1.0)]
            noise = torch.maximum(noise, _finite((pair[0] + pair[1] - 2 * errors).abs() / 2))
        return noise

    def _beside(self, space: Space, values: Sequence[Tensor], side: int, step: Tensor, *, each: bool) -> Tensor:
        """The errors of the examples when their numbers move by ``step``; NaN where there are none."""
        fixed, single = ("m", "n", "q"), ("r", "s", "t", "ws")
        pairs = list(zip(self.examples, values, strict=True))
        near = {
            name: value
            if name in fixed
            else moved(value, zlib.crc32(name.encode()) + side, step, each=each or name in single)
            for name, value in pairs
        }
        try:
            errors = self.check(space, *space.legal(near).values()).detach().double()
        except Exception:  # an example may be the last one before the end of the numbers
            return torch.full_like(step, math.nan)
        return torch.where(errors == SKIPPED, math.nan, errors)

    def worst(self, space: Space, values: Sequence[Tensor]) -> float:
        """The largest error of a batch, infinite if it is no number; :data:`SKIPPED` if the law speaks of none."""
        errors = self.judge(space, values).detach().double()
        if errors.dim() != 1:
            return math.inf
        return float(torch.nan_to_num(errors, nan=math.inf, posinf=math.inf).max())

    def error(
        self,
        manifold: Any,
        *,
        dtype: torch.dtype | None = None,
        dim: int | None = None,
        batch: bool = False,
        **values: Any,
    ) -> float:
        """The error on one example that is given by hand, as the counter-examples of a report are; or the largest on a
        ``batch`` of examples, one a row of each value."""
        # numbers that are printed are exact in float64, whatever the default
        given = {
            name: value if isinstance(value, Tensor) else torch.as_tensor(value, dtype=torch.float64)
            for name, value in values.items()
        }
        unknown = [name for name in self.examples if name not in given]
        if unknown:
            raise TypeError(f"law {self.name!r} also needs {', '.join(unknown)}; it takes {', '.join(self.examples)}")
        if dtype is None:
            tensors = [value for value in values.values() if isinstance(value, Tensor)]
            dtype = next((value.dtype for value in tensors if value.is_floating_point()), torch.get_default_dtype())
        space = Space(converted(manifold, dtype), dim or dimension(given), dtype)
        if missing := self.missing(space):
            raise TypeError(f"law {self.name!r} is not applicable to {manifold}: it has no {', '.join(missing)}")
        rows = [given[name].to(dtype) for name in self.examples]
        return self.worst(space, rows if batch else [row.unsqueeze(0) for row in rows])


def dimension(values: Mapping[str, Tensor]) -> int:
    """The dimension of a space whose points or vectors these are, in as many numbers."""
    return next((value.shape[-1] for name, value in values.items() if name in "xyzuvpw"), 2)


def _finite(change: Tensor) -> Tensor:
    return torch.nan_to_num(change, nan=0.0, posinf=0.0)


REGISTER: dict[str, Law] = {}
"""Every law by its name."""

GROUPS = (
    "metric",
    "maps",
    "geodesics",
    "transport",
    "projection",
    "gyro",
    "scalar",
    "matrix",
    "midpoint",
    "plane",
    "models",
    "frame",
    "curvature",
    "smooth",
    "oracle",
    "derivative",
    "limit",
    "interface",
    "half",
    "compile",
)
"""The groups of laws, in the order of a report."""


def law(
    statement: str,
    *,
    needs: Sequence[str],
    tolerance: str = "identity",
    group: str,
    name: str | None = None,
    examples: Sequence[str] | None = None,
    limit: int | None = None,
    factor: float = 1.0,
) -> Callable[[Callable[..., Tensor]], Law]:
    """Register a check function as a law. ``examples``, or else its parameters after ``space``, name what it wants."""

    def register(check: Callable[..., Tensor]) -> Law:
        wanted = examples or [parameter for parameter in inspect.signature(check).parameters if parameter != "space"]
        title = name or check.__name__
        made = Law(title, statement, tuple(needs), tolerance, group, check, tuple(wanted), limit, factor)
        if made.name in REGISTER:
            raise ValueError(f"there are two laws with the name {made.name!r}")
        REGISTER[made.name] = made
        return made

    return register


def only(mask: Tensor, errors: Tensor) -> Tensor:
    """``errors`` where the law speaks (``mask``), :data:`SKIPPED` elsewhere."""
    return torch.where(mask, errors.double(), torch.full_like(errors.double(), SKIPPED))


def everywhere(x: Tensor, value: float) -> Tensor:
    """One verdict for all examples: of laws about the space itself, and not about its points."""
    return torch.full((x.shape[0],), value, dtype=torch.float64)


def select(patterns: str | Law | Iterable[str | Law] | None) -> list[Law]:
    """Laws by name, by group, or by a pattern such as ``distance_*``; all for None."""
    if patterns is None:
        return sorted(REGISTER.values(), key=lambda entry: GROUPS.index(entry.group))
    if isinstance(patterns, str | Law):
        patterns = [patterns]
    chosen: dict[str, Law] = {}
    for pattern in patterns:
        if isinstance(pattern, Law):
            chosen[pattern.name] = pattern
            continue
        found = {
            name: entry
            for name, entry in REGISTER.items()
            if entry.group == pattern or fnmatch.fnmatchcase(name, pattern)
        }
        if not found:
            groups = sorted({entry.group for entry in REGISTER.values()})
            raise ValueError(
                f"no law matches {pattern!r}; groups are {', '.join(groups)}, names are in hgeo.testing.laws"
            )
        chosen |= found
    return list(chosen.values())
