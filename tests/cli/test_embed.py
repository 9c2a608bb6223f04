"""`hgeo embed` embeds a taxonomy, judges it on hidden pairs, and answers what is near a name."""

import json
import re

import numpy as np
import pytest
import torch

from hgeo.cli import main
from hgeo.data import random_taxonomy
from hgeo.train import RunFolder


@pytest.fixture
def taxonomy(tmp_path):
    tree = random_taxonomy(30)
    path = tmp_path / "taxonomy.tsv"
    path.write_text("".join(f"{tree.names[child]}\t{tree.names[parent]}\n" for child, parent in tree.index.tolist()))
    return str(path)


def embed(taxonomy, out, *more):
    quick = ["--epochs", "6", "--burn-in", "2", "--negatives", "5", "--threads", "1"]
    return main(["embed", taxonomy, "--closure", "--space", "ball:2", "--out", str(out), *quick, *more])


def test_a_taxonomy_is_embedded_beside_flat_ones_and_judged_on_hidden_pairs(taxonomy, tmp_path, capsys):
    arguments = ["--hold-out", "0.2", "--splits", "2", "--seeds", "2", "--json"]
    assert embed(taxonomy, tmp_path / "run", *arguments) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["nodes"] == 30
    assert [entry["space"] for entry in report["summary"]] == ["ball:2", "euclidean:2", "inner:2"]
    assert len(report["runs"]) == 3 * 2 * 2
    for name in ("reconstruction_map", "hidden_map", "hidden_mean_rank"):
        own = [row[name] for row in report["runs"] if row["space"] == "ball:2"]
        assert report[name] == pytest.approx(sum(own) / len(own)) == report["summary"][0][name]["mean"]
    assert 0 < report["no_learning"]["hidden_map"] <= 1
    assert (tmp_path / "run" / "embedding.png").stat().st_size > 1000
    assert embed(taxonomy, tmp_path / "run", *arguments) == 2
    assert "already holds a run" in capsys.readouterr().err
    assert embed(taxonomy, tmp_path / "run", *arguments, "--resume") == 0
    assert json.loads(capsys.readouterr().out) == report


def test_the_nearest_names_are_read_from_the_vectors_file(taxonomy, tmp_path, capsys):
    assert embed(taxonomy, tmp_path / "run", "--alone", "--no-pictures") == 0
    assert "known pairs: MAP" in capsys.readouterr().out
    assert not (tmp_path / "run" / "embedding.png").exists()
    vectors = str(tmp_path / "run" / "vectors.npz")
    assert main(["embed", vectors, "--nearest", "root", "-k", "3", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["nearest"]
    assert len(found) == 3
    assert found == sorted(found, key=lambda pair: pair[1])
    assert main(["embed", vectors, "--nearest", "rooot"]) == 2
    assert "did you mean root" in capsys.readouterr().err
    assert main(["embed", vectors]) == 2
    assert "--nearest NAME" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--hold-out", "1.5"], "at least 0 and less than 1, got 1.5"),
        (["--hold-out", "0.0001"], "hides 0"),
        (["--splits", "2"], "give --hold-out too"),
        (["--space", "bal:2"], "expected one of"),
        (["--child", "below"], "line 1: no column is called 'below'"),
    ],
)
def test_a_wrong_request_gets_one_line_and_leaves_nothing(taxonomy, tmp_path, capsys, arguments, words):
    assert embed(taxonomy, tmp_path / "run", *arguments) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_negative_rate_is_refused_where_it_is_read(taxonomy, tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        embed(taxonomy, tmp_path / "run", "--lr", "-1")
    assert "--lr: '-1' is not a number above 0" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_branch_of_a_taxonomy_may_be_taken(taxonomy, tmp_path, capsys):
    assert embed(taxonomy, tmp_path / "run", "--below", "root/0", "--alone", "--no-pictures", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["nodes"] == sum(name.startswith("root/0") for name in random_taxonomy(30).names)
    assert embed(taxonomy, tmp_path / "other", "--below", "roo/0") == 2
    assert "no node is called 'roo/0'; did you mean root/0" in capsys.readouterr().err


def test_a_file_that_is_not_there_is_named(tmp_path, capsys):
    assert embed(str(tmp_path / "none.tsv"), tmp_path / "run") == 2
    assert "no file" in capsys.readouterr().err
    (tmp_path / "loop.tsv").write_text("a\tb\nb\ta\n")
    assert embed(str(tmp_path / "loop.tsv"), tmp_path / "run") == 2
    assert "line 2: a cycle ends here" in capsys.readouterr().err


def go_on(taxonomy, out, *more):
    return embed(taxonomy, out, "--alone", "--no-pictures", "--resume", *more)


@pytest.mark.parametrize("folder", ["ball2-split0-seed0", "search"])
def test_nothing_is_written_through_a_link_inside_the_folder(taxonomy, tmp_path, capsys, folder):
    more = ["--hold-out", "0.2", "--search", "--alone", "--no-pictures"]
    (tmp_path / "home").mkdir()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / folder).symlink_to(tmp_path / "home")
    assert embed(taxonomy, tmp_path / "run", *more) == 2
    assert f"{folder} is a link to" in capsys.readouterr().err
    assert list((tmp_path / "home").iterdir()) == []


@pytest.mark.parametrize(
    ("points", "epoch"),
    [
        (torch.zeros(1, 2, dtype=torch.float64), 1),
        (torch.zeros(0, 2, dtype=torch.float64), 1),
        (torch.zeros(30, 1, dtype=torch.float64), 1),
        (torch.zeros(30, 2), 1),
        (torch.zeros(30, 2, dtype=torch.float64), -1),
        (torch.zeros(30, 2, dtype=torch.float64), 7),
        (torch.zeros(30, 2, dtype=torch.float64), "1"),
        ("points", 1),
        (None, None),
    ],
)
def test_a_planted_checkpoint_of_other_points_is_refused_before_a_kernel_sees_it(
    taxonomy, tmp_path, capsys, points, epoch
):
    """The kernels write wherever a pair of nodes points."""
    assert embed(taxonomy, tmp_path / "run", "--alone", "--no-pictures") == 0
    run = RunFolder(tmp_path / "run" / "ball2-split0-seed0")
    run.write_checkpoint({"points": points, "epoch": epoch})
    (run.path / "result.json").unlink()
    assert go_on(taxonomy, tmp_path / "run") == 2
    said = capsys.readouterr().err
    assert re.search(
        r"checkpoint in .* (does not fit: expected 30 points of 2 numbers|cannot be read: Expected `)", said
    )
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    "arrays",
    [
        {"names": np.array(["near\x1b]0;title\x07", "b"]), "points": np.zeros((2, 2)), "space": "ball:2"},
        {"names": np.array(["a", "b"]), "points": np.zeros((2, 2)), "space": "ball\x1b[2J:2"},
        {"names\x1b[2J": np.zeros(2)},
    ],
)
def test_a_file_of_vectors_cannot_send_control_characters_to_the_terminal(tmp_path, capsys, arrays):
    np.savez(tmp_path / "vectors.npz", **arrays)
    main(["embed", str(tmp_path / "vectors.npz"), "--nearest", "b"])
    said = "".join(capsys.readouterr())
    assert "\\x1b" in said
    assert "\x1b" not in said
