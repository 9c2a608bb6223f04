"""Graphs cut into parts, one a machine: written by DGL's METIS, and read without the edges and the features."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hgeo._dgl import import_dgl
from hgeo._files import write_atomically
from hgeo.data._counted import csr_tensor
from hgeo.data._dataset import DataError, Dataset, Origin

__all__ = ["PARTS_FILE", "Parts", "check_part", "read_parts", "write_parts"]

#: the file of a folder of parts that names the others
PARTS_FILE = "hgeo.parts.json"
_NODES_FILE = "nodes.npz"
_FILES = r"graph\.json|nodes\.npz|part\d+/\w+\.dgl"
_FIELDS = {"name": str, "parts": int, "nodes": int, "features": int, "classes": int, "graph": str, "files": dict}


@dataclass(frozen=True)
class Parts:
    """Where the parts of a graph lie, and how many there are; ``graph`` is the SHA-256 of what was cut."""

    folder: Path
    count: int
    graph: str
    files: dict[str, str]

    @property
    def config(self) -> Path:
        """DGL's description of the parts."""
        return self.folder / "graph.json"


def write_parts(dataset: Dataset, count: int, folder: str | Path) -> Path:
    """Cut a graph into ``count`` parts with few edges between them, and write them; gives the file to train on.

    Nodes are numbered anew, part after part; ``original`` in ``nodes.npz`` holds the numbers they had. Each machine
    needs the folder, or of the parts its own only.
    """
    dgl = import_dgl("hgeo partition")
    folder = Path(folder).expanduser()
    if not 2 <= count <= dataset.num_nodes // 2:
        raise DataError(f"{dataset.name} has {dataset.num_nodes} nodes and cannot be cut into {count} parts")
    if folder.exists():
        raise DataError(f"{folder} is there already; choose another folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    source, destination = dataset.edge_index.cpu()
    graph = dgl.graph((source, destination), num_nodes=dataset.num_nodes)
    features = dataset.features.cpu()
    graph.ndata["feat"] = features.to_dense() if dataset.is_sparse else features
    graph.ndata["degree"] = graph.in_degrees() + 1  # a self-loop of every node
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as room:
        made = Path(room) / "parts"
        with contextlib.redirect_stdout(io.StringIO()):  # it talks
            original, _ = dgl.distributed.partition_graph(graph, "graph", count, str(made), return_mapping=True)
        position = torch.empty_like(original)
        position[original] = torch.arange(len(original))
        arrays = {"labels": dataset.labels.cpu()[original], "original": original}
        for part in ("train", "val", "test"):
            arrays[part] = position[getattr(dataset, f"{part}_idx").cpu()]
        np.savez(made / _NODES_FILE, **{name: array.numpy() for name, array in arrays.items()})
        described = {
            "name": dataset.name, "parts": count, "nodes": dataset.num_nodes, "features": dataset.num_features,
            "classes": dataset.num_classes, "graph": _digest(dataset),
            "files": {
                file.relative_to(made).as_posix(): _sha256(file) for file in sorted(made.rglob("*")) if file.is_file()
            },
        }  # fmt: skip
        write_atomically(made / PARTS_FILE, json.dumps(described, indent=2) + "\n")
        shutil.move(made, folder)  # whole, or not at all
    return folder / PARTS_FILE


def read_parts(file: str | Path, *, sha256: str | None = None) -> Dataset:
    """The nodes of a graph in parts: labels and splits, but neither edges nor features, which stay where they are.

    Files with another SHA-256 than the folder was written with are refused: they are parts of another graph.
    """
    file = Path(file).expanduser()
    if not file.is_file():
        raise DataError(f"no file {file}; hgeo partition writes one")
    own = _sha256(file)
    if sha256 is not None and own != sha256:
        raise DataError(f"{file} is not what it was: its SHA-256 is {own}, expected {sha256}")
    described = _described(file)
    parts = Parts(file.parent.resolve(), described["parts"], described["graph"], described["files"])
    for name in ("graph.json", _NODES_FILE):
        _check(parts, name)
    with np.load(parts.folder / _NODES_FILE, allow_pickle=False) as arrays:
        found: dict[str, Any] = {name: torch.from_numpy(arrays[name].astype(np.int64)) for name in arrays.files}
    nodes, none = described["nodes"], torch.zeros(0, dtype=torch.int64)
    empty = csr_tensor(torch.zeros(nodes + 1, dtype=torch.int64), none, torch.zeros(0), (nodes, described["features"]))
    return Dataset(
        name=described["name"],
        edge_index=torch.zeros(2, 0, dtype=torch.int64),
        num_nodes=nodes,
        features=empty,
        labels=found["labels"],
        num_classes=described["classes"],
        train_idx=found["train"],
        val_idx=found["val"],
        test_idx=found["test"],
        origin=Origin(str(file.resolve()), own),
        parts=parts,
    )


def check_part(parts: Parts, number: int) -> None:
    """Refuse the files of a part that are not those of the graph that was cut."""
    names = [name for name in parts.files if name.startswith(f"part{number}/")]
    if not names:
        raise DataError(f"{parts.folder / PARTS_FILE} names no files of part {number}")
    for name in names:
        _check(parts, name)


def _check(parts: Parts, name: str) -> None:
    path = parts.folder / name
    if not path.is_file():
        raise DataError(f"no file {path}, which {parts.folder / PARTS_FILE} names")
    if _sha256(path) != parts.files.get(name):
        raise DataError(f"{path} belongs to a partition of another graph, or is damaged; partition the graph again")


def _described(file: Path) -> dict[str, Any]:
    try:
        described = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{file} is not JSON ({error})") from error
    wrong = not isinstance(described, dict) or any(
        type(described.get(name)) is not kind for name, kind in _FIELDS.items()
    )
    if (
        wrong
        or any(re.fullmatch(_FILES, name) is None for name in described["files"])
        or min(described["parts"], described["nodes"], described["features"], described["classes"]) < 1
    ):
        raise DataError(f"{file} is not what hgeo partition writes")
    return dict(described)


def _sha256(file: Path) -> str:
    with open(file, "rb") as content:
        digest = hashlib.sha256()
        while block := content.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _digest(dataset: Dataset) -> str:
    digest = hashlib.sha256()
    for tensor in (dataset.edge_index, dataset.labels):
        digest.update(tensor.cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
