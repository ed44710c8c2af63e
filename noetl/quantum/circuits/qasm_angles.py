"""Angles of OpenQASM: arithmetic that is bounded, and finite and real or refused."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import cirq
import sympy
from cirq.contrib.qasm_import.exception import QasmException

Angle: TypeAlias = Any  # a float, or an expression of sympy's


def size(angle: Angle) -> int:
    return sum(1 for _ in sympy.preorder_traversal(angle)) if isinstance(angle, sympy.Basic) else 1


def _finite(value: Angle) -> Angle:
    if isinstance(value, sympy.Basic):
        if value.has(sympy.nan, sympy.zoo, sympy.oo, -sympy.oo):
            raise QasmException("an angle is not finite")
        return value
    real = value.real if isinstance(value, complex) and not value.imag else value
    if isinstance(real, complex) or not math.isfinite(real):
        raise QasmException("an angle is no finite real number")
    return real


def _operation(operation: Callable[[Angle, Angle], Angle]) -> Callable[[Angle, Angle], Angle]:
    def apply(left: Angle, right: Angle) -> Angle:
        # As floats: whole numbers would grow without bound.
        both = (one if isinstance(one, sympy.Basic) else float(one) for one in (left, right))
        try:
            return _finite(operation(*both))
        except ZeroDivisionError:
            raise QasmException("an angle is divided by 0") from None
        except OverflowError:
            raise QasmException("an angle is too large") from None

    return apply


OPERATORS: Final = {
    sign: _operation(operation)
    for sign, operation in {
        "+": operator.add,
        "-": operator.sub,
        "*": operator.mul,
        "/": operator.truediv,
        "^": operator.pow,
    }.items()
}
_FUNCTIONS: Final[dict[str, tuple[Callable[[float], float], Any]]] = {
    "sin": (math.sin, sympy.sin),
    "cos": (math.cos, sympy.cos),
    "tan": (math.tan, sympy.tan),
    "exp": (math.exp, sympy.exp),
    "ln": (math.log, sympy.log),
    "sqrt": (math.sqrt, sympy.sqrt),
    "acos": (math.acos, sympy.acos),
    "atan": (math.atan, sympy.atan),
    "asin": (math.asin, sympy.asin),
    # As OpenQASM 3 calls them.
    "log": (math.log, sympy.log),
    "arccos": (math.acos, sympy.acos),
    "arctan": (math.atan, sympy.atan),
    "arcsin": (math.asin, sympy.asin),
}


def _function(
    name: str, of_number: Callable[[float], float], of_symbol: Callable[[Angle], Angle]
) -> Callable[[Angle], Angle]:
    def apply(value: Angle) -> Angle:
        if isinstance(value, sympy.Basic):
            return _finite(of_symbol(value))
        try:
            return _finite(of_number(value))
        except (ValueError, OverflowError):
            raise QasmException(f"{name} has no value at {value:g}") from None

    return apply


#: Of several names the first.
_NAMES: Final = {of_symbol: name for name, (_, of_symbol) in reversed(_FUNCTIONS.items())}
#: Functions of angles by name.
FUNCTIONS: Final[dict[str, Any]] = {name: _function(name, *both) for name, both in _FUNCTIONS.items()}


class Values(cirq.ParamResolver):
    """Of a gate's parameters. Cirq's asks sympy, which takes milliseconds where numbers take microseconds."""

    def value_of(self, value: Any, recursive: bool = True) -> Any:  # noqa: ARG002 - Cirq's
        if not isinstance(value, sympy.Basic):
            return value
        try:
            return _finite(_computed(value, self.param_dict))
        except LookupError:
            return _substituted(value, self.param_dict)


class _Listening(cirq.ParamResolver):
    """Leaves every expression as it is, and keeps it."""

    def __init__(self) -> None:
        # Cirq asks no resolver that is empty.
        super().__init__({"": 0.0})
        self.heard: list[sympy.Basic] = []

    def value_of(self, value: Any, recursive: bool = True) -> Any:  # noqa: ARG002 - Cirq's
        if isinstance(value, sympy.Basic):
            self.heard.append(value)
        return value


def function_in(operation: cirq.Operation) -> str | None:
    """The name of a function of a symbol in the angles of `operation`, which Cirq's JSON has no form for; None where there
    is none."""
    listening = _Listening()
    cirq.resolve_parameters(operation, listening)
    found = (function for angle in listening.heard for function in angle.atoms(sympy.Function))
    return next((_NAMES[type(function)] for function in found), None)


def _computed(angle: sympy.Basic, values: Mapping[Any, Angle]) -> float:
    """Raises LookupError where a symbol has no number, or where a function is none of OpenQASM."""
    match angle:
        case sympy.Symbol(name=name):
            if isinstance(values[name], sympy.Basic):
                raise LookupError(name)
            return float(values[name])
        case sympy.Add():
            return sum(_computed(part, values) for part in angle.args)
        case sympy.Mul():
            return math.prod(_computed(part, values) for part in angle.args)
        case sympy.Pow():
            return float(OPERATORS["^"](*(_computed(part, values) for part in angle.args)))
        case sympy.Function():
            return float(FUNCTIONS[_NAMES[type(angle)]](_computed(angle.args[0], values)))
    return float(angle)


def _substituted(angle: sympy.Basic, values: Mapping[Any, Angle]) -> Angle:
    placed = {sympy.Symbol(name): sympy.sympify(value) for name, value in values.items()}
    result = _finite(angle.xreplace(placed))
    return result if result.free_symbols else _finite(complex(result))
