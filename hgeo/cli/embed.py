"""``hgeo embed``."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hgeo.cli._arguments import count, folder, not_negative, number, positive, space_word, threads, word
from hgeo.cli._spoken import complain, shown, spoken_warnings

if TYPE_CHECKING:
    from hgeo.data import Pairs
    from hgeo.train import TaxonomyStudy

__all__ = ["add_arguments", "run"]

_EPILOG = """\
examples:
  hgeo embed tree                                        a generated tree, in the hyperbolic plane
  hgeo embed taxonomy.tsv --closure --space lorentz:10 --hold-out 0.1 --out runs/mine
  hgeo embed wordnet --space lorentz:10 --alone          WordNet's nouns, from its dictionary files
  hgeo embed wordnet --below mammal.n.01 --hold-out 0.5  of them, mammals
  hgeo embed runs/mine/vectors.npz --nearest dog
  hgeo embed taxonomy.tsv --out runs/mine --resume       go on where it was interrupted, with the same options
"""

_OPTIONS = ("epochs", "lr", "burn_in", "negatives", "batch", "temperature", "loss", "seed")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``hgeo embed``."""
    parser.epilog = _EPILOG
    parser.add_argument(
        "source",
        help="a file of lines child<TAB>parent (.csv: with a comma); wordnet or wordnet:verb; tree, a generated one; "
        "or a vectors.npz to ask by --nearest",
    )
    parser.add_argument(
        "--child", type=word, metavar="COLUMN", help="the column of children, of a file whose first line has names"
    )
    parser.add_argument("--parent", type=word, metavar="COLUMN", help="the column of parents")
    parser.add_argument("--closure", action="store_true", help="parents of parents are parents (WordNet: always)")
    parser.add_argument("--below", type=word, metavar="NAME", help="only this node and what is under it")
    parser.add_argument(
        "--data-dir", type=word, help="folder of WordNet's dictionary (default: $WNSEARCHDIR, /usr/share/wordnet)"
    )
    parser.add_argument(
        "--space", type=word, help="where, such as lorentz:10 or ball:2 (default: lorentz:10; tree: ball:2)"
    )
    parser.add_argument("--loss", choices=("softmax", "cones"), help="default: softmax; cones: entailment cones")
    parser.add_argument("--hold-out", type=float, default=0.0, metavar="SHARE", help="hide this share of the pairs")
    parser.add_argument("--alone", action="store_true", help="no flat and no inner-product embedding beside it")
    parser.add_argument(
        "--search", action="store_true", help="choose lr, temperature, negatives, epochs on validation pairs, for each"
    )
    parser.add_argument("--splits", type=count, default=1, help="so many random choices of hidden pairs (default: 1)")
    parser.add_argument("--first-split", type=not_negative, default=0, metavar="SEED", help="default: 0")
    parser.add_argument("--seeds", type=count, default=1, help="so many seeds for each (default: 1)")
    parser.add_argument("--seed", type=not_negative, help="the first of them (default: 0)")
    parser.add_argument("--epochs", type=positive, help="default: 300; 100 for flat ones beside, of hidden pairs")
    parser.add_argument(
        "--lr",
        type=number,
        help="learning rate, falling linearly (default: 0.1, and less where a search on mammals found so)",
    )
    parser.add_argument("--burn-in", type=not_negative, metavar="EPOCHS", help="at a tenth of it (default: 10)")
    parser.add_argument("--negatives", type=positive, help="a pair (default: 50)")
    parser.add_argument("--batch", type=positive, help="pairs a step (default: 16)")
    parser.add_argument(
        "--temperature", type=number, help="distances are divided by it (default: 0.4; flat ones: 0.3 to 1)"
    )
    parser.add_argument("--threads", type=threads, help="default: torch's; the result does not depend on it")
    parser.add_argument("--out", type=folder, help="folder (default: a new one under runs/)")
    parser.add_argument("--resume", action="store_true", help="go on in --out, with the same options")
    parser.add_argument("--nearest", metavar="NAME", help="print the nodes nearest to this one")
    parser.add_argument("-k", type=positive, default=10, help="how many (default: 10)")
    parser.add_argument("--no-pictures", action="store_true", help="leave out embedding.png, .svg and .html")
    parser.add_argument("--json", action="store_true", help="the result as JSON on stdout, and nothing else there")


def run(args: argparse.Namespace) -> int:
    """Run ``hgeo embed`` and return its exit code: 0; 2 for a wrong request; 130 after Ctrl-C."""
    study = None
    try:
        if args.source.endswith(".npz"):
            return _ask(args, Path(args.source))
        study = _planned(args)
        with spoken_warnings():
            rows = _embed(study)
            first = study.first()
            first.save(study.folder / "vectors.npz")
            if not args.no_pictures:
                from hgeo.train import draw_taxonomy

                draw_taxonomy(first, study.pairs, study.folder, title=_title(study), way=args.nearest)
    except KeyboardInterrupt:
        how = f"go on with the same command and --resume --out {study.folder}" if study else "nothing was begun"
        print(f"\nhgeo: interrupted; {how}", file=sys.stderr)
        return 130
    except (ValueError, OSError, ImportError) as error:
        complain("embed", error)
        return 2
    _report(args, study, rows)
    return _ask(args, study.folder / "vectors.npz") if args.nearest and not args.json else 0


def _pairs(args: argparse.Namespace) -> Pairs:
    pairs = _all_pairs(args)
    return pairs.below(args.below) if args.below else pairs


def _all_pairs(args: argparse.Namespace) -> Pairs:
    from hgeo.data import random_taxonomy, read_pairs, read_wordnet

    word, _, part = args.source.partition(":")
    if args.source == "tree":
        return random_taxonomy().closure()
    if word == "wordnet" and not Path(args.source).exists():
        return read_wordnet(args.data_dir, part=part or "noun")
    if not Path(args.source).expanduser().is_file():
        raise FileNotFoundError(f"no file {args.source}; expected a file of pairs, 'wordnet', 'tree' or a vectors.npz")
    return read_pairs(args.source, child=args.child, parent=args.parent, closure=args.closure)


def _planned(args: argparse.Namespace) -> TaxonomyStudy:
    """What was asked for, and a folder for it; where it goes on, the same as before."""
    from hgeo.train import TaxonomyStudy, flat_beside

    pairs = _pairs(args)
    space = args.space or ("ball:2" if args.source == "tree" else "lorentz:10")
    if not 0 <= args.hold_out < 1:
        raise ValueError(f"--hold-out is a share of the pairs, at least 0 and less than 1, got {args.hold_out:g}")
    if args.splits > 1 and not args.hold_out:
        raise ValueError("--splits are choices of hidden pairs; give --hold-out too")
    given = {name: getattr(args, name) for name in _OPTIONS if getattr(args, name) is not None}
    if args.resume and args.out is None:
        raise ValueError("--resume needs --out, the folder of the run to go on with")
    study = TaxonomyStudy(
        pairs,
        args.out or _fresh(Path(args.source.replace(":", "-")).stem, space),
        space=space,
        beside=() if args.alone else flat_beside(space),
        given=given,
        hold_out=args.hold_out,
        splits=args.splits,
        seeds=args.seeds,
        first_split=args.first_split,
        search=args.search,
        threads=args.threads,
    )
    study.begin(resume=args.resume)
    return study


def _fresh(source: str, space: str) -> Path:
    """A new name: runs/embed-mammals-lorentz10, then runs/embed-mammals-lorentz10-2, and so on."""
    first = Path("runs") / f"embed-{source}-{space_word(space)}"
    path, number = first, 2
    while path.exists():
        path, number = first.with_name(f"{first.name}-{number}"), number + 1
    return path


def _embed(study: TaxonomyStudy) -> list[dict[str, Any]]:
    with _progress() as on_epoch:
        return study.run(on_epoch)


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[str, dict[str, Any]], None]]:
    """A bar on stderr, where stderr is a terminal: which run, its loss, time left."""
    from tqdm import tqdm

    with tqdm(total=None, unit="ep", file=sys.stderr, disable=None, leave=False, dynamic_ncols=True) as bar:

        def on_epoch(label: str, row: dict[str, Any]) -> None:
            if bar.disable:
                return
            if bar.desc != f"{label}: ":
                bar.reset(total=row["epochs"])
                bar.set_description(label, refresh=False)
            bar.set_postfix_str(f"loss {row['loss']:.3f}", refresh=False)
            bar.update(row["epoch"] + 1 - bar.n)

        yield on_epoch


def _report(args: argparse.Namespace, study: TaxonomyStudy, rows: list[dict[str, Any]]) -> None:
    summary, guess = study.summary(rows), study.guesses()
    if args.json:
        own = {key: value["mean"] for key, value in summary[0].items() if isinstance(value, dict)}
        result = {"out": str(study.folder), "nodes": study.pairs.count, "pairs": len(study.pairs.index), **own}
        if args.nearest:
            result["nearest"] = study.first().nearest(args.nearest, args.k)
        print(json.dumps({**result, "summary": summary, "no_learning": guess, "runs": rows}, indent=2))
        return
    many = f"{study.splits} splits, {study.seeds} seeds" if study.hold_out else f"{study.seeds} seeds"
    print(f"{args.source}: {study.pairs.count:,} nodes, {len(study.pairs.index):,} pairs; {many}")
    hidden = "hidden_map" in summary[0]
    head = f"{'space':<18} {'known pairs: MAP':>17} {'mean rank':>14}"
    print(head + (f" {'hidden pairs: MAP':>18} {'mean rank':>14}" if hidden else "") + f" {'CPU s':>7}")
    for entry in summary:
        keys = ["reconstruction_map", "reconstruction_mean_rank"] + ["hidden_map", "hidden_mean_rank"] * hidden
        widths = (17, 14, 18, 14)
        cells = [f"{_cell(entry[key], entry['runs']):>{width}}" for key, width in zip(keys, widths, strict=False)]
        print(f"{entry['space']:<18} {' '.join(cells)} {entry['cpu_seconds']['mean']:>7.1f}")
    prefix = "hidden" if hidden else "reconstruction"
    shown = f"MAP {guess[f'{prefix}_map']:.3f}, mean rank {guess[f'{prefix}_mean_rank']:.1f}"
    how = "parents of known parents, then the most frequent parents" if hidden else "the most frequent parents"
    print(f"without learning ({how}): {shown}")
    path = study.folder / "vectors.npz"
    print(f"\n{path}: names and points; ask it by: hgeo embed {path} --nearest NAME")


def _cell(value: dict[str, float], runs: int) -> str:
    digits = 3 if value["mean"] < 1.0005 else 1
    spread = f" ± {value['std']:.{digits}f}" if runs > 1 else ""
    return f"{value['mean']:.{digits}f}{spread}"


def _ask(args: argparse.Namespace, path: Path) -> int:
    """What is near a name, from a file of vectors."""
    from hgeo.train import load_vectors

    try:
        if args.nearest is None:
            raise ValueError(f"{path} holds vectors; ask for the nodes near one by --nearest NAME")
        found = load_vectors(path).nearest(args.nearest, args.k)
    except (ValueError, OSError) as error:
        complain("embed", error)
        return 2
    if args.json:
        print(json.dumps({"name": args.nearest, "nearest": found}, indent=2))
    else:
        print(f"nearest to {shown(args.nearest)}")
        for name, distance in found:
            print(f"  {distance:8.3f}  {shown(name)}")
    return 0


def _title(study: TaxonomyStudy) -> str:
    return f"{study.folder.name}: {study.pairs.count:,} nodes in {study.space}"
