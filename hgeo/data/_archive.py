"""How large what an archive holds is, before it is unpacked."""

from __future__ import annotations

import zipfile
from pathlib import Path

from hgeo.data._dataset import DataError

__all__ = ["check_unpacked"]

_LARGE = 1 << 30  # bytes that are unpacked without a question
_DENSE = 20  # how many bytes one packed byte may stand for, beyond that


def check_unpacked(path: Path) -> None:
    """Raises :class:`DataError` if a small ``.npz`` file would unpack to a large one.

    A file of some megabytes can hold zeros that take all memory. numpy gives no more than the file's directory says,
    so that asking this is enough; what is no archive is left to the reader.
    """
    if not zipfile.is_zipfile(path):
        return
    try:
        with zipfile.ZipFile(path) as archive:
            unpacked = sum(member.file_size for member in archive.infolist())
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise DataError(f"{path} is not a readable .npz file ({error})") from error
    packed = path.stat().st_size
    if unpacked > _LARGE and unpacked > _DENSE * packed:
        raise DataError(
            f"{path} would unpack {packed / 1e6:.0f} MB to {unpacked / 1e9:.1f} GB; if that is what it is to hold, "
            "save it with numpy.savez, which does not pack, or save features as the four arrays of a CSR matrix"
        )
