"""The report of ``hgeo bench`` as a page: how it was made, what was aimed at, what was reached, every table."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from hgeo.bench._layers import BALL, GRAPH_CONV

__all__ = ["Target", "counterparts_page", "page", "targets"]


@dataclass(frozen=True)
class Target:
    """A bound, and the numbers that it is about with where each was measured."""

    what: str
    bound: float
    values: list[tuple[str, float]]
    at_least: bool = False
    unit: str = ""

    @property
    def met(self) -> bool | None:
        """Whether every number keeps the bound; None: none was measured."""
        if not self.values:
            return None
        return all(value >= self.bound if self.at_least else value <= self.bound for _, value in self.values)

    @property
    def reached(self) -> str:
        """The numbers in words: one, or the range with where its worse end was measured."""
        if not self.values:
            return "not measured"
        low, high = (pick(self.values, key=lambda item: item[1]) for pick in (min, max))
        worst = low if self.at_least else high
        if low[1] == high[1]:
            return f"{low[1]:.2f}{self.unit}"
        return f"{low[1]:.2f}–{high[1]:.2f}{self.unit} (worst: {worst[0]})"


def _layers(
    report: dict[str, Any], name: str, field: str, where: Callable[[dict[str, Any]], bool]
) -> list[tuple[str, float]]:
    """A number of one contestant in all one-thread cases for which ``where`` holds."""
    found = []
    for result in report["cases"]:
        case, row = result["case"], result["contestants"].get(name)
        if row is not None and row[field] is not None and case["threads"] == 1 and where(case):
            heads = f", {case['heads']} heads" if case["heads"] > 1 else ""
            found.append((f"{case['size']} {case['kind']}, d = {case['dim']}{heads}", row[field]))
    return found


def _times_faster(report: dict[str, Any]) -> list[tuple[str, float]]:
    """Naive over fused, where both ran, at 245k edges and d = 16."""
    found = []
    for result in report["cases"]:
        case, rows = result["case"], result["contestants"]
        if (case["size"], case["dim"], case["heads"], case["threads"]) == ("245k", 16, 1, 1) and case[
            "kind"
        ] != "block":
            naive, fused = rows.get("geoopt per edge"), rows.get("hgeo fused")
            if naive and fused:
                times = [row["forward"] + row["backward"] for row in (naive, fused)]
                found.append((f"245k {case['kind']}", times[0] / times[1]))
    return found


def targets(report: dict[str, Any]) -> list[Target]:
    """What hgeo aims at, with the numbers of this report."""
    train, large = report.get("train") or {}, report.get("large") or {}
    first, mobius, optim = report.get("first_call") or {}, report.get("mobius") or {}, report.get("optim") or {}
    steps = train.get("steps", {})

    def fused(kind: str, small: bool) -> list[tuple[str, float]]:
        return _layers(
            report, "hgeo fused", "ratio", lambda case: case["kind"] == kind and (case["size"] == "13k") == small
        )

    def one(where: str, value: float | None) -> list[tuple[str, float]]:
        return [] if value is None else [(where, value)]

    return [
        Target("fused, symmetric, 13k edges: time / DGL GATConv", 0.4, fused("symmetric", True)),
        Target("fused, symmetric, 245k edges and more", 0.33, fused("symmetric", False)),
        Target("fused, directed, 13k edges", 0.6, fused("directed", True)),
        Target("fused, directed, 245k edges and more", 0.45, fused("directed", False)),
        Target(
            "fused, a new block from a neighbour sampler each step",
            0.6,
            _layers(report, "hgeo fused", "ratio", lambda case: case["kind"] == "block"),
        ),
        Target(
            "`torch` backend",
            1.5,
            _layers(report, "hgeo torch", "ratio", lambda case: case["kind"] != "block"),
        ),
        Target(
            "times as fast as geoopt an edge, 245k edges, d = 16",
            40,
            _times_faster(report),
            at_least=True,
        ),
        Target(
            "fused: peak extra memory / DGL's",
            2.0,
            _layers(report, "hgeo fused", "ratio_memory", lambda case: True),
        ),
        Target(
            "two threads: times as fast as one, 245k edges and more",
            1.6,
            [(f"{row['size']}, d = {row['dim']}", row["speedup"]) for row in report.get("speedup", [])],
            at_least=True,
        ),
        *_layer_targets(report),
        Target(
            "10 M edges, d = 64, a training step: peak memory of the process",
            6.0,
            one("10M", large["peak_bytes"] / 2**30 if "peak_bytes" in large else None),
            unit=" GB",
        ),
        Target("`mobius` on Cora, d = 16, training step", 1.0, one("Cora", mobius.get("seconds")), unit=" s"),
        Target("first call of a new process, kernels cached", 0.6, one("", first.get("hgeo fused")), unit=" s"),
        Target("training step on Cora / stock DGL GAT", 0.35, one("", steps.get("hat", {}).get("ratio"))),
        Target(
            "training step on Cora / GAT on the same sparse features",
            1.0,
            [
                (f"hat over {gat}", ratio)
                for gat, ratio in steps.get("hat", {}).get("over_gats", {}).items()
                if gat.startswith("gat")
            ],
        ),
        Target(
            "Cora, d = 16, to early stop, one thread, processor time",
            6.0,
            one("", train.get("early_stop", {}).get("cpu_seconds")),
            unit=" s",
        ),
        Target("Adam step without manifold parameters / torch's Adam", 1.1, one("", optim.get("ratio"))),
        *(_geometry_targets(report["geometry"]) if report.get("geometry") else []),
    ]


def _layer_targets(report: dict[str, Any]) -> list[Target]:
    """Attention on other spaces, convolutions, growth, and HGCN's code."""

    def ratios(part: str, sizes: tuple[str, ...], word: str) -> list[tuple[str, float]]:
        return [
            (f"{case['size']}, d = {case['dim']}, {name}", row["ratio"])
            for case in report.get(part) or []
            for name, row in case["layers"].items()
            if case["size"] in sizes and word in name and row["ratio"] is not None and name not in (BALL, GRAPH_CONV)
        ]

    def growing(name: str) -> list[tuple[str, float]]:
        costs = list((report.get("growth") or {}).get(name, {}).values())
        return [("", costs[-1] / costs[0])] if costs else []

    many = ("245k", "2.5M")
    return [
        Target("attention on other spaces / the ball's, d = 16", 2.0, ratios("spaces", ("13k", "245k"), "")),
        Target("GCNConv, tangent / DGL GraphConv, 13k edges", 2.0, ratios("convolutions", ("13k",), "tangent")),
        Target("GCNConv, tangent, 245k edges and more", 1.5, ratios("convolutions", many, "tangent")),
        Target("GCNConv, midpoint", 2.5, ratios("convolutions", ("13k", *many), "midpoint")),
        Target("HATConv: an edge of 10 M over one of 100k", 2.0, growing("HATConv")),
        Target("GCNConv: an edge of 10 M over one of 100k", 2.0, growing("GCNConv")),
        Target(
            "training step of `--model hgcn` / HGCN's official code",
            0.5,
            [(f"{row['space']}, features {row['features']}", row["ratio"]) for row in report.get("hgcn") or []],
        ),
    ]


# operations that are one product or one pass: there is less to gain
_ONE_PASS = ("mobius_matvec", "projx", "egrad2rgrad", "logmap0", "Lorentz.projx", "Lorentz.logmap0")


def _geometry_targets(found: dict[str, Any]) -> list[Target]:
    """Times and memory of the operations of geometry over geoopt's."""

    def costs(rows: int, dim: int, kind: str, field: str, one_pass: bool | None = None) -> list[tuple[str, float]]:
        title = f"{rows} × {dim}, {kind}"
        return [
            (name if rows > 64 else f"{name}, {rows} rows", row[field])
            for case in found["cases"]
            if case["title"] == title
            for name, row in case["costs"].items()
            if row[field] is not None and one_pass in (None, name in _ONE_PASS)
        ]

    many, wide = (100_000, 16, "float32"), (100_000, 64, "float32")
    small = [(64, 16, "float32"), (2_000, 16, "float32")]
    return [
        Target("operations of geometry / geoopt's: 100k × 16", 0.4, costs(*many, "ratio", False)),
        Target("the same, 100k × 64", 0.2, costs(*wide, "ratio", False)),
        Target("the same, 2k and 64 × 16", 0.6, [c for size in small for c in costs(*size, "ratio", False)]),
        Target("those of one pass, 100k rows", 0.8, costs(*many, "ratio", True) + costs(*wide, "ratio", True)),
        Target("those of one pass, 2k and 64 rows", 1.0, [c for size in small for c in costs(*size, "ratio", True)]),
        Target("float64, 100k × 16", 0.8, costs(100_000, 16, "float64", "ratio")),
        Target("extra memory, 100k rows", 0.5, costs(*many, "ratio_memory") + costs(*wide, "ratio_memory")),
        Target("a step on 100k × 16 points", 0.7, [(name, row["ratio"]) for name, row in found["steps"].items()]),
    ]


_LAYERS = (
    "# Speed and memory",
    "",
    "What one graph attention layer costs, forward and backward, projection included, against DGL's `GATConv`",
    "with the same shapes, in float32. The contestants take turns in one process; a ratio is the median over",
    "rounds of (contestant / DGL) in the same round, so that a busy machine disturbs both sides alike. Below 1 is",
    "faster than DGL; memory is how far a step raises the memory of the process, as a ratio to DGL's.",
)
_GEOMETRY = (
    "# Geometry beside geoopt's",
    "",
    "What an operation costs, forward and backward, as a ratio to geoopt's. The contestants take turns in one process;",
    "a ratio is the median over rounds, so that a busy machine disturbs both alike. Below 1 is faster than geoopt.",
)


def page(report: dict[str, Any], command: str) -> str:
    """The whole report in Markdown."""
    lines = [
        *(_LAYERS if report["cases"] else _GEOMETRY if report.get("geometry") else ("# Speed and memory",)),
        "",
        *_how(report, command),
        *_aims([t for t in targets(report) if t.values or report["cases"]]),
        "What limits the numbers that miss their target: [what the measurements say](../findings.md).",
    ]
    for result in report["cases"]:
        lines += ["", f"### {result['title']}", "", *_case(result)]
    lines += _others(report)
    return "\n".join(lines) + "\n"


def _how(report: dict[str, Any], command: str) -> list[str]:
    """The command, the machine, the clock."""
    machine = report["machine"]
    clock = "processor time, while other programs ran" if report["clock"] == "cpu" else "wall-clock time"
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    here = f"{machine['processor']}, {machine['cores']} cores; {versions}; {clock}. No GPU was measured."
    return [f"    {command}", "", here, ""]


def _aims(aimed_at: Iterable[Target]) -> list[str]:
    rows = ((t.what, f"{'≥' if t.at_least else '≤'} {t.bound:g}{t.unit}", t.reached, _verdict(t.met)) for t in aimed_at)
    return ["## Targets", "", *_table(("what", "target", "reached", "met"), rows), ""]


def counterparts_page(report: dict[str, Any], command: str) -> str:
    """What ``hgeo bench --counterparts`` found, in Markdown."""
    groups = report["counterparts"]
    lines = [
        "# Layers beside flat ones",
        "",
        "What a layer costs, forward and backward, beside what stands in its place in flat space, on the same shapes,",
        "in float32, on one thread. The contestants take turns in one process; a ratio is the median over rounds of",
        "(layer / flat one) in the same round. Most of the difference is the way from points to coordinates and back.",
        "",
        *_how(report, command),
        *_aims(_counterpart_targets(groups))[:-1],
    ]
    return "\n".join(lines + _counterparts(groups)) + "\n"


def _counterpart_targets(groups: list[dict[str, Any]]) -> list[Target]:
    def ratios(title: str, *words: str) -> list[tuple[str, float]]:
        return [
            (f"{name}; {group['title']}", row["ratio"])
            for group in groups
            if group["title"].startswith(title)
            for name, row in group["rows"].items()
            if all(word in name for word in words)
        ]

    return [
        Target("`LorentzConv` within radius 2 / DGL's `GraphConv`", 2.0, ratios("Conv", "LorentzConv", "about 1")),
        Target("`LorentzConv` farther out / DGL's `GraphConv`", 2.0, ratios("Conv", "LorentzConv", "about 5")),
        Target("`set_attention` within radius 3 / softmax of products", 2.0, ratios("Attention", "set_", "1.5")),
        Target("`set_attention` farther out / softmax of products", 2.0, ratios("Attention", "set_", "about 5")),
    ]


def _counterparts(groups: list[dict[str, Any]]) -> list[str]:
    lines: list[str] = []
    for group in groups:
        rows = [
            (
                name,
                f"{_number(row['ratio'])} ({_number(row['ratio_low'])}–{_number(row['ratio_high'])})",
                *(_number(1e3 * row[part]) for part in ("forward", "backward")),
            )
            for name, row in group["rows"].items()
        ]
        lines += ["", f"### {group['title']}", ""]
        lines += _table((f"to {group['baseline']}", "ratio (quartiles)", "forward, ms", "backward, ms"), rows)
    return lines


def _verdict(met: bool | None) -> str:
    return {True: "yes", False: "no", None: "–"}[met]


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (head, ("---",) * len(head), *rows)]


def _number(value: float | None, digits: int = 2) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _case(result: dict[str, Any]) -> list[str]:
    rows = []
    for name, row in result["contestants"].items():
        spread = "" if row["ratio_low"] is None else f" ({row['ratio_low']:.2f}–{row['ratio_high']:.2f})"
        rows.append(
            (
                name,
                _number(row["ratio"]) + spread,
                *(_number(row[f"ratio_{part}"]) for part in ("forward", "backward", "memory")),
                *(_number(1e3 * row[part]) for part in ("forward", "backward")),
            )
        )
    head = ("", "ratio (quartiles)", "forward", "backward", "memory", "forward, ms", "backward, ms")
    left_out = ", ".join(result["too_large"])
    return _table(head, rows) + (["", f"Left out, would make tensors of gigabytes: {left_out}."] if left_out else [])


def _others(report: dict[str, Any]) -> list[str]:
    lines = _layer_tables(report)
    rows: list[tuple[str, ...]]
    if report.get("speedup"):
        rows = [
            (f"{row['size']} edges, d = {row['dim']}", _number(row["speedup"]), _number(row["median"]))
            for row in report["speedup"]
        ]
        head = ("fused, symmetric, wall-clock time", "times as fast, fastest rounds", "median of rounds")
        lines += ["", "### Two threads", "", *_table(head, rows)]
    if report.get("train"):
        train = report["train"]
        rows = [(name, f"{1e3 * row['seconds']:.1f}", f"{row['ratio']:.2f}") for name, row in train["steps"].items()]
        stop = train["early_stop"]
        lines += ["", "### A training step, Cora, d = 16, one thread", ""]
        lines += _table(("model", "ms", "ratio to stock"), rows)
        lines += ["", f"Until it stops: {stop['cpu_seconds']:.1f} s of processor time, {stop['epochs']} epochs, "]
        lines[-1] += f"test accuracy {stop['test_accuracy']:.3f}."
    if report.get("mobius"):
        mobius = report["mobius"]
        lines += ["", "### The exact Möbius sum", ""]
        lines += [f"A training step of two layers: {mobius['seconds']:.2f} s; {mobius['largest_degree']} steps a sum."]
    if report.get("optim"):
        cost = report["optim"]
        lines += ["", "### An Adam step on plain weights", ""]
        lines += [f"hgeo {cost['hgeo']:.2f} ms, torch {cost['torch']:.2f} ms, geoopt {cost['geoopt']:.2f} ms."]
    if report.get("geometry"):
        lines += _geometry(report["geometry"])
    lines += _counterparts(report.get("counterparts") or [])
    if "peak_bytes" in report.get("large", {}):
        large = report["large"]
        lines += ["", "### Ten million edges", ""]
        lines += [f"{large['edges']:,} edges, d = 64: peak {large['peak_bytes'] / 2**30:.2f} GB, a step "]
        lines[-1] += f"{large['step_seconds']:.1f} s."
    if report.get("first_call"):
        rows = [(name, f"{seconds:.2f}") for name, seconds in report["first_call"].items()]
        lines += ["", "### First layer and step of a new process", ""]
        lines += _table(("imports not counted", "seconds"), rows)
    notes = [part["note"] for part in report.values() if isinstance(part, dict) and part.get("note")]
    return lines + (["", *(f"Note: {note}." for note in dict.fromkeys(notes))] if notes else [])


def _layer_tables(report: dict[str, Any]) -> list[str]:
    lines: list[str] = []
    titles = {
        "spaces": "Attention on other spaces, symmetric graphs, 1 thread",
        "convolutions": "GCNConv, symmetric graphs, 1 thread",
    }
    for part, title in titles.items():
        for case in report.get(part) or []:
            rows = [
                (
                    name,
                    f"{_number(row['ratio'])} ({row['ratio_low']:.2f}–{row['ratio_high']:.2f})",
                    *(_number(1e3 * row[half]) for half in ("forward", "backward")),
                )
                for name, row in case["layers"].items()
            ]
            lines += ["", f"### {title}, {case['size']} edges, d = {case['dim']}", ""]
            lines += _table(("", "ratio (quartiles)", "forward, ms", "backward, ms"), rows)
    if report.get("growth"):
        found = report["growth"]
        sizes = list(next(iter(found.values())))
        rows = [(name, *(f"{1e9 * row[edges]:.0f}" for edges in sizes)) for name, row in found.items()]
        lines += ["", "### Nanoseconds an edge, d = 16, 1 thread", ""]
        lines += _table(("", *(f"{int(edges):,} edges" for edges in sizes)), rows)
    if report.get("hgcn"):
        rows = [
            (
                row["space"],
                row["features"],
                *(f"{1e3 * row[who]:.1f}" for who in ("hgeo", "official")),
                _number(row["ratio"]),
            )
            for row in report["hgcn"]
        ]
        lines += ["", "### A training step of HGCN, Cora's graph, d = 16, 1 thread", ""]
        lines += _table(("space", "features", "hgeo, ms", "official code, ms", "ratio"), rows)
    return lines


def _geometry(found: dict[str, Any]) -> list[str]:
    """One row an operation, one column a size."""
    lines = ["", "### Geometry", ""]
    lines += [
        "Time of an operation, forward and backward, of float32 or float64 points, one thread, processor time, the two",
        "contestants in turns: hgeo's `PoincareBall` and `Lorentz` over geoopt's. In brackets",
        "the extra memory. Points of the ball lie within .9 of its radius.",
        "",
    ]
    cases = found["cases"]
    rows = [
        (name, *(_time_and_memory(case["costs"][name]) for case in cases))
        for name in (cases[0]["costs"] if cases else ())
    ]
    lines += _table(("hgeo / geoopt", *(case["title"] for case in cases)), rows)
    steps = [(name, f"{row['hgeo'] / 1e3:.1f}", _number(row["ratio"])) for name, row in found["steps"].items()]
    head = ("a step on 100,000 × 16 points, 10,000 of them touched if sparse", "ms", "/ geoopt")
    lines += ["", *_table(head, steps)]
    return lines


def _time_and_memory(row: dict[str, Any]) -> str:
    memory = row["ratio_memory"]
    return _number(row["ratio"]) + (f" ({memory:.2f})" if memory is not None else "")
