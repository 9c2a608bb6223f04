"""The HAT paper's tables and figures, made anew: its numbers, the runs behind each cell, the search of settings.

A table is made of cells, pieces of work that are cached under a hash of what they depend on, so that a killed command
resumes. ``published.json`` holds what the paper prints, ``paper.json`` the settings that the search chose. Many runs of
one network are trained at once, as lanes of a tensor. What the tables show is said by hand, in ``docs/findings.md``.
"""

from hgeo.reproduce._cells import Cell, cached_result, cell_work, known_results, run_cells
from hgeo.reproduce._runs import (
    DATASETS,
    DIMENSIONS,
    TABLE_METHODS,
    ablation_cells,
    attention_cell,
    embedding_cell,
    graph_cells,
    published,
    shallow_cells,
    timing_cell,
)
from hgeo.reproduce._search import (
    Budget,
    frozen_configs,
    frozen_trials,
    frozen_winners,
    search_space,
    tuning_cell,
    usual_budget,
    write_frozen,
)
from hgeo.reproduce._tables import Entry, Table, baseline_findings, findings, write_table

__all__ = [
    "DATASETS",
    "DIMENSIONS",
    "TABLE_METHODS",
    "Budget",
    "Cell",
    "Entry",
    "Table",
    "ablation_cells",
    "attention_cell",
    "baseline_findings",
    "cached_result",
    "cell_work",
    "embedding_cell",
    "findings",
    "frozen_configs",
    "frozen_trials",
    "frozen_winners",
    "graph_cells",
    "known_results",
    "published",
    "run_cells",
    "search_space",
    "shallow_cells",
    "timing_cell",
    "tuning_cell",
    "usual_budget",
    "write_frozen",
    "write_table",
]
