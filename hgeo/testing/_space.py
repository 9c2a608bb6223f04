"""What a law sees: one manifold, one dimension, one dtype, and how much precision may be asked for where.

The measure of error is the manifold's own. Rounding a coordinate at p moves the point by ``rounding(p)`` times eps in
the metric (λ|p| on the stereographic models, which is sinh of the distance to the origin), and no algorithm can do
better than that; so laws divide the deviation they find by the largest ``rounding`` of the points they went through.
"""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from hgeo._geoopt import geoopt
from hgeo.testing import _places
from hgeo.testing._walks import LocalFrame, far_scales

__all__ = ["Functions", "Space", "curved_distance", "signed_curvature", "stereographic_embedding"]

Array = npt.NDArray[np.float64]

_EPS = 2.0**-52
_SAME = 1e-6
"""How nearly two ways must agree to lead to the same place."""

_METHODS = {
    "dist2": "sqdist",
    "transp": "parallel_transport",
    "transp0": "parallel_transport0",
    "transp0back": "parallel_transport0back",
    "projx": "project",
}


class Functions:
    """A module of pure functions ``f(points, k=...)`` seen as a manifold, so that every law applies to it.

    >>> import hgeo.math, torch
    >>> from hgeo.testing import Functions
    >>> Functions(hgeo.math, k=-1.0).dist0(torch.tensor([0.5, 0.0]))
    tensor(1.0986)
    """

    ndim = 1

    def __init__(self, module: ModuleType, k: float | Tensor = -1.0) -> None:
        self.module = module
        self.k = k

    def __getattr__(self, name: str) -> Callable[..., Tensor]:
        if name.startswith("_"):
            raise AttributeError(name)
        function = self.underlying(name)
        try:
            names: Any = inspect.signature(function).parameters
        except ValueError:  # scripted functions have no signature
            names = ()

        def bound(*args: Any, **kwargs: Any) -> Tensor:
            value = self.k
            if not isinstance(value, Tensor) and not self.module.__name__.startswith("hgeo"):
                value = torch.as_tensor(value, dtype=args[0].dtype)  # other libraries take tensors only
            return function(*args, **({"c": -value} if "c" in names else {"k": value}), **kwargs)

        return bound

    def underlying(self, name: str) -> Callable[..., Tensor]:
        """The module's function behind a manifold's method name."""
        function = getattr(self.module, _METHODS.get(name, name))
        if not callable(function):
            raise AttributeError(name)
        return function

    def to(self, dtype: torch.dtype) -> Functions:
        return Functions(self.module, self.k.to(dtype) if isinstance(self.k, Tensor) else self.k)

    def __repr__(self) -> str:
        return f"Functions({self.module.__name__}, k={self.k})"


def signed_curvature(manifold: Any) -> Tensor | None:
    """k of a stereographic manifold or of :class:`Functions`; None for every other space."""
    if isinstance(manifold, Functions):
        return torch.as_tensor(manifold.k, dtype=torch.float64).detach()
    if isinstance(manifold, geoopt.Stereographic):
        return torch.as_tensor(manifold.k).detach()
    return None


def curved_distance(x: Tensor, y: Tensor, k: float) -> Tensor:
    """Distance on the stereographic model in float64, from differences; for measuring gaps, not for judging them."""
    x, y = x.double(), y.double()
    gap = (x - y).norm(dim=-1)
    room = ((1 + k * x.square().sum(-1)) * (1 + k * y.square().sum(-1))).clamp_min(torch.finfo(torch.float64).tiny)
    sine = gap / room.sqrt()
    if k < 0:
        return 2 / math.sqrt(-k) * torch.asinh(math.sqrt(-k) * sine)
    if k > 0:
        return 2 / math.sqrt(k) * torch.asin((math.sqrt(k) * sine).clamp_max(1.0))
    return 2 * sine


def stereographic_embedding(x: Tensor, k: float) -> Tensor:
    """The points on the hyperboloid (k < 0) or sphere, special axis first, in float64."""
    x = x.detach().double()
    squared = k * x.square().sum(-1, keepdim=True)
    return torch.cat([(1 - squared) / math.sqrt(abs(k)), 2 * x], dim=-1) / (1 + squared)


HOMES = ("geoopt", "hgeo")
"""The packages whose manifolds are known: how their numbers round is calculated, for all others it is measured."""


def _is_known(manifold: Any) -> bool:
    """Whether the manifold, and each of its factors, is of a class of geoopt's or hgeo's own."""
    inner = [*getattr(manifold, "manifolds", ()), *([manifold.base] if isinstance(manifold, geoopt.Scaled) else [])]
    return type(manifold).__module__.split(".")[0] in HOMES and all(_is_known(part) for part in inner)


def _sectional(manifold: Any) -> tuple[float, float] | None:
    """The least and the largest sectional curvature that occurs; None for a space of which nothing is known."""
    k = signed_curvature(manifold)
    if k is not None:
        return float(k.min()), float(k.max())
    if isinstance(manifold, geoopt.Lorentz):
        return (-1.0 / float(manifold.k),) * 2
    if isinstance(manifold, geoopt.Sphere):
        return 1.0, 1.0
    if isinstance(manifold, geoopt.Euclidean):
        return 0.0, 0.0
    if isinstance(manifold, geoopt.Scaled):
        base = _sectional(manifold.base)
        return None if base is None else tuple(bound / float(manifold.scale) ** 2 for bound in base)  # type: ignore[return-value]
    if getattr(manifold, "name", None) == "Klein":
        return (-float(manifold.c.detach()),) * 2
    factors = getattr(manifold, "manifolds", None)
    if factors is not None and len(factors):
        bounds = [_sectional(factor) or (-1.0, -1.0) for factor in factors]
        mixed = [0.0] if len(factors) > 1 else []  # planes that two factors span are flat
        return min([least for least, _ in bounds] + mixed), max([largest for _, largest in bounds] + mixed)
    return None


def _told(manifold: Any) -> float | None:
    """The curvature that a registered geometry tells of a space of constant curvature."""
    from hgeo import manifolds

    try:
        k = manifolds.geometry(manifold).curvature(manifold)
    except Exception:  # a geometry that cannot answer, for whatever reason, tells nothing
        return None
    return None if k is None else float(k.detach())


def _chart(manifold: Any) -> tuple[float, Callable[[Tensor], Tensor]] | None:
    """The stereographic picture of a space that is the ball or the sphere in other coordinates: (k, map to it)."""
    if isinstance(manifold, geoopt.Lorentz):
        c = 1.0 / float(manifold.k)
        return -c, lambda x: x[..., 1:] / (1 + math.sqrt(c) * x[..., :1])
    if isinstance(manifold, geoopt.Sphere):
        return 1.0, lambda x: x[..., 1:] / (1 + x[..., :1])
    if getattr(manifold, "name", None) == "Klein":
        c = float(manifold.c.detach())
        return -c, lambda x: x / (1 + torch.sqrt(1 - c * x.square().sum(-1, keepdim=True)))
    return None


class Space:
    """A manifold together with the dimension and dtype in which its laws are checked."""

    def __init__(self, manifold: Any, dim: int, dtype: torch.dtype = torch.float64, *, ambient: bool = False) -> None:
        self.manifold = manifold
        self.dtype = dtype
        self.eps = float(torch.finfo(dtype).eps)
        self.event_dims = int(getattr(manifold, "ndim", 1) or 1)
        curvature = signed_curvature(manifold)
        # The exact number that the operations compute with: the curvature rounded to the dtype of the points.
        self.k: float | None = None if curvature is None else float(curvature.to(dtype).reshape(-1)[0])
        self.stranger = self.k is None and not _is_known(manifold)
        known = (self.k, self.k) if self.k is not None else None if self.stranger else _sectional(manifold)
        least, largest = known or ((0.0, 0.0) if self.stranger else (-1.0, -1.0))
        # the curvature of a space that has only one
        self.constant = _told(manifold) if self.stranger else least if known and least == largest else None
        self.sectional = least  # that of the planes in which geodesics part fastest
        self._closing = max(largest, 0.0)  # that of the planes in which they meet again
        self.dim = dim
        self._tried: dict[str, bool] = {}
        self.shape: tuple[int, ...] = (dim,) if self.k is not None or ambient else self._ambient_shape(dim)
        self.chart = _chart(manifold) if self.k is None else None
        self._wide: Any = None
        self._walker = self._local_frame() if self.stranger and self._frame() is None else None
        self._far: tuple[float, ...] = ()
        self.domain = self._domain()
        self.direction_domain = _places.Domain(self.sectional, math.prod(self.shape), far=self._far)

    # --- what there is ------------------------------------------------------------------------------------------------

    def has(self, operation: str) -> bool:
        """Whether the manifold offers ``operation`` (a method name, or ``curvature``, ``frame``, ``factory`` …)."""
        if operation == "curvature":
            return self.k is not None
        if operation == "negative curvature":
            return self.k is not None and self.k < 0
        if operation == "positive curvature":
            return self.k is not None and self.k > 0
        if operation == "functions":
            return isinstance(self.manifold, Functions)
        if operation == "module":
            return isinstance(self.manifold, torch.nn.Module)
        if operation == "frame":
            return self._frame() is not None and self._has_coordinates
        if operation == "chart":
            return self.chart is not None
        if operation == "stretching":
            return self.stretched() is not None
        if operation == "trainable curvature":
            return self.k is not None and (isinstance(self.manifold, Functions) or self.trainable() is not None)
        if operation == "stored curvature":
            return isinstance(self.manifold, torch.nn.Module) and any(True for _ in self.manifold.parameters())
        if operation == "family":
            return self.k is not None and self.sibling(self.k) is not None
        return _offers(self.manifold, operation) and not (
            self.stranger and operation in _TRIED and self._raises(operation)
        )

    def _raises(self, operation: str) -> bool:
        """Whether an operation of a stranger is there in name only."""
        if operation not in self._tried:
            point = torch.ones(1, *self.shape, dtype=self.dtype)
            arguments = [point, torch.zeros_like(point) if operation == "expmap" else point]
            try:
                getattr(self.manifold, operation)(*arguments, *(point,) * (operation == "transp"))
                self._tried[operation] = False
            except NotImplementedError:
                self._tried[operation] = True
            except Exception:  # what it raises on this point is for a law to tell
                self._tried[operation] = False
        return self._tried[operation]

    def _frame(self) -> Any | None:
        if isinstance(self.manifold, Functions):
            return None
        try:
            from hgeo import manifolds
        except ImportError:
            return None
        try:
            manifolds.ambient_dim(self.manifold, max(self.dim, 1))
            manifolds.exp0(self.manifold, torch.zeros(1, self.dim, dtype=self.dtype))
        except Exception:  # a frame that cannot be had, for whatever reason, is one that is not there
            return None
        return manifolds

    def sibling(self, k: float, *, learnable: bool = False) -> Any | None:
        """The same kind of space with another curvature, or None if this kind has no such member."""
        if isinstance(self.manifold, Functions):
            return Functions(self.manifold.module, k)
        kind = type(self.manifold)
        try:
            if isinstance(self.manifold, geoopt.PoincareBall):
                made = kind(c=-k, learnable=learnable) if k <= 0 else None
            elif isinstance(self.manifold, geoopt.SphereProjection):
                made = kind(k=k, learnable=learnable) if k >= 0 else None
            elif isinstance(self.manifold, geoopt.Stereographic):
                made = kind(k=k, learnable=learnable)
            else:
                return None
        except TypeError:
            return None
        if made is None:
            return None
        made = made.to(self.dtype)
        # A curvature that does not survive its own construction is a law of its own; the others need the number itself.
        kept = signed_curvature(made)
        if kept is None or not math.isclose(float(kept), k, rel_tol=0.2, abs_tol=0.0):
            return None
        return made

    def stretched(self) -> Any | None:
        """The same kind of space with all lengths doubled, that is with a quarter of the curvature; None if unknown."""
        if self.k is not None:
            return self.sibling(self.k / 4) if self.k else None
        kind = type(self.manifold)
        parameters = inspect.signature(kind).parameters
        value = getattr(self.manifold, "c" if "c" in parameters else "k", None)
        if not isinstance(value, Tensor) or self.chart is None or isinstance(self.manifold, geoopt.Sphere):
            return None
        factor = 0.25 if "c" in parameters else 4.0  # geoopt's Lorentz(k) is 1/c
        made = kind(factor * value.detach())
        return made.to(self.dtype)

    def trainable(self) -> tuple[Any, str, Tensor] | None:
        """A copy of the manifold whose curvature can be differentiated, with the name and value of what is stored."""
        if not isinstance(self.manifold, torch.nn.Module):
            return None
        duplicate = copy.deepcopy(self.manifold)
        stored = list(duplicate.named_parameters())
        if len(stored) != 1:
            return None
        ((name, parameter),) = stored
        return duplicate, name, parameter.requires_grad_()

    # --- drawing points -----------------------------------------------------------------------------------------------

    def _ambient_shape(self, dim: int) -> tuple[int, ...]:
        frame = self._frame()
        if frame is not None:
            return (int(frame.ambient_dim(self.manifold, dim)),)
        if self.event_dims == 2:
            stiefel = isinstance(self.manifold, geoopt.Stiefel)
            return (dim, max(1, dim // 2)) if stiefel else (dim, dim)
        total = getattr(self.manifold, "n_elements", None)
        return (int(total),) if total is not None else (dim,)

    @property
    def _has_coordinates(self) -> bool:
        """Whether the frame finds its way back: a logarithm is needed for it."""
        try:
            self._frame().log0(self.manifold, self._walk(torch.zeros(1, self.dim, dtype=self.dtype)))  # type: ignore[union-attr]
        except Exception:  # coordinates that cannot be had, for whatever reason, are not there
            return False
        return True

    def _local_frame(self) -> LocalFrame | None:
        try:
            return LocalFrame(self.manifold, self.shape, torch.float64)
        except Exception:  # a manifold that cannot do this much is asked about the points that it draws itself
            return None

    def _domain(self) -> _places.Domain:
        if self.stranger and (self._walker is not None or self._frame() is not None):
            dim = self.dim if self._walker is None else self._walker.dim
            self._far = far_scales(self, self._walk, dim)
            return _places.Domain(0.0, dim, far=self._far)
        if self.k is None or self.k >= 0:
            return _places.Domain(self.sectional, self.dim)
        edge = 1.0 - 4.0 * self.eps
        if self.has("projx") and not isinstance(self.manifold, Functions):
            far = torch.zeros(self.dim, dtype=self.dtype)
            far[0] = 2.0 / math.sqrt(-self.k)
            kept = float(self.manifold.projx(far).detach().double().norm()) * math.sqrt(-self.k)
            if 0.5 < kept < edge:
                edge = kept
        return _places.Domain(self.k, self.dim, edge)

    @property
    def reach(self) -> float:
        """How far from the origin points may lie, in units of 1/√|k|: the radius of the projection limit."""
        if self.domain.k < 0 and math.isfinite(self.domain.limit):
            return 2.0 * math.atanh(self.domain.limit)
        if self.sectional > 0:
            return 0.9 * math.pi
        if self.stranger:
            return max((3.0, *self._far))
        open_end = 3.0 if self.sectional < 0 else 10.0
        if not self._closing:
            return open_end
        return min(open_end, 0.9 * math.pi / (math.sqrt(self._closing) * self.domain.unit))

    def embed(self, rows: Sequence[Array]) -> Tensor:
        """Points from stereographic (or, on other spaces, tangent) coordinates."""
        coordinates = torch.from_numpy(np.stack(rows))
        if self.k is not None:
            return coordinates.to(self.dtype)
        # Other spaces read the coordinates as a tangent vector at the origin, of at most the length that is safe.
        size = coordinates.norm(dim=-1, keepdim=True).clamp_min(1e-300)
        coordinates = coordinates * (size.clamp_max(self.reach * self.domain.unit) / size)
        return self._walk(coordinates.to(self.dtype))

    def _walk(self, coordinates: Tensor) -> Tensor:
        frame = self._frame()
        if frame is not None:
            return frame.exp0(self.manifold, coordinates).detach()
        if self._walker is not None:
            return self._walker.exp0(coordinates).detach()
        return self._random_points(coordinates)

    def _random_points(self, coordinates: Tensor) -> Tensor:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(coordinates.abs().sum().item() * 1e6) % (2**31))
            count = coordinates.shape[0]
            try:
                drawn = self.manifold.random(count, *self.shape, dtype=self.dtype)
            except (AttributeError, NotImplementedError):
                drawn = self.manifold.projx(torch.randn(count, *self.shape, dtype=self.dtype))
        return torch.as_tensor(drawn).as_subclass(Tensor)

    def coordinates(self, x: Tensor) -> Array:
        """The coordinates of one point, as :meth:`embed` takes them."""
        if self.k is not None:
            return _places.numpy_array(x.detach().double().tolist())
        return _places.numpy_array(self._coordinates(x.detach().unsqueeze(0))[0].double().tolist())

    def _coordinates(self, x: Tensor) -> Tensor:
        """The coordinates of points by the frame; 0 where there is none, or it cannot say."""
        frame = self._frame()
        try:
            if frame is not None:
                found: Tensor = frame.log0(self.manifold, x).detach()
            elif self._walker is not None:
                found = self._walker.log0(x).detach()
            else:
                return torch.zeros(len(x), self.domain.dim, dtype=self.dtype)
        except Exception:  # without a logarithm there are no coordinates
            return torch.zeros(len(x), self.domain.dim, dtype=self.dtype)
        return torch.nan_to_num(found, nan=0.0, posinf=0.0, neginf=0.0)

    def room(self, x: Tensor) -> list[float]:
        """How long a geodesic from each point may be, in units of 1/√|k|, without leaving what can be represented."""
        if self.stranger:
            used = self._coordinates(x.detach()).double().norm(dim=-1)
            return [max(self.reach - float(value), 1.0) for value in used]
        if self.k is None or self.k >= 0:
            return [self.reach] * x.shape[0]
        used = curved_distance(x, torch.zeros_like(x), self.k) * math.sqrt(-self.k)
        return [max(self.reach - float(value) - 0.1, 0.0) for value in used]

    def tangents(self, x: Tensor, rows: Sequence[Array]) -> Tensor:
        """Tangent vectors at x whose metric lengths are those of the rows."""
        drawn = torch.from_numpy(np.stack(rows)).reshape(-1, *self.shape)
        if self.k is not None:
            flat = 1 + self.k * x.double().square().sum(-1, keepdim=True)
            return (drawn * flat / 2).to(self.dtype)
        wanted = self.euclidean(drawn)
        vectors = self._tangent(x.double(), drawn)
        length = self.length(x, vectors)
        # What is left of a vector across the manifold is noise: it stands for the zero vector.
        factor = torch.where(length > 1e-6 * wanted, wanted / length.clamp_min(1e-300), 0.0)
        vectors = vectors * factor.reshape(-1, *[1] * len(self.shape))
        return self._tangent(x.double(), vectors).to(self.dtype)

    def _tangent(self, x: Tensor, u: Tensor) -> Tensor:
        """u without what sticks out of the tangent space at x, in float64."""
        return self.wide.proju(x, u) if self.has("proju") else u

    def legal(self, values: dict[str, Tensor]) -> dict[str, Tensor]:
        """Examples that were moved, brought back to the manifold and to its tangent spaces."""
        found = dict(values)
        for name in ("x", "y", "z"):
            if name in found and self.has("projx"):
                found[name] = self.wide.projx(found[name].double()).to(self.dtype)
        for name in ("u", "v"):
            if name in found and "x" in found:
                found[name] = self._tangent(found["x"].double(), found[name].double()).to(self.dtype)
        return found

    @property
    def wide(self) -> Any:
        """A copy of the manifold that computes in float64: for measuring, where the laws of this dtype are judged."""
        if self._wide is None:
            self._wide = converted(self.manifold, torch.float64)
        return self._wide

    # --- measuring ----------------------------------------------------------------------------------------------------

    def euclidean(self, x: Tensor) -> Tensor:
        """Norm over the dimensions of one point, in float64."""
        return x.detach().double().reshape(*x.shape[: x.dim() - len(self.shape)], -1).norm(dim=-1)

    def flatness(self, x: Tensor) -> Tensor:
        """|1 + k|x|²| in float64: what is left to the boundary (k < 0)."""
        k = self.k or 0.0
        return (1 + k * x.detach().double().square().sum(-1)).abs().clamp_min(0.5 * self.eps)

    def condition(self, *points: Tensor) -> Tensor:
        """1/(1 − c|x|²) of the outermost point; 1 where the curvature is not negative or not of this kind."""
        if self.k is None or self.k >= 0:
            return torch.ones(points[0].shape[:1], dtype=torch.float64)
        return torch.stack([1 / self.flatness(p) for p in points]).amax(0)

    def rounding(self, *points: Tensor) -> Tensor:
        """Metric size of a relative change of coordinates, the largest of the points'."""
        if self.k is not None:
            sizes = [2 * self.euclidean(p) / self.flatness(p) for p in points]
            if self.k > 0:
                # Beyond the equator the sums inside an operation are larger than its result.
                whole = 2 / math.sqrt(self.k)
                beyond = [self.euclidean(p) * math.sqrt(self.k) > 1 for p in points]
                sizes = [size + whole * far for size, far in zip(sizes, beyond, strict=True)]
        else:
            sizes = [self.vector_rounding(p, p) + self.euclidean(p) for p in points]
        return torch.stack(sizes).amax(0)

    def vector_rounding(self, x: Tensor, u: Tensor) -> Tensor:
        """Metric size at x of a relative change of each number of u.

        On conformal models that is the length of u. On a hyperboloid it is cosh² of the distance to the origin times as
        much: what is tangent there is the small difference of large numbers.
        """
        if self.k is not None:
            return self.length(x, u) * self.condition(x)
        if not self.has("inner") or (len(self.shape) > 1 and not self.stranger):
            return self.euclidean(u) * (1 + self.euclidean(u))
        numbers = torch.diag_embed(u.detach().double().reshape(len(u), -1)).reshape(-1, *self.shape)
        places = x.detach().double().repeat_interleave(math.prod(self.shape), dim=0)
        parts = self.length(places, self._tangent(places, numbers))
        return parts.reshape(len(x), -1).norm(dim=-1) + self.euclidean(u)

    def spread(self, length: Tensor) -> Tensor:
        """How far apart geodesics of this length drift for a unit change of direction: sinh, identity."""
        length = length.double()
        if self.sectional < 0:  # of a stranger nothing is known; what rounding costs there is measured
            root = math.sqrt(-self.sectional)
            return torch.sinh((root * length).clamp_max(300.0)) / root
        return length

    def gap(self, p: Tensor, q: Tensor) -> Tensor:
        """How far apart two points are: the distance on stereographic models, the ambient one elsewhere."""
        if self.k is not None:
            return curved_distance(p.detach(), q.detach(), self.k)
        p, q = p.detach().double(), q.detach().double()
        if not (self.stranger and self.has("inner")):
            return self.euclidean(p - q)
        # one point may have two names, as angles have
        metric = self.length(p, self._tangent(p, q - p))
        return torch.fmin(metric, self.way(p, q)) if self.has("dist") else metric

    def way(self, x: Tensor, y: Tensor) -> Tensor:
        """The distance, in float64."""
        if self.k is None and self.has("dist"):
            return self.wide.dist(x.detach().double(), y.detach().double()).detach().reshape(len(x), -1).amax(-1)
        return self.gap(x, y)

    def tangent_gap(self, x: Tensor, u: Tensor, v: Tensor) -> Tensor:
        """Metric length of u − v at x (the ambient one on spaces that are not stereographic)."""
        difference = u.detach().double() - v.detach().double()
        if self.stranger and self.has("inner"):
            return self.length(x, difference)
        size = self.euclidean(difference)
        return size * 2 / self.flatness(x) if self.k is not None else size

    def tangent_error(self, x: Tensor, u: Tensor, v: Tensor, scale: Tensor) -> Tensor:
        """Deviation of two tangent vectors at x, relative to ``scale`` (a metric length)."""
        return ratio(self.tangent_gap(x, u, v), scale)

    def length(self, x: Tensor, u: Tensor) -> Tensor:
        """Metric length of a tangent vector, in float64 and without the manifold's own arithmetic where possible."""
        if self.k is not None:
            return self.euclidean(u) * 2 / self.flatness(x)
        inner = self.wide.inner(x.detach().double(), u.detach().double()).detach()
        return inner.abs().sqrt().reshape(x.shape[0], -1).amax(-1)

    # --- where a law speaks -------------------------------------------------------------------------------------------

    def short(self, length: Tensor) -> Tensor:
        """Whether geodesics of this metric length are well short of the cut locus."""
        return ~(length.detach().double() * math.sqrt(self._closing) > 0.9 * math.pi)

    def direct(self, x: Tensor, u: Tensor) -> Tensor:
        """Whether the geodesic along u is the shortest way from x to its end.

        On a space of which nothing is known it is, unless the space itself shows another that is shorter: its logarithm
        differs from u, leads to the same end, and is as long as the distance.
        """
        length = self.length(x, u)
        if not (self.stranger and self.has("expmap") and self.has("dist")):
            return self.short(length)
        x, u = x.detach().double(), u.detach().double()
        end = self.wide.expmap(x, u).detach()
        distance = self.wide.dist(x, end).detach().reshape(len(x), -1).amax(-1)
        if not self.has("logmap"):
            return ~((distance < (1 - _SAME) * length) & self._grows(x, end))
        other = self.wide.logmap(x, end).detach()
        size = self.length(x, other)
        shorter = (size < (1 - 8 * _EPS) * length) & (self.euclidean(other - u) > 0.05 * self.euclidean(u))
        arrives = self.euclidean(self.wide.expmap(x, other).detach() - end) <= _SAME * (1 + self.euclidean(end))
        return ~(shorter & arrives & ((size - distance).abs() <= _SAME * (1 + distance)))

    def _grows(self, x: Tensor, y: Tensor) -> Tensor:
        """Whether the distance from x grows at y at unit rate, as it does wherever it is one."""
        place = y.clone().requires_grad_()
        distance = self.wide.dist(x, place)
        if not distance.requires_grad or not self.has("egrad2rgrad"):
            return torch.zeros(len(x), dtype=torch.bool)
        (slope,) = torch.autograd.grad(distance.sum(), place)
        return (self.length(y, self.wide.egrad2rgrad(y, slope)) - 1).abs() < _SAME

    def resolved(self, length: Tensor) -> Tensor:
        """Whether the end of a geodesic of this length can be told from its direction: eps·sinh is small."""
        return self.short(length) & ~(self.spread(length) * self.eps * math.sqrt(abs(self.sectional)) > 1e-3)

    def within(self, radius: Tensor) -> Tensor:
        """Whether points at this metric distance from the origin can be represented."""
        radius = radius.detach().double()
        if self.sectional == 0:
            return torch.ones_like(radius, dtype=torch.bool)
        return ~(radius * math.sqrt(abs(self.sectional)) > self.reach - 0.1)

    def radius(self, x: Tensor) -> Tensor:
        """Metric distance to the origin, in float64."""
        return curved_distance(x.detach(), torch.zeros_like(x), self.k or 0.0)

    def addable(self, x: Tensor, y: Tensor) -> Tensor:
        """Whether x ⊕ y can be represented: inside the limit of the ball, away from the sphere's point at infinity."""
        k = self.k or 0.0
        x, y = x.detach().double(), y.detach().double()
        xx, yy = x.square().sum(-1), y.square().sum(-1)
        denominator = 1 - 2 * k * (x * y).sum(-1) + k * k * xx * yy
        kept = (1 + k * xx) * (1 + k * yy) / denominator
        if k < 0:
            return ~(kept < 1.3 * (1 - self.domain.limit**2))
        return ~(denominator / ((1 + k * xx) * (1 + k * yy)) < 0.05)

    def point_error(self, p: Tensor, q: Tensor, *via: Tensor, plus: Tensor | None = None) -> Tensor:
        """Deviation of p from q in units of what one rounding of the points involved causes."""
        scale = self.rounding(p, q, *via)
        return ratio(self.gap(p, q), scale if plus is None else scale + plus)

    def like(self, values: Any) -> Tensor:
        return torch.as_tensor(values, dtype=self.dtype)


def _offers(manifold: Any, operation: str) -> bool:
    """Whether a manifold has an operation that is more than the base class's word for it."""
    if isinstance(manifold, geoopt.Scaled) and getattr(type(manifold), operation, None) is _of_base(operation):
        return _offers(manifold.base, operation)
    try:
        method = getattr(manifold, operation)
    except (AttributeError, NotImplementedError):
        return False
    base, own = _of_base(operation), getattr(type(manifold), operation, None)
    return callable(method) and not (base is not None and own is base and operation not in _INHERITED)


def _of_base(operation: str) -> object:
    return getattr(geoopt.manifolds.base.Manifold, operation, None)


_TRIED = ("dist", "expmap", "logmap", "transp")
_INHERITED = {
    "norm",
    "random",
    "origin",
    "component_inner",
    "transp_follow_retr",
    "transp_follow_expmap",
    "expmap_transp",
    "retr_transp",
    "dist2",
    "check_point_on_manifold",
    "check_vector_on_tangent",
}


def ratio(deviation: Tensor, scale: Tensor) -> Tensor:
    """deviation/scale, 0 where there is no deviation and NaN where either is NaN."""
    deviation, scale = deviation.double().abs(), scale.double().abs()
    tiny = torch.finfo(torch.float64).tiny
    return torch.where(deviation == 0, torch.zeros_like(deviation), deviation / scale.clamp_min(tiny))


def converted(manifold: Any, dtype: torch.dtype) -> Any:
    """A copy of the manifold in ``dtype``: laws never touch the user's object."""
    if isinstance(manifold, Functions):
        return manifold.to(dtype)
    duplicate = copy.deepcopy(manifold)
    return duplicate.to(dtype) if isinstance(duplicate, torch.nn.Module) else duplicate
