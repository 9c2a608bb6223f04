"""The one file of the golden tests that knows hgeo's API: models, layers and losses, asked for in plain words.

Where the API changes, this file changes and the records stay. Names of parameters are part of the records: if one is
renamed, :func:`parameters` goes on calling it by its old name.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import pathlib
import re
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple
from unittest import mock
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn

import hgeo
import hgeo.nn as hnn
from hgeo._geoopt import geoopt
from hgeo.bench import SIZES
from hgeo.cli import main
from hgeo.data import karate
from hgeo.models import build, find, names, recipe
from hgeo.train import fit, load_run

_TRAINING: WeakKeyDictionary[nn.Module, Any] = WeakKeyDictionary()
_ACTIVATIONS = {"elu": nn.functional.elu, "relu": torch.relu, None: None}
_DROPOUTS = ("feat_drop", "hidden_drop", "attn_drop")
EPOCHS = 5
#: models that came after the records
LATER = ("lorentz", "sage")


class Kind(NamedTuple):
    """What a model can be asked for: a hidden space that is not flat, a backend."""

    curved: bool
    backends: bool


def list_models() -> dict[str, Kind]:
    """Every registered graph model."""
    flat, without_backend = ("gcn", "gcn-diffused", "gat", "mlp"), ("gcn", "gcn-diffused", "gat", "mlp", "hnn")
    return {name: Kind(name not in flat, name not in without_backend) for name in names() if name not in LATER}


def build_model(name: str, space: str, backend: str | None, seed: int | None = None) -> nn.Module:
    """A model for the karate club in float64, with five epochs to train.

    With a seed it has default settings and the random weights of that seed, drawn in float64, since those that are
    drawn in float32 are rounded differently on another processor. Without one it has no dropout, and its parameters
    are :func:`numbers`.
    """
    fields = vars(find(name).settings())
    options: dict[str, Any] = {} if seed is not None else {drop: 0.0 for drop in _DROPOUTS if drop in fields}
    torch.manual_seed(seed or 0)
    usual = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        settings, training = recipe(name, karate(), space, epochs=EPOCHS, **options)
        model: nn.Module = build(name, karate(), space, settings=settings, backend=backend or "auto").double()
    finally:
        torch.set_default_dtype(usual)
    _TRAINING[model] = training
    if name == "gat":  # DGL's layer, of which the records are, draws these in float32 whatever the default is
        for parameter in (model.conv1.attn_l, model.conv1.attn_r, model.conv2.attn_l, model.conv2.attn_r):
            parameter.data = parameter.data.float().double()
    return model if seed is not None else _filled(model)


def load_model(folder: pathlib.Path) -> nn.Module:
    """The model of a run folder, in float64."""
    return load_run(folder)[0].double()


def run_accuracy(folder: pathlib.Path) -> float:
    """The share of the test nodes that the model of a run folder gets right, on the data that it was trained on."""
    model, data, _ = load_run(folder)
    right = model(data.graph, data.features)[data.test_idx].argmax(1) == data.labels[data.test_idx]
    return float(right.double().mean())


def run_model(model: nn.Module) -> tuple[Tensor, Tensor]:
    """Logits and hidden points of all nodes of the karate club, in evaluation mode."""
    data = karate().to(dtype=torch.float64)
    model.eval()
    return model(data.graph, data.features), model.embed(data.graph, data.features)


def first_losses(model: nn.Module, seed: int = 0) -> list[float]:
    """The losses of the first epochs on the karate club, trained with the model's own settings."""
    losses: list[float] = []
    data = karate().to(dtype=torch.float64)
    fit(model, data, _TRAINING[model], seed=seed, on_epoch=lambda row: losses.append(row["loss"]))
    return losses


def build_layer(kind: str, space: str, backend: str | None, options: dict[str, Any], *, features: bool = False) -> Any:
    """A layer of ``hgeo.nn`` in float64, four coordinates wide, from points (or ``features``) to points of ``space``.

    A HATConv with ``merge="product"`` has a head a factor of ``space``, or two heads in ``space`` if it is no product.
    """
    source, (manifold, dim) = hgeo.space(space).manifold, hgeo.space(space)
    options = options if backend is None else {**options, "backend": backend}
    if "activation" in options:
        options = {**options, "activation": _ACTIVATIONS[options["activation"]]}
    if kind in ("HATConv", "GCNConv"):
        options = {**options, "in_manifold": None if features else source}
        if options.get("merge") == "product":
            words = space.split(" x ") if " x " in space else [space, space]
            manifold, (dim, *_) = zip(*(hgeo.space(word) for word in words), strict=True)
            options["heads"] = len(words)
        layer = getattr(hnn, kind)(4, dim, manifold, **options)
    else:
        layer = _MAKERS[kind](source, options)
    return _filled(layer.double())


def run_layer(layer: Any, graph: Any, x: Tensor, **more: Any) -> Tensor:
    """The output; layers that need no graph are not given it, pairs and the graph of a row are made up."""
    if isinstance(layer, hnn.HATConv | hnn.GCNConv | hnn.Sequential):
        return layer(graph, x, **more)
    if isinstance(layer, hnn.Pool):
        return layer(torch.arange(len(x)) // 3, x)
    if isinstance(layer, hnn.Embedding):
        return layer(torch.arange(layer.weight.shape[0]))
    if isinstance(layer, hnn.FermiDiracDecoder | hnn.DistanceDecoder):
        return layer(x, torch.stack([torch.arange(len(x)), torch.arange(len(x)).flip(0)]))
    return layer(x)


def attention(layer: Any, graph: Any, x: Tensor, **more: Any) -> Tensor:
    """The attention weights of a HATConv: of the edges in the order given, then of the self-loops."""
    _, weights = layer(graph, x, return_attention=True, **more)
    return torch.cat([weights.edges, weights.loops])


def make_graph(edge_index: Tensor, sources: int, destinations: int) -> Any:
    """A graph with fewer destinations than sources, as a sampler makes them, or with as many."""
    return hgeo.Graph(edge_index[0], edge_index[1], sources, destinations)


def points(space: str, v: Tensor) -> Tensor:
    """Points with tangent coordinates ``v`` at the origin of ``space``."""
    return hgeo.exp0(hgeo.space(space).manifold.double(), v).detach()


def parameters(module: nn.Module) -> dict[str, nn.Parameter]:
    """What is trained, under names that outlive the code's: a curvature is that of a manifold, however it is stored."""
    return {
        re.sub(r"(\.hyperboloid)?\.(stored_[ck]|k)$", ".curvature", name): parameter
        for name, parameter in module.named_parameters()
        if parameter.requires_grad
    }


def numbers(name: str, *shape: int) -> Tensor:
    """Numbers between -1 and 1 that depend on ``name`` alone (splitmix64): no library's random stream decides them."""
    with np.errstate(over="ignore"):
        z = np.arange(1, math.prod(shape) + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z += np.uint64(zlib.crc32(name.encode())) * np.uint64(0xD1B54A32D192ED03)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return torch.from_numpy((z >> np.uint64(11)).astype(np.float64) * 2.0**-52 - 1).view(shape)


def _filled(module: Any) -> Any:
    """The module, its points and vectors set to :func:`numbers`; curvatures and other single numbers stay."""
    with torch.no_grad():
        for name, parameter in parameters(module).items():
            if isinstance(parameter, geoopt.ManifoldParameter):
                d = hgeo.intrinsic_dim(parameter.manifold, parameter.shape[-1])
                parameter.copy_(hgeo.exp0(parameter.manifold, 0.3 * numbers(name, *parameter.shape[:-1], d)))
            elif parameter.dim() > 0:
                parameter.copy_(0.8 * numbers(name, *parameter.shape))
    return module


def asked_cells(command: list[str], monkeypatch: Any) -> list[Any]:
    """The cells that `hgeo reproduce` looks for in its cache."""
    asked: list[Any] = []
    with monkeypatch.context() as patch:
        patch.setattr("hgeo.reproduce._cells.cached_result", lambda cell, folder: asked.append(cell))
        assert main(["reproduce", *command]) == 0
    return asked


def hgeo_command(words: list[str]) -> int:
    """The exit code of a command, run here."""
    return main(words)


def bench_report() -> dict[str, Any]:
    """What `hgeo bench --json` writes, of every part but first calls, on graphs of some hundred edges."""
    tiny = dict.fromkeys(SIZES, (50, 200))
    words = ["--everything", "--no-first-call", "--seconds", "0", "--contestants", "DGL,hgeo torch,hgeo fused"]
    words += ["--sizes", "13k", "--kinds", "symmetric", "--dims", "8", "--heads", "1", "--threads", "1"]
    out = io.StringIO()
    with (
        mock.patch.dict(SIZES, tiny),
        mock.patch("hgeo.bench._parts._LARGE_NEEDS", 0),
        mock.patch("hgeo.bench._layers.EDGES", (200, 400)),
        mock.patch("hgeo.data.load", return_value=karate()),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        assert main(["bench", "--json", *words]) == 0
    report: dict[str, Any] = json.loads(out.getvalue())
    return report


_MAKERS: dict[str, Callable[[Any, dict[str, Any]], nn.Module]] = {
    "ToManifold": lambda m, more: hnn.ToManifold(m, **more),
    "FromManifold": lambda m, more: hnn.FromManifold(m, **more),
    "Transfer": lambda m, more: hnn.Transfer(m, hgeo.PoincareBall(c=0.4), **more),
    "Linear": lambda m, more: hnn.Linear(4, 4, m, **more),
    "Activation": lambda m, more: hnn.Activation(torch.tanh, m, **more),
    "MLR": lambda m, more: hnn.MLR(4, 3, m, **more),
    "CentroidClassifier": lambda m, more: hnn.CentroidClassifier(4, 3, m, **more),
    "BatchNorm": lambda m, more: hnn.BatchNorm(4, m, **more),
    "Midpoint": lambda m, more: hnn.Midpoint(m, **more),
    "Pool": lambda m, more: hnn.Pool(m, **more),
    "FermiDiracDecoder": lambda m, more: hnn.FermiDiracDecoder(m, **more),
    "DistanceDecoder": lambda m, more: hnn.DistanceDecoder(m, learnable=True, **more),
    "Embedding": lambda m, more: hnn.Embedding(6, 4, m, sparse=False, **more),
}
