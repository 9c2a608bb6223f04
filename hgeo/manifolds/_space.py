"""The ``space`` string: a manifold as a hyper-parameter."""

from __future__ import annotations

import re
from typing import NamedTuple, NoReturn

from hgeo._geoopt import geoopt
from hgeo._near import near
from hgeo.manifolds._product import Product
from hgeo.manifolds._words import find_word, word_names

__all__ = ["Space", "space"]

_MOST_DIMENSIONS = 1 << 20  # more of them are a slip of the finger, and take all memory


class Space(NamedTuple):
    """A manifold and its intrinsic dimension."""

    manifold: geoopt.Manifold
    dim: int


def _refuse(text: str, position: int, problem: str) -> NoReturn:
    raise ValueError(f"space string: {problem}\n  {text}\n  {' ' * position}^")


def _factor(text: str, start: int, end: int) -> Space:
    part = text[start:end]
    head = re.match(r"\s*([A-Za-z]*)", part)
    assert head is not None
    name, at = head.group(1), start + head.start(1)
    kind = find_word(name)
    if kind is None:
        known = word_names()
        _refuse(text, at, f"expected one of {', '.join(known)}, got {name or 'nothing'!r}{near(name, known)}")
    position = start + head.end()
    if position >= end or text[position] != ":":
        _refuse(text, position, f"expected ':' and a dimension after {name!r}, as in '{name}:16'")
    number = re.compile(r"\s*(\d+)\s*").match(text, position + 1, end)
    if number is None or not 1 <= int(number.group(1)[:9]) <= _MOST_DIMENSIONS:
        _refuse(
            text, position + 1, f"expected a dimension, a whole number of at least 1 and at most {_MOST_DIMENSIONS}"
        )
    dim, position = int(number.group(1)), number.end()
    _, make, key, value = kind
    learnable, given, number_at = False, False, position
    while position < end:
        if text[position] != ",":
            _refuse(text, position, "expected ',', ' x ' or the end")
        option = re.compile(r"\s*([A-Za-z]*)\s*(?:=\s*([^\s,]*))?\s*").match(text, position + 1, end)
        assert option is not None
        word, setting, at = option.group(1), option.group(2), option.start(1)
        if key is None:
            _refuse(text, at, f"{name!r} has no options: its curvature is fixed")
        if word == key and setting is not None and given:
            _refuse(text, at, f"{key!r} is given twice; '{key}=0.5,learn' trains it from 0.5")
        if (word, setting) in {("learn", None), (key, "learn")}:
            if learnable:
                _refuse(text, at, "'learn' is given twice")
            learnable, given = True, given or word == key
        elif word == key and setting is not None:
            try:
                value, given, number_at = float(setting), True, option.start(2)
            except ValueError:
                _refuse(text, option.start(2), f"expected a number or 'learn' for {key!r}, got {setting!r}")
        else:
            _refuse(text, at, f"{name!r} knows '{key}=NUMBER', '{key}=learn' and 'learn', got {word or 'nothing'!r}")
        position = option.end()
    if key is None:
        return Space(make(), dim)
    try:
        return Space(make(value, learnable), dim)
    except ValueError as error:
        _refuse(text, number_at, str(error))


def space(text: str) -> Space:
    """Read a space string: factors ``NAME:DIM[,OPTION]`` joined by ' x '.

    ``ball:16``, ``ball:16,c=0.5``, ``ball:16,c=learn``, ``ball:16,c=0.5,learn`` (trained from 0.5),
    ``stereo:8,k=learn``, ``lorentz:8``, ``klein:8``, ``sphere:4`` (embedded), ``sproj:4`` (projected),
    ``euclidean:4``. Several factors make a :class:`hgeo.Product`. A space of your own has a word, too: that given to
    :func:`hgeo.register`. For the command line name its module in the environment variable ``HGEO_PLUGINS``, or let
    your package offer it as an entry point ``hgeo.spaces``.

    >>> import hgeo
    >>> manifold, dim = hgeo.space("ball:16,c=learn x sphere:4")
    >>> dim
    20
    """
    if not isinstance(text, str):
        raise TypeError(f"a space is given by a string such as 'ball:16', got {type(text).__name__}: {text!r}")
    factors, start = [], 0
    for joint in re.finditer(r"\s+[x×]\s+", text):
        factors.append(_factor(text, start, joint.start()))
        start = joint.end()
    factors.append(_factor(text, start, len(text)))
    if len(factors) == 1:
        return factors[0]
    return Space(Product(*factors), sum(factor.dim for factor in factors))
