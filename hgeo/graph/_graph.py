"""One small immutable view of who talks to whom."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

__all__ = ["CSC", "Graph"]


class CSC(NamedTuple):
    """The edges sorted by (source, destination); ``edge_pos[f]`` is the place of edge f in the CSR order."""

    colptr: Tensor
    row: Tensor
    edge_pos: Tensor


def values_unknown(*tensors: Tensor) -> bool:
    """Whether the numbers in these tensors cannot be looked at: while tracing, or in fake tensors."""
    return torch.compiler.is_compiling() or any(isinstance(t, FakeTensor) for t in tensors)


class Graph:
    r"""A directed graph whose edges are sorted by (destination, source).

    Messages flow source → destination. The destinations are the first ``num_dst`` sources, as in a DGL block; a
    homogeneous graph has ``num_dst == num_src``. Edge ``e`` of this order goes from ``col[e]`` to ``row[e]``, the edges
    into node ``i`` are ``rowptr[i]:rowptr[i+1]``, and ``perm[e]`` is the position of that edge in the order in which
    the caller gave it. Parallel edges are kept, in the caller's order. Everything else (transpose, symmetry, degrees,
    the graph with self-loops) is made at first use and kept; nothing is ever edited.

    Args:
        src: (E,) integer source ids.
        dst: (E,) integer destination ids.
        num_src: number of sources; default: ``num_dst``, or one more than the largest id.
        num_dst: number of destinations; default: ``num_src``.

    Example:
        >>> import torch, hgeo
        >>> g = hgeo.Graph(torch.tensor([0, 2, 1]), torch.tensor([1, 1, 2]), num_src=4)
        >>> g.rowptr.tolist(), g.col.tolist(), g.perm.tolist()
        ([0, 0, 2, 3, 3], [0, 2, 1], [0, 1, 2])
        >>> g.with_self_loops().num_edges
        7
    """

    def __init__(self, src: Tensor, dst: Tensor, num_src: int | None = None, num_dst: int | None = None) -> None:
        _check_ids("src", src)
        _check_ids("dst", dst)
        if src.shape != dst.shape:
            raise ValueError(
                f"src and dst must name the same edges, got shapes {tuple(src.shape)} and {tuple(dst.shape)}"
            )
        if src.device != dst.device:
            raise ValueError(f"src is on {src.device} and dst on {dst.device}; move both to one device")
        src, dst = src.long(), dst.long()
        if num_src is None and num_dst is None:
            if values_unknown(src, dst):
                raise ValueError("num_src must be given while compiling: the largest id is not known then")
            num_src = int(torch.maximum(src.max(), dst.max())) + 1 if src.numel() else 0
        num_src = num_src if num_src is not None else num_dst
        num_dst = num_dst if num_dst is not None else num_src
        assert num_src is not None
        assert num_dst is not None
        if not 0 <= num_dst <= num_src:
            raise ValueError(
                f"the destinations are the first sources, so 0 <= num_dst <= num_src must hold; "
                f"got num_dst = {num_dst}, num_src = {num_src}"
            )
        _check_range("source", src, num_src)
        _check_range("destination", dst, num_dst)
        perm, rowptr = _sorted(src, dst, num_src, num_dst)
        row, col = dst.index_select(0, perm), src.index_select(0, perm)
        self._init(row, col, perm, num_src, num_dst, num_edges_given=src.shape[0], rowptr=rowptr)

    def _init(
        self,
        row: Tensor,
        col: Tensor,
        perm: Tensor,
        num_src: int,
        num_dst: int,
        *,
        num_edges_given: int,
        rowptr: Tensor | None = None,
    ) -> None:
        self._row, self._col, self._perm = row, col, perm
        self._num_src, self._num_dst = num_src, num_dst
        self._num_edges_given = num_edges_given
        self._rowptr = _pointer(row, num_dst) if rowptr is None else rowptr
        self._padding: Tensor | None = None
        self._csc: CSC | None = None
        self._is_symmetric: bool | None = None
        self._looped: Graph | None = None
        self._in_degrees: Tensor | None = None
        self._out_degrees: Tensor | None = None
        self._cache: dict[Any, Any] = {}

    @classmethod
    def from_edge_index(cls, edge_index: Tensor, num_nodes: int | None = None) -> Graph:
        """The graph of a PyG-style ``edge_index`` (2, E), sources in its first row."""
        if edge_index.dim() != 2 or edge_index.shape[0] != 2:
            raise ValueError(f"edge_index must have shape (2, E), sources first; got {tuple(edge_index.shape)}")
        src, dst = edge_index.unbind(0)
        return cls(src, dst, num_src=num_nodes)

    @property
    def num_src(self) -> int:
        """Number of sources."""
        return self._num_src

    @property
    def num_dst(self) -> int:
        """Number of destinations; they are the first sources."""
        return self._num_dst

    @property
    def num_edges(self) -> int:
        """Number of edges, parallel ones counted."""
        return self._col.shape[0]

    @property
    def num_edges_given(self) -> int:
        """Number of edges that the caller gave."""
        return self._num_edges_given

    @property
    def device(self) -> torch.device:
        """Where the arrays live."""
        return self._col.device

    @property
    def rowptr(self) -> Tensor:
        """(num_dst+1,) the edges into i are ``rowptr[i]:rowptr[i+1]``."""
        return self._rowptr

    @property
    def row(self) -> Tensor:
        """(E,) destination of each edge."""
        return self._row

    @property
    def col(self) -> Tensor:
        """(E,) source of each edge."""
        return self._col

    @property
    def perm(self) -> Tensor:
        """(E,) position of each edge in the caller's order; a loop added to i stands at ``num_edges_given + i``."""
        return self._perm

    @property
    def padding(self) -> Tensor | None:
        """(E,) bool, or None: edges that only fill up a fixed shape (see with_self_loops) and carry no message."""
        return self._padding

    @property
    def is_looped(self) -> bool:
        """Whether this graph came from with_self_loops, so that every destination has one."""
        return self._looped is self

    @property
    def cache(self) -> dict[Any, Any]:
        """Arrays that backends derive from this graph."""
        return self._cache

    @property
    def csc(self) -> CSC:
        """The transpose: edges sorted by (source, destination)."""
        if self._csc is None:
            if _worth_counting(self._col):
                edge_pos, colptr = _counting_order()(self._col, self._num_src)
            else:
                col, edge_pos = torch.sort(self._col, stable=True)
                colptr = _pointer(col, self._num_src)
            csc = CSC(colptr, self._row.index_select(0, edge_pos), edge_pos)
            if values_unknown(self._col):
                return csc
            self._csc = csc
        return self._csc

    @property
    def is_symmetric(self) -> bool:
        """Whether every edge i → j has its partner j → i, as often. False if it cannot be looked at."""
        if self._is_symmetric is None:
            if self._num_src != self._num_dst:
                self._is_symmetric = False
            elif values_unknown(self._col):
                return False
            else:
                colptr, row, _ = self.csc
                self._is_symmetric = torch.equal(colptr, self._rowptr) and torch.equal(row, self._col)
        return self._is_symmetric

    @property
    def in_degrees(self) -> Tensor:
        """(num_dst,) number of edges into each destination."""
        if self._in_degrees is None:
            degrees = _degrees(self._rowptr, self._padding, self._row)
            if values_unknown(self._col):
                return degrees
            self._in_degrees = degrees
        return self._in_degrees

    @property
    def out_degrees(self) -> Tensor:
        """(num_src,) number of edges out of each source."""
        if self._out_degrees is None:
            degrees = _degrees(self.csc.colptr, self._padding, self._col)
            if values_unknown(self._col):
                return degrees
            self._out_degrees = degrees
        return self._out_degrees

    def with_self_loops(self) -> Graph:
        """The same graph with i → i for every destination that lacks it; made once.

        The added edges stand in ``perm`` behind the caller's: the loop of node i at ``num_edges_given + i``.
        While tracing, where the number of missing loops is not known, one loop is added to every destination and those
        that were there already are marked in ``padding``.
        """
        if self._looped is not None:
            return self._looped
        traced = values_unknown(self._col)
        nodes = torch.arange(self._num_dst, device=self.device)
        loops = self._row == self._col
        if traced:
            has_loop = torch.zeros_like(nodes).index_add(0, self._row, loops.long()) > 0
        else:
            has_loop = torch.zeros_like(nodes, dtype=torch.bool)
            has_loop[self._row[loops]] = True
            if bool(has_loop.all()):
                self._looped = self
                return self
            nodes = nodes[~has_loop]
        row, col = torch.cat([self._row, nodes]), torch.cat([self._col, nodes])
        order, rowptr = _sorted(col, row, self._num_src, self._num_dst)
        perm = torch.cat([self._perm, self._num_edges_given + nodes])
        looped = Graph.__new__(Graph)
        looped._init(
            row.index_select(0, order),
            col.index_select(0, order),
            perm.index_select(0, order),
            self._num_src,
            self._num_dst,
            num_edges_given=self._num_edges_given,
            rowptr=rowptr,
        )
        if traced:
            looped._padding = torch.cat([torch.zeros_like(self._row, dtype=torch.bool), has_loop]).index_select(
                0, order
            )
            return looped
        looped._looped = looped
        self._looped = looped
        return looped

    def from_caller_order(self, values: Tensor, added: float = 0.0) -> Tensor:
        """(num_edges_given, …) numbers in the caller's edge order, in this graph's; added self-loops get ``added``."""
        if self._num_edges_given == self.num_edges:
            return values.index_select(0, self._perm)
        loops = values.new_full((self._num_dst, *values.shape[1:]), added)
        return torch.cat([values, loops]).index_select(0, self._perm)

    def to_caller_order(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """(E, …) numbers of this graph's edges as (the caller's edges in the caller's order, the added self-loops).

        The second tensor has a row a destination; it is 0 where no loop was added because the caller had given one.
        """
        slots = values.new_zeros((self._num_edges_given + self._num_dst, *values.shape[1:]))
        if self._padding is not None:
            values = torch.where(self._padding.view(-1, *[1] * (values.dim() - 1)), 0.0, values)
        slots = slots.index_copy(0, self._perm, values)
        return slots.narrow(0, 0, self._num_edges_given), slots.narrow(0, self._num_edges_given, self._num_dst)

    def to(self, device: torch.device | str) -> Graph:
        """This graph on another device (itself, if it is there already)."""
        if torch.device(device) == self.device:
            return self
        moved = Graph.__new__(Graph)
        moved._init(
            self._row.to(device),
            self._col.to(device),
            self._perm.to(device),
            self._num_src,
            self._num_dst,
            num_edges_given=self._num_edges_given,
        )
        if self._looped is self:
            moved._looped = moved
        return moved

    def __reduce__(self) -> tuple[Any, ...]:
        # what was derived is derived again where it is loaded
        state = (self._row, self._col, self._perm, self._num_src, self._num_dst, self._num_edges_given)
        return _restore, (*state, self._looped is self)

    def __repr__(self) -> str:
        nodes = f"{self._num_src} nodes"
        if self._num_dst != self._num_src:
            nodes = f"{self._num_src} sources, {self._num_dst} destinations"
        return f"Graph({nodes}, {self.num_edges} edges, {self.device})"


def _restore(
    row: Tensor, col: Tensor, perm: Tensor, num_src: int, num_dst: int, num_edges_given: int, all_loops: bool
) -> Graph:
    graph = Graph.__new__(Graph)
    graph._init(row, col, perm, num_src, num_dst, num_edges_given=num_edges_given)
    if all_loops:
        graph._looped = graph
    return graph


# From so many edges on counting is faster than comparing, and worth loading compiled code for.
_MANY_EDGES = 4096


def _worth_counting(ids: Tensor) -> bool:
    if values_unknown(ids) or ids.device.type != "cpu" or ids.shape[0] < _MANY_EDGES:
        return False
    from hgeo.graph import _fused

    return _fused.available("cpu")[0]


def _counting_order() -> Any:
    from hgeo.graph._fused._sort import counting_order

    return counting_order


def _pointer(sorted_ids: Tensor, count: int) -> Tensor:
    return torch.searchsorted(sorted_ids, torch.arange(count + 1, device=sorted_ids.device))


def _sorted(src: Tensor, dst: Tensor, num_src: int, num_dst: int) -> tuple[Tensor, Tensor]:
    """The order of edges by (dst, src), parallel ones as they come, and where each destination begins in it."""
    if _worth_counting(src):
        by_source, _ = _counting_order()(src, num_src)
        return _counting_order()(dst, num_dst, by_source)
    _, order = torch.sort(dst * max(num_src, 1) + src, stable=True)
    return order, _pointer(dst.index_select(0, order), num_dst)


def _degrees(pointer: Tensor, padding: Tensor | None, node: Tensor) -> Tensor:
    degrees = pointer.diff()
    return degrees if padding is None else degrees.index_add(0, node, -padding.long())


def _check_ids(name: str, ids: Tensor) -> None:
    if not isinstance(ids, Tensor) or ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool:
        given = f"{ids.dtype} {tuple(ids.shape)}" if isinstance(ids, Tensor) else type(ids).__name__
        raise TypeError(f"{name} must be a tensor of integer node ids, got {given}")
    if ids.dim() != 1:
        raise ValueError(f"{name} must have one id an edge, shape (E,); got shape {tuple(ids.shape)}")


def _check_range(kind: str, ids: Tensor, count: int) -> None:
    """Ids are looked at once, when a graph enters; a compiled function takes them on trust."""
    if values_unknown(ids) or not ids.numel():
        return
    low, high = (int(v) for v in torch.aminmax(ids))
    if low < 0 or high >= count:
        wrong = low if low < 0 else high
        raise ValueError(
            f"{kind} id {wrong} is out of range: there are {count} {kind}s, so ids must lie in [0, {count}). "
            f"Pass the right number of nodes, or renumber the edges"
        )
