"""Embed a complete binary tree in the 2-ball by Riemannian Adam, and say how well.

    python benchmarks/tree_embedding.py [--depth 8] [--epochs 150] [--space ball:2] [--seed 0]

Two numbers: mean average precision of the edges among all nodes sorted by distance (1: every node's neighbours in the
tree are its nearest ones), and average distortion |r/median(r) - 1| of the ratios r = d_embedded/d_tree over all pairs
(a tree has no unit of length, so the median ratio is taken for one).
"""

from __future__ import annotations

import argparse
import json
import math
import time
from typing import NamedTuple

import geoopt
import torch
from torch import Tensor

import hgeo


class Embedding(NamedTuple):
    points: Tensor
    precision_at_start: float
    mean_average_precision: float
    average_distortion: float
    seconds: float


def binary_tree(depth: int) -> Tensor:
    """Edges (2, E) from parent to child of the complete binary tree with 2^(depth+1) - 1 nodes, the root being 0."""
    child = torch.arange(1, 2 ** (depth + 1) - 1)
    return torch.stack([(child - 1) // 2, child])


def tree_distances(edges: Tensor) -> Tensor:
    """Number of edges between any two nodes, (N, N). Parents must have smaller numbers than their children."""
    nodes = int(edges.max()) + 1
    distance = torch.zeros(nodes, nodes)
    for parent, child in edges.T.tolist():
        distance[child, :child] = distance[:child, child] = distance[parent, :child] + 1
    return distance


def mean_average_precision(distance: Tensor, edges: Tensor) -> float:
    """Mean over nodes, and over a node's neighbours y, of the share of neighbours among the nodes as near as y."""
    nodes = len(distance)
    adjacent = torch.zeros(nodes, nodes, dtype=torch.bool)
    adjacent[edges[0], edges[1]] = adjacent[edges[1], edges[0]] = True
    precision = []
    for node in range(nodes):
        row = distance[node].clone()
        row[node] = math.inf
        radius = row[adjacent[node]].unsqueeze(1)
        near = row <= radius
        precision.append(((near & adjacent[node]).sum(1) / near.sum(1)).mean())
    return float(torch.stack(precision).mean())


def drawing(depth: int, dim: int, step: float) -> Tensor:
    """A planar drawing: each node at a radius of ``step`` times its depth, in the middle of its share of the circle."""
    levels = []
    for level in range(depth + 1):
        width = 2**level
        angle = 2 * math.pi * (torch.arange(width) + 0.5) / width
        levels.append(level * step * torch.stack([angle.cos(), angle.sin()], dim=-1))
    return torch.nn.functional.pad(torch.cat(levels), (0, dim - 2))


def embed(
    depth: int = 8, *, space: str = "ball:2", sharpness: float = 8.0, epochs: int = 150, lr: float = 0.1, seed: int = 0
) -> Embedding:
    """Ask of every edge (u, v) that v be nearer to u than what is not adjacent to u, by a softmax of -sharpness · d.

    The start is a planar drawing of the tree that is too small: most nodes have others nearer than their parents. The
    optimiser has to find the radii and angles at which there is room for all. Its second moment has a short memory
    (0.9), because gradients shrink by orders of magnitude while the tree unfolds.
    """
    started = time.perf_counter()
    manifold, dim = hgeo.space(space)
    edges = binary_tree(depth)
    hops = tree_distances(edges)
    generator = torch.Generator().manual_seed(seed)
    start = drawing(depth, dim, 0.3) / hgeo.frame_scale(manifold)
    start = start * (1 + 0.01 * torch.randn(start.shape, generator=generator))
    points = geoopt.ManifoldParameter(hgeo.exp0(manifold, start).detach(), manifold=manifold)
    optimizer = hgeo.optim.riemannian_adam([points], lr=lr, betas=(0.9, 0.9))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)

    def distances() -> Tensor:
        return hgeo.dist(manifold, points.unsqueeze(0), points.unsqueeze(1))

    with torch.no_grad():
        before = mean_average_precision(distances(), edges)
    for _ in range(epochs):
        optimizer.zero_grad()
        score = -sharpness * distances()
        rivals = score.masked_fill(hops <= 1, -math.inf).logsumexp(1, keepdim=True)
        torch.nn.functional.softplus(rivals - score)[hops == 1].mean().backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        found = distances()
        ratio = (found / hops)[hops > 0]
        distortion = float((ratio / ratio.median() - 1).abs().mean())
    precision = mean_average_precision(found, edges)
    seconds = time.perf_counter() - started
    return Embedding(points.detach().as_subclass(Tensor), before, precision, distortion, seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--depth", type=int, default=8)
    parser.add_argument("--space", default="ball:2")
    parser.add_argument("--sharpness", type=float, default=8.0)
    parser.add_argument("--epochs", type=int, default=150)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=0)
    options = vars(parser.parse_args())
    result = embed(options.pop("depth"), **options)
    print(json.dumps({name: value for name, value in result._asdict().items() if name != "points"}))


if __name__ == "__main__":
    main()
