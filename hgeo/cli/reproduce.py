"""``hgeo reproduce``: the paper's tables and figures and the field's benchmark, cell by cell."""

from __future__ import annotations

import argparse
import os
from dataclasses import fields
from pathlib import Path

from hgeo.cli._arguments import count, positive
from hgeo.cli._spoken import complain

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``hgeo reproduce``."""
    from hgeo.reproduce import PAGES

    parser.epilog = (
        "Finished cells are kept in --cache under a hash of their configuration; a killed run resumes.\n"
        "Example: hgeo reproduce classification --datasets cora --dims 2 16 --methods gcn gat hat --out results"
    )
    parser.add_argument("what", choices=[*PAGES, "all"], help="which table or figure; all: the paper's")
    parser.add_argument("--datasets", nargs="+", metavar="NAME", help="default: the paper's four; field: the field's")
    parser.add_argument(
        "--dims", nargs="+", type=positive, metavar="D", help="default: 2 4 8 16; field: 16, and 2 on trees"
    )
    parser.add_argument("--methods", nargs="+", metavar="M", help="default: every column")
    parser.add_argument("--seeds", type=count, help="runs of a graph network (default: 10; field: 6)")
    parser.add_argument("--shallow-seeds", type=count, default=10, help="runs of a shallow embedding (%(default)s)")
    parser.add_argument(
        "--quick-walks", nargs="*", metavar="NAME",
        help="10 walks of 40 nodes, not the paper's 40 of 80, on these data sets (none named: on all)",
    )  # fmt: skip
    parser.add_argument("--tasks", nargs="+", choices=("nodes", "links"), help="of field (default: both)")
    parser.add_argument("--trials", type=positive, default=8, help="of field: settings tried a cell (%(default)s)")
    parser.add_argument("--epochs", type=positive, help="of field: at most so many a run")
    parser.add_argument("--configs", type=Path, help="frozen configurations (default: those of the package)")
    parser.add_argument("--cache", type=Path, default=Path("runs/reproduce"), help="finished cells (%(default)s)")
    parser.add_argument("--cached-only", action="store_true", help="write what the cache holds, compute nothing")
    parser.add_argument("--out", type=Path, default=Path("docs/results"), help="where tables go (%(default)s)")
    parser.add_argument("--jobs", type=positive, default=os.cpu_count() or 1, help="processes (%(default)s)")
    parser.add_argument("--data-dir", help="folder of raw files (default: HGEO_DATA)")


def run(args: argparse.Namespace) -> int:
    """Run ``hgeo reproduce`` and return its exit code: 0, or 1 if a page could not be made."""
    from hgeo.reproduce import PAGES, Request, make_page

    given = {field.name: getattr(args, field.name) for field in fields(Request)}
    try:
        for name in [page for page in PAGES if page != "field"] if args.what == "all" else [args.what]:
            seeds = args.seeds or (6 if name == "field" else 10)
            print(*make_page(name, Request(**{**given, "seeds": seeds})), sep="\n")
    except (OSError, ValueError) as error:
        complain("reproduce", error)
        return 1
    return 0
