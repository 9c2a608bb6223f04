"""Pickled files of others, read without running anything that they name.

A pickle is a program: it may name any function of any module and have it called. Here a file gets none of them. What it
may name is an exact list of (module, name) pairs, and each stands for a class of this module that only takes data in.
"""

from __future__ import annotations

import math
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from hgeo.data._dataset import DataError

__all__ = ["ARRAYS", "GRAPHS", "LISTS", "PickledGraph", "load_pickle"]


class _Dtype:
    """Takes in what a pickle says of a ``numpy.dtype``; only plain numbers become one."""

    def __init__(self, code: str, *_: Any) -> None:
        if not re.fullmatch(r"b1|[iu][1248]|f[248]", code):
            raise pickle.UnpicklingError(f"it holds an array of {code!r}, expected plain numbers")
        self.plain = np.dtype(code)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _version, order, *_rest = state
        if order in ("<", ">"):
            self.plain = np.dtype(order + self.plain.str[1:])


class _Array(np.ndarray):
    """Takes in what a pickle says of a ``numpy.ndarray``, whose own ``__setstate__`` trusts a forged dtype.

    It stands for ``numpy.ndarray`` and for the function that makes an empty one, whose arguments say nothing.
    """

    def __new__(cls, *_: Any) -> _Array:
        return super().__new__(cls, 0)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _version, shape, dtype, by_columns, content = state
        raw = content.encode("latin1") if isinstance(content, str) else content
        sizes = tuple(int(size) for size in shape)
        if not isinstance(raw, bytes):
            raise pickle.UnpicklingError(f"it holds an array of Python objects ({type(raw).__name__})")
        if any(size < 0 for size in sizes) or math.prod(sizes) * dtype.plain.itemsize != len(raw):
            raise pickle.UnpicklingError(f"it holds an array of shape {sizes} in {len(raw)} bytes")
        known: Any = (1, sizes, dtype.plain, bool(by_columns), raw)
        super().__setstate__(known)


class _Csr(scipy.sparse.csr_matrix):
    """Takes in what a pickle says of a ``scipy.sparse.csr_matrix``, and checks that its indices lie inside.

    Its arrays are copies: a pickle may say something else of an array after the matrix that holds it was checked.
    """

    def __init__(self) -> None:
        super().__init__((0, 0))

    def __setstate__(self, state: dict[str, Any]) -> None:
        arrays = [state[part] for part in ("data", "indices", "indptr")]
        if not all(isinstance(array, _Array) for array in arrays):
            raise pickle.UnpicklingError("it holds a sparse matrix that is not made of arrays")
        rows, columns = state["_shape"]
        super().__init__(tuple(np.array(array) for array in arrays), shape=(int(rows), int(columns)))
        self.check_format(full_check=True)


class _Lists(dict[Any, Any]):
    """Stands for a ``collections.defaultdict`` of lists; one of anything else is refused."""

    __slots__ = ()

    def __init__(self, factory: Any) -> None:
        if factory is not list:
            raise pickle.UnpicklingError(f"it holds a defaultdict of {factory!r}, expected one of lists")
        super().__init__()

    def __setstate__(self, state: Any) -> None:
        raise pickle.UnpicklingError("it sets attributes, which a dictionary of lists has none of")


class PickledGraph:
    """Takes in what a pickle says of a ``networkx.Graph``: plain dictionaries, which whoever reads them has to check.

    ``nodes`` maps a node to its attributes, ``neighbours`` maps it to its neighbours.
    """

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.nodes: Any = state["_node"]
        self.neighbours: Any = state["_adj"]


class _Passed:
    """Stands for views of a graph that a pickle may hold beside it; what it says of them is not kept."""

    def __setstate__(self, state: Any) -> None:
        pass


# A module may be renamed after a file was written: both names are allowed.
_ARRAYS: dict[tuple[str, str], type] = {
    ("numpy", "dtype"): _Dtype,
    ("numpy", "ndarray"): _Array,
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("scipy.sparse.csr", "csr_matrix"): _Csr,
    ("scipy.sparse._csr", "csr_matrix"): _Csr,
}
_LISTS: dict[tuple[str, str], type] = {
    ("collections", "defaultdict"): _Lists,
    ("__builtin__", "list"): list,
    ("builtins", "list"): list,
}
_GRAPHS: dict[tuple[str, str], type] = {
    ("networkx.classes.graph", "Graph"): PickledGraph,
    ("networkx.classes.reportviews", "NodeView"): _Passed,
    ("networkx.classes.coreviews", "AdjacencyView"): _Passed,
    ("builtins", "dict"): dict,
}
_STAND_INS = _ARRAYS | _LISTS | _GRAPHS

#: what a file of arrays and CSR matrices may name
ARRAYS = frozenset(_ARRAYS)
#: what a file of neighbours, a defaultdict of lists, may name
LISTS = frozenset(_LISTS)
#: what a file of one undirected networkx graph, whose attributes are plain, may name
GRAPHS = frozenset(_GRAPHS)


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: Any, stand_ins: dict[tuple[str, str], type]) -> None:
        super().__init__(file, encoding="latin1")  # bytes of Python 2 are text to Python 3
        self._stand_ins = stand_ins

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self._stand_ins:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which no file of this kind needs; it was not run")
        return self._stand_ins[module, name]


def load_pickle(path: Path, allowed: frozenset[tuple[str, str]]) -> Any:
    """Reads a pickled file that may name only ``allowed``: exact pairs of module and name, such as :data:`ARRAYS`.

    Nothing that the file names is imported or called. Arrays hold plain numbers, and are subclasses of NumPy's.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "numbers"
    >>> _ = file.write_bytes(pickle.dumps(np.arange(3)))
    >>> np.asarray(load_pickle(file, ARRAYS))
    array([0, 1, 2])
    """
    stand_ins = {pair: _STAND_INS[pair] for pair in allowed}
    with open(path, "rb") as file:
        try:
            return _Unpickler(file, stand_ins).load()
        except Exception as error:  # a damaged or forged file can raise any kind of error
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise DataError(f"{path} cannot be read: {reason}") from error
