"""A small hyperbolic transformer: guess the masked steps of paths through a tree, on a space and on its flat twin.

    python examples/hyperbolic_transformer.py                    the hyperboloid, beside flat space
    python examples/hyperbolic_transformer.py ball:8,c=learn     another space

A path leads from the root to a leaf. Some of its steps are hidden; those that are shown say where it must have gone on
the way to them, and leave open where it went on. The page shows how the layers fit together, not that curvature pays:
after 600 steps the flat twin guesses .94 of the steps that follow from later ones, the hyperboloid .68.
"""

import argparse

import torch
import torch.nn.functional as F

import hgeo
from hgeo import nn
from hgeo.models import flat_twin

DEPTH, BRANCHES = 5, 3
NODES = sum(BRANCHES**level for level in range(DEPTH + 1))
MASK = NODES  # a token that stands for a hidden step


class Block(torch.nn.Module):
    """Attention among the steps of a path, then a map of each step alone, with a skip connection around both."""

    def __init__(self, dim, manifold):
        super().__init__()
        self.attention = nn.SetAttention(dim, manifold, heads=2)
        self.alone = nn.Sequential(
            nn.Linear(dim, 2 * dim, manifold),
            nn.Activation(torch.tanh, manifold),
            nn.Linear(2 * dim, dim, manifold),
        )
        self.skip = torch.nn.ModuleList([nn.Residual(manifold), nn.Residual(manifold)])

    def forward(self, x):
        x = self.skip[0](x, self.attention(x))
        return self.skip[1](x, self.alone(x))


class Transformer(torch.nn.Module):
    def __init__(self, space, blocks=2):
        super().__init__()
        manifold, dim = hgeo.space(space)
        self.manifold = manifold
        self.tokens = nn.Embedding(NODES + 1, dim, manifold, std=0.3, sparse=False)
        self.places = nn.Embedding(DEPTH + 1, dim, manifold, std=0.3, sparse=False)
        self.blocks = torch.nn.Sequential(*[Block(dim, manifold) for _ in range(blocks)])
        self.out = nn.CentroidClassifier(dim, NODES, manifold)

    def forward(self, paths):
        place = torch.arange(paths.shape[1]).expand_as(paths)
        x = hgeo.manifolds.translate(self.manifold, self.places(place), self.tokens(paths))
        return self.out(self.blocks(x))


def draw_paths(count, generator):
    """(count, DEPTH + 1) nodes from the root to a leaf; the children of node n are BRANCHES n + 1, …"""
    paths = torch.zeros(count, DEPTH + 1, dtype=torch.long)
    for level in range(DEPTH):
        step = torch.randint(BRANCHES, (count,), generator=generator)
        paths[:, level + 1] = BRANCHES * paths[:, level] + 1 + step
    return paths


def train(space, steps):
    """The share of the hidden steps that are guessed right, where a later step is shown, which leaves one answer."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    model = Transformer(space)
    optimizer = hgeo.optim.riemannian_adam(model, lr=0.01)
    for step in range(steps + 1):
        paths = draw_paths(128, generator)
        hidden = torch.rand(paths.shape, generator=generator) < 0.4
        logits = model(paths.masked_fill(hidden, MASK))
        if step == steps:
            shown_later = (~hidden).flip(1).cumsum(1).flip(1) > 0
            known = hidden & shown_later
            return (logits.argmax(-1) == paths)[known].float().mean().item()
        loss = F.cross_entropy(logits[hidden], paths[hidden])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def main(space="lorentz:8", smoke=False):
    steps = 5 if smoke else 600
    for where in (space, flat_twin(space)):
        print(f"{where:<14} {train(where, steps):.3f} of the hidden steps that follow from later ones are right")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("space", nargs="?", default="lorentz:8", help="where the steps live (default: lorentz:8)")
    parser.add_argument("--smoke", action="store_true", help="a few steps, to see that it runs")
    main(**vars(parser.parse_args()))
