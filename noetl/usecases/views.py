"""Events, and what user code printed, as JSON: what the API, the command line and exports show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass

from noetl.facts.event_names import STATUS_OF
from noetl.facts.events import SCHEMA, Event
from noetl.facts.json import Json
from noetl.facts.logs import LogChunk


def envelope(event: Event) -> dict[str, Json]:
    """`{event_id, execution_id, version, type, step, step_run_id, iteration, attempt, source,
    status, payload, recorded_at, duration_ms, dedup_key, schema, origin, principal, request_id}`;
    `recorded_at` is ISO 8601 in UTC, `origin` the id of the event that this is a copy of, and
    `principal` who asked for it, in the request of that id."""
    draft, fact, caller = event.draft, event.fact, event.draft.caller
    return {
        "event_id": event.event_id,
        "execution_id": event.execution_id,
        "version": event.version,
        "type": fact.type,
        "step": draft.step,
        "step_run_id": draft.run_id,
        "iteration": draft.iteration,
        "attempt": draft.attempt,
        "source": draft.source,
        "status": STATUS_OF.get(type(fact), "completed"),
        "payload": _plain(fact),
        "recorded_at": event.recorded_at.isoformat(),
        "duration_ms": draft.duration_ms,
        "dedup_key": draft.dedup_key,
        "schema": SCHEMA,
        "origin": draft.origin,
        "principal": None if caller is None else caller.principal,
        "request_id": None if caller is None else caller.request_id,
    }


def _plain(value: object) -> Json:
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: _plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def chunk_view(chunk: LogChunk) -> dict[str, Json]:
    """`{seq, step, run_id, iteration, task, attempt, delivery, stream, start, text, recorded_at}`;
    `start` is the chunk's offset, `recorded_at` ISO 8601 in UTC."""
    place = chunk.place
    return {
        "seq": chunk.seq,
        "step": place.step,
        "run_id": place.run_id,
        "iteration": place.iteration,
        "task": place.task,
        "attempt": place.attempt,
        "delivery": place.delivery,
        "stream": chunk.stream,
        "start": chunk.offset,
        "text": chunk.text,
        "recorded_at": chunk.recorded_at.isoformat(),
    }
