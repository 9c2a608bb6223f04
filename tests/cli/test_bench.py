"""`hgeo bench` measures what it is asked for and reports it; how fast anything is, is not a matter for a test."""

import json

import pytest
import torch

from hgeo.cli import main


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


def test_layers_are_measured_beside_flat_ones(tmp_path, capsys, monkeypatch) -> None:
    pytest.importorskip("dgl")
    from hgeo.bench import _counterparts

    monkeypatch.setattr(_counterparts, "_ROWS", 20)
    monkeypatch.setattr(_counterparts, "_SET", 12)
    monkeypatch.setattr(_counterparts, "_CASES", (("13k", 4),))
    path = tmp_path / "layers.md"
    assert main(["bench", "--counterparts", "--json", "--seconds", "0", "--markdown", str(path)]) == 0
    groups = json.loads(capsys.readouterr().out)["counterparts"]
    assert [group["rows"][group["baseline"]]["ratio"] for group in groups] == [1.0] * len(groups)
    assert {"LorentzConv, ball, attention", "SAGEConv, lorentz"} <= set(groups[0]["rows"])
    assert path.read_text(encoding="utf-8").startswith("# Layers beside flat ones")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--sizes", "7k"], "'7k' is none of 13k, 245k"),
        (["--kinds", "tree"], "'tree' is none of symmetric"),
        (["--contestants", "nobody"], "no contestant's name contains 'nobody'"),
        (["--clock", "cpu", "--threads", "2"], "says nothing about threads"),
        (["--everything", "--without", "nothing"], "'nothing' is none of spaces"),
        (["--hgcn"], "--hgcn-code FOLDER"),
        (["--hgcn", "--hgcn-code", "nowhere"], "nowhere has no models/base_models.py"),
    ],
)
def test_a_wrong_request_gets_one_line_and_exit_code_two(arguments, words, capsys) -> None:
    assert main(["bench", *arguments]) == 2
    assert words in capsys.readouterr().err
