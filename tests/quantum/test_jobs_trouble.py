"""Vendors that are away, busy or wrong, call by call: a clear end, and nothing that is paid for
without anybody's knowing."""

from __future__ import annotations

import pytest

from noetl.errors import ToolError
from noetl.pipeline.deadline import LONGEST_WAIT_S
from noetl.pipeline.model import Later
from noetl.quantum.backends.limiter import Throttled
from noetl.quantum.backends.ports import MaybeSubmitted
from noetl.quantum.jobs import machine as jobs
from noetl.quantum.model import CircuitRun

from .orders import bell, sweep
from .play import Play
from .vendor import Died, Vendor

HOUR = 3600.0


def running(vendor: Vendor, orders: list[CircuitRun], deadline_s: float | None = None) -> Play:
    return Play(vendor, lambda context: jobs.run(context, orders), vendor.clock, deadline_s=deadline_s)


def away(*verbs: str, kind: str = "server_error", after: float | None = None) -> object:
    """These requests fail as if they might go well later; `after` is what the vendor asks for."""

    def fate(verb: str) -> str:
        if verb in verbs:
            http = {} if after is None else {"http": {"retry_after": after}}
            error = MaybeSubmitted if verb == "submit" and kind == "server_error" else ToolError
            raise error(kind, "vendor answered 500.", retryable=True, extras=http)
        return "ok"

    return fate


def sent(play: Play) -> None:
    """Plays until the jobs are there and known."""
    play.step()
    play.step()


def test_a_job_that_was_done_by_the_time_it_is_found_tells_its_cost_as_others_do() -> None:
    vendor = Vendor(run_s=5.0, fate=lambda verb: "lost" if verb == "submit" else "ok")
    done = running(vendor, [bell()]).end()
    assert (done.jobs["p0"].status, done.jobs["p0"].cost) == ("done", 1.5)
    assert (vendor.asked.count("submit"), vendor.asked.count("poll")) == (1, 1)


def test_a_vendor_that_never_answers_a_submission_fails_the_task_after_an_hour_of_rare_tries() -> None:
    vendor = Vendor(fate=away("submit"))  # type: ignore[arg-type]
    play = running(vendor, [bell()])
    error = play.fails(1000)
    assert (error.kind, error.message) == ("server_error", "vendor answered 500.")
    assert HOUR < (play.clock() - play.began).total_seconds() < 2 * HOUR
    assert vendor.asked.count("submit") < 30
    assert len(play.recorded) < 100


def test_what_was_sent_last_is_looked_for_by_the_next_attempt_before_it_is_sent_again() -> None:
    vendor = Vendor(fate=away("submit"))  # type: ignore[arg-type]
    play = running(vendor, [bell()])
    play.fails(1000)
    known = len(vendor.asked)
    vendor.fate = lambda _: "ok"
    play.again()
    play.end()
    assert vendor.asked[known:][:2] == ["find", "find"]
    assert len(vendor.jobs) == 1


def test_a_vendor_that_says_slow_down_for_a_day_fails_the_task_and_sent_nothing() -> None:
    vendor = Vendor(fate=away("submit", kind="rate_limit"))  # type: ignore[arg-type]
    play = running(vendor, [bell()])
    error = play.fails(2000)
    assert (error.kind, error.retryable, vendor.jobs) == ("rate_limit", True, [])
    assert 24 * HOUR < (play.clock() - play.began).total_seconds() < 26 * HOUR


def test_a_retry_after_of_centuries_is_a_wait_of_a_day() -> None:
    vendor = Vendor(fate=away("submit", kind="rate_limit", after=1e11))  # type: ignore[arg-type]
    play = running(vendor, [bell()])
    play.step()
    came = play.step()
    assert isinstance(came, Later)
    assert came.seconds == 24 * HOUR < LONGEST_WAIT_S


def test_a_job_that_stays_queued_for_days_is_one_job_and_two_lines_of_the_log() -> None:
    vendor = Vendor(run_s=3 * 24 * HOUR)
    play = running(vendor, [bell()])
    play.end(1_000)
    assert (len(vendor.jobs), len(play.recorded)) == (1, 2)


def test_a_token_that_is_revoked_fails_the_task_with_the_jobs_that_go_on_and_a_new_one_goes_on_with_them() -> (
    None
):
    vendor = Vendor(run_s=60)
    play = running(vendor, sweep(2))
    sent(play)

    def revoked(verb: str) -> str:
        raise ToolError("auth", "vendor refused: it answered 401.", type="Http401")

    vendor.fate = revoked
    error = play.fails()
    assert error.message == "vendor refused: it answered 401; job-0, job-1 of this task go on."
    assert (error.kind, error.extras["jobs"]) == ("auth", {"p0": "job-0", "p1": "job-1"})
    vendor.fate = lambda _: "ok"
    play.again()
    assert len(play.end().samples) == len(vendor.jobs) == 2


def test_a_token_that_is_revoked_between_two_orders_says_why_the_first_job_could_not_be_cancelled() -> None:
    vendor = Vendor(run_s=60)

    def fate(verb: str) -> str:
        if vendor.jobs:
            raise ToolError("auth", "vendor answered 401.", type="Http401")
        return "ok"

    vendor.fate = fate
    error = running(vendor, sweep(3)).fails()
    assert error.message == "vendor answered 401; job-0 of this task goes on (vendor answered 401)."
    assert error.extras["jobs"] == {"p0": "job-0"}


def test_jobs_of_a_task_whose_time_is_over_are_cancelled_although_the_bucket_is_empty_at_first() -> None:
    vendor = Vendor(run_s=10_000)
    play = running(vendor, sweep(3), deadline_s=300.0)
    given = iter([True, False, True, False])

    def fate(verb: str) -> str:
        if verb == "cancel" and not next(given, True):
            raise Throttled("vendor", 2.0)
        return "ok"

    vendor.fate = fate
    error = play.fails(1000)
    assert (error.type, vendor.paid()) == ("JobTimeout", [])
    assert error.message.endswith("job-0, job-1, job-2; they were cancelled.")


def test_a_vendor_that_cancels_nothing_ends_the_task_in_time_all_the_same() -> None:
    vendor = Vendor(run_s=10_000, fate=away("cancel"))  # type: ignore[arg-type]
    play = running(vendor, sweep(2), deadline_s=300.0)
    error = play.fails(1000)
    assert error.message.endswith("job-0, job-1; not all of them could be cancelled (vendor answered 500).")
    assert (play.clock() - play.began).total_seconds() < 300


def test_what_shows_only_after_the_time_of_the_task_is_over_is_cancelled_too() -> None:
    vendor = Vendor(run_s=10_000, late_s=9.9)
    play = running(vendor, [bell()], deadline_s=12.0)
    play.step()
    vendor.fate = lambda verb: "late" if verb == "submit" else "ok"
    with pytest.raises(Died):
        play.step()
    play.restart()
    assert play.fails(1000).type == "JobTimeout"
    assert [job.cancelled for job in vendor.jobs] == [True]


@pytest.mark.parametrize("behind", [0.0, 540.0])
def test_jobs_are_found_at_a_vendor_whose_clock_is_behind(behind: float) -> None:
    vendor = Vendor(run_s=600.0)
    play = running(vendor, [bell()])
    play.step()
    vendor.fate = lambda verb: "after" if verb == "submit" else "ok"
    with pytest.raises(Died):
        play.step()
    vendor.jobs[0].at = play.began.fromtimestamp(play.began.timestamp() - behind, play.began.tzinfo)
    vendor.fate = lambda _: "ok"
    play.restart()
    play.end()
    assert len(vendor.jobs) == 1


@pytest.mark.parametrize("first", [0, 1])
def test_two_workers_that_make_the_same_call_in_the_same_second_send_once(first: int) -> None:
    vendor = Vendor(run_s=60)
    mine = running(vendor, sweep(3))
    mine.step()
    other = running(vendor, sweep(3))
    other.clock, other.recorded = mine.clock, list(mine.recorded)
    pair = [mine, other]
    for worker in (pair[first], pair[1 - first]):
        came = worker.call()
        assert isinstance(came, Later)
        worker.record(came)
    assert len(mine.end().samples) == len(other.end().samples) == 3
    assert len(vendor.jobs) == 3


def test_a_job_that_is_one_too_many_is_cancelled_although_the_bucket_is_empty_at_first() -> None:
    vendor = Vendor(run_s=600, late_s=15.0)
    play = running(vendor, [bell()])
    play.step()
    vendor.fate = lambda verb: "late" if verb == "submit" else "ok"
    with pytest.raises(Died):
        play.step()
    play.restart()
    given = iter([False, False, True])

    def fate(verb: str) -> str:
        if verb == "cancel" and not next(given):
            raise Throttled("vendor", 1.0)
        return "ok"

    vendor.fate = fate
    play.end()
    assert (len(vendor.jobs), len(vendor.paid())) == (2, 1)
    assert vendor.asked.count("cancel") == 3
    assert vendor.asked.count("find") == 3


def test_where_jobs_cannot_be_found_an_order_is_sent_again_once_in_an_attempt_if_the_author_wants_it() -> (
    None
):
    vendor = Vendor(finds=False, resubmits=True, fate=lambda verb: "lost" if verb == "submit" else "ok")
    play = running(vendor, sweep(2))
    assert play.fails().type == "UnknownSubmission"
    assert [job.order.name for job in vendor.jobs] == ["p0", "p0"]
    vendor.fate = lambda _: "ok"
    play.again()
    assert len(play.end().samples) == 2
