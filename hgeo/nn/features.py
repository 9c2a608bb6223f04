"""What a network does to raw features, dense or sparse: sparse ones are never made dense."""

from __future__ import annotations

from torch import Tensor

from hgeo.nn._inputs import dropout, linear

__all__ = ["feature_dropout", "feature_linear"]


def feature_dropout(x: Tensor, share: float, training: bool = True) -> Tensor:
    """Sets a ``share`` of the numbers to zero and divides the others by 1 − ``share``; what is not stored stays zero.

    >>> import torch
    >>> x = torch.eye(3).to_sparse_csr()
    >>> feature_dropout(x, 0.5).layout, feature_dropout(x, 0.5, training=False) is x
    (torch.sparse_csr, True)
    """
    return dropout(x, share) if training and share else x


def feature_linear(x: Tensor, weight: Tensor) -> Tensor:
    """Computes x Wᵀ of features (N, F) and weights (d, F).

    >>> import torch
    >>> feature_linear(torch.eye(3).to_sparse_csr(), torch.ones(2, 3)).shape
    torch.Size([3, 2])
    """
    return linear(x, weight)
