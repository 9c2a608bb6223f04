"""``hgeo doctor``."""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import json
import os
import platform
import sys
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass

__all__ = ["add_arguments", "run"]

_PACKAGES = {
    # distribution: (module, what is lost without it)
    "torch": ("torch", "everything"),
    "geoopt": ("geoopt", "everything"),
    "numpy": ("numpy", "everything"),
    "scipy": ("scipy", "data sets"),
    "dgl": ("dgl", "the dgl backend, samplers, random walks, hgeo bench"),
    "numba": ("numba", "the fused backend on CPU; hgeo uses plain torch instead"),
    "scikit-learn": ("sklearn", "clustering and link scores"),
    "matplotlib": ("matplotlib", "pictures"),
    "safetensors": ("safetensors", "run folders"),
    "hypothesis": ("hypothesis", "hgeo check"),
    "mpmath": ("mpmath", "hgeo check"),
}
_OPTIONAL = {
    "torch-geometric": ("torch_geometric", "reading PyG objects"),
    "torch-scatter": ("torch_scatter", "the scatter backend"),
    "triton": ("triton", "the fused backend on CUDA"),
    "optuna": ("optuna", "hgeo tune"),
    "gensim": ("gensim", "DeepWalk and Node2vec by engine='gensim'"),
}


@dataclass(frozen=True)
class Finding:
    """One line of the report: ``ok``, ``note`` (works without it) or ``problem``."""

    verdict: str
    subject: str
    text: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``hgeo doctor``."""
    parser.add_argument("--data-dir", help="folder of raw files (default: $HGEO_DATA, else DGL's own)")
    parser.add_argument("--json", action="store_true", help="JSON on stdout, and nothing else there")


def run(args: argparse.Namespace) -> int:
    """Run ``hgeo doctor`` and return its exit code: 1 if something that hgeo needs does not work."""
    findings = [_python(), *_packages()]
    for check in (_geometry, _layer, _backends, _device, lambda: [_data(args.data_dir)], lambda: [_cache()]):
        findings += _guarded(check)
    if args.json:
        print(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        for finding in findings:
            mark = {"ok": "ok     ", "note": "note   ", "problem": "PROBLEM"}[finding.verdict]
            print(f"{mark} {finding.subject:<18} {finding.text}")
    return int(any(finding.verdict == "problem" for finding in findings))


def _guarded(check: Callable[[], list[Finding]]) -> list[Finding]:
    """A check that itself falls over is a finding, not a crash."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return check()
    except Exception as error:
        name = getattr(check, "__name__", "check").strip("_")
        return [Finding("problem", name, f"{type(error).__name__}: {error}")]


def _python() -> Finding:
    version = platform.python_version()
    if sys.version_info >= (3, 12):
        return Finding(
            "note",
            "python",
            f"{version}; dgl 1.1 has no wheels beyond 3.11, so random walks and its backend are missing",
        )
    return Finding("ok", "python", f"{version} on {platform.machine()}, {os.cpu_count()} cores")


def _packages() -> list[Finding]:
    findings = []
    for needed, table in ((True, _PACKAGES), (False, _OPTIONAL)):
        for name, (module, lost) in table.items():
            try:
                version = importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                verdict = "problem" if needed and lost == "everything" else "note"
                findings.append(Finding(verdict, name, f"not installed; it is for {lost}: pip install {name}"))
                continue
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    os.environ.setdefault("DGLBACKEND", "pytorch")
                    importlib.import_module(module)
            except Exception as error:  # a broken binary can raise anything
                reason = (str(error).splitlines() or [type(error).__name__])[0]
                findings.append(Finding("problem", name, f"{version} is installed but does not load: {reason}"))
                continue
            findings.append(Finding("ok", name, version))
    return findings


def _geometry() -> list[Finding]:
    import torch

    import hgeo

    ball = hgeo.PoincareBall(c=1.0)
    vector = torch.tensor([5.0, 0.0])
    error = float((hgeo.log0(ball, hgeo.exp0(ball, vector)) - vector).norm() / vector.norm())
    verdict = "ok" if error < 1e-2 else "problem"
    return [Finding(verdict, "geometry", f"log0(exp0(v)) at |v| = 5 has relative error {error:.1e} in float32")]


def _layer() -> list[Finding]:
    import torch

    import hgeo

    layer = hgeo.nn.HATConv(4, 2, hgeo.PoincareBall(c=1.0))
    output = layer(torch.tensor([[0, 1, 2], [1, 2, 0]]), torch.randn(3, 4))
    output.square().sum().backward()
    finite = bool(torch.isfinite(layer.weight.grad).all())
    return [Finding("ok" if finite else "problem", "HATConv", "forward and backward on a triangle")]


def _backends() -> list[Finding]:
    from hgeo.graph import backends

    return [
        Finding("ok", f"backend {name}", "available") if reason is None else Finding("note", f"backend {name}", reason)
        for name, reason in backends().items()
    ]


def _device() -> list[Finding]:
    import torch

    threads = f"torch uses {torch.get_num_threads()} thread(s)"
    if torch.cuda.is_available():
        return [Finding("ok", "device", f"{torch.cuda.get_device_name()}; {threads}")]
    return [Finding("ok", "device", f"cpu only; {threads}")]


def _data(data_dir: str | None) -> Finding:
    from hgeo.data import available

    folder, names = available(data_dir)
    if names:
        return Finding("ok", "data", f"{folder} holds {', '.join(names)}")
    return Finding("note", "data", f"{folder} holds no data set; set HGEO_DATA, or download (hgeo data cora)")


def _cache() -> Finding:
    from hgeo._cache import cache_folder, cache_trouble

    trouble = cache_trouble("kernels")
    if trouble is not None:
        return Finding("note", "cache", f"{cache_folder()} is not used: {trouble}")
    base = nearest = cache_folder()
    while not nearest.exists() and nearest != nearest.parent:
        nearest = nearest.parent
    if os.access(nearest, os.W_OK):
        return Finding("ok", "cache", f"{base}")
    return Finding("note", "cache", f"{base} cannot be written: compiled kernels are made anew in every process")
