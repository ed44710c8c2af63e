"""What every store promises of executions, events and transactions (`noetl.usecases.ports`)."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from noetl.errors import BadRequest, Conflict, NoetlError, NotFound, VersionConflict
from noetl.facts.events import (
    ArcDecision,
    CtxPatched,
    Draft,
    Fact,
    IterationDone,
    NextEvaluated,
    StepDone,
    StepFailed,
    StepStarted,
    TaskDone,
    Token,
)
from noetl.facts.outcome import ErrorInfo
from noetl.usecases.ports import (
    KeyOwner,
    LoopRow,
    Snapshot,
    Store,
    WorkerRow,
)
from noetl.usecases.views import envelope

from .given import LATER, NOW, SECOND, add, append, command, create, execution, patched

# --- executions -----------------------------------------------------------------------------------


def test_an_execution_is_read_as_it_was_created(store: Store) -> None:
    row = execution(
        execution_id=str(2**63 - 1),
        ended_at=NOW + timedelta(microseconds=1),
        next_wake_at=LATER,
        halt="pause",
        error={"kind": "python", "message": "é\0"},
        imported_at=LATER,
        key="Größe ✓",
    )
    create(store, row)
    with store.read() as tx:
        assert tx.executions.get(row.execution_id) == row


def test_instants_come_back_in_utc(store: Store) -> None:
    create(store, execution(created_at=NOW.astimezone(tz=datetime.strptime("+0530", "%z").tzinfo)))
    with store.read() as tx:
        read = tx.executions.get("100")
    assert read is not None
    assert read.created_at == NOW
    assert read.created_at.utcoffset() in (timedelta(0), timedelta(hours=5, minutes=30))


def test_creating_an_execution_twice_is_a_conflict(store: Store) -> None:
    create(store)
    with pytest.raises(Conflict), store.begin() as tx:
        tx.executions.create(execution(path="other"))
    with store.read() as tx:
        assert tx.executions.get("100") == execution()


def test_an_execution_is_of_the_shard_of_its_store_whatever_its_row_says(store: Store) -> None:
    create(store, execution(shard="of another"))
    with store.read() as tx:
        assert tx.executions.get("100") == execution(shard="")


def test_an_id_that_is_not_a_number_is_unknown(store: Store, subtests: pytest.Subtests) -> None:
    for bad in ("", "x", "-1", "007", "1.0", "٣", str(2**63), "9" * 40):
        with subtests.test(bad):
            with store.read() as tx:
                assert tx.executions.get(bad) is None
                assert tx.events.read(bad) == []
            with pytest.raises(BadRequest), store.begin() as tx:
                tx.executions.create(execution(bad))


def test_executions_are_listed_newest_first_and_paged(store: Store) -> None:
    create(store, *(execution(str(number)) for number in (9, 10, 100, 11)))
    with store.read() as tx:
        first = tx.executions.find(limit=2)
        rest = tx.executions.find(before=first[-1].execution_id)
    assert [row.execution_id for row in first] == ["100", "11"]
    assert [row.execution_id for row in rest] == ["10", "9"]


def test_executions_are_filtered_by_status_and_path(store: Store) -> None:
    create(store, execution("1"), execution("2", status="failed"), execution("3", status="failed", path="x"))
    with store.read() as tx:
        assert [row.execution_id for row in tx.executions.find(status="failed")] == ["3", "2"]
        assert [row.execution_id for row in tx.executions.find(status="failed", path="a/b")] == ["2"]
        assert [row.execution_id for row in tx.executions.find(path="x")] == ["3"]
        assert [tx.executions.find(path=path) for path in ("müller", "日本", "it's\\%s", "")] == [[]] * 4


def test_executions_are_filtered_by_who_called_them(store: Store) -> None:
    called = [execution(str(number), parent_id="9", status="failed") for number in (10, 100, 11)]
    create(store, execution("9"), *called, execution("12", parent_id="10"), execution("13"))
    with store.read() as tx:
        assert [row.execution_id for row in tx.executions.find(parent="9")] == ["100", "11", "10"]
        assert [row.execution_id for row in tx.executions.find(parent="9", before="100", limit=1)] == ["11"]
        assert [row.execution_id for row in tx.executions.find(parent="10", path="a/b")] == ["12"]
        assert tx.executions.find(parent="9", status="running") == []
        assert [tx.executions.find(parent=parent) for parent in ("13", "", "x", "-1", "9" * 40)] == [[]] * 5
        assert [row.parent_id for row in tx.executions.find(limit=2)] == ["9", None]


def test_locking_an_unknown_execution_yields_nothing(store: Store) -> None:
    with store.begin() as tx:
        assert tx.executions.lock("5") is None


def test_an_execution_owes_a_turn_while_its_head_is_ahead_or_its_wake_is_due(store: Store) -> None:
    create(
        store,
        execution("20", head_version=3, decided_version=2),
        execution("3", next_wake_at=NOW),
        execution("4", next_wake_at=NOW + SECOND),
        execution("5", head_version=2, decided_version=2),
        execution("6", head_version=2, decided_version=1, next_wake_at=NOW, status="completed"),
    )
    with store.read() as tx:
        assert tx.executions.owing(NOW, 10) == ["3", "6", "20"]
        assert tx.executions.owing(NOW, 2) == ["3", "6"]
    with store.begin() as tx:
        assert [row.execution_id for row in tx.executions.lock_owing(NOW, 2).rows] == ["3", "6"]
        assert [row.execution_id for row in tx.executions.lock_owing(NOW + SECOND, 10).rows] == [
            "3",
            "4",
            "6",
            "20",
        ]


def test_a_turn_is_left_in_the_row(store: Store) -> None:
    create(store, execution(head_version=2, next_wake_at=NOW))
    with store.begin() as tx:
        tx.executions.lock("100")
        tx.executions.save_turn(
            "100",
            decided_version=2,
            status="failed",
            next_wake_at=None,
            halt="fail",
            now=LATER,
            ended_at=LATER,
            error={"kind": "python"},
            errors_passed_over=3,
            warnings_count=2,
        )
    with store.read() as tx:
        assert tx.executions.owing(LATER, 10) == []
        assert tx.executions.get("100") == execution(
            head_version=2,
            decided_version=2,
            status="failed",
            halt="fail",
            updated_at=LATER,
            ended_at=LATER,
            error={"kind": "python"},
            errors_passed_over=3,
            warnings_count=2,
        )


def test_a_later_turn_keeps_the_end_the_error_and_the_counts(store: Store) -> None:
    create(store, execution(ended_at=NOW, error={"kind": "python"}, status="failed", warnings_count=1))
    with store.begin() as tx:
        tx.executions.save_turn(
            "100", decided_version=0, status="failed", next_wake_at=None, halt="", now=LATER
        )
    with store.read() as tx:
        row = tx.executions.get("100")
    assert row is not None
    assert (row.ended_at, row.error, row.warnings_count) == (NOW, {"kind": "python"}, 1)


def test_a_halt_is_set_and_taken_back(store: Store) -> None:
    create(store)
    for halt in ("cancel", ""):
        with store.begin() as tx:
            tx.executions.set_halt("100", halt)
        with store.read() as tx:
            assert tx.executions.get("100") == execution(halt=halt)


def test_turns_and_halts_of_unknown_executions_are_not_found(store: Store) -> None:
    with pytest.raises(NotFound), store.begin() as tx:
        tx.executions.set_halt("5", "cancel")
    with pytest.raises(NotFound), store.begin() as tx:
        tx.executions.save_turn(
            "5", decided_version=0, status="failed", next_wake_at=None, halt="", now=LATER
        )


# --- events ---------------------------------------------------------------------------------------


FACTS: list[Fact] = [
    TaskDone("t", {"rows": [[1, 2.5, "x", None, True]], "text": "\0 \u2028 é 😀"}, {"duration_ms": 1}),
    NextEvaluated(
        "step.done",
        (ArcDecision("a", "b", "{{ x }}", {"x": 1}, True, True),),
        (Token("t1", "a", "b", {"k": []}, 1),),
    ),
    StepFailed(ErrorInfo("python", "boom", "ValueError", step="s", stats={"total": 3})),
    IterationDone("t", (("total", 1), ("names", ["a"]))),
    StepDone(),
]


def test_events_are_read_as_they_were_appended(store: Store) -> None:
    create(store)
    drafts = [
        Draft(fact, "worker", "s", "s#1", index, 2, 12.5, f"k{index}") for index, fact in enumerate(FACTS)
    ]
    with store.begin() as tx:
        tx.executions.lock("100")
        appended = tx.events.append("100", 0, drafts, NOW)
    with store.read() as tx:
        assert tx.events.read("100") == appended
    assert [event.draft for event in appended] == drafts
    assert [event.version for event in appended] == [1, 2, 3, 4, 5]
    assert {event.recorded_at for event in appended} == {NOW}


def test_lone_surrogates_become_replacement_characters(store: Store) -> None:
    create(store)
    append(store, [patched("x", "a\ud800b")])
    with store.read() as tx:
        assert tx.events.read("100")[0].fact == CtxPatched({"x": "a\ufffdb"}, "task")


def test_what_is_not_json_is_refused(store: Store) -> None:
    create(store)
    for value in (float("nan"), float("inf"), {1, 2}, b"x", object()):
        with pytest.raises(BadRequest, match=r"ctx\.patched"):
            append(store, [patched("x", value)])
    with store.read() as tx:
        assert tx.events.read("100") == []


def test_appending_moves_the_head(store: Store) -> None:
    create(store)
    append(store, [patched("a"), patched("b")])
    append(store, [patched("c")], after=2)
    with store.read() as tx:
        row = tx.executions.get("100")
        assert [event.version for event in tx.events.read("100")] == [1, 2, 3]
        assert tx.executions.owing(NOW, 1) == ["100"]
    assert row is not None
    assert row.head_version == 3


def test_appending_nothing_changes_nothing_but_checks_the_version(store: Store) -> None:
    create(store)
    append(store, [])
    with pytest.raises(VersionConflict):
        append(store, [], after=4)
    with store.read() as tx:
        assert tx.events.read("100") == []


@pytest.mark.parametrize("expected", [0, 1, 3])
def test_a_stale_or_future_version_is_a_conflict(store: Store, expected: int) -> None:
    create(store)
    append(store, [patched("a"), patched("b")])
    with pytest.raises(VersionConflict) as caught:
        append(store, [patched("c")], after=expected)
    assert (caught.value.execution_id, caught.value.expected, caught.value.actual) == ("100", expected, 2)
    with store.read() as tx:
        assert len(tx.events.read("100")) == 2


def test_appending_to_an_unknown_execution_is_not_found(store: Store) -> None:
    with pytest.raises(NotFound):
        append(store, [patched("a")])


def test_a_dedup_key_is_recorded_once_in_an_execution(store: Store) -> None:
    create(store, execution("100"), execution("200"))
    append(store, [patched("a", dedup_key="k")])
    append(store, [patched("a", dedup_key="k")], execution_id="200")
    append(store, [patched("a"), patched("a")], after=1)
    with pytest.raises(Conflict) as caught:
        append(store, [patched("b"), patched("a", dedup_key="k")], after=3)
    assert not isinstance(caught.value, VersionConflict)
    with store.read() as tx:
        assert tx.events.recorded("100", "k")
        assert not tx.events.recorded("100", "l")
        assert not tx.events.recorded("300", "k")
        assert len(tx.events.read("100")) == 3
        assert tx.executions.get("100") == execution(head_version=3)


def test_one_append_cannot_hold_the_same_dedup_key_twice(store: Store) -> None:
    create(store)
    with pytest.raises(Conflict):
        append(store, [patched("a", dedup_key="k"), patched("b", dedup_key="k")])
    with store.read() as tx:
        assert not tx.events.recorded("100", "k")


def test_after_a_failed_append_only_the_rollback_is_left(store: Store) -> None:
    create(store)
    append(store, [patched("a", dedup_key="k")])
    with pytest.raises(NoetlError), store.begin() as tx:  # noqa: PT012
        tx.executions.set_halt("100", "cancel")
        with suppress(Conflict):  # a store may find out with the next statement
            tx.events.append("100", 1, [patched("b", dedup_key="k")], NOW)
        with pytest.raises(NoetlError):
            tx.executions.get("100")
        # leaving cleanly must not commit the half that went well
    with store.read() as tx:
        assert tx.executions.get("100") == execution(head_version=1)


def test_events_are_read_from_a_version_on_with_a_limit_and_by_type(store: Store) -> None:
    create(store)
    started = Draft(StepStarted("w", "2026-03-01T12:00:00Z"), step="s", run_id="s#1")
    append(store, [patched("a"), started, patched("b"), Draft(StepDone()), patched("c")])
    with store.read() as tx:
        assert [event.version for event in tx.events.read("100", after=3)] == [4, 5]
        assert [event.version for event in tx.events.read("100", limit=2)] == [1, 2]
        assert [
            event.version for event in tx.events.read("100", after=1, limit=1, types=["ctx.patched"])
        ] == [3]
        assert [event.version for event in tx.events.read("100", types=["step.done", "step.started"])] == [
            2,
            4,
        ]
        assert tx.events.read("100", after=5) == []


def test_the_tails_of_many_executions_are_what_nobody_has_decided_on_yet(store: Store) -> None:
    for name, decided in (("100", 1), ("101", 3), ("102", 0)):
        create(store, execution(name))
        append(store, [patched("a"), patched("b"), patched("c")], execution_id=name)
        with store.begin() as tx:
            tx.executions.lock(name)
            tx.executions.save_turn(
                name, decided_version=decided, status="running", next_wake_at=None, halt="", now=NOW
            )
    with store.read() as tx:
        tails = tx.events.tails(["100", "101", "102", "999"], limit=2)
        assert {name: [event.version for event in tail] for name, tail in tails.items()} == {
            "100": [2, 3],
            "102": [1, 2],
        }
        assert tails["100"] == tx.events.read("100", after=1)
        assert tx.events.tails([], limit=2) == {}


def test_types_are_understood_by_their_older_names(store: Store) -> None:
    create(store)
    append(store, [patched("a"), Draft(StepDone())])
    with store.read() as tx:
        assert [event.version for event in tx.events.read("100", types=["step.exit"])] == [2]
        assert tx.events.read("100", types=["no.such"]) == []


def test_events_of_a_run_are_those_of_one_iteration_or_of_none(store: Store) -> None:
    create(store)
    places = [("s#1", None), ("s#1", 0), ("s#1", 1), ("s#2", 0), ("s#1", 0), (None, None)]
    append(store, [patched("a", run_id=run, iteration=iteration) for run, iteration in places])
    with store.read() as tx:
        assert [event.version for event in tx.events.of_run("100", "s#1", None)] == [1]
        assert [event.version for event in tx.events.of_run("100", "s#1", 0)] == [2, 5]
        assert tx.events.of_run("100", "s#3", None) == []


# --- transactions ---------------------------------------------------------------------------------


def test_a_rollback_leaves_nothing(store: Store) -> None:
    create(store)
    add(store, command("old"))
    loop = LoopRow("100", "s#1", 0, 0, 9, True, items=[1])
    with store.begin() as tx:
        tx.loops.save(loop)
    with pytest.raises(RuntimeError, match="boom"), store.begin() as tx:  # noqa: PT012
        tx.executions.create(execution("101"))
        tx.executions.lock("100")
        tx.events.append("100", 0, [patched("a", dedup_key="k")], NOW)
        tx.executions.set_halt("100", "cancel")
        tx.commands.add([command("new")])
        tx.commands.claim("old", "w", NOW, LATER, 3)
        tx.loops.take("100", "s#1", 0, 4)
        tx.nets.put("d", {})
        tx.idempotency.claim({"key": KeyOwner("sha", "101")}, NOW)
        tx.snapshots.save(Snapshot("100", 1, 1, {}))
        tx.workers.see(WorkerRow("w", "worker", (), NOW, NOW))
        tx.dead_letters.add("q", "r", "b", NOW)
        raise RuntimeError("boom")
    with store.read() as tx:
        assert tx.executions.get("101") is None
        assert tx.executions.get("100") == execution()
        assert tx.events.read("100") == []
        assert not tx.events.recorded("100", "k")
        assert tx.commands.open_of("100") == [command("old", context={})]
        assert tx.loops.get("100", "s#1") == loop
        assert tx.nets.get("d") is None
        assert tx.snapshots.get("100") is None
        assert tx.workers.alive(NOW - SECOND) == []
        assert tx.dead_letters.newest() == []
    with store.begin() as tx:
        assert tx.idempotency.claim({"key": KeyOwner("sha", "102")}, NOW) == {"key": KeyOwner("sha", "102")}
        assert tx.events.append("100", 0, [patched("a", dedup_key="k")], NOW)


WRITES = {
    "create_execution": lambda tx: tx.executions.create(execution("101")),
    "lock": lambda tx: tx.executions.lock("100"),
    "lock_owing": lambda tx: tx.executions.lock_owing(NOW, 1),
    "append": lambda tx: tx.events.append("100", 0, [patched("a")], NOW),
    "set_halt": lambda tx: tx.executions.set_halt("100", ""),
    "add_commands": lambda tx: tx.commands.add([command("c2")]),
    "claim": lambda tx: tx.commands.claim("c1", "w", NOW, LATER, 3),
    "heartbeat": lambda tx: tx.commands.heartbeat("c1", 1, LATER),
    "release": lambda tx: tx.commands.release("c1", 1, NOW),
    "reopen": lambda tx: tx.commands.reopen("c1", 1),
    "close_commands": lambda tx: tx.commands.close(["c1"]),
    "mark_sent": lambda tx: tx.commands.mark_sent(["c1"], NOW),
    "lock_command": lambda tx: tx.commands.lock("c1"),
    "save_loop": lambda tx: tx.loops.save(LoopRow("100", "s#1", 0, 0, 1, True)),
    "take": lambda tx: tx.loops.take("100", "s#1", 0, 1),
    "close_loop": lambda tx: tx.loops.close("100", "s#1"),
    "close_loops": lambda tx: tx.loops.close_all("100"),
    "put_net": lambda tx: tx.nets.put("d", {}),
    "claim_keys": lambda tx: tx.idempotency.claim({"k": KeyOwner("s", "100")}, NOW),
    "add_dead_letter": lambda tx: tx.dead_letters.add("q", "r", "b", NOW),
    "delete_credential": lambda tx: tx.credentials.delete("x"),
}


def test_a_transaction_for_reads_refuses_writes_and_locks(store: Store, subtests: pytest.Subtests) -> None:
    create(store)
    add(store)
    for name, write in WRITES.items():
        with subtests.test(name), pytest.raises(NoetlError, match="for reads"), store.read() as tx:
            write(tx)


def test_a_transaction_cannot_be_used_after_its_end(store: Store) -> None:
    create(store)
    with store.begin() as tx:
        pass
    with pytest.raises(NoetlError):
        tx.executions.get("100")
    with pytest.raises(NoetlError):
        tx.executions.set_halt("100", "cancel")


# --- events of another database -------------------------------------------------------------------


def test_events_are_restored_as_they_were_recorded(store: Store) -> None:
    create(store, execution("100"), execution("200", decided_version=3, imported_at=LATER))
    append(store, [patched("a", {"b": [1, None]}, step="s", run_id="s#1", iteration=0, duration_ms=0.1)])
    append(store, [patched("b", dedup_key="k"), patched("c", source="client")], 1)
    with store.read() as tx:
        there = tx.events.read("100")
    bodies = [json.loads(json.dumps({**envelope(one), "execution_id": "200"})) for one in there]
    with store.begin() as tx:
        decoded = tx.events.decode(bodies)
        tx.executions.lock("200")
        tx.events.restore("200", decoded, LATER)
    with store.read() as tx:
        assert tx.events.read("200") == decoded == [replace(one, execution_id="200") for one in there]
        row = tx.executions.get("200")
        assert tx.executions.owing(LATER + timedelta(days=9), 9) == ["100"]
    assert row is not None
    assert (row.head_version, row.decided_version, row.updated_at) == (3, 3, LATER)


def test_events_are_restored_into_an_empty_log_only(store: Store) -> None:
    create(store)
    append(store, [patched("a")])
    with store.read() as tx:
        events = tx.events.read("100")
    with pytest.raises(VersionConflict), store.begin() as tx:
        tx.events.restore("100", events, NOW)


@pytest.mark.parametrize(
    "change",
    [
        {"type": "no.such"},
        {"schema": 99},
        {"payload": {"nothing": 1}},
        {"recorded_at": "yesterday"},
        {"payload": None},
    ],
)
def test_an_envelope_that_cannot_be_read_is_named(store: Store, change: dict[str, Any]) -> None:
    create(store)
    append(store, [patched("a")])
    with store.read() as tx:
        (event,) = tx.events.read("100")
        body = {**envelope(event), **change}
        with pytest.raises(BadRequest, match=rf"^Event {body['version']} cannot be read: "):
            tx.events.decode([body])
