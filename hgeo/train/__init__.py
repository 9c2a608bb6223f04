"""Training: the loop, run folders, checkpoints, tuning."""

from hgeo.train._fit import FitResult, Settings, TrainingWarning, fit
from hgeo.train._folder import RunFolder
from hgeo.train._monitor import Health, curvatures, inspect
from hgeo.train._optimizer import make_optimizer
from hgeo.train._views import View, full_view, khop_view, view_for

__all__ = [
    "FitResult",
    "Health",
    "RunFolder",
    "Settings",
    "TrainingWarning",
    "View",
    "curvatures",
    "fit",
    "full_view",
    "inspect",
    "khop_view",
    "make_optimizer",
    "view_for",
]
