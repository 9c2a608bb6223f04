"""Data sets: built-in ones, DGL's by name, a user's own files and graphs, all as one :class:`Dataset`.

A data set is checked when it is made, and says where it comes from. :func:`load` finds one by its name or its file;
:func:`make_dataset` makes one from arrays. Files are parsed, never unpickled but by an exact list of names. Knows
graphs, no model.

>>> from hgeo.data import load
>>> load("karate").num_classes
2
"""

from __future__ import annotations

import os
from pathlib import Path

from hgeo._near import near
from hgeo.data._archive import check_unpacked
from hgeo.data._builtin import karate
from hgeo.data._dataset import DataError, Dataset, DataWarning, Origin, make_dataset, random_split
from hgeo.data._features import FEATURES, Features
from hgeo.data._hierarchy import hierarchy
from hgeo.data._named import NAMED, available, load_named
from hgeo.data._own import from_dgl, from_npz, from_pyg
from hgeo.data._pairs import Pairs, random_taxonomy, read_pairs, read_wordnet
from hgeo.data._parts import PARTS_FILE, Parts, check_part, read_parts, write_parts
from hgeo.data._power_law import POWER_LAW, power_law
from hgeo.data._splits import SPLITS, stratified_split, with_split
from hgeo.data._trees import TreeEmbedding, embed_tree

__all__ = [
    "FEATURES",
    "NAMES",
    "PARTS_FILE",
    "SPLITS",
    "DataError",
    "DataWarning",
    "Dataset",
    "Origin",
    "Pairs",
    "Parts",
    "TreeEmbedding",
    "available",
    "check_part",
    "check_unpacked",
    "embed_tree",
    "from_dgl",
    "from_npz",
    "from_pyg",
    "generated",
    "hierarchy",
    "karate",
    "load",
    "make_dataset",
    "power_law",
    "random_split",
    "random_taxonomy",
    "read_pairs",
    "read_parts",
    "read_wordnet",
    "stratified_split",
    "write_parts",
]

#: every name that :func:`load` knows
NAMES = ("hierarchy", "karate", *NAMED)


def generated(name: str) -> bool:
    """Whether data of this name are made, not read: no file need be there for them.

    >>> generated("power-law-1e6"), generated("cora")
    (True, False)
    """
    return name in ("hierarchy", "karate") or POWER_LAW.fullmatch(name) is not None


def load(
    name_or_path: str | Path,
    *,
    data_dir: str | Path | None = None,
    split: str | None = None,
    split_seed: int = 0,
    features: str = "auto",
    sha256: str | None = None,
    download: bool = True,
) -> Dataset:
    """Load a data set by name (:data:`NAMES`, ``power-law-1e6`` of 10⁶ edges) or from the path of an ``.npz`` file.

    ``data_dir`` (else the environment's ``HGEO_DATA``) is the folder of raw files: DGL's in it or in its ``dgl/``,
    HGCN's in its ``hgcn/`` or in one beside it. Files with another ``sha256`` than a given one (:class:`Origin`) are
    refused; what is not there is downloaded unless ``download`` is false.

    ``split`` is one of :data:`SPLITS`. ``"official"``: the one that the field uses, of Airport and Disease that of
    HGCN's code for the same ``split_seed`` (its own is 1234), with a warning of what is wrong with it. ``"clean"``:
    70 % of each class, 15, 15, by ``split_seed``; 30, 10 and 60 % of Disease. ``"few"``: 20 nodes a class, 500, 1000.
    Without it the Planetoid graphs, ogbn-arxiv and files with masks have their own, Airport and Disease the clean one,
    and all others the one of few.

    ``features`` is one of :data:`FEATURES`: ``"auto"`` (see :func:`make_dataset`), ``"raw"``, ``"standardised"`` by
    columns, ``"rows"`` of equal sums, or what HGCN's code gives its models for nodes (``"hgcn"``) and for links
    (``"hgcn-links"``, in which Airport's labels are a column). With ``"+degrees"`` behind it, degrees are features,
    too.

    >>> load("hierarchy", split="clean", split_seed=1, features="auto+degrees")
    Dataset(hierarchy: 2172 nodes, 8676 edges, 39 features, 6 classes, 1520/324/327 train/val/test)
    """
    if not isinstance(name_or_path, (str, os.PathLike)):
        package = type(name_or_path).__module__.partition(".")[0]
        reader = {"dgl": "from_dgl", "torch_geometric": "from_pyg"}.get(package)
        hint = f"; hgeo.data.{reader} reads a {type(name_or_path).__name__}" if reader else ""
        raise TypeError(f"expected a name or a path, got a {type(name_or_path).__name__}{hint}")
    if split_seed < 0:
        raise DataError(f"the split seed is {split_seed}, expected 0 or more")
    name, wanted = str(name_or_path), Features.parse(features)
    dataset = _read(name, wanted, split_seed, data_dir=data_dir, sha256=sha256, download=download)
    known = name if name in NAMED else None
    return wanted.with_degrees(with_split(dataset, split, split_seed, known=known), known=known)


def _read(
    name: str, features: Features, split_seed: int, *, data_dir: str | Path | None, sha256: str | None, download: bool
) -> Dataset:
    if name in ("hierarchy", "karate"):
        make = hierarchy if name == "hierarchy" else karate
        return make(split_seed=split_seed, normalize=features.normalize)
    if Path(name).name == PARTS_FILE:
        if features != Features.parse("auto"):
            raise DataError(f"{name}: features of a graph in parts stay as they were cut; leave out --features")
        return read_parts(name, sha256=sha256)
    drawn = POWER_LAW.fullmatch(name)
    if drawn:
        return power_law(int(float(drawn[1])), seed=split_seed)
    if name in NAMED:
        return load_named(
            name, data_dir=data_dir, split_seed=split_seed, features=features, sha256=sha256, download=download
        )
    if name.endswith(".npz") or Path(name).expanduser().is_file():
        return from_npz(name, split_seed=split_seed, normalize=features.normalize, sha256=sha256)
    raise DataError(
        f"no data set {name!r}{near(name, NAMES) or '.'} Known: {', '.join(NAMES)}, or the path of an .npz file"
    )
