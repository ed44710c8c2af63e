"""Arithmetic, comparisons, membership and filters over numbers. Each is paid for beforehand."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from datetime import date
from decimal import Decimal
from functools import partial
from typing import Any, TypeAlias

from jinja2 import filters as jinja

from noetl.expressions.instants import OUTSIDE, align
from noetl.expressions.limits import MAX_DIGITS, Barred, Broken, Meter, OverLimit, check_bits
from noetl.expressions.members import Undefined
from noetl.expressions.methods import percent
from noetl.expressions.numbers import compute_exactly, round_exactly
from noetl.expressions.values import ATOMS, kind_of, text, to_comparable, to_list
from noetl.facts.json import align_numbers
from noetl.facts.reference import Lazy
from noetl.facts.secret import is_secret

_STRUCTURES = (list, tuple, Mapping, Lazy)
#: What is compared at no cost.
_CHEAP = frozenset({int, float, bool, type(None), Undefined})

Binary: TypeAlias = Callable[[Meter, Any, Any], Any]


def _compute(sign: str, left: Any, right: Any, function: Callable[[Any, Any], Any]) -> Any:
    left, right = _align(left, right)
    for side in (left, right):
        if isinstance(side, Undefined):
            raise Broken(f"cannot be computed: '{side.path}' is undefined")
    try:
        if isinstance(left, Decimal) or isinstance(right, Decimal):
            return compute_exactly(sign, left, right, function)
        return function(left, right)
    except TypeError as error:
        raise Broken(
            f"cannot be computed: '{sign}' does not work between {kind_of(left)} and {kind_of(right)}"
        ) from error
    except OverflowError as error:
        if isinstance(left, date):
            raise OverLimit(OUTSIDE) from error
        raise


def _align(left: Any, right: Any) -> tuple[Any, Any]:
    return align_numbers(*align(left, right))


def add(meter: Meter, left: Any, right: Any) -> Any:
    """`left + right`: numbers, texts, lists."""
    left, right = to_list(left, meter), to_list(right, meter)
    if isinstance(left, str) and isinstance(right, Mapping) and is_secret(right):
        right = text(right, meter)
    elif isinstance(right, str) and isinstance(left, Mapping) and is_secret(left):
        left = text(left, meter)
    if isinstance(left, str) and isinstance(right, str):
        meter.text(len(left) + len(right))
    elif isinstance(left, list | tuple) and isinstance(right, list | tuple):
        meter.items(len(left) + len(right))
    return _compute("+", left, right, operator.add)


def _make_arithmetic(sign: str, function: Callable[[Any, Any], Any]) -> Binary:
    return lambda _, left, right: _compute(sign, left, right, function)


subtract = _make_arithmetic("-", operator.sub)
divide = _make_arithmetic("/", operator.truediv)
floor_divide = _make_arithmetic("//", operator.floordiv)


def multiply(meter: Meter, left: Any, right: Any) -> Any:
    """`left * right`: numbers, or a text or list that many times."""
    left, right = to_list(left, meter), to_list(right, meter)
    if isinstance(left, int) and isinstance(right, int):
        check_bits(left.bit_length() + right.bit_length())
    elif isinstance(left, int):
        _pay_repetition(meter, right, left)
    elif isinstance(right, int):
        _pay_repetition(meter, left, right)
    return _compute("*", left, right, operator.mul)


def _pay_repetition(meter: Meter, value: Any, times: int) -> None:
    if isinstance(value, str):
        meter.text(len(value) * max(times, 0))
    elif isinstance(value, list | tuple):
        meter.items(len(value) * max(times, 0))


def power(_: Meter, left: Any, right: Any) -> Any:
    """`left ** right`."""
    if isinstance(left, int) and isinstance(right, int) and abs(left) > 1:
        check_bits(left.bit_length() * abs(right))
    return _compute("**", left, right, operator.pow)


def modulo(meter: Meter, left: Any, right: Any) -> Any:
    """`left % right`: the remainder, or a text with its placeholders filled."""
    if isinstance(left, str):
        return percent(meter, left, right)
    return _compute("%", left, right, operator.mod)


negate = partial(_compute, "-", 0, function=lambda _, number: -number)
posit = partial(_compute, "+", 0, function=lambda _, number: +number)


def _pay_comparison(meter: Meter, left: Any, right: Any) -> tuple[Any, Any]:
    """Both sides, to be compared: long texts are paid for by length, structures by walking them
    (their references opened); others differ at once."""
    if isinstance(left, str) and isinstance(right, str):
        meter.read(min(len(left), len(right)))
    elif isinstance(left, _STRUCTURES) and isinstance(right, _STRUCTURES):
        return to_comparable(left, meter), to_comparable(right, meter)
    return left, right


def _pay_equality(meter: Meter, left: Any, right: Any) -> tuple[Any, Any]:
    sized = isinstance(left, _STRUCTURES) and isinstance(right, _STRUCTURES)
    if not sized or len(left) == len(right):
        return _pay_comparison(meter, left, right)
    return left, right


def _make_comparison(
    sign: str,
    function: Callable[[Any, Any], Any],
    pay: Callable[[Meter, Any, Any], tuple[Any, Any]] = _pay_comparison,
) -> Binary:
    def compare(meter: Meter, left: Any, right: Any) -> bool:
        if type(left) not in _CHEAP or type(right) not in _CHEAP:
            _refuse_secrets(left, right)
            left, right = _align(*pay(meter, left, right))
        try:
            return bool(function(left, right))
        except TypeError as error:
            raise Broken(
                f"cannot be computed: '{sign}' does not work between {kind_of(left)} and {kind_of(right)}"
            ) from error

    return compare


def _refuse_secrets(left: Any, right: Any) -> None:
    """A secret is compared with null (whether there is one) and with nothing else: only a tool call
    knows it."""
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Mapping) and is_secret(one) and not isinstance(other, Undefined | None):
            raise Barred("compares a secret, whose value is known only inside of a tool call")


def contains(meter: Meter, needle: Any, haystack: Any) -> bool:
    """`needle in haystack`; nothing is in what is undefined. Raises Broken."""
    if isinstance(haystack, Undefined):
        return False
    if isinstance(needle, Mapping):
        _refuse_secrets(needle, haystack)
    if isinstance(haystack, Mapping):
        _refuse_secrets(haystack, needle)
        return isinstance(needle, str | int | float | bool | None) and needle in haystack
    if isinstance(haystack, str) and isinstance(needle, Undefined | None):
        return False
    if not isinstance(haystack, str | list | tuple | range | Lazy):
        raise Broken(f"cannot be computed: 'in' does not work on {kind_of(haystack)}")
    if isinstance(haystack, range):
        return isinstance(needle, int) and needle in haystack
    needle = to_comparable(needle, meter)
    pages = haystack.pages() if isinstance(haystack, Lazy) else (haystack,)
    return any(_is_found(meter, needle, page) for page in pages)


def _is_found(meter: Meter, needle: Any, haystack: Any) -> bool:
    if isinstance(haystack, str) or (type(needle) in ATOMS and ATOMS.issuperset(map(type, haystack))):
        meter.items(len(haystack))
        chars = len(needle) if isinstance(needle, str) else 0
        meter.read(chars * len(haystack) if isinstance(haystack, list | tuple) else len(haystack))
    else:
        haystack = to_comparable(haystack, meter)
    if isinstance(haystack, list | tuple) and type(needle) in (float, Decimal):
        return any(operator.eq(*align_numbers(needle, item)) for item in haystack)
    return needle in haystack


#: By the names that Jinja's parser gives them.
COMPARISONS: Mapping[str, Binary] = {
    "eq": _make_comparison("==", operator.eq, _pay_equality),
    "ne": _make_comparison("!=", operator.ne, _pay_equality),
    "lt": _make_comparison("<", operator.lt),
    "lteq": _make_comparison("<=", operator.le),
    "gt": _make_comparison(">", operator.gt),
    "gteq": _make_comparison(">=", operator.ge),
    "in": contains,
    "notin": lambda meter, needle, haystack: not contains(meter, needle, haystack),
}


def _abs(_: Meter, value: Any) -> Any:
    if isinstance(value, Undefined) or not isinstance(value, int | float | Decimal):
        raise Broken(f"cannot be computed: 'abs' does not work on {kind_of(value)}")
    return value.copy_abs() if isinstance(value, Decimal) else abs(value)


def _int(meter: Meter, value: Any, default: Any = 0, base: int = 10) -> Any:
    if isinstance(value, str):
        meter.text(len(value))
    if isinstance(value, Undefined):
        return default
    number = jinja.do_int(value, default, base)
    if isinstance(number, int):
        check_bits(number.bit_length())
    return number


def _float(meter: Meter, value: Any, default: Any = 0.0) -> Any:
    if isinstance(value, str):
        meter.text(len(value))
    return default if isinstance(value, Undefined) else jinja.do_float(value, default)


def _round(_: Meter, value: Any, precision: int = 0, method: str = "common") -> Any:
    if isinstance(value, Undefined) or not isinstance(value, int | float | Decimal):
        raise Broken(f"cannot be computed: 'round' does not work on {kind_of(value)}")
    if not abs(precision) <= MAX_DIGITS:
        raise OverLimit(f"rounds to {precision} digits; {MAX_DIGITS} is the most")
    if isinstance(value, Decimal):
        return round_exactly(value, precision, method)
    return jinja.do_round(value, precision, method)  # type: ignore[arg-type]  # checked there


#: Filters over numbers.
NUMBER_FILTERS: Mapping[str, Callable[..., Any]] = {
    "abs": _abs,
    "float": _float,
    "int": _int,
    "round": _round,
}
