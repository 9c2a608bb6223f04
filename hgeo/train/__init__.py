"""Training: one loop, what it watches, and the folder it writes.

:func:`fit` trains a model; a :class:`Job` is one training with everything that decides its numbers, a :class:`Session`
several of them in a folder that can be resumed; a :class:`RunFolder` is what one leaves behind. :func:`inspect` says
whether a network still aggregates, :func:`draw_run` makes the pictures of a run. The room uses data, models and tasks
by their front doors and knows nothing of tables, papers or the command line.
"""

from hgeo.train._batches import infer, source_for
from hgeo.train._compete import COMPETE, competitors
from hgeo.train._fit import FitResult, TrainingError, TrainingWarning, fit
from hgeo.train._folder import RunFolder, plain
from hgeo.train._hierarchy import HierarchyEmbedding, HierarchySettings, fit_hierarchy, load_vectors, usual_settings
from hgeo.train._interrupt import Interrupted
from hgeo.train._monitor import Health, curvatures, inspect, layer_attentions
from hgeo.train._neighbours import InMemory, Neighbours
from hgeo.train._optimizer import make_optimizer
from hgeo.train._pictures import compare_runs, draw_run
from hgeo.train._ranking import Ranking, guessed
from hgeo.train._session import Job, Session, embed, load_run, summarize
from hgeo.train._taxonomy import SEARCHED, TaxonomyStudy, flat_beside
from hgeo.train._taxonomy_picture import draw_taxonomy, taxonomy_figure
from hgeo.train._team import Team, TeamError, team
from hgeo.train._views import View, full_view, khop_view, layered_view, view_for

__all__ = [
    "COMPETE",
    "SEARCHED",
    "FitResult",
    "Health",
    "HierarchyEmbedding",
    "HierarchySettings",
    "InMemory",
    "Interrupted",
    "Job",
    "Neighbours",
    "Ranking",
    "RunFolder",
    "Session",
    "TaxonomyStudy",
    "Team",
    "TeamError",
    "TrainingError",
    "TrainingWarning",
    "View",
    "compare_runs",
    "competitors",
    "curvatures",
    "draw_run",
    "draw_taxonomy",
    "embed",
    "fit",
    "fit_hierarchy",
    "flat_beside",
    "full_view",
    "guessed",
    "infer",
    "inspect",
    "khop_view",
    "layer_attentions",
    "layered_view",
    "load_run",
    "load_vectors",
    "make_optimizer",
    "plain",
    "source_for",
    "summarize",
    "taxonomy_figure",
    "team",
    "usual_settings",
    "view_for",
]
