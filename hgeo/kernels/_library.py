"""Kernels as machine code: compiled once on this machine and kept in the user's cache, from which they are read."""

from __future__ import annotations

import contextlib
import ctypes
import ctypes.util
import functools
import hashlib
import importlib.metadata
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from hgeo._cache import read_cached, write_cached
from hgeo.kernels._vector import LIBM

__all__ = ["Compiled", "compiled"]

Compiled = Callable[[Any], int]
"""A kernel: takes the address of its integers."""

_SIGNATURE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)
_lock = threading.RLock()
_engines: list[Any] = []  # LLVM engines own the machine code, so they live as long as the process
_kernels: dict[str, Compiled] = {}


@functools.cache
def _target() -> tuple[Any, str]:
    """The machine to compile for, and a word for it and for everything else that object code depends on."""
    import llvmlite.binding as llvm

    with contextlib.suppress(RuntimeError):  # llvmlite ≥ 0.45 does it by itself and refuses to be told
        llvm.initialize()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    name, features = os.environ.get("NUMBA_CPU_NAME"), os.environ.get("NUMBA_CPU_FEATURES")
    if features is None:
        features = llvm.get_host_cpu_features().flatten() if name is None else ""
    name = name or llvm.get_host_cpu_name()
    for function in LIBM:
        llvm.add_symbol(f"hgeo_{function}", _address(function))
    machine = llvm.Target.from_default_triple().create_target_machine(cpu=name, features=features, opt=3, jit=True)
    versions = (importlib.metadata.version("llvmlite"), llvm.get_process_triple(), name, features)
    return machine, "\n".join(versions)


def _address(function: str) -> int:
    library = "msvcrt" if sys.platform == "win32" else ctypes.util.find_library("m")
    address = ctypes.cast(getattr(ctypes.CDLL(library), function), ctypes.c_void_p).value
    if address is None:
        raise OSError(f"the C library has no {function}")
    return address


def compiled(text: str) -> Compiled:
    """The kernel ``@kernel`` of a module in LLVM's language; calling it releases Python's global lock."""
    kernel = _kernels.get(text)
    if kernel is None:
        with _lock:
            kernel = _kernels.get(text)
            if kernel is None:
                machine, word = _target()
                name = f"{hashlib.sha256((word + text).encode()).hexdigest()[:32]}.o"
                code = read_cached("rows", name)
                if code is None:
                    code = _compile(text, machine)
                    write_cached("rows", name, code)
                kernel = _kernels[text] = _load(code)
    return kernel


def _compile(text: str, machine: Any) -> bytes:
    import llvmlite.binding as llvm

    module = llvm.parse_assembly(text)
    module.verify()
    return bytes(machine.emit_object(module))


def _load(code: bytes) -> Compiled:
    import llvmlite.binding as llvm

    machine = llvm.Target.from_default_triple().create_target_machine(opt=3, jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.object_file.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _engines.append(engine)
    return _SIGNATURE(engine.get_function_address("kernel"))
