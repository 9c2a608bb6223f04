"""What is recorded, each under a readable name such as "hat | ball:4,c=1 | fused", and how it is measured.

A tensor is recorded as its shape, its norm, its sum and two fixed projections: four numbers that hardly any change
leaves alone. Parameters and inputs are made of :func:`adapter.numbers`, so that no random stream is in the way; the
five losses "of seed 0" are the exception: they begin from random weights and drop at random, as `hgeo train` does, with
default settings only. They hold where torch's random stream is that of the record, which is kept beside them: another
torch may draw other numbers.
"""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import adapter
import torch
from adapter import numbers
from torch import Tensor

Record = dict[str, Any]

#: a difference from a record may be so large, relative to the recorded tensor's norm or the recorded loss
TOLERANCE = 1e-9
_ROUNDING = 1e-12  # what is zero but for rounding, such as the gradient of a bias that a softmax takes out

#: the name, in a record, of what torch draws at random
STREAM = "random stream"

SPACES = (
    "ball:4,c=1",
    "ball:4,c=learn",
    "ball:4,c=0,learn",
    "stereo:4,k=-1",
    "stereo:4,k=0.5,learn",
    "lorentz:4,learn",
    "klein:4,learn",
    "sphere:4",
    "sproj:4,learn",
    "euclidean:4",
    "ball:2,learn x sphere:2",
)
BACKENDS = ("reference", "torch", "fused")
#: run folders that earlier editions wrote; they are read, never written again
RUNS = pathlib.Path(__file__).parent / "runs"


@dataclass(frozen=True)
class Layer:
    """A layer with options, and what it is called with beside points on a graph of as many sources as destinations."""

    kind: str
    options: dict[str, Any] = field(default_factory=dict)
    takes: str = "points"  # or "features", or "sparse features"
    block: bool = False
    edge_bias: bool = False


def _hat(**options: Any) -> Layer:
    return Layer("HATConv", options)


def _gcn(**options: Any) -> Layer:
    return Layer("GCNConv", options)


_OURS = {"beta": 0.3, "radius_norm": True, "self_score": "mean", "bias": "tangent", "activation_space": "tangent"}

#: layers that have a backend
GRAPH_LAYERS = {
    "HATConv": _hat(),
    "HATConv from features": Layer("HATConv", takes="features"),
    "HATConv from sparse features": Layer("HATConv", takes="sparse features"),
    "HATConv on a block": Layer("HATConv", block=True),
    "HATConv with edge bias": Layer("HATConv", edge_bias=True),
    "HATConv without activation": _hat(activation=None),
    "HATConv relu": _hat(activation="relu"),
    "HATConv activation on the ball": _hat(activation_space="ball"),
    "HATConv activation in the tangent space": _hat(activation_space="tangent"),
    "HATConv two heads": _hat(heads=2),
    "HATConv mean of two heads": _hat(heads=2, merge="mean"),
    "HATConv product": _hat(merge="product"),
    "HATConv product, midpoint": _hat(merge="product", aggregate="midpoint"),
    "HATConv uniform": _hat(attention="uniform"),
    "HATConv beta 0.3": _hat(beta=0.3),
    "HATConv beta learned": _hat(beta="learn", heads=2, merge="mean"),
    "HATConv radius norm": _hat(radius_norm=True),
    "HATConv self score mean": _hat(self_score="mean"),
    "HATConv degree norm": _hat(degree_norm=True),
    "HATConv degree norm on a block": Layer("HATConv", {"degree_norm": True, "self_score": "mean"}, block=True),
    "HATConv three steps": _hat(steps=3, restart=0.2),
    "HATConv three uniform steps": _hat(steps=3, attention="uniform", degree_norm=True),
    "HATConv tangent bias": _hat(bias="tangent"),
    "HATConv point bias": _hat(bias="point"),
    "HATConv point bias, activation in the tangent space": _hat(bias="point", activation_space="tangent"),
    "HATConv mobius": _hat(aggregate="mobius"),
    "HATConv mobius, degree norm": _hat(aggregate="mobius", degree_norm=True),
    "HATConv mobius, two heads": _hat(aggregate="mobius", heads=2, merge="mean"),
    "HATConv midpoint": _hat(aggregate="midpoint"),
    "HATConv midpoint, degree norm": _hat(aggregate="midpoint", degree_norm=True),
    "HATConv midpoint, two heads": _hat(aggregate="midpoint", heads=2),
    "HATConv tuned": _hat(**_OURS),
    "HATConv tuned, degree norm, two heads": _hat(**_OURS, degree_norm=True, heads=2, merge="mean"),
    "GCNConv": _gcn(),
    "GCNConv from features": Layer("GCNConv", takes="features"),
    "GCNConv from sparse features": Layer("GCNConv", takes="sparse features"),
    "GCNConv on a block": Layer("GCNConv", block=True),
    "GCNConv without bias": _gcn(bias="none"),
    "GCNConv without activation": _gcn(activation=None),
    "GCNConv norm mean": _gcn(norm="mean"),
    "GCNConv norm sum": _gcn(norm="sum"),
    "GCNConv midpoint": _gcn(aggregate="midpoint"),
    "GCNConv midpoint without activation": _gcn(aggregate="midpoint", activation=None),
    "GCNConv gyrosum": _gcn(aggregate="gyrosum"),
    "GCNConv gyrosum, norm mean": _gcn(aggregate="gyrosum", norm="mean"),
}
#: layers that have none
PLAIN_LAYERS = {
    "ToManifold": Layer("ToManifold", takes="features"),
    "FromManifold": Layer("FromManifold"),
    "Transfer": Layer("Transfer"),
    "Transfer isometry": Layer("Transfer", {"how": "isometry"}),
    "Linear": Layer("Linear"),
    "Linear factors": Layer("Linear", {"form": "factors"}),
    "Linear lorentz": Layer("Linear", {"form": "lorentz"}),
    "Activation": Layer("Activation"),
    "Activation point": Layer("Activation", {"space": "point"}),
    "MLR": Layer("MLR"),
    "CentroidClassifier": Layer("CentroidClassifier"),
    "BatchNorm": Layer("BatchNorm"),
    "BatchNorm tangent": Layer("BatchNorm", {"mean": "tangent"}),
    "BatchNorm frechet": Layer("BatchNorm", {"mean": "frechet"}),
    "Midpoint": Layer("Midpoint"),
    "Midpoint tangent": Layer("Midpoint", {"how": "tangent"}),
    "Midpoint frechet": Layer("Midpoint", {"how": "frechet"}),
    "Pool": Layer("Pool"),
    "Pool tangent": Layer("Pool", {"how": "tangent"}),
    "Pool frechet": Layer("Pool", {"how": "frechet"}),
    "FermiDiracDecoder": Layer("FermiDiracDecoder"),
    "DistanceDecoder": Layer("DistanceDecoder"),
    "Embedding": Layer("Embedding"),
}

# A node with a self-loop (2), one with many sources (0), one that hears and is heard by nobody (7), two edges that are
# one twice (3 → 0). The block has the edges into the first five nodes.
EDGES = torch.tensor([[1, 2, 3, 3, 5, 2, 0, 4, 6, 1, 6, 0], [0, 0, 0, 0, 0, 2, 1, 3, 4, 5, 1, 6]])
NODES, DESTINATIONS = 8, 5


def cases() -> dict[str, dict[str, Callable[[], Record]]]:
    """File of the records → key → how to measure it."""
    models: dict[str, Callable[[], Record]] = {}
    losses: dict[str, Callable[[], Record]] = {}
    for name, kind in adapter.list_models().items():
        for space in SPACES if kind.curved else ("euclidean:4",):
            for backend in BACKENDS if kind.backends else (None,):
                key = " | ".join([name, space, backend] if backend else [name, space])
                models[key] = functools.partial(_model, name, space, backend)
            losses[f"{name} | {space} | losses of seed 0"] = functools.partial(_seeded, name, space)
    layers: dict[str, dict[str, Callable[[], Record]]] = {"hatconv": {}, "gcnconv": {}, "layers": {}}
    for space in SPACES:
        for name, layer in GRAPH_LAYERS.items():
            for backend in BACKENDS:
                measure = functools.partial(_layer, layer, space, backend)
                layers[layer.kind.lower()][f"{name} | {space} | {backend}"] = measure
        for name, layer in PLAIN_LAYERS.items():
            layers["layers"][f"{name} | {space}"] = functools.partial(_layer, layer, space, None)
    folders = sorted(path.parent for path in RUNS.rglob("model.safetensors"))
    runs = {f"run {path.relative_to(RUNS).as_posix()}": functools.partial(_run, path) for path in folders}
    return {"models": models, "losses": losses, **layers, "runs": runs, "bench": {"hgeo bench --json": _bench}}


def measure(case: Callable[[], Record]) -> Record:
    """The record of a case, or that hgeo refuses it and by which kind of error."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # sums are rounded by how they are shared out
    try:
        return case()
    except ValueError as error:
        return {"refused": type(error).__name__}
    finally:
        torch.set_num_threads(before)


def differences(old: Record, new: Record) -> list[str]:
    """What has changed beyond rounding, a line a number."""
    lines = [f"{name}: was recorded, is gone" for name in old if name not in new]
    lines += [f"{name}: not recorded, now {new[name]}" for name in new if name not in old]
    for name in old.keys() & new.keys():
        if isinstance(old[name], str) or isinstance(new[name], str):
            lines += [f"{name}: {old[name]} → {new[name]}"] if old[name] != new[name] else []
        elif name == "losses":
            lines += _changed(name, range(1, 1 + adapter.EPOCHS), old[name], new[name], old[name])
        elif old[name][0] != new[name][0]:
            lines.append(f"{name}: shape {old[name][0]} → {new[name][0]}")
        else:
            scale = [old[name][1]] * 4
            lines += _changed(name, ("norm", "sum", "1st", "2nd"), old[name][1:], new[name][1:], scale)
    return sorted(lines)


def _changed(name: str, places: Any, old: list[float], new: list[float], scale: list[float]) -> list[str]:
    return [
        f"{name}, {place}: {a!r} → {b!r} (relative {abs(a - b) / max(abs(size), _ROUNDING):.1e})"
        for place, a, b, size in zip(places, old, new, scale, strict=True)
        if not abs(a - b) <= TOLERANCE * abs(size) + _ROUNDING
    ]


def _model(name: str, space: str, backend: str | None) -> Record:
    model = adapter.build_model(name, space, backend)
    logits, hidden = adapter.run_model(model)
    record = {"logits": _summary(logits), "hidden": _summary(hidden), **_gradients(logits, adapter.parameters(model))}
    return {**record, "losses": _rounded(adapter.first_losses(model))}


def _bench() -> Record:
    """The keys of the report, the names of what is compared left out."""
    found: set[str] = set()

    def walk(value: Any, path: str) -> None:
        found.add(path)
        if isinstance(value, dict) and path != "absent":  # what cannot run here is no part of the form
            named = path.rpartition(".")[2] in ("versions", "contestants", "layers", "growth", "steps", "over_gats")
            for key, part in value.items():
                walk(part, f"{path}.{'*' if named else key}")
        elif isinstance(value, list):
            for part in value:
                walk(part, f"{path}[]")

    for key, part in adapter.bench_report().items():
        walk(part, key)
    return dict.fromkeys(sorted(found), "there")


def _run(folder: pathlib.Path) -> Record:
    logits, hidden = adapter.run_model(adapter.load_model(folder))
    return {"logits": _summary(logits), "hidden": _summary(hidden)}


def _seeded(name: str, space: str) -> Record:
    losses = adapter.first_losses(adapter.build_model(name, space, None, seed=0))
    torch.manual_seed(0)
    drawn = torch.nn.functional.dropout(torch.rand(64, dtype=torch.float64), 0.5)  # enough to be drawn in vectors
    return {"losses": _rounded(losses), STREAM: _summary(drawn)}


def _layer(case: Layer, space: str, backend: str | None) -> Record:
    layer = adapter.build_layer(case.kind, space, backend, case.options, features="features" in case.takes)
    v = 0.8 * numbers("x", NODES, 4)
    x = (v if "features" in case.takes else adapter.points(space, v)).requires_grad_()
    given = (v.detach() * (v.detach() > 0)).to_sparse_csr() if case.takes == "sparse features" else x
    edges = EDGES[:, EDGES[1] < DESTINATIONS] if case.block else EDGES
    graph = adapter.make_graph(edges, NODES, DESTINATIONS if case.block else NODES)
    more = {"edge_bias": numbers("edge bias", edges.shape[1])} if case.edge_bias else {}
    y = adapter.run_layer(layer, graph, given, **more)
    record = {"y": _summary(y), **_gradients(y, {"x": x, **adapter.parameters(layer)})}
    if case.kind == "HATConv":
        record["attention"] = _summary(adapter.attention(layer, graph, given, **more))
    return record


def _gradients(y: Tensor, variables: dict[str, Any]) -> Record:
    """Derivatives of one fixed projection of ``y``; 0 by what it does not depend on."""
    if not y.requires_grad:
        return {}
    loss = (y * numbers("loss", *y.shape)).sum()
    found = torch.autograd.grad(loss, list(variables.values()), allow_unused=True, materialize_grads=True)
    return {f"d {name}": _summary(gradient) for name, gradient in zip(variables, found, strict=True)}


def _summary(value: Tensor) -> list[Any]:
    value = value.detach()
    assert value.dtype == torch.float64, f"got {value.dtype}"
    views = [value.norm(), value.sum(), *((value * numbers(place, *value.shape)).sum() for place in ("1st", "2nd"))]
    return ["x".join(map(str, value.shape)) or "number", *_rounded([float(view) for view in views])]


def _rounded(values: list[float]) -> list[float]:
    return [float(f"{value:.12g}") for value in values]
