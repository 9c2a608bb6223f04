"""Pictures: arrays and titles in, figures and pages out.

Embeddings, a panel for each factor of constant curvature; a page to move through them; the curves of a training; the
weights that a node gives to its neighbours. This room computes nothing but where to draw: it knows no model, no data
set and no run. What draws a run folder is :func:`hgeo.train.draw_run`.
"""

from hgeo.viz._attention import Listener, attention_figure, attention_rows, attention_table
from hgeo.viz._curves import curves_figure, radius_figure
from hgeo.viz._draw import draw_panel, place_names
from hgeo.viz._figures import add_legend, comparison_figure, draw_embedding, embedding_figure, save_figure
from hgeo.viz._layout import Panel, embedding_panels
from hgeo.viz._page import embedding_page, save_page
from hgeo.viz._tree import tree_branches, tree_figure

__all__ = [
    "Listener",
    "Panel",
    "add_legend",
    "attention_figure",
    "attention_rows",
    "attention_table",
    "comparison_figure",
    "curves_figure",
    "draw_embedding",
    "draw_panel",
    "embedding_figure",
    "embedding_page",
    "embedding_panels",
    "place_names",
    "radius_figure",
    "save_figure",
    "save_page",
    "tree_branches",
    "tree_figure",
]
