"""A pytest base class that gives a manifold every law."""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from hgeo.testing import laws
from hgeo.testing._check import FAIL, INHERITED, NO_EXAMPLE, NOT_APPLICABLE, Checker
from hgeo.testing.laws import Law

__all__ = ["ManifoldLaws"]


class ManifoldLaws:
    """Inherit every law that applies to your manifold by supplying only the manifold.

    ::

        class TestMyManifold(hgeo.testing.ManifoldLaws):
            manifold = MyManifold()

    Each law is a test of its own, named after it, in each of ``dtypes``; laws that need an operation which the manifold
    lacks are skipped with the name of what is missing. Override ``make_manifold`` if the manifold is to be made afresh.
    """

    manifold: ClassVar[Any] = None
    dim: ClassVar[int] = 3
    dtypes: ClassVar[tuple[torch.dtype, ...]] = (torch.float64, torch.float32)
    laws: ClassVar[Any] = None
    max_examples: ClassVar[int] = 100
    seed: ClassVar[int] = 0
    _checkers: ClassVar[dict[torch.dtype, Checker]]

    def make_manifold(self) -> Any:
        """The manifold under test; by default the class attribute."""
        if self.manifold is None:
            raise TypeError(
                f"{type(self).__name__} tests no manifold: set the class attribute manifold = YourManifold()"
            )
        return self.manifold

    def test_law(self, law: Law, dtype: torch.dtype) -> None:
        import pytest

        report = self._checker(dtype).report(law)
        (result,) = report.results
        if result.verdict in (NOT_APPLICABLE, NO_EXAMPLE):
            pytest.skip(result.note)
        if result.verdict == INHERITED:
            pytest.xfail(result.note)
        assert result.verdict != FAIL, str(report)

    def _checker(self, dtype: torch.dtype) -> Checker:
        """The manifold and its examples in ``dtype``, made once for all tests of the class."""
        made = type(self).__dict__.get("_checkers")
        if made is None:
            made = {}
            type(self)._checkers = made
        if dtype not in made:
            made[dtype] = Checker(
                self.make_manifold(), dim=self.dim, dtype=dtype, max_examples=self.max_examples, seed=self.seed
            )
        return made[dtype]

    def pytest_generate_tests(self, metafunc: Any) -> None:
        """Pytest asks the class of a test for its parameters: here every law in every dtype."""
        if {"law", "dtype"} <= set(metafunc.fixturenames):
            pairs = [(entry, dtype) for entry in laws.select(self.laws) for dtype in self.dtypes]
            names = [f"{entry.name}-{str(dtype).removeprefix('torch.')}" for entry, dtype in pairs]
            metafunc.parametrize(("law", "dtype"), pairs, ids=names)
