"""Executions of playbooks in short: the newest ones, those that are open, those of each version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, get_args

from sqlalchemy import Select, bindparam, func, select, true

from noetl.store.schema.catalog import playbook
from noetl.store.schema.executions import execution
from noetl.store.session import columns_of
from noetl.usecases.ports import ENDED, ExecutionStatus, RunRow

_c = execution.c
_COLUMNS: Final = columns_of(execution, RunRow)
_named = (
    select(playbook.c.path)
    .where(playbook.c.path.in_(bindparam("paths", expanding=True)))
    .distinct()
    .subquery("named")
)


def _in_postgres() -> Select[Any]:
    """The newest ones of each are a walk through the end of an index."""
    of_path = (
        select(*_COLUMNS)
        .where(_c.path == _named.c.path)
        .order_by(_c.execution_id.desc())
        .limit(bindparam("each"))
        .lateral("of_path")
    )
    # A join with LATERAL need not keep an order.
    return (
        select(*(of_path.c[one.name] for one in _COLUMNS))
        .select_from(_named.join(of_path, true()))
        .order_by(of_path.c.path, of_path.c.execution_id.desc())
    )


def _in_sqlite() -> Select[Any]:
    """It has no LATERAL, and looks up what a subquery names."""
    other = execution.alias("other")
    newest = (
        select(other.c.execution_id)
        .where(other.c.path == _named.c.path)
        .order_by(other.c.execution_id.desc())
        .limit(bindparam("each"))
    )
    return (
        select(*_COLUMNS)
        .select_from(_named.join(execution, _c.execution_id.in_(newest)))
        .order_by(_c.path, _c.execution_id.desc())
    )


#: By the database.
NEWEST_OF: Final[Mapping[str, Select[Any]]] = {"postgresql": _in_postgres(), "sqlite": _in_sqlite()}
#: Those that are open are few: the index of statuses finds them.
COUNT_OPEN: Final = (
    select(_c.path, func.count())
    .where(_c.status.in_(sorted({*get_args(ExecutionStatus)} - ENDED)), _c.imported_at.is_(None))
    .group_by(_c.path)
)
_of_newest = (
    select(_c.playbook_version)
    .where(_c.path == bindparam("path"))
    .order_by(_c.execution_id.desc())
    .limit(bindparam("most"))
    .subquery("of_newest")
)
COUNT_VERSIONS: Final = select(_of_newest.c.playbook_version, func.count()).group_by(
    _of_newest.c.playbook_version
)


def run(columns: Any) -> RunRow:
    """The row of a result that holds the columns of `NEWEST_OF`."""
    number, *others = columns
    return RunRow(str(number), *others)
