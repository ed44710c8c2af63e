"""What dispatchers promise about wakes, and what the Celery one leaves at the broker."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kombu
import pytest
import redis

from noetl.dispatch.celery import CeleryDispatcher, make_app
from noetl.dispatch.naming import SCHEDULER_QUEUE
from noetl.dispatch.refused import refused
from noetl.errors import Unavailable
from noetl.tasks.commands import register
from noetl.testing import Simulation
from noetl.usecases.ports import CommandRow
from tests.ports import free_port
from tests.services import RedisServer


@pytest.fixture
def dispatcher(redis_url: str) -> CeleryDispatcher:
    return CeleryDispatcher(make_app(redis_url, redis_url))


def test_one_wake_waits_for_everybody_who_asks_for_a_turn(
    dispatcher: CeleryDispatcher, redis_url: str
) -> None:
    with redis.Redis.from_url(redis_url) as client:
        for _ in range(3):
            dispatcher.wake()
        assert client.llen(SCHEDULER_QUEUE) == 1
        client.delete(SCHEDULER_QUEUE)  # its taker may have looked already
        dispatcher.wake()
        assert client.llen(SCHEDULER_QUEUE) == 1


def test_messages_that_wait_are_counted_and_a_queue_that_nobody_used_is_empty(
    dispatcher: CeleryDispatcher,
) -> None:
    assert dispatcher.waiting(SCHEDULER_QUEUE) == 0
    dispatcher.wake()
    assert dispatcher.waiting(SCHEDULER_QUEUE) == 1
    assert dispatcher.waiting("nobody") == 0


def test_a_wake_that_no_broker_takes_says_so() -> None:
    url = f"redis://127.0.0.1:{free_port()}/0"
    with pytest.raises(Unavailable, match="does not answer"):
        CeleryDispatcher(make_app(url, None)).wake()


def test_what_is_sent_arrives_though_the_broker_was_away_a_moment_ago(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first message to a queue declares it, which fails and is tried again: the message must
    not take the connection that it broke with."""
    broker = RedisServer(tmp_path)
    broker.start()
    dispatcher = CeleryDispatcher(make_app(broker.url, broker.url))
    dispatcher.wake()
    broker.kill()
    collect = kombu.Connection.collect

    def collect_and_restart(self: kombu.Connection, *args: Any) -> None:
        collect(self, *args)
        if not broker.is_alive():
            broker.start()

    monkeypatch.setattr(kombu.Connection, "collect", collect_and_restart)
    dispatcher.send([command("a", "pipeline")])
    assert dispatcher.waiting("workers") == 1
    broker.kill()


# --- purposes that nobody registered -------------------------------------------------------------


def command(name: str, purpose: str) -> CommandRow:
    return CommandRow(f"1/{name}", "1", "start#1", "start", purpose, "-", "workers", 1)


def test_a_command_for_something_unknown_stays_behind_and_others_leave(
    dispatcher: CeleryDispatcher, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        dispatcher.send([command("a", "later"), command("b", "pipeline")])
    assert dispatcher.waiting("workers") == 1
    assert [record.message for record in caplog.records] == [
        "A command is not sent: Command 1/a has the purpose 'later', which this release does not know; a "
        "later release "
        "wrote it, so let this process run that one too."
    ]


@pytest.fixture
def dead_letters() -> Iterator[list[tuple[str, str]]]:
    found: list[tuple[str, str]] = []

    def keep(reason: str = "", body: str = "", **_: object) -> None:
        found.append((reason, body))

    refused.connect(keep)
    yield found
    refused.disconnect(keep)


def test_a_message_about_something_unknown_becomes_a_dead_letter(
    redis_url: str, dead_letters: list[tuple[str, str]]
) -> None:
    sim = Simulation("{metadata: {path: one}, workflow: [{step: start, tool: {kind: noop}}]}")
    execution_id = sim.start()
    row = CommandRow(f"{execution_id}/a", execution_id, "-", "-", "later", "-", "scheduler", 1)
    with sim.rt.store.begin() as tx:
        tx.commands.add([row])
    app = make_app(redis_url, redis_url)
    register(app, lambda: sim.worker)
    assert app.tasks["noetl.tell"].apply(args=(row.command_id,)).state == "IGNORED"
    ((reason, body),) = dead_letters
    assert reason.startswith(f"Command {row.command_id} has the purpose 'later'")
    assert body == row.command_id
    assert len(sim.events(execution_id)) > 1, "a turn was taken all the same"


def test_tasks_are_those_of_their_application_alone() -> None:
    apps = [make_app("memory://", None), make_app("memory://", None)]
    for app in apps:
        register(app, lambda: pytest.fail("nothing is carried out"))
        app.finalize()
    assert "noetl.tell" not in make_app("memory://", None).tasks
    one, other = (app.tasks["noetl.tell"] for app in apps)
    assert one.run.__func__ is not other.run.__func__
