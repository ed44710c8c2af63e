"""The tables of correlations: who waits for a value, and signals that nobody has taken."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import bindparam, delete, exists, or_, select, update

from noetl.store import codec
from noetl.store.schema.waiting import correlated_wait, kept_signal
from noetl.store.session import SqlTable, lines, text_or_none, upserts, value_or_none
from noetl.usecases.ports import REMEMBERED, CorrelatedWait, Correlation, KeptSignal

_w = correlated_wait.c
_s = kept_signal.c
_wait: Final = upserts(correlated_wait)
_keep: Final = upserts(kept_signal)
_COLUMNS: Final = (
    *(_s.id, _s.name, _s.value, _s.payload, _s.received_at, _s.expires_at, _s.everyone),
    *(_s.principal, _s.request_id),
)
_about = select(_w.execution_id, _w.place).where(
    _w.name == bindparam("of_name"), _w.value == bindparam("about")
)
_waiting = _about.order_by(_w.execution_id, _w.place)
_gone = delete(correlated_wait).where(_w.execution_id == bindparam("id"))
_gone_at = _gone.where(_w.place.in_(bindparam("places", expanding=True)))
_one = select(*_COLUMNS).where(_s.id == bindparam("of_id"), _s.taken_at.is_(None))
_open = _s.taken_at.is_(None)
_take = (
    update(kept_signal)
    .where(_s.id == bindparam("of_id"), _open)
    .values(taken_at=bindparam("now", type_=_s.taken_at.type))
)
_oldest = select(*_COLUMNS).where(_open).order_by(_s.received_at, _s.id)
_matches = _oldest.where(exists().where(_w.name == _s.name, _w.value == _s.value)).limit(bindparam("limit"))
_matches_of = _oldest.where(_s.name == bindparam("of_name"), _s.value == bindparam("about"))
_is_over = or_(
    _s.expires_at <= bindparam("now", type_=_s.expires_at.type),
    _s.taken_at <= bindparam("forgotten", type_=_s.taken_at.type),
)
_has_expired = select(exists().where(_is_over))
_expired = delete(kept_signal).where(_is_over)


class SqlCorrelations(SqlTable):
    """`noetl.usecases.ports.Correlations`."""

    def wait(self, waits: Sequence[CorrelatedWait]) -> None:
        rows = [
            {
                "name": one.correlation.name,
                "value": one.correlation.value,
                "execution_id": codec.number(one.execution_id),
                "place": one.place,
            }
            for one in waits
        ]
        if rows:
            self._session.later(_wait[self._session.dialect], rows)

    def wait_no_more(self, execution_id: str, places: Sequence[str] | None = None) -> None:
        values: dict[str, Any] = {"id": codec.number(execution_id)}
        if places is None:
            self._session.later(_gone, values)
            return
        for some in lines(places):
            self._session.later(_gone_at, {**values, "places": some})

    def waiting(self, correlation: Correlation) -> list[CorrelatedWait]:
        found = self._session.read(_waiting, _values(correlation))
        return [CorrelatedWait(correlation, str(number), place) for number, place in found]

    def keep(self, signal: KeptSignal) -> bool:
        row = {
            "id": signal.id,
            "name": signal.correlation.name,
            "value": signal.correlation.value,
            "payload": text_or_none(signal.payload),
            "received_at": signal.received_at,
            "expires_at": signal.expires_at,
            "everyone": signal.everyone,
            "principal": signal.principal,
            "request_id": signal.request_id,
        }
        return self._session.write(_keep[self._session.dialect], row).rowcount > 0

    def get(self, signal_id: str) -> KeptSignal | None:
        found = self._session.read(_one, {"of_id": signal_id}).first()
        return None if found is None else _signal(found)

    def take(self, signal_id: str, now: datetime) -> bool:
        return self._session.write(_take, {"of_id": signal_id, "now": now}).rowcount > 0

    def matches(self, limit: int) -> list[KeptSignal]:
        return [_signal(columns) for columns in self._session.read(_matches, {"limit": limit})]

    def matches_of(self, correlations: Sequence[Correlation]) -> list[KeptSignal]:
        found = [
            _signal(columns)
            for correlation in dict.fromkeys(correlations)
            for columns in self._session.read(_matches_of, _values(correlation))
        ]
        return sorted(found, key=lambda one: (one.received_at, one.id))

    def has_expired(self, now: datetime) -> bool:
        return bool(self._session.read(_has_expired, _instants(now)).scalar())

    def remove_expired(self, now: datetime) -> None:
        self._session.write(_expired, _instants(now))


def _instants(now: datetime) -> dict[str, datetime]:
    return {"now": now, "forgotten": now - REMEMBERED}


def _values(correlation: Correlation) -> dict[str, str]:
    return {"of_name": correlation.name, "about": correlation.value}


def _signal(columns: Sequence[Any]) -> KeptSignal:
    signal_id, name, value, payload, *rest = columns
    received_at, expires_at, everyone, principal, request_id = rest
    return KeptSignal(
        signal_id,
        Correlation(name, value),
        value_or_none(payload),
        received_at,
        expires_at,
        bool(everyone),
        principal,
        request_id,
    )
