"""What every store promises: `noetl.usecases.ports.Transaction`, line by line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
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
    PauseRequested,
    StepDone,
    StepFailed,
    StepStarted,
    TaskDone,
    Token,
)
from noetl.facts.outcome import ErrorInfo
from noetl.store import open_store
from noetl.store.migrate import upgrade
from noetl.usecases.ports import (
    CommandRow,
    CredentialRow,
    ExecutionRow,
    LoopRow,
    PlaybookRow,
    Snapshot,
    Store,
    WorkerRow,
)

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)
LATER = NOW + 30 * SECOND


def execution(execution_id: str = "100", **changes: Any) -> ExecutionRow:
    row = ExecutionRow(execution_id, "a/b", 1, "d1", "running", 0, 0, NOW, NOW)
    return replace(row, **changes)


def command(name: str = "c1", execution_id: str = "100", **changes: Any) -> CommandRow:
    row = CommandRow(name, execution_id, "s#1", "s", "pipeline", "-", "python", 1, context={"a": [1, None]})
    return replace(row, **changes)


def patched(name: str, value: Any = 1, **place: Any) -> Draft:
    return Draft(CtxPatched({name: value}, "task"), **place)


def create(store: Store, *rows: ExecutionRow) -> None:
    with store.begin() as tx:
        for row in rows or (execution(),):
            tx.create_execution(row)


def add(store: Store, *rows: CommandRow) -> None:
    with store.begin() as tx:
        tx.add_commands(rows or (command(),))


def claim(store: Store, name: str = "c1", at: datetime = NOW, limit: int = 3) -> CommandRow | None:
    with store.begin_async_commit() as tx:
        return tx.claim(name, "w1", at, at + 30 * SECOND, limit)


def append(store: Store, drafts: Sequence[Draft], after: int = 0, execution_id: str = "100") -> None:
    with store.begin() as tx:
        tx.lock(execution_id)
        tx.append(execution_id, after, drafts, NOW)


# --- executions -----------------------------------------------------------------------------------


def test_an_execution_is_read_as_it_was_created(store: Store) -> None:
    row = execution(
        execution_id=str(2**63 - 1),
        ended_at=NOW + timedelta(microseconds=1),
        next_wake_at=LATER,
        halt="pause",
        error={"kind": "python", "message": "é\0"},
    )
    create(store, row)
    with store.read() as tx:
        assert tx.execution(row.execution_id) == row


def test_instants_come_back_in_utc(store: Store) -> None:
    create(store, execution(created_at=NOW.astimezone(tz=datetime.strptime("+0530", "%z").tzinfo)))
    with store.read() as tx:
        read = tx.execution("100")
    assert read is not None
    assert read.created_at == NOW
    assert read.created_at.utcoffset() in (timedelta(0), timedelta(hours=5, minutes=30))


def test_creating_an_execution_twice_is_a_conflict(store: Store) -> None:
    create(store)
    with pytest.raises(Conflict), store.begin() as tx:
        tx.create_execution(execution(path="other"))
    with store.read() as tx:
        assert tx.execution("100") == execution()


@pytest.mark.parametrize("bad", ["", "x", "-1", "007", "1.0", "٣", str(2**63), "9" * 40])
def test_an_id_that_is_no_number_is_nobody(store: Store, bad: str) -> None:
    with store.read() as tx:
        assert tx.execution(bad) is None
        assert tx.events(bad) == []
    with pytest.raises(BadRequest), store.begin() as tx:
        tx.create_execution(execution(bad))


def test_executions_are_listed_newest_first_and_paged(store: Store) -> None:
    create(store, *(execution(str(number)) for number in (9, 10, 100, 11)))
    with store.read() as tx:
        first = tx.executions(limit=2)
        rest = tx.executions(before=first[-1].execution_id)
    assert [row.execution_id for row in first] == ["100", "11"]
    assert [row.execution_id for row in rest] == ["10", "9"]


def test_executions_are_filtered_by_status_and_path(store: Store) -> None:
    create(store, execution("1"), execution("2", status="failed"), execution("3", status="failed", path="x"))
    with store.read() as tx:
        assert [row.execution_id for row in tx.executions(status="failed")] == ["3", "2"]
        assert [row.execution_id for row in tx.executions(status="failed", path="a/b")] == ["2"]
        assert [row.execution_id for row in tx.executions(path="x")] == ["3"]


def test_locking_an_unknown_execution_yields_nothing(store: Store) -> None:
    with store.begin() as tx:
        assert tx.lock("5") is None


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
        assert tx.owing(NOW, 10) == ["3", "6", "20"]
        assert tx.owing(NOW, 2) == ["3", "6"]
    with store.begin() as tx:
        assert [row.execution_id for row in tx.lock_owing(NOW, 2)] == ["3", "6"]
        assert [row.execution_id for row in tx.lock_owing(NOW + SECOND, 10)] == ["3", "4", "6", "20"]


def test_a_turn_is_left_in_the_row(store: Store) -> None:
    create(store, execution(head_version=2, next_wake_at=NOW))
    with store.begin() as tx:
        tx.lock("100")
        tx.save_turn(
            "100",
            decided_version=2,
            status="failed",
            next_wake_at=None,
            halt="fail",
            now=LATER,
            ended_at=LATER,
            error={"kind": "python"},
        )
    with store.read() as tx:
        assert tx.owing(LATER, 10) == []
        assert tx.execution("100") == execution(
            head_version=2,
            decided_version=2,
            status="failed",
            halt="fail",
            updated_at=LATER,
            ended_at=LATER,
            error={"kind": "python"},
        )


def test_a_later_turn_keeps_the_end_and_the_error(store: Store) -> None:
    create(store, execution(ended_at=NOW, error={"kind": "python"}, status="failed"))
    with store.begin() as tx:
        tx.save_turn("100", decided_version=0, status="failed", next_wake_at=None, halt="", now=LATER)
    with store.read() as tx:
        row = tx.execution("100")
    assert row is not None
    assert (row.ended_at, row.error) == (NOW, {"kind": "python"})


def test_a_halt_is_set_and_taken_back(store: Store) -> None:
    create(store)
    for halt in ("cancel", ""):
        with store.begin() as tx:
            tx.set_halt("100", halt)
        with store.read() as tx:
            assert tx.execution("100") == execution(halt=halt)


def test_turns_and_halts_of_unknown_executions_are_not_found(store: Store) -> None:
    with pytest.raises(NotFound), store.begin() as tx:
        tx.set_halt("5", "cancel")
    with pytest.raises(NotFound), store.begin() as tx:
        tx.save_turn("5", decided_version=0, status="failed", next_wake_at=None, halt="", now=LATER)


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
        tx.lock("100")
        appended = tx.append("100", 0, drafts, NOW)
    with store.read() as tx:
        assert tx.events("100") == appended
    assert [event.draft for event in appended] == drafts
    assert [event.version for event in appended] == [1, 2, 3, 4, 5]
    assert {event.recorded_at for event in appended} == {NOW}


def test_lone_surrogates_become_replacement_characters(store: Store) -> None:
    create(store)
    append(store, [patched("x", "a\ud800b")])
    with store.read() as tx:
        assert tx.events("100")[0].fact == CtxPatched({"x": "a\ufffdb"}, "task")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}, b"x", object()])
def test_what_is_not_json_is_refused(store: Store, value: Any) -> None:
    create(store)
    with pytest.raises(BadRequest, match=r"ctx\.patched"):
        append(store, [patched("x", value)])
    with store.read() as tx:
        assert tx.events("100") == []


def test_appending_moves_the_head(store: Store) -> None:
    create(store)
    append(store, [patched("a"), patched("b")])
    append(store, [patched("c")], after=2)
    with store.read() as tx:
        row = tx.execution("100")
        assert [event.version for event in tx.events("100")] == [1, 2, 3]
        assert tx.owing(NOW, 1) == ["100"]
    assert row is not None
    assert row.head_version == 3


def test_appending_nothing_changes_nothing_but_checks_the_version(store: Store) -> None:
    create(store)
    append(store, [])
    with pytest.raises(VersionConflict):
        append(store, [], after=4)
    with store.read() as tx:
        assert tx.events("100") == []


@pytest.mark.parametrize("expected", [0, 1, 3])
def test_a_stale_or_future_version_is_a_conflict(store: Store, expected: int) -> None:
    create(store)
    append(store, [patched("a"), patched("b")])
    with pytest.raises(VersionConflict) as caught:
        append(store, [patched("c")], after=expected)
    assert (caught.value.execution_id, caught.value.expected, caught.value.actual) == ("100", expected, 2)
    with store.read() as tx:
        assert len(tx.events("100")) == 2


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
        assert tx.recorded("100", "k")
        assert not tx.recorded("100", "l")
        assert not tx.recorded("300", "k")
        assert len(tx.events("100")) == 3
        assert tx.execution("100") == execution(head_version=3)


def test_one_append_cannot_hold_the_same_dedup_key_twice(store: Store) -> None:
    create(store)
    with pytest.raises(Conflict):
        append(store, [patched("a", dedup_key="k"), patched("b", dedup_key="k")])
    with store.read() as tx:
        assert not tx.recorded("100", "k")


def test_after_a_failed_append_only_the_rollback_is_left(store: Store) -> None:
    create(store)
    append(store, [patched("a", dedup_key="k")])
    with pytest.raises(NoetlError), store.begin() as tx:  # noqa: PT012
        tx.set_halt("100", "cancel")
        with pytest.raises(Conflict):
            tx.append("100", 1, [patched("b", dedup_key="k")], NOW)
        with pytest.raises(NoetlError):
            tx.execution("100")
        # leaving cleanly must not commit the half that went well
    with store.read() as tx:
        assert tx.execution("100") == execution(head_version=1)


def test_events_are_read_from_a_version_on_with_a_limit_and_by_type(store: Store) -> None:
    create(store)
    started = Draft(StepStarted("w", "2026-03-01T12:00:00Z"), step="s", run_id="s#1")
    append(store, [patched("a"), started, patched("b"), Draft(StepDone()), patched("c")])
    with store.read() as tx:
        assert [event.version for event in tx.events("100", after=3)] == [4, 5]
        assert [event.version for event in tx.events("100", limit=2)] == [1, 2]
        assert [event.version for event in tx.events("100", after=1, limit=1, types=["ctx.patched"])] == [3]
        assert [event.version for event in tx.events("100", types=["step.done", "step.started"])] == [2, 4]
        assert tx.events("100", after=5) == []


def test_types_are_understood_by_their_older_names(store: Store) -> None:
    create(store)
    append(store, [patched("a"), Draft(StepDone())])
    with store.read() as tx:
        assert [event.version for event in tx.events("100", types=["step.exit"])] == [2]
        assert tx.events("100", types=["no.such"]) == []


def test_events_of_a_run_are_those_of_one_iteration_or_of_none(store: Store) -> None:
    create(store)
    places = [("s#1", None), ("s#1", 0), ("s#1", 1), ("s#2", 0), ("s#1", 0), (None, None)]
    append(store, [patched("a", run_id=run, iteration=iteration) for run, iteration in places])
    with store.read() as tx:
        assert [event.version for event in tx.run_events("100", "s#1", None)] == [1]
        assert [event.version for event in tx.run_events("100", "s#1", 0)] == [2, 5]
        assert tx.run_events("100", "s#3", None) == []


# --- transactions ---------------------------------------------------------------------------------


def test_a_rollback_leaves_nothing(store: Store) -> None:
    create(store)
    add(store, command("old"))
    loop = LoopRow("100", "s#1", 0, 0, 9, True, items=[1])
    with store.begin() as tx:
        tx.save_loop(loop)
    with pytest.raises(RuntimeError, match="boom"), store.begin() as tx:  # noqa: PT012
        tx.create_execution(execution("101"))
        tx.lock("100")
        tx.append("100", 0, [patched("a", dedup_key="k")], NOW)
        tx.set_halt("100", "cancel")
        tx.add_commands([command("new")])
        tx.claim("old", "w", NOW, LATER, 3)
        tx.take("100", "s#1", 0, 4)
        tx.put_net("d", {})
        tx.remember("key", "sha", "101", NOW)
        tx.save_snapshot(Snapshot("100", 1, 1, {}))
        tx.see_worker(WorkerRow("w", "worker", (), NOW, NOW))
        tx.add_dead_letter("q", "r", "b", NOW)
        raise RuntimeError("boom")
    with store.read() as tx:
        assert tx.execution("101") is None
        assert tx.execution("100") == execution()
        assert tx.events("100") == []
        assert not tx.recorded("100", "k")
        assert tx.open_commands("100") == [command("old", context={})]
        assert tx.loop("100", "s#1") == loop
        assert tx.net("d") is None
        assert tx.snapshot("100") is None
        assert tx.workers(NOW - SECOND) == []
        assert tx.dead_letters() == []
    with store.begin() as tx:
        assert tx.remember("key", "sha", "101", NOW) is None
        assert tx.append("100", 0, [patched("a", dedup_key="k")], NOW)


WRITES = {
    "create_execution": lambda tx: tx.create_execution(execution("101")),
    "lock": lambda tx: tx.lock("100"),
    "lock_owing": lambda tx: tx.lock_owing(NOW, 1),
    "append": lambda tx: tx.append("100", 0, [patched("a")], NOW),
    "set_halt": lambda tx: tx.set_halt("100", ""),
    "add_commands": lambda tx: tx.add_commands([command("c2")]),
    "claim": lambda tx: tx.claim("c1", "w", NOW, LATER, 3),
    "heartbeat": lambda tx: tx.heartbeat("c1", 1, LATER),
    "release": lambda tx: tx.release("c1", 1, NOW),
    "reopen": lambda tx: tx.reopen("c1", 1),
    "close_commands": lambda tx: tx.close_commands(["c1"]),
    "mark_sent": lambda tx: tx.mark_sent(["c1"], NOW),
    "lock_command": lambda tx: tx.lock_command("c1"),
    "save_loop": lambda tx: tx.save_loop(LoopRow("100", "s#1", 0, 0, 1, True)),
    "take": lambda tx: tx.take("100", "s#1", 0, 1),
    "close_loop": lambda tx: tx.close_loop("100", "s#1"),
    "close_loops": lambda tx: tx.close_loops("100"),
    "put_net": lambda tx: tx.put_net("d", {}),
    "remember": lambda tx: tx.remember("k", "s", "100", NOW),
    "add_dead_letter": lambda tx: tx.add_dead_letter("q", "r", "b", NOW),
    "delete_credential": lambda tx: tx.delete_credential("x"),
}


@pytest.mark.parametrize("name", WRITES)
def test_a_transaction_for_reads_refuses_writes_and_locks(store: Store, name: str) -> None:
    create(store)
    add(store)
    with pytest.raises(NoetlError, match="for reads"), store.read() as tx:
        WRITES[name](tx)


def test_a_transaction_cannot_be_used_after_its_end(store: Store) -> None:
    create(store)
    with store.begin() as tx:
        pass
    with pytest.raises(NoetlError):
        tx.execution("100")
    with pytest.raises(NoetlError):
        tx.set_halt("100", "cancel")


# --- commands -------------------------------------------------------------------------------------


def test_a_command_is_read_as_it_was_added(store: Store) -> None:
    create(store)
    row = command(
        label="a/b s[3]",
        iteration=3,
        generation=2,
        priority=9,
        due_at=NOW,
        chord_id="ch",
        chord_index=1,
        chord_size=4,
        purpose="lane",
    )
    add(store, row)
    with store.begin() as tx:
        assert tx.command("c1") == row
        assert tx.lock_command("c1") == (execution(), row)
        assert tx.command("c2") is None
        assert tx.lock_command("c2") is None
        tx.add_commands([])


def test_a_command_is_added_once(store: Store) -> None:
    create(store)
    add(store)
    with pytest.raises(Conflict):
        add(store, command("c2"), command("c1"))
    with store.read() as tx:
        assert tx.command("c2") is None


def test_a_command_belongs_to_an_execution_that_exists(store: Store) -> None:
    with pytest.raises(NotFound):
        add(store, command())


def test_a_claim_takes_the_lease_and_counts_the_delivery(store: Store) -> None:
    create(store)
    add(store)
    expected = command(state="claimed", attempt=1, owner="w1", lease_until=LATER)
    assert claim(store) == expected
    with store.read() as tx:
        assert tx.command("c1") == expected


def test_a_claim_is_refused_while_a_lease_holds_and_granted_when_it_ran_out(store: Store) -> None:
    create(store)
    add(store)
    claim(store)
    assert claim(store, at=LATER - timedelta(microseconds=1)) is None
    again = claim(store, at=LATER)
    assert again is not None
    assert again.attempt == 2


def test_a_claim_is_refused_when_deliveries_are_used_up(store: Store) -> None:
    create(store)
    add(store)
    assert claim(store, limit=1) is not None
    assert claim(store, at=LATER, limit=1) is None


def test_a_claim_is_refused_before_the_command_is_due(store: Store) -> None:
    create(store)
    add(store, command(due_at=NOW + SECOND))
    assert claim(store) is None
    assert claim(store, at=NOW + SECOND) is not None


def test_a_claim_of_an_unknown_or_closed_command_is_refused(store: Store) -> None:
    create(store)
    add(store)
    with store.begin() as tx:
        tx.close_commands(["c1", "nobody"])
    assert claim(store) is None
    assert claim(store, "nobody") is None


@pytest.mark.parametrize(
    "changes",
    [{"halt": "cancel"}, {"halt": "pause"}, *({"status": s} for s in ("completed", "failed", "partial"))],
)
def test_a_claim_is_refused_when_the_execution_ended_or_halts(store: Store, changes: Any) -> None:
    create(store, execution(**changes))
    add(store)
    assert claim(store) is None


def test_a_release_gives_the_lease_back_and_uncounts_the_delivery(store: Store) -> None:
    create(store)
    add(store)
    with store.begin() as tx:
        tx.mark_sent(["c1"], NOW)
    claim(store)
    with store.begin() as tx:
        tx.release("c1", 2, LATER)
        assert tx.command("c1") == command(
            state="claimed", attempt=1, owner="w1", lease_until=LATER, sent_at=NOW
        )
        tx.release("c1", 1, LATER)
        assert tx.command("c1") == command(sent_at=LATER)
        tx.release("c1", 0, NOW)
        assert tx.command("c1") == command(sent_at=LATER)


def test_an_ended_lease_is_opened_again_and_its_delivery_stays_counted(store: Store) -> None:
    create(store)
    add(store)
    claim(store)
    with store.begin() as tx:
        tx.reopen("c1", 2)
        assert tx.command("c1") == command(state="claimed", attempt=1, owner="w1", lease_until=LATER)
        tx.reopen("c1", 1)
        assert tx.command("c1") == command(attempt=1)
        assert [row.command_id for row in tx.unsent(NOW, 10)] == ["c1"]


def test_a_message_that_did_not_leave_is_unsent_again(store: Store) -> None:
    create(store)
    add(store)
    with store.begin() as tx:
        tx.mark_sent(["c1"], NOW)
        tx.mark_sent(["c1"], None)
        assert [row.command_id for row in tx.unsent(NOW, 10)] == ["c1"]


def test_a_heartbeat_tells_the_halt_of_its_own_execution(store: Store) -> None:
    create(store, execution("99", halt="cancel"), execution(), execution("101", halt="pause"))
    add(store)
    claim(store)
    with store.begin_async_commit() as tx:
        assert tx.heartbeat("c1", 1, LATER) == ""


def test_a_heartbeat_extends_the_lease_and_tells_the_halt(store: Store) -> None:
    create(store)
    add(store)
    claim(store)
    with store.begin_async_commit() as tx:
        assert tx.heartbeat("c1", 1, LATER + SECOND) == ""
        tx.set_halt("100", "cancel")
        assert tx.heartbeat("c1", 1, LATER + SECOND) == "cancel"
    with store.read() as tx:
        assert tx.expired(LATER, 10) == []
        assert len(tx.expired(LATER + SECOND, 10)) == 1


def test_a_heartbeat_of_a_lease_that_is_no_longer_ours_is_told_so(store: Store) -> None:
    create(store)
    add(store)
    claim(store)
    claim(store, at=LATER)
    with store.begin_async_commit() as tx:
        assert tx.heartbeat("c1", 1, LATER + 99 * SECOND) is None
        assert tx.heartbeat("nobody", 1, LATER) is None
        tx.close_commands(["c1"])
        assert tx.heartbeat("c1", 2, LATER + 99 * SECOND) is None
    with store.read() as tx:
        row = tx.command("c1")
    assert row is not None
    assert row.state == "closed"


def test_a_command_waits_to_be_sent_then_claimed_then_reported(store: Store) -> None:
    create(store)
    add(store, command("c2"), command("c1"), command("c3", due_at=LATER))
    with store.begin() as tx:
        assert [row.command_id for row in tx.unsent(NOW, 10)] == ["c1", "c2"]
        assert [row.command_id for row in tx.unsent(NOW, 1)] == ["c1"]
        assert [row.command_id for row in tx.unsent(LATER, 10)] == ["c1", "c2", "c3"]
        assert tx.unclaimed(LATER, 10) == []

        tx.mark_sent(["c1"], NOW)
        assert [row.command_id for row in tx.unsent(NOW, 10)] == ["c2"]
        assert tx.unclaimed(NOW, 10) == []
        assert tx.unclaimed(NOW + SECOND, 10) == [command("c1", sent_at=NOW, context={})]

        tx.claim("c1", "w", NOW, LATER, 3)
        assert tx.unclaimed(NOW + SECOND, 10) == []
        assert tx.expired(LATER - SECOND, 10) == []
        assert [row.command_id for row in tx.expired(LATER, 10)] == ["c1"]

        tx.close_commands(["c1"])
        assert tx.expired(LATER, 10) == []
        assert [row.command_id for row in tx.open_commands("100")] == ["c2", "c3"]
        assert tx.open_commands("200") == []


def test_the_longest_waiting_come_first(store: Store) -> None:
    create(store)
    add(store, *(command(name) for name in ("a", "b", "c")))
    with store.begin() as tx:
        for name, seconds in (("a", 3), ("b", 1), ("c", 2)):
            tx.mark_sent([name], NOW + seconds * SECOND)
        assert [row.command_id for row in tx.unclaimed(LATER, 2)] == ["b", "c"]
        for name, seconds in (("a", 3), ("b", 1), ("c", 2)):
            tx.claim(name, "w", NOW, NOW + seconds * SECOND, 3)
        assert [row.command_id for row in tx.expired(LATER, 2)] == ["b", "c"]


def test_lists_of_commands_come_without_contexts(store: Store) -> None:
    create(store)
    add(store)
    with store.begin() as tx:
        assert tx.unsent(NOW, 1)[0].context == {}
        assert tx.open_commands("100")[0].context == {}
        tx.claim("c1", "w", NOW, LATER, 3)
        assert tx.expired(LATER, 1)[0].context == {}


def test_thousands_of_commands_are_closed_at_once(store: Store) -> None:
    create(store)
    names = [f"c{number}" for number in range(12_000)]
    add(store, *map(command, names))
    with store.begin() as tx:
        tx.close_commands(names)
        assert tx.open_commands("100") == []


# --- loops ----------------------------------------------------------------------------------------


def test_a_loop_hands_each_index_out_once(store: Store) -> None:
    create(store)
    with store.begin() as tx:
        tx.save_loop(LoopRow("100", "s#1", 0, 0, 5, True, items=["a", {"b": None}]))
        assert tx.take("100", "s#1", 0, 2) == (0, 1)
        assert tx.take("100", "s#1", 0, 0) == ()
        assert tx.take("100", "s#1", 0, 2) == (2, 3)
        assert tx.take("100", "s#1", 0, 2) == (4,)
        assert tx.take("100", "s#1", 0, 2) == ()
        assert tx.loop("100", "s#1") == LoopRow("100", "s#1", 0, 5, 5, True, items=["a", {"b": None}])


def test_a_closed_loop_hands_nothing_out(store: Store) -> None:
    create(store, execution("100"), execution("200"))
    with store.begin() as tx:
        for owner, run in (("100", "s#1"), ("100", "s#2"), ("100", "s#3"), ("200", "s#1")):
            tx.save_loop(LoopRow(owner, run, 0, 0, 5, True))
        tx.close_loop("100", "s#1")
        assert tx.take("100", "s#1", 0, 1) == ()
        assert tx.take("100", "s#2", 0, 1) == (0,)
        tx.close_loops("100")
        assert tx.take("100", "s#2", 0, 1) == ()
        assert tx.take("200", "s#1", 0, 1) == (0,)


def test_a_later_generation_hands_out_the_indices_that_are_left(store: Store) -> None:
    create(store)
    with store.begin() as tx:
        tx.save_loop(LoopRow("100", "s#1", 0, 3, 9, False))
        tx.save_loop(LoopRow("100", "s#1", 1, 0, 9, True, indices=(2, 5, 7)))
        assert tx.take("100", "s#1", 0, 2) == ()
        assert tx.take("100", "s#1", 1, 2) == (2, 5)
        assert tx.take("100", "s#1", 1, 2) == (7,)
        assert tx.take("100", "s#1", 1, 2) == ()
        assert tx.loop("100", "s#1") == LoopRow("100", "s#1", 1, 3, 9, True, indices=(2, 5, 7))


@pytest.mark.parametrize("generation", [0, 1])
def test_an_earlier_generation_does_not_replace_a_later_one(store: Store, generation: int) -> None:
    create(store)
    with store.begin() as tx:
        tx.save_loop(LoopRow("100", "s#1", 1, 0, 9, True))
    with pytest.raises(Conflict), store.begin() as tx:
        tx.save_loop(LoopRow("100", "s#1", generation, 0, 3, True))
    with store.read() as tx:
        assert tx.loop("100", "s#1") == LoopRow("100", "s#1", 1, 0, 9, True)


def test_an_unknown_loop_hands_nothing_out(store: Store) -> None:
    with store.begin() as tx:
        assert tx.loop("100", "s#1") is None
        assert tx.take("100", "s#1", 0, 1) == ()
        tx.close_loop("100", "s#1")
    with pytest.raises(NotFound), store.begin() as tx:
        tx.save_loop(LoopRow("100", "s#1", 0, 0, 1, True))


# --- definitions ----------------------------------------------------------------------------------


def test_a_net_is_kept_once_by_its_digest(store: Store) -> None:
    with store.begin() as tx:
        tx.put_net("d", {"name": "x", "steps": [1]})
        tx.put_net("d", {"name": "x", "steps": [1]})
        assert tx.net("d") == {"name": "x", "steps": [1]}
        assert tx.net("e") is None


def playbook(path: str, version: int) -> PlaybookRow:
    return PlaybookRow(path, version, "a: é", f"sha{version}", "d", NOW, "name", "text")


def test_the_catalog_keeps_every_version_and_shows_the_newest(store: Store) -> None:
    with store.begin() as tx:
        for path, version in (("b", 1), ("a", 2), ("a", 10), ("a", 9)):
            tx.add_playbook(playbook(path, version))
    with store.read() as tx:
        assert tx.playbook("a") == playbook("a", 10)
        assert tx.playbook("a", 2) == playbook("a", 2)
        assert tx.playbook("a", 3) is None
        assert tx.playbook("c") is None
        assert tx.playbooks() == [playbook("a", 10), playbook("b", 1)]
        assert [row.version for row in tx.playbook_versions("a")] == [10, 9, 2]


def test_a_version_of_a_playbook_is_added_once(store: Store) -> None:
    with store.begin() as tx:
        tx.add_playbook(playbook("a", 1))
    with pytest.raises(Conflict), store.begin() as tx:
        tx.add_playbook(playbook("a", 1))


# --- the rest -------------------------------------------------------------------------------------


def test_the_newest_snapshot_is_kept(store: Store) -> None:
    create(store)
    with store.begin() as tx:
        assert tx.snapshot("100") is None
        tx.save_snapshot(Snapshot("100", 5, 1, {"marking": []}))
        tx.save_snapshot(Snapshot("100", 9, 2, {"marking": [1]}))
        tx.save_snapshot(Snapshot("100", 7, 1, {"marking": [2]}))
        assert tx.snapshot("100") == Snapshot("100", 9, 2, {"marking": [1]})


def test_an_idempotency_key_has_one_owner(store: Store) -> None:
    with store.begin() as tx:
        assert tx.remember("k", "sha1", "100", NOW) is None
        assert tx.remember("k", "sha2", "200", NOW) == ("sha1", "100")
    with store.begin() as tx:
        assert tx.remember("k", "sha3", "300", NOW) == ("sha1", "100")


def test_credentials_are_saved_replaced_listed_and_deleted(store: Store) -> None:
    first = CredentialRow("pg", "postgres", b"\x00\xff1", NOW, NOW)
    with store.begin() as tx:
        tx.save_credential(first)
        tx.save_credential(CredentialRow("a", "http", b"", NOW, NOW))
        tx.save_credential(CredentialRow("pg", "postgres", b"2", LATER, LATER))
    with store.begin() as tx:
        assert tx.credential("pg") == CredentialRow("pg", "postgres", b"2", NOW, LATER)
        assert [row.name for row in tx.credentials()] == ["a", "pg"]
        assert tx.delete_credential("pg")
        assert not tx.delete_credential("pg")
        assert tx.credential("pg") is None


def test_dead_letters_are_listed_newest_first_whatever_they_hold(store: Store) -> None:
    with store.begin() as tx:
        tx.add_dead_letter("http", "not json", "\0\ud800garbage", NOW)
        tx.add_dead_letter("python", "unknown task", "{}", LATER)
    with store.read() as tx:
        newest, oldest = tx.dead_letters()
        assert tx.dead_letters(1) == [newest]
    assert {**newest, "id": 0} == {
        "id": 0,
        "source": "python",
        "reason": "unknown task",
        "body": "{}",
        "recorded_at": "2026-03-01T12:00:30+00:00",
    }
    assert oldest["body"] == "\ufffd\ufffdgarbage"


def test_workers_are_seen_until_they_fall_silent(store: Store) -> None:
    old, young = (
        WorkerRow("w2", "worker", ("http", "python"), NOW, NOW),
        WorkerRow("w1", "worker", (), NOW, LATER),
    )
    with store.begin() as tx:
        tx.see_worker(old)
        tx.see_worker(young)
        assert tx.workers(NOW - SECOND) == [young, old]
        assert tx.workers(NOW) == [young]
        tx.see_worker(replace(old, seen_at=LATER, queues=("http",)))
        assert tx.workers(NOW) == [young, replace(old, seen_at=LATER, queues=("http",))]


def test_a_shard_finds_only_what_is_its_own(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'shards.db'}"
    upgrade(url)
    mine, other = open_store(url, shard="mine"), open_store(url)
    create(mine)
    add(mine)
    try:
        for one, found in ((mine, ["c1"]), (other, [])):
            with one.begin() as tx:
                assert [row.command_id for row in tx.unsent(NOW, 10)] == found
                assert tx.execution("100") is not None, "everybody may look"
        with mine.begin() as tx:
            tx.append("100", 0, [Draft(PauseRequested())], NOW)
        for one, owing in ((other, []), (mine, ["100"])):
            with one.begin() as tx:
                assert tx.owing(NOW, 10) == owing
                assert [row.execution_id for row in tx.lock_owing(NOW, 10)] == owing
    finally:
        mine.close()
        other.close()
