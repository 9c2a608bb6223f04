"""Whether a law is broken by what a manifold merely has from geoopt's base class, and not by the manifold."""

from __future__ import annotations

import functools

import torch

from hgeo._geoopt import geoopt
from hgeo.testing._examples import Examples
from hgeo.testing._space import Space
from hgeo.testing.laws import SKIPPED, Law

__all__ = ["inherited_faults"]

_EXAMPLES = 32


def inherited_faults(entry: Law, space: Space) -> list[str]:
    """The operations of geoopt's base class that break a law on ``space``; empty if the manifold may be at fault.

    An operation that the manifold did not write is only suspected. It is convicted if it breaks the same law on flat
    space, where everything else is right.
    """
    kind = type(space.manifold)
    taken = [
        name for name in entry.needs if _own(geoopt.Manifold, name) and _own(kind, name) is _own(geoopt.Manifold, name)
    ]
    return taken if taken and _breaks_flat_space(entry, tuple(taken), space.dtype) else []


def _own(kind: type, name: str) -> object:
    return getattr(kind, name, None)


@functools.cache
def _breaks_flat_space(entry: Law, operations: tuple[str, ...], dtype: torch.dtype) -> bool:
    base = {name: getattr(geoopt.Manifold, name) for name in operations}
    space = Space(type("FlatSpace", (geoopt.Euclidean,), base)(ndim=1), 3, dtype)
    if entry.missing(space):
        return False
    examples = Examples(space, _EXAMPLES, 0)
    try:
        errors = entry.judge(space, [examples[name] for name in entry.examples]).detach().double()
    except Exception:
        return True
    return bool(((errors != SKIPPED) & ~(errors <= entry.tolerance(dtype))).any())
