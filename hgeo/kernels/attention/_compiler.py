"""Compiled kernels: from Numba once, from the user's cache folder ever after.

Numba compiles the kernels to machine code; the object code is kept as a file, and a later process hands that file to
LLVM's loader without importing Numba at all. The file's name says what it depends on: the kernels' source, the
versions of hgeo, Numba, llvmlite and Python, and the processor. Where the cache cannot be used (:mod:`hgeo._cache`),
the kernels are compiled in every process.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import importlib
import importlib.metadata
import os
import pathlib
import platform
import sys
import threading
from collections.abc import Callable
from typing import Any

from hgeo._cache import cached_names, read_cached, write_cached

__all__ = ["Kernel", "available", "kernel_address", "load_kernel"]

Kernel = Callable[[int, int, int, int, int], None]

_SIGNATURE = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 5)
_SOURCES = ("_compiler.py", "_kernels.py", "_layout.py", "_sort_kernels.py", "../simd.py")
_SHELF = "kernels"
_lock = threading.Lock()
_engines: list[Any] = []  # LLVM engines own the machine code, so they live as long as the process


@functools.cache
def available() -> tuple[bool, str]:
    """Whether the CPU kernels can run here, and if not, why."""
    for package in ("numba", "llvmlite"):
        try:
            importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            return False, f"{package} is not installed (pip install numba)"
    if sys.maxsize < 2**32:
        return False, "needs a 64-bit Python"
    try:
        # Kernels that an earlier process compiled need no Numba. Without any it must work: installed it may still
        # refuse, for example another NumPy than it was made for.
        if not any(name.startswith(f"{_key()}-") for name in cached_names(_SHELF)):
            importlib.import_module("numba")
    except Exception as error:
        return False, f"numba cannot be used ({type(error).__name__}: {error})"
    return True, ""


@functools.cache
def _processor() -> tuple[str, str]:
    """Name and features of the processor to compile for: this one, or that of Numba's own settings."""
    import llvmlite.binding as llvm

    name, features = os.environ.get("NUMBA_CPU_NAME"), os.environ.get("NUMBA_CPU_FEATURES")
    if features is None:
        features = llvm.get_host_cpu_features().flatten() if name is None else ""
    return name or llvm.get_host_cpu_name(), features


@functools.cache
def _target() -> Any:
    import llvmlite.binding as llvm

    with contextlib.suppress(RuntimeError):  # llvmlite ≥ 0.45 does it by itself and refuses to be told
        llvm.initialize()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple()
    name, features = _processor()
    return target.create_target_machine(cpu=name, features=features, opt=3, jit=True)


@functools.cache
def _key() -> str:
    import llvmlite.binding as llvm

    import hgeo

    digest = hashlib.sha256()
    here = pathlib.Path(__file__).parent
    for name in _SOURCES:
        digest.update((here / name).read_bytes())
    parts = (
        hgeo.__version__,
        importlib.metadata.version("numba"),
        importlib.metadata.version("llvmlite"),
        platform.python_version(),
        llvm.get_process_triple(),
        *_processor(),
    )
    digest.update("\n".join(parts).encode())
    return digest.hexdigest()[:20]


# Numba's own functions take a place for their result and one for an exception, which these kernels never raise.
_ENTRY = """
declare i32 @"{native}"(ptr, ptr, i64, i64, i64, i64, i64)
define void @hgeo_{name}(i64 %args, i64 %begin, i64 %end, i64 %scratch, i64 %partial) {{
  %result = alloca ptr
  %exception = alloca ptr
  call i32 @"{native}"(ptr %result, ptr %exception, i64 %args, i64 %begin, i64 %end, i64 %scratch, i64 %partial)
  ret void
}}
"""


def _compile(bits: int, width: int, name: str) -> bytes:
    import llvmlite.binding as llvm
    import numba
    from numba import types

    from hgeo.kernels.attention._kernels import make_kernels
    from hgeo.kernels.attention._sort_kernels import make_sorts

    signature = types.void(*[types.int64] * 5)
    options: dict[str, Any] = {
        "error_model": "numpy",
        "fastmath": {"contract"},
        "no_cpython_wrapper": True,
        "no_cfunc_wrapper": True,
    }
    compiled: Any = numba.njit(signature, **options)((make_sorts() | make_kernels(bits, width))[name])
    (overload,) = compiled.overloads.values()
    (text,) = compiled.inspect_llvm().values()
    native = overload.fndesc.llvm_func_name
    module = llvm.parse_assembly(text)
    module.link_in(llvm.parse_assembly(_ENTRY.format(native=native, name=name)))
    for function in module.functions:
        if not function.is_declaration and function.name != f"hgeo_{name}":
            function.linkage = "internal"
    return bytes(_target().emit_object(module))


def _load(code: bytes, name: str) -> Kernel:
    import llvmlite.binding as llvm

    _target()
    module = llvm.parse_assembly("")
    target = llvm.Target.from_default_triple().create_target_machine(opt=3, jit=True)
    engine = llvm.create_mcjit_compiler(module, target)
    engine.add_object_file(llvm.object_file.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _engines.append(engine)
    return _SIGNATURE(engine.get_function_address(f"hgeo_{name}"))


_kernels: dict[tuple[int, int, str], Kernel] = {}


def load_kernel(bits: int, width: int, name: str) -> Kernel:
    """One compiled kernel; calling it releases Python's global lock."""
    key = (bits, width, name)
    kernel = _kernels.get(key)
    if kernel is None:
        with _lock:
            kernel = _kernels.get(key)
            if kernel is None:
                file = f"{_key()}-{name}-f{bits}x{width}.o"
                code = read_cached(_SHELF, file)
                if code is None:
                    code = _compile(bits, width, name)
                    write_cached(_SHELF, file, code)
                kernel = _kernels[key] = _load(code, name)
    return kernel


_addresses: dict[tuple[int, int, str], int] = {}


def kernel_address(bits: int, width: int, name: str) -> int:
    """Where the machine code of a kernel begins, for other kernels to call."""
    key = (bits, width, name)
    address = _addresses.get(key)
    if address is None:
        kernel: Any = load_kernel(bits, width, name)
        address = _addresses[key] = ctypes.cast(kernel, ctypes.c_void_p).value or 0
    return address
