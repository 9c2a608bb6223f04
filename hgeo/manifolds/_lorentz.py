"""The hyperboloid: geoopt's Lorentz manifold with exact maths, and with c for the curvature as everywhere in hgeo."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import hgeo.math as hm
from hgeo._geoopt import geoopt
from hgeo.manifolds._curvature import bounded_below, curvature_parameter
from hgeo.math._contract import of_vectors
from hgeo.math._models import space_part, time_part

__all__ = ["Lorentz", "lorentz_curvature"]

# The hyperboloid of curvature 0 is a plane at infinity: a learnable c stops here.
_SMALLEST_C = 1e-6


class Lorentz(geoopt.Lorentz):
    r"""The hyperboloid {x : -x₀² + |x'|² = -1/c, x₀ > 0} of curvature -c, c > 0, in d + 1 numbers, time first.

    A :class:`geoopt.Lorentz` (whose ``k`` is 1/c). For a curvature that trains to 0 use :class:`hgeo.PoincareBall`, the
    same space in other coordinates.

    Args:
        c: minus the curvature, ≥ 1e-6.
        learnable: whether c is trained.

    >>> import torch, hgeo
    >>> space = hgeo.Lorentz(c=1.0)
    >>> hgeo.exp0(space, torch.tensor([0.0, 1.0]))
    tensor([1.5431, 0.0000, 1.1752])
    """

    reversible = True

    def __init__(self, c: float | Tensor = 1.0, learnable: bool = False) -> None:
        super(geoopt.Lorentz, self).__init__()
        hint = "the hyperboloid needs curvature; for c = 0 use hgeo.PoincareBall"
        self.stored_c = curvature_parameter(c, learnable, name="c", minimum=_SMALLEST_C, hint=hint)

    @property
    def c(self) -> Tensor:
        """Minus the curvature."""
        return bounded_below(self.stored_c, _SMALLEST_C)

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
        return self.stored_c, _SMALLEST_C

    def extra_repr(self) -> str:
        return f"c={float(self.c.detach()):g}" + (", learnable" if self.learnable else "")

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any) -> None:
        legacy = state_dict.pop(prefix + "k", None)
        if legacy is not None:
            state_dict[prefix + "stored_c"] = 1 / legacy
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)

    def _curvature(self, x: Tensor) -> Tensor:
        return self.c.to(x.dtype)

    @staticmethod
    def _form(u: Tensor, v: Tensor, keepdim: bool = True) -> Tensor:
        product = u * v
        result = space_part(product).sum(-1, keepdim=True) - time_part(product)
        return result if keepdim else result.squeeze(-1)

    def _check_point_on_manifold(
        self, x: Tensor, *, atol: float = 1e-5, rtol: float = 1e-5, dim: int = -1
    ) -> tuple[bool, str | None]:
        # The equation is relative to x₀²: that is the scale at which the numbers of a far point are rounded.
        defect = (self._form(x, x) + 1 / self._curvature(x)).abs()
        if bool((defect <= atol + rtol * (1 + time_part(x) ** 2)).all()):
            return True, None
        return False, "a point does not satisfy -x₀² + |x'|² = -1/c; manifold.projx puts it there"

    def _check_vector_on_tangent(
        self, x: Tensor, u: Tensor, *, atol: float = 1e-5, rtol: float = 1e-5, dim: int = -1
    ) -> tuple[bool, str | None]:
        scale = 1 + time_part(x).abs() * u.abs().amax(-1, keepdim=True)
        if bool((self._form(x, u).abs() <= atol + rtol * scale).all()):
            return True, None
        return False, "a vector is not Minkowski-orthogonal to its point; manifold.proju makes it so"

    @of_vectors
    def projx(self, x: Tensor, *, dim: int = -1) -> Tensor:
        """The point with the same spatial part."""
        spatial = space_part(x)
        time = torch.sqrt(1 / self._curvature(x) + (spatial * spatial).sum(-1, keepdim=True))
        return torch.cat([time, spatial], dim=-1)

    @of_vectors
    def proju(self, x: Tensor, v: Tensor, *, dim: int = -1) -> Tensor:
        return v + self._curvature(x) * self._form(x, v) * x

    @of_vectors
    def egrad2rgrad(self, x: Tensor, u: Tensor, *, dim: int = -1) -> Tensor:
        return self.proju(x, torch.cat([-time_part(u), space_part(u)], dim=-1))

    @of_vectors
    def inner(self, x: Tensor, u: Tensor, v: Tensor | None = None, *, keepdim: bool = False, dim: int = -1) -> Tensor:
        return self._form(u, u if v is None else v, keepdim)

    @of_vectors
    def norm(self, x: Tensor, u: Tensor, *, keepdim: bool = False, dim: int = -1) -> Tensor:
        return hm.safe_sqrt(self._form(u, u, keepdim).clamp(min=0.0))

    def dist(self, x: Tensor, y: Tensor, *, keepdim: bool = False, dim: int = -1) -> Tensor:
        return hm.lorentz_dist(x, y, c=self.c, keepdim=keepdim)

    def dist0(self, x: Tensor, *, dim: int = -1, keepdim: bool = False) -> Tensor:
        tangent = hm.lorentz_logmap0(x, c=self.c)
        return hm.safe_sqrt((tangent * tangent).sum(-1, keepdim=keepdim))

    @of_vectors
    def expmap(self, x: Tensor, u: Tensor, *, norm_tan: bool = True, project: bool = True, dim: int = -1) -> Tensor:
        u = self.proju(x, u) if norm_tan else u
        z = -self._curvature(x) * self._form(u, u).clamp(min=0.0)
        y = hm.cos_ratio(z) * x + hm.sin_ratio(z) * u
        return self.projx(y) if project else y

    retr = expmap

    def expmap0(self, u: Tensor, *, project: bool = True, dim: int = -1) -> Tensor:
        """Exponential map at the origin of a tangent vector in ambient numbers (its first one is 0)."""
        return hm.lorentz_expmap0(space_part(u), c=self.c)

    def logmap0(self, x: Tensor, *, dim: int = -1) -> Tensor:
        tangent = hm.lorentz_logmap0(x, c=self.c)
        return torch.cat([torch.zeros_like(time_part(tangent)), tangent], dim=-1)

    def _gap(self, x: Tensor, y: Tensor) -> Tensor:
        """c(cosh - 1)/c of the pair: 2 sinh²(√c d/2), from the accurate distance."""
        c = self._curvature(x)
        half = hm.lorentz_dist(x, y, c=c, keepdim=True) / 2
        return 2 * c * half * half * hm.sin_ratio(-c * half * half) ** 2

    @of_vectors
    def logmap(self, x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
        c = self._curvature(x)
        distance = hm.lorentz_dist(x, y, c=c, keepdim=True)
        # y - cosh·x = (y - x) - (cosh - 1)·x keeps its digits for close points.
        direction = (y - x) - self._gap(x, y) * x
        return direction / hm.sin_ratio(-c * distance * distance)

    @of_vectors
    def transp(self, x: Tensor, y: Tensor, v: Tensor, *, dim: int = -1) -> Tensor:
        return v + self._curvature(x) * self._form(y, v) / (2 + self._gap(x, y)) * (x + y)

    def _pole(self, x: Tensor) -> Tensor:
        """The origin, once for each of the points."""
        time = torch.rsqrt(self._curvature(x)).expand_as(time_part(x))
        return torch.cat([time, torch.zeros_like(space_part(x))], dim=-1)

    def transp0(self, y: Tensor, u: Tensor, *, dim: int = -1) -> Tensor:
        return self.transp(self._pole(y), y, u)

    def transp0back(self, x: Tensor, u: Tensor, *, dim: int = -1) -> Tensor:
        return self.transp(x, self._pole(x), u)

    def transp_follow_retr(self, x: Tensor, u: Tensor, v: Tensor, *, dim: int = -1) -> Tensor:
        return self.transp(x, self.retr(x, u), v)

    transp_follow_expmap = transp_follow_retr

    def retr_transp(self, x: Tensor, u: Tensor, v: Tensor, *, dim: int = -1) -> tuple[Tensor, Tensor]:
        y = self.retr(x, u)
        return y, self.transp(x, y, v)

    expmap_transp = retr_transp

    def geodesic(self, t: Tensor, x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
        return self.expmap(x, t * self.logmap(x, y))

    def geodesic_unit(self, t: Tensor, x: Tensor, u: Tensor, *, dim: int = -1, project: bool = True) -> Tensor:
        """The point at distance t from x along the direction of u."""
        length = self.norm(x, u, keepdim=True)
        return self.expmap(x, t * u / torch.where(length == 0, 1.0, length), project=project)

    def origin(self, *size: Any, dtype: torch.dtype | None = None, device: Any = None, seed: int | None = 42) -> Any:
        shape = geoopt.utils.size2shape(*size)
        point = torch.zeros(shape, dtype=dtype or self.stored_c.dtype, device=device or self.stored_c.device)
        point[..., 0] = (1 / self.c.detach().sqrt()).to(point)
        return geoopt.ManifoldTensor(point, manifold=self)

    def random_normal(
        self,
        *size: Any,
        mean: float | Tensor = 0,
        std: float | Tensor = 1,
        dtype: torch.dtype | None = None,
        device: Any = None,
    ) -> Any:
        """exp0 of a normal vector with standard deviation std/√d a coordinate; ``size`` counts the ambient numbers."""
        shape = geoopt.utils.size2shape(*size)
        shape = (*shape[:-1], shape[-1] - 1)
        tangent = torch.randn(shape, dtype=dtype or self.stored_c.dtype, device=device or self.stored_c.device)
        point = hm.lorentz_expmap0(tangent * std / max(shape[-1], 1) ** 0.5 + mean, c=self.c)
        return geoopt.ManifoldTensor(point, manifold=self)

    random = random_normal


def lorentz_curvature(manifold: Any) -> Tensor:
    """c of a hyperboloid, hgeo's or geoopt's."""
    return manifold.c if isinstance(manifold, Lorentz) else 1 / manifold.k
