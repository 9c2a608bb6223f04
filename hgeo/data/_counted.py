"""Features that are counted in a graph: columns behind the others, of degrees."""

from __future__ import annotations

import warnings
from typing import Literal

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

__all__ = ["Counted", "counted_beside", "csr_tensor", "without_counted"]

#: degrees one by one and their logarithm; or as HGCN's code counts them
Counted = Literal["degrees", "hgcn"]

_SINGLE = 6  # degrees 0, 1, 2, 3, 4, and 5 or more
_COLUMNS = _SINGLE + 1


def counted_beside(features: Tensor, kind: Counted, edge_index: Tensor) -> Tensor:
    """The features, and behind them a column a degree of 0, 1, 2, 3, 4, more; and log(1 + degree), centred and scaled
    (``degrees``), or 1 (``hgcn``)."""
    nodes = features.shape[0]
    degree = np.bincount(edge_index[1].cpu().numpy(), minlength=nodes)
    columns = np.ones((nodes, _COLUMNS))
    columns[:, :_SINGLE] = np.eye(_SINGLE)[np.minimum(degree, _SINGLE - 1)]
    if kind == "degrees":
        logarithm = np.log1p(degree)
        columns[:, _SINGLE] = (logarithm - logarithm.mean()) / max(logarithm.std(), 1e-12)
    if features.layout == torch.sparse_csr:
        return _like(features, scipy.sparse.hstack([_scipy(features), columns], format="csr"))
    return torch.cat([features, torch.from_numpy(columns).to(features)], dim=1)


def without_counted(features: Tensor) -> Tensor:
    """The features without the columns that :func:`counted_beside` put there."""
    if features.layout == torch.sparse_csr:
        return _like(features, _scipy(features)[:, :-_COLUMNS])
    return features[:, :-_COLUMNS]


def _scipy(features: Tensor) -> scipy.sparse.csr_matrix:
    parts = (features.values(), features.col_indices(), features.crow_indices())
    return scipy.sparse.csr_matrix(tuple(part.cpu().numpy() for part in parts), shape=tuple(features.shape))


def _like(features: Tensor, matrix: scipy.sparse.csr_matrix) -> Tensor:
    crow, column = (
        torch.from_numpy(part.astype(np.int64)).to(features.device) for part in (matrix.indptr, matrix.indices)
    )
    return csr_tensor(crow, column, torch.from_numpy(matrix.data).to(features), matrix.shape)


def csr_tensor(crow: Tensor, column: Tensor, values: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A sparse CSR tensor of these parts."""
    with warnings.catch_warnings():
        # torch warns once that CSR is in beta. Only its product with a dense matrix is used here, and that works.
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(crow, column, values, size=shape, check_invariants=False)
