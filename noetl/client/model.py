"""The data that the client's methods take and return."""

from __future__ import annotations

from dataclasses import dataclass, field

from noetl.errors import NoetlError
from noetl.facts.business_key import OnConflict
from noetl.facts.json import Json, JsonMap

#: The statuses in which an execution stays.
ENDED = frozenset({"completed", "failed", "partial", "cancelled"})


@dataclass(frozen=True, slots=True)
class Registered:
    """A version of a playbook in the server's catalog. `warnings` are problems that do not keep it
    from running."""

    path: str
    version: int
    warnings: list[JsonMap] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class BatchItem:
    """One execution to start. Without an `idempotency_key` the client draws one, so that a batch
    whose answer was lost can be sent again."""

    path: str
    payload: JsonMap = field(default_factory=dict)
    version: int | None = None
    overrides: JsonMap = field(default_factory=dict)
    idempotency_key: str | None = None
    key: str | None = None
    on_conflict: OnConflict | None = None
    labels: JsonMap = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Started:
    """An execution that the server has recorded: it will run, whatever happens to the processes.
    `existing`: it was there before the request came, under its idempotency key or business
    key."""

    execution_id: str
    warnings: list[JsonMap] = field(default_factory=list)
    existing: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Result:
    """Where an execution stands. `result` and `error` are those of an execution that has ended.

    `error` is `{kind, type, message, step, task, iteration, attempt, line, traceback}`, as far as
    it is known.
    """

    execution_id: str
    status: str
    result: Json = None
    error: JsonMap | None = None

    @property
    def ended(self) -> bool:
        return self.status in ENDED

    def value(self) -> Json:
        """The result of an execution that completed. Raises ExecutionFailed for any other."""
        if self.status != "completed":
            raise ExecutionFailed(self)
        return self.result


@dataclass(frozen=True, slots=True)
class Event:
    """One fact of an execution's log. `data` is the whole event as the API describes it."""

    version: int
    type: str
    data: JsonMap

    @classmethod
    def of(cls, said: JsonMap) -> Event:
        """The event that the API describes so."""
        return cls(said["version"], said["type"], said)


@dataclass(frozen=True, slots=True)
class EventPage:
    """Events, and where the execution was when they were read. `version` is that of its newest
    event then, `next` what the next page is behind, None where there is none yet.

    `idle`: nothing happens to it by itself; it has ended, or waits for something from outside.
    """

    events: list[Event]
    status: str
    version: int
    idle: bool
    next: int | None


@dataclass(frozen=True, slots=True)
class LogChunk:
    """A piece of what a task printed, without secrets: parts of lines, or many. `data` is the whole
    chunk as the API describes it, with the iteration and the attempt that printed it."""

    seq: int
    step: str
    stream: str
    text: str
    data: JsonMap

    @classmethod
    def of(cls, said: JsonMap) -> LogChunk:
        """The chunk that the API describes so."""
        return cls(said["seq"], said["step"], said["stream"], said["text"], said)


@dataclass(frozen=True, slots=True)
class LogPage:
    """Chunks, and where the execution was when they were read; `next` as in `EventPage`."""

    chunks: list[LogChunk]
    status: str
    next: int | None


@dataclass(frozen=True, slots=True)
class ResultPage:
    """Items of a list that is kept by reference, from `offset` on; `next` is the offset behind
    them, None at its end."""

    items: list[Json]
    offset: int
    length: int
    next: int | None


class ExecutionFailed(NoetlError):
    """An execution whose result was asked for did not complete. `outcome` says where it stands."""

    def __init__(self, outcome: Result) -> None:
        reason = outcome.error.get("message") if outcome.error else None
        said = f": {reason}" if reason else ""
        super().__init__(f"Execution {outcome.execution_id} is {outcome.status}{said}")
        self.outcome = outcome
