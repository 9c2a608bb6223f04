"""What hgeo keeps between processes, in a folder that nobody but its user can write.

A compiled kernel is machine code that a later process runs: whoever can write its file, or put another folder in the
place of its folder, runs code as that user. So on POSIX a file is read only if it and its folder belong to the user
and others cannot write them, and if nobody else can rename a folder on the way there. Anything else is as if it were
not there, with one warning. A folder that cannot be made, read or written is no error either, only slower.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import stat
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["CacheWarning", "cache_folder", "cache_trouble", "cached_names", "read_cached", "write_cached"]

_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)  # Windows has no such flag
_MOST_LINKS = 40  # as many as Linux follows


class CacheWarning(UserWarning):
    """The cache is not used, because others than its user could have written it."""


def cache_folder() -> Path:
    """Where caches are kept: ``$HGEO_CACHE``, or ``hgeo`` in the platform's cache folder.

    That is ``$XDG_CACHE_HOME`` or ``~/.cache`` on Linux, ``~/Library/Caches`` on macOS, ``%LOCALAPPDATA%`` on Windows.
    """
    chosen = os.environ.get("HGEO_CACHE")
    if chosen:
        return Path(chosen)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or os.path.expanduser("~/AppData/Local")
    elif sys.platform == "darwin":
        base = os.path.expanduser("~/Library/Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "hgeo"


def read_cached(shelf: str, name: str) -> bytes | None:
    """Returns what :func:`write_cached` wrote, or None if there is no such file, or it is damaged or not private."""
    with _usable(shelf), _opened(shelf) as folder, open(folder.at(name), "rb", opener=folder.open) as file:
        status = os.fstat(file.fileno())
        _check_private(folder.path / name, status)
        content = file.read()
        digest, data = content[:32], content[32:]
        return data if hashlib.sha256(data).digest() == digest else None
    return None


def write_cached(shelf: str, name: str, data: bytes) -> None:
    """Puts a file on a shelf, whole or not at all; another process may be doing the same.

    A shelf is a folder inside :func:`cache_folder`. Folders that are missing are made, for the user only.
    """
    with _usable(shelf), _opened(shelf, make=True) as folder:
        temporary = folder.at(f".{name}.{secrets.token_hex(8)}")
        try:
            with open(temporary, "xb", opener=folder.open) as file:
                file.write(hashlib.sha256(data).digest() + data)
            os.replace(temporary, folder.at(name), src_dir_fd=folder.descriptor, dst_dir_fd=folder.descriptor)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=folder.descriptor)
            raise


def cached_names(shelf: str) -> list[str]:
    """Returns the names on a shelf, none of one that is not private."""
    with _usable(shelf), _opened(shelf) as folder:
        return sorted(os.listdir(folder.path if folder.descriptor is None else folder.descriptor))
    return []


def cache_trouble(shelf: str) -> str | None:
    """Returns why a shelf that is there is not used, and what to do about it; None if all is well."""
    try:
        with contextlib.suppress(OSError), _opened(shelf):
            pass
    except _NotPrivate as error:
        return str(error)
    return None


class _NotPrivate(Exception):
    """Somebody else could have written there."""


@dataclass(frozen=True)
class _Folder:
    path: Path
    descriptor: int | None  # Windows opens no folders

    def at(self, name: str) -> str:
        """How to call a file in the folder that was opened, whatever has its path by now."""
        return name if self.descriptor is not None else str(self.path / name)

    def open(self, path: str, flags: int) -> int:
        return os.open(path, flags | _NO_FOLLOW, 0o600, dir_fd=self.descriptor)


_told: set[Path] = set()


@contextlib.contextmanager
def _usable(shelf: str) -> Iterator[None]:
    """Leaves its block where the cache cannot be used: with a warning, once a shelf, if that is because of others."""
    try:
        yield
    except OSError:
        pass
    except _NotPrivate as error:
        path = cache_folder() / shelf
        if path not in _told:
            _told.add(path)
            warnings.warn(f"the cache {path} is not used: {error}", CacheWarning, stacklevel=2)


@contextlib.contextmanager
def _opened(shelf: str, *, make: bool = False) -> Iterator[_Folder]:
    path = Path(os.path.abspath(cache_folder() / shelf))
    if os.name != "posix":
        if make:
            path.mkdir(parents=True, exist_ok=True)
        yield _Folder(path, None)
        return
    path = _behind_links(path, make=make)
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | _NO_FOLLOW)
    try:
        _check_private(path, os.fstat(descriptor))
        yield _Folder(path, descriptor)
    finally:
        os.close(descriptor)


def _behind_links(path: Path, *, make: bool) -> Path:
    """Goes to a folder step by step, and takes no step that somebody else could lead elsewhere.

    Each step is safe because the one before it was: in a folder that others cannot write, nothing changes its place.
    """
    home = os.path.expanduser("~")
    above_home = Path(os.path.realpath(home)).parents if os.path.isabs(home) else ()
    here, ahead, links = Path("/"), list(path.parts), 0
    while ahead:
        if here not in above_home:  # whoever can move the home folder needs no cache to run code
            _check_steady(here)
        step = ahead.pop(0)
        there = here.parent if step == ".." else here / step
        if make and not os.path.lexists(there):
            with contextlib.suppress(FileExistsError):
                os.mkdir(there, 0o700)
        status = os.lstat(there)
        if stat.S_ISLNK(status.st_mode):
            _check_owner(there, status)
            links += 1
            if links > _MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
            ahead = [*Path(os.readlink(there)).parts, *ahead]  # from / or from here on
        else:
            here = there
    return here


def _check_private(path: Path, status: os.stat_result) -> None:
    """The file or folder is the user's, and nobody else can write it."""
    if os.name == "posix":
        if status.st_uid != os.geteuid():
            raise _NotPrivate(_foreign(path, status))
        if status.st_mode & 0o022:
            raise _NotPrivate(_open_to_others(path, status))


def _check_steady(path: Path) -> None:
    """A folder on the way: what is in it stays in its place, whatever others do."""
    status = os.lstat(path)
    _check_owner(path, status)
    if status.st_mode & 0o022 and not status.st_mode & stat.S_ISVTX:  # sticky, as /tmp: none moves what others own
        raise _NotPrivate(_open_to_others(path, status))


def _check_owner(path: Path, status: os.stat_result) -> None:
    # in a container the owner of / stands for root
    if status.st_uid not in (os.geteuid(), 0, os.lstat("/").st_uid):
        raise _NotPrivate(_foreign(path, status))


_REMEDY = "set HGEO_CACHE to a folder that only you can write"


def _foreign(path: Path, status: os.stat_result) -> str:
    return f"{path} belongs to another user (number {status.st_uid}), who could put code there; {_REMEDY}"


def _open_to_others(path: Path, status: os.stat_result) -> str:
    mode = stat.S_IMODE(status.st_mode)
    return f"others can write {path} (mode {mode:o}) and could put code there; chmod go-w {path}, or {_REMEDY}"
