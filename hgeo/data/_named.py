"""Data sets that DGL knows by name, read through DGL's own loaders."""

from __future__ import annotations

import atexit
import contextlib
import gzip
import hashlib
import os
import shutil
import socket
import stat
import tempfile
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hgeo._dgl import import_dgl, quiet_dgl
from hgeo.data._dataset import DataError, Dataset, make_dataset

__all__ = ["NAMED", "available", "load_named"]


@dataclass(frozen=True)
class _Source:
    loader: str  # the class in dgl.data
    folder: str  # where DGL 1.1 keeps its raw files: name + a hash of the address
    public_split: bool


_DGL = {
    "cora": _Source("CoraGraphDataset", "cora_v2_d697a464", True),
    "citeseer": _Source("CiteseerGraphDataset", "citeseer_d6836239", True),
    "pubmed": _Source("PubmedGraphDataset", "pubmed_35464cad", True),
    "photo": _Source("AmazonCoBuyPhotoDataset", "amazon_co_buy_photo_b75d805d", False),
    "computers": _Source("AmazonCoBuyComputerDataset", "amazon_co_buy_computer_b5999b2e", False),
    "cs": _Source("CoauthorCSDataset", "coauthor_cs_10782e7c", False),
    "physics": _Source("CoauthorPhysicsDataset", "coauthor_physics_310c1038", False),
}

NAMED = (*_DGL, "ogbn-arxiv")

_DGL_HOST = "data.dgl.ai"
_ARXIV_ADDRESS = "http://snap.stanford.edu/ogb/data/nodeproppred/arxiv.zip"


def load_named(name: str, *, data_dir: str | Path | None, split_seed: int) -> Dataset:
    """Load one of :data:`NAMED`. ``data_dir`` (else ``HGEO_DATA``, else DGL's own folder) is DGL's ``raw_dir``."""
    folder = _folder(data_dir)
    if name == "ogbn-arxiv":
        return _load_arxiv(folder)
    source = _DGL[name]
    raw = folder / source.folder
    data = import_dgl(f"the data set {name}", "dgl.data")
    if not raw.is_dir():
        _expect_network(name, raw)
    try:
        with quiet_dgl():
            graph = getattr(data, source.loader)(raw_dir=str(_writable(folder, source.folder)), verbose=False)[0]
    except OSError as error:
        raise FileNotFoundError(f"{name}: DGL could not read or download {raw} ({_first_line(error)})") from error
    except Exception as error:  # whatever a damaged pickle or archive raises inside DGL
        raise DataError(f"{name}: {raw} is damaged, DGL cannot read it ({_first_line(error)})") from error
    masks = {part: graph.ndata[f"{part}_mask"] for part in ("train", "val", "test")} if source.public_split else None
    edges = np.stack([end.numpy() for end in graph.edges()])
    return make_dataset(name, edges, graph.ndata["feat"], graph.ndata["label"], masks=masks, split_seed=split_seed)


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


def _expect_network(name: str, raw: Path) -> None:
    """Fail at once, with the folder that was looked for, where DGL would retry for minutes."""
    if urllib.request.getproxies():
        return
    try:
        socket.create_connection((_DGL_HOST, 443), timeout=5).close()
    except OSError as error:
        raise FileNotFoundError(
            f"{name}: no folder {raw}, and {_DGL_HOST} cannot be reached to download it ({error}); "
            "set HGEO_DATA or --data-dir to the folder that holds it"
        ) from error


def _is_writable(folder: Path) -> bool:
    # The mode is asked, too: for the superuser os.access() says yes to a folder that its owner made read-only.
    mode = folder.stat().st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH)
    return bool(mode) and os.access(folder, os.W_OK | os.X_OK)


def _writable(folder: Path, name: str) -> Path:
    """``folder`` itself if DGL may write its processed graph there, else a shadow folder of links to its files."""
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    inside = folder / name
    if folder.is_dir() and _is_writable(folder) and (not inside.is_dir() or _is_writable(inside)):
        return folder
    shadow = _cache_folder(folder)
    if inside.is_dir():
        (shadow / name).mkdir(exist_ok=True)
        for file in inside.iterdir():
            link = shadow / name / file.name
            if not link.exists():
                with contextlib.suppress(FileExistsError):
                    link.symlink_to(file.resolve())
    return shadow


def _cache_folder(folder: Path) -> Path:
    base = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    shadow = base / "hgeo" / "dgl" / hashlib.sha1(os.fsencode(folder.resolve())).hexdigest()[:12]
    try:
        shadow.mkdir(parents=True, exist_ok=True)
        if _is_writable(shadow):
            return shadow
    except OSError:
        pass
    temporary = Path(tempfile.mkdtemp(prefix="hgeo-dgl-"))
    atexit.register(shutil.rmtree, temporary, ignore_errors=True)
    return temporary


def _load_arxiv(folder: Path) -> Dataset:
    """ogbn-arxiv from the plain files of OGB's archive (DGL itself only wraps the ``ogb`` package for it)."""
    candidates = _arxiv_folders(folder)
    root = next((path for path in candidates if (path / "raw" / "edge.csv.gz").is_file()), None)
    if root is None:
        raise FileNotFoundError(
            f"ogbn-arxiv: no file {candidates[0] / 'raw' / 'edge.csv.gz'}; unpack {_ARXIV_ADDRESS} into {folder}"
        )
    split = {"train": "train", "val": "valid", "test": "test"}
    return make_dataset(
        "ogbn-arxiv",
        _read_csv(root / "raw" / "edge.csv.gz", np.int64).T,
        _read_csv(root / "raw" / "node-feat.csv.gz", np.float32),
        _read_csv(root / "raw" / "node-label.csv.gz", np.int64),
        masks={
            part: _read_csv(root / "split" / "time" / f"{file}.csv.gz", np.int64)[:, 0] for part, file in split.items()
        },
    )


def _read_csv(path: Path, dtype: type) -> np.ndarray:
    if not path.is_file():
        raise FileNotFoundError(f"ogbn-arxiv: no file {path}")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return np.loadtxt(file, delimiter=",", dtype=dtype, ndmin=2)
