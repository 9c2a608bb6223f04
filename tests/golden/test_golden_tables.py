"""The tables in ``docs/results`` are what ``hgeo reproduce --cached-only`` writes from cells with their numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import adapter
import pytest

import hgeo
from hgeo.reproduce._runs import ablation_cells

RESULTS = Path(__file__).parents[2] / "docs" / "results"
# said by hand on a page whose numbers an earlier hgeo computed, which the command cannot know
_BY_HAND = "\nIts graph networks were trained by an earlier engine"


def _ablated(dataset: str, dim: int, column: str) -> list[Any]:
    """The cells of a column of the ablation, many of which are of the same model."""
    return ablation_cells(dataset, dim, range(10))[column]


def fill_cache(cells: list[Any], results: list[Any], folder: Path) -> None:
    folder.mkdir()
    for cell, result in zip(cells, results, strict=True):
        if result:
            (folder / f"{cell.key}.json").write_text(json.dumps({"result": result}))


def same_files(written: Path, committed: Path) -> None:
    texts = [path for path in sorted(written.iterdir()) if path.suffix in (".md", ".csv", ".json")]
    assert len(texts) > 1
    for path in texts:
        there = (committed / path.name).read_text()
        before, by_hand, after = there.partition(_BY_HAND)
        assert path.read_text() == (before + after.partition("\n")[2] if by_hand else there), path.name


@pytest.mark.parametrize("page", ["classification", "clustering", "ablation", "diffusion/classification"])
def test_a_table_is_written_byte_for_byte_from_the_numbers_in_its_cells(page, tmp_path, monkeypatch) -> None:
    command = next(line for line in (RESULTS / f"{page}.md").read_text().splitlines() if line.startswith("    hgeo "))
    table = json.loads((RESULTS / f"{page}.json").read_text())
    runs = {(cell["dataset"], cell["dim"], cell["method"]): cell["runs"] for cell in table["cells"]}

    columns = {cell.key: place for place in runs if page == "ablation" for cell in _ablated(*place)}

    def result(cell: Any) -> dict[str, list[dict[str, float]]]:
        known = cell.arguments
        model = known.get("model") or known["method"]
        dim = known["dim"] if "dim" in known else hgeo.space(known["space"]).dim
        row, seed = runs.get(columns.get(cell.key, (known["dataset"], dim, model)), []), known["seed"]
        return {model: [{table["metric"]: value} for value in row[seed : seed + 1]]}

    folders = ["--cached-only", "--cache", str(tmp_path / "cache"), "--out", str(tmp_path / "out")]
    words = [*command.split()[2:], *folders]
    cells = adapter.asked_cells(words, monkeypatch)
    fill_cache(cells, [result(cell) for cell in cells], tmp_path / "cache")
    assert adapter.hgeo_command(["reproduce", *words]) == 0
    same_files(tmp_path / "out", (RESULTS / page).parent)


@pytest.mark.parametrize("page", ["timing", "attention"])
def test_a_page_is_written_byte_for_byte_from_what_its_cells_found(page, tmp_path, monkeypatch) -> None:
    found = json.loads((RESULTS / f"{page}.json").read_text())
    words = [page, "--cached-only", "--cache", str(tmp_path / "cache"), "--out", str(tmp_path / "out")]
    cells = adapter.asked_cells(words, monkeypatch)
    fill_cache(cells, list(found.values()) if isinstance(found, dict) else found, tmp_path / "cache")
    assert adapter.hgeo_command(["reproduce", *words]) == 0
    same_files(tmp_path / "out", RESULTS)
