"""Shallow embeddings: a vector (or a point of the ball) a node from the edges alone, without features or labels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from hgeo import manifolds
from hgeo._dgl import import_dgl
from hgeo._geoopt import geoopt

if TYPE_CHECKING:
    from hgeo.data import Dataset

__all__ = ["LINE", "SHALLOW_METHODS", "DeepWalk", "Node2vec", "PoincareEmbedding", "ShallowEmbedding", "shallow"]

_WALKS = "a random walk"


class ShallowEmbedding:
    """What the shallow methods share: ``fit(dataset, seed)`` gives a row a node, a point of ``manifold``."""

    manifold: Any = geoopt.Euclidean(1)

    def fit(self, dataset: Dataset, *, seed: int = 0) -> Tensor:
        """Embed the nodes of ``dataset``; the same seed gives the same embedding."""
        raise NotImplementedError


@dataclass
class DeepWalk(ShallowEmbedding):
    """DeepWalk (Perozzi et al., 2014): skip-gram on uniform random walks. Walks by DGL, skip-gram by gensim.

    The defaults are the paper's: 40 walks of 80 nodes from every node, a window of 5.

    >>> from hgeo.data import load
    >>> DeepWalk(dim=2, walks=2, length=5).fit(load("karate"), seed=0).shape
    torch.Size([34, 2])
    """

    dim: int = 16
    walks: int = 40
    length: int = 80
    window: int = 5
    negative: int = 5
    epochs: int = 1

    def fit(self, dataset: Dataset, *, seed: int = 0) -> Tensor:
        from gensim.models import Word2Vec

        graph = _graph_to_walk(dataset, seed)
        corpus = _Walks(torch.cat([self._walk(graph) for _ in range(self.walks)]), seed)
        # one worker: with several, gensim's result depends on which of them comes first
        model = Word2Vec(
            corpus, vector_size=self.dim, window=self.window, sg=1, negative=self.negative, min_count=0,
            epochs=self.epochs, workers=1, seed=seed, sample=0,
        )  # fmt: skip
        return torch.stack([torch.from_numpy(model.wv[node].copy()) for node in range(dataset.num_nodes)])

    def _walk(self, graph: Any) -> Tensor:
        dgl = import_dgl(_WALKS)
        trace, _ = dgl.sampling.random_walk(graph, graph.nodes(), length=self.length - 1)
        return torch.as_tensor(trace)


class _Walks:
    """Walks as gensim reads them: again and again, in a shuffled order, lists of node ids."""

    def __init__(self, walks: Tensor, seed: int) -> None:
        order = torch.randperm(len(walks), generator=torch.Generator().manual_seed(seed))
        self.walks = walks[order]

    def __iter__(self) -> Iterator[list[int]]:
        for chunk in self.walks.split(4096):
            for walk in chunk.tolist():
                yield [node for node in walk if node >= 0]  # -1 pads a walk that met a dead end


@dataclass
class Node2vec(DeepWalk):
    """Node2vec (Grover and Leskovec, 2016): walks that return with weight 1/p and leave with weight 1/q."""

    p: float = 1.0
    q: float = 0.5

    def _walk(self, graph: Any) -> Tensor:
        dgl = import_dgl(_WALKS)
        # DGL's second-order walk cannot start where there is nowhere to go
        starts = graph.nodes()
        alone = graph.out_degrees() == 0
        trace = torch.full((len(starts), self.length), -1, dtype=starts.dtype)
        trace[:, 0] = starts
        if bool((~alone).any()):
            walked = dgl.sampling.node2vec_random_walk(graph, starts[~alone], self.p, self.q, self.length - 1)
            trace[~alone] = torch.as_tensor(walked)
        return trace


@dataclass
class LINE(ShallowEmbedding):
    r"""LINE (Tang et al., 2015). First order: σ(u_i·u_j) is high on edges; second: σ(u_i·v_j) with context vectors v.

    .. math:: -\log \sigma(u_i \cdot v_j) - \sum_{n=1}^{K} \log \sigma(-u_i \cdot v_n), \qquad
              P(n) \propto \deg_n^{3/4}
    """

    dim: int = 16
    order: int = 1
    negative: int = 5
    steps: int = 600
    batch: int = 8192
    lr: float = 0.02

    def __post_init__(self) -> None:
        if self.order not in (1, 2):
            raise ValueError(f"order is {self.order}, expected 1 or 2")

    def fit(self, dataset: Dataset, *, seed: int = 0) -> Tensor:
        generator = torch.Generator().manual_seed(seed)
        vectors = torch.randn(dataset.num_nodes, self.dim, generator=generator).mul_(self.dim**-0.5).requires_grad_()
        contexts = torch.zeros(dataset.num_nodes, self.dim).requires_grad_() if self.order == 2 else vectors
        optimizer = torch.optim.Adam([vectors, contexts] if self.order == 2 else [vectors], lr=self.lr)
        for source, destination, noise in _edge_batches(dataset, self.batch, self.negative, self.steps, generator):
            anchor = vectors[source]
            right = (anchor * contexts[destination]).sum(-1)
            wrong = (anchor.unsqueeze(1) * contexts[noise]).sum(-1)
            loss = -(F.logsigmoid(right) + F.logsigmoid(-wrong).sum(1)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return vectors.detach()


@dataclass
class PoincareEmbedding(ShallowEmbedding):
    r"""Poincaré embedding (Nickel and Kiela, 2017): related nodes near, others far, on the ball, by Riemannian Adam.

    .. math:: -\log \frac{e^{-d(x_i, x_j)}}{e^{-d(x_i, x_j)} + \sum_{n=1}^{K} e^{-d(x_i, x_n)}}

    A hierarchy is embedded from its transitive closure, in which ancestors are related. A graph has none; here a node
    is related to those that a random walk of up to ``window`` steps leads to.
    """

    dim: int = 16
    negative: int = 10
    steps: int = 600
    batch: int = 2048
    window: int = 5
    lr: float = 0.05
    c: float = 1.0

    def __post_init__(self) -> None:
        self.manifold = manifolds.PoincareBall(c=self.c)

    def fit(self, dataset: Dataset, *, seed: int = 0) -> Tensor:
        dgl = import_dgl(_WALKS)
        generator = torch.Generator().manual_seed(seed)
        graph = _graph_to_walk(dataset, seed)
        start = torch.randn(dataset.num_nodes, self.dim, generator=generator) * (0.1 * self.dim**-0.5)
        points = geoopt.ManifoldParameter(manifolds.exp0(self.manifold, start), manifold=self.manifold)
        optimizer = geoopt.optim.RiemannianAdam([points], lr=self.lr)
        schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.01, self.steps)
        for source, _, noise in _edge_batches(dataset, self.batch, self.negative, self.steps, generator):
            trace, _ = dgl.sampling.random_walk(graph, source, length=self.window)
            step = torch.randint(1, self.window + 1, (len(source), 1), generator=generator)
            reached = torch.as_tensor(trace).gather(1, step)
            elsewhere = reached.squeeze(1) != source
            source, others = source[elsewhere], torch.cat([reached, noise], dim=1)[elsewhere]
            table = points.as_subclass(Tensor)
            distance = manifolds.dist(self.manifold, table[source].unsqueeze(1), table[others])
            loss = F.cross_entropy(-distance, torch.zeros(len(source), dtype=torch.long))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        return points.detach().as_subclass(Tensor)


def _graph_to_walk(dataset: Dataset, seed: int) -> Any:
    """The bare DGLGraph, without features; DGL's walks start from ``seed``."""
    dgl = import_dgl(_WALKS)
    dgl.seed(seed)
    return dgl.graph(tuple(dataset.edge_index), num_nodes=dataset.num_nodes)


def _edge_batches(
    dataset: Dataset, batch: int, negative: int, steps: int, generator: torch.Generator
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Random edges, and for each ``negative`` nodes drawn with probability ∝ degree^¾."""
    source, destination = dataset.edge_index
    degree = torch.bincount(destination, minlength=dataset.num_nodes).float()
    noise = degree.pow(0.75)
    # inverse transform sampling on the cumulated weights is much quicker than torch.multinomial here
    ladder = torch.cumsum(noise / noise.sum(), 0)
    for _ in range(steps):
        chosen = torch.randint(len(source), (min(batch, len(source)),), generator=generator)
        draws = torch.rand(len(chosen), negative, generator=generator)
        fake = torch.searchsorted(ladder, draws).clamp(max=dataset.num_nodes - 1)
        yield source[chosen], destination[chosen], fake


#: names of the paper's shallow methods
SHALLOW_METHODS = ("deepwalk", "node2vec", "line-1st", "line-2nd", "poincare")


def shallow(name: str, dim: int, **options: Any) -> ShallowEmbedding:
    """The shallow method called ``name``.

    >>> shallow("line-2nd", 4).order
    2
    """
    makers: dict[str, Any] = {
        "deepwalk": DeepWalk,
        "node2vec": Node2vec,
        "line-1st": lambda **given: LINE(order=1, **given),
        "line-2nd": lambda **given: LINE(order=2, **given),
        "poincare": PoincareEmbedding,
    }
    if name not in makers:
        raise ValueError(f"no shallow embedding {name!r}; known: {', '.join(SHALLOW_METHODS)}")
    model: ShallowEmbedding = makers[name](dim=dim, **options)
    return model
