"""Counts by their labels as bars."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from noetl.facts.json import Json, JsonMap
from noetl.ui.json_text import make_visible

#: Units of the widest bar.
WIDTH: Final = 100
#: Labels of one chart.
FEWEST: Final = 2
MOST: Final = 64
#: Characters of a label.
LONGEST_LABEL: Final = 64
#: What mappings of counts are called, and labels of them: `01`, `|01⟩`.
_NAMED: Final = re.compile(r"(^|_)(counts?|histogram|distribution|frequenc(y|ies))$")
_BITS: Final = re.compile(r"\|?([01]+)[⟩>]?")
#: What is there is seen, however much the longest bar stands for.
_LEAST: Final = 0.5
#: Numbers beyond it are no counts, and their sum may be none.
_LARGEST: Final = 1e15


@dataclass(frozen=True, slots=True)
class CountBar:
    """One label; `width` in units of the picture, `share` of all in percent."""

    label: str
    number: str
    share: str
    width: float


@dataclass(frozen=True, slots=True)
class Histogram:
    """The bars in the order of the labels, and the sum of all."""

    bars: Sequence[CountBar]
    total: str


def is_counts(value: Json) -> bool:
    """Whether it is a mapping of a few labels to numbers that count something."""
    return (
        isinstance(value, Mapping)
        and FEWEST <= len(value) <= MOST
        and all(len(label) <= LONGEST_LABEL for label in value)
        and all(_is_count(number) for number in value.values())
        and any(value.values())
        and not _has_sum(value)
    )


def says_counts(value: JsonMap, name: str) -> bool:
    """Whether numbers by their labels are said to be counts: by the `name` that they stand under,
    or because the labels are outcomes of measured qubits."""
    is_whole = all(isinstance(number, int) or number == int(number) for number in value.values())
    return is_whole and (_NAMED.search(name.lower()) is not None or _are_outcomes(list(value)))


def _are_outcomes(labels: Sequence[str]) -> bool:
    bits = [found[1] for label in labels if (found := _BITS.fullmatch(label)) is not None]
    return len(bits) == len(labels) and len({len(one) for one in bits}) == 1


def _has_sum(counts: JsonMap) -> bool:
    """Whether one of the numbers is said to be what the others come to, as in the statistics of a
    loop."""
    total = counts.get("total", 0)
    return bool(total > 0 and total == math.fsum(counts.values()) - total)


def make_histogram(counts: JsonMap) -> Histogram:
    """The chart of a mapping of labels to numbers from 0 on, of which one at least is more."""
    most, total = max(counts.values()), math.fsum(counts.values())
    return Histogram(
        [
            CountBar(make_visible(label), say_number(number), f"{number / total:.1%}", _width(number / most))
            for label, number in counts.items()
        ],
        say_number(total),
    )


def say_number(number: float) -> str:
    """A number for people: whole ones with commas between their thousands."""
    return f"{int(number):,}" if number == int(number) else f"{number:.6g}"


def _is_count(number: Json) -> bool:
    return isinstance(number, int | float) and not isinstance(number, bool) and 0 <= number <= _LARGEST


def _width(part: float) -> float:
    return round(max(_LEAST, WIDTH * part), 2) if part else 0.0
