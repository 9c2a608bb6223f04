"""What a page is asked for, and where its cells come from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hgeo.reproduce._cells import Cell, known_results, run_cells

__all__ = ["Request"]

# Less than the paper's 40 walks of 80 nodes: a tenth of the work.
_QUICK_WALKS = {"walks": 10, "length": 40}


@dataclass(frozen=True)
class Request:
    """What ``hgeo reproduce`` is asked for; None stands for what the paper has.

    Args:
        datasets, dims, methods: rows and columns.
        tasks, trials, epochs: of the field's benchmark: which tasks, how many settings are tried for each cell, and
            how many epochs a run has at most.
        seeds: runs of a graph network; ``shallow_seeds``: of a shallow embedding.
        quick_walks: data sets on which DeepWalk and Node2vec make 10 walks of 40 nodes; an empty list means all.
        configs: a file of settings that ``hgeo tune`` froze, in place of the package's.
        cache: the folder of finished cells; with ``cached_only`` nothing is computed.
        out: where the pages go.
        jobs: processes.
        data_dir: the folder of DGL's raw files.
    """

    datasets: Sequence[str] | None = None
    dims: Sequence[int] | None = None
    methods: Sequence[str] | None = None
    seeds: int = 10
    shallow_seeds: int = 10
    quick_walks: Sequence[str] | None = None
    configs: Path | None = None
    cache: Path = Path("runs/reproduce")
    cached_only: bool = False
    out: Path = Path("docs/results")
    jobs: int = 1
    data_dir: str | None = None
    tasks: Sequence[str] | None = None
    trials: int = 8
    epochs: int | None = None

    def command(self, page: str) -> str:
        """The words on a command line that ask for this, folders and processes left out.

        >>> Request(datasets=["cora"], dims=[2, 16]).command("clustering")
        'hgeo reproduce clustering --datasets cora --dims 2 16 --seeds 10 --shallow-seeds 10'
        """
        words = ["hgeo reproduce", page]
        for name, value in (("datasets", self.datasets), ("dims", self.dims), ("methods", self.methods)):
            if value:
                words.append(f"--{name} {' '.join(str(item) for item in value)}")
        words.append(f"--seeds {self.seeds} --shallow-seeds {self.shallow_seeds}")
        if self.quick_walks is not None:
            words.append(" ".join(["--quick-walks", *self.quick_walks]))
        if self.configs:
            words.append(f"--configs {self.configs}")
        return " ".join(words)

    def results(self, cells: Sequence[Cell]) -> dict[str, Any]:
        """The results of cells by their keys: all of them, or with ``cached_only`` those that are known."""
        if self.cached_only:
            return known_results(cells, self.cache)
        return run_cells(cells, self.cache, jobs=self.jobs, context={"data_dir": self.data_dir})

    def walk_options(self, dataset: str, method: str) -> dict[str, int]:
        """What a shallow method gets besides its defaults."""
        quick = self.quick_walks is not None and (not self.quick_walks or dataset in self.quick_walks)
        return _QUICK_WALKS if quick and method in ("deepwalk", "node2vec") else {}
