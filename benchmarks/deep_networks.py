"""Train networks of 32 curved layers in float32, from many seeds at once, and say whether they stay well.

    python benchmarks/deep_networks.py [--network ball|mixed] [--depth 32] [--steps 1000] [--seeds 20] [--rates 0.1 …]

Two networks: one on a single ball, and one that wanders ball → sphere → hyperboloid → Euclidean → product → … with a
curvature of its own in each place. All curvatures are learned, at the learning rate of the weights. The features are
random and so are the labels, so that nothing but fitting by heart lowers the loss.

Prints a line of JSON a learning rate: losses at the beginning (mean) and at the end (least, median, largest of seeds),
the range of the learned curvatures, and the share of hidden points at the radius limit of float32. A NaN, or a
parameter or layer's output that is not on its manifold, is an error that says where.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
from collections.abc import Iterator
from itertools import cycle, islice, pairwise
from typing import Any

import torch
from torch import Tensor, nn

import hgeo
import hgeo.nn as hnn
from hgeo.optim import parameter_roles, riemannian_adam

WIDTH, FEATURES, CLASSES, ROWS = 6, 8, 3, 24
WANDER = (
    "ball:6,c=learn",
    "sphere:6",
    "lorentz:6,c=learn",
    "euclidean:6",
    "ball:2,c=learn x sphere:2 x lorentz:1,c=learn x euclidean:1",
    "stereo:6,k=learn",
    "sproj:6,k=learn",
)


def _network(spaces: list[Any]) -> hnn.Sequential:
    layers: list[nn.Module] = [hnn.Linear(FEATURES, WIDTH, spaces[0], in_manifold=None)]
    for place, (source, target) in enumerate(pairwise(spaces)):
        if place % 4 == 3:
            layers.append(hnn.Activation(torch.nn.functional.elu, source))
        layers.append(hnn.Linear(WIDTH, WIDTH, target, in_manifold=source))
    return hnn.Sequential(*layers, hnn.FromManifold(spaces[-1]))


def ball_network(depth: int) -> hnn.Sequential:
    """``depth`` linear layers on one ball of learnable curvature, an ELU after every fourth."""
    return _network([hgeo.PoincareBall(c=1.0, learnable=True)] * depth)


def mixed_network(depth: int) -> hnn.Sequential:
    """The same where every linear layer leads to the next space of a round trip, each with a curvature of its own."""
    return _network([hgeo.space(text).manifold for text in islice(cycle(WANDER), depth)])


NETWORKS = {"ball": ball_network, "mixed": mixed_network}


def data(seed: int) -> tuple[Tensor, Tensor]:
    """Random features and labels."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(ROWS, FEATURES, generator=generator), torch.randint(CLASSES, (ROWS,), generator=generator)


def loss_of(scores: Tensor, labels: Tensor) -> Tensor:
    """Cross entropy of scores (lanes, rows, numbers), one a lane."""
    return nn.functional.cross_entropy(scores[..., :CLASSES].mT, labels, reduction="none").mean(-1)


@torch.no_grad()
def check_everything_lies_on_its_manifold(net: hnn.Sequential, x: Tensor) -> None:
    """Parameters, and the output of every layer."""
    for name, parameter in net.named_parameters():
        if not torch.isfinite(parameter).all():
            raise ValueError(f"{name} is not finite")
        manifold: Any = getattr(parameter, "manifold", None)
        if manifold is not None:
            hgeo.validate(manifold, parameter.data, name=name)
    for place, layer in enumerate(net):
        x = layer(x)
        if layer.manifold is not None:
            hgeo.validate(layer.manifold, x, name=f"output of layer {place}")
    if not torch.isfinite(x).all():
        raise ValueError("the scores are not finite")


class Lanes:
    """Networks of one kind, a lane a learning rate and seed, trained side by side by ``riemannian_adam``.

    Every parameter gets a leading axis, a curvature broadcasts against the points of its lane. The layers, the
    optimiser and the maths are those of a single network, and nothing mixes lanes: each is an independent run. There is
    an optimiser a rate; forward and backward passes go through all lanes at once.
    """

    def __init__(
        self, network: str, depth: int, seeds: list[int], rates: list[float], dtype: Any = torch.float32
    ) -> None:
        self._template = NETWORKS[network](depth).to(dtype)
        self.rates, self.seeds = rates, seeds
        self.nets = [self._stacked(network, depth, dtype) for _ in rates]
        self._optimizers = [riemannian_adam(net, lr=rate) for net, rate in zip(self.nets, rates, strict=True)]
        pairs = [data(seed) for _ in rates for seed in seeds]
        self.x = torch.stack([x for x, _ in pairs]).to(dtype)
        self.labels = torch.stack([labels for _, labels in pairs])

    def _stacked(self, network: str, depth: int, dtype: Any) -> hnn.Sequential:
        """A network whose parameters are those of all seeds."""
        single = []
        for seed in self.seeds:
            torch.manual_seed(seed)
            single.append(dict(NETWORKS[network](depth).to(dtype).named_parameters()))
        net = copy.deepcopy(self._template)
        for name, parameter in net.named_parameters():
            stacked = torch.stack([one[name].detach().as_subclass(Tensor) for one in single])
            if parameter.dim() < 2:  # a curvature or a bias, to broadcast against (lanes, rows, numbers)
                stacked = stacked.view(len(self.seeds), 1, -1)
            parameter.data = stacked
        return net

    def parameters(self) -> dict[str, Tensor]:
        """Each parameter of the network, of all lanes."""
        named = [dict(net.named_parameters()) for net in self.nets]
        return {name: torch.cat([one[name].as_subclass(Tensor) for one in named]) for name in named[0]}

    def scores(self) -> Tensor:
        """Of every lane on its own data, (lanes, rows, numbers)."""
        # A shared manifold is one module under many names: swapped under its first name, it is swapped under all.
        return torch.func.functional_call(self._template, self.parameters(), (self.x,), tie_weights=False)

    def step(self) -> Tensor:
        """One step of every lane; returns the losses before it, (rates, seeds)."""
        for optimizer in self._optimizers:
            optimizer.zero_grad()
        losses = loss_of(self.scores(), self.labels)
        losses.sum().backward()
        for optimizer in self._optimizers:
            optimizer.step()
        return losses.detach().view(len(self.rates), len(self.seeds))

    def lanes(self) -> Iterator[hnn.Sequential]:
        """The network of each lane, by rate and seed."""
        everything = self.parameters()
        for number in range(len(self.x)):
            net = copy.deepcopy(self._template)
            with torch.no_grad():
                for name, parameter in net.named_parameters():
                    parameter.copy_(everything[name][number].reshape(parameter.shape))
            yield net

    def check(self) -> None:
        """Look at every parameter and every layer's output of every lane."""
        for net, x in zip(self.lanes(), self.x, strict=True):
            check_everything_lies_on_its_manifold(net, x)


def train(
    network: str, depth: int, seeds: list[int], rates: list[float], steps: int, look_every: int = 200
) -> list[dict[str, Any]]:
    """Train and look: at all losses in every step, at every number every ``look_every`` steps and at the end."""
    lanes = Lanes(network, depth, seeds, rates)
    first = last = torch.zeros(0)
    for step in range(steps):
        last = lanes.step()
        first = last if step == 0 else first
        for rate, losses in zip(rates, last, strict=True):
            if not torch.isfinite(losses).all():
                raise ValueError(f"{network}, rate {rate:g}, step {step}: losses {losses.tolist()}")
        if (step + 1) % look_every == 0 or step + 1 == steps:
            lanes.check()
            print(f"{network}: step {step + 1}, mean losses {last.mean(1).tolist()}", file=sys.stderr)
    results = []
    share = _share_at_the_limit(lanes).view(len(rates), len(seeds)).mean(1)
    for place, rate in enumerate(rates):
        curvatures = torch.cat([p.detach().flatten() for p in parameter_roles(lanes.nets[place]).curvatures])
        after = last[place]
        result: dict[str, Any] = {"network": network, "rate": rate, "seeds": len(seeds), "steps": steps}
        result["loss_before"] = round(float(first[place].mean()), 4)
        result["loss_after"] = [round(float(value), 4) for value in (after.min(), after.median(), after.max())]
        result["curvature"] = [round(float(value), 4) for value in (curvatures.min(), curvatures.max())]
        result["at_the_limit"] = round(float(share[place]), 4)
        results.append(result)
    return results


@torch.no_grad()
def _share_at_the_limit(lanes: Lanes) -> Tensor:
    """Of the hidden points on balls, those that no float32 could put further out; a number a lane."""
    limit, shares = 1 - 2 * hgeo.math.boundary_margin(torch.float32), []
    for net, x in zip(lanes.lanes(), lanes.x, strict=True):
        counts = []
        for layer in net:
            x = layer(x)
            if isinstance(layer.manifold, hgeo.PoincareBall):
                counts.append((layer.manifold.c.sqrt() * x.norm(dim=-1) >= limit).float().mean())
        shares.append(torch.stack(counts).mean())
    return torch.stack(shares)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", choices=sorted(NETWORKS), help="default: both")
    parser.add_argument("--rates", type=float, nargs="+", default=[1e-3, 1e-2, 1e-1])
    parser.add_argument("--depth", type=int, default=32)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=20)
    given = parser.parse_args()
    for network in [given.network] if given.network else sorted(NETWORKS):
        for result in train(network, given.depth, list(range(given.seeds)), given.rates, given.steps):
            print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
