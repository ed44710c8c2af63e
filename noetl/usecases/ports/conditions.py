"""Conditions on executions: what `where` says, once it is read.

A condition is true or false of a row, never unknown: what an execution does not have is not equal
to anything, before or behind anything, and matches nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

Value: TypeAlias = str | int | datetime
Order: TypeAlias = Literal["<", "<=", ">", ">="]


@dataclass(frozen=True, slots=True)
class OneOf:
    """The field is one of `values`."""

    field: str
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Ordered:
    """The field stands before or behind `value`."""

    field: str
    order: Order
    value: Value


@dataclass(frozen=True, slots=True)
class Matching:
    """`pattern` is found in the field."""

    field: str
    pattern: str


@dataclass(frozen=True, slots=True)
class Present:
    """The execution has the field."""

    field: str


@dataclass(frozen=True, slots=True)
class Not:
    """The other one is false."""

    condition: Condition


@dataclass(frozen=True, slots=True)
class AllOf:
    """All are true."""

    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """One is true at least."""

    conditions: tuple[Condition, ...]


def all_of(*conditions: Condition | None) -> Condition | None:
    """True where all are that there are; None where there are none."""
    found = tuple(one for one in conditions if one is not None)
    return found[0] if len(found) == 1 else AllOf(found) if found else None


Leaf: TypeAlias = OneOf | Ordered | Matching | Present
Condition: TypeAlias = Leaf | Not | AllOf | AnyOf
