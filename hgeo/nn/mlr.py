"""Multinomial logistic regression by hyperplanes."""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from torch import Tensor, nn

from hgeo import manifolds
from hgeo.nn._layer import Layer, choice, point_parameter
from hgeo.nn._spatial import (
    check_spatial,
    lorentz_sqdist,
    lorentz_sqdist_rows,
    minus_curvature,
    plane_scores,
    to_spatial,
)

__all__ = ["MLR"]


class MLR(Layer):
    r"""Class scores as signed distances to hyperplanes.

    .. math:: \ell_k(x) = \|a_k\| \; d_\pm\big(x, H(p_k, a_k)\big)

    H is the hyperplane through the point p_k orthogonal to a_k, a vector in the origin's frame carried to p_k; ‖a‖ is
    its Riemannian length (``frame_scale`` times |a|), d_± the distance with the sign of the side. On the ball

    .. math:: d_\pm = \frac{1}{\sqrt c} \operatorname{arsinh}
              \frac{2\sqrt c\,\langle -p \oplus x, a\rangle}{(1 - c|-p \oplus x|^2)\,|a|} ,

    as in Ganea et al., "Hyperbolic neural networks" (2018). On a product the scores of the factors are added.

    Two more forms, on hyperbolic and flat spaces, with s the spatial part of the hyperboloid's point and
    :math:`t = \sqrt{1 + c|s|^2}`:

    .. math:: \ell_k &= \tfrac{|a_k|}{\sqrt c} \operatorname{arsinh}\big(\sqrt c \langle s, \hat a_k\rangle
              \cosh\sqrt c\,b_k + t \sinh\sqrt c\,b_k\big) && \text{form="hnn++"} \\
              \ell_k &= b_k - \big(|s - p'_k|^2 - (x_0 - p_{k,0})^2\big) && \text{form="lorentz"}

    "hnn++" (Shimizu et al., 2021; the same function on the hyperboloid is the Lorentz MLR of Bdeir et al., 2024) has a
    number b, the signed distance of the origin, in place of the point p. "lorentz" is minus the squared Lorentzian
    distance to a class's point and a bias, the classifier of Chen et al. (HyboNet, 2022).

    Args:
        in_dim: intrinsic dimension of the input.
        classes: number of classes.
        manifold: where the input lies. The scores are plain.
        form: "hyperplane", "hnn++" or "lorentz".

    Shapes:
        - x: (..., ambient dimension of ``in_dim``)
        - output: (..., classes)

    Initialised so that p is the origin, b = 0, and the scores at c → 0 are those of
    ``nn.Linear(in_dim, classes, bias=False)``; in the form "lorentz" log0(p) is uniform in ±1/√in_dim.

    As c → 0 on the stereographic family it is 4⟨x−p, a⟩, 2⟨x, a⟩ + |a| b or b − 4|x−p|² (⟨x−p, a⟩, ⟨x, a⟩ + |a| b
    and b − |x−p|² on Euclidean space, whose frame has unit scale).

    >>> import torch, hgeo
    >>> hgeo.nn.MLR(4, 3, hgeo.PoincareBall())(torch.zeros(2, 4)).shape
    torch.Size([2, 3])
    """

    def __init__(
        self,
        in_dim: int,
        classes: int,
        manifold: Any,
        *,
        form: Literal["hyperplane", "hnn++", "lorentz"] = "hyperplane",
    ) -> None:
        super().__init__(manifold, None, in_dim, classes)
        choice("MLR", "form", form, ("hyperplane", "hnn++", "lorentz"))
        self.form = form
        if form == "hyperplane":
            _refuse_without_planes(manifold, in_dim)
        else:
            check_spatial("MLR", f"form={form!r}", manifold)
        self.point = point_parameter(manifold, in_dim, classes) if form != "hnn++" else None
        self.normal = nn.Parameter(torch.empty(classes, in_dim)) if form != "lorentz" else None
        self.bias = nn.Parameter(torch.empty(classes)) if form != "hyperplane" else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Hyperplanes through the origin whose scores at c → 0 are those of torch's Linear; points around it."""
        assert self.in_dim is not None
        scale = manifolds.frame_scale(self.in_manifold)
        bound = 1 / math.sqrt(self.in_dim)
        with torch.no_grad():
            if self.normal is not None:
                most = bound / (scale**2 if self.form == "hyperplane" else scale)
                self.normal.uniform_(-most, most)
            if self.point is not None:
                v = torch.zeros(len(self.point), self.in_dim, dtype=self.point.dtype, device=self.point.device)
                v = v.uniform_(-bound, bound) if self.form == "lorentz" else v
                self.point.copy_(manifolds.exp0(self.in_manifold, v))
            if self.bias is not None:
                self.bias.zero_()

    def forward(self, x: Tensor) -> Tensor:
        """Scores (..., classes), to be given to a softmax."""
        own = self.bias if self.normal is None else self.normal
        assert own is not None
        self.check(x, own)
        if self.form == "hnn++":
            s = to_spatial(self.in_manifold, x)
            return plane_scores(s, own, self.bias, minus_curvature(self.in_manifold, s))
        assert self.point is not None
        point = manifolds.project(self.in_manifold, self.point)
        if self.form == "lorentz":
            s, p = to_spatial(self.in_manifold, x), to_spatial(self.in_manifold, point)
            c = minus_curvature(self.in_manifold, s)
            if s.dtype == torch.float64:
                return own - lorentz_sqdist(s.unsqueeze(-2), p, c)
            exact = torch.float32 if s.device.type == "mps" else torch.float64  # which has none
            rows, columns = lorentz_sqdist_rows(*(value.to(exact) for value in (s, p, c)))
            with torch.autocast(s.device.type, enabled=False):  # a difference of products of half precision is noise
                return own - torch.matmul(rows, columns.mT).to(s.dtype)
        return manifolds.geometry(self.in_manifold).plane_score(self.in_manifold, x.unsqueeze(-2), point, own)

    def extra_repr(self) -> str:
        return super().extra_repr() + ("" if self.form == "hyperplane" else f", form={self.form!r}")


def _refuse_without_planes(manifold: Any, dim: int) -> None:
    """Ask for a score once, so that a manifold without hyperplanes is refused when the layer is made."""
    with torch.no_grad():
        zero = torch.zeros(1, dim)
        origin = manifolds.exp0(manifold, zero)
        manifolds.geometry(manifold).plane_score(manifold, origin, origin, zero)
