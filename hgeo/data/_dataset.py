"""One shape for every data set: a symmetric graph, features, labels, three disjoint sets of nodes."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy.sparse
import scipy.sparse.linalg
import torch
from torch import Tensor

from hgeo._dgl import import_dgl
from hgeo.data._counted import Counted, counted_beside, csr_tensor, without_counted

if TYPE_CHECKING:
    from hgeo.data._parts import Parts
    from hgeo.graph import Graph

__all__ = ["DataError", "DataWarning", "Dataset", "Normalize", "Origin", "make_dataset", "random_split"]

Normalize = Literal["auto", "rows", "columns", "none", "hgcn"]

# Non-negative features with more zeros than this are counts of words, and stay sparse.
_BAG_OF_WORDS_DENSITY = 0.5
# Mean length of their rows, as tangent coordinates: a distance of one from the origin of a ball.
_BAG_OF_WORDS_LENGTH = 0.5
# Every whole number below it is a float64, too.
_LARGEST_LABEL = 2.0**53


class DataError(ValueError):
    """A data set that cannot be used as it is; the message says which array, which shape, which row."""


class DataWarning(UserWarning):
    """A data set that can be used, though not quite as it was given; the message says what was done."""


@dataclass(frozen=True)
class Origin:
    """The file or folder that data were read from, and the SHA-256 of what was read."""

    path: str
    sha256: str


@dataclass(frozen=True, eq=False)
class Dataset:
    """A graph for node classification, checked and in one canonical form.

    ``edge_index`` is (2, E) with the source row first, symmetric, sorted by destination, without self-loops and
    without duplicates. ``features`` is a dense (N, F) float tensor, or a sparse CSR tensor for bags of words.
    ``labels`` holds -1 where a node has none. The three index tensors are disjoint. ``label_values`` are the
    numbers that the classes had where they were not 0, 1, 2, …: class ``c`` was ``label_values[c]``; ``class_names``
    what they are called, if that is known. ``origin`` says which files the data were read from, if from any;
    ``counted`` whether the last features are degrees. Where ``parts`` says that edges and features lie in parts on
    several machines, there are none of them here.

    >>> from hgeo.data import load
    >>> load("karate")
    Dataset(karate: 34 nodes, 156 edges, 34 sparse features, 2 classes, 2/8/24 train/val/test)
    """

    name: str
    edge_index: Tensor
    num_nodes: int
    features: Tensor
    labels: Tensor
    num_classes: int
    train_idx: Tensor
    val_idx: Tensor
    test_idx: Tensor
    label_values: tuple[int, ...] | None = None
    origin: Origin | None = None
    counted: Counted | None = None
    class_names: tuple[str, ...] | None = None
    parts: Parts | None = None

    @property
    def num_edges(self) -> int:
        return int(self.edge_index.shape[1])

    @property
    def num_features(self) -> int:
        return int(self.features.shape[1])

    @property
    def is_sparse(self) -> bool:
        """Whether the features are a sparse CSR tensor."""
        return self.features.layout == torch.sparse_csr

    @cached_property
    def graph(self) -> Graph:
        """The :class:`hgeo.Graph` of ``edge_index``, made once."""
        from hgeo.graph import as_graph

        return as_graph(self.edge_index, num_nodes=self.num_nodes)

    def with_edges(self, edge_index: Tensor) -> Dataset:
        """The same nodes with other edges, in the same canonical form; degrees among the features are counted anew.

        What a link predictor may see of hidden links is nothing, their share of a degree included.
        """
        features = self.features
        if self.counted is not None:
            features = counted_beside(without_counted(features), self.counted, edge_index)
        return replace(self, edge_index=edge_index, features=features)

    def with_counted(self, kind: Counted) -> Dataset:
        """Columns of degrees behind the features.

        ``"degrees"``: 1 where the degree is 0, 1, 2, 3, 4, more, and log(1 + degree), centred and scaled. ``"hgcn"``:
        the first six, and 1 in every row, as HGCN's code does for Airport.
        """
        if self.counted is not None:
            raise DataError(f"{self.name} has features of degrees already")
        return replace(self, features=counted_beside(self.features, kind, self.edge_index), counted=kind)

    def dgl(self) -> Any:
        """A ``DGLGraph`` with ``feat``, ``label`` and the masks as node data (features dense, as DGL's layers want)."""
        dgl = import_dgl("Dataset.dgl()")
        source, destination = self.edge_index
        graph = dgl.graph((source, destination), num_nodes=self.num_nodes)
        graph.ndata["feat"] = self.features.to_dense() if self.is_sparse else self.features
        graph.ndata["label"] = self.labels
        for name, index in (("train", self.train_idx), ("val", self.val_idx), ("test", self.test_idx)):
            mask = torch.zeros(self.num_nodes, dtype=torch.bool, device=index.device)
            mask[index] = True
            graph.ndata[f"{name}_mask"] = mask
        return graph

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Dataset:
        """The same data on another device, with features of another dtype."""
        features = self.features
        if self.is_sparse and (device is not None or dtype is not None):
            features = csr_tensor(
                features.crow_indices().to(device=device),
                features.col_indices().to(device=device),
                features.values().to(device=device, dtype=dtype),
                features.shape,
            )
        else:
            features = features.to(device=device, dtype=dtype)
        moved = {
            field: getattr(self, field).to(device=device)
            for field in ("edge_index", "labels", "train_idx", "val_idx", "test_idx")
        }
        return replace(self, features=features, **moved)

    def __repr__(self) -> str:
        kind = "sparse features" if self.is_sparse else "features"
        sizes = "/".join(str(len(index)) for index in (self.train_idx, self.val_idx, self.test_idx))
        return (
            f"Dataset({self.name}: {self.num_nodes} nodes, {self.num_edges} edges, {self.num_features} {kind}, "
            f"{self.num_classes} classes, {sizes} train/val/test)"
        )


def make_dataset(
    name: str,
    edge_index: Any,
    features: Any,
    labels: Any,
    *,
    masks: dict[str, Any] | None = None,
    split_seed: int = 0,
    per_class: int = 20,
    normalize: Normalize = "auto",
    num_classes: int | None = None,
    names: dict[str, str] | None = None,
    where: str | None = None,
    class_names: Sequence[str] | None = None,
) -> Dataset:
    """Check raw arrays and bring them into the canonical form of :class:`Dataset`.

    ``masks`` maps ``train``, ``val``, ``test`` to boolean masks or to node ids; without it the nodes are split by
    ``split_seed`` (:func:`random_split`). ``names`` says what the caller calls an array, ``where`` where it comes from
    (default: ``name``), both for the error messages. Class numbers with gaps are numbered anew, with a warning; a given
    ``num_classes`` keeps them, classes without a node included. ``class_names`` has a name for each class number that
    the labels have.

    ``normalize="auto"``: non-negative features that are mostly zeros are bags of words, stay sparse, every row is
    divided by its sum, and all rows by one number, so that their mean length is ½; other features are centred and
    scaled column by column and divided by √F, so that a row has a length of about one. Hyperbolic radii thus begin well
    inside the ball, and a learning rate or weight decay means the same for short texts and for long ones (a row of n
    words that sums to 1 has a length of about 1/√n). Features that are the same in every row tell no node from
    another; with ``normalize="auto"`` every node gets one of its own instead, and a warning says so.
    ``normalize="rows"`` divides every row by its sum and nothing else, ``"columns"`` treats any features like dense
    ones, ``"none"`` leaves them alone. Columns are centred and scaled in float64; the result is float32.
    """
    called = {"edge_index": "edge_index", "feat": "feat", "label": "label", **(names or {})}
    place = name if where is None else where
    what = f"{place}: {called['feat']}"
    label = _checked_labels(labels, f"{place}: {called['label']}")
    feature = _checked_features(features, what)
    num_nodes = len(label)
    if feature.shape[0] != num_nodes:
        raise DataError(
            f"{what} has {feature.shape[0]} rows but {called['label']} has {num_nodes}; both need one a node"
        )
    edges = _checked_edges(edge_index, num_nodes, f"{place}: {called['edge_index']}")
    label, classes, values = _numbered(label, num_classes, f"{place}: {called['label']}")
    called_classes = _checked_names(class_names, values or range(classes), place)
    named = len(np.unique(label[label >= 0]))
    if named < 2:
        raise DataError(f"{place}: {called['label']} names {named} class(es), classification needs at least 2")
    if masks is None:
        parts = random_split(label, seed=split_seed, per_class=per_class, name=place)
    else:
        parts = _checked_parts(masks, label, place)
        taught = np.unique(label[parts[0]])
        if len(taught) < 2:
            only = taught[0] if values is None else values[taught[0]]
            raise DataError(
                f"{place}: train_mask chooses nodes of class {only} only, expected at least 2 of the {named} classes "
                f"that {called['label']} names; choose others, or leave out all masks to have every class chosen from"
            )
    if normalize == "auto" and num_nodes > 1 and _says_nothing(feature):
        warnings.warn(
            f"{what} is the same in every row; each node gets a feature of its own instead",
            DataWarning,
            stacklevel=2,
        )
        feature = scipy.sparse.identity(num_nodes, dtype=np.float32, format="csr")
    train, val, test = (torch.from_numpy(part) for part in parts)
    return Dataset(
        name=name,
        edge_index=torch.from_numpy(_canonical_edges(edges, num_nodes)),
        num_nodes=num_nodes,
        features=_normalized(feature, normalize, what),
        labels=torch.from_numpy(label),
        num_classes=classes,
        train_idx=train,
        val_idx=val,
        test_idx=test,
        label_values=values,
        class_names=called_classes,
    )


def random_split(
    label: np.ndarray, *, seed: int, per_class: int = 20, val: int = 500, test: int = 1000, name: str = "data"
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """``per_class`` nodes of each class to train on, then ``val`` and ``test`` of the other labelled nodes.

    A class gives at most half of its nodes to the training set; when fewer than ``val + test`` nodes are left they
    are shared in the same proportion. The same seed gives the same split on every machine.
    """
    if seed < 0:
        raise DataError(f"the split seed is {seed}, expected 0 or more")
    generator = np.random.default_rng(seed)
    by_class = np.argsort(label, kind="stable")
    by_class = by_class[np.count_nonzero(label < 0) :]
    starts = np.flatnonzero(np.diff(label[by_class])) + 1
    chosen = [
        generator.permutation(members)[: max(1, min(per_class, len(members) // 2))]
        for members in np.split(by_class, starts)
        if len(members) > 0
    ]
    train = np.sort(np.concatenate(chosen)) if chosen else np.empty(0, dtype=np.int64)
    rest = generator.permutation(np.setdiff1d(np.flatnonzero(label >= 0), train))
    if len(rest) < 2:
        raise DataError(
            f"{name}: {len(train) + len(rest)} labelled nodes are too few to split into train, val and test; give masks"
        )
    if len(rest) < val + test:
        val = max(1, len(rest) * val // (val + test))
        test = len(rest) - val
    return train.astype(np.int64), np.sort(rest[:val]), np.sort(rest[val : val + test])


def _as_numpy(array: Any) -> np.ndarray:
    if isinstance(array, Tensor):
        return array.detach().cpu().numpy()
    return np.asarray(array)


def _checked_labels(labels: Any, what: str) -> np.ndarray:
    label = _as_numpy(labels)
    if label.ndim == 2 and label.shape[1] == 1:
        label = label[:, 0]
    if label.ndim != 1:
        raise DataError(f"{what} has shape {label.shape}, expected (N,): one class number a node")
    if len(label) == 0:
        raise DataError(f"{what} is empty: a data set needs nodes")
    if label.dtype.kind == "f":
        wrong = ~(np.isfinite(label) & (label == np.round(label)) & (np.abs(label) < _LARGEST_LABEL))
        if wrong.any():
            row = int(wrong.argmax())
            raise DataError(f"{what} row {row} is {label[row]}, expected a class number 0, 1, 2, … (or -1 for none)")
    elif label.dtype.kind not in "iub":
        raise DataError(f"{what} has dtype {label.dtype}, expected integers 0, 1, 2, … (or -1 for none)")
    elif (label.astype(np.float64) >= _LARGEST_LABEL).any():
        row = int(label.astype(np.float64).argmax())
        raise DataError(f"{what} row {row} is {label[row]}, expected a class number 0, 1, 2, … (or -1 for none)")
    label = label.astype(np.int64)
    if label.min() < -1:
        row = int((label < -1).argmax())
        raise DataError(f"{what} row {row} is {label[row]}, expected a class number 0, 1, 2, … (or -1 for none)")
    return label


def _numbered(label: np.ndarray, num_classes: int | None, what: str) -> tuple[np.ndarray, int, tuple[int, ...] | None]:
    """Classes 0, 1, 2, … without gaps, how many, and the numbers they had before if these were others."""
    if num_classes is not None:
        if label.max() >= num_classes:
            row = int(label.argmax())
            raise DataError(f"{what} row {row} is {label[row]}, expected less than num_classes = {num_classes}")
        return label, num_classes, None
    values, place = np.unique(label, return_inverse=True)
    known = values[values >= 0]
    if len(known) == 0 or known[-1] == len(known) - 1:
        return label, len(known), None
    shown = [f"{value} → {number}" for number, value in enumerate(known)]
    if len(shown) > 8:
        shown = [*shown[:4], "…", *shown[-2:]]
    warnings.warn(
        f"{what} has gaps: its {len(known)} classes are numbered anew ({', '.join(shown)}); "
        "Dataset.label_values keeps the numbers they had",
        DataWarning,
        stacklevel=3,
    )
    return place.reshape(-1) - (len(values) - len(known)), len(known), tuple(int(value) for value in known)


def _checked_names(names: Sequence[str] | None, values: Sequence[int], place: str) -> tuple[str, ...] | None:
    """A name for each of the classes whose numbers were ``values``."""
    if names is None:
        return None
    if len(names) <= max(values):
        raise DataError(f"{place}: class_names has {len(names)} names, but there is a node of class {max(values)}")
    return tuple(str(names[value]) for value in values)


def _checked_features(features: Any, what: str) -> np.ndarray | scipy.sparse.csr_matrix:
    if isinstance(features, Tensor) and features.layout != torch.strided:
        coo = features.detach().cpu().to_sparse_coo().coalesce()
        row, column = coo.indices().numpy()
        features = scipy.sparse.csr_matrix((coo.values().numpy(), (row, column)), shape=tuple(coo.shape))
    if scipy.sparse.issparse(features):
        _check_numbers(features.dtype, what)
        if 0 in features.shape:
            raise DataError(f"{what} has shape {features.shape}: there is not a single feature")
        matrix = scipy.sparse.csr_matrix(features).astype(np.float64)  # a copy: the caller's is not changed
        matrix.sum_duplicates()
        bad = ~np.isfinite(matrix.data)
        if bad.any():
            position = int(bad.argmax())
            row = int(np.searchsorted(matrix.indptr, position, side="right") - 1)
            raise DataError(f"{what} row {row} holds {matrix.data[position]}, expected finite numbers")
        return matrix
    dense = _as_numpy(features)
    if dense.ndim != 2:
        raise DataError(f"{what} has shape {dense.shape}, expected (N, F): one row of features a node")
    if dense.shape[1] == 0:
        raise DataError(f"{what} has shape {dense.shape}: there is not a single feature")
    _check_numbers(dense.dtype, what)
    if dense.dtype != np.float32:  # keep float64 here: a large value is exact there
        dense = dense.astype(np.float64)
    bad = ~np.isfinite(dense).all(axis=1)
    if bad.any():
        row = int(bad.argmax())
        column = int((~np.isfinite(dense[row])).argmax())
        raise DataError(f"{what} row {row}, column {column} is {dense[row, column]}, expected finite numbers")
    return dense


def _check_numbers(dtype: np.dtype, what: str) -> None:
    if dtype.kind not in "fiub":
        raise DataError(f"{what} has dtype {dtype}, expected real numbers")


def _checked_edges(edge_index: Any, num_nodes: int, what: str) -> np.ndarray:
    edges = _as_numpy(edge_index)
    if edges.ndim != 2 or edges.shape[0] != 2:
        hint = "; transpose it" if edges.ndim == 2 and edges.shape[1] == 2 else ""
        raise DataError(f"{what} has shape {edges.shape}, expected (2, E) with the source row first{hint}")
    if edges.dtype.kind not in "iu":
        if edges.size:
            raise DataError(f"{what} has dtype {edges.dtype}, expected integer node ids")
        edges = edges.astype(np.int64)
    edges = edges.astype(np.int64)
    outside = (edges < 0) | (edges >= num_nodes)
    if outside.any():
        column = int(outside.any(axis=0).argmax())
        raise DataError(
            f"{what} column {column} is ({edges[0, column]}, {edges[1, column]}), expected node ids 0 … {num_nodes - 1}"
        )
    return edges


def _checked_parts(masks: dict[str, Any], label: np.ndarray, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    missing = [f"{part}_mask" for part in ("train", "val", "test") if masks.get(part) is None]
    if missing:
        raise DataError(f"{name}: {', '.join(missing)} missing; give all of train_mask, val_mask, test_mask, or none")
    num_nodes, owner = len(label), np.full(len(label), -1)
    parts: list[np.ndarray] = []
    for number, part in enumerate(("train", "val", "test")):
        mask, what = _as_numpy(masks[part]), f"{name}: {part}_mask"
        if mask.ndim != 1:
            raise DataError(
                f"{what} has shape {mask.shape}, expected ({num_nodes},); choose one split (a column) of it"
            )
        if mask.dtype.kind == "b" or (len(mask) == num_nodes and np.isin(mask, (0, 1)).all()):
            if len(mask) != num_nodes:
                raise DataError(f"{what} has length {len(mask)}, expected {num_nodes}: one entry a node")
            index = np.flatnonzero(mask)
        elif mask.dtype.kind in "iu":
            index = np.unique(mask.astype(np.int64))
            if len(index) and (index[0] < 0 or index[-1] >= num_nodes):
                wrong = int(index[0] if index[0] < 0 else index[-1])
                raise DataError(f"{what} holds node {wrong}, expected node ids 0 … {num_nodes - 1}")
        else:
            raise DataError(f"{what} has dtype {mask.dtype}, expected booleans or node ids")
        if len(index) == 0:
            raise DataError(f"{what} chooses no node")
        taken = owner[index] >= 0
        if taken.any():
            row = int(index[taken.argmax()])
            other = ("train", "val", "test")[owner[row]]
            raise DataError(f"{what} row {row} is in {other}_mask, too; a node belongs to one set only")
        unlabelled = label[index] < 0
        if unlabelled.any():
            raise DataError(f"{what} chooses node {int(index[unlabelled.argmax()])}, which has no label (-1)")
        owner[index] = number
        parts.append(index.astype(np.int64))
    return parts[0], parts[1], parts[2]


def _canonical_edges(edges: np.ndarray, num_nodes: int) -> np.ndarray:
    source, destination = edges
    keep = source != destination
    source, destination = source[keep], destination[keep]
    # One number an edge, the destination in front: unique() then also sorts the edges by destination.
    key = np.unique(np.concatenate([destination * num_nodes + source, source * num_nodes + destination]))
    return np.ascontiguousarray(np.stack([key % num_nodes, key // num_nodes]))


def _normalized(features: np.ndarray | scipy.sparse.csr_matrix, normalize: Normalize, what: str) -> Tensor:
    if normalize not in ("auto", "rows", "columns", "none", "hgcn"):
        raise DataError(f"normalize is {normalize!r}, expected 'auto', 'rows', 'columns', 'none' or 'hgcn'")
    sparse = _as_bag_of_words(features)
    if sparse is not None and normalize != "columns":
        if normalize != "none":
            sparse = _rows_of_sum_one(sparse)
        if normalize == "auto":
            length = float(scipy.sparse.linalg.norm(sparse, axis=1).mean())
            sparse = sparse * np.float32(_BAG_OF_WORDS_LENGTH / (length or 1.0))
        return csr_tensor(
            torch.from_numpy(sparse.indptr.astype(np.int64)),
            torch.from_numpy(sparse.indices.astype(np.int64)),
            torch.from_numpy(_as_float32(sparse.data, what)),
            sparse.shape,
        )
    dense = features if isinstance(features, np.ndarray) else features.toarray()
    if normalize == "rows":
        dense = _without_exponent(dense, axis=1)
        total = np.abs(dense).sum(axis=1, keepdims=True)
        dense = dense / np.where(total > 0, total, 1.0)
    elif normalize == "hgcn":
        total = dense.sum(axis=1, keepdims=True)
        dense = dense * np.divide(1.0, total, out=np.zeros_like(total), where=total != 0)
    elif normalize in ("auto", "columns"):
        dense = _standardized(dense)
    return torch.from_numpy(_as_float32(dense, what))


def _rows_of_sum_one(matrix: scipy.sparse.csr_matrix) -> scipy.sparse.csr_matrix:
    """Every row of non-negative numbers divided by its sum, in float32: nothing cancels in sums of one sign."""
    count = np.diff(matrix.indptr)
    filled = count > 0
    if filled.any():
        # by a power of two first, which rounds nothing: sums of large numbers overflow
        _, exponent = np.frexp(np.maximum.reduceat(matrix.data, matrix.indptr[:-1][filled]))
        matrix.data = np.ldexp(matrix.data, -np.repeat(exponent, count[filled]))
    matrix = matrix.astype(np.float32)
    total = np.asarray(matrix.sum(axis=1)).ravel()
    scale = 1.0 / np.maximum(total, np.finfo(np.float32).tiny)
    return scipy.sparse.csr_matrix(scipy.sparse.diags(scale.astype(np.float32)) @ matrix)


def _standardized(dense: np.ndarray) -> np.ndarray:
    """Every column with mean 0 and standard deviation 1/√F; one that is the same in every row becomes 0."""
    noise, scaled = _noise(dense), _without_exponent(dense, axis=0)
    scaled -= scaled[:1].copy()  # a constant column is exactly 0 from here on, and no sum rounds away what differs
    scaled -= scaled.mean(axis=0, keepdims=True)
    spread = scaled.std(axis=0, keepdims=True)
    # Differences below the rounding error of the dtype are noise: such a column is not scaled up.
    scaled = np.where(spread > noise, scaled / np.where(spread > noise, spread, 1.0), 0.0)
    return scaled / np.sqrt(dense.shape[1])


def _without_exponent(dense: np.ndarray, axis: int) -> np.ndarray:
    """A float64 copy, rows or columns divided by powers of two: nothing exceeds 1, and no square overflows."""
    _, exponent = np.frexp(np.abs(dense).max(axis=axis, keepdims=True).astype(np.float64))
    return np.ldexp(dense.astype(np.float64), -exponent)


def _as_float32(values: np.ndarray, what: str) -> np.ndarray:
    with np.errstate(over="ignore"):
        single = np.array(values, dtype=np.float32, order="C")  # a copy, so that the caller's array is not changed
    if not np.isfinite(single).all():
        raise DataError(f"{what} holds {np.abs(values).max():g}, too large for float32; scale it, or let hgeo do so")
    return single


def _says_nothing(features: np.ndarray | scipy.sparse.csr_matrix) -> bool:
    low, high = features.min(axis=0), features.max(axis=0)
    if scipy.sparse.issparse(features):
        low, high = low.toarray(), high.toarray()
        return bool((low == high).all())
    return bool((high / 2 - low / 2 <= _noise(features) * np.maximum(np.abs(low), np.abs(high)) / 2).all())


def _noise(dense: np.ndarray) -> float:
    """Columns that differ by less of their largest number differ by the rounding of their dtype."""
    return 2.0 * float(np.finfo(dense.dtype).eps)


def _as_bag_of_words(features: np.ndarray | scipy.sparse.csr_matrix) -> scipy.sparse.csr_matrix | None:
    if scipy.sparse.issparse(features):
        matrix: Any = features.astype(np.float64)
        matrix.eliminate_zeros()
    else:
        if features.size == 0 or np.count_nonzero(features) > _BAG_OF_WORDS_DENSITY * features.size:
            return None
        matrix = scipy.sparse.csr_matrix(features).astype(np.float64)
    if matrix.nnz and matrix.data.min() < 0:
        return None
    return matrix
