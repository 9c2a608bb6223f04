"""HAT and its relatives, the Euclidean baselines, and the shallow embeddings of the paper's tables.

Graph networks share one interface: ``model(graph, x)`` gives logits, ``model.embed(graph, x)`` the hidden layer, a
point of ``model.hidden_manifold`` a node. :func:`register` gives one a name, :func:`find` looks it up, :func:`build`
makes it, :func:`recipe` says with which settings it is made and trained.
"""

# Names are listed in the order in which the models are imported: HAT first.
# ruff: noqa: I001
from hgeo.models._recipes import Recipe, Sizes
from hgeo.models._registry import ModelEntry, find, names, register
from hgeo.models._settings import Choice, Range, Settings, TrainSettings, assign, searched, setting, share, whole
from hgeo.models._network import Round
from hgeo.models._hat import HAT, HATSettings
from hgeo.models._gcn import GCN, GCNSettings, GraphConv
from hgeo.models._gat import GAT, GATConv, GATSettings
from hgeo.models._sage import SAGE, SAGEConv, SAGESettings
from hgeo.models._hgcn import HGCN, HGCNSettings, KappaGCN
from hgeo.models._lorentz import LorentzNet, LorentzSettings
from hgeo.models._mlp import MLP, MLPSettings
from hgeo.models._hnn import HNN, HNNSettings
from hgeo.models._build import build, recipe
from hgeo.models._twin import flat_twin
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
    "HAT",
    "HGCN",
    "HNN",
    "LINE",
    "MLP",
    "SAGE",
    "SHALLOW_METHODS",
    "Choice",
    "DeepWalk",
    "GATConv",
    "GATSettings",
    "GCNSettings",
    "GraphConv",
    "HATSettings",
    "HGCNSettings",
    "HNNSettings",
    "KappaGCN",
    "LorentzNet",
    "LorentzSettings",
    "MLPSettings",
    "ModelEntry",
    "Node2vec",
    "PoincareEmbedding",
    "Range",
    "Recipe",
    "Round",
    "SAGEConv",
    "SAGESettings",
    "Settings",
    "ShallowEmbedding",
    "Sizes",
    "TrainSettings",
    "assign",
    "build",
    "find",
    "flat_twin",
    "names",
    "recipe",
    "register",
    "searched",
    "setting",
    "shallow",
    "share",
    "whole",
]
