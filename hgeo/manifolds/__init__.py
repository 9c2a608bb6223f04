"""Spaces: a curvature that trains through 0, the stereographic family, the origin frame of any manifold, products.

>>> import torch, hgeo
>>> manifold, dim = hgeo.space("ball:2,c=1 x euclidean:1")
>>> x = hgeo.exp0(manifold, torch.tensor([1.0, 0.0, 3.0]))
>>> hgeo.log0(manifold, x)
tensor([1.0000, 0.0000, 3.0000])
"""

from hgeo.manifolds._cdist import Nearest, cdist, nearest
from hgeo.manifolds._cones import cone_angle, cone_aperture, cone_energy
from hgeo.manifolds._curvature import bounded_below
from hgeo.manifolds._frame import (
    Frame,
    ambient_dim,
    dist,
    exp0,
    frame_of,
    frame_scale,
    intrinsic_dim,
    log0,
    register_frame,
)
from hgeo.manifolds._klein import Klein
from hgeo.manifolds._lorentz import Lorentz, lorentz_curvature
from hgeo.manifolds._product import Product
from hgeo.manifolds._space import Space, space
from hgeo.manifolds._stereographic import PoincareBall, SphereProjection, Stereographic, stereographic_curvature
from hgeo.manifolds._validate import validate

__all__ = [
    "Frame",
    "Klein",
    "Lorentz",
    "Nearest",
    "PoincareBall",
    "Product",
    "Space",
    "SphereProjection",
    "Stereographic",
    "ambient_dim",
    "bounded_below",
    "cdist",
    "cone_angle",
    "cone_aperture",
    "cone_energy",
    "dist",
    "exp0",
    "frame_of",
    "frame_scale",
    "intrinsic_dim",
    "log0",
    "lorentz_curvature",
    "nearest",
    "register_frame",
    "space",
    "stereographic_curvature",
    "validate",
]
