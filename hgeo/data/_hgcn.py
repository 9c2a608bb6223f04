"""Airport and Disease, which Chami et al. (2019) brought into the field, from the files of their repository."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from hgeo.data._archive import check_unpacked
from hgeo.data._dataset import DataError, DataWarning
from hgeo.data._pickle import GRAPHS, PickledGraph, load_pickle

__all__ = ["HGCN", "hgcn_files", "read_airport", "read_csr", "read_disease"]

#: the folder of each, and the start of the names of its files
HGCN = {"airport": "airport", "disease": "disease_lp", "disease-nc": "disease_nc"}

_LABEL = 4  # Airport's label is this column in four bins: no feature of a node whose label is asked for
_BINS = (7 / 7, 8 / 7, 9 / 7)


def hgcn_files(name: str) -> list[str]:
    """The files of a data set; the last one of Disease, the features, may be missing."""
    stem = HGCN[name]
    return (
        ["airport.p"] if name == "airport" else [f"{stem}.{part}" for part in ("edges.csv", "labels.npy", "feats.npz")]
    )


def read_airport(path: Path, *, all_columns: bool = False) -> dict[str, Any]:
    """The arguments of :func:`make_dataset`: nodes in the file's order; 4 features, or all five for links."""
    graph = load_pickle(path, GRAPHS)
    if not isinstance(graph, PickledGraph):
        raise DataError(f"{path} holds a {type(graph).__name__}, expected a networkx graph")
    try:
        place = {node: number for number, node in enumerate(graph.nodes)}
        edges = [(place[node], place[other]) for node, others in graph.neighbours.items() for other in others]
        table = np.array([[float(value) for value in node["feat"]] for node in graph.nodes.values()], dtype=np.float64)
        if table.shape != (len(place), _LABEL + 1):
            raise ValueError(f"features of shape {table.shape}, expected {_LABEL + 1} numbers a node")
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise DataError(f"{path} is no graph with 'feat' at its nodes ({type(error).__name__}: {error})") from error
    label = np.digitize(table[:, _LABEL], _BINS)
    return {
        "edge_index": np.array(edges, dtype=np.int64).reshape(-1, 2).T,
        "features": table if all_columns else table[:, :_LABEL],
        "labels": label - label.min(),
    }


def read_disease(folder: Path, name: str) -> dict[str, Any]:
    """The arguments of :func:`make_dataset`; without a file of features every node has one of its own."""
    edge_file, label_file, feature_file = (folder / file for file in hgcn_files(name))
    labels = np.load(label_file, allow_pickle=False)
    edges = _edges(edge_file, len(labels))
    if feature_file.is_file():
        check_unpacked(feature_file)
        with np.load(feature_file, allow_pickle=False) as archive:
            features = read_csr(archive)
        if features.data.size and features.data.min() < 0:
            features = features.toarray()  # no bag of words
    else:
        warnings.warn(
            f"{name}: there is no {feature_file}; each node gets a feature of its own instead",
            DataWarning,
            stacklevel=6,
        )
        features = scipy.sparse.identity(len(labels), dtype=np.float32, format="csr")
    return {"edge_index": edges, "features": features, "labels": labels}


def _edges(path: Path, count: int) -> np.ndarray:
    """Pairs of names, a line each; nodes are numbered in the order in which their names come."""
    place: dict[str, int] = {}
    pairs = []
    for line, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        names = text.strip().split(",")
        if len(names) != 2 or not all(names):
            raise DataError(f"{path}, line {line}: expected two nodes with a comma between them, got {text!r}")
        pairs.append([place.setdefault(name, len(place)) for name in names])
    if len(place) != count:
        raise DataError(f"{path} names {len(place)} nodes, and there are {count} labels")
    return np.array(pairs, dtype=np.int64).reshape(-1, 2).T


def read_csr(archive: Mapping[str, np.ndarray], prefix: str = "") -> scipy.sparse.csr_matrix:
    """A CSR matrix from the arrays of an open ``.npz`` file, checked."""
    arrays = tuple(archive[f"{prefix}{part}"] for part in ("data", "indices", "indptr"))
    rows, columns = archive[f"{prefix}shape"]
    matrix = scipy.sparse.csr_matrix(arrays, shape=(int(rows), int(columns)))
    matrix.check_format(full_check=True)  # SciPy does not check indices itself and would write outside of its memory
    return matrix
