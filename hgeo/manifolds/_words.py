"""The words of space strings: which kinds of manifold have one, and how a manifold is written with it."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from importlib.metadata import entry_points
from typing import NamedTuple

from torch import Tensor

from hgeo._geoopt import geoopt

__all__ = ["Word", "add_word", "describe_word", "find_word", "word_names"]


class Word(NamedTuple):
    """A kind of manifold in a space string, ``NAME:DIM,KEY=NUMBER``.

    ``make(number, learnable)`` makes one; without a ``key``, where nothing can be chosen, ``make()``. A key "c" is
    minus the curvature, "k" the curvature, any other an attribute of the manifold.
    """

    name: str
    make: Callable[..., geoopt.Manifold]
    key: str | None = None
    default: float = 1.0


_WORDS: dict[str, tuple[type, Word]] = {}
_imported_plugins = False


def add_word(cls: type, word: Word) -> None:
    """Let ``word`` stand for manifolds of class ``cls``."""
    if not (word.name.isascii() and word.name.isalpha()) or word.name == "x":
        raise ValueError(f"register: the word of a space is made of letters (and not 'x' alone), got {word.name!r}")
    taken = _WORDS.get(word.name)
    if taken is not None and taken[0].__qualname__ != cls.__qualname__:
        raise ValueError(f"register: {word.name!r} is the word of {taken[0].__name__}; choose another one")
    _WORDS[word.name] = (cls, word)


def find_word(name: str) -> Word | None:
    """The word of this name, also if a plugin has to be imported for it."""
    if name not in _WORDS and name:
        _import_plugins()
    return _WORDS[name][1] if name in _WORDS else None


def word_names() -> list[str]:
    """The words of space strings, those of the plugins included."""
    _import_plugins()
    return sorted(_WORDS)


def _import_plugins() -> None:
    """Import the modules that ``HGEO_PLUGINS`` names and those that packages offer as ``hgeo.spaces``."""
    global _imported_plugins
    if _imported_plugins:
        return
    _imported_plugins = True
    for module in os.environ.get("HGEO_PLUGINS", "").replace(",", " ").split():
        importlib.import_module(module)
    for entry in entry_points(group="hgeo.spaces"):
        entry.load()


def describe_word(manifold: geoopt.Manifold, dim: int | None, curvature: Tensor | None) -> str:
    """A manifold in the notation of space strings; one without a word by its own name."""
    size = "" if dim is None else f":{dim}"
    found = [(kind, word) for cls in type(manifold).__mro__ for kind, word in _WORDS.values() if kind is cls]
    if not found or (found[0][1].key is None and found[0][0] is not type(manifold)):
        return f"{manifold}{size}"
    word = found[0][1]
    if word.key is None:
        return f"{word.name}{size}"
    if curvature is not None and word.key in ("c", "k"):
        value = -curvature if word.key == "c" else curvature
    else:
        value = getattr(manifold, word.key)
    learn = ",learn" if any(parameter.requires_grad for parameter in manifold.parameters()) else ""
    return f"{word.name}{size},{word.key}={float(value.detach() if isinstance(value, Tensor) else value):.4g}{learn}"
