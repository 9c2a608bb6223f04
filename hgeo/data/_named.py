"""Data sets by name, read from the raw files that DGL and OGB hand out: no loader of theirs runs."""

from __future__ import annotations

import dataclasses
import gzip
import os
import shutil
import tempfile
import urllib.request
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import reverse_cuthill_mckee

from hgeo.data._citation import CITATION_PARTS, read_citation
from hgeo.data._dataset import DataError, Dataset, make_dataset
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

NAMED = (*_DGL, "ogbn-arxiv")

_DGL_ADDRESS = "https://data.dgl.ai/dataset"
_ARXIV_ADDRESS = "http://snap.stanford.edu/ogb/data/nodeproppred/arxiv.zip"
_ARXIV_SPLIT = {"train": "train", "val": "valid", "test": "test"}
_PATIENCE = 20  # seconds without a byte


def load_named(
    name: str, *, data_dir: str | Path | None, split_seed: int, sha256: str | None = None, download: bool = True
) -> Dataset:
    """Load one of :data:`NAMED` from its raw files in ``data_dir`` (else ``HGEO_DATA``, else DGL's own folder)."""
    folder = _folder(data_dir)
    if name == "ogbn-arxiv":
        return _load_arxiv(folder, sha256)
    source = _DGL[name]
    raw = folder / source.folder
    if not raw.is_dir():
        if not download:
            raise FileNotFoundError(f"{name}: no folder {raw}; set HGEO_DATA or --data-dir to the folder that holds it")
        _download(name, raw, source)
    origin = checked_origin(raw, [raw / file for file in source.files], sha256)
    try:
        arrays = read_citation(raw, source.archive) if source.public_split else _read_npz(raw / source.files[0])
    except (DataError, OSError):
        raise
    except Exception as error:  # whatever NumPy, SciPy and zlib say of a damaged file
        raise DataError(f"{name}: {raw} is damaged ({_first_line(error)})") from error
    return dataclasses.replace(make_dataset(name, **arrays, split_seed=split_seed, where=str(raw)), origin=origin)


def _read_npz(path: Path) -> dict[str, Any]:
    """The arguments of :func:`make_dataset`, from a file of Shchur et al.'s benchmark.

    Nodes are numbered anew by reverse Cuthill-McKee, as DGL does, so that a seed means the split that it means there.
    """
    with np.load(path, allow_pickle=False) as archive:
        links, features = (_read_csr(archive, part) for part in ("adj", "attr"))
        labels = archive["labels"]
    links = scipy.sparse.csr_matrix(links + links.T)
    links.sort_indices()  # nodes of one degree keep their order
    order = reverse_cuthill_mckee(links, symmetric_mode=True)
    return {
        "edge_index": np.stack(links[order][:, order].nonzero()),
        "features": features[order],
        "labels": labels[order],
    }


def _read_csr(archive: Any, part: str) -> scipy.sparse.csr_matrix:
    arrays = tuple(archive[f"{part}_{array}"] for array in ("data", "indices", "indptr"))
    matrix = scipy.sparse.csr_matrix(arrays, shape=tuple(archive[f"{part}_shape"]))
    matrix.check_format(full_check=True)  # SciPy's own loops write wherever an index points
    return matrix


def _download(name: str, raw: Path, source: _Source) -> None:
    """Fill the folder ``raw`` with the files of DGL's archive: with all of them, or it is not made."""
    address = f"{_DGL_ADDRESS}/{source.archive}.zip"
    try:
        raw.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=raw.parent, prefix=f".{raw.name}-") as scratch:
            with urllib.request.urlopen(address, timeout=_PATIENCE) as reply, open(f"{scratch}/zip", "wb") as file:
                shutil.copyfileobj(reply, file)
            unpacked = Path(scratch) / raw.name
            unpacked.mkdir()
            _unpack(Path(scratch) / "zip", unpacked, source.files)
            unpacked.rename(raw)
    except (OSError, zipfile.BadZipFile, KeyError) as error:
        raise FileNotFoundError(
            f"{name}: no folder {raw}, and {address} cannot be downloaded there ({_first_line(error)}); "
            "set HGEO_DATA or --data-dir to the folder that holds it"
        ) from error


def _unpack(archive: Path, folder: Path, files: Sequence[str]) -> None:
    with zipfile.ZipFile(archive) as packed:
        members = {PurePosixPath(member).name: member for member in packed.namelist()}
        for file in files:
            (folder / file).write_bytes(packed.read(members[file]))


def available(data_dir: str | Path | None = None) -> tuple[Path, list[str]]:
    """The folder of raw files that ``load`` would look into, and the named data sets that lie there."""
    folder = _folder(data_dir)
    names = [name for name, source in _DGL.items() if (folder / source.folder).is_dir()]
    return folder, names + ["ogbn-arxiv"] * any((path / "raw").is_dir() for path in _arxiv_folders(folder))


def _folder(data_dir: str | Path | None) -> Path:
    given = data_dir or os.environ.get("HGEO_DATA") or os.environ.get("DGL_DOWNLOAD_DIR") or "~/.dgl"
    return Path(given).expanduser()


def _arxiv_folders(folder: Path) -> list[Path]:
    return [folder / "arxiv", folder / "ogbn_arxiv"]


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _load_arxiv(folder: Path, sha256: str | None) -> Dataset:
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
    )
    return dataclasses.replace(dataset, origin=origin)


def _read_csv(path: Path, dtype: type) -> np.ndarray:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return np.loadtxt(file, delimiter=",", dtype=dtype, ndmin=2)
