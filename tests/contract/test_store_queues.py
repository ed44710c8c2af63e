"""What every store promises of queues: how much lies in them, for whom, and since when."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from noetl.facts.events import CommandIssued, Draft
from noetl.store import open_store
from noetl.store.migrate import upgrade
from noetl.usecases.ports import Pause, QueueDepth, Store, paused_step

from .given import LATER, NOW, SECOND, add, append, claim, command, create, execution


def depths(store: Store, most: int = 100, at: datetime = NOW) -> list[QueueDepth]:
    with store.read() as tx:
        return list(tx.queues.depths(at, most))


def test_queues_are_counted_by_playbook(store: Store) -> None:
    create(store, execution(), execution("101", path="a/c", digest="d2"))
    add(
        store,
        command("c1", sent_at=NOW),
        command("c2", part="l2", due_at=LATER),
        command("c3", part="l3", queue="http", sent_at=NOW),
        command("c4", "101", sent_at=NOW + SECOND),
        command("c5", "101", part="l5", sent_at=NOW),
        command("c6", "101", part="l6"),
    )
    claim(store, "c5")
    with store.begin() as tx:
        tx.commands.close(["c6"])
    assert depths(store) == [
        QueueDepth("http", "a/b", waiting=1, ready=1, held=0, oldest=NOW),
        QueueDepth("python", "a/b", waiting=2, ready=1, held=0, oldest=NOW),
        QueueDepth("python", "a/c", waiting=1, ready=1, held=1, oldest=NOW + SECOND),
    ]
    assert depths(store, 1) == [QueueDepth("python", "a/b", 1, 1, 0, NOW)], "no further than it matters"


def test_who_waits_has_waited_since_it_was_asked_for_however_often_it_was_sent(store: Store) -> None:
    create(store)
    fact = CommandIssued("c1", "pipeline", "-", "python", 1, 0)
    append(store, [Draft(fact, step="s", run_id="s#1", dedup_key="issued:s#1/-/1")])
    add(store, command("c1", sent_at=LATER), command("c2", part="l2", due_at=NOW + SECOND, sent_at=LATER))
    assert [one.oldest for one in depths(store, at=LATER)] == [NOW]
    with store.read() as tx:
        found = tx.queues.find("open", "python")
    assert [(one.part, one.since) for one in found] == [("-", NOW), ("l2", NOW + SECOND)]


def test_what_is_paused_waits_and_is_not_ready(store: Store) -> None:
    create(store, execution(), execution("101", halt="pause"))
    add(store, command("c1", step="t"), command("c2", queue="http"), command("c3"), command("c4", "101"))
    with store.begin() as tx:
        tx.slots.pause(Pause("queue", "http", NOW))
        tx.slots.pause(Pause("step", paused_step("100", "t"), NOW))
    found = {one.queue: (one.waiting, one.ready) for one in depths(store)}
    assert found == {"http": (1, 0), "python": (3, 1)}


def test_those_in_queues_are_found_in_the_order_in_which_they_are_taken(store: Store) -> None:
    create(store, execution(key="order-7"))
    add(
        store,
        command("c1", sent_at=NOW, priority=5),
        command("c2", sent_at=NOW + SECOND, priority=0, part="l1", purpose="lane"),
        command("c3", sent_at=NOW, priority=0, queue="http", iteration=3),
        command("c4", sent_at=NOW, priority=9),
    )
    claim(store, "c4")
    with store.read() as tx:
        waiting, held = tx.queues.find("open"), tx.queues.find("claimed")
        assert tx.queues.find("claimed", "http") == []
        assert len(tx.queues.find("open", limit=2)) == 2
        assert [one.queue for one in tx.queues.find("open", "http")] == ["http"]
    assert [(one.priority, one.queue, one.part) for one in waiting] == [
        (0, "http", "-"),
        (0, "python", "l1"),
        (5, "python", "-"),
    ]
    (one,) = held
    assert (one.execution_id, one.path, one.key, one.owner, one.attempt) == ("100", "a/b", "order-7", "w1", 1)


def test_what_is_another_processes_own_is_not_in_the_queues(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'shards.db'}"
    upgrade(url)
    mine, other = open_store(url, shard="mine"), open_store(url)
    create(mine)
    add(mine)
    try:
        for one, count in ((mine, 1), (other, 0)):
            assert len(depths(one)) == count
            with one.read() as tx:
                assert len(tx.queues.find("open")) == count
    finally:
        mine.close()
        other.close()
