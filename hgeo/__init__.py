"""hgeo: geometric deep learning on curved spaces, exact and manifold-agnostic.

The public names below load on first use, so ``import hgeo`` costs nothing that is not needed.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.2.0"

_ROOMS = (
    "math",
    "manifolds",
    "graph",
    "nn",
    "distributions",
    "optim",
    "models",
    "data",
    "tasks",
    "viz",
    "train",
    "bench",
    "testing",
)

# public name -> the one room it lives in
_NAMES = {
    "Klein": "manifolds",
    "Lorentz": "manifolds",
    "PoincareBall": "manifolds",
    "Stereographic": "manifolds",
    "SphereProjection": "manifolds",
    "Product": "manifolds",
    "Scaled": "manifolds",
    "space": "manifolds",
    "exp0": "manifolds",
    "log0": "manifolds",
    "frame_scale": "manifolds",
    "ambient_dim": "manifolds",
    "intrinsic_dim": "manifolds",
    "dist": "manifolds",
    "cdist": "manifolds",
    "nearest": "manifolds",
    "cone_angle": "manifolds",
    "cone_aperture": "manifolds",
    "cone_energy": "manifolds",
    "Geometry": "manifolds",
    "geometry": "manifolds",
    "register": "manifolds",
    "validate": "manifolds",
    "Graph": "graph",
    "embed_tree": "data",
}

__all__ = ["__version__", *sorted(_NAMES), *_ROOMS]


def __getattr__(name: str) -> Any:
    if name in (*_ROOMS, "pyg"):  # which needs torch_geometric, and is no part of what * imports
        return importlib.import_module(f"hgeo.{name}")
    if name in _NAMES:
        return getattr(importlib.import_module(f"hgeo.{_NAMES[name]}"), name)
    raise AttributeError(f"module 'hgeo' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
