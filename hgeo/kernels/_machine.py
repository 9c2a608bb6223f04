"""Machine code: compiled for the processor at hand, kept in the user's cache, loaded by LLVM without Numba."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib.metadata
import os
import threading
from collections.abc import Callable
from typing import Any

from hgeo._cache import read_cached, write_cached

__all__ = ["depends_on", "emitted", "kept", "llvm"]

_lock = threading.RLock()
_engines: list[Any] = []  # LLVM engines own the machine code, so they live as long as the process
_kernels: dict[tuple[str, str], Any] = {}


@functools.cache
def llvm() -> Any:
    """llvmlite's binding, ready to compile for this machine."""
    import llvmlite.binding

    with contextlib.suppress(RuntimeError):  # llvmlite ≥ 0.45 does it by itself and refuses to be told
        llvmlite.binding.initialize()
    llvmlite.binding.initialize_native_target()
    llvmlite.binding.initialize_native_asmprinter()
    return llvmlite.binding


@functools.cache
def _processor() -> tuple[str, str]:
    """Name and features of the processor to compile for: this one, or that of Numba's own settings."""
    name, features = os.environ.get("NUMBA_CPU_NAME"), os.environ.get("NUMBA_CPU_FEATURES")
    if features is None:
        features = llvm().get_host_cpu_features().flatten() if name is None else ""
    return name or llvm().get_host_cpu_name(), features


def depends_on(*packages: str) -> str:
    """What machine code depends on beside its source: the versions of these packages, and the processor."""
    versions = [importlib.metadata.version(package) for package in packages]
    return "\n".join((*versions, llvm().get_process_triple(), *_processor()))


def emitted(module: Any) -> bytes:
    """The object code of a parsed module."""
    name, features = _processor()
    target = llvm().Target.from_default_triple().create_target_machine(cpu=name, features=features, opt=3, jit=True)
    return bytes(target.emit_object(module))


def kept(shelf: str, file: str, make: Callable[[], bytes], entry: str, result: Any, *arguments: Any) -> Any:
    """The C function ``entry`` of object code; calling it releases Python's global lock.

    The code is loaded once a process, from the user's cache, or else from ``make``.

    Args:
        shelf, file: where in the cache it is kept.
        make: compiles it.
        entry: the name of the function.
        result, arguments: its types, of ``ctypes``.
    """
    kernel = _kernels.get((shelf, file))
    if kernel is None:
        with _lock:
            kernel = _kernels.get((shelf, file))
            if kernel is None:
                code = read_cached(shelf, file)
                if code is None:
                    code = make()
                    write_cached(shelf, file, code)
                kernel = _kernels[shelf, file] = ctypes.CFUNCTYPE(result, *arguments)(_address(code, entry))
    return kernel


def _address(code: bytes, entry: str) -> int:
    target = llvm().Target.from_default_triple().create_target_machine(opt=3, jit=True)
    engine = llvm().create_mcjit_compiler(llvm().parse_assembly(""), target)
    engine.add_object_file(llvm().object_file.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _engines.append(engine)
    return int(engine.get_function_address(entry))
