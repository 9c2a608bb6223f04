"""Shallow embeddings: a vector (or a point of the ball) a node from the edges alone, without features or labels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from hgeo import manifolds
from hgeo._dgl import import_dgl
from hgeo._geoopt import geoopt

if TYPE_CHECKING:
    from hgeo.data import Dataset
    from hgeo.models._pairs import Noise

__all__ = ["LINE", "SHALLOW_METHODS", "DeepWalk", "Node2vec", "PoincareEmbedding", "ShallowEmbedding", "shallow"]

_WALKS = "a random walk"
_LAST_LR = 1e-4  # word2vec's


class ShallowEmbedding:
    """What the shallow methods share: ``fit(dataset, seed)`` gives a row a node, a point of ``manifold``."""

    manifold: geoopt.Manifold = geoopt.Euclidean(1)

    def __post_init__(self) -> None:
        """All numbers of a method (sizes, counts, rates) are above 0."""
        for name, value in vars(self).items():
            if isinstance(value, int | float) and not value > 0:
                raise ValueError(f"{type(self).__name__}: {name} is {value}, expected a number above 0")

    def fit(self, dataset: Dataset, *, seed: int = 0) -> Tensor:
        """Embed the nodes of ``dataset``; the same seed gives the same embedding."""
        raise NotImplementedError


@dataclass
class DeepWalk(ShallowEmbedding):
    """DeepWalk (Perozzi et al., 2014): skip-gram on uniform random walks, which DGL draws.

    The defaults are the paper's: 40 walks of 80 nodes from every node, a window of 5. ``engine="gensim"`` takes the
    skip-gram of gensim, which does the same with other random numbers, ten times slower in so few dimensions.

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
    lr: float = 0.025
    engine: str = "compiled"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.engine not in ("compiled", "gensim"):
            raise ValueError(f"engine is {self.engine!r}, expected 'compiled' or 'gensim'")

    def fit(self, dataset: Dataset, *, seed: int = 0) -> Tensor:
        graph = _graph_to_walk(dataset, seed)
        generator = torch.Generator().manual_seed(seed)
        walks = torch.cat([self._walk(graph).int() for _ in range(self.walks)])
        walks = walks[torch.randperm(len(walks), generator=generator)]
        if self.engine == "gensim":
            return self._fit_gensim(walks, dataset.num_nodes, seed)
        from hgeo.models._pairs import Noise, Rows, contrast_walks

        # -1 pads a walk that met a dead end
        seen = torch.bincount(walks[walks >= 0], minlength=dataset.num_nodes).numpy()
        vectors = Rows((torch.rand(dataset.num_nodes, self.dim, generator=generator) * 2 - 1) / self.dim)
        contexts = Rows(torch.zeros(dataset.num_nodes, self.dim))
        contrast_walks(
            vectors, contexts, walks.numpy(), Noise(seen**0.75), window=self.window, negative=self.negative,
            epochs=self.epochs, lr=self.lr, last_lr=_LAST_LR, seed=seed,
        )  # fmt: skip
        return vectors.tensor()

    def _fit_gensim(self, walks: Tensor, nodes: int, seed: int) -> Tensor:
        from gensim.models import Word2Vec

        # one worker: with several, gensim's result depends on which of them comes first
        model = Word2Vec(
            _Sentences(walks), vector_size=self.dim, window=self.window, sg=1, negative=self.negative, min_count=0,
            epochs=self.epochs, workers=1, seed=seed, sample=0, alpha=self.lr, min_alpha=_LAST_LR,
        )  # fmt: skip
        return torch.stack([torch.from_numpy(model.wv[node].copy()) for node in range(nodes)])

    def _walk(self, graph: Any) -> Tensor:
        dgl = import_dgl(_WALKS)
        trace, _ = dgl.sampling.random_walk(graph, graph.nodes(), length=self.length - 1)
        return torch.as_tensor(trace)


class _Sentences:
    """Walks as gensim reads them: again and again, lists of node ids."""

    def __init__(self, walks: Tensor) -> None:
        self.walks = walks

    def __iter__(self) -> Iterator[list[int]]:
        for chunk in self.walks.split(4096):
            for walk in chunk.tolist():
                yield [node for node in walk if node >= 0]


@dataclass
class Node2vec(DeepWalk):
    """Node2vec (Grover and Leskovec, 2016): walks that return with weight 1/p and leave with weight 1/q."""

    p: float = 1.0
    q: float = 0.5

    def _walk(self, graph: Any) -> Tensor:
        dgl = import_dgl(_WALKS)
        # DGL's second-order walk fails where it starts at a node without edges
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

    Descended as its authors do: from a small start, an edge at a time, at a rate that falls from ``lr`` to nothing. A
    large start never goes away in the coordinates that a node's few edges do not decide.

    ``samples``: edges to draw; None: 16 million, or 100 times the number of edges where that is more.
    """

    dim: int = 16
    order: int = 1
    negative: int = 5
    samples: int | None = None
    lr: float = 0.025

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.order not in (1, 2):
            raise ValueError(f"order is {self.order}, expected 1 or 2")

    def fit(self, dataset: Dataset, *, seed: int = 0) -> Tensor:
        from hgeo.models._pairs import Rows, contrast_edges

        edges, noise = _edges_and_noise(dataset)
        generator = torch.Generator().manual_seed(seed)
        vectors = Rows((torch.rand(dataset.num_nodes, self.dim, generator=generator) - 0.5) / self.dim)
        contexts = Rows(torch.zeros(dataset.num_nodes, self.dim)) if self.order == 2 else vectors
        samples = max(16_000_000, 100 * edges.shape[1]) if self.samples is None else self.samples
        contrast_edges(
            vectors, contexts, edges, noise, samples=samples, negative=self.negative, lr=self.lr,
            last_lr=self.lr * 1e-4, seed=seed,
        )  # fmt: skip
        return vectors.tensor()


@dataclass
class PoincareEmbedding(ShallowEmbedding):
    r"""Poincaré embedding (Nickel and Kiela, 2017): related nodes near, others far, on the ball, by Riemannian SGD.

    .. math:: -\log \frac{e^{-d(x_i, x_j)}}{e^{-d(x_i, x_j)} + \sum_{n=1}^{K} e^{-d(x_i, x_n)}}

    A hierarchy is embedded from its transitive closure, in which ancestors are related. A graph has none; here a node
    is related to those that a random walk of up to ``window`` steps leads to. A step adds up the gradients of ``batch``
    pairs; None: a quarter of the number of nodes, so that few nodes are in more than a few of a step's pairs.
    """

    dim: int = 16
    negative: int = 5
    steps: int = 2400
    batch: int | None = None
    window: int = 10
    lr: float = 0.1
    c: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.manifold = manifolds.PoincareBall(c=self.c)

    def fit(self, dataset: Dataset, *, seed: int = 0) -> Tensor:
        from hgeo.models._pairs import Neighbours, poincare_gradient

        edges, noise = _edges_and_noise(dataset)
        graph = Neighbours(edges, dataset.num_nodes)
        batch = -(-dataset.num_nodes // 4) if self.batch is None else self.batch
        generator = torch.Generator().manual_seed(seed)
        start = torch.randn(dataset.num_nodes, self.dim, generator=generator) * (0.1 * self.dim**-0.5)
        points = geoopt.ManifoldParameter(manifolds.exp0(self.manifold, start), manifold=self.manifold)
        optimizer = geoopt.optim.RiemannianSGD([points], lr=self.lr)
        schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.01, self.steps)
        for step in range(self.steps):
            _, points.grad = poincare_gradient(
                points.as_subclass(Tensor), graph, noise, batch=batch, window=self.window, negative=self.negative,
                c=self.c, seed=(seed, step),
            )  # fmt: skip
            optimizer.step()
            schedule.step()
        return points.detach().as_subclass(Tensor)


def _graph_to_walk(dataset: Dataset, seed: int) -> Any:
    """The bare DGLGraph, without features; DGL's walks start from ``seed``."""
    dgl = import_dgl(_WALKS)
    dgl.seed(seed)
    return dgl.graph(tuple(dataset.edge_index), num_nodes=dataset.num_nodes)


def _edges_and_noise(dataset: Dataset) -> tuple[np.ndarray, Noise]:
    """The edges, and noise that draws nodes with probability ∝ degree^¾."""
    from hgeo.models._pairs import Noise

    edges = dataset.edge_index.int().numpy()
    return edges, Noise(np.bincount(edges[1], minlength=dataset.num_nodes) ** 0.75)


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
