"""The laws of geometry, each a named object: ``laws.triangle_inequality``, ``laws.gyrocommutativity``, …

``laws.REGISTER`` holds them all by name, ``laws.select("gyro")`` gives a group or a pattern, ``laws.TOLERANCES`` is the
one table that says how exact is exact enough.
"""

from __future__ import annotations

from typing import Any

# Importing a module registers its laws; their order is that of the report.
from hgeo.testing.laws import (  # noqa: F401
    _frame,  # isort: skip
    _gyro,  # isort: skip
    _interface,  # isort: skip
    _limits,  # isort: skip
    _metric,  # isort: skip
    _models,  # isort: skip
    _oracle,  # isort: skip
    _parameters,  # isort: skip
    _smooth,  # isort: skip
)
from hgeo.testing.laws._law import REGISTER, SKIPPED, TOLERANCES, Law, law, only, select

__all__ = ["REGISTER", "SKIPPED", "TOLERANCES", "Law", "law", "only", "select"]


def __getattr__(name: str) -> Any:
    if name in REGISTER:
        return REGISTER[name]
    raise AttributeError(f"there is no law {name!r}; hgeo.testing.laws.REGISTER lists them")


def __dir__() -> list[str]:
    return [*__all__, *REGISTER]
