"""Where points of any space go on paper: a panel for each factor, its Fréchet mean in the centre."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from hgeo._geoopt import geoopt
from hgeo.manifolds import PoincareBall, describe, exp0, frame_scale, log0, parts, translate_back
from hgeo.math import dist, geodesic
from hgeo.nn import Midpoint

__all__ = ["Panel", "embedding_panels", "main_plane"]

Kind = Literal["disk", "map", "plane", "polar"]
_FAR = 4.5  # a median distance from which on a Poincaré disk shows nothing but its rim
_READING = {
    "disk": "Poincaré disk, rings of equal distance from the mean in units of the curvature",
    "polar": "distances and directions from the mean, rings in units of the curvature",
    "map": "equal-area map of the sphere, its rim is the point opposite to the mean",
    "plane": "plane about the mean",
}


@dataclass(frozen=True, eq=False)
class Panel:
    """One factor of an embedding in two dimensions.

    Attributes:
        kind: ``disk``, the Poincaré disk of curvature −1; ``map``, the unit disk as Lambert's equal-area map of a
            sphere, whose rim is the point opposite to the centre; ``plane``; or ``polar``, the hyperbolic plane as the
            unit disk with distances from the centre kept, divided by ``reach``.
        points: (N, 2), float64.
        space: the factor in words, ``hyperbolic, 16 dimensions``.
        radii: (N,), distances to the mean, also where the picture cannot keep them.
        note: how these became two; empty where nothing was lost.
    """

    kind: Kind
    points: Tensor
    space: str
    radii: Tensor
    note: str = ""
    reach: float = 1.0

    @property
    def reading(self) -> str:
        """How to read the picture, in a line."""
        return _READING[self.kind]

    def to_read(self) -> Panel:
        """The same, but a disk with half of its points near the rim as ``polar``, where one can tell them apart."""
        if self.kind != "disk" or not len(self.points):
            return self
        away = 2 * torch.atanh(self.points.norm(dim=1, keepdim=True).clamp(max=1 - 1e-16))
        if float(away.median()) < _FAR:
            return self
        reach = float(away.max()) * 1.02
        return replace(self, kind="polar", points=_resized(self.points, away / reach), reach=reach)

    def lengths(self, source: Tensor, target: Tensor) -> Tensor:
        """Distances in the picture between points given by their numbers."""
        x, y = self._home(self.points[source]), self._home(self.points[target])
        return dist(x, y, k=-1.0) if self.kind in ("disk", "polar") else (x - y).norm(dim=-1)

    def lines(self, source: Tensor, target: Tensor, steps: int = 14) -> Tensor:
        """The shortest lines (E, steps, 2) between points given by their numbers, as they look here."""
        x, y = self._home(self.points[source]).unsqueeze(1), self._home(self.points[target]).unsqueeze(1)
        t = torch.linspace(0, 1, steps, dtype=x.dtype).view(1, -1, 1)
        if self.kind == "plane":
            return x + t * (y - x)
        if self.kind == "map":
            globe = x * (1 - t) + y * t
            return _on_map(globe / globe.norm(dim=-1, keepdim=True).clamp(min=1e-12))
        way = geodesic(t, x, y, k=-1.0)
        away = 2 * torch.atanh(way.norm(dim=-1, keepdim=True).clamp(max=1 - 1e-16)) / self.reach
        return way if self.kind == "disk" else _resized(way, away)

    def _home(self, x: Tensor) -> Tensor:
        """Points of the picture where lengths and lines are known: on the globe, or in the Poincaré disk."""
        if self.kind == "map":
            return _on_globe(x)
        return x if self.kind != "polar" else _resized(x, torch.tanh(x.norm(dim=-1, keepdim=True) * (self.reach / 2)))


@torch.no_grad()
def embedding_panels(points: Tensor, manifold: geoopt.Manifold | None = None) -> list[Panel]:
    """A :class:`Panel` for each factor of constant curvature of ``manifold`` (None: plain vectors).

    The Fréchet mean is moved to the centre by an isometry. A factor of two dimensions is shown as it is, a hyperbolic
    one isometrically and in units of its curvature, a sphere with areas kept. Of more dimensions a point keeps its
    distance to the mean, and its direction there is that of its part in the plane of largest spread (polar tangent
    PCA; ``docs/results/projection.md`` has it beside other methods). Flat factors are shown by their two main
    components. A space whose curvature varies is shown in a plane, by its tangent vectors at the origin. Points that
    are not finite have no place and are an error.

    >>> import torch, hgeo
    >>> manifold, dim = hgeo.space("ball:5 x sphere:2 x euclidean:1")
    >>> [panel.kind for panel in embedding_panels(hgeo.exp0(manifold, torch.randn(9, dim)), manifold)]
    ['disk', 'map', 'plane']
    """
    points = _finite(points)
    if manifold is None:
        return [_plane(points, "flat")]
    vectors = log0(manifold, points)
    factors = parts(manifold, vectors.shape[1])
    if factors is None:
        return [_plane(vectors * frame_scale(manifold), describe(manifold), "tangent vectors at the origin")]
    return [_panel(vectors[:, part.coordinates] * part.scale, float(part.curvature)) for part in factors]


def _panel(vectors: Tensor, curvature: float) -> Panel:
    """``vectors`` (N, d) are tangent at the origin and as long as the distance that they lead."""
    if curvature == 0:
        return _plane(vectors, "flat")
    dim, root = vectors.shape[1], math.sqrt(abs(curvature))
    space: Any = PoincareBall(c=1.0).double() if curvature < 0 else geoopt.Sphere()
    half = frame_scale(space)
    placed = exp0(space, vectors * (root / half))
    mean = Midpoint(space, how="frechet")(placed)
    centred = log0(space, translate_back(space, mean, placed)) * half
    flat, share = main_plane(centred)
    length = centred.norm(dim=1, keepdim=True)
    # curvature -1: a point at distance r lies at tanh(r/2); Lambert: at sin(r/2)
    radius = torch.tanh(length / 2) if curvature < 0 else torch.sin((length / 2).clamp(max=math.pi / 2))
    note = "" if share is None else f"distances to the mean are exact, directions hold {share:.0%} of the spread"
    kind: Kind = "disk" if curvature < 0 else "map"
    radii = length.squeeze(1) / root
    return Panel(kind, _resized(flat, radius), _words("hyperbolic" if curvature < 0 else "spherical", dim), radii, note)


def _plane(vectors: Tensor, name: str, what: str = "") -> Panel:
    centred = vectors - vectors.mean(dim=0)
    flat, share = main_plane(centred)
    notes = [what, "" if share is None else f"two main components, {share:.0%} of the spread"]
    return Panel("plane", flat, _words(name, vectors.shape[1]), centred.norm(dim=1), ", ".join(filter(None, notes)))


def _words(name: str, dim: int) -> str:
    return f"{name}, {dim} dimension{'s' if dim > 1 else ''}"


def main_plane(vectors: Tensor) -> tuple[Tensor, float | None]:
    """The parts of ``vectors`` (N, d) in the two directions of largest spread about 0, and the share that these hold.

    Up to two dimensions vectors stay as they are, and there is no share.
    """
    if vectors.shape[1] <= 2:
        return torch.nn.functional.pad(vectors, (0, 2 - vectors.shape[1])), None
    _, lengths, directions = torch.linalg.svd(vectors, full_matrices=False)
    chosen = directions[:2]
    # a direction has no sign of its own: the larger entry is made positive, so that pictures can be compared
    chosen = chosen * chosen.gather(1, chosen.abs().argmax(dim=1, keepdim=True)).sign()
    share = float(lengths[:2].square().sum() / lengths.square().sum().clamp(min=1e-300))
    return torch.nn.functional.pad(vectors @ chosen.T, (0, 2 - len(chosen))), share


def _resized(x: Tensor, length: Tensor) -> Tensor:
    """Vectors of the same directions and of other lengths."""
    return x * (length / x.norm(dim=-1, keepdim=True).clamp(min=1e-300))


def _on_globe(x: Tensor) -> Tensor:
    """Points of Lambert's map, on the unit sphere with the map's centre at (0, 0, 1)."""
    squared = x.square().sum(-1, keepdim=True).clamp(max=1.0)
    return torch.cat([2 * x * torch.sqrt(1 - squared), 1 - 2 * squared], dim=-1)


def _on_map(p: Tensor) -> Tensor:
    """The inverse of :func:`_on_globe`."""
    return p[..., :2] / torch.sqrt(2 * (1 + p[..., 2:])).clamp(min=1e-9)


def _finite(points: Tensor) -> Tensor:
    points = points.detach().cpu().double()
    lost = (~points.isfinite().all(dim=1)).nonzero().flatten()
    if len(lost):
        raise ValueError(
            f"{len(lost)} of {len(points)} points have a coordinate that is not finite, the first is point "
            f"{int(lost[0])}; they have no place in a picture: leave them out, by points[points.isfinite().all(dim=1)]"
        )
    return points
