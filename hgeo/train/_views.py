"""The part of a graph that some nodes' outputs depend on."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
import torch
from torch import Tensor, nn

from hgeo.data import Dataset

__all__ = ["View", "full_view", "khop_view", "layered_view", "take_rows", "view_for"]

# A view that is nearly the whole graph saves nothing. The rule looks at sizes, not at a clock: a choice made by timing
# would draw other dropout masks on a busy machine, and the same seed would give another result.
_WORTHWHILE = 0.7


@dataclass(frozen=True, eq=False)
class View:
    """A graph and features to feed to a model, and where in its output the wanted nodes are.

    ``graph`` may be a tuple, a graph a layer; ``num_edges`` is then their mean. ``rows`` None: all of it, as it comes.
    """

    graph: Any
    features: Tensor
    rows: Tensor | None
    num_edges: int

    def output(self, model: nn.Module) -> Tensor:
        """The model's output for the wanted nodes only."""
        output: Tensor = model(self.graph, self.features)
        return output if self.rows is None else output.index_select(0, self.rows)


def full_view(dataset: Dataset, index: Tensor | None) -> View:
    """The whole graph; of all nodes where there is no ``index``."""
    return View(dataset.graph, dataset.features, index, dataset.num_edges)


def khop_view(dataset: Dataset, index: Tensor, hops: int) -> View:
    """The subgraph on all nodes within ``hops`` steps of ``index``.

    A node at distance j keeps all its neighbours while j < hops, so after layer l the nodes within hops − l steps are
    exact, and after ``hops`` layers the wanted ones are; unless a layer uses something of the whole graph, or the
    degrees of its sources, which the outermost nodes lack.
    """
    from hgeo.graph import as_graph

    source, destination = dataset.edge_index.cpu().numpy()
    wanted = index.cpu().numpy()
    inside = _distances(dataset, wanted, hops) <= hops
    nodes = np.flatnonzero(inside)
    position = np.full(dataset.num_nodes, -1)
    position[nodes] = np.arange(len(nodes))
    keep = inside[source] & inside[destination]
    edges = torch.from_numpy(np.stack([position[source[keep]], position[destination[keep]]]))
    device = dataset.edge_index.device
    chosen = torch.from_numpy(nodes).to(device)
    return View(
        as_graph(edges.to(device), num_nodes=len(nodes)),
        take_rows(dataset.features, chosen),
        torch.from_numpy(position[wanted]).to(device),
        edges.shape[1],
    )


def layered_view(dataset: Dataset, index: Tensor, layers: int, *, whole: bool) -> View:
    """A graph a layer: the edges into the nodes whose output the next layer reads, and of the last into ``index``.

    Nodes are renamed so that those which are read longest come first; they keep the degrees that they have in the whole
    graph. With ``whole`` all layers but the last compute all nodes, for models that use something of all of them (the
    mean radius of HAT, say); without it, layer l computes the nodes within ``layers`` − l steps.
    """
    from hgeo.graph import Graph, leading_block

    wanted = index.cpu().numpy()
    distance = _distances(dataset, wanted, layers)
    order = np.argsort(distance, kind="stable")
    in_order = len(wanted) == np.count_nonzero(distance == 0)  # no node is wanted twice
    if in_order:
        order[: len(wanted)] = wanted
    position = np.empty_like(order)
    position[order] = np.arange(len(order))
    device = dataset.edge_index.device
    source, destination = torch.from_numpy(position).to(device)[dataset.edge_index]
    renamed = Graph(source, destination, num_src=dataset.num_nodes)
    within = np.cumsum(np.bincount(distance, minlength=layers + 2))  # how many nodes lie within so many steps
    sizes = [int(within[layers - layer]) for layer in range(layers + 1)]
    if whole:
        sizes[:-1] = [dataset.num_nodes] * layers
    graphs = [
        renamed if (of, to) == (dataset.num_nodes,) * 2 else leading_block(renamed, to, of)
        for of, to in itertools.pairwise(sizes)
    ]
    return View(
        tuple(graphs),
        take_rows(dataset.features, torch.from_numpy(order[: sizes[0]]).to(device)),
        None if in_order else torch.from_numpy(position[wanted]).to(device),
        sum(graph.num_edges for graph in graphs) // layers,
    )


def _distances(dataset: Dataset, wanted: np.ndarray, most: int) -> np.ndarray:
    """How many steps against the edges lead from the wanted nodes to each node; ``most`` + 1 where more would be."""
    source, destination = dataset.edge_index.cpu().numpy()
    adjacency = scipy.sparse.csr_matrix(
        (np.ones(len(source), dtype=np.int8), (destination, source)), shape=(dataset.num_nodes, dataset.num_nodes)
    )
    inside = np.zeros(dataset.num_nodes, dtype=bool)
    inside[wanted] = True
    distance = np.where(inside, 0, most + 1)
    for step in range(1, most + 1):
        inside |= (adjacency.T @ inside.astype(np.int32)) > 0
        distance = np.minimum(distance, np.where(inside, step, most + 1))
    return distance


@torch.no_grad()
def view_for(model: nn.Module, dataset: Dataset, index: Tensor | None) -> View:
    """The smallest view of ``index`` that gives this model's outputs exactly, or the full graph if that is no worse.

    A model says by ``hops`` how far its outputs look, and by ``rounds`` that it takes a graph a layer. Whether a
    view is exact is not guessed from the layers but asked of the model: its outputs on the view are compared with those
    on the full graph.
    """
    full = full_view(dataset, index)
    hops = getattr(model, "hops", None)
    if hops is None or index is None:
        return full
    candidates: Iterator[View]
    rounds = getattr(model, "rounds", None)
    if rounds:
        candidates = (layered_view(dataset, index, len(rounds), whole=whole) for whole in (False, True))
    else:
        candidates = (khop_view(dataset, index, int(hops)) for _ in range(1))
    was_training = model.training
    model.eval()
    there = full.output(model)
    tolerance = 64 * torch.finfo(there.dtype).eps * there.abs().max().clamp(min=torch.finfo(there.dtype).tiny)
    for view in candidates:
        small = view.num_edges <= _WORTHWHILE * full.num_edges
        if small and bool((there - view.output(model)).abs().max() <= tolerance):
            break
    else:
        view = full
    model.train(was_training)
    return view


def take_rows(features: Tensor, nodes: Tensor) -> Tensor:
    if features.layout != torch.sparse_csr:
        return features[nodes]
    start, width = features.crow_indices(), features.crow_indices().diff()
    length = width[nodes]
    crow = torch.cat([length.new_zeros(1), length.cumsum(0)])
    # position of every kept entry: its row's start in the old matrix plus its place in the row
    place = torch.arange(int(crow[-1]), device=nodes.device) - crow[:-1].repeat_interleave(length)
    entry = start[nodes].repeat_interleave(length) + place
    return torch.sparse_csr_tensor(
        crow,
        features.col_indices()[entry],
        features.values()[entry],
        size=(len(nodes), features.shape[1]),
        check_invariants=False,
    )
