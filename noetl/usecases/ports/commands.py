"""The port of the table of commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol

from noetl.facts.json import JsonMap
from noetl.usecases.ports.executions import ExecutionRow


@dataclass(frozen=True, slots=True)
class CommandRow:
    """A command on its way: outbox entry, pending index and lease in one row. Notifications of
    other executions (`answer`, `waits`, `cancel`: to the execution `part`) travel in the same way
    and are not claimed; nor is `abandon`, which ends what a cancelled step has begun elsewhere.

    `context` is what the worker needs to know (names, args; see `engine.names`). `attempt` counts
    the deliveries that were claimed and is the fencing token of the lease: a report must name it.
    `priority` is its place in line, from 0, which comes first, to 9.
    `chord_id`, `chord_index`, `chord_size` place a lane in its loop's fan-in.
    """

    command_id: str
    execution_id: str
    run_id: str
    step: str
    #: What it is for: see `usecases.purposes`. A later release may have written one that this one
    #: does not know.
    purpose: str
    part: str
    queue: str
    issue: int
    context: JsonMap = field(default_factory=dict)
    label: str = ""
    iteration: int | None = None
    generation: int = 0
    priority: int = 0
    state: Literal["open", "claimed", "closed"] = "open"
    attempt: int = 0
    due_at: datetime | None = None
    sent_at: datetime | None = None
    lease_until: datetime | None = None
    owner: str | None = None
    chord_id: str | None = None
    chord_index: int | None = None
    chord_size: int | None = None


@dataclass(frozen=True, slots=True)
class CommandStanding:
    """Whose a command is, as of now, and what was asked of its execution: `halt`, and how many of
    its iterations were cancelled one by one."""

    state: str
    attempt: int
    halt: str
    cancelled_parts: int


class Commands(Protocol):
    """Commands: outbox, pending index and leases."""

    def add(self, rows: Sequence[CommandRow]) -> None: ...

    def get(self, command_id: str) -> CommandRow | None: ...

    def lock(self, command_id: str) -> tuple[ExecutionRow, CommandRow] | None:
        """The command and, locked, its execution: one round trip."""

    def claim(
        self, command_id: str, owner: str, now: datetime, lease_until: datetime, max_attempts: int
    ) -> CommandRow | None:
        """Takes the lease and counts the delivery (`attempt + 1`).

        None where the command is unknown, closed, not due, held by an unexpired lease, used up, or
        its execution has ended or halts. Durable or not: a lost claim only means a second delivery.
        Where it is the first thing that a transaction does it may be committed at once.
        """

    def release(self, command_id: str, attempt: int, sent_at: datetime) -> None:
        """Gives the lease back and un-counts the delivery: the holder itself sends the command
        on."""

    def reopen(self, command_id: str, attempt: int) -> None:
        """Ends a lease that ran out: open and unsent again; the delivery stays counted."""

    def heartbeat(self, command_id: str, attempt: int, lease_until: datetime) -> bool:
        """Extends the lease. False where it is no longer ours."""

    def standings(self, command_ids: Sequence[str]) -> Mapping[str, CommandStanding]:
        """Whether work on these still counts; of those that there are."""

    def close(self, command_ids: Sequence[str]) -> None: ...

    def mark_sent(self, command_ids: Sequence[str], now: datetime | None) -> None:
        """None: they did not leave after all."""

    def unsend(self, queue: str) -> None:
        """Of the queue all that waits is to be sent again."""

    def open_of(self, execution_id: str) -> list[CommandRow]:
        """All commands of the execution that are not closed, without their contexts."""

    def open_among(self, execution_ids: Sequence[str]) -> list[CommandRow]:
        """The same of several executions."""

    def has_open(self, execution_id: str, run_id: str) -> bool:
        """Whether a command of the run is not closed."""

    def unsent(self, now: datetime, limit: int) -> list[CommandRow]:
        """Open, due, never sent; without contexts."""

    def unclaimed(self, sent_before: datetime, limit: int) -> list[CommandRow]:
        """Open, sent before that instant, not claimed; without contexts."""

    def backlog(self, now: datetime, most: int) -> int:
        """Executions that owe a turn, and open commands that are due and that nobody has claimed;
        of each sort, and of those that were not sent, at most `most` are counted."""

    def expired(self, now: datetime, limit: int) -> list[CommandRow]:
        """Claimed, and the lease has run out; without contexts."""
