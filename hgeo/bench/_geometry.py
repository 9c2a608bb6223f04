"""Operations of geometry, and optimisers' steps on points, beside geoopt's."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

import hgeo.optim
from hgeo._geoopt import geoopt
from hgeo.bench._measure import peak_extra_bytes
from hgeo.manifolds import Lorentz, PoincareBall

__all__ = ["Cost", "geometry"]

SIZES = (
    (64, 16, torch.float32),
    (2_000, 16, torch.float32),
    (100_000, 16, torch.float32),
    (100_000, 64, torch.float32),
    (100_000, 16, torch.float64),
)
_BATCH = 20_000
"""Rows that one measurement handles at least: small batches are handled many times."""

_ARGUMENTS = {
    "dist": "xy", "dist0": "x", "dist2": "xy", "expmap": "xv", "logmap": "xy", "expmap0": "v", "logmap0": "x",
    "mobius_add": "xy", "mobius_scalar_mul": "rx", "mobius_matvec": "mx", "gyration": "xyv", "transp": "xyv",
    "transp0": "xv", "transp0back": "xv", "egrad2rgrad": "xv", "projx": "x", "geodesic": "txy",
    "weighted_midpoint": "x", "dist2plane": "xyv",
}  # fmt: skip
_LORENTZ = {
    "dist": "xy",
    "dist0": "x",
    "expmap": "xv",
    "logmap": "xy",
    "expmap0": "o",
    "logmap0": "x",
    "transp": "xyv",
    "transp0": "yo",
    "transp0back": "xv",
    "projx": "x",
}  # fmt: skip  (geoopt's egrad2rgrad writes into its argument, its geodesic is one of unit speed)


@dataclass(frozen=True)
class Cost:
    """Microseconds of processor time, and the ratios of what hgeo and geoopt take in the same rounds."""

    hgeo: float
    geoopt: float
    ratio: float
    ratio_forward: float | None = None
    ratio_memory: float | None = None


def geometry(seconds: float) -> dict[str, Any]:
    """Processor time of every operation and of optimisers' steps on one thread, forward and backward, and as ratios to
    geoopt's; a comparison takes about ``seconds`` / 8.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        cases = []
        for rows, dim, dtype in SIZES:
            title = f"{rows} × {dim}, {str(dtype).removeprefix('torch.')}"
            ball, hyperboloid = _ball(rows, dim, dtype), _hyperboloid(rows, dim, dtype)
            costs = {name: _operation(name, words, *ball, seconds / 8) for name, words in _ARGUMENTS.items()}
            for name, words in _LORENTZ.items():
                costs[f"Lorentz.{name}"] = _operation(name, words, *hyperboloid, seconds / 8)
            cases.append({"title": title, "costs": {name: asdict(cost) for name, cost in costs.items()}})
        return {"cases": cases, "steps": {name: asdict(cost) for name, cost in _steps(seconds).items()}}
    finally:
        torch.set_num_threads(threads)


# --- what is compared -------------------------------------------------------------------------------------------------

_Contestants = tuple[Any, Any, Mapping[str, Tensor]]


def _ball(rows: int, dim: int, dtype: torch.dtype) -> _Contestants:
    """hgeo's ball, geoopt's, and points within .9 of it; v is as good a vector as a point."""
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    def points() -> Tensor:
        ray = torch.nn.functional.normalize(normal(rows, dim), dim=-1)
        return ray * 0.9 * torch.rand(rows, 1, generator=generator, dtype=torch.float64)

    values = {word: points() for word in "xyv"}
    values |= {"r": normal(rows, 1), "t": torch.rand(rows, 1, generator=generator, dtype=torch.float64)}
    values["m"] = normal(dim, dim) / dim**0.5
    return PoincareBall(1.0), geoopt.PoincareBall(1.0).to(dtype), {w: v.to(dtype) for w, v in values.items()}


def _hyperboloid(rows: int, dim: int, dtype: torch.dtype) -> _Contestants:
    """The same for the hyperboloid, in ``dim`` numbers; o is a tangent vector at the origin."""
    ours = Lorentz(1.0)
    _, _, flat = _ball(rows, dim - 1, torch.float64)
    origin = {word: torch.nn.functional.pad(flat[word], (1, 0)) for word in "xyv"}
    values = {word: ours.expmap0(2 * origin[word]) for word in "xy"}
    values |= {"v": ours.transp0(values["x"], origin["v"]), "o": origin["v"], "t": flat["t"]}
    return ours, geoopt.Lorentz(1.0).to(dtype), {w: v.to(dtype).contiguous() for w, v in values.items()}


def _operation(name: str, words: str, ours: Any, theirs: Any, values: Mapping[str, Tensor], seconds: float) -> Cost:
    arguments = [values[word].clone().requires_grad_() for word in words]
    functions = [getattr(manifold, name) for manifold in (ours, theirs)]
    often = max(1, _BATCH // max(a.shape[0] for a in arguments))

    def forward(function: Callable[..., Tensor]) -> Callable[[], Any]:
        plain = [a.detach() for a in arguments]
        return lambda: function(*plain)

    def both(function: Callable[..., Tensor]) -> Callable[[], Any]:
        def run() -> None:
            out = function(*arguments)
            torch.autograd.grad(out, arguments, torch.ones_like(out), allow_unused=True)

        return run

    whole = _taken_in_turns([both(f) for f in functions], often, seconds)
    ahead = _taken_in_turns([forward(f) for f in functions], often, seconds / 2)
    memory: list[int | None] = [None, None]
    if often == 1:
        memory = [peak_extra_bytes(lambda f=f: lambda: f(*arguments)) for f in functions]  # type: ignore[misc]
    extra, base = memory
    hgeo, geoopt = (statistics.median(column) for column in zip(*whole, strict=True))
    return Cost(
        1e6 * hgeo,
        1e6 * geoopt,
        _ratio(whole),
        _ratio(ahead),
        extra / base if extra is not None and base else None,
    )


def _ratio(rounds: Sequence[tuple[float, ...]]) -> float:
    return statistics.median(ours / theirs for ours, theirs in rounds)


def _taken_in_turns(
    contestants: Sequence[Callable[[], Any]], often: int, seconds: float, least: int = 7
) -> list[tuple[float, ...]]:
    """Processor time of one run of each contestant, round by round."""
    for run in [*contestants, *contestants]:
        run()
    rounds: list[tuple[float, ...]] = []
    started = time.perf_counter()
    while len(rounds) < least or time.perf_counter() - started < seconds:
        times = []
        for run in contestants if len(rounds) % 2 else contestants[::-1]:
            begin = time.process_time_ns()
            for _ in range(often):
                run()
            times.append((time.process_time_ns() - begin) / often * 1e-9)
        rounds.append(tuple(times if len(rounds) % 2 else times[::-1]))
    return rounds


# --- optimisers -------------------------------------------------------------------------------------------------------


def _steps(seconds: float, rows: int = 100_000, dim: int = 16, touched: int = 10_000) -> dict[str, Cost]:
    """A step on points of the ball: all of them, or those that a sparse gradient touches."""
    theirs = geoopt.optim
    contestants: dict[str, tuple[Any, Any, bool]] = {
        "riemannian_adam": (hgeo.optim.riemannian_adam, theirs.RiemannianAdam, False),
        "riemannian_adam, sparse": (hgeo.optim.riemannian_adam, theirs.SparseRiemannianAdam, True),
        "riemannian_sgd": (hgeo.optim.riemannian_sgd, theirs.RiemannianSGD, False),
        "riemannian_sgd, sparse": (hgeo.optim.riemannian_sgd, theirs.SparseRiemannianSGD, True),
    }
    _, other, values = _ball(rows, dim, torch.float32)
    gradient = values["v"]
    index = torch.randperm(rows, generator=torch.Generator().manual_seed(0))[:touched]
    costs = {}
    for name, (ours, stock, sparse) in contestants.items():
        optimizers = []
        for make, manifold in ((ours, PoincareBall(1.0)), (stock, other)):
            point = geoopt.ManifoldParameter(values["x"].clone(), manifold=manifold)
            point.grad = _sparse(gradient, index) if sparse else gradient.clone()
            optimizers.append(make([point], lr=1e-3))
        rounds = _taken_in_turns([optimizer.step for optimizer in optimizers], 1, seconds / 4)
        hgeo_time, geoopt_time = (statistics.median(column) for column in zip(*rounds, strict=True))
        costs[name] = Cost(1e6 * hgeo_time, 1e6 * geoopt_time, _ratio(rounds))
    return costs


def _sparse(gradient: Tensor, index: Tensor) -> Tensor:
    return torch.sparse_coo_tensor(index.unsqueeze(0), gradient[index], gradient.shape, check_invariants=False)
