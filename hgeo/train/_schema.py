"""The files of a run: what each of them holds, one class a kind of file, and how one is read.

What a file holds is somebody's word. It is checked against its class before anything is made of it: a name that is not
known, a value of another type or size than it can have, and the file is refused with its path and the place.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from torch import Tensor

from hgeo.data import Origin

__all__ = [
    "Checkpoint",
    "HierarchyCheckpoint",
    "HierarchyConfig",
    "JobRecord",
    "Metrics",
    "Optimizer",
    "Progress",
    "Result",
    "RunConfig",
    "SearchRecord",
    "SessionRecord",
    "StudyRecord",
    "StudyResult",
    "Trial",
    "Tried",
    "Value",
    "checked",
    "parse_json",
    "read_json",
    "read_record",
    "read_scores",
    "text_of",
]

_T = TypeVar("_T")

Count = Annotated[int, Meta(ge=0, le=2**53)]
Seed = Annotated[int, Meta(ge=0, lt=2**32)]
#: a pool of threads beyond any machine's would be made, and take all memory
Threads = Annotated[int, Meta(ge=1, le=4096)]
Number = float | None  # JSON has no NaN: null stands for it
#: what a setting may be
Value = bool | int | float | str | list[Any] | None

_MOST_BYTES = 1 << 28  # of a JSON file; that of a run of a million epochs is smaller
# A terminal obeys them. Lines and tabs do no harm, and a file's name may hold any other letter.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class JobRecord(Struct, frozen=True, forbid_unknown_fields=True):
    """What decides the numbers of one run, as ``config.json`` and ``session.json`` keep it."""

    dataset: str
    model: str
    space: str
    task: str = "nodes"
    split: str | None = None
    features: str = "auto"
    seed: Seed = 0
    split_seed: Count = 0
    device: str = "cpu"
    dtype: Literal["float32", "float64"] = "float32"
    backend: str = "auto"
    recipe: str = "usual"
    options: dict[str, Value] = {}
    origin: Origin | None = None


class _Kept(JobRecord, frozen=True):
    data_dir: str | UnsetType | None = UNSET  # edition 0.1 kept it; nobody is led there any more


class Tried(Struct, frozen=True, forbid_unknown_fields=True):
    """A recipe that competed: for how many epochs, and what of its best one the task watches; nothing if none was."""

    recipe: str
    epochs: Count
    watched: list[float]


class RunConfig(_Kept, frozen=True, kw_only=True):
    """``config.json``: the job, every setting that it was run with, the curvatures that its model began with (of each
    layer that has one), which recipes competed, by which versions and how many threads its numbers were computed."""

    settings: dict[str, Value] = {}
    curvatures: list[float] | None = None
    tried: list[Tried] = []
    threads: Threads | None = None
    versions: dict[str, str] = {}


class SessionRecord(Struct, frozen=True, forbid_unknown_fields=True):
    """``session.json``: the jobs of a command."""

    jobs: Annotated[list[_Kept], Meta(min_length=1)]
    threads: Threads | None = None
    pictures: bool = True


class Result(Struct, frozen=True, kw_only=True):
    """``result.json``: this, and the scores of the best epoch by their names."""

    epochs: Count
    best_epoch: Count
    curvatures: list[Number]
    seconds: Number
    parameters: Count
    warnings: list[str]
    cpu_seconds: Number = None
    dataset: str | None = None
    task: str | None = None
    model: str | None = None
    space: str | None = None
    seed: Seed | None = None


class Metrics(Struct, frozen=True, kw_only=True):
    """A line of ``metrics.jsonl``: this, and validation scores by their names."""

    epoch: Count
    loss: Number = None
    lr: Number = None
    curvatures: list[Number] = []
    at_limit: Number = None
    attention_entropy: Number = None
    max_radius: Number = None


class Progress(Struct, forbid_unknown_fields=True):
    """Where a training is. ``scores`` are the validation scores of the best epoch."""

    epoch: Count = 0
    best_epoch: Annotated[int, Meta(ge=-1)] = -1
    scores: dict[str, float] = {}
    seconds: float = 0.0
    warnings: list[str] = []


class _Group(Struct, frozen=True):
    """A group of parameters that step alike. How they step is the optimizer's, not the file's."""

    kind: str
    params: list[Count]


class Optimizer(Struct, frozen=True, forbid_unknown_fields=True):
    """What an optimizer remembers of each parameter, by its number."""

    state: dict[Count, dict[str, Any]]
    param_groups: list[_Group]


class Checkpoint(Struct, frozen=True, forbid_unknown_fields=True):
    """A checkpoint of a training."""

    model: dict[str, Tensor]
    best: dict[str, Tensor]
    optimizer: Optimizer
    generators: Annotated[list[Tensor], Meta(min_length=1)]
    progress: Progress


class HierarchyCheckpoint(Struct, frozen=True, forbid_unknown_fields=True):
    """A checkpoint of a hierarchy's embedding."""

    points: Tensor
    epoch: Count


class HierarchyConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """``config.json`` of a hierarchy's embedding; ``pairs`` is a digest of them."""

    space: str
    settings: dict[str, Value]
    pairs: str


class StudyRecord(Struct, frozen=True, forbid_unknown_fields=True):
    """``study.json``: what ``hgeo embed`` was asked for."""

    pairs: str
    space: str
    beside: list[str]
    given: dict[str, Value]
    hold_out: float
    splits: Count
    seeds: Count
    first_split: Count
    search: bool


class StudyResult(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """``result.json`` of one of the runs of ``hgeo embed``."""

    space: str
    split: Count
    seed: Count
    settings: dict[str, Value]
    reconstruction_map: float
    reconstruction_mean_rank: float
    cpu_seconds: float
    hidden_map: float | None = None
    hidden_mean_rank: float | None = None


class Trial(Struct, frozen=True, forbid_unknown_fields=True):
    """Settings that a search tried, and what they were worth on validation pairs."""

    settings: dict[str, Value]
    validation_map: float
    validation_mean_rank: float


class SearchRecord(Struct, frozen=True, forbid_unknown_fields=True):
    """A file of ``search/``."""

    trials: list[Trial]


def checked(value: Any, kind: type[_T], where: str) -> _T:
    """``value``, read from ``where``, as a ``kind``.

    >>> checked({"space": "ball:2"}, HierarchyConfig, "x/config.json")
    Traceback (most recent call last):
    ValueError: x/config.json cannot be read: Object missing required field `settings`
    """
    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise ValueError(f"{where} cannot be read: {error}") from error


def parse_json(text: str, where: str) -> dict[str, Any]:
    """The object that a JSON text holds, without a text in it that a terminal would obey."""
    try:
        value = json.loads(text, parse_constant=_no_number)
        obeyed = next(filter(_CONTROL.search, _texts(value)), None)
    except (ValueError, RecursionError) as error:  # numbers without end are a ValueError, too
        raise ValueError(f"{where} is not JSON ({error})") from error
    if not isinstance(value, dict):
        raise ValueError(f"{where} holds a {type(value).__name__}, expected an object")
    if obeyed is not None:
        raise ValueError(f"{where} holds a text with control characters, which no run of hgeo writes: {obeyed!r}")
    return value


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is no number in JSON")


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file of a run."""
    if not path.is_file():
        raise FileNotFoundError(f"no file {path}; is {path.parent} a run folder of hgeo train?")
    return parse_json(text_of(path), str(path))


def text_of(path: Path) -> str:
    """A text file of a run, unless it is larger than one can be."""
    with open(path, "rb") as file:
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise ValueError(f"{path} is larger than {_MOST_BYTES >> 20} MB, which no file of a run is")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not JSON ({error.reason} at byte {error.start})") from error


def read_record(path: Path, kind: type[_T]) -> _T:
    """What a JSON file of a run holds, checked."""
    return checked(read_json(path), kind, str(path))


def read_scores(value: dict[str, Any], kind: type[Struct], where: str) -> dict[str, Any]:
    """``value`` itself, once what ``kind`` knows of it and its scores are checked."""
    checked(value, kind, where)
    checked({name: found for name, found in value.items() if _is_score(name)}, dict[str, Number], where)
    return value


def _is_score(name: str) -> bool:
    return name.startswith(("val_", "test_"))


def _texts(value: Any) -> Iterator[str]:
    """All strings in a JSON value, names included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for item in value:
            yield from _texts(item)
        if isinstance(value, dict):
            yield from _texts(list(value.values()))
