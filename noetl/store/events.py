"""The `event` table: the only code that writes it, and its readers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError
from sqlalchemy import Select, bindparam, exists, func, insert, select, update

from noetl.errors import BadRequest, NoetlError, VersionConflict
from noetl.facts.event_names import types_called
from noetl.facts.events import Draft, Event, LoopClaimed, LoopGrown
from noetl.facts.json import Json, JsonMap
from noetl.store import codec, envelope
from noetl.store.audit import entry_row
from noetl.store.schema.access import audit
from noetl.store.schema.executions import event, execution
from noetl.store.session import SqlTable, lines, missing
from noetl.usecases import views
from noetl.usecases.ports import AuditEntry, EventFilter

_e = event.c
_x = execution.c

_move = (
    update(execution)
    .where(_x.execution_id == bindparam("id"), _x.head_version == bindparam("expected"))
    .values(head_version=bindparam("head"), updated_at=bindparam("now", type_=_x.updated_at.type))
)
_head = select(_x.head_version).where(_x.execution_id == bindparam("id"))
_insert = insert(event)
_columns: Final = [_e[name] for name in envelope.COLUMNS]
_after = (
    select(*_columns)
    .where(_e.execution_id == bindparam("id"), _e.version > bindparam("after"))
    .order_by(_e.version)
)
_limited = _after.limit(bindparam("limit"))
#: Versions have no gaps: those behind the decided one can be counted off.
_tails = (
    select(_e.execution_id, *_columns)
    .join_from(event, execution, _x.execution_id == _e.execution_id)
    .where(
        _x.execution_id.in_(bindparam("ids", expanding=True)),
        _e.version > _x.decided_version,
        _e.version <= _x.decided_version + bindparam("limit"),
    )
    .order_by(_e.execution_id, _e.version)
)
_of_types = _e.type.in_(bindparam("types", expanding=True))
_typed, _typed_limited = _after.where(_of_types), _limited.where(_of_types)
_filters: Final = {
    "types": _of_types,
    "step": _e.step == bindparam("step"),
    "run_id": _e.step_run_id == bindparam("run_id"),
    "iteration": _e.iteration == bindparam("iteration"),
}
_run = (
    select(*_columns)
    .where(_e.execution_id == bindparam("id"), _e.step_run_id == bindparam("run"))
    .order_by(_e.version)
)
_run_alone = _run.where(_e.iteration.is_(None))
_run_iteration = _run.where(_e.iteration == bindparam("iteration"))
_claim_of = (
    select(*_columns)
    .where(
        _e.execution_id == bindparam("id"),
        _e.step_run_id == bindparam("run"),
        _e.iteration <= bindparam("iteration"),
        _e.type.in_([LoopClaimed.type, LoopGrown.type]),
    )
    .order_by(_e.iteration.desc(), _e.version.desc())
    .limit(1)
)
_insert_audit = insert(audit)
_recorded = select(exists().where(_e.execution_id == bindparam("id"), _e.dedup_key == bindparam("dedup_key")))


_until = _e.version <= bindparam("until")


@cache
def _count(asked: tuple[str, ...]) -> Select[Any]:
    there = select(func.count()).select_from(event).where(_e.execution_id == bindparam("id"), _until)
    return there.where(*(_filters[name] for name in asked))


@cache
def _slice(asked: tuple[str, ...]) -> Select[Any]:
    return _limited.where(_until, *(_filters[name] for name in asked)).offset(bindparam("skip"))


class SqlEvents(SqlTable):
    """`noetl.usecases.ports.Events`."""

    def append(
        self, execution_id: str, expected_version: int, drafts: Sequence[Draft], now: datetime
    ) -> list[Event]:
        first = expected_version + 1
        events = [Event(execution_id, first + i, now, draft) for i, draft in enumerate(drafts)]
        self._append(execution_id, expected_version, events, now)
        if asked := [entry_row(entry) for one in events if (entry := _audit_entry(one)) is not None]:
            self._session.later(_insert_audit, asked)
        return events

    def decode(self, envelopes: Iterable[JsonMap]) -> list[Event]:
        return [_decode(body) for body in envelopes]

    def restore(self, execution_id: str, events: Sequence[Event], now: datetime) -> None:
        self._append(execution_id, 0, events, now)

    def _append(self, execution_id: str, expected: int, events: Sequence[Event], now: datetime) -> None:
        number = codec.number(execution_id)
        rows = [envelope.row(execution_id, number, one.version, one.draft, one.recorded_at) for one in events]
        values = {"id": number, "expected": expected, "head": expected + len(rows), "now": now}
        self._session.append(
            _move, values, _insert, rows, lambda: self._stale(execution_id, number, expected)
        )
        self._session.notify(execution_id)

    def _stale(self, execution_id: str, number: int, expected: int) -> NoetlError | None:
        actual = self._session.read(_head, {"id": number}).scalar()
        if actual is None:
            return missing(execution_id)
        return None if actual == expected else VersionConflict(execution_id, expected, actual)

    def read(
        self, execution_id: str, after: int = 0, limit: int | None = None, types: Iterable[str] = ()
    ) -> list[Event]:
        """`types` may be given by the names that other generations used."""
        wanted = sorted({known for name in types for known in types_called(name)})
        values: dict[str, Any] = {"id": codec.number(execution_id), "after": after}
        if wanted:
            values["types"] = wanted
        if limit is None:
            statement = _typed if wanted else _after
        else:
            values["limit"] = limit
            statement = _typed_limited if wanted else _limited
        return self._events(execution_id, statement, values)

    def count(self, execution_id: str, where: EventFilter, until: int) -> int:
        asked = _filter_values(where)
        if not asked:
            return until
        values = {"id": codec.number(execution_id), "until": until, **asked}
        return int(self._session.read(_count(tuple(asked)), values).scalar() or 0)

    def slice(self, execution_id: str, where: EventFilter, until: int, skip: int, limit: int) -> list[Event]:
        asked = _filter_values(where)
        # Versions have no gaps, so that nothing has to be counted off where all are wanted.
        start = {"after": 0, "skip": skip} if asked else {"after": skip, "skip": 0}
        values = {"id": codec.number(execution_id), "until": until, "limit": limit, **start, **asked}
        return self._events(execution_id, _slice(tuple(asked)), values)

    def _events(self, execution_id: str, statement: Select[Any], values: Mapping[str, Any]) -> list[Event]:
        return [envelope.event(execution_id, columns) for columns in self._session.read(statement, values)]

    def tails(self, execution_ids: Sequence[str], limit: int) -> Mapping[str, list[Event]]:
        found: dict[str, list[Event]] = {}
        for ids in lines(execution_ids):
            values = {"ids": [codec.number(one) for one in ids], "limit": limit}
            for number, *columns in self._session.read(_tails, values):
                execution_id = str(number)
                found.setdefault(execution_id, []).append(envelope.event(execution_id, columns))
        return found

    def of_run(self, execution_id: str, run_id: str, iteration: int | None) -> list[Event]:
        values: dict[str, Any] = {"id": codec.number(execution_id), "run": run_id}
        if iteration is None:
            return self._events(execution_id, _run_alone, values)
        return self._events(execution_id, _run_iteration, {**values, "iteration": iteration})

    def claim_of(self, execution_id: str, run_id: str, index: int) -> Event | None:
        values = {"id": codec.number(execution_id), "run": run_id, "iteration": index}
        return next(iter(self._events(execution_id, _claim_of, values)), None)

    def recorded(self, execution_id: str, dedup_key: str) -> bool:
        values = {"id": codec.number(execution_id), "dedup_key": dedup_key}
        return bool(self._session.read(_recorded, values).scalar())


def _filter_values(where: EventFilter) -> dict[str, Any]:
    given = {
        "types": list(where.types) or None,
        "step": where.step,
        "run_id": where.run_id,
        "iteration": where.iteration,
    }
    return {name: value for name, value in given.items() if value is not None}


def _audit_entry(event: Event) -> AuditEntry | None:
    """What the audit says of it; None where nobody outside asked for it, or they did so in another
    execution."""
    caller = event.draft.caller
    if caller is None or event.draft.origin is not None:
        return None
    return AuditEntry(caller, event.fact.type, event.execution_id, event.recorded_at, version=event.version)


def _decode(body: JsonMap) -> Event:
    try:
        event = envelope.from_json(body)
        if name := _find_unknown(body["payload"], views.envelope(event)["payload"]):
            raise BadRequest(f"`{name}` is nothing that a {event.fact.type} event says")
        _adapter(event.fact.type).validate_json(codec.payload(event.fact), strict=True)
    # Payloads come from a file: what is wrong in them is the fault of whoever wrote it.
    except (NoetlError, LookupError, TypeError, ValueError) as error:
        raise BadRequest(f"Event {body.get('version')} cannot be read: {_reason(error)}.") from error
    return event


def _find_unknown(said: Json, known: Json) -> str | None:
    """The name of a field that the file has and this version does not know. Logs are read without
    such fields (`codec`); whoever looks at a file should see all that it says."""
    match said, known:
        case dict(), dict():
            unknown = next((name for name in said if name not in known), None)
            pairs: Iterable[tuple[Json, Json]] = (
                (said[name], known[name]) for name in said.keys() & known.keys()
            )
        case list(), list():
            unknown, pairs = None, zip(said, known, strict=False)
        case _:
            return None
    return unknown or next(filter(None, (_find_unknown(*pair) for pair in pairs)), None)


@cache
def _adapter(kind: str) -> TypeAdapter[Any]:
    # The log itself is read without it: it holds what this program wrote.
    return TypeAdapter(codec.FACTS[kind])


def _reason(error: Exception) -> str:
    match error:
        case ValidationError():
            first = error.errors(include_url=False)[0]
            return f"`{'.'.join(map(str, first['loc']))}`: {first['msg']}"
        case NoetlError():
            return error.message.rstrip(".")
        case _:
            return repr(error)
