"""geoopt, imported without the deprecation warnings that its scripted functions raise at import."""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import geoopt

__all__ = ["geoopt"]
