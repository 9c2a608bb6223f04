"""Points of one space to points of another."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from hgeo import manifolds
from hgeo.manifolds import describe
from hgeo.nn._layer import Layer, carry_factor, choice

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
    inside, outside = manifolds.factors(source), manifolds.factors(target)
    if inside and outside:
        if len(inside) != len(outside):
            raise ValueError(
                f"Transfer: an isometry of products goes factor by factor, got {len(inside)} factors and "
                f"{len(outside)}; use how='tangent'"
            )
        for (one, _), (other, _) in zip(inside, outside, strict=True):
            _check_isometry(one, other)
        return
    k, kk = manifolds.curvature(source), manifolds.curvature(target)
    if k is None or kk is None or torch.sign(k.detach()) != torch.sign(kk.detach()):
        raise ValueError(
            f"Transfer: there is no isometry from {describe(source)} to {describe(target)}, not even up to scale: "
            "their curvatures must have one sign; use how='tangent'"
        )


def _isometry(source: Any, target: Any, x: Tensor) -> Tensor:
    if source is target:
        return x
    inside, outside = manifolds.factors(source), manifolds.factors(target)
    if inside and outside:
        pieces = x.split([part.stop - part.start for _, part in inside], dim=-1)
        factors = zip(inside, outside, pieces, strict=True)
        return torch.cat([_isometry(one, other, part) for (one, _), (other, _), part in factors], dim=-1)
    y = manifolds.geometry(source).to_ball(source, x)
    return manifolds.geometry(target).from_ball(target, y * (_root(source, x) / _root(target, x)))


def _root(manifold: Any, x: Tensor) -> Tensor:
    """√|k|, by which stereographic coordinates become those of curvature ±1; 1 where nothing is curved."""
    k = manifolds.curvature(manifold)
    assert k is not None
    size = k.abs().to(x)
    return torch.where(size == 0, 1.0, torch.sqrt(torch.where(size == 0, 1.0, size)))
