"""The page of `hgeo bench`: bounds, what was reached, every table."""

from hgeo.bench import Target, counterparts_page, page

REPORT = {
    "machine": {"processor": "a processor", "cores": 2, "versions": {"hgeo": "0", "torch": "2"}},
    "clock": "wall",
    "cases": [
        {
            "case": {"size": "13k", "kind": "symmetric", "dim": 16, "heads": 1, "threads": 1},
            "title": "13k edges, symmetric, d = 16, 1 thread",
            "contestants": {
                "DGL GATConv": {
                    "forward": 0.001, "backward": 0.003, "ratio": 1.0, "ratio_low": 1.0, "ratio_high": 1.0,
                    "ratio_forward": 1.0, "ratio_backward": 1.0, "ratio_memory": 1.0,
                },
                "hgeo fused": {
                    "forward": 0.001, "backward": 0.001, "ratio": 0.55, "ratio_low": 0.5, "ratio_high": 0.6,
                    "ratio_forward": 1.0, "ratio_backward": 0.33, "ratio_memory": 0.7,
                },
            },
            "too_large": ["hgeo reference"],
        }
    ],
    "speedup": [{"size": "245k", "dim": 16, "speedup": 1.7, "median": 1.6}],
    "spaces": [
        {
            "size": "245k",
            "dim": 16,
            "layers": {
                "ball": {"forward": 0.001, "backward": 0.001, "ratio": 1.0, "ratio_low": 1.0, "ratio_high": 1.0},
                "sphere:16": {"forward": 0.002, "backward": 0.001, "ratio": 1.5, "ratio_low": 1.4, "ratio_high": 1.6},
            },
        }
    ],
    "growth": {"GCNConv": {"100000": 2e-8, "10000000": 5e-8}},
    "hgcn": [{"features": "16 dense", "space": "ball", "hgeo": 0.001, "official": 0.004, "ratio": 0.25}],
    "large": {"note": None, "edges": 10_000_000, "peak_bytes": 5 * 2**30, "step_seconds": 2.0},
    "first_call": {"hgeo fused": 0.3},
}  # fmt: skip


def test_a_target_is_met_if_its_worst_number_keeps_the_bound() -> None:
    assert Target("x", 0.5, [("a", 0.4), ("b", 0.5)]).met is True
    assert Target("x", 0.5, [("a", 0.4), ("b", 0.6)]).met is False
    assert Target("x", 40, [("a", 39.0), ("b", 60.0)], at_least=True).met is False
    assert Target("x", 0.5, []).met is None
    assert Target("x", 0.5, [("a", 0.4), ("b", 0.6)]).reached == "0.40–0.60 (worst: b)"
    assert Target("x", 40, [("a", 39.0), ("b", 60.0)], at_least=True).reached == "39.00–60.00 (worst: a)"


def test_the_page_says_what_was_reached_what_was_missed_and_what_was_not_measured() -> None:
    text = page(REPORT, "hgeo bench --everything")
    assert "    hgeo bench --everything" in text
    assert "| fused, symmetric, 13k edges: time / DGL GATConv | ≤ 0.4 | 0.55 | no |" in text
    assert "| attention on other spaces / the ball's, d = 16 | ≤ 2 | 1.50 | yes |" in text
    assert "| GCNConv: an edge of 10 M over one of 100k | ≤ 2 | 2.50 | no |" in text
    assert "| training step of `--model hgcn` / HGCN's official code | ≤ 0.5 | 0.25 | yes |" in text
    assert "| sphere:16 | 1.50 (1.40–1.60) | 2.00 | 1.00 |" in text
    assert "| GCNConv | 20 | 50 |" in text
    assert "| ball | 16 dense | 1.0 | 4.0 | 0.25 |" in text
    assert "| two threads: times as fast as one, 245k edges and more | ≥ 1.6 | 1.70 | yes |" in text
    assert "5.00 GB | yes |" in text
    assert "not measured | – |" in text
    assert "Left out, would make tensors of gigabytes: hgeo reference." in text


def test_layers_beside_flat_ones_have_a_page_of_their_own_with_their_targets() -> None:
    timing = {"forward": 0.001, "backward": 0.002, "ratio": 1.0, "ratio_low": 1.0, "ratio_high": 1.0}
    rows = {"DGL GraphConv": timing, "LorentzConv, ball, radius about 1": timing | {"ratio": 2.5}}
    group = {"title": "Convolutions, 13k edges, d = 16", "baseline": "DGL GraphConv", "rows": rows}
    report = REPORT | {"counterparts": [group]}
    text = counterparts_page(report, "hgeo bench --counterparts")
    assert "    hgeo bench --counterparts" in text
    assert "within radius 2 / DGL's `GraphConv` | ≤ 2 | 2.50 | no |" in text
    assert "| LorentzConv, ball, radius about 1 | 2.50 (1.00–1.00) | 1.00 | 2.00 |" in text
    assert "### Convolutions, 13k edges, d = 16" in page(report, "hgeo bench --everything")
