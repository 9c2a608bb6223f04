"""What is measured, and how: node classification, clustering, link prediction, and the shape of a graph.

Scores are functions of what a model gives and of what is right, in [0, 1]; splits of links and the links that are not
there are drawn here; :func:`graph_statistics` says how tree-like a graph is before anything is trained. Knows data and
manifolds, no model and no training.
"""

from hgeo.tasks._classification import accuracy, binary_f1, macro_f1
from hgeo.tasks._clustering import clustering_nmi
from hgeo.tasks._links import LinkSplit, draw_non_links, link_scores, split_links
from hgeo.tasks._node_baselines import NODE_BASELINES, node_baselines
from hgeo.tasks._statistics import GraphStatistics, graph_statistics, hyperbolicity

__all__ = [
    "NODE_BASELINES",
    "GraphStatistics",
    "LinkSplit",
    "accuracy",
    "binary_f1",
    "clustering_nmi",
    "draw_non_links",
    "graph_statistics",
    "hyperbolicity",
    "link_scores",
    "macro_f1",
    "node_baselines",
    "split_links",
]
