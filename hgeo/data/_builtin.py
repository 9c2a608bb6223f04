"""Data sets that need no download: Zachary's karate club."""

from __future__ import annotations

import numpy as np
import scipy.sparse

from hgeo.data._dataset import Dataset, Normalize, make_dataset

__all__ = ["karate"]


def karate(*, split_seed: int = 0, normalize: Normalize = "auto") -> Dataset:
    """Zachary's karate club: 34 members, 78 friendships, and the two clubs it broke into.

    The features are the identity; the two leaders (0 and 33) are the training set.
    """
    import networkx

    club = networkx.karate_club_graph()
    label = np.array([int(club.nodes[node]["club"] != "Mr. Hi") for node in range(34)])
    rest = np.random.default_rng(split_seed).permutation(np.arange(1, 33))
    return make_dataset(
        "karate",
        np.array(list(club.edges())).T,
        scipy.sparse.identity(34, format="csr"),
        label,
        masks={"train": np.array([0, 33]), "val": rest[:8], "test": rest[8:]},
        normalize=normalize,
        class_names=("Mr. Hi", "Officer"),
    )
