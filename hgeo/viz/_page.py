"""A page on which one can move through the Poincaré disk by its isometries; one file, no network.

Its browser runs the script of this package and nothing else: the page's policy names style and script by their hashes
and forbids everything that is not named. Titles, names and numbers are data, escaped here and shown as text.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hgeo._files import write_atomically
from hgeo.viz._disk import disk_coordinates
from hgeo.viz._palette import MARKERS, color_of, marker_of, name_of

__all__ = ["embedding_page", "save_page"]

_MOST_EDGES = 12000


def embedding_page(
    points: Tensor,
    manifold: Any = None,
    *,
    edge_index: Tensor | None = None,
    labels: Tensor | None = None,
    title: str = "embedding",
    class_names: Sequence[str] | None = None,
) -> str:
    """HTML of the disk: drag to translate by a Möbius isometry, double-click a node to bring it to the centre.

    ``title`` and ``class_names`` are shown as they are, whatever letters they hold.

    >>> import torch
    >>> "<canvas" in embedding_page(torch.zeros(3, 2))
    True
    """
    disk = disk_coordinates(points, manifold)
    links = torch.zeros(2, 0, dtype=torch.long) if edge_index is None else edge_index.cpu()
    links = links[:, links[0] < links[1]]
    if links.shape[1] > _MOST_EDGES:
        chosen = np.sort(np.random.default_rng(0).choice(links.shape[1], size=_MOST_EDGES, replace=False))
        links = links[:, torch.from_numpy(chosen)]
    classes = [-1] * len(disk) if labels is None else [int(label) for label in labels.cpu()]
    present = sorted(set(classes))
    data = {
        # 10 digits: near the boundary a point is told from its neighbours by the last ones
        "x": [round(float(value), 10) for value in disk[:, 0]],
        "y": [round(float(value), 10) for value in disk[:, 1]],
        "label": classes,
        "source": links[0].tolist(),
        "target": links[1].tolist(),
        "classes": [
            {
                "label": label,
                "name": name_of(label, class_names),
                "color": color_of(label),
                "shape": -1 if label < 0 else MARKERS.index(marker_of(label)),
            }
            for label in present
        ],
    }
    style, script = _part("page.css"), _part("page.js")
    policy = f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'"
    filled = {"POLICY": policy, "STYLE": style, "SCRIPT": script, "TITLE": html.escape(title), "DATA": _escaped(data)}
    # one pass, so that what is filled in is not searched for places to fill in
    return re.sub(r"@([A-Z]+)@", lambda place: filled[place[1]], _part("page.html"))


def _part(name: str) -> str:
    return resources.files("hgeo.viz").joinpath(name).read_text(encoding="utf-8")


def _hash(content: str) -> str:
    """What a policy calls a style or script by its content."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def _escaped(data: Any) -> str:
    """JSON in which no HTML parser sees markup: whatever could begin or end some is a number, as in strings it may."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)  # ASCII: no U+2028 either
    return text.replace("&", r"\u0026").replace("<", r"\u003c").replace(">", r"\u003e")


def save_page(page: str, path: str | Path) -> Path:
    """Write the page and return its path."""
    target = Path(path)
    write_atomically(target, page)
    return target
