"""Run folders that earlier editions wrote load as they were, or are refused with a sentence."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import adapter
import pytest
import record
from cases import RUNS, TOLERANCE, cases

#: what is said of the old run folders that cannot be read any more
REFUSED: dict[str, str] = {}


def test_every_run_folder_that_is_not_read_any_more_is_refused_with_a_sentence() -> None:
    refused = {key for key, found in record.read("runs").items() if "refused" in found}
    assert refused == set(REFUSED)
    for key, sentence in REFUSED.items():
        with pytest.raises(ValueError, match=sentence):
            adapter.load_model(RUNS / key.removeprefix("run "))


@pytest.mark.parametrize("key", list(cases()["runs"]))
def test_a_run_that_is_loaded_is_as_accurate_as_its_result_says(key: str) -> None:
    if key in REFUSED:
        return
    folder = RUNS / key.removeprefix("run ")
    result = json.loads((folder / "result.json").read_text())
    assert adapter.run_accuracy(folder) == pytest.approx(result["test_accuracy"], abs=1e-12)


@pytest.mark.parametrize("edition", sorted(path.name for path in RUNS.iterdir() if path.is_dir()))
def test_an_old_run_that_was_interrupted_has_no_weights_and_ends_as_if_it_had_not_been(edition, tmp_path) -> None:
    old, whole = tmp_path / "run", RUNS / edition / "finished"
    shutil.copytree(RUNS / edition / "unfinished", old)
    with pytest.raises(FileNotFoundError, match="not finished"):
        adapter.load_model(old)
    assert adapter.hgeo_command(["train", "--resume", "--out", str(old)]) == 0
    assert losses(old) == pytest.approx(losses(whole), rel=TOLERANCE)
    assert losses(old)[:3] == losses(RUNS / edition / "unfinished")
    ours, theirs = (adapter.run_model(adapter.load_model(folder))[0] for folder in (old, whole))
    assert (ours - theirs).norm() <= TOLERANCE * theirs.norm()


def losses(folder: Path) -> list[float]:
    return [json.loads(line)["loss"] for line in (folder / "metrics.jsonl").read_text().splitlines()]
