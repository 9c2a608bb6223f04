"""``hgeo train``."""

from __future__ import annotations

import argparse
import collections
import contextlib
import itertools
import json
import math
import statistics
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hgeo.cli._arguments import (
    Parser,
    count,
    folder,
    not_negative,
    own_modules,
    positive,
    space_word,
    threads,
    word,
)
from hgeo.cli._spoken import complain, shown, spoken_warnings

if TYPE_CHECKING:
    from torch import Tensor

    from hgeo.data import Dataset
    from hgeo.models import ModelEntry
    from hgeo.tasks import Task
    from hgeo.train import Job, RunFolder, Session, Team

__all__ = ["add_arguments", "run"]

_EPILOG = """\
examples:
  hgeo train                                             HAT against GAT, two dimensions, built-in hierarchy
  hgeo train --dataset cora --model hat --space ball:16,c=1 --seeds 10 --out runs/x
  hgeo train --dataset mine.npz --model hat,gcn --space "ball:4 x sphere:2"
  hgeo train --out runs/x --resume                       go on where a run was interrupted
"""

_HGCN_SEED = 1234  # the seed of the splits that its papers report
_LONGEST_NAME = 120  # letters of a folder's; file systems have some 255 bytes
_WORTH_THREADS = 2_000_000  # edges and entries of the features; below it a step takes some milliseconds


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``hgeo train``."""
    from hgeo.models import find, names
    from hgeo.tasks import task_names

    parser.epilog = _EPILOG + _settings([find(name) for name in names()])
    parser.add_argument(
        "--dataset", type=word, help="a name that `hgeo data` lists, or an .npz file (default: hierarchy)"
    )
    parser.add_argument(
        "--model",
        type=word,
        help=f"one of {', '.join(names())}, or package.module:Class of your own (default: hat); several: hat,gat",
    )
    parser.add_argument(
        "--task", type=word, help=f"{', '.join(task_names())}, or package.module:Class of your own (default: nodes)"
    )
    parser.add_argument(
        "--split",
        type=word,
        help="nodes: official, clean, few (default: the data's own); links: clean (default), official as HGCN's code",
    )
    parser.add_argument(
        "--features",
        type=word,
        help="how features are prepared: auto (default), raw, standardised …, also with '+degrees' behind",
    )
    parser.add_argument(
        "--space", type=word, help="the hidden space, such as ball:16,c=1 (default: ball:16; hierarchy, karate: ball:2)"
    )
    parser.add_argument("--seeds", type=count, help="number of seeds (default: 1; bare `hgeo train`: 3)")
    parser.add_argument("--first-seed", type=not_negative, metavar="SEED", help="the first of them (default: 0)")
    parser.add_argument(
        "--split-seed",
        type=not_negative,
        metavar="SEED",
        help="of what is split at random (default: 0; of official splits 1234)",
    )
    parser.add_argument("--out", type=folder, help="run folder (default: a new one under runs/)")
    parser.add_argument("--resume", action="store_true", help="go on with the run in --out, with the options it had")
    parser.add_argument("--data-dir", type=word, help="folder of raw files (default: $HGEO_DATA, else DGL's own)")
    parser.add_argument(
        "--recipe",
        help="settings by a name, such as usual, walk, deep; default: a few compete on validation nodes for a short "
        "while, unless --set says something",
    )
    parser.add_argument("--epochs", type=positive, help="at most so many epochs")
    parser.add_argument("--patience", type=positive, help="stop after so many epochs without a better one")
    parser.add_argument("--lr", type=float, help="learning rate")
    parser.add_argument(
        "--batch-size", type=positive, metavar="N", help="examples of a step (default: all); all processes share them"
    )
    parser.add_argument(
        "--fanout", metavar="N,N", help="neighbours that a batch sees, a number a layer, such as 10,10 (default: all)"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of the model or of its training, listed below; may be given again",
    )
    parser.add_argument("--device", type=word, help="cpu or cuda (default: cpu)")
    parser.add_argument("--dtype", choices=("float32", "float64"), help="default: float32")
    parser.add_argument(
        "--threads",
        type=threads,
        help="threads of torch and of the kernels (default: 1 on small graphs, else torch's; kept by --resume)",
    )
    parser.add_argument(
        "--backend", type=word, help="who computes attention: auto (the default), fused, torch, dgl, reference …"
    )
    parser.add_argument(
        "--no-pictures", action="store_true", help="leave out embedding.* and curves.* (kept by --resume)"
    )
    parser.add_argument("--json", action="store_true", help="the result as JSON on stdout, and nothing else there")


def _settings(entries: Sequence[ModelEntry]) -> str:
    """What --set may change, of each model."""
    from hgeo.models import TrainSettings

    lines = ["", "settings (--set NAME=VALUE):"]
    groups = {"training": TrainSettings(), **{entry.name: entry.settings() for entry in entries}}
    fixed = {entry.name: entry.fixed for entry in entries}
    for name, values in groups.items():
        own = ", ".join(field for field in vars(values) if field not in fixed.get(name, ()))
        lines += textwrap.wrap(f"  {name:<14} {own}", 110, subsequent_indent=" " * 17)
    return "\n".join(lines)


def run(args: argparse.Namespace) -> int:
    """Run ``hgeo train`` and return its exit code.

    0; 1 if a run gave no model, because its loss was never finite, or if another process of it is lost; 2 for a wrong
    request; 130 after Ctrl-C. Of several processes, which torchrun starts, the first writes and prints.
    """
    from hgeo.train import TeamError, team

    who = "train"
    try:
        with team(args.device or "cpu") as together:
            who = who if together.is_first else f"train (process {together.rank})"
            return _run(args, together, who)
    except TeamError as error:
        complain(who, error)
        return 1


def _run(args: argparse.Namespace, together: Team, who: str) -> int:
    session = None
    try:
        session = _resumed(args) if args.resume else _planned(args)
        done = _train(session, together, resume=args.resume)
    except KeyboardInterrupt:
        begun = session is not None and (session.path / "session.json").is_file()
        how = f"go on with: hgeo train --resume --out {session.path}" if session and begun else "nothing was begun"
        if together.is_first:
            print(f"\nhgeo: interrupted; {how}", file=sys.stderr)
        return 130
    except (ValueError, OSError, ImportError) as error:
        complain(who, error)
        return 2
    if together.is_first:
        for failure in done.failures:
            complain("train", failure)
        if done.results:
            _report(session, done, as_json=args.json)
    return 1 if done.failures else 0


def _planned(args: argparse.Namespace) -> Session:
    from hgeo.models import find
    from hgeo.train import Job, Session

    dataset = args.dataset or "hierarchy"
    bare = args.dataset is None and args.model is None and args.space is None
    models = _own_words(args.model or "hat")
    (task,) = _own_words(args.task or "nodes") or [""]
    if bare:
        models.append("gat")
    if not models:
        raise ValueError(f"--model {args.model!r} names no model")
    dim = 2 if dataset in ("hierarchy", "karate") else 16
    entries = [find(model) for model in models]
    spaces = [entry.space_for(args.space, dim) for entry in entries]
    first, count = args.first_seed or 0, args.seeds or (3 if bare else 1)
    path = args.out or _fresh(Path("runs"), dataset, models, spaces[0])
    if (path / "session.json").exists():
        raise ValueError(f"{path} already holds a run; go on with it by --resume, or choose another --out")
    jobs = [
        Job(
            dataset=dataset,
            model=model,
            space=space,
            task=task,
            split=args.split,
            features=args.features or "auto",
            seed=seed,
            split_seed=_HGCN_SEED if args.split == "official" and args.split_seed is None else args.split_seed or 0,
            data_dir=args.data_dir,
            device=args.device or "cpu",
            dtype=args.dtype or "float32",
            backend=args.backend or "auto",
            recipe=_recipe(args, dataset, entry, task),
            options=_options(args),
        )
        for model, entry, space in zip(models, entries, spaces, strict=True)
        for seed in range(first, first + count)
    ]
    session = Session(jobs, path, threads=args.threads, pictures=not args.no_pictures)
    session.check_free()
    return session


def _recipe(args: argparse.Namespace, dataset: str, entry: ModelEntry, task: str) -> str:
    """The one that is named; the example's own; the usual one beside settings of somebody's own, where a task has its
    own way of training, and where there is no other; else they compete."""
    from hgeo.tasks import find_task
    from hgeo.train import COMPETE

    if args.recipe is not None:
        entry.recipe_maker(args.recipe)
        return str(args.recipe)
    if dataset in entry.recipes:
        return dataset
    own = set(_options(args)) - {"epochs", "patience"}
    return "usual" if own or find_task(task).usual or len(entry.recipes) == 1 else COMPETE


def _own_words(text: str | None) -> list[str]:
    """The models that --model names, or the task; those of a user's own lie where the command is given."""
    words = [word.strip() for word in (text or "").split(",") if word.strip()]
    if any(":" in word for word in words):
        own_modules()
    return words


def _resumed(args: argparse.Namespace) -> Session:
    from hgeo.train import Session

    if args.out is None:
        raise ValueError("--resume needs --out, the folder of the run to go on with")
    # A run folder may come from somebody else, so it does not decide which module is imported.
    again = {name: _own_words(getattr(args, name)) for name in ("model", "task")}
    own = [word for words in again.values() for word in words if ":" in word]
    session = Session.load(args.out, data_dir=args.data_dir, own=own)
    parser = Parser()
    add_arguments(parser)  # every default is empty: a value that differs from it was given by the user
    usual = vars(parser.parse_args([]))
    given = [name for name, value in usual.items() if getattr(args, name) != value]
    obeyed = ["out", "resume", "data_dir", "no_pictures", "json"]
    obeyed += [name for name, words in again.items() if words and all(":" in word for word in words)]
    refused = [f"--{name.replace('_', '-')}" for name in given if name not in obeyed]
    if refused:
        raise ValueError(f"--resume goes on with the options that the run had; leave out {', '.join(refused)}")
    session.pictures = session.pictures and not args.no_pictures
    return session


def _fresh(parent: Path, dataset: str, models: list[str], space: str) -> Path:
    """A new name: runs/cora-hat-ball16, then runs/cora-hat-ball16-2, and so on."""
    words = [
        Path(dataset).stem,
        *(model.rpartition(":")[2] for model in models),
        space_word(space),
    ]
    first = parent / "-".join(words)[:_LONGEST_NAME]
    path, number = first, 2
    while path.exists():
        path, number = first.with_name(f"{first.name}-{number}"), number + 1
    return path


def _options(args: argparse.Namespace) -> dict[str, Any]:
    given = {name: getattr(args, name) for name in ("epochs", "patience", "lr", "batch_size", "fanout")}
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    for assignment in args.set:
        name, equals, text = assignment.partition("=")
        if not equals:
            raise ValueError(f"--set {assignment}: expected NAME=VALUE, such as beta=0.5")
        options[name.strip().replace("-", "_")] = _value(text.strip())
    return options


def _value(text: str) -> Any:
    """A number or a truth value if it reads as one, else the word itself."""
    try:
        return json.loads(text.lower() if text.lower() in ("true", "false") else text)
    except json.JSONDecodeError:
        return text


class _Outcome(NamedTuple):
    """What came out of each run, a line for each that gave no model, and what needs no learning beside them."""

    results: list[dict[str, Any]]
    failures: list[str]
    beside: dict[str, dict[str, float]]
    task: Task


def _train(session: Session, together: Team, *, resume: bool) -> _Outcome:
    from hgeo.train import TrainingError

    tasks: dict[tuple[Any, ...], Task] = {}
    with spoken_warnings():
        unfit = _prepare(session, tasks)
        _use_threads(session, [task.dataset for task in tasks.values()])
        first = tasks[_data_of(session.jobs[0])]
        done = _Outcome([], unfit, first.beside(), first)
        # all processes have checked their data by now, and looked what is in the way
        with session.opened(resume=resume) if together.is_first else contextlib.nullcontext():
            if together.is_first:
                session.write([tasks[_data_of(job)].dataset.origin for job in session.jobs])
            for number, job in enumerate(session.jobs):
                folder = session.folder(job)
                place = f" ({number + 1}/{len(session.jobs)})" if len(session.jobs) > 1 else ""
                with _progress(f"{job.model} seed {job.seed}{place}", folder, shown=together.is_first) as on_epoch:
                    try:
                        done.results.append(job.run(tasks[_data_of(job)], folder, resume=resume, on_epoch=on_epoch))
                    except TrainingError as error:
                        done.failures.append(f"{job.model} seed {job.seed}: {error}")
                        if together.is_first:
                            folder.discard()
            if together.is_first:
                _finish(session, tasks, done)
    return done


def _finish(session: Session, tasks: dict[tuple[Any, ...], Task], done: _Outcome) -> None:
    """The summary and the pictures of what has a result; no folder of what has none."""
    if not done.results:
        session.discard()
        return
    session.write_result(done.results, done.beside)
    if session.pictures and all(task.dataset.parts is None for task in tasks.values()):
        _draw(session, tasks)


def _prepare(session: Session, tasks: dict[tuple[Any, ...], Task]) -> list[str]:
    """Loads the data of each job, and takes the jobs out whose model cannot be built: a line for each such model.

    Raises:
        ValueError: none is left.
    """
    problems: dict[str, ValueError] = {}
    for job in session.jobs:
        if job.model not in problems:
            try:
                if _data_of(job) not in tasks:
                    tasks[_data_of(job)] = job.prepare(job.load())
                job.check(tasks[_data_of(job)])
            except ValueError as error:
                problems[job.model] = error
    fit = [job for job in session.jobs if job.model not in problems]
    if not fit:
        raise next(iter(problems.values()))
    session.jobs = fit
    return [f"{model} is left out: {error}" for model, error in problems.items()]


def _data_of(job: Job) -> tuple[Any, ...]:
    """Jobs that agree in this have the same task on the same data."""
    where = job.dataset, job.data_dir, job.origin, job.device, job.dtype, job.features
    return *where, job.task, job.split, job.split_seed, json.dumps(job.options)


def _use_threads(session: Session, datasets: Iterable[Dataset]) -> None:
    """One thread where a step takes milliseconds: sharing it out costs more than it gives, above all on a busy machine.

    The choice is kept with the session, so that a run that is gone on with rounds as it did before.
    """
    import torch

    if session.threads is None:
        work = max(data.num_edges + _entries(data.features) for data in datasets)
        session.threads = 1 if work < _WORTH_THREADS else torch.get_num_threads()
    torch.set_num_threads(session.threads)


def _entries(features: Tensor) -> int:
    return features.values().numel() if features.is_sparse_csr else features.numel()


def _draw(session: Session, tasks: dict[tuple[Any, ...], Task]) -> None:
    """The pictures that are not there yet: of each model's first seed, and of several models beside each other."""
    from hgeo.train import compare_runs, draw_run, load_run

    runs = [
        load_run(session.folder(job).path, dataset=tasks[_data_of(job)], model=job.model, task=job.task)
        for job in session.drawn()
        if session.folder(job).is_complete
    ]
    for run in runs:
        if not (run[2].path / "curves.png").exists():  # the last that is written
            draw_run(run, formats=("png",))  # quickly; hgeo plot draws the others
    if len(runs) > 1 and not (session.path / "embedding.png").exists():
        compare_runs(runs, session.path / "embedding", formats=("png",))


@contextlib.contextmanager
def _progress(name: str, folder: RunFolder, *, shown: bool) -> Iterator[Callable[[dict[str, Any]], None]]:
    """A bar on stderr, where stderr is a terminal: loss, validation accuracy, curvature, time left."""
    from tqdm import tqdm

    off = None if shown else True
    with tqdm(total=None, desc=name, unit="ep", file=sys.stderr, disable=off, leave=False, dynamic_ncols=True) as bar:

        def on_epoch(row: dict[str, Any]) -> None:
            if bar.disable:
                return
            if bar.total is None:
                bar.total = folder.config().settings["epochs"]
            curvature = " ".join(f"{-value:.3g}" for value in row["curvatures"])
            score = next((key for key in row if key.startswith("val_") and key != "val_loss"), "val_loss")
            best = row["best"].get(score, math.nan)
            parts = [f"loss {row['loss']:.3f}", f"{score.replace('_', ' ')} {row[score]:.3f} (best {best:.3f})"]
            bar.set_postfix_str(", ".join([*parts, f"c {curvature}"] if curvature else parts), refresh=False)
            bar.update(row["epoch"] + 1 - bar.n)

        yield on_epoch


def _report(session: Session, done: _Outcome, *, as_json: bool) -> None:
    from hgeo.models import find
    from hgeo.train import plain, summarize

    rows = summarize(done.results)
    if as_json:
        found = {"out": str(session.path), "summary": rows, "beside": done.beside, "runs": done.results}
        print(json.dumps(plain(found), indent=2))
        return
    columns, seeds = done.task.columns, len({job.seed for job in session.jobs})
    print(f"{session.jobs[0].dataset}, {'1 seed' if seeds == 1 else f'{seeds} seeds'}, {done.task.title}")
    titles = "".join(f" {title:>14}" for title in columns.values())
    print(f"{'model':<20} {'space':<18}{titles} {'epochs':>7} {'CPU s':>7}")
    for row in rows:
        cells = "".join(f" {_cell(row[key]) if key in row else '-':>14}" for key in columns)
        numbers = f"{row['epochs']['mean']:>7.0f} {row['cpu_seconds']['mean']:>7.1f}"
        print(f"{find(row['model']).label:<20} {row['space']:<18}{cells} {numbers}")
    for name, scores in done.beside.items():
        cells = "".join(f" {f'{scores[key]:.3f}' if key in scores else '-':>14}" for key in columns)
        print(f"{name:<38}{cells} {'-':>7} {'-':>7}")
    for row in rows:
        _report_recipes([result for result in done.results if result["model"] == row["model"]])
    print(f"\n{session.path}: configuration, metrics, weights and results")
    for picture in sorted(session.path.rglob("embedding.png"), key=lambda path: len(path.parts)):
        page = picture.with_suffix(".html")
        print(f"  {shown(picture)}" + (f", and {page.name} to move through" if page.exists() else ""))


def _cell(value: dict[str, float]) -> str:
    spread = f" ± {value['std']:.3f}" if value["n"] > 1 else ""
    return f"{value['mean']:.3f}{spread}"


def _report_recipes(results: Sequence[dict[str, Any]]) -> None:
    """A line on the recipes of a model that competed: how often each won, and the mean of what decided."""
    tried = [result["tried"] for result in results if result.get("tried")]
    if not tried:
        return
    won = collections.Counter(result["recipe"] for result in results)
    scores: dict[str, list[float]] = collections.defaultdict(list)
    for one in itertools.chain(*tried):
        scores[one["recipe"]] += one["watched"][:1]
    of_each = [f"{name} {statistics.fmean(values):.3f}" for name, values in scores.items() if values]
    first = ", ".join(name if count == len(results) else f"{name} ({count})" for name, count in won.most_common())
    print(f"{results[0]['model']}: recipe {first}, of {', '.join(of_each)} after a short while")
