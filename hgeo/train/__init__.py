"""Training: the loop, run folders, checkpoints, tuning."""

from hgeo.train._bench import EarlyStop, StepTime, early_stop_benchmark, step_benchmark
from hgeo.train._fit import FitResult, Settings, TrainingError, TrainingWarning, fit
from hgeo.train._folder import RunFolder
from hgeo.train._monitor import Health, curvatures, inspect, layer_attentions
from hgeo.train._optimizer import make_optimizer
from hgeo.train._session import Job, Session, embed, load_run, summarize
from hgeo.train._views import View, full_view, khop_view, layered_view, view_for

__all__ = [
    "EarlyStop",
    "FitResult",
    "Health",
    "Job",
    "RunFolder",
    "Session",
    "Settings",
    "StepTime",
    "TrainingError",
    "TrainingWarning",
    "View",
    "curvatures",
    "early_stop_benchmark",
    "embed",
    "fit",
    "full_view",
    "inspect",
    "khop_view",
    "layer_attentions",
    "layered_view",
    "load_run",
    "make_optimizer",
    "step_benchmark",
    "summarize",
    "view_for",
]
