"""Generated graphs of any size: the same for the same seed, with a heavy tail, and classes that links tell of."""

import numpy as np
import pytest
import torch

from hgeo.data import DataError, load, power_law


def test_the_same_seed_gives_the_same_graph():
    a, b, other = power_law(20_000, seed=3), power_law(20_000, seed=3), power_law(20_000, seed=4)
    for field in ("edge_index", "features", "labels", "train_idx"):
        assert torch.equal(getattr(a, field), getattr(b, field))
    assert not torch.equal(a.edge_index, other.edge_index)
    assert torch.equal(load("power-law-2e4", split_seed=3).edge_index, a.edge_index)


def test_degrees_follow_a_power_law():
    degrees = np.bincount(power_law(400_000).edge_index[1].numpy(), minlength=20_000)
    assert degrees.mean() == 20
    # of an exponent 2.5 the share of nodes with a degree of at least d falls as d^-1.5
    shares = [np.mean(degrees >= d) for d in (40, 160)]
    assert np.log(shares[0] / shares[1]) / np.log(4) == pytest.approx(1.5, abs=0.25)
    assert degrees.max() > 50 * degrees.mean()


def test_links_lead_to_the_same_class_as_often_as_asked():
    data = power_law(400_000, alike=0.6)  # in a small graph more of the links between hubs are parallel ones
    source, destination = data.labels[data.edge_index]
    assert float((source == destination).float().mean()) == pytest.approx(0.6 + 0.4 / 8, abs=0.05)


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(DataError, match="expected 1600 edges or more"):
        power_law(100)
    with pytest.raises(DataError, match="an exponent above 2"):
        power_law(10_000, exponent=2.0)
