"""Deep networks for the tests of training: 32 layers on one ball, and 32 layers that wander through every space.

:class:`Lanes` trains many of them at once: every parameter gets a leading axis, a lane a seed and learning rate, and
curvatures broadcast against the points. Each lane is an independent run of the very same layers.
"""

from __future__ import annotations

import copy
from itertools import cycle, islice, pairwise
from typing import Any

import torch
from torch import Tensor, nn

import hgeo
import hgeo.nn as hnn
from hgeo._geoopt import geoopt
from hgeo.nn._geometry import project

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


@torch.no_grad()
def check_everything_lies_on_its_manifold(net: hnn.Sequential, x: Tensor) -> None:
    """Parameters, and the output of every layer."""
    for name, parameter in net.named_parameters():
        assert torch.isfinite(parameter).all(), name
        manifold: Any = getattr(parameter, "manifold", None)
        if manifold is not None:
            hgeo.validate(manifold, parameter.data, name=name)
    for place, layer in enumerate(net):
        x = layer(x)
        if layer.manifold is not None:
            hgeo.validate(layer.manifold, x, name=f"output of layer {place}")
    assert torch.isfinite(x).all()


class Lanes:
    """Networks of one kind, trained side by side by Adam: Riemannian on points, with a learning rate a lane."""

    def __init__(self, network: str, depth: int, seeds: list[int], rates: list[float]) -> None:
        self.template = NETWORKS[network](depth)
        self.net = copy.deepcopy(self.template)
        single = []
        for seed in seeds:
            torch.manual_seed(seed)
            single.append(dict(NETWORKS[network](depth).named_parameters()))
        self.rates = torch.tensor(rates)
        self.points: list[Tensor] = []
        self.vectors: list[Tensor] = []
        for name, parameter in self.net.named_parameters():
            stacked = torch.stack([one[name].detach().as_subclass(Tensor) for one in single])
            if parameter.dim() == 0:
                stacked = stacked.view(-1, 1, 1)
            elif parameter.dim() == 1:
                stacked = stacked.unsqueeze(1)
            parameter.data = stacked
            (self.points if isinstance(parameter, geoopt.ManifoldParameter) else self.vectors).append(parameter)
        pairs = [data(seed) for seed in seeds]
        self.x, self.labels = torch.stack([x for x, _ in pairs]), torch.stack([labels for _, labels in pairs])
        self.first = {parameter: torch.zeros_like(parameter) for parameter in self.points + self.vectors}
        self.second = {parameter: torch.zeros_like(parameter) for parameter in self.vectors}
        self.second |= {parameter: torch.zeros(len(seeds), 1, 1) for parameter in self.points}
        self.steps = 0

    def step(self) -> Tensor:
        """One step of every lane; returns the losses before it."""
        for parameter in self.points + self.vectors:
            parameter.grad = None
        scores = self.net(self.x)[..., :CLASSES]
        losses = nn.functional.cross_entropy(scores.transpose(1, 2), self.labels, reduction="none").mean(-1)
        losses.sum().backward()
        self.steps += 1
        with torch.no_grad():
            self._adam()
        return losses.detach()

    def _adam(self) -> None:
        rate = self.rates.view(-1, 1, 1) * (1 - 0.999**self.steps) ** 0.5 / (1 - 0.9**self.steps)
        for parameter in self.vectors:
            if parameter.grad is None:
                continue
            self.first[parameter].lerp_(parameter.grad, 0.1)
            self.second[parameter].lerp_(parameter.grad.square(), 0.001)
            parameter -= rate * self.first[parameter] / (self.second[parameter].sqrt() + 1e-8)
        for point in self.points:
            manifold: Any = point.manifold  # type: ignore[attr-defined]
            place = point.data
            # the curvature may just have moved
            place = project(manifold, place)
            gradient = manifold.egrad2rgrad(place, point.grad)
            first = manifold.proju(place, self.first[point]).lerp(gradient, 0.1)
            self.second[point].lerp_(manifold.inner(place, gradient, keepdim=True), 0.001)
            direction = -rate * first / (self.second[point].clamp(min=0).sqrt() + 1e-8)
            moved, self.first[point] = manifold.retr_transp(place, direction, first)
            point.data = project(manifold, moved)

    def lane(self, number: int) -> hnn.Sequential:
        """The network of one lane."""
        net = copy.deepcopy(self.template)
        stacked = dict(self.net.named_parameters())
        with torch.no_grad():
            for name, parameter in net.named_parameters():
                parameter.copy_(stacked[name][number].reshape(parameter.shape))
        return net
