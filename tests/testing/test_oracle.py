"""The oracle is right where the answer is known by other means, and knows nothing of hgeo.math."""

from __future__ import annotations

import ast
import math
from pathlib import Path

import pytest
import torch

from hgeo.testing import oracle


def close(value: object, expected: object, digits: int = 55) -> bool:
    return bool(abs(oracle.number(value) - expected) <= oracle.mp.mpf(10) ** -digits * max(1, abs(expected)))


def test_it_imports_nothing_of_hgeo() -> None:
    tree = ast.parse(Path(oracle.__file__).read_text())
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    imported |= {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    assert imported == {"__future__", "collections.abc", "typing", "mpmath"}


def test_known_distances() -> None:
    half, mp = oracle.mp.mpf(1) / 2, oracle.mp
    assert close(oracle.dist([half, 0], [-half, 0], k=-1), 4 * mp.atanh(half))
    assert close(oracle.dist([1, 0], [0, 0], k=1), mp.pi / 2)
    assert close(oracle.dist([1, 0], [-1, 0], k=1), mp.pi)
    assert close(oracle.dist([3, 0], [0, 4], k=0), mp.mpf(10))


def test_floats_are_read_exactly() -> None:
    tenth = torch.tensor(0.1, dtype=torch.float32)
    assert oracle.number(tenth) == oracle.mp.mpf(13421773) / 2**27
    assert oracle.number(tenth) != oracle.number(0.1)


@pytest.mark.parametrize("k", [-1.0, -0.3, 0.0, 0.7])
def test_exp_and_log_invert(k: float) -> None:
    x, u = [0.3, -0.2, 0.1], [0.4, 0.5, -0.6]
    back = oracle.logmap(x, oracle.expmap(x, u, k=k), k=k)
    assert oracle.difference(back, u) < oracle.TINY


def test_the_midpoint_of_two_is_the_middle_of_the_geodesic() -> None:
    x, y = [0.3, -0.2], [0.9, 0.1]
    middle = oracle.weighted_midpoint([x, y], k=-1)
    assert oracle.difference(middle, oracle.geodesic(0.5, x, y, k=-1)) < oracle.TINY


def test_gyration_is_linear_for_vectors_of_any_length() -> None:
    a, b = [0.3, 0.4], [-0.5, 0.2]
    short, long = oracle.gyration(a, b, [0.5, 0.25], k=-1), oracle.gyration(a, b, [500.0, 250.0], k=-1)
    assert oracle.difference([1000 * value for value in short], long) < oracle.TINY


def test_models_agree() -> None:
    x, y, c = [0.3, 0.4], [-0.1, 0.7], 0.5
    big_x, big_y = oracle.ball_to_lorentz(x, c=c), oracle.ball_to_lorentz(y, c=c)
    form = -big_x[0] * big_y[0] + sum(a * b for a, b in zip(big_x[1:], big_y[1:], strict=True))
    assert close(oracle.dist(x, y, k=-c), oracle.mp.acosh(-c * form) / oracle.mp.sqrt(c))
    assert oracle.difference(oracle.lorentz_to_ball(big_x, c=c), x) < oracle.TINY
    assert oracle.difference(oracle.klein_to_ball(oracle.ball_to_klein(x, c=c), c=c), x) < oracle.TINY
    assert oracle.difference(oracle.sphere_to_stereo(oracle.stereo_to_sphere(x, k=c), k=c), x) < oracle.TINY


def test_derivatives_are_the_analytic_ones() -> None:
    third = oracle.mp.mpf(1) / 3
    assert close(oracle.derivative(oracle.tan_k, 1.0, k=0.0), third)
    assert close(oracle.derivative(oracle.artan_k, 1.0, k=0.0), -third)
    slope = oracle.derivative(oracle.dist0, [0.5, 0.0], k=-1.0, wrt=0, direction=[1.0, 0.0])
    assert close(slope, oracle.mp.mpf(8) / 3)  # λ at 1/2


def test_digits_survive_one_ulp_from_the_boundary() -> None:
    edge = 1 - 2**-53
    distance = oracle.dist([edge, 0.0], [-edge, 0.0], k=-1.0)
    assert close(distance, 4 * oracle.mp.atanh(oracle.mp.mpf(edge)))
    assert math.isclose(float(distance), 74.86, rel_tol=1e-2)
