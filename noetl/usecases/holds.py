"""Why work that could begin does not: no worker serves its queue, something is paused, or it needs
a slot first. For people, beside the status of an execution and of its steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Literal

from noetl.facts.json import Json
from noetl.facts.limits import SlotRow
from noetl.usecases.health import SEEN
from noetl.usecases.ports import ENDED, CommandRow, ExecutionRow, Transaction, paused_step
from noetl.usecases.purposes import PURPOSES


@dataclass(frozen=True, slots=True)
class Hold:
    """Why work that could begin does not, in a few words for people: its queue is `unserved`, it
    needs a `slot` first, or something is `paused`."""

    cause: Literal["unserved", "slot", "paused"]
    text: str

    def as_json(self) -> dict[str, Json]:
        return {"cause": self.cause, "text": self.text}


@dataclass(frozen=True, slots=True)
class ListedExecution(ExecutionRow):
    """An execution as lists show it: with what it is held by as a whole."""

    hold: Hold | None = None


@dataclass(frozen=True, slots=True)
class ExecutionHolds:
    """What is held of an execution: `whole`, where no worker is at anything of it, and its steps,
    by their names, where none is at them."""

    whole: Hold | None = None
    steps: Mapping[str, Hold] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Gates:
    """What decides whether work reaches a worker: the queues that are `served`, and what is paused,
    each by its kind and name."""

    served: frozenset[str]
    paused: frozenset[tuple[str, str]]

    @classmethod
    def read(cls, tx: Transaction, now: datetime) -> Gates:
        served = frozenset(queue for row in tx.workers.alive(now - SEEN) for queue in row.queues)
        return cls(served, frozenset((one.kind, one.name) for one in tx.slots.paused()))

    def find_hold(self, command: CommandRow, *, is_local: bool = False) -> Hold | None:
        """What keeps a command that is open from workers. `is_local`: those of the process that
        asked for the execution run it, of which no other one knows."""
        if ("step", paused_step(command.execution_id, command.step)) in self.paused:
            return Hold("paused", f"step {command.step} paused")
        if ("queue", command.queue) in self.paused:
            return Hold("paused", f"queue {command.queue} paused")
        if is_local or command.queue in self.served:
            return None
        return Hold("unserved", f"queued: no worker serves {command.queue}")

    def find_slot(self, row: SlotRow) -> Hold:
        """What a request for a slot that was not granted waits for."""
        if ("key", row.key) in self.paused:
            return Hold("paused", f"key {row.key} paused")
        return Hold("slot", f"waits for a slot of {row.key}")


def find_holds(tx: Transaction, rows: Sequence[ExecutionRow], now: datetime) -> Mapping[str, ExecutionHolds]:
    """What is held of those executions that go on, by their ids: read at once for all of them."""
    alive = {row.execution_id: row for row in rows if row.status not in ENDED and not row.is_over}
    if not alive:
        return {}
    gates, found = Gates.read(tx, now), dict[str, list[tuple[str, Hold | None]]]()
    for command in tx.commands.open_among(list(alive)):
        if command.purpose in PURPOSES and PURPOSES[command.purpose].is_claimed:
            is_local = bool(alive[command.execution_id].shard)
            hold = _find_of_command(gates, command, now, is_local=is_local)
            found.setdefault(command.execution_id, []).append((command.step, hold))
    for slot in tx.slots.of_executions(list(alive)):
        if slot.granted_at is None:
            step = slot.run_id.rpartition("#")[0]
            found.setdefault(slot.execution_id, []).append((step, gates.find_slot(slot)))
    return {name: _sum_up(parts) for name, parts in found.items()}


def add_holds(tx: Transaction, rows: Sequence[ExecutionRow], now: datetime) -> list[ListedExecution]:
    """`rows`, each with what it is held by as a whole."""
    found, nothing = find_holds(tx, rows, now), ExecutionHolds()
    return [_list(row, found.get(row.execution_id, nothing).whole) for row in rows]


def _list(row: ExecutionRow, hold: Hold | None) -> ListedExecution:
    return ListedExecution(**{one.name: getattr(row, one.name) for one in fields(ExecutionRow)}, hold=hold)


def _find_of_command(gates: Gates, command: CommandRow, now: datetime, *, is_local: bool) -> Hold | None:
    is_due = command.due_at is None or command.due_at <= now
    return gates.find_hold(command, is_local=is_local) if command.state == "open" and is_due else None


def _sum_up(parts: Iterable[tuple[str, Hold | None]]) -> ExecutionHolds:
    every = list(parts)
    steps = {
        step: hold
        for step in dict.fromkeys(step for step, _ in every)
        if (hold := _join(every, step)) and step
    }
    return ExecutionHolds(_first(hold for _, hold in every), steps)


def _join(parts: Sequence[tuple[str, Hold | None]], step: str) -> Hold | None:
    return _first(hold for name, hold in parts if name == step)


def _first(holds: Iterator[Hold | None]) -> Hold | None:
    """The first one, where nothing is free to go on."""
    every = list(holds)
    return every[0] if all(every) else None
