"""What lies in queues: read from the `command` table, for people."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, Literal

from sqlalchemy import String, and_, bindparam, case, cast, func, not_, or_, select, true

from noetl.store.commands import CLAIMED, CLOSED, IS_PAUSED, OPEN
from noetl.store.schema.executions import event, execution
from noetl.store.schema.work import command
from noetl.store.session import SqlTable
from noetl.usecases.ports import QueuedCommand, QueueDepth

_c = command.c
_x = execution.c
_e = event.c
#: The event that asked for the command, found by its key. Messages for other executions have none.
_is_issue = and_(
    _e.execution_id == _c.execution_id,
    _e.dedup_key == "issued:" + _c.run_id + "/" + _c.part + "/" + cast(_c.issue, String),
)
#: A command is sent again and again: when it was sent says little of how long it has waited.
_since = func.coalesce(_c.due_at, _e.recorded_at, _c.sent_at)
_is_due = or_(_c.due_at.is_(None), _c.due_at <= bindparam("now", type_=_c.due_at.type))
_mine = _c.shard == bindparam("shard")
_its_execution = _x.execution_id == _c.execution_id

_unclosed = (
    select(
        _c.queue,
        _x.path,
        case((_c.state == CLAIMED, 1), else_=0).label("held"),
        case((_c.state == OPEN, 1), else_=0).label("waiting"),
        case((and_(_c.state == OPEN, _is_due, _x.halt == "", not_(IS_PAUSED)), 1), else_=0).label("ready"),
        case((and_(_c.state == OPEN, _is_due), _since)).label("since"),
    )
    .select_from(command)
    .join(execution, _its_execution)
    .outerjoin(event, _is_issue)
    .where(_mine, _c.state != CLOSED)
    .order_by(_c.execution_id, _c.command_id)
    .limit(bindparam("most"))
    .subquery()
)
_u = _unclosed.c
_depths: Final = (
    select(
        *(_u.queue, _u.path),
        *(func.sum(one) for one in (_u.waiting, _u.ready, _u.held)),
        func.min(_u.since, type_=_c.due_at.type),
    )
    .group_by(_u.queue, _u.path)
    .order_by(_u.queue, _u.path)
)
_found = (
    select(
        *(_c.queue, _c.execution_id, _x.path, _x.key, _c.step, _c.run_id, _c.part, _c.purpose),
        *(_c.iteration, _c.priority, _c.attempt, _c.owner, _c.due_at, _since),
    )
    .select_from(command)
    .join(execution, _its_execution)
    .outerjoin(event, _is_issue)
    .where(_mine)
    .order_by(_c.priority, _since, _c.execution_id, _c.command_id)
    .limit(bindparam("limit"))
)
_its_queue = _c.queue == bindparam("its_queue")
#: Each is its own statement: SQLite uses a partial index only for what it can read.
_find: Final = {
    (state, is_one): _found.where(_c.state == literal, _its_queue if is_one else true())
    for state, literal in (("open", OPEN), ("claimed", CLAIMED))
    for is_one in (False, True)
}


class SqlQueues(SqlTable):
    """`noetl.usecases.ports.Queues`."""

    def depths(self, now: datetime, most: int) -> Sequence[QueueDepth]:
        values = {"now": now, "most": most, "shard": self._shard}
        return [QueueDepth(*one) for one in self._session.read(_depths, values)]

    def find(
        self, state: Literal["open", "claimed"], queue: str | None = None, limit: int = 100
    ) -> Sequence[QueuedCommand]:
        values = {"limit": limit, "shard": self._shard, **({} if queue is None else {"its_queue": queue})}
        rows = self._session.read(_find[state, queue is not None], values)
        return [QueuedCommand(name, str(of), *rest) for name, of, *rest in rows]
