"""``hgeo bench``."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from hgeo._files import write_atomically
from hgeo.cli._arguments import duration, number
from hgeo.cli._spoken import complain

if TYPE_CHECKING:
    from hgeo.bench import Case

__all__ = ["add_arguments", "run"]

_EPILOG = """\
What is measured: one graph attention layer, projection included, on a random graph with heavy-tailed degrees; the
forward pass, the backward pass (gradients of features and weights), and how far both raise the memory of the process.
The contestants take turns, one step each a round, and a ratio is the median over rounds of (contestant / DGL GATConv)
in the same round, so that a busy machine disturbs both sides alike. Ratios below 1 are faster than DGL. The numbers in
brackets are quartiles. Other parts (--spaces, --convolutions, --growth, --hgcn, --train, --mobius, --optim, --geometry,
--counterparts, --large, --speedup) are measured instead, if asked for.

examples:
  hgeo bench --quick                                   a minute: two sizes, d = 16
  hgeo bench                                           all layers, some minutes
  hgeo bench --sizes 245k --dims 64 --kinds directed   one case
  hgeo bench --train                                   a training step, and a whole training, on Cora
  hgeo bench --geometry                                every operation of geometry beside geoopt's
  hgeo bench --counterparts                            every layer beside torch's and DGL's flat one
  hgeo bench --scale --markdown docs/results/scale.md  an epoch of training from 10⁴ to 10⁷ edges
  hgeo bench --everything --markdown docs/results/speed.md
  hgeo bench --full --json > speed.json                every combination, for a program to read
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``hgeo bench``."""
    from hgeo.bench import PARTS

    parser.epilog = _EPILOG
    parser.add_argument("--quick", action="store_true", help="two sizes, d = 16, a short budget")
    parser.add_argument("--full", action="store_true", help="every combination of the lists below")
    parser.add_argument("--sizes", type=_words, help="13k,245k,2.5M (default: these), 10M")
    parser.add_argument("--dims", type=_numbers, help="dimensions of a head (default: 8,16,64)")
    parser.add_argument("--heads", type=_numbers, help="numbers of heads (default: 1, and 4 at d = 16)")
    parser.add_argument("--threads", type=_numbers, help="numbers of threads (default: 1, and 2 at d = 16)")
    parser.add_argument("--kinds", type=_words, help="symmetric,directed,block (default: all; block at d = 16)")
    parser.add_argument(
        "--contestants", type=_words, help="parts of names, such as dgl,pyg,geoopt,fused,torch (default: all)"
    )
    for part, text in PARTS.items():
        parser.add_argument(f"--{part}", action="store_true", help=text)
    parser.add_argument(
        "--scale", action="store_true", help="an epoch from 10⁴ to 10⁷ edges, and nothing else: half an hour, 8 GB"
    )
    parser.add_argument("--most-edges", type=number, metavar="N", help="of --scale (default: 1e7)")
    parser.add_argument(
        "--hgcn-code", type=Path, metavar="FOLDER", help="a clone of HGCN's official code, which is run"
    )
    parser.add_argument("--everything", action="store_true", help="layers, first calls and all of these parts")
    parser.add_argument("--without", type=_words, default=[], help="parts that --everything leaves out, by name")
    parser.add_argument("--seconds", type=duration, help="time a case may take, about (default: 8; --quick: 3)")
    parser.add_argument(
        "--clock",
        choices=("wall", "cpu"),
        default="wall",
        help="cpu: processor time, which other programs on a busy machine do not lengthen; for one thread only",
    )
    parser.add_argument("--no-first-call", action="store_true", help="leave out the cost of a process's first call")
    parser.add_argument("--json", action="store_true", help="JSON on stdout, and nothing else there")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="also write the report as a page, with targets")


def run(args: argparse.Namespace) -> int:
    """Run ``hgeo bench`` and return its exit code: 0, or 2 for a wrong request."""
    from hgeo.bench import PARTS, choose, counterparts_page, first_calls, machine, measure, measure_part, page

    if args.scale:
        return _scale(args)
    asked = [part for part in PARTS if part not in args.without and (args.everything or getattr(args, part))]
    layers = args.everything or not asked
    try:
        cases = _cases(args) if layers else []
        names, absent = choose(args.contestants)
        for part in args.without:
            if part not in PARTS:
                raise ValueError(f"--without: {part!r} is none of {', '.join(PARTS)}")
        if args.hgcn and args.hgcn_code is None:
            raise ValueError("--hgcn measures HGCN's official code; say where that is: --hgcn-code FOLDER")
    except ValueError as error:
        complain("bench", error)
        return 2
    out = sys.stderr if args.json else sys.stdout
    report: dict[str, Any] = {"machine": machine(), "clock": args.clock, "absent": absent, "cases": []}
    _print_head(report, out)
    seconds = args.seconds if args.seconds is not None else (3.0 if args.quick else 8.0)
    for case in _progress(cases):
        report["cases"].append(measure(case, names, seconds=seconds, clock=args.clock))
        _print_case(report["cases"][-1], out)
    if layers and not args.no_first_call:
        report["first_call"] = first_calls(names)
        _print_first_calls(report["first_call"], out)
    for part in asked:
        try:
            found = measure_part(part, clock=args.clock, seconds=seconds, hgcn_code=args.hgcn_code)
        except ValueError as error:
            complain("bench", error)
            return 2
        if found is not None:
            report[part] = found
            print(f"\n{PARTS[part]}", file=out)
            _print_part(part, found, out)
    if args.json:
        json.dump(report, sys.stdout, indent=2)
        print()
    if args.markdown is not None:
        whole = counterparts_page if asked == ["counterparts"] else page
        write_atomically(args.markdown, whole(report, f"hgeo {shlex.join(sys.argv[1:])}"))
    return 0


def _scale(args: argparse.Namespace) -> int:
    from hgeo.bench import SCALE_SIZES, machine, row_text, scale, scale_page

    sizes = tuple(size for size in SCALE_SIZES if size <= (args.most_edges or SCALE_SIZES[-1]))
    if not sizes:
        print(f"hgeo bench: --most-edges {args.most_edges:g} leaves none of {SCALE_SIZES}", file=sys.stderr)
        return 2
    out = sys.stderr if args.json else sys.stdout
    found = scale(sizes, lambda row: print(row_text(row), file=out, flush=True))
    if args.json:
        json.dump(found, sys.stdout, indent=2)
        print()
    if args.markdown is not None:
        write_atomically(args.markdown, scale_page(found, machine(), f"hgeo {shlex.join(sys.argv[1:])}"))
    return 0


def _cases(args: argparse.Namespace) -> list[Case]:
    from hgeo.bench import plan

    return plan(
        sizes=args.sizes,
        kinds=args.kinds,
        dims=args.dims,
        heads=args.heads,
        threads=args.threads,
        quick=args.quick,
        full=args.full,
        clock=args.clock,
    )


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _numbers(text: str) -> list[int]:
    try:
        values = [int(word) for word in _words(text)]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of whole numbers such as 8,16") from None
    if not values or min(values) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} must list numbers of at least 1")
    return values


def _progress(cases: list[Case]) -> Any:
    from tqdm import tqdm

    return tqdm(cases, unit="case", file=sys.stderr, disable=not sys.stderr.isatty(), leave=False)


def _print_head(report: dict[str, Any], file: TextIO) -> None:
    machine = report["machine"]
    print(f"{machine['processor']}, {machine['cores']} cores", file=file)
    print(", ".join(f"{name} {version}" for name, version in machine["versions"].items()), file=file)
    for name, reason in report["absent"].items():
        print(f"without {name}: {reason}", file=file)


def _ratio(value: float | None, width: int = 6) -> str:
    return f"{'–' if value is None else f'{value:.2f}':>{width}}"


def _print_case(result: dict[str, Any], file: TextIO) -> None:
    print(f"\n{result['title']}", file=file)
    head = f"{'':<18}{'ratio':>6}  {'(quartiles)':<13}{'fwd':>6}{'bwd':>6}{'memory':>8}"
    print(f"{head}{'fwd ms':>10}{'bwd ms':>10}{'MB':>8}", file=file)
    for name, row in result["contestants"].items():
        low, high = row["ratio_low"], row["ratio_high"]
        spread = "" if low is None else f"({low:.2f}–{high:.2f})"
        extra = row["peak_extra_bytes"]
        megabytes = "–" if extra is None else f"{extra / 2**20:.1f}"
        print(
            f"{name:<18}{_ratio(row['ratio'])}  {spread:<13}{_ratio(row['ratio_forward'])}"
            f"{_ratio(row['ratio_backward'])}{_ratio(row['ratio_memory'], 8)}"
            f"{1e3 * row['forward']:>10.2f}{1e3 * row['backward']:>10.2f}{megabytes:>8}",
            file=file,
        )
    for name in result["too_large"]:
        print(f"{name:<18}left out: its tensors of size edges × d would take gigabytes", file=file)


def _print_first_calls(seconds: dict[str, float], file: TextIO) -> None:
    print("\nfirst layer and step of a new process, imports not counted", file=file)
    for name, value in seconds.items():
        print(f"{name:<36}{value:>7.2f} s", file=file)


def _print_part(part: str, result: Any, file: TextIO) -> None:
    if isinstance(result, dict) and result.get("note"):
        print(result["note"], file=file)
    if part == "speedup":
        for row in result:
            print(f"{row['size']} edges, d = {row['dim']:<4}{row['speedup']:>6.2f} times as fast", file=file)
    elif part in ("spaces", "convolutions"):
        for case in result:
            print(f"{case['size']} edges, d = {case['dim']}", file=file)
            for name, row in case["layers"].items():
                milliseconds = 1e3 * (row["forward"] + row["backward"])
                print(f"  {name:<34}{row['ratio']:>6.2f}{milliseconds:>10.2f} ms", file=file)
    elif part == "growth":
        for name, row in result.items():
            costs = ", ".join(f"{1e9 * cost:.0f} ns at {int(edges):,}" for edges, cost in row.items())
            print(f"{name}, an edge: {costs}", file=file)
    elif part == "hgcn":
        for row in result:
            times = f"{1e3 * row['hgeo']:>8.1f} ms{1e3 * row['official']:>8.1f} ms{row['ratio']:>7.2f}"
            print(f"{row['space']}, {row['features']:<20}{times}", file=file)
    elif part == "train":
        for name, row in result["steps"].items():
            others = "".join(f"{ratio:>7.2f} × {other}" for other, ratio in row["over_gats"].items())
            print(f"{name:<30}{1e3 * row['seconds']:>8.1f} ms{others}", file=file)
        stop = result["early_stop"]
        print(
            f"until it stops: {stop['cpu_seconds']:.1f} s of processor time, {stop['epochs']} epochs, "
            f"test accuracy {stop['test_accuracy']:.3f}",
            file=file,
        )
    elif part == "mobius":
        print(f"{result['seconds']:.3f} s; {result['largest_degree']} steps a sum", file=file)
    elif part == "optim":
        print(
            f"hgeo {result['hgeo']:.3f} ms, torch {result['torch']:.3f} ms, geoopt {result['geoopt']:.3f} ms", file=file
        )
        print(f"hgeo / torch {result['ratio']:.2f}", file=file)
    elif part == "geometry":
        _print_geometry(result, file)
    elif part == "counterparts":
        for group in result:
            print(f"\n{group['title'] + ', to ' + group['baseline']:<60}{'ratio':>8}{'ms':>10}", file=file)
            for name, row in group["rows"].items():
                print(
                    f"{name:<60}{_ratio(row['ratio'], 8)}{1e3 * (row['forward'] + row['backward']):>10.2f}", file=file
                )
    elif "peak_bytes" in result:
        print(
            f"{result['edges']:,} edges: {result['peak_bytes'] / 2**30:.2f} GB at most, "
            f"a step {result['step_seconds']:.1f} s",
            file=file,
        )


def _print_geometry(result: dict[str, Any], file: TextIO) -> None:
    head = f"{'µs':>12}{'geoopt':>10}{'ratio':>8}{'forward':>9}{'memory':>8}"
    for case in result["cases"]:
        print(f"\n{case['title']:<26}{head}", file=file)
        for name, row in case["costs"].items():
            print(f"{name:<26}{_cost(row)}{_ratio(row['ratio_forward'], 9)}{_ratio(row['ratio_memory'], 8)}", file=file)
    print(f"\n{'a step, 100000 × 16':<26}{head[:30]}", file=file)
    for name, row in result["steps"].items():
        print(f"{name:<26}{_cost(row)}", file=file)


def _cost(row: dict[str, Any]) -> str:
    return f"{row['hgeo']:>12.0f}{row['geoopt']:>10.0f}{_ratio(row['ratio'], 8)}"
