"""What the batched engine reads: settings of a model and of its training as one flat, hashable record.

The engine trains HAT, GCN and GAT by one program, so that it wants one record for all of them. Frozen configurations
and the hashes of cached cells have its form.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

from torch import nn

from hgeo.models import Recipe, Sizes, TrainSettings, build, find

if TYPE_CHECKING:
    from hgeo.data import Dataset

__all__ = ["Config", "build_flat", "defaults", "recipe_of"]


@dataclass(frozen=True)
class Config:
    """The model's name, the hidden space ``ball:{dim},c={c}``, the fields of its settings, and those of its training.

    A field that a model has not keeps its default, and is not looked at.
    """

    method: str = "hat"
    dim: int = 16
    c: float = 1.0
    beta: float = 0.3
    beta_out: float | None = None
    radius_norm: bool = True
    self_score: Literal["zero", "mean"] = "mean"
    degree_norm: bool = False
    activation: Literal["elu", "relu"] = "elu"
    activation_space: Literal["ball", "tangent"] = "tangent"
    bias: bool = True
    readout: Literal["log0", "linear"] = "log0"
    steps: int = 1
    restart: float = 0.1
    feat_drop: float = 0.6
    hidden_drop: float = 0.3
    attn_drop: float = 0.3
    lr: float = 0.02
    weight_decay: float = 5e-4
    label_smoothing: float = 0.1
    epochs: int = 400
    patience: int = 80

    def __post_init__(self) -> None:
        recipe_of(self)  # a value that a setting does not admit is an error now

    @property
    def kind(self) -> str:
        """What the method is a form of: "hat" of "hat-paper" and "hat-uniform", "gcn" of "gcn-diffused"."""
        return find(self.method).module.__name__.lower()

    @property
    def betas(self) -> tuple[float, float]:
        """Sharpness of the first and the second layer."""
        return self.beta, self.beta if self.beta_out is None else self.beta_out

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Config:
        """The record that :meth:`to_dict` wrote; an unknown name is an error."""
        known = {field.name for field in fields(cls)}
        unknown = sorted(set(values) - known)
        if unknown:
            raise ValueError(f"unknown setting {', '.join(unknown)}; known: {', '.join(sorted(known))}")
        return cls(**values)


def defaults(method: str, dim: int) -> Config:
    """What the model's usual recipe says where no more than the dimension is known.

    >>> defaults("hat", 2).hidden_drop
    0.0
    """
    settings, training = find(method).recipe(Sizes(dim))
    known = {field.name for field in fields(Config)}
    own = {name: value for name, value in [*vars(settings).items(), *vars(training).items()] if name in known}
    return Config(method=method, dim=dim, **own)


def recipe_of(config: Config) -> Recipe:
    """The settings of the model, and those of its training."""
    return Recipe(*(_taken(config, kind) for kind in (find(config.method).settings, TrainSettings)))


def build_flat(config: Config, dataset: Dataset) -> nn.Module:
    """The model that a record describes."""
    space = f"ball:{config.dim},c={config.c}"
    return build(config.method, dataset, space, settings=recipe_of(config).settings)


def _taken(config: Config, kind: type) -> Any:
    return kind(**{field.name: getattr(config, field.name) for field in fields(kind) if hasattr(config, field.name)})
