"""SECURITY.md says what is true."""

import ast
import re
from pathlib import Path

from hgeo.data._pickle import ARRAYS, GRAPHS, LISTS

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "SECURITY.md").read_text(encoding="utf-8")


def test_the_page_lists_the_names_that_a_pickle_may_hold_and_no_others():
    for kind, allowed in (("arrays", ARRAYS), ("neighbours", LISTS), ("one graph", GRAPHS)):
        (entry,) = re.findall(rf"^- in a file of {kind}: (.*?)(?=^- |^$)", PAGE, re.MULTILINE | re.DOTALL)
        assert set(re.findall(r"`(.+?)`", entry)) == {f"{module}.{name}" for module, name in allowed}


def loads(path):
    """(line, call) of what reads files of other people in a way that could run them."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            name = f"{getattr(node.func.value, 'id', '')}.{node.func.attr}"
            safe = {word.arg: getattr(word.value, "value", None) for word in node.keywords}
            numpy_safe = name == "np.load" and safe.get("allow_pickle") is False
            if name in ("pickle.load", "pickle.loads", "torch.load", "np.load", "joblib.load") and not numpy_safe:
                yield f"{path.relative_to(ROOT)}:{node.lineno} {name}"


def test_no_room_uses_a_loader_that_can_run_code():
    # the law kit copies a manifold by way of a file in memory that it has just written
    rooms = [path for path in (ROOT / "hgeo").rglob("*.py") if "testing" not in path.parts]
    assert [found for path in rooms for found in loads(path)] == []
