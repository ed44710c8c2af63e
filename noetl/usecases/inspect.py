"""Questions about executions. One status everywhere: that of the execution's row."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import get_args

from noetl.engine.decide import status_of
from noetl.engine.evolve import replay
from noetl.engine.state import State, initial_state, result_of
from noetl.errors import BadRequest, NotFound, Unavailable
from noetl.facts.event_names import ALIASES
from noetl.facts.events import ChildEnded, ChildWaiting, Draft, Event, Fact, Requested
from noetl.facts.json import Json, JsonMap
from noetl.facts.nearest import did_you_mean
from noetl.facts.reference import MANIFEST, Lazy, holds_reference, is_reference, loaded
from noetl.net.model import Net
from noetl.usecases.advance import stored_state
from noetl.usecases.ports import ENDED, ExecutionRow, Transaction
from noetl.usecases.runtime import Runtime

#: Children that are shown with the execution that called them.
SHOWN_CHILDREN = 50

#: Bytes of large results that one report shows in the place of their references.
SHOWN_BYTES = 8 * 1024 * 1024

_TYPES = frozenset(fact.type for fact in get_args(Fact))


def execution(rt: Runtime, execution_id: str) -> ExecutionRow:
    """Raises NotFound."""
    with rt.store.read() as tx:
        return row_of(tx, execution_id)


def is_idle(rt: Runtime, row: ExecutionRow) -> bool:
    """Whether nothing happens to it by itself: it has ended, or has had every turn and waits for input, its own or
    that of executions that it called.

    What owes a turn is not waiting any more, whatever its last turn wrote; nor is one that called such an execution.
    """
    if row.status in ENDED:
        return True
    if row.decided_version < row.head_version:
        return False
    return row.status == "paused" or (row.status == "waiting" and _all_wait(rt, row))


def _all_wait(rt: Runtime, row: ExecutionRow) -> bool:
    """Whether those that it called wait still: it hears of it when they go on, a little later."""
    with rt.store.read() as tx:
        if not tx.executions(parent=row.execution_id, limit=1):
            return True
    called = [child.id for child in state_at(rt, row.execution_id).children.values() if child.id is not None]
    return all(_is_stuck(rt, execution(rt, child)) for child in called)


def has_to_tell(rt: Runtime, execution_id: str) -> bool:
    """Whether others are still to hear from it: its caller how it is or ended, children and machines elsewhere that nobody
    waits for them."""
    with rt.store.read() as tx:
        return any(
            one.purpose in ("answer", "waits", "cancel", "abandon") for one in tx.open_commands(execution_id)
        )


def _is_stuck(rt: Runtime, row: ExecutionRow) -> bool:
    """Of a child that has ended its caller is about to hear."""
    return row.status not in ENDED and is_idle(rt, row)


def executions(
    rt: Runtime,
    *,
    status: str | None = None,
    path: str | None = None,
    parent: str | None = None,
    before: str | None = None,
    limit: int = 50,
) -> list[ExecutionRow]:
    """Newest first; `parent` is the execution that called them, `before` the id to page on from."""
    for given in (parent, before):
        if given is not None and not is_id(given):
            raise BadRequest(f"{given!r} is not an execution id.")
    with rt.store.read() as tx:
        return tx.executions(status=status, path=path, parent=parent, before=before, limit=limit)


def events(
    rt: Runtime, execution_id: str, after: int = 0, limit: int | None = None, types: Iterable[str] = ()
) -> list[Event]:
    """Events behind version `after`. Other generations' names for event types are understood.

    Raises NotFound, and BadRequest for a type that no event has.
    """
    wanted = tuple(_event_type(name) for name in types)
    with rt.store.read() as tx:
        row_of(tx, execution_id)
        return tx.events(execution_id, after=after, limit=limit, types=wanted)


def _event_type(name: str) -> str:
    known = ALIASES.get(name, name)
    if known not in _TYPES:
        raise BadRequest(f"{name[:80]!r} is not a type of event.{did_you_mean(name[:80], _TYPES)}")
    return known


def state_at(rt: Runtime, execution_id: str, version: int | None = None) -> State:
    """The state as of `version`, or now. Raises NotFound, and BadRequest beyond the head."""
    with rt.store.read() as tx:
        row = row_of(tx, execution_id)
        if version is not None and not 0 <= version <= row.head_version:
            raise BadRequest(f"Execution {execution_id} has versions 0 to {row.head_version}, not {version}.")
        start = stored_state(tx, execution_id)
        if version is not None and start.version > version:
            start = initial_state(execution_id)
        tail = tx.events(execution_id, after=start.version)
    last = row.head_version if version is None else version
    return replay(start, (event for event in tail if event.version <= last))


def net_of(rt: Runtime, execution_id: str) -> Net:
    """The net that the execution runs, whatever the catalog says today."""
    with rt.store.read() as tx:
        return rt.plan(tx, row_of(tx, execution_id).digest).net


def children(rt: Runtime, execution_id: str) -> list[JsonMap]:
    """The newest of those that it called, newest first, at most `SHOWN_CHILDREN`: `{execution_id, path, version,
    status, step, iteration}`, with the step and the iteration that called."""
    with rt.store.read() as tx:
        rows = tx.executions(parent=execution_id, limit=SHOWN_CHILDREN)
        return [_child(tx, row) for row in rows]


def _child(tx: Transaction, row: ExecutionRow) -> JsonMap:
    requested = [event.fact for event in tx.events(row.execution_id, limit=1)]
    caller = next((fact.parent for fact in requested if isinstance(fact, Requested)), None)
    return {
        "execution_id": row.execution_id,
        "path": row.path,
        "version": row.playbook_version,
        "status": row.status,
        "step": caller.step if caller else None,
        "iteration": caller.iteration if caller else None,
    }


@dataclass(frozen=True, slots=True)
class Report:
    """What is said of an execution as a whole. `steps` maps a name to {status, runs, result}, `children` are
    as in `children`."""

    row: ExecutionRow
    result: Json
    ctx: JsonMap
    steps: JsonMap
    error: JsonMap | None
    events: int
    children: list[JsonMap]

    @property
    def duration_ms(self) -> float:
        end = self.row.ended_at or self.row.updated_at
        return round((end - self.row.created_at).total_seconds() * 1000, 3)

    def as_json(self) -> dict[str, Json]:
        """The shape of `noetl run --json`."""
        return {
            "execution_id": self.row.execution_id,
            "parent_id": self.row.parent_id,
            "path": self.row.path,
            "version": self.row.playbook_version,
            "status": self.row.status,
            "result": self.result,
            "ctx": self.ctx,
            "steps": self.steps,
            "error": self.error,
            "events": self.events,
            "duration_ms": self.duration_ms,
            "children": self.children,
        }


def report(rt: Runtime, execution_id: str, *, resolve: bool = True) -> Report:
    """The whole story in short. With `resolve`, references are replaced by what they stand for, up to
    `SHOWN_BYTES`: beyond that, and where a result is gone, the reference and its preview speak for it."""
    shown = _Shown(rt) if resolve else _as_it_is
    row = execution(rt, execution_id)
    state = state_at(rt, execution_id, row.head_version)
    result = shown(result_of(state))
    steps = _steps(state, shown)
    ctx = {key: shown(value) for key, value in state.ctx.items()}
    return Report(row, result, ctx, steps, row.error, row.head_version, children(rt, execution_id))


def _steps(state: State, shown: Callable[[Json], Json]) -> dict[str, Json]:
    return {
        name: {
            "status": record.status,
            "runs": record.runs,
            "result": shown(record.result),
            **({"error": record.error.as_json()} if record.error else {}),
        }
        for name, record in state.steps.items()
    }


def state_view(rt: Runtime, execution_id: str, version: int | None = None) -> dict[str, Json]:
    """`{execution_id, version, status, ctx, steps, marking: {tokens, running}}` as of `version`, or now.

    Raises as `state_at` does.
    """
    state = state_at(rt, execution_id, version)
    status = execution(rt, execution_id).status if version is None else _status_at(rt, state)
    tokens = [
        {"id": name, "place": waiting.token.arc, "step": waiting.token.step}
        for name, waiting in state.tokens.items()
        if not waiting.token.absorbed
    ]
    running = [
        {"run_id": run.id, "step": run.step, "status": run.status}
        for run in state.runs.values()
        if not run.ended
    ]
    return {
        "execution_id": execution_id,
        "version": state.version,
        "status": status,
        "ctx": dict(state.ctx),
        "steps": _steps(state, _as_it_is),
        "marking": {"tokens": tokens, "running": running},
    }


def _status_at(rt: Runtime, state: State) -> str:
    """In the middle of a turn nothing runs and yet nothing is waited for: the scheduler went on by itself."""
    status = status_of(state)
    if status != "waiting":
        return status
    with rt.store.read() as tx:
        following = tx.events(state.execution_id, after=state.version, limit=1)
    return "running" if any(_is_decided(event.draft) for event in following) else status


def _is_decided(draft: Draft) -> bool:
    """What it was told by those that it called comes from outside as well."""
    return draft.source == "server" and not isinstance(draft.fact, ChildWaiting | ChildEnded)


def variable(rt: Runtime, execution_id: str, name: str) -> Json:
    """What the dotted `name` holds in ctx, resolved as in `result`. Raises NotFound with the nearest name."""
    value: Json = state_at(rt, execution_id).ctx
    for number, part in enumerate(name.split(".")):
        value = _opened(rt, value)
        if not isinstance(value, Mapping) or part not in value:
            known = value if isinstance(value, Mapping) else ()
            where = ".".join(name.split(".")[:number])
            raise NotFound(
                f"ctx{'.' + where if where else ''} of execution {execution_id} has no {part!r}."
                f"{did_you_mean(part, known)}"
            )
        value = value[part]
    return _seen(rt, value)


def result(rt: Runtime, execution_id: str) -> Json:
    """The execution's result; null while it runs. A result that is a reference is what it stands for, and
    those inside of it are opened as in `report`."""
    row = execution(rt, execution_id)
    if row.status not in ENDED:
        return None
    return _seen(rt, result_of(state_at(rt, execution_id, row.head_version)))


def _opened(rt: Runtime, value: Json) -> Json:
    return loaded(value, rt.load)


def _seen(rt: Runtime, value: Json) -> Json:
    whole = _opened(rt, value)
    return _Shown(rt)(value if isinstance(whole, Lazy) else whole)


def _as_it_is(value: Json) -> Json:
    return value


class _Shown:
    """Replaces references, at any depth, for one report. Each result counts once."""

    def __init__(self, rt: Runtime) -> None:
        self._rt = rt
        self._left = SHOWN_BYTES
        self._known: dict[str, Json] = {}

    def __call__(self, value: Json) -> Json:
        return self._replaced(value) if holds_reference(value) else value

    def _replaced(self, value: Json) -> Json:
        if isinstance(value, Mapping):
            if is_reference(value):
                return self._loaded(value)
            return {key: self._replaced(item) for key, item in value.items()}
        return [self._replaced(item) for item in value] if isinstance(value, list) else value

    def _loaded(self, reference: JsonMap) -> Json:
        name = reference.get("ref")
        if name is None:
            return self._fetched(reference)
        if name not in self._known:
            self._known[name] = reference
            self._known[name] = self._fetched(reference)
        return self._known[name]

    def _fetched(self, reference: JsonMap) -> Json:
        if _size_of(reference) > self._left:
            return reference
        try:
            whole = loaded(reference, self._rt.load)
            if isinstance(whole, Lazy):
                return self._listed(reference, whole)
            self._left -= _size_of(reference)
            return self(whole)
        except (NotFound, Unavailable, BadRequest):
            # Gone, out of reach, or data of a tool that only looks like a reference.
            return reference

    def _listed(self, reference: JsonMap, rows: Lazy) -> Json:
        """The list where all of it fits, as far as its first pages tell: it is read until they tell that it will not."""
        before, size, found = self._left, 0, list[Json]()
        for page in rows.pages():
            # References among the items speak for themselves, or count as what they stand for.
            size += len(json.dumps([item for item in page if not is_reference(item)]))
            found += [self(item) for item in page]
            if size * len(rows) > self._left * len(found):
                self._left = before
                return reference
        self._left -= size
        return found


def _size_of(reference: JsonMap) -> int:
    """Bytes of what it stands for, as far as it says. A manifest tells of its parts while they are read."""
    meta = reference.get("meta")
    size = meta.get("bytes") if isinstance(meta, Mapping) else None
    if isinstance(size, int):
        return size
    return 0 if reference.get("kind") == MANIFEST else SHOWN_BYTES + 1


def row_of(tx: Transaction, execution_id: str) -> ExecutionRow:
    """The row of an execution. Raises NotFound."""
    row = tx.execution(execution_id) if is_id(execution_id) else None
    if row is None:
        raise NotFound(f"There is no execution {execution_id!r}.")
    return row


def is_id(text: str) -> bool:
    """Whether `text` can be an execution's id: a decimal number that fits a BIGINT."""
    return text.isascii() and text.isdigit() and len(text) <= 19 and int(text) < 1 << 63
