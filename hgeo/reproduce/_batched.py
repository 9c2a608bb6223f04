"""Many runs of a two-layer graph network at once: the engine under ``hgeo tune`` and ``hgeo reproduce``.

The mathematics is that of :class:`hgeo.models.HAT`, :class:`~hgeo.models.GCN` and :class:`~hgeo.models.GAT`; the layout
is that of :mod:`hgeo.reproduce._lanes`: runs are lanes, and every hyper-parameter that is a number is a number *a run*,
so one batch holds many seeds of many trials. Three things make it fast, none of which changes a result (but for
``radius_norm``, whose mean is over the nodes of a view here, and over all nodes in the public model):

- features stay sparse, and a view of the graph reads its rows in place;
- a training step computes the neighbourhood that the outputs of the training nodes depend on (2 hops, more if the
  second layer walks several steps), the early-stopping check that of the validation nodes (test nodes are evaluated
  once, with the chosen parameters, and only if asked for);
- a run that has stopped leaves the batch.

Hyperbolic points are kept as tangent vectors at the origin, where the layer's linear map, its aggregation and its bias
live; the ball is entered for the distances (and for ``activation_space="ball"``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse
import torch
import torch.nn.functional as F
from torch import Tensor

from hgeo.reproduce._flat import Config
from hgeo.reproduce._lanes import (
    LANES,
    Block,
    SparseRows,
    adam_step,
    aggregate,
    dropout,
    edge_add,
    edge_softmax,
    edge_weighted_sqdist,
    keys_for,
    label_leads,
    lane_matmul,
    replace_self_scores,
    row_norm,
    row_scale,
    sparse_matmul,
)

if TYPE_CHECKING:
    from hgeo.data import Dataset

__all__ = [
    "BATCHED_METHODS",
    "Run",
    "RunResult",
    "View",
    "Views",
    "batched_forward",
    "evaluate_view",
    "init_parameters",
    "train_batch",
    "train_runs",
]

#: methods the engine knows
BATCHED_METHODS = ("hat", "hat-uniform", "hat-paper", "gcn", "gcn-diffused", "gat")

# atanh of the largest radius that a float32 point keeps: √c|x| ≤ 1 − 4·eps
_MAX_RADIUS = math.atanh(1.0 - 4.0 * float(torch.finfo(torch.float32).eps))


class Needs(NamedTuple):
    """What a two-layer network must compute for some nodes: two blocks and the rows of the features they read.

    The blocks' destinations are their first sources, and the wanted nodes are the first of all.
    """

    outer: Block
    inner: Block
    rows: SparseRows


class View:
    """Some nodes of a graph, and what must be computed for them by networks that look so many steps far."""

    def __init__(self, nodes: np.ndarray, find: Callable[[np.ndarray, int], Needs]) -> None:
        self.nodes = nodes
        self._find = find
        self._found: dict[int, Needs] = {}

    def needs(self, steps: int = 1) -> Needs:
        """For a second layer that walks ``steps`` steps along its edges; made once."""
        if steps not in self._found:
            self._found[steps] = self._find(self.nodes, steps)
        return self._found[steps]


class Run(NamedTuple):
    """One run of a batch: what to train, from which seed, on which of the splits that :class:`Views` was given."""

    config: Config
    seed: int
    split: int = 0


class Views:
    """The views of one graph, made when first asked for; of several splits of its nodes if several are given.

    A view covers the nodes of all splits, and ``train_share``, ``val_share`` (splits, nodes of the view) say which of
    them count for a split, and how much: 1/(their number).
    """

    def __init__(self, dataset: Dataset, *others: Dataset) -> None:
        n = dataset.num_nodes
        source, destination = (ends.numpy() for ends in dataset.edge_index)
        loops = np.arange(n)
        source = np.concatenate([source, loops])
        destination = np.concatenate([destination, loops])
        order = np.lexsort((source, destination))
        self._src = source[order]
        self._indptr = np.concatenate([[0], np.cumsum(np.bincount(destination, minlength=n))])
        features = dataset.features
        if features.layout == torch.strided:
            matrix = scipy.sparse.csr_matrix(features.numpy())
            parts = (matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64), matrix.data)
        else:
            parts = (features.crow_indices().numpy(), features.col_indices().numpy(), features.values().numpy())
        self._features = parts
        self.num_features = int(dataset.num_features)
        self.num_classes = int(dataset.num_classes)
        self.labels = dataset.labels
        self._splits = [(split.train_idx.numpy(), split.val_idx.numpy()) for split in (dataset, *others)]
        self._num_nodes = n

    @cached_property
    def train(self) -> View:
        return self._view(np.unique(np.concatenate([train for train, _ in self._splits])))

    @cached_property
    def val(self) -> View:
        return self._view(np.unique(np.concatenate([val for _, val in self._splits])))

    @cached_property
    def full(self) -> View:
        return self._view(np.arange(self._num_nodes))

    @cached_property
    def train_share(self) -> Tensor:
        return _shares(self.train.nodes, [train for train, _ in self._splits])

    @cached_property
    def val_share(self) -> Tensor:
        return _shares(self.val.nodes, [val for _, val in self._splits])

    def _block(self, destinations: np.ndarray) -> tuple[Block, np.ndarray]:
        """The block into ``destinations`` and the global ids of its sources, destinations first."""
        starts, ends = self._indptr[destinations], self._indptr[destinations + 1]
        indptr = np.concatenate([[0], np.cumsum(ends - starts)]).astype(np.int64)
        edges = np.concatenate([np.arange(a, b) for a, b in zip(starts, ends, strict=True)])
        others = np.setdiff1d(self._src[edges], destinations)
        nodes = np.concatenate([destinations, others])
        local = np.full(len(self._indptr) - 1, -1, dtype=np.int64)
        local[nodes] = np.arange(len(nodes))
        src = local[self._src[edges]]
        owner = np.repeat(np.arange(len(destinations)), np.diff(indptr))
        self_edge = np.flatnonzero(src == owner)
        degree = torch.from_numpy(np.diff(self._indptr)).float()
        block = Block(indptr, src, self_edge, len(nodes), degree[nodes], degree[destinations])
        return block, nodes

    def _view(self, nodes: np.ndarray) -> View:
        return View(nodes, self._needs)

    def _needs(self, nodes: np.ndarray, steps: int) -> Needs:
        # The outer block serves all steps: after step t the nodes within steps − t hops of the wanted ones are exact.
        for _ in range(steps - 1):
            nodes = self._block(nodes)[1]
        outer, hidden = self._block(nodes)
        inner, rows = self._block(hidden)
        indptr, indices, values = self._features
        return Needs(outer, inner, SparseRows(indptr, indices, values, rows, self.num_features))


def _shares(nodes: np.ndarray, parts: Sequence[np.ndarray]) -> Tensor:
    return torch.stack([torch.from_numpy(np.isin(nodes, part) / len(part)).float() for part in parts])


# ---------------------------------------------------------------------------------------------------------------------
# Lanes: (runs, …) ↔ (groups, …, LANES)


def _pack(x: Tensor) -> Tensor:
    """(runs, …) → (groups, …, LANES); the last group is filled up with copies of the last run."""
    groups = -(-len(x) // LANES)
    padded = torch.cat([x, x[-1:].expand(groups * LANES - len(x), *x.shape[1:])])
    return padded.view(groups, LANES, *x.shape[1:]).movedim(1, -1).contiguous()


def _unpack(x: Tensor, runs: int) -> Tensor:
    """(groups, …, LANES) → (runs, …)."""
    return x.movedim(-1, 1).reshape(x.shape[0] * LANES, *x.shape[1:-1])[:runs]


@dataclass(frozen=True)
class _Knobs:
    """The hyper-parameters of a batch, a number a run, ``(groups, LANES)`` each; and what all runs share."""

    shared: Config
    seeds: np.ndarray
    values: dict[str, Tensor] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Tensor:
        try:
            return self.values[name]
        except KeyError:
            raise AttributeError(name) from None


# Runs of one batch may differ in these and must agree in all other fields.
_PER_RUN: dict[str, Callable[[Config], float]] = {
    "root_c": lambda config: max(config.c, 1e-6) ** 0.5,
    "beta1": lambda config: config.betas[0],
    "beta2": lambda config: config.betas[1],
    "radius_norm": lambda config: float(config.radius_norm),
    "self_mean": lambda config: float(config.self_score == "mean"),
    "degree_norm": lambda config: float(config.degree_norm or config.kind == "gcn"),
    "feat_drop": lambda config: config.feat_drop,
    "hidden_drop": lambda config: config.hidden_drop,
    "attn_drop": lambda config: config.attn_drop,
    "restart": lambda config: config.restart,
    "lr": lambda config: config.lr,
    "weight_decay": lambda config: config.weight_decay,
    "label_smoothing": lambda config: config.label_smoothing,
}


def _steps(config: Config) -> int:
    """How often the second layer walks; a GAT has no use for the setting."""
    return 1 if config.kind == "gat" else config.steps


def _family(config: Config) -> tuple[Any, ...]:
    """What runs must agree in to share a batch."""
    structure = (config.activation, config.activation_space, config.bias, config.readout, _steps(config))
    return (config.kind, config.dim, *structure)


def _knobs(runs: Sequence[Run], dtype: torch.dtype) -> _Knobs:
    unknown = sorted({run.config.method for run in runs} - set(BATCHED_METHODS))
    if unknown:
        raise ValueError(f"the batched engine does not know {', '.join(unknown)}; known: {', '.join(BATCHED_METHODS)}")
    families = {_family(run.config) for run in runs}
    if len(families) != 1:
        raise ValueError(f"runs of one batch must share method, dim and structure, got {sorted(map(str, families))}")
    values = {
        name: _pack(torch.tensor([read(run.config) for run in runs], dtype=dtype)) for name, read in _PER_RUN.items()
    }
    seeds = _pack(torch.tensor([run.seed for run in runs])).numpy()
    return _Knobs(runs[0].config, seeds, values)


def init_parameters(config: Config, seed: int, num_features: int, num_classes: int) -> dict[str, Tensor]:
    """The parameters of one run before its first step, from its seed alone.

    Weights are Glorot-uniform (for GAT Glorot-normal with gain √2, as DGL's layer has it), biases zero.
    """
    generator = torch.Generator().manual_seed(seed)
    out_dim = config.dim if config.readout == "linear" else num_classes
    gat = config.kind == "gat"

    def glorot(*shape: int) -> Tensor:
        weight = torch.empty(*shape)
        if gat:
            return torch.nn.init.xavier_normal_(weight, gain=math.sqrt(2.0), generator=generator)
        return torch.nn.init.xavier_uniform_(weight, generator=generator)

    parameters = {"weight1": glorot(num_features, config.dim), "weight2": glorot(config.dim, out_dim)}
    if gat:
        for layer, width in ((1, config.dim), (2, out_dim)):
            parameters[f"attn_src{layer}"] = glorot(1, width)[0]
            parameters[f"attn_dst{layer}"] = glorot(1, width)[0]
    if config.bias:
        parameters["bias1"] = torch.zeros(config.dim)
        parameters["bias2"] = torch.zeros(out_dim)
    if config.readout == "linear":
        parameters["weight3"] = glorot(config.dim, num_classes)
        parameters["bias3"] = torch.zeros(num_classes)
    return parameters


# ---------------------------------------------------------------------------------------------------------------------
# The networks, in lanes


def _clip(u: Tensor, limit: Tensor) -> Tensor:
    """What the projection onto the ball does to tangent vectors: their lengths end at ``limit``."""
    radius = row_norm(u)
    if not bool((radius > limit).any()):
        return u
    return row_scale(u, torch.where(radius > limit, limit / radius.clamp(min=1e-12), 1.0))


def _tanh_ratio(t: Tensor) -> Tensor:
    """tanh(t)/t, 1 at 0."""
    return torch.where(t > 1e-3, torch.tanh(t) / t.clamp(min=1e-3), 1.0 - t * t / 3.0)


class _BallFactors(torch.autograd.Function):
    """tanh(t)/t and cosh²t, in few passes."""

    @staticmethod
    def forward(ctx: Any, t: Tensor) -> tuple[Tensor, Tensor]:
        small = t.clamp(min=1e-3)
        tanh = torch.tanh(small)
        ratio, square = tanh / small, torch.cosh(t).square_()
        ctx.save_for_backward(small, tanh, ratio, square)
        return ratio, square

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        small, tanh, ratio, square = ctx.saved_tensors
        slope = (square.reciprocal() - ratio).div_(small)
        return grads[0] * slope + grads[1] * (2.0 * square * tanh)


class _HalfDistance(torch.autograd.Function):
    """asinh(√z), by log1p, which torch computes in vectors; its slope is ½/√(z(1+z)), and is cut off at z = 1e-12."""

    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        z = z.clamp(min=1e-12)
        root, other = z.sqrt(), (z + 1.0).sqrt_()
        ctx.save_for_backward(root, other)
        return z.div_(other + 1.0).add_(root).log1p_()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        root, other = ctx.saved_tensors
        return (root * other).reciprocal_().mul_(grads[0]).mul_(0.5)


def _distance_scores(u: Tensor, beta: Tensor, block: Block, knobs: _Knobs) -> Tensor:
    """−β·d_c(exp0(u_i), exp0(u_j)) per edge, with the options ``radius_norm`` and ``self_score``.

    With t = √c|u|: exp0(u) = tanh(t)/t·u and 1 − c|x|² = 1/cosh²t, so
    sinh²(√c d/2) = c |x_i − x_j|² cosh²t_i cosh²t_j, without a cancellation.
    """
    root_c = knobs.root_c.unsqueeze(1)
    radius = row_norm(u)
    mean = radius.mean(1, keepdim=True).clamp(min=1e-12)
    scale = torch.where(knobs.radius_norm.unsqueeze(1) > 0, 1.0 / mean, 1.0)
    t = radius * (scale * root_c)
    if bool((t > _MAX_RADIUS).any()):
        factor = torch.where(t > _MAX_RADIUS, _MAX_RADIUS / t.clamp(min=1e-12), 1.0)
        t, scale = t * factor, scale * factor
    ratio, square_cosh = _BallFactors.apply(t)
    z = edge_weighted_sqdist(row_scale(u, ratio * scale), square_cosh * root_c, block)
    scores = _HalfDistance.apply(z) * (-2.0 * beta.unsqueeze(1) / root_c)
    return replace_self_scores(scores, knobs.self_mean, block)


def _attend(
    u: Tensor, weights: Tensor, block: Block, knobs: _Knobs, drop: Callable[[Tensor, int], Tensor], steps: int
) -> Tensor:
    """Σ_j w_ij u_j; with degree normalisation Σ_j w_ij √(deg_i/deg_j) u_j, which for uniform w is a GCN's sum.

    In several steps z ← (1 − a) Σ_j w_ij z_j + a u_i, from z = u, each with a dropout of its own.
    """
    if bool((knobs.degree_norm > 0).any()):
        weights = weights * _cached(knobs, block, "degree", _degree_factors)
    if steps == 1:
        return aggregate(u, drop(weights, 0), block)
    share = knobs.restart.view(-1, 1, 1, LANES)
    own, far = share * u[:, : block.num_dst], u[:, block.num_dst :]
    z = u
    for number in range(steps):
        if number:
            z = torch.cat([z, far], 1)
        z = own + (1 - share) * aggregate(z, drop(weights, number), block)
    return z


def _cached(knobs: _Knobs, block: Block, name: str, make: Callable[[Block, _Knobs], Tensor]) -> Tensor:
    """Edge constants of a batch, made once for each block."""
    key = f"{name}@{id(block)}"
    if key not in knobs.values:
        knobs.values[key] = make(block, knobs)
    return knobs.values[key]


def _degree_factors(block: Block, knobs: _Knobs) -> Tensor:
    counts = torch.from_numpy(np.diff(block.indptr))
    ratio = torch.repeat_interleave(block.dst_degree, counts) / block.src_degree[torch.from_numpy(block.src)]
    return ratio.view(1, -1, 1).pow(0.5 * knobs.degree_norm.unsqueeze(1)).contiguous()


def _uniform(block: Block, knobs: _Knobs) -> Tensor:
    share = torch.repeat_interleave(1.0 / block.dst_degree, torch.from_numpy(np.diff(block.indptr)))
    return share.view(1, -1, 1).expand(len(knobs.seeds), -1, LANES).contiguous()


def _layer(u: Tensor, block: Block, p: dict[str, Tensor], number: int, knobs: _Knobs, step: int | None) -> Tensor:
    """One layer after its linear map, before its activation; ``step=None`` is evaluation."""
    kind = knobs.shared.kind
    if kind == "gat":
        to = lane_matmul(u[:, : block.num_dst], p[f"attn_dst{number}"].unsqueeze(2)).squeeze(2)
        of = lane_matmul(u, p[f"attn_src{number}"].unsqueeze(2)).squeeze(2)
        weights = edge_softmax(F.leaky_relu(edge_add(to, of, block), 0.2), block)
    elif kind == "gcn":
        weights = _cached(knobs, block, "uniform", _uniform)
    else:
        beta = knobs.beta1 if number == 1 else knobs.beta2
        if bool((beta > 0).any()):
            weights = edge_softmax(_distance_scores(u, beta, block, knobs), block)
        else:
            weights = _cached(knobs, block, "uniform", _uniform)

    def drop(weights: Tensor, walked: int) -> Tensor:
        if step is None:
            return weights
        return dropout(weights, knobs.attn_drop, keys_for(knobs.seeds, step, 1 + number + walked))

    out = _attend(u, weights, block, knobs, drop, _steps(knobs.shared) if number == 2 else 1)
    if knobs.shared.bias:
        out = out + p[f"bias{number}"].unsqueeze(1)
    is_readout = number == 2 and knobs.shared.readout == "log0"  # read as numbers, not kept as points
    return out if kind != "hat" or is_readout else _clip(out, (_MAX_RADIUS / knobs.root_c).unsqueeze(1))


def _activate(u: Tensor, knobs: _Knobs) -> Tensor:
    config = knobs.shared
    act = F.elu if config.activation == "elu" else F.relu
    if config.kind != "hat" or config.activation_space == "tangent":
        return act(u)
    root_c = knobs.root_c.unsqueeze(1)
    x = act(row_scale(u, _tanh_ratio(root_c * row_norm(u))))
    s = (root_c * row_norm(x)).clamp(max=1.0 - 4.0 * torch.finfo(x.dtype).eps)
    return row_scale(x, torch.where(s > 1e-3, torch.atanh(s) / s.clamp(min=1e-3), 1.0 + s * s / 3.0))


def batched_forward(p: dict[str, Tensor], view: View, knobs: _Knobs, step: int | None = None) -> tuple[Tensor, Tensor]:
    """Hidden tangent vectors and logits of a view's nodes, in lanes; ``step=None`` switches dropout off."""
    keys = None if step is None else keys_for(knobs.seeds, step, 0)
    needs = view.needs(_steps(knobs.shared))
    u = sparse_matmul(needs.rows, p["weight1"], knobs.feat_drop, keys)
    hidden = _activate(_layer(u, needs.inner, p, 1, knobs, step), knobs)
    u = hidden if step is None else dropout(hidden, knobs.hidden_drop, keys_for(knobs.seeds, step, 1))
    out = _layer(lane_matmul(u, p["weight2"]), needs.outer, p, 2, knobs, step)[:, : len(view.nodes)]
    if knobs.shared.readout == "linear":
        out = lane_matmul(_activate(out, knobs), p["weight3"]) + p["bias3"].unsqueeze(1)
    return hidden, out


# ---------------------------------------------------------------------------------------------------------------------
# Training


@dataclass(frozen=True)
class RunResult:
    """What one run reached. ``logits`` and ``hidden`` (tangent vectors), if asked for, have a row a node of a view."""

    config: Config
    seed: int
    split: int
    val_accuracy: float
    val_loss: float
    best_epoch: int
    epochs: int
    parameters: dict[str, Tensor]
    logits: Tensor | None = None
    hidden: Tensor | None = None


def _losses(logits: Tensor, target: Tensor, share: Tensor, smoothing: Tensor | None) -> Tensor:
    """Cross entropy a run, (groups, LANES); ``share`` (groups, nodes, LANES) is a node's part in the run's mean."""
    logp = F.log_softmax(logits, 2)
    index = target.view(1, -1, 1, 1).expand(logits.shape[0], -1, 1, LANES)
    loss = -(share * logp.gather(2, index).squeeze(2)).sum(1)
    if smoothing is None:
        return loss
    return (1 - smoothing) * loss - smoothing * (share * logp.mean(2)).sum(1)


def train_batch(
    views: Views,
    given: Sequence[Run | tuple[Config, int]],
    *,
    evaluate: View | None = None,
    eval_every: int = 1,
    on_epoch: Callable[[int, int], None] | None = None,
) -> list[RunResult]:
    """Train all runs, :class:`Run` or (config, seed), together and return their results in the same order.

    A run keeps the parameters of its best validation accuracy (ties: lower loss) and stops when neither the accuracy
    nor the loss has improved for ``patience`` epochs. ``evaluate`` adds the logits and the hidden layer of the nodes of
    a view; unless that is ``views.full``, no test node is ever looked at.
    """
    dtype = torch.float32
    runs = [Run(*run) for run in given]
    active = list(range(len(runs)))
    knobs = _knobs(runs, dtype)
    initial = [init_parameters(config, seed, views.num_features, views.num_classes) for config, seed, _ in runs]
    names = list(initial[0])
    params = {name: _pack(torch.stack([start[name] for start in initial])) for name in names}
    moments = {name: (torch.zeros_like(p), torch.zeros_like(p)) for name, p in params.items()}
    train_y = views.labels[torch.from_numpy(views.train.nodes)]
    val_y = views.labels[torch.from_numpy(views.val.nodes)]
    train_share, val_share = _run_shares(views, runs)

    best = [(-1.0, -math.inf)] * len(runs)
    lowest = [math.inf] * len(runs)
    best_epoch, last_epoch, waited = [0] * len(runs), [0] * len(runs), [0] * len(runs)
    stopped = [False] * len(runs)
    kept: list[dict[str, Tensor]] = [dict(start) for start in initial]

    epoch = 0
    while active:
        epoch += 1
        for p in params.values():
            p.requires_grad_(True)
        _, logits = batched_forward(params, views.train, knobs, step=epoch)
        grads = torch.autograd.grad(
            _losses(logits, train_y, train_share, knobs.label_smoothing).sum(), list(params.values())
        )
        lr, decay = knobs.lr.numpy(), knobs.weight_decay.numpy()
        with torch.no_grad():
            for (name, p), grad in zip(params.items(), grads, strict=True):
                p.requires_grad_(False)
                first, second = moments[name]
                flat = (p.shape[0], -1, LANES)
                adam_step(
                    p.view(flat).numpy(), grad.contiguous().view(flat).numpy(), first.view(flat).numpy(),
                    second.view(flat).numpy(), lr, decay, epoch,
                )  # fmt: skip
            if epoch % eval_every and epoch != 1:
                continue
            _, logits = batched_forward(params, views.val, knobs)
            losses = _unpack(_losses(logits, val_y, val_share, None), len(active)).tolist()
            # whole numbers, then a quotient: ties are ties, whichever nodes are hit
            counted = (val_share > 0).to(dtype)
            hits = (counted * label_leads(logits, val_y)).sum(1) / counted.sum(1)
            accuracies = _unpack(hits, len(active)).tolist()
        for lane, run in enumerate(active):
            if stopped[run]:  # it rides along until a whole group of lanes is free
                continue
            loss, accuracy, config = losses[lane], accuracies[lane], runs[run].config
            waited[run] += eval_every
            if loss < lowest[run]:
                lowest[run], waited[run] = loss, 0
            if (accuracy, -loss) > best[run]:
                best[run], best_epoch[run], waited[run] = (accuracy, -loss), epoch, 0
                group, place = divmod(lane, LANES)
                kept[run] = {name: p[group, ..., place].clone() for name, p in params.items()}
            stopped[run] = waited[run] >= config.patience or epoch >= config.epochs or not math.isfinite(loss)
            last_epoch[run] = epoch
        still = [lane for lane, run in enumerate(active) if not stopped[run]]
        if on_epoch is not None:
            on_epoch(epoch, len(still))
        if -(-len(still) // LANES) < -(-len(active) // LANES):
            size, index = len(active), torch.tensor(still, dtype=torch.long)
            active = [active[lane] for lane in still]
            if active:
                remaining = [runs[run] for run in active]
                knobs = _knobs(remaining, dtype)
                train_share, val_share = _run_shares(views, remaining)
                params = {name: _pack(_unpack(p, size)[index]) for name, p in params.items()}
                moments = {
                    name: (_pack(_unpack(a, size)[index]), _pack(_unpack(b, size)[index]))
                    for name, (a, b) in moments.items()
                }

    outputs: list[tuple[Tensor | None, Tensor | None]] = [(None, None)] * len(runs)
    if evaluate is not None:
        outputs = list(evaluate_view(evaluate, runs, kept))
    return [
        RunResult(
            config=config,
            seed=seed,
            split=split,
            val_accuracy=best[run][0],
            val_loss=-best[run][1],
            best_epoch=best_epoch[run],
            epochs=last_epoch[run],
            parameters=kept[run],
            hidden=outputs[run][0],
            logits=outputs[run][1],
        )
        for run, (config, seed, split) in enumerate(runs)
    ]


def train_runs(views: Views, runs: Sequence[Run], **options: Any) -> list[RunResult]:
    """:func:`train_batch` for runs of any structure: those that can share a batch do. Results in the same order."""
    families: dict[Any, list[int]] = {}
    for place, run in enumerate(runs):
        families.setdefault(_family(run.config), []).append(place)
    results: dict[int, RunResult] = {}
    for places in families.values():
        results |= zip(places, train_batch(views, [runs[place] for place in places], **options), strict=True)
    return [results[place] for place in range(len(runs))]


def _run_shares(views: Views, runs: Sequence[Run]) -> tuple[Tensor, Tensor]:
    splits = torch.tensor([run.split for run in runs])
    return _pack(views.train_share[splits]), _pack(views.val_share[splits])


def evaluate_view(
    view: View, runs: Sequence[Run], parameters: Sequence[dict[str, Tensor]]
) -> Iterator[tuple[Tensor, Tensor]]:
    """Hidden tangent vectors and logits of the view's nodes, run by run, for trained parameters."""
    for start in range(0, len(runs), LANES):
        some = runs[start : start + LANES]
        chosen = parameters[start : start + LANES]
        packed = {name: _pack(torch.stack([p[name] for p in chosen])) for name in chosen[0]}
        with torch.no_grad():
            hidden, logits = batched_forward(packed, view, _knobs(some, chosen[0]["weight1"].dtype))
        # a block's destinations are its first sources, so the view's nodes are the first hidden ones
        yield from zip(_unpack(hidden[:, : len(view.nodes)], len(some)), _unpack(logits, len(some)), strict=True)
