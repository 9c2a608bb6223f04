"""The fused backend: distances, softmax and weighted sum in one pass over the edges, with no E×d tensor.

Numba on CPU (:mod:`._kernels`), Triton on CUDA (:mod:`._cuda`), behind one pair of torch operators (:mod:`._ops`).
"""

from hgeo.graph._fused._attention import available, distance_attention

__all__ = ["available", "distance_attention"]
