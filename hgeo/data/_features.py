"""How features are prepared, by name, and features that are counted in the graph."""

from __future__ import annotations

from typing import NamedTuple

from hgeo.data._dataset import DataError, Dataset, Normalize

__all__ = ["FEATURES", "Features"]

#: what ``load(features=)`` knows: how hgeo prepares them unless told otherwise, as they are, centred and scaled by
#: columns, divided by the sums of rows, as HGCN's code does for nodes and for links
FEATURES = ("auto", "raw", "standardised", "rows", "hgcn", "hgcn-links")

_NORMALIZE: dict[str, Normalize] = {
    "auto": "auto",
    "raw": "none",
    "standardised": "columns",
    "rows": "rows",
    "hgcn": "hgcn",
    "hgcn-links": "hgcn",
}


class Features(NamedTuple):
    """What the words of ``load(features=)`` mean, such as ``standardised`` or ``auto+degrees``."""

    name: str
    degrees: bool

    @staticmethod
    def parse(text: str) -> Features:
        """
        >>> Features.parse("raw+degrees")
        Features(name='raw', degrees=True)
        """
        name, plus, more = text.partition("+")
        if name not in FEATURES or (plus and more != "degrees"):
            raise DataError(f"no features {text!r}; known: {', '.join(FEATURES)}, each also with '+degrees' behind it")
        return Features(name, bool(plus))

    @property
    def normalize(self) -> Normalize:
        """The word of :func:`make_dataset`."""
        return _NORMALIZE[self.name]

    def with_degrees(self, dataset: Dataset, *, known: str | None = None) -> Dataset:
        """The data with what is to be counted in the graph: degrees if asked for, and as HGCN's code does in Airport.

        ``known`` is the data's name, if they were loaded by it.
        """
        if self.degrees:
            return dataset.with_counted("degrees")
        as_hgcn = self.normalize == "hgcn" and known == "airport"
        return dataset.with_counted("hgcn") if as_hgcn else dataset
