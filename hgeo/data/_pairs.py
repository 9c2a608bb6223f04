"""What is a kind of what: pairs (child, parent) of names, from a file, from WordNet's dictionary, or generated."""

from __future__ import annotations

import csv
import difflib
import itertools
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from hgeo.data._dataset import DataError

__all__ = ["Pairs", "random_taxonomy", "read_pairs", "read_wordnet"]

Array = np.ndarray[Any, Any]

_WORDNET_FOLDERS = ("/usr/share/wordnet", "/usr/share/wordnet/dict", "/usr/local/WordNet-3.0/dict", "/opt/wordnet/dict")


@dataclass(frozen=True, eq=False)
class Pairs:
    """A hierarchy: each row of ``index`` (E, 2) is a child and a parent, places in ``names``.

    A node may have several parents; there are no cycles, no pair of a node with itself, and no pair twice.

    >>> tree = random_taxonomy(nodes=40, seed=0)
    >>> tree.count, len(tree.index), len(tree.closure().index) > 39
    (40, 39, True)
    """

    names: tuple[str, ...]
    index: Array

    @property
    def count(self) -> int:
        """How many nodes there are."""
        return len(self.names)

    def place(self, name: str) -> int:
        """The place of a name in ``names``."""
        try:
            return self.names.index(name)
        except ValueError:
            near = difflib.get_close_matches(name, self.names, n=3)
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            raise DataError(f"no node is called {name!r}{hint}") from None

    def below(self, name: str) -> Pairs:
        """The pairs of a node and of what is under it, however far.

        >>> random_taxonomy(40).below("root/1").names[:3]
        ('root/1', 'root/1/0', 'root/1/1')
        """
        children: list[list[int]] = [[] for _ in range(self.count)]
        for child, parent in self.index.tolist():
            children[parent].append(child)
        reached = np.zeros(self.count, dtype=bool)
        waiting = [self.place(name)]
        while waiting:
            node = waiting.pop()
            if not reached[node]:
                reached[node] = True
                waiting += children[node]
        if reached.sum() < 2:
            raise DataError(f"nothing is under {name!r}")
        number = np.cumsum(reached) - 1
        index = number[self.index[reached[self.index].all(axis=1)]]
        return Pairs(tuple(self.names[node] for node in np.flatnonzero(reached)), index)

    def closure(self) -> Pairs:
        """Adds the parents of parents: every pair of a node and one that is above it."""
        parents: list[list[int]] = [[] for _ in range(self.count)]
        for child, parent in self.index.tolist():
            parents[child].append(parent)
        above: list[set[int]] = [set() for _ in range(self.count)]
        order = _topological(self.count, self.index)
        for node in order[::-1]:  # parents before their children
            above[node].update(parents[node], *(above[parent] for parent in parents[node]))
        pairs = [(child, parent) for child, those in enumerate(above) for parent in sorted(those)]
        return Pairs(self.names, np.array(pairs, dtype=np.int64).reshape(-1, 2))

    def hide(self, share: float, seed: int = 0) -> tuple[Pairs, Pairs]:
        """Splits the pairs at random into known ones and a share of hidden ones; both keep all names.

        Take the closure before, never after: the closure of the known pairs brings back most of the hidden ones.
        """
        many = round(share * len(self.index))
        if not 0 < many < len(self.index):
            raise DataError(
                f"a share of {share:g} of {len(self.index)} pairs hides {many}; hide at least one and keep at least one"
            )
        order = np.random.default_rng([seed, 0x9A125]).permutation(len(self.index))
        hidden, known = np.sort(order[:many]), np.sort(order[many:])
        return Pairs(self.names, self.index[known]), Pairs(self.names, self.index[hidden])


def read_pairs(
    path: str | Path, *, child: str | None = None, parent: str | None = None, closure: bool = False
) -> Pairs:
    """Reads a taxonomy: a line a pair, ``child<TAB>parent``, or with commas if the file's name ends in ``.csv``.

    A first line that says ``child`` and ``parent`` names the columns; with ``child=`` and ``parent=`` other columns are
    chosen by their names. Without such a line the first two columns are read. Empty lines are left out.

    Raises:
        DataError: with the number of the line: a missing name, a pair of a name with itself, a pair given twice, an
            unknown column, a cycle; or fewer than two names.
    """
    path = Path(path).expanduser()
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise DataError(f"{path}, line {line}: not UTF-8 ({error.reason})") from error
    rows = _rows(text, "," if path.suffix.lower() == ".csv" else "\t")
    pairs = _with_lines(path, rows, child, parent)
    found = _pairs(path, pairs)
    return found.closure() if closure else found


def _rows(text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The cells of each line that is not empty, and its number."""
    if delimiter == "\t":
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip():
                yield number, [cell.strip() for cell in line.split("\t")]
        return
    reader = csv.reader(text.splitlines())
    for cells in reader:
        if any(cell.strip() for cell in cells):
            yield reader.line_num, [cell.strip() for cell in cells]


def _with_lines(
    path: Path, rows: Iterator[tuple[int, list[str]]], child: str | None, parent: str | None
) -> Iterator[tuple[int, str, str]]:
    """(line, child, parent) of each pair."""
    columns = (0, 1)
    for order, (line, cells) in enumerate(rows):
        if order == 0:
            header = [cell.lower() for cell in cells]
            if child is not None or parent is not None or {"child", "parent"} <= set(header):
                wanted = (child or "child", parent or "parent")
                columns = (_column(path, line, cells, wanted[0]), _column(path, line, cells, wanted[1]))
                continue
        if len(cells) <= max(columns) or not cells[columns[0]] or not cells[columns[1]]:
            separator = "a comma" if path.suffix.lower() == ".csv" else "a tab"
            _refuse(path, line, f"expected a child and a parent with {separator} between them, got {cells}")
        yield line, cells[columns[0]], cells[columns[1]]


def _column(path: Path, line: int, header: list[str], name: str) -> int:
    places = [place for place, cell in enumerate(header) if cell.lower() == name.lower()]
    if len(places) != 1:
        problem = "no column is" if not places else f"{len(places)} columns are"
        _refuse(path, line, f"{problem} called {name!r}; the columns are {', '.join(map(repr, header))}")
    return places[0]


def _pairs(path: Path, rows: Iterable[tuple[int, str, str]]) -> Pairs:
    """The names in the order of their first appearance, and the pairs, checked."""
    places: dict[str, int] = {}
    lines: dict[tuple[int, int], int] = {}
    for line, child, parent in rows:
        if child == parent:
            _refuse(path, line, f"{child!r} is its own parent")
        pair = (places.setdefault(child, len(places)), places.setdefault(parent, len(places)))
        if pair in lines:
            _refuse(path, line, f"{child!r} under {parent!r} was given on line {lines[pair]} already")
        lines[pair] = line
    if len(places) < 2:
        raise DataError(f"{path} has {len(places)} names; a taxonomy needs at least two, in one pair a line")
    found = Pairs(tuple(places), np.array(list(lines), dtype=np.int64).reshape(-1, 2))
    cycle = _cycle(found)
    if cycle:
        line = max(lines[pair] for pair in itertools.pairwise(cycle))
        _refuse(path, line, f"a cycle ends here: {' under '.join(repr(found.names[node]) for node in cycle)}")
    return found


def _refuse(path: Path, line: int, problem: str) -> NoReturn:
    raise DataError(f"{path}, line {line}: {problem}")


def _topological(count: int, index: Array) -> list[int]:
    """Nodes, each before its parents; those on or above a cycle are left out."""
    parents: list[list[int]] = [[] for _ in range(count)]
    for child, parent in index.tolist():
        parents[child].append(parent)
    waiting = np.bincount(index[:, 1], minlength=count).tolist()
    order = [node for node in range(count) if not waiting[node]]
    for node in order:  # grows while it is read
        for parent in parents[node]:
            waiting[parent] -= 1
            if not waiting[parent]:
                order.append(parent)
    return order


def _cycle(pairs: Pairs) -> list[int]:
    """Nodes, each under the next, the last of which is the first; none if there is no cycle."""
    order = set(_topological(pairs.count, pairs.index))
    if len(order) == pairs.count:
        return []
    below: dict[int, int] = {}  # a node that is left out has a child that is left out
    for child, parent in pairs.index.tolist():
        if child not in order and parent not in order:
            below[parent] = child
    node, path = next(iter(below)), []
    seen: set[int] = set()
    while node not in seen:
        seen.add(node)
        path.append(node)
        node = below[node]
    cycle = path[path.index(node) :]
    return [node, *cycle[:0:-1], node]


def read_wordnet(folder: str | Path | None = None, *, part: str = "noun", closure: bool = True) -> Pairs:
    """Reads WordNet's hierarchy of hypernyms, instances among them, from its dictionary files.

    Names are ``word.n.02``: the first word of a synset, and which of the word's senses it is.

    Args:
        folder: where ``data.noun`` and ``index.noun`` are; else ``$WNSEARCHDIR``, ``$WNHOME/dict``, and where
            distributions put them (Debian's package is called ``wordnet-base``).
        part: ``noun`` or ``verb``.
        closure: whether the parents of parents are parents.
    """
    if part not in ("noun", "verb"):
        raise DataError(f"WordNet has a hierarchy of 'noun' and one of 'verb', none of {part!r}")
    path = _dictionary(folder, part)
    senses = _senses(path.with_name(f"index.{part}"), part)
    names, pointers = [], []
    place: dict[str, int] = {}
    with open(path, encoding="latin-1") as file:
        for line, text in enumerate(file, 1):
            if text.startswith("  "):  # the licence
                continue
            try:
                offset, word, parents = _synset(text)
                names.append(f"{word}.{part[0]}.{senses[word.lower(), offset]:02d}")
            except (ValueError, IndexError, KeyError) as error:
                _refuse(path, line, f"not a synset of WordNet's data files ({type(error).__name__}: {error})")
            place[offset] = len(place)
            pointers += [(line, offset, parent) for parent in parents]
    for line, _, parent in pointers:
        if parent not in place:
            _refuse(path, line, f"the hypernym at {parent} is not in the file")
    index = sorted({(place[offset], place[parent]) for _, offset, parent in pointers})
    found = Pairs(tuple(names), np.array(index, dtype=np.int64).reshape(-1, 2))
    cycle = _cycle(found)
    if cycle:
        first = names[cycle[0]]
        line = next(line for line, offset, _ in pointers if place[offset] == cycle[0])
        _refuse(path, line, f"{first!r} is above itself")
    return found.closure() if closure else found


def _dictionary(folder: str | Path | None, part: str) -> Path:
    """The file of synsets."""
    home = os.environ.get("WNHOME")
    usual = [os.environ.get("WNSEARCHDIR"), home and f"{home}/dict", *_WORDNET_FOLDERS]
    folders = [Path(each).expanduser() for each in ([folder] if folder is not None else usual) if each]
    for each in folders:
        if (each / f"data.{part}").is_file() and (each / f"index.{part}").is_file():
            return each / f"data.{part}"
    looked = ", ".join(str(each) for each in folders)
    raise DataError(
        f"no WordNet: data.{part} and index.{part} were looked for in {looked}; install it (Debian: wordnet-base) or "
        "name its folder by WNSEARCHDIR"
    )


def _synset(text: str) -> tuple[str, str, list[str]]:
    """(offset, first word, offsets of its hypernyms) of a line ``offset file type words … pointers … | gloss``."""
    cells = text.partition(" | ")[0].split()
    words = int(cells[3], 16)
    at = 4 + 2 * words
    pointers = [cells[at + 1 + 4 * number : at + 5 + 4 * number] for number in range(int(cells[at]))]
    return cells[0], cells[4], [pointer[1] for pointer in pointers if pointer[0] in ("@", "@i")]


def _senses(path: Path, part: str) -> dict[tuple[str, str], int]:
    """Which sense of a word, counted from 1, each of its synsets is."""
    senses = {}
    with open(path, encoding="latin-1") as file:
        for line, text in enumerate(file, 1):
            if text.startswith("  "):
                continue
            cells = text.split()
            try:
                offsets = cells[-int(cells[2]) :]
            except (ValueError, IndexError):
                _refuse(path, line, f"not a word of WordNet's index.{part}")
            senses.update({(cells[0], offset): number for number, offset in enumerate(offsets, 1)})
    return senses


def random_taxonomy(nodes: int = 200, *, seed: int = 0, most_children: int = 5) -> Pairs:
    """Generates a random tree, pairs of its edges; names are paths such as ``root/2/0``."""
    if nodes < 2:
        raise DataError(f"a taxonomy needs at least two nodes, got {nodes}")
    generator = np.random.default_rng(seed)
    names = ["root"]
    pairs: list[tuple[int, int]] = []
    for parent in range(nodes):
        for child in range(int(generator.integers(2, most_children + 1))):
            if len(names) == nodes:
                return Pairs(tuple(names), np.array(pairs, dtype=np.int64))
            pairs.append((len(names), parent))
            names.append(f"{names[parent]}/{child}")
    raise AssertionError("every node has at least two children, so they suffice")
