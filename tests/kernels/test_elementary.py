"""The elementary functions of the compiled loops are right to the last digits, against mpmath."""

import mpmath
import pytest
import torch

from hgeo import kernels
from hgeo.kernels import Operation, careful_dot, careful_flatness

TINY, MIDDLE = [0.0, 1e-300, 1e-20, 1e-9, 1e-4], [0.1, 0.3, 0.5, 0.77, 0.999]
LARGE = [1.0, 1.5, 3.0, 7.3, 20.1, 36.0, 100.0, 700.0]
RANGES = {
    "exp": [*TINY, *MIDDLE, *LARGE, -0.5, -3.0, -40.0, -600.0],
    "log": [*TINY[1:], *MIDDLE, *LARGE, 1e300],
    "sqrt": [*TINY, *MIDDLE, *LARGE, 1e300],
    "sinh": [*TINY, *MIDDLE, *LARGE],
    "cosh": [*TINY, *MIDDLE, *LARGE],
    "tanh": [*TINY, *MIDDLE, *LARGE, 1e10],
    "asinh": [*TINY, *MIDDLE, *LARGE, 1e10, 1e200],
    "atanh": [*TINY, *MIDDLE, 1 - 2**-53],
    "sin": [*TINY, *MIDDLE, *LARGE],
    "cos": [*TINY, *MIDDLE, *LARGE],
    "tan": [*TINY, *MIDDLE, *LARGE],
    "asin": [*TINY, *MIDDLE, 1.0],
    "atan": [*TINY, *MIDDLE, *LARGE, 1e300],
}
ODD = {"sinh", "tanh", "asinh", "atanh", "sin", "tan", "asin", "atan"}


def of_a_number(function):
    def formula(x, k):
        return function(k)

    formula.__annotations__ = {"x": "Row", "k": "Number", "return": "Number"}
    return Operation(formula)


@pytest.mark.parametrize("name", RANGES)
def test_it_is_right_to_two_units_in_the_last_place(name) -> None:
    values = RANGES[name] + [-v for v in RANGES[name] if name in ODD]
    points = torch.tensor(values, dtype=torch.float64).unsqueeze(-1)
    found = of_a_number(getattr(kernels, name))(torch.zeros(1, 1, dtype=torch.float64), points)
    for value, result in zip(values, found.flatten().tolist(), strict=True):
        with mpmath.workdps(40):
            exact = getattr(mpmath, name)(mpmath.mpf(value))
            assert abs(result - exact) <= 2 * 2**-52 * abs(exact), (name, value)


@pytest.mark.parametrize("name", RANGES)
def test_derivatives_and_nan_are_those_of_torch(name) -> None:
    points = torch.tensor(MIDDLE, dtype=torch.float64).unsqueeze(-1).requires_grad_()
    row = torch.zeros(1, 1, dtype=torch.float64)
    operation = of_a_number(getattr(kernels, name))
    (ours,) = torch.autograd.grad(operation(row, points).sum(), points)
    (plain,) = torch.autograd.grad(getattr(torch, name)(points).sum(), points)
    torch.testing.assert_close(ours, plain, rtol=1e-13, atol=0)
    assert operation(row, torch.full((1, 1), torch.nan, dtype=torch.float64)).isnan().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_careful_inner_product_loses_no_digits_to_cancellation(dtype) -> None:
    def product(x, y):
        return careful_dot(x, y)

    product.__annotations__ = {"x": "Row", "y": "Row", "return": "Number"}
    large = 0.1 / torch.finfo(dtype).eps
    for size in (3, 8, 21):
        x = torch.zeros(2, size, dtype=dtype)
        x[:, 0], x[:, 1], x[:, -1] = large**2, 1.0, -(large**2)
        assert Operation(product)(x, torch.ones(size, dtype=dtype)).tolist() == [[1.0], [1.0]]


def test_careful_flatness_has_all_of_its_digits_at_the_edge() -> None:
    def flatness(x, k):
        return careful_flatness(x, k)

    flatness.__annotations__ = {"x": "Row", "k": "Number", "return": "Number"}
    x = torch.tensor([[0.6, 0.8]], dtype=torch.float64) * (1 - 1e-15)
    (found,) = Operation(flatness)(x, -1.0).flatten().tolist()
    with mpmath.workdps(60):
        exact = 1 - sum(mpmath.mpf(v) ** 2 for v in x.flatten().tolist())
        assert abs(found - exact) <= 2**-52 * abs(exact)
