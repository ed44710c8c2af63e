"""A task that is called off cancels its jobs, wherever it was, and says what it could not."""

from __future__ import annotations

import pytest

from noetl.errors import ToolError
from noetl.quantum.backends.ports import MaybeSubmitted
from noetl.quantum.jobs import machine as jobs
from noetl.quantum.model import CircuitRun

from .orders import bell, sweep
from .play import Play
from .vendor import Died, Vendor


def running(vendor: Vendor, orders: list[CircuitRun]) -> Play:
    return Play(vendor, lambda context: jobs.run(context, orders), vendor.clock)


def called_off(play: Play) -> ToolError:
    play.abandoned = True
    return play.fails()


@pytest.mark.parametrize("calls", range(1, 6))
@pytest.mark.parametrize("elsewhere", [False, True], ids=["same worker", "another worker"])
def test_no_job_is_left_of_a_task_that_was_cancelled_after_any_of_its_calls(
    calls: int, elsewhere: bool
) -> None:
    vendor = Vendor(run_s=600.0)
    play = running(vendor, sweep(12))
    for _ in range(calls):
        play.step()
    if elsewhere:
        play.restart()

    error = called_off(play)

    assert (error.kind, vendor.paid()) == ("cancelled", [])


@pytest.mark.parametrize("death", ["before", "after", "late"])
def test_what_a_worker_sent_as_it_died_is_found_and_cancelled(death: str) -> None:
    vendor = Vendor(run_s=600.0, fate=lambda verb: death if verb == "submit" else "ok")
    play = running(vendor, [bell()])
    play.step()
    with pytest.raises(Died):
        play.step()
    vendor.fate = lambda _: "ok"
    play.restart()

    error = called_off(play)

    assert (error.kind, vendor.paid()) == ("cancelled", [])


def test_jobs_that_could_not_be_cancelled_are_named_with_the_reason() -> None:
    def fate(verb: str) -> str:
        if verb == "cancel":
            raise ToolError("server_error", "vendor answered 500.", retryable=True)
        return "ok"

    vendor = Vendor(run_s=600.0, fate=fate)
    play = running(vendor, [bell()])
    for _ in range(3):
        play.step()
    asked = vendor.clock()

    error = called_off(play)

    assert (error.kind, error.type) == ("server_error", "JobsLeft")
    assert error.message == (
        "Jobs job-0 of this task could not be cancelled at vendor (vendor answered 500); look "
        "after them in its portal."
    )
    assert (vendor.clock() - asked).total_seconds() > 30.0


def test_an_order_that_nobody_can_look_for_is_reported_with_its_label() -> None:
    def fate(verb: str) -> str:
        if verb == "submit":
            raise MaybeSubmitted("connection", "The answer got lost.", retryable=True)
        return "ok"

    vendor = Vendor(run_s=600.0, finds=False, fate=fate)
    play = running(vendor, [bell()])
    play.step()
    play.step()

    error = called_off(play)

    assert (error.type, "noetl-" in error.message) == ("UnknownSubmission", True)


def test_a_task_that_looked_after_the_jobs_of_another_one_leaves_them() -> None:
    vendor = Vendor(run_s=600.0)
    theirs = Play(vendor, lambda context: jobs.submit(context, [bell()]), vendor.clock).end().jobs
    play = Play(vendor, lambda context: jobs.poll(context, theirs), vendor.clock)
    play.step()

    assert called_off(play).kind == "cancelled"
    assert len(vendor.paid()) == 1
