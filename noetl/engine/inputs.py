"""What a decision needs besides the net and the state: the outside world, as arguments."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from noetl.engine.scope_state import UndoableCall
from noetl.engine.source import RunCopies, SourceLog
from noetl.facts.json import Json, JsonMap
from noetl.facts.outcome import ErrorInfo
from noetl.facts.reference import Load


@dataclass(frozen=True, slots=True)
class Playbook:
    """A version of a playbook in the catalog, the digest of its net and the names of its steps.
    `take_call` takes a call with a payload for the execution of an id: its business key (None: it
    has none), or why it cannot be called."""

    path: str
    version: int
    digest: str
    steps: Collection[str]
    take_call: Callable[[JsonMap, str], str | ErrorInfo | None] = lambda _payload, _execution_id: None


def _no_catalog(path: str, _version: int | None) -> Playbook | ErrorInfo:
    return ErrorInfo("client_error", f"There is no catalog to find playbook {path!r} in.")


@dataclass(frozen=True, slots=True)
class SlotVerdict:
    """What became of a request for slots, with the `reason` where it gets none."""

    answer: Literal["granted", "skip", "fail"]
    reason: str = ""


def _no_slots(_place: str, _since: int) -> SlotVerdict | None:
    """It is not known yet."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """`now` is UTC. `commands` are the ids of the execution's open commands and whether a worker
    holds them: operational facts that are not in the log. `load` fetches references, `hold` turns a
    value that is too large for the log into one, `paged` a list into a manifest of pages (all by
    content, hence the same at every call). `env` is the allow-listed environment. `playbook` finds
    a version (None: the newest) in the catalog, or says why not; what it finds is recorded.
    `max_depth` bounds how deep calls nest. `keychain` is what templates see under that name:
    references to secrets. `keep` takes the name and the fields of a credential that this execution
    alone has: it is encrypted, and in no event.

    `turn` names the turn that this decision is a part of, and `place` is that of version 0 of this
    execution among all versions that the turn records, of all executions that it serves: no two of
    those that they call get one id.
    """

    now: datetime
    commands: Mapping[str, bool] = field(default_factory=dict)
    load: Load | None = None
    hold: Callable[[Json], Json] = lambda value: value
    paged: Callable[[Iterable[Json]], Json] = list
    env: JsonMap = field(default_factory=dict)
    max_in_flight: int = 16
    max_items: int = 100_000
    max_generations: int = 5
    playbook: Callable[[str, int | None], Playbook | ErrorInfo] = _no_catalog
    max_depth: int = 10
    #: The public word for where the execution is that the last turn left.
    status: str = "pending"
    turn: str = ""
    place: int = 0
    keychain: JsonMap = field(default_factory=dict)
    keep: Callable[[str, JsonMap], None] = lambda _name, _data: None
    #: SHA-256 of a file that a task's code stands in; None where it cannot be seen from here.
    file_digest: Callable[[str], str | None] = lambda _: None
    #: Whether what a reference stands for is still there.
    holds: Callable[[JsonMap], bool] = lambda _: True
    #: What the execution that is run again recorded; None where there is none, or it is gone.
    source: SourceLog | None = None
    #: Copies of each run that takes something of it, by the run's id, as they have been made.
    copies: dict[str, RunCopies] = field(default_factory=dict)
    #: How many of them the turn may still append; the next one goes on.
    most_copies: int = 2000
    #: Makes the retry of that id ready which the policy of the playbook asks for, or says why there
    #: can be none, in a clause.
    prepare_retry: Callable[[str], str] = lambda _id: ""
    #: Makes the execution of that id ready which undoes what one that was called has done, or says
    #: why there can be none, in a clause.
    prepare_undo: Callable[[UndoableCall, str], str] = lambda _call, _id: ""
    #: The answer to what was asked for at that place and version; None where it waits.
    slots: Callable[[str, int], SlotVerdict | None] = _no_slots
    #: How much of each queue runs at once, of those that have a limit.
    queue_limits: Mapping[str, int] = field(default_factory=dict)
