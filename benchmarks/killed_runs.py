"""What becomes of a run that is killed: `kill -9` at a random moment, resumed, over every task.

Each case calls a command in a forked process, kills it at a random moment of the time that it takes (while it
loads, trains, writes a checkpoint, draws, …), and calls it again with ``--resume`` until it ends, or anew if nothing
was begun.
It is equal if the weights are those of a run that nobody killed, to the last bit, and the metrics have every
epoch once.

    python benchmarks/killed_runs.py --moments 100 --markdown docs/results/killed-runs.md
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import hgeo.train._fit
import hgeo.train._hierarchy
from hgeo.cli import main as hgeo_command
from hgeo.data import random_taxonomy
from hgeo.train import RunFolder, load_vectors

_EPOCHS = 30
_PAUSE = 0.02  # seconds behind each checkpoint, of which there is one an epoch


@dataclass(frozen=True)
class Case:
    """A command without its folder; whether it is ``hgeo embed``."""

    name: str
    words: tuple[str, ...]

    @property
    def embeds(self) -> bool:
        return self.words[0] == "embed"

    def command(self, out: Path, *, resume: bool) -> list[str]:
        words = [*self.words] if self.embeds or not resume else ["train"]
        return [*words, *(["--resume"] if resume else []), "--out", str(out)]

    def begun(self, out: Path) -> bool:
        return (out / ("study.json" if self.embeds else "session.json")).is_file()


def cases(taxonomy: Path) -> list[Case]:
    """Every task, several models and seeds, a learned curvature with pictures, and a taxonomy."""
    epochs = ("--epochs", str(_EPOCHS))
    karate = ("train", "--dataset", "karate", *epochs)
    quick = (*karate, "--no-pictures")
    return [
        Case("nodes", (*quick, "--model", "hat")),
        Case("nodes, learned curvature, pictures", (*karate, "--space", "ball:2,c=learn")),
        Case("two models, two seeds", (*quick, "--model", "mlp,gcn", "--seeds", "2")),
        Case("links", (*quick, "--task", "links", "--model", "hat", "--set", "min_epochs=0")),
        Case("distances", (*quick, "--task", "distances", "--model", "gcn")),
        Case("taxonomy", ("embed", str(taxonomy), "--closure", "--space", "ball:2", *epochs, "--no-pictures")),
    ]


def results(case: Case, out: Path) -> dict[str, object]:
    """Weights or points of every run inside, and the epochs of its metrics."""
    found: dict[str, object] = {}
    for file in sorted(out.rglob("metrics.jsonl")):
        name = str(file.parent.relative_to(out))
        found[f"{name} epochs"] = [json.loads(line)["epoch"] for line in file.read_text().splitlines()]
        folder = file.parent
        found[name] = load_vectors(folder / "vectors.npz").points if case.embeds else RunFolder(folder).weights()
    return found


def same(one: object, other: object) -> bool:
    """Equal to the last bit."""
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return one == other


def killed(case: Case, out: Path, seconds: float, chance: random.Random, kills: int) -> str:
    """Kills the command ``kills`` times, lets it end, and says where the kills fell or what went wrong."""
    fell = []
    for _ in range(kills):
        child = start(_next(case, out))
        time.sleep(chance.uniform(0.0, 1.0) * seconds)
        os.kill(child, signal.SIGKILL)
        fell.append(_where(out) if os.WIFSIGNALED(os.waitpid(child, 0)[1]) else "after its end")
    status = os.waitpid(start(_next(case, out)), 0)[1]
    return ", ".join(fell) if status == 0 else f"wrong: status {status}"


def start(words: Sequence[str]) -> int:
    """The number of a forked process that carries out a command, with a checkpoint after each epoch."""
    child = os.fork()
    if child:
        return child
    code = 70
    try:
        hgeo.train._fit._CHECKPOINT_SECONDS = hgeo.train._hierarchy._CHECKPOINT_SECONDS = -1.0
        write = RunFolder.write_checkpoint

        def slowly(self: RunFolder, state: dict[str, Any]) -> None:
            write(self, state)
            time.sleep(_PAUSE)

        RunFolder.write_checkpoint = slowly  # type: ignore[method-assign]
        with open(os.devnull, "w") as nobody, contextlib.redirect_stdout(nobody):
            code = hgeo_command(words)
    finally:
        os._exit(code)


def _next(case: Case, out: Path) -> Sequence[str]:
    return case.command(out, resume=case.begun(out))


def _where(out: Path) -> str:
    """How far a run was when it was killed."""
    if not out.is_dir():
        return "before its folder"
    if any(path.name.startswith(".") and path.name != ".lock" for path in out.rglob("*")):
        return "in a write"
    if (out / "summary.json").is_file():
        return "after its summary"
    if not any(out.rglob("metrics.jsonl")):
        return "before its first epoch"
    return "in training"


def main() -> int:
    """Kill at random moments, resume, compare, and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--moments", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--markdown", type=Path, help="also write a page")
    args = parser.parse_args()
    torch.set_num_threads(1)
    wrong, places = [], collections.Counter[str]()
    with tempfile.TemporaryDirectory() as scratch:
        taxonomy = Path(scratch) / "taxonomy.tsv"
        tree = random_taxonomy(30)
        pairs = (f"{tree.names[child]}\t{tree.names[parent]}\n" for child, parent in tree.index.tolist())
        taxonomy.write_text("".join(pairs))
        tried = cases(taxonomy)
        wholes, times = {}, {}
        equal: dict[str, list[bool]] = {case.name: [] for case in tried}
        for case in tried:
            whole, began = Path(scratch) / f"whole {case.name}", time.monotonic()
            if os.waitpid(start(case.command(whole, resume=False)), 0)[1]:
                raise SystemExit(f"{case.name} does not end even where nobody kills it")
            wholes[case.name], times[case.name] = results(case, whole), time.monotonic() - began
        moment, number = 0, 0
        while moment < args.moments:
            case, chance = tried[number % len(tried)], random.Random(f"{args.seed}-{number}")
            kills = min(1 + number % 3 // 2, args.moments - moment)  # every third is killed twice
            out = Path(scratch) / f"run {number}"
            found = killed(case, out, times[case.name], chance, kills)
            right = not found.startswith("wrong") and same(results(case, out), wholes[case.name])
            equal[case.name].append(right)
            places.update(found.split(", ") if right else [])
            if not right:
                wrong.append(f"run {number}, {case.name}: {found}")
                print(wrong[-1], file=sys.stderr)
            moment, number = moment + kills, number + 1
    page = _page(equal, places, wrong, args)
    print(page)
    if args.markdown:
        args.markdown.write_text(page)
    return 1 if wrong else 0


def _page(equal: dict[str, list[bool]], places: dict[str, int], wrong: list[str], args: argparse.Namespace) -> str:
    runs = sum(map(len, equal.values()))
    lines = [
        "# Killed runs",
        "",
        f"`python benchmarks/killed_runs.py --moments {args.moments} --seed {args.seed}`",
        "",
        f"`kill -9` at {args.moments} random moments of {runs} runs, some killed twice; then `--resume` (or the",
        "same command, where nothing was begun). *Equal*: the weights are those of a run that nobody killed, to the",
        "last bit, and the metrics have every epoch once.",
        "",
        "| run | runs | equal |",
        "|---|---|---|",
        *(f"| {name} | {len(found)} | {sum(found)} |" for name, found in equal.items()),
        f"| **all** | {runs} | {sum(map(sum, equal.values()))} |",
        "",
        "Where the kills fell: " + ", ".join(f"{place} {count}" for place, count in sorted(places.items())) + ".",
        "",
    ]
    return "\n".join([*lines, *(f"- {line}" for line in wrong)]).rstrip() + "\n"


if __name__ == "__main__":
    sys.exit(main())
