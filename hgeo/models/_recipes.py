"""Recipes: settings of a model and of its training that are sensible before any search."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from hgeo.models._settings import TrainSettings

if TYPE_CHECKING:
    from hgeo.data import Dataset

__all__ = ["Maker", "Recipe", "Sizes", "recipes", "usual_training"]


class Sizes(NamedTuple):
    """What sensible settings may depend on: sizes, never which graph it is."""

    dim: int
    num_train: int = 0
    num_features: int | None = None

    @classmethod
    def of(cls, dataset: Dataset, dim: int) -> Sizes:
        """The sizes of a data set, and the dimension of the hidden space."""
        return cls(dim, len(dataset.train_idx), dataset.num_features)

    @property
    def wide(self) -> bool:
        return self.dim >= 8

    @property
    def plenty(self) -> bool:
        """Whether labels regularise by their number."""
        return self.num_train > 5000


class Recipe(NamedTuple):
    """How a model is made and trained."""

    settings: Any
    training: TrainSettings


Maker: TypeAlias = Callable[[Sizes], Recipe]


def recipes(
    settings: type,
    usual: Callable[[Sizes], Mapping[str, Any]] = lambda sizes: {},
    *,
    hierarchy: Mapping[str, Any] | None = None,
    training: Mapping[str, Any] | None = None,
) -> dict[str, Maker]:
    """The recipes of hgeo's own models.

    "usual": dropouts and training follow the sizes; ``usual`` says what a model sets beside them, ``training`` what it
    sets in training. "hierarchy", for labels that follow a tree and strong features: the same for all models, and of
    the settings tried the one that gave GAT its best validation accuracy on the built-in hierarchy; ``hierarchy`` says
    what a model sets beside it.
    """

    def make_usual(sizes: Sizes) -> Recipe:
        values = {**_known(_usual_drops(sizes), settings), **usual(sizes)}
        return Recipe(settings(**values), dataclasses.replace(usual_training(sizes), **(training or {})))

    def make_hierarchy(sizes: Sizes) -> Recipe:
        made = make_usual(sizes)
        values = {**_known({"feat_drop": 0.3, "hidden_drop": 0.0, "attn_drop": 0.3}, settings), **(hierarchy or {})}
        quick = dataclasses.replace(made.training, lr=0.03, weight_decay=5e-4, epochs=200, patience=50)
        return Recipe(dataclasses.replace(made.settings, **values), quick)

    return {"usual": make_usual, "hierarchy": make_hierarchy}


def usual_training(sizes: Sizes) -> TrainSettings:
    """How to train: wide layers slowly and with more decay, and without any where labels are plenty."""
    return TrainSettings(
        lr=0.01 if sizes.wide else 0.03,
        weight_decay=0.0 if sizes.plenty else 1e-3 if sizes.wide else 5e-4,
        epochs=400 if sizes.wide else 500,
    )


def _usual_drops(sizes: Sizes) -> dict[str, float]:
    """A narrow layer cannot afford to lose a coordinate, so hidden dropout grows with the dimension, and a wide one
    overfits a few labels, so feature dropout does too. Of few features eight are kept on average: distances between
    rows of one or two are noise."""
    feat_drop = 0.1 if sizes.plenty else 0.7 if sizes.wide else 0.5
    if sizes.num_features is not None:
        feat_drop = min(feat_drop, max(0.0, 1 - 8 / sizes.num_features))
    hidden_drop = 0.0 if not sizes.wide else 0.2 if sizes.plenty else 0.5
    return {"feat_drop": feat_drop, "hidden_drop": hidden_drop, "attn_drop": 0.3}


def _known(values: Mapping[str, Any], settings: type) -> dict[str, Any]:
    fields: tuple[Any, ...] = dataclasses.fields(settings)
    return {field.name: values[field.name] for field in fields if field.name in values}
