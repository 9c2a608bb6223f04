"""Data sets by name, read from the raw files that DGL, OGB and HGCN's authors hand out: no loader of theirs runs."""

from __future__ import annotations

import dataclasses
import gzip
import os
import shutil
import tempfile
import urllib.request
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import reverse_cuthill_mckee

from hgeo.data._archive import check_unpacked
from hgeo.data._citation import CITATION_PARTS, read_citation
from hgeo.data._dataset import DataError, Dataset, make_dataset
from hgeo.data._features import Features
from hgeo.data._hgcn import HGCN, hgcn_files, read_airport, read_csr, read_disease
from hgeo.data._origin import checked_origin

__all__ = ["NAMED", "available", "load_named"]


@dataclass(frozen=True)
class _Source:
    folder: str  # where DGL 1.1 keeps its raw files: the archive's name + a hash of its address
    public_split: bool

    @property
    def archive(self) -> str:
        return self.folder.rpartition("_")[0]

    @property
    def files(self) -> list[str]:
        if self.public_split:
            return [f"ind.{self.archive}.{part}" for part in CITATION_PARTS]
        return [f"{self.archive}.npz"]


_DGL = {
    "cora": _Source("cora_v2_d697a464", True),
    "citeseer": _Source("citeseer_d6836239", True),
    "pubmed": _Source("pubmed_35464cad", True),
    "photo": _Source("amazon_co_buy_photo_b75d805d", False),
    "computers": _Source("amazon_co_buy_computer_b5999b2e", False),
    "cs": _Source("coauthor_cs_10782e7c", False),
    "physics": _Source("coauthor_physics_310c1038", False),
}

NAMED = (*_DGL, "ogbn-arxiv", *HGCN)

# The raw files number the classes; these are the names of Sen et al. (2008) and Namata et al. (2012).
_CLASS_NAMES = {
    "cora": (
        "Theory",
        "Reinforcement Learning",
        "Genetic Algorithms",
        "Neural Networks",
        "Probabilistic Methods",
        "Case Based",
        "Rule Learning",
    ),
    "citeseer": (
        "AI",
        "Machine Learning",
        "Information Retrieval",
        "Databases",
        "Agents",
        "Human-Computer Interaction",
    ),
    "pubmed": ("Diabetes, experimental", "Diabetes, type 1", "Diabetes, type 2"),
}

_DGL_ADDRESS = "https://data.dgl.ai/dataset"
_ARXIV_ADDRESS = "http://snap.stanford.edu/ogb/data/nodeproppred/arxiv.zip"
_HGCN_ADDRESS = "https://raw.githubusercontent.com/HazyResearch/hgcn/master/data"
_ARXIV_SPLIT = {"train": "train", "val": "valid", "test": "test"}
_PATIENCE = 20  # seconds without a byte

Fill = Callable[[Path], None]


def load_named(
    name: str,
    *,
    data_dir: str | Path | None,
    split_seed: int,
    features: Features,
    sha256: str | None = None,
    download: bool = True,
) -> Dataset:
    """Load one of :data:`NAMED` from its raw files in ``data_dir`` (else ``HGEO_DATA``, else DGL's own folder)."""
    folder = _folder(data_dir)
    if name == "ogbn-arxiv":
        return _load_arxiv(folder, features, sha256)
    raw, fill, address = _place(folder, name)
    if not raw.is_dir():
        if not download:
            raise FileNotFoundError(f"{name}: no folder {raw}; set HGEO_DATA or --data-dir to the folder that holds it")
        _download(name, raw, fill, address)
    if name in HGCN:
        files = [raw / file for file in hgcn_files(name)]
        if not files[-1].is_file() and name != "airport":
            del files[-1]
    else:
        files = [raw / file for file in _DGL[name].files]
    origin = checked_origin(raw, files, sha256)
    try:
        arrays = _read(name, raw, features)
    except (DataError, OSError):
        raise
    except Exception as error:  # whatever NumPy, SciPy and zlib say of a damaged file
        raise DataError(f"{name}: {raw} is damaged ({_first_line(error)})") from error
    dataset = make_dataset(
        name,
        **arrays,
        split_seed=split_seed,
        normalize=features.normalize,
        where=str(raw),
        class_names=_CLASS_NAMES.get(name),
    )
    return dataclasses.replace(dataset, origin=origin)


def _read(name: str, raw: Path, features: Features) -> dict[str, Any]:
    """The arguments of :func:`make_dataset`."""
    if name == "airport":
        return read_airport(raw / "airport.p", all_columns=features.name == "hgcn-links")
    if name in HGCN:
        return read_disease(raw, name)
    source = _DGL[name]
    return read_citation(raw, source.archive) if source.public_split else _read_npz(raw / source.files[0])


def _read_npz(path: Path) -> dict[str, Any]:
    """The arguments of :func:`make_dataset`, from a file of Shchur et al.'s benchmark.

    Nodes are numbered anew by reverse Cuthill-McKee, as DGL does, so that a seed means the split that it means there.
    """
    check_unpacked(path)
    with np.load(path, allow_pickle=False) as archive:
        links, features = (read_csr(archive, f"{part}_") for part in ("adj", "attr"))
        labels = archive["labels"]
    links = scipy.sparse.csr_matrix(links + links.T)
    links.sort_indices()  # nodes of one degree keep their order
    order = reverse_cuthill_mckee(links, symmetric_mode=True)
    return {
        "edge_index": np.stack(links[order][:, order].nonzero()),
        "features": features[order],
        "labels": labels[order],
    }


def _place(folder: Path, name: str) -> tuple[Path, Fill, str]:
    """The folder of a data set's files, what fills it if it is not there, and from where.

    DGL's lie in ``folder`` itself or in its ``dgl/``; HGCN's in its ``hgcn/`` or in one beside it.
    """
    if name in HGCN:
        address = f"{_HGCN_ADDRESS}/{HGCN[name]}"
        places = [folder / "hgcn" / HGCN[name], folder.parent / "hgcn" / HGCN[name]]

        def fill(target: Path) -> None:
            for file in hgcn_files(name):
                _fetch(f"{address}/{file}", target / file)
    else:
        source = _DGL[name]
        address = f"{_DGL_ADDRESS}/{source.archive}.zip"
        places = [folder / source.folder, folder / "dgl" / source.folder]

        def fill(target: Path) -> None:
            archive = target.with_name("zip")
            _fetch(address, archive)
            _unpack(archive, target, source.files)

    return next((place for place in places if place.is_dir()), places[0]), fill, address


def _download(name: str, raw: Path, fill: Fill, address: str) -> None:
    """Make the folder ``raw`` with all of its files, or not at all."""
    try:
        raw.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=raw.parent, prefix=f".{raw.name}-") as scratch:
            unpacked = Path(scratch) / raw.name
            unpacked.mkdir()
            fill(unpacked)
            unpacked.rename(raw)
    except (OSError, zipfile.BadZipFile, KeyError) as error:
        raise FileNotFoundError(
            f"{name}: no folder {raw}, and {address} cannot be downloaded there ({_first_line(error)}); "
            "set HGEO_DATA or --data-dir to the folder that holds it"
        ) from error


def _fetch(address: str, target: Path) -> None:
    with urllib.request.urlopen(address, timeout=_PATIENCE) as reply, open(target, "wb") as file:
        shutil.copyfileobj(reply, file)


def _unpack(archive: Path, folder: Path, files: Sequence[str]) -> None:
    with zipfile.ZipFile(archive) as packed:
        members = {PurePosixPath(member).name: member for member in packed.namelist()}
        for file in files:
            (folder / file).write_bytes(packed.read(members[file]))


def available(data_dir: str | Path | None = None) -> tuple[Path, list[str]]:
    """The folder of raw files that ``load`` would look into, and the named data sets that lie there."""
    folder = _folder(data_dir)
    arxiv = any((path / "raw").is_dir() for path in _arxiv_folders(folder))
    return folder, [name for name in NAMED if (arxiv if name == "ogbn-arxiv" else _place(folder, name)[0].is_dir())]


def _folder(data_dir: str | Path | None) -> Path:
    given = data_dir or os.environ.get("HGEO_DATA") or os.environ.get("DGL_DOWNLOAD_DIR") or "~/.dgl"
    return Path(given).expanduser()


def _arxiv_folders(folder: Path) -> list[Path]:
    return [place / name for place in (folder, folder / "dgl") for name in ("arxiv", "ogbn_arxiv")]


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _load_arxiv(folder: Path, features: Features, sha256: str | None) -> Dataset:
    """ogbn-arxiv from the plain files of OGB's archive (DGL itself only wraps the ``ogb`` package for it)."""
    candidates = _arxiv_folders(folder)
    root = next((path for path in candidates if (path / "raw" / "edge.csv.gz").is_file()), None)
    if root is None:
        raise FileNotFoundError(
            f"ogbn-arxiv: no file {candidates[0] / 'raw' / 'edge.csv.gz'}; unpack {_ARXIV_ADDRESS} into {folder}"
        )
    raw = {part: root / "raw" / f"{part}.csv.gz" for part in ("edge", "node-feat", "node-label")}
    split = {part: root / "split" / "time" / f"{file}.csv.gz" for part, file in _ARXIV_SPLIT.items()}
    origin = checked_origin(root, [*raw.values(), *split.values()], sha256)
    dataset = make_dataset(
        "ogbn-arxiv",
        _read_csv(raw["edge"], np.int64).T,
        _read_csv(raw["node-feat"], np.float32),
        _read_csv(raw["node-label"], np.int64),
        masks={part: _read_csv(file, np.int64)[:, 0] for part, file in split.items()},
        normalize=features.normalize,
    )
    return dataclasses.replace(dataset, origin=origin)


def _read_csv(path: Path, dtype: type) -> np.ndarray:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return np.loadtxt(file, delimiter=",", dtype=dtype, ndmin=2)
