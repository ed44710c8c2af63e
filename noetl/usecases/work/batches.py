"""What a lane has recorded and not reported yet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from noetl.facts.events import Draft
from noetl.facts.reference import Retention
from noetl.usecases.large_values import hold_draft
from noetl.usecases.ports import CommandRow, Transaction
from noetl.usecases.runtime import Runtime
from noetl.usecases.wakes import ask_for_turn, wake_after_report
from noetl.usecases.work.leased_tools import LeasedTools
from noetl.usecases.work.reports import LeaseLost, LockedRows, append, discard, lock_lease, output_of

T = TypeVar("T")


@dataclass(slots=True)
class LaneBatch:
    """Drafts that are committed together. `wakes`: the scheduler waits for something that is among
    them."""

    rt: Runtime
    command: CommandRow
    tools: LeasedTools
    drafts: list[Draft] = field(default_factory=list)
    wakes: bool = False

    def add(self, draft: Draft) -> None:
        """Puts `draft` behind the others; what is large in it is kept by reference."""
        self.drafts.append(hold_draft(self.rt, draft, Retention(self.command.execution_id)))

    def commit(self) -> None:
        """Appends what is pending. Raises LeaseLost."""
        self.commit_with(lambda _tx, _at: None)

    def commit_with(
        self,
        then: Callable[[Transaction, LockedRows], T],
        claim: Callable[[Transaction], Draft] | None = None,
    ) -> T:
        """T4: appends what is pending and the draft of a `claim`, does what comes `then` in the
        same transaction, and returns what that yields. Raises LeaseLost."""
        rt, command = self.rt, self.command
        self.tools.check()
        with output_of(rt, command) as printed, rt.store.begin() as tx:
            at = lock_lease(tx, command)
            if at is None:
                discard(rt, tx, command, self.drafts)
            else:
                printed.into(tx, command.execution_id)
                if claim is not None:
                    self.drafts.append(claim(tx))
                append(rt, tx, at, self.drafts)
                found = then(tx, at)
        if at is None:
            raise LeaseLost(command.command_id)
        self.drafts.clear()
        self._wake()
        return found

    def ask_for_turn(self, tx: Transaction) -> None:
        """The scheduler waits for the lane to let go, whether or not there is something to
        report."""
        self.wakes = True
        if not self.drafts:
            ask_for_turn(tx, self.command.execution_id, self.rt.clock())

    def _wake(self) -> None:
        if self.wakes:
            self.wakes = False
            wake_after_report(self.rt)
