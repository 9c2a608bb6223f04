"""Pure tensor functions of points and a signed curvature ``k``: exact at k = 0, near it, and at the boundary.

No state, no manifold objects, no graph. ``k`` is a number or a tensor that broadcasts against the points; hyperbolic
space has k < 0. Vectors lie along ``dim`` (default: the last). Names follow geoopt's.

>>> import torch, hgeo.math as hm
>>> x, y = torch.tensor([0.1, 0.2]), torch.tensor([0.3, -0.1])
>>> hm.dist(x, y, k=-1.0), hm.dist(x, y, k=0.0)
(tensor(0.7613), tensor(0.7211))
"""

from hgeo.kernels import careful_flatness
from hgeo.math import _cones, _hyperboloid, _midpoints, _models, _rows, _stereographic
from hgeo.math._cones import *  # noqa: F403
from hgeo.math._contract import Curvature, boundary_margin, floating, of_vectors, operation
from hgeo.math._hyperboloid import *  # noqa: F403
from hgeo.math._midpoints import *  # noqa: F403
from hgeo.math._models import *  # noqa: F403
from hgeo.math._models import space_part, time_part
from hgeo.math._rows import *  # noqa: F403
from hgeo.math._scalars import (
    arsin_ratio,
    artan_ratio,
    cos_ratio,
    safe_sqrt,
    sin_ratio,
    tan_ratio,
)
from hgeo.math._stereographic import *  # noqa: F403

__all__ = [
    "Curvature",
    "arsin_ratio",
    "artan_ratio",
    "boundary_margin",
    "careful_flatness",
    "cos_ratio",
    "floating",
    "of_vectors",
    "operation",
    "safe_sqrt",
    "sin_ratio",
    "space_part",
    "tan_ratio",
    "time_part",
    *_cones.__all__,
    *_hyperboloid.__all__,
    *_midpoints.__all__,
    *_models.__all__,
    *_rows.__all__,
    *_stereographic.__all__,
]
