"""dgl, imported when something first needs it: it may be missing, broken, or talkative."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import sys
import warnings
from collections.abc import Iterator
from typing import Any

__all__ = ["import_dgl"]


def import_dgl(needed_for: str, module: str = "dgl") -> Any:
    """``dgl``, or a module of it. Where it cannot be imported the error says what it was ``needed_for``."""
    known = sys.modules.get(module)
    if known is not None:
        return known
    os.environ.setdefault("DGLBACKEND", "pytorch")  # or its first import asks, on stdout
    try:
        with _quiet():
            return importlib.import_module(module)
    except Exception as error:  # a broken installation raises whatever its libraries raise
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise ImportError(
            f"dgl cannot be imported ({type(error).__name__}: {reason}); {needed_for} needs it: "
            "pip install dgl==1.1.3, on Python 3.10 or 3.11"
        ) from error


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keeps DGL's chatter on stdout and its deprecation warnings away from the user."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        yield
