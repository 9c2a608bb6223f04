"""The flat twin of a curved space: what a curved number is compared with."""

from __future__ import annotations

from hgeo import manifolds

__all__ = ["flat_twin"]


def flat_twin(space: str) -> str:
    """The flat space in which a model is the same code as in ``space``, without the curvature.

    A unit of the frame at the origin is as long there as in ``space``, so that distances of points near the origin, and
    with them β and every other scale, mean the same: ``ball:d,c=0``, where a distance is 2|x-y|, for the stereographic
    family and its like, ``euclidean:d`` for the hyperboloid and the embedded sphere. A product has the twins of its
    factors. As the curvature goes to 0 a model becomes the one on its twin.

    >>> flat_twin("ball:16,c=learn"), flat_twin("lorentz:8"), flat_twin("stereo:2,k=1 x sphere:2")
    ('ball:16,c=0', 'euclidean:8', 'ball:2,c=0 x euclidean:2')
    """
    return " x ".join(_twins(*manifolds.space(space)))


def _twins(manifold: object, dim: int) -> list[str]:
    factors = manifolds.factors(manifold)
    if factors is None:
        return [f"ball:{dim},c=0" if manifolds.frame_scale(manifold) == 2 else f"euclidean:{dim}"]
    sizes = [(factor, manifolds.intrinsic_dim(factor, part.stop - part.start)) for factor, part in factors]
    return [twin for factor, size in sizes for twin in _twins(factor, size)]
