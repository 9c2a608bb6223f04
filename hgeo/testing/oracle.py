r"""Sixty right digits: every function of ``hgeo.math``, for single vectors, straight from its definition.

The yardstick of the law kit. It shares nothing with ``hgeo.math``: no series, no rearranged formula, no floating point.
Inputs are the *exact* values of the floats they are given, the arithmetic is mpmath's with :data:`WORKING_DIGITS`
digits, of which at least :data:`DIGITS` survive every cancellation that a point one ulp from the boundary can cause.

A vector is any sequence of numbers (a list, a one-dimensional tensor, a list of ``mpf``); results are ``mpf`` numbers
or lists of them. A number may also bring its own arithmetic (``own_arithmetic``, ``sqrt``, ``ratio``, ``fixed``).
``k`` is the signed curvature, ``k < 0`` the Poincaré ball, ``k > 0`` the stereographic sphere.

>>> from hgeo.testing import oracle
>>> float(oracle.dist([0.5, 0.0], [-0.5, 0.0], k=-1.0))   # 4 artanh(1/2)
2.1972245773362196
>>> float(oracle.derivative(oracle.artan_k, 0.5, k=0.0, wrt="k"))   # d/dk of artan_k(x) at k = 0 is -x³/3
-0.041666666666666664
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import mpmath

__all__ = [
    "DIGITS",
    "TINY",
    "WORKING_DIGITS",
    "antipode",
    "arsin_k",
    "arsin_ratio",
    "artan_k",
    "artan_ratio",
    "ball_to_klein",
    "ball_to_lorentz",
    "cos_k",
    "cos_ratio",
    "derivative",
    "difference",
    "dist",
    "dist0",
    "dist2plane",
    "egrad2rgrad",
    "expmap",
    "expmap0",
    "geodesic",
    "geodesic_unit",
    "gyration",
    "inner",
    "klein_to_ball",
    "lambda_x",
    "length",
    "logmap",
    "logmap0",
    "lorentz_to_ball",
    "mobius_add",
    "mobius_coadd",
    "mobius_cosub",
    "mobius_fn_apply",
    "mobius_matvec",
    "mobius_pointwise_mul",
    "mobius_scalar_mul",
    "mobius_sub",
    "norm",
    "number",
    "parallel_transport",
    "parallel_transport0",
    "parallel_transport0back",
    "project",
    "sin_k",
    "sin_ratio",
    "sphere_to_stereo",
    "sqdist",
    "stereo_to_sphere",
    "tan_k",
    "tan_ratio",
    "vector",
    "weighted_midpoint",
]

DIGITS = 60
"""Digits that are right in every result."""

WORKING_DIGITS = 220
"""Digits carried inside, so that cancellation near the boundary and differences in :func:`derivative` cost none."""

mp = mpmath.MPContext()
mp.dps = WORKING_DIGITS

Number = Any  # a float, an int, a zero-dimensional tensor or an mpf
Vector = Any  # a sequence of them, or a one-dimensional tensor
_Vec = list[Any]

TINY = mp.mpf(10) ** -DIGITS
"""What is smaller than this is 0: an exact 0 comes out of :data:`WORKING_DIGITS` digits as some such number."""

_STEP = mp.mpf(10) ** -75


# ----------------------------------------------------------------------------------------------------------- numbers


def _foreign(value: Any) -> bool:
    return getattr(value, "own_arithmetic", False)


def number(value: Number) -> Any:
    """The exact value of a float, an int, an ``mpf`` or a tensor with one element."""
    if type(value) is mp.mpf or _foreign(value):
        return value
    if type(value) is not float and hasattr(value, "item"):
        value = value.item()
    return mp.mpf(value)


def vector(values: Vector) -> _Vec:
    """The exact values of a sequence or of a one-dimensional tensor."""
    if hasattr(values, "tolist"):
        values = values.tolist()
    return [number(value) for value in values]


def _dot(x: Iterable[Any], y: Iterable[Any]) -> Any:
    pairs = list(zip(x, y, strict=True))
    if any(_foreign(a) or _foreign(b) for a, b in pairs):
        return sum(a * b for a, b in pairs)
    return mp.fdot(pairs)


def _sq(x: _Vec) -> Any:
    return _dot(x, x)


def _sqrt(value: Any) -> Any:
    return value.sqrt() if _foreign(value) else mp.sqrt(value)


def _times(factor: Any, x: _Vec) -> _Vec:
    return [factor * value for value in x]


def _plus(x: _Vec, y: _Vec) -> _Vec:
    return [a + b for a, b in zip(x, y, strict=True)]


def length(x: Vector) -> Any:
    """Euclidean norm of a vector (the absolute value of a number)."""
    return _sqrt(_sq(_as_list(x)))


def difference(computed: Vector, exact: Vector) -> Any:
    """Norm of ``computed - exact``, both read exactly: the absolute error of a floating-point result."""
    return mp.sqrt(_sq([a - b for a, b in zip(_as_list(computed), _as_list(exact), strict=True)]))


def _as_list(x: Vector) -> _Vec:
    if hasattr(x, "tolist"):
        x = x.tolist()
    return vector(x) if isinstance(x, Sequence) else [number(x)]


# ---------------------------------------------------------------------------------------- trigonometry of curvature k


def _ratio(z: Number, name: str, spherical: Callable[[Any], Any], hyperbolic: Callable[[Any], Any]) -> Any:
    z = number(z)
    if _foreign(z):
        return z.ratio(name)
    if z == 0:
        return mp.mpf(1)
    root = mp.sqrt(abs(z))
    return spherical(root) / root if z > 0 else hyperbolic(root) / root


def tan_ratio(z: Number) -> Any:
    """tan(√z)/√z, which is tanh(√−z)/√−z for z < 0 and 1 at 0."""
    return _ratio(z, "tan", mp.tan, mp.tanh)


def artan_ratio(z: Number) -> Any:
    """arctan(√z)/√z, artanh for z < 0."""
    return _ratio(z, "artan", mp.atan, mp.atanh)


def sin_ratio(z: Number) -> Any:
    """sin(√z)/√z, sinh for z < 0."""
    return _ratio(z, "sin", mp.sin, mp.sinh)


def arsin_ratio(z: Number) -> Any:
    """arcsin(√z)/√z, arsinh for z < 0."""
    return _ratio(z, "arsin", mp.asin, mp.asinh)


def tan_k(x: Number, *, k: Number) -> Any:
    """tan(√k x)/√k, tanh(√c x)/√c, or x."""
    return number(x) * tan_ratio(number(k) * number(x) ** 2)


def artan_k(x: Number, *, k: Number) -> Any:
    """The inverse of :func:`tan_k`."""
    return number(x) * artan_ratio(number(k) * number(x) ** 2)


def sin_k(x: Number, *, k: Number) -> Any:
    """sin(√k x)/√k, sinh(√c x)/√c, or x."""
    return number(x) * sin_ratio(number(k) * number(x) ** 2)


def arsin_k(x: Number, *, k: Number) -> Any:
    """The inverse of :func:`sin_k`."""
    return number(x) * arsin_ratio(number(k) * number(x) ** 2)


def cos_ratio(z: Number) -> Any:
    """cos(√z), cosh(√−z) for z < 0."""
    z = number(z)
    if _foreign(z):
        return z.ratio("cos")
    root = mp.sqrt(abs(z))
    return mp.cos(root) if z >= 0 else mp.cosh(root)


def cos_k(x: Number, *, k: Number) -> Any:
    """cos(√k x), cosh(√c x), or 1."""
    return cos_ratio(number(k) * number(x) ** 2)


# ------------------------------------------------------------------------------------------------------------ metric


def lambda_x(x: Vector, *, k: Number) -> Any:
    """λ = 2/(1 + k|x|²)."""
    return 2 / (1 + number(k) * _sq(vector(x)))


def inner(x: Vector, u: Vector, v: Vector | None = None, *, k: Number) -> Any:
    """λ²⟨u, v⟩."""
    u = vector(u)
    return lambda_x(x, k=k) ** 2 * _dot(u, u if v is None else vector(v))


def norm(x: Vector, u: Vector, *, k: Number) -> Any:
    """λ|u|."""
    return abs(lambda_x(x, k=k)) * length(u)


def egrad2rgrad(x: Vector, grad: Vector, *, k: Number) -> _Vec:
    """∇/λ²."""
    return _times(lambda_x(x, k=k) ** -2, vector(grad))


def project(x: Vector, *, k: Number, margin: Number) -> _Vec:
    """x, or for k < 0 and √c|x| > 1 − margin the point of its ray at √c|x| = 1 − margin."""
    x, k = vector(x), number(k)
    if k >= 0:
        return x
    limit = (1 - number(margin)) / mp.sqrt(-k)
    size = length(x)
    return x if size <= limit else _times(limit / size, x)


# --------------------------------------------------------------------------------------------------- gyrovector space


def mobius_add(x: Vector, y: Vector, *, k: Number) -> _Vec:
    """x ⊕ y, the printed formula. A ``ZeroDivisionError`` if it is the point at infinity of a sphere."""
    x, y, k = vector(x), vector(y), number(k)
    xy, xx, yy = _dot(x, y), _sq(x), _sq(y)
    numerator = _plus(_times(1 - 2 * k * xy - k * yy, x), _times(1 + k * xx, y))
    denominator = 1 - 2 * k * xy + k**2 * xx * yy
    # At infinity numerator and denominator are both 0, and what 220 digits leave of them is noise.
    if not _foreign(denominator) and k > 0 and denominator < TINY**2 * (1 + k**2 * xx * yy):
        raise ZeroDivisionError("this sum is the point at infinity")
    return _times(1 / denominator, numerator)


def mobius_sub(x: Vector, y: Vector, *, k: Number) -> _Vec:
    """x ⊕ (−y)."""
    return mobius_add(x, _times(mp.mpf(-1), vector(y)), k=k)


def gyration(a: Vector, b: Vector, u: Vector, *, k: Number) -> _Vec:
    """gyr[a, b]u = ⊖(a ⊕ b) ⊕ (a ⊕ (b ⊕ u)), extended linearly to vectors of any length."""
    a, b, u, k = vector(a), vector(b), vector(u), number(k)
    # Gyration is linear: a small multiple of u is always a point of the space, whatever the length of u.
    size = 1 + _sqrt(abs(k)) * length(u)
    shrink = 1 / (4 * size.fixed()) if _foreign(size) else mp.mpf(2) ** -20 / size  # a foreign number has few digits
    moved = mobius_add(a, mobius_add(b, _times(shrink, u), k=k), k=k)
    return _times(1 / shrink, mobius_add(_times(mp.mpf(-1), mobius_add(a, b, k=k)), moved, k=k))


def mobius_coadd(x: Vector, y: Vector, *, k: Number) -> _Vec:
    """x ⊞ y = x ⊕ gyr[x, ⊖y]y."""
    y = vector(y)
    return mobius_add(x, gyration(x, _times(mp.mpf(-1), y), y, k=k), k=k)


def mobius_cosub(x: Vector, y: Vector, *, k: Number) -> _Vec:
    """x ⊞ (−y)."""
    return mobius_coadd(x, _times(mp.mpf(-1), vector(y)), k=k)


def expmap0(u: Vector, *, k: Number) -> _Vec:
    """tan_k(|u|)·u/|u|."""
    u = vector(u)
    return _times(tan_ratio(number(k) * _sq(u)), u)


def logmap0(x: Vector, *, k: Number) -> _Vec:
    """artan_k(|x|)·x/|x|."""
    x = vector(x)
    return _times(artan_ratio(number(k) * _sq(x)), x)


def mobius_fn_apply(fn: Callable[[_Vec], _Vec], x: Vector, *, k: Number) -> _Vec:
    """exp0(fn(log0(x)))."""
    return expmap0(fn(logmap0(x, k=k)), k=k)


def mobius_scalar_mul(r: Number, x: Vector, *, k: Number) -> _Vec:
    """r ⊗ x = exp0(r·log0(x))."""
    return mobius_fn_apply(lambda v: _times(number(r), v), x, k=k)


def mobius_matvec(m: Sequence[Vector] | Any, x: Vector, *, k: Number) -> _Vec:
    """M ⊗ x = exp0(M·log0(x)); ``m`` is a sequence of rows."""
    rows = [vector(row) for row in (m.tolist() if hasattr(m, "tolist") else m)]
    return mobius_fn_apply(lambda v: [_dot(row, v) for row in rows], x, k=k)


def mobius_pointwise_mul(w: Vector, x: Vector, *, k: Number) -> _Vec:
    """exp0(w ∗ log0(x)), coordinate by coordinate."""
    w = vector(w)
    return mobius_fn_apply(lambda v: [a * b for a, b in zip(w, v, strict=True)], x, k=k)


def antipode(x: Vector, *, k: Number) -> _Vec:
    """−x/(k|x|²) for k > 0 (the opposite point of the sphere), −x otherwise (geoopt's convention)."""
    x, k = vector(x), number(k)
    return _times(mp.mpf(-1) if k <= 0 else -1 / (k * _sq(x)), x)


# --------------------------------------------------------------------------------------------- distance, exp, geodesic


def dist(x: Vector, y: Vector, *, k: Number) -> Any:
    """2 artan_k(|(−x) ⊕ y|); π/√k between antipodes."""
    x, y, k = vector(x), vector(y), number(k)
    gap = _sq([a - b for a, b in zip(x, y, strict=True)])
    # |(−x) ⊕ y|² = |x − y|² / (1 + 2k⟨x,y⟩ + k²|x|²|y|²), whose denominator vanishes between antipodes
    denominator = 1 + 2 * k * _dot(x, y) + k**2 * _sq(x) * _sq(y)
    if denominator == 0:
        return mp.pi / mp.sqrt(k)
    return 2 * artan_k(_sqrt(gap / denominator), k=k)


def sqdist(x: Vector, y: Vector, *, k: Number) -> Any:
    """dist²."""
    return dist(x, y, k=k) ** 2


def dist0(x: Vector, *, k: Number) -> Any:
    """2 artan_k(|x|)."""
    return 2 * artan_k(length(x), k=k)


def expmap(x: Vector, u: Vector, *, k: Number) -> _Vec:
    """x ⊕ exp0(λ_x u/2)."""
    return mobius_add(x, expmap0(_times(lambda_x(x, k=k) / 2, vector(u)), k=k), k=k)


def logmap(x: Vector, y: Vector, *, k: Number) -> _Vec:
    """(2/λ_x) log0((−x) ⊕ y)."""
    x = vector(x)
    return _times(2 / lambda_x(x, k=k), logmap0(mobius_add(_times(mp.mpf(-1), x), y, k=k), k=k))


def geodesic(t: Number, x: Vector, y: Vector, *, k: Number) -> _Vec:
    """x ⊕ t ⊗ ((−x) ⊕ y)."""
    x = vector(x)
    return mobius_add(x, mobius_scalar_mul(t, mobius_add(_times(mp.mpf(-1), x), y, k=k), k=k), k=k)


def geodesic_unit(t: Number, x: Vector, u: Vector, *, k: Number) -> _Vec:
    """The point at distance t from x in the direction of u (whatever its length): x ⊕ tan_k(t/2) u/|u|."""
    u = vector(u)
    return mobius_add(x, _times(tan_k(number(t) / 2, k=k) / length(u), u), k=k)


def parallel_transport(x: Vector, y: Vector, v: Vector, *, k: Number) -> _Vec:
    """(λ_x/λ_y) gyr[y, −x]v."""
    x = vector(x)
    return _times(lambda_x(x, k=k) / lambda_x(y, k=k), gyration(y, _times(mp.mpf(-1), x), v, k=k))


def parallel_transport0(y: Vector, v: Vector, *, k: Number) -> _Vec:
    """(λ_0/λ_y) v."""
    return _times(2 / lambda_x(y, k=k), vector(v))


def parallel_transport0back(x: Vector, v: Vector, *, k: Number) -> _Vec:
    """(λ_x/λ_0) v."""
    return _times(lambda_x(x, k=k) / 2, vector(v))


def dist2plane(x: Vector, p: Vector, a: Vector, *, k: Number, signed: bool = False, scaled: bool = False) -> Any:
    """arsin_k(2⟨w, a⟩ / ((1 + k|w|²)|a|)) with w = (−p) ⊕ x; ``scaled`` multiplies it by |a|."""
    k, a = number(k), vector(a)
    w = mobius_add(_times(mp.mpf(-1), vector(p)), x, k=k)
    size = length(a)
    value = arsin_k(2 * _dot(w, a) / ((1 + k * _sq(w)) * size), k=k)
    value = value if signed else abs(value)
    return value * size if scaled else value


def weighted_midpoint(
    xs: Sequence[Vector] | Any, weights: Vector | None = None, *, k: Number, lincomb: bool = False
) -> _Vec:
    """The centroid, by its definition in the embedding: the weighted sum of hyperboloid (or sphere) points, normalised.

    With T = Σw(λ−1) and V = Σwλx the point is V/(T + √(T² + k|V|²)); ``lincomb`` multiplies it by Σw.
    """
    points = [vector(x) for x in (xs.tolist() if hasattr(xs, "tolist") else xs)]
    shares = [mp.mpf(1)] * len(points) if weights is None else vector(weights)
    k = number(k)
    height = mp.mpf(0)
    along = [mp.mpf(0)] * len(points[0])
    for x, w in zip(points, shares, strict=True):
        factor = lambda_x(x, k=k)
        height += w * (factor - 1)
        along = _plus(along, _times(w * factor, x))
    middle = _times(1 / (height + _sqrt(height**2 + k * _sq(along))), along)
    return mobius_scalar_mul(mp.fsum(shares), middle, k=k) if lincomb else middle


# ------------------------------------------------------------------------------------------------------------- models


def ball_to_lorentz(x: Vector, *, c: Number) -> _Vec:
    """((1 + c|x|²)/√c, 2x) / (1 − c|x|²): the hyperboloid −t² + |s|² = −1/c, time first."""
    x, c = vector(x), number(c)
    gap = 1 - c * _sq(x)
    return [(1 + c * _sq(x)) / (_sqrt(c) * gap), *_times(2 / gap, x)]


def lorentz_to_ball(x: Vector, *, c: Number) -> _Vec:
    """s/(1 + √c t) for a point (t, s) of the hyperboloid."""
    x = vector(x)
    return _times(1 / (1 + _sqrt(number(c)) * x[0]), x[1:])


def ball_to_klein(x: Vector, *, c: Number) -> _Vec:
    """2x/(1 + c|x|²)."""
    x = vector(x)
    return _times(2 / (1 + number(c) * _sq(x)), x)


def klein_to_ball(x: Vector, *, c: Number) -> _Vec:
    """x/(1 + √(1 − c|x|²))."""
    x = vector(x)
    return _times(1 / (1 + _sqrt(1 - number(c) * _sq(x))), x)


def stereo_to_sphere(x: Vector, *, k: Number) -> _Vec:
    """((1 − k|x|²)/√k, 2x) / (1 + k|x|²): the sphere of radius 1/√k, the pole's axis first."""
    x, k = vector(x), number(k)
    gap = 1 + k * _sq(x)
    return [(1 - k * _sq(x)) / (_sqrt(k) * gap), *_times(2 / gap, x)]


def sphere_to_stereo(x: Vector, *, k: Number) -> _Vec:
    """s/(1 + √k p) for a sphere point (p, s)."""
    x = vector(x)
    return _times(1 / (1 + _sqrt(number(k)) * x[0]), x[1:])


# -------------------------------------------------------------------------------------------------------- derivatives


def derivative(
    fn: Callable[..., Any],
    *args: Any,
    k: Number,
    wrt: int | str = "k",
    direction: Vector | None = None,
    parameter: str = "k",
    value: Any = None,
    **options: Any,
) -> Any:
    """d fn/dk, or the directional derivative in argument number ``wrt``, right to :data:`DIGITS` digits.

    A difference with a step of 1e-75 and 220 digits: its error, the second derivative times 1e-75, is far below. The
    functions are analytic through k = 0, so the difference may leave it to either side. ``parameter="c"`` is for the
    functions that take c; ``value`` is fn at the arguments, if it is known already.
    """
    k = number(k)
    if value is None:
        value = fn(*args, **{parameter: k}, **options)
    if wrt == "k":
        # Near the boundary, or at a tiny curvature, the natural unit of k is k itself.
        step = _STEP * (abs(k) if k != 0 else 1)
        moved_value = fn(*args, **{parameter: k + step}, **options)
    else:
        index = int(wrt)
        moved: Any
        if isinstance(args[index], Sequence) or int(getattr(args[index], "ndim", 0)) > 0:
            base = vector(args[index])
            along = vector(direction) if direction is not None else [mp.mpf(1)] * len(base)
            step = _STEP * (length(base) or 1) / (length(along) or 1)
            moved = _plus(base, _times(step, along))
        else:
            step = _STEP * (abs(number(args[index])) or 1)
            moved = number(args[index]) + step * (number(direction) if direction is not None else 1)
        moved_value = fn(*args[:index], moved, *args[index + 1 :], **{parameter: k}, **options)
    if isinstance(value, list):
        return [(a - b) / step for a, b in zip(moved_value, value, strict=True)]
    return (moved_value - value) / step
