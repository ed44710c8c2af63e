"""What can be asked of executions: the fields of a condition, and whether one is true of a row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from operator import ge, gt, le, lt
from typing import Any, Final, Literal, TypeAlias, assert_never

from noetl.facts.failures import failure_of
from noetl.net.patterns import matches
from noetl.usecases.facets import read_facets
from noetl.usecases.ports import ExecutionRow
from noetl.usecases.ports.conditions import (
    AllOf,
    AnyOf,
    Condition,
    Leaf,
    Matching,
    Not,
    OneOf,
    Order,
    Ordered,
    Present,
    Value,
)

Kind: TypeAlias = Literal["text", "number", "id", "instant"]

#: Ids are kept as texts, and meant as numbers.
_ORDERS: Final[Mapping[Order, Callable[[Any, Any], bool]]] = {"<": lt, "<=": le, ">": gt, ">=": ge}


@dataclass(frozen=True, slots=True)
class Field:
    """The kind of its values, how it is read of a row, what it is, and the row's column where the
    field is one, or a part of one."""

    kind: Kind
    read: Callable[[ExecutionRow], Value | None]
    about: str
    column: str | None = None
    #: Of a part of that column, its name there.
    part: str | None = None


def _column(kind: Kind, name: str, about: str) -> Field:
    return Field(kind, lambda row: getattr(row, name), about, name)


def _of_error(name: str, about: str) -> Field:
    def read(row: ExecutionRow) -> str | None:
        return None if row.error is None else str(row.error.get(name) or "")

    return Field("text", read, about)


def _fingerprint(row: ExecutionRow) -> str | None:
    return None if row.error is None else failure_of(row.error).fingerprint


#: By their names.
FIELDS: Final[Mapping[str, Field]] = {
    "id": _column("id", "execution_id", "the execution's id"),
    "status": _column("text", "status", "where it is"),
    "path": _column("text", "path", "of its playbook"),
    "version": _column("number", "playbook_version", "of its playbook"),
    "key": _column("text", "key", "its business key"),
    "created": _column("instant", "created_at", "when it was started"),
    "ended": _column("instant", "ended_at", "when it ended"),
    "waiting": _column("text", "waiting_for", "what it waits for, in a line"),
    "approvals": _column("number", "approvals", "how many approvals of it are open"),
    "principal": _column("text", "principal", "who started it"),
    "parent": _column("id", "parent_id", "the execution that called it"),
    "source": _column("id", "source_id", "the execution that it runs again, is a fork of, or took over"),
    "descent": _column("text", "descent", "which of these it is: retry, fork, migration or undo"),
    "operation": _column("id", "operation_id", "the operation that began it"),
    "error": _of_error("message", "the message of its error"),
    "kind": _of_error("kind", "the kind of its error"),
    "type": _of_error("type", "the type of its error, like KeyError"),
    "step": _of_error("step", "the step that failed"),
    "task": _of_error("task", "the task that failed"),
    "fingerprint": Field("text", _fingerprint, "the fingerprint of its failure"),
}


@dataclass(frozen=True, slots=True)
class Facet:
    """Fields of which each execution has its own: the row's column, and what they are."""

    column: str
    about: str


#: By what stands before the dot of their names.
FACETS: Final[Mapping[str, Facet]] = {
    "label": Facet("labels", "its label of that name"),
    "input": Facet("inputs", "the value of its input of that name, as text"),
}


@lru_cache(maxsize=1000)
def find_field(name: str) -> Field | None:
    """The field of that name, which may be `label.NAME` or `input.NAME`; None where there is
    none."""
    group, _, part = name.partition(".")
    facet = FACETS.get(group)
    if facet is None or part in ("", "*"):
        return FIELDS.get(name)

    def read(row: ExecutionRow) -> str | None:
        return read_facets(getattr(row, facet.column)).get(part)

    return Field("text", read, facet.about, facet.column, part)


def field_of(leaf: Leaf) -> Field:
    """The field that a condition asks for."""
    found = find_field(leaf.field)
    assert found is not None, "it was read as one"
    return found


def holds(condition: Condition, row: ExecutionRow) -> bool:
    """Whether the condition is true of the row."""
    match condition:
        case Not(one):
            return not holds(one, row)
        case AllOf(parts):
            return all(holds(part, row) for part in parts)
        case AnyOf(parts):
            return any(holds(part, row) for part in parts)
        case _:
            value = field_of(condition).read(row)
            return value is not None and _is_true(condition, value)


def _is_true(leaf: Leaf, value: Value) -> bool:
    match leaf:
        case OneOf(_, values):
            return value in values
        case Ordered(_, order, limit):
            as_number = field_of(leaf).kind == "id"
            return _ORDERS[order](*((int(str(value)), int(str(limit))) if as_number else (value, limit)))
        case Matching(_, pattern):
            return matches(pattern, str(value))
        case Present():
            return True
        case _:
            assert_never(leaf)


def names(condition: Condition, field: str) -> bool:
    """Whether the condition asks for the field anywhere."""
    match condition:
        case Not(one):
            return names(one, field)
        case AllOf(parts) | AnyOf(parts):
            return any(names(part, field) for part in parts)
        case _:
            return condition.field == field
