"""Recorded histories: JSON files of event envelopes that every later version must be able to
replay.

    {"playbook": text, "events": [envelope, …], "told": what was said at the end, "digests": [one
    for each version]}

Run as a program it reads files and prints, for each, the digests of what is told at every version.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path

from noetl.engine.evolve import replay
from noetl.engine.state import State, initial_state
from noetl.facts.events import SCHEMA, Draft, Event
from noetl.facts.json import JsonMap
from noetl.history.attempts import describe_attempt
from noetl.store import codec
from noetl.usecases import snapshots

FOLDER = Path(__file__).parent
#: The fields of an envelope that a draft has besides its fact.
PLACE = ("source", "step", "run_id", "iteration", "attempt", "duration_ms", "dedup_key")


def envelope(event: Event) -> JsonMap:
    """An event as it is kept in the file."""
    draft = event.draft
    return {
        "version": event.version,
        "recorded_at": event.recorded_at.isoformat(),
        "type": draft.fact.type,
        "schema": SCHEMA,
        "payload": json.loads(codec.payload(draft.fact)),
        **{name: getattr(draft, name) for name in PLACE},
        "origin": draft.origin,
    }


def event(execution_id: str, kept: JsonMap) -> Event:
    """What `envelope` kept, read by the codec of today."""
    fact = codec.fact(kept["type"], kept["schema"], codec.dumps(kept["payload"]))
    # The histories that were recorded before there were copies do not say whose they are.
    draft = Draft(fact, **{name: kept[name] for name in PLACE}, origin=kept.get("origin"))
    return Event(execution_id, kept["version"], datetime.fromisoformat(kept["recorded_at"]), draft)


def told(state: State) -> JsonMap:
    """What anybody can learn of a state from outside: this may not change, its inner shape may."""
    return {
        "version": state.version,
        "status": state.status,
        "ctx": state.ctx,
        "workload": state.workload,
        "steps": {
            name: {
                "runs": record.runs,
                "status": record.status,
                "result": record.result,
                "error": record.error.as_json() if record.error else None,
            }
            for name, record in state.steps.items()
        },
        "tokens": {key: [one.token.step, one.token.arc, one.token.args] for key, one in state.tokens.items()},
        "runs": {key: [run.status, run.args, run.results, run.resume_at] for key, run in state.runs.items()},
        "loops": {
            key: [run.loop.count, run.loop.completed_count, run.loop.failed_count, list(run.loop.results)]
            for key, run in state.runs.items()
            if run.loop is not None
        },
        **_children(state),
        **({"next_attempt": describe_attempt(state.next_attempt)} if state.next_attempt else {}),
        "halted": [state.stopping, state.pause_requested, state.paused, state.cancel_deadline],
        "result_step": state.result_step,
        "error": state.error.as_json() if state.error else None,
    }


def _children(state: State) -> JsonMap:
    """Who waits for whom; nothing in executions that call nobody, which were recorded before there
    were calls."""
    told: JsonMap = {}
    if state.children:
        told["children"] = sorted(
            [c.run_id, c.iteration, c.task, c.call.path, c.id] for c in state.children.values()
        )
    if state.parent is not None:
        told["parent"] = [
            state.parent.execution_id,
            state.parent.run_id,
            state.parent.iteration,
            state.parent.depth,
        ]
    return told


def digest(value: JsonMap) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def states(execution_id: str, events: Iterable[Event]) -> Iterator[State]:
    """The state at every version."""
    state = initial_state(execution_id)
    for one in events:
        state = replay(state, [one])
        yield state


def load(path: Path) -> JsonMap:
    kept: JsonMap = json.loads(path.read_text())
    return kept


def files() -> list[Path]:
    return sorted(FOLDER.glob("*.json"))


def main(paths: list[str]) -> None:
    """Prints {name: [[digest of what is told, digest of the whole state], …]}."""
    found = {}
    for path in map(Path, paths):
        kept = load(path)
        events = [event(kept["execution_id"], one) for one in kept["events"]]
        found[path.stem] = [
            [digest(told(state)), digest(snapshots.to_json(state))]
            for state in states(kept["execution_id"], events)
        ]
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
