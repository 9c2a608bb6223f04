"""Formulas written down while they are carried out: numbers and rows that remember how they came about.

A formula of inner products is an ordinary function of rows and numbers. Called with the symbols of this module instead
of tensors, it leaves a tape: a list of steps, each an operation on earlier steps. The tape can be differentiated
(:mod:`hgeo.kernels._derivative`) and written down as a compiled loop (:mod:`hgeo.kernels._llvm`).

A row is a sum of coefficients times *atoms*. An atom is a sum of rows with whole weights, such as y - x: it is added up
before anything is multiplied, so that what a formula makes of differences keeps its digits.
"""

from __future__ import annotations

from typing import Any

__all__ = ["Atom", "NumberSymbol", "RowSymbol", "Step", "Tape"]

Atom = tuple[tuple[int, int], ...]
"""Rows by their index, with their whole weights."""

Step = tuple[Any, ...]
"""An operation and its arguments: indices of earlier steps, or what the operation says."""


class Tape:
    """The steps of one formula, each once: a step that is asked for a second time is the one that is there.

    Args:
        eps: the rounding unit of the rows' dtype.
        wide: whether rows are as precise as the arithmetic, so that careful sums need twice the digits.
        hyperbolic: whether the curvature is known to be at most 0.
    """

    def __init__(self, *, eps: float, wide: bool, hyperbolic: bool) -> None:
        self.eps, self.wide, self.hyperbolic = eps, wide, hyperbolic
        self.steps: list[Step] = []
        self.rows: list[RowSymbol | None] = []  # None: an argument; otherwise what a sealed row is made of
        self.sealed_at: dict[int, int] = {}  # how many steps there were when a row was sealed
        self._known: dict[Step, int] = {}

    # --- steps ---

    def step(self, operation: str, *arguments: Any) -> NumberSymbol:
        key = (operation, *arguments)
        index = self._known.get(key)
        if index is None:
            index = self._known[key] = len(self.steps)
            self.steps.append(key)
        return NumberSymbol(self, index)

    def constant(self, value: float) -> NumberSymbol:
        return self.step("constant", float(value))

    def argument(self, index: int) -> NumberSymbol:
        return self.step("argument", index)

    def value_of(self, number: NumberSymbol) -> float | None:
        """The value of a constant; None for any other number."""
        step = self.steps[number.index]
        return step[1] if step[0] == "constant" else None

    def apply(self, operation: str, *arguments: Any) -> NumberSymbol:
        """A step on numbers, simplified where one of them is 0 or 1."""
        numbers = [a if isinstance(a, NumberSymbol) else self.constant(a) for a in arguments]
        simple = self._simplified(operation, numbers)
        return simple if simple is not None else self.step(operation, *[n.index for n in numbers])

    def _simplified(self, operation: str, numbers: list[NumberSymbol]) -> NumberSymbol | None:
        values = [self.value_of(n) for n in numbers]
        x, y = numbers[0], numbers[-1]
        a, b = values[0], values[-1]
        if operation in _ARITHMETIC and a is not None and b is not None and (operation != "/" or b != 0):
            return self.constant(_ARITHMETIC[operation](a, b))
        if operation == "+":
            return y if a == 0 else x if b == 0 else None
        if operation == "-":
            return x if b == 0 else None
        if operation == "*":
            if a == 0 or b == 0:
                return self.constant(0.0)
            return y if a == 1 else x if b == 1 else None
        if operation == "/":
            return self.constant(0.0) if a == 0 else x if b == 1 else None
        if operation == "where" and numbers[1].index == numbers[2].index:
            return numbers[1]
        return None

    # --- rows ---

    def new_row(self) -> RowSymbol:
        self.rows.append(None)
        return RowSymbol(self, {((len(self.rows) - 1, 1),): self.constant(1.0)})

    def seal(self, row: RowSymbol) -> RowSymbol:
        """A row that counts as one from here on: sums with it are added up number by number before they are used."""
        if row.pure() is not None:
            return row
        self.rows.append(row)
        self.sealed_at[len(self.rows) - 1] = len(self.steps)
        return RowSymbol(self, {((len(self.rows) - 1, 1),): self.constant(1.0)})

    def dot(self, x: RowSymbol, y: RowSymbol, kind: str = "dot") -> NumberSymbol:
        """⟨x, y⟩, as the sum over their atoms."""
        total = self.constant(0.0)
        for a, p in x.terms.items():
            for b, q in y.terms.items():
                total = total + p * q * self.step(kind, *sorted((a, b)))
        return total


_ARITHMETIC = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
}


class NumberSymbol:
    """A number of one row of a batch: an inner product, the curvature, or what was made of them."""

    __slots__ = ("index", "tape")

    def __init__(self, tape: Tape, index: int) -> None:
        self.tape, self.index = tape, index

    def __add__(self, other: Any) -> NumberSymbol:
        return self.tape.apply("+", self, other)

    def __radd__(self, other: Any) -> NumberSymbol:
        return self.tape.apply("+", other, self)

    def __sub__(self, other: Any) -> NumberSymbol:
        return self.tape.apply("-", self, other)

    def __rsub__(self, other: Any) -> NumberSymbol:
        return self.tape.apply("-", other, self)

    def __mul__(self, other: Any) -> Any:
        return NotImplemented if isinstance(other, RowSymbol) else self.tape.apply("*", self, other)

    def __rmul__(self, other: Any) -> NumberSymbol:
        return self.tape.apply("*", other, self)

    def __truediv__(self, other: Any) -> NumberSymbol:
        return self.tape.apply("/", self, other)

    def __rtruediv__(self, other: Any) -> NumberSymbol:
        return self.tape.apply("/", other, self)

    def __pow__(self, power: int) -> NumberSymbol:
        if power != 2:
            raise TypeError(f"a number of a formula is squared or multiplied, not raised to the power {power}")
        return self * self

    def __neg__(self) -> NumberSymbol:
        return self.tape.apply("*", -1.0, self)

    def detach(self) -> NumberSymbol:
        """The number, through which no derivative passes."""
        return self.tape.apply("detached", self)

    def __abs__(self) -> NumberSymbol:
        return self.tape.apply("abs", self)

    def __lt__(self, other: Any) -> NumberSymbol:
        return self.tape.apply("<", self, other)

    def __le__(self, other: Any) -> NumberSymbol:
        return self.tape.apply("<=", self, other)

    def __gt__(self, other: Any) -> NumberSymbol:
        return self.tape.apply(">", self, other)

    def __ge__(self, other: Any) -> NumberSymbol:
        return self.tape.apply(">=", self, other)

    def __eq__(self, other: object) -> NumberSymbol:  # type: ignore[override]
        return self.tape.apply("==", self, other)

    def __and__(self, other: Any) -> NumberSymbol:
        return self.tape.apply("and", self, other)

    def __or__(self, other: Any) -> NumberSymbol:
        return self.tape.apply("or", self, other)

    def __invert__(self) -> NumberSymbol:
        return self.tape.apply("not", self)

    def __bool__(self) -> bool:
        raise TypeError("a formula cannot branch on a number that is not known yet; choose with where(condition, a, b)")

    __hash__ = None  # type: ignore[assignment]


class RowSymbol:
    """A vector of one row of a batch: coefficients times atoms."""

    __slots__ = ("tape", "terms")

    def __init__(self, tape: Tape, terms: dict[Atom, NumberSymbol]) -> None:
        self.tape, self.terms = tape, terms

    def pure(self) -> dict[int, int] | None:
        """The whole weights of a plain sum of rows; None for anything else."""
        if len(self.terms) == 1:
            ((atom, coefficient),) = self.terms.items()
            sign = self.tape.value_of(coefficient)
            if sign in (1.0, -1.0):
                return {row: weight * int(sign) for row, weight in atom}
        return None if self.terms else {}

    def __add__(self, other: Any) -> RowSymbol:
        if not isinstance(other, RowSymbol):
            return NotImplemented
        mine, theirs = self.pure(), other.pure()
        if mine is not None and theirs is not None:
            weights = {row: mine.get(row, 0) + theirs.get(row, 0) for row in {**mine, **theirs}}
            return _plain(self.tape, weights)
        terms = dict(self.terms)
        for atom, coefficient in other.terms.items():
            terms[atom] = terms[atom] + coefficient if atom in terms else coefficient
        return RowSymbol(self.tape, terms)

    def __sub__(self, other: Any) -> RowSymbol:
        return self + -other

    def __neg__(self) -> RowSymbol:
        return self * -1.0

    def __mul__(self, other: Any) -> RowSymbol:
        if isinstance(other, RowSymbol):
            raise TypeError("rows are multiplied by numbers; the product of two rows is dot(x, y)")
        return RowSymbol(self.tape, {atom: coefficient * other for atom, coefficient in self.terms.items()})

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> RowSymbol:
        return RowSymbol(self.tape, {atom: coefficient / other for atom, coefficient in self.terms.items()})


def _plain(tape: Tape, weights: dict[int, int]) -> RowSymbol:
    """The atom of these weights, its first one positive."""
    atom = tuple(sorted((row, weight) for row, weight in weights.items() if weight))
    if not atom:
        return RowSymbol(tape, {})
    sign = 1 if atom[0][1] > 0 else -1
    return RowSymbol(tape, {tuple((row, sign * weight) for row, weight in atom): tape.constant(sign)})
