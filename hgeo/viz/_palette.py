"""Colours and marks that a colour-blind reader can tell apart."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["EDGE", "FAINT", "INK", "MARKERS", "QUIET", "RING", "color_of", "dark", "marker_of", "name_of"]

# Okabe and Ito's eight colours, the yellow darkened so that it stands out on white
_COLORS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#8C7A00", "#3B3B3B")
#: shapes of matplotlib, one a round through the colours
MARKERS = ("o", "^", "s", "D", "v", "P", "X", "*")

INK = "#222222"
EDGE = "#8A8F98"
QUIET = "#7A7F87"
FAINT = "#D0D4DA"
RING = "#E6E7EA"
_NO_LABEL = "#B0B0B0"


def color_of(label: int) -> str:
    """Colour of a class; after eight classes the colours repeat and the marks change."""
    return _NO_LABEL if label < 0 else _COLORS[label % len(_COLORS)]


def dark(color: str) -> str:
    """The colour as ink for letters: dark enough to be read on white.

    >>> dark("#E69F00")
    '#956700'
    """
    return "#" + "".join(f"{int(int(color[i : i + 2], 16) * 0.65):02x}" for i in (1, 3, 5))


def marker_of(label: int) -> str:
    """Mark of a class: neighbouring classes differ in shape as well as in colour."""
    return "." if label < 0 else MARKERS[(label + label // len(_COLORS)) % len(MARKERS)]


def name_of(label: int, class_names: Sequence[str] | None = None) -> str:
    """Name of a class, as it was given; its number where classes have no names."""
    if label < 0:
        return "no label"
    if not class_names:
        return f"class {label}"
    if label >= len(class_names):
        raise ValueError(f"class_names has {len(class_names)} names, but there is a point of class {label}")
    return str(class_names[label])
