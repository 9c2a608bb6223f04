"""The kernels of attention, compiled once and kept: see :mod:`hgeo.kernels._objects`."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hgeo.kernels._objects import compiled, why_not

__all__ = ["Kernel", "available", "kernel_address", "load_kernel"]

Kernel = Callable[[int, int, int, int, int], None]

_SOURCES = tuple(
    Path(__file__).parent / name
    for name in ("_compiler.py", "_kernels.py", "_layout.py", "_sort_kernels.py", "../simd.py")
)


@functools.cache
def available() -> tuple[bool, str]:
    """Whether the CPU kernels can run here, and if not, why."""
    reason = why_not(_SOURCES)
    return not reason, reason


@functools.cache
def load_kernel(bits: int, width: int, name: str) -> Kernel:
    """One compiled kernel; calling it releases Python's global lock."""

    def make() -> Callable[..., None]:
        from hgeo.kernels.attention._kernels import make_kernels
        from hgeo.kernels.attention._sort_kernels import make_sorts

        return (make_sorts() | make_kernels(bits, width))[name]

    kernel: Kernel = compiled(f"{name}-f{bits}x{width}", make, "iiiii", _SOURCES, "contract")
    return kernel


@functools.cache
def kernel_address(bits: int, width: int, name: str) -> int:
    """Where the machine code of a kernel begins, for other kernels to call."""
    kernel: Any = load_kernel(bits, width, name)
    return ctypes.cast(kernel, ctypes.c_void_p).value or 0
