"""Pictures: the Poincaré disk with geodesic edges, a page to move through it, curves of a run, attention."""

from hgeo.viz._attention import Listener, attention_figure, attention_rows, attention_table, layer_attention
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
from hgeo.viz._runs import compare_runs, draw_run

__all__ = [
    "Listener",
    "add_legend",
    "attention_figure",
    "attention_rows",
    "attention_table",
    "compare_runs",
    "comparison_figure",
    "curves_figure",
    "disk_coordinates",
    "draw_disk",
    "draw_embedding",
    "draw_plane",
    "draw_run",
    "embedding_figure",
    "embedding_page",
    "layer_attention",
    "save_figure",
    "save_page",
]
