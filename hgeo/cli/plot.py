"""``hgeo plot``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hgeo._files import write_atomically
from hgeo.cli._arguments import folder, not_negative, own_modules, positive, word
from hgeo.cli._spoken import complain

if TYPE_CHECKING:
    from torch import nn

    from hgeo.data import Dataset

__all__ = ["add_arguments", "run"]

_EPILOG = """\
writes into the run folder: embedding.png, .svg and .html (a page to move through), radius.png and .svg (how far out
nodes of each degree lie), curves.png and .svg; with --pdf each as .pdf, too

examples:
  hgeo plot runs/cora-hat-ball16
  hgeo plot runs/cora-hat-ball16 --attention 1728      whom node 1728 listens to, as a picture and a table
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``hgeo plot``."""
    parser.epilog = _EPILOG
    parser.add_argument("run", type=folder, help="a run folder of hgeo train")
    parser.add_argument(
        "--data-dir", type=word, help="folder of the data that the run was trained on (default: see hgeo train)"
    )
    parser.add_argument(
        "--model", metavar="MODULE:CLASS", help="a model of your own, named again, since its code is run"
    )
    parser.add_argument("--task", metavar="MODULE:CLASS", help="a task of your own, named again")
    parser.add_argument("--pdf", action="store_true", help="pictures as .pdf, too")
    parser.add_argument("--attention", type=not_negative, metavar="NODE", help="also draw whom this node listens to")
    parser.add_argument(
        "--layer", type=positive, default=1, help="the attention layer to look at (default: 1, the first)"
    )


def run(args: argparse.Namespace) -> int:
    """Run ``hgeo plot`` and return its exit code: 0, or 2 for a folder or a node that is not there."""
    try:
        written = _draw(args)
    except (ValueError, OSError) as error:
        complain("plot", error)
        return 2
    for path in written:
        print(path)
    return 0


def _draw(args: argparse.Namespace) -> list[Path]:
    if args.model is not None or args.task is not None:
        own_modules()
    from hgeo.train import Session, draw_run, load_run

    if not (args.run / "config.json").is_file() and (args.run / "session.json").is_file():
        own = [word for word in (args.model, args.task) if word is not None]
        session = Session.load(args.run, own=own)
        inside = ", ".join(session.folder(job).path.name for job in session.jobs)
        raise ValueError(f"{args.run} holds several runs; choose one: {inside}")
    run = load_run(args.run, data_dir=args.data_dir, model=args.model, task=args.task)
    formats = ("png", "svg", "pdf") if args.pdf else ("png", "svg")
    written = draw_run(run, formats=formats)
    if args.attention is not None:
        written += _draw_attention(args, run[0], run[1], formats)
    return written


def _draw_attention(args: argparse.Namespace, model: nn.Module, dataset: Dataset, formats: Sequence[str]) -> list[Path]:
    from hgeo.models import names
    from hgeo.train import layer_attentions
    from hgeo.viz import attention_figure, attention_rows, attention_table, save_figure

    attentions = layer_attentions(model, dataset)
    if not 1 <= args.layer <= len(attentions):
        if not attentions:
            able = ", ".join(names(lambda entry: entry.attends))
            raise ValueError(f"the model of {args.run} has no layer that tells its attention; those have: {able}")
        raise ValueError(f"--layer is {args.layer}, but this model has {len(attentions)} attention layer(s)")
    rows = attention_rows(dataset.edge_index, dataset.labels, attentions[args.layer - 1], args.attention)
    title = f"layer {args.layer}: whom node {args.attention} listens to"
    name = f"attention-{args.attention}-layer{args.layer}"
    figure = attention_figure(rows, args.attention, title=title, class_names=dataset.class_names)
    written = save_figure(figure, args.run / name, formats)
    table = args.run / f"{name}.md"
    text = f"Layer {args.layer}: whom node {args.attention} listens to.\n\n{attention_table(rows, args.attention)}\n"
    write_atomically(table, text)
    return [*written, table]
