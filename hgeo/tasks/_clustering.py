"""Node clustering: K-means in the tangent space at the origin, scored by normalised mutual information."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

__all__ = ["clustering_nmi"]


def clustering_nmi(points: Tensor, labels: Tensor, *, manifold: Any = None, seed: int = 0) -> float:
    """NMI between the classes and K-means clusters of log0(points); as many clusters as classes occur.

    ``manifold=None``: the points are vectors already. The paper clusters the hidden layer of the test nodes.

    >>> import torch
    >>> points = torch.cat([torch.randn(20, 2) + 8, torch.randn(20, 2) - 8])
    >>> clustering_nmi(points, torch.arange(40) // 20)
    1.0
    """
    from sklearn.cluster import KMeans
    from sklearn.metrics import normalized_mutual_info_score

    if manifold is not None:
        from hgeo.manifolds import log0

        points = log0(manifold, points)
    vectors, classes = points.detach().cpu().double().numpy(), labels.cpu().numpy()
    if not np.isfinite(vectors).all():
        row = int((~np.isfinite(vectors)).any(axis=1).argmax())
        raise ValueError(f"point {row} is not finite; K-means needs numbers")
    means = KMeans(len(set(classes.tolist())), n_init=10, random_state=seed).fit(vectors)
    return float(normalized_mutual_info_score(classes, means.labels_))
