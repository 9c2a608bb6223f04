"""Types of options, for argparse: what is wrong with a word, in words."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from hgeo._near import near

__all__ = [
    "Parser",
    "count",
    "duration",
    "folder",
    "not_negative",
    "number",
    "own_modules",
    "positive",
    "space_word",
    "threads",
    "word",
]

_MOST = 10**9  # of anything; more is a slip of the finger
_MOST_AT_ONCE = 10**6  # of what is kept in memory


class Parser(argparse.ArgumentParser):
    """A parser that says what an unknown option may have meant."""

    def understand(self, words: Sequence[str]) -> argparse.Namespace:
        """As ``parse_args``, but an unknown option of a command is that command's error, with its usage."""
        found, rest = self.parse_known_args(list(words))
        if rest:
            self._command(getattr(found, "command", None)).refuse(rest)
        return found

    def _command(self, name: str | None) -> Parser:
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction) and name in action.choices:
                command: Parser = action.choices[name]
                return command
        return self

    def refuse(self, words: list[str]) -> NoReturn:
        """Ends the process: these words are known to nobody."""
        first = words[0].partition("=")[0]
        known = [option for action in self._actions for option in action.option_strings]
        self.error(f"unrecognized arguments: {' '.join(words)}{near(first, known) if first.startswith('-') else ''}")

    def _check_value(self, action: argparse.Action, value: str) -> None:
        if action.choices is not None and value not in action.choices:
            known = [str(choice) for choice in action.choices]
            raise argparse.ArgumentError(action, f"no {value!r}{near(str(value), known)}; known: {', '.join(known)}")


def positive(text: str) -> int:
    """A whole number from 1 on."""
    return _within(text, 1, _MOST)


def count(text: str) -> int:
    """How many of what is kept in memory, from 1 on."""
    return _within(text, 1, _MOST_AT_ONCE)


def threads(text: str) -> int:
    """How many threads; each takes memory."""
    return _within(text, 1, 4096)


def not_negative(text: str) -> int:
    """A whole number from 0 on: a seed."""
    return _within(text, 0, 2**53)


def number(text: str) -> float:
    """A number above 0: a rate."""
    value = _real(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return value


def duration(text: str) -> float:
    """Seconds, from 0 on."""
    value = _real(text)
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 on")
    return value


def _real(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def word(text: str) -> str:
    """A word that is not empty."""
    if not text.strip():
        raise argparse.ArgumentTypeError("the word is empty; leave the option out to have what is usual")
    return text


def folder(text: str) -> Path:
    """The name of a file or folder."""
    return Path(word(text))


def space_word(space: str) -> str:
    """A space string as a part of a folder's name.

    >>> space_word("stereo:8,k=-0.5 x sphere:2")
    'stereo8k-0.5xsphere2'
    """
    return "".join(letter for letter in space if letter.isalnum() or letter in "-.")


def own_modules() -> None:
    """A user's own modules are found where the command is given, but none takes the place of an installed one."""
    if "" not in sys.path:
        sys.path.append("")


def _within(text: str, smallest: int, largest: int) -> int:
    try:
        value = int(text[:40])
    except ValueError:
        value = smallest - 1
    if value < smallest:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {smallest} on")
    if value > largest:
        raise argparse.ArgumentTypeError(f"{text!r} is too large, expected at most {largest}")
    return value
