"""A model by its name."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

from torch import nn

from hgeo import manifolds
from hgeo.models._config import GRAPH_METHODS, Config, defaults
from hgeo.models._euclidean import GAT, GCN, HNN, MLP
from hgeo.models._hat import HAT, HGCN, KappaGCN

if TYPE_CHECKING:
    from hgeo.data import Dataset

__all__ = ["build"]

# κ-GCN learns the sign of its curvature; all others start from the paper's ball.
_SPACES = {"kappa-gcn": "stereo:16,k=learn"}

# Fields of Config that are said in another way.
_BY_SPACE = {
    "method": "the method is the model's name",
    "dim": "the dimension is that of the space, such as ball:16",
    "c": "the curvature is that of the space, such as ball:16,c=0.5",
}


def build(
    name: str, dataset: Dataset, space: str | None = None, *, config: Config | None = None, **options: Any
) -> Any:
    """The model called ``name`` for ``dataset``, with its hidden layer in ``space``.

    ``config`` (default: :func:`hgeo.models.defaults`) decides the rest, and ``options`` overrides single fields of it;
    ``backend=`` goes to the layers that have one. Euclidean models read the dimension of ``space`` only.

    >>> from hgeo.data import load
    >>> model = build("hat", load("karate"), "ball:2", beta=0.5)
    >>> model.hidden_manifold, model.config.beta
    (PoincareBall(c=1) manifold, 0.5)
    """
    if name not in GRAPH_METHODS:
        raise ValueError(f"no model {name!r}; known: {', '.join(GRAPH_METHODS)}")
    given = space or _SPACES.get(name, "ball:16" if config is None else f"ball:{config.dim},c={config.c}")
    manifold, dim = manifolds.space(given)
    backend = options.pop("backend", "auto")
    known = [field.name for field in fields(Config) if field.name not in _BY_SPACE]
    unknown = sorted(set(options) - set(known))
    if unknown:
        elsewhere = "".join(f"; {_BY_SPACE[option]}" for option in unknown if option in _BY_SPACE)
        raise ValueError(f"no setting {', '.join(unknown)}{elsewhere}; the settings are {', '.join(known)}")
    for option, value in options.items():
        _check_kind(option, value)
    if name == "hat-uniform" and any(options.get(sharpness) for sharpness in ("beta", "beta_out")):
        raise ValueError("hat-uniform is HAT with its attention switched off, so its beta is 0; for another take hat")
    if config is None:
        config = defaults(name, dim, num_train=len(dataset.train_idx), num_features=dataset.num_features)
    config = replace(config, method=name, dim=dim, **options)
    _check_training(config)
    in_dim, classes = dataset.num_features, dataset.num_classes
    model: nn.Module
    if name.startswith("hat"):
        model = HAT(in_dim, classes, manifold, config=config, backend=backend)
    elif name in ("hgcn", "kappa-gcn"):
        kind = HGCN if name == "hgcn" else KappaGCN
        model = kind(in_dim, classes, manifold, config=config, backend=backend)
    elif name == "hnn":
        model = HNN(in_dim, classes, manifold, config=config)
    else:
        model = {"gcn": GCN, "gat": GAT, "mlp": MLP}[config.kind](in_dim, classes, config=config)
    return model


def _check_training(config: Config) -> None:
    """Settings with which a model would be built but could not learn."""
    if not 0 < config.lr < math.inf:
        raise ValueError(f"lr is {config.lr}, expected a number above 0")
    if not 0 <= config.weight_decay < math.inf:
        raise ValueError(f"weight_decay is {config.weight_decay}, expected a number from 0 on")
    if config.patience < 1:
        raise ValueError(f"patience is {config.patience}, expected a whole number from 1 on")


def _check_kind(option: str, value: Any) -> None:
    """A setting has the type that :class:`Config` declares; an int does for a float, a bool for neither."""
    declared = get_type_hints(Config)[option]
    if get_origin(declared) is Literal:
        fits, expected = value in get_args(declared), " or ".join(map(repr, get_args(declared)))
    else:
        kinds = get_args(declared) or (declared,)
        fits = any(type(value) is kind or (kind is float and type(value) is int) for kind in kinds)
        expected = " or ".join("None" if kind is type(None) else kind.__name__ for kind in kinds)
    if not fits:
        raise ValueError(f"{option} is {value!r}, expected {expected}")
