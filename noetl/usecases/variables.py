"""The variables of an execution: what they hold, and who wrote that when."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, TypeAlias

from noetl.errors import NotFound
from noetl.facts.events import CtxPatched, Evaluated, Event, TaskFact
from noetl.facts.json import Json, JsonMap
from noetl.facts.nearest import did_you_mean
from noetl.facts.reference import is_reference, load_value
from noetl.usecases import kept_moments, moment
from noetl.usecases.large_values import resolve
from noetl.usecases.ports import Transaction
from noetl.usecases.runtime import Runtime

#: Where a value was assigned: `start` is what the playbook begins with.
WriteCause: TypeAlias = Literal["start", "task", "step", "arc", "loop", "client"]
#: What JSON calls its values, and what stands for one that is kept outside of the log.
JsonType: TypeAlias = Literal[
    "null", "boolean", "integer", "number", "string", "array", "object", "reference"
]
#: Events that are recorded between the end of a task and what it wrote.
_BETWEEN: Final = 4


@dataclass(frozen=True, slots=True)
class VariableWrite:
    """The newest assignment of a variable, or within it: the event and its place in the playbook.
    `principal` is who asked for it from outside."""

    cause: WriteCause
    version: int
    recorded_at: datetime
    step: str | None
    run_id: str | None
    iteration: int | None
    task: str | None
    principal: str | None


@dataclass(frozen=True, slots=True)
class CtxVariable:
    """What a name holds. `write` is None where the log does not say who wrote it."""

    value: Json
    type: JsonType
    write: VariableWrite | None


@dataclass(frozen=True, slots=True)
class Variables:
    """All names at the top of ctx at one version, large values as references."""

    version: int
    by_name: Mapping[str, CtxVariable]


def variables(rt: Runtime, execution_id: str) -> Variables:
    """Raises NotFound."""
    with rt.store.read() as tx:
        state = kept_moments.look(rt, tx, moment.find(tx, execution_id)).state()
        newest = {_head(path): event for path, event in _writes(tx, execution_id, state.version)}
        writes = {event.version: _describe(tx, event) for event in newest.values()}
    found = {
        name: CtxVariable(value, type_of(value), writes[newest[name].version] if name in newest else None)
        for name, value in state.ctx.items()
    }
    return Variables(state.version, found)


def variable(rt: Runtime, execution_id: str, name: str) -> CtxVariable:
    """What the dotted `name` holds, large values resolved. Raises NotFound with the nearest
    name."""
    with rt.store.read() as tx:
        state = kept_moments.look(rt, tx, moment.find(tx, execution_id)).state()
        found = [event for path, event in _writes(tx, execution_id, state.version) if _is_within(path, name)]
        write = _describe(tx, found[-1]) if found else None
    value = resolve(rt, _find(rt, execution_id, state.ctx, name))
    return CtxVariable(value, type_of(value), write)


def _find(rt: Runtime, execution_id: str, ctx: JsonMap, name: str) -> Json:
    value: Json = ctx
    for number, part in enumerate(name.split(".")):
        value = load_value(value, rt.load)
        if not isinstance(value, Mapping) or part not in value:
            known = value if isinstance(value, Mapping) else ()
            where = ".".join(name.split(".")[:number])
            raise NotFound(
                f"ctx{'.' + where if where else ''} of execution {execution_id} has no {part!r}."
                f"{did_you_mean(part, known)}"
            )
        value = value[part]
    return value


def type_of(value: Json) -> JsonType:
    """What JSON calls the value."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case str():
            return "string"
        case int():
            return "integer"
        case list():
            return "array"
        case Mapping():
            return "reference" if is_reference(value) else "object"
        case _:
            return "number"


# --- who wrote it ---


def _writes(tx: Transaction, execution_id: str, until: int) -> Iterator[tuple[str, Event]]:
    """The dotted names that were assigned up to that version, each with its event, the newest last:
    what ctx begins with lies under what somebody has assigned before."""
    events = tx.events.read(execution_id, types=(Evaluated.type, CtxPatched.type))
    for event in events:
        if isinstance(event.fact, Evaluated) and event.version <= until:
            yield from ((name, event) for name in event.fact.ctx)
    for event in events:
        if isinstance(event.fact, CtxPatched) and event.version <= until:
            yield from ((path, event) for path in event.fact.patch)


def _head(path: str) -> str:
    return path.partition(".")[0]


def _is_within(path: str, name: str) -> bool:
    """Whether an assignment to `path` is one to `name`, to a part of it, or to what holds it."""
    return f"{path}.".startswith(f"{name}.") or f"{name}.".startswith(f"{path}.")


def _describe(tx: Transaction, event: Event) -> VariableWrite:
    draft = event.draft
    cause = event.fact.cause if isinstance(event.fact, CtxPatched) else "start"
    return VariableWrite(
        cause,
        event.version,
        event.recorded_at,
        draft.step,
        draft.run_id,
        draft.iteration,
        _find_task(tx, event) if cause == "task" else None,
        draft.caller.principal if draft.caller else None,
    )


def _find_task(tx: Transaction, write: Event) -> str | None:
    """The task that assigned it, which is recorded with what the task did before."""
    first = max(0, write.version - 1 - _BETWEEN)
    before = tx.events.read(write.execution_id, after=first, limit=write.version - 1 - first)
    place = (write.draft.run_id, write.draft.iteration)
    tasks = [
        event.fact.task
        for event in before
        if isinstance(event.fact, TaskFact) and (event.draft.run_id, event.draft.iteration) == place
    ]
    return tasks[-1] if tasks else None
