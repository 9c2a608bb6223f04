"""A model by its name, with sensible settings for a data set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import nn

from hgeo import manifolds
from hgeo.models._recipes import Recipe, Sizes
from hgeo.models._registry import find
from hgeo.models._settings import assign

if TYPE_CHECKING:
    from hgeo.data import Dataset

__all__ = ["build", "recipe"]


def recipe(name: str, dataset: Dataset, space: str | None = None, *, named: str = "usual", **options: Any) -> Recipe:
    """The settings of the model called ``name`` and of its training, for ``dataset`` and a hidden ``space``.

    ``named`` chooses a recipe of the model; ``options`` changes single settings, of either kind. An option that the
    model has not is an error.

    >>> from hgeo.data import load
    >>> made = recipe("hat", load("karate"), "ball:2", beta=0.5, epochs=20)
    >>> made.settings.beta, made.training.epochs, made.training.lr
    (0.5, 20, 0.03)
    """
    entry = find(name)
    sizes = Sizes.of(dataset, manifolds.space(entry.space_for(space)).dim)
    return entry.change(entry.recipe(sizes, named), options)


def build(
    name: str,
    dataset: Dataset,
    space: str | None = None,
    *,
    settings: Any = None,
    out_dim: int | None = None,
    backend: str = "auto",
    **options: Any,
) -> nn.Module:
    """The model called ``name`` for ``dataset``, with its hidden layer in ``space``.

    ``settings`` are those of the model (default: what :func:`recipe` says), ``options`` changes single ones of them;
    ``backend`` goes to the layers that have one. The model gives ``out_dim`` numbers a node (default: one a class).
    Euclidean models read the dimension of ``space`` only.

    >>> from hgeo.data import load
    >>> model = build("hat", load("karate"), "ball:2", beta=0.5)
    >>> model.hidden_manifold, model.settings.beta
    (PoincareBall(c=1) manifold, 0.5)
    """
    entry = find(name)
    chosen = entry.space_for(space)
    if settings is None:
        settings = recipe(name, dataset, chosen).settings
    (settings,) = assign(options, (entry.name, settings, entry.fixed))
    numbers = dataset.num_classes if out_dim is None else out_dim
    return entry.build(dataset.num_features, numbers, chosen, settings, backend=backend)
