"""What a fork keeps, what it does anew, and from where it may begin."""

from __future__ import annotations

from contextlib import suppress

import pytest
from playbooks import lone
from test_retry import CHAIN, LOOP, Again

from noetl.errors import BadRequest, Conflict, NotFound, ToolError
from noetl.facts import events as e
from noetl.facts.json import Json, JsonMap
from noetl.pipeline.model import Call
from noetl.testing import Simulation
from noetl.usecases import catalog, control, fork
from noetl.usecases.fork import ForkRequest


def _fork(again: Again, execution_id: str, **more: object) -> str:
    again.calls.clear()
    again.keys.clear()
    row = fork.fork(again.sim.rt, ForkRequest(execution_id, **more))  # type: ignore[arg-type]
    again.sim.settle()
    return row.execution_id


def test_a_fork_goes_on_from_before_a_step_with_keys_of_its_own() -> None:
    again = Again(CHAIN)
    first = again.run()
    keys = dict(again.keys)
    second = _fork(again, first, before="second")
    assert again.calls == {"b": 1, "c": 1}
    assert dict(again.keys)["b"] != keys["b"]
    assert again.report(second).row.status == "completed"
    assert again.report(second).row.source_id == first
    assert again.report(second).result == again.report(first).result


def test_ctx_may_be_patched_where_the_fork_begins() -> None:
    again = Again(CHAIN)
    first = again.run()
    second = _fork(again, first, before="third", patch={"seen": "other"})
    assert again.report(second).result == {"url": "c", "args": {"x": "other"}}


def test_the_log_begins_with_that_of_the_other_one() -> None:
    again = Again(CHAIN)
    first = again.run()
    second = _fork(again, first, at=6)
    one, other = again.sim.events(first)[:6], again.sim.events(second)
    assert [event.fact for event in one] == [event.fact for event in other[:6]]
    assert [event.draft.origin for event in other[:6]] == [event.event_id for event in one]
    assert isinstance(other[6].fact, e.Forked)


def test_what_was_one_change_is_not_cut() -> None:
    again = Again(CHAIN)
    first = again.run()
    events = again.sim.events(first)
    patched = next(event for event in events if isinstance(event.fact, e.CtxPatched))
    second = _fork(again, first, at=patched.version)
    begin = next(event for event in again.sim.events(second) if isinstance(event.fact, e.Forked))
    assert begin.fact.version == patched.version - 1


@pytest.mark.parametrize("at", range(1, 22))
def test_from_any_moment_it_comes_to_the_same_end(at: int) -> None:
    again = Again(CHAIN)
    first = again.run()
    assert again.report(_fork(again, first, at=at)).result == again.report(first).result


def test_a_running_execution_and_its_fork_end_each_by_itself() -> None:
    again = Again(CHAIN)
    first = again.sim.start()
    again.sim.deliver()
    # The command of the first step is on its way there, and void here.
    row = fork.fork(again.sim.rt, ForkRequest(first, at=len(again.sim.events(first))))
    again.sim.settle()
    assert again.calls == {"a": 2, "b": 2, "c": 2}
    for execution_id in (first, row.execution_id):
        assert again.report(execution_id).row.status == "completed"


@pytest.mark.parametrize("ended", [0, 3, 9])
def test_a_loop_goes_on_with_the_iterations_that_had_not_ended(ended: int) -> None:
    again = Again(LOOP, f"workload: {{items: {list(range(10))}}}")
    first = again.run()
    done = [event.version for event in again.sim.events(first) if isinstance(event.fact, e.IterationDone)]
    at = done[ended - 1] if ended else done[0] - 3
    second = _fork(again, first, at=at)
    assert sum(again.calls.values()) == 10 - ended
    assert again.report(second).steps["start"]["result"] == again.report(first).steps["start"]["result"]


@pytest.mark.parametrize("spec", ["{mode: sequential}", "{mode: parallel, max_in_flight: 2}"])
def test_a_loop_with_an_iteration_that_waits_to_be_tried_again_goes_on_from_any_moment(spec: str) -> None:
    def work(call: Call) -> Json:
        if call.where.iteration == 1 and call.attempt == 1:
            raise ToolError("server_error", "not yet", retryable=True)
        return call.args["n"]

    sim = Simulation(
        lone(f"""
            loop: {{in: [0, 1, 2, 3], iterator: n, spec: {spec}}}
            tool:
              kind: http
              url: http://x
              input: {{n: "{{{{ iter.n }}}}"}}
              spec:
                policy:
                  rules: [{{when: "{{{{ outcome.status == 'error' }}}}", then: {{do: retry, attempts: 3, delay: 5}}}}]
        """),
        {"http": work},
    )
    first = sim.run()
    for at in range(1, first.events - 1):
        made = fork.fork(sim.rt, ForkRequest(first.row.execution_id, at=at)).execution_id
        sim.rest(1_000)
        assert sim.report(made).result == first.result, at


CHILD = (
    "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: child, path: tests/child}\nworkflow:\n"
    "- step: start\n  tool: {kind: http, url: x}\n  next: more\n- step: more\n  tool: {kind: http, url: y}\n"
)
CALLER = (
    "- step: start\n  tool: {kind: playbook, path: tests/child}\n  next: done\n"
    "- step: done\n  tool: {kind: http, url: d}\n"
)


def test_a_child_that_was_open_is_forked_with_its_caller() -> None:
    again = Again(CALLER)
    catalog.register(again.sim.rt, CHILD, "child.yaml")
    first = again.run()
    asked = next(event for event in again.sim.events(first) if isinstance(event.fact, e.ChildRequested))
    second = _fork(again, first, at=asked.version)
    (child,) = again.report(second).children
    assert again.report(child["execution_id"]).row.source_id == asked.fact.child_id
    assert again.report(second).row.status == "completed"
    assert again.calls["d"] == 1


def test_a_child_that_failed_since_is_forked_from_before_its_end() -> None:
    again = Again(CALLER)
    policy = "executor: {spec: {policy: {retry: {attempts: 2}}}}\nworkflow:"
    catalog.register(again.sim.rt, CHILD.replace("workflow:", policy), "child.yaml")
    again.broken = {"y": "server_error"}
    first = again.run()
    asked = next(event for event in again.sim.events(first) if isinstance(event.fact, e.ChildRequested))
    assert again.sim.types(asked.fact.child_id)[-1] == "execution.retry.declined"
    again.broken = {}
    second = _fork(again, first, at=asked.version)
    (child,) = again.report(second).children
    types = again.sim.types(child["execution_id"])
    assert types[types.index("execution.forked") - 1] != "execution.retry.declined"
    assert types.count("playbook.processed") == types.count("execution.retry.declined") == 1


def test_a_paused_moment_is_paused_here_too() -> None:
    again = Again(CHAIN)
    first = again.sim.start()
    control.pause(again.sim.rt, first)
    again.sim.settle()
    second = _fork(again, first, at=len(again.sim.events(first)))
    assert again.report(second).row.status == "paused"
    control.resume(again.sim.rt, second)
    again.sim.settle()
    assert again.report(second).row.status == "completed"
    assert again.report(first).row.status == "paused"


@pytest.mark.parametrize(
    ("more", "error", "words"),
    [
        ({"at": 0}, BadRequest, "has versions 1 to"),
        ({"at": 999}, BadRequest, "has versions 1 to"),
        ({}, BadRequest, "at a version, or before a step"),
        ({"at": 3, "before": "start"}, BadRequest, "at a version, or before a step"),
        ({"before": "thrid"}, BadRequest, "Did you mean 'third'"),
        ({"before": "start#2"}, BadRequest, "is none of #1 to #1"),
    ],
)
def test_a_moment_that_is_none_is_answered(more: JsonMap, error: type[Exception], words: str) -> None:
    again = Again(CHAIN)
    first = again.run()
    with pytest.raises(error, match=words):
        _fork(again, first, **more)


def test_nothing_follows_the_end() -> None:
    again = Again(CHAIN)
    first = again.run()
    with pytest.raises(BadRequest, match="had ended at version"):
        _fork(again, first, at=len(again.sim.events(first)))
    with pytest.raises(NotFound):
        _fork(again, "77", at=1)


def test_what_has_stopped_waiting_goes_on_from_any_moment() -> None:
    """Also from the one at which its worker was just told to."""
    again = Again("- {step: start, tool: [{w: {kind: wait, timer: 10}}, {n: {kind: http, url: x}}]}")
    first = again.sim.start()
    again.sim.settle()
    again.sim.pass_time(10)
    again.sim.settle()
    whole = [event.version for event in again.sim.events(first)]
    for at in whole[3:-2]:
        with suppress(Conflict, BadRequest):
            second = fork.fork(again.sim.rt, ForkRequest(first, at=at)).execution_id
            again.sim.settle()
            again.sim.pass_time(10)
            again.sim.settle()
            assert again.report(second).row.status == "completed", at
