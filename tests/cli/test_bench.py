"""`hgeo bench` measures what it is asked for and reports it; how fast anything is, is not a matter for a test."""

import json

import pytest
import torch

from hgeo.cli import main
from hgeo.cli._speed_page import Target, page, targets

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
    "speedup": [{"size": "245k", "dim": 16, "speedup": 1.7, "low": 1.6, "high": 1.8}],
    "large": {"note": None, "edges": 10_000_000, "peak_bytes": 5 * 2**30, "step_seconds": 2.0},
    "first_call": {"hgeo fused": 0.3},
}  # fmt: skip


@pytest.fixture(autouse=True)
def _keep_threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_one_case_is_measured_printed_and_written(tmp_path, capsys) -> None:
    pytest.importorskip("dgl")
    path = tmp_path / "new" / "speed.md"
    arguments = ["--sizes", "13k", "--kinds", "symmetric", "--dims", "8", "--heads", "1", "--threads", "1"]
    arguments += ["--contestants", "DGL GAT,hgeo torch", "--seconds", "0", "--no-first-call", "--json"]
    assert main(["bench", *arguments, "--markdown", str(path)]) == 0
    report = json.loads(capsys.readouterr().out)
    (case,) = report["cases"]
    assert set(case["contestants"]) == {"DGL GATConv", "hgeo torch"}
    assert case["contestants"]["DGL GATConv"]["ratio"] == 1.0
    assert case["contestants"]["hgeo torch"]["backward"] > 0
    text = path.read_text(encoding="utf-8")
    assert "### 13k edges, symmetric, d = 8, 1 thread" in text
    assert "| hgeo torch |" in text


def test_an_optimisers_step_is_measured_alone(capsys) -> None:
    assert main(["bench", "--optim", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["cases"] == []
    assert report["optim"]["ratio"] == pytest.approx(report["optim"]["hgeo"] / report["optim"]["torch"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--sizes", "7k"], "'7k' is none of 13k, 245k"),
        (["--kinds", "tree"], "'tree' is none of symmetric"),
        (["--contestants", "nobody"], "no contestant's name contains 'nobody'"),
        (["--clock", "cpu", "--threads", "2"], "says nothing about threads"),
        (["--clock", "cpu", "--speedup"], "needs the wall clock"),
    ],
)
def test_a_wrong_request_gets_one_line_and_exit_code_two(arguments, words, capsys) -> None:
    assert main(["bench", *arguments]) == 2
    assert words in capsys.readouterr().err


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
    assert "| fused, symmetric, 13k edges: time / DGL GATConv | ≤ 0.5 | 0.55 | no |" in text
    assert "- fused, symmetric, 13k edges: time / DGL GATConv: time outside the kernels" in text
    assert "| two threads: times as fast as one, 245k edges and more | ≥ 1.6 | 1.70 | yes |" in text
    assert "5.00 GB | yes |" in text
    assert "not measured | – |" in text
    assert "Left out, would make tensors of gigabytes: hgeo reference." in text


def test_every_missed_target_can_say_what_limits_it() -> None:
    for target in targets(REPORT):
        assert target.met is not False or target.limit, target.what
