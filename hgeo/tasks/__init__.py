"""What is predicted, and how it is judged: nodes, links, distances; and the shape of a graph.

A :class:`Task` is all of a training that depends on what is predicted: targets, loss, scores, what early stopping
watches, what a result reports. :func:`register_task` gives one a name, :func:`find_task` looks it up. Scores are
functions of what a model gives and of what is right. Knows data, models' settings and manifolds, no training.
"""

# Names are listed in the order in which the tasks are imported: nodes first.
# ruff: noqa: I001
from hgeo.tasks._task import Batch, Epoch, NoSettings, Part, Task, find_task, register_task, task_names
from hgeo.tasks._nodes import Nodes
from hgeo.tasks._links import Links, LinksSettings, link_heuristics, link_scores
from hgeo.tasks._link_split import LinkSplit, draw_non_links, official_links, split_links
from hgeo.tasks._distances import Distances, DistancesSettings
from hgeo.tasks._points import PointsAndPairs
from hgeo.tasks._classification import accuracy, binary_f1, macro_f1
from hgeo.tasks._clustering import clustering_nmi
from hgeo.tasks._node_baselines import NODE_BASELINES, node_baselines
from hgeo.tasks._statistics import GraphStatistics, graph_statistics, hyperbolicity

__all__ = [
    "NODE_BASELINES",
    "Batch",
    "Distances",
    "DistancesSettings",
    "Epoch",
    "GraphStatistics",
    "LinkSplit",
    "Links",
    "LinksSettings",
    "NoSettings",
    "Nodes",
    "Part",
    "PointsAndPairs",
    "Task",
    "accuracy",
    "binary_f1",
    "clustering_nmi",
    "draw_non_links",
    "find_task",
    "graph_statistics",
    "hyperbolicity",
    "link_heuristics",
    "link_scores",
    "macro_f1",
    "node_baselines",
    "official_links",
    "register_task",
    "split_links",
    "task_names",
]
