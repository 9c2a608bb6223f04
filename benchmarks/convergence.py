"""Does Riemannian Adam arrive? Fréchet means on every manifold, and curvatures learned back from distances.

    python benchmarks/convergence.py

Prints a line of JSON an experiment, in float64:

- the distance between the mean of 1,000 points that Adam finds and the one that the fixed-point iteration
  m ← exp_m(average of log_m(x)) finds, which has nothing to do with an optimiser;
- the curvature that Adam finds from distances that were made with a known one, starting at c = 0.5.
"""

from __future__ import annotations

import json
import math
from typing import Any

import geoopt
import torch
from torch import Tensor

import hgeo
from hgeo.optim import riemannian_adam

SPACES = (
    "ball:3",
    "ball:3,c=0",
    "stereo:3,k=0.5",
    "sproj:3",
    "lorentz:3",
    "klein:3",
    "sphere:3",
    "euclidean:3",
    "ball:2 x sphere:2 x euclidean:1",
    "ball:2 x (lorentz:1 x sphere:2)",
    "1.5·(ball:3)",
)

# Distances fix a curvature only up to the coordinates that are held: those of the ball, or of Klein's ball, or the
# spatial ones of the hyperboloid.
MODELS = {"ball": hgeo.PoincareBall, "lorentz": hgeo.Lorentz, "klein": hgeo.manifolds.Klein}
CURVATURES = [("ball", 0.0), *[(model, c) for model in MODELS for c in (0.1, 1.0, 10.0)]]


def make_space(text: str) -> tuple[Any, int]:
    """A space string, or one of the two spaces above that no string can say."""
    if text == SPACES[-1]:
        return geoopt.Scaled(hgeo.PoincareBall(), 1.5), 3
    if text == SPACES[-2]:
        return hgeo.Product((hgeo.PoincareBall(), 2), (hgeo.space("lorentz:1 x sphere:2").manifold, 3)), 5
    return hgeo.space(text)


def plain_mean(manifold: Any, x: Tensor, mean: Tensor) -> Tensor:
    """The mean by m ← exp_m(average of log_m(x)); of products factor by factor."""
    if isinstance(manifold, geoopt.ProductManifold):
        pieces = zip(_pieces(manifold, x), _pieces(manifold, mean), strict=True)
        return torch.cat([plain_mean(factor, part, start) for (factor, part), (_, start) in pieces], -1)
    for _ in range(60):
        mean = manifold.expmap(mean, manifold.logmap(mean.expand_as(x), x).mean(0))
    return mean


def _pieces(manifold: Any, x: Tensor) -> list[tuple[Any, Tensor]]:
    return [(factor, x[..., part]) for factor, part in hgeo.manifolds.factors(manifold) or []]


def mean_error(space: str, points: int = 1000, steps: int = 300, seed: int = 0) -> float:
    """How far from the Fréchet mean Adam ends."""
    manifold, dim = make_space(space)
    generator = torch.Generator().manual_seed(seed)
    v = torch.randn(points, dim, dtype=torch.float64, generator=generator) * 0.25 + 0.1
    x = hgeo.exp0(manifold, v).detach()
    start = hgeo.exp0(manifold, torch.full((dim,), -0.2, dtype=torch.float64)).detach()
    mean = geoopt.ManifoldParameter(start.clone(), manifold=manifold)
    optimizer = riemannian_adam([mean], lr=0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        optimizer.zero_grad()
        (hgeo.dist(manifold, mean.expand_as(x), x) ** 2).mean().backward()
        optimizer.step()
        schedule.step()
    found = mean.detach().as_subclass(Tensor)
    return float(hgeo.dist(manifold, found, plain_mean(manifold, x, start)))


def learned_curvature(model: str, c: float, start: float = 0.5, steps: int = 300, seed: int = 0) -> float:
    """The c that Adam finds from 30 distances between points of known coordinates."""
    make: Any = MODELS[model]
    generator = torch.Generator().manual_seed(seed)
    u = torch.randn(60, 3, dtype=torch.float64, generator=generator)
    u = u / u.norm(dim=-1, keepdim=True) * torch.rand(60, 1, dtype=torch.float64, generator=generator)
    u = 0.6 / math.sqrt(max(c, 1.0)) * u

    def pairs(manifold: Any) -> Tensor:
        x = torch.cat([torch.ones_like(u[:, :1]), 3 * u], -1) if model == "lorentz" else u
        x = manifold.projx(x)
        return hgeo.dist(manifold, x[:30], x[30:])

    wanted = pairs(make(torch.tensor(c, dtype=torch.float64))).detach()
    manifold = make(torch.tensor(start, dtype=torch.float64), learnable=True)
    optimizer = riemannian_adam(manifold, lr=0.5)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        optimizer.zero_grad()
        (pairs(manifold) / wanted - 1).square().mean().backward()
        optimizer.step()
        schedule.step()
    return float(manifold.c.detach())


def main() -> None:
    for space in SPACES:
        result = {"mean on": space, "error": float(f"{mean_error(space):.2g}")}
        print(json.dumps(result, ensure_ascii=False), flush=True)
    for model, c in CURVATURES:
        print(
            json.dumps({"curvature on": model, "true": c, "found": round(learned_curvature(model, c), 6)}), flush=True
        )


if __name__ == "__main__":
    main()
