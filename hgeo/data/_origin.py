"""Where a data set's files are and what is in them, so that a run can find them again and know them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from hgeo.data._dataset import DataError, Origin

__all__ = ["checked_origin"]


def checked_origin(place: Path, files: Sequence[Path], sha256: str | None = None) -> Origin:
    """The origin of data that ``files`` hold; if ``sha256`` is given and another, the data are refused.

    It is what ``sha256sum FILE`` prints of one file, and what ``sha256sum FILES | sha256sum`` prints of several, run in
    their folder.
    """
    lines = [f"{_sha256(file)}  {file.name}\n" for file in files]
    found = lines[0][:64] if len(lines) == 1 else hashlib.sha256("".join(lines).encode()).hexdigest()
    if sha256 is not None and found != sha256:
        raise DataError(f"{place} holds other data than were asked for: its SHA-256 is {found}, expected {sha256}")
    return Origin(str(place.absolute()), found)


def _sha256(path: Path) -> str:
    if not path.is_file():
        raise FileNotFoundError(f"no file {path}")
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
