"""Looking at values, where data enter."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hgeo._geoopt import geoopt
from hgeo.manifolds._frame import frame_of
from hgeo.manifolds._klein import Klein
from hgeo.manifolds._lorentz import lorentz_curvature
from hgeo.math._scalars import careful_flatness

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
    frame_of(manifold)  # refuses what is no manifold
    if getattr(manifold, "ndim", 1) > 0 and (x.dim() == 0 or x.shape[-1] == 0):
        raise ValueError(f"{name}: expected points of shape (..., n), n ≥ 1, got shape {tuple(x.shape)}")
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
            # 1 - c|x|² with all of its digits: a point one ulp inside is a point.
            c, wide = c.to(x.dtype).double(), x.double()
            outside = careful_flatness(wide, -c, dim=-1).squeeze(-1) <= 0
            radius = (c * (wide * wide).sum(-1)).sqrt()
            hint = "and a point of the ball has less than 1; manifold.projx(x) brings it inside"
            _refuse_if(name, outside, lambda at: f"√c|x| = {float(radius[at]):.9g}, {hint}")
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
                projector = getattr(manifold, "projector", None)
                if projector is not None:  # a sphere of a subspace
                    wide = x.to(torch.promote_types(x.dtype, projector.dtype))
                    off = (wide - wide @ projector.to(wide.dtype).transpose(-1, -2)).norm(dim=-1)
                    bad = off > max(tolerance, 64 * torch.finfo(projector.dtype).eps)
                    _refuse_if(name, bad, lambda at: f"it lies {float(off[at]):.9g} off the subspace of {manifold}")
            elif not manifold.check_point_on_manifold(x):
                _refuse_by_row(name, manifold, x)
    return x


def _refuse_by_row(name: str, manifold: Any, x: Tensor) -> None:
    """Name the rows that a manifold's own check refuses."""
    _, reason = manifold.check_point_on_manifold(x, explain=True)
    lead = x.shape[: x.dim() - manifold.ndim]
    points = x.reshape(-1, *x.shape[len(lead) :])
    verdicts = [bool(manifold.check_point_on_manifold(point)) for point in points]
    bad = ~torch.tensor(verdicts, dtype=torch.bool).reshape(lead)
    _refuse_if(name, bad, lambda at: f"not a point of {manifold}: {reason}")
    raise ValueError(f"{name}: not points of {manifold}: {reason}")  # only together: their shape


def _refuse_if(name: str, bad: Tensor, describe: Any) -> None:
    if bool(bad.any()):
        _refuse(name, bad, describe)
