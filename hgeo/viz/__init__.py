"""Pictures: arrays and titles in, figures and pages out.

Points in the Poincaré disk with geodesic edges, a page to move through the disk, the curves of a training, the weights
that a node gives to its neighbours. This room computes nothing but where to draw: it knows no model, no data set and no
run. What draws a run folder is :func:`hgeo.train.draw_run`.
"""

from hgeo.viz._attention import Listener, attention_figure, attention_rows, attention_table
from hgeo.viz._curves import curves_figure
from hgeo.viz._disk import (
    add_legend,
    comparison_figure,
    disk_coordinates,
    draw_disk,
    draw_embedding,
    draw_plane,
    embedding_figure,
    save_figure,
)
from hgeo.viz._page import embedding_page, save_page

__all__ = [
    "Listener",
    "add_legend",
    "attention_figure",
    "attention_rows",
    "attention_table",
    "comparison_figure",
    "curves_figure",
    "disk_coordinates",
    "draw_disk",
    "draw_embedding",
    "draw_plane",
    "embedding_figure",
    "embedding_page",
    "save_figure",
    "save_page",
]
