"""Loops as machine code: compiled by Numba once, then read from the user's cache by LLVM's loader.

A process that finds its kernels in the cache imports no Numba. The file's name says what the machine code depends on:
the kernels' source, the versions of hgeo, Numba, llvmlite and Python, and the processor. Where the cache cannot be used
(:mod:`hgeo._cache`), the kernels are compiled in every process.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import importlib
import importlib.metadata
import os
import platform
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hgeo._cache import read_cached, write_cached

__all__ = ["compiled", "why_not"]

_SHELF = "kernels"
_lock = threading.Lock()
_engines: list[Any] = []  # LLVM engines own the machine code, so they live as long as the process
_kernels: dict[str, Callable[..., None]] = {}

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
def why_not() -> str:
    """Why kernels cannot be compiled here; nothing if they can."""
    if sys.maxsize < 2**32:
        return "needs a 64-bit Python"
    try:
        importlib.metadata.version("llvmlite")
        importlib.metadata.version("numba")
    except importlib.metadata.PackageNotFoundError as error:
        return f"{error.name} is not installed (pip install numba)"
    return ""


def compiled(name: str, make: Callable[[], Callable[..., None]], signature: str, sources: Sequence[Path]) -> Any:
    """The kernel that ``make`` gives as a Python function; calling it releases Python's global lock.

    Args:
        name: says which one it is, among those of the same sources.
        make: called only if the cache does not hold the kernel.
        signature: a letter an argument: D, I, J for the address of an array of float64, int64, int32; i for an
            integer, d for a number.
        sources: the files that the machine code depends on.
    """
    file = f"{_key(tuple(sources))}-{name}.o"
    kernel = _kernels.get(file)
    if kernel is None:
        with _lock:
            kernel = _kernels.get(file)
            if kernel is None:
                code = read_cached(_SHELF, file)
                if code is None:
                    code = _compile(make(), signature)
                    write_cached(_SHELF, file, code)
                kernel = _kernels[file] = _load(code, signature)
    return kernel


@functools.cache
def _key(sources: tuple[Path, ...]) -> str:
    import llvmlite.binding as llvm

    import hgeo

    digest = hashlib.sha256()
    for path in (Path(__file__), *sources):
        digest.update(path.read_bytes())
    versions = (hgeo.__version__, *(importlib.metadata.version(package) for package in ("numba", "llvmlite")))
    digest.update("\n".join((*versions, platform.python_version(), llvm.get_process_triple(), *_processor())).encode())
    return digest.hexdigest()[:20]


@functools.cache
def _processor() -> tuple[str, str]:
    """Name and features of the processor to compile for: this one, or that of Numba's own settings."""
    import llvmlite.binding as llvm

    name, features = os.environ.get("NUMBA_CPU_NAME"), os.environ.get("NUMBA_CPU_FEATURES")
    if features is None:
        features = llvm.get_host_cpu_features().flatten() if name is None else ""
    return name or llvm.get_host_cpu_name(), features


@functools.cache
def _prepare() -> None:
    import llvmlite.binding as llvm

    with contextlib.suppress(RuntimeError):  # llvmlite ≥ 0.45 does it by itself and refuses to be told
        llvm.initialize()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


def _compile(function: Callable[..., None], signature: str) -> bytes:
    _prepare()
    import llvmlite.binding as llvm

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
        "fastmath": {"contract", "reassoc", "nsz"},
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
    module = llvm.parse_assembly(text)
    module.link_in(llvm.parse_assembly(_ENTRY.format(native=native, types=", ".join(words), arguments=arguments)))
    for found in module.functions:
        if not found.is_declaration and found.name != "hgeo_kernel":
            found.linkage = "internal"
    name, features = _processor()
    target = llvm.Target.from_default_triple().create_target_machine(cpu=name, features=features, opt=3, jit=True)
    return bytes(target.emit_object(module))


def _load(code: bytes, signature: str) -> Callable[..., None]:
    _prepare()
    import llvmlite.binding as llvm

    target = llvm.Target.from_default_triple().create_target_machine(opt=3, jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target)
    engine.add_object_file(llvm.object_file.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _engines.append(engine)
    return ctypes.CFUNCTYPE(None, *(_C_TYPES[letter] for letter in signature))(
        engine.get_function_address("hgeo_kernel")
    )
