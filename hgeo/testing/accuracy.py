"""The error table: operation × dtype × regime, hgeo against geoopt, in units of the last place.

``python -m hgeo.testing.accuracy > docs/results/accuracy.md`` makes the committed table. Errors are norm-wise relative
to the oracle's sixty digits, in units of eps/(1 − c|x|²) with x the outermost point; the promise is 16.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import hgeo.math
from hgeo._geoopt import geoopt
from hgeo.testing import _places, oracle

__all__ = ["REGIMES", "main", "table"]

_Maker = Callable[[torch.Generator, int, int, torch.dtype], tuple[Tensor, Tensor]]


def _directions(generator: torch.Generator, count: int, dim: int) -> Tensor:
    drawn = torch.randn(count, dim, generator=generator, dtype=torch.float64)
    return drawn / drawn.norm(dim=-1, keepdim=True)


def _pair(radius: float, gap: float | None) -> _Maker:
    """Points at ``radius`` (in units of 1/√|k|) and either any other there, or one at a distance of ``gap``."""

    def make(generator: torch.Generator, count: int, dim: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        x = radius * _directions(generator, count, dim)
        other = _directions(generator, count, dim)
        y = radius * other if gap is None else x + gap * other
        return x.to(dtype), y.to(dtype)

    return make


def _opposite(radius: float, gap: float) -> _Maker:
    def make(generator: torch.Generator, count: int, dim: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        x = radius * _directions(generator, count, dim)
        return x.to(dtype), (-x + gap * _directions(generator, count, dim)).to(dtype)

    return make


@dataclass(frozen=True)
class Regime:
    """A part of the space where formulas behave alike."""

    name: str
    k: float
    make: _Maker


REGIMES = (
    Regime("tiny, √c|x| = 1e-8", -1.0, _pair(1e-8, None)),
    Regime("small, √c|x| = 1e-3", -1.0, _pair(1e-3, None)),
    Regime("inside, √c|x| = 0.5", -1.0, _pair(0.5, None)),
    Regime("close, 0.5 ± 1e-3", -1.0, _pair(0.5, 1e-3)),
    Regime("far out, √c|x| = 0.99", -1.0, _pair(0.99, None)),
    Regime("far out and close, 0.99 ± 1e-3", -1.0, _pair(0.99, 1e-3)),
    Regime("y ≈ −x at 0.99", -1.0, _opposite(0.99, 1e-3)),
    Regime("geoopt's edge, 0.996", -1.0, _pair(0.996, None)),
    Regime("at the edge, √c|x| = 1 − 1e-6", -1.0, _pair(1 - 1e-6, None)),
    Regime("nearly flat, c = 1e-6, |x| = 0.5", -1e-6, _pair(0.5, None)),
    Regime("sphere, √k|x| = 0.5", 1.0, _pair(0.5, None)),
    Regime("sphere beyond the equator, √k|x| = 3", 1.0, _pair(3.0, None)),
)

_ARGUMENTS: dict[str, tuple[str, ...]] = {
    "dist": ("x", "y"),
    "dist0": ("x",),
    "logmap0": ("x",),
    "expmap0": ("v",),
    "mobius_add": ("x", "y"),
    "mobius_scalar_mul": ("r", "x"),
    "mobius_matvec": ("m", "x"),
    "gyration": ("x", "y", "g"),
    "parallel_transport": ("x", "y", "g"),
    "expmap": ("x", "u"),
    "logmap": ("x", "y"),
}


def _values(regime: Regime, count: int, dim: int, dtype: torch.dtype) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x, y = regime.make(generator, count, dim, dtype)
    g = _directions(generator, count, dim).to(dtype)
    source = _places.RandomSource(0)
    m = torch.stack([torch.from_numpy(_places.orthogonal(source, dim)) for _ in range(count)])
    v = torch.tensor([[float(value) for value in oracle.logmap0(row, k=regime.k)] for row in x], dtype=dtype)
    flat = (1 + regime.k * x.double().square().sum(-1, keepdim=True)).to(dtype)
    return {
        "x": x,
        "y": y,
        "g": g,
        "m": m.to(dtype),
        "v": v,
        "u": 0.25 * flat * g,
        "r": torch.full((count, 1), 0.7, dtype=dtype),
    }


def _worst(module: Any, name: str, regime: Regime, dtype: torch.dtype, count: int, dim: int) -> float:
    """The worst error over the batch, in units of eps/(1 − c|x|²)."""
    values = _values(regime, count, dim, dtype)
    arguments = [values[key] for key in _ARGUMENTS[name]]
    k = torch.tensor(regime.k, dtype=dtype)
    computed = getattr(module, name)(*arguments, k=k)
    worst = 0.0
    for i in range(count):
        row = [
            value[i].item() if key == "r" else value[i] for key, value in zip(_ARGUMENTS[name], arguments, strict=True)
        ]
        exact = getattr(oracle, name)(*row, k=k)
        size = oracle.length(exact)
        if name in ("expmap", "mobius_matvec"):  # what cancels is of the size of the points
            size = max(size, oracle.length(values["x"][i]))
        error = (
            float(oracle.difference(computed[i], exact) / size) if bool(torch.isfinite(computed[i]).all()) else math.inf
        )
        points = [values[key][i] for key in _ARGUMENTS[name] if key in "xy"]
        gap = min((float(1 + min(regime.k, 0.0) * oracle.length(point) ** 2) for point in points), default=1.0)
        worst = max(worst, error * gap / torch.finfo(dtype).eps)
    return worst


def _number(value: float) -> str:
    if math.isinf(value):
        return "∞"
    return f"{value:.1f}" if value < 100 else f"{value:.0e}".replace("e+0", "e").replace("e+", "e")


def table(count: int = 50, dim: int = 8) -> str:
    """The Markdown table of errors."""
    import geoopt.manifolds.stereographic.math as other

    lines = [
        "| regime | dtype | " + " | ".join(f"`{name}`" for name in _ARGUMENTS) + " |",
        "|---|---|" + "---|" * len(_ARGUMENTS),
    ]
    for regime in REGIMES:
        for dtype in (torch.float32, torch.float64):
            cells = []
            for name in _ARGUMENTS:
                ours = _worst(hgeo.math, name, regime, dtype, count, dim)
                theirs = _worst(other, name, regime, dtype, count, dim)
                cells.append(f"**{_number(ours)}** / {_number(theirs)}")
            lines.append(
                f"| {regime.name.replace('|', chr(92) + '|')} | {str(dtype).removeprefix('torch.')} | "
                + " | ".join(cells)
                + " |"
            )
    return "\n".join(lines)


def curvature_table() -> str:
    """d artan_k(x)/dk at x = 0.5, around k = 0, where both libraries switch formulas."""
    import geoopt.manifolds.stereographic.math as other

    lines = ["| k | dtype | exact | hgeo | geoopt |", "|---|---|---|---|---|"]
    for k in (-1.0, -1e-3, -1e-5, -1e-6, -1e-7, -5e-9, 0.0, 5e-9, 1e-6, 1e-3):
        for dtype in (torch.float32, torch.float64):
            values = []
            for module in (hgeo.math, other):
                stored = torch.tensor(k, dtype=dtype, requires_grad=True)
                result = module.artan_k(torch.tensor(0.5, dtype=dtype), k=stored)
                values.append(float(torch.autograd.grad(result, stored)[0]))
            exact = float(oracle.derivative(oracle.artan_k, 0.5, k=torch.tensor(k, dtype=dtype)))
            name = str(dtype).removeprefix("torch.")
            lines.append(f"| {k:g} | {name} | {exact:.6g} | {values[0]:.6g} | {values[1]:.6g} |")
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    """Print docs/results/accuracy.md."""
    parser = argparse.ArgumentParser(prog="python -m hgeo.testing.accuracy", description=__doc__)
    parser.add_argument("--examples", type=int, default=50, help="examples a cell (default: 50)")
    parser.add_argument("--dim", type=int, default=8, help="dimension of the points (default: 8)")
    args = parser.parse_args(argv)
    print(
        f"""# Accuracy against sixty digits

Made by `python -m hgeo.testing.accuracy --examples {args.examples} --dim {args.dim} > docs/results/accuracy.md`
(torch {torch.__version__.split("+")[0]}, geoopt {geoopt.__version__}).

Worst error of {args.examples} examples in dimension {args.dim}, **hgeo** / geoopt, in units of eps/(1 − c|x|²) with
x the outermost point (eps = 2⁻²³ or 2⁻⁵²). hgeo promises at most 16 (32 on spheres); 1 is the last place. Pure
functions of both libraries on the same tensors, judged by `hgeo.testing.oracle`; geoopt's further loss by its
projection to √c|x| ≤ 1 − 4e-3 (1 − 1e-5 in float64) is not counted here.

{table(args.examples, args.dim)}

## The derivative by the curvature

d artan_k(x)/dk at x = 0.5.

{curvature_table()}"""
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
