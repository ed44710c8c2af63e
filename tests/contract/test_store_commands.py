"""What every store promises of commands: outbox, lease and fencing."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from noetl.errors import Conflict, NotFound
from noetl.facts.events import Draft, PauseRequested
from noetl.store import open_store
from noetl.store.migrate import upgrade
from noetl.usecases.ports import CommandStanding, Store

from .given import LATER, NOW, SECOND, add, append, claim, command, create, execution, patched

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
        assert tx.commands.get("c1") == row
        assert tx.commands.lock("c1") == (execution(), row)
        assert tx.commands.get("c2") is None
        assert tx.commands.lock("c2") is None
        tx.commands.add([])


def test_a_command_is_added_once(store: Store) -> None:
    create(store)
    add(store)
    with pytest.raises(Conflict):
        add(store, command("c2"), command("c1"))
    with store.read() as tx:
        assert tx.commands.get("c2") is None


def test_a_command_belongs_to_an_execution_that_exists(store: Store) -> None:
    with pytest.raises(NotFound):
        add(store, command())


def test_a_claim_takes_the_lease_and_counts_the_delivery(store: Store) -> None:
    create(store)
    add(store)
    expected = command(state="claimed", attempt=1, owner="w1", lease_until=LATER)
    assert claim(store) == expected
    with store.read() as tx:
        assert tx.commands.get("c1") == expected


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
        tx.commands.close(["c1", "nobody"])
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
        tx.commands.mark_sent(["c1"], NOW)
    claim(store)
    with store.begin() as tx:
        tx.commands.release("c1", 2, LATER)
        assert tx.commands.get("c1") == command(
            state="claimed", attempt=1, owner="w1", lease_until=LATER, sent_at=NOW
        )
        tx.commands.release("c1", 1, LATER)
        assert tx.commands.get("c1") == command(sent_at=LATER)
        tx.commands.release("c1", 0, NOW)
        assert tx.commands.get("c1") == command(sent_at=LATER)


def test_an_ended_lease_is_opened_again_and_its_delivery_stays_counted(store: Store) -> None:
    create(store)
    add(store)
    claim(store)
    with store.begin() as tx:
        tx.commands.reopen("c1", 2)
        assert tx.commands.get("c1") == command(state="claimed", attempt=1, owner="w1", lease_until=LATER)
        tx.commands.reopen("c1", 1)
        assert tx.commands.get("c1") == command(attempt=1)
        assert [row.command_id for row in tx.commands.unsent(NOW, 10)] == ["c1"]


def test_a_message_that_did_not_leave_is_unsent_again(store: Store) -> None:
    create(store)
    add(store)
    with store.begin() as tx:
        tx.commands.mark_sent(["c1"], NOW)
        tx.commands.mark_sent(["c1"], None)
        assert [row.command_id for row in tx.commands.unsent(NOW, 10)] == ["c1"]


def test_the_standing_of_a_command_has_what_was_asked_of_its_own_execution(store: Store) -> None:
    create(store, execution("99", halt="cancel"), execution(), execution("101", halt="pause"))
    add(store)
    claim(store)
    with store.read() as tx:
        found = tx.commands.standings(["c1", "nobody"])
    assert found == {"c1": CommandStanding("claimed", 1, "", 0)}
    with store.begin() as tx:
        tx.executions.lock("100")
        tx.executions.set_halt("100", "cancel")
        tx.executions.add_cancelled_parts("100", 2)
        tx.executions.add_cancelled_parts("100", 1)
    with store.read() as tx:
        assert tx.commands.standings(["c1"]) == {"c1": CommandStanding("claimed", 1, "cancel", 3)}
        row = tx.executions.get("100")
    assert row is not None
    assert row.cancelled_parts == 3


def test_a_heartbeat_extends_the_lease(store: Store) -> None:
    create(store)
    add(store)
    claim(store)
    with store.begin_async_commit() as tx:
        assert tx.commands.heartbeat("c1", 1, LATER + SECOND)
    with store.read() as tx:
        assert tx.commands.expired(LATER, 10) == []
        assert len(tx.commands.expired(LATER + SECOND, 10)) == 1


def test_a_heartbeat_of_a_lease_that_is_no_longer_ours_is_warned(store: Store) -> None:
    create(store)
    add(store)
    claim(store)
    claim(store, at=LATER)
    with store.begin_async_commit() as tx:
        assert not tx.commands.heartbeat("c1", 1, LATER + 99 * SECOND)
        assert not tx.commands.heartbeat("nobody", 1, LATER)
        tx.commands.close(["c1"])
        assert not tx.commands.heartbeat("c1", 2, LATER + 99 * SECOND)
    with store.read() as tx:
        row = tx.commands.get("c1")
    assert row is not None
    assert row.state == "closed"


def test_a_command_waits_to_be_sent_then_claimed_then_reported(store: Store) -> None:
    create(store)
    add(store, command("c2"), command("c1"), command("c3", due_at=LATER))
    with store.begin() as tx:
        assert [row.command_id for row in tx.commands.unsent(NOW, 10)] == ["c1", "c2"]
        assert [row.command_id for row in tx.commands.unsent(NOW, 1)] == ["c1"]
        assert [row.command_id for row in tx.commands.unsent(LATER, 10)] == ["c1", "c2", "c3"]
        assert tx.commands.unclaimed(LATER, 10) == []

        tx.commands.mark_sent(["c1"], NOW)
        assert [row.command_id for row in tx.commands.unsent(NOW, 10)] == ["c2"]
        assert tx.commands.unclaimed(NOW, 10) == []
        assert tx.commands.unclaimed(NOW + SECOND, 10) == [command("c1", sent_at=NOW, context={})]

        tx.commands.claim("c1", "w", NOW, LATER, 3)
        assert tx.commands.unclaimed(NOW + SECOND, 10) == []
        assert tx.commands.expired(LATER - SECOND, 10) == []
        assert [row.command_id for row in tx.commands.expired(LATER, 10)] == ["c1"]

        tx.commands.close(["c1"])
        assert tx.commands.expired(LATER, 10) == []
        assert [row.command_id for row in tx.commands.open_of("100")] == ["c2", "c3"]
        assert tx.commands.has_open("100", tx.commands.open_of("100")[0].run_id)
        assert not tx.commands.has_open("100", "other#1")
        assert tx.commands.open_of("200") == []
        assert tx.commands.open_among(["200", "100"]) == tx.commands.open_of("100")


def test_the_longest_waiting_come_first(store: Store) -> None:
    create(store)
    add(store, *(command(name) for name in ("a", "b", "c")))
    with store.begin() as tx:
        for name, seconds in (("a", 3), ("b", 1), ("c", 2)):
            tx.commands.mark_sent([name], NOW + seconds * SECOND)
        assert [row.command_id for row in tx.commands.unclaimed(LATER, 2)] == ["b", "c"]
        for name, seconds in (("a", 3), ("b", 1), ("c", 2)):
            tx.commands.claim(name, "w", NOW, NOW + seconds * SECOND, 3)
        assert [row.command_id for row in tx.commands.expired(LATER, 2)] == ["b", "c"]


def test_lists_of_commands_come_without_contexts(store: Store) -> None:
    create(store)
    add(store)
    with store.begin() as tx:
        assert tx.commands.unsent(NOW, 1)[0].context == {}
        assert tx.commands.open_of("100")[0].context == {}
        tx.commands.claim("c1", "w", NOW, LATER, 3)
        assert tx.commands.expired(LATER, 1)[0].context == {}


@pytest.mark.full("a load")
def test_thousands_of_commands_are_closed_at_once(store: Store) -> None:
    create(store)
    names = [f"c{number}" for number in range(4_000)]
    add(store, *map(command, names))
    with store.begin() as tx:
        tx.commands.close(names)
        assert tx.commands.open_of("100") == []


def test_commands_are_named_by_any_sequence(store: Store) -> None:
    create(store)
    add(store, command("c1"), command("c2"))
    with store.begin() as tx:
        tx.commands.mark_sent(("c1", "c2"), None)
        tx.commands.close(("c1",))
    with store.read() as tx:
        assert [row.command_id for row in tx.commands.open_of("100")] == ["c2"]


def test_a_shard_finds_only_what_is_its_own(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'shards.db'}"
    upgrade(url)
    mine, other = open_store(url, shard="mine"), open_store(url)
    create(mine)
    add(mine)
    try:
        for one, found in ((mine, ["c1"]), (other, [])):
            with one.begin() as tx:
                assert [row.command_id for row in tx.commands.unsent(NOW, 10)] == found
                assert tx.executions.get("100") is not None, "everybody may look"
        with mine.begin() as tx:
            tx.events.append("100", 0, [Draft(PauseRequested())], NOW)
        for one, owing in ((other, []), (mine, ["100"])):
            with one.begin() as tx:
                assert tx.executions.owing(NOW, 10) == owing
                assert [row.execution_id for row in tx.executions.lock_owing(NOW, 10).rows] == owing
    finally:
        mine.close()
        other.close()


def test_the_backlog_counts_what_owes_a_turn_and_what_nobody_has_claimed(store: Store) -> None:
    create(store, execution("100"), execution("200"), execution("300"))
    append(store, [patched("a")], execution_id="100")
    append(store, [patched("a")], execution_id="200")
    add(
        store,
        command("unsent"),
        command("due", due_at=NOW),
        command("later", due_at=LATER),
        command("sent", sent_at=NOW),
        command("claimed", sent_at=NOW),
        command("closed", sent_at=NOW),
    )
    assert claim(store, "claimed") is not None
    with store.begin() as tx:
        tx.commands.close(["closed"])
    with store.read() as tx:
        assert tx.commands.backlog(NOW, 100) == 2 + 3
        assert tx.commands.backlog(LATER, 100) == 2 + 4
        # No further than it matters.
        assert tx.commands.backlog(LATER, 1) == 3
