"""Where something was measured: the processor, and the versions that matter."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from typing import Any

import torch

from hgeo import __version__

__all__ = ["machine"]


def machine() -> dict[str, Any]:
    """The processor's name, the number of cores, and the versions of hgeo and of what it is measured with."""
    versions = {"hgeo": __version__, "torch": torch.__version__, "python": platform.python_version()}
    for package in ("dgl", "torch-geometric", "geoopt", "numba"):
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {"processor": _processor(), "cores": os.cpu_count(), "versions": versions}


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
