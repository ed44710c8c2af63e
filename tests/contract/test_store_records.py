"""What every store promises of loops, definitions and the tables around the log."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from noetl.errors import Conflict, NotFound
from noetl.facts.events import Draft, IterationDone, LoopClaimed, LoopGrown
from noetl.facts.json import Json
from noetl.usecases.ports import (
    CredentialRow,
    KeyOwner,
    LoopRow,
    PlaybookRow,
    Snapshot,
    Store,
    WorkerRow,
)

from .given import LATER, NOW, SECOND, add, command, create, execution

# --- loops ----------------------------------------------------------------------------------------


def test_a_loop_hands_each_index_out_once(store: Store) -> None:
    create(store)
    with store.begin() as tx:
        tx.loops.save(LoopRow("100", "s#1", 0, 0, 5, True, items=["a", {"b": None}]))
        assert tx.loops.take("100", "s#1", 0, 2) == (0, 1)
        assert tx.loops.take("100", "s#1", 0, 0) == ()
        assert tx.loops.take("100", "s#1", 0, 2) == (2, 3)
        assert tx.loops.take("100", "s#1", 0, 2) == (4,)
        assert tx.loops.take("100", "s#1", 0, 2) == ()
        assert tx.loops.get("100", "s#1") == LoopRow("100", "s#1", 0, 5, 5, True, items=["a", {"b": None}])


def test_a_loop_is_left_behind_where_its_execution_has_ended_and_no_command_is_open(store: Store) -> None:
    create(store, execution("100"), *(execution(one, status="failed", ended_at=NOW) for one in ("20", "30")))
    add(store, command("c20", "20"), command("c30", "30", state="closed"))
    with store.begin() as tx:
        for owner in ("100", "20", "30"):
            tx.loops.save(LoopRow(owner, "s#1", 0, 0, 5, True))
            tx.loops.save(LoopRow(owner, "s#2", 0, 0, 5, False))
        assert tx.loops.left_behind(10) == ["30"]
        tx.commands.close(["c20"])
        assert tx.loops.left_behind(10) == ["20", "30"]
        assert tx.loops.left_behind(1) == ["20"]
        tx.loops.delete_of("20")
        assert tx.loops.left_behind(10) == ["30"]
        assert tx.loops.get("100", "s#1") is not None


def test_a_closed_loop_hands_nothing_out(store: Store) -> None:
    create(store, execution("100"), execution("200"))
    with store.begin() as tx:
        for owner, run in (("100", "s#1"), ("100", "s#2"), ("100", "s#3"), ("200", "s#1")):
            tx.loops.save(LoopRow(owner, run, 0, 0, 5, True))
        tx.loops.close("100", "s#1")
        assert tx.loops.take("100", "s#1", 0, 1) == ()
        assert tx.loops.take("100", "s#2", 0, 1) == (0,)
        tx.loops.close_all("100")
        assert tx.loops.take("100", "s#2", 0, 1) == ()
        assert tx.loops.take("200", "s#1", 0, 1) == (0,)


def test_a_later_generation_hands_out_the_indices_that_are_left(store: Store) -> None:
    create(store)
    with store.begin() as tx:
        tx.loops.save(LoopRow("100", "s#1", 0, 3, 9, False))
        tx.loops.save(LoopRow("100", "s#1", 1, 0, 9, True, indices=(2, 5, 7)))
        assert tx.loops.take("100", "s#1", 0, 2) == ()
        assert tx.loops.take("100", "s#1", 1, 2) == (2, 5)
        assert tx.loops.take("100", "s#1", 1, 2) == (7,)
        assert tx.loops.take("100", "s#1", 1, 2) == ()
        assert tx.loops.get("100", "s#1") == LoopRow("100", "s#1", 1, 3, 9, True, indices=(2, 5, 7))


@pytest.mark.parametrize("generation", [0, 1])
def test_an_earlier_generation_does_not_replace_a_later_one(store: Store, generation: int) -> None:
    create(store)
    with store.begin() as tx:
        tx.loops.save(LoopRow("100", "s#1", 1, 0, 9, True))
    with pytest.raises(Conflict), store.begin() as tx:
        tx.loops.save(LoopRow("100", "s#1", generation, 0, 3, True))
    with store.read() as tx:
        assert tx.loops.get("100", "s#1") == LoopRow("100", "s#1", 1, 0, 9, True)


def test_a_loop_that_grows_hands_out_what_is_new_however_far_lanes_have_asked(store: Store) -> None:
    create(store)
    with store.begin() as tx:
        tx.loops.save(LoopRow("100", "s#1", 1, 0, 0, True, items=[]))
        assert tx.loops.take("100", "s#1", 1, 3) == ()
        assert tx.loops.extend("100", "s#1", 1, 3) == LoopRow("100", "s#1", 1, 0, 3, True, items=[])
        assert tx.loops.take("100", "s#1", 1, 2) == (0, 1)
        assert tx.loops.take("100", "s#1", 1, 5) == (2,)
    with store.begin() as tx:
        assert tx.loops.extend("100", "s#1", 1, 2) == LoopRow("100", "s#1", 1, 3, 5, True, items=[])
        assert tx.loops.take("100", "s#1", 1, 5) == (3, 4)


def test_a_later_generation_of_a_growing_loop_hands_out_what_is_left_and_then_what_is_new(
    store: Store,
) -> None:
    create(store)
    with store.begin() as tx:
        tx.loops.save(LoopRow("100", "s#1", 1, 0, 0, True))
        tx.loops.extend("100", "s#1", 1, 4)
        tx.loops.save(LoopRow("100", "s#1", 2, 0, 4, True, indices=(1, 3)))
        assert tx.loops.take("100", "s#1", 2, 1) == (1,)
    with store.begin() as tx:
        grown = tx.loops.extend("100", "s#1", 2, 2)
        assert grown == LoopRow("100", "s#1", 2, 1, 6, True, indices=(1, 3, 4, 5))
        assert tx.loops.get("100", "s#1") == grown
        assert tx.loops.take("100", "s#1", 2, 9) == (3, 4, 5)


def test_a_closed_loop_grows_and_hands_nothing_out(store: Store) -> None:
    create(store)
    with store.begin() as tx:
        tx.loops.save(LoopRow("100", "s#1", 1, 0, 0, True))
        tx.loops.close("100", "s#1")
        assert tx.loops.extend("100", "s#1", 1, 2).count == 2
        assert tx.loops.take("100", "s#1", 1, 2) == ()


@pytest.mark.parametrize("generation", [1, 3])
def test_a_loop_of_another_generation_does_not_grow(store: Store, generation: int) -> None:
    create(store)
    with store.begin() as tx:
        tx.loops.save(LoopRow("100", "s#1", 2, 0, 1, True))
    with pytest.raises(Conflict), store.begin() as tx:
        tx.loops.extend("100", "s#1", generation, 2)
    with store.read() as tx:
        assert tx.loops.get("100", "s#1") == LoopRow("100", "s#1", 2, 0, 1, True)


def test_the_claim_of_an_index_is_the_last_one_that_begins_before_it(store: Store) -> None:
    create(store, execution("100"), execution("200"))

    def claimed(run: str, first: int | None, *items: Json) -> Draft:
        return Draft(LoopClaimed("l0", len(items), list(items)), step="s", run_id=run, iteration=first)

    drafts = [
        claimed("s#1", 0, "a", "b"),
        Draft(IterationDone(), step="s", run_id="s#1", iteration=0),
        claimed("s#1", None),
        claimed("s#2", 1, "other"),
        claimed("s#1", 2, "c"),
        Draft(IterationDone(), step="s", run_id="s#1", iteration=3),
    ]
    with store.begin() as tx:
        tx.executions.lock("100")
        tx.events.append("100", 0, drafts, NOW)

    def items(run: str, index: int, owner: str = "100") -> Json:
        with store.read() as tx:
            event = tx.events.claim_of(owner, run, index)
        return event.fact.items if event and isinstance(event.fact, LoopClaimed) else None

    assert [items("s#1", index) for index in range(4)] == [["a", "b"], ["a", "b"], ["c"], ["c"]]
    assert [items("s#2", index) for index in range(2)] == [None, ["other"]]
    assert items("s#1", 0, "200") is None


def test_what_was_added_to_a_loop_is_found_as_claims_are(store: Store) -> None:
    create(store, execution("100"))

    def grown(first: int | None, *items: Json) -> Draft:
        return Draft(LoopGrown(0, len(items), list(items)), step="s", run_id="s#1", iteration=first)

    with store.begin() as tx:
        tx.executions.lock("100")
        tx.events.append("100", 0, [grown(2, "c", "d"), grown(None), grown(4, "e")], NOW)
    with store.read() as tx:
        found = [tx.events.claim_of("100", "s#1", index) for index in range(1, 5)]
    assert [event and event.fact.items for event in found] == [None, ["c", "d"], ["c", "d"], ["e"]]  # type: ignore[union-attr]


def test_an_unknown_loop_hands_nothing_out(store: Store) -> None:
    with store.begin() as tx:
        assert tx.loops.get("100", "s#1") is None
        assert tx.loops.take("100", "s#1", 0, 1) == ()
        tx.loops.close("100", "s#1")
    with pytest.raises(NotFound), store.begin() as tx:
        tx.loops.save(LoopRow("100", "s#1", 0, 0, 1, True))


# --- definitions ----------------------------------------------------------------------------------


def test_a_net_is_kept_once_by_its_digest(store: Store) -> None:
    with store.begin() as tx:
        tx.nets.put("d", {"name": "x", "steps": [1]})
        tx.nets.put("d", {"name": "x", "steps": [1]})
        assert tx.nets.get("d") == {"name": "x", "steps": [1]}
        assert tx.nets.get("e") is None


def playbook(path: str, version: int) -> PlaybookRow:
    return PlaybookRow(path, version, "a: é", f"sha{version}", "d", NOW, "name", "text")


def test_the_catalog_keeps_every_version_and_shows_the_newest(store: Store) -> None:
    with store.begin() as tx:
        for path, version in (("b", 1), ("a", 2), ("a", 10), ("a", 9)):
            tx.playbooks.add(playbook(path, version))
    with store.read() as tx:
        assert tx.playbooks.get("a") == playbook("a", 10)
        assert tx.playbooks.get("a", 2) == playbook("a", 2)
        assert tx.playbooks.get("a", 3) is None
        assert tx.playbooks.get("c") is None
        assert tx.playbooks.newest() == [playbook("a", 10), playbook("b", 1)]
        assert [row.version for row in tx.playbooks.versions("a")] == [10, 9, 2]


def test_warnings_of_a_version_are_kept_with_it_and_can_be_replaced(store: Store) -> None:
    warnings = ({"code": "NOETL250", "message": "é", "hint": None, "line": 3},)
    with store.begin() as tx:
        tx.playbooks.add(replace(playbook("a", 1), warnings=warnings))
        tx.playbooks.add(playbook("a", 2))
        tx.playbooks.keep_warnings("a", 2, [*warnings, *warnings])
    with store.read() as tx:
        assert [row.warnings for row in tx.playbooks.versions("a")] == [(*warnings, *warnings), warnings]


def test_a_version_of_a_playbook_is_added_once(store: Store) -> None:
    with store.begin() as tx:
        assert tx.playbooks.add(playbook("a", 1))
    with store.begin() as tx:
        assert not tx.playbooks.add(replace(playbook("a", 1), content="b: 1"))
        assert tx.playbooks.get("a") == playbook("a", 1)


# --- the rest -------------------------------------------------------------------------------------


def test_the_newest_snapshot_is_kept(store: Store) -> None:
    create(store)
    with store.begin() as tx:
        assert tx.snapshots.get("100") is None
        tx.snapshots.save(Snapshot("100", 5, 1, {"marking": []}))
        tx.snapshots.save(Snapshot("100", 9, 2, {"marking": [1]}))
        tx.snapshots.save(Snapshot("100", 7, 1, {"marking": [2]}))
        assert tx.snapshots.get("100") == Snapshot("100", 9, 2, {"marking": [1]})


def test_an_idempotency_key_has_one_owner(store: Store) -> None:
    first = KeyOwner("sha1", "100")
    with store.begin() as tx:
        assert tx.idempotency.claim({"k": first}, NOW) == {"k": first}
        assert tx.idempotency.claim({"k": KeyOwner("sha2", "200")}, NOW) == {"k": first}
    with store.begin() as tx:
        assert tx.idempotency.claim({"k": KeyOwner("sha1", "300")}, NOW) == {"k": first}


def test_an_idempotency_key_is_given_to_another_execution_or_back(store: Store) -> None:
    mine, other = KeyOwner("sha1", "100"), KeyOwner("sha2", "200")
    with store.begin() as tx:
        tx.idempotency.claim({"a": mine, "b": mine, "c": mine}, NOW)
        tx.idempotency.give("a", "101")
        tx.idempotency.release("b")
    with store.begin() as tx:
        owners = tx.idempotency.claim({"a": other, "b": other, "c": other}, NOW)
    assert owners == {"a": KeyOwner("sha1", "101"), "b": other, "c": mine}


def test_of_many_keys_those_that_are_free_are_claimed_and_the_others_name_their_owners(store: Store) -> None:
    with store.begin() as tx:
        tx.idempotency.claim({"b": KeyOwner("sha", "100")}, NOW)
    claims = {key: KeyOwner("sha", str(200 + number)) for number, key in enumerate("abc")}
    with store.begin() as tx:
        owners = tx.idempotency.claim(claims, NOW)

    assert owners == {**claims, "b": KeyOwner("sha", "100")}


def test_credentials_are_saved_replaced_listed_and_deleted(store: Store) -> None:
    first = CredentialRow("pg", "postgres", b"\x00\xff1", NOW, NOW)
    with store.begin() as tx:
        tx.credentials.save(first)
        tx.credentials.save(CredentialRow("a", "http", b"", NOW, NOW))
        tx.credentials.save(CredentialRow("pg", "postgres", b"2", LATER, LATER))
    with store.begin() as tx:
        assert tx.credentials.get("pg") == CredentialRow("pg", "postgres", b"2", NOW, LATER)
        assert [row.name for row in tx.credentials.find()] == ["a", "pg"]
        assert tx.credentials.delete("pg")
        assert not tx.credentials.delete("pg")
        assert tx.credentials.get("pg") is None


def test_what_was_given_to_executions_is_kept_apart_from_what_somebody_set(store: Store) -> None:
    def given(name: str, execution_id: str) -> CredentialRow:
        return CredentialRow(name, "generic", b"1", NOW, NOW, "lineage", execution_id)

    rows = [given("workload.a x", "100"), given("workload.b y", "100"), given("workload.a x", "200")]
    with store.begin() as tx:
        for row in (CredentialRow("pg", "postgres", b"2", NOW, NOW), *rows):
            tx.credentials.save(row)
    with store.begin() as tx:
        assert [row.name for row in tx.credentials.find()] == ["pg"]
        assert {row.key for row in tx.credentials.find("workload.a x")} == {rows[0].key, rows[2].key}
        assert {row.key for row in tx.credentials.find_of_lineages()} == {row.key for row in rows}
        assert tx.credentials.execution_ids() == []
        assert tx.credentials.lineage_ids(None, 10) == ["100", "200"]
        assert tx.credentials.lineage_ids(None, 1) == ["100"]
        assert tx.credentials.lineage_ids("100", 10) == ["200"]
        tx.credentials.delete_of("100")
        assert tx.credentials.lineage_ids(None, 10) == ["100", "200"]
        tx.credentials.delete_of("100", "lineage")
        assert tx.credentials.find_of_lineages() == [rows[2]]


def test_credentials_of_one_name_live_beside_each_other_for_everybody_a_path_and_an_execution(
    store: Store,
) -> None:
    every = CredentialRow("pg", "postgres", b"1", NOW, NOW)
    path = CredentialRow("pg", "postgres", b"2", NOW, NOW, "path", "a/b")
    own = CredentialRow("pg", "postgres", b"3", NOW, NOW, "execution", "100")
    other = CredentialRow("x", "http", b"4", NOW, NOW, "execution", "100")
    with store.begin() as tx:
        for row in (every, path, own, other):
            tx.credentials.save(row)
    with store.begin() as tx:
        assert {row.key for row in tx.credentials.find("pg")} == {every.key, path.key, own.key}
        assert tx.credentials.get("pg") == every
        assert tx.credentials.get(path.key) == path
        assert {row.name for row in tx.credentials.find()} == {"pg", "x"}
        assert tx.credentials.execution_ids() == ["100"]
        assert tx.credentials.lineage_ids(None, 10) == []
        tx.credentials.delete_of("100", "lineage")
        assert tx.credentials.execution_ids() == ["100"]
        tx.credentials.delete_of("100")
        assert tx.credentials.execution_ids() == []
        assert [row.scope for row in tx.credentials.find("pg")] == ["global", "path"]
        assert tx.credentials.delete(path.key)
        assert tx.credentials.get("pg") == every


def test_a_credential_is_given_other_ciphertext_only_where_it_is_still_the_same(store: Store) -> None:
    row = CredentialRow("pg", "postgres", b"1", NOW, NOW, "path", "a")
    with store.begin() as tx:
        tx.credentials.save(row)
        assert tx.credentials.reencrypt(row, b"2")
        assert not tx.credentials.reencrypt(row, b"3")
        assert tx.credentials.get(row.key) == replace(row, data=b"2")


def test_dead_letters_are_listed_newest_first_whatever_they_hold(store: Store) -> None:
    with store.begin() as tx:
        tx.dead_letters.add("http", "not json", "\0\ud800garbage", NOW)
        tx.dead_letters.add("python", "unknown task", "{}", LATER)
    with store.read() as tx:
        newest, oldest = tx.dead_letters.newest()
        assert tx.dead_letters.newest(1) == [newest]
    assert {**newest, "id": 0} == {
        "id": 0,
        "source": "python",
        "reason": "unknown task",
        "body": "{}",
        "recorded_at": "2026-03-01T12:00:30+00:00",
    }
    assert oldest["body"] == "\ufffd\ufffdgarbage"


def test_workers_are_seen_until_they_fall_silent_or_leave(store: Store) -> None:
    old, young = (
        WorkerRow("w2", "worker", ("http", "python"), NOW, NOW),
        WorkerRow("w1", "worker", (), NOW, LATER),
    )
    with store.begin() as tx:
        tx.workers.see(old)
        tx.workers.see(young)
        assert tx.workers.alive(NOW - SECOND) == [young, old]
        assert tx.workers.alive(NOW) == [young]
        again = replace(old, seen_at=LATER, queues=("http",), skew_s=-0.25)
        tx.workers.see(again)
        assert tx.workers.alive(NOW) == [young, again]
        tx.workers.leave("w2")
        tx.workers.leave("w3")
        assert tx.workers.alive(NOW - SECOND) == [young]


def test_a_database_server_has_a_clock_that_goes_on_within_a_transaction(
    store: Store, store_url: str
) -> None:
    with store.read() as tx:
        first, second = tx.now(), tx.now()

    if not store_url.startswith("postgresql"):
        assert (first, second) == (None, None)
        return
    assert first is not None
    assert second is not None
    assert first < second
    assert abs((second - datetime.now(UTC)).total_seconds()) < 60
