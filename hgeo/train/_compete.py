"""Which recipe a model is trained by, where nobody says: a few compete on validation data for a short while."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import structs

from hgeo.models import find
from hgeo.tasks import Task
from hgeo.train._fit import TrainingError, fit
from hgeo.train._schema import Tried

if TYPE_CHECKING:
    from hgeo.train._session import Job

__all__ = ["COMPETE", "compete", "competitors", "winner"]

#: the recipe of a job whose recipes compete
COMPETE = "compete"

_MOST = 6  # recipes
_EPOCHS = 60


def competitors(model: str) -> list[str]:
    """The recipes of a model that compete: at most six, the usual one only if there are fewer."""
    names = list(find(model).recipes)
    return names if len(names) <= _MOST else [name for name in names if name != "usual"][:_MOST]


def compete(job: Job, task: Task) -> list[Tried]:
    """Trains a model by each recipe for a fifth of its epochs and at most 60, with the job's seed, and says how it did.

    They begin with the weights that the winner's training begins with, so that what does not learn from these loses.
    Test data decide nothing.
    """
    tried = []
    for name in competitors(job.model):
        entrant = structs.replace(job, recipe=name)
        training = entrant.settings(task.dataset).training
        epochs = min(_EPOCHS, math.ceil(training.epochs / 5))
        try:
            result = fit(
                entrant.build(task), task, dataclasses.replace(training, epochs=epochs, min_epochs=0), seed=job.seed
            )
        except TrainingError:
            tried.append(Tried(name, epochs, []))
            continue
        validation = {score: value for score, value in result.scores.items() if score.startswith("val_")}
        tried.append(Tried(name, result.epochs, list(task.watched(validation))))
    return tried


def winner(tried: Sequence[Tried]) -> str:
    """The recipe that did best; of equals the first."""
    return max(tried, key=lambda one: one.watched).recipe
