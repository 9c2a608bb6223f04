"""``hgeo bench``."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from hgeo.cli._contestants import Case

__all__ = ["add_arguments", "run"]

_EPILOG = """\
What is measured: one graph attention layer, projection included, on a random graph with heavy-tailed degrees; the
forward pass, the backward pass (gradients of features and weights), and how far both raise the memory of the process.
The contestants take turns, one step each a round, and a ratio is the median over rounds of (contestant / DGL GATConv)
in the same round, so that a busy machine disturbs both sides alike. Ratios below 1 are faster than DGL. The numbers in
brackets are quartiles. Other parts (--train, --mobius, --optim, --large, --speedup) are measured instead, if asked for.

examples:
  hgeo bench --quick                                   a minute: two sizes, d = 16
  hgeo bench                                           all layers, some minutes
  hgeo bench --sizes 245k --dims 64 --kinds directed   one case
  hgeo bench --train                                   a training step, and a whole training, on Cora
  hgeo bench --everything --markdown docs/results/speed.md
  hgeo bench --full --json > speed.json                every combination, for a program to read
"""
_KINDS = ("symmetric", "directed", "block")
# What is measured beside layers: option, and what it says.
_PARTS = {
    "train": "a training step of HAT and GATs on Cora, and a whole training until it stops",
    "mobius": "a training step with the exact sequential Möbius sum, on Cora",
    "optim": "an Adam step on plain weights beside torch's and geoopt's",
    "large": "peak memory of a training step on ten million edges, d = 64",
    "speedup": "two threads against one, from 245k edges on",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``hgeo bench``."""
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
    for part, text in _PARTS.items():
        parser.add_argument(f"--{part}", action="store_true", help=text)
    parser.add_argument("--everything", action="store_true", help="layers, first calls and all of these parts")
    parser.add_argument("--seconds", type=float, help="time a case may take, about (default: 8; --quick: 3)")
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
    asked = [part for part in _PARTS if args.everything or getattr(args, part)]
    layers = args.everything or not asked
    try:
        cases = _plan(args) if layers else []
        names, absent = _chosen(args.contestants)
        if args.clock == "cpu" and args.speedup:
            raise ValueError("processor time says nothing about threads; --speedup needs the wall clock")
    except ValueError as error:
        print(f"hgeo bench: {error}", file=sys.stderr)
        return 2
    out = sys.stderr if args.json else sys.stdout
    report: dict[str, Any] = {"machine": _machine(), "clock": args.clock, "absent": absent, "cases": []}
    _print_head(report, out)
    seconds = args.seconds if args.seconds is not None else (3.0 if args.quick else 8.0)
    for case in _progress(cases):
        report["cases"].append(_measure(case, names, seconds, args.clock))
        _print_case(report["cases"][-1], out)
    if layers and not args.no_first_call:
        report["first_call"] = _parts().first_calls(names)
        _print_first_calls(report["first_call"], out)
    for part in asked:
        _measure_part(part, args.clock, seconds, report)
        _print_part(part, report, out)
    if args.json:
        json.dump(report, sys.stdout, indent=2)
        print()
    if args.markdown is not None:
        from hgeo.cli._speed_page import page

        args.markdown.parent.mkdir(parents=True, exist_ok=True)
        args.markdown.write_text(page(report, f"hgeo {shlex.join(sys.argv[1:])}"), encoding="utf-8")
    return 0


# --- what to measure --------------------------------------------------------------------------------------------------


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


def _plan(args: argparse.Namespace) -> list[Case]:
    """The cases asked for. Left alone, a list varies only in the middle of the others, at d = 16 and one thread."""
    from hgeo.cli._contestants import SIZES, Case

    sizes = args.sizes or (["13k", "245k"] if args.quick else ["13k", "245k", "2.5M"])
    dims = args.dims or ([16] if args.quick else [8, 16, 64])
    kinds = args.kinds or (["symmetric", "directed"] if args.quick else list(_KINDS))
    for word, known in [(s, tuple(SIZES)) for s in sizes] + [(k, _KINDS) for k in kinds]:
        if word not in known:
            raise ValueError(f"{word!r} is none of {', '.join(known)}")
    heads = args.heads or ([1] if args.quick else [1, 4])
    threads = args.threads or ([1] if args.quick or args.clock == "cpu" else [1, 2])
    cases = []
    for size in sizes:
        for kind in kinds:
            for dim in dims:
                for head in heads:
                    for thread in threads:
                        unasked = (
                            (args.heads is None and head != 1)
                            + (args.threads is None and thread != 1)
                            + (args.kinds is None and kind == "block")
                            + (args.dims is None and dim != 16)
                        )
                        if args.full or unasked <= 1:
                            cases.append(Case(size, kind, dim, head, thread))
    if args.clock == "cpu" and any(case.threads > 1 for case in cases):
        raise ValueError("processor time says nothing about threads; with --clock cpu use --threads 1")
    return cases


def _chosen(parts: Sequence[str] | None) -> tuple[list[str], dict[str, str]]:
    """The contestants asked for that can run, and why the others of them cannot."""
    from hgeo.cli._contestants import available

    reasons = available()
    for part in parts or ():
        if not any(part.lower() in name.lower() for name in reasons):
            raise ValueError(f"no contestant's name contains {part!r}; there are {', '.join(reasons)}")
    wanted = {n: r for n, r in reasons.items() if not parts or any(part.lower() in n.lower() for part in parts)}
    return [name for name, reason in wanted.items() if reason is None], {n: r for n, r in wanted.items() if r}


def _machine() -> dict[str, Any]:
    import importlib.metadata

    import torch

    from hgeo import __version__

    versions = {"hgeo": __version__, "torch": torch.__version__, "python": platform.python_version()}
    for package in ("dgl", "torch-geometric", "geoopt", "numba"):
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {"processor": _processor(), "cores": os.cpu_count(), "versions": versions}


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _progress(cases: list[Case]) -> Any:
    from tqdm import tqdm

    return tqdm(cases, unit="case", file=sys.stderr, disable=not sys.stderr.isatty(), leave=False)


# --- measuring --------------------------------------------------------------------------------------------------------


def _measure(case: Case, names: list[str], seconds: float, clock: str) -> dict[str, Any]:
    import torch

    from hgeo.cli._contestants import BASELINE, make, too_large
    from hgeo.cli._measure import interleaved, peak_extra_bytes

    set_threads = _parts().set_threads
    before = torch.get_num_threads()
    set_threads(case.threads)
    try:
        contestants = {name: make(name, case) for name in names if not too_large(name, case)}
        timings = interleaved(contestants, baseline=BASELINE, seconds=seconds, clock=clock)
        memory = {name: peak_extra_bytes(prepare) for name, prepare in contestants.items()}
    finally:
        set_threads(before)
    base = memory.get(BASELINE)
    results = {}
    for name, timing in timings.items():
        extra = memory[name]
        ratio = extra / base if extra is not None and base else None
        results[name] = asdict(timing) | {"peak_extra_bytes": extra, "ratio_memory": ratio}
    return {
        "case": asdict(case),
        "title": str(case),
        "contestants": results,
        "too_large": [name for name in names if too_large(name, case)],
    }


def _parts() -> Any:
    from hgeo.cli import _parts

    return _parts


def _measure_part(part: str, clock: str, seconds: float, report: dict[str, Any]) -> None:
    parts = _parts()
    if part == "speedup":
        if clock == "wall":  # what processor time says nothing about is left out of --everything
            report["speedup"] = [parts.speedup(size, dim, seconds) for size in ("245k", "2.5M") for dim in (16, 64)]
    elif part in ("train", "mobius"):
        report[part] = getattr(parts, part)(clock)
    else:
        report[part] = getattr(parts, part)()


# --- reporting --------------------------------------------------------------------------------------------------------


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


def _print_part(part: str, report: dict[str, Any], file: TextIO) -> None:
    result = report.get(part)
    if not result:
        return
    print(f"\n{_PARTS[part]}", file=file)
    if isinstance(result, dict) and result.get("note"):
        print(result["note"], file=file)
    if part == "speedup":
        for row in result:
            print(f"{row['size']} edges, d = {row['dim']:<4}{row['speedup']:>6.2f} times as fast", file=file)
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
    elif "peak_bytes" in result:
        print(
            f"{result['edges']:,} edges: {result['peak_bytes'] / 2**30:.2f} GB at most, "
            f"a step {result['step_seconds']:.1f} s",
            file=file,
        )
