"""The stereographic family: geoopt's manifolds, with exact maths and a curvature that trains through 0."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

import hgeo.math as hm
from hgeo._geoopt import geoopt
from hgeo.manifolds._curvature import State, bounded_below, check_stored, curvature_parameter, put_back
from hgeo.manifolds._functions import register
from hgeo.manifolds._geometry import ConstantCurvature, refuse_rows
from hgeo.manifolds._pairwise import hyperbolic_pairs
from hgeo.manifolds._words import Word

__all__ = ["PoincareBall", "SphereProjection", "Stereographic", "refuse_outside", "stereographic_curvature"]


class Stereographic(geoopt.Stereographic):
    r"""The stereographic model of signed curvature k: Poincaré ball (k < 0), Euclidean space (k = 0), projected sphere
    (k > 0), in one differentiable family.

    A :class:`geoopt.Stereographic`, so that ``geoopt.ManifoldParameter`` and geoopt's optimisers take it unchanged;
    every operation is that of :mod:`hgeo.math`. The metric is λ² |dx|² with λ = 2/(1 + k|x|²).

    Args:
        k: the curvature, any finite number. Stored as it is.
        learnable: whether the curvature is trained.

    >>> import torch, hgeo
    >>> space = hgeo.Stereographic(k=0.0)
    >>> float(space.dist(torch.tensor([0.0, 0.0]), torch.tensor([3.0, 4.0])))
    10.0
    """

    k: Any  # a parameter here, a property of the one-sided subclasses

    def __init__(self, k: float | Tensor = 0.0, learnable: bool = False) -> None:
        geoopt.manifolds.base.Manifold.__init__(self)  # by name: geoopt's own may have been replaced by this class
        self._store_curvature(k, learnable)

    def _store_curvature(self, value: float | Tensor, learnable: bool) -> None:
        hint = "0 is Euclidean, negative hyperbolic, positive spherical"
        self.k = curvature_parameter(value, learnable, name="k", minimum=None, hint=hint)

    @property
    def learnable(self) -> bool:
        """Whether the curvature is trained."""
        return next(self.parameters()).requires_grad

    def extra_repr(self) -> str:
        return f"k={float(self.k.detach()):g}" + (", learnable" if self.learnable else "")

    def _load_from_state_dict(self, state_dict: State, prefix: str, *rest: Any) -> None:
        least = getattr(self, "curvature_bound", (None, None))[1]
        for name, parameter in self._parameters.items():
            check_stored(state_dict, prefix + name, parameter, least, errors=rest[-1])
        super()._load_from_state_dict(state_dict, prefix, *rest)

    # --- points and vectors ---

    def _check_point_on_manifold(
        self, x: Tensor, *, atol: float = 1e-5, rtol: float = 1e-5, dim: int = -1
    ) -> tuple[bool, str | None]:
        inside = hm.careful_flatness(x.double(), self.k.to(x.dtype).double(), dim) > 0
        if bool(inside.all()):
            return True, None
        return False, "a point has √c|x| ≥ 1 or is not a number; hgeo.validate(manifold, x) says which row"

    def projx(self, x: Tensor, *, dim: int = -1) -> Tensor:
        return hm.project(x, k=self.k, dim=dim)

    def _finished(self, x: Tensor, project: bool, dim: int) -> Tensor:
        return hm.project(x, k=self.k, dim=dim) if project else x

    def lambda_x(self, x: Tensor, *, dim: int = -1, keepdim: bool = False) -> Tensor:
        return hm.lambda_x(x, k=self.k, dim=dim, keepdim=keepdim)

    def inner(self, x: Tensor, u: Tensor, v: Tensor | None = None, *, keepdim: bool = False, dim: int = -1) -> Tensor:
        return hm.inner(x, u, v, k=self.k, keepdim=keepdim, dim=dim)

    def norm(self, x: Tensor, u: Tensor, *, keepdim: bool = False, dim: int = -1) -> Tensor:
        return hm.norm(x, u, k=self.k, keepdim=keepdim, dim=dim)

    def egrad2rgrad(self, x: Tensor, u: Tensor, *, dim: int = -1) -> Tensor:
        return hm.egrad2rgrad(x, u, k=self.k, dim=dim)

    # --- distances ---

    def dist(self, x: Tensor, y: Tensor, *, keepdim: bool = False, dim: int = -1) -> Tensor:
        return hm.dist(x, y, k=self.k, keepdim=keepdim, dim=dim)

    def dist2(self, x: Tensor, y: Tensor, *, keepdim: bool = False, dim: int = -1) -> Tensor:
        return hm.sqdist(x, y, k=self.k, keepdim=keepdim, dim=dim)

    def dist0(self, x: Tensor, *, dim: int = -1, keepdim: bool = False) -> Tensor:
        return hm.dist0(x, k=self.k, dim=dim, keepdim=keepdim)

    def dist2plane(
        self,
        x: Tensor,
        p: Tensor,
        a: Tensor,
        *,
        dim: int = -1,
        keepdim: bool = False,
        signed: bool = False,
        scaled: bool = False,
    ) -> Tensor:
        return hm.dist2plane(x, p, a, k=self.k, dim=dim, keepdim=keepdim, signed=signed, scaled=scaled)

    # --- exponential, logarithm, geodesics ---

    def retr(self, x: Tensor, u: Tensor, *, dim: int = -1) -> Tensor:
        k = self.k
        # On a sphere x + u overshoots ever further once a point is near the opposite one, which is at infinity: there a
        # step is taken exactly, and leads across.
        across = hm.expmap(x, u, k=k, dim=dim)
        return torch.where(k.to(x.dtype) > 0, across, hm.project(x + u, k=k, dim=dim))

    def expmap(self, x: Tensor, u: Tensor, *, project: bool = True, dim: int = -1) -> Tensor:
        return self._finished(hm.expmap(x, u, k=self.k, dim=dim), project, dim)

    def logmap(self, x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
        return hm.logmap(x, y, k=self.k, dim=dim)

    def expmap0(self, u: Tensor, *, dim: int = -1, project: bool = True) -> Tensor:
        return self._finished(hm.expmap0(u, k=self.k, dim=dim), project, dim)

    def logmap0(self, x: Tensor, *, dim: int = -1) -> Tensor:
        return hm.logmap0(x, k=self.k, dim=dim)

    def geodesic(self, t: float | Tensor, x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
        return hm.geodesic(_tensor(t, x), x, y, k=self.k, dim=dim)

    def geodesic_unit(self, t: float | Tensor, x: Tensor, u: Tensor, *, dim: int = -1, project: bool = True) -> Tensor:
        return self._finished(hm.geodesic_unit(_tensor(t, x), x, u, k=self.k, dim=dim), project, dim)

    # --- transport ---

    def transp(self, x: Tensor, y: Tensor, v: Tensor, *, dim: int = -1) -> Tensor:
        return hm.parallel_transport(x, y, v, k=self.k, dim=dim)

    def transp0(self, y: Tensor, u: Tensor, *, dim: int = -1) -> Tensor:
        return hm.parallel_transport0(y, u, k=self.k, dim=dim)

    def transp0back(self, y: Tensor, u: Tensor, *, dim: int = -1) -> Tensor:
        return hm.parallel_transport0back(y, u, k=self.k, dim=dim)

    # --- gyrovector operations ---

    def mobius_add(self, x: Tensor, y: Tensor, *, dim: int = -1, project: bool = True) -> Tensor:
        return self._finished(hm.mobius_add(x, y, k=self.k, dim=dim), project, dim)

    def mobius_sub(self, x: Tensor, y: Tensor, *, dim: int = -1, project: bool = True) -> Tensor:
        return self._finished(hm.mobius_sub(x, y, k=self.k, dim=dim), project, dim)

    def mobius_coadd(self, x: Tensor, y: Tensor, *, dim: int = -1, project: bool = True) -> Tensor:
        return self._finished(hm.mobius_coadd(x, y, k=self.k, dim=dim), project, dim)

    def mobius_cosub(self, x: Tensor, y: Tensor, *, dim: int = -1, project: bool = True) -> Tensor:
        return self._finished(hm.mobius_cosub(x, y, k=self.k, dim=dim), project, dim)

    def mobius_scalar_mul(self, r: float | Tensor, x: Tensor, *, dim: int = -1, project: bool = True) -> Tensor:
        return self._finished(hm.mobius_scalar_mul(_tensor(r, x), x, k=self.k, dim=dim), project, dim)

    def mobius_pointwise_mul(self, w: Tensor, x: Tensor, *, dim: int = -1, project: bool = True) -> Tensor:
        return self._finished(hm.mobius_pointwise_mul(w, x, k=self.k, dim=dim), project, dim)

    def mobius_matvec(self, m: Tensor, x: Tensor, *, dim: int = -1, project: bool = True) -> Tensor:
        return self._finished(hm.mobius_matvec(m, x, k=self.k, dim=dim), project, dim)

    def mobius_fn_apply(
        self, fn: Callable[..., Tensor], x: Tensor, *args: Any, dim: int = -1, project: bool = True, **kwargs: Any
    ) -> Tensor:
        return self._finished(hm.mobius_fn_apply(fn, x, *args, k=self.k, dim=dim, **kwargs), project, dim)

    def mobius_fn_apply_chain(
        self, x: Tensor, *fns: Callable[..., Tensor], project: bool = True, dim: int = -1
    ) -> Tensor:
        def chain(u: Tensor) -> Tensor:
            for fn in fns:
                u = fn(u)
            return u

        return self.mobius_fn_apply(chain, x, dim=dim, project=project)

    def gyration(self, x: Tensor, y: Tensor, z: Tensor, *, dim: int = -1) -> Tensor:
        return hm.gyration(x, y, z, k=self.k, dim=dim)

    def antipode(self, x: Tensor, *, dim: int = -1) -> Tensor:
        return hm.antipode(x, k=self.k, dim=dim)

    def weighted_midpoint(
        self,
        xs: Tensor,
        weights: Tensor | None = None,
        *,
        reducedim: Sequence[int] | int | None = None,
        dim: int = -1,
        keepdim: bool = False,
        lincomb: bool = False,
        posweight: bool = False,
        project: bool = True,
    ) -> Tensor:
        """Gyromidpoint. ``posweight`` turns a negative weight into a positive one of the antipode, as in geoopt."""
        if posweight and weights is not None:
            xs = torch.where(weights.unsqueeze(dim) < 0, hm.antipode(xs, k=self.k, dim=dim), xs)
            weights = weights.abs()
        middle = hm.weighted_midpoint(
            xs, weights, k=self.k, reducedim=reducedim, dim=dim, keepdim=True, lincomb=lincomb
        )
        middle = self._finished(middle, project, dim)
        if keepdim:
            return middle
        if reducedim is None:
            axes = [axis for axis in range(xs.dim()) if axis != dim % xs.dim()]
        else:
            axes = [axis % xs.dim() for axis in ([reducedim] if isinstance(reducedim, int) else reducedim)]
        return middle.squeeze(axes) if axes else middle

    # --- the embedding that geoopt calls sproj: hyperboloid or sphere, special axis last; a plane at k = 0 ---

    def sproj(self, x: Tensor, *, dim: int = -1) -> Tensor:
        x = x.movedim(dim, -1)
        root = hm.safe_sqrt(self.k.abs()).to(x.dtype)
        return (x[..., :-1] / torch.where(root == 0, 2.0, 1 + root * x[..., -1:])).movedim(-1, dim)

    def inv_sproj(self, x: Tensor, *, dim: int = -1) -> Tensor:
        lam = hm.lambda_x(x, k=self.k, dim=dim, keepdim=True)
        root = hm.safe_sqrt(self.k.abs()).to(x.dtype)
        height = torch.where(root == 0, 0.0, (lam - 1) / torch.where(root == 0, 1.0, root))
        return torch.cat([lam * x, height], dim=dim)

    # --- random points ---

    def random_normal(
        self,
        *size: int | tuple[int, ...],
        mean: float | Tensor = 0,
        std: float | Tensor = 1,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> geoopt.ManifoldTensor:
        """exp0 of a normal vector with standard deviation std/√d a coordinate."""
        shape = geoopt.utils.size2shape(*size)
        self._assert_check_shape(shape, "x")
        k = next(self.parameters())
        tangent = torch.randn(shape, dtype=dtype or k.dtype, device=device or k.device) * std / shape[-1] ** 0.5 + mean
        return geoopt.ManifoldTensor(self.expmap0(tangent), manifold=self)

    random = random_normal


def _tensor(value: float | Tensor, like: Tensor) -> Tensor:
    """A time or a factor as a tensor of floats, also where geoopt's callers give a number or a tensor of integers."""
    if isinstance(value, Tensor) and value.dtype.is_floating_point:
        return value
    return torch.as_tensor(value, dtype=like.dtype, device=like.device)


class _OneSided(Stereographic):
    """What the ball and the projected sphere share: a curvature magnitude ≥ 0, stored as it is."""

    _stored = ""  # the parameter's name
    _legacy = ""  # the name geoopt stores its inverse softplus under
    _hint = ""

    def _store_curvature(self, value: float | Tensor, learnable: bool) -> None:
        name = self._stored[-1]
        parameter = curvature_parameter(value, learnable, name=name, minimum=0.0, hint=self._hint)
        self.register_parameter(self._stored, parameter)

    @property
    def _magnitude(self) -> Tensor:
        return bounded_below(self._parameters[self._stored])

    @property
    def curvature_bound(self) -> tuple[Tensor, float]:
        """The stored curvature, and the least value it may have: an optimiser brings it back there after a step."""
        return getattr(self, self._stored), 0.0

    def _load_from_state_dict(self, state_dict: State, prefix: str, *rest: Any) -> None:
        legacy = state_dict.pop(prefix + self._legacy, None)
        if legacy is not None:
            state_dict[prefix + self._stored] = nn.functional.softplus(legacy)
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def _save_to_state_dict(self, destination: State, prefix: str, keep_vars: bool) -> None:
        put_back(*self.curvature_bound)
        super()._save_to_state_dict(destination, prefix, keep_vars)


class PoincareBall(_OneSided, geoopt.PoincareBall):
    r"""The Poincaré ball {x : c|x|² < 1} of curvature -c, c ≥ 0, with metric λ² |dx|², λ = 2/(1 - c|x|²).

    A :class:`geoopt.PoincareBall`. c = 0 is legal, exactly Euclidean (distance 2|x-y|), and trainable: the stored
    number is c itself, its gradient is the true one at 0 as elsewhere, and a step beyond 0 ends there.

    Args:
        c: minus the curvature, a finite number ≥ 0.
        learnable: whether c is trained.

    >>> import torch, hgeo
    >>> ball = hgeo.PoincareBall(c=1.0)
    >>> x = ball.expmap0(torch.tensor([0.3, 0.4]))
    >>> ball.logmap0(x)
    tensor([0.3000, 0.4000])
    """

    _stored, _legacy = "stored_c", "isp_c"
    _hint = "for positive curvature use hgeo.SphereProjection, for either sign hgeo.Stereographic"

    def __init__(self, c: float | Tensor = 1.0, learnable: bool = False) -> None:
        super().__init__(c, learnable)

    def retr(self, x: Tensor, u: Tensor, *, dim: int = -1) -> Tensor:
        return hm.project(x + u, k=self.k, dim=dim)

    @property
    def c(self) -> Tensor:
        """Minus the curvature, never negative."""
        return self._magnitude

    @property
    def k(self) -> Tensor:
        return -self._magnitude

    def extra_repr(self) -> str:
        return f"c={float(self.c.detach()):g}" + (", learnable" if self.learnable else "")


class SphereProjection(_OneSided, geoopt.SphereProjection):
    r"""The stereographic projection of a sphere of curvature k ≥ 0, with metric λ² |dx|², λ = 2/(1 + k|x|²).

    A :class:`geoopt.SphereProjection`. The point opposite to the origin is at infinity. k = 0 is legal and trainable,
    as in :class:`PoincareBall`.

    >>> import torch, hgeo
    >>> sphere = hgeo.SphereProjection(k=1.0)
    >>> float(sphere.dist(torch.tensor([-1.0, 0.0]), torch.tensor([1.0, 0.0])))  # antipodes: π
    3.1415927410125732
    """

    _stored, _legacy = "stored_k", "isp_k"
    _hint = "for negative curvature use hgeo.PoincareBall, for either sign hgeo.Stereographic"

    def __init__(self, k: float | Tensor = 1.0, learnable: bool = False) -> None:
        super().__init__(k, learnable)

    @property
    def k(self) -> Tensor:
        return self._magnitude


class StereographicGeometry(ConstantCurvature):
    """x = tan_k(|v|) v/|v|; a unit coordinate vector has length λ_0 = 2.

    Reading a trained curvature costs a graph node: each operation reads it once.
    """

    def curvature(self, manifold: geoopt.Manifold) -> Tensor:
        return manifold.k

    def to_ball(self, manifold: geoopt.Manifold, x: Tensor) -> Tensor:
        return x

    def from_ball(self, manifold: geoopt.Manifold, y: Tensor) -> Tensor:
        return hm.project(y, k=manifold.k)

    def project(self, manifold: geoopt.Manifold, x: Tensor) -> Tensor:
        return hm.project(x, k=manifold.k)

    def exp0(self, manifold: geoopt.Manifold, v: Tensor) -> Tensor:
        return hm.kept_expmap0(v, k=manifold.k)

    def log0(self, manifold: geoopt.Manifold, x: Tensor) -> Tensor:
        return hm.logmap0(x, k=manifold.k)

    def scale(self, manifold: geoopt.Manifold) -> float:
        return 2.0

    def pairs(self, manifold: geoopt.Manifold, x: Tensor, y: Tensor) -> Tensor:
        if not isinstance(manifold, geoopt.PoincareBall):  # the only one whose curvature has a known sign
            return super().pairs(manifold, x, y)
        k = manifold.k.to(x.dtype)
        f, g = (hm.lambda_x(points, k=k, keepdim=True) / 2 for points in (x, y))
        return hyperbolic_pairs(x, y, f=f, g=g, c=-k)

    def translate(self, manifold: geoopt.Manifold, p: Tensor, x: Tensor) -> Tensor:
        k = manifold.k
        return hm.project(hm.mobius_add(p, x, k=k), k=k)

    def translate_back(self, manifold: geoopt.Manifold, p: Tensor, x: Tensor) -> Tensor:
        k = manifold.k
        return hm.project(hm.mobius_add(-p, x, k=k), k=k)

    def lower(self, manifold: geoopt.Manifold, s: Tensor) -> Tensor:
        k = manifold.k
        return hm.project(hm.centroid(s[..., :-2], s[..., -2:-1], s[..., -1:], k=k), k=k)

    def has_mobius(self, manifold: geoopt.Manifold) -> bool:
        return True

    def has_spatial(self, manifold: geoopt.Manifold) -> bool:
        # A curvature of either sign that is trained may become a sphere's.
        return isinstance(manifold, geoopt.PoincareBall) or (
            super().has_spatial(manifold) and not any(p.requires_grad for p in manifold.parameters())
        )

    def free_coordinates(self, manifold: geoopt.Manifold) -> bool:
        return True

    def validate(self, manifold: geoopt.Manifold, x: Tensor, name: str) -> None:
        refuse_outside(name, x, (-manifold.k).clamp(min=0))


def refuse_outside(name: str, x: Tensor, c: Tensor) -> None:
    """Refuse rows that are no points of the ball √c|x| < 1."""
    # 1 - c|x|² with all of its digits: a point one ulp inside is a point.
    c, wide = c.to(x.dtype).double(), x.double()
    outside = hm.careful_flatness(wide, -c, dim=-1).squeeze(-1) <= 0
    radius = (c * (wide * wide).sum(-1)).sqrt()
    hint = "and a point of the ball has less than 1; manifold.projx(x) brings it inside"
    refuse_rows(name, outside, lambda at: f"√c|x| = {float(radius[at]):.9g}, {hint}")


_GEOMETRY = StereographicGeometry()
register(geoopt.PoincareBall, _GEOMETRY, word=Word("ball", PoincareBall, "c", 1.0))
register(geoopt.Stereographic, _GEOMETRY, word=Word("stereo", Stereographic, "k", 0.0))
register(geoopt.SphereProjection, _GEOMETRY, word=Word("sproj", SphereProjection, "k", 1.0))


def stereographic_curvature(manifold: geoopt.Manifold) -> Tensor | None:
    """The signed curvature k of a manifold of the stereographic family, hgeo's or geoopt's; None for any other."""
    return manifold.k if isinstance(manifold, geoopt.Stereographic) else None
