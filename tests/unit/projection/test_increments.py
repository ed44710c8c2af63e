"""Exports that follow one another tell the same as one export of everything."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from noetl.dsl import compile_playbook
from noetl.facts.events import Draft
from noetl.net import codec as nets
from noetl.projection.rows import ProjectionRow
from noetl.projection.tables import TABLES
from noetl.store import codec, open_store
from noetl.testing import KINDS, Simulation
from noetl.usecases.export import ExportedBefore, ExportedHead, rows
from noetl.usecases.ports import ExecutionRow
from noetl.usecases.runtime import Runtime

HISTORIES = sorted((Path(__file__).parents[2] / "histories").glob("*.json"))

Newest = dict[tuple[str, str], Any]


def newest(found: Sequence[ProjectionRow]) -> Newest:
    """By table and key the row with the greatest `as_of`: what readers of an export see."""
    kept: Newest = {}
    for row in found:
        key = (row.table, json.dumps([row.values[name] for name in TABLES[row.table].key]))
        if key not in kept or not TABLES[row.table].revised or row.values["as_of"] > kept[key]["as_of"]:
            assert key not in kept or TABLES[row.table].revised, f"{key} comes twice"
            kept[key] = row.values
    return kept


class Log:
    """A recorded history that is written again, event by event."""

    def __init__(self, path: Path) -> None:
        kept = json.loads(path.read_text(encoding="utf-8"))
        self.events = kept["events"]
        self.execution_id = str(kept["execution_id"])
        self.rt: Runtime = Simulation(
            "{apiVersion: noetl.io/v2, kind: Playbook, metadata: {path: x}, workflow: [{step: start}]}",
            store=open_store("memory://"),
        ).rt
        compiled = compile_playbook(kept["playbook"], file="x.yaml", kinds=KINDS)
        assert compiled.net is not None
        digest = nets.digest(compiled.net)
        now = datetime.fromisoformat(self.events[0]["recorded_at"])
        with self.rt.store.begin() as tx:
            tx.nets.put(digest, nets.to_json(compiled.net))
            tx.executions.create(ExecutionRow(self.execution_id, "x", 1, digest, "pending", 0, 0, now, now))
        self.written = 0

    def write(self, count: int) -> None:
        for one in self.events[self.written : self.written + count]:
            fact = codec.fact(one["type"], one["schema"], codec.dumps(one["payload"]))
            place = ("source", "step", "run_id", "iteration", "attempt", "duration_ms", "dedup_key")
            draft = Draft(fact, **{name: one[name] for name in place})
            with self.rt.store.begin() as tx:
                tx.executions.lock(self.execution_id)
                tx.events.append(
                    self.execution_id, self.written, [draft], datetime.fromisoformat(one["recorded_at"])
                )
            self.written += 1

    def export(self, since: int) -> list[ProjectionRow]:
        tables = [name for name in TABLES if not name.startswith("playbook")]
        items = list(rows(self.rt, tables, ExportedBefore(lambda one: ExportedHead(one, since))))
        assert items[-1] == ExportedHead(self.execution_id, self.written)
        return [item for item in items if isinstance(item, ProjectionRow)]


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
@pytest.mark.parametrize("stride", [pytest.param(1, marks=pytest.mark.full("the same, event by event")), 7])
def test_increments_of_any_size_add_up_to_the_whole(path: Path, stride: int) -> None:
    log = Log(path)
    if stride == 1:
        # Each export reads all: of the long ones the beginning is exported event by event.
        log.events = log.events[:40]
    found: list[ProjectionRow] = []
    while log.written < len(log.events):
        since = log.written
        log.write(stride)
        increment = log.export(since)
        assert all(row.values.get("as_of", row.values.get("version")) > since for row in increment)
        found += increment
        if log.written % 50 < stride or log.written == len(log.events):
            assert newest(found) == newest(log.export(0))


def test_an_execution_that_did_not_move_yields_nothing() -> None:
    log = Log(HISTORIES[0])
    log.write(5)
    assert log.export(5) == []
