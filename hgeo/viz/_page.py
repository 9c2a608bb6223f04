"""A page on which one can move through an embedding by its isometries; one file, no network.

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
from hgeo._geoopt import geoopt
from hgeo.viz._draw import spanning_forest
from hgeo.viz._layout import Panel, embedding_panels
from hgeo.viz._palette import MARKERS, color_of, marker_of, name_of

__all__ = ["embedding_page", "save_page"]

_MOST_EDGES = 150_000  # edges shown at most, so that the page opens quickly; the spanning forest is always shown


def embedding_page(
    points: Tensor,
    manifold: geoopt.Manifold | None = None,
    *,
    edge_index: Tensor | None = None,
    labels: Tensor | None = None,
    predicted: Tensor | None = None,
    attention: Tensor | None = None,
    title: str = "embedding",
    note: str = "",
    class_names: Sequence[str] | None = None,
    names: Sequence[str] | None = None,
    parents: Tensor | None = None,
    weights: Tensor | None = None,
    unlabelled: str = "no label",
) -> str:
    """HTML of the embedding: drag by isometries, walk to the boundary, hover, search, filter, keys, light and dark.

    A factor of constant curvature is a panel of its own, moved by its own isometries: Möbius maps, rotations,
    translations. All texts are shown as they are, whatever letters they hold.

    Args:
        points: (N, n) on ``manifold`` (None: plain vectors).
        edge_index: (2, E), the source row first.
        labels: (N,), -1 for none.
        predicted: (N,), beside which wrong ones can be sifted out.
        attention: (E,), what each edge's target gives to its source.
        names: of the nodes; without any they are called by their numbers.
        parents: (N,), -1 for a root: a node that is chosen shows its path up.
        weights: (N,); the names of the heaviest nodes are shown first.
        unlabelled: what nodes with the label -1 are called together.

    >>> import torch
    >>> "<canvas" in embedding_page(torch.zeros(3, 2))
    True
    """
    panels = embedding_panels(points, manifold)
    count = len(points)
    links, directions = _links(edge_index, attention, count)
    links, directions, tree = _forest_first(panels[0], links, directions)
    classes = [-1] * count if labels is None else [int(label) for label in labels.cpu()]
    said = None if predicted is None else [int(label) for label in predicted.cpu()]
    known = sorted({*classes, *(said or [])})
    heavy = torch.arange(count) if weights is None else torch.argsort(weights.cpu(), descending=True, stable=True)
    data = {
        "panels": [_panel_data(panel) for panel in panels],
        "label": classes,
        "predicted": said,
        "names": None if names is None else [str(name) for name in names],
        "parent": None if parents is None else [int(node) for node in parents],
        "prominent": heavy[:2000].tolist(),
        "source": links[0].tolist(),
        "target": links[1].tolist(),
        "attention": None if directions is None else directions.round(decimals=4).tolist(),
        "tree": tree,
        "note": note,
        "called": {label: name_of(label, class_names) for label in known},
        "classes": [
            {
                "label": label,
                "name": unlabelled if label < 0 else name_of(label, class_names),
                "color": color_of(label),
                "shape": -1 if label < 0 else MARKERS.index(marker_of(label)),
            }
            for label in sorted(set(classes))
        ],
    }
    style, script = _part("page.css"), _part("page.js")
    policy = f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'"
    filled = {"POLICY": policy, "STYLE": style, "SCRIPT": script, "TITLE": html.escape(title), "DATA": _escaped(data)}
    # one pass: what is filled in is not searched again for placeholders
    return re.sub(r"@([A-Z]+)@", lambda place: filled[place[1]], _part("page.html"))


def _links(edge_index: Tensor | None, attention: Tensor | None, count: int) -> tuple[Tensor, Tensor | None]:
    """(2, L) links, each once and the smaller number first; (2, L) what its second end gives to its first, and back."""
    if edge_index is None:
        return torch.zeros(2, 0, dtype=torch.long), None
    source, target = edge_index.cpu()
    key = torch.minimum(source, target) * count + torch.maximum(source, target)
    key, place = torch.unique(key, return_inverse=True)
    links = torch.stack([key // count, key % count])
    apart = links[0] != links[1]
    if attention is None:
        return links[:, apart], None
    given = torch.zeros(2, len(key), dtype=torch.float64)
    row = (source > target).long()  # an edge from the second end is what the first one gives
    given[row, place] = attention.detach().cpu().double()
    return links[:, apart], given[:, apart]


def _forest_first(panel: Panel, links: Tensor, given: Tensor | None) -> tuple[Tensor, Tensor | None, int]:
    """The links in another order, and how many of them are the spanning forest in front."""
    if not links.shape[1]:
        return links, given, 0
    count = len(panel.points)
    tree = spanning_forest(panel, links)
    key = torch.minimum(tree[0], tree[1]) * count + torch.maximum(tree[0], tree[1])
    inside = torch.isin(links[0] * count + links[1], key)
    rest = (~inside).nonzero().flatten()
    room = max(_MOST_EDGES - tree.shape[1], 0)
    if len(rest) > room:
        rest = rest[torch.from_numpy(np.sort(np.random.default_rng(0).choice(len(rest), size=room, replace=False)))]
    order = torch.cat([inside.nonzero().flatten(), rest])
    return links[:, order], None if given is None else given[:, order], int(inside.sum())


def _panel_data(panel: Panel) -> dict[str, Any]:
    half = float(panel.points.abs().max()) * 1.08 or 1.0 if panel.kind == "plane" and len(panel.points) else 1.0
    return {
        "kind": panel.kind,
        "space": panel.space,
        "note": panel.note,
        "half": half,
        # 13 digits: near the boundary a point is told from its neighbours by the last ones
        "x": [round(float(value), 13) for value in panel.points[:, 0] / half],
        "y": [round(float(value), 13) for value in panel.points[:, 1] / half],
    }


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
