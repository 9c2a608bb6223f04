"""The pictures of docs/ten-minutes.md, drawn with hgeo's own geometry: python docs/figures/ten_minutes.py."""

import math
from pathlib import Path

import matplotlib
import torch

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import hgeo

HERE = Path(__file__).parent
# Colours that colour-blind readers can tell apart (Okabe and Ito).
BLUE, ORANGE, GREEN, RED, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#999999"
STEPS = torch.linspace(0, 1, 40, dtype=torch.float64)[:, None]


def point(*numbers: float) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


def segment(x: torch.Tensor, y: torch.Tensor, c: float = 1.0) -> torch.Tensor:
    """Points on the shortest way from x to y, (40, 2)."""
    return hgeo.math.geodesic(STEPS, x, y, k=-c)


def disk(axes: plt.Axes, radius: float = 1.0) -> None:
    axes.add_patch(plt.Circle((0, 0), radius, fill=False, color="black", linewidth=1))
    axes.set_aspect("equal")
    axes.axis("off")
    axes.set_xlim(-1.05 * radius, 1.05 * radius)
    axes.set_ylim(-1.05 * radius, 1.05 * radius)


def draw(axes: plt.Axes, line: torch.Tensor, color: str, width: float = 1.2, **more: object) -> None:
    axes.plot(*line.T.numpy(), color=color, linewidth=width, solid_capstyle="round", **more)


def save(figure: plt.Figure, name: str) -> None:
    figure.savefig(HERE / f"{name}.png", bbox_inches="tight", dpi=110, metadata={"Software": None})
    plt.close(figure)


def reflected(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The mirror image of x in the geodesic through a and b."""
    turned = hgeo.math.mobius_add(-a, x, k=-1.0)  # a goes to the centre, and the mirror becomes a diameter
    along = hgeo.math.mobius_add(-a, b, k=-1.0)
    along = along / along.norm()
    image = 2 * (turned @ along)[..., None] * along - turned
    return hgeo.math.mobius_add(a, image, k=-1.0)


def tiling(sides: int = 7, around: int = 3, rings: int = 4) -> list[torch.Tensor]:
    """The corners of regular polygons, ``around`` of them at every corner, from the centre outwards."""
    # Euclid's right triangle in hyperbolic terms: cosh R = cot(π/p) cot(π/q).
    radius = math.acosh(1 / (math.tan(math.pi / sides) * math.tan(math.pi / around)))
    angles = 2 * math.pi * torch.arange(sides, dtype=torch.float64) / sides + math.pi / 2
    rays = torch.stack([angles.cos(), angles.sin()], -1)
    ring = [hgeo.math.expmap0(rays * radius / 2, k=-1.0)]
    found, seen = list(ring), {(0, 0)}
    for _ in range(rings):
        new = []
        for polygon in ring:
            for a, b in zip(polygon, polygon.roll(-1, 0), strict=True):
                image = reflected(polygon, a, b)
                key = tuple(round(1000 * float(number)) for number in image.mean(0))
                if key not in seen:
                    seen.add(key)
                    new.append(image)
        found, ring = found + new, new
    return found


def draw_tiling() -> None:
    figure, axes = plt.subplots(figsize=(5, 5))
    disk(axes)
    for polygon in tiling():
        outline = torch.cat([segment(a, b)[::4] for a, b in zip(polygon, polygon.roll(-1, 0), strict=True)])
        axes.fill(*outline.T.numpy(), facecolor=BLUE, alpha=0.12 + 0.25 * (1 - float(polygon.mean(0).norm())))
        draw(axes, torch.cat([outline, outline[:1]]), BLUE, 0.5)
    save(figure, "tiling")


def draw_geodesics() -> None:
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4.4))
    disk(left)
    start = point(-0.55, -0.35)
    for angle, color in zip((0.2, 0.9, 1.6, 2.3), (BLUE, ORANGE, GREEN, RED), strict=True):
        end = point(0.9 * math.cos(angle), 0.9 * math.sin(angle))
        draw(left, segment(start, end), color, 1.8)
        left.plot(*end, "o", color=color, markersize=4)
    left.plot(*start, "o", color="black", markersize=5)
    left.set_title("shortest ways from one point")
    disk(right)
    angles = torch.linspace(0, 2 * math.pi, 120, dtype=torch.float64)
    around = hgeo.math.expmap0(0.5 * torch.stack([angles.cos(), angles.sin()], -1), k=-1.0)
    for centre, color in (
        (point(0, 0), BLUE),
        (point(0.6, 0.2), ORANGE),
        (point(-0.8, 0.35), GREEN),
        (point(0.1, -0.93), RED),
    ):
        draw(right, hgeo.math.mobius_add(centre, around, k=-1.0), color, 1.6)
        right.plot(*centre, "o", color=color, markersize=3)
    right.set_title("circles of radius 1")
    save(figure, "geodesics")


def draw_maps() -> None:
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4.4))
    lines = torch.linspace(-2, 2, 9, dtype=torch.float64)
    fine = torch.linspace(-2, 2, 80, dtype=torch.float64)
    disk(right)
    for at in lines:
        for line, color in (
            (torch.stack([at.expand(80), fine], -1), BLUE),
            (torch.stack([fine, at.expand(80)], -1), ORANGE),
        ):
            draw(left, line, color, 0.9)
            draw(right, hgeo.math.expmap0(line, k=-1.0), color, 0.9)
    left.set_aspect("equal")
    left.axis("off")
    left.set_title("tangent coordinates v at the origin")
    right.set_title("exp0(v), points of the disk")
    left.annotate("exp0 →\n← log0", (1.1, 0.93), xycoords="axes fraction", ha="center", va="center", fontsize=12)
    save(figure, "exp-log")


def draw_curvatures() -> None:
    figure, panels = plt.subplots(1, 4, figsize=(12, 3.2))
    a, b = point(0.9, -0.5), point(-0.3, 0.95)
    for axes, c in zip(panels, (0.0, 0.25, 0.5, 0.9), strict=True):
        if c:
            axes.add_patch(plt.Circle((0, 0), c**-0.5, fill=False, color="black", linewidth=1))
        # The same three points in each panel; the triangle of shortest ways between them gets thinner.
        for x, y in ((a, b), (b, point(-0.7, -0.7)), (point(-0.7, -0.7), a)):
            draw(axes, segment(x, y, c), BLUE, 1.6)
        distance = float(hgeo.math.dist(a, b, k=-c))
        axes.set_title(f"c = {c:g}, right to top: {distance:.2f}", fontsize=10)
        axes.set_aspect("equal")
        axes.set_xlim(-2.05, 2.05)
        axes.set_ylim(-2.05, 2.05)
        axes.axis("off")
    save(figure, "curvatures")


def draw_limit() -> None:
    figure, axes = plt.subplots(figsize=(6, 3.4))
    k = torch.linspace(-1.2, 1.2, 241, dtype=torch.float64)
    x, y = point(0.5, 0.1), point(-0.3, 0.55)
    axes.plot(k, hgeo.math.dist(x, y, k=k[:, None]), color=BLUE, linewidth=1.8)
    axes.axhline(2 * float((x - y).norm()), color=GREY, linewidth=1, linestyle="--")
    axes.annotate("2|x − y|, Euclid's", (-1.15, 2 * float((x - y).norm()) - 0.07), color=GREY)
    axes.axvline(0, color=GREY, linewidth=0.6)
    axes.set_xlabel("signed curvature k = −c: hyperbolic to the left, spherical to the right")
    axes.set_ylabel("distance of two fixed points")
    axes.spines[["top", "right"]].set_visible(False)
    save(figure, "through-zero")


if __name__ == "__main__":
    draw_tiling()
    draw_geodesics()
    draw_maps()
    draw_curvatures()
    draw_limit()
