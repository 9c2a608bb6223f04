"""What an epoch goes through: the whole graph at once, or batches of examples with their neighbours."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from hgeo.data import Dataset
from hgeo.models import Round, TrainSettings
from hgeo.tasks import Batch, Epoch, Part, Task
from hgeo.train._neighbours import InMemory, Neighbours
from hgeo.train._parts import InParts, check_parts
from hgeo.train._team import Team, state_of
from hgeo.train._views import full_view, layered_view, view_for

__all__ = ["InBatches", "Source", "WholeGraph", "check_batches", "infer", "source_for"]

_NODES_AT_ONCE = 100_000  # destinations of a block of layer-wise inference


class Source(Protocol):
    """Where losses and outputs come from. The loop knows no more of graphs, batches and processes than this."""

    def losses(self, epoch: Epoch) -> Iterator[tuple[float, Tensor]]:
        """The loss of each step of an epoch, and its share in the epoch's; the loop steps before it takes the next."""

    def output(self, part: Part) -> Tensor:
        """The model's output for the nodes of a part, exact."""

    def probe(self) -> tuple[Any, Tensor]:
        """A graph and features on which to look at the model's layers."""


class WholeGraph:
    """All examples at once, on as much of the graph as their outputs depend on."""

    def __init__(self, model: nn.Module, task: Task) -> None:
        self._model, self._task = model, task
        self._train, self._val = (view_for(model, task.dataset, task.nodes(part)) for part in ("train", "val"))

    def losses(self, epoch: Epoch) -> Iterator[tuple[float, Tensor]]:
        seen = self._task.seen(epoch)
        view = self._train if seen is None else full_view(seen, self._task.nodes("train"))
        yield 1.0, self._task.loss(self._model, view.output(self._model), epoch)

    def output(self, part: Part) -> Tensor:
        view = self._val if part == "val" else full_view(self._task.dataset, self._task.nodes(part))
        return view.output(self._model)

    def probe(self) -> tuple[Any, Tensor]:
        return self._val.graph, self._val.features


class InBatches:
    """Batches of examples, each with a block a layer; several processes share out each batch.

    The same seed, epoch and process give the same batches, neighbours and dropout, whatever came before, so that a run
    that goes on from an epoch ends as if it had not stopped. Outputs are computed layer by layer over all nodes and all
    neighbours, and are exact.

    Where every layer sees all neighbours, a batch computes what the whole graph does: layers that divide by the mean
    radius of all nodes then compute all nodes. Where neighbours are sampled, such a layer divides by the mean of the
    nodes that it sees.
    """

    def __init__(self, model: nn.Module, task: Task, settings: TrainSettings, neighbours: Neighbours, team: Team):
        self._model, self._task, self._neighbours, self._team = model, task, neighbours, team
        self._size = settings.batch_size or 1
        self._rounds: tuple[Round, ...] = model.rounds  # type: ignore[assignment]
        self._fanouts = settings.fanouts or (-1,) * len(self._rounds)
        means = any(one.radii is not None for one in self._rounds)
        self._whole_layers = means and set(self._fanouts) == {-1} and task.dataset.parts is None
        self._stepped = team.wrapped(model)

    def losses(self, epoch: Epoch) -> Iterator[tuple[float, Tensor]]:
        count, own = self._task.num_examples or 0, self._team.rank
        order = torch.from_numpy(np.random.default_rng([epoch.seed, epoch.number, 0]).permutation(count))
        # Every process steps as often, each with its part of the batch.
        steps = min(math.ceil(count / self._size), count // self._team.size)
        parts = order.tensor_split(steps)
        seeds = np.random.SeedSequence([epoch.seed, epoch.number, 1, own]).generate_state(2)
        torch.manual_seed(int(seeds[0]))
        batches = [self._task.batch(self._team.share(part), epoch) for part in parts]
        drawn = self._drawn(batches, int(seeds[1]) >> 1)
        for part, batch, (graphs, x) in zip(parts, batches, drawn, strict=True):
            loss = batch.loss(self._model, self._stepped(graphs, x)[: len(batch.nodes)])
            # Gradients are averaged over the processes: each counts as often as it has examples.
            weight = len(self._team.share(part)) * self._team.size / len(part)
            yield len(part) / (self._team.size * count), loss if weight == 1 else weight * loss
        self._team.agree(f"the model after epoch {epoch.number}", *state_of(self._model))

    def _drawn(self, batches: Sequence[Batch], seed: int | None) -> Iterator[tuple[Any, Tensor]]:
        if self._whole_layers:
            for batch in batches:
                view = layered_view(self._seen(batch.hidden), batch.nodes, len(self._rounds), whole=True)
                yield view.graph, view.features
        elif not self._rounds:
            for batch in batches:
                yield None, self._neighbours.features(batch.nodes)
        else:
            wanted, hidden = [batch.nodes for batch in batches], [batch.hidden for batch in batches]
            for inputs, blocks in self._neighbours.draw(wanted, self._fanouts, seed, hidden):
                yield blocks, self._neighbours.features(inputs)

    def _seen(self, hidden: Tensor | None) -> Dataset:
        """The data without these edges."""
        dataset = self._task.dataset
        if hidden is None:
            return dataset
        keys, gone = (edges[1] * dataset.num_nodes + edges[0] for edges in (dataset.edge_index, hidden))
        return dataset.with_edges(dataset.edge_index[:, ~torch.isin(keys, gone)])

    def output(self, part: Part) -> Tensor:
        return infer(self._model, self._neighbours, self._task.nodes(part), self._team)

    def probe(self) -> tuple[Any, Tensor]:
        nodes = self._task.nodes("val")
        nodes = torch.arange(self._neighbours.num_nodes) if nodes is None else nodes
        return next(self._drawn([Batch(nodes[: self._size], lambda model, output: output)], 0))


@torch.no_grad()
def infer(
    model: nn.Module,
    neighbours: Neighbours,
    wanted: Tensor | None = None,
    team: Team | None = None,
    *,
    at_once: int = _NODES_AT_ONCE,
) -> Tensor:
    """The model's exact output for the ``wanted`` nodes (all), a row each: layer after layer, over all neighbours.

    Of one layer ``at_once`` nodes are computed together, and each process of a ``team`` computes its share of them;
    only a row a node is kept between layers. The model says by ``rounds`` what its layers are.

    >>> from hgeo.data import load
    >>> from hgeo.models import build
    >>> data = load("karate").to(dtype=torch.float64)
    >>> model = build("hat", data, "ball:4").double().eval()
    >>> by_layers = infer(model, InMemory(data), at_once=10)
    >>> torch.allclose(by_layers, model(data.graph, data.features), rtol=0, atol=1e-12)
    True
    """
    team = team or Team()
    rounds: tuple[Round, ...] = model.rounds  # type: ignore[assignment]
    nodes = torch.arange(neighbours.num_nodes)
    wanted = nodes if wanted is None else wanted.cpu()
    rows: Tensor | None = None

    def inputs(of: Tensor) -> Tensor:
        return neighbours.features(of) if rows is None else rows[of.to(rows.device)]

    if not rounds:
        return team.rows(torch.cat([model(None, inputs(part)) for part in _chunks(team.share(wanted), at_once)]))
    for number, one in enumerate(rounds):
        targets = wanted if number + 1 == len(rounds) else nodes
        told = {} if one.radii is None else {"mean_radius": _mean_radius(one, inputs, nodes, team, at_once)}
        own = _chunks(team.share(targets), at_once)
        drawn = zip(own, neighbours.draw(own, (-1,)), strict=True)
        parts = [one.run(blocks[0], inputs(sources), **told)[: len(part)] for part, (sources, blocks) in drawn]
        rows = team.rows(torch.cat(parts))
    assert rows is not None
    return rows


def _mean_radius(one: Round, inputs: Any, nodes: Tensor, team: Team, at_once: int) -> Tensor:
    """(heads,) the mean over all nodes; a row that is NaN does not count."""
    assert one.radii is not None
    found = [one.radii(inputs(part)) for part in _chunks(team.share(nodes), at_once)]
    sums = torch.stack([part.double().nansum(0) for part in found]).sum(0)
    counts = torch.stack([part.isnan().logical_not().sum(0) for part in found]).sum(0)
    total, count = team.rows(sums.unsqueeze(0)).sum(0), team.rows(counts.unsqueeze(0)).sum(0)
    return (total / count.clamp(min=1)).to(found[0].dtype)


def _chunks(nodes: Tensor, at_once: int) -> Sequence[Tensor]:
    return nodes.split(at_once)


def source_for(model: nn.Module, task: Task, settings: TrainSettings) -> Source:
    """What the settings ask for: the whole graph at once, or batches, shared by the processes that are there."""
    team = Team()
    check_batches(model, task, settings, team)
    if settings.batch_size is None:
        return WholeGraph(model, task)
    neighbours: Neighbours = InMemory(task.dataset) if task.dataset.parts is None else InParts(task.dataset, team)
    return InBatches(model, task, settings, neighbours, team)


def check_batches(model: nn.Module, task: Task, settings: TrainSettings, team: Team) -> None:
    """Refuse batches that do not fit the model, the task, or the data; every process must have the same data."""
    size, fanouts, count = settings.batch_size, settings.fanouts, task.num_examples
    if size is None:
        if fanouts is not None:
            raise ValueError(
                f"fanout is {settings.fanout!r}, but without batches all neighbours are seen; add batch_size"
            )
        if task.dataset.parts is not None:
            raise ValueError(f"{task.dataset.name} is in parts, which batches are drawn from; give batch_size")
        if team.size > 1:
            raise ValueError(f"{team.size} processes share out batches; give batch_size, the examples of a step")
        return
    if count is None:
        raise ValueError(f"{type(task).__name__} cannot be trained in batches: its loss needs all examples at once")
    if size > count:
        raise ValueError(f"batch_size is {size}, but there are {count} examples to train on; give at most that")
    if count < team.size:
        raise ValueError(f"{team.size} processes have {count} examples to train on; start at most that many")
    rounds = getattr(model, "rounds", None)
    if rounds is None:
        raise ValueError(
            f"{_named(model)} cannot be taken apart into layers, and so not be trained in batches: its last layer "
            "takes several steps, or it is a model of your own without an attribute rounds"
        )
    if fanouts is not None and len(fanouts) != len(rounds):
        layers = f"{len(rounds)} layer{'' if len(rounds) == 1 else 's'} that hear neighbours"
        raise ValueError(f"fanout {settings.fanout} has {len(fanouts)} number(s), but {_named(model)} has {layers}")
    check_same(task.dataset, team)
    check_parts(task.dataset, team)


def check_same(dataset: Dataset, team: Team) -> None:
    """Refuse processes with different data."""
    features = dataset.features
    parts = (features.crow_indices(), features.col_indices(), features.values()) if dataset.is_sparse else (features,)
    team.agree("the data", dataset.edge_index, dataset.labels, dataset.train_idx, dataset.val_idx, *parts)


def _named(model: nn.Module) -> str:
    return type(getattr(model, "network", model)).__name__
