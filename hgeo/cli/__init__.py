"""The command line: ``hgeo COMMAND``. One command a file, loaded only when it is called.

A command is a module here with two functions, ``add_arguments(parser)`` and ``run(args) -> int`` (the exit code), and
a line in :data:`COMMANDS`.
"""

from __future__ import annotations

import argparse
import codecs
import contextlib
import importlib
import importlib.util
import io
import os
import sys
from collections.abc import Sequence

from hgeo.cli._arguments import Parser

__all__ = ["COMMANDS", "main"]

COMMANDS: dict[str, str] = {
    "train": "train a model on a graph; bare, HAT against GAT on the built-in hierarchy",
    "partition": "cut a graph into parts, to train on it with several machines",
    "embed": "embed a taxonomy: what is a kind of what, in hyperbolic space",
    "reproduce": "the paper's tables and figures, cell by cell, resumable",
    "tune": "search hyper-parameters on validation data, the same budget for every method",
    "check": "run the laws of geometry against a manifold, yours or geoopt's",
    "bench": "speed and memory, contestants interleaved, as ratios",
    "plot": "pictures of a run folder",
    "data": "what a data set looks like: sizes, degrees, hyperbolicity",
    "doctor": "what is installed, what works, what to do about the rest",
}

_EPILOG = """\
first steps:
  hgeo doctor                              is everything here that hgeo needs?
  hgeo data cora                           how tree-like is a graph: will curvature help?
  hgeo train                               HAT against GAT on a built-in hierarchy, with pictures
  hgeo train --dataset cora --space ball:16
  hgeo check geoopt:PoincareBall           the laws of geometry, with counter-examples
  hgeo COMMAND --help                      everything a command can do
"""


def _available() -> dict[str, str]:
    return {name: text for name, text in COMMANDS.items() if importlib.util.find_spec(f"hgeo.cli.{name}")}


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``hgeo`` with ``argv`` (default: the process's arguments) and return its exit code."""
    _spell_what_cannot_be_shown()
    arguments = list(sys.argv[1:] if argv is None else argv)
    parser = Parser(
        prog="hgeo",
        description="Geometric deep learning on curved spaces: train, reproduce, check, measure.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    chosen = next((word for word in arguments if not word.startswith("-")), None)
    modules = {}
    for name, text in _available().items():
        command = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".", allow_abbrev=False)
        command.formatter_class = argparse.RawDescriptionHelpFormatter
        if name == chosen:
            modules[name] = importlib.import_module(f"hgeo.cli.{name}")
            modules[name].add_arguments(command)
    options = parser.understand(arguments)
    if options.version:
        from hgeo import __version__

        print(f"hgeo {__version__}")
        return 0
    if options.command is None:
        parser.print_help()
        return 0
    try:
        code = int(modules[options.command].run(options))
        sys.stdout.flush()  # flush now: when the interpreter ends, nobody would catch the error of a closed pipe
        return code
    except BrokenPipeError:
        _leave_stdout()
        return 128 + 13  # the exit code that a shell gives to a process ended by SIGPIPE
    except ImportError as error:  # what is missing, and what it is needed for
        from hgeo.cli._spoken import complain

        complain(options.command, error)
        return 1
    except KeyboardInterrupt:
        print("hgeo: interrupted", file=sys.stderr)
        return 130


def _spell_what_cannot_be_shown() -> None:
    """Where ± or κ cannot be written stands its number (``\\xb1``), not an error; another choice of the user stays."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):
            stream.reconfigure(errors="hgeo.spell")


def _spelled(error: UnicodeError) -> tuple[bytes, int]:
    """Bytes of a file's name that no encoding explains are given back, as ``surrogateescape`` does; others spelled."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    unknown = (
        bytes([ord(c) - 0xDC00]) if "\udc80" <= c <= "\udcff" else c.encode("ascii", "backslashreplace") for c in text
    )
    return b"".join(unknown), error.end


codecs.register_error("hgeo.spell", _spelled)


def _leave_stdout() -> None:
    """What is still in the buffer has no reader; the interpreter shall not stumble over it at its end."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
