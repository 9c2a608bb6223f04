"""Who talks to whom: one view of every graph format, and message passing with interchangeable backends."""

from hgeo.graph._convert import as_graph
from hgeo.graph._graph import CSC, Graph

__all__ = ["CSC", "Graph", "as_graph"]
