"""Four ways to show many dimensions in a disk, scored: python docs/figures/projections.py RUN... FILE.npz... > PAGE."""

import math
import sys

import numpy as np
import torch
from scipy.stats import spearmanr

import hgeo
from hgeo.manifolds import parts, translate_back
from hgeo.train import embed, load_run, load_vectors

BALL = hgeo.PoincareBall(c=1.0).double()
SAMPLE, NEAR = 1500, 15


def centred(points, manifold):
    """The points of a hyperbolic space on the ball of curvature -1, their Fréchet mean at 0."""
    vectors = hgeo.log0(manifold, points.detach().double())
    (part,) = parts(manifold, vectors.shape[1])
    x = hgeo.exp0(BALL, vectors * (part.scale * math.sqrt(-float(part.curvature)) / 2))
    return translate_back(BALL, hgeo.nn.Midpoint(BALL, how="frechet")(x), x)


def methods(x):
    """Name -> points (N, 2) of the disk."""
    u = 2 * hgeo.math.logmap0(x, k=-1.0)
    length = u.norm(dim=1, keepdim=True).clamp(min=1e-12)
    s = u / length * length.sinh()  # the spatial coordinates of the hyperboloid
    flat, plane, wide = (
        rows @ torch.linalg.svd(by, full_matrices=False)[2][:2].T for rows, by in ((u, u), (s, u), (s, s))
    )
    short = flat.norm(dim=1, keepdim=True).clamp(min=1e-12)
    return {
        "tangent PCA": flat / short * (short / 2).tanh(),
        "polar tangent PCA: its directions, the true distance to the mean": flat / short * (length / 2).tanh(),
        "closest points of the plane of tangent PCA": plane / (1 + (1 + plane.square().sum(1, keepdim=True)).sqrt()),
        "PCA on the hyperboloid, closest points": wide / (1 + (1 + wide.square().sum(1, keepdim=True)).sqrt()),
    }


def scores(x, y):
    chosen = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))[:SAMPLE]
    far, shown = (hgeo.cdist(BALL, z[chosen], z[chosen]) for z in (x, y))
    upper = torch.triu_indices(len(chosen), len(chosen), 1)
    a, b = (d[upper[0], upper[1]].numpy() for d in (far, shown))
    rank = far.argsort(1).argsort(1).numpy()
    near = shown.argsort(1)[:, 1 : NEAR + 1].numpy()
    count = len(chosen)
    intruders = np.maximum(rank[np.arange(count)[:, None], near] - NEAR, 0).sum()
    trust = 1 - 2 / (count * NEAR * (2 * count - 3 * NEAR - 1)) * intruders
    return spearmanr(a, b).statistic, math.sqrt(((a - b) ** 2).sum() / (a**2).sum()), trust


def main(names):
    print("# Many dimensions in a disk\n\nMade by\n\n```")
    print("hgeo train --dataset cora --space ball:16 --out runs/cora")
    print("hgeo train --dataset pubmed --space lorentz:16 --out runs/pubmed")
    print("hgeo embed mammals.tsv --closure --space lorentz:10 --alone --out runs/mammals")
    print(f"python docs/figures/projections.py {' '.join(names)} > docs/results/projection.md\n```\n")
    print(
        "Each is moved to its Fréchet mean first. Rank correlation and relative error of the distances of all pairs of "
        f"{SAMPLE} nodes, and trustworthiness: whether the {NEAR} nearest in the picture are near (1 if all are).\n"
    )
    print("| embedding | method | rank correlation | relative error | trustworthiness |\n|---|---|---|---|---|")
    for name in names:
        if name.endswith(".npz"):
            found = load_vectors(name)
            x = centred(found.points, found.manifold)
        else:
            model, dataset, _ = load_run(name)
            x = centred(embed(model, dataset), model.hidden_manifold)
        for method, y in methods(x).items():
            print(f"| {name} | {method} | " + " | ".join(f"{value:.3f}" for value in scores(x, y)) + " |")


if __name__ == "__main__":
    main(sys.argv[1:])
