"""What executions have kept outside of their logs, as far as one application has looked: the log is
read once, and then only what is new in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Final, TypeAlias

from noetl.facts.events import Event
from noetl.facts.json import Json, JsonMap
from noetl.facts.reference import RESULT_REF, holds_reference
from noetl.net.model import Net
from noetl.projection.references import find_reference_rows
from noetl.projection.rows import ProjectionRow
from noetl.usecases import inspect
from noetl.usecases.ports import ExecutionRow
from noetl.usecases.runtime import Cache, Runtime
from noetl.usecases.views import envelope

#: Things that are remembered of one execution: the newest ones.
MOST: Final = 2_000
#: Executions that are remembered.
_EXECUTIONS: Final = 64
#: Events that are read at a time.
_BATCH: Final = 1_000
#: With which values come into an execution; what others hold was there before.
_TYPES: Final = (
    "playbook.execution.requested",
    "signal.received",
    "callback.received",
    "approval.answered",
    "ctx.patched",
    "step.done",
    "task.done",
    "task.item.done",
    "task.call.done",
    "task.checkpointed",
    "task.loop.started",
    "task.variables.set",
)
_RESULTS: Final = frozenset({"task.done", "task.item.done", "task.call.done"})


@dataclass(frozen=True, slots=True)
class KeptPosition:
    """Where and when something was kept, or yielded."""

    version: int
    at: datetime
    step: str | None
    run: str | None
    iteration: int | None
    task: str


@dataclass(frozen=True, slots=True)
class KeptArtifact:
    """A file that an artifact task has put."""

    place: KeptPosition
    key: str
    uri: str
    content_type: str
    size: int | None

    @property
    def name(self) -> str:
        return self.uri


@dataclass(frozen=True, slots=True)
class KeptReference:
    """A value or file that is kept by reference."""

    place: KeptPosition
    reference: JsonMap

    @property
    def name(self) -> str:
        return str(self.reference["ref"])


@dataclass(frozen=True, slots=True)
class KeptParts:
    """A list that is kept in parts."""

    place: KeptPosition
    count: int | None
    parts: int

    @property
    def name(self) -> str:
        return f"{self.place.version}"


KeptThing: TypeAlias = KeptArtifact | KeptReference | KeptParts


@dataclass(frozen=True, slots=True)
class KeptThings:
    """As of `version`: what was kept, by its name, each where it was kept first; artifacts where
    they were put last. `quantum` is where quantum tasks have yielded results."""

    version: int = 0
    things: Mapping[str, KeptThing] = field(default_factory=dict)
    quantum: tuple[KeptPosition, ...] = ()


class KeptIndex:
    """What executions have kept, of those that were asked for lately. Safe for threads."""

    def __init__(self) -> None:
        self._known: Cache[str, KeptThings] = Cache(_EXECUTIONS)

    def find(self, rt: Runtime, row: ExecutionRow) -> KeptThings:
        """What the execution has kept up to the version of `row`, at least."""
        known = self._known.get(row.execution_id) or KeptThings()
        if known.version < row.head_version:
            known = _read_on(rt, row.execution_id, known, row.head_version)
            self._known.put(row.execution_id, known)
        return known


def _read_on(rt: Runtime, execution_id: str, known: KeptThings, last: int) -> KeptThings:
    net = inspect.net_of(rt, execution_id)
    things, quantum = dict(known.things), list(known.quantum)
    for event in _read(rt, execution_id, known.version, last):
        kind, place = _kind_of(net, event), _place_of(event)
        if kind == "quantum":
            quantum.append(place)
        for thing in _find_things(event, place, kind):
            if isinstance(thing, KeptArtifact):
                # What was put again stands where it was put last.
                things.pop(thing.name, None)
            things.setdefault(thing.name, thing)
    newest = dict(list(things.items())[-MOST:])
    return KeptThings(last, newest, tuple(quantum[-MOST:]))


def _read(rt: Runtime, execution_id: str, after: int, last: int) -> Iterator[Event]:
    while page := inspect.events(rt, execution_id, after, _BATCH, _TYPES):
        yield from (event for event in page if event.version <= last)
        after = page[-1].version


def _kind_of(net: Net, event: Event) -> str:
    """The kind of the tool whose result it records; empty where it records none."""
    task = getattr(event.fact, "task", None)
    step = net.steps.get(event.draft.step or "")
    if event.fact.type not in _RESULTS or step is None:
        return ""
    return next((one.kind for one in step.tasks if one.name == task), "")


def _place_of(event: Event) -> KeptPosition:
    draft = event.draft
    task = getattr(event.fact, "task", "")
    return KeptPosition(event.version, event.recorded_at, draft.step, draft.run_id, draft.iteration, task)


def _find_things(event: Event, place: KeptPosition, kind: str) -> Iterator[KeptThing]:
    result: Json = getattr(event.fact, "result", None)
    if kind == "artifact" and isinstance(result, Mapping) and (found := _read_artifact(place, result)):
        yield found
    # Most events hold none, and are not taken apart for that.
    if not holds_reference([getattr(event.fact, one.name) for one in fields(event.fact)]):
        return
    within = ""
    for row in find_reference_rows(event, envelope(event)["payload"]):
        where = str(row.values["place"])
        if within and where.startswith(within):
            continue
        if row.table == "manifest_ref":
            # Its parts are told of with it.
            within = f"{where}.parts."
        yield _thing_of(place, row)


def _thing_of(place: KeptPosition, row: ProjectionRow) -> KeptThing:
    values = row.values
    if row.table == "manifest_ref":
        return KeptParts(place, values["count"], int(values["parts"]))
    meta = {"bytes": values["bytes"], "content_type": values["content_type"]}
    about = {name: values[name] for name in ("ref", "scope", "expires_at")}
    return KeptReference(place, {"kind": RESULT_REF, **about, "meta": meta})


def _read_artifact(place: KeptPosition, result: JsonMap) -> KeptArtifact | None:
    """What `put` has yielded; None for other actions, which keep nothing."""
    key, uri, content_type, size = (result.get(name) for name in ("key", "uri", "content_type", "bytes"))
    if {"data", "exists"} & result.keys() or not isinstance(uri, str) or not isinstance(content_type, str):
        return None
    named = key if isinstance(key, str) else ""
    return KeptArtifact(place, named, uri, content_type, size if isinstance(size, int) else None)
