"""The one description of what the fused operators take, and of what the forward pass keeps for the backward pass."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from hgeo.kernels.attention._layout import padded_dims

__all__ = ["EdgeLists", "Inputs", "Kept", "Shape"]


class Shape(NamedTuple):
    """The sizes of a problem; while tracing they may be symbols."""

    num_src: int
    num_dst: int
    heads: int
    dim: int
    parts: int
    padded: int  # the dimensions of the parts, each rounded up to whole tiles, together


@functools.cache
def _known_padded(bits: int, dims: tuple[int, ...]) -> int:
    return sum(padded_dims(bits, dims))


def _padded(u: Tensor, dims: Sequence[int]) -> int:
    bits = 8 * u.element_size()
    plain = all(type(dim) is int for dim in dims)
    return _known_padded(bits, tuple(dims)) if plain else sum(padded_dims(bits, dims))


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
    k: Tensor  # (heads · parts,): head after head, as scale
    beta: Tensor  # (heads,)
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
    out_k: Tensor | None  # (1,); only with one part
    dims: list[int]  # of the parts, whose coordinates stand side by side in a row of u
    num_edges: int
    self_mean: bool
    symmetric: bool
    keep: bool  # whether there will be a backward, or the weights are wanted
    elu: bool

    @property
    def shape(self) -> Shape:
        num_src, heads, dim = self.u.shape
        dims = self.dims
        return Shape(num_src, self.rowptr.shape[0] - 1, heads, dim, len(dims), _padded(self.u, dims))


class Kept(NamedTuple):
    """Where the parts of the two tensors begin that the forward keeps for the backward, and how long these are.

    ``nodes``: the table of :mod:`._kernels`, padded + 4 · parts numbers a head and source; where the result is points,
    their tangent vectors (num_dst, heads, d); 1/Z (heads, num_dst). ``edges``: q (heads, parts, E), e (heads, E). There
    is nothing between them that nobody writes. One tensor would be one allocation less, but the larger it is, the
    sooner the system's allocator asks for fresh pages every time.
    """

    tangent: int
    zinv: int
    nodes: int
    e: int
    edges: int

    @classmethod
    def of(cls, inputs: Inputs, shape: Shape) -> Kept:
        num_src, num_dst, heads, dim, parts, padded = shape
        tangent = heads * num_src * (padded + 4 * parts)
        zinv = tangent if inputs.out_k is None else tangent + num_dst * heads * dim
        edges = heads * inputs.num_edges if inputs.keep else 0
        return cls(tangent, zinv, zinv + heads * num_dst, parts * edges, (parts + 1) * edges)

    def views(self, nodes: Tensor, edges: Tensor, inputs: Inputs) -> dict[str, Tensor]:
        """The parts as tensors, by name."""
        num_src, num_dst, heads, dim, parts, padded = inputs.shape
        count = inputs.num_edges if inputs.keep else 0
        views = {
            "table": _view(nodes, 0, (heads, num_src, padded + 4 * parts)),
            "zinv": _view(nodes, self.zinv, (heads, num_dst)),
            "q": _view(edges, 0, (heads, parts, count)),
            "e": _view(edges, self.e, (heads, count)),
        }
        if inputs.out_k is not None:
            views["tangent"] = _view(nodes, self.tangent, (num_dst, heads, dim))
        return views


def _view(kept: Tensor, begin: int, shape: tuple[int, ...]) -> Tensor:
    return kept.narrow(0, begin, math.prod(shape)).view(shape)
