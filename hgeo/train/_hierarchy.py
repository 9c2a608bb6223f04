"""Embedding a hierarchy: points such that what is above a node is near it, after Nickel and Kiela (2017)."""

from __future__ import annotations

import contextlib
import hashlib
import io
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from hgeo import manifolds
from hgeo._files import write_atomically
from hgeo.data import DataError, Pairs, check_unpacked
from hgeo.kernels import hierarchy as kernels
from hgeo.train._fit import TrainingError
from hgeo.train._folder import RunFolder
from hgeo.train._interrupt import deferred_interrupt
from hgeo.train._ranking import Ranking, count_nearer, ranking
from hgeo.train._schema import HierarchyCheckpoint, HierarchyConfig, checked

__all__ = [
    "HierarchyEmbedding",
    "HierarchySettings",
    "fit_hierarchy",
    "hierarchy_digest",
    "load_vectors",
    "usual_settings",
]

Array = np.ndarray[Any, Any]

_CHECKPOINT_SECONDS = 10.0
_NEAR_ORIGIN = 1e-3  # points begin at coordinates up to this
_FAMILIES = {"inner": "inner", "euclidean": "flat", "ball": "ball", "lorentz": "hyperboloid"}
_CONE_BATCH = 256  # pairs; the cones are differentiated by autograd, which has its price a call


@dataclass(frozen=True)
class HierarchySettings:
    """How :func:`fit_hierarchy` goes about it.

    Args:
        epochs: passes over the pairs.
        lr: learning rate; it falls linearly to 0.
        burn_in: epochs at a tenth of it, while points find their directions.
        negatives: uniform nodes, not known to be parents, that a parent is set against.
        batch: pairs whose gradients are added up before a step.
        temperature: distances are divided by it.
        loss: ``softmax`` (the parent among the negatives), or ``cones``: half of the epochs that, and half of them
            entailment cones (Ganea, Bécigneul and Hofmann, 2018), by autograd.
        largest_step: no row moves farther at once.
        seed: of the first points, the order of the pairs and the negatives.
    """

    epochs: int = 300
    lr: float = 0.1
    burn_in: int = 10
    negatives: int = 50
    batch: int = 16
    temperature: float = 0.4
    loss: str = "softmax"
    largest_step: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.loss not in ("softmax", "cones"):
            raise ValueError(f"the loss is 'softmax' or 'cones', got {self.loss!r}")
        for name in ("epochs", "lr", "negatives", "batch", "temperature", "largest_step"):
            value = getattr(self, name)
            if not (value > 0 and math.isfinite(value)):
                raise ValueError(f"{name} must be greater than 0, got {value}")
        if self.burn_in < 0 or self.seed < 0:
            raise ValueError(f"burn_in and seed are at least 0, got {self.burn_in} and {self.seed}")

    def rate(self, epoch: int) -> float:
        """The learning rate of an epoch."""
        return self.lr * (0.1 if epoch < self.burn_in else 1.0) * (1.0 - epoch / self.epochs)


#: what flat and inner-product embeddings of mammals took from a search where it differs from the defaults, which a
#: hyperbolic one took; products of vectors learn hidden pairs by heart if they are given the time
_USUAL: dict[tuple[str, bool], dict[str, Any]] = {
    ("inner", False): {"temperature": 1.0},
    ("inner", True): {"lr": 0.03, "temperature": 0.6, "negatives": 20, "epochs": 100},
    ("flat", False): {"temperature": 0.3},
    ("flat", True): {"temperature": 0.3, "epochs": 100},
}


def usual_settings(space: str, *, hidden: bool = False, **changes: Any) -> HierarchySettings:
    """The settings that an embedding in ``space`` does well with; to find ``hidden`` pairs, or all that are given.

    >>> usual_settings("inner:10", hidden=True, seed=3).epochs, usual_settings("lorentz:10").epochs
    (100, 300)
    """
    family = _Target.parse(space).family or ""
    return HierarchySettings(**{**_USUAL.get((family, hidden), {}), **changes})


class _Target(NamedTuple):
    """Where points live: the words for it, the kernels' word if they know it, the manifold, c, and a dimension."""

    text: str
    family: str | None
    manifold: Any
    c: float
    dim: int

    @property
    def inner(self) -> bool:
        return self.family == "inner"

    @staticmethod
    def parse(text: str) -> _Target:
        word = text.split(":")[0].strip()
        manifold, dim = manifolds.space(text.replace("inner", "euclidean", 1) if word == "inner" else text)
        if any(parameter.requires_grad for parameter in manifold.parameters()):
            raise ValueError(f"{text}: a hierarchy's space has a fixed curvature; leave out 'learn'")
        single = manifolds.factors(manifold) is None
        k = manifolds.curvature(manifold)
        family = _FAMILIES.get(word) if single and k is not None else None
        return _Target(text, family, manifold, 0.0 if k is None else max(0.0, -float(k)), dim)

    def distance(self, x: Tensor, y: Tensor) -> Tensor:
        return -(x * y).sum(-1) if self.inner else manifolds.dist(self.manifold, x, y)

    def energy(self, x: Tensor, y: Tensor) -> Tensor:
        """By how far x misses the cone of y; what y entails is told apart by a small share of the distance."""
        distance = manifolds.dist(self.manifold, x, y)
        return manifolds.cone_energy(self.manifold, y, x) + 1e-6 * distance / (1 + distance)


@dataclass(frozen=True, eq=False)
class HierarchyEmbedding:
    """Points (N, n), float64, of named nodes. ``space`` is a space string, or ``inner:10`` for plain vectors."""

    names: tuple[str, ...]
    points: Tensor
    space: str
    loss: str = "softmax"

    @property
    def manifold(self) -> Any:
        """Where the points lie."""
        return _Target.parse(self.space).manifold

    def nearest(self, name: str, k: int = 10) -> list[tuple[str, float]]:
        """The ``k`` nearest nodes and their distances (by inner products: the products, the largest first)."""
        target = _Target.parse(self.space)
        place = Pairs(self.names, np.empty((0, 2), dtype=np.int64)).place(name)
        distances = target.distance(self.points[place], self.points)
        distances[place] = math.inf
        order = distances.argsort(stable=True)[: min(k, len(self.names) - 1)].tolist()
        return [(self.names[other], float(distances[other]) * (-1.0 if target.inner else 1.0)) for other in order]

    def rank(self, wanted: Pairs, known: Pairs | None = None, *, threads: int | None = None) -> Ranking:
        """How high the wanted parents stand among all nodes, ``known`` parents left out of the list."""
        target = _Target.parse(self.space)
        points = self.points.numpy()
        if self.loss == "softmax" and target.family is not None and not kernels.available():
            index = np.empty((0, 2), dtype=np.int64) if known is None else known.index
            tables = [kernels.index_pairs(pairs[:, 0], pairs[:, 1], wanted.count) for pairs in (wanted.index, index)]
            threads = threads or torch.get_num_threads()
            return ranking(wanted, kernels.nearer(target.family, points, *tables, c=target.c, threads=threads))
        measure = target.energy if self.loss == "cones" else target.distance

        @torch.no_grad()
        def scores(block: Array) -> Array:
            found: Array = measure(self.points[block].unsqueeze(1), self.points.unsqueeze(0)).numpy()
            return found

        return ranking(wanted, count_nearer(scores, wanted, known))

    def save(self, path: str | Path) -> None:
        """Writes an ``.npz`` file with the arrays ``names``, ``points``, ``space`` and ``loss``."""
        content = io.BytesIO()
        arrays: dict[str, Any] = {
            "points": self.points.numpy(),
            "space": np.array(self.space),
            "loss": np.array(self.loss),
        }
        np.savez_compressed(content, names=np.array(self.names, dtype=np.str_), **arrays)
        write_atomically(Path(path), content.getvalue())


def load_vectors(path: str | Path) -> HierarchyEmbedding:
    """Reads what :meth:`HierarchyEmbedding.save` wrote, or another file with ``names``, ``points`` and ``space``."""
    path = Path(path).expanduser()
    try:
        check_unpacked(path)
        with np.load(path, allow_pickle=False) as file:
            missing = sorted({"names", "points", "space"} - set(file.files))
            if missing:
                raise DataError(f"{path} has no array {missing[0]!r}; it has {', '.join(sorted(file.files))}")
            names, points, space = [str(name) for name in file["names"]], file["points"], str(file["space"])
            loss = str(file["loss"]) if "loss" in file.files else "softmax"
    except (DataError, FileNotFoundError):
        raise
    except Exception as error:  # whatever numpy, zipfile and zlib raise of a damaged file
        raise DataError(f"{path} is no .npz file of vectors ({error})") from error
    twice = {name for name in names if names.count(name) > 1} if len(set(names)) < len(names) else set()
    if twice:
        raise DataError(f"{path}: the name {min(twice)!r} is there twice")
    if points.ndim != 2 or len(points) != len(names):
        raise DataError(f"{path}: {len(names)} names and points of shape {points.shape}; expected a row a name")
    return HierarchyEmbedding(tuple(names), torch.from_numpy(points.astype(np.float64)), space, loss)


def fit_hierarchy(
    pairs: Pairs,
    space: str = "lorentz:10",
    settings: HierarchySettings | None = None,
    *,
    folder: str | Path | None = None,
    resume: bool = False,
    threads: int | None = None,
    on_epoch: Callable[[dict[str, Any]], None] | None = None,
    **changes: Any,
) -> HierarchyEmbedding:
    r"""Embeds a hierarchy such that a parent is nearer to its child than other nodes are.

    .. math:: L = -\sum_{(u,v)} \log \frac{e^{-d(u,v)/T}}{e^{-d(u,v)/T} + \sum_{n \in N(u)} e^{-d(u,n)/T}}

    over the pairs of a child u and a parent v, with uniform negatives N(u) that are no known parents of u, by
    Riemannian stochastic gradient descent (Nickel and Kiela, 2017). One compiled pass over the pairs is an epoch; the
    result is the same for every number of threads. Without Numba, and on spaces other than ``ball``, ``lorentz`` and
    ``euclidean``, torch does the same, slowly.

    Args:
        pairs: from :func:`hgeo.data.read_pairs`, :func:`hgeo.data.read_wordnet` or :class:`hgeo.data.Pairs`.
        space: a space string, or ``inner:10``: vectors, and minus their products as distances.
        settings: what to do, :func:`usual_settings` unless given; ``changes`` replace single ones, as in
            ``fit_hierarchy(pairs, epochs=100)``.
        folder: a run folder, for checkpoints; with ``resume`` training goes on where it was, to the same bits. Ctrl-C
            and SIGTERM end the epoch, write a checkpoint and raise :class:`Interrupted`.
        threads: as many as torch has unless it is given.
        on_epoch: called with a dict of ``epoch``, ``loss``, ``lr`` after each epoch.

    >>> from hgeo.data import random_taxonomy
    >>> tree = random_taxonomy(nodes=30).closure()
    >>> embedding = fit_hierarchy(tree, "ball:2", epochs=5)
    >>> embedding.points.shape
    torch.Size([30, 2])
    """
    settings = replace(settings or usual_settings(space), **changes)
    target = _Target.parse(space)
    if pairs.count < 2 or not len(pairs.index):
        raise DataError(f"a hierarchy needs two nodes and a pair, got {pairs.count} and {len(pairs.index)}")
    if settings.loss == "cones" and not (target.c > 0 and manifolds.factors(target.manifold) is None):
        raise ValueError(f"{space}: entailment cones need a hyperbolic space, such as lorentz:10")
    run = None if folder is None else RunFolder(folder)
    points, begin = _begin(pairs, target, settings), 0
    if run is not None:
        points, begin = _from_folder(run, pairs, target, settings, points, resume)
    threads = threads or torch.get_num_threads()
    known = kernels.index_pairs(pairs.index[:, 0], pairs.index[:, 1], pairs.count)
    saved = time.monotonic()
    log = contextlib.nullcontext(None) if run is None else run.log(keep=begin)
    with log as append, deferred_interrupt() as asked:
        for epoch in range(begin, settings.epochs):
            points, loss = _epoch(target, points, pairs, known, settings, epoch, threads)
            if not math.isfinite(loss) or not np.isfinite(points).all():
                raise TrainingError(f"the loss is {loss} in epoch {epoch}; a smaller lr than {settings.lr:g} may help")
            row = {"epoch": epoch, "loss": loss, "lr": settings.rate(epoch)}
            if run is not None and append is not None:
                append(row)
                state = {"points": torch.from_numpy(points), "epoch": epoch + 1}
                if time.monotonic() - saved > _CHECKPOINT_SECONDS or epoch + 1 == settings.epochs:
                    run.write_checkpoint(state)
                    saved = time.monotonic()
            if on_epoch is not None:
                on_epoch(row)
            if run is not None and asked.signal is not None:  # while it was watched, too
                run.write_checkpoint(state)
            asked.obey()
    return HierarchyEmbedding(pairs.names, torch.from_numpy(points.copy()), space, settings.loss)


def hierarchy_digest(pairs: Pairs) -> str:
    """A word for exactly these names and pairs."""
    content = "\n".join(pairs.names).encode() + np.ascontiguousarray(pairs.index).tobytes()
    return hashlib.sha256(content).hexdigest()


def _begin(pairs: Pairs, target: _Target, settings: HierarchySettings) -> Array:
    """Points near the origin."""
    generator = np.random.default_rng([settings.seed, 1])
    coordinates = torch.from_numpy(generator.uniform(-_NEAR_ORIGIN, _NEAR_ORIGIN, (pairs.count, target.dim)))
    points: Array = manifolds.exp0(target.manifold, coordinates).detach().numpy().copy()
    return points


def _from_folder(
    run: RunFolder, pairs: Pairs, target: _Target, settings: HierarchySettings, points: Array, resume: bool
) -> tuple[Array, int]:
    """Where the run in a folder is; its configuration is written if it is a new one."""
    asked = HierarchyConfig(target.text, asdict(settings), hierarchy_digest(pairs))
    if not run.is_run:
        run.write_config(asked)
        return points, 0
    if not resume:
        raise ValueError(f"{run.path} already holds a run; go on with it by resume, or choose another folder")
    kept = run.config(HierarchyConfig)
    different = [name for name in asked.__struct_fields__ if getattr(kept, name) != getattr(asked, name)]
    if different:
        raise ValueError(f"the run in {run.path} had other {' and '.join(different)}; resume it with what it had")
    if not run.has_checkpoint:
        return points, 0
    state = checked(run.checkpoint(), HierarchyCheckpoint, f"the checkpoint in {run.path}")
    fits = state.points.shape == points.shape and state.points.dtype == torch.float64
    if not fits or state.epoch > settings.epochs:
        nodes, numbers = points.shape
        raise ValueError(
            f"the checkpoint in {run.path} does not fit: expected {nodes} points of {numbers} numbers after 0 to "
            f"{settings.epochs} epochs; delete its folder to begin anew"
        )
    return state.points.numpy(), state.epoch


def _epoch(
    target: _Target,
    points: Array,
    pairs: Pairs,
    known: tuple[Array, Array],
    settings: HierarchySettings,
    epoch: int,
    threads: int,
) -> tuple[Array, float]:
    generator = np.random.default_rng([settings.seed, 2, epoch])
    order = pairs.index[generator.permutation(len(pairs.index))]
    key = int(generator.integers(2**60))
    cones = settings.loss == "cones" and 2 * epoch >= settings.epochs
    common: dict[str, Any] = {
        "rate": settings.rate(epoch),
        "negatives": settings.negatives,
        "limit": settings.largest_step,
        "key": key,
    }
    sharpness = 1.0 / settings.temperature
    if target.family is not None and not cones and not kernels.available():
        points, losses = kernels.epoch(
            target.family,
            points,
            order,
            known,
            c=target.c,
            sharpness=sharpness,
            batch=settings.batch,
            threads=threads,
            **common,
        )
    else:
        loss = _cone_loss(target) if cones else _softmax_loss(target, sharpness)
        batch = _CONE_BATCH if cones else settings.batch
        points, losses = _torch_epoch(target, points, order, known, loss, batch=batch, **common)
    return points, float(losses.mean())


Loss = Callable[[Tensor, Tensor, Tensor], Tensor]


def _softmax_loss(target: _Target, sharpness: float) -> Loss:
    def loss(child: Tensor, others: Tensor, missing: Tensor) -> Tensor:
        logits = -sharpness * target.distance(child.unsqueeze(1), others)
        return -torch.log_softmax(logits.masked_fill(missing, -math.inf), dim=1)[:, 0]

    return loss


_CONE_MARGIN = 0.1


def _cone_loss(target: _Target) -> Loss:
    """The energy of the parent, and by how much that of each negative is less than the margin, their mean."""

    def loss(child: Tensor, others: Tensor, missing: Tensor) -> Tensor:
        energy = manifolds.cone_energy(target.manifold, others, child.unsqueeze(1))
        wrong = torch.relu(_CONE_MARGIN - energy[:, 1:]).masked_fill(missing[:, 1:], 0.0)
        return energy[:, 0] + wrong.sum(1)

    return loss


def _torch_epoch(
    target: _Target,
    points: Array,
    pairs: Array,
    known: tuple[Array, Array],
    loss: Loss,
    *,
    rate: float,
    negatives: int,
    batch: int,
    limit: float,
    key: int,
) -> tuple[Array, Array]:
    """What :func:`hgeo.kernels.hierarchy.epoch` does, with the same negatives, for any manifold and loss."""
    x = torch.from_numpy(points.copy())
    manifold, losses = target.manifold, []
    for begin in range(0, len(pairs), batch):
        child = pairs[begin : begin + batch, 0]
        first = key + np.arange(begin, begin + len(child)) * 4 * negatives
        drawn = kernels.draw(child, first, known, len(points), negatives)
        others = np.concatenate([pairs[begin : begin + batch, 1:], drawn], axis=1)
        missing = torch.from_numpy(others < 0)
        places = np.concatenate([child[:, None], np.where(others < 0, child[:, None], others)], axis=1)
        rows, where = np.unique(places, return_inverse=True)
        row = x[rows].requires_grad_()
        part = row[torch.from_numpy(where.reshape(places.shape))]
        value = loss(part[:, 0], part[:, 1:], missing)
        (gradient,) = torch.autograd.grad(value.sum(), row)
        losses.append(value.detach().numpy())
        with torch.no_grad():
            step = manifold.egrad2rgrad(row, gradient)
            length = manifold.norm(row, step, keepdim=True)
            step = step * torch.clamp(limit / length.clamp(min=1e-300), max=rate)
            x[rows] = manifolds.project(manifold, manifold.expmap(row, -step))
    return x.numpy(), np.concatenate(losses)
