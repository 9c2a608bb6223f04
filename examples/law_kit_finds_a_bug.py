"""A home-made manifold with a planted bug, and the law kit that finds it.

    python examples/law_kit_finds_a_bug.py

The manifold is a plane on which a step north costs twice a step east, written in a page. The bug is of the kind one
writes at night: the Riemannian gradient forgets the metric. A loss would still go down, only in a slightly wrong
direction. The laws say which operation is wrong, and show the smallest example.
"""

import argparse
import sys
import warnings

import torch

from hgeo.testing import check_manifold

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import geoopt


class Hillside(geoopt.Manifold):
    """The plane with the metric dx² + 4 dy²."""

    name = "Hillside"
    ndim = 1
    reversible = True

    def cost(self, x):
        return torch.tensor([1.0, 4.0], dtype=x.dtype, device=x.device)

    def _check_point_on_manifold(self, x, *, atol=1e-5, rtol=1e-5):
        return True, None

    def _check_vector_on_tangent(self, x, u, *, atol=1e-5, rtol=1e-5):
        return True, None

    def projx(self, x):
        return x

    def proju(self, x, u):
        return u

    def inner(self, x, u, v=None, *, keepdim=False):
        return (self.cost(x) * u * (u if v is None else v)).sum(dim=-1, keepdim=keepdim)

    def egrad2rgrad(self, x, u):
        return u / self.cost(x)

    def expmap(self, x, u):
        return x + u

    retr = expmap

    def logmap(self, x, y):
        return y - x

    def norm(self, x, u, *, keepdim=False):
        square = self.inner(x, u, keepdim=keepdim)
        some = square > 0  # the root has an infinite derivative at 0; the length of no step at all shall have 0
        return torch.where(some, torch.where(some, square, 1.0).sqrt(), 0.0)

    def dist(self, x, y, *, keepdim=False):
        return self.norm(x, y - x, keepdim=keepdim)

    def transp(self, x, y, v):
        return v

    def origin(self, *size, dtype=None, device=None, seed=None):
        return torch.zeros(*size, dtype=dtype, device=device)

    def random(self, *size, dtype=None, device=None):
        return torch.randn(*size, dtype=dtype, device=device)


class Buggy(Hillside):
    """The same, but its gradient is the plain one: the direction of steepest descent of another metric."""

    name = "Buggy"

    def egrad2rgrad(self, x, u):
        return u


def main(smoke=False):
    examples = 20 if smoke else 100
    good = check_manifold(Hillside(), dim=2, max_examples=examples, name="Hillside()")
    bad = check_manifold(Buggy(), dim=2, max_examples=examples, name="Buggy()")
    print(good.summary())
    print(bad.summary())
    for failure in bad.failures:
        print(f"\n{failure.law.name} is broken: {failure.law.statement}\n    {failure.counterexample}")
    if not good.passed or not bad.failures:
        print("expected the good manifold to pass and the buggy one to fail", file=sys.stderr)
        return 1
    print("\nThe law that is broken names the operation: egrad2rgrad. As a test of your own it is two lines:")
    print("    class TestMine(hgeo.testing.ManifoldLaws):\n        manifold, dim = Hillside(), 2")
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="fewer examples a law")
    sys.exit(main(**vars(parser.parse_args())))
