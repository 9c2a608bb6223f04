"""Train HAT and its flat relatives as `hgeo train` does without settings, on graphs that no recipe was made for.

    python benchmarks/recipes.py [--graphs NAME …] [--models NAME …] [--dim 16] [--seeds 5]

Blocks of nodes with links between them, made by a seed each: "uninformative" (neighbours of any class), "opposite"
(neighbours of the next class round), "tiny" (60 nodes), "featureless" (four columns of noise), "dense" (80 links a
node). Any other name is a data set of hgeo's. Half of the nodes are for training, a quarter each for validation and
test; every seed draws another graph.

Prints a line of JSON a graph and model: mean and standard error of the test accuracy, which recipes won, processor
seconds; then a table, and how far HAT is from the best of the others.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections import Counter
from typing import Any, NamedTuple

import numpy as np

from hgeo.data import Dataset, load, make_dataset
from hgeo.models import find
from hgeo.train import COMPETE, Job

FLAT = ("gcn", "gat", "sage", "mlp")


class Blocks(NamedTuple):
    """Nodes, classes, links a node, and of the links the share that leads to each class, counted from a node's own;
    ``signal`` is how far the class moves a node's features, ``width`` how many features there are."""

    nodes: int
    classes: int
    degree: int
    leads: tuple[float, ...]
    signal: float
    width: int


GRAPHS = {
    "uninformative": Blocks(800, 4, 6, (0.25, 0.25, 0.25, 0.25), 0.35, 32),
    "opposite": Blocks(800, 4, 6, (0.05, 0.85, 0.05, 0.05), 0.25, 32),
    "tiny": Blocks(60, 3, 4, (0.7, 0.15, 0.15), 0.4, 16),
    "featureless": Blocks(800, 4, 8, (0.7, 0.1, 0.1, 0.1), 0.0, 4),
    "dense": Blocks(800, 4, 80, (0.4, 0.2, 0.2, 0.2), 0.2, 32),
}


def blocks(name: str, seed: int) -> Dataset:
    """The graph of that name."""
    of = GRAPHS[name]
    random = np.random.default_rng([seed, of.nodes, of.degree])
    label = random.permutation(np.arange(of.nodes) % of.classes)
    source = np.repeat(np.arange(of.nodes), of.degree // 2)
    wanted = (label[source] + random.choice(of.classes, len(source), p=of.leads)) % of.classes
    members = [np.flatnonzero(label == one) for one in range(of.classes)]
    target = np.array([random.choice(members[one]) for one in wanted])
    middle = random.normal(size=(of.classes, of.width)) * of.signal
    features = middle[label] + random.normal(size=(of.nodes, of.width))
    train, val, test = np.split(random.permutation(of.nodes), [of.nodes // 2, 3 * of.nodes // 4])
    masks = {"train": train, "val": val, "test": test}
    return make_dataset(name, np.stack([source, target]), features, label, masks=masks)


def trained(graph: str, model: str, dim: int, seed: int) -> dict[str, Any]:
    """One run by the recipe that wins."""
    data = blocks(graph, seed) if graph in GRAPHS else load(graph, split_seed=seed)
    return Job(graph, model, find(model).space_for(None, dim), recipe=COMPETE, seed=seed).run(data)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graphs", nargs="+", default=list(GRAPHS))
    parser.add_argument("--models", nargs="+", default=["hat", *FLAT])
    parser.add_argument("--dim", type=int, default=16)
    parser.add_argument("--seeds", type=int, default=5)
    args = parser.parse_args()
    lines = [f"| graph | {' | '.join(args.models)} | HAT minus the best other |", "|---" * (len(args.models) + 2) + "|"]
    for graph in args.graphs:
        scores = {}
        for model in args.models:
            runs = [trained(graph, model, args.dim, seed) for seed in range(args.seeds)]
            scores[model] = [run["test_accuracy"] for run in runs]
            mean, error = spread(scores[model])
            won = Counter(run["recipe"] for run in runs)
            found = {"accuracy": round(mean, 4), "error": round(error, 4), "recipes": dict(won)}
            seconds = statistics.fmean(run["cpu_seconds"] for run in runs)
            print(json.dumps({"graph": graph, "model": model, **found, "cpu_seconds": round(seconds, 1)}), flush=True)
        cells = ["{:.3f} ± {:.3f}".format(*spread(values)) for values in scores.values()]
        others = [model for model in scores if model in FLAT]
        if "hat" in scores and others:
            best = max(others, key=lambda model: statistics.fmean(scores[model]))
            gaps = [one - other for one, other in zip(scores["hat"], scores[best], strict=True)]
            cells.append("{:+.3f} ± {:.3f} ({})".format(*spread(gaps), best))
        lines.append(f"| {graph} | {' | '.join(cells)} |")
    print("\n".join(lines))


def spread(values: list[float]) -> tuple[float, float]:
    """Mean and standard error."""
    error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    return statistics.fmean(values), error


if __name__ == "__main__":
    main()
