"""Angles of OpenQASM (radians): arithmetic that is bounded, finite and real."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import cirq
import sympy

from noetl.quantum.circuits.qasm_tokens import PI, POWERS, QasmToken, TokenReader

Angle: TypeAlias = Any  # a float, or an expression of sympy's

#: Words and marks within parentheses, and parentheses within each other. What sympy takes for an
#: angle grows with the square of its length.
MOST_INSIDE: Final = 500
MOST_DEPTH: Final = 50

#: How tightly the signs of an angle bind. A sign before a term binds more tightly than a product,
#: and less than a power.
_SUM, _PRODUCT, _SIGN, _POWER = 1, 2, 3, 4
_LEVELS: Final = {"+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT}
_OPERATORS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "^": operator.pow,
    "**": operator.pow,
}
#: Functions of angles: of numbers, and of symbols. OpenQASM 3 calls some of them by other names.
FUNCTIONS: Final[Mapping[str, tuple[Callable[[float], float], Any]]] = {
    "sin": (math.sin, sympy.sin),
    "cos": (math.cos, sympy.cos),
    "tan": (math.tan, sympy.tan),
    "exp": (math.exp, sympy.exp),
    "ln": (math.log, sympy.log),
    "sqrt": (math.sqrt, sympy.sqrt),
    "acos": (math.acos, sympy.acos),
    "atan": (math.atan, sympy.atan),
    "asin": (math.asin, sympy.asin),
    "log": (math.log, sympy.log),
    "arccos": (math.acos, sympy.acos),
    "arctan": (math.atan, sympy.atan),
    "arcsin": (math.asin, sympy.asin),
}
#: Of several names the first.
_NAMES: Final = {of_symbol: name for name, (_, of_symbol) in [*FUNCTIONS.items()][::-1]}


def size(angle: Angle) -> int:
    """How many parts an angle has."""
    return sum(1 for _ in sympy.preorder_traversal(angle)) if isinstance(angle, sympy.Basic) else 1


def _check_finite(value: Angle) -> Angle:
    if isinstance(value, sympy.Basic):
        if value.has(sympy.nan, sympy.zoo, sympy.oo, -sympy.oo):
            raise ValueError("an angle is not finite")
        for function in value.atoms(sympy.Function):
            if not function.atoms(sympy.Dummy):
                # Cirq's JSON has no form for it.
                raise ValueError(
                    f"{_NAMES[type(function)]} of a symbol: symbols take + - * /, powers and sqrt; compute "
                    "it before, and make the result another input"
                )
        return value
    real = value.real if isinstance(value, complex) and not value.imag else value
    if isinstance(real, complex) or not math.isfinite(real):
        raise ValueError("an angle is no finite real number")
    return real


def operate(sign: str, left: Angle, right: Angle) -> Angle:
    """`left` and `right` joined by `sign`. Raises ValueError where that is no angle."""
    # As floats: whole numbers would grow without bound.
    both = (one if isinstance(one, sympy.Basic) else float(one) for one in (left, right))
    try:
        return _check_finite(_OPERATORS[sign](*both))
    except ZeroDivisionError:
        raise ValueError("an angle is divided by 0") from None
    except OverflowError:
        raise ValueError("an angle is too large") from None


def apply_function(name: str, value: Angle) -> Angle:
    """The function of that name at `value`. Raises ValueError where it has no value there."""
    of_number, of_symbol = FUNCTIONS[name]
    if isinstance(value, sympy.Basic):
        return _check_finite(of_symbol(value))
    try:
        return of_number(value)
    except (ValueError, OverflowError):
        raise ValueError(f"{name} has no value at {value:g}") from None


class AngleValues(cirq.ParamResolver):
    """Values of a gate's parameters, by symbol. Cirq's resolver asks sympy, which takes
    milliseconds where numbers take microseconds."""

    def value_of(self, value: Any, recursive: bool = True) -> Any:  # noqa: ARG002 - Cirq's
        if not isinstance(value, sympy.Basic):
            return value
        try:
            return _check_finite(_compute(value, self.param_dict))
        except LookupError:
            placed = {symbol: sympy.sympify(one) for symbol, one in self.param_dict.items()}
            result = _check_finite(value.xreplace(placed))
            return result if result.free_symbols else _check_finite(complex(result))


def _compute(angle: sympy.Basic, values: Mapping[Any, Angle]) -> float:
    """Raises LookupError where a symbol has no number, or where a function is not OpenQASM's."""
    match angle:
        case sympy.Symbol():
            if isinstance(values[angle], sympy.Basic):
                raise LookupError(angle)
            return float(values[angle])
        case sympy.Add():
            return sum(_compute(part, values) for part in angle.args)
        case sympy.Mul():
            return math.prod(_compute(part, values) for part in angle.args)
        case sympy.Pow():
            return float(operate("^", *(_compute(part, values) for part in angle.args)))
        case sympy.Function():
            return float(apply_function(_NAMES[type(angle)], _compute(angle.args[0], values)))
    return float(angle)


class AngleReader(TokenReader):
    """Reads angles."""

    def __init__(self, version: str, tokens: Sequence[QasmToken]) -> None:
        super().__init__(version, tokens)
        self._inputs: set[str] = set()
        #: The parameters of the gate that is being defined; None outside of definitions.
        self._params: dict[str, sympy.Dummy] | None = None
        #: Parentheses that are open, and where the first one is.
        self._depth = self._opened = 0

    def _read_angle(self, least: int = _SUM) -> Angle:
        """An angle whose signs bind at least so tightly."""
        self._check_inside()
        if self._token.text in ("+", "-"):
            sign, value = self._next().text, self._read_angle(_SIGN)
            found = -value if sign == "-" else value
        else:
            found = self._read_value()
        while (level := self._find_level()) >= least:
            sign = self._next().text
            # Powers are taken from the right.
            found = operate(sign, found, self._read_angle(level if level == _POWER else level + 1))
        return found

    def _find_level(self) -> int:
        text = self._token.text
        return _POWER if text == POWERS[self._version] else _LEVELS.get(text, 0)

    def _read_value(self) -> Angle:
        token = self._token
        if token.text in PI:
            self._next()
            return math.pi
        if token.kind == "number":
            self._next()
            return int(token.text) if token.text.isdecimal() else float(token.text)
        if self._accept("("):
            return self._read_parenthesis()
        name = self._read_name()
        if not self._accept("("):
            return self._read_symbol(name)
        value = self._read_parenthesis()
        if name.text not in FUNCTIONS:
            *most, last = FUNCTIONS
            raise name.error(f"there is no function '{name.text}': there are {', '.join(most)} and {last}")
        return apply_function(name.text, value)

    def _read_parenthesis(self) -> Angle:
        """What is left of `(...)`."""
        self._depth += 1
        if self._depth > MOST_DEPTH:
            raise self._token.error(f"there are more than {MOST_DEPTH} parentheses within each other")
        value = self._read_angle()
        self._expect(")")
        self._depth -= 1
        return value

    def _read_symbol(self, name: QasmToken) -> sympy.Symbol:
        if self._params and name.text in self._params:
            return self._params[name.text]
        if name.text in self._inputs:
            return sympy.Symbol(name.text)
        if self._params is not None:
            raise name.error(
                f"Undefined parameter '{name.text}': the body of a gate has the gate's own parameters"
            )
        raise name.error(
            f"'{name.text}' has no value; in OpenQASM 3 `input float {name.text};` makes it a parameter"
        )

    def _check_inside(self) -> None:
        if self._at - self._opened > MOST_INSIDE:
            raise self._token.error(f"there are more than {MOST_INSIDE} words and marks within parentheses")
