"""Loops as machine code: compiled by Numba once, then read from the user's cache by LLVM's loader.

A process that finds its kernels in the cache imports no Numba. The file's name says what the machine code depends on:
the kernels' source, the versions of hgeo, Numba, llvmlite and Python, and the processor. Where the cache cannot be used
(:mod:`hgeo._cache`), the kernels are compiled in every process.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import importlib
import importlib.metadata
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hgeo._cache import cached_names
from hgeo.kernels._machine import depends_on, emitted, kept, llvm

__all__ = ["compiled", "why_not"]

_SHELF = "kernels"

# letters of a signature: an array of float64, of int64, of int32, an integer, a number
_C_TYPES = {"D": ctypes.c_void_p, "I": ctypes.c_void_p, "J": ctypes.c_void_p, "i": ctypes.c_int64, "d": ctypes.c_double}
_IR_TYPES = {"D": "ptr", "I": "ptr", "J": "ptr", "i": "i64", "d": "double"}

# Numba's own functions take a place for their result and one for an exception, which these kernels never raise.
_ENTRY = """
declare i32 @"{native}"(ptr, ptr, {types})
define void @hgeo_kernel({arguments}) {{
  %result = alloca ptr
  %exception = alloca ptr
  call i32 @"{native}"(ptr %result, ptr %exception, {arguments})
  ret void
}}
"""


@functools.cache
def why_not(sources: tuple[Path, ...]) -> str:
    """Why kernels of these sources cannot run here; nothing if they can."""
    if sys.maxsize < 2**32:
        return "needs a 64-bit Python"
    for package in ("numba", "llvmlite"):
        try:
            importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            return f"{package} is not installed (pip install numba)"
    try:
        # Kernels that an earlier process compiled need no Numba. Without any it must work: installed it may still
        # refuse, for example another NumPy than it was made for.
        if not any(name.startswith(f"{_key(sources)}-") for name in cached_names(_SHELF)):
            importlib.import_module("numba")
    except Exception as error:
        return f"numba cannot be used ({type(error).__name__}: {error})"
    return ""


def compiled(
    name: str, make: Callable[[], Callable[..., None]], signature: str, sources: tuple[Path, ...], *fastmath: str
) -> Any:
    """The kernel that ``make`` gives as a Python function; calling it releases Python's global lock.

    Args:
        name: says which one it is, among those of the same sources.
        make: called only if the cache does not hold the kernel.
        signature: a letter an argument: D, I, J for the address of an array of float64, int64, int32; i for an
            integer, d for a number.
        sources: the files that the machine code depends on.
        fastmath: which liberties LLVM may take with floating-point numbers.
    """
    file = f"{_key(sources)}-{name}.o"
    types = [_C_TYPES[letter] for letter in signature]
    return kept(_SHELF, file, lambda: _compile(make(), signature, fastmath), "hgeo_kernel", None, *types)


@functools.cache
def _key(sources: tuple[Path, ...]) -> str:
    import hgeo

    digest = hashlib.sha256()
    here = Path(__file__)
    for path in (here, here.with_name("_machine.py"), *sources):
        digest.update(path.read_bytes())
    versions = (hgeo.__version__, platform.python_version(), depends_on("numba", "llvmlite"))
    digest.update("\n".join(versions).encode())
    return digest.hexdigest()[:20]


def _compile(function: Callable[..., None], signature: str, fastmath: tuple[str, ...]) -> bytes:
    numba = importlib.import_module("numba")
    types = numba.types
    kinds = {
        "D": types.CPointer(types.float64),
        "I": types.CPointer(types.int64),
        "J": types.CPointer(types.int32),
        "i": types.int64,
        "d": types.float64,
    }
    options: dict[str, Any] = {
        "error_model": "numpy",
        "fastmath": set(fastmath),
        "no_cpython_wrapper": True,
        "no_cfunc_wrapper": True,
        "_nrt": False,  # no array is made here, only looked at
    }
    kernel: Any = numba.njit(types.void(*(kinds[letter] for letter in signature)), **options)(function)
    (overload,) = kernel.overloads.values()
    (text,) = kernel.inspect_llvm().values()
    native = overload.fndesc.llvm_func_name
    words = [_IR_TYPES[letter] for letter in signature]
    arguments = ", ".join(f"{word} %a{number}" for number, word in enumerate(words))
    module = llvm().parse_assembly(text)
    module.link_in(llvm().parse_assembly(_ENTRY.format(native=native, types=", ".join(words), arguments=arguments)))
    for found in module.functions:
        if not found.is_declaration and found.name != "hgeo_kernel":
            found.linkage = "internal"
    return emitted(module)
