"""Cells of a table: independent pieces of work, each cached under a hash of what it depends on.

A killed table resumes where it was: a cell is a JSON file that appears, whole, when the cell is done.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TextIO, TypeVar

from hgeo._files import write_atomically

__all__ = ["LARGE", "Cell", "cached_result", "cell_work", "graph_price", "known_results", "run_cells"]

_Function = TypeVar("_Function", bound=Callable[..., Any])

#: data sets whose runs are kept shorter and looked at less often
LARGE = ("photo", "computers", "cs", "physics", "ogbn-arxiv")


def graph_price(dataset: str, dim: int) -> float:
    """A guess of what a run of a graph network costs, relative to two dimensions on Cora."""
    return {"photo": 12.0, "pubmed": 3.0, "citeseer": 1.5}.get(dataset, 1.0) * (1 + dim / 8)


#: the name of a function's work
_WORKS: dict[Callable[..., Any], str] = {}
# Edition 0.1 cached these cells before their functions had a name, under the place in hgeo.train where they were then.
_PLACES_THEN = {"shallow run": "_reproduce:shallow_run"}


def cell_work(name: str) -> Callable[[_Function], _Function]:
    """Decorates a function that cells call with the name that their results are cached under.

    The function may move and be renamed, the name stays: a result under another name is computed again. ``name`` is a
    few words, shown as progress; no two functions share one.

    >>> @cell_work("square")
    ... def square(number):
    ...     return number**2
    >>> str(Cell(square, {"number": 3}))
    'square 3'
    """

    def register(function: _Function) -> _Function:
        if name in _WORKS.values():
            raise ValueError(f"another function's cells are cached under {name!r} already; choose another name")
        _WORKS[function] = name
        return function

    return register


@dataclass(frozen=True)
class Cell:
    """A call ``function(**arguments)`` whose result is JSON; ``cost`` is a guess of its relative price.

    ``function`` is one that :func:`cell_work` has named. ``version`` belongs to the hash: raise it when the function's
    meaning changes.
    """

    function: Callable[..., Any]
    arguments: dict[str, Any]
    cost: float = 1.0
    version: int = 1

    def __post_init__(self) -> None:
        if self.function not in _WORKS:
            raise ValueError(f"{self.function!r} has no name to cache its results under; give it one with @cell_work")

    @property
    def work(self) -> str:
        """The name of the function's work."""
        return _WORKS[self.function]

    @property
    def key(self) -> str:
        """The name of the file in the cache: a hash of the work, its version and the arguments."""
        hashed = f"hgeo.train.{_PLACES_THEN[self.work]}" if self.work in _PLACES_THEN else self.work
        text = json.dumps([hashed, self.version, self.arguments], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:20]

    def __str__(self) -> str:
        words = [str(value) for value in self.arguments.values() if isinstance(value, str | int)]
        return " ".join([self.work, *words])


def cached_result(cell: Cell, folder: Path) -> Any | None:
    """The result of a cell that was computed before, or None."""
    path = folder / f"{cell.key}.json"
    if not path.is_file():
        return None
    return json.loads(path.read_text(encoding="utf-8"))["result"]


def known_results(cells: Sequence[Cell], folder: Path) -> dict[str, Any]:
    """Results of the cells that were computed before, by their keys."""
    results = {cell.key: cached_result(cell, folder) for cell in cells}
    return {key: result for key, result in results.items() if result is not None}


def _compute(cell: Cell, folder: Path, context: dict[str, Any]) -> tuple[Any, float]:
    import torch

    torch.set_num_threads(1)
    started = time.process_time()
    result = cell.function(**cell.arguments, **context)
    seconds = time.process_time() - started
    record = {"work": cell.work, "arguments": cell.arguments, "cpu_seconds": seconds, "result": result}
    write_atomically(folder / f"{cell.key}.json", json.dumps(record, indent=1))
    return result, seconds


def run_cells(
    cells: Sequence[Cell],
    folder: Path,
    *,
    jobs: int = 1,
    context: dict[str, Any] | None = None,
    out: TextIO | None = None,
) -> dict[str, Any]:
    """Results of all cells by their keys, from the cache or computed now in ``jobs`` processes; progress on ``out``.

    ``context`` are further arguments that do not change a result (where the data lie), so they are not in the hash.
    """
    out = out or sys.stderr
    context = context or {}
    results: dict[str, Any] = {}
    missing: dict[str, Cell] = {}
    for cell in cells:
        known = cached_result(cell, folder)
        if known is not None:
            results[cell.key] = known
        else:
            missing[cell.key] = cell
    todo = list(missing.values())
    print(f"{len(cells)} cells, {len(results)} known, {len(todo)} to compute", file=out, flush=True)
    progress = _Progress(todo, out)
    if jobs == 1:
        for cell in todo:
            results[cell.key], seconds = _compute(cell, folder, context)
            progress.done(cell, seconds)
    elif todo:
        with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
            # The dearest first, so that no core waits at the end.
            queue = sorted(todo, key=lambda cell: -cell.cost)
            running = {pool.submit(_compute, cell, folder, context): cell for cell in queue}
            try:
                while running:
                    finished, _ = wait(running, return_when=FIRST_COMPLETED)
                    for future in finished:
                        cell = running.pop(future)
                        results[cell.key], seconds = future.result()
                        progress.done(cell, seconds)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    return results


class _Progress:
    def __init__(self, todo: Sequence[Cell], out: TextIO) -> None:
        self.left, self.spent, self.start = sum(cell.cost for cell in todo), 0.0, time.monotonic()
        self.count, self.total, self.out = 0, len(todo), out

    def done(self, cell: Cell, seconds: float) -> None:
        self.count += 1
        self.left -= cell.cost
        self.spent += cell.cost
        elapsed = time.monotonic() - self.start
        remaining = elapsed / max(self.spent, 1e-9) * max(self.left, 0.0)
        print(
            f"[{self.count}/{self.total}] {cell}: {seconds:.0f} s; {remaining / 60:.0f} min left",
            file=self.out,
            flush=True,
        )
