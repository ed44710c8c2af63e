"""Questions about executions. One status everywhere: that of the execution's row.

An answer that shows several facts about an execution reads all of them in one transaction, at one
version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from noetl.engine.state import State, result_of
from noetl.errors import BadRequest
from noetl.facts.event_names import TYPES, types_called
from noetl.facts.events import Event, Parent
from noetl.facts.json import Json, JsonMap
from noetl.facts.nearest import did_you_mean
from noetl.history.attempts import attempt_view
from noetl.history.statuses import statuses_of_steps
from noetl.net.model import Net
from noetl.usecases import awaited, catalog, findings, holds, kept_moments, moment
from noetl.usecases.facets import read_facets
from noetl.usecases.large_values import Resolver, resolve
from noetl.usecases.ports import (
    ENDED,
    Condition,
    Descent,
    EventFilter,
    ExecutionRow,
    Tally,
    Transaction,
)
from noetl.usecases.ports.conditions import OneOf, all_of
from noetl.usecases.purposes import find_purpose
from noetl.usecases.runtime import Runtime
from noetl.usecases.stops import Stop, find_stop
from noetl.usecases.where import parse_where

#: Children that are shown with the execution that called them, and descendants with their source.
SHOWN_CHILDREN = 50
#: Spans of a tally, at most.
MOST_SPANS: Final = 1_000

#: How those are told that descend from an execution.
BECAME: Final[Mapping[Descent, str]] = {
    "retry": "retried by",
    "fork": "forked as",
    "migration": "migrated to",
    "undo": "undone by",
}


def execution(rt: Runtime, execution_id: str) -> ExecutionRow:
    """Raises NotFound."""
    with rt.store.read() as tx:
        return moment.find(tx, execution_id)


def listed(rt: Runtime, execution_id: str) -> holds.ListedExecution:
    """As lists show it. Raises NotFound."""
    with rt.store.read() as tx:
        return holds.add_holds(tx, [moment.find(tx, execution_id)], rt.clock())[0]


def look(rt: Runtime, execution_id: str, version: int | None = None) -> moment.Moment:
    """One execution as it is now, to ask for its state as of `version`, or now. Raises NotFound,
    and BadRequest beyond the head."""
    with rt.store.read() as tx:
        return kept_moments.look(rt, tx, moment.find(tx, execution_id), version)


def is_idle(rt: Runtime, execution_id: str) -> bool:
    """Whether nothing happens to it by itself, as `moment.is_idle` says. Raises NotFound."""
    with rt.store.read() as tx:
        return moment.is_idle(tx, moment.find(tx, execution_id))


def has_to_notify(rt: Runtime, execution_id: str) -> bool:
    """Whether others are still to hear from it: its caller how it is or ended, children and
    machines elsewhere that they are not waited for."""
    with rt.store.read() as tx:
        return any(not find_purpose(one).is_claimed for one in tx.commands.open_of(execution_id))


def executions(
    rt: Runtime,
    *,
    status: str | None = None,
    path: str | None = None,
    parent: str | None = None,
    source: str | None = None,
    key: str | None = None,
    labels: Mapping[str, str] | None = None,
    principal: str | None = None,
    where: str | None = None,
    among: Condition | None = None,
    before: str | None = None,
    limit: int = 50,
) -> list[holds.ListedExecution]:
    """Newest first; `parent` is the execution that called them, `source` the one that they run
    again or are forks of, `key` their business key, `labels` some that they have, `principal`
    who asked for them, `where` a filter, `among` another one, `before` the id to page on from.
    Raises BadRequest where an id is none, or the filter cannot be used."""
    for given in (parent, source, before):
        if given is not None and not moment.is_id(given):
            raise BadRequest(f"{given!r} is not an execution id.")
    condition = all_of(
        None if where is None else parse_where(where, rt.clock()),
        None if principal is None else OneOf("principal", (principal,)),
        *(OneOf(f"label.{name}", (value,)) for name, value in (labels or {}).items()),
        among,
    )
    with rt.store.read() as tx:
        found = tx.executions.find(
            status=status,
            path=path,
            parent=parent,
            source=source,
            key=key,
            where=condition,
            before=before,
            limit=limit,
        )
        return holds.add_holds(tx, awaited.add_pauses(tx, found), rt.clock())


def tally(
    rt: Runtime,
    where: str | None = None,
    among: Condition | None = None,
    *,
    spans: int = 60,
    since: datetime | None = None,
    until: datetime | None = None,
) -> Tally:
    """How many executions there are of which `where` and `among` are true, by status and over time,
    as `Executions.tally` counts them. Raises BadRequest where the filter, the number of spans, or
    what is to lie between `since` and `until` cannot be used."""
    if not 1 <= spans <= MOST_SPANS:
        raise BadRequest(f"Executions are counted in 1 to {MOST_SPANS} spans of time, not in {spans}.")
    if since is not None and until is not None and since >= until:
        raise BadRequest(f"No time lies between {since.isoformat()} and {until.isoformat()}: exchange them.")
    condition = all_of(None if where is None else parse_where(where, rt.clock()), among)
    with rt.store.read() as tx:
        return tx.executions.tally(condition, spans=spans, since=since, until=until)


def events(
    rt: Runtime, execution_id: str, after: int = 0, limit: int | None = None, types: Iterable[str] = ()
) -> list[Event]:
    """Events behind version `after`. Other generations' names for event types are understood.

    Raises NotFound, and BadRequest for a type that no event has.
    """
    return news(rt, execution_id, after, limit, types).events


@dataclass(frozen=True, slots=True)
class NewEvents:
    """Events, and the execution at the moment when they were read.

    `idle`: nothing happens to it by itself, as `is_idle` says; None where it was not asked for.
    """

    row: ExecutionRow
    events: list[Event]
    idle: bool | None = None


def news(
    rt: Runtime,
    execution_id: str,
    after: int = 0,
    limit: int | None = None,
    types: Iterable[str] = (),
    *,
    ask_idle: bool = False,
) -> NewEvents:
    """What happened behind version `after`, and where the execution is. Raises as `events` does."""
    wanted = tuple(known for name in types for known in _event_types(name))
    with rt.store.read() as tx:
        row = moment.find(tx, execution_id)
        found = tx.events.read(execution_id, after=after, limit=limit, types=wanted)
        return NewEvents(row, found, moment.is_idle(tx, row) if ask_idle else None)


@dataclass(frozen=True, slots=True)
class EventSlice:
    """Some events in order, how many there are before them, and in all."""

    events: list[Event]
    skipped: int
    count: int


def slice_events(
    rt: Runtime, execution_id: str, where: EventFilter, until: int, find_range: Callable[[int], range]
) -> EventSlice:
    """Those of the events up to version `until` whose numbers, from 0, `find_range` makes of how
    many there are."""
    with rt.store.read() as tx:
        count = tx.events.count(execution_id, where, until)
        wanted = find_range(count)
        found = tx.events.slice(execution_id, where, until, wanted.start, len(wanted)) if wanted else []
        return EventSlice(found, wanted.start, count)


def last_events(rt: Runtime, execution_id: str, where: EventFilter, until: int, limit: int) -> list[Event]:
    """The last events up to version `until`."""
    return slice_events(
        rt, execution_id, where, until, lambda count: range(max(0, count - limit), count)
    ).events


def _event_types(name: str) -> tuple[str, ...]:
    known = types_called(name)
    if not set(known) <= set(TYPES):
        raise BadRequest(f"{name[:80]!r} is not a type of event.{did_you_mean(name[:80], TYPES)}")
    return known


def state_at(rt: Runtime, execution_id: str, version: int | None = None) -> State:
    """The state as of `version`, or now. Raises as `look` does."""
    return look(rt, execution_id, version).state(version)


def net_of(rt: Runtime, execution_id: str) -> Net:
    """The net that the execution runs, whatever the catalog says today."""
    with rt.store.read() as tx:
        return rt.plan(tx, moment.find(tx, execution_id).digest).net


def _child(tx: Transaction, row: ExecutionRow) -> JsonMap:
    caller = moment.requested(tx, row.execution_id).parent
    return {
        "execution_id": row.execution_id,
        "path": row.path,
        "version": row.playbook_version,
        "status": row.status,
        "step": caller.step if caller else None,
        "iteration": caller.iteration if caller else None,
        "undoes": row.source_id if row.descent == "undo" else None,
        "errors_passed_over": row.errors_passed_over,
        "warnings_count": row.warnings_count,
    }


@dataclass(frozen=True, slots=True)
class CalledExecution:
    """An execution that another one called, and where that did so."""

    row: holds.ListedExecution
    caller: Parent | None


def called(rt: Runtime, execution_id: str, before: str | None, limit: int) -> list[CalledExecution]:
    """Those that the execution called, newest first; `before` is the id to page on from. Raises
    BadRequest where that is none."""
    rows = executions(rt, parent=execution_id, before=before, limit=limit)
    with rt.store.read() as tx:
        return [CalledExecution(row, moment.requested(tx, row.execution_id).parent) for row in rows]


def caller_of(rt: Runtime, execution_id: str) -> Parent | None:
    """What called the execution, and where; None where it was not called. Raises NotFound."""
    with rt.store.read() as tx:
        return moment.requested(tx, execution_id).parent


@dataclass(frozen=True, slots=True)
class Report:
    """What is said of an execution as a whole. `steps` maps a name to `{status, runs, result,
    hold?}`, `children` are the newest `SHOWN_CHILDREN` that it called, newest first:
    `{execution_id, path, version, status, step, iteration, undoes, errors_passed_over,
    warnings_count}`, with the step and the iteration that called, and the execution that it undoes;
    `descendants` as many of those that run it again, are forks of it, have taken over from it or
    undo it, newest first: `{execution_id, descent, status}`; `warnings` as in `findings`, `retry`
    as in `history.attempts`, `waits` as in `engine.awaited.find_awaited`, `inputs` are its
    workload."""

    row: ExecutionRow
    result: Json
    ctx: JsonMap
    steps: JsonMap
    error: JsonMap | None
    events: int
    children: list[JsonMap]
    descendants: list[JsonMap]
    warnings: list[JsonMap]
    errors_passed_over: int
    retry: JsonMap | None
    waits: list[JsonMap]
    inputs: JsonMap
    #: What it is held by as a whole.
    hold: holds.Hold | None
    #: Who paused or cancelled it.
    stop: Stop | None

    @property
    def duration_ms(self) -> float:
        end = self.row.ended_at or self.row.updated_at
        return round((end - self.row.created_at).total_seconds() * 1000, 3)

    def as_json(self) -> dict[str, Json]:
        """The shape of `noetl run --json`."""
        return {
            "execution_id": self.row.execution_id,
            "parent_id": self.row.parent_id,
            "source_id": self.row.source_id,
            "descent": self.row.descent,
            "operation_id": self.row.operation_id,
            "key": self.row.key,
            "labels": read_facets(self.row.labels),
            "principal": self.row.principal,
            "path": self.row.path,
            "version": self.row.playbook_version,
            "status": self.row.status,
            "hold": self.hold and self.hold.as_json(),
            "stop": self.stop and self.stop.as_json(),
            "inputs": self.inputs,
            "result": self.result,
            "ctx": self.ctx,
            "steps": self.steps,
            "error": self.error,
            "retry": self.retry,
            "waits": self.waits,
            "errors_passed_over": self.errors_passed_over,
            "warnings": self.warnings,
            "events": self.events,
            "duration_ms": self.duration_ms,
            "children": self.children,
            "descendants": self.descendants,
        }


def report(rt: Runtime, execution_id: str, *, resolve: bool = True) -> Report:
    """The whole story in short. With `resolve`, references are replaced by what they stand for, as
    far as `Resolver` goes."""
    with rt.store.read() as tx:
        here = kept_moments.look(rt, tx, moment.find(tx, execution_id))
        row, state = here.row, here.state()
        called = tx.executions.find(parent=execution_id, limit=SHOWN_CHILDREN)
        children = [_child(tx, row) for row in called]
        descended = tx.executions.find(source=execution_id, limit=SHOWN_CHILDREN)
        # Of a specimen the catalog knows nothing: what is there under its path is another playbook.
        known = row.imported_at is None
        playbook = catalog.find(tx, row.path, row.playbook_version) if known else None
        waits = awaited.find_in(tx, state, rt.clock())
        stop = find_stop(tx, row)
        held = holds.find_holds(tx, [row], rt.clock()).get(row.execution_id, holds.ExecutionHolds())
    shown = Resolver(rt) if resolve else _as_it_is
    result = shown(result_of(state))
    steps = _steps(state, shown, held.steps)
    ctx = {key: shown(value) for key, value in state.ctx.items()}
    warnings = catalog.warnings_of(playbook) if playbook is not None else []
    if state.notices.kept:
        warnings += findings.run_warnings(state.notices, net_of(rt, execution_id))
    return Report(
        row,
        result,
        ctx,
        steps,
        row.error,
        row.head_version,
        children,
        [
            {"execution_id": one.execution_id, "descent": one.descent, "status": one.status}
            for one in descended
        ],
        warnings,
        state.errors_passed_over,
        attempt_view(state.next_attempt),
        waits,
        {key: shown(value) for key, value in state.workload.items()},
        held.whole,
        stop,
    )


def _steps(
    state: State, shown: Callable[[Json], Json], held: Mapping[str, holds.Hold] | None = None
) -> dict[str, Json]:
    statuses = statuses_of_steps(state)
    return {
        name: {
            "status": statuses[name],
            "runs": record.runs,
            "result": shown(record.result),
            **({"error": record.error.as_json()} if record.error else {}),
            **({"hold": held[name].as_json()} if held and name in held else {}),
            **findings.step_errors(record),
            **({"reused": record.reused} if record.reused else {}),
        }
        for name, record in state.steps.items()
    }


def state_view(rt: Runtime, execution_id: str, version: int | None = None) -> dict[str, Json]:
    """`{execution_id, version, status, inputs, ctx, steps, marking: {tokens, running}}` as of
    `version`, or now; `inputs` as in `Report`.

    Raises as `look` does.
    """
    here = look(rt, execution_id, version)
    state = here.state(version)
    return {
        "execution_id": execution_id,
        "version": state.version,
        "status": here.status(state),
        "inputs": dict(state.workload),
        "ctx": dict(state.ctx),
        "steps": _steps(state, _as_it_is),
        "marking": _marking(state),
    }


def _marking(state: State) -> JsonMap:
    tokens = [
        {"id": name, "place": waiting.token.arc, "step": waiting.token.step}
        for name, waiting in state.tokens.items()
        if not waiting.token.absorbed
    ]
    running = [
        {
            "run_id": run.id,
            "step": run.step,
            "status": run.status,
            **({} if run.puts_tokens else {"routed": True}),
        }
        for run in state.runs.values()
        if not run.ended
    ]
    return {"tokens": tokens, "running": running}


@dataclass(frozen=True, slots=True)
class ExecutionResultView:
    """Where an execution is, and what it came to: null while it runs. `idle` as in `NewEvents`."""

    row: ExecutionRow
    value: Json = None
    idle: bool | None = None


def result(rt: Runtime, execution_id: str, *, ask_idle: bool = False) -> ExecutionResultView:
    """The execution's result. A result that is a reference is what it stands for, and those inside
    of it are replaced as in `report`. Raises NotFound."""
    with rt.store.read() as tx:
        row = moment.find(tx, execution_id)
        here = moment.look(tx, row) if row.status in ENDED else None
        idle = moment.is_idle(tx, row) if ask_idle else None
    return ExecutionResultView(row, None if here is None else resolve(rt, result_of(here.state())), idle)


def _as_it_is(value: Json) -> Json:
    return value
