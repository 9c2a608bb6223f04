"""Warnings as lines for a reader, not as places in the source."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Iterator
from typing import Any

__all__ = ["spoken_warnings"]


@contextlib.contextmanager
def spoken_warnings() -> Iterator[None]:
    """hgeo's own warnings on stderr, a line each, around a progress bar; those of libraries are left out."""
    from tqdm import tqdm

    from hgeo._cache import CacheWarning
    from hgeo.data import DataWarning
    from hgeo.train import TrainingWarning

    def show(message: Any, category: type[Warning], *_: Any, **__: Any) -> None:
        tqdm.write(f"hgeo: {message}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for spoken in (CacheWarning, DataWarning, TrainingWarning):
            warnings.simplefilter("always", spoken)
        warnings.showwarning = show
        yield
