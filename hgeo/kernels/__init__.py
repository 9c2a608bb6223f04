"""Arrays in, arrays out: formulas of inner products, by torch or as compiled loops. Knows no manifold and no graph."""

from hgeo.kernels import _vocabulary
from hgeo.kernels._operation import Operation, plain_torch
from hgeo.kernels._vocabulary import *  # noqa: F403

__all__ = ["Operation", "plain_torch", *_vocabulary.__all__]
