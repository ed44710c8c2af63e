"""What executions failed of, grouped: failures of one fingerprint are one fault."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Final

from noetl.facts.failures import FailurePattern, failure_of
from noetl.facts.json import Json, JsonMap
from noetl.usecases.fields import names
from noetl.usecases.fleet.choosing import scan
from noetl.usecases.ports import Condition, ExecutionRow
from noetl.usecases.ports.conditions import AllOf, OneOf, Present
from noetl.usecases.runtime import Runtime
from noetl.usecases.where import parse_where

#: Failed executions that are looked at, the newest ones, and ids and paths that a group names.
MOST: Final = 50_000
SHOWN: Final = 5
_FAILED: Final = OneOf("status", ("failed", "partial"))


@dataclass(slots=True)
class FailureGroup:
    """Executions that failed of the same. `sample` is the message of the newest one, and `is_alike`
    says that all have it. `newest` are ids, with `keys` of those that have one, and `paths`
    playbooks of some; `retried` counts those that were run again already, `times` are when they
    ended, the newest first."""

    failure: FailurePattern
    sample: str
    last_at: datetime
    first_at: datetime
    count: int = 0
    retried: int = 0
    is_alike: bool = True
    newest: list[str] = field(default_factory=list)
    keys: dict[str, str] = field(default_factory=dict)
    paths: list[str] = field(default_factory=list)
    times: list[datetime] = field(default_factory=list)

    def add(self, row: ExecutionRow, *, retried: bool) -> None:
        """Rows come newest first."""
        self.count += 1
        self.retried += retried
        self.is_alike = self.is_alike and _message_of(row) == self.sample
        at = _ended(row)
        self.first_at, self.last_at = min(self.first_at, at), max(self.last_at, at)
        self.times.append(at)
        if len(self.newest) < SHOWN:
            self.newest.append(row.execution_id)
            self.keys |= {row.execution_id: row.key} if row.key else {}
        if row.path not in self.paths and len(self.paths) < SHOWN:
            self.paths.append(row.path)

    @property
    def title(self) -> str:
        """Their message where all have the same, else what their messages have in common."""
        return self.sample if self.is_alike else self.failure.shape

    def as_json(self) -> dict[str, Json]:
        """`{fingerprint, kind, type, step, task, shape, sample, count, retried, first_at, last_at,
        newest, paths}`."""
        return {
            **describe(self.failure),
            "sample": self.sample,
            "count": self.count,
            "retried": self.retried,
            "first_at": self.first_at.isoformat(),
            "last_at": self.last_at.isoformat(),
            "newest": list(self.newest),
            "paths": list(self.paths),
        }


@dataclass(frozen=True, slots=True)
class Failures:
    """The groups, the largest first, of `count` failed executions. `more`: there are older ones
    that were not looked at."""

    groups: tuple[FailureGroup, ...]
    count: int
    more: bool

    def as_json(self) -> dict[str, Json]:
        return {
            "groups": [group.as_json() for group in self.groups],
            "count": self.count,
            "more": self.more,
        }


def describe(failure: FailurePattern) -> dict[str, Json]:
    """`{fingerprint, kind, type, step, task, shape}`."""
    return {
        "fingerprint": failure.fingerprint,
        "kind": failure.kind,
        "type": failure.type,
        "step": failure.step,
        "task": failure.task,
        "shape": failure.shape,
    }


def failures(
    rt: Runtime, where: str | None = None, among: Condition | None = None, *, most: int = MOST
) -> Failures:
    """What the executions that `where` means failed of, of those that `among` means; the newest
    `most` of them are looked at. Raises BadRequest."""
    condition = _failed(None if where is None else parse_where(where, rt.clock()))
    if among is not None:
        condition = AllOf((condition, among))
    groups: dict[FailurePattern, FailureGroup] = {}
    count = 0
    with rt.store.read() as tx:
        for page in scan(tx, condition):
            again = tx.executions.retries_of([row.execution_id for row in page])
            for row in islice(page, max(most - count, 0)):
                _add(groups, row, retried=row.execution_id in again)
            count += len(page)
            if count > most:
                break
    return Failures(_largest_first(groups.values()), min(count, most), count > most)


def _failed(where: Condition | None) -> Condition:
    """Those that failed, unless the condition asks for a status itself; they have an error."""
    if where is None:
        return AllOf((_FAILED, Present("error")))
    return AllOf((where, Present("error"), *(() if names(where, "status") else (_FAILED,))))


def _add(groups: dict[FailurePattern, FailureGroup], row: ExecutionRow, *, retried: bool) -> None:
    error: JsonMap = row.error or {}
    failure = failure_of(error)
    if failure not in groups:
        at = _ended(row)
        groups[failure] = FailureGroup(failure, _message_of(row), at, at)
    groups[failure].add(row, retried=retried)


def _message_of(row: ExecutionRow) -> str:
    return str((row.error or {}).get("message") or "")


def _ended(row: ExecutionRow) -> datetime:
    return row.ended_at or row.updated_at


def _largest_first(groups: Iterable[FailureGroup]) -> tuple[FailureGroup, ...]:
    return tuple(sorted(groups, key=lambda group: (-group.count, group.failure.fingerprint)))
