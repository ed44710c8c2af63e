"""All functions, filters and tests that a template may name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from noetl.expressions.limits import OverLimit
from noetl.expressions.list_filters import LIST_FILTERS
from noetl.expressions.members import Method, MissingKey, Namespace, Undefined, Verb
from noetl.expressions.methods import TIME_FILTERS
from noetl.expressions.operators import COMPARISONS, NUMBER_FILTERS, modulo
from noetl.expressions.rendering import Rendering
from noetl.expressions.text_filters import TEXT_FILTERS
from noetl.expressions.values import measure, to_list
from noetl.facts.reference import Lazy


def _remainder(run: Rendering, value: Any, divisor: Any) -> Any:
    # Never a text: `'%s' % x` is formatting, not a number.
    return None if isinstance(value, str) else modulo(run, value, divisor)


def _same(run: Rendering, value: Any, other: Any) -> bool:
    """Identity as far as data has one: equal and of one type. Python's own would be left to
    chance."""
    value, other = to_list(value, run), to_list(other, run)
    return type(value) is type(other) and bool(COMPARISONS["eq"](run, value, other))


def _is_case(run: Rendering, value: Any, function: Callable[[str], bool]) -> bool:
    if not isinstance(value, str):
        return False
    run.read(len(value))
    return function(value)


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple | range | str | Mapping | Lazy)


_OWN: Mapping[str, Verb] = {
    "boolean": lambda _, value: isinstance(value, bool),
    "callable": lambda _, value: (
        isinstance(value, Method | MissingKey) or (callable(value) and not isinstance(value, Undefined))
    ),
    "defined": lambda _, value: not isinstance(value, Undefined),
    "divisibleby": lambda run, value, num: _remainder(run, value, num) == 0,
    "escaped": lambda _, value: False,  # noqa: ARG005  # nothing is ever escaped
    "even": lambda run, value: _remainder(run, value, 2) == 0,
    "false": lambda _, value: value is False,
    "filter": lambda run, value: isinstance(value, str) and value in run.filters,
    "float": lambda _, value: isinstance(value, float | Decimal),
    "integer": lambda _, value: isinstance(value, int) and not isinstance(value, bool),
    "iterable": lambda _, value: _is_list(value) or isinstance(value, Undefined),
    "lower": lambda run, value: _is_case(run, value, str.islower),
    "mapping": lambda _, value: isinstance(value, Mapping),
    "none": lambda _, value: value is None or isinstance(value, Undefined),
    "number": lambda _, value: isinstance(value, int | float | Decimal) and not isinstance(value, bool),
    "odd": lambda run, value: _remainder(run, value, 2) == 1,
    "sameas": _same,
    "sequence": lambda _, value: _is_list(value),
    "string": lambda _, value: isinstance(value, str),
    "test": lambda run, value: isinstance(value, str) and value in run.tests,
    "true": lambda _, value: value is True,
    "undefined": lambda _, value: isinstance(value, Undefined),
    "upper": lambda run, value: _is_case(run, value, str.isupper),
}

_ALIASES: Mapping[str, tuple[str, ...]] = {
    "eq": ("eq", "equalto", "=="),
    "ne": ("ne", "!="),
    "lt": ("lt", "lessthan", "<"),
    "lteq": ("le", "<="),
    "gt": ("gt", "greaterthan", ">"),
    "gteq": ("ge", ">="),
    "in": ("in",),
}

TESTS: Mapping[str, Verb] = {
    **_OWN,
    **{alias: COMPARISONS[name] for name, aliases in _ALIASES.items() for alias in aliases},
}


#: Most elements of a `range`.
MAX_RANGE = 100_000


def _range(_: Rendering, *args: Any) -> range:
    numbers = range(*args)
    # Comparing first and last instead of `len`, which fails beyond the size of a machine word.
    step = numbers.step
    if abs(numbers.stop - numbers.start) // abs(step) > MAX_RANGE:
        raise OverLimit(f"makes a range of more than {MAX_RANGE} numbers")
    return numbers


def _dict(run: Rendering, *args: Any, **kwargs: Any) -> dict[str, Any]:
    measure(list(args), run)
    return dict(*args, **kwargs)


#: Functions that every template may call. `{{ range }}` by itself is a name like others.
GLOBALS: Mapping[str, Verb] = {
    "range": _range,
    "dict": _dict,
    "namespace": lambda run, *args, **kwargs: Namespace(_dict(run, *args, **kwargs)),
    "timedelta": TIME_FILTERS["timedelta"],
}


FILTERS: Mapping[str, Verb] = {**LIST_FILTERS, **NUMBER_FILTERS, **TEXT_FILTERS, **TIME_FILTERS}
