"""From a few words to finished runs: what ``hgeo train`` does, callable from Python."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import re
import statistics
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from msgspec import structs, to_builtins
from torch import nn

import hgeo
from hgeo._files import check_folders
from hgeo.data import Dataset, Origin, load
from hgeo.graph import backends
from hgeo.manifolds import space as parse_space
from hgeo.models import Sizes, TrainSettings, assign, build, find
from hgeo.tasks import Task, find_task
from hgeo.train._batches import check_batches
from hgeo.train._compete import COMPETE, compete, competitors, winner
from hgeo.train._fit import fit
from hgeo.train._folder import DamageError, RunFolder, TrainingWarning, write_json
from hgeo.train._lock import LOCK, locked
from hgeo.train._monitor import curvatures
from hgeo.train._optimizer import make_optimizer
from hgeo.train._schema import JobRecord, RunConfig, SessionRecord, Tried, read_record
from hgeo.train._stored import reopen
from hgeo.train._team import Team

__all__ = ["Job", "Session", "embed", "load_run", "summarize"]

_DTYPES = {"float32": torch.float32, "float64": torch.float64}


class Chosen(NamedTuple):
    """The settings of a run: of its model, of its training, of its task."""

    model: Any
    training: TrainSettings
    task: Any

    def merged(self) -> dict[str, Any]:
        """All of them by their names, which differ."""
        return {**vars(self.model), **vars(self.training), **vars(self.task)}


class Job(JobRecord, frozen=True):
    """One run: one task, one model on one data set with one seed. ``options`` override single settings.

    A job that was ``stored`` in a run folder is somebody's word: what it says of files, with ``origin``, is used to
    recognise them only, and ``data_dir`` is what the user says now.
    """

    data_dir: str | None = None
    stored: bool = False

    def __post_init__(self) -> None:
        if self.dtype not in _DTYPES:
            raise ValueError(f"dtype is {self.dtype!r}, expected one of {', '.join(_DTYPES)}")
        if not 0 <= self.seed < 2**32:
            raise ValueError(f"the seed is {self.seed}, expected 0 … {2**32 - 1}")
        device = _checked_device(self.device)
        if self.backend != "auto":  # to ask all of them imports dgl
            table = backends(device.type)
            reason = table.get(self.backend, f"known: auto, {', '.join(table)}")
            if reason is not None:
                raise ValueError(f"backend {self.backend!r} cannot be used; {reason}")

    @property
    def word(self) -> str:
        """The name of its folder among others."""
        return f"{re.sub(r'[^-_.a-zA-Z0-9]', '-', self.model)}-seed{self.seed}"

    @property
    def _described(self) -> dict[str, Any]:
        """What a result says of its job."""
        names = ("dataset", "task", "model", "space", "seed")
        return {name: getattr(self, name) for name in names}

    def load(self) -> Dataset:
        """The data, on the job's device, in its dtype."""
        how: dict[str, Any] = {"split_seed": self.split_seed, "features": self.features, "data_dir": self.data_dir}
        if self.split is not None and not find_task(self.task).splits:
            how["split"] = self.split
        dataset = reopen(self.dataset, self.origin, **how) if self.stored else load(self.dataset, **how)
        return dataset.to(device=self.device, dtype=_DTYPES[self.dtype])

    def record(self, origin: Origin | None) -> dict[str, Any]:
        """What a run folder keeps of the job, and of the ``origin`` of its data."""
        return {**{name: getattr(self, name) for name in JobRecord.__struct_fields__}, "origin": origin}

    @classmethod
    def from_record(
        cls,
        kept: JobRecord,
        file: Path,
        *,
        data_dir: str | Path | None = None,
        own: Collection[str] = (),
    ) -> Job:
        """The job that a run folder keeps in ``file``.

        ``data_dir`` is the user's, and so is what is its ``own``: a model or a task ``package.module:Class`` is
        imported only if the user names it, too.
        """
        fields = {name: getattr(kept, name) for name in JobRecord.__struct_fields__}
        for kind in ("model", "task"):
            named = fields[kind]
            if ":" in named and named not in own:
                raise ValueError(
                    f"{file} names the {kind} {named}, which is code that hgeo does not bring; if you trust it, "
                    f"name it yourself: --{kind} {named}"
                )
        return cls(**fields, data_dir=None if data_dir is None else str(data_dir), stored=True)

    def prepare(self, data: Dataset) -> Task:
        """The task on its data, where what is to be predicted is split and hidden."""
        task = find_task(self.task)
        return task(data, self.settings(data).task, split=self.split if task.splits else None, seed=self.split_seed)

    def build(self, data: Dataset | Task) -> nn.Module:
        """The untrained model; the seed decides its weights."""
        task = data if isinstance(data, Task) else self.prepare(data)
        torch.manual_seed(self.seed)
        network = build(
            self.model,
            task.dataset,
            self.space,
            settings=self.settings(task.dataset).model,
            out_dim=task.out_dim(self._dim),
            backend=self.backend,
        )
        return task.attach(network).to(device=self.device, dtype=_DTYPES[self.dtype])

    @property
    def _dim(self) -> int:
        return parse_space(find(self.model).space_for(self.space)).dim

    def settings(self, dataset: Dataset) -> Chosen:
        """The settings of the model, of its training and of the task; an option that none of them has is an error."""
        entry, task = find(self.model), find_task(self.task)
        named = competitors(self.model)[0] if self.recipe == COMPETE else self.recipe
        model, training = entry.recipe(Sizes.of(dataset, self._dim), named)
        groups = [(entry.name, model, entry.fixed), ("training", training, ()), (self.task, task.Settings(), ())]
        own = {field.name for owner, values, fixed in groups[:2] for field in dataclasses.fields(values)}
        usual = {name: value for name, value in task.usual.items() if name in own - set(entry.fixed)}
        return Chosen(*assign({**usual, **self.options}, *groups))

    def check(self, data: Dataset | Task) -> None:
        """Raise what :meth:`run` would raise about a wrong option, before a folder is made for it."""
        task = data if isinstance(data, Task) else self.prepare(data)
        model = self.build(task)
        make_optimizer(model, lr=1.0, weight_decay=0.0)
        check_batches(model, task, self.settings(task.dataset).training, Team())

    def _recognise(self, folder: RunFolder) -> None:
        """Raises ``ValueError`` if the run in a folder is another one: a file of it was changed, or damaged."""
        kept = folder.config()
        names = [name for name in JobRecord.__struct_fields__ if name != "origin"]  # the data may have moved
        different = [name for name in names if getattr(kept, name) != getattr(self, name)]
        if different:
            said = ", ".join(f"{name} {getattr(kept, name)!r}" for name in different)
            raise ValueError(
                f"{folder.path / 'config.json'} is of another run: it says {said}, and this one has "
                f"{', '.join(repr(getattr(self, name)) for name in different)}; restore it, or choose another folder"
            )

    def _config(self, origin: Origin | None, chosen: Chosen, model: nn.Module, tried: list[Tried]) -> RunConfig:
        """What is run, all of it."""
        return RunConfig(
            **self.record(origin),
            settings=chosen.merged(),
            curvatures=curvatures(model),
            tried=tried,
            threads=torch.get_num_threads(),
            versions={"hgeo": hgeo.__version__, "torch": str(torch.__version__), "numpy": np.__version__},
        )

    def run(
        self,
        data: Dataset | Task,
        folder: RunFolder | None = None,
        *,
        resume: bool = False,
        on_epoch: Callable[[dict[str, Any]], None] | None = None,
    ) -> dict[str, Any]:
        """Train, and return what stands in ``result.json``.

        Where recipes compete, ``recipe`` and ``tried`` in it say which one won and how each did.
        """
        shared: dict[str, Any] = {"resume": resume, "on_epoch": on_epoch, "began": time.process_time()}
        if self.recipe != COMPETE:
            return self._run(data, folder, [], **shared)
        task = data if isinstance(data, Task) else self.prepare(data)
        known = folder.config().tried if resume and folder is not None and folder.is_run else []
        tried = known or compete(self, task)
        return structs.replace(self, recipe=winner(tried))._run(task, folder, tried, **shared)

    def _run(
        self,
        data: Dataset | Task,
        folder: RunFolder | None,
        tried: list[Tried],
        *,
        began: float,
        resume: bool,
        on_epoch: Callable[[dict[str, Any]], None] | None,
    ) -> dict[str, Any]:
        """One training, by the recipe that won if any were ``tried``."""
        if resume and folder is not None and folder.is_run:
            self._recognise(folder)
        if resume and folder is not None and folder.is_complete:
            try:
                folder.weights()
                return {**folder.result(), **self._described}  # of which job it is, a file is not asked
            except DamageError as error:
                warnings.warn(str(error), TrainingWarning, stacklevel=2)
        task = data if isinstance(data, Task) else self.prepare(data)
        model, chosen = self.build(task), self.settings(task.dataset)
        if folder is not None and Team().is_first:
            folder.write_config(self._config(task.dataset.origin, chosen, model, tried))

        def finish(trained: nn.Module) -> dict[str, Any]:
            seconds = time.process_time() - began
            more = {}
            if task.dataset.parts is None:
                more = task.more(embed(trained, task.dataset), getattr(trained, "hidden_manifold", None), self.seed)
            found = [to_builtins(one) for one in tried]
            won = {"recipe": self.recipe, "tried": found} if tried else {}
            return {**self._described, **won, **more, "cpu_seconds": seconds}

        shared: dict[str, Any] = {"seed": self.seed, "folder": folder, "resume": resume}
        return fit(model, task, chosen.training, on_epoch=on_epoch, on_finish=finish, **shared).to_dict()


def _checked_device(name: str) -> torch.device:
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda"):
        raise ValueError(f"device is {name!r}, expected cpu, cuda or cuda:NUMBER")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device is {name!r}, but this torch sees no CUDA device; use --device cpu")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ValueError(f"device is {name!r}, but this torch sees {torch.cuda.device_count()} CUDA device(s)")
    return device


class Session:
    """Several jobs that belong together, in one folder: a run folder each, and ``session.json`` over them.

    ``threads`` is how many torch and the kernels use: sums are rounded by how they are shared out, so a run that is
    gone on with needs as many as it began with to end in the same bits. ``pictures`` is whether any are wanted.
    """

    def __init__(
        self, jobs: Sequence[Job], path: str | Path, *, threads: int | None = None, pictures: bool = True
    ) -> None:
        if not jobs:
            raise ValueError("a session needs at least one job")
        names = [job.word for job in jobs]
        double = next((name for name in names if names.count(name) > 1), None)
        if double is not None:
            raise ValueError(f"{double} is asked for twice; a model and a seed have one folder")
        self.jobs, self.path = list(jobs), Path(path).expanduser()
        self.threads, self.pictures = threads, pictures

    @classmethod
    def load(cls, path: str | Path, *, data_dir: str | Path | None = None, own: Collection[str] = ()) -> Session:
        """The session that was started in ``path``; ``data_dir`` is where the user keeps its data.

        ``own`` are models and tasks of the user's own, ``package.module:Class``, that it may import.
        """
        path = Path(path).expanduser()
        file = path / "session.json"
        if not file.is_file():
            raise FileNotFoundError(f"no file {file}; there is no run of hgeo train to go on with")
        kept = read_record(file, SessionRecord)
        jobs = [Job.from_record(job, file, data_dir=data_dir, own=own) for job in kept.jobs]
        return cls(jobs, path, threads=kept.threads, pictures=kept.pictures)

    def in_the_way(self) -> Path | None:
        """A file or folder that is there already and that this session would write, if there is one."""
        drawn = [f"{name}.{suffix}" for name in ("embedding", "radius", "curves") for suffix in ("png", "svg")]
        pictures = ("embedding.html", *drawn)
        run = ("config.json", "metrics.jsonl", "result.json", "model.safetensors", "checkpoint", *pictures)
        own = ("session.json", "summary.json", "embedding.png", "embedding.svg")
        targets = [self.path / name for name in own]
        for job in self.jobs:
            folder = self.folder(job).path
            targets += [folder / name for name in run] if folder == self.path else [folder]
        return next((target for target in targets if os.path.lexists(target)), None)

    @contextlib.contextmanager
    def opened(self, *, resume: bool = False) -> Iterator[None]:
        """Nobody else trains into the session's folder meanwhile.

        Raises:
            ValueError: somebody does; or, unless the session is resumed, something that it would write is there.
        """
        with locked(self.path):
            if not resume:
                self.check_free()
            yield

    def check_free(self) -> None:
        """Raises ``ValueError`` if something is there that this session would write."""
        there = self.in_the_way()
        if there is not None:
            raise ValueError(f"{there} is there already, and this run would write it; choose another --out")

    def discard(self) -> None:
        """Remove ``session.json``, and the folder if nothing else is in it."""
        for name in ("session.json", LOCK):
            (self.path / name).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.path.rmdir()

    def write(self, origins: Sequence[Origin | None] | None = None) -> None:
        """``session.json``: what is to be run, and where the data of each job came from, for :meth:`load`."""
        origins = [job.origin for job in self.jobs] if origins is None else origins
        jobs = [job.record(origin) for job, origin in zip(self.jobs, origins, strict=True)]
        write_json(self.path / "session.json", {"threads": self.threads, "pictures": self.pictures, "jobs": jobs})

    def write_result(
        self, results: Sequence[dict[str, Any]], beside: Mapping[str, Mapping[str, float]] | None = None
    ) -> None:
        """``summary.json``: mean and spread over seeds, and the scores of what needs no learning."""
        found = {"summary": summarize(results), "beside": dict(beside or {}), "runs": list(results)}
        write_json(self.path / "summary.json", found)

    def folder(self, job: Job) -> RunFolder:
        """A single job owns the session's folder; of several each has one inside."""
        path = self.path if len(self.jobs) == 1 else self.path / job.word
        check_folders(path, inside=self.path)
        return RunFolder(path)

    def drawn(self) -> list[Job]:
        """The jobs that pictures are made of: the first seed of each model; ``hgeo plot`` makes those of the others."""
        first: dict[str, Job] = {}
        for job in self.jobs:
            first.setdefault(job.model, job)
        return list(first.values())


@torch.no_grad()
def embed(model: nn.Module, dataset: Dataset) -> torch.Tensor:
    """Hidden points of all nodes, in evaluation mode."""
    if dataset.parts is not None:
        raise ValueError(f"{dataset.name} is in parts; there is no picture of its nodes")
    was_training = model.training
    model.eval()
    hidden: torch.Tensor = model.embed(dataset.graph, dataset.features)  # type: ignore[operator]
    model.train(was_training)
    return hidden


def load_run(
    path: str | Path,
    *,
    dataset: Dataset | Task | None = None,
    data_dir: str | Path | None = None,
    model: str | None = None,
    task: str | None = None,
) -> tuple[nn.Module, Dataset, RunFolder]:
    """The trained model of a run folder, the data that it was trained on, and the folder.

    ``dataset`` is the whole data, or the task on it, if it is at hand; what comes back lacks what the task hides. Of
    the files that the run says it was trained on only an ``.npz`` file is opened, if it holds what it held then. DGL's
    and OGB's are looked for in ``data_dir`` (else ``HGEO_DATA``, else DGL's own folder). A ``model`` or ``task`` of
    your own, ``package.module:Class``, has to be named again, for its code is run.
    """
    folder = RunFolder(path)
    own = [word for word in (model, task) if word is not None]
    job = Job.from_record(folder.config(), folder.path / "config.json", data_dir=data_dir, own=own)
    prepared = dataset if isinstance(dataset, Task) else job.prepare(job.load() if dataset is None else dataset)
    network = job.build(prepared)
    try:
        network.load_state_dict(folder.weights())
    except (RuntimeError, TypeError, AttributeError) as error:
        raise ValueError(f"the weights in {folder.path} do not fit {job.model} on {job.dataset}") from error
    network.eval()
    return network, prepared.dataset, folder


def summarize(results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Mean and standard deviation of scores over seeds, one row a model, in the order in which the models came.

    >>> rows = [{"model": "hat", "space": "ball:2", "seed": s, "test_accuracy": a} for s, a in ((0, 0.5), (1, 0.7))]
    >>> summarize(rows)[0]["test_accuracy"]
    {'mean': 0.6, 'std': 0.1, 'n': 2}
    """
    rows = []
    for model in dict.fromkeys(result["model"] for result in results):
        of_model = [result for result in results if result["model"] == model]
        row: dict[str, Any] = {"model": model, "space": of_model[0]["space"]}
        keys = [key for key in dict.fromkeys(itertools.chain(*of_model)) if re.match("val_|test_", key)]
        for key in (*keys, "epochs", "cpu_seconds"):
            values = [result[key] for result in of_model if result.get(key) is not None]
            if values:
                mean, std = statistics.fmean(values), statistics.pstdev(values)
                row[key] = {"mean": round(mean, 6), "std": round(std, 6), "n": len(values)}
        rows.append(row)
    return rows
