"""What a task is: everything about a training that depends on what is to be predicted."""

from __future__ import annotations

import abc
import dataclasses
import importlib
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np
from torch import Tensor, nn

from hgeo._near import near
from hgeo.data import Dataset

if TYPE_CHECKING:
    from hgeo.models import TrainSettings

__all__ = ["Batch", "Epoch", "NoSettings", "Part", "Task", "find_task", "register_task", "task_names"]

Part: TypeAlias = Literal["train", "val", "test"]


class Epoch(NamedTuple):
    """Which epoch it is, of which run: what a loss may draw random numbers by, so that a resumed run draws the same."""

    number: int
    seed: int
    training: TrainSettings

    @property
    def generator(self) -> np.random.Generator:
        """Random numbers that depend on the seed and the epoch alone."""
        return np.random.default_rng([self.seed, self.number])


class Batch(NamedTuple):
    """Some examples of training: the nodes whose outputs they need, each once, and their loss from these outputs.

    ``loss(model, output)`` gets a row for each of the ``nodes``, in their order. ``hidden`` are (2, M) edges that no
    message goes along meanwhile.
    """

    nodes: Tensor
    loss: Callable[[nn.Module, Tensor], Tensor]
    hidden: Tensor | None = None


@dataclasses.dataclass(frozen=True)
class NoSettings:
    """Settings of a task that has none."""


class Task(abc.ABC):
    """A task on one data set: what is trained, by which loss, and how it is judged.

    Training knows a task by these methods and attributes alone. A task of your own derives from this class; name it by
    ``--task package.module:Class``, or give ``Class(dataset)`` to :func:`hgeo.train.fit`.

    Args:
        dataset: the whole data.
        settings: of the class ``Settings``; the defaults if left out.
        split: one of ``splits``; the first of them if left out.
        seed: of whatever is split at random.

    Attributes:
        dataset: what models may see; a task that hides links takes them out of it.
        columns: scores of the test part, as results name them, and their titles in tables; the main one first.
        title: what is judged, for tables.
        splits: the splits that the task makes by itself. Without any the data are split when they are loaded.
        usual: other defaults than those of a model's recipe and of :class:`~hgeo.models.TrainSettings`; what a model
            does not have is left out.
    """

    Settings: ClassVar[type] = NoSettings
    title: ClassVar[str] = "test nodes"
    columns: Mapping[str, str] = {}
    splits: ClassVar[tuple[str, ...]] = ()
    usual: ClassVar[Mapping[str, Any]] = {}

    def __init__(
        self, dataset: Dataset, settings: Any | None = None, *, split: str | None = None, seed: int = 0
    ) -> None:
        if split is not None and self.splits and split not in self.splits:
            raise ValueError(f"the split is {split!r}, expected {' or '.join(self.splits)}")
        self.dataset = dataset
        self.settings = self.Settings() if settings is None else settings
        self.split = split if split is not None or not self.splits else self.splits[0]
        self.seed = seed

    def out_dim(self, dim: int) -> int:
        """How many numbers a node the network gives; ``dim`` is the dimension of its hidden space."""
        return dim

    def attach(self, network: nn.Module) -> nn.Module:
        """What is trained: the network, or a module around it that is called and asked in the same way."""
        return network

    def nodes(self, part: Part) -> Tensor | None:
        """The nodes whose outputs a part needs; None: all of them."""
        return None

    def seen(self, epoch: Epoch) -> Dataset | None:
        """What the model sees in the step of an epoch, where that is not all of ``dataset``."""
        return None

    @abc.abstractmethod
    def loss(self, model: nn.Module, output: Tensor, epoch: Epoch) -> Tensor:
        """What an epoch minimises. ``output`` is what the model gives for the nodes of the part ``train``."""

    @property
    def num_examples(self) -> int | None:
        """How many examples an epoch of batches goes through; None: the task cannot be trained in batches."""
        return None

    def batch(self, chosen: Tensor, epoch: Epoch) -> Batch:
        """The examples of these numbers, from 0 to ``num_examples``; all of them have the loss of :meth:`loss`."""
        raise NotImplementedError(f"{type(self).__name__} has examples, but no batch of them")

    @abc.abstractmethod
    def evaluate(self, model: nn.Module, output: Tensor, part: Part) -> dict[str, float]:
        """Scores of a part by their names, ``loss`` among them on ``val``; reported as ``val_loss`` and so on."""

    @abc.abstractmethod
    def watched(self, scores: Mapping[str, float]) -> tuple[float, ...]:
        """What early stopping compares of the ``val_`` scores: the larger, the better; first numbers first."""

    def more(self, points: Tensor, manifold: Any, seed: int) -> dict[str, float]:
        """More about the hidden points of a trained model, by the names that the result has."""
        return {}

    def beside(self) -> dict[str, dict[str, float]]:
        """Test scores of what needs no learning, for tables: a name, and scores as results name them."""
        return {}


_T = TypeVar("_T", bound=type[Task])
_TASKS: dict[str, type[Task]] = {}


def register_task(name: str) -> Callable[[_T], _T]:
    """Decorates a class of tasks: from here on ``--task name`` is one.

    >>> find_task("nodes").title
    'test nodes'
    """
    if not re.fullmatch(r"[-_.a-zA-Z0-9]+", name):
        raise ValueError(f"a task cannot be called {name!r}; letters, digits, '-', '_' and '.' make a name")

    def add(task: _T) -> _T:
        if name in _TASKS:
            raise ValueError(f"there is a task {name!r} already ({_TASKS[name]}); choose another name")
        _TASKS[name] = task
        return task

    return add


def task_names() -> list[str]:
    """The registered tasks, ``nodes`` first."""
    return list(_TASKS)


def find_task(name: str) -> type[Task]:
    """The task called ``name``, or ``package.module:Class`` for one that is not registered: its module is imported.

    >>> find_task("node")
    Traceback (most recent call last):
    ValueError: no task 'node'; did you mean 'nodes'?; known: nodes, links, distances, or package.module:Class
    """
    if name in _TASKS:
        return _TASKS[name]
    module, colon, attribute = name.partition(":")
    if not colon:
        raise ValueError(f"no task {name!r}{near(name, _TASKS)}; known: {', '.join(_TASKS)}, or package.module:Class")
    try:
        found = getattr(importlib.import_module(module), attribute, None)
    except ImportError as error:
        raise ValueError(f"task {name!r}: {module} cannot be imported ({error})") from error
    if found is None:
        raise ValueError(f"task {name!r}: {module} has no {attribute!r}")
    if not (isinstance(found, type) and issubclass(found, Task)):
        raise ValueError(f"task {name!r}: expected a class derived from hgeo.tasks.Task, got {found!r}")
    return found
