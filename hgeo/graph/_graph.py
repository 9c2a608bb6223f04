"""An immutable directed graph: what layers and backends get, whatever format the caller has."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar

import torch
from torch import Tensor
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch._subclasses.fake_tensor import FakeTensor

if TYPE_CHECKING:
    from hgeo.kernels.attention import Sorted

__all__ = ["CSC", "Graph", "check_range", "edge_ends", "lasting", "values_unknown"]

_P = ParamSpec("_P")
_T = TypeVar("_T")
_Degrees = tuple[Tensor | None, Tensor | None]  # in, out


class CSC(NamedTuple):
    """The edges sorted by (source, destination); ``edge_pos[f]`` is the place of edge f in the CSR order."""

    colptr: Tensor
    row: Tensor
    edge_pos: Tensor


def values_unknown(*tensors: Tensor) -> bool:
    """Whether the numbers in these tensors cannot be looked at: while tracing, or in fake tensors."""
    return torch.compiler.is_compiling() or any(isinstance(t, FakeTensor) for t in tensors)


def lasting(make: Callable[_P, _T]) -> Callable[_P, _T]:
    """``make``, whose tensors can be used in training too if it is called in inference mode, and after a
    transformation of torch.func if it is called in one."""

    @functools.wraps(make)
    def outside(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        if torch.compiler.is_compiling():
            return make(*args, **kwargs)
        if torch._C._functorch.peek_interpreter_stack() is not None:
            with temporarily_clear_interpreter_stack():
                return outside(*args, **kwargs)
        if not torch.is_inference_mode_enabled():
            return make(*args, **kwargs)
        with torch.inference_mode(False):
            return make(*args, **kwargs)

    return outside


class _Cache(dict[Any, Any]):
    """Keeps copies of inference tensors, which training could not use, in tuples too."""

    def __setitem__(self, key: Any, value: Any) -> None:
        if not torch.compiler.is_compiling() and torch.is_inference_mode_enabled():
            value = _usable_in_training(value)
        super().__setitem__(key, value)


@lasting
def _usable_in_training(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.clone() if value.is_inference() else value
    if isinstance(value, tuple):
        parts = [_usable_in_training(part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value


class _Order(NamedTuple):
    """The edges by (destination, source)."""

    row: Tensor
    col: Tensor
    perm: Tensor
    rowptr: Tensor


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
        in_degrees: (num_dst,) what layers normalise by, if this is a part of a larger graph (a view, the block of a
            sampler): degrees in the larger graph, a self-loop of every node counted. Default: the edges given here are
            counted. The graph with self-loops has the same.
        out_degrees: (num_src,) likewise.

    Example:
        >>> import torch, hgeo
        >>> g = hgeo.Graph(torch.tensor([0, 2, 1]), torch.tensor([1, 1, 2]), num_src=4)
        >>> g.rowptr.tolist(), g.col.tolist(), g.perm.tolist()
        ([0, 0, 2, 3, 3], [0, 2, 1], [0, 1, 2])
        >>> g.with_self_loops().num_edges
        7
    """

    def __init__(
        self,
        src: Tensor,
        dst: Tensor,
        num_src: int | None = None,
        num_dst: int | None = None,
        *,
        in_degrees: Tensor | None = None,
        out_degrees: Tensor | None = None,
    ) -> None:
        _check_ids("src", src)
        _check_ids("dst", dst)
        if src.shape != dst.shape:
            raise ValueError(
                f"src and dst must name the same edges, got shapes {tuple(src.shape)} and {tuple(dst.shape)}"
            )
        if src.device != dst.device:
            raise ValueError(f"src is on {src.device} and dst on {dst.device}; move both to one device")
        for name, count in (("num_src", num_src), ("num_dst", num_dst)):
            if isinstance(count, str | float):
                raise TypeError(f"{name} must be a whole number, got {count!r}")
        src, dst = src.long(), dst.long()
        if num_src is None and num_dst is None:
            if values_unknown(src, dst):
                raise ValueError("num_src must be given while compiling: the largest id is not known then")
            num_src = int(torch.maximum(src.max(), dst.max())) + 1 if src.numel() else 0
        num_src = num_src if num_src is not None else num_dst
        num_dst = num_dst if num_dst is not None else num_src
        assert num_src is not None
        assert num_dst is not None
        _check_counts(num_src, num_dst)
        check_range("source", src, num_src)
        check_range("destination", dst, num_dst)
        _check_degrees("in_degrees", in_degrees, num_dst, src.device)
        _check_degrees("out_degrees", out_degrees, num_src, src.device)
        order = _sorted_edges(src, dst, num_src, num_dst)
        self._init(order, num_src, num_dst, num_edges_given=src.shape[0], degrees=(in_degrees, out_degrees))

    def _init(
        self,
        order: _Order | None,
        num_src: int,
        num_dst: int,
        *,
        num_edges_given: int,
        unsorted: tuple[Tensor, Tensor] | None = None,
        degrees: _Degrees = (None, None),
    ) -> None:
        self._order, self._unsorted = order, unsorted
        self._sorted: Sorted | None = None  # the same in the form of the fused kernels, where they have sorted it
        self._num_src, self._num_dst = num_src, num_dst
        self._num_edges_given = num_edges_given
        self._padding: Tensor | None = None
        self._csc: CSC | None = None
        self._is_symmetric: bool | None = None
        self._looped: Graph | None = None
        self._degrees_given = degrees
        self._in_degrees, self._out_degrees = degrees
        self._cache: dict[Any, Any] = _Cache()

    @classmethod
    def from_edge_index(cls, edge_index: Tensor, num_nodes: int | None = None) -> Graph:
        """The graph of a PyG-style ``edge_index`` (2, E), sources in its first row."""
        src, dst = edge_ends(edge_index)
        return cls(src, dst, num_src=num_nodes)

    @classmethod
    def unsorted(cls, src: Tensor, dst: Tensor, num_src: int, num_dst: int) -> Graph:
        """A graph that sorts its edges and checks its ids when they are first used. Nobody may change the ids.

        A layer asks for the graph with self-loops, so that of a block that lives for one step only that one is sorted.
        """
        _check_counts(num_src, num_dst)
        graph = cls.__new__(cls)
        graph._init(None, num_src, num_dst, num_edges_given=src.shape[0], unsorted=(src.long(), dst.long()))
        return graph

    def with_degrees(self, in_degrees: Tensor | None, out_degrees: Tensor | None) -> Graph:
        """The same edges as a part of a larger graph, in which the nodes have these degrees, self-loops counted.

        >>> block = Graph(torch.tensor([1]), torch.tensor([0]), num_src=2, num_dst=1)
        >>> block.with_degrees(torch.tensor([4]), torch.tensor([4, 2])).with_self_loops().of_all
        tensor([2.])
        """
        device = self.device
        _check_degrees("in_degrees", in_degrees, self._num_dst, device)
        _check_degrees("out_degrees", out_degrees, self._num_src, device)
        part = Graph.__new__(Graph)
        given = (in_degrees, out_degrees)
        part._init(
            self._order, self._num_src, self._num_dst, num_edges_given=self._num_edges_given, unsorted=self._unsorted,
            degrees=given,
        )  # fmt: skip
        part._sorted, part._padding = self._sorted, self._padding
        if self._looped is self:
            part._looped = part
        return part

    @property
    def _edges(self) -> _Order:
        # looked up in the opposite order to that in which another thread may be writing them
        unsorted, order = self._unsorted, self._order
        if order is not None:
            return order
        if self._sorted is not None:
            order = _unpacked(self._sorted)
        else:
            assert unsorted is not None
            check_range("source", unsorted[0], self._num_src)
            check_range("destination", unsorted[1], self._num_dst)
            order = _sorted_edges(*unsorted, self._num_src, self._num_dst)
        if not values_unknown(order.col):
            self._order, self._unsorted = order, None
        return order

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
        if self._sorted is not None:
            return self._sorted.perm.shape[0]
        return self._num_edges_given if self._order is None else self._order.col.shape[0]

    @property
    def num_edges_given(self) -> int:
        """Number of edges that the caller gave."""
        return self._num_edges_given

    @property
    def device(self) -> torch.device:
        """Where the arrays live."""
        unsorted, compact = self._unsorted, self._sorted
        if compact is not None:
            return compact.perm.device
        return self._edges.col.device if unsorted is None else unsorted[0].device

    @property
    def rowptr(self) -> Tensor:
        """(num_dst+1,) the edges into i are ``rowptr[i]:rowptr[i+1]``."""
        return self._edges.rowptr

    @property
    def row(self) -> Tensor:
        """(E,) destination of each edge."""
        return self._edges.row

    @property
    def col(self) -> Tensor:
        """(E,) source of each edge."""
        return self._edges.col

    @property
    def perm(self) -> Tensor:
        """(E,) position of each edge in the caller's order; a loop added to i stands at ``num_edges_given + i``."""
        return self._edges.perm

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
            csc = _transpose(self._edges, self._num_src)
            if values_unknown(self._edges.col):
                return csc
            self._csc = csc
        return self._csc

    @property
    def is_symmetric(self) -> bool:
        """Whether every edge i → j has its reverse j → i, as often. False while tracing."""
        if self._is_symmetric is None:
            if self._num_src != self._num_dst:
                self._is_symmetric = False
            elif values_unknown(self._edges.col):
                return False
            else:
                colptr, row, _ = self.csc
                self._is_symmetric = torch.equal(colptr, self._edges.rowptr) and torch.equal(row, self._edges.col)
        return self._is_symmetric

    @property
    def edges_into(self) -> Tensor:
        """(num_dst,) number of edges into each destination that are here, whatever degrees were given."""
        return _degrees(self._edges.rowptr, self._padding, self._edges.row)

    @property
    def of_all(self) -> Tensor | None:
        """(num_dst,) in_degrees / edges_into: what makes a sum over the edges here stand for one over all of them.

        A sampler leaves edges out. 1 where it left none out, None where no degrees were given.
        """
        given = self._degrees_given[0]
        return None if given is None else given / self.edges_into.clamp(min=1)

    @property
    def in_degrees(self) -> Tensor:
        """(num_dst,) number of edges into each destination, or what was given."""
        if self._in_degrees is None:
            degrees = self.edges_into
            if values_unknown(self._edges.col):
                return degrees
            self._in_degrees = degrees
        return self._in_degrees

    @property
    def out_degrees(self) -> Tensor:
        """(num_src,) number of edges out of each source, or what was given."""
        if self._out_degrees is None:
            degrees = _degrees(self.csc.colptr, self._padding, self._edges.col)
            if values_unknown(self._edges.col):
                return degrees
            self._out_degrees = degrees
        return self._out_degrees

    def weighted_degrees(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """(num_dst,) sums of the (E,) weights of edges into each destination and (num_src,) out of each source.

        Degrees that were given to the graph are these.
        """
        weight, given = self.without_padding(weight, 0.0), self._degrees_given
        ends, counts = (self._edges.row, self._edges.col), (self._num_dst, self._num_src)
        into, out = (
            weight.new_zeros(count).index_add(0, end, weight) if degrees is None else degrees.to(weight.dtype)
            for degrees, end, count in zip(given, ends, counts, strict=True)
        )
        return into, out

    def with_self_loops(self) -> Graph:
        """The same graph with i → i for every destination that lacks it; made once.

        The added edges stand in ``perm`` behind the caller's: the loop of node i at ``num_edges_given + i``.
        While tracing, where the number of missing loops is not known, one loop is added to every destination and those
        that were there already are marked in ``padding``.
        """
        return self._with_missing_loops() if self._looped is None else self._looped

    @lasting
    def _with_missing_loops(self) -> Graph:
        unsorted = self._unsorted
        if unsorted is not None and _worth_counting(unsorted[0]) and unsorted[0].shape[0] + self._num_dst < 2**31:
            return self._sorted_with_self_loops(*unsorted)
        traced = values_unknown(self._edges.col)
        nodes = torch.arange(self._num_dst, device=self.device)
        loops = self._edges.row == self._edges.col
        if traced:
            has_loop = torch.zeros_like(nodes).index_add(0, self._edges.row, loops.long()) > 0
        else:
            has_loop = torch.zeros_like(nodes, dtype=torch.bool)
            has_loop[self._edges.row[loops]] = True
            if bool(has_loop.all()):
                self._looped = self
                return self
            nodes = nodes[~has_loop]
        row, col = torch.cat([self._edges.row, nodes]), torch.cat([self._edges.col, nodes])
        order, rowptr = _sorted(col, row, self._num_src, self._num_dst)
        perm = torch.cat([self._edges.perm, self._num_edges_given + nodes])
        looped = Graph.__new__(Graph)
        looped._init(
            _Order(row.index_select(0, order), col.index_select(0, order), perm.index_select(0, order), rowptr),
            self._num_src,
            self._num_dst,
            num_edges_given=self._num_edges_given,
            degrees=self._degrees_given,
        )
        if traced:
            looped._padding = torch.cat([torch.zeros_like(self._edges.row, dtype=torch.bool), has_loop]).index_select(
                0, order
            )
            return looped
        looped._looped = looped
        self._looped = looped
        return looped

    def _sorted_with_self_loops(self, src: Tensor, dst: Tensor) -> Graph:
        """The same of edges that are not sorted yet, at once."""
        from hgeo.kernels.attention import sorted_with_loops

        found = sorted_with_loops(src, dst, self._num_src, self._num_dst)
        if found is None:
            check_range("source", src, self._num_src)
            check_range("destination", dst, self._num_dst)
            raise AssertionError("an id is out of range, and none is")
        looped = self
        if found.perm.shape[0] > self._num_edges_given:
            looped = Graph.__new__(Graph)
            looped._init(
                None, self._num_src, self._num_dst, num_edges_given=self._num_edges_given, degrees=self._degrees_given
            )
        looped._sorted = found
        if self._num_src != self._num_dst:  # else the plan depends on whether the graph is symmetric
            looped._cache["fused"] = found.lists
        looped._unsorted = None
        looped._looped = self._looped = looped
        return looped

    def without_padding(self, values: Tensor, instead: float) -> Tensor:
        """(E, …) numbers in which the edges that only fill up a shape have ``instead``."""
        if self._padding is None:
            return values
        return torch.where(self._padding.view(-1, *[1] * (values.dim() - 1)), instead, values)

    def from_caller_order(self, values: Tensor, added: float | Tensor = 0.0) -> Tensor:
        """(num_edges_given, …) numbers in the caller's edge order, in this graph's.

        Added self-loops get ``added``, a number or (num_dst, …) numbers a destination.
        """
        if self._num_edges_given == self.num_edges:
            return values.index_select(0, self._edges.perm)
        loops = added if isinstance(added, Tensor) else values.new_full((self._num_dst, *values.shape[1:]), added)
        return torch.cat([values, loops]).index_select(0, self._edges.perm)

    def to_caller_order(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """(E, …) numbers of this graph's edges as (the caller's edges in the caller's order, the added self-loops).

        The second tensor has a row a destination; it is 0 where no loop was added because the caller had given one.
        """
        slots = values.new_zeros((self._num_edges_given + self._num_dst, *values.shape[1:]))
        slots = slots.index_copy(0, self._edges.perm, self.without_padding(values, 0.0))
        return slots.narrow(0, 0, self._num_edges_given), slots.narrow(0, self._num_edges_given, self._num_dst)

    def _state(self, change: Callable[[Tensor], Tensor]) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """What a graph holds beside its edges: padding, and the degrees that were given."""
        padding, (into, out) = self._padding, self._degrees_given
        return _changed(padding, change), _changed(into, change), _changed(out, change)

    def _set_state(self, state: tuple[Tensor | None, Tensor | None, Tensor | None]) -> None:
        self._padding, *degrees = state
        self._in_degrees, self._out_degrees = self._degrees_given = degrees[0], degrees[1]

    @lasting
    def to(self, device: torch.device | str) -> Graph:
        """This graph on another device (itself, if it is there already)."""
        if torch.device(device) == self.device:
            return self
        moved = Graph.__new__(Graph)
        moved._init(
            _Order(*(part.to(device) for part in self._edges)),
            self._num_src,
            self._num_dst,
            num_edges_given=self._num_edges_given,
        )
        moved._set_state(self._state(lambda tensor: tensor.to(device)))
        if self._looped is self:
            moved._looped = moved
        return moved

    def __reduce__(self) -> tuple[Any, ...]:
        # derived arrays are not pickled: they are computed again
        state = (
            *(_compact(part) for part in self._edges[:3]),
            self._num_src,
            self._num_dst,
            self._num_edges_given,
        )
        return _restore, (*state, self._looped is self, self._state(_compact))

    def __repr__(self) -> str:
        nodes = f"{self._num_src} nodes"
        if self._num_dst != self._num_src:
            nodes = f"{self._num_src} sources, {self._num_dst} destinations"
        return f"Graph({nodes}, {self.num_edges} edges, {self.device})"


def _changed(tensor: Tensor | None, change: Callable[[Tensor], Tensor]) -> Tensor | None:
    return None if tensor is None else change(tensor)


def _compact(tensor: Tensor) -> Tensor:
    """A copy if the tensor is a view of more memory, all of which pickle would write."""
    whole = tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size()
    return tensor if whole else tensor.clone()


@lasting
def _restore(
    row: Tensor,
    col: Tensor,
    perm: Tensor,
    num_src: int,
    num_dst: int,
    num_edges_given: int,
    all_loops: bool,
    state: tuple[Tensor | None, Tensor | None, Tensor | None] = (None, None, None),
) -> Graph:
    graph = Graph.__new__(Graph)
    graph._init(_Order(row, col, perm, _pointer(row, num_dst)), num_src, num_dst, num_edges_given=num_edges_given)
    graph._set_state(state)
    if all_loops:
        graph._looped = graph
    return graph


# From so many edges on counting is faster than comparing, and worth loading compiled code for.
_MANY_EDGES = 4096


def _worth_counting(ids: Tensor) -> bool:
    if values_unknown(ids) or ids.device.type != "cpu" or ids.shape[0] < _MANY_EDGES:
        return False
    from hgeo.kernels.attention import available_on_cpu

    return available_on_cpu()[0]


def _counting_order() -> Any:
    from hgeo.kernels.attention import counting_order

    return counting_order


@lasting
def _unpacked(compact: Sorted) -> _Order:
    count, rowptr = compact.perm.shape[0], compact.lists.rowptr
    rows = torch.arange(rowptr.shape[0] - 1, device=rowptr.device)
    row = torch.repeat_interleave(rows, rowptr.diff(), output_size=count)
    return _Order(row, compact.lists.col[:count].long(), compact.perm.long(), rowptr)


def _pointer(sorted_ids: Tensor, count: int) -> Tensor:
    return torch.searchsorted(sorted_ids, torch.arange(count + 1, device=sorted_ids.device))


def _sorted(src: Tensor, dst: Tensor, num_src: int, num_dst: int) -> tuple[Tensor, Tensor]:
    """The order of edges by (dst, src), parallel ones as they come, and where each destination begins in it."""
    if _worth_counting(src):
        by_source, _ = _counting_order()(src, num_src)
        return _counting_order()(dst, num_dst, by_source)
    _, order = torch.sort(dst * max(num_src, 1) + src, stable=True)
    return order, _pointer(dst.index_select(0, order), num_dst)


@lasting
def _transpose(edges: _Order, num_src: int) -> CSC:
    if _worth_counting(edges.col):
        edge_pos, colptr = _counting_order()(edges.col, num_src)
    else:
        col, edge_pos = torch.sort(edges.col, stable=True)
        colptr = _pointer(col, num_src)
    return CSC(colptr, edges.row.index_select(0, edge_pos), edge_pos)


@lasting
def _sorted_edges(src: Tensor, dst: Tensor, num_src: int, num_dst: int) -> _Order:
    perm, rowptr = _sorted(src, dst, num_src, num_dst)
    return _Order(dst.index_select(0, perm), src.index_select(0, perm), perm, rowptr)


@lasting
def _degrees(pointer: Tensor, padding: Tensor | None, node: Tensor) -> Tensor:
    degrees = pointer.diff()
    return degrees if padding is None else degrees.index_add(0, node, -padding.long())


def edge_ends(edge_index: Tensor) -> tuple[Tensor, Tensor]:
    """The sources and the destinations of a PyG-style ``edge_index`` (2, E)."""
    if not isinstance(edge_index, Tensor):
        raise TypeError(f"edge_index must be a tensor of integer node ids, got {type(edge_index).__name__}")
    if edge_index.dim() != 2 or edge_index.shape[0] != 2:
        raise ValueError(f"edge_index must have shape (2, E), sources first; got {tuple(edge_index.shape)}")
    src, dst = edge_index.unbind(0)
    return src, dst


def _check_ids(name: str, ids: Tensor) -> None:
    if not isinstance(ids, Tensor) or ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool:
        given = f"{ids.dtype} {tuple(ids.shape)}" if isinstance(ids, Tensor) else type(ids).__name__
        raise TypeError(f"{name} must be a tensor of integer node ids, got {given}")
    if ids.dim() != 1:
        raise ValueError(f"{name} must have one id an edge, shape (E,); got shape {tuple(ids.shape)}")


def _check_counts(num_src: int, num_dst: int) -> None:
    if not 0 <= num_dst <= num_src:
        raise ValueError(
            f"the destinations are the first sources, so 0 <= num_dst <= num_src must hold; "
            f"got num_dst = {num_dst}, num_src = {num_src}"
        )


def _check_degrees(name: str, degrees: Tensor | None, nodes: int, device: torch.device) -> None:
    if degrees is None:
        return
    if not isinstance(degrees, Tensor) or degrees.shape != (nodes,):
        given = tuple(degrees.shape) if isinstance(degrees, Tensor) else type(degrees).__name__
        raise ValueError(f"{name} must be a tensor of {nodes} numbers, one a node; got {given}")
    if degrees.device != device:
        raise ValueError(f"{name} is on {degrees.device}, the edges on {device}; move them to one device")


def check_range(kind: str, ids: Tensor, count: int) -> None:
    """Refuse ids out of range, once, when a graph is made. Compiled code cannot check them."""
    if values_unknown(ids) or not ids.numel():
        return
    low, high = (int(v) for v in torch.aminmax(ids))
    if low < 0 or high >= count:
        wrong = low if low < 0 else high
        raise ValueError(
            f"{kind} id {wrong} is out of range: there are {count} {kind}s, so ids must lie in [0, {count}). "
            f"Pass the right number of nodes, or renumber the edges"
        )
