"""Points of one space to points of another."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from hgeo import manifolds
from hgeo import math as hm
from hgeo._geoopt import geoopt
from hgeo.nn import _geometry
from hgeo.nn._layer import Layer, carry_factor, choice, describe

__all__ = ["Transfer"]


class Transfer(Layer):
    r"""Points of ``source`` to points of ``target``.

    ``how="tangent"``: through the tangent spaces at the two origins, keeping Riemannian lengths (s: ``frame_scale``)

    .. math:: y = \exp_0^{\mathrm{target}}\!\big(\tfrac{s_\mathrm{source}}{s_\mathrm{target}}
              \log_0^{\mathrm{source}}(x)\big)

    so that d(0, y) = d(0, x). ``how="isometry"``: by the closed form between two models of spaces whose curvatures have
    one sign (ball ↔ Lorentz ↔ Klein, projected ↔ embedded sphere, stereographic and Euclidean at k = 0, products factor
    by factor). All distances are kept if the curvatures k are equal; otherwise they are multiplied by
    :math:`\sqrt{k_\mathrm{source} / k_\mathrm{target}}`, the rescaling that makes one space of the other.

    Args:
        source: where the input lies.
        target: where the output lies, of the same intrinsic dimension.
        how: "tangent" or "isometry".

    Shapes:
        - x: (..., ambient dimension of d in ``source``)
        - output: (..., ambient dimension of d in ``target``)

    As c → 0 on both sides it is the identity.

    >>> import torch, hgeo
    >>> ball, hyperboloid = hgeo.PoincareBall(c=1.0), hgeo.Lorentz(c=1.0)
    >>> x, y = hgeo.exp0(ball, torch.tensor([[0.3, 0.4], [0.0, -0.2]]))
    >>> move = hgeo.nn.Transfer(ball, hyperboloid, how="isometry")
    >>> bool(torch.isclose(hgeo.dist(ball, x, y), hgeo.dist(hyperboloid, move(x), move(y))))
    True
    """

    def __init__(self, source: Any, target: Any, how: Literal["tangent", "isometry"] = "tangent") -> None:
        super().__init__(source, target)
        choice("Transfer", "how", how, ("tangent", "isometry"))
        self.how = how
        if source is None or target is None:
            raise TypeError("Transfer: both spaces must be manifolds; for plain vectors use ToManifold or FromManifold")
        if how == "isometry":
            _check_isometry(source, target)

    def forward(self, x: Tensor) -> Tensor:
        """The same point, in the other space."""
        self.check(x)
        if self.how == "isometry":
            return _isometry(self.in_manifold, self.manifold, x)
        v = manifolds.log0(self.in_manifold, x)
        return manifolds.exp0(self.manifold, v * carry_factor(self.in_manifold, self.manifold))

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, how={self.how!r}"


def _check_isometry(source: Any, target: Any) -> None:
    """Looked at once, when the layer is made: both curved the same way, or both flat."""
    products = isinstance(source, geoopt.ProductManifold), isinstance(target, geoopt.ProductManifold)
    if all(products):
        if len(source.manifolds) != len(target.manifolds):
            raise ValueError(
                f"Transfer: an isometry of products goes factor by factor, got {len(source.manifolds)} factors and "
                f"{len(target.manifolds)}; use how='tangent'"
            )
        for one, other in zip(source.manifolds, target.manifolds, strict=True):
            _check_isometry(one, other)
        return
    k, kk = _geometry.curvature(source), _geometry.curvature(target)
    if k is None or kk is None or any(products) or torch.sign(k.detach()) != torch.sign(kk.detach()):
        raise ValueError(
            f"Transfer: there is no isometry from {describe(source)} to {describe(target)}, not even up to scale: "
            "their curvatures must have one sign; use how='tangent'"
        )


def _isometry(source: Any, target: Any, x: Tensor) -> Tensor:
    if source is target:
        return x
    if isinstance(source, geoopt.ProductManifold):
        pieces = manifolds.frame_of(source).pieces(source, x)  # type: ignore[attr-defined]
        moved = [_isometry(m, mm, part) for (m, part), mm in zip(pieces, target.manifolds, strict=True)]
        return torch.cat(moved, dim=-1)
    return _from_unit(target, _to_unit(source, x))


def _to_unit(manifold: Any, x: Tensor) -> Tensor:
    """Stereographic coordinates times √|k|: those of the space of curvature ±1, or at k = 0 the coordinates."""
    if isinstance(manifold, geoopt.Euclidean):
        return x / 2
    if isinstance(manifold, geoopt.Sphere):
        return hm.sphere_to_stereo(x, k=1.0)
    if isinstance(manifold, geoopt.Lorentz):
        c = manifolds.lorentz_curvature(manifold).to(x.dtype)
        return hm.lorentz_to_ball(x, c=c) * torch.sqrt(c)
    if isinstance(manifold, manifolds.Klein):
        return hm.klein_to_ball(x, c=manifold.c) * torch.sqrt(manifold.c).to(x.dtype)
    return x * _unit_scale(manifold, x)


def _from_unit(manifold: Any, x: Tensor) -> Tensor:
    if isinstance(manifold, geoopt.Euclidean):
        return 2 * x
    if isinstance(manifold, geoopt.Sphere):
        return _geometry.project(manifold, hm.stereo_to_sphere(x, k=1.0))
    if isinstance(manifold, geoopt.Lorentz):
        c = manifolds.lorentz_curvature(manifold).to(x.dtype)
        inside = hm.project(x, k=-1.0)
        return _geometry.project(manifold, hm.ball_to_lorentz(inside, c=1.0) / torch.sqrt(c))
    if isinstance(manifold, manifolds.Klein):
        return manifold.projx(hm.ball_to_klein(x, c=1.0) * torch.rsqrt(manifold.c).to(x.dtype))
    return hm.project(x / _unit_scale(manifold, x), k=manifold.k)


def _unit_scale(manifold: Any, x: Tensor) -> Tensor:
    size = manifold.k.abs().to(x.dtype)
    return torch.where(size == 0, 1.0, torch.sqrt(torch.where(size == 0, 1.0, size)))
