"""Drafts to rows of the `event` table and back: the envelope around a fact's payload.

`event_id` is `<execution_id>.<version>` and is not stored twice. The entity is what the event is
about: its type follows from the event's type, its id and parent from where the event happened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypeAlias

from noetl.errors import BadRequest
from noetl.facts.event_names import STATUS_OF
from noetl.facts.events import SCHEMA, Caller, Draft, Event
from noetl.store import codec

#: From execution id and draft to (entity_id, parent_id).
Entity: TypeAlias = Callable[[str, Draft], tuple[str, str | None]]


def _of_execution(execution_id: str, _draft: Draft) -> tuple[str, str | None]:
    return execution_id, None


def _below_execution(execution_id: str, _draft: Draft) -> tuple[str, str | None]:
    return execution_id, execution_id


def _of_run(execution_id: str, draft: Draft) -> tuple[str, str | None]:
    return draft.run_id or draft.step or execution_id, execution_id


def _of_loop(execution_id: str, draft: Draft) -> tuple[str, str | None]:
    return draft.run_id or execution_id, draft.run_id


def _of_iteration(_execution_id: str, draft: Draft) -> tuple[str, str | None]:
    return f"{draft.run_id}/{draft.iteration}", draft.run_id


def _of_task(_execution_id: str, draft: Draft) -> tuple[str, str | None]:
    parent = draft.run_id if draft.iteration is None else f"{draft.run_id}/{draft.iteration}"
    return f"{parent}/{draft.fact.task}", parent  # type: ignore[union-attr]


def _of_command(_execution_id: str, draft: Draft) -> tuple[str, str | None]:
    return draft.fact.command_id, draft.run_id  # type: ignore[union-attr]


def _of_admission(execution_id: str, draft: Draft) -> tuple[str, str | None]:
    return draft.fact.token, execution_id  # type: ignore[union-attr]


def _of_child(_execution_id: str, draft: Draft) -> tuple[str, str | None]:
    return draft.fact.child_id or f"{draft.run_id}/{draft.fact.task}", draft.run_id  # type: ignore[union-attr]


def _of_signal(execution_id: str, draft: Draft) -> tuple[str, str | None]:
    return draft.fact.signal, execution_id  # type: ignore[union-attr]


def _of_approval(execution_id: str, draft: Draft) -> tuple[str, str | None]:
    """Answers to another execution, which this one runs again, belong to no run."""
    if draft.run_id is None:
        return f"{draft.step}/{draft.fact.task}", execution_id  # type: ignore[union-attr]
    return _of_task(execution_id, draft)


def _of_region(execution_id: str, draft: Draft) -> tuple[str, str | None]:
    return draft.fact.region, execution_id  # type: ignore[union-attr]


def _of_timer(_execution_id: str, draft: Draft) -> tuple[str, str | None]:
    return draft.fact.timer, draft.run_id  # type: ignore[union-attr]


def _of_slot(execution_id: str, draft: Draft) -> tuple[str, str | None]:
    run = draft.run_id
    return f"{run or execution_id}/{draft.fact.part}", run or execution_id  # type: ignore[union-attr]


#: By prefix of the type, longest first: the entity's type, and its id and parent.
_ENTITIES: Final[Sequence[tuple[str, str, Entity]]] = (
    ("loop.iteration.", "iteration", _of_iteration),
    ("policy.admit.", "policy", _of_admission),
    ("milestone.", "policy", _of_admission),
    ("policy.task.", "policy", _of_task),
    ("playbook.", "playbook", _of_execution),
    ("execution.", "playbook", _of_execution),
    ("workflow.", "workflow", _below_execution),
    ("step.", "step", _of_run),
    ("next.", "step", _of_run),
    ("join.", "join", _of_run),
    ("task.", "task", _of_task),
    ("loop.", "loop", _of_loop),
    ("region.", "region", _of_region),
    ("command.", "command", _of_command),
    ("child.", "child", _of_child),
    ("timer.", "timer", _of_timer),
    ("signal.", "signal", _of_signal),
    ("wait.", "task", _of_task),
    ("approval.", "task", _of_approval),
    ("callback.", "task", _of_task),
    ("slot.", "slot", _of_slot),
    ("result.", "result", _of_command),
    ("ctx.", "ctx", _below_execution),
)


_ENTITY_OF: Final[Mapping[str, tuple[str, Entity]]] = {
    kind: next((name, entity) for prefix, name, entity in _ENTITIES if kind.startswith(prefix))
    for kind in codec.FACTS
}


def row(execution_id: str, number: int, version: int, draft: Draft, now: datetime) -> dict[str, Any]:
    """The `event` row of a draft. `number` is the execution's id as the database keeps it."""
    kind, caller = draft.fact.type, draft.caller
    entity_type, entity = _ENTITY_OF[kind]
    entity_id, parent_id = entity(execution_id, draft)
    return {
        "execution_id": number,
        "version": version,
        "type": kind,
        "entity_type": entity_type,
        "entity_id": entity_id,
        "parent_id": parent_id,
        "step": draft.step,
        "step_run_id": draft.run_id,
        "iteration": draft.iteration,
        "attempt": draft.attempt,
        "source": draft.source,
        "status": STATUS_OF.get(type(draft.fact), "completed"),
        "payload": codec.payload(draft.fact),
        "recorded_at": now,
        "duration_ms": draft.duration_ms,
        "dedup_key": draft.dedup_key,
        "schema": SCHEMA,
        "origin": draft.origin,
        "principal": None if caller is None else caller.principal,
        "request_id": None if caller is None else caller.request_id,
    }


#: The columns that `event` wants, in its order.
COLUMNS: Final = (
    "version",
    "recorded_at",
    "type",
    "schema",
    "payload",
    "source",
    "step",
    "step_run_id",
    "iteration",
    "attempt",
    "duration_ms",
    "dedup_key",
    "origin",
    "principal",
    "request_id",
)


def event(execution_id: str, columns: Sequence[Any]) -> Event:
    """The event of a row that holds `COLUMNS`."""
    version, recorded_at, kind, schema, text, *place, principal, request_id = columns
    place.append(None if principal is None else Caller(principal, request_id or ""))
    return Event(execution_id, version, recorded_at, Draft(codec.fact(kind, schema, text), *place))


def from_json(body: Mapping[str, Any]) -> Event:
    """The event that an envelope in JSON (`noetl.usecases.views.envelope`) stands for. Raises
    BadRequest for an `origin`, a `principal` or a `request_id` that is no text."""
    columns = {**body, "payload": codec.dumps(body["payload"])}
    columns["recorded_at"] = datetime.fromisoformat(str(body["recorded_at"]))
    for name in ("origin", "principal", "request_id"):
        if not isinstance(columns.get(name), str | None):
            raise BadRequest(f"`{name}` has to be a text, or null")
    return event(str(body["execution_id"]), [columns.get(name) for name in COLUMNS])
