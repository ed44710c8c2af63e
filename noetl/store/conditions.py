"""Conditions on executions as SQL: what the database can say of them.

What it cannot (patterns, what stands inside of an error) is left out, so that more rows may come
than the condition is true of, and never fewer. A condition is never unknown, as NULL is in SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import ge, gt, le, lt
from typing import Any, Final, assert_never

from sqlalchemy import Column, ColumnElement, and_, not_, or_, true

from noetl.store import codec
from noetl.store.schema.executions import execution
from noetl.usecases.fields import FIELDS
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


def _narrow_leaf(leaf: Leaf, negated: bool) -> ColumnElement[bool]:
    name = FIELDS[leaf.field].column
    column: Column[Any] = execution.c[name or "error"]
    said = _say(leaf, column) if name is not None else None
    if not negated:
        return column.is_not(None) if said is None else said
    if isinstance(leaf, Present):
        return column.is_(None)
    return true() if said is None else or_(column.is_(None), not_(said))


def _say(leaf: Leaf, column: Column[Any]) -> ColumnElement[bool] | None:
    match leaf:
        case OneOf(field, values):
            return column.in_([_bind(field, value) for value in values])
        case Ordered(field, order, value):
            compared: ColumnElement[bool] = _ORDERS[order](column, _bind(field, value))
            return compared
        case Matching() | Present():
            return None
        case _:
            assert_never(leaf)


def _bind(field: str, value: Value) -> Value:
    return codec.number(str(value)) if FIELDS[field].kind == "id" else value
