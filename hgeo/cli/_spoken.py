"""What a reader is told: warnings as lines, not as places in the source, and words of files as text, not as orders."""

from __future__ import annotations

import contextlib
import re
import sys
import warnings
from collections.abc import Iterator
from typing import Any

__all__ = ["complain", "shown", "spoken_warnings"]

# Names in files of others may hold control characters, which a terminal would obey. Line feeds and tabs are safe.
_ORDERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def shown(text: object) -> str:
    """The text with its control characters spelled, so that a terminal obeys none of them.

    >>> shown("red \x1b[31m")
    'red \\\\x1b[31m'
    """
    return _ORDERS.sub(lambda found: f"\\x{ord(found[0]):02x}", str(text))


def complain(command: str, problem: object) -> None:
    """What is wrong, on stderr."""
    print(f"hgeo {command}: {shown(problem)}", file=sys.stderr)


@contextlib.contextmanager
def spoken_warnings() -> Iterator[None]:
    """hgeo's own warnings on stderr, a line each, around a progress bar; those of libraries are left out."""
    from tqdm import tqdm

    from hgeo._cache import CacheWarning
    from hgeo.data import DataWarning
    from hgeo.train import TrainingWarning

    def show(message: Any, category: type[Warning], *_: Any, **__: Any) -> None:
        tqdm.write(f"hgeo: {shown(message)}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for spoken in (CacheWarning, DataWarning, TrainingWarning):
            warnings.simplefilter("always", spoken)
        warnings.showwarning = show
        yield
