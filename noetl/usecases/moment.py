"""One execution as one transaction sees it: what every answer that shows several facts about it is
made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from noetl.engine.decision import status_of
from noetl.engine.evolve import replay
from noetl.engine.state import State, initial_state
from noetl.errors import BadRequest, Conflict, NotFound
from noetl.facts.events import Event, Requested
from noetl.history.statuses import settle_status
from noetl.usecases.ports import ENDED, ExecutionRow, Transaction
from noetl.usecases.ports.conditions import OneOf
from noetl.usecases.snapshots import load_state

_R = TypeVar("_R")

_UNDOES: Final = OneOf("descent", ("undo",))


def find(tx: Transaction, execution_id: str) -> ExecutionRow:
    """The execution's row. Raises NotFound."""
    row = tx.executions.get(execution_id)
    if row is None:
        raise no_execution(execution_id)
    return row


def no_execution(execution_id: str) -> NotFound:
    """What is said of an execution that there is not, or that the caller may not know of."""
    return NotFound(f"There is no execution {execution_id!r}.")


def requested(tx: Transaction, execution_id: str) -> Requested:
    """What the execution was asked to do: its first event. Raises NotFound where it has none."""
    first = [event.fact for event in tx.events.read(execution_id, limit=1)]
    if not first or not isinstance(first[0], Requested):
        raise NotFound(f"There is no log of execution {execution_id!r}.")
    return first[0]


def check_version(row: ExecutionRow, version: int | None) -> None:
    """Raises BadRequest where the execution has not come to that version."""
    if version is not None and not 0 <= version <= row.head_version:
        raise BadRequest(f"Execution {row.execution_id} has versions 0 to {row.head_version}, not {version}.")


def refuse_specimen(row: ExecutionRow) -> None:
    """Raises Conflict for an execution that was imported."""
    if row.imported_at is not None:
        raise Conflict(
            f"Execution {row.execution_id} was imported on {row.imported_at:%Y-%m-%d}: it can be looked at, "
            "and not be changed."
        )


def refuse_undo(row: ExecutionRow) -> None:
    """Raises Conflict for an execution that undoes another one."""
    if row.descent == "undo":
        raise Conflict(
            f"Execution {row.execution_id} undid {row.source_id}: retry {row.parent_id}, which called that."
        )


def find_undo(tx: Transaction, execution_id: str) -> ExecutionRow | None:
    """The execution that undoes that one, or has undone it."""
    found = tx.executions.find(source=execution_id, where=_UNDOES, limit=1)
    return found[0] if found else None


def pick_run(runs: Sequence[_R], asked: str) -> _R:
    """Which of the runs of a step `asked` means: `step` the last one, `step#k` number k. Raises
    BadRequest where there is none of that number."""
    step, _, number = asked.partition("#")
    if not number:
        return runs[-1]
    if not number.isascii() or not number.isdecimal() or not 1 <= int(number[:9]) <= len(runs):
        raise BadRequest(f"Step {step!r} ran {len(runs)} times: {asked!r} is none of #1 to #{len(runs)}.")
    return runs[int(number) - 1]


def is_id(text: str) -> bool:
    """Whether `text` can be an execution's id: a decimal number that fits a BIGINT."""
    return text.isascii() and text.isdigit() and len(text) <= 19 and int(text) < 1 << 63


@dataclass(frozen=True, slots=True)
class Moment:
    """One execution at one version: its row, and the events behind `start`, read in one
    transaction."""

    row: ExecutionRow
    start: State
    tail: Sequence[Event]

    def state(self, version: int | None = None) -> State:
        """The state as of `version`, or of the newest one."""
        last = self.row.head_version if version is None else version
        return replay(self.start, (event for event in self.tail if event.version <= last))

    def status(self, state: State) -> str:
        """What to call `state`, which is one of this execution (`history.statuses`). The newest is
        called as the row has it, in every answer: what no turn has seen yet may not be what it
        looks like."""
        if state.version == self.row.head_version:
            return self.row.status
        follows = next((event for event in self.tail if event.version == state.version + 1), None)
        return settle_status(status_of(state), follows)


def look(tx: Transaction, row: ExecutionRow, version: int | None = None) -> Moment:
    """The execution as `tx` sees it, with what its states from `version` on are made of; without
    one, its newest state.

    Raises BadRequest beyond the head.
    """
    check_version(row, version)
    start = load_state(tx, row.execution_id)
    if version is not None and start.version > version:
        start = initial_state(row.execution_id)
    return Moment(row, start, tx.events.read(row.execution_id, after=start.version))


def is_idle(tx: Transaction, row: ExecutionRow) -> bool:
    """Whether nothing happens to it by itself: it has ended, or has had every turn and waits for
    input, its own or that of executions that it called.

    What owes a turn is not waiting any more, whatever its last turn wrote; nor is one that called
    such an execution.
    """
    if row.is_over:
        return True
    if row.decided_version < row.head_version:
        return False
    return row.status == "paused" or (row.status == "waiting" and _all_wait(tx, row))


def _all_wait(tx: Transaction, row: ExecutionRow) -> bool:
    """Whether those that it called wait still: it hears of it when they go on, a little later."""
    if not tx.executions.find(parent=row.execution_id, limit=1):
        return True
    called = [child.id for child in look(tx, row).state().children.values() if child.id is not None]
    rows = (find(tx, child) for child in called)
    # Of a child that has ended its caller is about to hear.
    return all(child.status not in ENDED and is_idle(tx, child) for child in rows)
