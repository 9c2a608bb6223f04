"""As the curvature goes to 0 every layer becomes the Euclidean layer of the same definition, in value and gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from layer_table import EDGES, GRAPH_OF_ROW, ROWS, call
from torch import Tensor
from torch.nn import functional as F

import hgeo
import hgeo.nn as hnn
from hgeo._geoopt import geoopt

IN, OUT = 3, 4


def adjacency(norm: str) -> Tensor:
    """Dense a_ij, with self-loops."""
    a = torch.eye(ROWS, dtype=torch.float64)
    a[EDGES[1], EDGES[0]] = 1
    inside, outside = a.sum(1), a.sum(0)
    return a / (inside[:, None] * outside).sqrt() if norm == "sym" else a / inside[:, None] if norm == "mean" else a


def flat_gcn(layer: Any, x: Tensor) -> Tensor:
    a = adjacency(layer.norm)
    total = a @ (x @ layer.weight.T + layer.bias)
    return torch.relu(total / a.sum(1, keepdim=True) if layer.aggregate == "midpoint" else total)


def flat_gate(layer: Any, x: Tensor) -> Tensor:
    y = F.linear(2 * x, layer.weight, layer.bias)
    return F.normalize(y[:, :-1], dim=1) * torch.acosh(1.1 + layer.log_reach.exp() * y[:, -1:].sigmoid()) / 2


def flat_sage(layer: Any, x: Tensor) -> Tensor:
    a = torch.zeros(ROWS, ROWS, dtype=torch.float64).index_put((EDGES[1], EDGES[0]), torch.tensor(1.0).double())
    mean = a / a.sum(1, keepdim=True).clamp(min=1) @ x
    return torch.relu(x @ layer.weight_self.T + mean @ layer.weight.T + layer.bias)


def flat_lorentz(layer: Any, x: Tensor) -> Tensor:
    a, y = adjacency(layer.weights), torch.tanh(F.linear(2 * x, layer.linear.weight, layer.linear.bias))
    return a @ y / a.sum(1, keepdim=True) / 2


def flat_attention(layer: Any, x: Tensor) -> Tensor:
    q, k, v = layer.inner(2 * x).chunk(3, dim=-1)
    scores = -layer.log_scale.exp() / 2 * (q[:, None] - k).square().sum(-1)
    return layer.outer(scores.softmax(1) @ v) / 2


def flat_batch_norm(layer: Any, x: Tensor) -> Tensor:
    centred = x - x.mean(0)
    variance = 4 * centred.square().sum(-1).mean()
    return layer.gain * centred / torch.sqrt(variance + layer.eps) + layer.point


def flat_centroids(layer: Any, x: Tensor) -> Tensor:
    squares = 4 * (x[:, None] - layer.centroids).square().sum(-1)
    return -layer.log_beta.exp() * squares


def flat_decoder(layer: Any, x: Tensor) -> Tensor:
    return torch.sigmoid((layer.r - 4 * (x[EDGES[0]] - x[EDGES[1]]).square().sum(-1)) / layer.log_t.exp())


def means(how: str) -> dict[str, tuple[Callable[[Any], Any], Callable[[Any, Tensor], Tensor]]]:
    member = F.one_hot(GRAPH_OF_ROW).double().T
    shares = member / member.sum(1, keepdim=True)
    return {
        f"Midpoint {how}": (lambda m: hnn.Midpoint(m, how=how), lambda layer, x: x.mean(0)),
        f"Pool {how}": (lambda m: hnn.Pool(m, how=how), lambda layer, x: shares @ x),
        f"BatchNorm {how}": (lambda m: hnn.BatchNorm(IN, m, mean=how), flat_batch_norm),
    }


# name -> the layer on a manifold, and the Euclidean layer with the same parameters
LIMITS: dict[str, tuple[Callable[[Any], Any], Callable[[Any, Tensor], Tensor]]] = {
    "ToManifold": (hnn.ToManifold, lambda layer, x: x),
    "FromManifold": (hnn.FromManifold, lambda layer, x: x),
    "Linear": (lambda m: hnn.Linear(IN, OUT, m), lambda layer, x: F.linear(x, layer.weight, layer.bias)),
    "Linear lorentz": (
        lambda m: hnn.Linear(IN, OUT, m, form="lorentz", activation=torch.tanh),
        lambda layer, x: torch.tanh(2 * x @ layer.weight.T + layer.bias) / 2,  # lengths are twice coordinates
    ),
    "Linear lorentz gate": (lambda m: hnn.Linear(IN, OUT, m, form="lorentz", gate=True), flat_gate),
    "Linear hnn++": (
        lambda m: hnn.Linear(IN, OUT, m, form="hnn++"),
        lambda layer, x: x @ layer.weight.T + layer.bias * layer.weight.norm(dim=1) / 2,
    ),
    "MLR hnn++": (
        lambda m: hnn.MLR(IN, OUT, m, form="hnn++"),
        lambda layer, x: 2 * x @ layer.normal.T + layer.bias * layer.normal.norm(dim=1),
    ),
    "MLR lorentz": (
        lambda m: hnn.MLR(IN, OUT, m, form="lorentz"),
        lambda layer, x: layer.bias - 4 * (x[:, None] - layer.point).square().sum(-1),
    ),
    "Activation": (lambda m: hnn.Activation(F.elu, m), lambda layer, x: F.elu(x)),
    "Activation point": (lambda m: hnn.Activation(F.elu, m, space="point"), lambda layer, x: F.elu(x)),
    "MLR": (lambda m: hnn.MLR(IN, OUT, m), lambda layer, x: 4 * ((x[:, None] - layer.point) * layer.normal).sum(-1)),
    "CentroidClassifier": (lambda m: hnn.CentroidClassifier(IN, OUT, m), flat_centroids),
    "CentroidClassifier power 1": (
        lambda m: hnn.CentroidClassifier(IN, OUT, m, power=1),
        lambda layer, x: -layer.log_beta.exp() * 2 * torch.linalg.vector_norm(x[:, None] - layer.centroids, dim=-1),
    ),
    "Transfer": (lambda m: hnn.Transfer(hgeo.Stereographic(k=0.0), m), lambda layer, x: x),
    "Transfer to a plane": (lambda m: hnn.Transfer(m, geoopt.Euclidean(1)), lambda layer, x: 2 * x),
    **means("gyro"),
    **means("tangent"),
    **means("frechet"),
    "FermiDiracDecoder": (hnn.FermiDiracDecoder, flat_decoder),
    "DistanceDecoder": (
        hnn.DistanceDecoder,
        lambda layer, x: -2 * torch.linalg.vector_norm(x[EDGES[0]] - x[EDGES[1]], dim=-1),
    ),
    **{
        f"LayerNorm {coordinates}": (
            lambda m, coordinates=coordinates: hnn.LayerNorm(IN, m, coordinates=coordinates),
            lambda layer, x: F.layer_norm(2 * x, (IN,), layer.gain, layer.shift, layer.eps) / 2,
        )
        for coordinates in ("tangent", "spatial")
    },
    "RMSNorm": (lambda m: hnn.RMSNorm(IN, m), lambda layer, x: F.rms_norm(2 * x, (IN,), layer.gain, layer.eps) / 2),
    **{
        f"Residual {how}": (
            lambda m, how=how: hnn.Residual(m, how=how),
            lambda layer, x: (x + F.softplus(layer.theta) * x.flip(0)) / (1 + F.softplus(layer.theta)),
        )
        for how in ("gyro", "tangent")
    },
    "SetAttention": (lambda m: hnn.SetAttention(IN, m), flat_attention),
    "InnerProductDecoder": (
        lambda m: hnn.InnerProductDecoder(m, learnable=True),
        lambda layer, x: layer.shift + layer.log_beta.exp() * 4 * (x[EDGES[0]] * x[EDGES[1]]).sum(-1),
    ),
    **{
        f"SAGEConv {aggregate}": (
            lambda m, aggregate=aggregate: hnn.SAGEConv(IN, OUT, m, in_manifold=m, aggregate=aggregate),
            flat_sage,
        )
        for aggregate in ("midpoint", "tangent")
    },
    **{
        f"LorentzConv {weights}": (
            lambda m, weights=weights: hnn.LorentzConv(
                IN, OUT, m, in_manifold=m, weights=weights, activation=torch.tanh
            ),
            flat_lorentz,
        )
        for weights in ("sym", "mean")
    },
    **{
        f"GCNConv {aggregate} {norm}": (
            lambda m, aggregate=aggregate, norm=norm: hnn.GCNConv(
                IN, OUT, m, in_manifold=m, aggregate=aggregate, norm=norm, backend="reference"
            ),
            flat_gcn,
        )
        for aggregate, norm in [("tangent", "sym"), ("tangent", "mean"), ("midpoint", "sym"), ("gyrosum", "sum")]
    },
}


# written for hyperbolic and flat space: they come to it from one side
ONE_SIDED = ("Linear lorentz", "Linear lorentz gate", "Linear hnn++", "MLR hnn++", "MLR lorentz")
ONE_SIDED += ("LorentzConv sym", "LorentzConv mean", "LayerNorm spatial")
SIDES = [(name, k) for name in LIMITS for k in (0.0, 1e-9, -1e-9) if k <= 0 or name not in ONE_SIDED]


@pytest.mark.parametrize(("name", "k"), SIDES)
def test_a_layer_becomes_its_euclidean_self_in_value_and_gradient(name: str, k: float) -> None:
    torch.manual_seed(0)
    make, flat = LIMITS[name]
    layer = make(hgeo.Stereographic(k=k)).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            if parameter.requires_grad:
                parameter.copy_(0.5 * torch.randn_like(parameter))
    x = torch.randn(ROWS, IN, dtype=torch.float64, requires_grad=True)
    weights = torch.randn_like(call(layer, x))
    inputs = [x, *[p for p in layer.parameters() if p.requires_grad and name.split()[0] != "ToManifold"]]
    y, expected = call(layer, x), flat(layer, x)
    tolerance = 1e-13 if k == 0 else 1e-7
    torch.testing.assert_close(y, expected, atol=tolerance, rtol=tolerance)
    options = {"allow_unused": True, "materialize_grads": True}
    for mine, theirs in zip(
        torch.autograd.grad(y, inputs, weights, **options),
        torch.autograd.grad(expected, inputs, weights, **options),
        strict=True,
    ):
        torch.testing.assert_close(mine, theirs, atol=10 * tolerance, rtol=10 * tolerance)


def test_linear_starts_like_torchs_linear() -> None:
    torch.manual_seed(3)
    theirs = torch.nn.Linear(5, 7)
    torch.manual_seed(3)
    mine = hnn.Linear(5, 7, hgeo.Stereographic(k=0.0))
    assert torch.equal(mine.weight, theirs.weight)
    assert torch.equal(mine.bias.data, theirs.bias.data)


def test_dropout_keeps_or_scales_every_tangent_coordinate() -> None:
    torch.manual_seed(0)
    layer = hnn.Dropout(0.25, hgeo.PoincareBall(c=1.0))
    v = torch.full((500, 2), 0.3)
    out = hgeo.log0(layer.manifold, layer(hgeo.exp0(layer.manifold, v)))
    kept = out.abs() > 1e-6
    torch.testing.assert_close(out[kept], torch.full_like(out[kept], 0.4))
    assert 0.7 < kept.float().mean() < 0.8


def test_embedding_at_no_curvature_is_torchs_table() -> None:
    table = hnn.Embedding(5, 3, hgeo.Stereographic(k=0.0), std=1.0)
    index = torch.tensor([[4, 0], [2, 2]])
    assert torch.equal(table(index), F.embedding(index, table.weight))
