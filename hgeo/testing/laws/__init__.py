"""The laws of geometry, each a named object: ``laws.triangle_inequality``, ``laws.gyrocommutativity``, …

``laws.REGISTER`` holds them all by name, ``laws.select("gyro")`` gives a group or a pattern, ``laws.TOLERANCES`` is the
one table that says how exact is exact enough.
"""

from __future__ import annotations

from typing import Any

from hgeo.testing._space import ratio
from hgeo.testing.laws import (  # noqa: F401  (importing a module registers its laws)
    _frame,
    _geodesics,
    _gyro,
    _interface,
    _limits,
    _metric,
    _models,
    _oracle,
    _parameters,
    _promises,
    _smooth,
)
from hgeo.testing.laws._law import GROUPS, REGISTER, SKIPPED, TOLERANCES, Law, WrongShape, dimension, law, only, select

__all__ = [
    "GROUPS",
    "REGISTER",
    "SKIPPED",
    "TOLERANCES",
    "Law",
    "WrongShape",
    "dimension",
    "law",
    "only",
    "ratio",
    "select",
]


def __getattr__(name: str) -> Any:
    if name in REGISTER:
        return REGISTER[name]
    raise AttributeError(f"there is no law {name!r}; hgeo.testing.laws.REGISTER lists them")


def __dir__() -> list[str]:
    return [*__all__, *REGISTER]
