"""Whatever dies between any two requests, before or after any checkpoint: one paid job for each
order, one result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from noetl.errors import ToolError
from noetl.pipeline.model import Later
from noetl.quantum.jobs import machine as jobs
from noetl.quantum.jobs.job_pass import JobResults
from tests.budget import examples

from .orders import sweep
from .play import Play
from .vendor import Died, Vendor

#: What happens to a request, and what to a checkpoint.
REQUESTS = ("ok", "before", "after", "lost", "late")
CHECKPOINTS = ("ok", "unrecorded", "recorded")

fates = st.lists(st.sampled_from(REQUESTS), max_size=25)
ends = st.lists(st.sampled_from(CHECKPOINTS), max_size=25)


def finished(play: Play, endings: Iterator[str]) -> tuple[JobResults, int]:
    """Plays to the end; a process that dies is followed by another one. Yields how often that
    happened as well."""
    deaths = 0
    for _ in range(500):
        try:
            came = play.call()
            if isinstance(came, JobResults):
                return came, deaths
            match next(endings, "ok"):
                case "unrecorded":
                    raise Died
                case "recorded":
                    play.record(came)
                    raise Died
                case _:
                    play.record(came)
                    play.clock.move(came.seconds)
        except Died:
            deaths += 1
            play.restart()
    raise AssertionError(f"does not come to an end: {play.recorded[-1]}")


@settings(max_examples=examples(60))
@given(orders=st.integers(1, 13), fated=fates, ended=ends, late_s=st.floats(0.1, 19.0))
def test_every_order_has_one_paid_job_and_one_result(
    orders: int, fated: list[str], ended: list[str], late_s: float
) -> None:
    left = iter(fated)
    vendor = Vendor(run_s=3600.0, late_s=late_s, fate=lambda _: next(left, "ok"))
    wanted = sweep(orders)
    play = Play(vendor, lambda context: jobs.run(context, wanted), vendor.clock)
    done, deaths = finished(play, iter(ended))

    assert set(done.samples) == {order.name for order in wanted}
    assert set(Counter(vendor.paid()).values()) == {1}, vendor.jobs
    assert len(vendor.paid()) == orders
    fetched = Counter(vendor.fetched)
    assert all(count <= 1 + deaths for count in fetched.values())
    # What the log holds is not fetched again.
    known = [set(one.get("samples", {})) for one in play.recorded]
    assert all(before <= after for before, after in pairwise(known))


@settings(max_examples=examples(60))
@given(fated=fates, ended=ends)
def test_where_jobs_cannot_be_found_nothing_is_paid_twice(fated: list[str], ended: list[str]) -> None:
    left = iter(fated)
    vendor = Vendor(run_s=3600.0, finds=False, fate=lambda _: next(left, "ok"))
    wanted = sweep(3)
    play = Play(vendor, lambda context: jobs.run(context, wanted), vendor.clock)
    endings, error = iter(ended), None
    for _ in range(100):
        try:
            came = play.call()
        except Died:
            play.restart()
            continue
        except ToolError as refused:
            error = refused
            break
        if isinstance(came, JobResults):
            break
        assert isinstance(came, Later)
        if next(endings, "ok") == "unrecorded":
            play.restart()
        else:
            play.record(came)
            vendor.clock.move(came.seconds)
    assert all(count == 1 for count in Counter(job.token for job in vendor.jobs).values())
    assert error is None or error.type == "UnknownSubmission"
