"""Rows that need no fold: steps and arcs of compiled nets, and references inside of events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from noetl.facts.events import Event
from noetl.facts.json import Json, JsonMap
from noetl.facts.reference import RESULT_REF, is_reference
from noetl.net.model import Net
from noetl.projection.rows import ProjectionRow


def make_net_rows(digest: str, net: Net) -> Iterator[ProjectionRow]:
    """The steps and arcs of a net, in document order."""
    for position, step in enumerate(net.transitions):
        yield ProjectionRow(
            "playbook_step",
            {
                "digest": digest,
                "step": step.name,
                "position": position,
                "description": step.description,
                "tasks": [{"name": task.name, "kind": task.kind} for task in step.tasks],
                "queue": step.queue,
                "loop_mode": step.loop.mode if step.loop else None,
                "join_mode": step.join.mode,
                "line": step.line or None,
            },
        )
    for position, arc in enumerate(net.arcs.values()):
        yield ProjectionRow(
            "playbook_arc",
            {
                "digest": digest,
                "arc_id": arc.id,
                "position": position,
                "source": arc.source,
                "target": arc.step,
                "guard": arc.when,
                "line": arc.line or None,
            },
        )


def find_reference_rows(event: Event, payload: JsonMap) -> Iterator[ProjectionRow]:
    """A row for each reference in `payload`, that of the event as JSON, however deep; those of a
    manifest's parts too. In the order of their places."""
    for place, found in _find_references(payload):
        if found["kind"] == RESULT_REF:
            meta = found.get("meta")
            meta = meta if isinstance(meta, Mapping) else {}
            texts = {name: found.get(name) for name in ("store", "scope", "expires_at")}
            texts |= {name: meta.get(name) for name in ("content_type", "sha256")}
            values = {
                "ref": found["ref"],
                # A tool may have returned what only looks like a reference.
                **{name: text if isinstance(text, str) else None for name, text in texts.items()},
                "bytes": _count(meta.get("bytes")),
            }
            yield ProjectionRow("result_ref", {**_place(event, place), **values})
        else:
            values = {"count": _count(found.get("count")), "parts": len(found["parts"])}
            yield ProjectionRow("manifest_ref", {**_place(event, place), **values})


def _find_references(payload: JsonMap) -> Iterator[tuple[str, Mapping[str, Any]]]:
    # Without recursion: values nest as deeply as JSON of a tool does.
    pending: list[tuple[str, Json]] = [("", payload)]
    while pending:
        place, value = pending.pop()
        if isinstance(value, Mapping):
            if is_reference(value):
                yield place, value
                value = {"parts": value.get("parts")}
            pending.extend((_below(place, key), value[key]) for key in reversed(value))
        elif isinstance(value, list):
            pending.extend((_below(place, index), value[index]) for index in reversed(range(len(value))))


def _below(place: str, part: str | int) -> str:
    return f"{place}.{part}" if place else str(part)


def _place(event: Event, place: str) -> dict[str, Json]:
    return {
        "execution_id": event.execution_id,
        "version": event.version,
        "place": place,
        "type": event.fact.type,
        "step": event.draft.step,
        "run_id": event.draft.run_id,
        "iteration": event.draft.iteration,
        "recorded_at": event.recorded_at.isoformat(),
    }


def _count(value: Json) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
