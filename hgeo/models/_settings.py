"""Settings: frozen dataclasses whose fields say what they mean, which values they admit, and where a search looks."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from hgeo._near import near

__all__ = [
    "Choice",
    "Range",
    "Settings",
    "TrainSettings",
    "assign",
    "check_settings",
    "searched",
    "setting",
    "share",
    "whole",
]

_S = TypeVar("_S")


class Range(NamedTuple):
    """A search looks at numbers from ``low`` to ``high``: at their logarithms, or in steps, if so asked."""

    low: float
    high: float
    log: bool = False
    step: float | None = None


class Choice(NamedTuple):
    """A search looks at these values."""

    values: tuple[Any, ...]


class _Rule(NamedTuple):
    """Which numbers a field admits: from ``low`` (or only above it) to below ``high``, in words ``expected``."""

    expected: str
    low: float
    high: float = math.inf
    open: bool = False

    def admits(self, value: float) -> bool:
        return (self.low < value if self.open else self.low <= value) and value < self.high


def setting(default: Any, meaning: str, *, rule: _Rule | None = None, search: Range | Choice | None = None) -> Any:
    """A field of a settings dataclass: its default, what it means, and the values that a search tries, if any."""
    return dataclasses.field(default=default, metadata={"meaning": meaning, "rule": rule, "search": search})


def share(default: float, meaning: str, *, search: Range | Choice | None = None) -> Any:
    """A field that is a number in [0, 1)."""
    return setting(default, meaning, rule=_Rule("a number in [0, 1)", 0.0, 1.0), search=search)


def whole(default: int | None, meaning: str, *, low: int = 1, search: Range | Choice | None = None) -> Any:
    """A field that is a whole number from ``low`` on."""
    return setting(default, meaning, rule=_Rule(f"a whole number from {low} on", low), search=search)


@dataclasses.dataclass(frozen=True)
class Settings:
    """The base of hgeo's settings: values that a field does not admit are refused when the object is made.

    >>> @dataclasses.dataclass(frozen=True)
    ... class Mine(Settings):
    ...     depth: int = whole(2, "number of layers")
    >>> Mine(depth=0)
    Traceback (most recent call last):
    ValueError: depth is 0, expected a whole number from 1 on
    """

    def __post_init__(self) -> None:
        check_settings(self)


@dataclasses.dataclass(frozen=True)
class TrainSettings(Settings):
    """How a model is trained, whichever it is.

    A run ends after ``epochs``, or when ``patience`` epochs have passed since the best one; not before ``min_epochs``,
    for models whose first epochs are worse than chance. With a ``batch_size`` an epoch goes through the examples in
    batches, which see ``fanout`` neighbours of each node, a number a layer.
    """

    lr: float = setting(
        0.01, "learning rate", rule=_Rule("a number above 0", 0.0, open=True), search=Range(0.005, 0.06, log=True)
    )
    weight_decay: float = setting(
        5e-4, "decay of weights", rule=_Rule("a number from 0 on", 0.0), search=Range(5e-5, 1e-2, log=True)
    )
    label_smoothing: float = share(0.1, "share of a label given to the others", search=Choice((0.0, 0.1, 0.2)))
    epochs: int = whole(400, "at most so many epochs")
    patience: int = whole(80, "epochs without a better one before a run ends")
    min_epochs: int = whole(0, "at least so many epochs", low=0)
    batch_size: int | None = whole(None, "examples of a step, of all processes together; None: all at once")
    fanout: str = setting("all", "neighbours that a batch sees, a number a layer, such as 10,10; all: every one")

    @property
    def fanouts(self) -> tuple[int, ...] | None:
        """Neighbours of each layer, -1: all; None where every layer sees all.

        >>> TrainSettings(batch_size=32, fanout="10,all").fanouts
        (10, -1)
        """
        words = [word.strip() for word in self.fanout.split(",")]
        if words == ["all"]:
            return None
        if not all(word in ("all", "-1") or (word.isdecimal() and int(word) > 0) for word in words):
            raise ValueError(f"fanout is {self.fanout!r}, expected numbers from 1 on or 'all', such as 10,10")
        return tuple(-1 if word in ("all", "-1") else int(word) for word in words)


# The types of the fields of a class, kept: finding them takes longer than a training step of a small network.
_declared: Callable[[Any], dict[str, Any]] = functools.cache(get_type_hints)


def check_settings(settings: Any) -> None:
    """Refuses values of another type than their field declares, or that it does not admit.

    An int does for a float, a bool for neither.
    """
    declared = _declared(type(settings))
    for field in dataclasses.fields(settings):
        value, rule = getattr(settings, field.name), field.metadata.get("rule")
        if get_origin(declared[field.name]) is Literal:
            options = get_args(declared[field.name])
            fits, expected = value in options, " or ".join(map(repr, options))
        else:
            kinds = get_args(declared[field.name]) or (declared[field.name],)
            fits = any(type(value) is kind or (kind is float and type(value) is int) for kind in kinds)
            expected = " or ".join("None" if kind is type(None) else kind.__name__ for kind in kinds)
        if rule is not None and isinstance(value, int | float) and (not fits or not rule.admits(value)):
            fits, expected = False, rule.expected
        if not fits:
            raise ValueError(f"{field.name} is {value!r}, expected {expected}")


class Group(NamedTuple):
    """Settings that belong to something with a name; the fields that are ``fixed`` cannot be set."""

    owner: str
    values: Any
    fixed: Sequence[str] = ()

    def names(self) -> list[str]:
        return [field.name for field in dataclasses.fields(self.values) if field.name not in self.fixed]


# What has an option of its own on the command line instead.
_ELSEWHERE = {
    "model": "the model is chosen by its name",
    "dim": "the dimension is that of the space, such as ball:16",
    "c": "the curvature is that of the space, such as ball:16,c=0.5",
    "k": "the curvature is that of the space, such as stereo:16,k=0.5",
}


def assign(options: Mapping[str, Any], *groups: tuple[str, Any, Sequence[str]]) -> list[Any]:
    """The settings of each group (whose they are, settings, names of fixed fields) with those in ``options`` changed.

    An option that no group has is an error that names what each of them has.

    >>> assign({"lr": 0.1}, ("training", TrainSettings(), ()))[0].lr
    0.1
    >>> assign({"speed": 0.1}, ("training", TrainSettings(epochs=9), ()))
    Traceback (most recent call last):
    ValueError: no setting speed; training has lr, weight_decay, label_smoothing, epochs, patience, min_epochs, ...
    """
    owners = [Group(*group) for group in groups]
    known = {name for group in owners for name in group.names()}
    unknown = sorted(set(options) - known)
    if unknown:
        notes = [_ELSEWHERE[name] for name in unknown if name in _ELSEWHERE]
        notes += [
            f"{group.owner} has it fixed at {getattr(group.values, name)!r}"
            for group in owners
            for name in unknown
            if name in group.fixed
        ]
        notes += [f"{group.owner} has {', '.join(group.names())}" for group in owners if group.names()]
        meant = near(unknown[0], known) if not notes or unknown[0] not in _ELSEWHERE else ""
        raise ValueError("; ".join([f"no setting {', '.join(unknown)}{meant}", *notes]))
    changed = []
    for group in owners:
        values = dataclasses.replace(group.values, **{n: v for n, v in options.items() if n in group.names()})
        check_settings(values)  # a user's own dataclass may have no checks
        changed.append(values)
    return changed


def searched(settings: type, names: Sequence[str] | None = None) -> dict[str, Range | Choice]:
    """What a search tries of each field that it looks at; of the ``names`` only, if any are given."""
    return {
        field.name: field.metadata["search"]
        for field in dataclasses.fields(settings)
        if field.metadata.get("search") is not None and (names is None or field.name in names)
    }
