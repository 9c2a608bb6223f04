"""The runs behind the paper's tables and figures, as cells of :mod:`hgeo.reproduce._cells`."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Sequence
from dataclasses import replace
from importlib import resources
from typing import Any

import numpy as np
import torch

from hgeo.graph import MobiusSum, TangentSum
from hgeo.manifolds import log0
from hgeo.models import SHALLOW_METHODS, shallow
from hgeo.reproduce._batched import BATCHED_METHODS, Run, Views, train_batch, train_runs
from hgeo.reproduce._cells import LARGE, Cell, cell_work, graph_price
from hgeo.reproduce._flat import Config, build_flat, defaults, recipe_of
from hgeo.tasks import accuracy, clustering_nmi, macro_f1
from hgeo.train import fit, layer_attentions
from hgeo.viz import attention_rows

__all__ = [
    "DATASETS",
    "DIMENSIONS",
    "FIXED_SPLIT",
    "TABLE_METHODS",
    "ablation_cells",
    "attention_cell",
    "embedding_cell",
    "graph_cells",
    "published",
    "shallow_cells",
    "timing_cell",
]

DATASETS = ("cora", "citeseer", "pubmed", "photo")
DIMENSIONS = (2, 4, 8, 16)
#: the columns of a table: the paper's eight, HAT as printed, and our HAT with its attention switched off
TABLE_METHODS = (*SHALLOW_METHODS, "gcn", "gat", "hat-paper", "hat", "hat-uniform")
#: data sets with a public split; the others get a split a seed, from five
FIXED_SPLIT = ("cora", "citeseer", "pubmed", "karate")
# A search stops early to try more; the table's runs may train twice as long.
_LONGER = 2


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


@cell_work("graph runs")
def graph_runs(
    dataset: str, dim: int, configs: dict[str, dict[str, Any]], seeds: Sequence[int], data_dir: str | None = None
) -> dict[str, list[dict[str, Any]]]:
    """Train each configuration with each seed; accuracy, macro F1 and NMI of the test nodes, run by run."""
    splits = sorted({_split_of(dataset, seed) for seed in seeds})
    data = [_load(dataset, split, data_dir) for split in splits]
    settings = {name: Config.from_dict(values) for name, values in configs.items()}
    runs, owners = [], []
    for name, config in settings.items():
        for seed in seeds:
            runs.append(Run(config, seed, splits.index(_split_of(dataset, seed))))
            owners.append(name)
    views = Views(*data)
    results = train_runs(views, runs, evaluate=views.full, eval_every=3 if dataset in LARGE else 1)
    table: dict[str, list[dict[str, Any]]] = {name: [] for name in settings}
    for name, result in zip(owners, results, strict=True):
        assert result.logits is not None
        assert result.hidden is not None
        split = data[result.split]
        labels = split.labels[split.test_idx]
        logits = result.logits[split.test_idx]
        table[name].append(
            {
                "seed": result.seed,
                "split": splits[result.split],
                "accuracy": accuracy(logits, labels),
                "macro_f1": macro_f1(logits, labels),
                "nmi": clustering_nmi(result.hidden[split.test_idx], labels, seed=result.seed),
                "val_accuracy": result.val_accuracy,
                "best_epoch": result.best_epoch,
                "epochs": result.epochs,
            }
        )
    return table


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


def _table_config(dataset: str, dim: int, method: str, frozen: dict[str, Config]) -> Config:
    """The frozen configuration of a cell, with more time; the defaults where none is frozen."""
    source = "hat" if method == "hat-uniform" else method
    config = frozen.get(f"{dataset}/{dim}/{source}") or defaults(source, dim)
    config = replace(config, epochs=_LONGER * config.epochs, patience=_LONGER * config.patience)
    if method == "hat-uniform":
        config = replace(config, method=method, beta=0.0, beta_out=0.0)
    return config


def graph_cells(
    dataset: str, dim: int, methods: Sequence[str], frozen: dict[str, Config], seeds: Sequence[int]
) -> list[Cell]:
    """Cells of the graph networks; HAT and its uniform twin share one, since they differ in β only."""
    families: dict[str, list[str]] = {}
    for method in methods:
        if method not in BATCHED_METHODS:
            raise ValueError(f"{method!r} cannot be a column; known: {', '.join((*SHALLOW_METHODS, *BATCHED_METHODS))}")
        families.setdefault("hat" if method == "hat-uniform" else method, []).append(method)
    price = graph_price(dataset, dim)
    cells = []
    for members in families.values():
        configs = {method: _table_config(dataset, dim, method, frozen).to_dict() for method in members}
        arguments = {"dataset": dataset, "dim": dim, "configs": configs, "seeds": list(seeds)}
        cells.append(_graph_cell(arguments, cost=price * len(members)))
    return cells


def _graph_cell(arguments: dict[str, Any], cost: float = 1.0) -> Cell:
    return Cell(graph_runs, arguments, cost=cost, version=3)


def shallow_cells(dataset: str, dim: int, method: str, options: dict[str, Any], seeds: Sequence[int]) -> list[Cell]:
    """A cell a seed, so that more seeds can join those that are there."""
    price = {"photo": 2.0, "pubmed": 4.0}.get(dataset, 1.0) * (4 if method in ("deepwalk", "node2vec") else 1)
    arguments = {"dataset": dataset, "dim": dim, "method": method, "options": options}
    version = _SHALLOW_VERSIONS.get(method, 1)
    return [Cell(shallow_run, {**arguments, "seed": seed}, cost=price, version=version) for seed in seeds]


# ---------------------------------------------------------------------------------------------------------------------
# Where distance attention acts


def ablation_cells(dataset: str, dim: int, seeds: Sequence[int], base: Config | None = None) -> list[Cell]:
    """One change at a time, from our HAT at β = 1, with the same seeds and no search.

    Each of the read-outs and of the sums has a twin with uniform weights, so that what attention gains can be told from
    what they do.
    """
    start = replace(base or defaults("hat", dim), beta=1.0, beta_out=None)
    other_sum = "mean, not normalised by degree" if start.degree_norm else "normalised by degree"
    turned = replace(start, degree_norm=not start.degree_norm)
    if dataset in LARGE:
        start = replace(start, epochs=200, patience=60)
    variants = {
        "β = 1": start,
        "uniform weights": replace(start, beta=0.0),
        "β = 0.1": replace(start, beta=0.1),
        "β = 0.3": replace(start, beta=0.3),
        "β = 3": replace(start, beta=3.0),
        "first layer only": replace(start, beta_out=0.0),
        "second layer only": replace(start, beta=0.0, beta_out=1.0),
        "self-loop at distance 0": replace(start, self_score="zero"),
        "no radius normalisation": replace(start, radius_norm=False),
        "nearly flat, c = 0.01": replace(start, c=0.01),
        "linear read-out": replace(start, readout="linear"),
        "linear read-out, uniform": replace(start, readout="linear", beta=0.0),
        other_sum: turned,
        f"{other_sum}, uniform": replace(turned, beta=0.0),
        "four steps": replace(start, steps=4),
        "four steps, uniform": replace(start, steps=4, beta=0.0),
    }
    configs = {name: config.to_dict() for name, config in variants.items()}
    cells = [_graph_cell(_ablation_arguments(dataset, dim, configs, seeds), cost=10.0)]
    for method in ("gat", "gcn"):
        other = replace(defaults(method, dim), epochs=start.epochs, patience=start.patience)
        arguments = _ablation_arguments(dataset, dim, {method.upper(): other.to_dict()}, seeds)
        cells.append(_graph_cell(arguments))
    return cells


def _ablation_arguments(dataset: str, dim: int, configs: dict[str, Any], seeds: Sequence[int]) -> dict[str, Any]:
    return {"dataset": dataset, "dim": dim, "configs": configs, "seeds": list(seeds)}


# ---------------------------------------------------------------------------------------------------------------------
# Figures and time


@cell_work("attention weights")
def attention_weights(
    dataset: str, node: int, dim: int, config: dict[str, Any], seeds: Sequence[int], data_dir: str | None = None
) -> dict[str, Any]:
    """First-layer attention of one node, averaged over seeds: (neighbour, class, weight), the node itself first."""
    data = _load(dataset, 0, data_dir)
    settings = Config.from_dict(config)
    weights: dict[int, list[float]] = {}
    classes: dict[int, int] = {}
    scores = []
    for seed in seeds:
        torch.manual_seed(seed)
        model = build_flat(settings, data)
        scores.append(fit(model, data, recipe_of(settings).training, seed=seed).test_accuracy)
        first_layer = layer_attentions(model, data)[0]
        for row in attention_rows(data.edge_index, data.labels, first_layer, node):
            weights.setdefault(row.node, []).append(row.weight)
            classes[row.node] = row.label
    rows = [{"node": other, "class": classes[other], "weight": sum(w) / len(w)} for other, w in weights.items()]
    rows.sort(key=lambda row: (row["node"] != node, -row["weight"]))
    return {"node": node, "rows": rows, "test_accuracy": scores}


def attention_cell(config: Config, seeds: Sequence[int]) -> Cell:
    example = published()["attention_example"]
    arguments = {
        "dataset": example["dataset"], "node": example["node"], "dim": config.dim, "config": config.to_dict(),
        "seeds": list(seeds),
    }  # fmt: skip
    return Cell(attention_weights, arguments)


@cell_work("embedding")
def embedding(
    dataset: str,
    method: str,
    config: dict[str, Any] | None,
    options: dict[str, Any],
    seed: int,
    data_dir: str | None = None,
) -> dict[str, Any]:
    """A two-dimensional embedding of all nodes, as tangent coordinates at the origin."""
    data = _load(dataset, 0, data_dir)
    if config is None:
        model = shallow(method, 2, **options)
        vectors = log0(model.manifold, model.fit(data, seed=seed))
    else:
        views = Views(data)
        (result,) = train_batch(views, [Run(Config.from_dict(config), seed)], evaluate=views.full)
        assert result.hidden is not None
        vectors = result.hidden
    return {"method": method, "tangent": [[round(float(x), 4) for x in row] for row in vectors.tolist()]}


def embedding_cell(
    dataset: str, method: str, frozen: dict[str, Config], options: dict[str, Any], seed: int = 0
) -> Cell:
    config = None if method in SHALLOW_METHODS else _table_config(dataset, 2, method, frozen).to_dict()
    arguments = {"dataset": dataset, "method": method, "config": config, "options": options, "seed": seed}
    version = 1 + _SHALLOW_VERSIONS.get(method, 1) if config is None else 1
    return Cell(embedding, arguments, cost=3.0, version=version)


@cell_work("training time")
def training_time(
    dataset: str, dim: int, config: dict[str, Any], seed: int, data_dir: str | None = None
) -> dict[str, Any]:
    """CPU time of a run to its early stop, and of a step with and without the acceleration of eq. (15).

    The two steps are compared in layers that walk once: eq. (11) cannot walk on.
    """
    data = _load(dataset, 0, data_dir)
    settings = Config.from_dict(config)
    torch.manual_seed(seed)
    model = build_flat(settings, data)
    model(data.graph, data.features)  # compiles or loads the kernels
    started = time.process_time()
    result = fit(model, data, recipe_of(settings).training, seed=seed)
    whole = time.process_time() - started

    def step_time(aggregate: type[MobiusSum | TangentSum], steps: int) -> float:
        torch.manual_seed(seed)
        trial: Any = build_flat(replace(settings, steps=1), data)
        for conv in (trial.conv1, trial.conv2):
            conv.aggregate = aggregate(degree_norm=conv.aggregate.degree_norm)
        optimizer = torch.optim.Adam(trial.parameters(), lr=settings.lr)
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


def timing_cell(config: Config, seed: int = 0) -> Cell:
    arguments = {"dataset": "cora", "dim": config.dim, "config": config.to_dict(), "seed": seed}
    return Cell(training_time, arguments)
