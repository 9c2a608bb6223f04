"""Cora, Citeseer and Pubmed from the raw files ``ind.*`` of the Planetoid paper, with its public split."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from hgeo.data._dataset import DataError
from hgeo.data._pickle import ARRAYS, LISTS, load_pickle

__all__ = ["CITATION_PARTS", "read_citation"]

#: the files of a graph, each named ``ind.NAME.PART``
CITATION_PARTS = ("x", "y", "tx", "ty", "allx", "ally", "graph", "test.index")

_VALIDATION = 500


def read_citation(folder: Path, name: str) -> dict[str, Any]:
    """The arguments of :func:`make_dataset`: edges, features, labels and the public split.

    The files number the test nodes by ``test.index``, in another order than their rows in ``tx`` and ``ty``; numbers
    without a row (Citeseer has some) are nodes without links to labels, with features of zeros and class 0.
    """
    files = {part: folder / f"ind.{name}.{part}" for part in CITATION_PARTS}
    taught = _dense(files["y"])
    features, test_features = _sparse(files["allx"]), _sparse(files["tx"])
    classes, test_classes = _dense(files["ally"]), _dense(files["ty"])
    test = np.loadtxt(files["test.index"], dtype=np.int64, ndmin=1)
    begin = len(classes)
    row = test - begin
    if (
        len({len(test), test_features.shape[0], len(test_classes)}) > 1
        or len(np.unique(row)) < len(row)
        or min(row) < 0
    ):
        raise DataError(f"{files['test.index']} has {len(test)} numbers that do not fit tx, ty and ally")
    placed = scipy.sparse.csr_matrix((np.ones(len(row), np.float32), (row, np.arange(len(row)))))
    one_hot = np.concatenate([classes, placed @ test_classes])
    return {
        "edge_index": _edges(files["graph"]),
        "features": _rows_of_sum_one(scipy.sparse.vstack([features, placed @ test_features], format="csr")),
        "labels": one_hot.argmax(axis=1),
        "masks": {
            "train": np.arange(len(taught)),
            "val": np.arange(len(taught), len(taught) + _VALIDATION),
            "test": np.sort(test),
        },
    }


def _edges(path: Path) -> np.ndarray:
    neighbours = load_pickle(path, LISTS)
    if not isinstance(neighbours, dict):
        raise DataError(f"{path} holds a {type(neighbours).__name__}, expected the neighbours of every node")
    source = np.repeat(list(neighbours), [len(found) for found in neighbours.values()])
    return np.stack([source, [node for found in neighbours.values() for node in found]])


def _dense(path: Path) -> np.ndarray:
    array = load_pickle(path, ARRAYS)
    if not isinstance(array, np.ndarray) or array.ndim != 2:
        raise DataError(f"{path} holds a {type(array).__name__}, expected an array with one row a node")
    return np.asarray(array)


def _sparse(path: Path) -> scipy.sparse.csr_matrix:
    matrix = load_pickle(path, ARRAYS)
    if not isinstance(matrix, scipy.sparse.csr_matrix):
        raise DataError(f"{path} holds a {type(matrix).__name__}, expected a sparse matrix with one row a node")
    return scipy.sparse.csr_matrix(matrix)


def _rows_of_sum_one(words: scipy.sparse.csr_matrix) -> scipy.sparse.csr_matrix:
    """Every row divided by its sum, to the last bit as DGL does: added up by columns, in the dtype of the file."""
    words.sort_indices()
    total = words @ np.ones(words.shape[1], words.dtype)
    scale = np.divide(1, total, out=np.zeros_like(total), where=total != 0)
    return scipy.sparse.csr_matrix(scipy.sparse.diags(scale) @ words, dtype=np.float32)
