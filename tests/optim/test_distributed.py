"""Two processes step as one."""

import os
import socket

import geoopt
import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import hgeo
from hgeo.optim import riemannian_adam

STEPS = 5


class Net(nn.Module):
    """Weights, points and curvatures, all of which meet in the loss."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.linear = nn.Linear(4, 2)
        self.ball = hgeo.PoincareBall(0.7, learnable=True)
        self.lorentz = hgeo.Lorentz(1.2, learnable=True)
        self.on_ball = geoopt.ManifoldParameter(self.ball.expmap0(torch.randn(2) * 0.3).detach(), manifold=self.ball)
        point = hgeo.exp0(self.lorentz, torch.randn(2) * 0.3).detach()
        self.on_lorentz = geoopt.ManifoldParameter(point, manifold=self.lorentz)

    def forward(self, x):
        v = self.linear(x)
        first, second = hgeo.exp0(self.ball, v), hgeo.exp0(self.lorentz, v)
        on_ball = hgeo.dist(self.ball, first, self.on_ball.expand_as(first))
        return on_ball.square() + hgeo.dist(self.lorentz, second, self.on_lorentz.expand_as(second)).square()


def batches():
    return torch.randn(STEPS, 8, 4, generator=torch.Generator().manual_seed(5))


def train(model, rows):
    optimizer = riemannian_adam(model, lr=0.05, curvature_lr=0.02, weight_decay=1e-3, max_grad_norm=5.0)
    for batch in batches():
        optimizer.zero_grad()
        model(batch[rows]).mean().backward()
        optimizer.step()


def numbers(net):
    return torch.cat([p.detach().as_subclass(torch.Tensor).flatten() for p in net.parameters()])


def one_process(rank, port, folder):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=2)
    try:
        net = Net()
        train(DistributedDataParallel(net), slice(4 * rank, 4 * rank + 4))
        torch.save(numbers(net), os.path.join(folder, f"{rank}.pt"))
    finally:
        dist.destroy_process_group()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def test_two_processes_agree_bit_by_bit_and_with_one_process_within_rounding(tmp_path):
    mp.spawn(one_process, args=(free_port(), str(tmp_path)), nprocs=2)
    first, second = (torch.load(tmp_path / f"{rank}.pt") for rank in (0, 1))
    assert torch.equal(first, second)
    alone = Net()
    start = numbers(alone).clone()
    train(alone, slice(0, 8))
    assert (numbers(alone) - start).abs().min() > 1e-4  # everything moved, curvatures included
    torch.testing.assert_close(first, numbers(alone), rtol=1e-5, atol=1e-6)


class HiddenManifold(nn.Module):
    def __init__(self):
        super().__init__()
        self.point = geoopt.ManifoldParameter(torch.zeros(2), manifold=hgeo.PoincareBall(learnable=True))


def test_a_curvature_that_would_not_be_synchronised_is_refused(tmp_path):
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/rendezvous", rank=0, world_size=1)
    try:
        with pytest.raises(ValueError, match=r"hangs on a ManifoldParameter only.*self\.manifold = manifold"):
            riemannian_adam(DistributedDataParallel(HiddenManifold()))
    finally:
        dist.destroy_process_group()
