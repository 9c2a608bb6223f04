"""The HAT paper's tables and figures, made anew, with the search of settings behind them; and the field's benchmark.

A table is made of cells, pieces of work that are cached under a hash of what they depend on, so that a killed command
resumes. ``published.json`` holds what the paper prints, ``paper.json`` the settings that the search chose. A run of a
graph network, of a table or of a search, is a :class:`hgeo.train.Job`: any model that ``hgeo train`` takes can be
searched and put in a table. What the tables show is said by hand, in ``docs/findings.md``.
"""

from hgeo.reproduce._cells import Cell, cell_work, known_results, run_cells
from hgeo.reproduce._frozen import frozen_options, frozen_winners, write_frozen
from hgeo.reproduce._pages import PAGES, make_page
from hgeo.reproduce._request import Request
from hgeo.reproduce._runs import DATASETS, DIMENSIONS, TABLE_METHODS, published
from hgeo.reproduce._search import (
    SEARCHED_METHODS,
    Budget,
    search_space,
    tuning_cell,
    usual_budget,
)
from hgeo.reproduce._tables import Entry, Table, baselines, comparisons, write_table

__all__ = [
    "DATASETS",
    "DIMENSIONS",
    "PAGES",
    "SEARCHED_METHODS",
    "TABLE_METHODS",
    "Budget",
    "Cell",
    "Entry",
    "Request",
    "Table",
    "baselines",
    "cell_work",
    "comparisons",
    "frozen_options",
    "frozen_winners",
    "known_results",
    "make_page",
    "published",
    "run_cells",
    "search_space",
    "tuning_cell",
    "usual_budget",
    "write_frozen",
    "write_table",
]
