"""The normal distribution of a tangent space, carried onto the manifold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution, constraints

from hgeo import manifolds
from hgeo._geoopt import geoopt
from hgeo.distributions._density import log_wrapped_normal

__all__ = ["WrappedNormal"]


class WrappedNormal(Distribution):
    r"""The wrapped normal distribution (Nagano et al., 2019): a normal vector at the origin, carried along to ``loc``
    and followed by the exponential map.

    .. math:: v \sim N(0, \mathrm{diag}\,\sigma^2),\quad z = \exp_\mu(PT_{0\to\mu} v),\quad
              \log p(z) = \log N(v; 0, \sigma^2) - (d-1)\log\frac{\sinh(\sqrt c\,r)}{\sqrt c\,r},\quad r = d(\mu, z)

    Lengths are Riemannian: σ is the standard deviation of distances along the manifold, the same on every model of a
    space (a coordinate of the flat ball, where distances are 2|x - y|, has σ/2), and the density is one against the
    Riemannian volume. On a sphere sin stands for sinh, and the vectors that lead to z around the sphere count, too, up
    to three times around (enough for √k σ ≤ 3); on a product the factors are independent.

    Args:
        manifold: the stereographic family, Lorentz, Klein, Sphere, Euclidean, scaled spaces and products of these.
        loc: points (..., n), the centre.
        scale: σ > 0: a number, or a tensor that broadcasts with (..., d): standard deviations along the coordinates of
            the origin's frame, carried to ``loc``; (..., 1) for one in all directions.
        validate_args: whether values are checked here and in :meth:`log_prob`; default: torch's.

    >>> import torch, hgeo
    >>> loc = hgeo.exp0(hgeo.Lorentz(), torch.tensor([[0.5, 0.0], [0.0, -1.0]]))
    >>> prior = WrappedNormal(hgeo.Lorentz(), loc, torch.tensor([0.3, 0.1]))
    >>> prior.batch_shape, prior.event_shape
    (torch.Size([2]), torch.Size([3]))
    >>> prior.log_prob(prior.rsample((7,))).shape
    torch.Size([7, 2])
    """

    arg_constraints = {  # noqa: RUF012  (torch's form)
        "loc": constraints.real_vector,
        "scale": constraints.independent(constraints.positive, 1),
    }
    has_rsample = True

    def __init__(
        self, manifold: geoopt.Manifold, loc: Tensor, scale: float | Tensor, validate_args: bool | None = None
    ) -> None:
        if not isinstance(loc, Tensor) or not loc.dtype.is_floating_point or loc.dim() == 0:
            kind = f"{loc.dtype}, shape {tuple(loc.shape)}" if isinstance(loc, Tensor) else type(loc).__name__
            raise TypeError(f"WrappedNormal: 'loc': expected a floating-point tensor of points (..., n), got {kind}")
        d = manifolds.intrinsic_dim(manifold, loc.shape[-1])
        scale = torch.as_tensor(scale, dtype=loc.dtype, device=loc.device)
        scale = scale.reshape(1) if scale.dim() == 0 else scale
        if scale.shape[-1] not in (1, d):
            raise ValueError(
                f"WrappedNormal: 'scale' has {scale.shape[-1]} numbers in its last dimension, and {manifold} has "
                f"dimension {d}; give a number, (..., {d}), or (..., 1) for one deviation in all directions"
            )
        try:
            batch = torch.broadcast_shapes(loc.shape[:-1], scale.shape[:-1])
        except RuntimeError as error:
            raise ValueError(
                f"WrappedNormal: 'loc' {tuple(loc.shape)} and 'scale' {tuple(scale.shape)} do not broadcast in their "
                "leading dimensions"
            ) from error
        self.manifold = manifold
        self.loc, self.scale = loc.expand(*batch, -1), scale.expand(*batch, d)
        super().__init__(batch, loc.shape[-1:], validate_args=validate_args)
        if self._validate_args and not torch.compiler.is_compiling():
            manifolds.validate(manifold, loc, name="loc")

    def __repr__(self) -> str:
        return f"WrappedNormal({manifolds.describe(self.manifold)}, loc {tuple(self.loc.shape)})"

    @constraints.dependent_property(is_discrete=False, event_dim=1)
    def support(self) -> constraints.Constraint:
        """The points of the manifold."""
        return _Points(self.manifold)

    @property
    def mean(self) -> Tensor:
        """The centre, from which the squared distances have the least mean where curvature is not positive."""
        return self.loc

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> WrappedNormal:
        """The same distribution with leading dimensions broadcast to ``batch_shape``."""
        new = self._get_checked_instance(WrappedNormal, _instance)
        batch = torch.Size(batch_shape)
        new.manifold = self.manifold
        new.loc, new.scale = self.loc.expand(*batch, -1), self.scale.expand(*batch, -1)
        super(WrappedNormal, new).__init__(batch, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def rsample(self, sample_shape: Sequence[int] = torch.Size()) -> Tensor:
        """Points ``(*sample_shape, *batch_shape, n)``, with gradients to ``loc``, ``scale`` and the curvature."""
        shape = (*sample_shape, *self.scale.shape)
        v = torch.randn(shape, dtype=self.loc.dtype, device=self.loc.device) * self.scale
        point = manifolds.exp0(self.manifold, v / manifolds.frame_scale(self.manifold))
        return manifolds.translate(self.manifold, self.loc.expand(point.shape), point)

    def log_prob(self, value: Tensor) -> Tensor:
        """Log density at points (..., n) against the Riemannian volume."""
        if self._validate_args and not torch.compiler.is_compiling():
            self._validate_sample(value)
        loc, value = torch.broadcast_tensors(self.loc, value)
        return _log_prob(self.manifold, loc, value, self.scale)

    def _validate_sample(self, value: Tensor) -> None:
        manifolds.validate(self.manifold, value, name="value")
        if value.shape[-1:] != self.event_shape:
            raise ValueError(f"value: points have {self.event_shape[0]} numbers here, got shape {tuple(value.shape)}")


class _Points(constraints.Constraint):
    """Membership of a manifold, row by row."""

    event_dim = 1

    def __init__(self, manifold: geoopt.Manifold) -> None:
        self.manifold = manifold
        super().__init__()

    def check(self, value: Tensor) -> Tensor:
        rows = [self._is_point(row) for row in value.reshape(-1, value.shape[-1])]
        return torch.tensor(rows, device=value.device).reshape(value.shape[:-1])

    def _is_point(self, row: Tensor) -> bool:
        try:
            manifolds.validate(self.manifold, row)
        except ValueError:
            return False
        return True


def _log_prob(manifold: geoopt.Manifold, loc: Tensor, value: Tensor, scale: Tensor) -> Tensor:
    """The sum over the factors of a product, or the density of a space of constant curvature."""
    factors = manifolds.factors(manifold)
    if factors is not None:
        dims = [manifolds.intrinsic_dim(factor, part.stop - part.start) for factor, part in factors]
        parts = zip(factors, scale.split(dims, dim=-1), strict=True)
        terms = [_log_prob(factor, loc[..., part], value[..., part], own) for (factor, part), own in parts]
        return torch.stack(terms, dim=-1).sum(-1)
    k = manifolds.curvature(manifold)
    if k is None:
        raise TypeError(
            "the density of a wrapped normal is known on spaces of constant curvature and their products; the geometry "
            f"of {manifold} tells no curvature (hgeo.Geometry.curvature)"
        )
    v = manifolds.log0(manifold, manifolds.translate_back(manifold, loc, value)) * manifolds.frame_scale(manifold)
    # Far out the numbers of a translated point cannot tell distances apart that those of the two points can.
    squared = (v * v).sum(-1, keepdim=True)
    far = squared > 1
    longer = manifolds.dist(manifold, loc, value).unsqueeze(-1) / torch.sqrt(torch.where(far, squared, 1.0))
    return log_wrapped_normal(v * torch.where(far, longer, 1.0), scale, k.to(v.dtype))
