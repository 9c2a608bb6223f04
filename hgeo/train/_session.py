"""From a few words to finished runs: what ``hgeo train`` does, callable from Python."""

from __future__ import annotations

import dataclasses
import json
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from hgeo.data import Dataset, load
from hgeo.graph import backends
from hgeo.manifolds import intrinsic_dim
from hgeo.tasks import clustering_nmi
from hgeo.train._fit import fit
from hgeo.train._folder import RunFolder, write_json

__all__ = ["Job", "Session", "embed", "load_run", "summarize", "write_pictures"]

_DTYPES = {"float32": torch.float32, "float64": torch.float64}


@dataclasses.dataclass(frozen=True)
class Job:
    """One run: one model on one data set with one seed. ``options`` override the model's default configuration."""

    dataset: str
    model: str
    space: str
    seed: int = 0
    split_seed: int = 0
    data_dir: str | None = None
    device: str = "cpu"
    dtype: str = "float32"
    backend: str = "auto"
    options: dict[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.dtype not in _DTYPES:
            raise ValueError(f"dtype is {self.dtype!r}, expected one of {', '.join(_DTYPES)}")
        if self.device.startswith("cuda") and not torch.cuda.is_available():
            raise ValueError(f"device is {self.device!r}, but this torch sees no CUDA device; use --device cpu")
        table = backends(self.device.partition(":")[0])
        reason = None if self.backend == "auto" else table.get(self.backend, f"known: auto, {', '.join(table)}")
        if reason is not None:
            raise ValueError(f"backend {self.backend!r} cannot be used; {reason}")

    def load(self) -> Dataset:
        """The data, on the job's device, in its dtype."""
        dataset = load(self.dataset, data_dir=self.data_dir, split_seed=self.split_seed)
        return dataset.to(device=self.device, dtype=_DTYPES[self.dtype])

    def build(self, dataset: Dataset) -> nn.Module:
        """The untrained model; the seed decides its weights."""
        from hgeo.models import build

        torch.manual_seed(self.seed)
        model: nn.Module = build(self.model, dataset, self.space, backend=self.backend, **self.options)
        return model.to(device=self.device, dtype=_DTYPES[self.dtype])

    def run(
        self,
        dataset: Dataset,
        folder: RunFolder | None = None,
        *,
        resume: bool = False,
        pictures: bool = False,
        on_epoch: Callable[[dict[str, Any]], None] | None = None,
    ) -> dict[str, Any]:
        """Train, and return what stands in ``result.json``."""
        if resume and folder is not None and folder.is_complete:
            return folder.result()
        model = self.build(dataset)
        settings: Any = model.config
        config = {**dataclasses.asdict(self), "settings": settings.to_dict()}
        if folder is not None:
            folder.write_config(config)
        began = time.process_time()

        def finish(trained: nn.Module) -> dict[str, Any]:
            seconds = time.process_time() - began
            hidden = embed(trained, dataset)
            test = dataset.test_idx
            nmi = clustering_nmi(
                hidden[test], dataset.labels[test], manifold=getattr(trained, "hidden_manifold", None), seed=self.seed
            )
            if folder is not None and pictures:
                write_pictures(folder, trained, dataset, title=f"{self.model} on {self.dataset}")
            described = {"dataset": self.dataset, "model": self.model, "space": self.space, "seed": self.seed}
            return {**described, "test_nmi": nmi, "cpu_seconds": seconds}

        result = fit(
            model,
            dataset,
            settings,
            seed=self.seed,
            folder=folder,
            resume=resume,
            on_epoch=on_epoch,
            on_finish=finish,
        )
        return result.to_dict()


class Session:
    """Several jobs that belong together, in one folder: a run folder each, and ``session.json`` over them."""

    def __init__(self, jobs: Sequence[Job], path: str | Path) -> None:
        if not jobs:
            raise ValueError("a session needs at least one job")
        self.jobs, self.path = list(jobs), Path(path).expanduser()

    @classmethod
    def load(cls, path: str | Path) -> Session:
        """The session that was started in ``path``."""
        path = Path(path).expanduser()
        file = path / "session.json"
        if not file.is_file():
            raise FileNotFoundError(f"no file {file}; there is no run of hgeo train to go on with")
        jobs = json.loads(file.read_text())["jobs"]
        return cls([Job(**job) for job in jobs], path)

    def write(self) -> None:
        """``session.json``: what is to be run, for :meth:`load`."""
        write_json(self.path / "session.json", {"jobs": [dataclasses.asdict(job) for job in self.jobs]})

    def write_result(self, results: Sequence[dict[str, Any]]) -> None:
        """``summary.json``: mean and spread over seeds."""
        write_json(self.path / "summary.json", {"summary": summarize(results), "runs": list(results)})

    def write_comparison(self) -> list[Path]:
        """``embedding.png`` of a session of several models: their first seeds beside each other."""
        from hgeo.viz import comparison_figure, save_figure

        drawn = [job for job in self.jobs if self.draws(job)]
        if len(drawn) < 2:
            return []
        panels = []
        for job in drawn:
            model, dataset, folder = load_run(self.folder(job).path)
            manifold = getattr(model, "hidden_manifold", None)
            title = f"{job.model}: test accuracy {folder.result()['test_accuracy']:.3f}"
            panels.append((title, embed(model, dataset), manifold))
        figure = comparison_figure(panels, edge_index=dataset.edge_index, labels=dataset.labels)
        return save_figure(figure, self.path / "embedding")

    def folder(self, job: Job) -> RunFolder:
        """A single job owns the session's folder; of several each has one inside."""
        return RunFolder(self.path if len(self.jobs) == 1 else self.path / f"{job.model}-seed{job.seed}")

    def draws(self, job: Job) -> bool:
        """Pictures are made of the first seed of each model; ``hgeo plot`` makes those of the others."""
        return job.seed == min(other.seed for other in self.jobs if other.model == job.model)


@torch.no_grad()
def embed(model: nn.Module, dataset: Dataset) -> torch.Tensor:
    """Hidden points of all nodes, in evaluation mode."""
    was_training = model.training
    model.eval()
    hidden: torch.Tensor = model.embed(dataset.graph, dataset.features)  # type: ignore[operator]
    model.train(was_training)
    return hidden


def load_run(path: str | Path) -> tuple[nn.Module, Dataset, RunFolder]:
    """The trained model of a run folder, and the data it was trained on."""
    folder = RunFolder(path)
    config = folder.config()
    names = {field.name for field in dataclasses.fields(Job)}
    job = Job(**{name: value for name, value in config.items() if name in names})
    dataset = job.load()
    model = job.build(dataset)
    model.load_state_dict(folder.weights())
    model.eval()
    return model, dataset, folder


def write_pictures(folder: RunFolder, model: nn.Module, dataset: Dataset, *, title: str) -> list[Path]:
    """``embedding.png``, ``embedding.svg``, ``embedding.html`` and ``curves.png`` of a run."""
    from hgeo.viz import curves_figure, embedding_figure, embedding_page, save_figure, save_page

    points, manifold = embed(model, dataset), getattr(model, "hidden_manifold", None)
    dim = points.shape[1] if manifold is None else intrinsic_dim(manifold, points.shape[1])
    title += f", two main directions of {dim}" if dim > 2 else ""
    shown: dict[str, Any] = {"edge_index": dataset.edge_index, "labels": dataset.labels, "title": title}
    written = save_figure(embedding_figure(points, manifold, **shown), folder.path / "embedding")
    written.append(save_page(embedding_page(points, manifold, **shown), folder.path / "embedding.html"))
    metrics = folder.metrics()
    if metrics:
        written += save_figure(curves_figure(metrics, title=title), folder.path / "curves")
    return written


def summarize(results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Mean and standard deviation over seeds, one row a model, in the order in which the models came.

    >>> rows = [{"model": "hat", "space": "ball:2", "seed": s, "test_accuracy": a} for s, a in ((0, 0.5), (1, 0.7))]
    >>> summarize(rows)[0]["test_accuracy"]
    {'mean': 0.6, 'std': 0.1, 'n': 2}
    """
    keys = ("val_accuracy", "test_accuracy", "test_macro_f1", "test_nmi", "epochs", "cpu_seconds")
    rows = []
    for model in dict.fromkeys(result["model"] for result in results):
        of_model = [result for result in results if result["model"] == model]
        row: dict[str, Any] = {"model": model, "space": of_model[0]["space"]}
        for key in keys:
            values = [result[key] for result in of_model if result.get(key) is not None]
            if values:
                mean, std = statistics.fmean(values), statistics.pstdev(values)
                row[key] = {"mean": round(mean, 6), "std": round(std, 6), "n": len(values)}
        rows.append(row)
    return rows
