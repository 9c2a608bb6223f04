"""Spaces: one file each, with the manifold and the :class:`Geometry` that answers what layers, pictures and laws ask.

The stereographic family, the hyperboloid, Klein's ball, the sphere, Euclidean space, scaled spaces and products; the
origin frame of any geoopt manifold; curvatures that train through 0; the words of space strings. Knows ``hgeo.math``.

>>> import torch, hgeo
>>> manifold, dim = hgeo.space("ball:2,c=1 x euclidean:1")
>>> x = hgeo.exp0(manifold, torch.tensor([1.0, 0.0, 3.0]))
>>> hgeo.log0(manifold, x).round(decimals=4)
tensor([1., 0., 3.])
"""

from hgeo.manifolds import _euclidean, _functions, _sphere  # noqa: F401  (these register themselves)
from hgeo.manifolds._cdist import Nearest, cdist, nearest
from hgeo.manifolds._cones import cone_angle, cone_aperture, cone_energy
from hgeo.manifolds._curvature import bounded_below
from hgeo.manifolds._functions import *  # noqa: F403
from hgeo.manifolds._geometry import ConstantCurvature, Geometry, Part, can_look
from hgeo.manifolds._klein import Klein
from hgeo.manifolds._lorentz import Lorentz, lorentz_curvature
from hgeo.manifolds._product import Product
from hgeo.manifolds._scaled import Scaled
from hgeo.manifolds._space import Space, space
from hgeo.manifolds._stereographic import PoincareBall, SphereProjection, Stereographic, stereographic_curvature
from hgeo.manifolds._words import Word, word_names

__all__ = [
    "ConstantCurvature",
    "Geometry",
    "Klein",
    "Lorentz",
    "Nearest",
    "Part",
    "PoincareBall",
    "Product",
    "Scaled",
    "Space",
    "SphereProjection",
    "Stereographic",
    "Word",
    "bounded_below",
    "can_look",
    "cdist",
    "cone_angle",
    "cone_aperture",
    "cone_energy",
    "lorentz_curvature",
    "nearest",
    "space",
    "stereographic_curvature",
    "word_names",
    *_functions.__all__,
]
