"""Conditions on executions as SQL: what the database can say of them.

What it cannot (patterns, what stands inside of an error) is left out, so that more rows may come
than the condition is true of, and never fewer. A condition is never unknown, as NULL is in SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import ge, gt, le, lt
from typing import Any, Final, assert_never

from sqlalchemy import Column, ColumnElement, and_, func, not_, or_, true

from noetl.store import codec
from noetl.store.schema.executions import execution
from noetl.usecases.facets import part_of_name, part_of_value
from noetl.usecases.fields import field_of
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

_ORDERS: Final[Mapping[Order, Callable[[Any, Any], Any]]] = {"<": lt, "<=": le, ">": gt, ">=": ge}


def narrow(condition: Condition, *, negated: bool = False) -> ColumnElement[bool]:
    """Is true of every row that the condition is true of; with `negated` of every other."""
    match condition:
        case Not(one):
            return narrow(one, negated=not negated)
        case AllOf(parts) | AnyOf(parts):
            join = and_ if isinstance(condition, AllOf) is not negated else or_
            return join(*(narrow(part, negated=negated) for part in parts))
        case _:
            return _narrow_leaf(condition, negated)


def is_exact(condition: Condition) -> bool:
    """Whether the condition is true of all rows that are narrowed to."""
    match condition:
        case Not(one):
            return is_exact(one)
        case AllOf(parts) | AnyOf(parts):
            return all(map(is_exact, parts))
        case Matching():
            return False
        case OneOf() | Ordered():
            return field_of(condition).column is not None
        case Present():
            return True
        case _:
            assert_never(condition)


def _narrow_leaf(leaf: Leaf, negated: bool) -> ColumnElement[bool]:
    field = field_of(leaf)
    column = execution.c[field.column or "error"]
    if field.part is not None:
        return _narrow_part(leaf, field.part, column, negated)
    said = _say(leaf, column) if field.column is not None else None
    if not negated:
        return column.is_not(None) if said is None else said
    if isinstance(leaf, Present):
        return column.is_(None)
    return true() if said is None else or_(column.is_(None), not_(said))


def _narrow_part(leaf: Leaf, name: str, column: Column[Any], negated: bool) -> ColumnElement[bool]:
    """Of a part of the column, which is found by how it is written there."""
    match leaf:
        case OneOf(_, values):
            said = or_(*(_contains(column, part_of_value(name, str(value))) for value in values))
        case Present() | Matching() | Ordered():
            said = _contains(column, part_of_name(name))
        case _:
            assert_never(leaf)
    if not negated:
        return said
    return not_(said) if isinstance(leaf, OneOf | Present) else true()


def _contains(column: Column[Any], part: str) -> ColumnElement[bool]:
    # LIKE is another one in each database, and so is the name of the function that searches.
    return and_(column.is_not(None), func.replace(column, part, "") != column)


def _say(leaf: Leaf, column: Column[Any]) -> ColumnElement[bool] | None:
    match leaf:
        case OneOf(_, values):
            return column.in_([_bind(leaf, value) for value in values])
        case Ordered(_, order, value):
            compared: ColumnElement[bool] = _ORDERS[order](column, _bind(leaf, value))
            return compared
        case Matching() | Present():
            return None
        case _:
            assert_never(leaf)


def _bind(leaf: Leaf, value: Value) -> Value:
    return codec.number(str(value)) if field_of(leaf).kind == "id" else value
