"""What a model and its training are made of: one flat, hashable record."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

__all__ = ["GRAPH_METHODS", "Config", "defaults"]

#: methods that :func:`hgeo.models.build` makes from a graph with features
GRAPH_METHODS = ("hat", "hat-uniform", "hat-paper", "gcn", "gcn-diffused", "gat", "hgcn", "kappa-gcn", "mlp", "hnn")


@dataclass(frozen=True)
class Config:
    """Hyper-parameters of one training run. ``space`` is the hidden space, so its dimension is the paper's "dimension".

    ``beta`` is the sharpness of the first layer's attention, ``beta_out`` that of the second (None: the
    same); 0 is uniform attention. ``steps`` is how often the second layer's attention is walked along, and ``restart``
    the share of a node's own vector in each of several steps.
    The fields from ``c`` to ``restart`` describe the model, the others the training. A field that a method has no use
    for (β of a GCN, say) is ignored by it.
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
        if self.method not in GRAPH_METHODS:
            raise ValueError(f"method is {self.method!r}, expected one of {', '.join(GRAPH_METHODS)}")
        for name in ("feat_drop", "hidden_drop", "attn_drop", "label_smoothing", "restart"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise ValueError(f"{name} is {getattr(self, name)}, expected a number in [0, 1)")
        for name in ("dim", "epochs", "steps"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ValueError(f"{name} is {value!r}, expected a whole number from 1 on")

    @property
    def kind(self) -> str:
        """What the method is a form of: "hat" of "hat-paper" and "hat-uniform", "gcn" of "gcn-diffused"."""
        return self.method if self.method == "kappa-gcn" else self.method.partition("-")[0]

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


def defaults(method: str, dim: int, *, num_train: int = 0, num_features: int | None = None) -> Config:
    """Settings that are sensible before any search; they depend on sizes, never on which graph it is.

    A narrow layer cannot afford to lose a coordinate, so hidden dropout grows with the dimension, and a wide one
    overfits a few labels, so feature dropout does too. Thousands of labels (``num_train``) regularise by themselves.
    Of few features (``num_features``) eight are kept on average: distances between rows of one or two are noise.

    >>> defaults("hat", 2).hidden_drop
    0.0
    """
    wide = dim >= 8
    plenty = num_train > 5000
    feat_drop = 0.1 if plenty else 0.7 if wide else 0.5
    config = Config(
        method=method,
        dim=dim,
        feat_drop=feat_drop if num_features is None else min(feat_drop, max(0.0, 1 - 8 / num_features)),
        hidden_drop=0.0 if not wide else 0.2 if plenty else 0.5,
        attn_drop=0.3,
        lr=0.01 if wide else 0.03,
        weight_decay=0.0 if plenty else 1e-3 if wide else 5e-4,
        degree_norm=method in ("hat", "hat-uniform") and wide,
        epochs=400 if wide else 500,
    )
    if method == "hat-paper":
        # Eqs. (9)-(15) as printed: scores are minus the distance, the self-loop competes with distance 0, no bias, ELU
        # on the coordinates of the ball, plain cross entropy.
        return replace(
            config,
            beta=1.0,
            radius_norm=False,
            self_score="zero",
            degree_norm=False,
            activation_space="ball",
            bias=False,
            label_smoothing=0.0,
        )
    if method == "hat-uniform":
        return replace(config, beta=0.0)
    if method == "gcn-diffused":
        return replace(config, steps=4)
    return config
