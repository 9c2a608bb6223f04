"""A page on which one can move through the Poincaré disk by its isometries; one file, no network."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hgeo._files import write_atomically
from hgeo.viz._disk import disk_coordinates
from hgeo.viz._palette import MARKERS, color_of, marker_of

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
                "name": "no label" if label < 0 else (class_names[label] if class_names else f"class {label}"),
                "color": color_of(label),
                "shape": -1 if label < 0 else MARKERS.index(marker_of(label)),
            }
            for label in present
        ],
    }
    template = resources.files("hgeo.viz").joinpath("page.html").read_text(encoding="utf-8")
    # "</" inside a script element would end it
    payload = json.dumps(data, separators=(",", ":")).replace("</", "<\\/")
    return template.replace("@TITLE@", html.escape(title)).replace("@DATA@", payload)


def save_page(page: str, path: str | Path) -> Path:
    """Write the page and return its path."""
    target = Path(path)
    write_atomically(target, page)
    return target
