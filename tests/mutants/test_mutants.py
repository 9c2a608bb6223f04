# ruff: noqa: E501  -- a mutant is a line, however long: the list reads as a table
"""Every mutant of hgeo's geometry is killed by the law kit.

A mutant is one small change of the source: a wrong sign, a lost factor, swapped arguments, a series cut too early. Each
is made in a copy of the package, and the laws that need the operations it touches are run against the copy. A mutant
that no law notices is a hole in the kit.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import geoopt
import pytest
import torch

import hgeo
from hgeo.testing import Functions, check_manifold, laws

_SOURCE = Path(hgeo.__file__).parent
_NUMBERS = itertools.count()

_STEREO, _SCALARS, _MODELS, _CONTRACT, _MIDPOINTS, _HYPERBOLOID = (
    f"math/_{part}.py" for part in ("stereographic", "scalars", "models", "contract", "midpoints", "hyperboloid")
)
_WORDS, _SYMBOLS, _LLVM = (f"kernels/_{part}.py" for part in ("vocabulary", "symbols", "llvm"))
_MANIFOLD, _SCALED, _CURVATURE, _PRODUCT, _LORENTZ, _KLEIN, _GEOMETRY = (
    f"manifolds/_{part}.py"
    for part in ("stereographic", "scaled", "curvature", "product", "lorentz", "klein", "geometry")
)


@dataclass(frozen=True)
class Mutant:
    """``old`` becomes ``new`` in one file; ``touches`` names operations whose laws should notice."""

    name: str
    file: str
    old: str
    new: str
    touches: tuple[str, ...]
    at: tuple[float, ...] = (-1.0, 1.0)
    dtype: torch.dtype = torch.float64
    target: Callable[[ModuleType], Any] | None = None
    laws: tuple[str, ...] = ()
    dim: int = 3
    plain: bool = False  # shows only in torch's form: the loops compute float32 in float64


def _ball(package: ModuleType) -> Any:
    return package.manifolds.PoincareBall(1.0)


def _sphere(package: ModuleType) -> Any:
    return package.manifolds.SphereProjection(1.0)


MUTANTS = [
    # --- curved trigonometry ---
    Mutant("tangent series with a wrong recursion", _SCALARS, "/ (2 * n + 1))\n    return [float(value) for value in t]", "/ (2 * n + 2))\n    return [float(value) for value in t]", ("tan_k", "expmap0")),
    Mutant("inverse tangent series without its alternating sign", _SCALARS, "_ARTAN = [(-1.0) ** n / (2 * n + 1)", "_ARTAN = [1.0 / (2 * n + 1)", ("artan_k", "logmap0")),
    Mutant("inverse sine series with a wrong factor", _SCALARS, "Fraction((2 * n - 1) ** 2, (2 * n)", "Fraction((2 * n) ** 2, (2 * n)", ("arsin_k", "dist")),
    Mutant("sine series with a wrong sign", _SCALARS, "_SIN = _running_product(_COUNT, lambda n: Fraction(-1,", "_SIN = _running_product(_COUNT, lambda n: Fraction(1,", ("sin_k",)),
    Mutant("cosine series with sine's factorials", _SCALARS, "(2 * n - 1) * (2 * n)))", "(2 * n + 1) * (2 * n)))", ("cos_k",)),
    Mutant("series cut after three terms", _SCALARS, '{2.0**-23: 6, 2.0**-52: 11}', '{2.0**-23: 3, 2.0**-52: 11}', ("tan_ratio", "expmap0", "logmap0"), dtype=torch.float32),
    Mutant("series cut two terms too early in float64", _SCALARS, '{2.0**-23: 6, 2.0**-52: 11}', '{2.0**-23: 6, 2.0**-52: 7}', ("tan_ratio", "expmap0", "logmap0")),
    Mutant("series used far outside its radius", _SCALARS, "_SERIES_RADIUS = 0.02", "_SERIES_RADIUS = 0.5", ("tan_k", "expmap0", "logmap0")),
    Mutant("series never used", _SCALARS, "_SERIES_RADIUS = 0.02", "_SERIES_RADIUS = 1e-30", ("tan_k", "expmap0", "logmap0", "dist")),
    Mutant("tangent for hyperbolic tangent", _SCALARS, 'lambda s: tanh(s) / s', 'lambda s: tan(s) / s', ("tan_k", "expmap0")),
    Mutant("missing root of the curvature", _SCALARS, 'lambda s: atanh(s) / s', 'lambda s: atanh(s)', ("artan_k", "logmap0")),
    Mutant("square root with an infinite derivative at 0", _WORDS, 'where(zero, 0.0, sqrt(where(zero, 1.0, x)))', 'sqrt(x)', ("dist", "dist0", "norm")),
    # --- the metric ---
    Mutant("conformal factor with the wrong sign of k", _STEREO, '    return _at_least(1 + k * dot(x, x), k)', '    return _at_least(1 - k * dot(x, x), k)', ("lambda_x", "inner", "expmap")),
    Mutant("conformal factor without its 2", _STEREO, '    return 2 / _flatness(x, k)\n', '    return 1 / _flatness(x, k)\n', ("lambda_x",)),
    Mutant("inner product with λ for λ²", _STEREO, '(2 / _flatness(x, k)) ** 2 * dot(u, v)', '(2 / _flatness(x, k)) * dot(u, v)', ("inner",)),
    Mutant("inner product that forgets v", _STEREO, '** 2 * dot(u, v)', '** 2 * dot(u, u)', ("inner",)),
    Mutant("norm without the metric", _STEREO, '2 / _flatness(x, k) * safe_sqrt(dot(u, u))', '2 * safe_sqrt(dot(u, u))', ("norm",)),
    Mutant("Riemannian gradient divided by λ once", _STEREO, 'grad * (_flatness(x, k) / 2) ** 2', 'grad * (_flatness(x, k) / 2)', ("egrad2rgrad",)),
    Mutant("keepdim ignored", _CONTRACT, 'if not compute.gives_row and not keepdim:', 'if not compute.gives_row:', ("dist", "inner")),
    Mutant("dim ignored in a sum", _CONTRACT, '        if dim != -1:\n            values', '        if False:\n            values', ("dist", "mobius_add")),
    Mutant("mean for sum", _SYMBOLS, '                total = total + p * q * self.step(kind, *sorted((a, b)))', '                total = total + p * q * self.step(kind, *sorted((a, b))) / 3', ("dist", "mobius_add")),
    # --- projection ---
    Mutant("no projection", _STEREO, '    return where(outside, x * factor, x)\n', '    return x\n', ("projx",)),
    Mutant("projection of everything", _STEREO, '    return where(outside, x * factor, x)\n', '    return x * factor\n', ("projx",)),
    Mutant("projection to half of the ball", _STEREO, "factor = (1 - 1.5 * margin)", "factor = 0.5 * (1 - 1.5 * margin)", ("projx",)),
    Mutant("projection that forgets the curvature", _STEREO, '    squared = -k * dot(x, x)\n    outside', '    squared = dot(x, x)\n    outside', ("projx",), at=(-4.0, -0.25)),
    Mutant("geoopt's margin of 4e-3", _CONTRACT, "return 4.0 * torch.finfo(dtype).eps", "return 4e-3", ("expmap0", "logmap0"), target=_ball, dtype=torch.float32),
    # --- Möbius addition and gyration ---
    Mutant("addition with swapped arguments", _STEREO, '    numerator, denominator, *_ = _add_parts(x, y, k)\n    return numerator / denominator', '    numerator, denominator, *_ = _add_parts(y, x, k)\n    return numerator / denominator', ("mobius_add",)),
    Mutant("the printed addition, which cancels", _STEREO, '    numerator, denominator, *_ = _add_parts(x, y, k)\n    return numerator / denominator', '    xy, xx, yy = dot(x, y), dot(x, x), dot(y, y)\n    return ((1 - 2 * k * xy - k * yy) * x + (1 + k * xx) * y) / (1 - 2 * k * xy + k**2 * xx * yy)', ("mobius_add",)),
    Mutant("addition with a wrong sign in its numerator", _STEREO, "    numerator = a * s - k * ss * x\n", "    numerator = a * s + k * ss * x\n", ("mobius_add",)),
    Mutant("addition with a wrong sign in its denominator", _STEREO, '    flat = a * b - k * ss\n', '    flat = a * b + k * ss\n', ("mobius_add", "gyration")),
    Mutant("addition that loses its digits far out on a sphere", _STEREO, 'where((a > 1) & _far_apart(xx, yy, ss), printed, numerator)', 'numerator', ("mobius_add",), at=(1.0,)),
    Mutant("subtraction that adds", _STEREO, '    return mobius_add.formula(x, -y, k)', '    return mobius_add.formula(x, y, k)', ("mobius_sub",)),
    Mutant("subtraction of the other one", _STEREO, '    return mobius_add.formula(x, -y, k)', '    return mobius_add.formula(-x, y, k)', ("mobius_sub",)),
    Mutant("coaddition with a wrong sign", _STEREO, "numerator = a * s + excess * x", "numerator = a * s - excess * x", ("mobius_coadd",), at=(-1.0,)),
    Mutant("coaddition is addition", _STEREO, '    s = x + y\n    a, b = _flatness(x, k), _flatness(y, k)\n    # b x', '    return mobius_add.formula(x, y, k)\n    s = x + y\n    a, b = _flatness(x, k), _flatness(y, k)\n    # b x', ("mobius_coadd",)),
    Mutant("cosubtraction that coadds", _STEREO, '    return mobius_coadd.formula(x, -y, k)', '    return mobius_coadd.formula(x, y, k)', ("mobius_cosub",)),
    Mutant("gyration the other way round", _STEREO, "u + 2 * (wedge(turned) - p * turned)", "u + 2 * (wedge(turned) + p * turned)", ("gyration", "transp")),
    Mutant("gyration without its second-order term", _STEREO, "u + 2 * (wedge(turned) - p * turned)", "u - 2 * p * turned", ("gyration",)),
    Mutant("gyration without its 2", _STEREO, "u + 2 * (wedge(turned)", "u + (wedge(turned)", ("gyration",)),
    Mutant("gyration forgotten", _STEREO, "    return u + 2 * (wedge(turned) - p * turned) / denominator", "    return u", ("gyration", "transp")),
    # --- scalar and matrix multiplication ---
    Mutant("scalar multiplication in the ball, not in the tangent space", _STEREO, '    return stretch * tan_ratio(k * xx * (stretch * stretch)) * x', '    return r * x', ("mobius_scalar_mul",)),
    Mutant("scalar multiplication by |r|", _STEREO, '    stretch = r * artan_ratio(k * xx)', '    stretch = abs(r) * artan_ratio(k * xx)', ("mobius_scalar_mul",)),
    Mutant("transposed matrix", _STEREO, "(m @ tangent.unsqueeze(-1)).squeeze(-1)", "(m.mT @ tangent.unsqueeze(-1)).squeeze(-1)", ("mobius_matvec",)),
    Mutant("matrix acts on the point", _STEREO, "    tangent = logmap0(x, k=k, dim=dim).movedim(dim, -1)\n", "    tangent = x.movedim(dim, -1)\n", ("mobius_matvec",)),
    Mutant("pointwise product squared", _STEREO, "    return expmap0(w * logmap0(x, k=k, dim=dim), k=k, dim=dim)", "    return expmap0(w * w * logmap0(x, k=k, dim=dim), k=k, dim=dim)", ("mobius_pointwise_mul",)),
    Mutant("function applied to the point", _STEREO, "expmap0(fn(logmap0(x, k=k, dim=dim), *args, **kwargs)", "expmap0(fn(x, *args, **kwargs)", ("mobius_fn_apply",)),
    # --- exponential, logarithm, geodesics, transport ---
    Mutant("exp0 with the inverse tangent", _STEREO, '    return u * tan_ratio(k * dot(u, u))', '    return u * artan_ratio(k * dot(u, u))', ("expmap0",)),
    Mutant("exp0 with half of the length", _STEREO, '    return u * tan_ratio(k * dot(u, u))', '    return u * tan_ratio(k * dot(u, u) / 4)', ("expmap0",)),
    Mutant("exp without λ", _STEREO, 'sealed(u / _flatness(x, k))', 'u', ("expmap",)),
    Mutant("exp with λ for λ/2", _STEREO, 'sealed(u / _flatness(x, k))', 'sealed(2 * u / _flatness(x, k))', ("expmap",)),
    Mutant("log without 2/λ", _STEREO, '    return a * ratio / sqrt(ab * denominator) * numerator', '    return ratio / sqrt(ab * denominator) * numerator', ("logmap",)),
    Mutant("log with λ_y for λ_x", _STEREO, '    return a * ratio / sqrt(ab * denominator) * numerator', '    return b * ratio / sqrt(ab * denominator) * numerator', ("logmap",)),
    Mutant("arcsine near antipodes", _STEREO, "    wide = z > 0.25\n", "    wide = z > 0.999999\n", ("dist", "logmap"), at=(1.0,)),
    Mutant("geodesic from y to x", _STEREO, '    t = where(between, t, 0.5)\n', '    t = 1 - where(between, t, 0.5)\n', ("geodesic",)),
    Mutant("straight line for geodesic", _STEREO, '    return where(between, lowered(spatial, height, length2, k, pole=torch.nan), beyond)', '    return x + t * (y - x)', ("geodesic",)),
    Mutant("geodesic whose velocity is a difference of large terms", _STEREO, '    close = (abs(z) < 1) & (', '    close = (abs(z) < 0) & (', ("geodesic",)),
    Mutant("geodesic between close points that turns back", _STEREO, "2 * t - 1\n    even", "1 - 2 * t\n    even", ("geodesic",)),
    Mutant("unit geodesic of double speed", _STEREO, "    half = t / 2\n", "    half = t\n", ("geodesic_unit",)),
    Mutant("unit geodesic that reads the length of u", _STEREO, '    direction = u / sqrt(where(squared == 0, 1.0, squared))\n', '    direction = u\n', ("geodesic_unit",)),
    Mutant("transport without the ratio of λ", _STEREO, '    return quotient * gyration.formula(y, -x, v, k)\n', '    return gyration.formula(y, -x, v, k)\n', ("transp",)),
    Mutant("transport with the ratio upside down", _STEREO, '    return quotient * gyration.formula(y, -x, v, k)\n', '    return gyration.formula(y, -x, v, k) / quotient\n', ("transp",)),
    Mutant("transport's ratio by two numbers rounded apart", _STEREO, '    quotient = careful_flatness(y, k) / careful_flatness(x, k)', '    quotient = _flatness(y, k) / _flatness(x, k)', (), dtype=torch.float32, at=(-1.0,), laws=("curvature_derivative_*of_transp",), plain=True),
    Mutant("transport with swapped ends", _STEREO, 'gyration.formula(y, -x, v, k)', 'gyration.formula(x, -y, v, k)', ("transp",)),
    Mutant("transport from the origin upside down", _STEREO, '    return v * _flatness(y, k)', '    return v / _flatness(y, k)', ("transp0",)),
    Mutant("transport to the origin that does nothing", _STEREO, '    return v / _flatness(x, k)', '    return v', ("transp0back",)),
    # --- distances and planes ---
    Mutant("distance without its 2", _STEREO, '    return 2 * safe_sqrt(squared) / sqrt(ab) * ratio', '    return safe_sqrt(squared) / sqrt(ab) * ratio', ("dist",)),
    Mutant("distance by dot products", _STEREO, '    squared = dot(x - y, x - y)\n', '    squared = maximum(xx + yy - 2 * dot(x, y), 0.0)\n', ("dist",)),
    Mutant("distance by artanh of the difference", _STEREO, '    squared, ab, ratio = _separation(x, y, k)\n    return 2 * safe_sqrt(squared) / sqrt(ab) * ratio', '    return dist0.formula(sealed(mobius_add.formula(-x, y, k)), k)', ("dist",), at=(-1.0,)),
    Mutant("distance with one λ", _STEREO, "    ab = a * b\n    complement", "    ab = a\n    complement", ("dist",)),
    Mutant("squared distance that is not squared", _STEREO, '4 * squared / ab * ratio * ratio\n\n', '4 * squared / ab * ratio\n\n', ("dist2",)),
    Mutant("squared distance through the root, with no Hessian", _STEREO, '    return 4 * squared / ab * ratio * ratio\n', '    return (2 * safe_sqrt(squared) / sqrt(ab) * ratio) ** 2\n', ("dist2",)),
    Mutant("distance to the origin of half the size", _STEREO, '    return 2 * safe_sqrt(squared) * artan_ratio(k * squared)', '    return safe_sqrt(squared) * artan_ratio(k * squared)', ("dist0",)),
    Mutant("plane distance without its 2", _STEREO, "    sine = 2 * along / flat\n", "    sine = along / flat\n", ("dist2plane",)),
    Mutant("plane distance of a normal that is not normalised", _STEREO, '    length = sqrt(where(squared == 0, 1.0, squared))\n    flat =', '    length = 1.0\n    flat =', ("dist2plane",)),
    Mutant("plane distance always signed", _STEREO, '        if not signed:\n            distance = abs(distance)\n', '', ("dist2plane",)),
    Mutant("plane distance scaled twice", _STEREO, 'distance * safe_sqrt(dot(a, a)) if', 'distance * dot(a, a) if', ("dist2plane",)),
    Mutant("plane distance with swapped point and plane", _STEREO, '_add_parts(-p, x, k)', '_add_parts(-x, p, k)', ("dist2plane",)),
    Mutant("antipode of a ball", _STEREO, '    return -x / where(squared > 0, squared, 1.0)', '    return -x', ("antipode",), at=(1.0,)),
    # --- midpoints ---
    Mutant("midpoint as the mean of coordinates", _MIDPOINTS, '    middle = _midpoint(grouped(xs), w, bent, Operation.total, lambda row: row)\n', '    middle = (w * grouped(xs)).sum(-2, keepdim=True) / w.sum(-2, keepdim=True)\n', ("weighted_midpoint",)),
    Mutant("midpoint that forgets the weights in its height", _MIDPOINTS, 'w * (factor - 1)', 'factor - 1', ("weighted_midpoint",)),
    Mutant("midpoint with λ for λ − 1", _MIDPOINTS, 'w * (factor - 1)', 'w * factor', ("weighted_midpoint",)),
    Mutant("midpoint that cancels near the boundary", _MIDPOINTS, '    steep = 2 * length2 < sums.first * sums.first\n', '    steep = length2 < -1\n', ("weighted_midpoint",), dtype=torch.float32, at=(-1.0,)),
    Mutant("linear combination that does not scale", _MIDPOINTS, "    if lincomb:\n        middle", "    if False:\n        middle", ("weighted_midpoint",)),
    Mutant("segments summed into the wrong row", _MIDPOINTS, ".index_add(0, index, value)", ".index_add(0, index.roll(1), value)", ("segment_midpoint",)),
    Mutant("centroid without its floor and weight", _MIDPOINTS, '    return lowered(spatial, height, maximum(length2, floor), k)', '    return lowered(spatial, height, floor, k)', ("centroid",)),
    # --- models ---
    Mutant("hyperboloid of another radius", _HYPERBOLOID, '(1 + c * squared) * lam / (2 * root_of(c))', '(1 + c * squared) * lam / 2', ("ball_to_lorentz",), at=(-4.0,)),
    Mutant("hyperboloid point that is not on it", _HYPERBOLOID, 'lam / (2 * root_of(c)), lam * x)', 'lam / (2 * root_of(c)), x)', ("ball_to_lorentz",), at=(-1.0,)),
    Mutant("ball from hyperboloid without the root", _HYPERBOLOID, '    return 1 + root_of(c) * x.first\n', '    return 1 + x.first\n', ("lorentz_to_ball",), at=(-4.0,)),
    Mutant("Klein without its 2", _MODELS, '    return 2 * x / (1 + c * dot(x, x))', '    return x / (1 + c * dot(x, x))', ("ball_to_klein",), at=(-1.0,)),
    Mutant("ball from Klein with the wrong sign", _MODELS, 'sqrt(_flatness(x, c))', 'sqrt(1 + c * dot(x, x))', ("klein_to_ball",), at=(-1.0,)),
    Mutant("sphere upside down", _MODELS, 'Ambient((1 - k * squared) * lam', 'Ambient((k * squared - 1) * lam', ("stereo_to_sphere",), at=(1.0,)),
    Mutant("projection from the other pole", _MODELS, ', 1 + pole)', ', 1 - pole)', ("sphere_to_stereo",), at=(1.0,)),
    Mutant("hyperboloid distance without its 2", _HYPERBOLOID, '    return 2 * safe_sqrt(squared) * sqrt(room)', '    return safe_sqrt(squared) * sqrt(room)', ("lorentz_dist",), at=(-1.0,)),
    Mutant("sphere distance as the chord", _MODELS, '2 / root_of(k) * atan2(chord, where(nowhere, 1.0, cochord))', 'chord', ("sphere_dist",), at=(1.0,)),
    Mutant("hyperboloid exp0 without the curvature", _HYPERBOLOID, '    z = -c * dot(v, v)\n', '    z = -dot(v, v)\n', ("lorentz_expmap0",), at=(-4.0,)),
    # --- precision ---
    Mutant("half precision computed in half precision", _CONTRACT, '        inner = torch.float32 if dtype in _HALF else dtype\n        values', '        inner = dtype\n        values', ("dist",), laws=("half_precision_of_*",)),
    # --- manifolds ---
    Mutant("a curvature that is stale", _MANIFOLD, '        return -self._magnitude\n', '        if not hasattr(self, "_seen"):\n            self._seen = -self._magnitude.detach()\n        return self._seen\n', (), target=_ball, laws=("curvature_*", "zero_curvature_trains")),
    Mutant("a curvature behind a clamp", _CURVATURE, "    put_back(stored, minimum)\n    return stored.clone()\n\n\ndef curvature", "    return torch.relu(stored - minimum) + minimum\n\n\ndef curvature", (), target=_ball, laws=("curvature_*", "zero_curvature_trains")),
    Mutant("a curvature that runs away behind its bound", _CURVATURE, "    put_back(stored, minimum)\n    return stored.clone()\n\n\ndef curvature", "    return torch.where(stored < minimum, minimum + (stored - stored.detach()), stored)\n\n\ndef curvature", (), target=_ball, laws=("curvature_*",)),
    Mutant("a curvature whose every read lets only inward gradients pass", _CURVATURE, "    put_back(stored, minimum)\n    return stored.clone()\n\n\ndef curvature", "    value = stored.clone()\n    value.register_hook(lambda grad: torch.where((stored > minimum) | (grad < 0), grad, 0.0))\n    return value\n\n\ndef curvature", (), target=_ball, laws=("zero_curvature_*",)),
    Mutant("a curvature that may turn negative", _CURVATURE, "    stored.data.clamp_(min=minimum)\n", "    stored.data.clamp_(min=-1.0)\n", (), target=_ball, laws=("curvature_*",)),
    Mutant("a curvature stored as its exponential", _CURVATURE, "    return nn.Parameter(tensor, requires_grad=learnable)", "    return nn.Parameter(tensor.exp().sub(1).log1p(), requires_grad=learnable)", (), target=_ball, laws=("curvature_survives_construction",), dtype=torch.float32),
    Mutant("exp of a manifold that does not project", _MANIFOLD, "        return hm.project(x, k=self.k, dim=dim) if project else x\n", "        return x\n", ("expmap0", "projx"), target=_ball, laws=("frame", "maps", "results_are_points"), dtype=torch.float32),
    Mutant("retraction that does nothing", _MANIFOLD, "        return hm.project(x + u, k=self.k, dim=dim)", "        return hm.project(x, k=self.k, dim=dim)", ("retr",), target=_ball),
    Mutant("retraction that goes twice as far", _MANIFOLD, "        return hm.project(x + u, k=self.k, dim=dim)", "        return hm.project(x + 2 * u, k=self.k, dim=dim)", ("retr",), target=_ball),
    Mutant("a manifold's transport with swapped points", _MANIFOLD, "hm.parallel_transport(x, y, v, k=self.k, dim=dim)", "hm.parallel_transport(y, x, v, k=self.k, dim=dim)", ("transp",), target=_ball),
    Mutant("a manifold's dist2 is dist", _MANIFOLD, "hm.sqdist(x, y, k=self.k", "hm.dist(x, y, k=self.k", ("dist2",), target=_sphere),
    Mutant("a sphere with the curvature of a ball", _MANIFOLD, "    @property\n    def k(self) -> Tensor:\n        return self._magnitude\n", "    @property\n    def k(self) -> Tensor:\n        return -self._magnitude\n", (), target=_sphere, laws=("curvature",)),
    # --- frames, products, the hyperboloid ---
    Mutant("frame of the ball without its scale", _MANIFOLD, "    def scale(self, manifold: geoopt.Manifold) -> float:\n        return 2.0\n", "    def scale(self, manifold: geoopt.Manifold) -> float:\n        return 1.0\n", (), target=_ball, laws=("frame",)),
    Mutant("frame distance halved", _GEOMETRY, "        return hm.dist(self.to_ball(manifold, x), self.to_ball(manifold, y), k=self.curvature(manifold))\n", "        return hm.dist(self.to_ball(manifold, x), self.to_ball(manifold, y), k=self.curvature(manifold)) / 2\n", (), target=_ball, laws=("frame",)),
    Mutant("frame of the hyperboloid with another curvature", _LORENTZ, "hm.lorentz_expmap0(_stopped(v, c), c=c)", "hm.lorentz_expmap0(_stopped(v, c), c=1 / c)", (), target=lambda package: package.manifolds.Lorentz(2.0), laws=("frame",)),
    Mutant("frame of a scaled space that forgets the scale", _SCALED, "exp0(manifold.base, v / manifold.scale.to(v.dtype))", "exp0(manifold.base, v)", (), target=lambda package: geoopt.Scaled(geoopt.Sphere(), 2.0), laws=("frame",), dim=2),
    Mutant("product of coordinates that does not balance its factors", _PRODUCT, "(m, piece if unit == 1 else piece * unit, unit)", "(m, piece, unit)", (), target=lambda package: package.manifolds.Product((package.manifolds.PoincareBall(), 2), (geoopt.Sphere(), 2)), laws=("frame",), dim=4),
    Mutant("product distance as a sum", _PRODUCT, "        return hm.safe_sqrt(self.sqdist(manifold, x, y))", "        return self.sqdist(manifold, x, y)", (), target=lambda package: package.manifolds.Product((package.manifolds.PoincareBall(), 2), (geoopt.Sphere(), 2)), laws=("frame",), dim=4),
    Mutant("hyperboloid transport with the wrong sign", _HYPERBOLOID, 'a + 2 * (wedge(turned) - half * turned)', 'a + 2 * (wedge(turned) + half * turned)', ("transp",), target=lambda package: package.manifolds.Lorentz(1.0), laws=("transport",)),
    Mutant("hyperboloid gradient without the sign of time", _HYPERBOLOID, 'Ambient(-grad.first, grad.rest)', 'grad', ("egrad2rgrad",), target=lambda package: package.manifolds.Lorentz(1.0)),
    Mutant("hyperboloid logarithm without its division", _HYPERBOLOID, '    ratio = sin_ratio(z)\n', '    ratio = 1 + 0 * z\n', ("logmap",), target=lambda package: package.manifolds.Lorentz(1.0)),
    # --- what shows only at another curvature than 1, or only on the hyperboloid and in Klein's ball ---
    Mutant("hyperboloid gradient that is not tangent", _HYPERBOLOID, 'return lorentz_tangent.formula(x, Ambient(-grad.first, grad.rest), c)', 'return Ambient(-grad.first, grad.rest)', ("egrad2rgrad",), target=lambda package: package.manifolds.Lorentz(1.0)),
    Mutant("hyperboloid projection of vectors without the curvature", _HYPERBOLOID, '    excess = c * (defect', '    excess = 1 * (defect', ("proju", "logmap"), target=lambda package: package.manifolds.Lorentz(1.0)),
    Mutant("hyperboloid projection of points without the curvature", _HYPERBOLOID, 'sqrt(1 / c + dot(spatial', 'sqrt(1 + dot(spatial', ("projx", "expmap"), target=lambda package: package.manifolds.Lorentz(1.0)),
    Mutant("hyperboloid norm without its root", _HYPERBOLOID, '    return safe_sqrt(dot(a, a))', '    return dot(a, a)', ("norm",), target=lambda package: package.manifolds.Lorentz(1.0)),
    Mutant("hyperboloid transport from the origin to itself", _HYPERBOLOID, '    return _carried(y, v.rest, c)', '    return v', ("transp0",), target=lambda package: package.manifolds.Lorentz(1.0)),
    Mutant("hyperboloid geodesic backwards", _LORENTZ, "        return self.expmap(x, t * self.logmap(x, y))", "        return self.expmap(x, (1 - t) * self.logmap(x, y))", ("geodesic",), target=lambda package: package.manifolds.Lorentz(1.0)),
    Mutant("hyperboloid exponential that is off the manifold", _HYPERBOLOID, '        return _point(_within(sealed(spatial), margin, c), c)', '        return _point(_within(sealed(spatial), margin, c), 1.001 * c)', ("expmap",), target=lambda package: package.manifolds.Lorentz(1.0)),
    Mutant("Klein's metric without the curvature", _KLEIN, "(dot(u, v) + self.c.to(x.dtype) * gamma2 * dot(x, u) * dot(x, v))", "(dot(u, v) + gamma2 * dot(x, u) * dot(x, v))", ("inner",), target=lambda package: package.manifolds.Klein(1.0)),
    Mutant("Klein's metric as if it were conformal", _KLEIN, "gamma2 * (dot(u, v) + self.c.to(x.dtype) * gamma2 * dot(x, u) * dot(x, v))", "gamma2 * dot(u, v)", ("inner",), target=lambda package: package.manifolds.Klein(1.0)),
    Mutant("Klein's gradient divided by γ once", _KLEIN, "* x) / self.gamma(x) ** 2", "* x) / self.gamma(x)", ("egrad2rgrad",), target=lambda package: package.manifolds.Klein(1.0)),
    Mutant("Klein's transport with swapped ends", _KLEIN, "self.hyperboloid.transp(self._up(x), self._up(y), self._push(x, v))", "self.hyperboloid.transp(self._up(y), self._up(x), self._push(x, v))", ("transp",), target=lambda package: package.manifolds.Klein(1.0)),
    Mutant("Klein's vectors pulled back without the root", _KLEIN, "torch.sqrt(self.c.to(x.dtype)) * hm.time_part(u) * x)", "self.c.to(x.dtype) * hm.time_part(u) * x)", ("logmap", "transp"), target=lambda package: package.manifolds.Klein(1.0)),
    Mutant("ball from hyperboloid without the root, at c = 1", _HYPERBOLOID, '    return 1 + root_of(c) * x.first\n', '    return 1 + x.first\n', ("lorentz_to_ball",), at=(-1.0,)),
    Mutant("hyperboloid distance with c for its root, at c = 1", _HYPERBOLOID, '    return 1 + root_of(c) * x.first\n', '    return 1 + c * x.first\n', ("lorentz_dist",), at=(-1.0,)),
    Mutant("sphere distance without the radius, at k = 1", _MODELS, '2 / root_of(k) * atan2(chord', '2 * atan2(chord', ("sphere_dist",), at=(1.0,)),
    Mutant("sphere exponential with k for its root, at k = 1", _MODELS, 'Ambient(cos_ratio(z) / root_of(k), sin_ratio(z) * v)', 'Ambient(cos_ratio(z) / k, sin_ratio(z) * v)', ("sphere_expmap0",), at=(1.0,)),
    Mutant("distance whose curvature is detached", _STEREO, '    squared, ab, ratio = _separation(x, y, k)\n    return 2 *', '    squared, ab, ratio = _separation(x, y, k if isinstance(k, float) else k.detach())\n    return 2 *', ("dist",)),
    Mutant("logarithm at the origin whose gradient is detached in its size", _STEREO, '    return x * artan_ratio(k * dot(x, x))', '    return x * artan_ratio((k * dot(x, x)).detach())', ("logmap0",)),
    Mutant("sphere's plane distance by its sine alone", _STEREO, '    return sine * half_distance_ratio(sine * sine, maximum(cosine2, 0.0), k)', '    return sine * arsin_ratio(k * sine * sine)', ("dist2plane",), at=(1.0,)),
    Mutant("float64 kept off the boundary by float32's margin", _CONTRACT, "return 4.0 * torch.finfo(dtype).eps", "return 4.0 * torch.finfo(torch.float32).eps", ("expmap0", "logmap0"), target=_ball),
    Mutant("a curvature clamped from above", _CURVATURE, "        return stored.clamp(min=minimum)\n", "        return stored.clamp(min=minimum, max=100.0)\n", (), target=_ball, laws=("curvature_survives_construction",)),
    Mutant("a product whose factors swap their curvature", _PRODUCT, "        pieces = zip(manifold.manifolds, v.split(", "        pieces = zip(reversed(manifold.manifolds), v.split(", (), target=lambda package: package.manifolds.Product((package.manifolds.PoincareBall(0.5), 2), (package.manifolds.PoincareBall(2.0), 2)), laws=("frame", "metric", "maps"), dim=4),
    # --- what a stranger tried, and what no law had noticed ---
    Mutant('geodesic by the exponential of the logarithm, which loses its end', _STEREO, '    return where(between, lowered(spatial, height, length2, k, pole=torch.nan), beyond)', '    return expmap.formula(x, time * logmap.formula(x, y, k), k)', (), laws=('curvature_derivative_of_geodesic', 'oracle_geodesic',), at=(-1.0,)),
    Mutant('midpoint whose weights have lost their digits', _MIDPOINTS, '    factor = 2 / careful_flatness(x, k)\n', '    factor = 2 / (1 + k * dot(x, x))\n', (), laws=('curvature_derivative_near_the_boundary_of_weighted_midpoint',), at=(-1.0,), dtype=torch.float32, plain=True),
    Mutant('logarithm of two flatnesses rounded apart', _STEREO, '_add_parts(-x, y, k, linked=True)', '_add_parts(-x, y, k)', (), laws=('curvature_derivative_near_the_boundary_of_logmap',), at=(-1.0,), dtype=torch.float32, plain=True),
    Mutant('centroid without its lower bound', _MIDPOINTS, 'maximum(length2, floor), k)', 'length2, k)', (), laws=('centroid_of_one_point',), at=(-1.0,), dtype=torch.float32),
    Mutant('function that does not hear what it is handed', _STEREO, 'expmap0(fn(logmap0(x, k=k, dim=dim), *args, **kwargs), k=k, dim=dim)', 'expmap0(fn(logmap0(x, k=k, dim=dim)), k=k, dim=dim)', (), laws=('functions_compose',)),
    Mutant('coordinates beyond the eighth are lost', _LLVM, 'out.line("%ragged = icmp ne i64 %whole, %d")', 'out.line("%ragged = icmp slt i64 %d, 8")', (), laws=('more_dimensions_change_nothing',)),
    Mutant('a large curvature is clamped in λ', _STEREO, '    return _at_least(1 + k * dot(x, x), k)', '    return _at_least(1 + (max(k, -50.0) if isinstance(k, float) else maximum(k, -50.0)) * dot(x, x), k)', (), laws=('stretching_of_lambda_x',), at=(-1.0,)),
    Mutant('series of a ratio used from 1e-4 on only', _SCALARS, '_SERIES_RADIUS = 0.02', '_SERIES_RADIUS = 1e-4', (), laws=('curvature_derivative_of_*',), dtype=torch.float32, plain=True),
    Mutant('retraction that leaves the ball', _MANIFOLD, '    def retr(self, x: Tensor, u: Tensor, *, dim: int = -1) -> Tensor:\n        return hm.project(x + u, k=self.k, dim=dim)', '    def retr(self, x: Tensor, u: Tensor, *, dim: int = -1) -> Tensor:\n        return x + u', (), laws=('results_are_points',), target=_ball),
    Mutant('retraction that goes 1 % short', _MANIFOLD, '        return hm.project(x + u, k=self.k, dim=dim)', '        return hm.project(x + 0.99 * u, k=self.k, dim=dim)', (), laws=('retraction_agrees_to_first_order',), target=_ball),
    Mutant('mobius_scalar_mul that leaves the ball', _MANIFOLD, '        return self._finished(hm.mobius_scalar_mul(_tensor(r, x), x, k=self.k, dim=dim), project, dim)', '        return hm.mobius_scalar_mul(_tensor(r, x), x, k=self.k, dim=dim)', (), laws=('results_are_points',), target=_ball),
    Mutant('mobius_matvec that leaves the ball', _MANIFOLD, '        return self._finished(hm.mobius_matvec(m, x, k=self.k, dim=dim), project, dim)', '        return hm.mobius_matvec(m, x, k=self.k, dim=dim)', (), laws=('results_are_points',), target=_ball),
    Mutant('geodesic_unit that leaves the ball', _MANIFOLD, '        return self._finished(hm.geodesic_unit(_tensor(t, x), x, u, k=self.k, dim=dim), project, dim)', '        return hm.geodesic_unit(_tensor(t, x), x, u, k=self.k, dim=dim)', (), laws=('results_are_points',), target=_ball),
    Mutant('project=False is not heard', _MANIFOLD, '        return hm.project(x, k=self.k, dim=dim) if project else x\n', '        return hm.project(x, k=self.k, dim=dim)\n', (), laws=('projection_can_be_left_out',), target=_ball),
    Mutant('a chain of its first function', _MANIFOLD, '            for fn in fns:\n                u = fn(u)\n            return u', '            return fns[0](u)', (), laws=('chains_are_applied_in_order',), target=_ball),
    Mutant('a chain from the last to the first', _MANIFOLD, '            for fn in fns:', '            for fn in reversed(fns):', (), laws=('chains_are_applied_in_order',), target=_ball),
    Mutant('posweight that forgets the antipode', _MANIFOLD, '            xs = torch.where(weights.unsqueeze(dim) < 0, hm.antipode(xs, k=self.k, dim=dim), xs)\n', '', (), laws=('negative_weights_belong_to_antipodes',), target=_ball),
    Mutant('posweight that keeps the sign', _MANIFOLD, '            weights = weights.abs()\n', '', (), laws=('negative_weights_belong_to_antipodes',), target=_ball),
    Mutant('embedding without the radius', _MANIFOLD, '        return (x[..., :-1] / torch.where(root == 0, 2.0, 1 + root * x[..., -1:])).movedim(-1, dim)', '        return (x[..., :-1] / torch.where(root == 0, 2.0, 1 + x[..., -1:])).movedim(-1, dim)', (), laws=('embedding_of_the_family_inverts',), target=_ball),
    Mutant('embedding with its axis first', _MANIFOLD, '        return (x[..., :-1] / torch.where(root == 0, 2.0, 1 + root * x[..., -1:])).movedim(-1, dim)', '        return (x[..., 1:] / torch.where(root == 0, 2.0, 1 + root * x[..., :1])).movedim(-1, dim)', (), laws=('embedding_of_the_family_inverts',), target=_sphere),
    Mutant('embedding upside down', _MANIFOLD, '        height = torch.where(root == 0, 0.0, (lam - 1) /', '        height = torch.where(root == 0, 0.0, (1 - lam) /', (), laws=('embedding_of_the_family_inverts',), target=_sphere),
    Mutant('every vector is a point', _MANIFOLD, '        if bool(inside.all()):\n            return True, None', '        return True, None', (), laws=('what_is_no_point_is_told',), target=_ball),
    Mutant('random points outside', _MANIFOLD, '        return geoopt.ManifoldTensor(self.expmap0(tangent), manifold=self)', '        return geoopt.ManifoldTensor(2 * self.expmap0(tangent), manifold=self)', (), laws=('random_points_are_points',), target=_ball),
    Mutant('a stored curvature whose gradient counts twice', _CURVATURE, '    put_back(stored, minimum)\n    return stored.clone()\n\n\ndef curvature_parameter', '    put_back(stored, minimum)\n    return 2 * stored - stored.detach()\n\n\ndef curvature_parameter', (), laws=('stored_numbers_have_their_gradient',), target=_ball),
    Mutant('hyperboloid exp0 of double length', _LORENTZ, '        return hm.lorentz_expmap0(hm.space_part(u), c=self.c)', '        return hm.lorentz_expmap0(2 * hm.space_part(u), c=self.c)', (), laws=('origin_maps_in_other_coordinates',), target=lambda package: package.manifolds.Lorentz(1.0)),
    Mutant('hyperboloid log0 with its time last', _LORENTZ, '        return torch.cat([torch.zeros_like(hm.time_part(tangent)), tangent], dim=-1)', '        return torch.cat([tangent, torch.zeros_like(hm.time_part(tangent))], dim=-1)', (), laws=('origin_maps_in_other_coordinates',), target=lambda package: package.manifolds.Lorentz(1.0)),
    Mutant('hyperboloid distance that ignores keepdim', _LORENTZ, '        return hm.lorentz_dist(x, y, c=self.c, keepdim=keepdim)', '        return hm.lorentz_dist(x, y, c=self.c)', (), laws=('numbers_keep_their_dimension',), target=lambda package: package.manifolds.Lorentz(1.0)),
    Mutant('hyperboloid origin at 1/c', _LORENTZ, '(1 / self.c.detach().sqrt()).to(point)', '(1 / self.c.detach()).to(point)', (), laws=('origin_is_a_point',), target=lambda package: package.manifolds.Lorentz(1.0)),
    Mutant('hyperboloid whose curvature is detached', _LORENTZ, '        return bounded_below(self.stored_c, SMALLEST_C)', '        return bounded_below(self.stored_c, SMALLEST_C).detach()', (), laws=('stored_numbers_have_their_gradient',), target=lambda package: package.manifolds.Lorentz(1.0)),
    Mutant('hyperboloid frame that stops at half of the radius', _LORENTZ, '    limit = 2 * math.atanh(1 - hm.boundary_margin(v.dtype))', '    limit = math.atanh(1 - hm.boundary_margin(v.dtype))', (), laws=('long_coordinates_survive',), target=lambda package: package.manifolds.Lorentz(1.0)),
    Mutant("Klein's inner product that ignores keepdim", _KLEIN, '        return value if keepdim else value.squeeze(-1)', '        return value.squeeze(-1)', (), laws=('numbers_keep_their_dimension',), target=lambda package: package.manifolds.Klein(1.0)),
    Mutant('product distance that ignores keepdim', _PRODUCT, '        return distance.unsqueeze(-1) if keepdim else distance', '        return distance', (), laws=('numbers_keep_their_dimension',), target=lambda package: package.manifolds.Product((package.manifolds.PoincareBall(), 2), (geoopt.Sphere(), 2)), dim=4),
    # --- and what a second stranger tried ---
    Mutant('arcsine of a sine that rounding made larger than 1', _SCALARS, 'where(s < 1, asin(where(s < 1, s, 0.0)), math.pi / 2)', 'asin(s)', (), laws=('curved_trigonometry_is_symmetric',), at=(1.0,)),
    Mutant('curved tangent of the absolute value', _STEREO, '    return x * tan_ratio(k * x * x)', '    return x.abs() * tan_ratio(k * x * x)', (), laws=('curved_trigonometry_is_symmetric',)),
    Mutant('nothing keeps the edge from infinity', _STEREO, 'return maximum(flatness, rounding(flatness) / 2)', 'return flatness', (), laws=('the_edge_is_finite',), at=(-1.0,), dtype=torch.float32, plain=True),
    Mutant('projection with a detached length', _STEREO, 'sqrt(where(outside, squared, 1.0))\n    return where(outside, x * factor, x)', 'sqrt(where(outside, squared.detach(), 1.0))\n    return where(outside, x * factor, x)', (), laws=('projection_has_its_derivative',), at=(-1.0,)),
    Mutant('a margin of twice the size', _CONTRACT, 'return 4.0 * torch.finfo(dtype).eps', 'return 8.0 * torch.finfo(dtype).eps', (), laws=('projection_wastes_no_room',), at=(-1.0,)),
    Mutant('geodesic that turns round at its end', _STEREO, 'where(after, 1 - t, t))', 'where(after, t - 1, t))', (), laws=('geodesic_goes_on_beyond_its_ends',)),
    Mutant('a careful dot product that is a plain one', _WORDS, 'tape.dot(x, y, "careful_dot" if tape.wide else "dot")', 'tape.dot(x, y)', (), laws=('curvature_derivative_near_the_boundary_of_*',), at=(-1.0,)),
    Mutant('a curvature that brings its own dtype', _CONTRACT, '            value.to(inner) if isinstance(value, Tensor) and value.dtype != inner else value\n            for value in (*args, curvature)\n', '            *[value.to(inner) if isinstance(value, Tensor) and value.dtype != inner else value for value in args],\n            curvature,\n', (), laws=('curvature_takes_the_dtype_of_the_points',), at=(-1.0,), dtype=torch.float32, plain=True),
    Mutant('a curvature detached where it is converted', _CONTRACT, '            for value in (*args, curvature)\n', '            for value in (*args, curvature.detach() if isinstance(curvature, Tensor) else curvature)\n', (), laws=('curvature_takes_the_dtype_of_the_points',), at=(-1.0,)),
    Mutant('hyperboloid whose k is c', _LORENTZ, '        return 1 / self.c\n', '        return self.c\n', (), laws=('state_dicts_of_geoopt_load',), target=lambda package: package.manifolds.Lorentz(1.0)),
    Mutant("hyperboloid that reads geoopt's k as c", _LORENTZ, 'state_dict[prefix + "stored_c"] = 1 / legacy', 'state_dict[prefix + "stored_c"] = legacy', (), laws=('state_dicts_of_geoopt_load',), target=lambda package: package.manifolds.Lorentz(1.0)),
    Mutant('hyperboloid that takes every vector for tangent', _LORENTZ, '        if bool((self._form(x, u).abs() <=', '        if True or bool((self._form(x, u).abs() <=', (), laws=('what_is_no_tangent_is_told',), target=lambda package: package.manifolds.Lorentz(1.0)),
    Mutant('hyperboloid without an end', _HYPERBOLOID, '    outside = squared > 1\n', '    outside = squared > 1e30\n', (), laws=('long_steps_survive',), target=lambda package: package.manifolds.Lorentz(1.0)),
    Mutant('hyperboloid that ends at half of its coordinates', _HYPERBOLOID, '((1 - rho) * (1 + rho) / (2 * rho))', '((1 - rho) * (1 + rho) / rho)', (), laws=('long_steps_survive',), dtype=torch.float32, target=lambda package: package.manifolds.Lorentz(1.0)),
    Mutant('hyperboloid with steps of at most a quarter', _HYPERBOLOID, '    longest = 4 * math.atanh(', '    longest = 1 * math.atanh(', (), laws=('long_steps_survive',), target=lambda package: package.manifolds.Lorentz(1.0)),
    Mutant('hyperboloid steps that leave it', _HYPERBOLOID, '_point(_within(sealed(spatial), margin, c), c)', '_point(sealed(spatial), c)', (), laws=('long_steps_survive',), target=lambda package: package.manifolds.Lorentz(1.0)),
    Mutant('hyperboloid logarithm with a detached curvature', _HYPERBOLOID, '    z = -c * distance * distance\n', '    z = -c.detach() * distance * distance\n', (), laws=('derivatives_in_other_coordinates',), target=lambda package: package.manifolds.Lorentz(1.0)),
    Mutant('hyperboloid transport with a detached end', _HYPERBOLOID, '    bent = -c * p\n', '    bent = -c * (y.rest / height_y.detach())\n', (), laws=('derivatives_in_other_coordinates',), target=lambda package: package.manifolds.Lorentz(1.0)),
    Mutant('hyperboloid whose vectors are projected without a gradient', _HYPERBOLOID, '    excess = c * (defect - ', '    excess = c * (defect.detach() - ', (), laws=('derivatives_in_other_coordinates',), target=lambda package: package.manifolds.Lorentz(1.0)),
    Mutant('hyperboloid curvature rounded to float32', _LORENTZ, '        return hm.lorentz_logmap(x, y, c=self.c)', '        return hm.lorentz_logmap(x, y, c=self.c.float().to(self.c))', (), laws=('derivatives_in_other_coordinates',), target=lambda package: package.manifolds.Lorentz(1.0)),
    Mutant('hyperboloid unit geodesic as fast as u is long', _LORENTZ, 't * u / torch.where(length == 0, 1.0, length)', 't * u', (), laws=('unit_speed_in_any_coordinates',), target=lambda package: package.manifolds.Lorentz(1.0)),
    Mutant('hyperboloid norm with an infinite derivative at 0', _HYPERBOLOID, '    return safe_sqrt(dot(a, a))', '    return sqrt(dot(a, a))', (), laws=('norm_is_differentiable_at_zero',), target=lambda package: package.manifolds.Lorentz(1.0)),
    Mutant("Klein's gradient with a detached factor", _KLEIN, '* x) / self.gamma(x) ** 2', '* x) / self.gamma(x).detach() ** 2', (), laws=('derivatives_in_other_coordinates',), target=lambda package: package.manifolds.Klein(1.0)),
    Mutant("geoopt's stored number taken for the curvature", _MANIFOLD, 'nn.functional.softplus(legacy)', 'legacy', (), laws=('state_dicts_of_geoopt_load',), target=_ball),
    Mutant("geoopt's state dicts are refused", _MANIFOLD, '        if legacy is not None:\n', '        if False:\n', (), laws=('state_dicts_of_geoopt_load',), target=_sphere),
    Mutant('an illegal curvature is saved', _MANIFOLD, '        put_back(*self.curvature_bound)\n', '', (), laws=('stored_curvature_is_guarded',), target=_ball),
    Mutant('retraction on a sphere along the straight line', _MANIFOLD, '        return torch.where(k.to(x.dtype) > 0, across, hm.project(x + u, k=k, dim=dim))', '        return hm.project(x + u, k=k, dim=dim)', (), laws=('retraction_does_not_overshoot',), target=_sphere),
    Mutant('mobius_sub that leaves the ball', _MANIFOLD, 'self._finished(hm.mobius_sub(x, y, k=self.k, dim=dim), project, dim)', 'hm.mobius_sub(x, y, k=self.k, dim=dim)', (), laws=('results_are_points',), target=_ball),
    Mutant('linear combination that leaves the ball', _MANIFOLD, '        middle = self._finished(middle, project, dim)\n', '', (), laws=('results_are_points',), target=_ball),
    Mutant('any number is loaded as a curvature', _CURVATURE, '    if not (math.isfinite(number) and number >= lowest):\n', '    if False:\n', (), laws=('curvature_is_checked_when_loaded',), target=_ball),
    Mutant('a curvature that bounces off its bound', _CURVATURE, '    stored.data.clamp_(min=minimum)\n', '    stored.data.abs_()\n', (), laws=('stored_curvature_is_guarded',), target=_ball),
    Mutant('a curvature that always learns', _CURVATURE, '    return nn.Parameter(tensor, requires_grad=learnable)', '    return nn.Parameter(tensor, requires_grad=True)', (), laws=('curvature_learns_when_told',), target=_ball),
    Mutant('a curvature that is negative where nothing is differentiated', _CURVATURE, '        return stored.clamp(min=minimum)\n', '        return stored\n', (), laws=('stored_curvature_is_guarded',), target=_ball),
]  # fmt: skip


def _package(mutant: Mutant, folder: Path) -> ModuleType:
    """The mutated copy of hgeo.math and hgeo.manifolds, under a name of its own."""
    name = f"hgeo_mutant_{next(_NUMBERS)}"
    home = folder / name
    for room in ("kernels", "math", "manifolds"):
        shutil.copytree(_SOURCE / room, home / room, ignore=shutil.ignore_patterns("__pycache__"))
    (home / "__init__.py").write_text("")
    path = home / mutant.file
    text = path.read_text()
    assert text.count(mutant.old) == 1, f"{mutant.name}: the text to change occurs {text.count(mutant.old)} times"
    path.write_text(text.replace(mutant.old, mutant.new))
    for file in home.rglob("*.py"):
        text = file.read_text()
        for room in ("kernels", "math", "manifolds"):
            text = text.replace(f"hgeo.{room}", f"{name}.{room}")
        file.write_text(text)
    sys.path.insert(0, str(folder))
    try:
        package = importlib.import_module(name)
        importlib.import_module(f"{name}.math")
        importlib.import_module(f"{name}.manifolds")
    finally:
        sys.path.remove(str(folder))
    return package


def _chosen(mutant: Mutant, everything: bool = False) -> list[laws.Law]:
    """The laws that should notice: those that need a touched operation, cheap ones first. Then, if asked, the others."""
    slow = ("derivative", "limit", "compile", "half", "oracle", "interface", "smooth")
    found = {entry.name: entry for entry in (laws.select(list(mutant.laws)) if mutant.laws else [])}
    for entry in laws.REGISTER.values():
        if set(entry.needs) & set(mutant.touches) and entry.group not in ("compile", "half"):
            found[entry.name] = entry

    def patience(entry: laws.Law) -> int:
        return slow.index(entry.group) if entry.group in slow else -1

    others = [entry for entry in laws.REGISTER.values() if everything and entry.name not in found]
    others = [entry for entry in others if entry.group not in ("compile", "half")]
    return sorted(found.values(), key=patience) + sorted(others, key=patience)


def _killers(
    mutant: Mutant, package: ModuleType, monkeypatch: pytest.MonkeyPatch, everything: bool = False
) -> Iterator[str]:
    if mutant.target is None:
        targets = [Functions(package.math, k=k) for k in mutant.at]
    else:
        targets = [mutant.target(package)]
        for name in ("exp0", "log0", "dist", "frame_scale", "ambient_dim", "geometry"):
            monkeypatch.setattr(hgeo.manifolds, name, getattr(package.manifolds, name))
    form = package.kernels.plain_torch if mutant.plain else contextlib.nullcontext
    for entry in _chosen(mutant, everything):
        for target in targets:
            with form():
                report = check_manifold(
                    target,
                    dim=mutant.dim,
                    laws=entry,
                    dtype=mutant.dtype,
                    max_examples=100,
                    shrink=False,
                    name=mutant.name,
                )
            if report.failures:
                yield entry.name
                break


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mutants")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_mutant_is_killed(mutant: Mutant, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = _package(mutant, folder)
    killer = next(_killers(mutant, package, monkeypatch), None)
    assert killer is not None, f"no law noticed: {mutant.name}; tried {[entry.name for entry in _chosen(mutant)]}"


def test_the_unchanged_copy_survives(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What kills mutants must not kill the original: the same laws on an unmutated copy."""
    harmless = Mutant("none", _STEREO, "    half = t / 2\n", "    half = t / 2\n", ("dist", "mobius_add", "transp"))
    assert list(_killers(harmless, _package(harmless, folder), monkeypatch)) == []


def test_a_copy_leaves_the_operators_of_the_original_alone(folder: Path) -> None:
    """torch frees an operator that is defined again, and whoever compiled with it reads freed memory."""
    before = hgeo.manifolds._curvature._bounded_below._opoverload
    copy = _package(Mutant("none", _STEREO, "    half = t / 2\n", "    half = t / 2\n", ()), folder)
    assert before is torch.ops.hgeo.bounded_below.default
    assert copy.manifolds._curvature._bounded_below._opoverload is not before


# What these change is the subject of one promise, and of the one law that states it.
_NARROW = (
    "arcsine of a sine that rounding made larger than 1",
    "curved tangent of the absolute value",
    "nothing keeps the edge from infinity",
    "projection with a detached length",
    "a margin of twice the size",
    "geodesic that turns round at its end",
    "a careful dot product that is a plain one",
    "a curvature that brings its own dtype",
    "a curvature detached where it is converted",
)
assert set(_NARROW) <= {entry.name for entry in MUTANTS}


@pytest.mark.slow
@pytest.mark.parametrize(
    "mutant",
    [entry for entry in MUTANTS if entry.target is None and entry.name not in _NARROW],
    ids=lambda mutant: mutant.name,
)
def test_every_mutant_of_the_maths_breaks_more_than_one_law(
    mutant: Mutant, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killers = list(itertools.islice(_killers(mutant, _package(mutant, folder), monkeypatch, everything=True), 2))
    assert len(killers) == 2, f"{mutant.name} breaks only {killers}"
