"""What stands in for calls of tasks with `cache`, for how long, and what never does."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from noetl.dsl.compiler import compile_playbook
from noetl.errors import BadRequest
from noetl.facts.events import TaskDone
from noetl.facts.json import Json
from noetl.facts.outcome import ErrorInfo, failed
from noetl.pipeline.model import Call, Later
from noetl.testing import KINDS, Simulation
from noetl.usecases import awaited, cache, catalog, control, inspect, retry
from noetl.usecases.ports import CallLock, CallSite
from noetl.usecases.results import collect
from noetl.usecases.retry import RetryRequest
from noetl.usecases.runtime import RuntimeLimits

FETCH = "[{step: start, tool: {kind: http, url: /a, cache: 10m}}]"


def text(workflow: str, path: str = "tests/cached", root: str = "") -> str:
    return (
        f"apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: cached, path: {path}}}\n{root}"
        f"workflow: {workflow}\n"
    )


class Cached:
    """A playbook whose http tasks are counted by their url; an entry in `answers` that can be
    called is."""

    def __init__(self, workflow: str, root: str = "", **more: Any) -> None:
        self.calls: Counter[str] = Counter()
        self.answers: dict[str, Any] = {}
        self.sim = Simulation(text(workflow, root=root), {"http": self._call}, **more)

    def _call(self, call: Call) -> Any:
        url = str(call.config["url"])
        self.calls[url] += 1
        answer = self.answers.get(url, {"n": self.calls[url]})
        return answer(call) if callable(answer) else answer

    def run(self, **payload: Json) -> inspect.Report:
        return self.sim.run(payload)

    def result(self, **payload: Json) -> Json:
        report = self.run(**payload)
        assert report.row.status == "completed", report.error
        return report.result


def test_an_equal_call_of_another_execution_gets_what_the_first_one_came_to() -> None:
    book = Cached(FETCH)
    first, second = book.run(), book.run()
    assert first.result == second.result == {"n": 1}
    assert book.calls["/a"] == 1
    assert "reused" not in first.steps["start"]
    assert second.steps["start"]["reused"] == 1


def test_what_stood_in_says_whose_it_was() -> None:
    book = Cached(FETCH)
    first = book.run().row.execution_id
    second = book.run().row.execution_id
    (done,) = [one.fact for one in book.sim.events(second) if isinstance(one.fact, TaskDone)]
    at = book.sim.now.isoformat()
    whose = {"execution_id": first, "run_id": "start#1", "iteration": None, "task": "task_0", "at": at}
    assert done.meta["reused"] == whose


def test_the_time_counts_from_when_the_call_was_made() -> None:
    book = Cached(FETCH)
    book.run()
    book.sim.pass_time(599)
    assert book.result() == {"n": 1}
    book.sim.pass_time(1)
    assert book.result() == {"n": 2}


@pytest.mark.parametrize(
    ("task", "first", "second", "calls"),
    [
        ("{kind: http, url: '/a', params: '{{ workload.p }}', cache: 60}", {"p": {}}, {"p": {"x": 1}}, 2),
        ("{kind: http, url: '/a', params: '{{ workload.p }}', cache: 60}", {"p": {}}, {"p": {}, "q": 1}, 1),
        ("{kind: http, url: '/a', input: {v: '{{ workload.p }}'}, cache: 60}", {"p": 1}, {"p": 2}, 2),
        ("{kind: http, url: '/a', params: {id: '{{ execution_id }}'}, cache: 60}", {"p": 1}, {"p": 1}, 1),
        (
            "{kind: http, url: '/a', params: {p: '{{ workload.p }}'}, cache: {ttl: 60, key: same}}",
            {"p": 1},
            {"p": 2},
            1,
        ),
        (
            "{kind: http, url: '/a', cache: {ttl: 60, key: '{{ workload.p }}'}}",
            {"p": 1},
            {"p": 2},
            2,
        ),
        ("{kind: http, url: '/a', cache: '{{ workload.p }}'}", {"p": 0}, {"p": 0}, 2),
        ("{kind: http, url: '/a', cache: '{{ workload.p }}'}", {"p": "1m"}, {"p": "1m"}, 1),
    ],
)
def test_calls_are_equal_where_all_that_they_are_given_is(
    task: str, first: dict[str, Json], second: dict[str, Json], calls: int
) -> None:
    book = Cached(f"[{{step: start, tool: {task}}}]", "workload: {p: null, q: null}\n")
    # Later than the first moment there is, ids are as long as ids are.
    book.sim.pass_time(86_400)
    book.result(**first)
    book.result(**second)
    assert book.calls["/a"] == calls


def test_a_new_version_takes_what_an_older_one_came_to_and_another_playbook_does_not() -> None:
    book = Cached(FETCH)
    book.run()
    catalog.register(
        book.sim.rt, text(FETCH[:-2] + ", next: two}, {step: two, tool: {kind: noop}}]"), "test.yaml"
    )
    book.run()
    assert book.calls["/a"] == 1
    book.sim.path = catalog.register(book.sim.rt, text(FETCH, "tests/other"), "other.yaml").path
    book.run()
    assert book.calls["/a"] == 2


def test_what_is_global_stands_in_for_calls_of_every_playbook() -> None:
    shared = "[{step: start, tool: {kind: http, url: /a, cache: {ttl: 60, scope: global}}}]"
    book = Cached(shared)
    book.run()
    book.sim.path = catalog.register(book.sim.rt, text(shared, "tests/other"), "other.yaml").path
    assert book.result() == {"n": 1}


def test_a_failure_stands_in_for_nothing() -> None:
    book = Cached(FETCH)
    book.answers["/a"] = failed(ErrorInfo("server_error", "broken"))
    assert book.run().row.status == "failed"
    del book.answers["/a"]
    assert book.result() == {"n": 2}


def test_nor_does_an_answer_that_the_policy_takes_for_a_failure() -> None:
    rules = "spec: {policy: {rules: [{when: '{{ outcome.result.n == 1 }}', then: {do: fail}}]}}"
    book = Cached(f"[{{step: start, tool: {{kind: http, url: /a, cache: 60, {rules}}}}}]")
    assert book.run().row.status == "failed"
    assert book.result() == {"n": 2}


def test_an_answer_that_is_asked_for_again_is_none_yet() -> None:
    rules = (
        "spec: {policy: {rules: [{when: '{{ outcome.result.n < 3 }}', then: {do: retry, attempts: 9, "
        "delay: 0}}]}}"
    )
    book = Cached(f"[{{step: start, tool: {{kind: http, url: /a, cache: 60, {rules}}}}}]")
    assert book.result() == {"n": 3}
    assert book.result() == {"n": 3}
    assert book.calls["/a"] == 3


def test_each_item_and_each_page_is_a_call() -> None:
    loop = "[{step: start, tool: {kind: http, url: '/{{ iter.i }}', cache: 60, loop: {in: [1, 1, 2], iterator: i}}}]"
    book = Cached(loop)
    book.run()
    book.run()
    # The first two are equal, and made before what the first one came to was committed or after.
    assert book.calls == {"/1": 1, "/2": 1}


def test_iterations_of_a_loop_take_from_one_another() -> None:
    book = Cached(
        "[{step: start, loop: {in: [1, 1, 2, 1], iterator: i, spec: {mode: sequential}}, "
        "tool: {kind: http, url: '/{{ iter.i }}', cache: 60}}]"
    )
    book.run()
    assert book.calls == {"/1": 1, "/2": 1}


# --- locks ----------------------------------------------------------------------------------------

LOCKED = "[{step: start, tool: {kind: http, url: /a, cache: {ttl: 10m, lock: true}}}]"
UNLOCKED = "[{step: start, tool: {kind: http, url: /a, cache: 10m}}]"


def at_once(book: Cached) -> tuple[str, str]:
    """Two executions, the second of which runs while the first one is in its call."""
    others: list[str] = []

    def nested(_: Call) -> Json:
        if not others:
            others.append(book.sim.start())
            book.sim.settle()
        return {"n": book.calls["/a"]}

    book.answers["/a"] = nested
    first = book.sim.start()
    book.sim.settle()
    return first, others[0]


def test_two_misses_at_once_both_run() -> None:
    book = Cached(UNLOCKED)
    at_once(book)
    assert book.calls["/a"] == 2


def test_with_a_lock_the_second_waits_for_the_first_and_no_worker_with_it() -> None:
    book = Cached(LOCKED)
    first, second = at_once(book)
    assert inspect.execution(book.sim.rt, first).status == "completed"
    assert book.sim.types(second)[-2:] == ["step.suspended", "command.issued"]
    book.sim.pass_time(2)
    book.sim.settle()
    assert book.sim.report(second).result == {"n": 1}
    assert book.calls["/a"] == 1


EACH_LOCKED = """[{step: start, loop: {in: [1, 2], iterator: n},
  tool: {kind: http, url: /a, cache: {ttl: 10m, lock: true}}}]"""


@pytest.mark.parametrize(("text", "iteration"), [(LOCKED, None), (EACH_LOCKED, 0)])
def test_what_is_behind_a_lock_says_so_for_as_long_as_it_is(text: str, iteration: int | None) -> None:
    book = Cached(text)
    book.answers["/a"] = lambda call: Later(3600.0, {"job": 1}) if call.checkpoint is None else {"n": 1}
    first, second = book.sim.start(), book.sim.start()
    book.sim.settle()
    assert awaited.awaited(book.sim.rt, first) == []
    (wait,) = awaited.awaited(book.sim.rt, second)
    whose = "start#1" if iteration is None else "start#1[0]"
    assert (wait["kind"], wait["step"], wait["run_id"]) == ("lock", "start", "start#1")
    assert (wait["iteration"], wait["task"]) == (iteration, wait["for"][0]["name"])
    assert wait["for"][0]["text"] == f"the equal call of {whose} in execution {first}"
    control.cancel(book.sim.rt, first)
    book.sim.settle()
    assert book.sim.report(second).waits == [wait]
    book.sim.pass_time(60)
    book.sim.settle()
    assert book.calls["/a"] == 2
    assert awaited.awaited(book.sim.rt, second) == []


def test_where_the_first_one_fails_the_second_makes_the_call() -> None:
    book = Cached(LOCKED)
    broken = failed(ErrorInfo("server_error", "broken"))
    others: list[str] = []

    def nested(_: Call) -> Any:
        if not others:
            others.append(book.sim.start())
            book.sim.settle()
            return broken
        return {"n": 2}

    book.answers["/a"] = nested
    book.sim.start()
    book.sim.settle()
    book.sim.pass_time(2)
    book.sim.settle()
    assert book.sim.report(others[0]).result == {"n": 2}


def test_a_call_that_waits_elsewhere_keeps_its_lock_and_one_whose_execution_is_gone_does_not() -> None:
    book = Cached(LOCKED)
    book.answers["/a"] = lambda call: Later(3600.0, {"job": 1}) if call.checkpoint is None else {"n": 1}
    first = book.sim.start()
    book.sim.settle()
    second = book.sim.start()
    book.sim.settle()
    assert book.calls["/a"] == 1
    book.sim.pass_time(2)
    book.sim.settle()
    assert book.calls["/a"] == 1, "the job of the first one is still awaited"
    control.cancel(book.sim.rt, first)
    book.sim.settle()
    book.sim.pass_time(60)
    book.sim.settle()
    assert book.calls["/a"] == 2, "nobody will end what the first one began"
    book.sim.pass_time(3600)
    book.sim.settle()
    assert book.sim.report(second).result == {"n": 1}


def test_what_was_begun_elsewhere_is_gone_on_with_whatever_another_call_came_to() -> None:
    book = Cached(UNLOCKED)
    book.answers["/a"] = lambda _: Later(60.0, {"job": 1})
    first = book.sim.start()
    book.sim.settle()
    book.answers["/a"] = lambda call: {"job": call.checkpoint}
    assert book.result() == {"job": None}
    book.sim.pass_time(60)
    book.sim.settle()
    assert book.sim.report(first).result == {"job": {"job": 1}}


class Died(BaseException):
    """The worker's process is gone."""


def test_what_a_worker_had_locked_that_died_is_locked_for_whoever_goes_on() -> None:
    book = Cached(LOCKED)

    def die(_: Call) -> Json:
        raise Died

    book.answers["/a"] = die
    first = book.sim.start()
    with pytest.raises(Died):
        book.sim.settle()
    second = book.sim.start()
    book.answers["/a"] = {"n": "once"}
    book.sim.settle()
    assert book.calls["/a"] == 1, "the second waits for the first, which nobody has ended"
    for _ in range(3):
        book.sim.pass_time(40)
        book.sim.settle()
    assert book.sim.report(first).result == book.sim.report(second).result == {"n": "once"}
    assert book.calls["/a"] == 2


def test_a_timeout_bounds_the_wait_for_another_call() -> None:
    book = Cached(
        "[{step: start, tool: {kind: http, url: /a, cache: {ttl: 10m, lock: true}, spec: {timeout: 4}}}]"
    )
    book.run()
    endless, second = book.sim.start(), book.sim.start()
    with book.sim.rt.store.begin() as tx:
        # One that makes the call for ever.
        key = tx.cached.find()[0].key
        held = tx.cached.find()[0].site
        tx.cached.remove(key=key)
        tx.cached.hold(key, CallLock(CallSite(endless, "start#9", None, held.task), book.sim.now))
    del book.sim.mailbox.messages[:]
    for _ in range(4):
        book.sim.pass_time(2)
        book.sim.settle()
    report = book.sim.report(second)
    assert report.row.status == "failed"
    assert report.error is not None
    assert report.error["kind"] == "timeout"


# --- what is asked for again ----------------------------------------------------------------------


def test_a_run_that_is_asked_for_makes_its_calls_again() -> None:
    book = Cached(FETCH)
    first = book.run().row.execution_id
    row = retry.retry(book.sim.rt, RetryRequest(first, from_step="start"))
    book.sim.settle()
    assert book.sim.report(row.execution_id).result == {"n": 2}
    assert book.result() == {"n": 2}, "what it came to is what counts from then on"


# --- large results --------------------------------------------------------------------------------

DAY = 86_400.0


def large(call: Call) -> Json:
    return ["x" * 1000] * 100


def test_a_large_result_is_shared_and_stays_as_long_as_a_log_names_it() -> None:
    limits = RuntimeLimits(slice_s=3600.0, results_keep_s=DAY)
    book = Cached("[{step: start, tool: {kind: http, url: /a, cache: 8d}}]", limits=limits)
    book.answers["/a"] = large
    first = book.run().row.execution_id
    book.sim.pass_time(DAY / 2)
    second = book.run()
    assert book.calls["/a"] == 1
    assert f"executions/{first}" in book.sim.rt.results.places()
    assert collect(book.sim.rt, book.sim.now + timedelta(seconds=DAY * 3 / 4)).removed == ()
    assert inspect.result(book.sim.rt, second.row.execution_id).value == large(Call)  # type: ignore[arg-type]
    assert collect(book.sim.rt, book.sim.now + timedelta(seconds=DAY)).removed == (f"executions/{first}",)


def test_where_a_large_result_is_gone_the_call_is_made() -> None:
    limits = RuntimeLimits(slice_s=3600.0, results_keep_s=DAY)
    book = Cached("[{step: start, tool: {kind: http, url: /a, cache: 8d}}]", limits=limits)
    book.answers["/a"] = large
    book.run()
    book.sim.pass_time(DAY)
    collect(book.sim.rt, book.sim.now)
    book.run()
    assert book.calls["/a"] == 2


def test_a_result_that_goes_with_its_execution_stands_in_for_nothing() -> None:
    book = Cached(
        "[{step: start, tool: {kind: http, url: /a, cache: 1h, spec: {result: {scope: step, inline_bytes: 1}}}}]"
    )
    book.answers["/a"] = large
    book.run()
    book.run()
    assert book.calls["/a"] == 2


# --- looking and clearing -------------------------------------------------------------------------


def test_what_is_kept_is_listed_and_cleared() -> None:
    book = Cached(FETCH)
    book.run()
    (row,) = cache.cached(book.sim.rt)
    assert (row.path, row.kind, row.site.run_id) == ("tests/cached", "http", "start#1")
    assert cache.cached(book.sim.rt, "tests/other") == []
    assert cache.clear(book.sim.rt, key="none") == 0
    assert cache.clear(book.sim.rt, "tests/cached") == 1
    book.run()
    assert book.calls["/a"] == 2


@pytest.mark.parametrize("asked", [{}, {"path": "a", "everything": True}])
def test_it_has_to_be_said_what_is_cleared(asked: dict[str, Any]) -> None:
    with pytest.raises(BadRequest, match="Say what to clear"):
        cache.clear(Cached(FETCH).sim.rt, **asked)


def test_what_no_longer_counts_is_swept_away() -> None:
    book = Cached(FETCH)
    book.run()
    book.sim.pass_time(600)
    with book.sim.rt.store.read() as tx:
        assert tx.cached.find() == []


# --- what cannot be cached ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ("{kind: http, url: /a, effects: external, cache: 60}", "may change something outside of NoETL"),
        ("{kind: http, url: /a, effects: idempotent, cache: 60}", ""),
        ("{kind: http, url: /a, effects: external, cache: {ttl: 60, allow_effects: true}}", ""),
        ("{kind: playbook, path: a, cache: 60}", "calls a playbook, whose result cannot come from the cache"),
        ("{kind: http, url: /a, cache: {key: a}}", "does not say how long a result counts"),
        ("{kind: http, url: /a, cache: soon}", "'soon' is not a duration"),
        ("{kind: http, url: /a, cache: {ttl: 60, lok: true}}", "lok"),
        ("{kind: http, url: /a, cache: true}", "a length of time, or a mapping with ttl"),
        ("{kind: python, code: 'result = context', cache: 60}", "may depend on anything"),
        ("{kind: python, code: 'result = context', cache: {ttl: 60, key: a}}", ""),
    ],
)
def test_what_cannot_come_from_the_cache_is_said_before_anything_runs(task: str, said: str) -> None:
    problems = compile_playbook(text(f"[{{step: start, tool: {task}}}]"), file="c.yaml", kinds=KINDS).problems
    found = " ".join(one.message for one in problems)
    assert said in found
    assert bool(found) is bool(said)


@pytest.mark.parametrize(
    ("cached", "said"),
    [
        ("'{{ workload.t }}'", "is not a duration"),
        ("{ttl: 60, key: '{{ workload.none }}'}", "comes out as null"),
        ("{ttl: 60, key: '{{ 1 // 0 }}'}", "key"),
    ],
)
def test_a_time_or_a_key_that_cannot_be_had_fails_the_task(cached: str, said: str) -> None:
    book = Cached(
        f"[{{step: start, tool: {{kind: http, url: /a, cache: {cached}}}}}]",
        "workload: {t: soon, none: null}\n",
    )
    report = book.run()
    assert report.row.status == "failed"
    assert said in (report.error or {})["message"]
    assert book.calls["/a"] == 0
