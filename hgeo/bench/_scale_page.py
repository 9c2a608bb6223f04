"""``docs/results/scale.md``: what an epoch costs from 10⁴ to 10⁷ edges, and what it would cost on 10⁹."""

from __future__ import annotations

import math
from typing import Any

__all__ = ["scale_page"]

_FAR = 10**9
_DEGREE, _TRAINED = 20, 0.1  # of the graphs that are measured: edges a node, and the share of nodes to train on


def scale_page(found: dict[str, Any], machine: dict[str, Any], command: str) -> str:
    """The page: time and memory of each way, time an edge, and what it would be on 10⁹ edges, with assumptions."""
    rows = found["rows"]
    sizes, ways = (sorted({row["edges"] for row in rows}), list(dict.fromkeys(row["way"] for row in rows)))
    cells = {(row["way"], row["edges"]): row for row in rows}
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    lines = [
        "# Scale",
        "",
        f"Made by `{command}` on {machine['processor']}, {machine['cores']} cores ({versions}), one thread a process.",
        "",
        "An epoch of training on graphs whose degrees follow a power law (`hgeo.data.power_law`: exponent 2.5, 20 "
        "edges a node, 16 features, 8 classes, a tenth of the nodes trained on); two layers, "
        f"d = {found['dim']}, on the ball. Sampled: batches of {found['batch']} nodes, {found['fanout']} neighbours a "
        "layer; two processes share each batch. HAT as `hgeo train` has it, which on the whole "
        "graph computes of the last layer what the loss needs; DGL's GAT is two of its `GATConv` with "
        "DGL's own sampler and loader.",
        "",
        "## Processor time of an epoch, s",
        "",
        "Of two processes that of the slower one. Processor time, for other programs ran on the machine.",
        "",
        *_table(ways, sizes, lambda way, size: _number(cells.get((way, size)), "cpu_seconds")),
        "",
        "Steps of an epoch: "
        + "; ".join(f"{size:,} edges: {_steps(cells, ways, size)}" for size in sizes)
        + " of the sampled ways, 1 of the others.",
        "",
        "## Peak memory, GB",
        "",
        "Of the processes together, Python and libraries included (0.4 a process).",
        "",
        *_table(ways, sizes, lambda way, size: _gigabytes(cells.get((way, size)))),
        "",
        "## Time an edge",
        "",
        "The paper claims O(|V| d d′ + |E| d′): with as many edges a node, time is to grow as the number of edges. "
        "Nanoseconds an edge of the whole graph, and the slope of log time over log edges from the second size on:",
        "",
        *_edge_table([way for way in ways if "whole" in way], sizes, cells),
        "",
        "## On 10⁹ edges",
        "",
        *_far(cells, ways, sizes, found),
    ]
    return "\n".join(lines) + "\n"


def _table(ways: list[str], sizes: list[int], cell: Any) -> list[str]:
    head = ["| | " + " | ".join(f"{size:,} edges" for size in sizes) + " |", "|---|" + "---|" * len(sizes)]
    return head + [f"| {way} | " + " | ".join(cell(way, size) for size in sizes) + " |" for way in ways]


def _number(row: dict[str, Any] | None, name: str) -> str:
    if row is None or "failed" in row:
        return "–" if row is None else f"failed: {row['failed']}"
    return f"{row[name]:.3g}"


def _gigabytes(row: dict[str, Any] | None) -> str:
    return _number(row, "peak_bytes") if row is None or "failed" in row else f"{row['peak_bytes'] / 2**30:.2f}"


def _steps(cells: dict[Any, Any], ways: list[str], size: int) -> str:
    known = [cells[way, size].get("steps") for way in ways if "sampled" in way and (way, size) in cells]
    return str(next((int(steps) for steps in known if steps), "–"))


def _edge_table(ways: list[str], sizes: list[int], cells: dict[Any, Any]) -> list[str]:
    lines = [
        "| | " + " | ".join(f"{size:,} edges" for size in sizes) + " | slope |",
        "|---|" + "---|" * (len(sizes) + 1),
    ]
    for way in ways:
        times = {size: cells.get((way, size), {}).get("cpu_seconds") for size in sizes}
        each = [f"{1e9 * time / size:.0f}" if time else "–" for size, time in times.items()]
        lines.append(f"| {way} | {' | '.join(each)} | {_slope(times)} |")
    return lines


def _slope(times: dict[int, float | None]) -> str:
    known = [(math.log(size), math.log(time)) for size, time in list(times.items())[1:] if time]
    if len(known) < 2:
        return "–"
    (x0, y0), (x1, y1) = known[0], known[-1]
    return f"{(y1 - y0) / (x1 - x0):.2f}"


def _far(cells: dict[Any, Any], ways: list[str], sizes: list[int], found: dict[str, Any]) -> list[str]:
    largest, before = sizes[-1], sizes[-2] if len(sizes) > 1 else sizes[-1]
    lines = [
        "Not measured. Assumed: as many edges a node, and a tenth of the nodes trained on, as here; time of the whole "
        f"graph and memory grow by the edge as they did from {before:,} to {largest:,} edges; a step of the sampled "
        "ways takes as long as there (a batch has the same size; reading its features from a larger memory takes "
        "longer, by how much is not known here); one machine holds the graph, or a part of it each where it is "
        "partitioned (see [](../scale.md)).",
        "",
        "| | processor time of an epoch | memory |",
        "|---|---|---|",
    ]
    for way in ways:
        row, small = cells.get((way, largest), {}), cells.get((way, before), {})
        if "cpu_seconds" not in row or "cpu_seconds" not in small or largest == before:
            continue
        memory = row["peak_bytes"] + (row["peak_bytes"] - small["peak_bytes"]) / (largest - before) * (_FAR - largest)
        if "sampled" in way:
            steps = _FAR / _DEGREE * _TRAINED / found["batch"]
            seconds = row["cpu_seconds"] / row["steps"] * steps
        else:
            seconds = row["cpu_seconds"] + (row["cpu_seconds"] - small["cpu_seconds"]) / (largest - before) * (
                _FAR - largest
            )
        lines.append(f"| {way} | {_duration(seconds)} | {memory / 2**30:.0f} GB |")
    return lines


def _duration(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
