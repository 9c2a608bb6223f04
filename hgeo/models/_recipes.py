"""Recipes: settings of a model and of its training that are sensible before any search."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
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


class _Kind(NamedTuple):
    """What a recipe sets beside the usual: in a narrow hidden layer, and in a wide one."""

    narrow: Mapping[str, Any]
    wide: Mapping[str, Any]
    both: Mapping[str, Any]

    def of(self, sizes: Sizes) -> dict[str, Any]:
        return {**self.both, **(self.wide if sizes.wide else self.narrow)}


# Each of them is what a search of hours came to on some kind of graph. A model takes the settings that it has.
_KINDS = {
    # few labels, linked nodes alike: many steps along the edges, most features hidden in each epoch
    "walk": _Kind(
        {"feat_drop": 0.6, "hidden_drop": 0.0, "lr": 0.04},
        {"feat_drop": 0.8, "hidden_drop": 0.5, "lr": 0.025},
        {"attn_drop": 0.3, "weight_decay": 1.2e-3, "epochs": 300, "patience": 80},
    ),
    # the same where features say much: decay in place of dropout
    "decay": _Kind(
        {"hidden_drop": 0.0, "lr": 0.03},
        {"hidden_drop": 0.3, "lr": 0.0125},
        {"feat_drop": 0.2, "attn_drop": 0.6, "weight_decay": 4e-3, "epochs": 300, "patience": 80},
    ),
    # many links a node: little decay, quick steps, a linear read-out
    "dense": _Kind(
        {"feat_drop": 0.3},
        {"feat_drop": 0.6},
        {
            "hidden_drop": 0.0, "attn_drop": 0.3, "lr": 0.055, "weight_decay": 2e-4, "readout": "linear",
            "epochs": 200, "patience": 60,
        },
    ),
    # labels that follow a tree, and strong features
    "hierarchy": _Kind(
        {},
        {},
        {
            "feat_drop": 0.3, "hidden_drop": 0.0, "attn_drop": 0.3, "lr": 0.03, "weight_decay": 5e-4, "epochs": 200,
            "patience": 50,
        },
    ),
    # neighbours that differ, or say little: a node's own features count by themselves
    "own": _Kind(
        {"lr": 0.03, "hidden_drop": 0.0},
        {"lr": 0.01, "hidden_drop": 0.3},
        {
            "self_weight": True, "feat_drop": 0.4, "attn_drop": 0.3, "weight_decay": 2e-3, "epochs": 400,
            "patience": 80,
        },
    ),
    # many labels: three layers with skips, hardly any dropout
    "deep": _Kind(
        {},
        {},
        {
            "layers": 3, "residual": True, "self_weight": True, "readout": "linear", "feat_drop": 0.1,
            "hidden_drop": 0.1, "attn_drop": 0.1, "lr": 0.01, "weight_decay": 1e-4, "label_smoothing": 0.0,
            "epochs": 600, "patience": 100,
        },
    ),
}  # fmt: skip


def recipes(
    settings: type,
    usual: Callable[[Sizes], Mapping[str, Any]] = lambda sizes: {},
    *,
    training: Mapping[str, Any] | None = None,
    keeps: Sequence[str] = (),
    **kinds: Callable[[Sizes], Mapping[str, Any]],
) -> dict[str, Maker]:
    """The recipes of hgeo's own models.

    "usual": dropouts and training follow the sizes; ``usual`` says what a model sets beside them, ``training`` what it
    sets in training. The other six, for kinds of graphs, compete where nobody names one; ``kinds`` says what a model
    sets beside them, by their names, and ``keeps`` are settings that none of them changes. No recipe
    knows which graph it is for.
    """

    def make_usual(sizes: Sizes) -> Recipe:
        values = {**_known(_usual_drops(sizes), settings), **usual(sizes)}
        return Recipe(settings(**values), dataclasses.replace(usual_training(sizes), **(training or {})))

    def maker(name: str) -> Maker:
        def make(sizes: Sizes) -> Recipe:
            made, values = make_usual(sizes), _KINDS[name].of(sizes)
            more = kinds[name](sizes) if name in kinds else {}
            values["feat_drop"] = _most_drop(sizes, values["feat_drop"])
            own = {**_known({n: v for n, v in values.items() if n not in keeps}, settings), **more}
            trained = {**_known(values, TrainSettings), **(training or {})}
            return Recipe(dataclasses.replace(made.settings, **own), dataclasses.replace(made.training, **trained))

        return make

    return {"usual": make_usual, **{name: maker(name) for name in _KINDS}}


def usual_training(sizes: Sizes) -> TrainSettings:
    """How to train: wide layers slowly and with more decay, and without any where labels are plenty."""
    return TrainSettings(
        lr=0.01 if sizes.wide else 0.03,
        weight_decay=0.0 if sizes.plenty else 1e-3 if sizes.wide else 5e-4,
        epochs=400 if sizes.wide else 500,
    )


def _usual_drops(sizes: Sizes) -> dict[str, float]:
    """A narrow layer cannot afford to lose a coordinate, so hidden dropout grows with the dimension, and a wide one
    overfits a few labels, so feature dropout does too."""
    feat_drop = 0.1 if sizes.plenty else 0.7 if sizes.wide else 0.5
    feat_drop = _most_drop(sizes, feat_drop)
    hidden_drop = 0.0 if not sizes.wide else 0.2 if sizes.plenty else 0.5
    return {"feat_drop": feat_drop, "hidden_drop": hidden_drop, "attn_drop": 0.3}


def _most_drop(sizes: Sizes, wanted: float) -> float:
    """Of few features eight are kept on average: distances between rows of one or two are noise."""
    return wanted if sizes.num_features is None else min(wanted, max(0.0, 1 - 8 / sizes.num_features))


def _known(values: Mapping[str, Any], settings: type) -> dict[str, Any]:
    fields: tuple[Any, ...] = dataclasses.fields(settings)
    return {field.name: values[field.name] for field in fields if field.name in values}
