"""A tape written down as a loop over the rows of a batch, in LLVM's language.

Eight rows at a time: the inner products of each row, one pass over its coordinates for all of those that need no other;
then the numbers made of them, for eight rows at once; then, where a formula needs them, further inner products of rows
that these numbers made; at last a pass that writes the rows of the result. Nothing but results is written to memory.

Numbers are computed in float64. Rows of float32 are added up in it; rows of float64 in twice the digits where a formula
asks for care.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from hgeo.kernels._symbols import Atom, NumberSymbol, RowSymbol, Tape
from hgeo.kernels._vector import LANES, LIBM, VECTOR, Lines, constant

__all__ = ["HEADER", "Argument", "write"]

HEADER = 4
"""A kernel's argument is an array of integers: first row, row after the last, length of the inner axis, size of a row;
then address, outer and inner stride of each argument; then address and stride of each result."""

_DOTS = ("dot", "careful_dot", "low_dot")


@dataclass(frozen=True)
class Argument:
    """A row (its index on the tape) or a number (its step), and the type of its numbers in memory."""

    symbol: RowSymbol | NumberSymbol
    kind: str  # "float" or "double"


def write(
    name: str,
    tape: Tape,
    arguments: Sequence[Argument],
    results: Sequence[Argument],
    not_positive: NumberSymbol | None = None,
    *,
    summed: bool = False,
) -> str:
    """A function ``i32 name(i64*)``. It gives 1, and has done nothing of use, if ``not_positive`` is positive.

    If the results are ``summed``, they are added to what is there, one row of results for each outer index.
    """
    return _Kernel(tape, arguments, results, not_positive, summed).text(name)


class _Kernel:
    def __init__(
        self,
        tape: Tape,
        arguments: Sequence[Argument],
        results: Sequence[Argument],
        not_positive: NumberSymbol | None,
        summed: bool,
    ) -> None:
        self.tape, self.arguments, self.not_positive, self.summed = tape, list(arguments), not_positive, summed
        self.results = list(results)
        self.out = Lines()
        self.value: dict[int, str] = {}  # what a step is called
        self.slots: list[str] = []  # places on the stack
        self.count = ""  # how many rows the block has
        self.kept: set[int] = set()  # steps whose eight values are on the stack, for loops over single rows
        self.place = {_row_index(a.symbol): n for n, a in enumerate(arguments) if isinstance(a.symbol, RowSymbol)}
        self.needed = self._needed()

    # --- what is needed, and when ---

    def _needed(self) -> dict[int, int]:
        """The steps that the results rest on, each with its stage: after how many passes over the rows it is known."""
        stages: dict[int, int] = {}

        def of_row(row: RowSymbol) -> int:
            coefficients = [of(c.index) for c in row.terms.values()]
            return max([0, *coefficients, *(of_atom(atom) for atom in row.terms)])

        def of_atom(atom: Atom) -> int:
            return max([0, *(of_row(made) for index, _ in atom if (made := self.tape.rows[index]) is not None)])

        def of(index: int) -> int:
            if index not in stages:
                operation, *arguments = self.tape.steps[index]
                if operation in _DOTS:
                    stages[index] = 1 + max(of_atom(atom) for atom in arguments)
                elif operation in ("constant", "argument"):
                    stages[index] = 0
                else:
                    stages[index] = max(of(argument) for argument in arguments)
            return stages[index]

        for result in self.results:
            of_row(result.symbol) if isinstance(result.symbol, RowSymbol) else of(result.symbol.index)
        if self.not_positive is not None:
            of(self.not_positive.index)
        return stages

    def text(self, name: str) -> str:
        out = self.out
        self._begin()
        out.loop("blocks", "%begin", "%end", self._block)
        out.line("ret i32 0")
        if self.not_positive is not None:
            out.label("refuse")
            out.line("ret i32 1")
        declared = "\n".join(sorted(out.declared))
        slots = "\n".join(f"  {slot}" for slot in self.slots)
        body = "\n".join(out.text)
        return f"{declared}\n\ndefine i32 @{name}(ptr noalias %args) {{\nentry:\n{slots}\n{body}\n}}\n"

    # --- the frame ---

    def _slot(self, name: str, kind: str = VECTOR) -> None:
        self.slots.append(f"{name} = alloca {kind}, align 64")

    def _begin(self) -> None:
        out = self.out

        def load(name: str, index: int, kind: str = "i64") -> None:
            place = out.add(f"getelementptr i64, ptr %args, i64 {index}")
            out.line(f"{name} = load {kind}, ptr {place}")

        for index, word in enumerate(("%begin", "%end", "%inner", "%d")):
            load(word, index)
        for n in range(len(self.arguments)):
            load(f"%a{n}", HEADER + 3 * n, "ptr")
            load(f"%outer{n}", HEADER + 3 * n + 1)
            load(f"%inner{n}", HEADER + 3 * n + 2)
        for n in range(len(self.results)):
            load(f"%r{n}", HEADER + 3 * len(self.arguments) + 2 * n, "ptr")
            load(f"%s{n}", HEADER + 3 * len(self.arguments) + 2 * n + 1)
        out.line("%whole = and i64 %d, -8")
        out.line("%ragged = icmp ne i64 %whole, %d")
        out.line("%some = icmp ne i64 %whole, 0")
        rest = out.add("sub i64 %d, %whole")
        first = out.add(f"insertelement <{LANES} x i64> undef, i64 {rest}, i64 0")
        zeros = f"<{LANES} x i32> zeroinitializer"
        rests = out.add(f"shufflevector <{LANES} x i64> {first}, <{LANES} x i64> undef, {zeros}")
        counting = ", ".join(f"i64 {lane}" for lane in range(LANES))
        out.line(f"%mask = icmp slt <{LANES} x i64> <{counting}>, {rests}")
        for word, start in (("%at.outer", "udiv"), ("%at.inner", "urem")):
            self._slot(word, "i64")
            out.line(f"store i64 {out.add(f'{start} i64 %begin, %inner')}, ptr {word}")
        for n, argument in enumerate(self.arguments):
            if isinstance(argument.symbol, NumberSymbol):
                self._slot(f"%n{n}")
                out.line(f"store {VECTOR} zeroinitializer, ptr %n{n}")
                out.line(f"%one{n} = icmp eq i64 %inner{n}, 0")
                out.line(f"%dense{n} = icmp eq i64 %inner{n}, 1")
        for index in self.needed:
            if self.tape.steps[index][0] in _DOTS:
                self._slot(f"%v{index}")
                out.line(f"store {VECTOR} zeroinitializer, ptr %v{index}")

    def _block(self, first: str) -> str:
        """Eight rows of one outer index, or what is left of them; how many."""
        out = self.out
        self.value.clear()
        self.first = first
        self.outer, inner = out.add("load i64, ptr %at.outer"), out.add("load i64, ptr %at.inner")
        left, here = out.add(f"sub i64 %end, {first}"), out.add(f"sub i64 %inner, {inner}")
        count = str(LANES)
        for limit in (left, here):
            fewer = out.add(f"icmp slt i64 {limit}, {count}")
            count = out.add(f"select i1 {fewer}, i64 {limit}, i64 {count}")
        self.count = count
        self.full = out.add(f"icmp eq i64 {self.count}, {LANES}")
        following = out.add(f"add i64 {inner}, {self.count}")
        turned = out.add(f"icmp eq i64 {following}, %inner")
        out.line(f"store i64 {out.add(f'select i1 {turned}, i64 0, i64 {following}')}, ptr %at.inner")
        carried = out.add(f"zext i1 {turned} to i64")
        out.line(f"store i64 {out.add(f'add i64 {self.outer}, {carried}')}, ptr %at.outer")
        for n, argument in enumerate(self.arguments):
            far, near = out.add(f"mul i64 {self.outer}, %outer{n}"), out.add(f"mul i64 {inner}, %inner{n}")
            offset = out.add(f"add i64 {far}, {near}")
            out.line(f"%at{n} = getelementptr {argument.kind}, ptr %a{n}, i64 {offset}")
            if isinstance(argument.symbol, NumberSymbol):
                self.value[argument.symbol.index] = self._given(n, argument.kind)
        self._numbers(0)
        if self.not_positive is not None:
            truths = out.compare(">", self.value[self.not_positive.index], constant(0.0))
            wrong = out.call("i1", f"llvm.vector.reduce.or.v{LANES}i1", (f"<{LANES} x i1>", truths))
            out.line(f"br i1 {wrong}, label %refuse, label %accept")
            out.label("accept")
        for stage in range(1, max(self.needed.values(), default=0) + 1):
            dots = [i for i, s in self.needed.items() if s == stage and self.tape.steps[i][0] in _DOTS]
            if dots:
                self._inner_products(stage, dots)
            self._numbers(stage)
        self._write_results()
        return self.count

    def _given(self, n: int, kind: str) -> str:
        """The numbers of an argument: one for all rows, or side by side, or with a stride."""
        out = self.out
        one, many, dense, strided, done = (f"n{n}.{word}" for word in ("one", "many", "dense", "strided", "done"))
        out.line(f"br i1 %one{n}, label %{one}, label %{many}")
        out.label(one)
        number = out.add(f"load {kind}, ptr %at{n}")
        if kind == "float":
            number = out.add(f"fpext float {number} to double")
        alike = out.splat(number)
        out.line(f"br label %{done}")
        out.label(many)
        together = out.add(f"and i1 {self.full}, %dense{n}")
        out.line(f"br i1 {together}, label %{dense}, label %{strided}")
        out.label(dense)
        beside = out.add(f"load <{LANES} x {kind}>, ptr %at{n}, align {4 if kind == 'float' else 8}")
        if kind == "float":
            beside = out.add(f"fpext <{LANES} x float> {beside} to {VECTOR}")
        out.line(f"br label %{done}")
        out.label(strided)

        def one_lane(lane: str) -> None:
            place = out.add(f"getelementptr {kind}, ptr %at{n}, i64 {out.add(f'mul i64 {lane}, %inner{n}')}")
            number = out.add(f"load {kind}, ptr {place}")
            if kind == "float":
                number = out.add(f"fpext float {number} to double")
            out.line(f"store double {number}, ptr {self.lane(f'%n{n}', lane)}")

        out.loop(f"n{n}.lanes", "0", self.count, one_lane)
        apart = out.add(f"load {VECTOR}, ptr %n{n}, align 64")
        out.line(f"br label %{done}")
        out.label(done)
        return out.add(f"phi {VECTOR} [ {alike}, %{one} ], [ {beside}, %{dense} ], [ {apart}, %n{n}.lanes.done ]")

    def lane(self, slot: str, lane: str, kind: str = "double") -> str:
        return self.out.add(f"getelementptr {kind}, ptr {slot}, i64 {lane}")

    # --- numbers ---

    def _numbers(self, stage: int) -> None:
        for index in sorted(i for i, s in self.needed.items() if s == stage):
            operation, *arguments = self.tape.steps[index]
            if operation == "constant":
                self.value[index] = constant(arguments[0])
            elif operation not in (*_DOTS, "argument"):
                self.value[index] = self._number(operation, [self.value[a] for a in arguments])

    def _number(self, operation: str, values: list[str]) -> str:
        out = self.out
        if operation in ("<", "<=", ">", ">=", "=="):
            return out.compare(operation, *values)
        if operation in ("and", "or"):
            return out.logical(operation, *values)
        if operation == "detached":
            return values[0]
        if operation in LIBM:
            return out.each(operation, *values)
        if operation == "careful_flatness":
            return self._careful_flatness(*values)
        names: dict[str, Callable[..., str]] = {
            "+": out.plus, "-": out.minus, "*": out.times, "/": out.over, "where": out.choose, "not": out.opposite
        }  # fmt: skip
        return names[operation](*values) if operation in names else getattr(out, operation)(*values)

    def _careful_flatness(self, k: str, high: str, low: str) -> str:
        out = self.out
        product = out.times(k, high)
        lost = out.plus(out.fused(k, high, out.negative(product)), out.times(k, low))
        total, rest = out.two_sum(constant(1.0), product)
        return out.plus(total, out.plus(rest, lost))

    def _keep(self, index: int) -> None:
        """Put the eight values of a step where a loop over single rows finds them."""
        if self.tape.steps[index][0] == "constant" or index in self.kept:
            return
        self.kept.add(index)
        self._slot(f"%c{index}")
        self.out.line(f"store {VECTOR} {self.value[index]}, ptr %c{index}, align 64")

    def _keep_row(self, row: RowSymbol) -> None:
        for atom, coefficient in row.terms.items():
            self._keep(coefficient.index)
            for index, _ in atom:
                made = self.tape.rows[index]
                if made is not None:
                    self._keep_row(made)

    # --- passes over the coordinates of a row ---

    def _inner_products(self, stage: int, dots: list[int]) -> None:
        steps = self.tape.steps
        pairs: dict[tuple[Atom, Atom], dict[str, int]] = {}
        for index in dots:
            kind, a, b = steps[index]
            pairs.setdefault((a, b), {})[kind] = index
        for pair in pairs:
            for atom in pair:
                for index, _ in atom:
                    made = self.tape.rows[index]
                    if made is not None:
                        self._keep_row(made)
        careful = {pair: any(kind != "dot" for kind in kinds) for pair, kinds in pairs.items()}

        def one_row(lane: str) -> None:
            def step(reader: _Reader, before: list[str]) -> list[str]:
                after: list[str] = []
                for a, b in pairs:
                    x, y, total = reader.atom(a), reader.atom(b), before[len(after)]
                    if careful[a, b]:
                        after += self._careful_step(x, y, total, before[len(after) + 1])
                    else:
                        after.append(self.out.multiplied_on(x, y, total))
                return after

            rows = [_as_row(self.tape, atom) for pair in pairs for atom in pair]
            width = len(pairs) + sum(careful.values())
            totals = iter(_Pass(self, lane, rows).run(f"dots{stage}", width, step))
            for pair, kinds in pairs.items():
                self._store_sums(lane, kinds, next(totals), next(totals) if careful[pair] else None)

        self.out.loop(f"rows{stage}", "0", self.count, one_row)
        for index in dots:
            self.value[index] = self.out.add(f"load {VECTOR}, ptr %v{index}, align 64")

    def _careful_step(self, x: str, y: str, total: str, rest: str) -> list[str]:
        out = self.out
        product = out.times(x, y)
        lost = out.fused(x, y, out.negative(product))
        total, more = out.two_sum(total, product)
        return [total, out.plus(rest, out.plus(lost, more))]

    def _store_sums(self, lane: str, kinds: dict[str, int], total: str, rest: str | None) -> None:
        out = self.out
        if rest is None:
            function = f"llvm.vector.reduce.fadd.v{LANES}f64"
            out.declared.add(f"declare double @{function}(double, {VECTOR})")
            number = out.add(f"call reassoc double @{function}(double 0.0, {VECTOR} {total})")
            out.line(f"store double {number}, ptr {self.lane('%v' + str(kinds['dot']), lane)}")
            return
        width = LANES
        while width > 1:
            width //= 2
            halves = []
            for value in (total, rest):
                masks = [", ".join(f"i32 {n}" for n in range(start, start + width)) for start in (0, width)]
                kind = f"<{2 * width} x double>"
                halves.append(
                    [out.add(f"shufflevector {kind} {value}, {kind} undef, <{width} x i32> <{m}>") for m in masks]
                )
            kind = f"<{width} x double>"
            total, lost = out.two_sum(halves[0][0], halves[0][1], kind)
            rest = out.add(f"fadd {kind} {out.add(f'fadd {kind} {halves[1][0]}, {halves[1][1]}')}, {lost}")
        high, low = (out.add(f"extractelement <1 x double> {value}, i64 0") for value in (total, rest))
        high, low = out.two_sum(high, low, "double")
        for kind, index in kinds.items():
            number = low if kind == "low_dot" else high
            out.line(f"store double {number}, ptr {self.lane(f'%v{index}', lane)}")

    def _write_results(self) -> None:
        out = self.out
        rows = [(n, r.symbol, r.kind) for n, r in enumerate(self.results) if isinstance(r.symbol, RowSymbol)]
        numbers = [(n, r.symbol, r.kind) for n, r in enumerate(self.results) if isinstance(r.symbol, NumberSymbol)]
        for _, symbol, _ in rows:
            self._keep_row(symbol)
        for n, number, kind in numbers:
            self._write_number(n, self.value[number.index], kind)
        if not rows:
            return

        def one_row(lane: str) -> None:
            at = self.outer if self.summed else out.add(f"add i64 {self.first}, {lane}")
            places = [
                out.add(f"getelementptr {kind}, ptr %r{n}, i64 {out.add(f'mul i64 {at}, %s{n}')}")
                for n, _, kind in rows
            ]

            def step(reader: _Reader, sums: list[str]) -> list[str]:
                for (_, symbol, kind), place in zip(rows, places, strict=True):
                    reader.store(reader.row(symbol), place, kind)
                return sums

            _Pass(self, lane, [symbol for _, symbol, _ in rows]).run("write", 0, step)

        out.loop("results", "0", self.count, one_row)

    def _write_number(self, n: int, value: str, kind: str) -> None:
        out, label = self.out, f"r{n}"
        vector = value if kind == "double" else out.add(f"fptrunc {VECTOR} {value} to <{LANES} x float>")
        self._slot(f"%out{n}")
        out.line(f"store <{LANES} x {kind}> {vector}, ptr %out{n}, align 64")
        at = out.add(f"mul i64 {self.outer if self.summed else self.first}, %s{n}")
        place = out.add(f"getelementptr {kind}, ptr %r{n}, i64 {at}")
        if not self.summed:
            dense = out.add(f"and i1 {self.full}, {out.add(f'icmp eq i64 %s{n}, 1')}")
            out.line(f"br i1 {dense}, label %{label}.whole, label %{label}.ragged")
            out.label(f"{label}.whole")
            out.line(f"store <{LANES} x {kind}> {vector}, ptr {place}, align {4 if kind == 'float' else 8}")
            out.line(f"br label %{label}.done")
            out.label(f"{label}.ragged")

        def one_lane(lane: str) -> None:
            number = out.add(f"load {kind}, ptr {self.lane(f'%out{n}', lane, kind)}")
            where = place if self.summed else self.lane(place, out.add(f"mul i64 {lane}, %s{n}"), kind)
            if self.summed:
                number = out.add(f"fadd {kind} {number}, {out.add(f'load {kind}, ptr {where}')}")
            out.line(f"store {kind} {number}, ptr {where}")

        out.loop(f"{label}.lanes", "0", self.count, one_lane)
        if not self.summed:
            out.line(f"br label %{label}.done")
            out.label(f"{label}.done")


class _Pass:
    """One pass over the coordinates of one row: eight at a time, the last ones under a mask."""

    def __init__(self, kernel: _Kernel, lane: str, rows: Iterable[RowSymbol]) -> None:
        self.tape, self.out, self.kernel = kernel.tape, kernel.out, kernel
        self.bases: dict[int, str] = {}  # where a row's coordinates begin
        self.coefficients: dict[int, str] = {}  # one number of this row, eight times
        for row in rows:
            self._prepare(row, lane)

    def _prepare(self, row: RowSymbol, lane: str) -> None:
        for atom, coefficient in row.terms.items():
            if coefficient.index not in self.coefficients:
                self.coefficients[coefficient.index] = self._coefficient(coefficient.index, lane)
            for index, _ in atom:
                made = self.tape.rows[index]
                if made is not None:
                    self._prepare(made, lane)
                elif index not in self.bases:
                    n = self.kernel.place[index]
                    offset = self.out.add(f"mul i64 {lane}, %inner{n}")
                    kind = self.kernel.arguments[n].kind
                    self.bases[index] = self.out.add(f"getelementptr {kind}, ptr %at{n}, i64 {offset}")

    def _coefficient(self, index: int, lane: str) -> str:
        operation, *arguments = self.tape.steps[index]
        if operation == "constant":
            return constant(arguments[0])
        number = self.out.add(f"load double, ptr {self.kernel.lane(f'%c{index}', lane)}")
        return self.out.splat(number)

    def run(self, label: str, width: int, step: Callable[[_Reader, list[str]], list[str]]) -> list[str]:
        """Carries ``width`` sums, 0 at first, through ``step(reader, sums)``; the sums at the end."""
        out = self.out
        start, entry = [constant(0.0)] * width, f"{label}.entry"
        loop, middle, tail, done = (f"{label}.{word}" for word in ("loop", "middle", "tail", "done"))
        out.line(f"br label %{entry}")
        out.label(entry)
        out.line(f"br i1 %some, label %{loop}, label %{middle}")
        out.label(loop)
        index, sums = out.name(), [out.name() for _ in range(width)]
        place = len(out.text)
        out.line(f"{index}.next = add i64 {index}, {LANES}")
        after = step(_Reader(self, index, masked=False), sums)
        phis = [f"  {index} = phi i64 [ 0, %{entry} ], [ {index}.next, %{loop} ]"]
        for name, first, last in zip(sums, start, after, strict=True):
            phis.append(f"  {name} = phi {VECTOR} [ {first}, %{entry} ], [ {last}, %{loop} ]")
        out.text[place:place] = phis
        more = out.add(f"icmp slt i64 {index}.next, %whole")
        out.line(f"br i1 {more}, label %{loop}, label %{middle}")
        out.label(middle)
        sums = [
            out.add(f"phi {VECTOR} [ {first}, %{entry} ], [ {last}, %{loop} ]")
            for first, last in zip(start, after, strict=True)
        ]
        out.line(f"br i1 %ragged, label %{tail}, label %{done}")
        out.label(tail)
        ends = step(_Reader(self, "%whole", masked=True), sums)
        out.line(f"br label %{done}")
        out.label(done)
        return [out.add(f"phi {VECTOR} [ {a}, %{middle} ], [ {b}, %{tail} ]") for a, b in zip(sums, ends, strict=True)]


class _Reader:
    """Eight coordinates of the rows of a pass, each read or added up once."""

    def __init__(self, passing: _Pass, index: str, *, masked: bool) -> None:
        self.passing, self.index, self.masked, self.out = passing, index, masked, passing.out
        self.known: dict[int | Atom, str] = {}

    def _base(self, index: int) -> str:
        kernel = self.passing.kernel
        kind = kernel.arguments[kernel.place[index]].kind
        value = self._load(self.passing.bases[index], kind)
        return self.out.add(f"fpext <{LANES} x float> {value} to {VECTOR}") if kind == "float" else value

    def _load(self, start: str, kind: str) -> str:
        place = self.out.add(f"getelementptr {kind}, ptr {start}, i64 {self.index}")
        vector, size = f"<{LANES} x {kind}>", 4 if kind == "float" else 8
        if self.masked:
            function = f"llvm.masked.load.v{LANES}f{8 * size}.p0"
            self.out.declared.add(f"declare {vector} @{function}(ptr, i32 immarg, <{LANES} x i1>, {vector})")
            return self.out.add(
                f"call {vector} @{function}(ptr {place}, i32 {size}, <{LANES} x i1> %mask, {vector} zeroinitializer)"
            )
        return self.out.add(f"load {vector}, ptr {place}, align {size}")

    def _one(self, index: int) -> str:
        if index not in self.known:
            made = self.passing.tape.rows[index]
            self.known[index] = self._base(index) if made is None else self.row(made)
        return self.known[index]

    def atom(self, atom: Atom) -> str:
        """Rows added up with their whole weights."""
        if atom not in self.known:
            total = ""
            for index, weight in atom:
                value = self._one(index)
                if abs(weight) != 1:
                    value = self.out.times(value, constant(float(abs(weight))))
                if total:
                    total = self.out.plus(total, value) if weight > 0 else self.out.minus(total, value)
                else:
                    total = value if weight > 0 else self.out.negative(value)
            self.known[atom] = total
        return self.known[atom]

    def row(self, row: RowSymbol) -> str:
        """Coefficients times atoms."""
        total = ""
        for atom, coefficient in row.terms.items():
            factor, value = self.passing.coefficients[coefficient.index], self.atom(atom)
            if total:
                total = self.out.multiplied_on(factor, value, total)
            elif self.passing.tape.value_of(coefficient) == 1.0:
                total = value
            else:
                total = self.out.times(factor, value)
        return total or constant(0.0)

    def store(self, value: str, start: str, kind: str) -> None:
        vector, size = f"<{LANES} x {kind}>", 4 if kind == "float" else 8
        if kind == "float":
            value = self.out.add(f"fptrunc {VECTOR} {value} to {vector}")
        if self.passing.kernel.summed:
            value = self.out.plus(value, self._load(start, kind))
        place = self.out.add(f"getelementptr {kind}, ptr {start}, i64 {self.index}")
        if self.masked:
            function = f"llvm.masked.store.v{LANES}f{8 * size}.p0"
            self.out.declared.add(f"declare void @{function}({vector}, ptr, i32 immarg, <{LANES} x i1>)")
            self.out.line(f"call void @{function}({vector} {value}, ptr {place}, i32 {size}, <{LANES} x i1> %mask)")
        else:
            self.out.line(f"store {vector} {value}, ptr {place}, align {size}")


def _row_index(row: RowSymbol) -> int:
    (((index, _),),) = row.terms
    return index


def _as_row(tape: Tape, atom: Atom) -> RowSymbol:
    return RowSymbol(tape, {atom: tape.constant(1.0)})
