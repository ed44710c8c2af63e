"""Leases (T3, T5): one thread of a worker process keeps the claims of its commands alive; and how
the delivery of a command ended."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from noetl.errors import NoetlError
from noetl.facts.outcome import ErrorInfo
from noetl.usecases.ports import ENDED, Clock, CommandRow, CommandStanding, Transaction, WorkerRow
from noetl.usecases.runtime import Runtime

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HeldCommand:
    """A command that this process works on. `lost` is called when the work no longer counts, with
    True where that is because the execution is being cancelled, and again with each look until the
    work has ended: a call that was just beginning may not have heard it. `alive` is called after
    every other heartbeat. Of a loop's command `iteration` is the one that is worked on, and `drop`
    is called with it when that alone no longer counts."""

    command: CommandRow
    lost: Callable[[bool], None]
    alive: Callable[[], None]
    iteration: Callable[[], int | None] = lambda: None
    drop: Callable[[int], None] = lambda _index: None


@dataclass(frozen=True, slots=True)
class WorkerIdentity:
    """Who a process is, for those who ask what serves the queues."""

    name: str
    role: str
    queues: tuple[str, ...]


#: Seconds between two signs of life of an idle process.
PRESENCE_S = 15.0
#: How often is looked whether work still counts, in seconds: what was cancelled runs on for so
#: long.
LOOK_S = 1.0
#: Seconds that a process which stops waits for its last heartbeat.
LEAVE_S = 2.0


class Leases:
    """Heartbeats (T5) for everything held, and signs of life of the process itself.

    The process calls `start`; without it there are heartbeats only where `beat` is called.
    """

    def __init__(self, rt: Runtime, presence: WorkerIdentity | None = None) -> None:
        self._rt = rt
        self._presence = presence
        self._started_at = rt.clock()
        self._seen_at: datetime | None = None
        self._beaten = time.monotonic()
        #: By command and delivery: a late delivery must not end the heartbeats of a newer one.
        self._held: dict[tuple[str, int], HeldCommand] = {}
        #: What no longer counts and has not ended yet, with what `lost` is called with.
        self._lost: dict[tuple[str, int], tuple[HeldCommand, bool]] = {}
        self._lock = threading.Lock()
        self._wanted = threading.Event()
        self._thread: threading.Thread | None = None

    @contextmanager
    def hold(self, held: HeldCommand) -> Iterator[None]:
        """Keeps the lease of a command for as long as the block runs."""
        key = (held.command.command_id, held.command.attempt)
        with self._lock:
            self._held[key] = held
        try:
            yield
        finally:
            with self._lock:
                self._held.pop(key, None)
                self._lost.pop(key, None)

    def start(self) -> None:
        """Starts the thread; once."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._beat, name="noetl-leases", daemon=True)
                self._thread.start()

    def _beat(self) -> None:
        pause = min(self._rt.limits.heartbeat_s, LOOK_S)
        while not self._wanted.wait(pause):
            try:
                self._show()
                self._look()
                if time.monotonic() - self._beaten >= self._rt.limits.heartbeat_s:
                    self._extend()
            except NoetlError as error:
                # The store is away. Leases may run out meanwhile; fencing keeps that harmless.
                log.warning("No heartbeat this time: %s", error)
            except Exception:
                # Without the thread nothing that is at work would hear that it is cancelled.
                log.exception("A heartbeat failed; the next one goes on")

    def _show(self) -> None:
        now = self._rt.clock()
        if self._presence is None:
            return
        if self._seen_at is not None and (now - self._seen_at).total_seconds() < PRESENCE_S:
            return
        self._seen_at = now
        who = self._presence
        with self._rt.store.begin_async_commit() as tx:
            own = self._rt.machine_clock
            skew = None if own is None else measure_skew(tx, own)
            tx.workers.see(WorkerRow(who.name, who.role, who.queues, self._started_at, now, skew))

    def beat(self) -> None:
        """One heartbeat for everything held."""
        self._look()
        self._extend()

    def _look(self) -> None:
        """Ends work that no longer counts."""
        with self._lock:
            lost = list(self._lost.values())
        for one, cancelled in lost:
            one.lost(cancelled)
        held = self._find_held()
        if not held:
            return
        with self._rt.store.read() as tx:
            standings = tx.commands.standings([one.command.command_id for one in held])
            dropped = [found for one in held if (found := _find_dropped(tx, one, standings)) is not None]
        for one in held:
            standing = standings.get(one.command.command_id)
            if standing is None or not _is_ours(one.command, standing) or standing.halt == "cancel":
                self._drop(one, cancelled=standing is not None and standing.halt == "cancel")
        for one, index in dropped:
            one.drop(index)

    def _find_held(self) -> list[HeldCommand]:
        with self._lock:
            return list(self._held.values())

    def _extend(self) -> None:
        self._beaten = time.monotonic()
        held = self._find_held()
        if not held:
            return
        with self._rt.store.begin_async_commit() as tx:
            # As with a claim, what was waited for until here is not taken off the leases.
            until = self._rt.clock() + timedelta(seconds=self._rt.limits.lease_s)
            answers = [
                tx.commands.heartbeat(one.command.command_id, one.command.attempt, until) for one in held
            ]
        for one, is_ours in zip(held, answers, strict=True):
            if is_ours:
                one.alive()
            else:
                self._drop(one, cancelled=False)

    def _drop(self, one: HeldCommand, *, cancelled: bool) -> None:
        key = (one.command.command_id, one.command.attempt)
        with self._lock:
            if self._held.pop(key, None) is None:
                return
            self._lost[key] = one, cancelled
        one.lost(cancelled)

    def stop(self) -> None:
        """Ends heartbeats and signs of life: the process has stopped in order."""
        self._wanted.set()
        if self._thread is not None:
            self._thread.join(LEAVE_S)
        if self._presence is None or self._seen_at is None:
            return
        try:
            with self._rt.store.begin_async_commit() as tx:
                tx.workers.leave(self._presence.name)
        except NoetlError as error:
            log.warning("It is not known that this worker has stopped: %s", error)


def _is_ours(command: CommandRow, standing: CommandStanding) -> bool:
    return (standing.state, standing.attempt) == ("claimed", command.attempt)


def _find_dropped(
    tx: Transaction, held: HeldCommand, standings: Mapping[str, CommandStanding]
) -> tuple[HeldCommand, int] | None:
    """The iteration that is worked on, where it was cancelled."""
    standing, index = standings.get(held.command.command_id), held.iteration()
    if standing is None or not standing.cancelled_parts or index is None:
        return None
    is_over = tx.events.recorded(held.command.execution_id, f"iteration:{held.command.run_id}/{index}")
    return (held, index) if is_over else None


def measure_skew(tx: Transaction, clock: Clock) -> float | None:
    """By how many seconds `clock` is ahead of the database's, to within half of the time that
    asking takes; None where the database has no clock of its own."""
    asked = clock()
    theirs = tx.now()
    if theirs is None:
        return None
    return round((asked + (clock() - asked) / 2 - theirs).total_seconds(), 3)


def claim(rt: Runtime, tx: Transaction, owner: str, command_id: str) -> CommandRow | None:
    """T3. The lease counts from here: what was waited for before, or in order to get into the
    transaction, is not taken off it. A lease that has run out when it is taken keeps no other
    delivery away."""
    now = rt.clock()
    until = now + timedelta(seconds=rt.limits.lease_s)
    return tx.commands.claim(command_id, owner, now, until, rt.limits.max_deliveries)


@dataclass(frozen=True, slots=True)
class Worker:
    """A process that executes commands: its name in leases, and what keeps them alive."""

    rt: Runtime
    name: str
    leases: Leases


class End(Enum):
    """What became of one delivery."""

    #: Its work is reported; a lane has arrived at its chord.
    DONE = "done"
    #: A lane's slice is over; it wants to be delivered again, in the same place of its chord.
    AGAIN = "again"
    #: The delivery does not count: another one has the command, or will have it.
    REFUSED = "refused"
    #: The delivery does not count, and no other will: the execution has ended or is being
    #: cancelled.
    CANCELLED = "cancelled"
    #: The step has ended without this delivery: other lanes have done what was left of its loop.
    OVER = "over"


@dataclass(frozen=True, slots=True)
class Delivery:
    """`error` is why the step failed, or the last iteration that did; `failed` counts what failed:
    a step, or iterations of a lane. `is_last`: no other delivery has claimed the command, or none
    since this one did, so that none has shown how it ended."""

    end: End
    error: ErrorInfo | None = None
    failed: int = 0
    is_last: bool = False


def refusal(tx: Transaction, command_id: str, claimed: int = 0) -> Delivery:
    """The delivery of a command that could not be claimed, or that was lost after it was, with the
    attempt `claimed`."""
    command = tx.commands.get(command_id)
    if command is None:
        log.warning(
            "Command %s is not in this database: another one's broker, or an older one's message", command_id
        )
        return Delivery(End.CANCELLED)
    if command.state == "closed":
        # A run whose iterations ran on behind the end of its step may have both.
        if tx.events.recorded(command.execution_id, f"cancelled:{command.run_id}"):
            return Delivery(End.CANCELLED)
        if tx.events.recorded(command.execution_id, f"end:{command.run_id}"):
            return Delivery(End.OVER, is_last=command.attempt <= claimed)
    execution = tx.executions.get(command.execution_id)
    over = execution is None or execution.status in ENDED or execution.halt in ("cancel", "fail")
    return Delivery(End.CANCELLED if over else End.REFUSED)
