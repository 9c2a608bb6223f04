"""The hyperboloid: geoopt's Lorentz manifold with exact maths, and with c for the curvature as everywhere in hgeo."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

import hgeo.math as hm
from hgeo._geoopt import geoopt
from hgeo.kernels import Number, Operation, Row, dot, sqrt, where
from hgeo.manifolds._curvature import State, bounded_below, check_stored, curvature_parameter, put_back
from hgeo.manifolds._functions import register
from hgeo.manifolds._geometry import ConstantCurvature, refuse_rows, unit
from hgeo.manifolds._pairwise import hyperbolic_pairs
from hgeo.manifolds._words import Word

__all__ = ["SMALLEST_C", "Lorentz", "lorentz_curvature"]

# The hyperboloid of curvature 0 is a plane at infinity: a learnable c stops here.
SMALLEST_C = 1e-6


class Lorentz(geoopt.Lorentz):
    r"""The hyperboloid {x : -x₀² + |x'|² = -1/c, x₀ > 0} of curvature -c, c > 0, in d + 1 numbers, time first.

    A :class:`geoopt.Lorentz` (whose ``k`` is 1/c; ``Lorentz(k=...)`` is read so, too). For a curvature that trains to 0
    use :class:`hgeo.PoincareBall`, the same space in other coordinates.

    Far out a tangent vector is almost a multiple of its point, and the Minkowski products of the textbook are
    differences of huge numbers, noise from √c x₀ ≈ eps^(-1/2) on (3,000 in float32). So lengths, steps and transport
    read the spatial parts alone, which determine points and tangent vectors, and lose a factor of √c x₀, not of its
    square; points are stopped at the radius at which the ball's are.

    Args:
        c: minus the curvature, ≥ 1e-6.
        learnable: whether c is trained.

    >>> import torch, hgeo
    >>> space = hgeo.Lorentz(c=1.0)
    >>> hgeo.exp0(space, torch.tensor([0.0, 1.0]))
    tensor([1.5431, 0.0000, 1.1752])
    """

    reversible = True

    def __init__(self, c: float | Tensor = 1.0, learnable: bool = False, *, k: float | Tensor | None = None) -> None:
        if k is not None:
            c = 1 / k
        geoopt.manifolds.base.Manifold.__init__(self)  # by name: geoopt's own may have been replaced by this class
        hint = "the hyperboloid needs curvature; for c = 0 use hgeo.PoincareBall"
        self.stored_c = curvature_parameter(c, learnable, name="c", minimum=SMALLEST_C, hint=hint)

    @property
    def c(self) -> Tensor:
        """Minus the curvature."""
        return bounded_below(self.stored_c, SMALLEST_C)

    @property
    def k(self) -> Tensor:
        """geoopt's parameter of this manifold: 1/c."""
        return 1 / self.c

    @property
    def learnable(self) -> bool:
        """Whether the curvature is trained."""
        return self.stored_c.requires_grad

    @property
    def curvature_bound(self) -> tuple[Tensor, float]:
        """The stored curvature, and the least value it may have: an optimiser brings it back there after a step."""
        return self.stored_c, SMALLEST_C

    def extra_repr(self) -> str:
        return f"c={float(self.c.detach()):g}" + (", learnable" if self.learnable else "")

    def _load_from_state_dict(self, state_dict: State, prefix: str, *rest: Any) -> None:
        legacy = state_dict.pop(prefix + "k", None)
        if legacy is not None:
            state_dict[prefix + "stored_c"] = 1 / legacy
        check_stored(state_dict, prefix + "stored_c", self.stored_c, SMALLEST_C, errors=rest[-1])
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def _save_to_state_dict(self, destination: State, prefix: str, keep_vars: bool) -> None:
        put_back(*self.curvature_bound)
        super()._save_to_state_dict(destination, prefix, keep_vars)

    def _curvature(self, x: Tensor) -> Tensor:
        return self.c.to(x.dtype)

    @staticmethod
    def _form(u: Tensor, v: Tensor, keepdim: bool = True) -> Tensor:
        product = u * v
        result = hm.space_part(product).sum(-1, keepdim=True) - hm.time_part(product)
        return result if keepdim else result.squeeze(-1)

    def _check_point_on_manifold(
        self, x: Tensor, *, atol: float = 1e-5, rtol: float = 1e-5, dim: int = -1
    ) -> tuple[bool, str | None]:
        # The equation is relative to x₀²: that is the scale at which the numbers of a far point are rounded.
        defect = (self._form(x, x) + 1 / self._curvature(x)).abs()
        if bool((defect <= atol + rtol * (1 + hm.time_part(x) ** 2)).all()):
            return True, None
        return False, "a point does not satisfy -x₀² + |x'|² = -1/c; manifold.projx puts it there"

    def _check_vector_on_tangent(
        self, x: Tensor, u: Tensor, *, atol: float = 1e-5, rtol: float = 1e-5, dim: int = -1
    ) -> tuple[bool, str | None]:
        scale = 1 + hm.time_part(x).abs() * u.abs().amax(-1, keepdim=True)
        if bool((self._form(x, u).abs() <= atol + rtol * scale).all()):
            return True, None
        return False, "a vector is not Minkowski-orthogonal to its point; manifold.proju makes it so"

    def projx(self, x: Tensor, *, dim: int = -1) -> Tensor:
        """The point with the same spatial part, within the radius that the dtype can tell apart."""
        return hm.lorentz_project(x, c=self.c)

    def proju(self, x: Tensor, v: Tensor, *, dim: int = -1) -> Tensor:
        return hm.lorentz_tangent(x, v, c=self.c)

    def egrad2rgrad(self, x: Tensor, u: Tensor, *, dim: int = -1) -> Tensor:
        return hm.lorentz_egrad2rgrad(x, u, c=self.c)

    def inner(
        self, x: Tensor | None, u: Tensor, v: Tensor | None = None, *, keepdim: bool = False, dim: int = -1
    ) -> Tensor:
        """⟨u, v⟩ of tangent vectors at x, never negative for u = v; without a point (None) their Minkowski product, and
        where x is no point, as geoopt's callers may have it."""
        if x is None:
            return self._form(u, u if v is None else v, keepdim)
        return hm.lorentz_inner(x, u, v, c=self.c, keepdim=keepdim)

    def norm(self, x: Tensor, u: Tensor | None = None, *, keepdim: bool = False, dim: int = -1) -> Tensor:
        """The length of u at x; ``norm(u)``, as in geoopt, is that of its Minkowski product, which knows no point."""
        if u is None:
            return hm.safe_sqrt(self.inner(None, x, keepdim=keepdim).clamp(min=0))
        return hm.lorentz_norm(x, u, c=self.c, keepdim=keepdim)

    def dist(self, x: Tensor, y: Tensor, *, keepdim: bool = False, dim: int = -1) -> Tensor:
        return hm.lorentz_dist(x, y, c=self.c, keepdim=keepdim)

    def dist0(self, x: Tensor, *, dim: int = -1, keepdim: bool = False) -> Tensor:
        return hm.lorentz_dist0(x, c=self.c, keepdim=keepdim)

    def expmap(self, x: Tensor, u: Tensor, *, norm_tan: bool = True, project: bool = True, dim: int = -1) -> Tensor:
        return hm.lorentz_expmap(x, u, c=self.c, project=project, tangent=not norm_tan)

    def retr(self, x: Tensor, u: Tensor, *, dim: int = -1) -> Tensor:
        return self.expmap(x, u, norm_tan=False)

    def expmap0(self, u: Tensor, *, project: bool = True, dim: int = -1) -> Tensor:
        """Exponential map at the origin of a tangent vector in ambient numbers (its first one is 0)."""
        return hm.lorentz_expmap0(hm.space_part(u), c=self.c)

    def logmap0(self, x: Tensor, *, dim: int = -1) -> Tensor:
        tangent = hm.lorentz_logmap0(x, c=self.c)
        return torch.cat([torch.zeros_like(hm.time_part(tangent)), tangent], dim=-1)

    def logmap(self, x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
        return hm.lorentz_logmap(x, y, c=self.c)

    def transp(self, x: Tensor, y: Tensor, v: Tensor, *, dim: int = -1) -> Tensor:
        return hm.lorentz_transport(x, y, v, c=self.c)

    def transp0(self, y: Tensor, u: Tensor, *, dim: int = -1) -> Tensor:
        return hm.lorentz_transport0(y, u, c=self.c)

    def transp0back(self, x: Tensor, u: Tensor, *, dim: int = -1) -> Tensor:
        return hm.lorentz_transport0back(x, u, c=self.c)

    def transp_follow_retr(self, x: Tensor, u: Tensor, v: Tensor, *, dim: int = -1) -> Tensor:
        return self.transp(x, self.retr(x, u), v)

    transp_follow_expmap = transp_follow_retr

    def retr_transp(self, x: Tensor, u: Tensor, v: Tensor, *, dim: int = -1) -> tuple[Tensor, Tensor]:
        y = self.retr(x, u)
        return y, self.transp(x, y, v)

    expmap_transp = retr_transp

    def geodesic(self, t: float | Tensor, x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
        return self.expmap(x, t * self.logmap(x, y))

    def geodesic_unit(self, t: float | Tensor, x: Tensor, u: Tensor, *, dim: int = -1, project: bool = True) -> Tensor:
        """The point at distance t from x along the direction of u."""
        length = self.norm(x, u, keepdim=True)
        return self.expmap(x, t * u / torch.where(length == 0, 1.0, length), project=project)

    def origin(
        self,
        *size: int | tuple[int, ...],
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        seed: int | None = 42,
    ) -> geoopt.ManifoldTensor:
        shape = geoopt.utils.size2shape(*size)
        point = torch.zeros(shape, dtype=dtype or self.stored_c.dtype, device=device or self.stored_c.device)
        point[..., 0] = (1 / self.c.detach().sqrt()).to(point)
        return geoopt.ManifoldTensor(point, manifold=self)

    def random_normal(
        self,
        *size: int | tuple[int, ...],
        mean: float | Tensor = 0,
        std: float | Tensor = 1,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> geoopt.ManifoldTensor:
        """exp0 of a normal vector with standard deviation std/√d a coordinate; ``size`` counts the ambient numbers."""
        shape = geoopt.utils.size2shape(*size)
        shape = (*shape[:-1], shape[-1] - 1)
        tangent = torch.randn(shape, dtype=dtype or self.stored_c.dtype, device=device or self.stored_c.device)
        point = hm.lorentz_expmap0(tangent * std / max(shape[-1], 1) ** 0.5 + mean, c=self.c)
        return geoopt.ManifoldTensor(point, manifold=self)

    random = random_normal


def lorentz_curvature(manifold: geoopt.Manifold) -> Tensor:
    """c of a hyperboloid, hgeo's or geoopt's."""
    return manifold.c if isinstance(manifold, Lorentz) else 1 / manifold.k


@Operation
def _within_limit(s: Row, c: Number, limit: Number) -> Row:
    """s, or the row in its direction with √c|s| = limit, if it is longer."""
    squared = c * dot(s, s)
    outside = squared > limit * limit
    return where(outside, limit / sqrt(where(outside, squared, 1.0)), 1.0) * s


@Operation
def _time(s: Row, c: Number) -> Number:
    """√(1/c + |s|²), of the point with the spatial part s."""
    return sqrt(1 / c + dot(s, s))


def _raised(x: Tensor) -> Tensor:
    """float16 and bfloat16 in float32; anything else as it is."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


class LorentzGeometry(ConstantCurvature):
    """The hyperboloid. Of a point only the spatial part X' is computed: it determines the time X₀ = √(1/c + |X'|²)."""

    extra_numbers = 1

    def curvature(self, manifold: geoopt.Manifold) -> Tensor:
        return -lorentz_curvature(manifold)

    def exp0(self, manifold: geoopt.Manifold, v: Tensor) -> Tensor:
        c = lorentz_curvature(manifold)
        if v.dtype in (torch.float32, torch.float64):
            return hm.kept_lorentz_expmap0(v, c=c)
        return hm.lorentz_expmap0(_stopped(v, c), c=c)

    def log0(self, manifold: geoopt.Manifold, x: Tensor) -> Tensor:
        return hm.lorentz_logmap0(x, c=lorentz_curvature(manifold))

    def fold(self, manifold: geoopt.Manifold, v: Tensor) -> Tensor:
        return _stopped(v, lorentz_curvature(manifold))

    def dist(self, manifold: geoopt.Manifold, x: Tensor, y: Tensor) -> Tensor:
        return hm.lorentz_dist(x, y, c=lorentz_curvature(manifold))

    def sqdist(self, manifold: geoopt.Manifold, x: Tensor, y: Tensor) -> Tensor:
        return self.dist(manifold, x, y) ** 2

    def pairs(self, manifold: geoopt.Manifold, x: Tensor, y: Tensor) -> Tensor:
        c = lorentz_curvature(manifold).to(x.dtype)
        # 1 - c|p|² of a point p of the ball is 2/(1 + √c X₀), without cancellation
        f, g = ((1 + torch.sqrt(c) * hm.time_part(points)) / 2 for points in (x, y))
        return hyperbolic_pairs(hm.lorentz_to_ball(x, c=c), hm.lorentz_to_ball(y, c=c), f=f, g=g, c=c)

    def to_ball(self, manifold: geoopt.Manifold, x: Tensor) -> Tensor:
        return hm.lorentz_to_ball(x, c=lorentz_curvature(manifold))

    def from_ball(self, manifold: geoopt.Manifold, y: Tensor) -> Tensor:
        c = lorentz_curvature(manifold)
        return self.project(manifold, hm.ball_to_lorentz(hm.project(y, k=-c), c=c))

    def project(self, manifold: geoopt.Manifold, x: Tensor) -> Tensor:
        return self._point(manifold, x[..., 1:])

    def _point(self, manifold: geoopt.Manifold, spatial: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        """The point of ``dtype`` (that of ``spatial`` unless it is given) with this spatial part, or one nearer."""
        dtype = spatial.dtype if dtype is None else dtype
        spatial = _raised(spatial)  # squares of float16 numbers overflow in float16
        c = lorentz_curvature(manifold).to(spatial.dtype)
        # The radius that the ball's margin allows: √c|X'| = 2ρ/(1-ρ²) at ρ = √c|x|.
        rho = 1 - hm.boundary_margin(dtype)
        limit = 2 * rho / ((1 - rho) * (1 + rho))
        spatial = _within_limit(spatial, c, limit)
        return torch.cat([_time(spatial, c), spatial], dim=-1).to(dtype)

    def translate(self, manifold: geoopt.Manifold, p: Tensor, x: Tensor) -> Tensor:
        return self._point(manifold, self._translated(manifold, p[..., 1:], p[..., :1], x))

    def translate_back(self, manifold: geoopt.Manifold, p: Tensor, x: Tensor) -> Tensor:
        return self._point(manifold, self._translated(manifold, -p[..., 1:], p[..., :1], x))

    @staticmethod
    def _translated(manifold: geoopt.Manifold, p_spatial: Tensor, p_time: Tensor, x: Tensor) -> Tensor:
        """The spatial part of P ⊕ X, in the form of Möbius addition that does not cancel.

        With h = 1 + √c X₀ the ball point is X'/h and 1 - c|X'/h|² = 2/h, so that a sum s of ball points gives
        h_x (s + c|s|² P'/2).
        """
        c = lorentz_curvature(manifold).to(x.dtype)
        root = torch.sqrt(c)
        height = 1 + root * x[..., :1]
        s = p_spatial / (1 + root * p_time) + x[..., 1:] / height
        return height * (s + c * dot(s, s) * p_spatial / 2)

    def to_spatial(self, manifold: geoopt.Manifold, x: Tensor) -> Tensor:
        return hm.space_part(x)

    def from_spatial(self, manifold: geoopt.Manifold, s: Tensor) -> Tensor:
        return self._point(manifold, s)

    def lifted_dim(self, manifold: geoopt.Manifold, n: int) -> int:
        return n

    def lift(self, manifold: geoopt.Manifold, x: Tensor) -> Tensor:
        return x

    def lower(self, manifold: geoopt.Manifold, s: Tensor) -> Tensor:
        dtype, s = s.dtype, _raised(s)
        c = lorentz_curvature(manifold).to(s.dtype)
        time, spatial = s[..., :1], s[..., 1:]
        squared = time * time
        # Far out the difference is rounding noise of the size of eps·X₀²: no smaller length can be believed.
        length = torch.maximum(squared - dot(spatial, spatial), torch.finfo(s.dtype).eps * squared)
        return self._point(manifold, spatial * torch.rsqrt(c * torch.where(squared == 0, 1.0, length)), dtype)

    def plane_distance(self, manifold: geoopt.Manifold, x: Tensor, p: Tensor, a: Tensor) -> Tensor:
        c = lorentz_curvature(manifold).to(x.dtype)
        sine = dot(self._translated(manifold, -p[..., 1:], p[..., :1], x), unit(a))
        return (sine * hm.arsin_ratio(-c * sine * sine)).squeeze(-1)

    def validate(self, manifold: geoopt.Manifold, x: Tensor, name: str) -> None:
        c = lorentz_curvature(manifold).to(x.dtype)
        form = c * ((x[..., 1:] ** 2).sum(-1) - x[..., 0] ** 2)
        off = (form + 1).abs() > 64 * torch.finfo(x.dtype).eps * (1 + c * x[..., 0] ** 2)
        message = "c(-x₀² + |x'|²) = {:.9g} instead of -1 with x₀ > 0"
        refuse_rows(name, off | (x[..., 0] <= 0), lambda at: message.format(float(form[at])))


def _stopped(v: Tensor, c: Tensor) -> Tensor:
    """Tangent vectors at the radius at which the ball's points are stopped: beyond it a dtype cannot tell points apart,
    and soon sinh is infinite."""
    limit = 2 * math.atanh(1 - hm.boundary_margin(v.dtype))
    dtype, v = v.dtype, _raised(v)
    squared = c.to(v.dtype) * dot(v, v)
    outside = squared > limit * limit
    factor = limit * torch.rsqrt(torch.where(outside, squared, 1.0))
    return torch.where(outside, v * factor, v).to(dtype)


register(geoopt.Lorentz, LorentzGeometry(), word=Word("lorentz", Lorentz, "c", 1.0))
