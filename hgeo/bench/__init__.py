"""Speed and memory of hgeo beside what people use today, contestants interleaved, as ratios.

:func:`plan` lists the cases of a request, :func:`measure` runs one, :data:`PARTS` names what is measured besides single
layers and :func:`measure_part` measures one of them. What comes back is plain numbers and words that JSON can hold;
:func:`page` makes a page of tables from them. The room uses every other one as a user would; ``hgeo bench`` prints what
it finds.
"""

from hgeo.bench._contestants import SIZES, Case, choose
from hgeo.bench._machine import machine
from hgeo.bench._page import Target, counterparts_page, page, targets
from hgeo.bench._parts import PARTS, first_calls, measure_part
from hgeo.bench._plan import KINDS, measure, plan
from hgeo.bench._scale import SCALE_SIZES, SCALE_WAYS, row_text, scale
from hgeo.bench._scale_page import scale_page
from hgeo.bench._step_cost import StepCost, step_cost
from hgeo.bench._training import EarlyStop, StepTime, early_stop_benchmark, step_benchmark

__all__ = [
    "KINDS",
    "PARTS",
    "SCALE_SIZES",
    "SCALE_WAYS",
    "SIZES",
    "Case",
    "EarlyStop",
    "StepCost",
    "StepTime",
    "Target",
    "choose",
    "counterparts_page",
    "early_stop_benchmark",
    "first_calls",
    "machine",
    "measure",
    "measure_part",
    "page",
    "plan",
    "row_text",
    "scale",
    "scale_page",
    "step_benchmark",
    "step_cost",
    "targets",
]
