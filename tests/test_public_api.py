"""The public names of hgeo are those of a list: one that goes or comes is a decision, and a line of the changelog."""

import importlib
import json
from pathlib import Path

import pytest

LISTED = json.loads((Path(__file__).parent / "public_api.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("module", sorted(LISTED))
def test_a_module_offers_exactly_the_names_of_the_list(module: str) -> None:
    offered = importlib.import_module(module).__all__
    # To change the list: python tests/test_public_api.py
    assert sorted(offered) == LISTED[module]


@pytest.mark.parametrize("module", sorted(LISTED))
def test_every_public_name_exists(module: str) -> None:
    loaded = importlib.import_module(module)
    assert [name for name in LISTED[module] if not hasattr(loaded, name)] == []


def test_every_room_is_listed() -> None:
    rooms = {path.parent.name for path in (Path(__file__).parents[1] / "hgeo").glob("*/__init__.py")}
    assert {f"hgeo.{room}" for room in rooms} | {"hgeo", "hgeo.pyg"} == set(LISTED)


if __name__ == "__main__":
    current = {module: sorted(importlib.import_module(module).__all__) for module in sorted(LISTED)}
    file = Path(__file__).parent / "public_api.json"
    file.write_text(json.dumps(current, indent=1) + "\n", encoding="utf-8")
