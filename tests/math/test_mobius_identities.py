"""The identities that hgeo's geometry stands on, as a page of mathematics.

Points are added by Möbius' ⊕, which neither commutes nor associates: what it lacks is a rotation, the gyration
gyr[x, y]. Hyperbolic space has curvature k = −c < 0 and its points fill the ball c|x|² < 1; a sphere has k > 0 and its
points, seen from a pole, fill the plane. Hypothesis draws k between −4 and 4, and points of several scales within
√|k||x| ≤ 0.8. The law kit (``hgeo.testing``) asks much harder questions; these are the ones to read.

    x ⊕ y   mobius_add       r ⊗ x   mobius_scalar_mul       gyr[x, y]z   gyration
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd.functional import jacobian

import hgeo.math as hm

# ----------------------------------------------------------------------------------------- what is drawn, what is equal

curvatures = st.floats(-4.0, 4.0)
factors = st.floats(-1.5, 1.5)
scales = st.sampled_from([1.0, 1e-3, 1e-8])
vectors = st.builds(
    lambda numbers, scale: scale / 1000 / math.sqrt(3) * torch.tensor(numbers, dtype=torch.float64),
    st.lists(st.integers(-1000, 1000), min_size=3, max_size=3),
    scales,
)


def inside(k: float, v: Tensor, reach: float = 0.8) -> Tensor:
    """The point of the space of curvature k that a vector of length at most 1 stands for: √|k||x| ≤ reach."""
    return v * reach / math.sqrt(max(abs(k), 1.0))


def assert_equal(left: Tensor, right: Tensor, digits: float = 13.0) -> None:
    """Both sides agree to ``digits`` decimal digits of the space's unit of length."""
    torch.testing.assert_close(left, right, rtol=10.0**-digits, atol=10.0**-digits)


# ------------------------------------------------------------------------------------------------- the gyrogroup of ⊕


@given(curvatures, vectors)
def test_zero_is_neutral_and_minus_x_is_the_inverse_of_x(k: float, x: Tensor) -> None:
    x, zero = inside(k, x), torch.zeros(3, dtype=torch.float64)
    assert_equal(hm.mobius_add(zero, x, k=k), x)
    assert_equal(hm.mobius_add(x, zero, k=k), x)
    assert_equal(hm.mobius_add(-x, x, k=k), zero)


@given(curvatures, vectors, vectors)
def test_left_cancellation(k: float, x: Tensor, y: Tensor) -> None:
    """(−x) ⊕ (x ⊕ y) = y."""
    x, y = inside(k, x), inside(k, y)
    assert_equal(hm.mobius_add(-x, hm.mobius_add(x, y, k=k), k=k), y, digits=12)


@given(curvatures, vectors, vectors, vectors)
def test_gyroassociativity(k: float, x: Tensor, y: Tensor, z: Tensor) -> None:
    """x ⊕ (y ⊕ z) = (x ⊕ y) ⊕ gyr[x, y]z."""
    x, y, z = inside(k, x, 0.5), inside(k, y, 0.5), inside(k, z, 0.5)
    left = hm.mobius_add(x, hm.mobius_add(y, z, k=k), k=k)
    right = hm.mobius_add(hm.mobius_add(x, y, k=k), hm.gyration(x, y, z, k=k), k=k)
    assert_equal(left, right, digits=12)


@given(curvatures, vectors, vectors)
def test_gyrocommutativity(k: float, x: Tensor, y: Tensor) -> None:
    """x ⊕ y = gyr[x, y](y ⊕ x)."""
    x, y = inside(k, x), inside(k, y)
    left = hm.mobius_add(x, y, k=k)
    right = hm.gyration(x, y, hm.mobius_add(y, x, k=k), k=k)
    assert_equal(left, right, digits=12)


@given(curvatures, vectors, vectors, vectors, vectors)
def test_a_gyration_is_a_rotation(k: float, x: Tensor, y: Tensor, u: Tensor, v: Tensor) -> None:
    """gyr[x, y]u · gyr[x, y]v = u · v, and gyr[y, x] takes it back."""
    x, y = inside(k, x), inside(k, y)
    turned_u, turned_v = hm.gyration(x, y, u, k=k), hm.gyration(x, y, v, k=k)
    assert_equal(turned_u @ turned_v, u @ v)
    assert_equal(hm.gyration(y, x, turned_u, k=k), u)


@given(curvatures, vectors, vectors, vectors)
def test_distances_do_not_change_when_both_points_move(k: float, x: Tensor, y: Tensor, z: Tensor) -> None:
    """d(z ⊕ x, z ⊕ y) = d(x, y) = 2 artan_k |(−x) ⊕ y|."""
    x, y, z = inside(k, x, 0.5), inside(k, y, 0.5), inside(k, z, 0.5)
    distance = hm.dist(x, y, k=k)
    assert_equal(hm.dist(hm.mobius_add(z, x, k=k), hm.mobius_add(z, y, k=k), k=k), distance, digits=12)
    assert_equal(2 * hm.artan_k(hm.mobius_add(-x, y, k=k).norm(), k=k), distance)


# ----------------------------------------------------------------------------------------------- the vector space of ⊗


def times(r: float, x: Tensor, k: float) -> Tensor:
    return hm.mobius_scalar_mul(torch.tensor(r, dtype=torch.float64), x, k=k)


@given(curvatures, factors, factors, vectors)
def test_factors_associate(k: float, r: float, s: float, x: Tensor) -> None:
    """(rs) ⊗ x = r ⊗ (s ⊗ x)."""
    x = inside(k, x, 0.3)
    assert_equal(times(r * s, x, k), times(r, times(s, x, k), k))


@given(curvatures, factors, factors, vectors)
def test_factors_distribute_over_addition(k: float, r: float, s: float, x: Tensor) -> None:
    """(r + s) ⊗ x = (r ⊗ x) ⊕ (s ⊗ x): with ⊕, where some papers print +."""
    x = inside(k, x, 0.3)
    assert_equal(times(r + s, x, k), hm.mobius_add(times(r, x, k), times(s, x, k), k=k))


def test_factors_do_not_distribute_over_the_sum_of_coordinates() -> None:
    x = torch.tensor([0.6, 0.0], dtype=torch.float64)
    assert float((times(2.0, x, -1.0) - (x + x)).norm()) > 0.3


@given(curvatures, factors, vectors)
def test_factors_scale_the_distance_to_the_origin(k: float, r: float, x: Tensor) -> None:
    """d(0, r ⊗ x) = |r| d(0, x)."""
    x = inside(k, x, 0.3)
    assert_equal(hm.dist0(times(r, x, k), k=k), abs(r) * hm.dist0(x, k=k))


# --------------------------------------------------------------------------------------------------------- exp and log


@given(curvatures, vectors, vectors)
def test_exp_and_log_undo_each_other(k: float, x: Tensor, y: Tensor) -> None:
    """exp_x(log_x y) = y and log_x(exp_x u) = u."""
    x, y = inside(k, x), inside(k, y)
    u = hm.logmap(x, y, k=k)
    assert_equal(hm.expmap(x, u, k=k), y, digits=12)
    assert_equal(hm.logmap(x, hm.expmap(x, u, k=k), k=k), u, digits=12)
    assert_equal(hm.expmap0(hm.logmap0(y, k=k), k=k), y)


@given(curvatures, vectors, vectors)
def test_a_logarithm_is_as_long_as_the_way(k: float, x: Tensor, y: Tensor) -> None:
    """|log_x y|_x = d(x, y), where |u|_x = λ_x|u| and λ_x = 2/(1 + k|x|²)."""
    x, y = inside(k, x), inside(k, y)
    u = hm.logmap(x, y, k=k)
    assert_equal(2 / (1 + k * x @ x) * u.norm(), hm.dist(x, y, k=k), digits=12)


# --------------------------------------------------------------------------------- c → 0: the flat space between both


def bent(x: Tensor, y: Tensor) -> Tensor:
    """What x ⊕ y gains with the curvature: its derivative by k at k = 0."""
    return (x @ x + 2 * x @ y) * y - y @ y * x


def bent_step(x: Tensor, u: Tensor) -> Tensor:
    """What exp_x(u) gains: the addition's share, λ_x/2 = 1/(1 + k|x|²) and tan_k(t) = t + k t³/3 + …"""
    return bent(x, u) - x @ x * u + u @ u * u / 3


@dataclass(frozen=True)
class Operation:
    """An operation of curvature k, what it is in flat space, and its derivative by k there."""

    curved: Callable[[Tensor, Tensor, Tensor], Tensor]
    flat: Callable[[Tensor, Tensor], Tensor]
    slope: Callable[[Tensor, Tensor], Tensor]


OPERATIONS = {
    "x ⊕ y": Operation(lambda x, y, k: hm.mobius_add(x, y, k=k), lambda x, y: x + y, bent),
    "gyr[x, y](x + 2y)": Operation(
        lambda x, y, k: hm.gyration(x, y, x + 2 * y, k=k),
        lambda x, y: x + 2 * y,
        lambda x, y: 2 * (x @ (x + 2 * y) * y - y @ (x + 2 * y) * x),
    ),
    "r ⊗ x": Operation(
        lambda x, y, k: hm.mobius_scalar_mul(x.new_tensor(0.7), x, k=k),
        lambda x, y: 0.7 * x,
        lambda x, y: (0.7**3 - 0.7) / 3 * (x @ x) * x,
    ),
    "exp_x(y)": Operation(lambda x, y, k: hm.expmap(x, y, k=k), lambda x, y: x + y, bent_step),
    "log_x(y)": Operation(lambda x, y, k: hm.logmap(x, y, k=k), lambda x, y: y - x, lambda x, y: -bent_step(x, y - x)),
    "d(x, y)": Operation(  # 2 arsin_k(|y − x|/√((1 + k|x|²)(1 + k|y|²))): without curvature twice Euclid's
        lambda x, y, k: hm.dist(x, y, k=k),
        lambda x, y: 2 * (y - x).norm(),
        lambda x, y: (y - x).norm() * ((y - x) @ (y - x) / 3 - x @ x - y @ y),
    ),
}

ZERO = torch.tensor(0.0, dtype=torch.float64)
both_sides = st.builds(
    lambda sign, size: torch.tensor(sign * size, dtype=torch.float64),
    st.sampled_from([-1.0, 1.0]),
    st.sampled_from([1e-2, 1e-4, 1e-6, 1e-8, 1e-12, 1e-30]),
)


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
@given(vectors, vectors)
def test_without_curvature_the_geometry_is_euclids(operation: Operation, x: Tensor, y: Tensor) -> None:
    assert_equal(operation.curved(x, y, ZERO), operation.flat(x, y), digits=15)


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
@given(vectors, vectors, both_sides)
def test_flat_space_is_the_limit_from_both_sides(operation: Operation, x: Tensor, y: Tensor, k: Tensor) -> None:
    """f(k) = f(0) + k f'(0) + O(k²), whatever the sign of k."""
    remainder = operation.curved(x, y, k) - operation.flat(x, y) - k * operation.slope(x, y)
    assert float(remainder.norm()) <= 10 * float(k) ** 2 + 1e-14


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
@given(vectors, vectors, st.one_of(both_sides, st.just(ZERO)))
def test_the_derivative_by_the_curvature_is_continuous_through_zero(
    operation: Operation, x: Tensor, y: Tensor, k: Tensor
) -> None:
    derivative = jacobian(lambda k: operation.curved(x, y, k), k)
    assert float((derivative - operation.slope(x, y)).norm()) <= 20 * abs(float(k)) + 1e-13


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
@given(vectors, vectors, st.one_of(both_sides, st.just(ZERO)))
def test_the_gradient_by_the_points_is_continuous_through_zero(
    operation: Operation, x: Tensor, y: Tensor, k: Tensor
) -> None:
    curved = jacobian(lambda x, y: operation.curved(x, y, k), (x, y))
    flat = jacobian(operation.flat, (x, y), strict=False)
    for one, other in zip(curved, flat, strict=True):
        assert float((one - other).norm()) <= 20 * abs(float(k)) + 1e-13
