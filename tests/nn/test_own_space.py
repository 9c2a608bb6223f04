"""The half-space of ``examples/half_space.py``: a user's space in one file works wherever hgeo takes a space."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from layer_table import DIM, LAYERS, ROWS, example

import hgeo
from hgeo.testing import check_manifold
from hgeo.train import curvatures, inspect
from hgeo.viz import embedding_panels

EXAMPLE = Path(__file__).parents[2] / "examples" / "half_space.py"
# These ask for factors and for coordinates that may move freely.
NOT_OFFERED = ("Linear factors", "Activation point")


def load() -> ModuleType:
    found = sys.modules.get("half_space")
    if found is not None:
        return found
    spec = importlib.util.spec_from_file_location("half_space", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["half_space"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


half_space = load()


def half(c: float = 0.7) -> hgeo.manifolds.Space:
    return half_space.HalfSpace(c, learnable=True)


def points(manifold: object, *shape: int, seed: int = 0) -> torch.Tensor:
    v = torch.randn(*shape, DIM, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return hgeo.exp0(manifold, v).detach()


def test_the_file_is_short() -> None:
    assert len(EXAMPLE.read_text().splitlines()) <= 80


@pytest.mark.parametrize("name", [name for name in LAYERS if name not in NOT_OFFERED])
def test_every_layer_that_its_operations_allow_works_on_it(name: str) -> None:
    torch.manual_seed(0)
    manifold = half()
    layer = LAYERS[name].make(manifold)
    y = LAYERS[name].call(layer, example(name, manifold))
    y.square().sum().backward()
    assert torch.isfinite(y).all()
    if LAYERS[name].gives == "points":
        hgeo.validate(manifold, y.detach())
    assert all(p.grad is None or torch.isfinite(p.grad).all() for p in layer.parameters())


@pytest.mark.parametrize("name", NOT_OFFERED)
def test_a_layer_that_asks_for_more_says_so(name: str) -> None:
    with pytest.raises(ValueError, match=name.split()[0]):
        LAYERS[name].make(half())


@pytest.mark.parametrize("name", ["Linear", "MLR", "Midpoint", "HATConv"])
def test_layers_compile_on_it_in_one_graph(name: str) -> None:
    torch.manual_seed(0)
    manifold = half()
    layer, x = LAYERS[name].make(manifold), example(name, manifold)
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: LAYERS[name].call(layer, x), fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(x), LAYERS[name].call(layer, x))


@pytest.mark.parametrize("how", ["gyro", "frechet"])
def test_its_means_are_those_of_the_ball(how: str) -> None:
    manifold, ball = half_space.HalfSpace(0.7).double(), hgeo.PoincareBall(c=0.7).double()
    move = hgeo.nn.Transfer(manifold, ball, how="isometry")
    x = points(manifold, ROWS)
    mine, theirs = hgeo.nn.Midpoint(manifold, how)(x), hgeo.nn.Midpoint(ball, how)(move(x))
    torch.testing.assert_close(move(mine), theirs)


def test_its_hyperplanes_are_those_of_the_ball() -> None:
    manifold, ball = half_space.HalfSpace(0.7).double(), hgeo.PoincareBall(c=0.7).double()
    move = hgeo.nn.Transfer(manifold, ball, how="isometry")
    mine, theirs = hgeo.nn.MLR(DIM, 3, manifold).double(), hgeo.nn.MLR(DIM, 3, ball).double()
    with torch.no_grad():
        mine.point.copy_(points(manifold, 3, seed=1))
        theirs.point.copy_(move(mine.point.as_subclass(torch.Tensor)))
        mine.normal.copy_(2 * theirs.normal)  # a unit coordinate is half as long here
    x = points(manifold, ROWS)
    torch.testing.assert_close(mine(x), theirs(move(x)))


def test_attention_on_it_is_that_of_the_hyperboloid() -> None:
    manifold, hyperboloid = half_space.HalfSpace(0.7).double(), hgeo.Lorentz(c=0.7).double()
    mine, theirs = (hgeo.nn.HATConv(8, DIM, m, heads=2, backend="reference").double() for m in (manifold, hyperboloid))
    theirs.load_state_dict({**theirs.state_dict(), "weight": mine.weight})
    edges, x = torch.tensor([[0, 1, 2, 3], [1, 2, 0, 0]]), torch.randn(4, 8, dtype=torch.float64)
    y, z = mine(edges, x), theirs(edges, x)
    torch.testing.assert_close(hgeo.log0(manifold, y), hgeo.log0(hyperboloid, z))


def test_its_word_makes_it_part_of_space_strings() -> None:
    space, dim = hgeo.space("half:2,c=0.5,learn x sphere:3")
    assert dim == 5
    assert hgeo.manifolds.describe(space) == "half:2,c=0.5,learn x sphere:3"
    with pytest.raises(ValueError, match="expected one of ball, euclidean, half, klein"):
        hgeo.space("hal:2")


def test_the_monitor_sees_its_curvature_and_its_edge() -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = hgeo.nn.GCNConv(3, 2, half(0.5), bias="none", activation=None)

        def forward(self, graph: object, x: torch.Tensor) -> torch.Tensor:
            return self.conv(graph, x)

    model, edges = Model(), torch.tensor([[0, 1], [1, 0]])
    assert curvatures(model) == [-0.5]
    assert inspect(model, edges, torch.randn(2, 3)).at_limit == 0.0
    assert inspect(model, edges, 1e4 * torch.randn(2, 3)).at_limit == 1.0


def test_its_picture_is_the_poincare_disk() -> None:
    manifold = half_space.HalfSpace(0.7).double()
    x = hgeo.exp0(manifold, torch.randn(5, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0)))
    disk = embedding_panels(x, manifold)[0].points
    expected = hgeo.dist(manifold, x, x.flip(0)) * 0.7**0.5
    torch.testing.assert_close(hgeo.math.dist(disk, disk.flip(0), k=-1.0), expected)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_it_obeys_every_law_that_its_operations_allow(dtype: torch.dtype) -> None:
    report = check_manifold(half_space.HalfSpace(0.5), dtype=dtype)
    assert report.passed, str(report)
    assert sum(result.verdict == "pass" for result in report.results) > 35


def test_the_command_line_trains_on_a_space_that_a_plugin_brings(tmp_path: Path) -> None:
    path = os.pathsep.join([str(EXAMPLE.parent), str(EXAMPLE.parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "HGEO_PLUGINS": "half_space"}
    command = [sys.executable, "-m", "hgeo", "train", "--dataset", "karate", "--space", "half:2", "--epochs", "3"]
    done = subprocess.run([*command, "--out", str(tmp_path)], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    line = next(iter(tmp_path.rglob("metrics.jsonl"))).read_text().splitlines()[-1]
    assert json.loads(line)["curvatures"] == [-1.0, -1.0]
