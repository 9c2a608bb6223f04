"""A folder that one process at a time trains into."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

__all__ = ["LOCK", "locked"]

#: the file that is locked; it stays, empty
LOCK = ".lock"


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keeps other processes and threads from training into ``folder``, which is made if it is not there.

    The operating system takes the lock back when its process ends, however it ends. A thread may lock a folder again.

    Raises:
        ValueError: the folder is in use.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / LOCK, timeout=0, is_singleton=True)
    try:
        lock.acquire()
    except Timeout:
        raise ValueError(
            f"another process is training into {folder}; wait for it to end, or choose another folder"
        ) from None
    try:
        yield
    finally:
        lock.release()
