"""Queues and workers as people see them: what waits in each queue and since when, who serves it,
and what each worker is at."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal, TypeAlias

from noetl.facts.json import Json
from noetl.usecases.health import SEEN
from noetl.usecases.limits import describe_pause
from noetl.usecases.ports import Pause, QueuedCommand, QueueDepth, WorkerRow
from noetl.usecases.purposes import SCHEDULER
from noetl.usecases.runtime import Runtime
from noetl.usecases.work.leases import PRESENCE_S

#: Whether what belongs to the playbook of a path may be shown.
IsVisible: TypeAlias = Callable[[str], bool]
#: `alive`: its last sign of life is not older than it may be. `late`: it is. `gone`: so much that
#: nobody counts on it any more.
Presence: TypeAlias = Literal["alive", "late", "gone"]

#: Commands that are counted at most.
COUNTED: Final = 10_000
#: Commands that are read at most to show what workers are at.
_READ: Final = 1_000
#: A sign of life may come so late.
_LATE: Final = timedelta(seconds=2 * PRESENCE_S)
#: For so long a worker that is gone is shown: whoever stopped it knows, and others may wonder.
REMEMBERED: Final = timedelta(minutes=15)


@dataclass(frozen=True, slots=True)
class QueueUse:
    """A queue: what is `waiting` in it, how much of that is `ready` for a worker that comes, how
    much workers `hold`, and since when the first one has waited (`oldest`). `limit` is how much of
    it may run at once, None where nothing bounds it; `workers` serve it."""

    name: str
    waiting: int = 0
    ready: int = 0
    held: int = 0
    oldest: datetime | None = None
    limit: int | None = None
    paused: Pause | None = None
    workers: int = 0

    def as_json(self) -> dict[str, Json]:
        return {
            "name": self.name,
            "waiting": self.waiting,
            "ready": self.ready,
            "held": self.held,
            "oldest": None if self.oldest is None else self.oldest.isoformat(),
            "limit": self.limit,
            "paused": None if self.paused is None else describe_pause(self.paused),
            "workers": self.workers,
        }

    @property
    def is_served(self) -> bool:
        return self.workers > 0

    @property
    def can_pause(self) -> bool:
        return self.name != SCHEDULER


@dataclass(frozen=True, slots=True)
class WorkerUse:
    """A process that serves queues, and what it holds, as far as that may be shown: the first
    first."""

    row: WorkerRow
    presence: Presence
    held: Sequence[QueuedCommand]

    def as_json(self) -> dict[str, Json]:
        return {
            "name": self.row.name,
            "queues": list(self.row.queues),
            "presence": self.presence,
            "seen_at": self.row.seen_at.isoformat(),
            "started_at": self.row.started_at.isoformat(),
            "held": [_describe(one) for one in self.held],
        }


@dataclass(frozen=True, slots=True)
class QueuesSeen:
    """All queues and workers, by name. `is_whole`: nothing was left uncounted."""

    queues: Sequence[QueueUse]
    workers: Sequence[WorkerUse]
    is_whole: bool


def look(rt: Runtime, is_visible: IsVisible | None = None) -> QueuesSeen:
    """What lies in queues, and who serves them, as of now. What belongs to playbooks that may not
    be seen is not counted."""
    now = rt.clock()
    with rt.store.read() as tx:
        depths = tx.queues.depths(now, COUNTED)
        held = tx.queues.find("claimed", limit=_READ)
        rows = tx.workers.alive(now - REMEMBERED)
        pauses = {one.name: one for one in tx.slots.paused("queue")}
    is_whole = sum(one.waiting + one.held for one in depths) < COUNTED
    serving = [row for row in rows if _tell_presence(row, now) != "gone"]
    mine = [one for one in depths if is_visible is None or is_visible(one.path)]
    names = {info.queue for info in rt.kinds.values()} | {one.queue for one in mine} | {SCHEDULER}
    names |= {*pauses, *rt.limits.queue_limits, *(queue for row in serving for queue in row.queues)}
    uses = [
        _use(name, [one for one in mine if one.queue == name], pauses.get(name), serving, rt)
        for name in sorted(names)
    ]
    shown = _by_owner(one for one in held if is_visible is None or is_visible(one.path))
    workers = [WorkerUse(row, _tell_presence(row, now), shown.get(row.name, ())) for row in rows]
    return QueuesSeen(uses, workers, is_whole)


def find_commands(
    rt: Runtime,
    state: Literal["open", "claimed"],
    queue: str,
    limit: int = 50,
    is_visible: IsVisible | None = None,
) -> list[QueuedCommand]:
    """What waits in a queue (`open`), or is held by workers of it (`claimed`), the next first."""
    with rt.store.read() as tx:
        found = tx.queues.find(state, queue, limit if is_visible is None else _READ)
    return [one for one in found if is_visible is None or is_visible(one.path)][:limit]


def _describe(one: QueuedCommand) -> dict[str, Json]:
    return {
        "execution_id": one.execution_id,
        "path": one.path,
        "step": one.step or None,
        "run_id": one.run_id or None,
        "part": one.part,
        "queue": one.queue,
        "since": None if one.since is None else one.since.isoformat(),
    }


def _use(
    name: str, depths: Sequence[QueueDepth], pause: Pause | None, workers: Sequence[WorkerRow], rt: Runtime
) -> QueueUse:
    return QueueUse(
        name,
        sum(one.waiting for one in depths),
        sum(one.ready for one in depths),
        sum(one.held for one in depths),
        min((one.oldest for one in depths if one.oldest is not None), default=None),
        rt.limits.queue_limits.get(name),
        pause,
        sum(name in row.queues for row in workers),
    )


def _tell_presence(row: WorkerRow, now: datetime) -> Presence:
    silent = now - row.seen_at
    if silent <= _LATE:
        return "alive"
    return "late" if silent <= SEEN else "gone"


def _by_owner(held: Iterable[QueuedCommand]) -> Mapping[str, Sequence[QueuedCommand]]:
    found: dict[str, list[QueuedCommand]] = {}
    for one in held:
        found.setdefault(one.owner or "", []).append(one)
    return found
