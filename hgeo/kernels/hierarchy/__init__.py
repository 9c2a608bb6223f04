"""A hierarchy's embedding, on the CPU: an epoch of stochastic descent, and the ranks of its pairs.

The points are rows of float64 numbers, of a Euclidean space (``flat``), Poincaré's ``ball``, or the ``hyperboloid``
with the time coordinate first; ``inner`` takes rows as vectors whose products matter.
"""

from hgeo.kernels.hierarchy._cpu import FAMILIES, available, draw, epoch, index_pairs, nearer

__all__ = ["FAMILIES", "available", "draw", "epoch", "index_pairs", "nearer"]
