"""Files that appear whole, where they were meant to: no link inside a folder leads a write out of it."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

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
        with _naming(path), open(temporary, "xb") as file:  # x: a file or link that is there already is an error
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


@contextlib.contextmanager
def append_lines(path: Path) -> Iterator[Callable[[str], None]]:
    """A function that writes a line at the end of a text file that is there already; a link at its place is an error.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "lines"
    >>> write_atomically(path, "one\\n")
    >>> with append_lines(path) as append:
    ...     append("two")
    >>> path.read_text()
    'one\\ntwo\\n'
    """
    flags = os.O_WRONLY | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)  # Windows has no such flag
    descriptor = os.open(path, flags)

    def append(line: str) -> None:
        content = f"{line}\n".encode()
        with _naming(path):
            while content:  # a disk that is nearly full takes a part
                content = content[os.write(descriptor, content) :]

    try:
        yield append
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    """An error of writing, of a full disk for example, says which file was to be written."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


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
