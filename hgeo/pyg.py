"""The graph layers of ``hgeo.nn`` in PyTorch Geometric's style: ``MessagePassing``, called ``conv(x, edge_index)``.

Options, numbers and state dicts are those of ``hgeo.nn``; what differs is how a layer is called. A layer that is given
no manifold is curved inside only, so that it stands where a PyG layer stood: numbers in, numbers out (tangent
coordinates at the origin of the unit ball), no activation of its own, and of a HATConv β = 0.1, for with the paper's 1
attention soon falls on the node itself.

>>> import torch
>>> from hgeo.pyg import HATConv
>>> conv = HATConv(8, 4, heads=2)
>>> x, edge_index = torch.randn(3, 8), torch.tensor([[0, 1, 2], [1, 2, 0]])
>>> conv(x, edge_index).shape
torch.Size([3, 8])
>>> y, (edges, alpha) = conv(x, edge_index, return_attention_weights=True)
>>> edges.shape, alpha.shape  # behind the given edges stand the self-loops that the layer added
(torch.Size([2, 6]), torch.Size([6, 2]))
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import Module

from hgeo import manifolds, nn
from hgeo.graph import Graph, as_graph

try:
    from torch_geometric import EdgeIndex
    from torch_geometric.nn import MessagePassing
    from torch_geometric.typing import SparseTensor  # a class without instances where torch_sparse is missing
except ImportError as error:
    raise ImportError(
        f"hgeo.pyg needs PyTorch Geometric, but torch_geometric cannot be imported ({type(error).__name__}: {error}): "
        f"pip install torch-geometric. The same layers without it are in hgeo.nn, called layer(edge_index, x)"
    ) from error

__all__ = ["GCNConv", "HATConv", "LorentzConv", "SAGEConv"]

_FLOWS = ("source_to_target", "target_to_source")


class _InPyG:
    """What makes a PyG layer of a graph layer of ``hgeo.nn``: PyG's arguments are read, PyG's answers are given.

    Among the bases of a class it stands before the layer and ``MessagePassing``, and is all that such a class needs.
    """

    _takes: frozenset[str]  # what the layer's own forward takes
    # PyG's words, and what they are here
    _words: ClassVar[dict[str, Callable[[Any], dict[str, Any]]]] = {}
    # the options of a layer that is given no manifold
    _curved_inside: ClassVar[dict[str, Any]] = {"output": "tangent", "activation": None}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        layer = next(base for base in cls.__mro__ if issubclass(base, Module) and not issubclass(base, _InPyG))
        cls._takes = frozenset(inspect.signature(layer.forward).parameters)

    def __init__(
        self,
        in_channels: int | tuple[int, int],
        out_channels: int,
        manifold: Any = None,
        *,
        flow: str = "source_to_target",
        **options: Any,
    ) -> None:
        if flow not in _FLOWS:
            raise ValueError(f"{type(self).__name__}: flow must be one of {', '.join(map(repr, _FLOWS))}, got {flow!r}")
        if "heads" in self._words and isinstance(manifold, int):  # as PyG's layers of several heads are called
            manifold, options = None, options | self._words["heads"](manifold)
        if manifold is None:
            usual = _InPyG._curved_inside if "score" in options else self._curved_inside  # a score brings its own β
            manifold, options = manifolds.PoincareBall(), usual | options
        for word in self._words.keys() & options.keys():
            options |= self._words[word](options.pop(word))
        super().__init__(in_channels, out_channels, manifold, **options)  # type: ignore[call-arg]
        self.flow = flow

    def forward(
        self,
        x: Any,
        edge_index: Any,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        size: tuple[int, int] | None = None,
        return_attention_weights: bool | None = None,
    ) -> Any:
        """The layer's output for the target nodes; with ``return_attention_weights`` also ``(edge_index, alpha)``.

        Args:
            x: (nodes, in_channels), or a pair of such, of source and of target nodes.
            edge_index: (2, E) tensor or ``EdgeIndex``, sources first; or the transposed adjacency ``adj_t`` as a torch
                sparse tensor or a ``SparseTensor``, whose values are the edge weights if none are given.
            edge_weight: (E,) of the given edges.
            edge_attr: (E, edge_dim) of the given edges.
            size: (sources, targets) of the graph; the targets are the first sources, if ``x`` is no pair.
            return_attention_weights: the edges are the given ones in their order, behind them the self-loops that the
                layer added; for a sparse adjacency it is the adjacency of them with the weights as values.
        """
        name = type(self).__name__
        graph, values = _read(name, x, edge_index, size, self.flow)
        if edge_weight is not None and edge_weight.dim() == 2 and edge_weight.shape[1] > 1:
            raise ValueError(
                f"{name}: edge_weight has shape {tuple(edge_weight.shape)}; several numbers an edge are attributes: "
                f"give them as edge_attr=… to a layer with edge_dim={edge_weight.shape[1]}"
            )
        given = {"edge_weight": edge_weight, "edge_attr": edge_attr}
        if edge_weight is None and edge_attr is None and values is not None and "edge_weight" in self._takes:
            given["edge_weight"] = values
        if self.explain:  # type: ignore[attr-defined]  # an explainer looks which edges matter
            mask = self._edge_mask  # type: ignore[attr-defined]
            given["edge_mask"] = mask.sigmoid() if self._apply_sigmoid else mask  # type: ignore[attr-defined]
        given = {word: value for word, value in given.items() if value is not None}
        asked = {word: True for word in ("return_attention",) if return_attention_weights}
        for word in (*given, *asked):
            if word not in self._takes:
                raise TypeError(f"{name} knows no {word.replace('return_attention', 'attention weights')}")
        answer = super().forward(graph, x, **given, **asked)  # type: ignore[misc]
        if not asked:
            return answer
        y, attention = answer
        read = as_graph(graph, x.shape[0] if isinstance(x, Tensor) else tuple(rows.shape[0] for rows in x))
        looped = read.with_self_loops() if self.add_self_loops else read  # type: ignore[attr-defined]
        return y, _as_given(name, edge_index, looped, attention)

    @property
    def in_channels(self) -> Any:
        """PyG's word for ``in_dim``; -1 until it is found."""
        dims = (self.in_dim, getattr(self, "dst_dim", None))  # type: ignore[attr-defined]
        known = tuple(-1 if dim is None else dim for dim in dims)
        return known if getattr(self, "is_pair", False) else known[0]

    @property
    def out_channels(self) -> Any:
        """PyG's word for ``out_dim``, the dimension of a head."""
        return self.out_dim  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.extra_repr()})"  # type: ignore[attr-defined]


def _as_point(said: Any) -> dict[str, Any]:
    """PyG's word on a bias; ours is a point of the manifold."""
    return {"bias": {True: "point", False: "none"}.get(said, said)}


class HATConv(_InPyG, nn.HATConv, MessagePassing):  # type: ignore[misc]  # forward takes what PyG's takes
    """:class:`hgeo.nn.HATConv` in PyG's style; see there for the equations and the options.

    >>> import torch, hgeo
    >>> conv = hgeo.pyg.HATConv(8, 4, hgeo.PoincareBall(), heads=2)
    >>> conv(torch.randn(3, 8), torch.tensor([[0, 1, 2], [1, 2, 0]])).shape
    torch.Size([3, 8])
    """

    _curved_inside = _InPyG._curved_inside | {"beta": 0.1}
    _words: ClassVar[dict[str, Callable[[Any], dict[str, Any]]]] = {
        "heads": lambda count: {"heads": count},
        "concat": lambda said: {"merge": "concat" if said else "mean"},
        "dropout": lambda share: {"attn_drop": share},
        "bias": lambda said: {"bias": {True: "tangent", False: "none"}.get(said, said)},
    }


class GCNConv(_InPyG, nn.GCNConv, MessagePassing):  # type: ignore[misc]
    """:class:`hgeo.nn.GCNConv` in PyG's style; see there for the equations and the options.

    >>> import torch, hgeo
    >>> conv = hgeo.pyg.GCNConv(8, 4, hgeo.PoincareBall())
    >>> conv(torch.randn(3, 8), torch.tensor([[0, 1, 2], [1, 2, 0]])).shape
    torch.Size([3, 4])
    """

    _words: ClassVar[dict[str, Callable[[Any], dict[str, Any]]]] = {
        "bias": _as_point,
        "improved": lambda said: {"fill_value": 2.0} if said else {},
        "normalize": lambda said: {} if said else {"norm": "sum"},
        "cached": lambda said: {},  # what a graph is turned into is kept with it, and made anew when it changes
    }


class LorentzConv(_InPyG, nn.LorentzConv, MessagePassing):  # type: ignore[misc]
    """:class:`hgeo.nn.LorentzConv` in PyG's style; see there for the equations and the options.

    >>> import torch, hgeo
    >>> conv = hgeo.pyg.LorentzConv(8, 4, hgeo.Lorentz())
    >>> conv(torch.randn(3, 8), torch.tensor([[0, 1, 2], [1, 2, 0]])).shape
    torch.Size([3, 5])
    """

    _curved_inside: ClassVar[dict[str, Any]] = {"output": "spatial"}


class SAGEConv(_InPyG, nn.SAGEConv, MessagePassing):  # type: ignore[misc]
    """:class:`hgeo.nn.SAGEConv` in PyG's style; see there for the equations and the options.

    >>> import torch, hgeo
    >>> conv = hgeo.pyg.SAGEConv(8, 4, hgeo.PoincareBall())
    >>> conv(torch.randn(3, 8), torch.tensor([[0, 1, 2], [1, 2, 0]])).shape
    torch.Size([3, 4])
    """

    _words: ClassVar[dict[str, Callable[[Any], dict[str, Any]]]] = {
        "bias": _as_point,
        "aggr": lambda word: {} if word == "mean" else {"aggregate": word},
        "root_weight": lambda said: {"self_weight": said},
    }


def _read(
    name: str, x: Any, edge_index: Any, size: tuple[int | None, int | None] | None, flow: str
) -> tuple[Tensor | Graph, Tensor | None]:
    """What ``hgeo.nn`` takes as a graph, and the values of a sparse adjacency, in the order of its edges."""
    if isinstance(x, dict) or isinstance(edge_index, dict):
        raise TypeError(
            f"{name}: a heterogeneous graph needs a layer an edge type: put it into PyG's HeteroConv, or the model "
            f"through to_hetero"
        )
    if isinstance(x, Tensor) and not x.is_floating_point() and isinstance(edge_index, Tensor | SparseTensor):
        raise TypeError(f"{name}: x is a {x.dtype} tensor; the layers of hgeo.pyg are called conv(x, edge_index)")
    if isinstance(x, tuple) and (len(x) != 2 or not all(isinstance(rows, Tensor) for rows in x)):
        kinds = ", ".join(type(rows).__name__ for rows in x)
        raise TypeError(
            f"{name}: a pair is (features of sources, features of targets), got ({kinds}); the layers of hgeo.pyg know "
            f"no targets without features, for these are points as well: give them zeros"
        )
    sources, targets = (x.shape[0], None) if isinstance(x, Tensor) else (rows.shape[0] for rows in x)
    if isinstance(edge_index, SparseTensor) or (isinstance(edge_index, Tensor) and edge_index.layout != torch.strided):
        if flow != "source_to_target":
            raise ValueError(f"{name}: a sparse adjacency is read by flow='source_to_target'; hand in its transpose")
        if isinstance(edge_index, SparseTensor):
            edge_index = edge_index.to_torch_sparse_csr_tensor()
        return edge_index, _values(edge_index)
    if isinstance(edge_index, EdgeIndex):
        size, edge_index = size or edge_index.sparse_size(), edge_index.as_tensor()
    if not isinstance(edge_index, Tensor) or edge_index.is_floating_point() or edge_index.shape[:-1] != (2,):
        given = f"{edge_index.dtype} {tuple(edge_index.shape)}" if isinstance(edge_index, Tensor) else type(edge_index)
        raise TypeError(
            f"{name}: edge_index must be integer node ids (2, E), an EdgeIndex, a torch sparse adjacency or a "
            f"SparseTensor, got {given}; the layers of hgeo.pyg are called conv(x, edge_index)"
        )
    if flow != "source_to_target":
        edge_index, size = edge_index.flip(0), size and (size[1], size[0])
    for what, said, rows in zip(("sources", "targets"), size or (None, None), (sources, targets), strict=True):
        if rows is not None and said not in (None, rows):
            raise ValueError(f"{name}: size says that there are {said} {what}, x has {rows} rows")
    said = size[1] if size else None
    if targets is not None or said in (None, sources):
        return edge_index, None
    return Graph(edge_index[0], edge_index[1], num_src=sources, num_dst=said), None


def _values(adjacency: Tensor) -> Tensor | None:
    """The values of a sparse adjacency in the order of its edges; None: all are 1."""
    values = adjacency._values() if adjacency.layout == torch.sparse_coo else adjacency.values()
    plain = not values.requires_grad and not torch.compiler.is_compiling() and bool((values == 1).all())
    return None if plain else values


def _as_given(name: str, edge_index: Any, looped: Graph, attention: nn.Attention) -> Any:
    """``(edge_index, alpha)`` of the graph with self-loops, in the form in which the graph was given.

    ``alpha`` has a row a given edge, then one a loop that was added.
    """
    if isinstance(edge_index, Tensor) and edge_index.layout == torch.strided:
        added = looped.perm[looped.perm >= looped.num_edges_given].sort().values - looped.num_edges_given
        edges = torch.cat([torch.Tensor.as_subclass(edge_index, Tensor), added.expand(2, -1)], dim=1)
        return edges, torch.cat([attention.edges, attention.loops[added]])
    apart = looped.num_src != (edge_index.size(1) if isinstance(edge_index, SparseTensor) else edge_index.shape[1])
    if apart and looped.num_edges > looped.num_edges_given:
        raise ValueError(
            f"{name}: the self-loops of targets have no place in an adjacency of two sets of nodes; use an edge_index, "
            f"or a layer with add_self_loops=False"
        )
    alpha = torch.cat([attention.edges, attention.loops])[looped.perm]
    col = looped.col - looped.num_dst if apart else looped.col
    sizes = (looped.num_dst, looped.num_src - looped.num_dst if apart else looped.num_src)
    if isinstance(edge_index, SparseTensor):
        return SparseTensor(row=looped.row, col=col, value=alpha, sparse_sizes=sizes, is_sorted=True)
    shape = (*sizes, *alpha.shape[1:])
    if edge_index.layout == torch.sparse_csr:
        return torch.sparse_csr_tensor(looped.rowptr, col, alpha, shape), alpha
    if edge_index.layout == torch.sparse_csc:
        colptr, row, place = looped.csc
        colptr = colptr[looped.num_dst :] if apart else colptr
        return torch.sparse_csc_tensor(colptr, row, alpha[place], shape), alpha[place]
    adjacency = torch.sparse_coo_tensor(torch.stack([looped.row, col]), alpha, shape).coalesce()
    return adjacency, adjacency.values()
