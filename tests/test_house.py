"""The house is kept in order: rooms use each other by their front doors, functions and files stay short.

That a room uses only the rooms above it is checked by import-linter (``[tool.importlinter]`` in pyproject.toml).
Each list of exceptions may only shrink: whoever repairs one removes its line.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import hgeo

ROOT = Path(hgeo.__file__).parent
MOST_LINES_OF_A_FUNCTION = 80
MOST_LINES_OF_A_FILE = 700
KERNELS = ("kernels/",)  # a loop that is compiled as one is written as one


def sources() -> Iterator[tuple[str, str]]:
    """(place inside the package, content) of every module."""
    for path in sorted(ROOT.rglob("*.py")):
        yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")


def used_modules(place: str, text: str) -> Iterator[list[str]]:
    """What a module imports, or names in a string such as ``"hgeo.room._module:function"``, as words between dots."""
    package = ["hgeo", *Path(place).parts[:-1]]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else []
            module = base + (node.module.split(".") if node.module else [])
            yield from ([*module, alias.name] for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name.split(".") for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found = re.fullmatch(r"(hgeo(?:\.\w+)+):(\w+)", node.value)
            if found:
                yield [*found[1].split("."), found[2]]


def back_doors(place: str, text: str) -> set[tuple[str, str]]:
    """(file, what it uses) for every private name of another room."""
    room = Path(place).parts[0].removesuffix(".py")
    found = set()
    for words in used_modules(place, text):
        private = [index for index, word in enumerate(words) if word.startswith("_") and not word.startswith("__")]
        if words[0] == "hgeo" and len(words) > 2 and words[1] != room and private and private[0] > 1:
            found.add((place, ".".join(words[: private[0] + 1])))
    return found


def test_a_room_is_entered_by_its_front_door_only() -> None:
    found = sorted(door for place, text in sources() for door in back_doors(place, text))
    assert not found, f"export the name in the room's __init__, or move it to where it belongs: {found}"


def test_an_import_of_a_private_name_is_seen_in_every_form() -> None:
    for line in (
        "from hgeo.nn._inputs import dropout",
        "import hgeo.nn._inputs",
        "from hgeo.nn import _inputs",
        "from ..nn._inputs import dropout",
        "name = 'hgeo.nn._inputs:dropout'",
    ):
        assert back_doors("models/_hat.py", line) == {("models/_hat.py", "hgeo.nn._inputs")}, line
    assert not back_doors("nn/hatconv.py", "from hgeo.nn._inputs import dropout")
    assert not back_doors("nn/hatconv.py", "from hgeo._geoopt import geoopt")


def test_a_function_is_read_on_one_screen() -> None:
    long = {
        (place, node.name)
        for place, text in sources()
        if not place.startswith(KERNELS)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno + 1 > MOST_LINES_OF_A_FUNCTION
    }
    assert not long, f"more than {MOST_LINES_OF_A_FUNCTION} lines: {sorted(long)}"


def test_a_file_is_read_in_one_sitting() -> None:
    long = {
        place for place, text in sources() if not place.startswith(KERNELS) and text.count("\n") > MOST_LINES_OF_A_FILE
    }
    assert not long, f"more than {MOST_LINES_OF_A_FILE} lines: {sorted(long)}"


def test_a_room_says_what_it_is_for() -> None:
    for path in sorted(ROOT.glob("*/__init__.py")):
        text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        assert text, f"{path.parent.name}/__init__.py has no docstring"


def test_the_page_on_the_architecture_lists_every_room_in_the_order_that_is_checked() -> None:
    project = Path(__file__).parents[1]
    page = (project / "docs" / "architecture.md").read_text(encoding="utf-8")
    described = re.findall(r"^\| `(\w+)` \|", page[: page.index("## Three ideas")], re.MULTILINE)
    layers = re.search(
        r"^layers = \[(.*?)\]", (project / "pyproject.toml").read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    assert layers
    rooms = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    checked = [word for word in re.findall(r"\w+", layers[1]) if word in rooms]
    assert described == checked[::-1]
    assert set(described) == rooms
