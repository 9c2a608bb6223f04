"""The neighbours of some nodes, all of them or a sample, as DGL draws them from a graph in memory."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from hgeo._dgl import import_dgl
from hgeo.data import Dataset
from hgeo.graph import Graph, as_graph
from hgeo.train._views import take_rows

__all__ = ["Drawn", "InMemory", "Neighbours"]


class Drawn(NamedTuple):
    """A block a layer, and the nodes whose features the first of them reads."""

    inputs: Tensor
    blocks: list[Graph]


class Neighbours(Protocol):
    """Where a graph too large for one step lies, and what can be asked of it: in memory, or in parts on machines."""

    num_nodes: int
    num_features: int

    def draw(
        self,
        wanted: Sequence[Tensor],
        fanouts: Sequence[int],
        seed: int | None = None,
        hidden: Sequence[Tensor | None] | None = None,
    ) -> Iterator[Drawn]:
        """Blocks whose last one leads to each of the ``wanted`` sets of nodes; nodes keep their degrees in the whole.

        ``fanouts`` are neighbours a layer, -1: all. With a ``seed`` the same ones are drawn again. ``hidden`` are
        (2, M) edges, for each set of nodes, that the graph lacks for it, in degrees, too.
        """

    def features(self, nodes: Tensor) -> Tensor:
        """Their features."""


class InMemory:
    """A data set in memory, sampled by DGL's ``NeighborSampler`` and ``DataLoader``."""

    def __init__(self, dataset: Dataset) -> None:
        dgl = import_dgl("training in batches")
        self.num_nodes, self.num_features = dataset.num_nodes, dataset.num_features
        self._features = dataset.features
        source, destination = self._edge_index = dataset.edge_index.cpu()
        self._keys: Tensor | None = None
        self._graph = dgl.graph((source, destination), num_nodes=dataset.num_nodes).formats("csc")
        self._degrees = torch.bincount(destination, minlength=dataset.num_nodes) + 1  # a self-loop of every node

    def draw(
        self,
        wanted: Sequence[Tensor],
        fanouts: Sequence[int],
        seed: int | None = None,
        hidden: Sequence[Tensor | None] | None = None,
    ) -> Iterator[Drawn]:
        dgl = import_dgl("training in batches")
        if seed is not None:
            dgl.seed(seed)
        hidden = [None] * len(wanted) if hidden is None else hidden
        sets = _Sets((nodes.cpu(), self._numbers(edges)) for nodes, edges in zip(wanted, hidden, strict=True))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it would rather pin its threads to cores, which is for the user to say
            sampler = _Sampler(dgl.dataloading.NeighborSampler(list(fanouts)))
            loader = iter(dgl.dataloading.DataLoader(self._graph, sets, sampler))
        for edges, (inputs, _, blocks) in zip(hidden, loader, strict=True):
            degrees = self._degrees
            if edges is not None:
                degrees = degrees - torch.bincount(edges[1].cpu(), minlength=self.num_nodes)
            yield Drawn(inputs, [with_degrees(block, degrees, dgl.NID, self._features.device) for block in blocks])

    def _numbers(self, edges: Tensor | None) -> Tensor | None:
        """Which edges of the graph these are."""
        if edges is None:
            return None
        if self._keys is None:  # of edges in order
            source, destination = self._edge_index
            self._keys = destination * self.num_nodes + source
        return torch.searchsorted(self._keys, (edges[1] * self.num_nodes + edges[0]).cpu())

    def features(self, nodes: Tensor) -> Tensor:
        return take_rows(self._features, nodes.to(self._features.device))


class _Sets(list[tuple[Tensor, Tensor | None]]):
    """Sets of nodes, and edges hidden from them, as DGL's loader takes them: each is a batch."""

    device = torch.device("cpu")


class _Sampler:
    """DGL's, which leaves out what is hidden from a set of nodes."""

    def __init__(self, sampler: Any) -> None:
        self._sampler = sampler

    def sample(self, graph: Any, asked: tuple[Tensor, Tensor | None]) -> Any:
        nodes, hidden = asked
        return self._sampler.sample_blocks(graph, nodes, exclude_eids=hidden)


def with_degrees(block: Any, degrees: Tensor, ids: str, device: torch.device) -> Graph:
    """A block of DGL's whose nodes have the degrees of the whole graph."""
    into, out = degrees[block.dstdata[ids]], degrees[block.srcdata[ids]]
    return as_graph(block).with_degrees(into, out).to(device)
