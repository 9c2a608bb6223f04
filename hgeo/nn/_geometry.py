"""The operations of :mod:`hgeo.manifolds` by the name under which the graph layers know them."""

from typing import Any

from hgeo import manifolds
from hgeo.manifolds import lift, lower, project, translate, translate_back

__all__ = ["check_midpoint", "lift", "lower", "project", "translate", "translate_back"]


def check_midpoint(manifold: Any) -> None:
    """Refuse a manifold for which no gyromidpoint is known."""
    manifolds.geometry(manifold).lifted_dim(manifold, 2)
