"""``hgeo check``: the laws of geometry against a manifold, as a table with counter-examples to paste."""

from __future__ import annotations

import argparse

from hgeo.cli._arguments import not_negative, own_modules, positive
from hgeo.cli._spoken import complain

__all__ = ["add_arguments", "run"]

_EXAMPLES = """
What can be checked:
  geoopt:PoincareBall            a class of any importable module, called without arguments
  "geoopt:Lorentz(k=2.0)"        ... or with keywords
  mypkg.mod:factory              a function that returns your manifold (or a pair: manifold, dimension)
  ball:16,c=0.5                  a space string: ball, stereo, sproj, lorentz, klein, sphere, euclidean, joined by ' x '
  hgeo.math                      a module of pure functions f(points, k=...), at the curvature --k

Examples:
  hgeo check geoopt:PoincareBall --dtype float32
  hgeo check "ball:8 x sphere:3" --examples 1000
  hgeo check mypkg.mod:factory --laws metric,maps --dim 4
  hgeo check hgeo.math --k -0.0001 --laws "oracle_*"
  hgeo check --list

A law that needs an operation which the manifold lacks is 'not applicable', never passed. The exit code is 1 when a law
is broken or none applies. Every counter-example is a line of Python that shows the broken law again. The guide is
docs/law-kit.md.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``hgeo check``."""
    parser.epilog = _EXAMPLES
    parser.add_argument("target", nargs="?", help="what to check; see below")
    parser.add_argument("--dim", type=positive, help="intrinsic dimension (default: 3, or what the space string says)")
    parser.add_argument(
        "--dtype",
        action="append",
        choices=["float64", "float32"],
        help="float64, float32; may be given twice; both by default",
    )
    parser.add_argument("--examples", type=positive, default=100, metavar="N", help="examples a law (default: 100)")
    parser.add_argument("--laws", help="names, groups or patterns, separated by commas (default: all)")
    parser.add_argument("--k", type=float, help="the signed curvature at which a module of functions is checked")
    parser.add_argument("--seed", type=not_negative, default=0, help="another seed draws other examples (default: 0)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--markdown", action="store_true", help="print a table for a document")
    parser.add_argument("--failures", action="store_true", help="print broken laws only")
    parser.add_argument("--list", action="store_true", help="list all laws with their groups and statements, and exit")


def run(args: argparse.Namespace) -> int:
    """Check, print, and return 1 if a law is broken or none applies."""
    import torch
    from tqdm import tqdm

    from hgeo.testing import check_manifold, laws, load

    if args.list:
        for entry in laws.REGISTER.values():
            print(f"{entry.group:11} {entry.name:45} {entry.statement}")
        return 0
    if args.target is None:
        complain("check", "say what to check, for example geoopt:PoincareBall; hgeo check --help says more")
        return 2
    own_modules()
    try:
        manifold, own_dim, text = load(args.target, k=args.k)
        chosen = None if args.laws is None else [word.strip() for word in args.laws.split(",")]
        laws.select(chosen)
    except (ValueError, TypeError) as reason:
        complain("check", reason)
        return 2
    if args.dim is not None and own_dim is not None and args.dim != own_dim:
        complain("check", f"--dim {args.dim} contradicts {args.target!r}, whose dimension is {own_dim}")
        return 2
    reports, passed, dtypes = [], True, args.dtype or ["float64", "float32"]
    with tqdm(total=len(dtypes) * len(laws.select(chosen)), unit="law", disable=None, leave=False) as bar:
        for name in dtypes:
            report = check_manifold(
                manifold,
                dim=args.dim or own_dim,
                laws=chosen,
                dtype=getattr(torch, name),
                max_examples=args.examples,
                seed=args.seed,
                name=text,
                on_law=lambda _: bar.update(),
            )
            passed &= report.passed
            if args.failures:
                report.results = report.failures
            reports.append(report)
    if args.json:
        print("[" + ",\n".join(report.to_json() for report in reports) + "]")
    else:
        print("\n\n".join(report.markdown() if args.markdown else str(report) for report in reports))
    return 0 if passed else 1
