"""The paper's figures and its training time as pages: attention of one node, embeddings in two dimensions, seconds."""

from __future__ import annotations

import json
from typing import Any

import torch

from hgeo._files import write_atomically
from hgeo._geoopt import geoopt
from hgeo.data import load
from hgeo.manifolds import PoincareBall, exp0
from hgeo.models import SHALLOW_METHODS
from hgeo.reproduce._frozen import frozen_options
from hgeo.reproduce._request import Request
from hgeo.reproduce._runs import Setup, attention_cell, embedding_cell, published, setup, timing_cell
from hgeo.viz import Listener, add_legend, attention_figure, attention_table, draw_embedding, save_figure

__all__ = ["attention", "timing", "visualization"]

_HATS = {"hat-paper": "HAT as printed", "hat": "HAT, tuned"}


def _hats_on_cora(request: Request) -> dict[str, Setup]:
    """The settings of both forms of HAT on Cora in 16 dimensions."""
    frozen = frozen_options(request.configs)
    return {model: setup(model, 16, frozen.get(f"cora/16/{model}")) for model in _HATS}


def attention(request: Request) -> list[str]:
    """Whom the paper's example node listens to: a table and a picture for each form of HAT."""
    seeds = range(min(request.seeds, 3))
    cells = {method: attention_cell(what, seeds) for method, what in _hats_on_cora(request).items()}
    results = request.results(list(cells.values()))
    example, shown = published()["attention_example"], []
    text = [
        f"# Whom node {example['node']} of Cora listens to",
        f"First-layer attention, averaged over {len(seeds)} seeds. Made by `hgeo reproduce attention`. Node numbers "
        "are those of DGL's Cora. What it shows is said in `docs/findings.md`.",
    ]
    for method, cell in cells.items():
        if cell.key not in results:
            continue
        result, title = results[cell.key], _HATS[method]
        rows = [Listener(row["node"], row["class"], row["weight"]) for row in result["rows"]]
        picture = request.out / f"attention-{method}.png"
        save_figure(attention_figure(rows, result["node"], title=title), picture)
        text += [f"## {title}", attention_table(rows, result["node"]), f"![{title}]({picture.name})"]
        shown.append(str(picture))
    write_atomically(request.out / "attention.md", "\n\n".join(text) + "\n")
    found = [results.get(cell.key) for cell in cells.values()]
    write_atomically(request.out / "attention.json", json.dumps(found, indent=1))
    return [*shown, str(request.out / "attention.md")]


def visualization(request: Request) -> list[str]:
    """Two-dimensional embeddings of one data set by all methods, in one picture."""
    from matplotlib.figure import Figure

    frozen = frozen_options(request.configs)
    dataset = (request.datasets or ["pubmed"])[0]
    methods = request.methods or [*SHALLOW_METHODS, "gcn", "gat", "hat"]
    cells = {
        method: embedding_cell(dataset, method, frozen, request.walk_options(dataset, method)) for method in methods
    }
    results = request.results(list(cells.values()))
    data = load(dataset, data_dir=request.data_dir)
    rows = -(-len(methods) // 4)
    figure = Figure(figsize=(16, 4.3 * rows), dpi=110, facecolor="white", layout="constrained")
    for number, method in enumerate(methods):
        if cells[method].key not in results:
            continue
        tangent = torch.tensor(results[cells[method].key]["tangent"])
        curved = method.startswith("hat") or method == "poincare"
        manifold = PoincareBall() if curved else geoopt.Euclidean(1)
        axes = figure.add_subplot(rows, 4, number + 1)
        points = exp0(manifold, tangent) if curved else tangent
        draw_embedding(axes, points, manifold, labels=data.labels, title=method)
        if number == len(methods) - 1:
            add_legend(axes, data.labels)
    picture = request.out / "visualization.png"
    save_figure(figure, picture)
    quick = "" if request.quick_walks is None else " --quick-walks"
    write_atomically(
        request.out / "visualization.md",
        f"# Two-dimensional representations of {dataset}\n\nOne run of each method, colours are classes. HAT and "
        f"PoincaréEmb live in the Poincaré disk, the others in the plane. Made by `hgeo reproduce visualization{quick}`"
        ".\n\n![eight panels](visualization.png)\n",
    )
    return [str(picture)]


def timing(request: Request) -> list[str]:
    """Seconds of a training, and of a step by each of the paper's two sums."""
    cells = {method: timing_cell(what) for method, what in _hats_on_cora(request).items()}
    results = request.results(list(cells.values()))
    seconds, hours = (published()[name]["cora"] for name in ("seconds_to_converge", "hours_without_acceleration"))
    lines = [
        "# Time to train on Cora, d = 16", "",
        "CPU time of one thread, made by `hgeo reproduce timing`. Eq. 15 is the sum in the tangent space, eq. 11 the "
        "sequential Möbius sum. Their steps are compared in layers that walk once; a model that walks several steps, "
        "as the time to its early stop has it, takes longer. In brackets, what the paper measured on a GTX 1080 Ti.",
        "",
        "| model | epochs to early stop | s to early stop | test accuracy | ms a step, eq. 15 | ms a step, eq. 11 | "
        "s to early stop by eq. 11 |",
        "|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for method, cell in cells.items():
        result = results.get(cell.key)
        if result:
            lines.append(_timing_row(method, result, seconds, hours))
    write_atomically(request.out / "timing.md", "\n".join(lines) + "\n")
    found = {method: results.get(cell.key) for method, cell in cells.items()}
    write_atomically(request.out / "timing.json", json.dumps(found, indent=1) + "\n")
    return lines


def _timing_row(method: str, result: dict[str, Any], paper_seconds: float, paper_hours: float) -> str:
    cells = (
        method,
        str(result["epochs"]),
        f"{result['cpu_seconds']:.1f} ({paper_seconds})",
        f"{result['test_accuracy']:.3f}",
        f"{1e3 * result['step_accelerated']:.0f}",
        f"{1e3 * result['step_sequential']:.0f}",
        f"{result['epochs'] * result['step_sequential']:.0f}, estimated (not within {paper_hours} h)",
    )
    return f"| {' | '.join(cells)} |"
