"""A user's own data: an ``.npz`` file, a DGL graph, a PyG ``Data`` object."""

from __future__ import annotations

import dataclasses
import os
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from hgeo.data._archive import check_unpacked
from hgeo.data._dataset import DataError, Dataset, Normalize, make_dataset
from hgeo.data._origin import checked_origin

__all__ = ["from_dgl", "from_npz", "from_pyg"]

_SPARSE_PARTS = ("feat_data", "feat_indices", "feat_indptr", "feat_shape")
_CSR_HINT = "feat_data=m.data, feat_indices=m.indices, feat_indptr=m.indptr, feat_shape=m.shape"
_MASKS = ("train_mask", "val_mask", "test_mask")
_OPTIONAL = (*_MASKS, "class_names")
_MOST_FEATURES = 1 << 24  # a layer has a row of weights for each


def from_npz(
    path: str | Path, *, split_seed: int = 0, normalize: Normalize = "auto", sha256: str | None = None
) -> Dataset:
    """Read ``edge_index`` (2, E), ``feat`` (N, F), ``label`` (N,) and, if there, the three masks from an ``.npz`` file.

    Sparse features are the four arrays of a CSR matrix: ``feat_data``, ``feat_indices``, ``feat_indptr``,
    ``feat_shape``. Without masks the nodes are split by ``split_seed``: 20 a class, 500, 1000. ``class_names``, an
    array of texts, is what pictures call the classes. Nothing is unpickled. A file with another ``sha256`` than a given
    one is refused.

    >>> import numpy as np, tempfile, os
    >>> file = os.path.join(tempfile.mkdtemp(), "pairs.npz")
    >>> pairs = np.array([[0, 2, 4, 6], [1, 3, 5, 7]])
    >>> np.savez(file, edge_index=pairs, feat=np.random.rand(8, 3), label=np.arange(8) // 4)
    >>> from_npz(file)
    Dataset(pairs: 8 nodes, 8 edges, 3 features, 2 classes, 4/1/3 train/val/test)
    """
    path = Path(path).expanduser()
    if not path.is_file():
        raise FileNotFoundError(f"no file {path}; expected an .npz with edge_index, feat and label")
    origin = checked_origin(path, [path], sha256)
    arrays = _read(path)
    features = arrays["feat"] if "feat" in arrays else _sparse_features(arrays, str(path))
    masks = {key[:-5]: arrays[key] for key in _MASKS if key in arrays} or None
    dataset = make_dataset(
        os.fsencode(path.stem).decode(errors="replace"),  # a locale may not have read the file's name as UTF-8
        arrays["edge_index"],
        features,
        arrays["label"],
        masks=masks,
        split_seed=split_seed,
        normalize=normalize,
        names={"feat": "feat" if "feat" in arrays else "feat_data"},
        where=str(path),
        class_names=_texts(arrays.get("class_names"), str(path)),
    )
    return dataclasses.replace(dataset, origin=origin)


def _texts(array: np.ndarray | None, where: str) -> list[str] | None:
    if array is None:
        return None
    if array.ndim != 1 or array.dtype.kind != "U":
        raise DataError(
            f"{where}: class_names has shape {array.shape} and dtype {array.dtype}, expected a row of texts"
        )
    return [str(text) for text in array]


def _read(path: Path) -> dict[str, np.ndarray]:
    """The arrays that a data set is made of; whatever else is in the file stays unread."""
    if not zipfile.is_zipfile(path):
        with open(path, "rb") as file:
            single = file.read(6) == b"\x93NUMPY"
        found = "holds a single array (.npy)" if single else "is not an .npz file, or is damaged"
        raise DataError(f"{path} {found}; expected what numpy.savez writes, with edge_index, feat and label")
    check_unpacked(path)
    try:
        with np.load(path, allow_pickle=False) as archive:
            held = set(archive.files)
            sparse = any(part in held for part in _SPARSE_PARTS)
            wanted = ["edge_index", "label", *(_SPARSE_PARTS if sparse else ["feat"])]
            missing = [key for key in wanted if key not in held]
            if missing:
                raise DataError(
                    f"{path} has no {', '.join(missing)}; it holds {', '.join(sorted(held)) or 'nothing'}, expected "
                    "edge_index, feat (or feat_data, feat_indices, feat_indptr, feat_shape), label and optional masks"
                )
            return {key: _array(archive, key, path) for key in [*wanted, *(key for key in _OPTIONAL if key in held)]}
    except (zipfile.BadZipFile, EOFError, OSError) as error:
        raise DataError(f"{path} is not a readable .npz file ({error})") from error


def _array(archive: Mapping[str, object], key: str, path: Path) -> np.ndarray:
    try:
        array = archive[key]
    except ValueError as error:
        if "allow_pickle" not in str(error):
            raise DataError(f"{path}: {key} is damaged ({error})") from error
        hint = "; of a scipy matrix m save " + _CSR_HINT if key == "feat" else ""
        raise DataError(f"{path}: {key} holds Python objects, expected a plain array of numbers{hint}") from error
    except (zlib.error, NotImplementedError, RuntimeError, MemoryError) as error:
        raise DataError(f"{path}: {key} is damaged or cannot be unpacked ({error})") from error
    if not isinstance(array, np.ndarray):
        raise DataError(f"{path}: {key} is not an array; expected what numpy.savez writes")
    return array


def from_dgl(graph: Any, *, name: str = "dgl", split_seed: int = 0, normalize: Normalize = "auto") -> Dataset:
    """A homogeneous ``DGLGraph`` with ``ndata['feat']``, ``ndata['label']`` and, if there, the three masks."""
    if not graph.is_homogeneous:
        raise DataError(
            f"{name}: a heterogeneous DGLGraph with node types {graph.ntypes}, expected one type; "
            "choose one with dgl.node_type_subgraph or merge them with dgl.to_homogeneous"
        )
    data = graph.ndata
    missing = [key for key in ("feat", "label") if key not in data]
    if missing:
        raise DataError(f"{name}: ndata has no {', '.join(missing)}; it holds {', '.join(sorted(data)) or 'nothing'}")
    masks = {key[:-5]: data[key] for key in _MASKS if key in data} or None
    source, destination = graph.edges()
    edges = np.stack([source.cpu().numpy(), destination.cpu().numpy()])
    return make_dataset(
        name, edges, data["feat"], data["label"], masks=masks, split_seed=split_seed, normalize=normalize
    )


def from_pyg(data: Any, *, name: str = "pyg", split_seed: int = 0, normalize: Normalize = "auto") -> Dataset:
    """A PyG ``Data`` object with ``edge_index``, ``x``, ``y`` and, if there, the three masks."""
    found = {key: getattr(data, key, None) for key in ("edge_index", "x", "y")}
    missing = [key for key, value in found.items() if value is None]
    if missing:
        raise DataError(f"{name}: the PyG object has no {', '.join(missing)}; expected edge_index, x and y")
    masks = {key[:-5]: getattr(data, key) for key in _MASKS if getattr(data, key, None) is not None} or None
    return make_dataset(
        name,
        found["edge_index"],
        found["x"],
        found["y"],
        masks=masks,
        split_seed=split_seed,
        normalize=normalize,
        names={"feat": "x", "label": "y"},
    )


def _sparse_features(arrays: dict[str, np.ndarray], where: str) -> scipy.sparse.csr_matrix:
    shape = arrays["feat_shape"]
    if shape.shape != (2,) or shape.dtype.kind not in "iu" or (shape < 1).any():
        raise DataError(f"{where}: feat_shape is {shape.tolist()}, expected two numbers from 1 on: nodes, features")
    rows, columns = (int(size) for size in shape)
    if columns > _MOST_FEATURES:
        raise DataError(f"{where}: feat_shape says {columns} features, expected at most {_MOST_FEATURES}")
    data, indices, indptr = arrays["feat_data"], arrays["feat_indices"], arrays["feat_indptr"]
    for key, array in (("feat_data", data), ("feat_indices", indices), ("feat_indptr", indptr)):
        if array.ndim != 1:
            raise DataError(f"{where}: {key} has shape {array.shape}, expected one dimension")
        if key != "feat_data" and array.dtype.kind not in "iu":
            raise DataError(f"{where}: {key} has dtype {array.dtype}, expected integers")
    if len(data) != len(indices):
        raise DataError(f"{where}: feat_data has {len(data)} entries but feat_indices {len(indices)}")
    if len(indptr) != rows + 1:
        raise DataError(f"{where}: feat_indptr has {len(indptr)} entries, expected {rows + 1}: one a row and the end")
    indices, indptr = indices.astype(np.int64), indptr.astype(np.int64)  # differences of unsigned numbers wrap
    falls = np.diff(indptr) < 0
    if falls.any() or indptr[0] != 0 or indptr[-1] != len(data):
        row = int(falls.argmax()) if falls.any() else (0 if indptr[0] != 0 else rows)
        raise DataError(f"{where}: feat_indptr row {row} is wrong; it must rise from 0 to {len(data)}")
    outside = (indices < 0) | (indices >= columns)
    if outside.any():
        position = int(outside.argmax())
        row = int(np.searchsorted(indptr, position, side="right") - 1)
        raise DataError(f"{where}: feat_indices of row {row} holds {indices[position]}, expected 0 … {columns - 1}")
    return scipy.sparse.csr_matrix((data, indices, indptr), shape=(rows, columns))
