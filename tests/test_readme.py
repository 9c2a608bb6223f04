"""README's numbers are those of docs/results."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def rows_of(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.strip().splitlines()]


def test_the_table_of_accuracies_has_the_means_of_the_runs_and_the_papers_numbers() -> None:
    cells = json.loads((ROOT / "docs" / "results" / "classification.json").read_text(encoding="utf-8"))["cells"]
    found = {(cell["dataset"], cell["dim"], cell["method"]): cell for cell in cells}
    start = README.index("| | HAT, d = 2 |")
    head, _, *rows = rows_of(README[start : README.index("\n\n", start)])
    columns = [(name.split(",")[0].lower(), int(name.rpartition(" ")[2])) for name in head[1:]]
    assert [row[0] for row in rows] == ["Cora", "Citeseer", "Pubmed", "Photo"]
    for name, *numbers in rows:
        for (method, dim), number in zip(columns, numbers, strict=True):
            cell = found[name.lower(), dim, method]
            assert number == f"{100 * cell['mean']:.1f} ({100 * cell['paper']:.1f})", (name, method, dim)
            assert len(cell["runs"]) == 10


def test_the_time_of_attention_is_the_range_that_was_measured_on_whole_graphs() -> None:
    page = (ROOT / "docs" / "results" / "speed.md").read_text(encoding="utf-8")
    targets = re.findall(
        r"^\| fused, (?:symmetric|directed), [^|]*\|[^|]*\| ([\d.]+)(?:–([\d.]+))?", page, re.MULTILINE
    )
    assert len(targets) == 4
    measured = [float(number) for pair in targets for number in pair if number]
    said = re.search(r"takes ([\d.]+) to ([\d.]+) times the time of DGL's", README)
    assert said
    assert (float(said[1]), float(said[2])) == (min(measured), max(measured))


def test_every_page_that_readme_leads_to_is_there() -> None:
    for target in re.findall(r"\]\((?!http)([^)#]+)", README):
        assert (ROOT / target).exists(), target
