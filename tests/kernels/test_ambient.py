"""A vector whose first number stands apart is one tensor outside of a formula, and two words inside."""

import pytest
import torch

from hgeo.kernels import Ambient, Number, Operation, Row, careful_sum, dot, sqrt


@Operation
def moved(x: Ambient, y: Ambient, t: Number, c: Number) -> Ambient:
    step = careful_sum(x.rest - t * y.first * y.rest)
    return Ambient(sqrt(1 / c + dot(step, step)), step / (1 + y.first * y.first))


@Operation
def lifted(v: Row, w: Number, c: Number) -> Ambient:
    return Ambient(w * (1 + c * dot(v, v)), w * v)


@Operation
def product(x: Ambient, y: Ambient, c: Number) -> Number:
    return dot(x.rest, y.rest) - c * x.first * y.first


def rows(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def both(call, *arguments):
    """The loop's value and gradients, and those of torch's form."""
    results = []
    for form in (call, lambda *given: call.__self__.by_torch(call.__name__ == "total", given)):
        copies = [value.detach().requires_grad_() for value in arguments]
        out = form(*copies)
        slope = torch.linspace(-1, 1, out.numel()).to(out).view_as(out)
        results.append((out, *torch.autograd.grad(out, copies, slope)))
    return results


@pytest.mark.parametrize("size", [2, 3, 8, 9, 10, 18])
@pytest.mark.parametrize("count", [0, 1, 7, 8, 19])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-4)])
def test_the_loop_agrees_with_torch(size, count, dtype, tolerance) -> None:
    x, y = rows(count, size, dtype=dtype), rows(count, size, seed=1, dtype=dtype)
    t, c = rows(count, 1, seed=2, dtype=dtype), torch.tensor([0.7], dtype=dtype)
    for found, expected in (both(moved.__call__, x, y, t, c), both(product.__call__, x, y, c)):
        assert found[0].grad_fn.name() != expected[0].grad_fn.name()
        torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    "make", [lambda big: big[3:21:2, 5:11], lambda big: big.t()[4:13, 7:13], lambda big: big[:1, :6]]
)
def test_views_and_shapes_that_broadcast_are_read_where_they_lie(make) -> None:
    x, y, t, c = make(rows(40, 30)), rows(4, 9, 6, seed=1), rows(9, 1), torch.tensor([0.7], dtype=torch.float64)
    torch.testing.assert_close(*both(moved.__call__, x, y, t, c), rtol=1e-12, atol=1e-12)


def test_sums_of_them_are_sums_of_both_parts() -> None:
    v, w, c = rows(5, 9, 6), rows(5, 9, 1, seed=1), torch.tensor(0.7, dtype=torch.float64)
    torch.testing.assert_close(*both(lifted.total, v, w, c), rtol=1e-12, atol=1e-12)
    assert lifted.total(v, w, c).shape == (5, 1, 7)


def test_vectors_that_do_not_fit_are_left_to_torch() -> None:
    with pytest.raises(RuntimeError):
        moved(rows(5, 3), rows(5, 4), 0.5, 1.0)
    with pytest.raises(RuntimeError):
        product(torch.empty(5, 0), torch.empty(5, 0), 1.0)
