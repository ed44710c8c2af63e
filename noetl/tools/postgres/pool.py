"""Connections of a worker process to PostgreSQL, kept for each set of settings."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import psycopg2
from psycopg2 import extensions

#: Process id and settings: a forked child never uses what its parent opened.
_Key: TypeAlias = tuple[object, ...]

_IDLE_PER_KEY = 8
_IDLE = 32
_IDLE_S = 300.0
#: (date, timestamp, timestamptz, time, timetz): their types and those of their arrays.
_TEMPORAL = {1082: 1182, 1114: 1115, 1184: 1185, 1083: 1183, 1266: 1270}
_DEFAULTS: Mapping[str, Any] = {
    "connect_timeout": "10",
    "application_name": "noetl",
    "client_encoding": "UTF8",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
}


class Pool:
    """Lends connections in autocommit mode. Safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: Oldest first: key, connection, when it came back.
        self._idle: list[tuple[_Key, extensions.connection, float]] = []

    @contextlib.contextmanager
    def lend(self, settings: Mapping[str, str], timeout_s: float) -> Iterator[extensions.connection]:
        """A connection whose statements the server ends after `timeout_s` seconds.

        It is reset and kept after a clean use (errors of SQL are clean), and closed where it broke or
        where the block was left by anything else. Raises psycopg2.Error where none can be had.
        """
        key = (os.getpid(), *sorted(settings.items()))
        connection = self._reused(key, timeout_s) or _opened(settings, timeout_s)
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

    def _reused(self, key: _Key, timeout_s: float) -> extensions.connection | None:
        while (connection := self._taken(key)) is not None:
            # The first statement of a call tells whether the server is still there.
            try:
                _prepare(connection, timeout_s)
            except psycopg2.Error:
                connection.close()
                continue
            return connection
        return None

    def _taken(self, key: _Key) -> extensions.connection | None:
        with self._lock:
            for index in reversed(range(len(self._idle))):
                if self._idle[index][0] == key:
                    return self._idle.pop(index)[1]
        return None

    def _keep(self, key: _Key, connection: extensions.connection) -> None:
        now = time.monotonic()
        with self._lock:
            self._idle.append((key, connection, now))
            mine = [entry for entry in self._idle if entry[0] == key]
            spare = mine[:-_IDLE_PER_KEY] + self._idle[:-_IDLE]
            spare += [entry for entry in self._idle if now - entry[2] > _IDLE_S]
            dropped = {id(entry[1]): entry for entry in spare}
            self._idle = [entry for entry in self._idle if id(entry[1]) not in dropped]
        for _, old, _ in dropped.values():
            old.close()


def _opened(settings: Mapping[str, str], timeout_s: float) -> extensions.connection:
    defaults = dict(_DEFAULTS) | {
        "connect_timeout": str(max(2, min(10, round(timeout_s)))),
        "tcp_user_timeout": str(round(min(timeout_s, 3600) * 1000) + 5000),
    }
    connection: extensions.connection = psycopg2.connect(**{**defaults, **settings})
    try:
        connection.autocommit = True
        for caster in _casters():
            extensions.register_type(caster, connection)
        _prepare(connection, timeout_s)
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: extensions.connection, timeout_s: float) -> None:
    milliseconds = max(1, min(round(timeout_s * 1000), 2_147_483_647))
    with connection.cursor() as cursor:
        cursor.execute(f"SET statement_timeout = {milliseconds}; SET datestyle = 'ISO'")
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
    """Dates and times as ISO 8601 text, also those that Python's types cannot hold (infinity, BC)."""
    casters: list[Any] = []
    for oid, array in _TEMPORAL.items():
        plain = extensions.new_type((oid,), f"ISO{oid}", _iso)
        casters += [plain, extensions.new_array_type((array,), f"ISO{oid}ARRAY", plain)]
    return casters


def _iso(text: str | bytes | None, _cursor: extensions.cursor) -> str | None:
    """`2026-01-02 03:04:05.5+00` → `2026-01-02T03:04:05.500000+00:00`, as Python writes it."""
    if not isinstance(text, str):
        return None
    day, space, clock = text.partition(" ")
    if not space and ":" in day:
        day, clock = "", day
    if not clock or "BC" in clock:
        return text
    sign = max(clock.find("+"), clock.find("-"))
    plain, zone = (clock, "") if sign < 0 else (clock[:sign], clock[sign:])
    whole, dot, fraction = plain.partition(".")
    zone = f"{zone}:00" if len(zone) == 3 else zone
    return f"{day}T{whole}"[0 if day else 1 :] + (dot + fraction.ljust(6, "0") if dot else "") + zone
