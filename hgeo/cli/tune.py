"""``hgeo tune``: search hyper-parameters on validation nodes and freeze them."""

from __future__ import annotations

import argparse
import importlib.util
import os
from pathlib import Path

from hgeo.cli._arguments import positive
from hgeo.cli._spoken import complain

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``hgeo tune``."""
    from hgeo.reproduce import DATASETS, DIMENSIONS, SEARCHED_METHODS

    parser.epilog = (
        "The same number of trials for every model; test nodes are never evaluated. A killed search resumes.\n"
        "Example: hgeo tune --datasets cora --dims 2 4 --methods hat gcn --freeze configs.json"
    )
    parser.add_argument("--datasets", nargs="+", default=list(DATASETS), metavar="NAME")
    parser.add_argument("--dims", nargs="+", type=positive, default=list(DIMENSIONS), metavar="D")
    parser.add_argument(
        "--methods",
        nargs="+",
        default=list(SEARCHED_METHODS),
        metavar="M",
        help="models, as hgeo train --model has them",
    )
    parser.add_argument("--cache", type=Path, default=Path("runs/tune"), help="folder of finished cells (%(default)s)")
    parser.add_argument("--freeze", type=Path, help="merge what was chosen into this JSON file")
    parser.add_argument(
        "--go-on-from",
        type=Path,
        metavar="FILE",
        help="begin with what earlier searches froze in this file, for every method the winners of all methods",
    )
    parser.add_argument("--jobs", type=positive, default=os.cpu_count() or 1, help="processes (%(default)s)")
    parser.add_argument("--data-dir", help="folder of raw files (default: HGEO_DATA)")
    parser.add_argument("--rounds", type=positive, help="rounds of proposals, if not the usual number for the data set")
    parser.add_argument("--trials", type=positive, help="trials in a round, if not the usual number")
    parser.add_argument("--epochs", type=positive, help="epochs of a run, if not the usual number")


def run(args: argparse.Namespace) -> int:
    from dataclasses import replace

    from hgeo.reproduce import frozen_winners, run_cells, tuning_cell, usual_budget, write_frozen

    asked = {name: getattr(args, name) for name in ("rounds", "trials", "epochs") if getattr(args, name)}
    if importlib.util.find_spec("optuna") is None:
        complain("tune", "the search needs optuna, which is not installed: pip install optuna")
        return 1
    try:
        winners = frozen_winners(args.go_on_from) if args.go_on_from else None
        cells = [
            tuning_cell(dataset, dim, method, replace(usual_budget(dataset), **asked), winners)
            for dataset in args.datasets
            for dim in args.dims
            for method in args.methods
        ]
    except (ValueError, OSError) as error:
        complain("tune", error)
        return 2
    try:
        results = run_cells(cells, args.cache, jobs=args.jobs, context={"data_dir": args.data_dir})
    except (OSError, ValueError) as error:
        complain("tune", error)
        return 1
    for cell in cells:
        where, result = cell.arguments, results[cell.key]
        name = f"{where['dataset']}/{where['dim']}/{where['model']}"
        accuracy = result["chosen"]["classification"]["val_accuracy"]
        nmi = result["chosen"]["clustering"]["val_nmi"]
        print(f"{name:24s} validation accuracy {accuracy:.4f}, NMI {nmi:.4f}  ({len(result['trials'])} trials)")
    if args.freeze:
        try:
            held = write_frozen(args.freeze, [(cell, results[cell.key]) for cell in cells], args.go_on_from)
        except OSError as error:
            complain("tune", f"{error}; the cells are kept in {args.cache}: call again with another --freeze")
            return 1
        print(f"{args.freeze}: {held} cells")
    return 0
