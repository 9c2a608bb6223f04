"""What a word that is not known may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["near"]


def near(word: str, known: Iterable[str]) -> str:
    """The end of a sentence that says which of the ``known`` words is near; nothing if none is.

    >>> near("lorenz", ["ball", "lorentz"])
    "; did you mean 'lorentz'?"
    >>> near("torus", ["ball", "lorentz"])
    ''
    """
    found = difflib.get_close_matches(word.lower(), list(known), n=1)
    return f"; did you mean {found[0]!r}?" if found else ""
