"""``hgeo train``."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hgeo.train import Job, RunFolder, Session

__all__ = ["add_arguments", "run"]

_EPILOG = """\
examples:
  hgeo train                                             HAT against GAT, two dimensions, built-in hierarchy
  hgeo train --dataset cora --model hat --space ball:16,c=1 --seeds 10 --out runs/x
  hgeo train --dataset mine.npz --model hat,gcn --space "ball:4 x sphere:2"
  hgeo train --out runs/x --resume                       go on where a run was interrupted
"""

# What the built-in hierarchy is trained with when nothing else is asked for: the same for both models, and of the
# settings tried the one that gave GAT its best validation accuracy. β weighs the distances of HAT, GAT has none.
_HIERARCHY_OPTIONS: dict[str, Any] = {
    "lr": 0.03,
    "epochs": 200,
    "patience": 50,
    "weight_decay": 5e-4,
    "feat_drop": 0.3,
    "hidden_drop": 0.0,
    "attn_drop": 0.3,
}
_HIERARCHY_HAT: dict[str, Any] = {"beta": 0.3, "radius_norm": False, "self_score": "zero"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``hgeo train``."""
    parser.epilog = _EPILOG
    parser.add_argument("--dataset", help="a name that `hgeo data` lists, or an .npz file (default: hierarchy)")
    parser.add_argument(
        "--model", help="one of hat, hat-paper, gcn, gat, hgcn, kappa-gcn, mlp, hnn, or several: hat,gat"
    )
    parser.add_argument(
        "--space", help="the hidden space, such as ball:16,c=1 (default: ball:16; hierarchy, karate: ball:2)"
    )
    parser.add_argument("--seeds", type=_positive, help="number of seeds (default: 1; bare `hgeo train`: 3)")
    parser.add_argument("--first-seed", type=int, default=0, metavar="SEED", help="the first of them (default: 0)")
    parser.add_argument("--split-seed", type=int, default=0, metavar="SEED", help="of data without a public split")
    parser.add_argument("--out", type=Path, help="run folder (default: a new one under runs/)")
    parser.add_argument("--resume", action="store_true", help="go on with the run in --out, with the options it had")
    parser.add_argument("--data-dir", help="folder of DGL's raw files (default: $HGEO_DATA, else DGL's own)")
    parser.add_argument("--epochs", type=_positive, help="at most so many epochs")
    parser.add_argument("--patience", type=_positive, help="stop after so many epochs without a better one")
    parser.add_argument("--lr", type=float, help="learning rate")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of hgeo.models.Config, such as beta=0.5",
    )
    parser.add_argument("--device", default="cpu", help="cpu or cuda (default: cpu)")
    parser.add_argument("--dtype", default="float32", choices=("float32", "float64"))
    parser.add_argument("--threads", type=_positive, help="threads of torch and of the kernels (default: torch's)")
    parser.add_argument(
        "--backend", default="auto", help="who computes attention: auto, fused, torch, dgl, reference …"
    )
    parser.add_argument("--no-pictures", action="store_true", help="leave out embedding.* and curves.*")
    parser.add_argument("--json", action="store_true", help="the result as JSON on stdout, and nothing else there")


def run(args: argparse.Namespace) -> int:
    """Run ``hgeo train`` and return its exit code: 0, 2 for a wrong request, 130 after Ctrl-C."""
    import torch

    try:
        if args.threads is not None:
            torch.set_num_threads(args.threads)
        session = _resumed(args) if args.resume else _planned(args)
        results = _train(session, resume=args.resume, pictures=not args.no_pictures)
    except KeyboardInterrupt:
        where = f" {session.path}" if "session" in locals() else ""
        print(f"\nhgeo: interrupted; go on with: hgeo train --resume --out{where}", file=sys.stderr)
        return 130
    except (ValueError, OSError) as error:
        print(f"hgeo train: {error}", file=sys.stderr)
        return 2
    _report(session, results, as_json=args.json)
    return 0


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not at least 1")
    return value


def _planned(args: argparse.Namespace) -> Session:
    from hgeo.train import Job, Session

    dataset = args.dataset or "hierarchy"
    bare = args.dataset is None and args.model is None and args.space is None
    models = [word.strip() for word in (args.model or ("hat,gat" if bare else "hat")).split(",") if word.strip()]
    space = args.space or ("ball:2" if dataset in ("hierarchy", "karate") else "ball:16")
    count = args.seeds or (3 if bare else 1)
    path = args.out or _fresh(Path("runs"), dataset, models, space)
    if (path / "config.json").exists() or (path / "session.json").exists():
        raise ValueError(f"{path} already holds a run; go on with it by --resume, or choose another --out")
    jobs = [
        Job(
            dataset=dataset,
            model=model,
            space=space,
            seed=seed,
            split_seed=args.split_seed,
            data_dir=args.data_dir,
            device=args.device,
            dtype=args.dtype,
            backend=args.backend,
            options=_options(args, dataset, model),
        )
        for model in models
        for seed in range(args.first_seed, args.first_seed + count)
    ]
    return Session(jobs, path)


def _resumed(args: argparse.Namespace) -> Session:
    from hgeo.train import Session

    if args.out is None:
        raise ValueError("--resume needs --out, the folder of the run to go on with")
    return Session.load(args.out)


def _fresh(parent: Path, dataset: str, models: list[str], space: str) -> Path:
    """A new name: runs/cora-hat-ball16, then runs/cora-hat-ball16-2, and so on."""
    words = [Path(dataset).stem, *models, "".join(letter for letter in space if letter.isalnum())]
    first = parent / "-".join(words)
    path, number = first, 2
    while path.exists():
        path, number = first.with_name(f"{first.name}-{number}"), number + 1
    return path


def _options(args: argparse.Namespace, dataset: str, model: str) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if dataset == "hierarchy":
        options.update(_HIERARCHY_OPTIONS)
        if model == "hat":
            options.update(_HIERARCHY_HAT)
    for name in ("epochs", "patience", "lr"):
        if getattr(args, name) is not None:
            options[name] = getattr(args, name)
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


def _train(session: Session, *, resume: bool, pictures: bool) -> list[dict[str, Any]]:
    datasets: dict[tuple[Any, ...], Any] = {}
    results = []
    for job in session.jobs:
        key = (job.dataset, job.split_seed, job.device, job.dtype)
        if key not in datasets:
            datasets[key] = job.load()
    for job in session.jobs:
        job.build(datasets[job.dataset, job.split_seed, job.device, job.dtype])  # a wrong option speaks before training
    session.write()
    for job in session.jobs:
        folder = session.folder(job)
        with _progress(job, folder) as on_epoch, _spoken_warnings():
            results.append(
                job.run(
                    datasets[job.dataset, job.split_seed, job.device, job.dtype],
                    folder,
                    resume=resume,
                    pictures=pictures and session.draws(job),
                    on_epoch=on_epoch,
                )
            )
    session.write_result(results)
    if pictures:
        session.write_comparison()
    return results


@contextlib.contextmanager
def _progress(job: Job, folder: RunFolder) -> Iterator[Callable[[dict[str, Any]], None]]:
    """A bar on stderr, where stderr is a terminal: loss, validation accuracy, curvature, time left."""
    from tqdm import tqdm

    with tqdm(
        total=None, desc=f"{job.model} seed {job.seed}", unit="ep", file=sys.stderr, disable=None, leave=False
    ) as bar:

        def on_epoch(row: dict[str, Any]) -> None:
            if bar.disable:
                return
            if bar.total is None:
                bar.total = folder.config()["settings"]["epochs"]
            curvature = " ".join(f"{-value:.3g}" for value in row["curvatures"])
            parts = [f"loss {row['loss']:.3f}", f"val {row['val_accuracy']:.3f} (best {row['best_accuracy']:.3f})"]
            bar.set_postfix_str(", ".join([*parts, f"c {curvature}"] if curvature else parts), refresh=False)
            bar.update(row["epoch"] + 1 - bar.n)

        yield on_epoch


@contextlib.contextmanager
def _spoken_warnings() -> Iterator[None]:
    from tqdm import tqdm

    from hgeo.train import TrainingWarning

    def show(message: Any, category: type[Warning], *_: Any, **__: Any) -> None:
        tqdm.write(f"hgeo: {message}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", TrainingWarning)
        warnings.showwarning = show
        yield


def _report(session: Session, results: list[dict[str, Any]], *, as_json: bool) -> None:
    from hgeo.train import summarize

    rows = summarize(results)
    if as_json:
        print(json.dumps({"out": str(session.path), "summary": rows, "runs": results}, indent=2))
        return
    print(f"{session.jobs[0].dataset}, {len({job.seed for job in session.jobs})} seed(s), test nodes")
    print(f"{'model':<12} {'space':<16} {'accuracy':>14} {'macro F1':>14} {'NMI':>14} {'epochs':>7} {'CPU s':>7}")
    for row in rows:
        space = row["space"] if row["model"] not in ("gat", "gcn", "mlp") else f"euclidean:{_dimension(row['space'])}"
        cells = [_cell(row[key]) for key in ("test_accuracy", "test_macro_f1", "test_nmi")]
        numbers = f"{row['epochs']['mean']:>7.0f} {row['cpu_seconds']['mean']:>7.1f}"
        print(f"{row['model']:<12} {space:<16} {cells[0]:>14} {cells[1]:>14} {cells[2]:>14} {numbers}")
    pictures = sorted(session.path.rglob("embedding.png"))
    print(f"\n{session.path}: config, metrics, weights, results")
    for picture in pictures:
        print(f"  {picture} and {picture.with_suffix('.html').name}")


def _dimension(space: str) -> int:
    from hgeo.manifolds import space as parse

    return parse(space).dim


def _cell(value: dict[str, float]) -> str:
    spread = f" ± {value['std']:.3f}" if value["n"] > 1 else ""
    return f"{value['mean']:.3f}{spread}"
