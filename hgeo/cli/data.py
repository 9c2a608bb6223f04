"""``hgeo data``."""

from __future__ import annotations

import argparse
import json
import math

from hgeo.cli._arguments import count, not_negative, word
from hgeo.cli._spoken import complain, shown, spoken_warnings

__all__ = ["add_arguments", "run"]

_ABOUT = {
    "hierarchy": "a generated tree with cross links, 6 classes",
    "karate": "Zachary's karate club, 34 members, 2 classes",
    "cora": "citations of machine learning papers, 7 classes",
    "citeseer": "citations of computer science papers, 6 classes",
    "pubmed": "citations of papers on diabetes, 3 classes",
    "photo": "photo products bought together, 8 classes",
    "computers": "computer products bought together, 10 classes",
    "cs": "co-authors in computer science, 15 classes",
    "physics": "co-authors in physics, 5 classes",
    "ogbn-arxiv": "citations between arXiv papers, 40 classes; unpack OGB's archive",
    "airport": "flights between airports, 4 classes of their countries",
    "disease": "a simulated epidemic: a tree of 2,665 nodes, 2 classes",
    "disease-nc": "another, of 1,044 nodes, 2 classes",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``hgeo data``."""
    from hgeo.data import FEATURES, SPLITS

    parser.add_argument("name", nargs="?", help="a data set or an .npz file; without it the known names are listed")
    parser.add_argument("--data-dir", type=word, help="folder of raw files (default: $HGEO_DATA, else DGL's own)")
    parser.add_argument("--split", choices=SPLITS, help="which nodes are for what (default: what the data came with)")
    parser.add_argument(
        "--split-seed", type=not_negative, default=0, metavar="SEED", help="of data without a public split"
    )
    parser.add_argument(
        "--features",
        default="auto",
        metavar="HOW",
        help=f"how they are prepared: {', '.join(FEATURES)}; with +degrees behind it, degrees are features, too",
    )
    parser.add_argument("--samples", type=count, default=20000, help="quadruples of nodes for δ (default: 20000)")
    parser.add_argument("--seed", type=not_negative, default=0, help="of that sample (default: 0)")
    parser.add_argument("--json", action="store_true", help="JSON on stdout, and nothing else there")


def run(args: argparse.Namespace) -> int:
    """Run ``hgeo data`` and return its exit code: 0, or 2 for data that cannot be read."""
    from hgeo.data import load
    from hgeo.tasks import graph_statistics
    from hgeo.train import plain

    if args.name is None:
        _list_names(args)
        return 0
    try:
        with spoken_warnings():
            dataset = load(
                args.name,
                data_dir=args.data_dir,
                split=args.split,
                split_seed=args.split_seed,
                features=args.features,
            )
    except (ValueError, OSError) as error:
        complain("data", error)
        return 2
    found = graph_statistics(dataset, samples=args.samples, seed=args.seed)
    if args.json:
        print(json.dumps(plain({"name": dataset.name, **found.to_dict(), "advice": found.advice()}), indent=2))
        return 0
    alike = "no links between labelled nodes"
    if not math.isnan(found.homophily):
        alike = f"homophily {found.homophily:.2f} (share of links inside a class)"
    kind = "sparse" if dataset.is_sparse else "dense"
    rows = [
        ("nodes", f"{found.nodes:,}"),
        ("edges", f"{found.edges:,} directed, {found.edges // 2:,} links, no self-loops"),
        ("features", f"{found.features:,} {kind}, {found.feature_density:.1%} not zero"),
        ("classes", f"{found.classes}, {alike}"),
        ("train / val / test", f"{found.train} / {found.val} / {found.test}"),
        ("components", f"{found.components}, the largest has {found.largest_component:,}; {found.isolated} isolated"),
        (
            "degree",
            f"mean {found.degree_mean:.1f}, median {found.degree_median:.0f}, max {found.degree_max}, "
            f"Gini {found.degree_gini:.2f}",
        ),
        ("distance", f"mean {found.mean_distance:.2f}, diameter at least {found.diameter_at_least}"),
        ("Gromov δ", f"mean {found.delta_mean:.3f}, max {found.delta_max:.1f} of {found.samples:,} quadruples"),
        ("2δ / distance", f"{found.delta_relative:.3f} of its mean, {found.delta_spread:.3f} of its deviation"),
    ]
    print(shown(dataset.name))
    for name, text in rows:
        print(f"  {name:<20} {text}")
    print(found.advice())
    return 0


def _list_names(args: argparse.Namespace) -> None:
    from hgeo.data import NAMES, available

    if args.json:
        print(json.dumps(list(NAMES)))
        return
    folder, present = available(args.data_dir)
    for name in NAMES:
        place = "built in" if name in ("hierarchy", "karate") else "here" if name in present else "not here"
        print(f"{name:<12} {place:<9} {_ABOUT[name]}")
    print(f"\nhere: in {folder} ($HGEO_DATA or --data-dir chooses another folder); what is not here is downloaded.")
    print(
        "Your own: an .npz file with edge_index (2, E), feat (N, F), label (N,) and, if you like, train_mask, val_mask,"
    )
    print(
        "test_mask. `hgeo data NAME` or `hgeo data FILE.npz` shows its shape; `hgeo train --dataset NAME` trains on it."
    )
