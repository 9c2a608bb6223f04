"""The tables in ``docs/results`` are what ``hgeo reproduce --cached-only`` writes from cells with their numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import adapter
import pytest

RESULTS = Path(__file__).parents[2] / "docs" / "results"
# the ablation's columns that are models of their own there
_COLUMNS = {"β = 1": "hat", "uniform weights": "hat-uniform", "GAT": "gat", "GCN": "gcn"}


def fill_cache(cells: list[Any], results: list[Any], folder: Path) -> None:
    folder.mkdir()
    for cell, result in zip(cells, results, strict=True):
        if result:
            (folder / f"{cell.key}.json").write_text(json.dumps({"result": result}))


def same_files(written: Path, committed: Path) -> None:
    texts = [path for path in sorted(written.iterdir()) if path.suffix in (".md", ".csv", ".json")]
    assert len(texts) > 1
    for path in texts:
        assert path.read_bytes() == (committed / path.name).read_bytes(), path.name


@pytest.mark.parametrize("page", ["classification", "clustering", "ablation", "diffusion/classification"])
def test_a_table_is_written_byte_for_byte_from_the_numbers_in_its_cells(page, tmp_path, monkeypatch) -> None:
    command = next(line for line in (RESULTS / f"{page}.md").read_text().splitlines() if line.startswith("    hgeo "))
    table = json.loads((RESULTS / f"{page}.json").read_text())
    runs = {(cell["dataset"], cell["dim"], cell["method"]): cell["runs"] for cell in table["cells"]}

    def result(cell: Any) -> dict[str, list[dict[str, float]]]:
        known = cell.arguments
        methods = known.get("configs") or {known["method"]: None}
        seeds = known.get("seeds") or [known["seed"]]
        found = {name: runs.get((known["dataset"], known["dim"], _COLUMNS.get(name, name)), []) for name in methods}
        return {
            name: [{table["metric"]: row[seed]} for seed in seeds if seed < len(row)] for name, row in found.items()
        }

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
