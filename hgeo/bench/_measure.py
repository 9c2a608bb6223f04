"""Measuring on a machine that others use as well: contestants take turns, and a round's times make its ratios."""

from __future__ import annotations

import ctypes
import gc
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

__all__ = ["CLOCKS", "Timing", "first_call_seconds", "interleaved", "peak_extra_bytes"]

Prepare = Callable[[], Callable[[], Tensor]]


@dataclass(frozen=True)
class Timing:
    """Medians over the rounds, and the least, in seconds; ratios to the same round's baseline, with their quartiles."""

    forward: float
    backward: float
    rounds: int
    fastest: float
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    ratio_forward: float | None = None
    ratio_backward: float | None = None


CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


def _step(prepare: Prepare, gradients: dict[torch.Size, Tensor], clock: Callable[[], float]) -> tuple[float, float]:
    forward = prepare()
    started = clock()
    out = forward()
    middle = clock()
    gradient = gradients.get(out.shape)
    if gradient is None:
        gradient = gradients[out.shape] = torch.randn(out.shape, generator=torch.Generator().manual_seed(0))
    begin = clock()
    out.backward(gradient)
    return middle - started, clock() - begin


def interleaved(
    contestants: Mapping[str, Prepare],
    *,
    baseline: str,
    seconds: float,
    clock: str = "wall",
    least: int = 5,
    most: int = 100,
) -> dict[str, Timing]:
    """Time forward and backward passes in rounds of one step each, in a rotating order, for about so many seconds."""
    now = CLOCKS[clock]
    names = list(contestants)
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    gradients: dict[torch.Size, Tensor] = {}
    for prepare in contestants.values():  # warm up
        _step(prepare, gradients, now)
        _step(prepare, gradients, now)
    started = now()  # of processor time, other programs take nothing: there are as many rounds as on a quiet machine
    rounds = 0
    while rounds < least or (rounds < most and now() - started < seconds):
        turn = rounds % len(names)
        for name in names[turn:] + names[:turn]:
            times[name].append(_step(contestants[name], gradients, now))
        rounds += 1
    return {name: _timing(times[name], times.get(baseline)) for name in names}


def _timing(times: list[tuple[float, float]], base: list[tuple[float, float]] | None) -> Timing:
    forward, backward = (statistics.median(column) for column in zip(*times, strict=True))
    if base is None:
        return Timing(forward, backward, len(times), min(map(sum, times)))
    whole = [sum(a) / sum(b) for a, b in zip(times, base, strict=True)]
    low, middle, high = statistics.quantiles(whole, n=4, method="inclusive")
    forwards, backwards = ([a[n] / b[n] for a, b in zip(times, base, strict=True)] for n in range(2))
    return Timing(
        forward,
        backward,
        len(times),
        min(map(sum, times)),
        middle,
        low,
        high,
        statistics.median(forwards),
        statistics.median(backwards),
    )


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {field}")


def peak_extra_bytes(prepare: Prepare) -> int | None:
    """How far one forward and backward pass raises the memory of this process; None where Linux's /proc is missing."""
    forward = prepare()
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)  # memory that was freed but kept must not hide what is used
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")  # resets the high-water mark
        before = _status("VmRSS")
    except (OSError, AttributeError):
        return None
    out = forward()
    out.backward(torch.ones_like(out))
    return max(0, _status("VmHWM") - before)


_FIRST_CALL = """
import time
import torch
import {module}
started = time.perf_counter()
{setup}
out = layer(graph, torch.randn(3, 16, requires_grad=True))
out.sum().backward()
print(time.perf_counter() - started)
"""
_FIRST_CALL_SETUPS = {
    "DGL GATConv": ("dgl", "graph = dgl.graph(([0, 1, 2], [0, 1, 2]))\nlayer = dgl.nn.GATConv(16, 16, 1)"),
    "hgeo fused": (
        "hgeo.nn",
        "ids = torch.tensor([0, 1, 2])\ngraph = hgeo.Graph(ids, ids)\n"
        "layer = hgeo.nn.HATConv(16, 16, hgeo.PoincareBall(1.0), backend='fused')",
    ),
}


def first_call_seconds(name: str, environment: Mapping[str, str]) -> float:
    """Seconds of building a layer and its first forward and backward pass in a new process, imports not counted."""
    module, setup = _FIRST_CALL_SETUPS[name]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _FIRST_CALL.format(module=module, setup=setup)],
        env=dict(environment),
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout.strip().splitlines()[-1])
