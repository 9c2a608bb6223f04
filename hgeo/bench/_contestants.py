"""What ``hgeo bench`` compares: one graph attention layer, by everyone who has one."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hgeo._dgl import import_dgl

__all__ = ["BASELINE", "SIZES", "Case", "available", "choose", "make", "too_large"]

BASELINE = "DGL GATConv"
_NEEDED_FOR = "hgeo bench, which measures against DGL's GATConv,"

# name: (nodes, edges without self-loops). The first three have the degrees of Cora, Amazon Photo and ogbn-arxiv.
SIZES = {
    "13k": (2_708, 10_556),
    "245k": (7_650, 238_162),
    "2.5M": (169_343, 2_332_486),
    "10M": (400_000, 9_600_000),
}

# edge coordinates (edges · heads · d) above which a layer that makes E×d tensors would need several gigabytes
_LARGEST_PER_EDGE = 20_000_000


@dataclass(frozen=True)
class Case:
    """One row of the table: a graph, a shape, a number of threads."""

    size: str
    kind: str  # "symmetric", "directed", or "block": one layer of a neighbour sampler
    dim: int
    heads: int = 1
    threads: int = 1

    def __str__(self) -> str:
        heads = f", {self.heads} heads" if self.heads > 1 else ""
        threads = f"{self.threads} thread" + ("s" if self.threads > 1 else "")
        return f"{self.size} edges, {self.kind}, d = {self.dim}{heads}, {threads}"


def random_graph(case: Case, seed: int = 0) -> Any:
    """A DGLGraph with heavy-tailed degrees and a self-loop a node."""
    dgl = import_dgl(_NEEDED_FOR)
    nodes, edges = SIZES[case.size]
    random = torch.Generator().manual_seed(seed)
    names = torch.randperm(nodes, generator=random)  # popular nodes have no special ids

    def popular(count: int) -> Tensor:
        return names[(nodes * torch.rand(count, generator=random) ** 2).long()]

    if case.kind == "directed":
        src, dst = popular(edges), torch.randint(nodes, (edges,), generator=random)
    else:
        a, b = popular(edges // 2), torch.randint(nodes, (edges // 2,), generator=random)
        src, dst = torch.cat([a, b]), torch.cat([b, a])
    loops = torch.arange(nodes)
    graph = dgl.to_simple(dgl.graph((torch.cat([src, loops]), torch.cat([dst, loops])), num_nodes=nodes))
    graph.create_formats_()
    return graph


def _graphs(case: Case, seed: int) -> Iterator[Any]:
    """The graph of every round: always the same, or a new block each time, as in training with a sampler."""
    graph = random_graph(case)
    if case.kind != "block":
        while True:
            yield graph
    dgl = import_dgl(_NEEDED_FOR)
    torch.manual_seed(seed)
    dgl.seed(seed)
    sampler = dgl.dataloading.NeighborSampler([10])
    while True:
        seeds = torch.randperm(graph.num_nodes())[: min(4096, graph.num_nodes() // 2)]
        yield sampler.sample_blocks(graph, seeds)[2][0]


class _NaiveHAT(nn.Module):
    """The paper's layer as its formulas read, an edge at a time, with geoopt's operations."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        import geoopt

        self.ball = geoopt.PoincareBall(c=1.0)
        self.weights = nn.Parameter(torch.randn(heads, dim, dim) / dim**0.5)

    def forward(self, edges: tuple[Tensor, Tensor, int], x: Tensor) -> Tensor:
        src, dst, count = edges
        ball, points = self.ball, self.ball.expmap0(x)
        heads = []
        for weight in self.weights:
            h = ball.mobius_matvec(weight, points)
            score = -ball.dist(h[dst], h[src])
            top = torch.full((count,), -torch.inf).scatter_reduce(0, dst, score.detach(), "amax")
            mass = torch.exp(score - top[dst])
            share = mass / torch.zeros(count).index_add(0, dst, mass)[dst]
            message = ball.logmap0(ball.mobius_scalar_mul(share[:, None], h[src]))
            heads.append(torch.zeros(count, h.shape[1]).index_add(0, dst, message))
        return F.elu(ball.expmap0(torch.cat(heads, dim=1)))


def _dgl(case: Case) -> tuple[nn.Module, Callable[[Any], Any]]:
    layer = import_dgl(_NEEDED_FOR, "dgl.nn.pytorch").GATConv
    return layer(case.dim, case.dim, case.heads), lambda graph: graph


class _PyG(nn.Module):
    def __init__(self, case: Case) -> None:
        super().__init__()
        from torch_geometric.nn import GATConv

        self.layer = GATConv(case.dim, case.dim, case.heads, add_self_loops=False)

    def forward(self, edges: tuple[Tensor, Tensor, int], x: Tensor) -> Tensor:
        src, dst, count = edges
        features = x if count == x.shape[0] else (x, x[:count])
        return self.layer(features, torch.stack([src, dst]))


def _edges(graph: Any) -> tuple[Tensor, Tensor, int]:
    src, dst = graph.edges()
    return src, dst, graph.num_dst_nodes()


def _hgeo(backend: str) -> Callable[[Case], tuple[nn.Module, Callable[[Any], Any]]]:
    def build(case: Case) -> tuple[nn.Module, Callable[[Any], Any]]:
        import hgeo

        layer = hgeo.nn.HATConv(case.dim, case.dim, hgeo.PoincareBall(1.0), heads=case.heads, backend=backend)
        return layer, lambda graph: graph

    return build


def _builders() -> dict[str, Callable[[Case], tuple[nn.Module, Callable[[Any], Any]]]]:
    return {
        BASELINE: _dgl,
        "PyG GATConv": lambda case: (_PyG(case), _edges),
        "geoopt per edge": lambda case: (_NaiveHAT(case.dim, case.heads), _edges),
        "hgeo fused": _hgeo("fused"),
        "hgeo torch": _hgeo("torch"),
        "hgeo dgl": _hgeo("dgl"),
        "hgeo scatter": _hgeo("scatter"),
        "hgeo reference": _hgeo("reference"),
    }


def available() -> dict[str, str | None]:
    """Contestant → why it cannot take part here, or None if it can."""
    from hgeo.graph import backends

    reasons: dict[str, str | None] = dict.fromkeys(_builders())
    for name, module in ((BASELINE, "dgl"), ("PyG GATConv", "torch_geometric")):
        if importlib.util.find_spec(module) is None:
            reasons[name] = f"{module} is not installed"
    for backend, reason in backends("cpu").items():
        if f"hgeo {backend}" in reasons:
            reasons[f"hgeo {backend}"] = reason
    return reasons


def choose(parts: Sequence[str] | None = None) -> tuple[list[str], dict[str, str]]:
    """The contestants whose names contain one of ``parts`` (None: all): those that can run here, and why others cannot.

    >>> choose(["hgeo torch"])
    (['hgeo torch'], {})
    """
    reasons = available()
    for part in parts or ():
        if not any(part.lower() in name.lower() for name in reasons):
            raise ValueError(f"no contestant's name contains {part!r}; there are {', '.join(reasons)}")
    wanted = {n: r for n, r in reasons.items() if not parts or any(part.lower() in n.lower() for part in parts)}
    return [name for name, reason in wanted.items() if reason is None], {n: r for n, r in wanted.items() if r}


def too_large(name: str, case: Case) -> bool:
    """Whether this contestant would make E×d tensors that do not fit an ordinary machine."""
    nodes, edges = SIZES[case.size]
    per_edge = name in ("geoopt per edge", "hgeo reference", "PyG GATConv")
    return per_edge and case.kind != "block" and (nodes + edges) * case.heads * case.dim > _LARGEST_PER_EDGE


def make(name: str, case: Case) -> Callable[[], Callable[[], Tensor]]:
    """A maker of rounds: each call prepares one, untimed, and returns its forward pass."""
    torch.manual_seed(0)
    layer, view = _builders()[name](case)
    graphs = _graphs(case, seed=1)
    features = torch.randn(SIZES[case.size][0], case.dim)

    def prepare() -> Callable[[], Tensor]:
        graph = next(graphs)
        x = features[: graph.num_src_nodes()].detach().requires_grad_()
        edges = view(graph)
        layer.zero_grad(set_to_none=True)
        return lambda: layer(edges, x)

    return prepare
