"""What every layer on a graph takes: weights and attributes of edges, two sets of nodes, a node's own rows."""

from __future__ import annotations

import functools
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter

from hgeo import manifolds
from hgeo.graph import Graph, as_graph, values_unknown
from hgeo.manifolds import describe
from hgeo.nn._inputs import check_features, edge_numbers, linear, read_graph
from hgeo.nn._layer import Layer, carry_factor, choice, coordinates, positive, sized_map

__all__ = ["Attention", "Edges", "FillValue", "GraphLayer"]

FillValue = float | Literal["mean", "add", "min", "max"] | None
_REDUCTIONS = {"mean": "mean", "add": "sum", "min": "amin", "max": "amax"}


class Edges(NamedTuple):
    """A graph as a layer goes through it, and what its caller said of the edges, in the order of ``graph``."""

    graph: Graph  # with the self-loops that the layer adds
    given: Graph  # as the caller gave it
    weight: Tensor | None  # (E, 1), 0 where there is no edge
    attr: Tensor | None  # (E, edge_dim)
    mask: Tensor | None  # (E, 1)


class Attention(NamedTuple):
    """Attention weights of a layer.

    ``edges`` are (E, heads) of the caller's edges, in the caller's order, ``loops`` (num_dst, heads) of the self-loops
    that the layer added: 0 for a node that had one already, whose weight stands among ``edges``.
    """

    edges: Tensor
    loops: Tensor


class GraphLayer(Layer):
    r"""What every layer on a graph takes beside the graph and the features of its nodes.

    Args:
        in_dim: intrinsic dimension of the input; a pair for sources and destinations that have maps of their own; -1
            (also in a pair): found at the first call.
        edge_dim: how many attributes an edge has; None: none.
        add_self_loops: whether a node without a self-loop gets one.
        fill_value: weight and attributes of these self-loops: a number, or what "mean", "add", "min" or "max" makes of
            the edges into the node. None: weight 1, and the mean of the attributes. A number without weights or
            attributes given is a weight beside weights of 1.
        residual: whether a node's input is added to what it aggregates: its coordinates, or, where the dimensions
            differ, a linear map of them.
        self_weight: whether a linear map of its own of the node's input is added to what it aggregates.
    """

    weight: nn.Parameter
    weight_dst: nn.Parameter | None
    weight_self: nn.Parameter | None
    weight_residual: nn.Parameter | None
    weight_edge: nn.Parameter | None
    bias_edge: nn.Parameter | None
    input: str = "points"
    #: the options that a ``repr`` shows where they differ from these
    usual: ClassVar[dict[str, Any]] = {
        "edge_dim": None,
        "add_self_loops": True,
        "fill_value": None,
        "residual": False,
        "self_weight": False,
    }
    #: the maps whose columns say how large an input of sources and of destinations is
    sized_by: ClassVar[tuple[str, str]] = ("weight", "weight_dst")

    def __init__(
        self,
        in_manifold: Any,
        manifold: Any,
        in_dim: int | tuple[int, int],
        out_dim: int | None,
        edge_dim: int | None = None,
        add_self_loops: bool = True,
        fill_value: FillValue = None,
        residual: bool = False,
        self_weight: bool = False,
    ) -> None:
        dims = in_dim if isinstance(in_dim, tuple | list) else (in_dim,)
        if len(dims) > 2:
            raise ValueError(f"{type(self).__name__}: in_dim is a number or a pair of numbers, got {in_dim!r}")
        known = tuple(None if size == -1 and not isinstance(size, bool) else size for size in dims)
        super().__init__(in_manifold, manifold, known[0], out_dim)
        own_name = type(self).__name__
        if known[-1] is not None:
            positive(own_name, "in_dim", known[-1])
        if edge_dim is not None:
            positive(own_name, "edge_dim", edge_dim)
        if isinstance(fill_value, str) or not isinstance(fill_value, int | float | None):
            choice(own_name, "fill_value", fill_value, ("mean", "add", "min", "max"))
        self.dst_dim, self.is_pair = known[-1], len(dims) == 2
        self.edge_dim, self.add_self_loops, self.fill_value = edge_dim, add_self_loops, fill_value
        self.residual, self.self_weight = residual, self_weight

    # --- maps ---

    def make_maps(self, rows: int, own_rows: int) -> None:
        """Make the maps from coordinates that the layer has: ``weight``, and ``weight_dst`` of destinations with a map
        of their own, to ``rows``; ``weight_self`` and ``weight_residual`` to ``own_rows``."""
        self._map_rows = rows, own_rows
        self.weight = sized_map(rows, self.in_dim)
        self.weight_dst = sized_map(rows, self.dst_dim) if self.is_pair else None
        self.weight_self = sized_map(own_rows, self.dst_dim) if self.self_weight else None
        mapped = self.residual and self.dst_dim != own_rows
        self.weight_residual = sized_map(own_rows, self.dst_dim) if mapped else None

    def make_edge_map(self, rows: int, *, gate: bool) -> None:
        """Make the map of the attributes of edges that the layer has: ``weight_edge`` to ``rows``, and ``bias_edge`` of
        one that is a gate."""
        there = self.edge_dim is not None
        self.weight_edge = sized_map(rows, self.edge_dim) if there else None
        self.bias_edge = nn.Parameter(torch.zeros(rows)) if there and gate else None

    @property
    def is_lazy(self) -> bool:
        """Whether a dimension of the input is still to be found."""
        return self.in_dim is None or self.dst_dim is None

    def maps(self) -> list[nn.Parameter]:
        """The maps from coordinates and attributes that there are and whose size is known."""
        named = (self.weight, self.weight_dst, self.weight_self, self.weight_residual, self.weight_edge)
        return [weight for weight in named if weight is not None and not isinstance(weight, UninitializedParameter)]

    def reset_parameters(self) -> None:
        """First values of the parameters, once the dimensions are known."""
        raise NotImplementedError

    def _find_dims(self, src: int, dst: int) -> None:
        """Size the maps for inputs of these intrinsic dimensions."""
        self.in_dim = src if self.in_dim is None else self.in_dim
        self.dst_dim = dst if self.dst_dim is None else self.dst_dim
        self._numbers = self.numbers_of(self.in_dim)
        self.size_maps()

    def size_maps(self) -> None:
        """Give the maps without a size that of the dimensions, which are known now."""
        rows, own_rows = self._map_rows
        if self.dst_dim == own_rows:
            self.weight_residual = None
        for weight, shape in (
            (self.weight, (rows, self.in_dim)),
            (self.weight_dst, (rows, self.dst_dim)),
            (self.weight_self, (own_rows, self.dst_dim)),
            (self.weight_residual, (own_rows, self.dst_dim)),
        ):
            if isinstance(weight, UninitializedParameter):
                weight.materialize(shape)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *more: Any) -> None:
        found, of_dst = (state_dict.get(prefix + name) for name in self.sized_by)
        if self.is_lazy and found is not None and not isinstance(found, UninitializedParameter):
            self._find_dims(found.shape[1], (found if of_dst is None else of_dst).shape[1])
        super()._load_from_state_dict(state_dict, prefix, *more)

    # --- input ---

    def read(
        self,
        graph: Any,
        x: Any,
        *,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        edge_mask: Tensor | None = None,
    ) -> Edges:
        """What the layer is called with, in the order in which it goes through the edges; wrong input is refused."""
        x = self._one_set(x)
        given = read_graph(graph, x)
        if self.is_pair and isinstance(x, Tensor):  # of one set of nodes, which have a map for each of their two sides
            x = x, x if x.shape[0] == given.num_dst else x[: given.num_dst]
            given = read_graph(graph, x)
        src, dst = (x, None) if isinstance(x, Tensor) else x
        self._check_rows(src, dst)
        return self.arranged(given, edge_weight, edge_attr, edge_mask)

    def arranged(
        self,
        graph: Any,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        edge_mask: Tensor | None = None,
    ) -> Edges:
        """A graph with the self-loops that the layer adds, and what the caller said of its edges."""
        name, given = type(self).__name__, as_graph(graph)
        if (edge_attr is None) != (self.edge_dim is None):
            raise ValueError(
                f"{name}: edge_attr is given, but the layer was made without edge_dim: give it edge_dim=…"
                if self.edge_dim is None
                else f"{name}: the layer was made with edge_dim={self.edge_dim}; give it edge_attr of that many numbers"
            )
        looped = given.with_self_loops() if self.add_self_loops else given
        attr = edge_numbers("edge_attr", edge_attr, given, self.edge_dim or 1, one_will_do=False)
        weight = edge_numbers("edge_weight", edge_weight, given, 1)
        mask = edge_numbers("edge_mask", edge_mask, given, 1)
        if weight is not None:
            weight = weight.to(self.weight.dtype)
            _check_weights(name, weight)
        fill = self.fill_value
        if weight is None and attr is None and isinstance(fill, int | float) and fill != 1 and self.add_self_loops:
            weight = self.weight.new_ones(given.num_edges_given, 1)
        if weight is not None:
            weight = looped.from_caller_order(weight, _filled(given, weight, 1.0 if fill is None else fill))
            weight = looped.without_padding(weight, 0.0)
        if attr is not None:
            attr = looped.from_caller_order(attr, _filled(given, attr, "mean" if fill is None else fill))
        if mask is not None:
            mask = looped.from_caller_order(mask, 1.0)
        return Edges(looped, given, weight, attr, mask)

    def _one_set(self, x: Any) -> Any:
        """One tensor given twice, as heterogeneous containers do for edges among one kind of nodes, is one set."""
        twice = isinstance(x, tuple) and len(x) == 2 and x[0] is x[1] and not self.is_pair
        return x[0] if twice else x

    def _check_rows(self, src: Tensor, dst: Tensor | None) -> None:
        if self.is_lazy:
            self._find_dims(*(self._dim_of(rows) for rows in (src, src if dst is None else dst)))
            self.reset_parameters()
        check_features(self, src, self._read_numbers(self.in_dim), self.weight)
        if dst is not None:
            check_features(self, dst, self._read_numbers(self.dst_dim), self.weight)

    def _dim_of(self, rows: Tensor) -> int:
        """The intrinsic dimension of rows of features."""
        plain = self.input == "tangent" or self.in_manifold is None
        return rows.shape[-1] if plain else manifolds.intrinsic_dim(self.in_manifold, rows.shape[-1])

    def _read_numbers(self, dim: int | None) -> int:
        assert dim is not None
        return dim if self.input == "tangent" else self.numbers_of(dim)

    # --- rows ---

    def coordinates(self, x: Tensor) -> Tensor:
        """What the maps multiply: tangent coordinates at the origin, of the length that they have on ``manifold``."""
        v = x if self.input == "tangent" else coordinates(self.in_manifold, x)
        factor = carry_factor(self.in_manifold, self.manifold)
        return v if factor == 1 else v * factor

    def rows(self, x: Tensor | tuple[Tensor, Tensor], edges: Edges) -> tuple[Tensor, Tensor | None]:
        """W v of all nodes of ``edges.graph`` (num_src, rows), and what each destination adds of its own.

        The latter is (num_dst, own rows), or None.
        """
        x = self._one_set(x)
        src, dst = (x, None) if isinstance(x, Tensor) else x
        v = self.coordinates(src)
        v_dst = v if dst is None else self.coordinates(dst)
        # Autocast may multiply in a lower precision; the geometry goes on in that of the weights.
        dtype, u = self.weight.dtype, linear(v, self.weight)
        if dst is not None or self.is_pair:
            of_dst = linear(v_dst, self.weight if self.weight_dst is None else self.weight_dst)
            u = torch.cat([of_dst[: edges.graph.num_dst], u])
        own = None
        for wanted, weight in ((self.self_weight, self.weight_self), (self.residual, self.weight_residual)):
            if wanted:
                part = linear(v_dst, weight) if weight is not None else v_dst
                part = part.to_dense() if part.layout != torch.strided else part
                own = part if own is None else own + part
        return u.to(dtype), None if own is None else own[: edges.graph.num_dst].to(dtype)

    def edge_rows(self, attr: Tensor) -> Tensor:
        """What the layer's map makes of the attributes of edges."""
        assert self.weight_edge is not None
        return linear(attr, self.weight_edge).to(self.weight.dtype)

    def factors(self, edges: Edges, *more: Tensor) -> Tensor | None:
        """(E, 1) factors of the messages: ``more``, weights, gates, masks; None: all are 1.

        The gate of an edge with attributes f is 2 sigmoid(G f + g), at first near 1.
        """
        found = [*more, *(value.to(self.weight.dtype) for value in (edges.weight, edges.mask) if value is not None)]
        if self.bias_edge is not None:
            assert edges.attr is not None
            found.append(2 * torch.sigmoid(self.edge_rows(edges.attr) + self.bias_edge))
        return edges.graph.without_padding(functools.reduce(torch.mul, found), 0.0) if found else None

    def extra_repr(self) -> str:
        """Where the layer leads from and to."""
        source = describe(self.in_manifold, self.in_dim)
        source = f"({source}, {describe(self.in_manifold, self.dst_dim)})" if self.is_pair else source
        shown = [f"{name}={value!r}" for name, usual in self.usual.items() if (value := getattr(self, name)) != usual]
        dim = getattr(self, "output_dim", self.out_dim)
        return ", ".join([f"{source} → {describe(self.manifold, dim)}", *shown])


def _check_weights(layer: str, weight: Tensor) -> None:
    """Weights are looked at where that costs no wait; elsewhere the device stops with the same words."""
    if values_unknown(weight) or torch._C._are_functorch_transforms_active():
        return
    right = (weight >= 0).logical_and(weight < torch.inf).all()
    said = f"{layer}: edge_weight must be finite numbers of at least 0"
    if weight.device.type != "cpu":
        torch._assert_async(right, said)
    elif not bool(right):
        wrong = weight[~((weight >= 0) & (weight < torch.inf))][0]
        raise ValueError(f"{said}, got {float(wrong):g}; for scores of either sign use edge_bias or edge_attr")


def _filled(graph: Graph, values: Tensor, fill: float | str) -> float | Tensor:
    """What a self-loop that a layer adds has: a number, or (num_dst, k) of the (E, k) numbers of a node's edges."""
    if not isinstance(fill, str):
        return float(fill)
    ordered = graph.from_caller_order(values)
    index = graph.row.unsqueeze(-1).expand_as(ordered)
    zeros = ordered.new_zeros(graph.num_dst, ordered.shape[1])
    return zeros.scatter_reduce(0, index, ordered, _REDUCTIONS[fill], include_self=False)
