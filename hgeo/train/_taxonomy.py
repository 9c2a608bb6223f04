"""What a hierarchy's embedding is worth: known and hidden pairs, several splits and seeds, flat ones beside it."""

from __future__ import annotations

import itertools
import re
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import to_builtins

from hgeo._files import check_folders
from hgeo.data import DataError, Pairs
from hgeo.manifolds import space as parse_space
from hgeo.train._folder import TrainingWarning, write_json
from hgeo.train._hierarchy import (
    HierarchyEmbedding,
    HierarchySettings,
    fit_hierarchy,
    hierarchy_digest,
    load_vectors,
    usual_settings,
)
from hgeo.train._lock import locked
from hgeo.train._ranking import guessed
from hgeo.train._schema import SearchRecord, StudyRecord, StudyResult, Trial, checked, read_record

__all__ = ["SEARCHED", "TaxonomyStudy", "flat_beside"]

#: what a search tries, every combination, the same for every contestant
SEARCHED: dict[str, tuple[Any, ...]] = {
    "lr": (0.03, 0.1),
    "temperature": (0.4, 0.6),
    "negatives": (20, 50),
    "epochs": (100, 400),
}
_VALIDATION = 0.2  # of the known pairs
_SEARCH_SEED = 1000  # no seed of a reported run

Step = Callable[[str, dict[str, Any]], None]


@dataclass
class TaxonomyStudy:
    """Embeds a taxonomy for every split, seed and contestant, in a folder that can be gone on with.

    With ``hold_out`` a share of the pairs is hidden at random, another one for each split; training sees the known ones
    only, as positives and as what is left out of the negatives. With ``search`` every contestant tries the same
    settings (:data:`SEARCHED`) for each split, on a fifth of the *known* pairs, with a seed of its own, and takes the
    one with the highest MAP there.

    Args:
        pairs: the taxonomy; the closure, if it is wanted, is taken already.
        folder: where runs and results go.
        space: the contestant that this is about.
        beside: others, trained with the same effort.
        given: settings that all of them get; the others are the usual ones of each (:func:`usual_settings`).
    """

    pairs: Pairs
    folder: Path
    space: str = "lorentz:10"
    beside: tuple[str, ...] = ()
    given: dict[str, Any] = field(default_factory=dict)
    hold_out: float = 0.0
    splits: int = 1
    seeds: int = 1
    first_split: int = 0
    search: bool = False
    threads: int | None = None

    def begin(self, *, resume: bool) -> None:
        """Writes down what is asked for; goes on in a folder only with what was asked for there.

        Raises:
            ValueError: the folder holds another study, or one that is not to be gone on with.
        """
        for space in self.contestants:
            self._for(space)
        if self.hold_out:
            self.split(self.first_split)  # refuses a share that hides nothing
        with locked(self.folder):
            self._begin(resume)

    def _begin(self, resume: bool) -> None:
        own = {name: getattr(self, name) for name in StudyRecord.__struct_fields__}
        asked = StudyRecord(**{**own, "pairs": hierarchy_digest(self.pairs), "beside": list(self.beside)})
        file = self.folder / "study.json"
        if not file.is_file():
            write_json(file, asked)
            return
        if not resume:
            raise ValueError(f"{self.folder} already holds a run; go on with it by --resume, or choose another --out")
        kept, fixed = read_record(file, StudyRecord), set(StudyRecord.__struct_fields__) - {"splits", "seeds"}
        different = sorted(name for name in fixed if getattr(kept, name) != getattr(asked, name))
        if different:
            raise ValueError(f"the run in {self.folder} had other {' and '.join(different)}; go on with what it had")
        write_json(file, asked)  # more splits or seeds may be asked for

    def run(self, on_epoch: Step | None = None) -> list[dict[str, Any]]:
        """Does what is not done yet. Returns a dict for each run."""
        splits = range(self.first_split, self.first_split + self.splits)
        rows = []
        with locked(self.folder):
            for split, space in itertools.product(splits, self.contestants):
                known, hidden = self.split(split)
                settings = self._chosen(known, split, space, on_epoch) if self.search else self._for(space)
                for number in range(self.seeds):
                    seeded = replace(settings, seed=self._first_seed + number)
                    rows.append(self._one(known, hidden, split, space, seeded, on_epoch))
        return rows

    @property
    def contestants(self) -> tuple[str, ...]:
        """The spaces, each once."""
        return tuple(dict.fromkeys((self.space, *self.beside)))

    def split(self, split: int) -> tuple[Pairs, Pairs | None]:
        """The known and the hidden pairs."""
        return self.pairs.hide(self.hold_out, split) if self.hold_out else (self.pairs, None)

    def guesses(self) -> dict[str, float]:
        """What needs no learning, in the first split."""
        known, hidden = self.split(self.first_split)
        found = guessed(self.pairs, None) if hidden is None else guessed(hidden, known)
        prefix = "reconstruction" if hidden is None else "hidden"
        return {f"{prefix}_map": found.map, f"{prefix}_mean_rank": found.mean_rank}

    def first(self) -> HierarchyEmbedding:
        """The embedding in ``space`` of the first split and seed."""
        return load_vectors(self._path(self.first_split, self.space, self._first_seed) / "vectors.npz")

    def summary(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Mean and standard deviation over splits and seeds, a dict a contestant."""
        table = []
        for space in self.contestants:
            own = [row for row in rows if row["space"] == space]
            entry: dict[str, Any] = {"space": space, "runs": len(own)}
            for key in (key for key in own[0] if key.endswith(("_map", "_rank", "_seconds"))):
                values = np.array([row[key] for row in own])
                spread = float(values.std(ddof=1)) if len(values) > 1 else 0.0
                entry[key] = {"mean": float(values.mean()), "std": spread}
            table.append(entry)
        return table

    def _for(self, space: str) -> HierarchySettings:
        """What is given, cones for the curved one alone, and the usual settings."""
        given = self.given if space == self.space else {**self.given, "loss": "softmax"}
        return usual_settings(space, hidden=bool(self.hold_out), **given)

    @property
    def _first_seed(self) -> int:
        return int(self.given.get("seed", 0))

    def _path(self, split: int, space: str, seed: int) -> Path:
        path = self.folder / f"{_word(space)}-split{split}-seed{seed}"
        check_folders(path, inside=self.folder)
        return path

    def _one(
        self,
        known: Pairs,
        hidden: Pairs | None,
        split: int,
        space: str,
        settings: HierarchySettings,
        on_epoch: Step | None,
    ) -> dict[str, Any]:
        path = self._path(split, space, settings.seed)
        done, vectors = path / "result.json", path / "vectors.npz"
        if done.is_file():
            try:
                load_vectors(vectors)
                return to_builtins(read_record(done, StudyResult))
            except (DataError, FileNotFoundError) as error:
                warnings.warn(f"{error}; the run is made anew from its checkpoint", TrainingWarning, stacklevel=2)
        label = path.name
        began = time.process_time()
        embedding = fit_hierarchy(
            known,
            space,
            settings,
            folder=path,
            resume=True,
            threads=self.threads,
            on_epoch=None if on_epoch is None else lambda row: on_epoch(label, {**row, "epochs": settings.epochs}),
        )
        seconds = time.process_time() - began
        row: dict[str, Any] = {"space": space, "split": split, "seed": settings.seed, "settings": vars(settings)}
        found = embedding.rank(known, hidden, threads=self.threads)
        row |= {"reconstruction_map": found.map, "reconstruction_mean_rank": found.mean_rank}
        if hidden is not None:
            found = embedding.rank(hidden, known, threads=self.threads)
            row |= {"hidden_map": found.map, "hidden_mean_rank": found.mean_rank}
        row["cpu_seconds"] = seconds
        embedding.save(vectors)
        write_json(done, row)
        return row

    def _chosen(self, known: Pairs, split: int, space: str, on_epoch: Step | None) -> HierarchySettings:
        """The settings with the highest MAP on validation pairs, which are known ones."""
        file = self.folder / "search" / f"{_word(space)}-split{split}.json"
        trials = read_record(file, SearchRecord).trials if file.is_file() else []
        train, validation = known.hide(_VALIDATION, split)
        for number, choice in enumerate(_choices()):
            if number < len(trials):
                continue
            settings = replace(self._for(space), seed=_SEARCH_SEED, **choice)
            if on_epoch is not None:
                on_epoch(f"search {number + 1} {file.stem}", {"epoch": 0, "epochs": 1, "loss": float("nan")})
            found = fit_hierarchy(train, space, settings, threads=self.threads).rank(validation, train)
            trials.append(Trial(choice, found.map, found.mean_rank))
            write_json(file, SearchRecord(trials), inside=self.folder)
        best = max(trials, key=lambda trial: trial.validation_map)
        return checked({**asdict(self._for(space)), **best.settings}, HierarchySettings, str(file))


def _choices() -> Iterator[dict[str, Any]]:
    for values in itertools.product(*SEARCHED.values()):
        yield dict(zip(SEARCHED, values, strict=True))


def _word(space: str) -> str:
    return re.sub(r"[^-A-Za-z0-9.]+", "", space)


def flat_beside(space: str) -> tuple[str, str]:
    """A Euclidean and an inner-product embedding of as many dimensions."""
    dim = parse_space(space).dim
    return f"euclidean:{dim}", f"inner:{dim}"
