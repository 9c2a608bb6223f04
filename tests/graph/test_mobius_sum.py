"""The Möbius sum of messages: in order, from the left, as many steps as the largest degree."""

import pytest
import torch

import hgeo.math as hm
from hgeo.graph import Graph, mobius_sum


def one_by_one(graph: Graph, weights: torch.Tensor, u: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    out = []
    for i in range(graph.num_dst):
        total = torch.zeros_like(u[0])
        for e in range(int(graph.rowptr[i]), int(graph.rowptr[i + 1])):
            h = hm.expmap0(u[graph.col[e]], k=k.unsqueeze(-1))
            total = hm.mobius_add(
                total, hm.mobius_scalar_mul(weights[e].unsqueeze(-1), h, k=k.unsqueeze(-1)), k=k.unsqueeze(-1)
            )
        out.append(total)
    return torch.stack(out)


@pytest.mark.parametrize("k", [[-1.0, -0.3], [0.0, 0.0], [-0.5, 0.2]], ids=str)
def test_the_mobius_sum_adds_one_term_after_the_other(graph: Graph, k: list[float]) -> None:
    generator = torch.Generator().manual_seed(3)
    u = (0.4 * torch.randn(graph.num_src, 2, 3, generator=generator, dtype=torch.float64)).requires_grad_()
    weights = torch.rand(graph.num_edges, 2, generator=generator, dtype=torch.float64).requires_grad_()
    curvature = torch.tensor(k, dtype=torch.float64, requires_grad=True)
    ours, expected = mobius_sum(graph, weights, u, k=curvature), one_by_one(graph, weights, u, curvature)
    torch.testing.assert_close(ours, expected, rtol=1e-12, atol=1e-13)
    if not graph.num_edges:  # nothing to differentiate: the origin, whatever the inputs
        assert (ours == 0).all()
        return
    direction = torch.randn(expected.shape, generator=generator, dtype=torch.float64)
    for mine, true in zip(
        *(
            torch.autograd.grad(
                (o * direction).sum(), (u, weights, curvature), allow_unused=True, materialize_grads=True
            )
            for o in (ours, expected)
        ),
        strict=True,
    ):
        torch.testing.assert_close(mine, true, rtol=1e-10, atol=1e-11)


def test_the_order_is_that_of_source_ids() -> None:
    u = torch.tensor([[[0.5, 0.0]], [[0.0, 0.5]], [[0.3, 0.3]]]).double()
    k, ones = torch.tensor([-1.0]).double(), torch.ones(3, 1).double()
    sums = [
        mobius_sum(Graph(torch.tensor(src), torch.zeros(3, dtype=torch.long), num_src=3), ones, u, k=k)[0, 0]
        for src in ([0, 1, 2], [2, 1, 0])
    ]
    assert torch.equal(sums[0], sums[1])
    h = hm.expmap0(u[:, 0], k=-1.0)
    from_the_left = hm.mobius_add(hm.mobius_add(h[0], h[1], k=-1.0), h[2], k=-1.0)
    from_the_right = hm.mobius_add(h[0], hm.mobius_add(h[1], h[2], k=-1.0), k=-1.0)
    torch.testing.assert_close(sums[0], from_the_left)
    assert (from_the_left - from_the_right).abs().max() > 1e-3  # so that the order is seen at all


def test_it_takes_as_many_steps_as_the_largest_degree(monkeypatch: pytest.MonkeyPatch) -> None:
    import hgeo.graph._mobius as module

    calls = []
    add = module._add_hyperbolic
    monkeypatch.setattr(module, "_add_hyperbolic", lambda x, y, *, k: calls.append(len(x)) or add(x, y, k=k))
    src, dst = torch.arange(40) % 8, torch.arange(40) // 10  # four destinations of ten edges each
    mobius_sum(Graph(src, dst, num_src=8), torch.ones(40, 1), torch.randn(8, 1, 2), k=torch.tensor([-1.0]))
    assert calls == [4] * 9


def test_many_far_messages_stay_inside_the_ball() -> None:
    graph = Graph(torch.arange(200) % 5, torch.zeros(200, dtype=torch.long), num_src=5)
    total = mobius_sum(graph, torch.ones(200, 1), 3 * torch.randn(5, 1, 3), k=torch.tensor([-1.0]))
    assert (total.norm(dim=-1) < 1).all()


def test_it_is_differentiable_twice() -> None:
    graph = Graph(torch.tensor([0, 1, 2, 0]), torch.tensor([0, 0, 0, 1]), num_src=3)
    u = (0.3 * torch.randn(3, 1, 2, dtype=torch.float64)).requires_grad_()
    w, k = torch.rand(4, 1, dtype=torch.float64, requires_grad=True), torch.tensor([-0.5]).double().requires_grad_()
    torch.autograd.gradgradcheck(lambda u, w, k: mobius_sum(graph, w, u, k=k), (u, w, k))
