"""The commands around training: what they print, what they write, what they answer to wrong requests."""

import ast
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import hgeo
from hgeo.cli import main

QUICK = ["--epochs", "4", "--no-pictures"]


def test_a_run_prints_a_table_and_fills_a_folder(here, capsys):
    assert main(["train", "--dataset", "karate", "--out", "run", "--epochs", "4"]) == 0
    out = capsys.readouterr().out
    assert "karate" in out
    assert re.search(r"^HAT +ball:2 ", out, re.MULTILINE)
    names = {path.name for path in (here / "run").iterdir()}
    assert {"config.json", "metrics.jsonl", "result.json", "model.safetensors"} <= names
    assert {"embedding.png", "embedding.html", "radius.png", "curves.png"} <= names
    assert json.loads((here / "run" / "config.json").read_text())["settings"]["epochs"] == 4


def test_with_json_stdout_holds_the_json_and_nothing_else(here, capfd):
    assert main(["train", "--dataset", "karate", "--model", "hat,mlp", "--seeds", "2", "--json", *QUICK]) == 0
    result = json.loads(capfd.readouterr().out)
    assert [row["model"] for row in result["summary"]] == ["hat", "mlp"]
    assert result["summary"][0]["test_accuracy"]["n"] == 2
    assert [(run["model"], run["seed"]) for run in result["runs"]] == [("hat", 0), ("hat", 1), ("mlp", 0), ("mlp", 1)]


def test_the_same_seed_gives_the_same_result(here, capsys):
    scores = []
    for name in ("a", "b"):
        assert main(["train", "--dataset", "karate", "--out", name, "--json", *QUICK]) == 0
        run = json.loads(capsys.readouterr().out)["runs"][0]
        scores.append((run["val_loss"], run["test_accuracy"], run["test_nmi"]))
    assert scores[0] == scores[1]
    assert (here / "a" / "model.safetensors").read_bytes() == (here / "b" / "model.safetensors").read_bytes()


def test_a_folder_with_a_run_is_not_overwritten(here, capsys):
    assert main(["train", "--dataset", "karate", "--out", "run", *QUICK]) == 0
    assert main(["train", "--dataset", "karate", "--out", "run", *QUICK]) == 2
    assert "--resume" in capsys.readouterr().err


def test_default_folders_do_not_collide(here, capsys):
    for _ in range(2):
        assert main(["train", "--dataset", "karate", *QUICK]) == 0
    assert sorted(path.name for path in (here / "runs").iterdir()) == ["karate-hat-ball2", "karate-hat-ball2-2"]


@pytest.mark.parametrize("name", ["result.json", "summary.json", "model.safetensors", "embedding.png"])
def test_a_users_own_file_is_not_overwritten(here, capsys, name):
    (here / "run").mkdir()
    (here / "run" / name).write_text("mine")
    assert main(["train", "--dataset", "karate", "--out", "run", *QUICK]) == 2
    assert f"run/{name} is there already" in capsys.readouterr().err
    assert (here / "run" / name).read_text() == "mine"
    assert len(list((here / "run").iterdir())) == 1


def test_a_folder_that_a_session_would_fill_is_not_touched(here, capsys):
    (here / "run" / "mlp-seed0").mkdir(parents=True)
    assert main(["train", "--dataset", "karate", "--model", "hat,mlp", "--out", "run", *QUICK]) == 2
    assert "run/mlp-seed0 is there already" in capsys.readouterr().err


def test_resuming_refuses_options_that_it_would_not_obey(here, capsys):
    assert main(["train", "--dataset", "karate", "--out", "run", *QUICK]) == 0
    assert main(["train", "--resume", "--out", "run", "--epochs", "50", "--model", "gat", "--no-pictures"]) == 2
    assert "leave out --model, --epochs" in capsys.readouterr().err
    assert main(["train", "--resume", "--out", "run", "--dtype", "float32", "--split-seed", "0"]) == 2
    assert "leave out --split-seed, --dtype" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{ not json", "run/session.json is not JSON"),
        ("[]", "run/session.json holds a list"),
        ('{"jobs": 3}', "run/session.json cannot be read: Expected `array`"),
        ('{"jobs": [{"dataset": "karate", "model": "hat", "space": "ball:2", "colour": 1}]}', "unknown field `colour`"),
        (
            '{"jobs": [{"dataset": "karate", "model": "hat"}]}',
            "run/session.json cannot be read: .*missing required field `space`",
        ),
    ],
)
def test_a_session_that_cannot_be_read_is_named(here, capsys, content, message):
    (here / "run").mkdir()
    (here / "run" / "session.json").write_text(content)
    assert main(["train", "--resume", "--out", "run"]) == 2
    assert re.search(message, capsys.readouterr().err)


def test_a_damaged_checkpoint_gives_an_error_of_one_line(here, capsys):
    assert main(["train", "--dataset", "karate", "--out", "run", *QUICK]) == 0
    (here / "run" / "result.json").unlink()
    (here / "run" / "checkpoint" / "state.safetensors").write_bytes(b"")
    capsys.readouterr()
    assert main(["train", "--resume", "--out", "run", "--no-pictures"]) == 2
    err = capsys.readouterr().err
    assert "state.safetensors is damaged" in err
    assert err.count("\n") == 1


def test_a_run_whose_loss_is_never_finite_says_so_and_leaves_no_folder(here, capsys):
    wild = ["train", "--dataset", "karate", "--lr", "1e30", "--no-pictures"]
    assert main([*wild, "--model", "mlp", "--out", "run"]) == 1
    captured = capsys.readouterr()
    assert captured.err.startswith("hgeo train: mlp seed 0: the loss is not finite")
    assert captured.err.count("\n") == 1
    assert captured.out == ""
    assert not (here / "run").exists()


def test_a_failed_run_does_not_take_the_others_with_it(here, capsys, monkeypatch):
    from hgeo.train import Job, TrainingError

    real = Job.run

    def run(self, *arguments, **options):
        if self.model == "mlp":
            raise TrainingError("the loss is not finite")
        return real(self, *arguments, **options)

    monkeypatch.setattr(Job, "run", run)
    assert main(["train", "--dataset", "karate", "--model", "mlp,hat", "--out", "run", "--json", *QUICK[:2]]) == 1
    captured = capsys.readouterr()
    assert [row["model"] for row in json.loads(captured.out)["summary"]] == ["hat"]
    assert "mlp seed 0" in captured.err
    assert not (here / "run" / "mlp-seed0").exists()
    assert (here / "run" / "hat-seed0" / "embedding.png").exists()


def test_ctrl_c_before_anything_was_written_offers_no_folder(here, capsys, monkeypatch):
    from hgeo.train import Job

    def interrupted(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(Job, "load", interrupted)
    assert main(["train", "--dataset", "karate", "--out", "run"]) == 130
    assert capsys.readouterr().err == "\nhgeo: interrupted; nothing was begun\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "--seed", "3"], "unrecognized arguments: --seed 3"),
        (["train", "--epochs", "many"], "argument --epochs: 'many' is not a whole number from 1 on"),
        (["train", "--first-seed", "-3"], "argument --first-seed: '-3' is not a whole number from 0 on"),
        (["train", "--split-seed", "-1"], "argument --split-seed: '-1' is not a whole number from 0 on"),
        (["data", "karate", "--seed", "-1"], "argument --seed: '-1' is not a whole number from 0 on"),
        (["data", "karate", "--split-seed", "-1"], "argument --split-seed"),
        (["check", "ball:2", "--examples", "0"], "argument --examples: '0' is not a whole number from 1 on"),
        (["plot", "run", "--layer", "0"], "argument --layer: '0' is not a whole number from 1 on"),
        (["plot", "run", "--att", "3"], "unrecognized arguments: --att 3"),
    ],
)
def test_a_wrong_word_is_refused_by_the_name_of_its_option(here, capsys, arguments, message):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


def test_json_of_a_graph_without_links_is_strict(here, capsys):
    np.savez(here / "dust.npz", edge_index=np.zeros((2, 0), int), feat=np.eye(8), label=np.arange(8) % 2)
    assert main(["data", "dust.npz", "--json"]) == 0
    found = json.loads(capsys.readouterr().out, parse_constant=lambda name: pytest.fail(name))
    assert found["homophily"] is None
    assert main(["data", "dust.npz"]) == 0
    assert "no links between labelled nodes" in capsys.readouterr().out


def test_hgeo_data_prints_one_line_about_what_it_changed_in_the_data(here, capsys):
    np.savez(here / "gaps.npz", edge_index=np.array([[0, 1], [2, 3]]), feat=np.eye(8), label=np.arange(8) % 2 * 5)
    assert main(["data", "gaps.npz", "--json"]) == 0
    captured = capsys.readouterr()
    assert captured.err.startswith("hgeo: gaps.npz: label has gaps")
    assert captured.err.count("\n") == 1
    assert json.loads(captured.out)["classes"] == 2


def test_a_closed_pipe_is_no_error(here):
    script = f"{sys.executable} -m hgeo data karate --json | head -c 20"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert len(done.stdout) == 20
    assert done.stderr == ""


def test_a_finished_run_resumes_to_what_it_was(here, capsys):
    assert main(["train", "--dataset", "karate", "--out", "run", "--json", *QUICK]) == 0
    first = json.loads(capsys.readouterr().out)["runs"]
    assert main(["train", "--out", "run", "--resume", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == first


def test_resuming_draws_the_pictures_that_are_missing(here, capsys):
    assert main(["train", "--dataset", "karate", "--model", "hat,mlp", "--out", "run", "--epochs", "4"]) == 0
    for picture in ("embedding.png", "mlp-seed0/curves.png", "mlp-seed0/embedding.png"):
        (here / "run" / picture).unlink()
    assert main(["train", "--out", "run", "--resume"]) == 0
    pictures = {str(path.relative_to(here / "run")) for path in (here / "run").rglob("embedding.png")}
    assert pictures == {"embedding.png", "hat-seed0/embedding.png", "mlp-seed0/embedding.png"}


def test_a_session_without_pictures_stays_without_when_it_is_resumed(here, capsys):
    assert main(["train", "--dataset", "karate", "--out", "run", *QUICK]) == 0
    (here / "run" / "result.json").unlink()
    assert main(["train", "--out", "run", "--resume"]) == 0
    assert (here / "run" / "result.json").is_file()
    assert not [path for path in (here / "run").iterdir() if path.suffix in (".png", ".svg", ".html")]


def test_no_pictures_beside_resume_is_remembered_too(here, capsys):
    assert main(["train", "--dataset", "karate", "--out", "run", "--epochs", "4"]) == 0
    (here / "run" / "curves.png").unlink()
    for arguments in (["--no-pictures"], []):
        assert main(["train", "--out", "run", "--resume", *arguments]) == 0
        assert not (here / "run" / "curves.png").exists()


def test_a_session_keeps_its_number_of_threads(here, capsys):
    import torch

    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        assert main(["train", "--dataset", "karate", "--out", "small", *QUICK]) == 0
        assert torch.get_num_threads() == 1  # a small graph
        assert main(["train", "--dataset", "karate", "--out", "two", "--threads", "2", *QUICK]) == 0
        torch.set_num_threads(1)
        (here / "two" / "result.json").unlink()
        assert main(["train", "--out", "two", "--resume", "--no-pictures"]) == 0
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_kappa_gcn_may_learn_the_sign_of_its_curvature_unless_told(here, capsys):
    assert main(["train", "--dataset", "karate", "--model", "kappa-gcn", "--out", "run", *QUICK]) == 0
    assert json.loads((here / "run" / "config.json").read_text())["space"] == "stereo:2,k=learn"


def test_training_warns_of_features_that_are_the_same_for_every_node(here, capsys):
    ring = np.stack([np.arange(40), (np.arange(40) + 1) % 40])
    np.savez(here / "ring.npz", edge_index=ring, feat=np.ones((40, 1)), label=np.arange(40) // 20)
    assert main(["train", "--dataset", "ring.npz", "--json", *QUICK]) == 0
    captured = capsys.readouterr()
    assert "feat is the same in every row" in captured.err
    json.loads(captured.out)


def test_ctrl_c_leaves_a_resumable_folder_and_exit_code_130(here):
    command = [sys.executable, "-m", "hgeo", "train", "--dataset", "hierarchy", "--model", "hat", "--out", "run"]
    process = subprocess.Popen(
        [*command, "--no-pictures", "--epochs", "100000", "--patience", "100000"],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    metrics, deadline = here / "run" / "metrics.jsonl", time.monotonic() + 120
    while not (metrics.exists() and metrics.stat().st_size > 0) and time.monotonic() < deadline:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "--resume --out run" in err
    assert "Traceback" not in err
    assert (here / "run" / "checkpoint" / "state.safetensors").is_file()
    # let it end soon, then go on
    session = json.loads((here / "run" / "session.json").read_text())
    done = len(metrics.read_text().splitlines())
    config = json.loads((here / "run" / "config.json").read_text())
    session["jobs"][0]["options"]["epochs"] = config["options"]["epochs"] = done + 2
    (here / "run" / "session.json").write_text(json.dumps(session))
    (here / "run" / "config.json").write_text(json.dumps(config))
    assert main(["train", "--out", "run", "--resume", "--no-pictures"]) == 0
    assert [json.loads(line)["epoch"] for line in metrics.read_text().splitlines()] == list(range(done + 2))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--dataset", "nowhere"], "no data set 'nowhere'"),
        (["--dataset", "karate", "--model", "ham"], "no model 'ham'"),
        (["--dataset", "karate", "--space", "bal:2"], "bal"),
        (["--dataset", "karate", "--set", "betta=1"], "betta"),
        (["--dataset", "karate", "--set", "beta"], "expected NAME=VALUE"),
        (["--dataset", "karate", "--set", "lr=fast"], "lr is 'fast', expected float"),
        (["--dataset", "karate", "--set", "self_score=max"], "self_score is 'max', expected 'zero' or 'mean'"),
        (["--dataset", "karate", "--lr", "-1"], "lr is -1.0, expected a number above 0"),
        (["--dataset", "karate", "--lr", "0"], "lr is 0.0, expected a number above 0"),
        (["--dataset", "karate", "--set", "weight_decay=-1"], "weight_decay is -1, expected a number from 0 on"),
        (["--dataset", "karate", "--set", "foo=1"], "no setting foo; hat has beta, beta_out, radius_norm"),
        (["--dataset", "karate", "--set", "dim=4"], "no setting dim; the dimension is that of the space"),
        (["--dataset", "karate", "--set", "c=0.5"], "no setting c; the curvature is that of the space"),
        (["--dataset", "karate", "--model", "hat,hat"], "hat-seed0 is asked for twice"),
        (["--dataset", "karate", "--model", ","], "names no model"),
        (["--dataset", "karate", "--device", "foo"], "device is 'foo', expected cpu, cuda or cuda:NUMBER"),
        (["--dataset", "karate", "--device", "mps"], "device is 'mps', expected cpu, cuda or cuda:NUMBER"),
        (["--dataset", "karate", "--device", "meta"], "device is 'meta', expected cpu, cuda or cuda:NUMBER"),
        (["--resume"], "--resume needs --out"),
        (["--resume", "--out", "nothing"], "no file nothing/session.json"),
        (["--dataset", "karate", "--backend", "warp"], "warp"),
    ],
)
def test_a_wrong_request_is_one_line_and_exit_code_2(here, capsys, arguments, message):
    assert main(["train", *arguments, *QUICK]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert "Traceback" not in captured.err
    assert captured.out == ""
    assert not (here / "runs").exists()


def test_without_a_gpu_the_device_cuda_gives_a_clear_error(here, capsys):
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a CUDA device")
    assert main(["train", "--dataset", "karate", "--device", "cuda", *QUICK]) == 2
    assert "no CUDA device" in capsys.readouterr().err


def test_double_precision_and_backends_are_obeyed(here, capsys):
    arguments = ["train", "--dataset", "karate", "--dtype", "float64", "--json", *QUICK]
    scores = []
    for backend in ("reference", "torch"):
        assert main([*arguments, "--backend", backend]) == 0
        scores.append(json.loads(capsys.readouterr().out)["runs"][0]["val_loss"])
    assert scores[0] == pytest.approx(scores[1], rel=1e-9)


def test_a_users_file_is_trained_on(here, capsys):
    generator = np.random.default_rng(0)
    np.savez(
        here / "mine.npz",
        edge_index=generator.integers(60, size=(2, 200)),
        feat=generator.normal(size=(60, 4)),
        label=np.arange(60) % 3,
    )
    assert main(["train", "--dataset", "mine.npz", "--space", "ball:2 x sphere:2", *QUICK]) == 0
    assert "mine.npz" in capsys.readouterr().out


def test_plot_draws_a_run_again_and_a_node_it_is_asked_for(here, capsys):
    assert main(["train", "--dataset", "karate", "--out", "run", *QUICK]) == 0
    capsys.readouterr()
    assert main(["plot", "run", "--attention", "33", "--layer", "2"]) == 0
    written = capsys.readouterr().out.split()
    assert "run/embedding.html" in written
    assert "run/attention-33-layer2.svg" in written
    assert all((here / path).stat().st_size > 0 for path in written)
    table = (here / "run" / "attention-33-layer2.md").read_text()
    assert table.startswith("Layer 2: whom node 33 listens to")
    assert "33 (itself)" in table
    assert not (here / "run" / "attention-33-layer1.md").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "nothing/config.json"),
        (["run", "--attention", "99"], "node is 99"),
        (["run", "--attention", "1", "--layer", "7"], "2 attention layer"),
    ],
)
def test_plot_says_what_is_missing(here, capsys, arguments, message):
    assert main(["train", "--dataset", "karate", "--out", "run", *QUICK]) == 0
    assert main(["plot", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_plot_says_which_models_tell_their_attention(here, capsys):
    assert main(["train", "--dataset", "karate", "--model", "mlp", "--out", "run", *QUICK]) == 0
    assert main(["plot", "run", "--attention", "1"]) == 2
    assert "has no layer that tells its attention; those have: hat, hat-uniform, hat-paper" in capsys.readouterr().err


def test_plot_of_a_session_names_its_runs(here, capsys):
    assert main(["train", "--dataset", "karate", "--seeds", "2", "--out", "both", *QUICK]) == 0
    assert main(["plot", "both"]) == 2
    assert "hat-seed0, hat-seed1" in capsys.readouterr().err


def test_data_lists_names_and_describes_one(capsys):
    assert main(["data"]) == 0
    listed = capsys.readouterr().out
    assert "hierarchy    built in" in listed
    assert "edge_index (2, E)" in listed
    assert main(["data", "karate", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["nodes"], found["edges"], found["degree_max"]) == (34, 156, 17)
    assert main(["data", "karate"]) == 0
    assert "Gromov δ" in capsys.readouterr().out
    assert main(["data", "karat"]) == 2
    assert "did you mean 'karate'" in capsys.readouterr().err


def test_doctor_reports_no_problem_on_this_machine(capsys):
    assert main(["doctor", "--json"]) == 0
    findings = json.loads(capsys.readouterr().out)
    verdicts = {finding["subject"]: finding["verdict"] for finding in findings}
    assert verdicts["torch"] == verdicts["geometry"] == verdicts["HATConv"] == "ok"


def test_doctor_says_which_package_does_not_load(capsys, monkeypatch):
    import importlib

    real = importlib.import_module

    def broken(name, *arguments):
        if name == "dgl":
            raise OSError("libsomething.so: cannot open shared object file")
        return real(name, *arguments)

    monkeypatch.setattr(importlib, "import_module", broken)
    assert main(["doctor"]) == 1
    assert "libsomething.so" in capsys.readouterr().out


ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def spoken(arguments, **environment):
    command = [sys.executable, "-m", "hgeo", *arguments]
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONIOENCODING"}  # tox sets it
    done = subprocess.run(command, capture_output=True, env={**inherited, **environment}, check=False)
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    # the name of a file comes back in the bytes in which it was given
    return done.returncode, *(text.decode("ascii", "surrogateescape") for text in (done.stdout, done.stderr))


@pytest.mark.parametrize("environment", [ASCII, {"PYTHONIOENCODING": "ascii"}])
def test_an_ascii_terminal_gets_replacements_for_letters_that_it_cannot_show(here, environment):
    code, out, _ = spoken(["train", "--dataset", "karate", "--seeds", "2", *QUICK], **environment)
    assert (code, " \\xb1 " in out) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "shown", "expected"),
    [
        (["doctor"], "HATConv", 0),
        (["data", "karate"], "Gromov \\u03b4", 0),
        (["train", "--help"], "reference \\u2026", 0),
        (["train", "--dataset", "karate", "--space", "ball:2,c=-1"], "a finite number \\u2265 0", 2),
        (["check", "--list"], "\\u2264", 0),
        (["check", "geoopt:PoincareBall", "--laws", "triangle_inequality", "--examples", "2"], "triangle", 0),
        (["tune", "--help"], "trials", 0),
        (["reproduce", "ablation", "--datasets", "karate", "--cached-only", "--out", "out"], "| data | d |", 0),
    ],
)
def test_every_command_works_in_a_terminal_that_cannot_show_every_letter(here, monkeypatch, arguments, shown, expected):
    written = io.BytesIO()
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, io.TextIOWrapper(written, encoding="ascii", write_through=True))
    try:
        code = main(arguments)
    except SystemExit as left:  # argparse, after --help
        code = left.code
    assert (code, shown in written.getvalue().decode("ascii")) == (expected, True)


def test_a_files_name_that_no_encoding_explains_is_shown_as_it_was_given(here, monkeypatch):
    written = io.BytesIO()
    for name in ("stdout", "stderr"):
        stream = io.TextIOWrapper(written, encoding="ascii", errors="surrogateescape", write_through=True)
        monkeypatch.setattr(sys, name, stream)
    given = "größe".encode().decode("ascii", "surrogateescape") + "±.npz"
    assert main(["train", "--dataset", given]) != 0
    assert "größe".encode() + b"\\xb1.npz" in written.getvalue()


def test_files_are_utf8_whatever_the_terminal_shows(here):
    small = ["--datasets", "karate", "--dims", "2", "--methods", "gcn", "--seeds", "2", "--jobs", "1"]
    code, out, _ = spoken(["reproduce", "classification", *small, "--out", "out", "--cache", "cells"], **ASCII)
    assert (code, "\\xb1" in out) == (0, True)
    assert "±" in (here / "out" / "classification.md").read_text(encoding="utf-8")


def test_a_name_that_the_locale_cannot_read_is_drawn_as_it_is_written(here):
    ring = np.stack([np.arange(40), (np.arange(40) + 1) % 40])
    np.savez(here / "größe.npz", edge_index=ring, feat=np.eye(40), label=np.arange(40) // 20)
    code, out, _ = spoken(["train", "--dataset", "größe.npz", "--epochs", "2", "--out", "größe"], **ASCII)
    assert (code, "größe/embedding.png" in os.fsencode(out).decode()) == (0, True)
    assert "HAT on größe" in (here / "größe" / "embedding.html").read_text(encoding="utf-8")


def test_every_text_file_is_opened_as_utf8():
    """The locale chooses otherwise, and a table has ± in it."""
    wrong = []
    for path in Path(hgeo.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)
            module = getattr(getattr(node.func, "value", None), "id", None)
            binary = any(
                isinstance(value, ast.Constant) and value.value in ("rb", "wb", "xb") for value in node.args[1:2]
            )
            method = isinstance(node.func, ast.Attribute) and name in ("read_text", "write_text")
            text = method or (name == "open" and module != "os" and not binary)
            if text and "encoding" not in {keyword.arg for keyword in node.keywords}:
                wrong.append(f"{path.name}:{node.lineno}")
    assert wrong == []


def test_importing_the_command_line_is_silent():
    environment = {**os.environ, "DGLBACKEND": "pytorch"}
    done = subprocess.run(
        [sys.executable, "-m", "hgeo", "data"], capture_output=True, text=True, env=environment, check=True
    )
    assert done.stderr == ""


def test_in_a_new_home_folder_nothing_but_json_is_printed(here):
    """DGL's first import in a home folder chooses a backend and says so on stdout."""
    environment = {name: value for name, value in os.environ.items() if name != "DGLBACKEND"}
    environment |= {"HOME": str(here), "XDG_CONFIG_HOME": str(here / "config")}
    command = [sys.executable, "-m", "hgeo", "train", "--dataset", "karate", "--model", "gat", "--json", *QUICK]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.stderr == ""
    assert [row["model"] for row in json.loads(done.stdout)["summary"]] == ["gat"]


def imports_that_run(node):
    """Every import statement below ``node`` but those that only a type checker reads."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        elif not (isinstance(child, ast.If) and getattr(child.test, "id", "") == "TYPE_CHECKING"):
            yield from imports_that_run(child)


def test_dgl_is_imported_in_one_place():
    direct = [
        path.name
        for path in Path(hgeo.__file__).parent.rglob("*.py")
        for found in imports_that_run(ast.parse(path.read_text(encoding="utf-8")))
        for name in ([found.module or ""] if isinstance(found, ast.ImportFrom) else [a.name for a in found.names])
        if name.partition(".")[0] == "dgl"
    ]
    assert direct == []


@pytest.fixture
def without_dgl(here):
    """A folder in front of the path whose ``dgl`` cannot be imported."""
    (here / "broken").mkdir()
    (here / "broken" / "dgl.py").write_text("raise ImportError('libdgl.so is missing')")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(here / "broken"), os.environ["PYTHONPATH"]])}


def test_without_dgl_bare_hgeo_train_compares_hat_and_gat(here, without_dgl):
    command = [sys.executable, "-m", "hgeo", "train", "--epochs", "2", "--seeds", "1", "--no-pictures", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, env=without_dgl, check=True)
    assert [row["model"] for row in json.loads(done.stdout)["summary"]] == ["hat", "gat"]
    assert done.stderr == ""


def test_recipes_compete_unless_somebody_says_something_of_them(here, capsys):
    arguments = ["train", "--dataset", "karate", "--epochs", "10", "--no-pictures", "--json"]
    assert main([*arguments, "--out", "a"]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert run["recipe"] in [one["recipe"] for one in run["tried"]]
    assert json.loads((here / "a" / "config.json").read_text())["recipe"] == run["recipe"]
    for number, words in enumerate((["--recipe", "walk"], ["--set", "beta=0.5"])):
        assert main([*arguments, "--out", str(number), *words]) == 0
        assert "tried" not in json.loads(capsys.readouterr().out)["runs"][0]
        recipe = json.loads((here / str(number) / "config.json").read_text())["recipe"]
        assert recipe == ("walk" if number == 0 else "usual")
    assert main([*arguments[:-1], "--out", "b", "--seeds", "2"]) == 0
    assert re.search(r"hat: recipe \w+( \(1\), \w+ \(1\))?, of walk \d", capsys.readouterr().out)
    assert main([*arguments, "--out", "c", "--recipe", "run"]) == 2
    assert "hat has no recipe 'run'; it has usual, walk, " in capsys.readouterr().err
