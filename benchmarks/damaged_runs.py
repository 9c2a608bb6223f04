"""What becomes of a run folder that is damaged: a refusal in a sentence, or the run as it would have been.

Each case copies the folder of a run (finished, or killed between two epochs), damages one of its files, and opens it
with a command in a process of its own. It is right if the command says in a line or two why it refuses, or ends with
the weights that the run has without the damage; a traceback, a crash, a hang or other weights are wrong.

    python benchmarks/damaged_runs.py --cases 600 --markdown docs/results/damaged-runs.md
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import io
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import hgeo.train._fit
import hgeo.train._hierarchy
from hgeo.cli import main as hgeo_command
from hgeo.data import random_taxonomy, read_pairs
from hgeo.train import Job, RunFolder, Session, TaxonomyStudy, load_vectors

_SECONDS = 120  # a case that takes longer hangs
_EPOCHS = 6
_STRANGE = (None, [], {}, "", "x", -1, 0, 1e308, 2**70, True, [[[]]], {"a": 1}, "9" * 400, -0.5, ["x"])

#: the trainings, by what they are called: model, and what else a job is told
JOBS: dict[str, dict[str, Any]] = {
    "nodes": {"model": "hat"},
    "nodes, learned curvature": {"model": "hat", "space": "ball:2,c=learn"},
    "links": {"model": "gcn", "task": "links"},
    "distances": {"model": "mlp", "task": "distances"},
}


@dataclass(frozen=True)
class Base:
    """A folder to damage, the commands that open it (``{}`` stands for it), and whether its results are right."""

    name: str
    folder: Path
    commands: tuple[tuple[str, ...], ...]
    right: Callable[[Path], bool]


def make_bases(place: Path) -> list[Base]:
    """Every task, killed and finished, two models in a session, and a taxonomy."""
    found = []
    for name, more in JOBS.items():
        found += _trained(place / name, name, [_job(**more)])
    found += _trained(place / "two models", "two models", [_job(model="mlp"), _job(model="gcn")])
    return found + _embedded(place / "taxonomy")


def _job(**more: Any) -> Job:
    return Job(**{"dataset": "karate", "space": "ball:2", "options": {"epochs": _EPOCHS}, **more})


def _trained(place: Path, name: str, jobs: list[Job]) -> list[Base]:
    """The folder as a kill in the middle of the last job leaves it, and the finished one."""
    killed, finished = place / "killed", place / "finished"
    session = Session(jobs, finished, threads=1, pictures=False)
    with _checkpoints_of_every_epoch():
        session.write()
        for job in jobs:

            def stop(row: dict[str, Any], last: bool = job is jobs[-1]) -> None:
                if last and row["epoch"] == _EPOCHS // 2:
                    shutil.copytree(finished, killed)

            job.run(job.load(), session.folder(job), on_epoch=stop)
    places = [session.folder(job).path.relative_to(finished) for job in jobs]

    def right(folder: Path) -> bool:
        return all(_same(RunFolder(folder / part).weights(), RunFolder(finished / part).weights()) for part in places)

    resume = ("train", "--resume", "--no-pictures", "--out", "{}")
    plot = ("plot", "{}") if len(jobs) == 1 else ("plot", f"{{}}/{places[0]}")
    return [
        Base(f"{name}, killed", killed, (resume,), right),
        Base(f"{name}, finished", finished, (resume, plot), right),
    ]


def _embedded(place: Path) -> list[Base]:
    killed, finished = place / "killed", place / "finished"
    place.mkdir()
    taxonomy = place / "taxonomy.tsv"
    tree = random_taxonomy(30)
    taxonomy.write_text(
        "".join(f"{tree.names[child]}\t{tree.names[parent]}\n" for child, parent in tree.index.tolist())
    )

    def stop(_: str, row: dict[str, Any]) -> None:
        if row["epoch"] == _EPOCHS // 2:
            shutil.copytree(finished, killed)

    study = TaxonomyStudy(read_pairs(taxonomy, closure=True), finished, "ball:2", given={"epochs": _EPOCHS})
    with _checkpoints_of_every_epoch():
        study.begin(resume=False)
        study.run(stop)
    study.first().save(finished / "vectors.npz")
    whole = study.first().points

    def right(folder: Path) -> bool:
        return torch.equal(load_vectors(folder / "vectors.npz").points, whole)

    words = ("embed", str(taxonomy), "--closure", "--space", "ball:2", "--alone", "--epochs", str(_EPOCHS))
    resume = (*words, "--no-pictures", "--resume", "--out", "{}")
    ask = ("embed", "{}/vectors.npz", "--nearest", "root")
    return [
        Base("taxonomy, killed", killed, (resume,), right),
        Base("taxonomy, finished", finished, (resume, ask), right),
    ]


@contextlib.contextmanager
def _checkpoints_of_every_epoch() -> Any:
    usual = [module._CHECKPOINT_SECONDS for module in (hgeo.train._fit, hgeo.train._hierarchy)]
    hgeo.train._fit._CHECKPOINT_SECONDS = hgeo.train._hierarchy._CHECKPOINT_SECONDS = -1.0
    try:
        yield
    finally:
        hgeo.train._fit._CHECKPOINT_SECONDS, hgeo.train._hierarchy._CHECKPOINT_SECONDS = usual


def _same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def damage(folder: Path, chance: random.Random) -> str:
    """Damages one file of a folder, and says how."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    file = chance.choice(files)
    ways = [_cut, _flip, _flip, _flip, _zeros, _more, _noise, _swap, _gone, _folder]
    if file.suffix in (".json", ".jsonl"):
        ways += [_strange_value] * 8
    way = chance.choice(ways)
    how = way(file, chance)
    return f"{file.relative_to(folder)}: {how}"


def _cut(file: Path, chance: random.Random) -> str:
    size = chance.randrange(file.stat().st_size)
    os.truncate(file, size)
    return f"cut to {size} bytes"


def _flip(file: Path, chance: random.Random) -> str:
    content = bytearray(file.read_bytes())
    place, bit = chance.randrange(len(content)), chance.randrange(8)
    content[place] ^= 1 << bit
    file.write_bytes(content)
    return f"bit {bit} of byte {place} flipped"


def _zeros(file: Path, chance: random.Random) -> str:
    content = bytearray(file.read_bytes())
    place = chance.randrange(len(content))
    content[place : place + 64] = bytes(len(content[place : place + 64]))
    file.write_bytes(content)
    return f"zeros from byte {place} on"


def _more(file: Path, chance: random.Random) -> str:
    with open(file, "ab") as end:
        end.write(chance.randbytes(40))
    return "40 bytes more"


def _noise(file: Path, chance: random.Random) -> str:
    file.write_bytes(chance.randbytes(chance.choice((0, 1, 8, 300))))
    return "noise"


def _swap(file: Path, chance: random.Random) -> str:
    others = sorted(path for path in file.parent.iterdir() if path.is_file() and path != file)
    if not others:
        return _noise(file, chance)
    other = chance.choice(others)
    file.write_bytes(other.read_bytes())
    return f"another's content: {other.name}"


def _gone(file: Path, chance: random.Random) -> str:
    file.unlink()
    return "gone"


def _folder(file: Path, chance: random.Random) -> str:
    file.unlink()
    file.mkdir()
    return "a folder"


def _strange_value(file: Path, chance: random.Random) -> str:
    lines = file.read_text().splitlines() if file.suffix == ".jsonl" else [file.read_text()]
    number = chance.randrange(len(lines))
    value = json.loads(lines[number])
    places = list(_places(value))
    inner, key = chance.choice(places)
    if chance.random() < 0.2:
        del inner[key]
        how = f"{key} taken out"
    else:
        inner[key] = chance.choice(_STRANGE)
        how = f"{key} = {str(inner[key])[:30]!r}"
    lines[number] = json.dumps(value)
    if chance.random() < 0.05:
        lines[number], how = "[" * 100_000, "brackets without end"
    file.write_text("\n".join(lines) + "\n")
    return how


def _places(value: Any) -> Any:
    for key, inner in list(value.items() if isinstance(value, dict) else enumerate(value)):
        yield value, key
        if isinstance(inner, dict | list):
            yield from _places(inner)


def whole(base: Base, place: Path) -> bool:
    """Whether every command ends right where nothing is damaged."""
    for command in base.commands:
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(base.folder, place)
        if _opened(base, command, place) != "right":
            return False
    return True


def once(base: Base, place: Path, chance: random.Random) -> tuple[str, str]:
    """One case: what came of it (refused, right, or wrong and why), and what was done."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(base.folder, place)
    how = damage(place, chance)
    command = chance.choice(base.commands)
    done = f"{base.name}; {how}; hgeo {command[0]}{' --resume' if '--resume' in command else ''}"
    return _opened(base, command, place), done


def _opened(base: Base, command: Sequence[str], place: Path) -> str:
    words = [word.format(place) for word in command]
    return _in_a_process(lambda: _judged(base, words, place))


def _judged(base: Base, words: list[str], place: Path) -> str:
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            code = hgeo_command(words)
            same = code == 0 and (words[0] == "plot" or base.right(place))
    except BaseException:
        return f"wrong: {traceback.format_exc(limit=-3)}"
    text = said.getvalue()
    if code == 0:
        return "right" if same else "wrong: other weights"
    lines = text.strip().splitlines()
    fair = code in (1, 2) and 1 <= len(lines) <= 3 and all(line.startswith(("hgeo", " ")) for line in lines)
    return "refused" if fair else f"wrong: exit code {code}, {text[-300:]!r}"


def _in_a_process(judge: Callable[[], str]) -> str:
    """The answer of a child process, which may crash or hang."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(_SECONDS)
            os.write(writing, judge().encode()[:60_000])
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read().decode(errors="replace")
    _, status = os.waitpid(child, 0)
    return answer or f"wrong: the process ended by signal {os.WTERMSIG(status)}"


def main() -> int:
    """Try many damages, and print what came of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--markdown", type=Path, help="also write a page")
    args = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        bases = make_bases(Path(scratch))
        broken = [base.name for base in bases if not whole(base, Path(scratch) / "case")]
        if broken:
            raise SystemExit(f"these do not end right even without a damage: {', '.join(broken)}")
        count: dict[str, collections.Counter[str]] = {base.name: collections.Counter() for base in bases}
        wrong = []
        for number in range(args.cases):
            base = bases[number % len(bases)]
            outcome, done = once(base, Path(scratch) / "case", random.Random(f"{args.seed}-{number}"))
            count[base.name][outcome.partition(":")[0]] += 1
            if outcome.startswith("wrong"):
                wrong.append((number, done, outcome))
                print(f"case {number}: {done}\n  {outcome}", file=sys.stderr)
    page = _page(count, wrong, args)
    print(page)
    if args.markdown:
        args.markdown.write_text(page)
    return 1 if wrong else 0


def _page(count: dict[str, Any], wrong: list[tuple[int, str, str]], args: argparse.Namespace) -> str:
    total = sum((counts for counts in count.values()), collections.Counter[str]())
    lines = [
        "# Damaged run folders",
        "",
        f"`python benchmarks/damaged_runs.py --cases {args.cases} --seed {args.seed}`",
        "",
        "Each case damages one file of a run folder (a bit, a cut, zeros, noise, another file's content, a strange",
        "value in JSON, a file that is gone or a folder) and opens it. *Refused*: a line or two say why. *Right*: it",
        "ends with the weights that it has without the damage. *Wrong*: a traceback, a crash, a hang, other weights.",
        "",
        "| run | refused | right | wrong |",
        "|---|---|---|---|",
        *(f"| {name} | {c['refused']} | {c['right']} | {c['wrong']} |" for name, c in count.items()),
        f"| **all** | {total['refused']} | {total['right']} | {total['wrong']} |",
        "",
    ]
    return "\n".join([*lines, *(f"- case {number}: {done}" for number, done, _ in wrong)]).rstrip() + "\n"


if __name__ == "__main__":
    sys.exit(main())
