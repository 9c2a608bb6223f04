"""The step benchmark runs what it says; how fast is a matter for `hgeo bench`, not for a test."""

import pytest

from hgeo.bench import step_benchmark
from hgeo.data import karate


def test_every_contestant_is_timed_and_the_stock_layer_has_ratio_one():
    pytest.importorskip("dgl")
    table = step_benchmark(karate(), dim=2, models=("hat",), rounds=2)
    assert list(table) == ["dgl GATConv, dense features", "hat"]
    assert table["dgl GATConv, dense features"].ratio == 1.0
    assert all(time.median > 0 and time.ratio > 0 for time in table.values())
