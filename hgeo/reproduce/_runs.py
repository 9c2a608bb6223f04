"""The runs behind the paper's tables and figures, as cells of :mod:`hgeo.reproduce._cells`.

A run of a graph network is a :class:`hgeo.train.Job`: what ``hgeo train`` with the same words does.
"""

from __future__ import annotations

import functools
import json
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import resources
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import nn

from hgeo.graph import MobiusSum, TangentSum
from hgeo.manifolds import log0
from hgeo.models import SHALLOW_METHODS, Sizes, find, shallow
from hgeo.reproduce._cells import LARGE, Cell, cell_work, graph_price
from hgeo.tasks import clustering_nmi
from hgeo.train import FitResult, Job, TrainingWarning, embed, fit, layer_attentions
from hgeo.viz import attention_rows

__all__ = [
    "DATASETS",
    "DIMENSIONS",
    "FIXED_SPLIT",
    "TABLE_METHODS",
    "TWINS",
    "Options",
    "Setup",
    "ablation_cells",
    "attention_cell",
    "embedding_cell",
    "graph_cells",
    "published",
    "setup",
    "shallow_cells",
    "timing_cell",
]

DATASETS = ("cora", "citeseer", "pubmed", "photo")
DIMENSIONS = (2, 4, 8, 16)
#: the columns of a table: the paper's eight, HAT as printed, and our HAT with its attention switched off
TABLE_METHODS = (*SHALLOW_METHODS, "gcn", "gat", "hat-paper", "hat", "hat-uniform")
#: models that have the settings of another one, but for what is fixed in them
TWINS = {"hat-uniform": "hat"}
#: data sets with a public split; the others get a split a seed, from five
FIXED_SPLIT = ("cora", "citeseer", "pubmed", "karate")
# A search stops early to try more; the table's runs may train twice as long.
_LONGER = 2

#: settings by name, of a model and of its training
Options: TypeAlias = dict[str, Any]


class Setup(NamedTuple):
    """What is trained, in the words of ``hgeo train``: ``--model``, ``--space`` and ``--set``."""

    model: str
    space: str
    options: Options

    def job(self, dataset: str, seed: int, split: int = 0) -> Job:
        """The run with a seed, on a split; its data are given to it."""
        return Job(dataset, self.model, self.space, seed=seed, split_seed=split, options=self.options)

    def with_options(self, **options: Any) -> Setup:
        """With other values of single settings."""
        return self._replace(options={**self.options, **options})


def setup(model: str, dim: int, options: Mapping[str, Any] | None = None) -> Setup:
    """A model in its usual space of ``dim`` dimensions; settings that are not given are those of its usual recipe.

    >>> setup("gat", 2, {"lr": 0.1})
    Setup(model='gat', space='euclidean:2', options={'lr': 0.1})
    """
    return Setup(model, find(model).space_for(None, dim), dict(options or {}))


def published() -> dict[str, Any]:
    """The numbers that are printed in the paper."""
    facts: dict[str, Any] = json.loads(
        resources.files("hgeo.reproduce").joinpath("published.json").read_text(encoding="utf-8")
    )
    return facts


def _split_of(dataset: str, seed: int) -> int:
    """Which split a seed is run on; none on which hyper-parameters were chosen."""
    return 0 if dataset.partition("+")[0] in FIXED_SPLIT else 1 + seed % 5


def _load(dataset: str, split: int, data_dir: str | None) -> Any:
    """A data set by name; ``cora+0.5`` is Cora with half as many random links again, which lead anywhere."""
    from hgeo.data import load

    name, plus, share = dataset.partition("+")
    data = load(name, data_dir=data_dir, split_seed=split)
    return with_random_links(data, float(share)) if plus else data


def with_random_links(data: Any, share: float, seed: int = 0) -> Any:
    """The data set with ``share`` × its number of links added between random pairs of nodes."""
    source, destination = data.edge_index.numpy()
    n = data.num_nodes
    generator = np.random.default_rng(seed)
    first, second = generator.integers(n, size=(2, round(share * len(source) / 2)))
    apart = first != second
    first, second = first[apart], second[apart]
    key = np.unique(np.concatenate([destination * n + source, second * n + first, first * n + second]))
    return replace(data, edge_index=torch.from_numpy(np.stack([key % n, key // n])))


# ---------------------------------------------------------------------------------------------------------------------
# Tables


@cell_work("graph run")
def graph_run(
    dataset: str, model: str, space: str, options: Options, seed: int, data_dir: str | None = None
) -> dict[str, list[dict[str, Any]]]:
    """Train with a seed; accuracy, macro F1 and NMI of the test nodes."""
    split = _split_of(dataset, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TrainingWarning)  # what a network suffers from is seen in its number
        result = Setup(model, space, options).job(dataset, seed, split).run(_load_last(dataset, split, data_dir))
    kept = ("val_accuracy", "best_epoch", "epochs", "cpu_seconds")
    scores = {name: result[f"test_{name}"] for name in ("accuracy", "macro_f1", "nmi")}
    return {model: [{"seed": seed, "split": split, **scores, **{name: result[name] for name in kept}}]}


@cell_work("shallow run")
def shallow_run(
    dataset: str, dim: int, method: str, options: dict[str, Any], seed: int, data_dir: str | None = None
) -> dict[str, list[dict[str, Any]]]:
    """Embed, then classify by the 5 nearest training nodes and cluster by K-means, in the tangent space at 0."""
    from sklearn.neighbors import KNeighborsClassifier

    split = _split_of(dataset, seed)
    data = _load_last(dataset, split, data_dir)
    model = shallow(method, dim, **options)
    vectors = log0(model.manifold, model.fit(data, seed=seed)).double()
    train, test, labels = data.train_idx, data.test_idx, data.labels
    knn = KNeighborsClassifier(min(5, len(train))).fit(vectors[train].numpy(), labels[train].numpy())

    def share_right(nodes: torch.Tensor) -> float:
        return float((torch.from_numpy(knn.predict(vectors[nodes].numpy())) == labels[nodes]).double().mean())

    row = {
        "seed": seed,
        "split": split,
        "accuracy": share_right(test),
        "nmi": clustering_nmi(vectors[test], labels[test], seed=seed),
        "val_accuracy": share_right(data.val_idx),
    }
    return {method: [row]}


# Settings that are defaults are not in the hash of a cell: raise the number of a method whose defaults change.
_SHALLOW_VERSIONS = {"deepwalk": 2, "node2vec": 2}
# The cells of one data set and split follow each other.
_load_last = functools.lru_cache(maxsize=1)(_load)


def _table_setup(dataset: str, dim: int, model: str, frozen: Mapping[str, Options]) -> Setup:
    """The frozen settings of a cell, with more time; those of the model's usual recipe where none are frozen."""
    found = frozen.get(f"{dataset}/{dim}/{TWINS.get(model, model)}")
    if found is None:
        return setup(model, dim)
    own = {name: value for name, value in found.items() if name not in find(model).fixed}
    longer: Options = {name: _LONGER * own[name] for name in ("epochs", "patience") if name in own}
    return setup(model, dim, {**own, **longer})


def graph_cells(dataset: str, dim: int, model: str, frozen: Mapping[str, Options], seeds: Sequence[int]) -> list[Cell]:
    """The runs of a model, a cell a seed."""
    return _seeds_of(_table_setup(dataset, dim, model, frozen), dataset, dim, seeds)


def _seeds_of(what: Setup, dataset: str, dim: int, seeds: Sequence[int]) -> list[Cell]:
    price = graph_price(dataset, dim) / 10  # beside that of a shallow run
    arguments = {"dataset": dataset, **what._asdict()}
    return [Cell(graph_run, {**arguments, "seed": seed}, cost=price) for seed in seeds]


def shallow_cells(dataset: str, dim: int, method: str, options: dict[str, Any], seeds: Sequence[int]) -> list[Cell]:
    """A cell a seed, so that more seeds can join those that are there."""
    price = {"photo": 2.0, "pubmed": 4.0}.get(dataset, 1.0) * (4 if method in ("deepwalk", "node2vec") else 1)
    arguments = {"dataset": dataset, "dim": dim, "method": method, "options": options}
    version = _SHALLOW_VERSIONS.get(method, 1)
    return [Cell(shallow_run, {**arguments, "seed": seed}, cost=price, version=version) for seed in seeds]


# ---------------------------------------------------------------------------------------------------------------------
# Where distance attention acts


def ablation_cells(dataset: str, dim: int, seeds: Sequence[int]) -> dict[str, list[Cell]]:
    """The runs of each column: one change at a time, from our HAT at β = 1, with the same seeds and no search.

    Each of the read-outs and of the sums has a twin with uniform weights, so that what attention gains can be told from
    what they do.
    """
    shorter = {"epochs": 200, "patience": 60} if dataset in LARGE else {}
    start = setup("hat", dim, {"beta": 1.0, **shorter})
    normalised: bool = find("hat").recipe(Sizes(dim)).settings.degree_norm
    other_sum = "mean, not normalised by degree" if normalised else "normalised by degree"
    turned = start.with_options(degree_norm=not normalised)
    linear, walked = start.with_options(readout="linear"), start.with_options(steps=4)
    columns = {
        "hat": start,
        "hat-uniform": start.with_options(beta=0.0),
        "β = 0.1": start.with_options(beta=0.1),
        "β = 0.3": start.with_options(beta=0.3),
        "β = 3": start.with_options(beta=3.0),
        "first layer only": start.with_options(beta_out=0.0),
        "second layer only": start.with_options(beta=0.0, beta_out=1.0),
        "self-loop at distance 0": start.with_options(self_score="zero"),
        "no radius normalisation": start.with_options(radius_norm=False),
        "nearly flat, c = 0.01": start._replace(space=f"ball:{dim},c=0.01"),
        "linear read-out": linear,
        "linear read-out, uniform": linear.with_options(beta=0.0),
        other_sum: turned,
        f"{other_sum}, uniform": turned.with_options(beta=0.0),
        "four steps": walked,
        "four steps, uniform": walked.with_options(beta=0.0),
        "gat": setup("gat", dim, shorter),
        "gcn": setup("gcn", dim, shorter),
    }
    return {column: _seeds_of(what, dataset, dim, seeds) for column, what in columns.items()}


# ---------------------------------------------------------------------------------------------------------------------
# Figures and time


def _trained(what: Setup, dataset: str, seed: int, data: Any) -> tuple[nn.Module, FitResult]:
    """A model that has been trained, for what a result does not tell."""
    job = what.job(dataset, seed)
    task = job.prepare(data)
    model = job.build(task)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TrainingWarning)
        return model, fit(model, task, job.settings(data).training, seed=seed)


@cell_work("attention weights")
def attention_weights(
    dataset: str,
    node: int,
    model: str,
    space: str,
    options: Options,
    seeds: Sequence[int],
    data_dir: str | None = None,
) -> dict[str, Any]:
    """First-layer attention of one node, averaged over seeds: (neighbour, class, weight), the node itself first."""
    data = _load_last(dataset, 0, data_dir)
    weights: dict[int, list[float]] = {}
    classes: dict[int, int] = {}
    scores = []
    for seed in seeds:
        trained, result = _trained(Setup(model, space, options), dataset, seed, data)
        scores.append(result.test_accuracy)
        first_layer = layer_attentions(trained, data)[0]
        for row in attention_rows(data.edge_index, data.labels, first_layer, node):
            weights.setdefault(row.node, []).append(row.weight)
            classes[row.node] = row.label
    rows = [{"node": other, "class": classes[other], "weight": sum(w) / len(w)} for other, w in weights.items()]
    rows.sort(key=lambda row: (row["node"] != node, -row["weight"]))
    return {"node": node, "rows": rows, "test_accuracy": scores}


def attention_cell(what: Setup, seeds: Sequence[int]) -> Cell:
    example = published()["attention_example"]
    place = {"dataset": example["dataset"], "node": example["node"]}
    return Cell(attention_weights, {**place, **what._asdict(), "seeds": list(seeds)}, version=2)


@cell_work("embedding")
def embedding(
    dataset: str, model: str, space: str | None, options: Options, seed: int, data_dir: str | None = None
) -> dict[str, Any]:
    """A two-dimensional embedding of all nodes, as tangent coordinates at the origin; ``space`` None: a shallow one."""
    data = _load_last(dataset, 0, data_dir)
    if space is None:
        embedder = shallow(model, 2, **options)
        vectors = log0(embedder.manifold, embedder.fit(data, seed=seed))
    else:
        trained: Any = _trained(Setup(model, space, options), dataset, seed, data)[0]
        vectors = log0(trained.hidden_manifold, embed(trained, data))
    return {"method": model, "tangent": [[round(float(x), 4) for x in row] for row in vectors.tolist()]}


def embedding_cell(dataset: str, method: str, frozen: Mapping[str, Options], options: Options, seed: int = 0) -> Cell:
    if method in SHALLOW_METHODS:
        what: dict[str, Any] = {"model": method, "space": None, "options": options}
    else:
        what = _table_setup(dataset, 2, method, frozen)._asdict()
    return Cell(embedding, {"dataset": dataset, **what, "seed": seed}, cost=3.0, version=4)


@cell_work("training time")
def training_time(
    dataset: str, model: str, space: str, options: Options, seed: int, data_dir: str | None = None
) -> dict[str, Any]:
    """CPU time of a run to its early stop, and of a step with and without the acceleration of eq. (15).

    The two steps are compared in layers that walk once: eq. (11) cannot walk on.
    """
    data = _load_last(dataset, 0, data_dir)
    what = Setup(model, space, options)
    what.job(dataset, seed).build(data)(data.graph, data.features)  # compiles or loads the kernels
    started = time.process_time()
    result = _trained(what, dataset, seed, data)[1]
    whole = time.process_time() - started
    once = what.with_options(steps=1).job(dataset, seed)

    def step_time(aggregate: type[MobiusSum | TangentSum], steps: int) -> float:
        trial: Any = once.build(data)
        for conv in (trial.conv1, trial.conv2):
            conv.aggregate = aggregate(degree_norm=conv.aggregate.degree_norm)
        optimizer = torch.optim.Adam(trial.parameters(), lr=once.settings(data).training.lr)
        times = []
        for _ in range(steps + 1):
            begun = time.process_time()
            loss = torch.nn.functional.cross_entropy(
                trial(data.graph, data.features)[data.train_idx], data.labels[data.train_idx]
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            times.append(time.process_time() - begun)
        return sorted(times[1:])[steps // 2]

    return {
        "cpu_seconds": whole,
        "epochs": result.epochs,
        "test_accuracy": result.test_accuracy,
        "step_accelerated": step_time(TangentSum, 20),
        "step_sequential": step_time(MobiusSum, 3),
    }


def timing_cell(what: Setup, seed: int = 0) -> Cell:
    return Cell(training_time, {"dataset": "cora", **what._asdict(), "seed": seed}, version=2)
