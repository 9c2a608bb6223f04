"""The derivative of a tape, as more steps of the same tape."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from hgeo.kernels._symbols import NumberSymbol, RowSymbol, Step, Tape

__all__ = ["backward"]


def backward(
    tape: Tape, results: Iterable[tuple[RowSymbol | NumberSymbol, RowSymbol | NumberSymbol]]
) -> tuple[dict[int, RowSymbol], dict[int, NumberSymbol]]:
    """Goes through a formula backwards: from its results, each with its gradient, to those of its rows and numbers.

    The gradient of ⟨a, b⟩ by a is b, that of c·a by c is the inner product of a with what came back: so the derivative
    of coefficients times rows is coefficients times rows again.
    """
    sweep = _Sweep(tape)
    for result, gradient in results:
        if isinstance(result, RowSymbol) and isinstance(gradient, RowSymbol):
            sweep.through(result, gradient)
        elif isinstance(result, NumberSymbol) and isinstance(gradient, NumberSymbol):
            sweep.add(result.index, gradient)
        else:
            raise TypeError("a row has a row for its gradient, a number has a number")
    sealed = sorted(tape.sealed_at.items(), reverse=True)
    for index in range(len(sweep.forward) - 1, -1, -1):
        while sealed and sealed[0][1] > index:
            sweep.unseal(sealed.pop(0)[0])
        sweep.step(index)
    return sweep.rows, {s[1]: sweep.numbers[i] for i, s in enumerate(sweep.forward) if _is_argument(s, i, sweep)}


def _is_argument(step: Step, index: int, sweep: _Sweep) -> bool:
    return step[0] == "argument" and index in sweep.numbers


class _Sweep:
    def __init__(self, tape: Tape) -> None:
        self.tape, self.forward = tape, list(tape.steps)
        self.numbers: dict[int, NumberSymbol] = {}  # gradient by step
        self.rows: dict[int, RowSymbol] = {}  # gradient by row

    def add(self, index: int, value: NumberSymbol) -> None:
        self.numbers[index] = self.numbers[index] + value if index in self.numbers else value

    def add_row(self, index: int, value: RowSymbol) -> None:
        self.rows[index] = self.rows[index] + value if index in self.rows else value

    def through(self, row: RowSymbol, gradient: RowSymbol) -> None:
        """From the gradient of a sum of coefficients times atoms to those of the coefficients and of the rows."""
        for atom, coefficient in row.terms.items():
            self.add(coefficient.index, self.tape.dot(gradient, self.atom(atom)))
            for index, weight in atom:
                self.add_row(index, gradient * (coefficient * weight))

    def unseal(self, index: int) -> None:
        made_of = self.tape.rows[index]
        if index in self.rows and made_of is not None:
            self.through(made_of, self.rows[index])

    def atom(self, atom: Any) -> RowSymbol:
        return RowSymbol(self.tape, {atom: self.tape.constant(1.0)})

    def step(self, index: int) -> None:
        operation, *arguments = self.forward[index]
        gradient = self.numbers.get(index)
        if gradient is None or self.tape.value_of(gradient) == 0.0 or operation in ("constant", "argument"):
            return
        if operation in ("dot", "careful_dot"):
            for this, other in (arguments, arguments[::-1]):
                for row, weight in this:
                    self.add_row(row, self.atom(other) * (gradient * weight))
            return
        values = [NumberSymbol(self.tape, a) for a in arguments]
        rule = _RULES.get(operation)
        if rule is not None:
            for argument, slope in zip(
                arguments, rule(gradient, NumberSymbol(self.tape, index), *values), strict=False
            ):
                if slope is not None:
                    self.add(argument, slope)


def _apply(operation: str, *numbers: Any) -> NumberSymbol:
    tape: Tape = next(n.tape for n in numbers if isinstance(n, NumberSymbol))
    return tape.apply(operation, *numbers)


# operation -> what comes back to each argument: rule(gradient of the result, the result, arguments). Comparisons have
# none, and neither have the low digits of a careful sum.
_RULES: dict[str, Callable[..., tuple[NumberSymbol | None, ...]]] = {
    "+": lambda g, f, x, y: (g, g),
    "-": lambda g, f, x, y: (g, -g),
    "*": lambda g, f, x, y: (g * y, g * x),
    "/": lambda g, f, x, y: (g / y, -(g * f / y)),
    "where": lambda g, f, c, x, y: (None, _apply("where", c, g, 0.0), _apply("where", c, 0.0, g)),
    "sqrt": lambda g, f, x: (0.5 * g / f,),
    "abs": lambda g, f, x: (_apply("where", x < 0, -g, _apply("where", x == 0, 0.0, g)),),
    "exp": lambda g, f, x: (g * f,),
    "log": lambda g, f, x: (g / x,),
    "tan": lambda g, f, x: (g * (1 + f * f),),
    "tanh": lambda g, f, x: (g * (1 - f * f),),
    "sin": lambda g, f, x: (g * _apply("cos", x),),
    "cos": lambda g, f, x: (-(g * _apply("sin", x)),),
    "sinh": lambda g, f, x: (g * _apply("cosh", x),),
    "cosh": lambda g, f, x: (g * _apply("sinh", x),),
    "asin": lambda g, f, x: (g / _apply("sqrt", 1 - x * x),),
    "asinh": lambda g, f, x: (g / _apply("sqrt", 1 + x * x),),
    "atan": lambda g, f, x: (g / (1 + x * x),),
    "atanh": lambda g, f, x: (g / ((1 - x) * (1 + x)),),
    "atan2": lambda g, f, y, x: (g * x / (x * x + y * y), -(g * y / (x * x + y * y))),
    "careful_flatness": lambda g, f, k, dot, low: (g * dot, g * k, None),
}
