"""Run laws against a manifold, keep the worst of every law, and shrink what fails to a line that one can paste."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import math
import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hgeo._geoopt import geoopt
from hgeo.testing import _examples, laws
from hgeo.testing._inherited import inherited_faults
from hgeo.testing._space import Functions, Space, converted
from hgeo.testing.laws import Law

__all__ = ["Checker", "Report", "Result", "check_manifold", "expression", "load"]

PASS, FAIL, INHERITED = "pass", "FAIL", "inherited"
NOT_APPLICABLE, NO_EXAMPLE = "not applicable", "no example"
_BATCH = 2000
_SHRINK_BUDGET = 160
_SHRINK_SECONDS = 5.0


@dataclass
class Result:
    """What one law said about one manifold."""

    law: Law
    verdict: str
    tolerance: float
    error: float = 0.0
    examples: int = 0
    counterexample: str = ""
    note: str = ""

    @property
    def excess(self) -> float:
        """The worst error in units of the tolerance: above 1 the law is broken."""
        if math.isnan(self.error):
            return math.inf
        return self.error / self.tolerance if self.tolerance else (math.inf if self.error else 0.0)


@dataclass
class Report:
    """The verdicts of all laws on one manifold. ``print(report)`` is a table; ``report.passed`` is the answer."""

    manifold: str
    dim: int
    dtype: torch.dtype
    seed: int
    results: list[Result] = field(default_factory=list)

    @property
    def failures(self) -> list[Result]:
        return [result for result in self.results if result.verdict == FAIL]

    @property
    def passed(self) -> bool:
        """Whether no law is broken and at least one was applicable."""
        return not self.failures and any(result.verdict == PASS for result in self.results)

    def __getitem__(self, name: str) -> Result:
        for result in self.results:
            if result.law.name == name:
                return result
        raise KeyError(name)

    def counts(self) -> dict[str, int]:
        order = (PASS, FAIL, INHERITED, NOT_APPLICABLE, NO_EXAMPLE)
        return {verdict: sum(result.verdict == verdict for result in self.results) for verdict in order}

    def summary(self) -> str:
        said = ", ".join(f"{number} {verdict}" for verdict, number in self.counts().items() if number)
        return f"{self.manifold}, dimension {self.dim}, {_dtype_name(self.dtype)}, seed {self.seed}: {said}"

    def __str__(self) -> str:
        width = max((len(result.law.name) for result in self.results), default=3)
        lines = [self.summary(), "", f"{'law':{width}}  {'verdict':14}  {'worst error':>11}  {'allowed':>8}  examples"]
        for result in self.results:
            known = result.verdict in (PASS, FAIL, INHERITED)
            error = f"{result.error:11.2e}  {result.tolerance:8.1e}  {result.examples:8d}" if known else ""
            lines.append(f"{result.law.name:{width}}  {result.verdict:14}  {error}".rstrip())
            if result.verdict in (FAIL, INHERITED):
                lines.append(f"    {result.law.statement}")
                lines += [f"    {text}" for text in (result.note, result.counterexample) if text]
            elif result.verdict == NOT_APPLICABLE:
                lines[-1] += f"  {result.note}"
        return "\n".join(lines)

    def markdown(self) -> str:
        """The same table for a document."""
        lines = [
            f"### {self.summary()}",
            "",
            "| law | statement | verdict | worst error / allowed | smallest counter-example found, or why not |",
            "|---|---|---|---|---|",
        ]
        for result in self.results:
            known = result.verdict in (PASS, FAIL, INHERITED)
            size = f"{result.error:.1e} / {result.tolerance:.1e}" if known else ""
            why = " ".join(
                text for text in (result.note, f"`{result.counterexample}`" if result.counterexample else "") if text
            )
            verdict = f"**{result.verdict}**" if result.verdict == FAIL else result.verdict
            cells = (f"`{result.law.name}`", result.law.statement, verdict, size, why)
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        return "\n".join(lines)

    def to_json(self) -> str:
        """Everything, for a program."""

        def number(value: float) -> float | str:
            return value if math.isfinite(value) else str(value)

        return json.dumps(
            {
                "manifold": self.manifold,
                "dim": self.dim,
                "dtype": _dtype_name(self.dtype),
                "seed": self.seed,
                "passed": self.passed,
                "laws": [
                    {
                        "name": result.law.name,
                        "group": result.law.group,
                        "statement": result.law.statement,
                        "verdict": result.verdict,
                        "error": number(result.error),
                        "tolerance": result.tolerance,
                        "examples": result.examples,
                        "counterexample": result.counterexample,
                        "note": result.note,
                    }
                    for result in self.results
                ],
            },
            indent=2,
            ensure_ascii=False,
        )


def check_manifold(
    manifold: Any,
    *,
    dim: int | None = None,
    laws: str | Law | Iterable[str | Law] | None = None,
    dtype: torch.dtype = torch.float64,
    max_examples: int = 100,
    seed: int = 0,
    shrink: bool = True,
    name: str | None = None,
    on_law: Callable[[str], None] | None = None,
) -> Report:
    """Check every law that applies to ``manifold`` on ``max_examples`` examples each, hard places included.

    ``manifold`` is any geoopt manifold (yours too), or :class:`Functions` over a module of pure functions. ``laws``
    selects by name, group or pattern. A law that needs an operation the manifold lacks is reported as not applicable.
    ``dim`` is the dimension of the points (default: that of a product, else 3).
    The manifold is copied first and never changed. ``on_law`` is called with the name of each law that is done.

    >>> import geoopt, torch
    >>> from hgeo.testing import check_manifold
    >>> report = check_manifold(geoopt.Euclidean(ndim=1), dim=2, laws="triangle_inequality", max_examples=20)
    >>> report.passed, report["triangle_inequality"].verdict
    (True, 'pass')
    """
    dim = int(getattr(manifold, "dim", 3)) if dim is None else dim
    return Checker(
        manifold, dim=dim, dtype=dtype, max_examples=max_examples, seed=seed, shrink=shrink, name=name
    ).report(laws, on_law)


class Checker:
    """One manifold with its examples, drawn once, to which laws can be put one after the other."""

    def __init__(
        self,
        manifold: Any,
        *,
        dim: int,
        dtype: torch.dtype,
        max_examples: int,
        seed: int,
        shrink: bool = True,
        name: str | None = None,
    ) -> None:
        if not dtype.is_floating_point:
            raise TypeError(f"dtype must be a floating-point type, got {dtype}")
        if dim < 1 or max_examples < 1:
            raise ValueError(f"dim and max_examples must be at least 1, got dim={dim}, max_examples={max_examples}")
        self.text = name or expression(manifold)
        self.space = Space(converted(manifold, dtype), dim, dtype)
        self.batches = _Batches(self.space, seed, min(_BATCH, max_examples))
        self.max_examples, self.seed, self.shrink = max_examples, seed, shrink

    def report(
        self, chosen: str | Law | Iterable[str | Law] | None = None, on_law: Callable[[str], None] | None = None
    ) -> Report:
        """The verdicts of the chosen laws."""
        results = []
        for entry in laws.select(chosen):
            result = _check_law(entry, self.space, self.batches, self.max_examples, self.text, self.shrink)
            if result.verdict == FAIL and (names := inherited_faults(entry, self.space)):
                result.verdict = INHERITED
                result.note = f"geoopt.Manifold's own {', '.join(names)} breaks this on flat space, too; write your own"
            results.append(result)
            if on_law is not None:
                on_law(entry.name)
        return Report(self.text, self.space.dim, self.space.dtype, self.seed, results)


class _Batches:
    """The example batches of one run, drawn once and shared by all laws."""

    def __init__(self, space: Space, seed: int, size: int) -> None:
        self.space, self.seed, self.size = space, seed, size
        self._made: list[_examples.Examples] = []

    def __getitem__(self, index: int) -> _examples.Examples:
        while len(self._made) <= index:
            self._made.append(_examples.Examples(self.space, self.size, self.seed * 10_007 + len(self._made)))
        return self._made[index]


def _check_law(entry: Law, space: Space, batches: _Batches, wanted: int, text: str, shrink: bool) -> Result:
    result = Result(entry, PASS, entry.tolerance(space.dtype))
    if missing := entry.missing(space):
        result.verdict, result.note = NOT_APPLICABLE, f"it has no {', '.join(missing)}"
        return result
    wanted = min(wanted, entry.limit or wanted)
    failing: list[Rows] = []
    worst = -1.0
    # Examples of which a law does not speak do not count; after three times as many drawn, what there is must do.
    for index in range(3 * math.ceil(wanted / batches.size)):
        missing_yet = wanted - result.examples
        asked = max(math.ceil(1.25 * missing_yet), 4) if index else missing_yet
        rows = {name: batches[index][name][:asked] for name in entry.examples}
        try:
            errors = entry.judge(space, list(rows.values())).detach().double()
            if errors.dim() != 1:
                raise laws.WrongShape(
                    "an operation gave a result of the wrong shape for a batch of points (try it on two)"
                )
        except NotImplementedError as reason:
            result.verdict, result.note = NOT_APPLICABLE, str(reason) or "an operation is not implemented"
            return result
        except Exception as reason:  # whatever a manifold raises on a legal example is a verdict, not an accident
            result.verdict, result.error, result.note = FAIL, math.inf, _told(reason)
            result.counterexample = _pasted(entry, space, text, [rows], rows)
            return result
        spoken = errors != laws.SKIPPED
        result.examples += int(spoken.sum())
        severity = torch.nan_to_num(errors, nan=math.inf, posinf=math.inf)
        worst = max(worst, float(severity[spoken].max()) if spoken.any() else -1.0)
        bad = spoken & ~(severity <= result.tolerance)
        if len(failing) < 3 and bad.any():
            ranked = severity.masked_fill(~bad, -1.0).argsort(descending=True)[: int(bad.sum())].tolist()
            failing += [{name: value[[i]] for name, value in rows.items()} for i in ranked[: 3 - len(failing)]]
            whole = {name: torch.cat([value[ranked[:1]], value]) for name, value in rows.items()}
        if result.examples >= wanted:
            break
    if worst < 0:
        result.verdict = NO_EXAMPLE
        result.note = "none of the examples drawn was one that the law speaks about"
        return result
    result.error = worst
    if failing:
        result.verdict = FAIL
        # a law that is asked once is about the manifold, not about the example
        shrinker = _Shrinker(entry, space, worst) if shrink and entry.limit != 1 else None
        result.counterexample = _pasted(entry, space, text, failing, whole, shrinker)
    return result


def _told(reason: Exception) -> str:
    """What was raised, in one line."""
    first = str(reason).splitlines()[0] if str(reason) else ""
    return first if isinstance(reason, laws.WrongShape) else f"raised {type(reason).__name__}: {first}"


Rows = dict[str, Tensor]
"""Examples of a law by the names of its arguments, one a row."""


def _pasted(
    entry: Law, space: Space, text: str, failing: list[Rows], whole: Rows, shrinker: _Shrinker | None = None
) -> str:
    """The shortest line that shows the fault again: of one example, or where that shows nothing of as few as do.

    A fault may need a batch (a result of the wrong shape), or lie on the edge of what rounding makes of an answer.
    """
    count = len(next(iter(whole.values())))
    if len(failing) == 1:  # whatever raised: any row of the batch may have
        failing = [*failing, *({name: value[[i]] for name, value in whole.items()} for i in range(min(count, 8)))]
    lines = []
    for rows in failing:
        single = {name: value[0] for name, value in rows.items()}
        if len(next(iter(rows.values()))) != 1:
            continue
        small = shrinker.again().shrink(dict(single)) if shrinker is not None else single
        shown = next((row for row in (small, single) if _shows(entry, space, _as_batch(row))), None)
        if shown is not None:
            lines.append(_line(entry, text, space, shown))
    size = 2
    while not lines:
        few = {name: value[:size] for name, value in whole.items()}
        if size >= count or _shows(entry, space, few):
            lines.append(_line(entry, text, space, few, batch=True))
        size *= 2
    return min(lines, key=len)


def _as_batch(row: Rows) -> Rows:
    return {name: value.unsqueeze(0) for name, value in row.items()}


def _shows(entry: Law, space: Space, rows: Rows) -> bool:
    """Whether a law is broken, or something is raised, where a line with these examples is pasted."""
    values = [rows[name] for name in entry.examples]
    try:
        fresh = Space(space.manifold, space.dim if space.k is None else _dimension(space, rows), space.dtype)
        return not entry.worst(fresh, values) <= entry.tolerance(space.dtype)
    except Exception:
        return True


def _dimension(space: Space, row: Rows) -> int:
    """The dimension in which an example lies, which may be fewer than those of the space it was drawn in."""
    if space.k is None:
        return space.dim
    return next((value.shape[-1] for name, value in row.items() if name not in ("r", "s", "t", "ws")), space.dim)


# ------------------------------------------------------------------------------------------------------------ shrinking


class _Shrinker:
    """Greedy simplification of one failing example: fewer dimensions, zeros, ones, fewer digits."""

    def __init__(self, entry: Law, space: Space, worst: float = math.inf) -> None:
        self.entry, self.space, self.budget = entry, space, _SHRINK_BUDGET
        self.worst = worst  # what errs more than anything that was drawn has another fault, or none
        self.until = time.monotonic() + _SHRINK_SECONDS

    def again(self) -> _Shrinker:
        return _Shrinker(self.entry, self.space, self.worst)

    def fails(self, row: dict[str, Tensor]) -> bool:
        if self.budget <= 0 or time.monotonic() > self.until or not self._legal(row):
            return False
        self.budget -= 1
        dim = _dimension(self.space, row)
        space = self.space if dim == self.space.dim else Space(self.space.manifold, dim, self.space.dtype)
        try:
            error = float(
                self.entry.check(space, *[row[name].unsqueeze(0) for name in self.entry.examples]).reshape(-1)[0]
            )
        except Exception:
            return False
        return error != laws.SKIPPED and not error <= self.entry.tolerance(space.dtype) and not error > self.worst

    def _legal(self, row: dict[str, Tensor]) -> bool:
        """Whether points still lie where the recipes put them, and tangents are no longer than they may be."""
        space = self.space
        if "ws" in row and not bool((row["ws"] >= 1e-4).all()):
            return False
        if "t" in row and not bool(((row["t"] >= 0) & (row["t"] <= 1)).all()):
            return False
        if space.k is None:
            return True
        root = math.sqrt(abs(space.k))
        points = [row[name].reshape(-1, row[name].shape[-1]) for name in ("x", "y", "z", "xs") if name in row]
        if space.k < 0 and any(bool((space.euclidean(p) * root > space.domain.limit).any()) for p in points):
            return False
        if "x" in row:
            x = row["x"].unsqueeze(0)
            room = space.room(x)[0] * (1 + 1e-6)
            if any(float(space.length(x, row[n].unsqueeze(0))) * (root or 1.0) > room for n in ("u", "v") if n in row):
                return False
        return all(float(row[n].double().norm()) * (root or 1.0) <= space.reach / 2 for n in ("p", "w") if n in row)

    def shrink(self, row: dict[str, Tensor]) -> dict[str, Tensor]:
        for _ in range(3):
            before = {name: value.clone() for name, value in row.items()}
            for candidate in map(self._tangent, self._candidates(row)):
                if not _same(candidate, row) and self.fails(candidate):
                    row.clear()
                    row.update(candidate)
            if _same(before, row):
                break
        return row

    def _candidates(self, row: dict[str, Tensor]) -> Iterator[dict[str, Tensor]]:
        """Ever simpler versions of ``row``, which changes in place while they are tried."""
        dim = self.space.dim
        if self.space.k is not None and dim > 1:
            for smaller in sorted({1, 2, 3, dim // 2} - {dim}):
                if 0 < smaller < dim and all(
                    value.shape[-1] >= smaller or name in "rst" for name, value in row.items()
                ):
                    yield {name: _narrow(name, value, smaller) for name, value in row.items()}
        for name in list(row):
            if name not in ("g", "q", "ws"):  # a direction, a rotation, weights: never zero
                yield {**row, name: self._kept(name, row, torch.zeros_like(row[name]))}
            elif name == "ws":
                yield {**row, name: torch.ones_like(row[name])}
            if name in ("r", "s", "t"):
                for simple in (1.0, 0.5, 2.0):
                    yield {**row, name: torch.full_like(row[name], simple)}
            if name in ("m", "n", "q"):
                yield {**row, name: torch.eye(row[name].shape[-1], dtype=row[name].dtype)}
        for name in list(row):
            if row[name].dim() == 1 and name not in ("r", "s", "t"):
                axis = torch.zeros_like(row[name])
                axis[0] = row[name].double().norm().to(axis.dtype)
                yield {**row, name: self._kept(name, row, axis)}
            for digits in (1, 2, 3, 4, 6) if name != "q" else ():
                yield {**row, name: self._kept(name, row, _rounded(row[name], digits))}

    def _tangent(self, row: dict[str, Tensor]) -> dict[str, Tensor]:
        """The vectors of the row made tangent at its point, which may have moved."""
        if self.space.k is not None or "x" not in row or not self.space.has("proju"):
            return row
        x = row["x"].double().unsqueeze(0)
        return {
            name: self.space.wide.proju(x, value.double().unsqueeze(0))[0].to(value.dtype) if name in "uv" else value
            for name, value in row.items()
        }

    def _kept(self, name: str, row: dict[str, Tensor], value: Tensor) -> Tensor:
        """``value`` brought back to the manifold, where that is not a matter of coordinates alone."""
        if self.space.k is not None:
            return value
        if name in ("x", "y", "z") and self.space.has("projx"):
            # where a stranger's numbers end there are no simpler points
            if self.space.stranger and not self.space.manifold.check_point_on_manifold(value):
                return row[name]
            projected = self.space.manifold.projx(value.unsqueeze(0))[0]
            return projected if bool(torch.isfinite(projected).all()) else row[name]
        return value


def _same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return all(one[name].shape == other[name].shape and torch.equal(one[name], other[name]) for name in one)


def _narrow(name: str, value: Tensor, size: int) -> Tensor:
    if name in ("r", "s", "t", "ws"):
        return value
    if name in ("m", "n", "q"):
        return value[..., :size, :size]
    kept = value[..., :size]
    scale = value.double().norm(dim=-1, keepdim=True) / kept.double().norm(dim=-1, keepdim=True).clamp_min(1e-300)
    return (kept.double() * torch.where(torch.isfinite(scale), scale, 1.0)).to(value.dtype)


def _rounded(value: Tensor, digits: int) -> Tensor:
    numbers = np.vectorize(lambda number: float(f"{number:.{digits - 1}e}"), otypes=[float])
    return torch.from_numpy(numbers(value.detach().double().numpy())).to(value.dtype)


# ------------------------------------------------------------------------------------------------------ lines to paste


def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _numbers(value: Tensor) -> str:
    """Nested lists with the shortest decimals that give the same floats back."""
    array = value.detach().cpu()
    kind = {torch.float32: np.float32, torch.float16: np.float16}.get(array.dtype, np.float64)
    values = array.double().numpy().astype(kind)

    def text(part: Any) -> str:
        if isinstance(part, np.ndarray) and part.ndim:
            return "[" + ", ".join(text(item) for item in part) + "]"
        if not np.isfinite(part):
            return f"float('{part}')"
        ordinary = part == 0 or 1e-4 <= abs(part) < 1e7
        return np.format_float_positional(part, trim="0") if ordinary else np.format_float_scientific(part, trim="0")

    return text(values)


def _line(entry: Law, manifold: str, space: Space, rows: Rows, *, batch: bool = False) -> str:
    given = "".join(f", {name}={_numbers(rows[name])}" for name in entry.examples)
    dim = _dimension(space, rows)
    how = f"dtype=torch.{_dtype_name(space.dtype)}" + ("" if dim == laws.dimension(rows) else f", dim={dim}")
    imports = f"import {', '.join([*_modules(manifold), 'torch'])}; from hgeo.testing import *"
    return f"{imports}; laws.{entry.name}.error({manifold}, {how}{', batch=True' if batch else ''}{given})"


def _modules(manifold: str) -> list[str]:
    """The modules that the text of a manifold speaks of."""
    return sorted(set(re.findall(r"(?<![\w.])([a-z_]\w*(?:\.[a-z_]\w*)*)\.\w+", manifold)))


def expression(manifold: Any) -> str:
    """Python text that makes the manifold again, as far as it can be told from the outside."""
    if isinstance(manifold, Functions):
        k = float(torch.as_tensor(manifold.k, dtype=torch.float64).reshape(-1)[0])
        return f"Functions({manifold.module.__name__}, k={k!r})"
    kind = type(manifold)
    home = kind.__module__.split(".")[0]
    home = home if hasattr(importlib.import_module(home), kind.__name__) else kind.__module__
    return f"{home}.{kind.__name__}({_arguments(manifold)})"


def _arguments(manifold: Any) -> str:
    """What a manifold of a known kind is made from."""
    if isinstance(manifold, geoopt.ProductManifold):
        sizes = getattr(manifold, "dims", None) or [part.stop - part.start for part in manifold.slices]
        pairs = zip(manifold.manifolds, sizes, strict=True)
        return ", ".join(f"({expression(factor)}, {size})" for factor, size in pairs)
    if isinstance(manifold, geoopt.Scaled):
        return f"{expression(manifold.base)}, {float(manifold.scale.detach()):.9g}"
    if isinstance(manifold, geoopt.Euclidean):
        return f"ndim={manifold.ndim}"
    parameters = inspect.signature(type(manifold)).parameters
    for name in ("c", "k"):
        value = getattr(manifold, name, None)
        if name in parameters and isinstance(value, Tensor) and value.numel() == 1:
            return f"{name}={float(value.detach()):.9g}"
    return ""


_SPACE_WORDS = ("ball", "stereo", "lorentz", "klein", "sphere", "sproj", "euclidean")


def load(target: str, *, k: float | None = None) -> tuple[Any, int | None, str]:
    """What a word on the command line means: (manifold, its dimension if the word says it, Python text for it).

    ``geoopt:PoincareBall``, ``geoopt:Lorentz(k=2.0)``, ``mypkg.mod:factory`` call what they name; ``ball:16,c=0.5`` is
    a space string; ``hgeo.math`` (a module of pure functions) takes ``k``.
    """
    if target.split(":")[0].strip() in _SPACE_WORDS and ":" in target:
        from hgeo import manifolds

        space = manifolds.space(target)
        return space.manifold, space.dim, f"hgeo.space({target!r})[0]"
    module_name, colon, rest = target.partition(":")
    module = _imported(target, module_name)
    if not colon:
        return _functions(target, module, k)
    name, parenthesis, _ = rest.partition("(")
    if not hasattr(module, name):
        known = ", ".join(entry for entry in vars(module) if not entry.startswith("_"))[:200]
        raise ValueError(f"{target!r}: module {module_name} has no {name!r}; it has {known}")
    made = getattr(module, name)
    keywords: dict[str, Any] = {"ndim": 1} if made is geoopt.Euclidean else {}
    if parenthesis:
        keywords = _keywords(target, rest)
    if callable(made) and not isinstance(made, torch.nn.Module):
        try:
            made = made(**keywords)
        except Exception as reason:  # whatever a factory raises is the user's to read
            raise ValueError(f"{target!r}: {rest} raised {type(reason).__name__}: {reason}") from reason
    text = f"{module_name}.{name}({', '.join(f'{key}={value!r}' for key, value in keywords.items())})"
    manifold: Any
    dim: int | None
    manifold, dim = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    if not isinstance(manifold, geoopt.Manifold):
        raise ValueError(f"{target!r}: expected a geoopt manifold, or a pair (manifold, dimension), got {made!r}")
    return manifold, dim, text if dim is None else f"{text}[0]"


def _imported(target: str, module_name: str) -> ModuleType:
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as reason:
        if not f"{module_name}.".startswith(f"{reason.name}."):
            raise ValueError(
                f"{target!r}: module {module_name} needs {reason.name!r}, which is not installed"
            ) from reason
        raise ValueError(
            f"{target!r}: there is no module {module_name!r}; give package.module:factory, geoopt:PoincareBall, a "
            f"space such as ball:16 ({', '.join(_SPACE_WORDS)}), or a module of pure functions such as hgeo.math"
        ) from None
    except Exception as reason:  # a module may raise anything
        raise ValueError(f"{target!r}: importing {module_name} raised {type(reason).__name__}: {reason}") from reason


def _keywords(target: str, call: str) -> dict[str, Any]:
    try:
        tree = ast.parse(call, mode="eval").body
        if not isinstance(tree, ast.Call) or tree.args:
            raise SyntaxError
        return {str(word.arg): ast.literal_eval(word.value) for word in tree.keywords}
    except (SyntaxError, ValueError):
        raise ValueError(f"{target!r}: expected a call with keywords, such as Lorentz(k=2.0), got {call!r}") from None


def _functions(target: str, module: ModuleType, k: float | None) -> tuple[Any, int | None, str]:
    if not callable(getattr(module, "dist", None)):
        raise ValueError(f"{target!r} has no function dist(x, y, k=...); for a manifold give {target}:factory")
    made = Functions(module, -1.0 if k is None else k)
    return made, None, expression(made)
