"""Which layers are measured, on which graphs, and the measuring of one case."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import torch

from hgeo.bench._contestants import BASELINE, SIZES, Case, make, too_large
from hgeo.bench._measure import interleaved, peak_extra_bytes
from hgeo.bench._parts import set_threads

__all__ = ["KINDS", "measure", "plan"]

#: both directions of every edge, one direction, or one layer of a neighbour sampler
KINDS = ("symmetric", "directed", "block")


def plan(
    *,
    sizes: Sequence[str] | None = None,
    kinds: Sequence[str] | None = None,
    dims: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    threads: Sequence[int] | None = None,
    quick: bool = False,
    full: bool = False,
    clock: str = "wall",
) -> list[Case]:
    """The cases asked for. A list that is left alone varies only in the middle of the others, at d = 16, one thread.

    ``full`` gives every combination instead, ``quick`` two sizes at d = 16.

    >>> [str(case) for case in plan(sizes=["13k"], kinds=["directed"], dims=[8], heads=[1], threads=[1])]
    ['13k edges, directed, d = 8, 1 thread']
    """
    for word, known in [(s, tuple(SIZES)) for s in sizes or ()] + [(k, KINDS) for k in kinds or ()]:
        if word not in known:
            raise ValueError(f"{word!r} is none of {', '.join(known)}")
    all_sizes = sizes or (["13k", "245k"] if quick else ["13k", "245k", "2.5M"])
    all_kinds = kinds or (["symmetric", "directed"] if quick else KINDS)
    all_dims = dims or ([16] if quick else [8, 16, 64])
    all_heads = heads or ([1] if quick else [1, 4])
    all_threads = threads or ([1] if quick or clock == "cpu" else [1, 2])

    def departures(case: Case) -> int:
        """In how many of the lists that nobody gave a case is not the middle one."""
        return (
            (heads is None and case.heads != 1)
            + (threads is None and case.threads != 1)
            + (kinds is None and case.kind == "block")
            + (dims is None and case.dim != 16)
        )

    combinations = itertools.product(all_sizes, all_kinds, all_dims, all_heads, all_threads)
    cases = [case for case in itertools.starmap(Case, combinations) if full or departures(case) <= 1]
    if clock == "cpu" and any(case.threads > 1 for case in cases):
        raise ValueError("processor time says nothing about threads; with --clock cpu use --threads 1")
    return cases


def measure(case: Case, names: Sequence[str], *, seconds: float, clock: str = "wall") -> dict[str, Any]:
    """Time and memory of the contestants ``names`` in one case, in turns, for about so many seconds."""
    before = torch.get_num_threads()
    set_threads(case.threads)
    try:
        contestants = {name: make(name, case) for name in names if not too_large(name, case)}
        timings = interleaved(contestants, baseline=BASELINE, seconds=seconds, clock=clock)
        memory = {name: peak_extra_bytes(prepare) for name, prepare in contestants.items()}
    finally:
        set_threads(before)
    base = memory.get(BASELINE)
    results = {}
    for name, timing in timings.items():
        extra = memory[name]
        ratio = extra / base if extra is not None and base else None
        results[name] = asdict(timing) | {"peak_extra_bytes": extra, "ratio_memory": ratio}
    return {
        "case": asdict(case),
        "title": str(case),
        "contestants": results,
        "too_large": [name for name in names if too_large(name, case)],
    }
