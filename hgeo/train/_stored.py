"""What a run folder says of its job and of its data: somebody's word, believed as far as it can do no harm."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hgeo.data import NAMES, Dataset, Origin, load

__all__ = ["read_job", "reopen"]

_KINDS = {
    "dataset": str, "model": str, "space": str, "task": str, "seed": int, "split_seed": int, "options": dict
}  # fmt: skip
_NOT_KEPT = ("data_dir", "stored")  # an older hgeo kept the folder of the data


def reopen(name: str, origin: Origin | None, *, data_dir: str | Path | None, **how: Any) -> Dataset:
    """The data of a stored run, checked by the hash that ``origin`` gives; ``how`` is what :func:`load` is told.

    A named data set is read from the user's folders, never from one that the run names, and not downloaded. An ``.npz``
    file, which can hold no code, is read from where it was, or from ``data_dir``; a run that does not know what it held
    (an older one) needs ``data_dir``.
    """
    sha256 = None if origin is None else origin.sha256
    if name in NAMES:
        return load(name, data_dir=data_dir, sha256=sha256, download=False, **how)
    if data_dir is not None:
        path = Path(data_dir).expanduser() / Path(name).name
    elif origin is None:
        raise ValueError(
            f"the run does not say what {Path(name).name} held; give the folder that holds it by --data-dir"
        )
    else:
        path = Path(origin.path)
    if not path.is_file():
        raise FileNotFoundError(
            f"no file {path}, which the run was trained on; give the folder that holds it by --data-dir"
        )
    return load(path.absolute(), sha256=sha256, **how)  # a path, though there be a data set of that name


def read_job(kept: dict[str, Any], known: set[str], file: Path) -> dict[str, Any]:
    """The fields of a job that ``file`` keeps, checked; all of them are ``known``."""
    unknown = sorted(set(kept) - known - set(_NOT_KEPT))
    missing = sorted({"dataset", "model", "space"} - set(kept))
    wrong = [name for name, kind in _KINDS.items() if not isinstance(kept.get(name, kind()), kind)]
    origin = kept.get("origin")
    if origin is not None and not _is_origin(origin):
        wrong.append("origin")
    reasons = [f"unknown: {name}" for name in unknown] + [f"missing: {name}" for name in missing]
    reasons += [f"{name} is {kept[name]!r}" for name in wrong]
    if reasons:
        raise ValueError(f"{file} holds a job that this hgeo cannot read ({', '.join(reasons)})")
    fields = {name: value for name, value in kept.items() if name not in _NOT_KEPT}
    return {**fields, "origin": None if origin is None else Origin(**origin)}


def _is_origin(value: Any) -> bool:
    if not isinstance(value, dict) or set(value) != {"path", "sha256"}:
        return False
    texts = isinstance(value["path"], str) and isinstance(value["sha256"], str)
    return texts and re.fullmatch("[0-9a-f]{64}", value["sha256"]) is not None
