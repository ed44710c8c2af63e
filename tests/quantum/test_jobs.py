"""Jobs on machines elsewhere, call by call."""

from __future__ import annotations

import pytest

from noetl.errors import ToolError
from noetl.pipeline.model import Later
from noetl.quantum.backends.limiter import Throttled
from noetl.quantum.jobs import machine as jobs
from noetl.quantum.jobs.job_pass import JobContext, JobResults
from noetl.quantum.model import CircuitRun

from .orders import bell, sweep
from .play import Play
from .vendor import Clock, Died, Vendor


def running(vendor: Vendor, orders: list[CircuitRun], **more: float) -> Play:
    return Play(vendor, lambda context: jobs.run(context, orders), vendor.clock, **more)  # type: ignore[arg-type]


def fates(*said: str) -> object:
    """What happens to the next submissions, one each; all other requests go well."""
    left = list(said)
    return lambda verb: left.pop(0) if verb == "submit" and left else "ok"


def test_a_sweep_is_sent_waited_for_and_fetched_once() -> None:
    vendor = Vendor()
    play = running(vendor, sweep(12))
    done = play.end()
    assert list(done.samples) == [f"p{n}" for n in range(12)]
    assert {samples.repetitions for samples in done.samples.values()} == {100}
    assert (len(vendor.jobs), sorted(vendor.fetched)) == (12, sorted(job.id for job in vendor.jobs))
    assert "find" not in vendor.asked


def test_nothing_is_sent_before_the_log_holds_the_intent() -> None:
    vendor = Vendor()
    play = running(vendor, [bell()])
    first = play.call()
    assert isinstance(first, Later)
    assert (first.seconds, first.checkpoint["phase"], first.checkpoint["sending"]) == (0.0, "submit", ["p0"])
    assert vendor.asked == []


def test_the_id_of_a_job_is_recorded_before_it_is_waited_for() -> None:
    play = running(Vendor(), [bell()])
    play.step()
    second = play.call()
    assert isinstance(second, Later)
    assert second.checkpoint["jobs"]["p0"]["id"] == "job-0"


def test_polls_that_hear_nothing_new_leave_nothing_in_the_log_and_come_ever_more_rarely() -> None:
    vendor = Vendor(run_s=10_000)
    play = running(vendor, [bell()])
    play.step()
    play.step()
    known = len(play.recorded)
    pauses = [came.seconds for _ in range(20) if isinstance(came := play.step(), Later)]
    assert len(play.recorded) == known
    assert pauses == sorted(pauses)
    assert pauses[0] == pytest.approx(2 * 1.5)
    assert pauses[1] == pytest.approx(pauses[0] * 1.5)
    assert pauses[-1] == 300.0


@pytest.mark.parametrize("fate", ["before", "after"])
def test_whoever_comes_after_a_crash_looks_before_it_sends(fate: str) -> None:
    vendor = Vendor(fate=fates("ok", fate))  # type: ignore[arg-type]
    play = running(vendor, sweep(4))
    play.step()
    with pytest.raises(Died):
        play.step()
    play.restart()
    assert len(play.end().samples) == 4
    assert len(vendor.jobs) == len(set(vendor.paid())) == 4


def test_an_answer_that_got_lost_is_looked_for_and_not_sent_again() -> None:
    vendor = Vendor(fate=fates("lost"))  # type: ignore[arg-type]
    play = running(vendor, [bell()])
    assert play.end().jobs["p0"].id == "job-0"
    assert len(vendor.jobs) == 1


def test_a_call_that_is_repeated_in_the_same_process_does_not_send_again() -> None:
    vendor = Vendor()
    play = running(vendor, [bell()])
    play.step()
    play.call()  # its checkpoint was not recorded: the database was away
    assert len(vendor.jobs) == 1
    play.end()
    assert len(vendor.jobs) == 1


def test_a_process_that_comes_back_late_sends_nothing() -> None:
    vendor = Vendor()
    play = running(vendor, [bell()])
    play.step()
    vendor.clock.move(60)
    play.call()
    assert vendor.asked[0] == "find"
    assert vendor.jobs == []


def test_of_two_jobs_for_one_order_the_older_counts_and_the_other_is_cancelled() -> None:
    vendor = Vendor(run_s=60, late_s=15, fate=fates("late"))  # type: ignore[arg-type]
    play = running(vendor, [bell()])
    play.step()
    with pytest.raises(Died):
        play.step()
    play.restart()
    done = play.end()
    assert len(vendor.jobs) == 2, "the one who was thought dead sent it, later than anybody waited for"
    assert len(vendor.paid()) == 1
    assert vendor.jobs[1].id == done.jobs["p0"].id


def test_a_job_that_failed_fails_the_task_and_does_not_count_when_it_is_tried_again() -> None:
    vendor = Vendor(run_s=60)
    play = running(vendor, sweep(2))
    play.step()
    play.step()
    vendor.jobs[0].failed = True
    error = play.fails()
    assert (error.type, error.retryable, error.kind) == ("JobFailed", True, "server_error")
    assert error.message == "Job job-0 of p0 at vendor failed: It broke; job-1 of this task goes on."
    play.again()
    done = play.end()
    assert [job.id for job in done.jobs.values()] == ["job-1", "job-2"]
    assert len(vendor.paid()) == 2


def test_a_job_that_somebody_cancelled_fails_the_task_and_takes_the_others_along() -> None:
    vendor = Vendor(run_s=60)
    play = running(vendor, sweep(2))
    play.step()
    play.step()
    vendor.jobs[0].cancelled = True
    error = play.fails()
    assert (error.type, error.retryable) == ("JobCancelled", False)
    assert vendor.paid() == []


def test_an_order_that_is_refused_takes_along_what_was_sent_before_it() -> None:
    vendor = Vendor(run_s=60)
    given = iter(["ok", "refused"])

    def fate(verb: str) -> str:
        if verb == "submit" and next(given) == "refused":
            raise ToolError("client_error", "No.", type="Http422")
        return "ok"

    vendor.fate = fate
    error = running(vendor, sweep(3)).fails()
    assert (error.kind, error.message) == ("client_error", "No.")
    assert vendor.paid() == []


def test_an_attempt_goes_on_with_the_jobs_and_the_results_of_the_one_before() -> None:
    vendor = Vendor(run_s=60)
    play = running(vendor, sweep(2))
    play.step()
    play.step()
    play.again()
    play.end()
    assert len(vendor.jobs) == 2


def test_what_may_go_well_later_is_waited_for_and_shows_once_in_the_log() -> None:
    vendor = Vendor(run_s=60)
    play = running(vendor, [bell()])
    play.step()
    play.step()
    known = len(play.recorded)

    def away(verb: str) -> str:
        raise ToolError("connection", "Nobody is there.", retryable=True)

    vendor.fate = away
    for _ in range(5):
        play.step()
    assert len(play.recorded) == known + 1
    vendor.fate = lambda _: "ok"
    play.end()


def test_a_vendor_that_stays_away_fails_the_task_after_an_hour() -> None:
    vendor = Vendor(run_s=60)
    play = running(vendor, [bell()])
    play.step()
    play.step()

    def away(verb: str) -> str:
        raise ToolError("connection", "Nobody is there.", retryable=True)

    vendor.fate = away
    error = play.fails(1000)
    assert (error.kind, error.retryable) == ("connection", True)
    assert (play.clock() - play.began).total_seconds() > 3600


def test_where_the_bucket_is_empty_the_call_comes_back_later() -> None:
    vendor = Vendor()
    play = running(vendor, [bell()])
    play.step()

    def empty(verb: str) -> str:
        raise Throttled("vendor", 4.0)

    vendor.fate = empty
    came = play.step()
    assert isinstance(came, Later)
    assert came.seconds == 4.0
    vendor.fate = lambda _: "ok"
    assert len(play.end().samples) == len(vendor.jobs) == 1


def test_a_retry_after_is_honoured() -> None:
    vendor = Vendor()
    play = running(vendor, [bell()])
    play.step()

    def busy(verb: str) -> str:
        raise ToolError("rate_limit", "Slow down.", retryable=True, extras={"http": {"retry_after": 30}})

    vendor.fate = busy
    came = play.step()
    assert isinstance(came, Later)
    assert came.seconds == 30


def test_before_the_time_of_the_task_is_over_its_jobs_are_cancelled_and_named() -> None:
    vendor = Vendor(run_s=10_000)
    play = running(vendor, sweep(2), deadline_s=300.0)
    error = play.fails()
    assert (error.kind, error.type, error.retryable) == ("timeout", "JobTimeout", True)
    assert "job-0, job-1; they were cancelled" in error.message
    assert error.extras["jobs"] == {"p0": "job-0", "p1": "job-1"}
    assert vendor.paid() == []
    assert (play.clock() - play.began).total_seconds() < 300


def test_a_call_that_must_end_sends_no_more_and_cancels_nothing() -> None:
    vendor = Vendor()
    orders = sweep(3)

    def stopped() -> None:
        if len(vendor.jobs) == 1:
            raise ToolError("cancelled", "The lease is gone.")

    def task(context: JobContext) -> Later | JobResults:
        return jobs.run(
            JobContext(
                context.backend, context.call, context.polling, context.send_tokens, stopped, context.now
            ),
            orders,
        )

    play = Play(vendor, task, vendor.clock)
    error = play.fails()
    assert (error.kind, len(vendor.jobs), len(vendor.paid())) == ("cancelled", 1, 1)


def test_other_circuits_than_those_that_were_sent_are_refused() -> None:
    vendor = Vendor()
    orders = [bell()]
    play = running(vendor, orders)
    play.step()
    orders[0] = bell(repetitions=7)
    assert play.fails().type == "OrdersChanged"


def test_submit_leaves_jobs_that_others_wait_for_fetch_and_cancel() -> None:
    vendor = Vendor(run_s=60)
    orders = sweep(2)
    made = Play(vendor, lambda context: jobs.submit(context, orders), vendor.clock).end()
    assert {job.status for job in made.jobs.values()} == {"queued"}
    ended = Play(vendor, lambda context: jobs.poll(context, made.jobs), vendor.clock).end()
    assert {job.status for job in ended.jobs.values()} == {"done"}
    for _ in range(2):
        got = Play(vendor, lambda context: jobs.fetch(context, orders, made.jobs), vendor.clock).end()
        assert list(got.samples) == ["p0", "p1"]
    left = Play(vendor, lambda context: jobs.cancel(context, made.jobs), vendor.clock).end()
    assert {job.status for job in left.jobs.values()} == {"done"}
    assert len(vendor.jobs) == len(vendor.paid()) == 2


def test_jobs_that_wait_are_cancelled_by_another_task_and_polled_without_an_error() -> None:
    vendor = Vendor(run_s=60)
    orders = sweep(2)
    made = Play(vendor, lambda context: jobs.submit(context, orders), vendor.clock).end()
    left = Play(vendor, lambda context: jobs.cancel(context, made.jobs), vendor.clock).end()
    assert {job.status for job in left.jobs.values()} == {"cancelled"}
    assert Play(vendor, lambda context: jobs.poll(context, made.jobs), vendor.clock).end().jobs == left.jobs
    fetched = Play(vendor, lambda context: jobs.fetch(context, orders, made.jobs), vendor.clock)
    assert fetched.fails().type == "JobCancelled"


def test_a_task_that_waits_for_the_jobs_of_another_one_leaves_them_alone_when_its_time_is_over() -> None:
    vendor = Vendor(run_s=10_000)
    orders = sweep(1)
    made = Play(vendor, lambda context: jobs.submit(context, orders), vendor.clock).end()
    play = Play(vendor, lambda context: jobs.fetch(context, orders, made.jobs), vendor.clock, deadline_s=60.0)
    assert "they go on" in play.fails().message
    assert len(vendor.paid()) == 1


def test_a_reference_without_the_job_of_an_order_is_refused() -> None:
    vendor = Vendor()
    play = Play(vendor, lambda context: jobs.fetch(context, sweep(2), {}), vendor.clock)
    assert play.fails().type == "UnknownJob"
    assert vendor.jobs == []


@pytest.mark.parametrize("fate", ["before", "after", "lost"])
def test_where_jobs_cannot_be_found_a_lost_answer_is_never_sent_again(fate: str) -> None:
    vendor = Vendor(finds=False, fate=fates("ok", fate))  # type: ignore[arg-type]
    play = running(vendor, sweep(3))
    for _ in range(2):
        play.step()
    if fate == "lost":
        pass
    else:
        with pytest.raises(Died):
            play.step()
        play.restart()
    error = play.fails()
    assert (error.type, error.retryable) == ("UnknownSubmission", False)
    play.again()
    assert play.fails().type == "UnknownSubmission"
    assert len(vendor.jobs) == (1 if fate == "before" else 2)
    vendor.resubmits = True
    play.again()
    assert len(play.end().samples) == 3


def test_clocks_of_tickets_and_waits_are_the_same_in_these_tests() -> None:
    clock = Clock()
    play = Play(Vendor(clock=clock), lambda context: jobs.run(context, [bell()]), clock)
    ticket = play.send_tokens.issue()
    clock.move(9.9)
    assert play.send_tokens.redeem(ticket)
    assert not play.send_tokens.redeem(ticket)
