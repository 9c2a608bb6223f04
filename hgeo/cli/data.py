"""``hgeo data``."""

from __future__ import annotations

import argparse
import json
import sys

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``hgeo data``."""
    parser.add_argument("name", nargs="?", help="a data set or an .npz file; without it the known names are listed")
    parser.add_argument("--data-dir", help="folder of DGL's raw files (default: $HGEO_DATA, else DGL's own)")
    parser.add_argument("--split-seed", type=int, default=0, metavar="SEED", help="of data without a public split")
    parser.add_argument("--samples", type=int, default=20000, help="quadruples of nodes for δ (default: 20000)")
    parser.add_argument("--seed", type=int, default=0, help="of that sample (default: 0)")
    parser.add_argument("--json", action="store_true", help="JSON on stdout, and nothing else there")


def run(args: argparse.Namespace) -> int:
    """Run ``hgeo data`` and return its exit code: 0, or 2 for data that cannot be read."""
    from hgeo.data import NAMES, load
    from hgeo.tasks import graph_statistics

    if args.name is None:
        print(json.dumps(list(NAMES)) if args.json else "\n".join(NAMES))
        return 0
    if args.samples < 1:
        print(f"hgeo data: --samples is {args.samples}, expected at least 1", file=sys.stderr)
        return 2
    try:
        dataset = load(args.name, data_dir=args.data_dir, split_seed=args.split_seed)
    except (ValueError, OSError) as error:
        print(f"hgeo data: {error}", file=sys.stderr)
        return 2
    found = graph_statistics(dataset, samples=args.samples, seed=args.seed)
    if args.json:
        print(json.dumps({"name": dataset.name, **found.to_dict(), "advice": found.advice()}, indent=2))
        return 0
    kind = "sparse" if dataset.is_sparse else "dense"
    rows = [
        ("nodes", f"{found.nodes:,}"),
        ("edges", f"{found.edges:,} directed, {found.edges // 2:,} links, no self-loops"),
        ("features", f"{found.features:,} {kind}, {found.feature_density:.1%} not zero"),
        ("classes", f"{found.classes}, homophily {found.homophily:.2f} (share of links inside a class)"),
        ("train / val / test", f"{found.train} / {found.val} / {found.test}"),
        ("components", f"{found.components}, the largest has {found.largest_component:,}; {found.isolated} isolated"),
        (
            "degree",
            f"mean {found.degree_mean:.1f}, median {found.degree_median:.0f}, max {found.degree_max}, "
            f"Gini {found.degree_gini:.2f}",
        ),
        ("distance", f"mean {found.mean_distance:.2f}, diameter at least {found.diameter_at_least}"),
        ("Gromov δ", f"mean {found.delta_mean:.3f}, max {found.delta_max:.1f} of {found.samples:,} quadruples"),
        ("2δ / distance", f"{found.delta_relative:.3f}"),
    ]
    print(dataset.name)
    for name, text in rows:
        print(f"  {name:<20} {text}")
    print(found.advice())
    return 0
