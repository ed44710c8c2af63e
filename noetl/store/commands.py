"""The `command` table: outbox entry, pending index and lease in one row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    String,
    and_,
    bindparam,
    cast,
    exists,
    func,
    insert,
    literal_column,
    not_,
    or_,
    select,
    update,
)

from noetl.store import codec
from noetl.store.executions import COLUMNS as EXECUTION_COLUMNS
from noetl.store.executions import WIDTH
from noetl.store.executions import row as execution_row
from noetl.store.schema.executions import execution
from noetl.store.schema.waiting import paused
from noetl.store.schema.work import command
from noetl.store.session import SqlTable, columns_of, lines
from noetl.usecases.ports import ENDED, CommandRow, CommandStanding, ExecutionRow

_c = command.c
_x = execution.c
COLUMNS: Final = columns_of(command, CommandRow)
_CONTEXT: Final = COLUMNS.index(_c.context)
_mine = _c.shard == bindparam("shard")
_brief = tuple(literal_column("'{}'") if column is _c.context else column for column in COLUMNS)

#: Literals, not parameters: SQLite uses a partial index only for what it can read in the statement.
OPEN: Final[ColumnElement[str]] = literal_column("'open'")
CLAIMED: Final[ColumnElement[str]] = literal_column("'claimed'")
CLOSED: Final[ColumnElement[str]] = literal_column("'closed'")

_its_id = _c.command_id == bindparam("id")
_their_ids = _c.command_id.in_(bindparam("ids", expanding=True))
_its_execution = _x.execution_id == _c.execution_id
_leased = and_(_its_id, _c.state == CLAIMED, _c.attempt == bindparam("held"))

#: Nothing of a paused queue or step begins; what is a message for another execution does.
IS_PAUSED = exists().where(
    or_(
        and_(paused.c.kind == "queue", paused.c.name == _c.queue),
        and_(
            paused.c.kind == "step",
            paused.c.name == cast(_c.execution_id, String) + "/" + _c.step,
        ),
    )
)
_insert = insert(command)
_one = select(*COLUMNS).where(_its_id)
#: Both rows are locked, the execution first (the order of every other transaction): a command that
#: is read without a lock beside a row that was waited for would be as old as the wait.
_lock = (
    select(*EXECUTION_COLUMNS, *COLUMNS)
    .join_from(execution, command, _its_execution)
    .where(_its_id)
    .with_for_update(of=[execution, command], key_share=True)
)
_claim = (
    update(command)
    .where(
        _its_id,
        _c.attempt < bindparam("max_attempts"),
        or_(_c.due_at.is_(None), _c.due_at <= bindparam("now")),
        or_(_c.state == OPEN, and_(_c.state == CLAIMED, _c.lease_until <= bindparam("now"))),
        exists().where(_its_execution, _x.halt == "", _x.status.not_in(sorted(ENDED))),
        not_(IS_PAUSED),
    )
    .values(
        state="claimed",
        attempt=_c.attempt + 1,
        owner=bindparam("new_owner"),
        lease_until=bindparam("until", type_=_c.lease_until.type),
    )
    .returning(*COLUMNS)
)
_release = (
    update(command)
    .where(_leased)
    .values(
        state="open",
        attempt=_c.attempt - 1,
        owner=None,
        lease_until=None,
        sent_at=bindparam("now", type_=_c.sent_at.type),
    )
)
_reopen = update(command).where(_leased).values(state="open", owner=None, lease_until=None, sent_at=None)
_heartbeat = update(command).where(_leased).values(lease_until=bindparam("until", type_=_c.lease_until.type))
_standings = (
    select(_c.command_id, _c.state, _c.attempt, _x.halt, _x.cancelled_parts)
    .join_from(command, execution, _its_execution)
    .where(_their_ids)
)
_close = update(command).where(_their_ids).values(state="closed", owner=None, lease_until=None)


def _not_locked(*conditions: ColumnElement[bool]) -> ColumnElement[bool]:
    """Those that nobody is changing. Who changes commands of many executions without their locks
    would else wait for a turn that waits for it. What is passed over has just been claimed, closed
    or sent; if not, it is sent again when `resend_s` is over."""
    free = select(_c.command_id).where(*conditions).with_for_update(skip_locked=True, key_share=True)
    return _c.command_id.in_(free)


_sent = update(command).where(_not_locked(_their_ids)).values(sent_at=bindparam("now", type_=_c.sent_at.type))
_unsend = (
    update(command)
    .where(_not_locked(_c.queue == bindparam("its_queue"), _c.state == OPEN))
    .values(sent_at=None)
)
_open_of = (
    select(*_brief)
    .where(_c.execution_id == bindparam("execution"), _c.state != CLOSED)
    .order_by(_c.command_id)
)
_open_among = (
    select(*_brief)
    .where(_c.execution_id.in_(bindparam("ids", expanding=True)), _c.state != CLOSED)
    .order_by(_c.execution_id, _c.command_id)
)
_has_open = (
    select(_c.command_id)
    .where(_c.execution_id == bindparam("execution"), _c.run_id == bindparam("its_run"), _c.state != CLOSED)
    .limit(1)
)
_unsent = (
    select(*_brief)
    .where(
        _mine,
        _c.state == OPEN,
        _c.sent_at.is_(None),
        or_(_c.due_at.is_(None), _c.due_at <= bindparam("now")),
        not_(IS_PAUSED),
    )
    .order_by(_c.execution_id, _c.command_id)
    .limit(bindparam("limit"))
)
_unclaimed = (
    select(*_brief)
    .where(_mine, _c.state == OPEN, _c.sent_at < bindparam("before"), not_(IS_PAUSED))
    .order_by(_c.sent_at, _c.command_id)
    .limit(bindparam("limit"))
)
#: Each is counted along its own partial index, and no further than it matters.
_backlog = select(
    *(
        select(func.count()).select_from(waiting.limit(bindparam("most")).subquery()).scalar_subquery()
        for waiting in (
            select(_x.execution_id).where(
                _x.shard == bindparam("shard"), _x.head_version > _x.decided_version
            ),
            select(_c.command_id).where(
                _mine,
                _c.state == OPEN,
                _c.sent_at.is_(None),
                or_(_c.due_at.is_(None), _c.due_at <= bindparam("now")),
            ),
            select(_c.command_id).where(_mine, _c.state == OPEN, _c.sent_at.is_not(None)),
        )
    )
)
_expired = (
    select(*_brief)
    .where(_mine, _c.state == CLAIMED, _c.lease_until <= bindparam("now"))
    .order_by(_c.lease_until, _c.command_id)
    .limit(bindparam("limit"))
)


def row(columns: Sequence[Any]) -> CommandRow:
    """The row of a result that holds `COLUMNS`."""
    values = list(columns)
    values[1] = str(values[1])
    values[_CONTEXT] = codec.loads(values[_CONTEXT])
    return CommandRow(*values)


def _values(row: CommandRow) -> dict[str, Any]:
    values = {column.name: getattr(row, column.name) for column in COLUMNS}
    values["execution_id"] = codec.number(row.execution_id)
    values["context"] = codec.dumps(row.context, f"context of the command {row.command_id}")
    return values


class SqlCommands(SqlTable):
    """`noetl.usecases.ports.Commands`."""

    def add(self, rows: Sequence[CommandRow]) -> None:
        if rows:
            self._session.later(_insert, [_values(row) | {"shard": self._shard} for row in rows])

    def get(self, command_id: str) -> CommandRow | None:
        found = self._session.read(_one, {"id": command_id}).first()
        return row(found) if found else None

    def lock(self, command_id: str) -> tuple[ExecutionRow, CommandRow] | None:
        found = self._session.write(_lock, {"id": command_id}).first()
        return (execution_row(found[:WIDTH]), row(found[WIDTH:])) if found else None

    def claim(
        self, command_id: str, owner: str, now: datetime, lease_until: datetime, max_attempts: int
    ) -> CommandRow | None:
        values = {
            "id": command_id,
            "new_owner": owner,
            "now": now,
            "until": lease_until,
            "max_attempts": max_attempts,
        }
        found = self._session.alone(_claim, values).first()
        return row(found) if found else None

    def release(self, command_id: str, attempt: int, sent_at: datetime) -> None:
        self._session.later(_release, {"id": command_id, "held": attempt, "now": sent_at})

    def reopen(self, command_id: str, attempt: int) -> None:
        self._session.later(_reopen, {"id": command_id, "held": attempt})

    def heartbeat(self, command_id: str, attempt: int, lease_until: datetime) -> bool:
        values = {"id": command_id, "held": attempt, "until": lease_until}
        # Alone, as a claim: who beats for many has no locks of their executions.
        return self._session.alone(_heartbeat, values).rowcount > 0

    def standings(self, command_ids: Sequence[str]) -> Mapping[str, CommandStanding]:
        found: dict[str, CommandStanding] = {}
        for ids in lines(command_ids):
            rows = self._session.read(_standings, {"ids": ids})
            found |= {name: CommandStanding(*standing) for name, *standing in rows}
        return found

    def close(self, command_ids: Sequence[str]) -> None:
        for ids in lines(command_ids):
            self._session.later(_close, {"ids": ids})

    def mark_sent(self, command_ids: Sequence[str], now: datetime | None) -> None:
        for ids in lines(command_ids):
            self._session.later(_sent, {"ids": ids, "now": now})

    def unsend(self, queue: str) -> None:
        self._session.later(_unsend, {"its_queue": queue})

    def open_of(self, execution_id: str) -> list[CommandRow]:
        return _rows(self._session.read(_open_of, {"execution": codec.number(execution_id)}))

    def open_among(self, execution_ids: Sequence[str]) -> list[CommandRow]:
        ids = lines(sorted(map(codec.number, execution_ids)))
        return [row for some in ids for row in _rows(self._session.read(_open_among, {"ids": some}))]

    def has_open(self, execution_id: str, run_id: str) -> bool:
        asked = {"execution": codec.number(execution_id), "its_run": run_id}
        return self._session.read(_has_open, asked).first() is not None

    def unsent(self, now: datetime, limit: int) -> list[CommandRow]:
        return _rows(self._session.read(_unsent, {"now": now, "limit": limit, "shard": self._shard}))

    def unclaimed(self, sent_before: datetime, limit: int) -> list[CommandRow]:
        return _rows(
            self._session.read(_unclaimed, {"before": sent_before, "limit": limit, "shard": self._shard})
        )

    def backlog(self, now: datetime, most: int) -> int:
        found = self._session.read(_backlog, {"now": now, "most": most, "shard": self._shard})
        return sum(found.one())

    def expired(self, now: datetime, limit: int) -> list[CommandRow]:
        return _rows(self._session.read(_expired, {"now": now, "limit": limit, "shard": self._shard}))


def _rows(found: Iterable[Any]) -> list[CommandRow]:
    return [row(columns) for columns in found]
