"""The place of a message in line means the same with every broker."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from celery import Celery

from noetl.dispatch.celery import CeleryDispatcher, make_app
from noetl.facts.limits import LAST_PLACE
from noetl.usecases.ports import CommandRow
from tests.waiting import GUARD_S

QUEUE = "line"


@pytest.fixture(params=["redis", "filesystem", "memory"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Celery]:
    urls = {
        "redis": lambda: request.getfixturevalue("redis_url"),
        "filesystem": lambda: f"filesystem://{tmp_path}",
        "memory": lambda: "memory://",
    }
    made = make_app(urls[request.param](), None)
    yield made
    made.close()


def command(name: str, place: int) -> CommandRow:
    return CommandRow(name, "1", "s#1", "s", "pipeline", "-", QUEUE, 1, priority=place)


def received(app: Celery, count: int) -> list[str]:
    with app.connection_for_read() as connection, connection.SimpleQueue(QUEUE) as line:
        found = []
        for _ in range(count):
            message = line.get(timeout=GUARD_S)
            found.append(message.payload[0][0])
            message.ack()
        return found


def test_the_smaller_place_comes_first_and_then_the_older(app: Celery) -> None:
    mark = uuid.uuid4().hex[:6]
    rows = [command(f"{mark}-{place}-{n}", place) for n in range(2) for place in (LAST_PLACE, 4, 0, 7)]
    CeleryDispatcher(app).send(rows)
    expected = [f"{mark}-{place}-{n}" for place in (0, 4, 7, LAST_PLACE) for n in range(2)]
    assert received(app, len(rows)) == expected


def test_rabbitmq_counts_the_other_way_round_and_is_told_to_look() -> None:
    app = make_app("amqp://guest:guest@127.0.0.1:1//", None)
    dispatcher = CeleryDispatcher(app)
    first, last = (dispatcher._command(command("c", place)).options["priority"] for place in (0, LAST_PLACE))
    assert (first, last) == (9, 0)
    assert app.amqp.queues[QUEUE].queue_arguments == {"x-max-priority": 9}
