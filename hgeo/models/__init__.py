"""HAT and its relatives, the Euclidean baselines, and the shallow embeddings of the paper's tables.

Graph networks share one interface: ``model(graph, x)`` gives logits, ``model.embed(graph, x)`` the hidden layer, a
point of ``model.hidden_manifold`` a node. :func:`build` makes one by its name, :func:`defaults` says with
which settings.
"""

from hgeo.models._build import build
from hgeo.models._config import GRAPH_METHODS, Config, defaults
from hgeo.models._euclidean import GAT, GCN, HNN, MLP
from hgeo.models._hat import HAT, HGCN, KappaGCN
from hgeo.models._shallow import (
    LINE,
    SHALLOW_METHODS,
    DeepWalk,
    Node2vec,
    PoincareEmbedding,
    ShallowEmbedding,
    shallow,
)

__all__ = [
    "GAT",
    "GCN",
    "GRAPH_METHODS",
    "HAT",
    "HGCN",
    "HNN",
    "LINE",
    "MLP",
    "SHALLOW_METHODS",
    "Config",
    "DeepWalk",
    "KappaGCN",
    "Node2vec",
    "PoincareEmbedding",
    "ShallowEmbedding",
    "build",
    "defaults",
    "shallow",
]
