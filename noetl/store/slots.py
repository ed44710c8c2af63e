"""The tables of slots and of what is paused."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import BigInteger, bindparam, delete, exists, func, or_, select, update

from noetl.facts.limits import SlotRow
from noetl.store import codec
from noetl.store.installation import lock_number
from noetl.store.schema.waiting import paused, slot
from noetl.store.session import SqlTable, columns_of, lines, upserts
from noetl.usecases.ports import Pause, PausedKind

_c = slot.c
_p = paused.c
COLUMNS: Final = columns_of(slot, SlotRow)
_WITHIN: Final = COLUMNS.index(_c.within)
_add: Final = upserts(slot)
_pause: Final = upserts(paused)
_oldest = (_c.requested_at, _c.execution_id, _c.run_id, _c.part, _c.key)
_its_execution = _c.execution_id == bindparam("id")
_its_run = (_its_execution, _c.run_id == bindparam("run"))
_its_part = (*_its_run, _c.part == bindparam("its_part"))
#: What is not a granted slot of a rate, which counts until it expires.
_is_held = or_(_c.per_s.is_(None), _c.granted_at.is_(None))
_lock = select(func.pg_advisory_xact_lock(bindparam("number", type_=BigInteger)).is_not(None))
_all = select(*COLUMNS).order_by(_c.key, *_oldest)
_one_key = _all.where(_c.key == bindparam("its_key"))
_keys = select(*COLUMNS).where(_c.key.in_(bindparam("keys", expanding=True)))
_ids = select(*COLUMNS).where(_c.execution_id.in_(bindparam("ids", expanding=True)))
_waiting_keys = select(_c.key).where(_c.granted_at.is_(None)).distinct().order_by(_c.key)
_grant = (
    update(slot)
    .where(*_its_part, _c.key == bindparam("its_key"))
    .values(
        granted_at=bindparam("now", type_=_c.granted_at.type),
        expires_at=bindparam("until", type_=_c.expires_at.type),
        under=bindparam("above", type_=_c.under.type),
    )
)
_offer = (
    update(slot)
    .where(
        _c.execution_id.in_(bindparam("ids", expanding=True)),
        _c.granted_at.is_(None),
        _c.offered_at.is_(None),
    )
    .values(offered_at=bindparam("now", type_=_c.offered_at.type))
)
_move = update(slot).where(*_its_part).values(part=bindparam("to"))
_free_part = delete(slot).where(*_its_part, _is_held)
_free_run = delete(slot).where(*_its_run, _is_held)
_free_execution = delete(slot).where(_its_execution, _is_held)
_withdraw = delete(slot).where(*_its_part, _c.granted_at.is_(None))
_is_over = _c.expires_at <= bindparam("now", type_=_c.expires_at.type)
_expired = delete(slot).where(_is_over)
_has_expired = select(exists().where(_is_over))
_paused = select(_p.kind, _p.name, _p.since, _p.principal, _p.reason).order_by(_p.kind, _p.name)
_paused_kind = _paused.where(_p.kind == bindparam("its_kind"))
_resume = delete(paused).where(_p.kind == bindparam("its_kind"), _p.name == bindparam("its_name"))


class SqlSlots(SqlTable):
    """`noetl.usecases.ports.HeldSlots`."""

    def lock(self, keys: Iterable[str]) -> None:
        # By number: two keys may have the same, and then locks in the order of the keys would wait
        # for one another.
        name = self._session.installation.qualify("noetl:slot")
        numbers = sorted({lock_number(f"{name}:{key}") for key in keys})
        if self._session.dialect == "postgresql":
            for number in numbers:
                self._session.write(_lock, {"number": number})

    def add(self, rows: Sequence[SlotRow]) -> None:
        if rows:
            self._session.later(_add[self._session.dialect], [_values(row) for row in rows])

    def grant(self, rows: Sequence[SlotRow]) -> None:
        for row in rows:
            values = _place(row.execution_id, row.run_id, row.part) | {
                "its_key": row.key,
                "now": row.granted_at,
                "until": row.expires_at,
                "above": row.under,
            }
            self._session.later(_grant, values)

    def offer(self, execution_ids: Sequence[str], now: datetime) -> None:
        for some in lines([codec.number(one) for one in execution_ids]):
            self._session.later(_offer, {"ids": some, "now": now})

    def related(self, keys: Iterable[str]) -> list[SlotRow]:
        found: dict[tuple[str, str], SlotRow] = {}
        new_keys, seen_keys, seen_ids = set(keys), set[str](), set[str]()
        while new_keys:
            rows = self._read(_keys, "keys", sorted(new_keys))
            seen_keys |= new_keys
            ids = {name for row in rows for name in _executions_of(row)} - seen_ids
            seen_ids |= ids
            rows += self._read(_ids, "ids", sorted(map(codec.number, ids)))
            found |= {(row.holder, row.key): row for row in rows}
            new_keys = {row.key for row in rows} - seen_keys
        return sorted(found.values(), key=lambda row: (row.requested_at, int(row.execution_id), row.key))

    def _read(self, statement: Any, name: str, values: Sequence[Any]) -> list[SlotRow]:
        return [row(one) for some in lines(values) for one in self._session.read(statement, {name: some})]

    def of_key(self, key: str | None = None) -> list[SlotRow]:
        found = self._session.read(_all) if key is None else self._session.read(_one_key, {"its_key": key})
        return [row(one) for one in found]

    def of_executions(self, execution_ids: Sequence[str]) -> list[SlotRow]:
        return self._read(_ids, "ids", sorted(map(codec.number, execution_ids)))

    def waiting_keys(self) -> list[str]:
        return list(self._session.read(_waiting_keys).scalars())

    def move(self, execution_id: str, run_id: str, part: str, to: str) -> None:
        self.free_part(execution_id, run_id, to)
        self._session.later(_move, _place(execution_id, run_id, part) | {"to": to})

    def free_part(self, execution_id: str, run_id: str, part: str) -> None:
        self._session.later(_free_part, _place(execution_id, run_id, part))

    def free_run(self, execution_id: str, run_id: str) -> None:
        self._session.later(_free_run, {"id": codec.number(execution_id), "run": run_id})

    def free_execution(self, execution_id: str) -> None:
        self._session.later(_free_execution, {"id": codec.number(execution_id)})

    def withdraw(self, execution_id: str, run_id: str, part: str) -> None:
        self._session.later(_withdraw, _place(execution_id, run_id, part))

    def remove_expired(self, now: datetime) -> None:
        self._session.write(_expired, {"now": now})

    def has_expired(self, now: datetime) -> bool:
        return bool(self._session.read(_has_expired, {"now": now}).scalar())

    def pause(self, pause: Pause) -> bool:
        values = {name: getattr(pause, name) for name in ("kind", "name", "since", "principal", "reason")}
        return self._session.write(_pause[self._session.dialect], values).rowcount > 0

    def resume(self, kind: PausedKind, name: str) -> bool:
        return self._session.write(_resume, {"its_kind": kind, "its_name": name}).rowcount > 0

    def paused(self, kind: PausedKind | None = None) -> list[Pause]:
        if kind is None:
            return [Pause(*one) for one in self._session.read(_paused)]
        return [Pause(*one) for one in self._session.read(_paused_kind, {"its_kind": kind})]


def _executions_of(row: SlotRow) -> list[str]:
    return [row.execution_id, *(holder.partition("/")[0] for holder in row.within)]


def _place(execution_id: str, run_id: str, part: str) -> dict[str, Any]:
    return {"id": codec.number(execution_id), "run": run_id, "its_part": part}


def _values(row: SlotRow) -> dict[str, Any]:
    values = {column.name: getattr(row, column.name) for column in COLUMNS}
    return values | {"execution_id": codec.number(row.execution_id), "within": codec.dumps(list(row.within))}


def row(columns: Sequence[Any]) -> SlotRow:
    """The row of a result that holds `COLUMNS`."""
    values = list(columns)
    values[0] = str(values[0])
    values[_WITHIN] = tuple(codec.loads(values[_WITHIN]))
    return SlotRow(*values)
