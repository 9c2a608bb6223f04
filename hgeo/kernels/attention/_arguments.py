"""What the fused operators take and what the forward keeps for the backward: said here, and nowhere again."""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

from torch import Tensor

from hgeo.kernels.attention._layout import padded_dim

__all__ = ["EdgeLists", "Inputs", "Kept", "Shape"]


class Shape(NamedTuple):
    """The sizes of a problem; while tracing they may be symbols."""

    num_src: int
    num_dst: int
    heads: int
    dim: int
    padded: int  # dim rounded up to whole tiles


_known_padded = functools.cache(padded_dim)


def _padded(u: Tensor, dim: int) -> int:
    bits = 8 * u.element_size()
    return _known_padded(bits, dim) if type(dim) is int else padded_dim(bits, dim)


class EdgeLists(NamedTuple):
    """A graph as the kernels read it. 32-bit ids, padded so that reading a little ahead is harmless."""

    rowptr: Tensor
    col: Tensor
    colptr: Tensor
    csc_row: Tensor
    csc_pos: Tensor
    info: Tensor  # int64: whether every row has a self-loop, largest in-degree


class Inputs(NamedTuple):
    """The arguments of ``hgeo::fused_attention``, in the order of its schema, which is made of this.

    The second operator takes them between the gradient and what the first one returned.
    """

    u: Tensor  # (num_src, heads, d)
    k: Tensor  # (heads,), as the next two
    beta: Tensor
    scale: Tensor | None
    bias: Tensor | None  # (E, 1) or (E, heads), as the next
    factor: Tensor | None
    value_scale: Tensor | None  # (num_src,)
    rowptr: Tensor  # from here to info: EdgeLists
    col: Tensor
    colptr: Tensor
    csc_row: Tensor
    csc_pos: Tensor
    info: Tensor
    out_k: Tensor | None  # (1,)
    num_edges: int
    self_mean: bool
    symmetric: bool
    keep: bool  # whether there will be a backward, or the weights are wanted
    elu: bool

    @property
    def shape(self) -> Shape:
        num_src, heads, dim = self.u.shape
        return Shape(num_src, self.rowptr.shape[0] - 1, heads, dim, _padded(self.u, dim))


class Kept(NamedTuple):
    """Where the parts of the two tensors begin that the forward keeps for the backward, and how long these are.

    ``nodes``: the table (heads, num_src, padded + 4) of :mod:`._kernels`; where the result is points, their tangent
    vectors (num_dst, heads, d); 1/Z (heads, num_dst). ``edges``: q and e (heads, E). There is nothing between the parts
    that nobody writes. One tensor would be one allocation less, but the larger it is, the sooner the system's allocator
    asks for fresh pages every time.
    """

    tangent: int
    zinv: int
    nodes: int
    e: int
    edges: int

    @classmethod
    def of(cls, inputs: Inputs, shape: Shape) -> Kept:
        num_src, num_dst, heads, dim, padded = shape
        tangent = heads * num_src * (padded + 4)
        zinv = tangent if inputs.out_k is None else tangent + num_dst * heads * dim
        edges = heads * inputs.num_edges if inputs.keep else 0
        return cls(tangent, zinv, zinv + heads * num_dst, edges, 2 * edges)

    def views(self, nodes: Tensor, edges: Tensor, inputs: Inputs) -> dict[str, Tensor]:
        """The parts as tensors, by name."""
        num_src, num_dst, heads, dim, padded = inputs.shape
        count = inputs.num_edges if inputs.keep else 0
        views = {
            "table": _view(nodes, 0, (heads, num_src, padded + 4)),
            "zinv": _view(nodes, self.zinv, (heads, num_dst)),
            "q": _view(edges, 0, (heads, count)),
            "e": _view(edges, self.e, (heads, count)),
        }
        if inputs.out_k is not None:
            views["tangent"] = _view(nodes, self.tangent, (num_dst, heads, dim))
        return views


def _view(kept: Tensor, begin: int, shape: tuple[int, ...]) -> Tensor:
    return kept.narrow(0, begin, math.prod(shape)).view(shape)
