"""Looking at values, where data enter."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hgeo._geoopt import geoopt
from hgeo.manifolds._frame import frame_of
from hgeo.manifolds._klein import Klein
from hgeo.manifolds._lorentz import lorentz_curvature

__all__ = ["validate"]


def _refuse(name: str, bad: Tensor, describe: Any) -> None:
    rows = bad.nonzero()
    first = tuple(rows[0].tolist())
    where = first[0] if len(first) == 1 else first
    total = f"{len(rows)} of {bad.numel()} rows are wrong; the first is" if bad.dim() else "it is"
    raise ValueError(f"{name}: {total} row {where}: {describe(first)}" if bad.dim() else f"{name}: {describe(first)}")


def validate(manifold: Any, x: Tensor, *, name: str = "x") -> Tensor:
    """Check that ``x`` holds points of ``manifold`` and return it; the error says which row is wrong, and by how much.

    Layers and manifold methods do not look at values (that would stall a GPU and break compilation): call this where
    data enter.

    >>> import torch, hgeo
    >>> hgeo.validate(hgeo.PoincareBall(), torch.tensor([[0.1, 0.2], [3.0, 4.0]]))
    Traceback (most recent call last):
    ValueError: x: 1 of 2 rows are wrong; the first is row 1: √c|x| = 5, and a point of the ball has less than 1; ...
    """
    if not isinstance(x, Tensor) or not x.dtype.is_floating_point:
        kind = x.dtype if isinstance(x, Tensor) else type(x).__name__
        raise TypeError(f"{name}: expected a floating-point tensor of points, got {kind}")
    with torch.no_grad():
        finite = torch.isfinite(x).all(-1)
        if not bool(finite.all()):
            _refuse(name, ~finite, lambda at: f"{x[at].tolist()[:8]} is not finite")
        if isinstance(manifold, geoopt.ProductManifold):
            for index, (factor, part) in enumerate(frame_of(manifold).pieces(manifold, x)):  # type: ignore[attr-defined]
                validate(factor, part, name=f"{name}, factor {index}")
        elif isinstance(manifold, geoopt.Scaled):
            validate(manifold.base, x, name=name)
        elif isinstance(manifold, geoopt.Stereographic | Klein):
            c = manifold.c if isinstance(manifold, Klein) else (-manifold.k).clamp(min=0)
            radius = (c.to(x.dtype) * (x * x).sum(-1)).sqrt()
            if not bool((radius < 1).all()):
                hint = "and a point of the ball has less than 1; manifold.projx(x) brings it inside"
                _refuse(name, radius >= 1, lambda at: f"√c|x| = {float(radius[at]):.9g}, {hint}")
        else:
            tolerance = 64 * torch.finfo(x.dtype).eps
            if isinstance(manifold, geoopt.Lorentz):
                c = lorentz_curvature(manifold).to(x.dtype)
                form = c * ((x[..., 1:] ** 2).sum(-1) - x[..., 0] ** 2)
                bad = ((form + 1).abs() > tolerance * (1 + c * x[..., 0] ** 2)) | (x[..., 0] <= 0)
                _refuse_if(name, bad, lambda at: f"c(-x₀² + |x'|²) = {float(form[at]):.9g} instead of -1 with x₀ > 0")
            elif isinstance(manifold, geoopt.Sphere):
                length = x.norm(dim=-1)
                bad = (length - 1).abs() > tolerance
                _refuse_if(name, bad, lambda at: f"|x| = {float(length[at]):.9g} instead of 1")
            else:
                ok, reason = manifold.check_point_on_manifold(x, explain=True)
                if not ok:
                    raise ValueError(f"{name}: not points of {manifold}: {reason}")
    return x


def _refuse_if(name: str, bad: Tensor, describe: Any) -> None:
    if bool(bad.any()):
        _refuse(name, bad, describe)
