"""What hgeo bench --scale measures, and how its page is made from that."""

from pathlib import Path

import pytest

from hgeo.bench import SCALE_WAYS, scale_page
from hgeo.bench._scale import _gat, _hat, _keep, _kept
from hgeo.data import power_law

pytest.importorskip("dgl")


@pytest.mark.parametrize("way", [_hat, _gat])
@pytest.mark.parametrize(("sampled", "steps"), [(False, 1), (True, 2)])
def test_an_epoch_has_a_step_a_batch(way, sampled, steps, monkeypatch):
    monkeypatch.setattr("hgeo.bench._scale.BATCH", 30)
    assert way(power_law(10_000), sampled)(0) == steps


def test_the_graph_that_every_process_reads_is_the_one_that_was_made(tmp_path: Path):
    made = power_law(10_000)
    _keep(made, tmp_path)
    kept = _kept(10_000, tmp_path)
    assert repr(kept) == repr(made)
    assert kept.edge_index.equal(made.edge_index)


def rows():
    """A microsecond an edge of the whole graph, 0.1 s a sampled step; a gigabyte, and a kilobyte an edge."""
    for edges in (10**3, 10**4, 10**5):
        for way in SCALE_WAYS:
            steps, cost = (1, 1e-6 * edges) if "whole" in way else (edges // 100, 0.1 * (edges // 100))
            memory = 2**30 + 1000 * edges
            yield {
                "edges": edges,
                "way": way,
                "seconds": 1.0,
                "cpu_seconds": cost,
                "steps": steps,
                "peak_bytes": memory,
            }


def test_the_page_tells_time_an_edge_its_slope_and_what_it_would_be_on_a_billion_edges():
    found = {"rows": list(rows()), "batch": 1000, "fanout": 10, "dim": 16}
    machine = {"processor": "a processor", "cores": 2, "versions": {"hgeo": "0"}}
    page = scale_page(found, machine, "hgeo bench --scale")
    assert "| HAT, whole graph | 1000 | 1000 | 1000 | 1.00 |" in page
    assert "| HAT, whole graph | 17 min | 932 GB |" in page  # 1e9 edges of a microsecond and a kilobyte
    assert "| HAT, sampled | 8 min | 932 GB |" in page  # 5,000 steps of 0.1 s
    assert "Made by `hgeo bench --scale` on a processor, 2 cores" in page


def test_a_way_that_failed_says_why_on_the_page():
    broken = [{**row, "failed": "no memory"} if row["edges"] == 10**5 else row for row in rows()]
    machine = {"processor": "a processor", "cores": 2, "versions": {}}
    page = scale_page({"rows": broken, "batch": 1000, "fanout": 10, "dim": 16}, machine, "hgeo bench --scale")
    assert "failed: no memory" in page
