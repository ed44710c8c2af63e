"""The port of what calls of tasks with `cache` came to."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from noetl.facts.json import JsonMap


@dataclass(frozen=True, slots=True)
class CallSite:
    """The place of a call: a task of an execution's run, and of an iteration of it."""

    execution_id: str
    run_id: str
    iteration: int | None
    task: str


@dataclass(frozen=True, slots=True)
class CachedRow:
    """What the call at `site` came to: `outcome` is `{result, extras}`. It counts until
    `expires_at`, for calls of the playbook at `path`, or of all (`global`)."""

    key: str
    path: str
    scope: Literal["playbook", "global"]
    kind: str
    site: CallSite
    outcome: JsonMap
    created_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class CallLock:
    """Who makes a call that others wait for, since when."""

    site: CallSite
    taken_at: datetime


class CachedResults(Protocol):
    """Results by the digests of their calls, the calls that others wait for, and which executions
    name large results of others."""

    def get(self, key: str, now: datetime) -> CachedRow | None:
        """What counts at that moment."""

    def lock(self, key: str, now: datetime) -> CachedRow | None:
        """The same; until the end of the transaction nobody else changes it."""

    def save(self, row: CachedRow) -> None:
        """Replaces what was there."""

    def find(self, path: str | None = None, limit: int = 100) -> list[CachedRow]:
        """The newest first; of one playbook where a path is given."""

    def remove(self, path: str | None = None, key: str | None = None) -> int:
        """Removes what is kept: of one playbook, of one call, or all. How many there were."""

    def has_expired(self, now: datetime) -> bool: ...

    def remove_expired(self, now: datetime) -> None: ...

    def remove_of(self, execution_id: str) -> int:
        """Removes what calls of that execution came to. How many there were."""

    def hold(self, key: str, lock: CallLock) -> CallLock:
        """Takes the lock of a call where nobody has it. Whose it is."""

    def holder(self, key: str) -> CallLock | None:
        """Who has the lock of a call."""

    def take_over(self, key: str, before: CallLock, lock: CallLock) -> bool:
        """Takes the lock of one that is gone, unless another was faster."""

    def release(self, key: str, site: CallSite) -> None:
        """Nothing where it is another's."""

    def use(self, execution_id: str, user_id: str) -> None:
        """The log of `user_id` names large results of `execution_id`."""

    def users(self, execution_id: str) -> list[str]:
        """The ids of executions whose logs name large results of that one."""
