"""The port of slots: who has them, who waits for them; and of what is paused."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol, TypeAlias

from noetl.facts.limits import SlotRow

#: A queue or a key by its name; a step by `paused_step`.
PausedKind: TypeAlias = Literal["queue", "key", "step"]


def paused_step(execution_id: str, step: str) -> str:
    """The name of a step of one execution among all that is paused."""
    return f"{execution_id}/{step}"


@dataclass(frozen=True, slots=True)
class Pause:
    """Nothing of it begins since then. `principal` is who asked for that, where it is known."""

    kind: PausedKind
    name: str
    since: datetime
    principal: str | None = None
    reason: str = ""


class HeldSlots(Protocol):
    """Slots and requests for them, over all executions.

    Whoever grants any locks their keys first, and the executions before that. A row is deleted by
    whoever has the lock of its execution, in the transaction that records the end of what had it.
    """

    def lock(self, keys: Iterable[str]) -> None:
        """Locks the keys in one order until the end of the transaction; waits for them. To be
        called once in a transaction, as the order is that of one call."""

    def add(self, rows: Sequence[SlotRow]) -> None:
        """Those that are there already, of the same holder and key, stay as they are."""

    def grant(self, rows: Sequence[SlotRow]) -> None:
        """Writes `granted_at`, `expires_at` and `under` of these. Needs the locks of their
        keys."""

    def offer(self, execution_ids: Sequence[str], now: datetime) -> None:
        """Requests of these that were never found to be next are so now."""

    def related(self, keys: Iterable[str]) -> list[SlotRow]:
        """The rows of these keys, those of all executions that have one or go on only with one
        that does, and so on, the oldest request first."""

    def of_key(self, key: str | None = None) -> list[SlotRow]:
        """The rows of a key; None: of all. Sorted by key, the oldest request first."""

    def of_executions(self, execution_ids: Sequence[str]) -> list[SlotRow]: ...

    def waiting_keys(self) -> list[str]:
        """The keys that anybody waits for."""

    def move(self, execution_id: str, run_id: str, part: str, to: str) -> None:
        """What that part of a run has is another one's now."""

    def free_part(self, execution_id: str, run_id: str, part: str) -> None: ...

    def free_run(self, execution_id: str, run_id: str) -> None:
        """The run has ended. Slots of rates that it was granted count until they expire."""

    def free_execution(self, execution_id: str) -> None:
        """The same of the execution and all its runs."""

    def withdraw(self, execution_id: str, run_id: str, part: str) -> None:
        """Takes back what was asked for there and not granted."""

    def remove_expired(self, now: datetime) -> None:
        """Slots of rates that do not count any more."""

    def has_expired(self, now: datetime) -> bool: ...

    def pause(self, pause: Pause) -> bool:
        """False where it is paused already."""

    def resume(self, kind: PausedKind, name: str) -> bool:
        """False where it is not paused."""

    def paused(self, kind: PausedKind | None = None) -> list[Pause]:
        """All that is paused, of that kind, by name."""
