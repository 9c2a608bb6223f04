"""Products with sparse features whose transpose is sorted once, not in every backward pass."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

__all__ = ["sparse_linear", "with_values"]

# A pattern lives as long as the features it was read from. It is not put on the tensor itself: torch.save would
# write it.
_patterns = WeakIdKeyDictionary()


class _Pattern:
    """Where the numbers of a CSR matrix stand; the order of its transpose is made when first asked for."""

    def __init__(self, x: Tensor) -> None:
        self._places = x.crow_indices(), x.col_indices()
        self._versions = self._read_versions()
        # half the memory to read, which is what the product's time is spent on
        ids = torch.int32 if max(x.shape[1], x.values().shape[0]) < 2**31 else torch.int64
        self.pointer, self.index = (ids_given.to(ids) for ids_given in self._places)
        self.shape = x.shape
        self._transpose: tuple[Tensor, Tensor, Tensor] | None = None

    @property
    def is_current(self) -> bool:
        """Whether nobody has written into the indices since."""
        return self._versions == self._read_versions()

    def _read_versions(self) -> list[int]:
        return [ids._version for ids in self._places]

    @property
    def transpose(self) -> tuple[Tensor, Tensor, Tensor]:
        """Pointer and index of the transpose, and which number of the matrix stands at each of its places."""
        if self._transpose is None:
            column, order = torch.sort(self.index, stable=True)
            places = torch.arange(self.shape[1] + 1, dtype=column.dtype, device=column.device)
            pointer = torch.searchsorted(column, places)
            row = torch.repeat_interleave(self.pointer.diff(), output_size=self.index.shape[0])
            ids = self.pointer.dtype
            self._transpose = pointer.to(ids), row.index_select(0, order).to(ids), order.to(ids)
        return self._transpose


def _pattern(x: Tensor) -> _Pattern:
    found: _Pattern | None = _patterns.get(x)
    if found is None or not found.is_current:
        found = _patterns[x] = _Pattern(x)
    return found


class _Product(torch.autograd.Function):
    """S m or Sᵀ m; the derivative of one is the other, to any order."""

    @staticmethod
    def forward(ctx: Any, pattern: _Pattern, transposed: bool, values: Tensor, m: Tensor) -> Tensor:
        ctx.pattern, ctx.transposed = pattern, transposed
        ctx.save_for_backward(values)
        pointer, index = pattern.pointer, pattern.index
        if transposed:
            pointer, index, order = pattern.transpose
            values = values.index_select(0, order)
        return F.embedding_bag(
            index, m.contiguous(), pointer, mode="sum", per_sample_weights=values, include_last_offset=True
        )

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (values,) = ctx.saved_tensors
        return None, None, None, _Product.apply(ctx.pattern, not ctx.transposed, values, grads[0])


def _is_opaque(x: Tensor) -> bool:
    """Whether a pattern cannot be kept: while tracing, and where torch does not count writes."""
    return torch.compiler.is_compiling() or x.is_inference() or torch.is_inference_mode_enabled()


def with_values(x: Tensor, values: Tensor) -> Tensor:
    """The CSR matrix with other numbers in the same places."""
    parts = [x.crow_indices(), x.col_indices(), values]
    if not torch.is_inference_mode_enabled():  # parts from there make a matrix that can be neither read nor written
        parts = [part.clone() if part.is_inference() else part for part in parts]
    pointer, index, values = parts
    out = torch.sparse_csr_tensor(pointer, index, values, x.shape, check_invariants=False)
    if not _is_opaque(x):
        _patterns[out] = _pattern(x)
    return out


def sparse_linear(x: Tensor, weight: Tensor) -> Tensor:
    """x Wᵀ for sparse x, which is never made dense.

    Autocast computes it in the dtype of the weights: torch has no sparse product of two dtypes, nor one of half
    precision on every device.
    """
    kind = x.device.type
    if torch.is_autocast_enabled(kind):
        if x.dtype != weight.dtype:
            compressed = x.layout == torch.sparse_csr
            x = with_values(x, x.values().to(weight.dtype)) if compressed else x.to(weight.dtype)
        with torch.autocast(kind, enabled=False):
            return sparse_linear(x, weight)
    plain = x.layout == torch.sparse_csr and x.device.type == "cpu" and x.dtype == weight.dtype and not x.requires_grad
    if not plain or _is_opaque(x):
        return torch.sparse.mm(x, weight.t())
    return _Product.apply(_pattern(x), False, x.values(), weight.t())
