"""What two guards of one router have to do with each other, as far as their texts show."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from noetl.net.model import Template

#: A name with its parts, a number or a text: nothing that a comparison could be a part of.
_TERM: Final = r"[\w.]+(?:\[[\w'\"]+\])*|-?[\d.]+|'[^'{}]*'|\"[^\"{}]*\""
_COMPARISON: Final = re.compile(rf"({_TERM})\s*(==|!=|<=|>=|<|>)\s*({_TERM})")
_NAME: Final = re.compile(r"[\w.]+")
_BRACES: Final = re.compile(r"\{\{((?:(?!\{\{|\}\}).)*)\}\}", re.DOTALL)
_LITERAL: Final = re.compile(r"-?[\d.]+|'.*'|\".*\"")
#: Comparisons that hold where the other one does not.
_OPPOSITE: Final[Mapping[str, str]] = {">=": "<", "<=": ">"}


@dataclass(frozen=True, slots=True)
class Reading:
    """A guard that holds where `subject` is `value`, or where it is not."""

    subject: str
    value: str = "true"
    holds: bool = True


def read_guard(when: Template) -> Reading:
    """`ctx.n >= 3` is the opposite of `ctx.n < 3`, `not x` that of `x`, and `x == 1` excludes
    `x == 2`. Of other guards only the same text says the same."""
    text = str(when).strip()
    inside = _BRACES.fullmatch(text)
    text = " ".join((inside[1] if inside else text).split())
    negated = text.removeprefix("not ")
    if negated != text and _NAME.fullmatch(negated):
        return Reading(negated, holds=False)
    compared = _COMPARISON.fullmatch(text)
    if compared is None:
        return Reading(text)
    left, operator, right = compared.groups()
    if operator in ("==", "!="):
        if _LITERAL.fullmatch(right):
            return Reading(left, right.replace('"', "'"), operator == "==")
        return Reading(f"{left} == {right}", holds=operator == "==")
    if operator in _OPPOSITE:
        return Reading(f"{left} {_OPPOSITE[operator]} {right}", holds=False)
    return Reading(f"{left} {operator} {right}")


_Values: TypeAlias = Mapping[str, frozenset[str]]


@dataclass(frozen=True, slots=True)
class Assumed:
    """What has been assumed while a router asks its guards: what its subjects are, and are not."""

    known: Mapping[str, str] = field(default_factory=dict)
    excluded: _Values = field(default_factory=dict)

    def ask(self, reading: Reading) -> Iterator[tuple[bool, Assumed]]:
        """Whether the guard can hold, can fail to, or both; and what is assumed then."""
        subject, value = reading.subject, reading.value
        excluded = self.excluded.get(subject, frozenset())
        if subject in self.known:
            yield (self.known[subject] == value) == reading.holds, self
        elif value in excluded:
            yield not reading.holds, self
        else:
            yield reading.holds, Assumed({**self.known, subject: value}, self.excluded)
            yield not reading.holds, Assumed(self.known, {**self.excluded, subject: excluded | {value}})
