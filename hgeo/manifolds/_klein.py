"""Klein's ball: the picture of hyperbolic space in which geodesics are straight."""

from __future__ import annotations

import torch
from torch import Tensor

import hgeo.math as hm
from hgeo._geoopt import geoopt
from hgeo.manifolds._curvature import curvature_parameter
from hgeo.manifolds._functions import register
from hgeo.manifolds._geometry import ConstantCurvature, dot, folded
from hgeo.manifolds._lorentz import SMALLEST_C, Lorentz
from hgeo.manifolds._pairwise import hyperbolic_pairs
from hgeo.manifolds._stereographic import refuse_outside
from hgeo.manifolds._words import Word

__all__ = ["Klein"]


class Klein(geoopt.manifolds.base.Manifold):
    r"""Klein's model {x : c|x|² < 1} of hyperbolic space of curvature -c, c > 0: geodesics are straight segments.

    The metric is γ²(|u|² + cγ²⟨x,u⟩²) with γ = 1/√(1 - c|x|²), so that a tangent vector at the origin has its own
    length. A point lies at √c|x| = tanh(√c d), twice as far out as on the Poincaré ball in units of what a dtype can
    tell from 1: distances up to √c d ≈ 7.6 (float32) or 17.7 (float64) are kept apart. Operations go through the
    hyperboloid.

    Args:
        c: minus the curvature, ≥ 1e-6.
        learnable: whether c is trained.

    >>> import torch, hgeo
    >>> hgeo.exp0(hgeo.Klein(c=1.0), torch.tensor([0.0, 1.0]))
    tensor([0.0000, 0.7616])
    """

    name, ndim, reversible = "Klein", 1, True

    def __init__(self, c: float | Tensor = 1.0, learnable: bool = False) -> None:
        super().__init__()
        hint = "Klein's ball needs curvature; for c = 0 use hgeo.PoincareBall"
        curvature_parameter(c, learnable, name="c", minimum=SMALLEST_C, hint=hint)
        # Its hyperboloid holds the curvature and lends its operations.
        self.hyperboloid = Lorentz(c, learnable)

    @property
    def c(self) -> Tensor:
        """Minus the curvature."""
        return self.hyperboloid.c

    @property
    def learnable(self) -> bool:
        """Whether the curvature is trained."""
        return self.hyperboloid.learnable

    def extra_repr(self) -> str:
        return f"c={float(self.c.detach()):g}" + (", learnable" if self.learnable else "")

    # --- to the hyperboloid and back ---

    def gamma(self, x: Tensor) -> Tensor:
        """The Lorentz factor 1/√(1 - c|x|²)."""
        # At least eps/2: for a point a few ulps inside the boundary rounding would give 0.
        return torch.rsqrt((1 - self.c.to(x.dtype) * dot(x, x)).clamp(min=torch.finfo(x.dtype).eps / 2))

    def _up(self, x: Tensor) -> Tensor:
        gamma = self.gamma(x)
        return torch.cat([gamma * torch.rsqrt(self.c.to(x.dtype)), gamma * x], dim=-1)

    def _down(self, y: Tensor) -> Tensor:
        return hm.space_part(y) / (torch.sqrt(self.c.to(y.dtype)) * hm.time_part(y))

    def _push(self, x: Tensor, u: Tensor) -> Tensor:
        """The tangent vector at the lifted point."""
        c, gamma = self.c.to(x.dtype), self.gamma(x)
        slope = gamma**3 * dot(x, u)
        return torch.cat([torch.sqrt(c) * slope, gamma * u + c * slope * x], dim=-1)

    def _pull(self, x: Tensor, u: Tensor) -> Tensor:
        """The inverse of :meth:`_push`."""
        return (hm.space_part(u) - torch.sqrt(self.c.to(x.dtype)) * hm.time_part(u) * x) / self.gamma(x)

    # --- geoopt's interface ---

    def _check_point_on_manifold(self, x: Tensor, *, atol: float = 1e-5, rtol: float = 1e-5) -> tuple[bool, str | None]:
        if bool((hm.careful_flatness(x.double(), -self.c.to(x.dtype).double(), dim=-1) > 0).all()):
            return True, None
        return False, "a point has √c|x| ≥ 1 or is not a number; manifold.projx brings it inside"

    def _check_vector_on_tangent(
        self, x: Tensor, u: Tensor, *, atol: float = 1e-5, rtol: float = 1e-5
    ) -> tuple[bool, str | None]:
        return True, None

    def projx(self, x: Tensor) -> Tensor:
        return hm.project(x, k=-self.c)

    def proju(self, x: Tensor, u: Tensor) -> Tensor:
        return u

    @hm.of_vectors
    def inner(self, x: Tensor, u: Tensor, v: Tensor | None = None, *, keepdim: bool = False) -> Tensor:
        v = u if v is None else v
        gamma2 = self.gamma(x) ** 2
        value = gamma2 * (dot(u, v) + self.c.to(x.dtype) * gamma2 * dot(x, u) * dot(x, v))
        return value if keepdim else value.squeeze(-1)

    @hm.of_vectors
    def norm(self, x: Tensor, u: Tensor, *, keepdim: bool = False) -> Tensor:
        """Length of a tangent vector at x, with derivatives 0, not infinite, at the zero vector."""
        return hm.safe_sqrt(self.inner(x, u, keepdim=keepdim))

    @hm.of_vectors
    def egrad2rgrad(self, x: Tensor, u: Tensor) -> Tensor:
        return (u - self.c.to(x.dtype) * dot(x, u) * x) / self.gamma(x) ** 2

    @hm.of_vectors
    def dist(self, x: Tensor, y: Tensor, *, keepdim: bool = False) -> Tensor:
        c = self.c
        return hm.dist(hm.klein_to_ball(x, c=c), hm.klein_to_ball(y, c=c), k=-c, keepdim=keepdim)

    def expmap(self, x: Tensor, u: Tensor) -> Tensor:
        return self.projx(self._expmap(x, u))

    @hm.of_vectors
    def _expmap(self, x: Tensor, u: Tensor) -> Tensor:
        return self._down(self.hyperboloid.expmap(self._up(x), self._push(x, u)))

    retr = expmap

    @hm.of_vectors
    def logmap(self, x: Tensor, y: Tensor) -> Tensor:
        return self._pull(x, self.hyperboloid.logmap(self._up(x), self._up(y)))

    @hm.of_vectors
    def transp(self, x: Tensor, y: Tensor, v: Tensor) -> Tensor:
        return self._pull(y, self.hyperboloid.transp(self._up(x), self._up(y), self._push(x, v)))

    def origin(
        self,
        *size: int | tuple[int, ...],
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        seed: int | None = 42,
    ) -> geoopt.ManifoldTensor:
        shape = geoopt.utils.size2shape(*size)
        stored = self.hyperboloid.stored_c
        point = torch.zeros(shape, dtype=dtype or stored.dtype, device=device or stored.device)
        return geoopt.ManifoldTensor(point, manifold=self)

    def random(
        self, *size: int | tuple[int, ...], dtype: torch.dtype | None = None, device: torch.device | str | None = None
    ) -> geoopt.ManifoldTensor:
        """exp0 of a normal vector of standard deviation 1/√d a coordinate."""
        shape = geoopt.utils.size2shape(*size)
        stored = self.hyperboloid.stored_c
        v = torch.randn(shape, dtype=dtype or stored.dtype, device=device or stored.device) / shape[-1] ** 0.5
        return geoopt.ManifoldTensor(hm.project(hm.expmap0(v, k=-self.c), k=-self.c), manifold=self)


class KleinGeometry(ConstantCurvature):
    """x = tanh(√c|v|) v/(√c|v|), with lengths at the origin as they are; the rest through the Poincaré ball."""

    def to_ball(self, manifold: geoopt.Manifold, x: Tensor) -> Tensor:
        return hm.klein_to_ball(x, c=manifold.c)

    def from_ball(self, manifold: geoopt.Manifold, y: Tensor) -> Tensor:
        return manifold.projx(hm.ball_to_klein(y, c=manifold.c))

    def exp0(self, manifold: geoopt.Manifold, v: Tensor) -> Tensor:
        return hm.kept_expmap0(v, k=-manifold.c)

    def log0(self, manifold: geoopt.Manifold, x: Tensor) -> Tensor:
        return hm.logmap0(x, k=-manifold.c)

    def fold(self, manifold: geoopt.Manifold, v: Tensor) -> Tensor:
        return folded(v, -manifold.c)

    def _kept(self, manifold: geoopt.Manifold, u: Tensor) -> Tensor:
        return self.fold(manifold, u)  # half as far out as on the Poincaré ball

    def pairs(self, manifold: geoopt.Manifold, x: Tensor, y: Tensor) -> Tensor:
        c = manifold.c.to(x.dtype)
        x, y = hm.klein_to_ball(x, c=c), hm.klein_to_ball(y, c=c)
        f, g = (hm.lambda_x(points, k=-c, keepdim=True) / 2 for points in (x, y))
        return hyperbolic_pairs(x, y, f=f, g=g, c=c)

    def lifted_dim(self, manifold: geoopt.Manifold, n: int) -> int:
        return n + 1

    def lift(self, manifold: geoopt.Manifold, x: Tensor) -> Tensor:
        gamma = manifold.gamma(x)  # Einstein's midpoint Σwγx/Σwγ
        return torch.cat([gamma * x, gamma], dim=-1)

    def lower(self, manifold: geoopt.Manifold, s: Tensor) -> Tensor:
        total = s[..., -1:]
        return manifold.projx(s[..., :-1] / torch.where(total == 0, 1.0, total))

    def validate(self, manifold: geoopt.Manifold, x: Tensor, name: str) -> None:
        refuse_outside(name, x, manifold.c)


register(Klein, KleinGeometry(), word=Word("klein", Klein, "c", 1.0))
