"""A chain of layers that fits together."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, overload

import torch
from torch import Tensor, nn

from hgeo import manifolds
from hgeo.manifolds import describe

__all__ = ["Sequential"]


class Sequential(nn.Module):
    r"""Layers one after another, :math:`f_n \circ \cdots \circ f_1`, checked when it is built.

    Each layer must take what the one before it gives: the same manifold (one object, or fixed equal curvatures) and the
    same dimension. A plain torch module, which knows nothing of manifolds, may stand where vectors are plain. Nothing
    is inserted: where two layers do not fit, the error names the layer that would join them.

    The graph is handed to the layers whose ``forward`` takes one: first (``forward(graph, x)``, hgeo's and DGL's
    order) or second (``forward(x, edge_index)``, PyG's). Instead of one graph a list of DGL blocks may be given, one a
    graph layer.

    Args:
        layers: the layers, in order.

    Shapes:
        - ``forward(x)`` if no layer needs a graph, else ``forward(graph, x)``

    >>> import torch, hgeo
    >>> ball = hgeo.PoincareBall(c=1.0)
    >>> net = hgeo.nn.Sequential(
    ...     hgeo.nn.GCNConv(8, 4, ball, activation=None),
    ...     hgeo.nn.Activation(torch.relu, ball),
    ...     hgeo.nn.MLR(4, 3, ball),
    ... )
    >>> net
    Sequential(
      (0) GCNConv     R:8         → ball:4,c=1   with the graph
      (1) Activation  ball:4,c=1  → ball:4,c=1
      (2) MLR         ball:4,c=1  → R:3
    )
    >>> net(torch.tensor([[0, 1, 2], [1, 2, 0]]), torch.randn(3, 8)).shape
    torch.Size([3, 3])
    """

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        for place, layer in enumerate(layers):
            if not isinstance(layer, nn.Module):
                hint = "; unpack it: Sequential(*layers)" if isinstance(layer, list | tuple) else f": {layer!r}"
                raise TypeError(f"Sequential: layer {place} is not a module but a {type(layer).__name__}{hint}")
        self.layers = nn.ModuleList(layers)
        self._graph_place = [_graph_place(layer) for layer in layers]
        self._check()

    @property
    def in_manifold(self) -> Any:
        """Where the input lives."""
        return getattr(self.layers[0], "in_manifold", None) if len(self.layers) else None

    @property
    def manifold(self) -> Any:
        """Where the output lives."""
        return getattr(self.layers[-1], "manifold", None) if len(self.layers) else None

    @property
    def in_dim(self) -> int | None:
        """Intrinsic dimension of the input, where a layer fixes it."""
        return self._spaces()[0][1] if len(self.layers) else None

    @property
    def out_dim(self) -> int | None:
        """Intrinsic dimension of the output, where a layer fixes it."""
        return self._spaces()[-1][3] if len(self.layers) else None

    def forward(self, *inputs: Any) -> Tensor:
        """``forward(x)``, or ``forward(graph, x)`` with a graph or a list of blocks."""
        needed = sum(place is not None for place in self._graph_place)
        if len(inputs) != (2 if needed else 1):
            expected = "(graph, x)" if needed else "(x), since no layer needs a graph"
            raise TypeError(f"Sequential: expected {expected}, got {len(inputs)} arguments")
        x = inputs[-1]
        graphs: list[Any] = []
        if needed:
            given = inputs[0]
            graphs = list(given) if isinstance(given, list | tuple) else [given] * needed
            if len(graphs) != needed:
                raise ValueError(f"Sequential: {needed} layers need a graph, got a list of {len(graphs)} blocks")
        left = iter(graphs)
        for layer, place in zip(self.layers, self._graph_place, strict=True):
            if place is None:
                x = layer(x)
            else:
                graph = next(left)
                x = layer(graph, x) if place == 0 else layer(x, graph)
        return x

    def _spaces(self) -> list[tuple[Any, int | None, Any, int | None]]:
        """(in_manifold, in_dim, manifold, out_dim) of each layer; a layer for any dimension has its neighbour's."""
        spaces: list[tuple[Any, int | None, Any, int | None]] = []
        before: int | None = None
        for layer in self.layers:
            in_dim = _first_number(layer, "in_dim", "in_features")
            out_dim = _first_number(layer, "output_dim", "out_dim", "out_features")
            in_dim = before if in_dim is None else in_dim
            out_dim = in_dim if out_dim is None else out_dim
            # Logits are plain numbers.
            target = None if _kind(layer, "output") == "logits" else getattr(layer, "manifold", None)
            spaces.append((getattr(layer, "in_manifold", None), in_dim, target, out_dim))
            before = out_dim
        return spaces

    def _check(self) -> None:
        spaces = self._spaces()
        for place in range(1, len(self.layers)):
            _, _, given, given_dim = spaces[place - 1]
            wanted, wanted_dim, _, _ = spaces[place]
            layer = self.layers[place]
            where = f"Sequential: layer {place}, {type(layer).__name__},"
            here, there = describe(given, given_dim), describe(wanted, wanted_dim)
            if not same_space(given, wanted):
                if not hasattr(layer, "in_manifold"):
                    hint = (
                        f"it knows nothing of {describe(given)}: put FromManifold before it, or use a layer of "
                        "hgeo.nn, for example Activation(function, manifold)"
                    )
                elif wanted is None:
                    hint = "put FromManifold before it, or give it in_manifold"
                elif given is None:
                    hint = "put ToManifold before it"
                elif type(given) is type(wanted):
                    hint = "give both layers one manifold object, which a learnable curvature needs to stay one"
                else:
                    hint = "put Transfer(source, target) before it"
                raise ValueError(f"{where} takes {there}, but layer {place - 1} gives {here}; {hint}")
            gives, takes = _kind(self.layers[place - 1], "output"), _kind(layer, "input")
            if given is not None and gives != takes:
                raise ValueError(
                    f"{where} takes {takes} of {there}, but layer {place - 1} gives {gives}; give one of them "
                    f"another input=… or output=…"
                )
            if given_dim is not None and wanted_dim is not None and given_dim != wanted_dim:
                raise ValueError(f"{where} takes {there}, but layer {place - 1} gives {here}: the dimensions differ")

    @overload
    def __getitem__(self, place: int) -> nn.Module: ...
    @overload
    def __getitem__(self, place: slice) -> Sequential: ...
    def __getitem__(self, place: int | slice) -> nn.Module:
        if isinstance(place, slice):
            return Sequential(*list(self.layers)[place])
        return self.layers[place]

    def __len__(self) -> int:
        return len(self.layers)

    def __iter__(self) -> Iterator[nn.Module]:
        return iter(self.layers)

    def __repr__(self) -> str:
        rows = []
        for place, (layer, space) in enumerate(zip(self.layers, self._spaces(), strict=True)):
            source, target = describe(space[0], space[1]), describe(space[2], space[3])
            rows.append((f"({place})", type(layer).__name__, source, target, self._graph_place[place] is not None))
        widths = [max((len(str(row[column])) for row in rows), default=0) for column in range(4)]
        lines = []
        for number, name, source, target, with_graph in rows:
            line = f"  {number:<{widths[0]}} {name:<{widths[1]}}  {source:<{widths[2]}}  → "
            lines.append(line + (f"{target:<{widths[3]}}   with the graph" if with_graph else target))
        return "\n".join(["Sequential(", *lines, ")"]) if lines else "Sequential()"


def _graph_place(layer: nn.Module) -> int | None:
    """Which argument of ``forward`` is the graph, going by its name: 0 in hgeo's and DGL's layers, 1 in PyG's."""
    if isinstance(layer, Sequential):
        return None if all(place is None for place in layer._graph_place) else 0
    names = list(inspect.signature(layer.forward).parameters)
    if names and names[0] in ("graph", "g", "block"):
        return 0
    return 1 if len(names) > 1 and names[1] in ("edge_index", "adj_t") else None


def _kind(layer: nn.Module, side: str) -> str:
    """What a layer takes ("input") or gives ("output"): "points", or their "tangent" coordinates."""
    if isinstance(layer, Sequential):
        return _kind(layer.layers[0 if side == "input" else -1], side) if len(layer) else "points"
    return str(getattr(layer, side, "points"))


def _first_number(layer: nn.Module, *names: str) -> int | None:
    """The first of these attributes that a layer has, if it is one number."""
    value = next((getattr(layer, name) for name in names if hasattr(layer, name)), None)
    return value if isinstance(value, int) else None


def same_space(one: Any, other: Any) -> bool:
    """Whether points of one may be read as points of the other: one object, or equal and unable to drift apart.

    Euclidean points are plain vectors.
    """
    if one is other or all(m is None or manifolds.geometry(m).is_plain(m) for m in (one, other)):
        return True
    if one is None or other is None:
        return False
    inside, outside = manifolds.factors(one), manifolds.factors(other)
    if inside and outside:
        pairs = zip(inside, outside, strict=False)
        return len(inside) == len(outside) and all(p == q and same_space(m, mm) for (m, p), (mm, q) in pairs)
    if type(one) is not type(other):
        return False
    parameters = [*one.parameters(), *other.parameters()]
    if any(parameter.requires_grad for parameter in parameters):
        return False
    mine, theirs = one.state_dict(), other.state_dict()
    return mine.keys() == theirs.keys() and all(torch.equal(mine[name], theirs[name]) for name in mine)
