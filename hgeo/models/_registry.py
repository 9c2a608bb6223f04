"""Models by name: what there is, and what the command line, tables and searches need to know of each."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from torch import nn

from hgeo import manifolds
from hgeo._geoopt import geoopt
from hgeo._near import near
from hgeo.models._recipes import Maker, Recipe, Sizes, usual_training
from hgeo.models._settings import TrainSettings, assign

__all__ = ["ModelEntry", "find", "names", "register"]

_Module = TypeVar("_Module", bound=type[nn.Module])


@dataclasses.dataclass(frozen=True)
class ModelEntry:
    """A model's name, its title in tables, its class and its settings' class, and its recipes by name.

    ``curved`` is whether it lives in the space asked for; one that is not lives in Euclidean space of that dimension.
    ``space`` is where it lives by default, with the dimension to be filled in. ``attends`` is whether its layers tell
    their attention. Fields of the settings that are ``fixed`` make the model what it is; ``searched`` are those that a
    search looks at (None: all that can be searched).
    """

    name: str
    label: str
    module: Callable[..., nn.Module]
    settings: type
    recipes: Mapping[str, Maker]
    curved: bool = True
    space: str = "ball:{dim}"
    attends: bool = False
    fixed: Sequence[str] = ()
    searched: Sequence[str] | None = None

    def recipe(self, sizes: Sizes, named: str = "usual") -> Recipe:
        """A recipe by its name."""
        return self.recipe_maker(named)(sizes)

    def recipe_maker(self, named: str) -> Maker:
        """What makes a recipe; a name that there is not is an error."""
        if named not in self.recipes:
            raise ValueError(f"{self.name} has no recipe {named!r}; it has {', '.join(self.recipes)}")
        return self.recipes[named]

    def change(self, recipe: Recipe, options: Mapping[str, Any]) -> Recipe:
        """The recipe with other values of single settings; one that neither model nor training has is an error."""
        groups = (self.name, recipe.settings, self.fixed), ("training", recipe.training, ())
        return Recipe(*assign(options, *groups))

    def space_for(self, text: str | None, dim: int = 16) -> str:
        """The space string of the hidden space: ``text``, or the default in ``dim`` dimensions; flat if it has to be.

        >>> find("gcn").space_for("ball:4"), find("kappa-gcn").space_for(None, 2)
        ('euclidean:4', 'stereo:2,k=learn')
        """
        given = self.space.format(dim=dim) if text is None else text
        return given if self.curved else f"euclidean:{manifolds.space(given).dim}"

    @property
    def takes_backend(self) -> bool:
        return "backend" in inspect.signature(self.module).parameters

    def build(
        self, in_dim: int, num_classes: int, space: str, settings: Any = None, *, backend: str = "auto"
    ) -> nn.Module:
        """A model with random weights; ``backend`` goes to a model that has one."""
        manifold, dim = manifolds.space(space)
        if not self.curved:
            manifold = geoopt.Euclidean(1)
        more = {"backend": backend} if self.takes_backend else {}
        own = self.settings() if settings is None else settings
        return self.module(in_dim, num_classes, manifold, dim=dim, settings=own, **more)


_ENTRIES: dict[str, ModelEntry] = {}


def register(
    name: str, *, label: str, recipes: Mapping[str, Maker] | None = None, **traits: Any
) -> Callable[[_Module], _Module]:
    """Decorates a class of models: from here on ``name`` is a model wherever hgeo asks for one.

    The class is a ``torch.nn.Module`` that is

    - made by ``Thing(in_dim, num_classes, manifold, dim=…, settings=…)``: numbers of features and classes, the hidden
      space and its dimension, and settings of the class ``Thing.Settings``, a frozen dataclass with a default for each
      field (:class:`hgeo.models.Settings` as its base checks values); ``backend=`` is optional;
    - called by ``model(graph, x)``, which gives ``num_classes`` numbers a node;
    - asked by ``model.embed(graph, x)`` for the hidden layer, a point of ``model.hidden_manifold`` a node.

    ``model.hops``, if it has it, says how many steps along the edges an output looks.

    Args:
        name: what ``--model`` calls it.
        label: its title in tables and pictures.
        recipes: names → functions of :class:`Sizes` that give a :class:`Recipe`. ``hgeo train`` takes the one called
            like the data set, else "usual", which without one is the defaults of the settings.
        traits: the other fields of :class:`ModelEntry`.
    """

    if not re.fullmatch(r"[-_.a-zA-Z0-9]+", name):
        raise ValueError(f"a model cannot be called {name!r}; letters, digits, '-', '_' and '.' make a name")

    def add(module: _Module) -> _Module:
        if name in _ENTRIES:
            raise ValueError(f"there is a model {name!r} already ({_ENTRIES[name].module}); choose another name")
        _ENTRIES[name] = _entry(name, label, module, recipes or {}, **traits)
        return module

    return add


def _entry(name: str, label: str, module: Any, recipes: Mapping[str, Maker], **traits: Any) -> ModelEntry:
    if not (isinstance(module, type) and issubclass(module, nn.Module)):
        raise TypeError(f"{name}: expected a class of torch.nn.Module, got {module!r}")
    settings = getattr(module, "Settings", None)
    if not (isinstance(settings, type) and dataclasses.is_dataclass(settings)):
        raise TypeError(f"{name}: {module.__name__} needs a frozen dataclass Settings, got {settings!r}")
    required = [
        field.name
        for field in dataclasses.fields(settings)
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    ]
    if required:
        raise TypeError(f"{name}: each field of {module.__name__}.Settings needs a default; {required[0]} has none")
    taken = {field.name for field in dataclasses.fields(TrainSettings)}
    double = [field.name for field in dataclasses.fields(settings) if field.name in taken]
    if double:
        raise TypeError(f"{name}: {double[0]} is a setting of training; {module.__name__}.Settings needs another name")
    missing = [method for method in ("embed", "forward") if not callable(getattr(module, method, None))]
    if missing:
        raise TypeError(f"{name}: {module.__name__} has no {missing[0]}(graph, x)")

    def usual(sizes: Sizes) -> Recipe:
        return Recipe(settings(), usual_training(sizes))

    return ModelEntry(name, label, module, settings, {"usual": usual, **recipes}, **traits)


def find(name: str) -> ModelEntry:
    """The model called ``name``, or ``package.module:Class`` for one that is not registered: its module is imported.

    >>> find("hat").label, find("torch.nn:Linear")
    Traceback (most recent call last):
    ValueError: torch.nn:Linear: Linear needs a frozen dataclass Settings, got None
    """
    if name in _ENTRIES:
        return _ENTRIES[name]
    module, colon, attribute = name.partition(":")
    if not colon:
        raise ValueError(
            f"no model {name!r}{near(name, _ENTRIES)}; known: {', '.join(_ENTRIES)}, or package.module:Class"
        )
    try:
        found = importlib.import_module(module)
    except ImportError as error:
        raise ValueError(f"model {name!r}: {module} cannot be imported ({error})") from error
    if not hasattr(found, attribute):
        raise ValueError(f"model {name!r}: {module} has no {attribute!r}")
    thing = getattr(found, attribute)
    known = next((entry for entry in _ENTRIES.values() if entry.module is thing), None)
    if known is not None:
        return known
    try:
        return _entry(name, attribute, thing, {})
    except TypeError as error:
        raise ValueError(str(error)) from error


def names(where: Callable[[ModelEntry], bool] = lambda entry: True) -> list[str]:
    """The registered models, in the order in which they came; those only ``where`` it is true.

    >>> names(lambda entry: entry.attends)
    ['hat', 'hat-uniform', 'hat-paper']
    """
    return [name for name, entry in _ENTRIES.items() if where(entry)]
