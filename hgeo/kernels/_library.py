"""Kernels as machine code: compiled once on this machine and kept in the user's cache, from which they are read."""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import hashlib
import sys
from collections.abc import Callable
from typing import Any

from hgeo.kernels._machine import depends_on, emitted, kept, llvm
from hgeo.kernels._vector import LIBM

__all__ = ["Compiled", "compiled"]

Compiled = Callable[[Any], int]
"""A kernel: takes the address of its integers."""


@functools.cache
def _depends_on() -> str:
    """What the machine code depends on; and the C library's functions get the names that kernels call them by."""
    library = ctypes.CDLL("msvcrt" if sys.platform == "win32" else ctypes.util.find_library("m"))
    for function in LIBM:
        address = ctypes.cast(getattr(library, function), ctypes.c_void_p).value
        if address is None:
            raise OSError(f"the C library has no {function}")
        llvm().add_symbol(f"hgeo_{function}", address)
    return depends_on("llvmlite")


@functools.cache
def compiled(text: str) -> Compiled:
    """The kernel ``@kernel`` of a module in LLVM's language; calling it releases Python's global lock."""
    file = f"{hashlib.sha256((_depends_on() + text).encode()).hexdigest()[:32]}.o"
    kernel: Compiled = kept("rows", file, lambda: _compile(text), "kernel", ctypes.c_int32, ctypes.c_void_p)
    return kernel


def _compile(text: str) -> bytes:
    module = llvm().parse_assembly(text)
    module.verify()
    return emitted(module)
