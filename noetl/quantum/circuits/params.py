"""Points of a sweep: the values of the circuit's symbols, and a circuit with them in it."""

from __future__ import annotations

import ast
import itertools
import math
import operator
import sys
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

import cirq
import numpy as np
import sympy

from noetl.errors import ToolError
from noetl.facts.json import Json
from noetl.quantum.circuits.figures import show
from noetl.quantum.model import Point

#: Points of any sweep, whatever its limit says.
MOST_POINTS: Final = 1_000_000
#: Characters of a number that is written as text.
_LONGEST: Final = 100
_OPERATORS: Final[dict[type[ast.operator], Callable[[float, float], float]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def points(params: Mapping[str, Json] | None, most: int | None = None) -> list[Point]:
    """The points that `params` stand for, at most `most` of them; one without values where there
    are no `params`.

    A mapping of symbols to numbers is one point. `{product: {a: axis, b: axis}}` is every
    combination, the last symbol first to move; `{zip: {...}}` takes axes of equal length side by
    side; `{list: [{a: 1, b: 2}, ...]}` names each point. An axis is a list of numbers, or
    `{linspace: [start, stop, count]}`, both ends among them. Numbers may be texts such as `pi/4`,
    `-2*pi`, `0.5*pi`. Raises ToolError."""
    bound = MOST_POINTS if most is None else min(most, MOST_POINTS)
    return [Point(index, values) for index, values in enumerate(_values(params or {}, bound))]


def _values(params: Mapping[str, Json], most: int) -> Iterator[dict[str, float]]:
    form = next((form for form in _FORMS if isinstance(params.get(form), Mapping | list)), None)
    if form is None:
        return iter([_point(params, "params")])
    if len(params) > 1:
        others = ", ".join(repr(key) for key in params if key != form)
        raise _refusal(f"params has `{form}` and also {others}; put everything into `{form}`")
    return _FORMS[form](params[form], most)


def _product(given: Json, most: int) -> Iterator[dict[str, float]]:
    axes = _axes(given, "product", most)
    _check_count(math.prod(map(len, axes.values())), most)
    return (dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values()))


def _zip(given: Json, most: int) -> Iterator[dict[str, float]]:
    axes = _axes(given, "zip", most)
    lengths = {name: len(axis) for name, axis in axes.items()}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise _refusal(f"params.zip needs axes of one length, and they have {told}")
    _check_count(min(lengths.values()), most)
    return (dict(zip(axes, values, strict=True)) for values in zip(*axes.values(), strict=True))


def _list(given: Json, most: int) -> Iterator[dict[str, float]]:
    if not isinstance(given, list) or not given:
        raise _refusal("params.list must be a list of mappings from symbols to numbers")
    _check_count(len(given), most)
    return iter([_point(one, f"params.list[{index}]") for index, one in enumerate(given)])


_FORMS: Final = {"product": _product, "zip": _zip, "list": _list}


def _axes(given: Json, form: str, most: int) -> dict[str, list[float]]:
    if not isinstance(given, Mapping) or not given:
        raise _refusal(f"params.{form} must be a mapping from symbols to axes")
    return {name: _axis(axis, f"params.{form}.{name}", most) for name, axis in given.items()}


def _axis(given: Json, place: str, most: int) -> list[float]:
    if isinstance(given, Mapping) and given.keys() == {"linspace"}:
        return _linspace(given["linspace"], f"{place}.linspace", most)
    if not isinstance(given, list) or not given:
        raise _refusal(f"{place} must be a list of numbers, or {{linspace: [start, stop, count]}}")
    _check_count(len(given), most)
    return [_number(value, f"{place}[{index}]") for index, value in enumerate(given)]


def _linspace(given: Json, place: str, most: int) -> list[float]:
    if not isinstance(given, list) or len(given) != 3:
        raise _refusal(f"{place} must be [start, stop, count]")
    start, stop = (_number(value, f"{place}[{index}]") for index, value in enumerate(given[:2]))
    count = given[2]
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise _refusal(f"{place}[2] is the count of its points, a whole number from 1, not {count!r}")
    _check_count(count, most)
    if count == 1:
        return [start]
    # Both ends are exactly what was written.
    inner = [start * (1 - step / (count - 1)) + stop * (step / (count - 1)) for step in range(1, count - 1)]
    return [start, *inner, stop]


def _point(given: Json, place: str) -> dict[str, float]:
    if not isinstance(given, Mapping):
        raise _refusal(f"{place} must be a mapping from symbols to numbers, not {type(given).__name__}")
    return {str(name): _number(value, f"{place}.{name}") for name, value in given.items()}


def _number(given: Json, place: str) -> float:
    if isinstance(given, str):
        value = _evaluate(given, place)
    elif isinstance(given, Decimal):
        value = float(given)
    elif isinstance(given, int | float) and not isinstance(given, bool):
        value = float(given) if abs(given) <= sys.float_info.max else math.inf
    elif isinstance(given, list | Mapping):
        raise _refusal(
            f"{place} is no number; a sweep over it is `params: {{product: {{...}}}}`, `zip` or `list`"
        )
    else:
        raise _refusal(f"{place} is no number but {given!r}")
    if not math.isfinite(value):
        raise _refusal(f"{place} is no finite number", "NotFinite")
    return value


def _evaluate(given: str, place: str) -> float:
    refused = _refusal(
        f"{place} is {given[:_LONGEST]!r}, which is no number and nothing like `pi/4` or `-2*pi`"
    )
    if len(given) > _LONGEST:
        raise refused
    try:
        return _value(ast.parse(given.strip().replace("π", "pi"), mode="eval").body)
    except (SyntaxError, ValueError, OverflowError, ZeroDivisionError, RecursionError, MemoryError):
        raise refused from None


def _value(node: ast.expr) -> float:
    """Raises ValueError for everything but numbers, `pi` and arithmetic of them."""
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return float(number)
        case ast.Name(id="pi"):
            return math.pi
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _value(operand)
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _OPERATORS:
            return _OPERATORS[type(sign)](_value(left), _value(right))
    raise ValueError


def _check_count(count: int, most: int) -> None:
    if count > most:
        message = (
            f"The sweep has {count:,} points, and {most:,} are allowed (limits.max_points); make it smaller."
        )
        raise ToolError("limit", message, type="TooManyPoints")


def _refusal(what: str, type: str = "BadParams") -> ToolError:
    return ToolError("client_error", f"{what}.", type=type)


def resolve(circuit: cirq.Circuit, point: Point) -> cirq.Circuit:
    """`circuit` with the values of `point` in it. Raises ToolError (`NotFinite`) where what an
    expression comes to there is no angle: `1/t` at 0, `sqrt(t)` at -1."""
    if not point.params:
        return circuit
    try:
        # Numpy would warn of what is refused here.
        with np.errstate(all="ignore"):
            return cirq.resolve_parameters(circuit, _Values(dict(point.params)))
    except _NoAngle as error:
        raise ToolError(
            "client_error",
            f"At point {point.index} of `params` the circuit's {show(str(error))} is no finite "
            "real number; leave the point"
            " out, or give it other values.",
            type="NotFinite",
        ) from None


class _NoAngle(Exception):
    """An expression whose value is not an angle."""


class _Values(cirq.ParamResolver):
    def value_of(self, value: Any, recursive: bool = True) -> Any:
        try:
            found = super().value_of(value, recursive)
        except ArithmeticError:
            raise _NoAngle(value) from None
        if isinstance(found, sympy.Basic):
            return found
        number = complex(found)
        if number.imag or not math.isfinite(number.real):
            raise _NoAngle(value)
        return found
