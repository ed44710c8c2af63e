"""What every store promises of conditions on executions, and of operations on many."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count

import pytest

from noetl.errors import NotFound
from noetl.facts.outcome import ErrorInfo, Outcome, failed
from noetl.pipeline.model import Call
from noetl.testing import Simulation
from noetl.usecases.facets import write_facets
from noetl.usecases.fields import holds
from noetl.usecases.fleet import operations
from noetl.usecases.fleet.planning import FleetRequest
from noetl.usecases.fleet.progress import carry_on
from noetl.usecases.ports import OperationItem, OperationRow, Store
from noetl.usecases.retry import RetryRequest
from noetl.usecases.where import parse_where

from .given import LATER, NOW, SECOND, create, execution

ERROR = {"kind": "sql", "type": "OperationalError", "step": "load", "message": "it timed out"}

ROWS = [
    execution("100", status="failed", ended_at=NOW + SECOND, error=ERROR),
    execution("200", status="failed", ended_at=LATER, error={**ERROR, "kind": "http"}, path="b"),
    execution("300", status="completed", ended_at=LATER, playbook_version=2),
    execution("400", parent_id="300"),
    execution("500", source_id="100", descent="retry", operation_id="77"),
    execution("600", source_id="200", descent="retry", status="cancelled"),
    execution("700", source_id="300", descent="fork", key="order-7"),
    execution("710", labels=write_facets({"team": "data", "a/b": "%_"}), inputs=write_facets({"n": "3"})),
    execution("720", labels=write_facets({"team": "Data"}), inputs=write_facets({"n": "30", "x": "é\0"})),
    execution("730", labels=write_facets({"steam": "data", "te": '"team":"data"'})),
    execution("740", inputs=write_facets({"Team": "data", "n": 'a"b\\', "steam": ""})),
]

WHERE = [
    "status = 'failed'",
    "status != 'failed'",
    "status in ('failed', 'completed') and version = 2",
    "not (status = 'failed' or version = 2)",
    "not (status = 'failed' and path = 'b')",
    "path ~ '^b$'",
    "path !~ '^b$'",
    "path !~ '^b$' and status = 'failed'",
    "error ~ 'timed'",
    "error !~ 'timed'",
    "not error ~ 'timed' or kind = 'http'",
    "kind = 'sql'",
    "kind != 'sql' and status = 'failed'",
    "error is null",
    "error is not null and not kind is null",
    "parent is null",
    "parent is not null",
    "parent = 300 or source = 300",
    "parent != 300",
    "source > 100",
    "not source > 100",
    "descent = 'retry'",
    "descent != 'retry'",
    "descent not in ('retry', 'fork')",
    "operation = 77",
    "key = 'order-7'",
    "key ~ '^order'",
    "key != 'order-7' and status != 'failed'",
    "id >= 300 and id < 600",
    "ended > '2026-03-01T12:00:01Z'",
    "ended >= '2026-03-01T12:00:01Z'",
    "not ended > '2026-03-01T12:00:01Z'",
    "ended is null and created = '2026-03-01T12:00:00Z'",
    "path = 'ü''; drop table execution; --'",
    "label.team = 'data'",
    "label.team != 'data'",
    "label.team in ('Data', 'other')",
    "label.team is null",
    "label.team is not null and not label.team = 'DATA'",
    "label.team ~ '^da'",
    "label.team !~ '^da'",
    "label.team !~ '^da' and label.team is not null",
    "label.\"a/b\" = '%_'",
    'label.te = \'"team":"data"\'',
    "not (label.steam = 'data' or label.team = 'Data')",
    "input.n = 3",
    "input.n = 'a\"b\\'",
    "input.n ~ '3' or input.Team = 'data'",
    "input.team is null and input.n is not null",
    "input.steam = '' or input.x = 'é'",
    "input.x ~ 'é'",
]


def test_a_condition_finds_those_of_which_it_is_true(store: Store, subtests: pytest.Subtests) -> None:
    create(store, *ROWS)
    for where in WHERE:
        with subtests.test(where):
            _find_those_of_which_it_is_true(store, where)


def _find_those_of_which_it_is_true(store: Store, where: str) -> None:
    condition = parse_where(where, LATER)
    expected = [row.execution_id for row in reversed(ROWS) if holds(condition, row)]
    with store.read() as tx:
        assert [row.execution_id for row in tx.executions.find(where=condition)] == expected
        assert [row.execution_id for row in tx.executions.find(where=condition, limit=1)] == expected[:1]
        behind = tx.executions.find(where=condition, before="400", path="a/b")
        assert [row.execution_id for row in behind] == [
            one for one in expected if int(one) < 400 and one != "200"
        ]


def test_what_a_database_cannot_say_is_found_behind_many_others(store: Store) -> None:
    others = [execution(str(1000 + number), error=ERROR) for number in range(1100)]
    create(store, execution("1", error={**ERROR, "message": "other"}), *others)
    with store.read() as tx:
        found = tx.executions.find(where=parse_where("error ~ 'other'", NOW), limit=1)
        assert [row.execution_id for row in found] == ["1"]
        many = tx.executions.find(where=parse_where("error !~ 'other'", NOW), limit=1050)
        assert [row.execution_id for row in many] == [str(2099 - number) for number in range(1050)]


def test_retries_that_were_not_cancelled_stand_for_their_source(store: Store) -> None:
    newer = execution("800", source_id="100", descent="retry", status="failed")
    elsewhere = execution("900", source_id="400", descent="migration")
    create(store, *ROWS, newer, elsewhere)
    with store.read() as tx:
        found = tx.executions.retries_of(["100", "200", "300", "400", "999"])
        assert found == {"100": newer, "400": elsewhere}
        assert tx.executions.retries_of([]) == {}


# --- operations -----------------------------------------------------------------------------------

OPERATION = OperationRow("7", "retry", "running", "status = 'failed'", {"version": None}, 2, NOW, NOW)


def test_an_operation_has_an_item_for_each_of_its_executions(store: Store) -> None:
    with store.begin() as tx:
        tx.operations.add(OPERATION, ["300", "100"])
        tx.operations.add(replace(OPERATION, operation_id="8"), ["100"])
    with store.read() as tx:
        assert tx.operations.get("7") == OPERATION
        assert tx.operations.get("9") is None
        assert tx.operations.items("7") == [OperationItem(0, "300"), OperationItem(1, "100")]
        assert tx.operations.items("7", after=0) == [OperationItem(1, "100")]
        assert tx.operations.items("7", limit=1) == [OperationItem(0, "300")]
        assert [row.operation_id for row in tx.operations.find()] == ["8", "7"]
        assert [row.operation_id for row in tx.operations.find(limit=1)] == ["8"]
        assert [row.operation_id for row in tx.operations.find(before="8")] == ["7"]
        assert tx.operations.counts(["7", "8", "9"]) == {"7": {"pending": 2}, "8": {"pending": 1}, "9": {}}
        assert tx.operations.unfinished() == ["7", "8"]


def test_items_go_forward_to_the_ends_of_what_was_begun_for_them(store: Store) -> None:
    create(store, execution("10", status="failed"), execution("11"), execution("12", status="completed"))
    with store.begin() as tx:
        tx.operations.add(OPERATION, ["1", "2", "3", "4"])
        assert tx.operations.lock("7") == OPERATION
        for position, begun in enumerate(("10", "11", "12")):
            started = OperationItem(position, str(position + 1), "started", begun)
            tx.operations.save_item("7", started)
        assert tx.operations.record_ends("7") == 2
    with store.read() as tx:
        assert tx.operations.items("7") == [
            OperationItem(0, "1", "failed", "10"),
            OperationItem(1, "2", "started", "11"),
            OperationItem(2, "3", "completed", "12"),
            OperationItem(3, "4"),
        ]
        assert tx.operations.items("7", state="pending") == [OperationItem(3, "4")]
    with store.begin() as tx:
        tx.operations.drop_pending("7")
        assert tx.operations.record_ends("7") == 0
        assert tx.operations.counts(["7"])["7"] == {"failed": 1, "started": 1, "completed": 1, "dropped": 1}
        tx.operations.save_item("7", OperationItem(3, "4", "refused", None, "it cannot"))
    with store.read() as tx:
        assert tx.operations.items("7", after=2) == [OperationItem(3, "4", "refused", None, "it cannot")]


def test_an_operation_that_has_ended_is_not_unfinished(store: Store) -> None:
    ended = replace(OPERATION, status="cancelled", updated_at=LATER, ended_at=LATER, reason="enough")
    with store.begin() as tx:
        tx.operations.add(OPERATION, ["1"])
        tx.operations.save_status(ended)
    with store.read() as tx:
        assert tx.operations.unfinished() == []
        assert tx.operations.get("7") == ended


def test_what_is_not_there_is_not_changed(store: Store) -> None:
    with pytest.raises(NotFound, match="Operation 7 does not exist"), store.begin() as tx:
        tx.operations.save_item("7", OperationItem(0, "1", "refused"))
    with pytest.raises(NotFound, match="Operation 7 does not exist"), store.begin() as tx:
        tx.operations.save_status(OPERATION)


# --- several sweepers -----------------------------------------------------------------------------

BOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: order, path: tests/order}
workflow:
  - step: start
    tool: {kind: http, url: load}
"""


def test_of_many_sweepers_at_once_none_begins_what_another_has_begun(store: Store) -> None:
    def refuse(_: Call) -> Outcome:
        return failed(ErrorInfo("client_error", "it is refused"))

    sim = Simulation(BOOK, {"http": refuse}, store=store)
    sources = [sim.start() for _ in range(12)]
    sim.settle()
    request = FleetRequest("status = 'failed'", RetryRequest(""), concurrency=5)
    name = operations.begin(sim.rt, request).row.operation_id
    # Each thread draws numbers of its own.
    numbers = count(1000)
    rt = replace(sim.rt, entropy=lambda: next(numbers))
    with ThreadPoolExecutor(4) as threads:
        begun = sum(threads.map(lambda _: carry_on(rt, [name]), range(4)))
    assert begun == 5
    assert operations.operation(rt, name).counts == {"started": 5, "pending": 7}
    with store.read() as tx:
        retries = tx.executions.find(where=parse_where(f"operation = {name}", NOW))
        assert sorted(row.source_id or "" for row in retries) == sorted(sources[:5])
        items = tx.operations.items(name, state="started")
        assert sorted(item.begun_id or "" for item in items) == sorted(row.execution_id for row in retries)


def test_operations_are_found_by_who_asked_for_them(store: Store) -> None:
    with store.begin() as tx:
        for number, principal in enumerate(["ada", "bob", "ada", None], 1):
            row = OperationRow(
                str(number), "retry", "running", "x", {}, 1, NOW, NOW, principal=principal, request_id="r"
            )
            tx.operations.add(row, [])
    with store.read() as tx:
        assert [row.operation_id for row in tx.operations.find(principal="ada")] == ["3", "1"]
        assert [row.operation_id for row in tx.operations.find(principal="ada", before="3")] == ["1"]
        assert [row.operation_id for row in tx.operations.find(before="3", limit=1)] == ["2"]
        assert tx.operations.find(principal="eve") == []
        assert len(tx.operations.find()) == 4
