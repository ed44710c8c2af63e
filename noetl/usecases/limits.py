"""Limits as people see them: for each key who has a slot, who waits for one, and since when."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from noetl.facts.json import Json
from noetl.facts.limits import SlotRow
from noetl.usecases.ports import Pause, Transaction
from noetl.usecases.runtime import Runtime

#: Whether what belongs to the playbook of a path may be shown.
IsVisible = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class KeyUse:
    """A key with those of its holders and waiters that may be shown, the first first. `held` and
    `waiting` count all of them; who shares the slot of another holder is not counted."""

    key: str
    limit: int | None
    per_s: float | None
    paused: Pause | None
    held: int
    waiting: int
    holders: tuple[tuple[SlotRow, str], ...]
    waiters: tuple[tuple[SlotRow, str], ...]

    def as_json(self) -> dict[str, Json]:
        return {
            "key": self.key,
            "limit": self.limit,
            "per_s": self.per_s,
            "paused": None if self.paused is None else describe_pause(self.paused),
            "held": self.held,
            "waiting": self.waiting,
            "holders": [_describe(row, path, row.granted_at) for row, path in self.holders],
            "waiters": [_describe(row, path, row.requested_at) for row, path in self.waiters],
        }


def look(
    rt: Runtime, key: str | None = None, limit: int = 100, is_visible: IsVisible | None = None
) -> list[KeyUse]:
    """The keys that anybody has a slot of or waits for, and those that are paused, by name; of each
    at most `limit` holders and waiters."""
    now = rt.clock()
    with rt.store.read() as tx:
        rows = [row for row in tx.slots.of_key(key) if row.expires_at is None or row.expires_at > now]
        pauses = {one.name: one for one in tx.slots.paused("key") if key in (None, one.name)}
        found = {name: list(group) for name, group in groupby(rows, key=lambda row: row.key)}
        paths = _Paths(tx, is_visible)
        return [
            _use(name, found.get(name, []), pauses.get(name), paths, limit)
            for name in sorted({*found, *pauses})
        ]


def paused_parts(rt: Runtime) -> list[Pause]:
    """The queues and keys that are paused, by name."""
    with rt.store.read() as tx:
        return [one for one in tx.slots.paused() if one.kind != "step"]


class _Paths:
    """The playbooks of executions, each looked up once; None where it is not to be seen."""

    def __init__(self, tx: Transaction, is_visible: IsVisible | None) -> None:
        self._tx = tx
        self._is_visible = is_visible
        self._known: dict[str, str | None] = {}

    def find(self, execution_id: str) -> str | None:
        if execution_id not in self._known:
            row = self._tx.executions.get(execution_id)
            is_shown = row is not None and (self._is_visible is None or self._is_visible(row.path))
            self._known[execution_id] = row.path if row is not None and is_shown else None
        return self._known[execution_id]

    def shown(self, rows: Iterable[SlotRow], limit: int) -> tuple[tuple[SlotRow, str], ...]:
        found = ((row, path) for row in rows if (path := self.find(row.execution_id)) is not None)
        return tuple(one for one, _ in zip(found, range(limit), strict=False))


def _use(name: str, rows: Sequence[SlotRow], paused: Pause | None, paths: _Paths, limit: int) -> KeyUse:
    holders = sorted(
        (row for row in rows if row.granted_at is not None), key=lambda row: (str(row.granted_at), row.holder)
    )
    waiters = [row for row in rows if row.granted_at is None]
    names = {row.holder for row in holders}
    return KeyUse(
        name,
        min((row.limit for row in rows), default=None),
        next((row.per_s for row in rows if row.per_s is not None), None),
        paused,
        sum(row.under not in names for row in holders),
        len(waiters),
        paths.shown(holders, limit),
        paths.shown(sorted(waiters, key=lambda row: (-row.priority, row.requested_at)), limit),
    )


def _describe(row: SlotRow, path: str, since: datetime | None) -> dict[str, Json]:
    return {
        "execution_id": row.execution_id,
        "path": path,
        "run_id": row.run_id or None,
        "part": row.part,
        "priority": row.priority,
        "since": None if since is None else since.isoformat(),
        "shares_with": row.under,
        "until": None if row.expires_at is None else row.expires_at.isoformat(),
    }


def describe_pause(pause: Pause) -> dict[str, Json]:
    """`{kind, name, since, principal, reason}`."""
    return {
        "kind": pause.kind,
        "name": pause.name,
        "since": pause.since.isoformat(),
        "principal": pause.principal,
        "reason": pause.reason,
    }
