"""What the fused operators take and what the forward keeps for the backward: said here, and nowhere again."""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

from torch import Tensor

from hgeo.graph._fused._layout import padded_dim

__all__ = ["Inputs", "Kept", "Plan", "Shape"]


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


class Plan(NamedTuple):
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
    rowptr: Tensor  # from here to info: a Plan
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
    """Where the parts of the one tensor begin that the forward keeps for the backward, and how long it is.

    The table (heads, num_src, padded + 4) of :mod:`._kernels`; where the result is points, their tangent vectors
    (num_dst, heads, d); q and e (heads, E); 1/Z (heads, num_dst). There is nothing between them that nobody writes.
    """

    tangent: int
    q: int
    e: int
    zinv: int
    end: int

    @classmethod
    def of(cls, inputs: Inputs, shape: Shape) -> Kept:
        num_src, num_dst, heads, dim, padded = shape
        edges = heads * inputs.num_edges if inputs.keep else 0
        tangent = heads * num_src * (padded + 4)
        q = tangent if inputs.out_k is None else tangent + num_dst * heads * dim
        zinv = q + 2 * edges
        return cls(tangent, q, q + edges, zinv, zinv + heads * num_dst)

    def views(self, kept: Tensor, inputs: Inputs) -> dict[str, Tensor]:
        """The parts as tensors, by name."""
        num_src, num_dst, heads, dim, padded = inputs.shape
        edges = inputs.num_edges if inputs.keep else 0
        shapes: dict[str, tuple[int, tuple[int, ...]]] = {
            "table": (0, (heads, num_src, padded + 4)),
            "q": (self.q, (heads, edges)),
            "e": (self.e, (heads, edges)),
            "zinv": (self.zinv, (heads, num_dst)),
        }
        if inputs.out_k is not None:
            shapes["tangent"] = self.tangent, (num_dst, heads, dim)
        return {name: _view(kept, begin, shape) for name, (begin, shape) in shapes.items()}


def _view(kept: Tensor, begin: int, shape: tuple[int, ...]) -> Tensor:
    return kept.narrow(0, begin, math.prod(shape)).view(shape)
