"""The law kit: test *your* geometry against the laws that every geometry obeys.

>>> import geoopt
>>> from hgeo.testing import check_manifold
>>> print(check_manifold(geoopt.Euclidean(ndim=1), laws="metric", max_examples=10).summary())
geoopt.Euclidean(ndim=1), dimension 3, float64, seed 0: 8 pass, 4 not applicable

In a test file, inherit every law that applies by supplying only the manifold::

    class TestMyManifold(hgeo.testing.ManifoldLaws):
        manifold = MyManifold()

``hgeo check geoopt:PoincareBall`` does the same from the command line. The guide is ``docs/law-kit.md``.
"""

from hgeo.testing import laws, oracle, strategies
from hgeo.testing._check import Report, Result, check_manifold, load
from hgeo.testing._layers import check_layer
from hgeo.testing._pytest import ManifoldLaws
from hgeo.testing._space import Functions

__all__ = [
    "Functions",
    "ManifoldLaws",
    "Report",
    "Result",
    "check_layer",
    "check_manifold",
    "laws",
    "load",
    "oracle",
    "strategies",
]
