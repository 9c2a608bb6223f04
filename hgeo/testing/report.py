"""The committed reports of the law kit: hgeo's own manifolds on many examples, and geoopt's defects.

``python -m hgeo.testing.report hgeo --examples 10000 > docs/results/laws.md``
``python -m hgeo.testing.report geoopt > docs/results/geoopt-laws.md``
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import torch

from hgeo._geoopt import geoopt
from hgeo.testing import laws
from hgeo.testing._check import FAIL, PASS, Report, Result, check_manifold, load

__all__ = ["DEFECTS", "OWN", "main"]

OWN = (
    "ball:3",
    "sproj:3",
    "stereo:3",
    "lorentz:3,c=0.5",
    "klein:3,c=0.7",
    "ball:2,c=0.5 x lorentz:2,c=2 x euclidean:1",
)
"""hgeo's manifolds, as space strings."""

_DTYPES = (torch.float64, torch.float32)

DEFECTS: tuple[tuple[str, str, str, float, torch.dtype], ...] = (
    # what geoopt gives, what is right, the law that says so, and the curvature and dtype at which it shows
    ("`PoincareBall(c)`: 1e-8 becomes 0, 100 becomes inf", "c", "curvature_survives_construction", 1.0, torch.float32),
    ("c = 0 never moves again", "it trains", "zero_curvature_trains", 1.0, torch.float32),
    (
        "d log0/dk is noise near k = 0 (artan_k: −3.3 at k = −1e-6)",
        "−0.0417 for artan_k",
        "curvature_derivative_of_logmap0",
        1e-6,
        torch.float32,
    ),
    (
        "the same has the wrong sign on one side of 0 (k = −5e-9)",
        "one limit from both sides",
        "derivative_limit_of_logmap0",
        1.0,
        torch.float64,
    ),
    ("`logmap0` of 1e-8 is 0", "1e-8", "oracle_logmap0", 1.0, torch.float32),
    (
        "Jacobian of `logmap0` at 0 is 0",
        "the identity",
        "origin_maps_are_the_identity_to_first_order",
        1.0,
        torch.float32,
    ),
    (
        "Jacobian of `mobius_matvec` at 0 is 0",
        "the matrix",
        "matrix_product_is_linear_at_the_origin",
        1.0,
        torch.float32,
    ),
    (
        "`logmap0(expmap0(v))` of norm 5 is 3.1, its gradient 0",
        "v",
        "long_tangents_survive",
        1.0,
        torch.float32,
    ),
    ("`dist` of close or far points: up to 130 % wrong", "1e-6", "oracle_dist", 1.0, torch.float32),
    (
        "second derivatives of `dist` at x = y are NaN",
        "finite",
        "distance_is_differentiable_at_coincidence",
        1.0,
        torch.float32,
    ),
    ("distances saturate at 16.8 in float64", "24.4", "oracle_dist", 1.0, torch.float64),
    ("float16 `expmap0(0)` is NaN", "0", "half_precision_of_expmap0", 1.0, torch.float32),
    ("`torch.compile` makes three graphs", "one", "one_graph_of_dist", 1.0, torch.float32),
    (
        "`inner` of a batch of vectors is a matrix (not in our table)",
        "a number each",
        "inner_product_is_conformal",
        1.0,
        torch.float32,
    ),
)
"""The defects of geoopt 0.5.1's stereographic maths that a law can express."""

_INEXPRESSIBLE = """Two lines of that table are no law of one manifold: points that a *growing* curvature leaves
outside the ball are the optimiser's to bring back (`hgeo.optim`), and the warnings at import are tested in
`tests/test_import.py`."""

_GEOOPT = ("geoopt:PoincareBall", "geoopt:SphereProjection", "geoopt:Lorentz", "geoopt:Sphere", "geoopt:Euclidean")
_SLOW = ("derivative", "limit", "compile")


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _versions() -> str:
    return f"torch {torch.__version__.split('+')[0]}, geoopt {geoopt.__version__}"


def _escaped(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _judge(text: str, dtype: torch.dtype, examples: int, seed: int) -> tuple[dict[str, Any], list[Any], float]:
    """The verdicts of every law on one space, as what can be sent from one process to another."""
    torch.set_num_threads(1)
    manifold, dim, made = load(text)
    start = time.process_time()
    report = check_manifold(manifold, dim=dim or 3, dtype=dtype, max_examples=examples, seed=seed, name=made)
    seconds = time.process_time() - start
    print(
        report.summary(),
        f"{seconds:.0f} s",
        *[result.counterexample or result.note for result in report.failures],
        sep="\n  ",
        file=sys.stderr,
        flush=True,
    )
    results = [{**vars(result), "law": result.law.name} for result in report.results]
    return {"manifold": report.manifold, "dim": report.dim, "dtype": dtype, "seed": seed}, results, seconds


def own(examples: int, spaces: Sequence[str], seed: int, jobs: int = 1) -> str:
    """Every law on hgeo's manifolds: the worst error of each, in units of what is allowed."""
    pairs = [(text, dtype) for text in spaces for dtype in _DTYPES]
    many = [list(column) for column in zip(*[(*pair, examples, seed) for pair in pairs], strict=True)]
    if jobs > 1:
        with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
            judged = list(pool.map(_judge, *many))
    else:
        judged = list(map(_judge, *many))
    reports: list[tuple[str, Report, float]] = []
    for (text, _), (head, results, seconds) in zip(pairs, judged, strict=True):
        made = [Result(**{**result, "law": laws.REGISTER[result["law"]]}) for result in results]
        reports.append((text, Report(**head, results=made), seconds))
    lines = [
        "| space | dtype | pass | FAIL | inherited | not applicable | no example | processor time |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for text, report, seconds in reports:
        counts = [str(number) for number in report.counts().values()]
        lines.append(_escaped([f"`{text}`", _name(report.dtype), *counts, f"{seconds:.0f} s"]))
    failures = [
        f"- `{result.law.name}` on `{text}`, {_name(report.dtype)}: `{result.counterexample or result.note}`"
        for text, report, _ in reports
        for result in report.failures
    ]
    letters = [chr(ord("A") + i // 2) + ("64" if i % 2 == 0 else "32") for i in range(len(reports))]
    legend = ", ".join(f"{letters[2 * i][0]} = `{text}`" for i, text in enumerate(spaces))
    table = [_escaped(["law", "examples", *letters]), "|---|---|" + "---|" * len(reports)]
    for i, entry in enumerate(laws.select(None)):
        results = [report.results[i] for _, report, _ in reports]
        if not any(result.verdict in (PASS, FAIL) for result in results):
            continue
        count = max(result.examples for result in results)
        table.append(_escaped([f"`{entry.name}`", str(count), *[_share(result) for result in results]]))
    return f"""# hgeo's manifolds under every law

Made by `python -m hgeo.testing.report hgeo --examples {examples} > docs/results/laws.md` ({_versions()}, seed {seed}).
One space alone: `hgeo check ball:3 --examples {examples}`.

{chr(10).join(lines)}

{chr(10).join(["Broken laws:", "", *failures]) if failures else "No law is broken."}

## The worst error of every law, in percent of what is allowed

{legend}; 64 and 32 are float64 and float32. An empty cell: the law needs an operation that the space does not have, or
speaks of none of its examples. Laws about the manifold itself, and not about its points, are asked once; those that
compile or differentiate twice, a few times. Examples that extended precision settles at less than an eighth of the
allowed error are not put before the sixty digits (`hgeo/testing/_batch.py`), all others are.

{chr(10).join(table)}"""


def _share(result: Any) -> str:
    if result.verdict not in (PASS, FAIL):
        return ""
    share = 100 * result.excess
    text = f"{share:.0f}" if share < 1e4 else "∞" if math.isinf(share) else f"{share:.0e}"
    return f"**{text}**" if result.verdict == FAIL else text


def theirs(examples: int, seed: int) -> str:
    """What the laws say about geoopt."""
    found = [
        "| geoopt gives | right | law | verdict | worst error / allowed | line to paste |",
        "|---|---|---|---|---|---|",
    ]
    for what, right, name, c, dtype in DEFECTS:
        ball = geoopt.PoincareBall(c=torch.tensor(c, dtype=torch.float64))
        report = check_manifold(ball, laws=name, dtype=dtype, max_examples=examples, seed=seed)
        result = report[name]
        size = f"{result.error:.1e} / {result.tolerance:.1e}"
        where = f"`{name}`, c = {c:g}, {_name(dtype)}"
        example = f"`{result.counterexample}`" if result.counterexample else result.note
        found.append(_escaped([what, right, where, result.verdict, size, example]))
    chosen = [group for group in laws.GROUPS if group not in _SLOW]
    tables = []
    for target in _GEOOPT:
        manifold, dim, text = load(target)
        for dtype in _DTYPES:
            report = check_manifold(
                manifold, dim=dim or 3, dtype=dtype, laws=chosen, max_examples=examples, seed=seed, name=text
            )
            print(report.summary(), file=sys.stderr, flush=True)
            broken = Report(report.manifold, report.dim, report.dtype, report.seed, report.failures)
            tables.append(f"### {report.summary()}\n\n" + "\n".join(broken.markdown().splitlines()[2:]))
    return f"""# geoopt {geoopt.__version__} under the law kit

Made by `python -m hgeo.testing.report geoopt --examples {examples} > docs/results/geoopt-laws.md` ({_versions()},
seed {seed}). `hgeo check geoopt:PoincareBall` prints such a report for one manifold, derivatives included.

## Each known defect, and the law that found it

{chr(10).join(found)}

{_INEXPRESSIBLE}

## Every broken law of geoopt's manifolds

Groups: {", ".join(chosen)}. Not applicable is what needs an operation that the manifold lacks; it never counts as
passed. A line to paste shows the broken law again.

{(chr(10) * 2).join(tables)}"""


def main(argv: list[str] | None = None) -> int:
    """Print one of the two reports."""
    parser = argparse.ArgumentParser(prog="python -m hgeo.testing.report", description=__doc__)
    parser.add_argument("which", choices=["hgeo", "geoopt"])
    parser.add_argument("--examples", type=int, default=100, help="examples a law (default: 100)")
    parser.add_argument("--space", action="append", help="only this space string; may be given several times")
    parser.add_argument("--seed", type=int, default=0, help="another seed draws other examples (default: 0)")
    parser.add_argument("--jobs", type=int, default=1, help="processes that share the spaces (default: 1)")
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    if args.which == "hgeo":
        print(own(args.examples, args.space or OWN, args.seed, args.jobs))
    else:
        print(theirs(args.examples, args.seed))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
