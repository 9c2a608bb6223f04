"""The compiled loops under the shallow embeddings do the arithmetic that is written in the papers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from hgeo.manifolds import PoincareBall, dist
from hgeo.models._pairs import Neighbours, Noise, Rows, contrast_edges, contrast_walks, poincare_gradient

# σ comes from a table with cells of 12/2048, in which it changes by at most a quarter of that; half of it is the error
TABLE = 12 / 2048 / 4 / 2


def only(node, nodes):
    """Noise that draws one node and no other."""
    return Noise(np.eye(nodes)[node])


def tables(nodes, dim, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(2, nodes, dim, generator=generator)


def contrast(x, y, node, other, noise, rate):
    """Skip-gram's step, by autograd: up log σ(x·y) + Σ log σ(-x·y')."""
    x, y = x.clone().double().requires_grad_(), y.clone().double().requires_grad_()
    wrong = torch.nn.functional.logsigmoid(-(y[noise] @ x[node])).sum() if noise else 0.0
    (torch.nn.functional.logsigmoid(x[node] @ y[other]) + wrong).backward()
    return (x + rate * x.grad).detach(), (y + rate * y.grad).detach()


@pytest.mark.parametrize("weight", [[1.0, 2.0, 3.0, 4.0], [0.0, 5.0, 0.0], [7.0], [1e-9, 1.0, 1e9]])
def test_noise_draws_each_node_as_often_as_its_weight_says(weight):
    weight = np.array(weight)
    noise = Noise(weight)
    kept = (noise.threshold.astype(np.float64) + 1) / 2**32
    share = kept.copy()
    np.add.at(share, noise.alias, 1 - kept)
    assert np.allclose(share / len(weight), weight / weight.sum(), rtol=0, atol=2**-31)


@pytest.mark.parametrize("dim", [1, 2, 3, 8, 16, 24])
@pytest.mark.parametrize("negative", [0, 1])
def test_an_edge_makes_one_gradient_step_that_raises_its_likelihood(dim, negative):
    vectors, contexts = tables(3, dim)
    x, y, edges = Rows(vectors), Rows(contexts), np.array([[0], [1]], np.int32)
    contrast_edges(x, y, edges, only(2, 3), samples=1, negative=negative, lr=0.5, last_lr=0.0, seed=1)
    expected = contrast(vectors, contexts, 0, 1, [2] * negative, 0.5)
    bound = 0.5 * TABLE * 2 * float(torch.cat([vectors, contexts]).abs().max()) + 1e-6
    for got, wanted in zip((x, y), expected, strict=True):
        assert (got.tensor() - wanted).abs().max() < bound
        assert not got.array[:, dim:].any()
    assert not torch.equal(x.tensor(), vectors)


def test_first_order_has_one_table_and_a_node_may_be_its_own_noise():
    (vectors, _), edges = tables(2, 4), np.array([[0], [1]], np.int32)
    x = Rows(vectors)
    contrast_edges(x, x, edges, only(0, 2), samples=1, negative=1, lr=0.5, last_lr=0.0, seed=1)
    u, v = vectors.double()
    up, down = 1 - torch.sigmoid(u @ v), -torch.sigmoid(u @ u)
    expected = torch.stack([u + 0.5 * (up * v + 2 * down * u), v + 0.5 * up * u])
    assert (x.tensor() - expected).abs().max() < 0.5 * TABLE * 3 * float(vectors.abs().max()) + 1e-6


def test_a_walk_relates_each_node_to_those_in_its_window():
    vectors, contexts = tables(4, 3)
    x, y, walks = Rows(vectors), Rows(contexts), np.array([[0, 1, 2]], np.int32)
    contrast_walks(x, y, walks, only(3, 4), window=1, negative=0, epochs=1, lr=0.1, last_lr=0.1, seed=1)
    expected = vectors, contexts
    pairs = [(1, 0), (0, 1), (2, 1), (1, 2)]
    for node, other in pairs:
        expected = contrast(*expected, node, other, [], 0.1)
    bound = len(pairs) * 0.1 * TABLE * float(torch.cat([vectors, contexts]).abs().max()) + 1e-6
    assert (x.tensor() - expected[0]).abs().max() < bound
    assert (y.tensor() - expected[1]).abs().max() < bound


def test_a_score_beyond_six_moves_nothing_in_a_walk_and_as_much_as_six_on_an_edge():
    vectors, contexts = torch.tensor([[3.0, 0.0], [0.0, 3.0]]), torch.tensor([[0.0, 2.5], [-2.5, 0.0]])
    options = {"lr": 0.1, "last_lr": 0.1, "seed": 1}
    x, y = Rows(vectors), Rows(contexts)
    contrast_walks(x, y, np.array([[0, 1]], np.int32), only(0, 2), window=1, negative=0, epochs=1, **options)
    assert torch.equal(x.tensor(), vectors)  # scores of 7.5 and -7.5
    assert torch.equal(y.tensor(), contexts)
    contrast_edges(x, y, np.array([[0], [1]], np.int32), only(0, 2), samples=1, negative=0, **options)
    step = 0.1 * (1 - torch.sigmoid(torch.tensor(-6.0)))
    assert torch.allclose(x.tensor()[0], vectors[0] + step * contexts[1], rtol=0, atol=0.1 * TABLE * 3)
    assert torch.allclose(y.tensor()[1], contexts[1] + step * vectors[0], rtol=0, atol=0.1 * TABLE * 3)


def test_padding_behind_the_end_of_a_walk_changes_nothing():
    vectors, contexts = tables(6, 4)
    results = []
    for walks in ([[0, 1, 2]], [[0, 1, 2, -1, -1, -1]]):
        x, y = Rows(vectors), Rows(contexts)
        contrast_walks(
            x, y, np.array(walks, np.int32), only(5, 6), window=3, negative=2, epochs=2, lr=0.1, last_lr=0.0, seed=1
        )
        results.append((x.tensor(), y.tensor()))
    assert torch.equal(results[0][0], results[1][0])
    assert torch.equal(results[0][1], results[1][1])


@pytest.mark.parametrize("dim", [1, 2, 5, 16])
@pytest.mark.parametrize("c", [0.3, 1.0, 2.5])
def test_the_gradient_on_the_ball_is_that_of_autograd(dim, c):
    generator = torch.Generator().manual_seed(dim)
    points = torch.randn(4, dim, generator=generator)
    points = points / points.norm(dim=1, keepdim=True) * torch.tensor([[0.2], [0.5], [0.9], [0.0]]) / c**0.5
    graph = Neighbours(np.array([[0], [1]], np.int32), 4)
    loss, gradient = poincare_gradient(points, graph, only(2, 4), batch=3, window=1, negative=2, c=c, seed=0)
    exact = points.double().requires_grad_()
    distance = dist(PoincareBall(c=c).double(), exact[:1], exact[[1, 2, 2]])
    wanted = torch.nn.functional.cross_entropy(-distance[None], torch.tensor([0]))
    (3 * wanted).backward()
    assert loss == pytest.approx(wanted.item(), rel=1e-5)
    assert torch.allclose(gradient.double(), exact.grad, rtol=1e-4, atol=1e-5)
    assert gradient[:3].norm() > 0.1
    assert not gradient[3].any()


def test_two_nodes_at_one_place_do_not_make_the_gradient_infinite():
    points = torch.tensor([[0.1, 0.2], [0.1, 0.2], [0.4, 0.0]])
    graph = Neighbours(np.array([[0], [1]], np.int32), 3)
    loss, gradient = poincare_gradient(points, graph, only(2, 3), batch=1, window=1, negative=1, c=1.0, seed=0)
    assert np.isfinite(loss)
    assert gradient.isfinite().all()
    assert gradient[2].norm() > 0.1


def test_a_walk_ends_where_no_edge_leads_on_and_is_left_out_where_it_returns():
    points, noise = torch.tensor([[0.1, 0.2], [-0.3, 0.2], [0.4, 0.0]]), only(2, 3)
    options = {"negative": 1, "c": 1.0, "seed": 3}
    chain = Neighbours(np.array([[0], [1]], np.int32), 3)
    far = poincare_gradient(points, chain, noise, batch=8, window=9, **options)
    near = poincare_gradient(points, chain, noise, batch=8, window=1, **options)
    assert far[0] == near[0]
    assert torch.equal(far[1], near[1])
    loop = Neighbours(np.array([[0], [0]], np.int32), 3)
    loss, gradient = poincare_gradient(points, loop, noise, batch=8, window=4, **options)
    assert loss == 0.0
    assert not gradient.any()
