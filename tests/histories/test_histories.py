"""What any version of NoETL has written, this one reads, and understands in the same way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import history
import pytest

from noetl.engine.evolve import replay
from noetl.engine.state import State, initial_state
from noetl.facts.events import Event, Fact
from noetl.facts.json import Json, JsonMap
from noetl.history.compare import compare
from noetl.store import codec
from noetl.usecases import snapshots

FILES = history.files()
#: Facts of features that these histories do not use.
UNUSED = {"task.started", "join.unsatisfied"}


@pytest.fixture(params=FILES, ids=lambda path: path.stem)
def kept(request: pytest.FixtureRequest) -> JsonMap:
    path: Path = request.param
    return history.load(path)


@pytest.fixture
def events(kept: JsonMap) -> list[Event]:
    return [history.event(kept["execution_id"], one) for one in kept["events"]]


def states(kept: JsonMap, events: list[Event]) -> Iterator[State]:
    return history.states(kept["execution_id"], events)


def test_a_history_is_decoded_and_encoded_without_loss(kept: JsonMap, events: list[Event]) -> None:
    for one, event in zip(kept["events"], events, strict=True):
        assert event.fact.type == one["type"]
        written = json.loads(codec.payload(event.fact))
        assert recorded(written, one["payload"]) == one["payload"]


def recorded(written: Json, kept: Json) -> Json:
    """`written` without what later versions know besides of a fact, or of an error in it; what was
    recorded stays."""
    if isinstance(written, dict) and isinstance(kept, dict):
        return {key: recorded(written[key], value) for key, value in kept.items() if key in written}
    if isinstance(written, list) and isinstance(kept, list) and len(written) == len(kept):
        return [recorded(*pair) for pair in zip(written, kept, strict=True)]
    return written


def test_a_history_replays_to_what_was_told_at_its_end(kept: JsonMap, events: list[Event]) -> None:
    state = replay(initial_state(kept["execution_id"]), events)
    assert json.loads(json.dumps(history.told(state))) == kept["told"]


def test_a_history_tells_the_same_at_every_version(kept: JsonMap, events: list[Event]) -> None:
    assert [history.digest(history.told(state)) for state in states(kept, events)] == kept["digests"]


def test_every_cut_of_a_history_goes_on_from_its_snapshot(kept: JsonMap, events: list[Event]) -> None:
    last = replay(initial_state(kept["execution_id"]), events)
    for cut, state in enumerate(states(kept, events), start=1):
        again = snapshots.from_json(json.loads(json.dumps(snapshots.to_json(state))))
        assert again == state
        assert replay(again, events[cut:]) == last


def test_a_history_is_compared(events: list[Event]) -> None:
    assert compare(events, events).same
    assert compare(events[: len(events) // 2], events).a.version == len(events) // 2


def test_a_fresh_process_understands_every_history_in_the_same_way() -> None:
    """With another order of hashes."""
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    program = [sys.executable, str(history.FOLDER / "history.py"), *map(str, FILES)]
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    done = subprocess.run(program, env=environment, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    for path in FILES:
        kept = history.load(path)
        events = [history.event(kept["execution_id"], one) for one in kept["events"]]
        expected = [
            [history.digest(history.told(state)), history.digest(snapshots.to_json(state))]
            for state in states(kept, events)
        ]
        assert found[path.stem] == expected


def test_the_histories_hold_every_kind_of_fact() -> None:
    kinds = {one["type"] for path in FILES for one in history.load(path)["events"]}
    assert {fact.type for fact in get_args(Fact)} - kinds == UNUSED
