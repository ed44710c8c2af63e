"""Purposes of commands: each is registered once, and what is not registered is an error wherever it
turns up."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import get_args, get_type_hints

import pytest

from noetl.dispatch.local import LocalDispatcher
from noetl.errors import UnknownPurpose
from noetl.facts.events import CommandIssued
from noetl.testing import Message, Simulation
from noetl.usecases import inspect, waiting
from noetl.usecases.parent_notifications import notify
from noetl.usecases.ports import CommandRow
from noetl.usecases.purposes import PURPOSES, find_purpose
from noetl.usecases.sweep import sweep
from tests.waiting import GUARD_S

PLAYBOOK = """
metadata: {path: one}
workflow:
  - {step: start, tool: {kind: noop}}
"""


def lose_its_meaning(sim: Simulation) -> CommandRow:
    """Starts the playbook; its only command is now for something that a later release knows."""
    sim.start()
    sim.deliver()
    row = sim.mailbox.messages.pop().command
    assert row is not None
    later = replace(row, command_id=f"{row.command_id}/later", purpose="later")
    with sim.rt.store.begin() as tx:
        tx.commands.close([row.command_id])
        tx.commands.add([later])
    return later


def test_purposes_that_share_a_celery_task_share_their_handler_and_their_queue() -> None:
    by_task = {purpose.task: purpose for purpose in PURPOSES.values()}
    for purpose in PURPOSES.values():
        shared = by_task[purpose.task]
        assert (purpose.handler, purpose.queue, purpose.in_chord) == (
            shared.handler,
            shared.queue,
            shared.in_chord,
        )


def test_what_the_engine_issues_is_registered_and_claimed_by_workers() -> None:
    issued = get_args(get_type_hints(CommandIssued)["purpose"])
    assert {name for name, purpose in PURPOSES.items() if purpose.is_claimed} == set(issued)


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("pipeline", "books/one:load"),
        ("lane", "books/one:load[lane 3]"),
        ("iteration", "books/one:load[7]"),
        ("answer", "answer l3"),
        ("abandon", "abandon books/one:load"),
    ],
)
def test_a_label_says_what_the_command_is_about(name: str, label: str) -> None:
    assert PURPOSES[name].label_of("books/one", "load", "l3", 7) == label


def test_a_simulation_refuses_a_purpose_that_nobody_registered() -> None:
    sim = Simulation(PLAYBOOK)
    row = lose_its_meaning(sim)
    sim.mailbox.messages.append(Message(row))
    with pytest.raises(UnknownPurpose, match="has the purpose 'later', which this release does not know"):
        sim.settle()
    with pytest.raises(UnknownPurpose):
        inspect.has_to_notify(sim.rt, row.execution_id)


def test_a_notification_of_another_kind_is_refused_and_stays_open() -> None:
    sim = Simulation(PLAYBOOK)
    row = lose_its_meaning(sim)
    with pytest.raises(UnknownPurpose, match=row.command_id):
        notify(sim.worker, row.command_id)
    with sim.rt.store.read() as tx:
        kept = tx.commands.get(row.command_id)
    assert kept is not None
    assert kept.state == "open"


def test_the_sweeper_gives_up_others_beside_a_lost_command_that_it_does_not_know(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sim = Simulation(PLAYBOOK)
    sim.rt = replace(sim.rt, limits=replace(sim.rt.limits, max_deliveries=1))
    later = lose_its_meaning(sim)
    execution_id = sim.start()
    sim.deliver()
    known = sim.mailbox.messages.pop().command
    assert known is not None
    with sim.rt.store.begin() as tx:
        for row in (later, known):
            assert tx.commands.claim(row.command_id, "gone", sim.now, sim.now, 5) is not None
    with caplog.at_level(logging.ERROR):
        sim.now = sim.now.replace(hour=1)
        sweep(sim.rt)
    assert [record.message for record in caplog.records] == [
        f"A command whose workers were lost is not given up: {_why(later)}"
    ]
    assert "command.lost" in sim.types(execution_id)


def test_a_local_worker_logs_what_it_does_not_know_and_serves_the_next(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sim = Simulation(PLAYBOOK)
    row = lose_its_meaning(sim)
    execution_id = sim.start()
    dispatcher = LocalDispatcher(1)
    rt = replace(sim.rt, dispatcher=dispatcher)
    with caplog.at_level(logging.ERROR):
        dispatcher.start(rt)
        try:
            dispatcher.send([row])
            dispatcher.wake()
            found = waiting.wait_for_result(rt, execution_id, GUARD_S)
        finally:
            dispatcher.stop()
    assert found.row.status == "completed"
    assert [record.message for record in caplog.records] == [f"Command {row.command_id} is left: {_why(row)}"]


def _why(row: CommandRow) -> str:
    with pytest.raises(UnknownPurpose) as caught:
        find_purpose(row)
    return caught.value.message
