"""Is the network still talking? Points at the limit of their space, and attention that looks only at itself."""

from __future__ import annotations

import contextlib
import copy
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn

from hgeo._geoopt import geoopt
from hgeo.data import Dataset
from hgeo.manifolds import curvature, fold, geometry, log0, parts

__all__ = ["Health", "attention_entropy", "curvature_reader", "curvatures", "inspect", "layer_attentions"]

_MANY_AT_LIMIT = 0.5
_MANY_TURNED = 0.25
_LITTLE_ENTROPY = 0.05


@dataclass(frozen=True)
class Health:
    """How far out the points are, and how widely attention is spread, in the layer that is worst off.

    ``at_limit``: share of hidden points at the largest radius that the dtype can hold (the last layer's radii are the
    confidence of its logits, and no distance is taken there). ``turned``: share of rows that a positively curved space
    turns back, because they are longer than half of a great circle. ``entropy``: entropy of the attention
    weights of a node, divided by the logarithm of how many there are, averaged: 1 is uniform, 0 looks at one node only.
    ``layer`` (from 1 on) of ``layers`` that attend is the one with this entropy. ``None`` where a model has no such
    layer.
    """

    at_limit: float | None = None
    entropy: float | None = None
    max_radius: float | None = None
    layer: int | None = None
    layers: int | None = None
    turned: float | None = None

    def warning(self) -> str | None:
        """A sentence when something has stopped working, else None. Its first word tells what."""
        if self.at_limit is not None and self.at_limit > _MANY_AT_LIMIT:
            return (
                f"saturated: {self.at_limit:.0%} of the hidden points are at the radius limit of their dtype, or near "
                "the opposite pole of a sphere, where distances say nothing any more. Try a smaller learning rate, "
                "more weight decay, a smaller curvature, or --dtype float64."
            )
        if self.turned is not None and self.turned > _MANY_TURNED:
            return (
                f"turned back: {self.turned:.0%} of the rows of a layer are longer than half of a great circle, so "
                "that their points lie on the way back from the opposite pole: a step outwards moves them inwards. Try "
                "a smaller learning rate, more weight decay, a smaller curvature, or output='logits' where rows are "
                "read as numbers."
            )
        if self.entropy is not None and self.entropy < _LITTLE_ENTROPY:
            where = "" if self.layer is None else f" of layer {self.layer} of {self.layers}"
            return (
                f"collapsed: attention{where} (mean entropy {self.entropy:.3f} of 1) looks at one neighbour or only "
                "at the node itself; aggregation has stopped there. Nothing is lost where the other layers "
                "aggregate enough, or features alone do (compare --model mlp); else try a smaller beta, attention "
                "dropout, or self_score='mean'."
            )
        return None


def curvatures(model: nn.Module) -> list[float]:
    """Signed curvature of every space of constant curvature but plain Euclidean in the model, each once, in order."""
    return curvature_reader(model)()


def curvature_reader(model: nn.Module) -> Callable[[], list[float]]:
    """:func:`curvatures` for a loop: manifolds are looked up once, and only curvatures that learn are read again."""
    found = {id(manifold): manifold for module in model.modules() for manifold in _manifolds(module)}
    curved = [m for m in found.values() if curvature(m) is not None and not geometry(m).is_plain(m)]
    # What keeps the numbers of another space (the ball inside a scaled one) is not a space of the model's own.
    inner = {id(part) for m in curved for part in m.modules() if part is not m}
    curved = [m for m in curved if id(m) not in inner]
    learns = [any(parameter.requires_grad for parameter in manifold.parameters()) for manifold in curved]

    def read(manifold: Any) -> float:
        k = curvature(manifold)
        return float("nan") if k is None else float(k.detach())

    fixed = [None if moves else read(manifold) for manifold, moves in zip(curved, learns, strict=True)]

    def current() -> list[float]:
        return [read(manifold) if value is None else value for manifold, value in zip(curved, fixed, strict=True)]

    return current


def _manifolds(module: nn.Module) -> Iterator[Any]:
    if isinstance(module, geoopt.Manifold):
        yield module
    for parameter in module.parameters(recurse=False):
        if isinstance(parameter, geoopt.ManifoldParameter):
            yield parameter.manifold


@torch.no_grad()
def inspect(model: nn.Module, graph: Any, features: Tensor) -> Health:
    """Look at every layer of ``model`` that names a ``manifold``: one forward pass, no gradients, evaluation mode."""
    with _evaluating(model):
        seen = _calls(model, graph, features)
        hidden = seen[:-1] if len(seen) > 1 else seen
        rows = [(layer.manifold, _rows(layer, output)) for layer, _, output in hidden]
        limits = [found for manifold, row in rows if (found := _share_at_limit(manifold, row))]
        turned = [share for layer, inputs, _ in seen if (share := _share_turned(layer, inputs)) is not None]
        entropies = [
            entropy
            for layer, inputs, _ in seen
            if _attends(layer) and (entropy := attention_entropy(inputs[0], _attention(layer, inputs))) is not None
        ]
    worst = min(range(len(entropies)), key=entropies.__getitem__, default=None)
    return Health(
        at_limit=max((share for share, _ in limits), default=None),
        max_radius=max((radius for _, radius in limits), default=None),
        turned=max(turned, default=None),
        entropy=None if worst is None else entropies[worst],
        layer=None if worst is None else worst + 1,
        layers=None if worst is None else len(entropies),
    )


@torch.no_grad()
def layer_attentions(model: nn.Module, dataset: Dataset) -> list[tuple[Tensor, Tensor]]:
    """Attention weights of every layer that can return them, in the order in which the model calls them.

    Each is the weights of the edges of ``dataset.edge_index``, in their order, and of the added self-loops.
    """
    with _evaluating(model):
        seen = _calls(model, dataset.graph, dataset.features)
        return [_attention(layer, inputs) for layer, inputs, _ in seen if _attends(layer)]


@contextlib.contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)


def _calls(model: nn.Module, graph: Any, features: Tensor) -> list[tuple[Any, tuple[Any, ...], Any]]:
    """(layer, inputs, output) of each call of a layer that names a manifold, in one forward pass."""
    seen: list[tuple[Any, tuple[Any, ...], Any]] = []
    handles = [
        module.register_forward_hook(lambda module, inputs, output: seen.append((module, inputs, output)))
        for module in model.modules()
        if module is not model and getattr(module, "manifold", None) is not None
    ]
    try:
        model(graph, features)
    finally:
        for handle in handles:
            handle.remove()
    return seen


def _attends(layer: nn.Module) -> bool:
    """Whether a layer can be asked for its attention; one that has some by an option only says so by ``attends``."""
    return "return_attention" in signature(layer.forward).parameters and getattr(layer, "attends", True)


def _attention(layer: nn.Module, inputs: tuple[Any, ...]) -> tuple[Tensor, Tensor]:
    _, (edges, loops) = layer(inputs[0], inputs[1], return_attention=True)
    return edges, loops


def _rows(layer: Any, output: Any) -> Tensor | None:
    """Tangent rows of a layer's output; None where there are none to look at."""
    if not isinstance(output, Tensor) or output.numel() == 0 or geometry(layer.manifold).is_plain(layer.manifold):
        return None
    return output if getattr(layer, "output", "points") != "points" else log0(layer.manifold, output)


def _share_at_limit(manifold: Any, rows: Tensor | None) -> tuple[float, float] | None:
    """Share of rows that are at the end of their space in some factor, and the largest √c|x| on the ball.

    The end is ten times as far from the boundary as the limit of the dtype where curvature is negative (√c|log0 x| >
    6.2 on the ball in float32), and the last twentieth of the way to the opposite pole where it is positive.
    """
    pieces = None if rows is None else parts(manifold, rows.shape[-1])
    if rows is None or pieces is None:
        return None
    furthest = fold(manifold, rows.new_full((rows.shape[-1],), 1e4))  # where curvature is negative, points end there
    at_end, largest = torch.zeros(rows.shape[:-1], dtype=torch.bool, device=rows.device), 0.0
    for part in pieces:
        k = float(part.curvature)
        unit = abs(k) ** 0.5 * part.scale / 2
        radius = unit * rows[..., part.coordinates].norm(dim=-1)
        limit = unit * float(furthest[part.coordinates].norm()) - 1.2 if k < 0 else 0.95 * math.pi / 2
        at_end |= radius >= limit
        largest = max(largest, float(radius.max().tanh()))
    return float(at_end.double().mean()), largest


def _share_turned(layer: Any, inputs: tuple[Any, ...]) -> float | None:
    """Share of rows that were longer than half of a great circle before they became points; None: none can be."""
    finish = getattr(layer, "finish", None)
    if finish is None or finish.output == "logits":
        return None
    twin = copy.copy(layer)
    twin.finish = replace(finish, output="logits")
    rows = twin(*inputs)
    spheres = [part for part in parts(layer.manifold, rows.shape[-1]) or () if float(part.curvature) > 0]
    beyond = [
        float(part.curvature) ** 0.5 * part.scale / 2 * rows[..., part.coordinates].norm(dim=-1) > math.pi / 2
        for part in spheres
    ]
    return max((float(share.double().mean()) for share in beyond), default=None)


def attention_entropy(graph: Any, attention: tuple[Tensor, Tensor]) -> float | None:
    """H(α_i) / log(|N_i| + 1), averaged over the nodes that have neighbours and over heads."""
    from hgeo.graph import as_graph

    view = as_graph(graph)
    edges, loops = attention
    destination = torch.empty_like(view.row).scatter_(0, view.perm, view.row)
    surprise = -torch.special.xlogy(edges, edges)
    entropy = -torch.special.xlogy(loops, loops)
    entropy = entropy.index_add(0, destination, surprise)
    count = torch.bincount(destination, minlength=view.num_dst).to(edges.dtype) + 1
    several = count > 1
    if not bool(several.any()):
        return None
    return float((entropy[several] / count[several].log().unsqueeze(-1)).mean())
