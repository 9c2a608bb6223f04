"""Types of options, for argparse: what is wrong with a word, in words."""

from __future__ import annotations

import argparse
import sys

__all__ = ["not_negative", "own_modules", "positive"]


def positive(text: str) -> int:
    """A whole number from 1 on."""
    return _at_least(text, 1)


def not_negative(text: str) -> int:
    """A whole number from 0 on: a seed."""
    return _at_least(text, 0)


def own_modules() -> None:
    """A user's own modules are found where the command is given, but none takes the place of an installed one."""
    if "" not in sys.path:
        sys.path.append("")


def _at_least(text: str, smallest: int) -> int:
    try:
        value = int(text)
    except ValueError:
        value = smallest - 1
    if value < smallest:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {smallest} on")
    return value
