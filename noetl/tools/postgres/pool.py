"""Connections of a worker process to PostgreSQL, kept for each set of settings."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator, Mapping
from datetime import date, datetime, time
from functools import partial
from time import monotonic
from typing import Any, TypeAlias

import psycopg2
from psycopg2 import extensions
from psycopg2.extras import register_default_json, register_default_jsonb

from noetl.facts import json

#: Process id and settings: a forked child never uses what its parent opened.
_Key: TypeAlias = tuple[object, ...]

_IDLE_PER_KEY = 8
_IDLE = 32
_IDLE_S = 300.0
#: date, timestamp, timestamptz, time, timetz → the type of their arrays, and Python's.
_TEMPORAL: Mapping[int, tuple[int, type[date] | type[time]]] = {
    1082: (1182, date),
    1114: (1115, datetime),
    1184: (1185, datetime),
    1083: (1183, time),
    1266: (1270, time),
}
_STYLES = "SET datestyle = 'ISO'; SET intervalstyle = 'iso_8601'"
_INTERVAL, _INTERVALS = 1186, 1187
_DEFAULTS: Mapping[str, Any] = {
    "connect_timeout": "10",
    "application_name": "noetl",
    "client_encoding": "UTF8",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
}


class ConnectionPool:
    """Lends connections in autocommit mode. Safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: Oldest first: key, connection, when it came back.
        self._idle: list[tuple[_Key, extensions.connection, float]] = []

    @contextlib.contextmanager
    def lend(self, settings: Mapping[str, str], timeout_s: float) -> Iterator[extensions.connection]:
        """A connection whose statements the server ends after `timeout_s` seconds.

        It is reset and kept after a clean use (errors of SQL are clean), and closed where it broke
        or where the block was left by anything else. Raises psycopg2.Error where none can be
        had."""
        key = (os.getpid(), *sorted(settings.items()))
        connection = self._reuse(key, timeout_s) or _open(settings, timeout_s)
        reset = False
        try:
            yield connection
            reset = True
        finally:
            if reset and _is_reset(connection):
                self._keep(key, connection)
            else:
                connection.close()

    def close(self) -> None:
        """Closes what is idle."""
        with self._lock:
            idle, self._idle = self._idle, []
        for _, connection, _ in idle:
            connection.close()

    def _reuse(self, key: _Key, timeout_s: float) -> extensions.connection | None:
        while (connection := self._take(key)) is not None:
            # The first statement of a call tells whether the server is still there.
            try:
                _prepare(connection, timeout_s)
            except psycopg2.Error:
                connection.close()
                continue
            return connection
        return None

    def _take(self, key: _Key) -> extensions.connection | None:
        with self._lock:
            for index in reversed(range(len(self._idle))):
                if self._idle[index][0] == key:
                    return self._idle.pop(index)[1]
        return None

    def _keep(self, key: _Key, connection: extensions.connection) -> None:
        now = monotonic()
        with self._lock:
            self._idle.append((key, connection, now))
            mine = [entry for entry in self._idle if entry[0] == key]
            spare = mine[:-_IDLE_PER_KEY] + self._idle[:-_IDLE]
            spare += [entry for entry in self._idle if now - entry[2] > _IDLE_S]
            dropped = {id(entry[1]): entry for entry in spare}
            self._idle = [entry for entry in self._idle if id(entry[1]) not in dropped]
        for _, old, _ in dropped.values():
            old.close()


def _open(settings: Mapping[str, str], timeout_s: float) -> extensions.connection:
    defaults = dict(_DEFAULTS) | {
        "connect_timeout": str(max(2, min(10, round(timeout_s)))),
        "tcp_user_timeout": str(round(min(timeout_s, 3600) * 1000) + 5000),
    }
    connection: extensions.connection = psycopg2.connect(**{**defaults, **settings})
    try:
        connection.autocommit = True
        for caster in _casters():
            extensions.register_type(caster, connection)
        for register in (register_default_json, register_default_jsonb):
            register(connection, loads=json.loads_exactly)
        _prepare(connection, timeout_s)
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: extensions.connection, timeout_s: float) -> None:
    milliseconds = max(1, min(round(timeout_s * 1000), 2_147_483_647))
    with connection.cursor() as cursor:
        cursor.execute(f"SET statement_timeout = {milliseconds}; {_STYLES}")
    # Not the server's affair: what it said to the call before.
    connection.notices = []


def _is_reset(connection: extensions.connection) -> bool:
    """Whether nothing of the last call is left: transaction, settings, temporary tables, locks."""
    if connection.closed:
        return False
    try:
        connection.rollback()
        connection.autocommit = True
        with connection.cursor() as cursor:
            # The driver does not see a BEGIN that a command sent by itself.
            if connection.info.transaction_status != extensions.TRANSACTION_STATUS_IDLE:
                cursor.execute("ROLLBACK")
            cursor.execute("DISCARD ALL")
    except psycopg2.Error:
        return False
    return True


def _casters() -> list[Any]:
    """Dates, times and intervals as ISO 8601 text."""
    interval = extensions.new_type((_INTERVAL,), "ISOINTERVAL", _as_it_is)
    casters: list[Any] = [interval, extensions.new_array_type((_INTERVALS,), "ISOINTERVALARRAY", interval)]
    for oid, (array, kind) in _TEMPORAL.items():
        plain = extensions.new_type((oid,), f"ISO{oid}", partial(_to_iso, kind))
        casters += [plain, extensions.new_array_type((array,), f"ISO{oid}ARRAY", plain)]
    return casters


def _as_it_is(text: str | bytes | None, _cursor: extensions.cursor) -> str | None:
    """`P1M-3DT4H`: a month is no number of days. PostgreSQL reads again what it wrote."""
    return text if isinstance(text, str) else None


def _to_iso(
    kind: type[date] | type[time], text: str | bytes | None, _cursor: extensions.cursor
) -> str | None:
    """`2026-01-02 03:04:05.5+00` → `2026-01-02T03:04:05.500000+00:00`; what Python's types cannot
    hold (infinity, BC) stays what it is."""
    if not isinstance(text, str):
        return None
    try:
        return kind.fromisoformat(text).isoformat()
    except ValueError:
        return text if "BC" in text else text.replace(" ", "T", 1)
