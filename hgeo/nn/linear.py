"""A linear map between curved spaces."""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from hgeo import manifolds
from hgeo._geoopt import geoopt
from hgeo.manifolds import describe
from hgeo.nn._layer import Layer, carry_factor, choice, coordinates, point_parameter

__all__ = ["Linear"]


class Linear(Layer):
    r"""Möbius matrix multiplication and a bias that is a point.

    ``form="tangent"``, on every manifold:

    .. math:: y = (W \otimes x) \oplus b, \qquad W \otimes x = \exp_0(W \log_0 x), \qquad
              h \oplus b = \exp_h(P_{0 \to h} \log_0 b)

    with tangent coordinates carried by their Riemannian length where ``in_manifold`` is another space, and ⊕ Möbius
    addition on the stereographic family. On a product W mixes the coordinates of all factors.

    ``form="factors"``, on products: one such layer a factor, nothing mixed. ``form="lorentz"``, between hyperboloids: a
    linear map of the hyperboloid's own coordinates,

    .. math:: y' = W x' + b \sqrt{c}\, x_0, \qquad y_0 = \sqrt{1/c + |y'|^2} .

    Args:
        in_dim, out_dim: intrinsic dimensions.
        manifold: where the output lies.
        in_manifold: where the input lies; "same": on ``manifold``; None: plain vectors, read as tangent coordinates.
        bias: whether there is one: a ``geoopt.ManifoldParameter`` (in the "lorentz" form a vector).
        form: "tangent", "factors" or "lorentz".

    Shapes:
        - x: (..., ambient dimension of ``in_dim``)
        - output: (..., ambient dimension of ``out_dim``)

    Initialised as :class:`torch.nn.Linear`: entries of W and of log0(b) are uniform in ±1/√in_dim. A layer then
    multiplies tangent coordinates by about 1/√3, so that points stay around |log0| ≈ 0.7 at any depth.

    As c → 0 it is :class:`torch.nn.Linear`, W x + b.

    >>> import torch, hgeo
    >>> layer = hgeo.nn.Linear(4, 2, hgeo.PoincareBall(c=1.0))
    >>> layer(torch.zeros(3, 4)).shape, type(layer.bias).__name__
    (torch.Size([3, 2]), 'ManifoldParameter')
    """

    weight: Tensor | None
    bias: Any

    def __init__(
        self,
        in_dim: int,
        out_dim: int,
        manifold: Any,
        *,
        in_manifold: Any = "same",
        bias: bool = True,
        form: Literal["tangent", "factors", "lorentz"] = "tangent",
    ) -> None:
        if isinstance(in_manifold, str) and in_manifold == "same":
            in_manifold = manifold
        super().__init__(in_manifold, manifold, in_dim, out_dim)
        choice("Linear", "form", form, ("tangent", "factors", "lorentz"))
        self.form = form
        self.factors: nn.ModuleList | None = None
        self.weight, self.bias = None, None
        if form == "factors":
            self.factors = nn.ModuleList(_factor_layers(in_manifold, manifold, bias))
            return
        if form == "lorentz" and not all(isinstance(m, geoopt.Lorentz) for m in (in_manifold, manifold)):
            raise ValueError(
                f"Linear: form='lorentz' leads from hyperboloid to hyperboloid, got {describe(in_manifold)} and "
                f"{describe(manifold)}; use form='tangent'"
            )
        self.weight = nn.Parameter(torch.empty(out_dim, in_dim))
        if bias:
            native = form == "lorentz"
            self.bias = nn.Parameter(torch.empty(out_dim)) if native else point_parameter(manifold, out_dim)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """torch's: W and log0(b) uniform in ±1/√in_dim."""
        if self.factors is not None:
            for layer in self.factors:
                layer.reset_parameters()  # type: ignore[operator]
            return
        assert self.weight is not None
        assert self.in_dim is not None
        assert self.out_dim is not None
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_dim)
            with torch.no_grad():
                v = self.weight.new_empty(self.out_dim).uniform_(-bound, bound)
                self.bias.copy_(v if self.form == "lorentz" else manifolds.exp0(self.manifold, v))

    def forward(self, x: Tensor) -> Tensor:
        """Points of ``manifold``."""
        if self.factors is not None:
            self.check(x)
            pieces = x.split([layer._numbers for layer in self.factors], dim=-1)
            return torch.cat([layer(part) for layer, part in zip(self.factors, pieces, strict=True)], dim=-1)
        assert self.weight is not None
        self.check(x, self.weight)
        if self.form == "lorentz":
            return self._hyperboloid(x, self.weight)
        v = coordinates(self.in_manifold, x) * carry_factor(self.in_manifold, self.manifold)
        # Autocast may multiply in a lower precision; the geometry goes on in that of the weights.
        y = manifolds.exp0(self.manifold, torch.matmul(v, self.weight.mT).to(self.weight.dtype))
        if self.bias is None:
            return y
        return manifolds.translate(self.manifold, y, manifolds.project(self.manifold, self.bias))

    def _hyperboloid(self, x: Tensor, weight: Tensor) -> Tensor:
        spatial = torch.matmul(x[..., 1:], weight.mT).to(weight.dtype)
        if self.bias is not None:
            root = torch.sqrt(manifolds.lorentz_curvature(self.in_manifold)).to(spatial.dtype)
            spatial = spatial + self.bias * (root * x[..., :1])
        return manifolds.project(self.manifold, F.pad(spatial, (1, 0)))

    def extra_repr(self) -> str:
        form = "" if self.form == "tangent" else f", form={self.form!r}"
        biased = any("bias" in name for name, _ in self.named_parameters())
        return super().extra_repr() + form + ("" if biased else ", bias=False")


def _factor_layers(in_manifold: Any, manifold: Any, bias: bool) -> list[Linear]:
    inside, outside = (None if m is None else manifolds.factors(m) for m in (in_manifold, manifold))
    if inside is None or outside is None:
        raise ValueError(
            f"Linear: form='factors' leads from product to product, got {describe(in_manifold)} and "
            f"{describe(manifold)}; use form='tangent'"
        )
    if len(inside) != len(outside):
        raise ValueError(
            f"Linear: form='factors' needs as many factors in as out, got {len(inside)} and {len(outside)}; use "
            "form='tangent', which mixes them"
        )

    def sized(factor: Any, part: slice) -> tuple[Any, int]:
        return factor, manifolds.intrinsic_dim(factor, part.stop - part.start)

    pairs = [(sized(*one), sized(*other)) for one, other in zip(inside, outside, strict=True)]
    return [Linear(d_in, d_out, out, in_manifold=source, bias=bias) for (source, d_in), (out, d_out) in pairs]
