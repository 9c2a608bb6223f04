"""A linear map between curved spaces."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter

from hgeo import manifolds
from hgeo.manifolds import describe
from hgeo.nn._inputs import linear
from hgeo.nn._layer import Layer, carry_factor, choice, coordinates, point_parameter, sized_map
from hgeo.nn._spatial import (
    check_spatial,
    excess,
    from_spatial,
    minus_curvature,
    of_length,
    plane_scores,
    to_spatial,
    with_distances,
)

__all__ = ["Linear"]


class Linear(Layer):
    r"""Möbius matrix multiplication and a bias that is a point.

    ``form="tangent"``, on every manifold:

    .. math:: y = (W \otimes x) \oplus b, \qquad W \otimes x = \exp_0(W \log_0 x), \qquad
              h \oplus b = \exp_h(P_{0 \to h} \log_0 b)

    with tangent coordinates carried by their Riemannian length where ``in_manifold`` is another space, and ⊕ Möbius
    addition on the stereographic family. On a product W mixes the coordinates of all factors.

    ``form="factors"``, on products: one such layer a factor, nothing mixed.

    The other forms lead between hyperbolic and flat spaces, each with a curvature of its own that may be learned. With
    s the spatial part of the hyperboloid's point, to which the ball is isometric, and :math:`t = \sqrt{1 + c|s|^2}`:

    .. math:: s' &= \sigma\big(W s + w_0 (t - 1) + b\big) && \text{form="lorentz"} \\
              s'_k &= \tfrac{1}{\sqrt{c'}} \sinh(\sqrt{c'}\, v_k), \quad
              v_k = \tfrac{|W_k|}{\sqrt c} \operatorname{arsinh}\big(\sqrt c \langle s, \hat W_k\rangle
              \cosh\sqrt c\,b_k + t \sinh\sqrt c\,b_k\big) && \text{form="hnn++"}

    "lorentz" is the fully hyperbolic layer of Chen et al. (HyboNet, 2022): t - 1 in place of the time coordinate, a
    matter of b, leaves it a limit. With ``gate=True``, their normalised form, :math:`s'` gives the direction only and
    one more row of the map the radius :math:`\rho = \operatorname{arcosh}(1.1 + e^\lambda \mathrm{sigmoid}(\cdot))`,
    :math:`|s'| = \sinh(\sqrt{c'}\rho)/\sqrt{c'}`. "hnn++" is the Poincaré fully-connected layer of Shimizu et al.
    (HNN++, 2021), z = W/2, r = -b/frame_scale: v_k is |W_k| times the signed distance to a hyperplane, and the output
    the point whose own distances to the coordinate hyperplanes they are.

    Args:
        in_dim, out_dim: intrinsic dimensions; ``in_dim`` None if :meth:`size` will tell it.
        manifold: where the output lies.
        in_manifold: where the input lies; "same": on ``manifold``; None: plain vectors, read as tangent coordinates.
        bias: whether there is one: a ``geoopt.ManifoldParameter`` (in the forms "lorentz" and "hnn++" a vector).
        form: "tangent", "factors", "lorentz" or "hnn++".
        activation: σ of the form "lorentz", or None.
        gate: whether a gate of the form "lorentz" sets the radius.

    Shapes:
        - x: (..., ambient dimension of ``in_dim``); in the form "lorentz" plain vectors may be sparse
        - output: (..., ambient dimension of ``out_dim``)

    Initialised as :class:`torch.nn.Linear`: entries of W and of log0(b) are uniform in ±1/√in_dim. A layer then
    multiplies tangent coordinates by about 1/√3, so that points stay around |log0| ≈ 0.7 at any depth. In the form
    "lorentz" w₀ begins at 0 and :math:`e^\lambda` at 10, in "hnn++" b at 0.

    As c → 0 it is :class:`torch.nn.Linear`, W x + b; of the forms that have s it is, with s = frame_scale · x, for
    "lorentz" s' = σ(W s + b), gated ρ(x) times the direction of that, and for "hnn++" s' = W s + |W_k| b_k.

    >>> import torch, hgeo
    >>> layer = hgeo.nn.Linear(4, 2, hgeo.PoincareBall(c=1.0))
    >>> layer(torch.zeros(3, 4)).shape, type(layer.bias).__name__
    (torch.Size([3, 2]), 'ManifoldParameter')
    """

    weight: Tensor | None
    bias: Any

    def __init__(
        self,
        in_dim: int | None,
        out_dim: int,
        manifold: Any,
        *,
        in_manifold: Any = "same",
        bias: bool = True,
        form: Literal["tangent", "factors", "lorentz", "hnn++"] = "tangent",
        activation: Callable[[Tensor], Tensor] | None = None,
        gate: bool = False,
    ) -> None:
        if isinstance(in_manifold, str) and in_manifold == "same":
            in_manifold = manifold
        super().__init__(in_manifold, manifold, in_dim, out_dim)
        choice("Linear", "form", form, ("tangent", "factors", "lorentz", "hnn++"))
        if form != "lorentz" and (activation is not None or gate):
            raise ValueError(f"Linear: activation and gate belong to form='lorentz', got form={form!r}; use Activation")
        self.form, self.activation, self.gate = form, activation, gate
        self.factors: nn.ModuleList | None = None
        self.weight, self.bias, self.time_weight, self.log_reach = None, None, None, None
        if form == "factors":
            self.factors = nn.ModuleList(_factor_layers(in_manifold, manifold, bias))
            return
        rows = out_dim + gate
        if form in ("lorentz", "hnn++"):
            check_spatial("Linear", f"form={form!r}", in_manifold, manifold)
        self.weight = sized_map(rows, in_dim)
        if form == "lorentz":
            self.time_weight = nn.Parameter(torch.empty(rows)) if in_manifold is not None else None
            self.log_reach = nn.Parameter(torch.empty(())) if gate else None
        if bias:
            self.bias = point_parameter(manifold, out_dim) if form == "tangent" else nn.Parameter(torch.empty(rows))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """W and log0(b) uniform in ±1/√in_dim, as torch's. What torch's layer does not have has no effect at first."""
        if self.factors is not None:
            for layer in self.factors:
                layer.reset_parameters()  # type: ignore[operator]
            return
        assert self.weight is not None
        if self.in_dim is None:
            return
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        with torch.no_grad():
            if self.time_weight is not None:
                self.time_weight.zero_()
            if self.log_reach is not None:
                self.log_reach.fill_(math.log(10.0))
            if self.bias is not None:
                bound = 1 / math.sqrt(self.in_dim) if self.form != "hnn++" else 0.0
                v = self.weight.new_empty(self.weight.shape[0]).uniform_(-bound, bound)
                self.bias.copy_(manifolds.exp0(self.manifold, v) if self.form == "tangent" else v)

    def size(self, in_dim: int) -> None:
        """Give the map of a layer that was made without an ``in_dim`` its size; its numbers are still to be set."""
        self.in_dim, self._numbers = in_dim, self.numbers_of(in_dim)
        if isinstance(self.weight, UninitializedParameter):
            assert self.out_dim is not None
            self.weight.materialize((self.out_dim + self.gate, in_dim))

    def forward(self, x: Tensor) -> Tensor:
        """Points of ``manifold``."""
        if self.factors is not None:
            self.check(x)
            pieces = x.split([layer._numbers for layer in self.factors], dim=-1)
            return torch.cat([layer(part) for layer, part in zip(self.factors, pieces, strict=True)], dim=-1)
        assert self.weight is not None
        self.check(x, self.weight)
        if self.form != "tangent":
            return from_spatial(self.manifold, self.spatial(x))
        v = coordinates(self.in_manifold, x) * carry_factor(self.in_manifold, self.manifold)
        # Autocast may multiply in a lower precision; the geometry goes on in that of the weights.
        y = manifolds.exp0(self.manifold, torch.matmul(v, self.weight.mT).to(self.weight.dtype))
        if self.bias is None:
            return y
        return manifolds.translate(self.manifold, y, manifolds.project(self.manifold, self.bias))

    def spatial(self, x: Tensor) -> Tensor:
        """Of the forms "lorentz" and "hnn++": the spatial coordinates of the output, wherever they end."""
        return self.of_spatial(to_spatial(self.in_manifold, x))

    def of_spatial(self, s: Tensor) -> Tensor:
        """The same, from the spatial coordinates of the input."""
        assert self.weight is not None
        c_in, c_out = (minus_curvature(manifold, self.weight) for manifold in (self.in_manifold, self.manifold))
        if self.form == "hnn++":
            return with_distances(plane_scores(s, self.weight, self.bias, c_in), c_out)
        y = linear(s, self.weight).to(self.weight.dtype)
        if self.time_weight is not None:
            y = y + torch.matmul(excess(s, c_in), self.time_weight.unsqueeze(0))
        if self.bias is not None:
            y = y + self.bias
        if self.log_reach is None:
            return y if self.activation is None else self.activation(y)
        direction = y[..., :-1] if self.activation is None else self.activation(y[..., :-1])
        radius = torch.acosh(1.1 + torch.exp(self.log_reach) * torch.sigmoid(y[..., -1:]))
        return of_length(direction, radius, c_out)

    def extra_repr(self) -> str:
        form = "" if self.form == "tangent" else f", form={self.form!r}"
        form += ", gate=True" if self.gate else ""
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
