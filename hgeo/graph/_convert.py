"""Every graph format a caller may hold, as one :class:`Graph`, converted once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from hgeo.graph._graph import Graph, check_range, edge_ends, lasting, values_unknown

if TYPE_CHECKING:
    import dgl
    import scipy.sparse

__all__ = ["GraphLike", "as_graph"]

GraphLike: TypeAlias = "Graph | Tensor | scipy.sparse.sparray | scipy.sparse.spmatrix | dgl.DGLGraph"
"""What :func:`as_graph` reads."""

# A conversion lives as long as the object it was made from. Beside the Graph stands what shows that the object still is
# what it was: (evidence, Graph).
_conversions = WeakIdKeyDictionary()


# Sources and destinations of a graph between two sets of nodes.
_Pair = tuple[int, int]


def as_graph(obj: GraphLike, num_nodes: int | _Pair | None = None) -> Graph:
    r"""``obj`` as a :class:`Graph`.

    Accepted: a homogeneous ``DGLGraph``; a DGL block (its destinations are its first sources); ``edge_index`` (2, E)
    with sources first; a torch or scipy sparse adjacency with *row = destination, column = source* (its pattern counts,
    not its values); a ``Graph``.

    The conversion is kept as long as ``obj`` lives and is made again when ``obj`` was edited: a DGL graph gets a new
    index object at every edit, a tensor counts its in-place writes, a scipy matrix or the parts of a sparse tensor are
    compared with what they were. (Writes that go around torch's counter, through ``numpy()`` or ``.data``, cannot be
    seen in an ``edge_index``; pass a fresh tensor after such an edit.)

    Args:
        obj: the graph.
        num_nodes: number of sources; needed with ``edge_index`` when the last nodes are isolated, checked with others.
            A pair (sources, destinations) says that these are two sets of nodes, and that an edge goes from the one to
            the other; a DGL graph between two kinds of nodes can be read so, too. The nodes of the answer are the
            destinations, and behind them the sources.

    Example:
        >>> import torch
        >>> from hgeo.graph import as_graph
        >>> edge_index = torch.tensor([[0, 1, 2], [1, 2, 0]])
        >>> as_graph(edge_index) is as_graph(edge_index)
        True
        >>> as_graph(edge_index, (3, 5))
        Graph(8 sources, 5 destinations, 3 edges, cpu)
    """
    pair = None if num_nodes is None or isinstance(num_nodes, int) else num_nodes
    if isinstance(obj, Graph):
        graph = obj if pair is None else _apart(obj, pair)
    elif isinstance(obj, Tensor):
        graph = _from_tensor(obj, num_nodes)
    elif _from_package(obj, "dgl"):
        graph = _from_dgl(obj, pair)
    elif _from_package(obj, "scipy"):
        graph = _from_scipy(obj, pair)
    else:
        raise TypeError(
            f"cannot read a graph from {_described(obj)}; expected a DGLGraph or DGL block, an edge_index tensor "
            f"(2, E), a torch or scipy sparse adjacency (row = destination, column = source), or hgeo.Graph"
        )
    if num_nodes is not None and pair is None and graph.num_src != num_nodes:
        raise ValueError(f"the graph has {graph.num_src} source nodes, but {num_nodes} were expected")
    return graph


def _made(src: Tensor, dst: Tensor, num_src: int, num_dst: int, pair: _Pair | None) -> Graph:
    """The graph of these edges; between two sets, their nodes stand one set behind the other."""
    if pair is None:
        return Graph(src, dst, num_src=num_src, num_dst=num_dst)
    if pair != (num_src, num_dst):
        raise ValueError(
            f"the graph leads from {num_src} sources to {num_dst} destinations, but a pair of {pair[0]} and {pair[1]} "
            f"was expected"
        )
    check_range("source", src, num_src)
    return Graph(src.long() + num_dst, dst, num_src=num_src + num_dst, num_dst=num_dst)


def _apart(graph: Graph, pair: _Pair) -> Graph:
    """A graph whose destinations are its first sources, as one between two sets."""
    if graph.num_edges != graph.num_edges_given:
        raise ValueError("a graph to which self-loops were added leads to its own nodes; give a pair the graph before")
    key, tracing = ("pair", pair), values_unknown(graph.col)
    found: Graph | None = None if tracing else graph.cache.get(key)
    if found is None:
        src, dst = (torch.empty_like(ids).index_copy(0, graph.perm, ids) for ids in (graph.col, graph.row))
        found = _made(src, dst, graph.num_src, graph.num_dst, pair)
        if not tracing:
            graph.cache[key] = found
    return found


def _from_package(obj: Any, package: str) -> bool:
    """Whether the class of ``obj`` comes from ``package``, without importing it."""
    return any(base.__module__.split(".")[0] == package for base in type(obj).__mro__)


def _described(obj: Any) -> str:
    if isinstance(obj, list) and obj and _from_package(obj[0], "dgl"):
        return "a list of DGL graphs (give each layer one of them)"
    if isinstance(obj, dict) or hasattr(obj, "edge_types"):
        return f"a heterogeneous {type(obj).__name__} (put a layer an edge type into PyG's HeteroConv)"
    if isinstance(getattr(obj, "edge_index", None), Tensor):
        return f"a {type(obj).__name__} object (pass its .edge_index)"
    package = type(obj).__module__.split(".")[0]
    return type(obj).__name__ if package == "builtins" else f"{package}'s {type(obj).__name__}"


def _cached(obj: Any, evidence: Any, same: Callable[[Any, Any], bool], make: Callable[[], Graph]) -> Graph:
    entry = _conversions.get(obj)
    if entry is not None and same(entry[0], evidence):
        return entry[1]
    graph = make()
    _conversions[obj] = (evidence, graph)
    return graph


def _from_tensor(obj: Tensor, num_nodes: int | _Pair | None) -> Graph:
    if obj.layout != torch.strided:
        return _from_sparse(obj, num_nodes if isinstance(num_nodes, tuple) else None)
    if obj.is_floating_point() and obj.dim() == 2 and obj.shape[0] == 2:
        raise TypeError(
            f"an edge_index holds integer node ids, got a {obj.dtype} tensor of shape {tuple(obj.shape)}: convert it "
            f"with .long(); or, if these are features, the arguments are swapped: call layer(graph, x), or take the "
            f"layer from hgeo.pyg"
        )
    if obj.is_floating_point() or obj.is_complex():
        raise TypeError(
            f"expected a graph but got a dense {obj.dtype} tensor of shape {tuple(obj.shape)}; "
            f"if these are features, the arguments are swapped: call layer(graph, x), or take the layer from hgeo.pyg"
        )

    def make() -> Graph:
        if not isinstance(num_nodes, tuple):
            return Graph.from_edge_index(obj, num_nodes)
        src, dst = edge_ends(obj)
        return _made(src, dst, *num_nodes, num_nodes)

    if values_unknown(obj) or obj.is_inference():
        return make()
    evidence = (obj._version, obj.data_ptr(), obj.shape, obj.stride(), num_nodes)
    return _cached(obj, evidence, tuple.__eq__, make)


def _from_sparse(obj: Tensor, pair: _Pair | None) -> Graph:
    if obj.dim() != 2:
        raise ValueError(f"a sparse adjacency must be a matrix, got shape {tuple(obj.shape)}")
    num_dst, num_src = obj.shape
    if obj.layout == torch.sparse_coo:
        indices = obj._indices()
        parts = (indices[0], indices[1])
    elif obj.layout == torch.sparse_csr:
        parts = (obj.crow_indices(), obj.col_indices())
    elif obj.layout == torch.sparse_csc:
        parts = (obj.ccol_indices(), obj.row_indices())
    else:
        raise TypeError(f"sparse adjacencies may be COO, CSR or CSC, got {obj.layout}; call .to_sparse_csr() first")

    def make() -> Graph:
        if obj.layout == torch.sparse_coo:
            dst, src = parts
        elif obj.layout == torch.sparse_csr:
            dst, src = _expand(parts[0], parts[1]), parts[1]
        else:
            dst, src = parts[1], _expand(parts[0], parts[1])
        return _made(src, dst, num_src, num_dst, pair)

    if values_unknown(obj) or obj.is_inference():
        return make()
    # The parts of a sparse tensor can be written without its own counter moving, so they are compared in full.
    entry = _conversions.get(obj)
    if entry is not None and entry[0][0] == (obj.shape, pair) and all(map(torch.equal, entry[0][1], parts)):
        return entry[1]
    graph = make()
    _conversions[obj] = (((obj.shape, pair), tuple(part.clone() for part in parts)), graph)
    return graph


def _expand(pointer: Tensor, ids: Tensor) -> Tensor:
    """The row of every entry of a compressed matrix."""
    rows = torch.arange(pointer.shape[0] - 1, device=pointer.device)
    return torch.repeat_interleave(rows, pointer.diff(), output_size=ids.shape[0])


def _from_scipy(obj: Any, pair: _Pair | None) -> Graph:
    if not hasattr(obj, "tocoo") or len(obj.shape) != 2:
        raise TypeError(f"expected a scipy sparse matrix, got {type(obj).__name__}")
    num_dst, num_src = obj.shape
    coo = obj.tocoo(copy=False)
    parts = (coo.row, coo.col)

    def make() -> Graph:
        dst, src = (torch.from_numpy(np.array(part, dtype=np.int64)) for part in parts)
        return _made(src, dst, num_src, num_dst, pair)

    # scipy counts no writes: what the conversion saw is kept and compared
    entry = _conversions.get(obj)
    if entry is not None and entry[0][0] == (obj.shape, pair) and all(map(np.array_equal, entry[0][1], parts)):
        return entry[1]
    graph = make()
    _conversions[obj] = (((obj.shape, pair), tuple(part.copy() for part in parts)), graph)
    return graph


def _from_dgl(obj: Any, pair: _Pair | None) -> Graph:
    # Every edit of a DGLGraph (add_edges, remove_nodes, …) puts a new index object into it. Keeping the old one alive
    # here means that no new one can have its identity.
    index = getattr(obj, "_graph", None)
    entry = _conversions.get(obj)
    if entry is not None and entry[0][0] is index and entry[0][1] == pair:
        return entry[1]
    graph = _read_dgl(obj, pair)
    _conversions[obj] = ((index, pair), graph)
    return graph


@lasting
def _read_dgl(obj: Any, pair: _Pair | None) -> Graph:
    if not hasattr(obj, "canonical_etypes"):
        raise TypeError(f"cannot read a graph from dgl's {type(obj).__name__}; expected a DGLGraph or a block")
    if len(obj.canonical_etypes) != 1:
        raise ValueError(
            f"a layer reads one edge type, got a heterogeneous graph with edge types {obj.canonical_etypes}; put a "
            f"layer an edge type into dgl.nn.HeteroGraphConv (in PyG: HeteroConv), or use dgl.to_homogeneous(g)"
        )
    if pair is None and not obj.is_block and len(obj.ntypes) != 1:
        raise ValueError(
            f"the edges {obj.canonical_etypes[0]} lead from one kind of nodes to another: give the layer a pair "
            f"(features of sources, features of destinations), as dgl.nn.HeteroGraphConv (in PyG: HeteroConv) does"
        )
    if pair is None and obj.is_block:
        _check_destinations_come_first(obj)
    try:
        src, dst = obj.edges(order="eid")
    except Exception:  # a graph that may hold CSR or CSC only cannot be asked for an order
        src, dst, ids = obj.edges(form="all", order="srcdst")
        order = torch.argsort(ids)
        src, dst = src[order], dst[order]
    else:  # memory that the caller may write to: it is his who made the graph of it
        src, dst = (ids.clone() if ids.dtype == torch.int64 else ids.long() for ids in (src, dst))
    num_src, num_dst = obj.num_src_nodes(), obj.num_dst_nodes()
    return Graph.unsorted(src, dst, num_src, num_dst) if pair is None else _made(src, dst, num_src, num_dst, pair)


def _check_destinations_come_first(block: Any) -> None:
    """Layers take the first sources of a block for its destinations: DGL's ids, if there, tell whether it is so."""
    sources, destinations = block.srcdata.get("_ID"), block.dstdata.get("_ID")
    if sources is None or destinations is None:
        return
    if not torch.equal(sources[: destinations.shape[0]], destinations):
        raise ValueError(
            "the destinations of this DGL block are not its first sources, so that a node cannot find itself there; "
            "make it with dgl.to_block(..., include_dst_in_src=True), as DGL's samplers do"
        )
