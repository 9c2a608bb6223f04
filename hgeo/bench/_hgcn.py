"""A training step of ``--model hgcn`` beside that of HGCN's official code, which its user has to bring."""

from __future__ import annotations

import contextlib
import importlib
import statistics
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from hgeo.bench._measure import CLOCKS
from hgeo.bench._training import training_step
from hgeo.data import Dataset
from hgeo.models import build
from hgeo.train import view_for

__all__ = ["hgcn_steps"]

_SPACES = {"ball": "PoincareBall", "lorentz": "Hyperboloid"}


def hgcn_steps(folder: Path, dataset: Dataset, *, clock: str, rounds: int = 40) -> list[dict[str, Any]]:
    """Seconds of a step of two layers, d = 16, by hgeo and by the code in ``folder``, a clone of
    github.com/HazyResearch/hgcn, which is run as it is; and their ratio, the median over rounds in turns.

    On the features of the data set, sparse for hgeo and dense for HGCN's code, and on 16 random dense ones.
    """
    if not (folder / "models" / "base_models.py").is_file():
        raise ValueError(f"{folder} has no models/base_models.py; give a clone of github.com/HazyResearch/hgcn")
    plain = torch.randn(dataset.num_nodes, 16, generator=torch.Generator().manual_seed(0))
    found = []
    with _modules_of(folder) as official:
        for features, data in (("those of the data", dataset), ("16 dense", replace(dataset, features=plain))):
            for space, name in _SPACES.items():
                found.append(
                    {"features": features, "space": space} | _compare(official, name, space, data, clock, rounds)
                )
    return found


def _compare(official: Any, name: str, space: str, data: Dataset, clock: str, rounds: int) -> dict[str, float]:
    torch.manual_seed(0)
    model = build("hgcn", data, f"{space}:16")
    view = view_for(model, data, data.train_idx)
    steps = training_step(model, lambda: view.output(model), data), _official_step(official, name, data)
    now, times = CLOCKS[clock], []
    for number in range(rounds + 3):
        round_ = []
        for step in steps:
            began = now()
            step()
            round_.append(now() - began)
        if number >= 3:  # caches, compiled kernels
            times.append(round_)
    ours, theirs = (statistics.median(column) for column in zip(*times, strict=True))
    return {"hgeo": ours, "official": theirs, "ratio": statistics.median(a / b for a, b in times)}


def _official_step(official: Any, name: str, data: Dataset) -> Callable[[], None]:
    nodes = data.num_nodes
    settings = types.SimpleNamespace(
        model="HGCN", manifold=name, task="nc", dim=16, num_layers=2, act="relu", c=1.0, dropout=0.5, bias=1,
        use_att=0, local_agg=0, n_heads=4, alpha=0.2, r=2.0, t=1.0, pos_weight=0, cuda=-1, device="cpu",
        feat_dim=data.num_features, n_nodes=nodes, n_classes=data.num_classes,
    )  # fmt: skip
    model = official.NCModel(settings)
    ids = torch.cat([data.edge_index, torch.arange(nodes).repeat(2, 1)], dim=1).flip(0)
    degrees = torch.zeros(nodes).index_add(0, ids[0], torch.ones(ids.shape[1]))
    adjacency = torch.sparse_coo_tensor(ids, 1 / degrees[ids[0]], (nodes, nodes), check_invariants=False).coalesce()
    features = data.features.to_dense() if data.is_sparse else data.features
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    given = {"adj_train_norm": adjacency, "labels": data.labels, "idx_train": data.train_idx}
    model.train()

    def step() -> None:
        optimizer.zero_grad()
        model.compute_metrics(model.encode(features, adjacency), given, "train")["loss"].backward()
        optimizer.step()

    return step


@contextlib.contextmanager
def _modules_of(folder: Path) -> Iterator[Any]:
    """Its module ``models.base_models``; names such as ``models`` mean its packages only inside."""
    names = ("models", "layers", "manifolds", "utils", "optimizers")
    before = {name: module for name, module in sys.modules.items() if name.partition(".")[0] in names}
    for name in before:
        del sys.modules[name]
    sys.path.insert(0, str(folder))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield importlib.import_module("models.base_models")
    finally:
        sys.path.remove(str(folder))
        for name in [name for name in sys.modules if name.partition(".")[0] in names]:
            del sys.modules[name]
        sys.modules.update(before)
