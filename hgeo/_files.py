"""Files that appear whole, where they were meant to: no link inside a folder leads a write out of it."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

__all__ = ["append_lines", "check_folders", "write_atomically"]


def write_atomically(path: Path, content: str | bytes, *, inside: Path | None = None) -> None:
    """Writes a file beside ``path`` and moves it there: a reader sees the old file or all of the new one.

    A text is written as UTF-8. A link at ``path`` is replaced by the file; what it pointed to stays as it is.
    ``inside`` is the folder that the user named, by default the one that holds ``path``; it may be a link, but a
    folder between it and the file may not (:func:`check_folders`).
    """
    check_folders(path.parent, inside=path.parent if inside is None else inside)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with open(temporary, "xb") as file:  # x: a file or link that is there already is an error
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


@contextlib.contextmanager
def append_lines(path: Path) -> Iterator[TextIO]:
    """Opens a text file that is there already to write at its end; a link at its place is an error.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "lines"
    >>> write_atomically(path, "one\\n")
    >>> with append_lines(path) as file:
    ...     _ = file.write("two\\n")
    >>> path.read_text()
    'one\\ntwo\\n'
    """
    flags = os.O_WRONLY | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)  # Windows has no such flag
    with os.fdopen(os.open(path, flags), "w", encoding="utf-8") as file:
        yield file


def check_folders(folder: Path, *, inside: Path) -> None:
    """Raises ``ValueError`` if ``folder``, or one between it and ``inside``, is a link: it may lead anywhere."""
    while folder != inside:
        if folder == folder.parent or folder.name == "..":  # what is named behind ".." may be anywhere
            raise ValueError(f"the folder to write to is not inside {inside}")
        if folder.is_symlink():
            raise ValueError(
                f"{folder} is a link to {os.readlink(folder)}; nothing is written through links inside {inside}: "
                "replace it by a folder, or remove it"
            )
        folder = folder.parent
