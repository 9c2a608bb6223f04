"""The data of a stored run: what its folder says of them is somebody's word, believed as far as it can do no harm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hgeo.data import NAMES, Dataset, Origin, generated, load

__all__ = ["reopen"]


def reopen(name: str, origin: Origin | None, *, data_dir: str | Path | None, **how: Any) -> Dataset:
    """The data of a stored run, checked by the hash that ``origin`` gives; ``how`` is what :func:`load` is told.

    A named data set is read from the user's folders, never from one that the run names, and not downloaded. An ``.npz``
    file, which can hold no code, is read from where it was, or from ``data_dir``; a run that does not know what it held
    (an older one) needs ``data_dir``.
    """
    sha256 = None if origin is None else origin.sha256
    if name in NAMES or generated(name):
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
