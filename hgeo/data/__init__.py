"""Data sets: built-in ones, DGL's by name, a user's own files and graphs, all as one :class:`Dataset`.

A data set is checked when it is made, and says where it comes from. :func:`load` finds one by its name or its file;
:func:`make_dataset` makes one from arrays. Files are parsed, never unpickled but by an exact list of names. Knows
graphs, no model.

>>> from hgeo.data import load
>>> load("karate").num_classes
2
"""

from __future__ import annotations

import difflib
import os
from pathlib import Path

from hgeo.data._builtin import karate
from hgeo.data._dataset import DataError, Dataset, DataWarning, Origin, make_dataset, random_split
from hgeo.data._hierarchy import hierarchy
from hgeo.data._named import NAMED, available, load_named
from hgeo.data._own import from_dgl, from_npz, from_pyg
from hgeo.data._pairs import Pairs, random_taxonomy, read_pairs, read_wordnet
from hgeo.data._trees import TreeEmbedding, embed_tree

__all__ = [
    "NAMES",
    "DataError",
    "DataWarning",
    "Dataset",
    "Origin",
    "Pairs",
    "TreeEmbedding",
    "available",
    "embed_tree",
    "from_dgl",
    "from_npz",
    "from_pyg",
    "hierarchy",
    "karate",
    "load",
    "make_dataset",
    "random_split",
    "random_taxonomy",
    "read_pairs",
    "read_wordnet",
]

#: every name that :func:`load` knows
NAMES = ("hierarchy", "karate", *NAMED)


def load(
    name_or_path: str | Path,
    *,
    data_dir: str | Path | None = None,
    split_seed: int = 0,
    sha256: str | None = None,
    download: bool = True,
) -> Dataset:
    """Load a data set by name (:data:`NAMES`) or from the path of an ``.npz`` file.

    ``data_dir`` (else the environment's ``HGEO_DATA``) is the folder of DGL's raw files. The Planetoid graphs come
    with their public split; the others are split by ``split_seed`` into 20 nodes a class, 500 and 1000. Files with
    another ``sha256`` than a given one (:class:`Origin`) are refused; what is not there is downloaded unless
    ``download`` is false.

    >>> load("hierarchy", split_seed=1).num_nodes > 1000
    True
    """
    if not isinstance(name_or_path, (str, os.PathLike)):
        package = type(name_or_path).__module__.partition(".")[0]
        reader = {"dgl": "from_dgl", "torch_geometric": "from_pyg"}.get(package)
        hint = f"; hgeo.data.{reader} reads a {type(name_or_path).__name__}" if reader else ""
        raise TypeError(f"expected a name or a path, got a {type(name_or_path).__name__}{hint}")
    if split_seed < 0:
        raise DataError(f"the split seed is {split_seed}, expected 0 or more")
    name = str(name_or_path)
    if name == "hierarchy":
        return hierarchy(split_seed=split_seed)
    if name == "karate":
        return karate(split_seed=split_seed)
    if name in NAMED:
        return load_named(name, data_dir=data_dir, split_seed=split_seed, sha256=sha256, download=download)
    if name.endswith(".npz") or Path(name).expanduser().is_file():
        return from_npz(name, split_seed=split_seed, sha256=sha256)
    near = difflib.get_close_matches(name.lower(), NAMES, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise DataError(
        f"no data set {name!r}{hint}{'' if hint else '.'} Known: {', '.join(NAMES)}, or the path of an .npz file"
    )
