"""The part of a graph that some nodes' outputs depend on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
import torch
from torch import Tensor, nn

from hgeo.data import Dataset

__all__ = ["View", "full_view", "khop_view", "view_for"]

# A view that is nearly the whole graph saves nothing. The rule looks at sizes, not at a clock: a choice made by timing
# would draw other dropout masks on a busy machine, and the same seed would give another result.
_WORTHWHILE = 0.7


@dataclass(frozen=True, eq=False)
class View:
    """A graph and features to feed to a model, and where in its output the wanted nodes are."""

    graph: Any
    features: Tensor
    rows: Tensor
    num_edges: int

    def logits(self, model: nn.Module) -> Tensor:
        """The model's output for the wanted nodes only."""
        output: Tensor = model(self.graph, self.features)
        return output[self.rows]


def full_view(dataset: Dataset, index: Tensor) -> View:
    """The whole graph."""
    return View(dataset.graph, dataset.features, index, dataset.num_edges)


def khop_view(dataset: Dataset, index: Tensor, hops: int) -> View:
    """The subgraph on all nodes within ``hops`` steps of ``index``.

    A node at distance j keeps all its neighbours while j < hops, so after layer l the nodes within hops − l steps are
    exact, and after ``hops`` layers the wanted ones are; unless a layer uses something of the whole graph, or the
    degrees of its sources, which the outermost nodes lack.
    """
    from hgeo.graph import as_graph

    source, destination = dataset.edge_index.cpu().numpy()
    adjacency = scipy.sparse.csr_matrix(
        (np.ones(len(source), dtype=np.int8), (destination, source)), shape=(dataset.num_nodes, dataset.num_nodes)
    )
    inside = np.zeros(dataset.num_nodes, dtype=bool)
    wanted = index.cpu().numpy()
    inside[wanted] = True
    for _ in range(hops):
        inside |= (adjacency.T @ inside.astype(np.int32)) > 0
    nodes = np.flatnonzero(inside)
    position = np.full(dataset.num_nodes, -1)
    position[nodes] = np.arange(len(nodes))
    keep = inside[source] & inside[destination]
    edges = torch.from_numpy(np.stack([position[source[keep]], position[destination[keep]]]))
    device = dataset.edge_index.device
    chosen = torch.from_numpy(nodes).to(device)
    return View(
        as_graph(edges.to(device), num_nodes=len(nodes)),
        _rows(dataset.features, chosen),
        torch.from_numpy(position[wanted]).to(device),
        edges.shape[1],
    )


@torch.no_grad()
def view_for(model: nn.Module, dataset: Dataset, index: Tensor) -> View:
    """The smallest view of ``index`` that gives this model's outputs exactly, or the full graph if that is no worse.

    A model says by ``hops`` how far its outputs look. Whether the view is exact is not guessed from the layers but
    asked of the model: its outputs on the view are compared with those on the full graph.
    """
    full = full_view(dataset, index)
    hops = getattr(model, "hops", None)
    if hops is None:
        return full
    view = khop_view(dataset, index, int(hops))
    if view.num_edges > _WORTHWHILE * full.num_edges:
        return full
    was_training = model.training
    model.eval()
    there, here = full.logits(model), view.logits(model)
    model.train(was_training)
    tolerance = 64 * torch.finfo(there.dtype).eps
    scale = there.abs().max().clamp(min=torch.finfo(there.dtype).tiny)
    return view if bool((there - here).abs().max() <= tolerance * scale) else full


def _rows(features: Tensor, nodes: Tensor) -> Tensor:
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
