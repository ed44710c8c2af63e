"""Functions that every template may call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noetl.expressions.members import Namespace, Verb
from noetl.expressions.refusals import OverLimit
from noetl.expressions.rendering import Rendering
from noetl.expressions.time_filters import TIME_FILTERS
from noetl.expressions.values import measure

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
