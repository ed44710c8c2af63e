"""The fan-in of loops on Celery: no sweeper, and workers that wake nobody. Only a chord's body asks
for the turn that ends a loop, so a loop that ends was ended by its chord."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from noetl.dispatch.celery import CeleryDispatcher
from noetl.dispatch.naming import celery_task_id
from noetl.usecases.ports import CommandRow
from tests import services
from tests.waiting import GUARD_S, until

from .playbooks import BARE_LOOP, counted, head
from .stack import Stack

pytestmark = [
    pytest.mark.acceptance,
    pytest.mark.postgres,
    pytest.mark.redis,
    pytest.mark.full("faults of one part that the sweeper makes good, too"),
]

#: Nothing but the chord: no sweeper runs, and reports wake nobody.
ALONE = {"sweep_s": 0, "report_wake": 0}


@pytest.fixture(scope="module")
def quiet(
    tmp_path_factory: pytest.TempPathFactory,
    postgres_server: services.Postgres,
    postgres_template: str,
    broker_of_module: str,
) -> Iterator[Stack]:
    url = postgres_server.create(postgres_template)
    home = tmp_path_factory.mktemp("quiet")
    with Stack(home, url, broker_of_module, ("scheduler", "code"), ALONE) as running:
        yield running
    postgres_server.drop(url)


@pytest.fixture
def stack(quiet: Stack) -> Iterator[Stack]:
    yield quiet
    quiet.check_logs()


@pytest.fixture
def broker(quiet: Stack) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(quiet.broker) as client:
        yield client


def lanes(stack: Stack, execution: str) -> list[CommandRow]:
    with stack.rt.store.read() as tx:
        return [row for row in tx.commands.open_of(execution) if row.purpose == "lane"]


def commands(stack: Stack, execution: str) -> list[str]:
    rows = stack.sql("SELECT command_id FROM command WHERE execution_id = :id", id=int(execution))
    return [row[0] for row in rows]


def lane_received(stack: Stack, command: str) -> int:
    """How many messages of this command the worker has received."""
    return stack.running["code"].said().count(f"[{celery_task_id(command)}] received")


def turns_received(stack: Stack, since: int) -> int:
    return len(re.findall(r"noetl\.turn\[\S+\] received", stack.running["scheduler"].said()[since:]))


def begin(stack: Stack, items: int, width: int, nap: float, effects: Path | str = "") -> str:
    payload = {"items": list(range(items)), "width": width, "nap": nap, "effects": str(effects)}
    return stack.begin(BARE_LOOP, payload)


def all_done(stack: Stack, execution: str, items: int) -> None:
    stack.wait([execution])
    report = stack.report(execution)
    assert report.steps["start"]["result"]["results"] == [n * n for n in range(items)]
    stack.check_log_of(execution)


def at_rest(broker: redis.Redis) -> bool:
    """Whether no message waits for a worker, and none is being worked on."""
    return not messages(broker, "python") and not messages(broker, "scheduler") and not broker.hlen("unacked")


def test_without_a_chord_body_such_a_stack_would_not_notice_an_end(stack: Stack, broker: redis.Redis) -> None:
    """That what follows proves something: after a step that is no loop, nobody asks for a turn."""
    execution = stack.begin(ONE_STEP)
    ended = "SELECT count(*) FROM event WHERE execution_id = :id AND type = 'step.done' AND step = 'start'"
    until(lambda: stack.sql(ended, id=int(execution))[0][0] == 1, "the step's end")
    until(lambda: at_rest(broker), "workers to have nothing more to do")
    assert stack.row(execution).status == "running"
    stack.rt.dispatcher.wake()
    stack.wait([execution])


ONE_STEP = (
    head("one_step")
    + """
workflow:
  - step: start
    tool: {kind: python, code: result = 1}
    next: end
  - step: end
"""
)


@pytest.mark.parametrize(("items", "width"), [(1, 4), (7, 3), (40, 16)])
def test_the_body_of_the_chord_alone_completes_a_loop(stack: Stack, items: int, width: int) -> None:
    all_done(stack, begin(stack, items, width, 0.005), items)


def test_lanes_that_give_way_many_times_keep_their_place_in_the_chord(stack: Stack) -> None:
    """80 iterations of 30 ms in 2 lanes, two or three to a slice, are more than ten slices each,
    and as many messages."""
    execution = begin(stack, 80, 2, 0.03)
    all_done(stack, execution, 80)
    received = [lane_received(stack, lane) for lane in commands(stack, execution)]
    assert len(received) == 2
    assert min(received) > 10
    attempts = stack.sql("SELECT attempt FROM command WHERE execution_id = :id", id=int(execution))
    assert {row[0] for row in attempts} == {1}


def test_lanes_that_are_sent_twice_neither_complete_the_chord_early_nor_block_it(
    stack: Stack, effects: Path
) -> None:
    """The scheduler takes two turns: that of the start, and that of the chord's body."""
    since = len(stack.running["scheduler"].said())
    execution = begin(stack, 16, 4, 0.12, effects)
    turns = 1
    until(lambda: turns_received(stack, since) == turns, "the turn that issues the lanes")
    for lane in until(lambda: lanes(stack, execution), "lanes"):
        # Side by side: while one child works on the lane, the other is refused it.
        for _ in range(2):
            stack.rt.dispatcher.send([lane])
    all_done(stack, execution, 16)
    # Had it run before the last lane ended, it would have had to run again.
    assert turns_received(stack, since) == 2, "the body ran more than once"
    assert set(counted(effects).values()) == {1}


def messages(client: redis.Redis, queue: str) -> list[tuple[str, bytes, dict[str, Any]]]:
    """(list, raw message, headers) of what waits in the queue, at any priority."""
    found = []
    for key in client.scan_iter(f"{queue}*"):
        if client.type(key) != b"list":
            continue
        found += [(key, raw, json.loads(raw)["headers"]) for raw in client.lrange(key, 0, -1)]
    return found


@pytest.mark.parametrize("lost", [1, 4], ids=["one-lane", "all-lanes"])
def test_lanes_whose_messages_were_lost_complete_the_chord_when_they_are_sent_again(
    stack: Stack, broker: redis.Redis, lost: int
) -> None:
    stack.app.control.cancel_consumer("python", reply=True, limit=1, timeout=GUARD_S)
    execution = begin(stack, 12, 4, 0.01)
    until(lambda: len(messages(broker, "python")) == 4, "four messages")
    gone = [headers["id"] for _, _, headers in messages(broker, "python")][:lost]
    for key, raw, headers in messages(broker, "python"):
        if headers["id"] in gone:
            assert broker.lrem(key, 1, raw) == 1
    stack.app.control.add_consumer("python", reply=True, limit=1, timeout=GUARD_S)
    from_the_chord = [lane for lane in lanes(stack, execution) if _task_id(lane) in gone]
    if lost < 4:
        until(lambda: stack.ended_iterations(execution) == 12, "the work of the lanes that were not lost")
        until(lambda: at_rest(broker), "workers to have nothing more to do")
        assert stack.row(execution).status == "running", "the chord completed without all of its lanes"
    CeleryDispatcher(stack.app).send(from_the_chord)
    all_done(stack, execution, 12)
    assert len(from_the_chord) == lost


def _task_id(lane: CommandRow) -> str:
    return celery_task_id(lane.command_id)
