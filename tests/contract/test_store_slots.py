"""What every store promises of slots, and of what is paused."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from noetl.engine.serving import SlotAskers, serve
from noetl.facts.limits import SlotRow, holder_id
from noetl.store.installation import lock_number
from noetl.usecases.ports import Pause, Store, paused_step

from .given import LATER, NOW, SECOND, add, claim, command, create, execution


def row(execution_id: str = "100", key: str = "k", **changes: Any) -> SlotRow:
    return replace(SlotRow(execution_id, "s#1", "-", key, 1, NOW), **changes)


def file(store: Store, *rows: SlotRow) -> None:
    with store.begin() as tx:
        tx.slots.add(rows)


def read(store: Store, key: str | None = None) -> list[SlotRow]:
    with store.read() as tx:
        return tx.slots.of_key(key)


def grant(store: Store, *rows: SlotRow) -> None:
    with store.begin() as tx:
        tx.slots.lock([one.key for one in rows])
        tx.slots.grant([replace(one, granted_at=NOW) for one in rows])


FULL = row(
    on_full="skip",
    priority=9,
    within=("7//-", "7/a#1/i3"),
    requested_at=NOW + timedelta(microseconds=7),
)


def test_a_row_is_read_as_it_was_written(store: Store) -> None:
    file(store, FULL)
    assert read(store) == [FULL]


def test_there_is_one_row_for_each_holder_and_key(store: Store) -> None:
    file(store, row())
    file(store, row(requested_at=LATER, limit=5), row(key="other"))
    assert [(one.key, one.limit, one.requested_at) for one in read(store)] == [
        ("k", 1, NOW),
        ("other", 1, NOW),
    ]


def test_a_grant_writes_when_until_when_and_whose_slot_it_shares(store: Store) -> None:
    file(store, row(per_s=2.5), row(key="other"))
    made = row(per_s=2.5, granted_at=NOW, expires_at=LATER, under="7//-")
    with store.begin() as tx:
        tx.slots.lock(["k"])
        tx.slots.grant([made])
    assert read(store, "k") == [made]
    assert read(store, "other") == [row(key="other")]


@pytest.mark.parametrize(
    ("verb", "arguments", "left"),
    [
        ("free_part", ("100", "s#1", "l0"), ["100/s#1/l1", "100/t#1/-", "200/s#1/l0"]),
        ("free_run", ("100", "s#1"), ["100/t#1/-", "200/s#1/l0"]),
        ("free_execution", ("100",), ["200/s#1/l0"]),
    ],
)
def test_what_ends_frees_its_own_and_nothing_else(
    store: Store, verb: str, arguments: tuple[str, ...], left: list[str]
) -> None:
    file(store, row(part="l0"), row(part="l1"), row(run_id="t#1"), row("200", part="l0"))
    with store.begin() as tx:
        getattr(tx.slots, verb)(*arguments)
    assert sorted(one.holder for one in read(store)) == left


def test_a_slot_of_a_rate_outlives_the_run_until_it_expires(store: Store) -> None:
    file(store, row(per_s=30.0), row("200", per_s=30.0))
    with store.begin() as tx:
        tx.slots.grant([row(per_s=30.0, granted_at=NOW, expires_at=LATER)])
        tx.slots.free_execution("100")
        tx.slots.free_execution("200")
    assert [one.execution_id for one in read(store)] == ["100"]
    with store.begin() as tx:
        assert not tx.slots.has_expired(LATER - SECOND)
        assert tx.slots.has_expired(LATER)
        tx.slots.remove_expired(LATER)
    assert read(store) == []


def test_a_slot_moves_to_another_part(store: Store) -> None:
    file(store, row(part="l0"))
    grant(store, row(part="l0"))
    with store.begin() as tx:
        tx.slots.move("100", "s#1", "l0", "i7")
    assert [(one.part, one.granted_at) for one in read(store)] == [("i7", NOW)]


def test_only_what_waits_is_taken_back(store: Store) -> None:
    file(store, row(), row(key="other"))
    grant(store, row())
    with store.begin() as tx:
        tx.slots.withdraw("100", "s#1", "-")
    assert [one.key for one in read(store)] == ["k"]


def test_an_offer_is_marked_once_and_only_while_it_waits(store: Store) -> None:
    file(store, row(), row("200"), row("300"))
    grant(store, row("200"))
    with store.begin() as tx:
        tx.slots.offer(["100", "200"], NOW)
    with store.begin() as tx:
        tx.slots.offer(["100"], LATER)
    assert [(one.execution_id, one.offered_at) for one in read(store)] == [
        ("100", NOW),
        ("200", None),
        ("300", None),
    ]


def test_what_is_related_is_found_over_keys_and_callers(store: Store) -> None:
    file(
        store,
        row("100", "a"),
        row("100", "b"),
        row("200", "b", within=(holder_id("300", "", "-"),)),
        row("300", "c", run_id=""),
        row("400", "d"),
    )
    with store.read() as tx:
        found = tx.slots.related(["a"])
        assert sorted((one.execution_id, one.key) for one in found) == [
            ("100", "a"),
            ("100", "b"),
            ("200", "b"),
            ("300", "c"),
        ]
        assert tx.slots.related([]) == []


def test_keys_that_somebody_waits_for(store: Store) -> None:
    file(store, row(), row("200"), row(key="free"))
    grant(store, row(key="free"))
    with store.read() as tx:
        assert tx.slots.waiting_keys() == ["k"]


def test_the_rows_of_some_executions(store: Store) -> None:
    file(store, row(), row("200"), row("300"))
    with store.read() as tx:
        assert sorted(one.execution_id for one in tx.slots.of_executions(["100", "300"])) == ["100", "300"]


def test_who_grants_at_once_never_grants_more_than_there_is(store: Store) -> None:
    """Threads that take both keys in any order; each reads under the locks, and grants."""
    names, barrier = [str(number) for number in range(100, 116)], threading.Barrier(8)
    keys = ("a", "b", "c")

    def take(name: str) -> None:
        mine = [row(name, key, limit=3) for key in (keys if int(name) % 2 else reversed(keys))]
        barrier.wait()
        with store.begin() as tx:
            tx.slots.lock([one.key for one in mine])
            tx.slots.add(mine)
            found = tx.slots.related(keys)
            tx.slots.grant(serve(found, SlotAskers({mine[0].holder}), (), NOW).granted)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(take, names))
    held = [one for one in read(store) if one.granted_at is not None]
    assert {key: sum(one.key == key for one in held) for key in keys} == dict.fromkeys(keys, 3)
    assert len({one.execution_id for one in held}) == 3


def test_locks_have_signed_numbers_of_64_bits() -> None:
    assert all(-(2**63) <= lock_number(key) < 2**63 for key in ("", "k", "x" * 200, "ü"))


# --- what is paused -------------------------------------------------------------------------------


def test_a_pause_is_kept_once_and_ends_once(store: Store) -> None:
    one = Pause("key", "k", NOW, "ops", "too slow")
    with store.begin() as tx:
        assert tx.slots.pause(one)
        assert not tx.slots.pause(replace(one, reason="again"))
        tx.slots.pause(Pause("queue", "k", NOW))
    with store.read() as tx:
        assert tx.slots.paused("key") == [one]
        assert [each.kind for each in tx.slots.paused()] == ["key", "queue"]
    with store.begin() as tx:
        assert tx.slots.resume("key", "k")
        assert not tx.slots.resume("key", "k")


@pytest.mark.parametrize(
    "pause",
    [Pause("queue", "python", NOW), Pause("step", paused_step("100", "s"), NOW)],
    ids=["queue", "step"],
)
def test_a_command_of_what_is_paused_is_not_claimed_and_not_sent(store: Store, pause: Pause) -> None:
    create(store, execution("100"))
    add(store, command(), command("sent", sent_at=NOW))
    with store.begin() as tx:
        tx.slots.pause(pause)
    assert claim(store) is None
    with store.read() as tx:
        assert tx.commands.unsent(LATER, 10) == []
        assert tx.commands.unclaimed(LATER, 10) == []
    with store.begin() as tx:
        tx.slots.resume(pause.kind, pause.name)
    assert claim(store) is not None


def test_what_another_queue_or_step_has_is_claimed(store: Store) -> None:
    create(store, execution("100"))
    add(store)
    with store.begin() as tx:
        tx.slots.pause(Pause("queue", "http", NOW))
        tx.slots.pause(Pause("step", paused_step("100", "t"), NOW))
        tx.slots.pause(Pause("step", paused_step("200", "s"), NOW))
        tx.slots.pause(Pause("key", "python", NOW))
    assert claim(store) is not None


def test_what_waits_in_a_queue_is_sent_again(store: Store) -> None:
    create(store, execution("100"))
    add(store, command(sent_at=NOW), command("other", queue="http", sent_at=NOW))
    with store.begin() as tx:
        tx.commands.unsend("python")
    with store.read() as tx:
        assert [one.command_id for one in tx.commands.unsent(LATER, 10)] == ["c1"]
