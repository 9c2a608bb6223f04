"""A wrong word on the command line is refused in a sentence that says what may have been meant, before any work."""

from pathlib import Path

import numpy as np
import pytest

from hgeo.cli import main
from hgeo.train import RunFolder


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refusal(capsys, *words) -> str:
    """What is said; the code is 2, and nothing was written."""
    try:
        code = main(list(words))
    except SystemExit as end:
        code = end.code
    assert code == 2
    assert list(Path().iterdir()) == []
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["train", "--modle", "hat"], "unrecognized arguments: --modle hat; did you mean '--model'?"),
        (["train", "--seed=3"], "unrecognized arguments: --seed=3; did you mean '--seeds'?"),
        (["plot", "run", "--attentoin", "3"], "unrecognized arguments: --attentoin 3; did you mean '--attention'?"),
        (["embed", "tree", "--temprature", "3"], "did you mean '--temperature'?"),
    ],
)
def test_an_unknown_option_is_an_error_of_its_command_with_the_usage_of_that(capsys, words, said):
    text = refusal(capsys, *words)
    assert said in text
    assert text.startswith(f"usage: hgeo {words[0]} ")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["tran"], "no 'tran'; did you mean 'train'?"),
        (["train", "--dataset", "karate", "--model", "hta"], "no model 'hta'; did you mean 'hat'?"),
        (["train", "--dataset", "karate", "--space", "lorenz:4"], "got 'lorenz'; did you mean 'lorentz'?"),
        (["train", "--dataset", "kartae"], "no data set 'kartae'; did you mean 'karate'?"),
        (["train", "--dataset", "karate", "--task", "link"], "no task 'link'; did you mean 'links'?"),
        (["train", "--dataset", "karate", "--set", "bta=1"], "no setting bta; did you mean 'beta'?"),
        (["train", "--dtype", "float46"], "no 'float46'; did you mean 'float64'?"),
    ],
)
def test_a_word_that_is_nearly_known_is_said(capsys, words, said):
    assert said in refusal(capsys, *words)


@pytest.mark.parametrize(
    "option", ["space", "model", "device", "dataset", "task", "out", "backend", "split", "features"]
)
@pytest.mark.parametrize("empty", ["", "  "])
def test_an_empty_word_is_not_taken_for_what_is_usual(capsys, option, empty):
    said = refusal(capsys, "train", f"--{option}", empty)
    assert f"argument --{option}: the word is empty; leave the option out to have what is usual" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["bench", "--seconds", "-1"], "'-1' is not a number from 0 on"),
        (["bench", "--seconds", "nan"], "'nan' is not a number from 0 on"),
        (["embed", "tree", "--temperature", "0"], "'0' is not a number above 0"),
    ],
)
def test_a_time_is_not_negative_and_a_rate_is_above_0(capsys, words, said):
    assert said in refusal(capsys, *words)


@pytest.mark.parametrize("option", ["--seeds", "--shallow-seeds", "--jobs", "--dims", "--trials", "--epochs"])
def test_tables_are_not_made_of_nothing(capsys, option):
    said = refusal(capsys, "reproduce", "classification", option, "0")
    assert f"argument {option}: '0' is not a whole number from 1 on" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["data", "karate", "--samples", "99999999999"], "'99999999999' is too large"),
        (["train", "--seeds", "99999999999"], "is too large"),
        (["train", "--threads", "99999999999"], "is too large, expected at most 4096"),
        (["train", "--dataset", "karate", "--space", "ball:99999999999"], "of at least 1 and at most 1048576"),
        (["train", "--dataset", "karate", "--space", "ball:" + "9" * 5000], "of at least 1 and at most 1048576"),
        (["embed", "tree", "--space", "ball:99999999999"], "of at least 1 and at most 1048576"),
    ],
)
def test_an_absurd_size_is_refused(capsys, words, said):
    assert said in refusal(capsys, *words)


def test_the_name_of_a_folder_keeps_the_sign_and_the_point_of_a_curvature(here):
    quick = ["train", "--dataset", "karate", "--model", "hat", "--epochs", "1", "--no-pictures"]
    for space in ("stereo:2,k=-0.5", "stereo:2,k=0.5", "stereo:2,k=5"):
        assert main([*quick, "--space", space]) == 0
    names = ["karate-hat-stereo2k-0.5", "karate-hat-stereo2k0.5", "karate-hat-stereo2k5"]
    assert sorted(path.name for path in Path("runs").iterdir()) == names
    assert [RunFolder(f"runs/{name}").config().curvatures[0] for name in names] == [-0.5, 0.5, 5.0]


def test_dollars_and_carets_in_the_name_of_a_data_set_are_letters(here):
    ring = np.stack([np.arange(40), (np.arange(40) + 1) % 40])
    name = "$a^b_{$x.npz"
    np.savez(name, edge_index=ring, feat=np.eye(40), label=np.arange(40) // 20)
    assert main(["train", "--dataset", name, "--model", "mlp", "--epochs", "2", "--out", "run"]) == 0
    assert Path("run/curves.png").is_file()
