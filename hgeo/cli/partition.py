"""``hgeo partition``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from hgeo.cli._arguments import not_negative, positive
from hgeo.cli._spoken import complain, shown, spoken_warnings

__all__ = ["add_arguments", "run"]

_EPILOG = """\
examples:
  hgeo partition cora --parts 2 --out parts/cora
  torchrun --nproc-per-node 2 -m hgeo train --dataset parts/cora/hgeo.parts.json --batch-size 64 --fanout 10,10
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``hgeo partition``."""
    parser.epilog = _EPILOG
    parser.add_argument("dataset", help="a name that `hgeo data` lists, or an .npz file")
    parser.add_argument("--parts", type=positive, default=2, help="how many (default: 2)")
    parser.add_argument("--out", type=Path, help="a new folder (default: parts/ and the name of the data)")
    parser.add_argument("--data-dir", help="folder of raw files (default: $HGEO_DATA, else DGL's own)")
    parser.add_argument("--split", help="which nodes are for what (default: what the data came with)")
    parser.add_argument(
        "--split-seed", type=not_negative, default=0, metavar="SEED", help="of what is split at random (default: 0)"
    )
    parser.add_argument("--features", default="auto", metavar="HOW", help="how they are prepared (default: auto)")


def run(args: argparse.Namespace) -> int:
    """Run ``hgeo partition`` and return its exit code: 0, or 2 for data that cannot be read or cut."""
    from hgeo.data import load, write_parts

    try:
        with spoken_warnings():
            how = {"split": args.split, "split_seed": args.split_seed, "features": args.features}
            dataset = load(args.dataset, data_dir=args.data_dir, **how)
            file = write_parts(dataset, args.parts, args.out or Path("parts") / Path(args.dataset).stem)
    except (ValueError, OSError, ImportError) as error:
        complain("partition", error)
        return 2
    print(f"{shown(file)}: {args.parts} parts of {shown(dataset)}", file=sys.stdout)
    print(f"train on them: torchrun --nproc-per-node {args.parts} -m hgeo train --dataset {shown(file)} --batch-size N")
    return 0
