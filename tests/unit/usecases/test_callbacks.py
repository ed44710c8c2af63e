"""Tasks that wait for a call of their address, which an earlier task hands to somebody."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from families import Family
from playbooks import lone, playbook

from noetl.errors import Conflict, LimitExceeded, NotFound, ToolError, Unavailable
from noetl.facts.callbacks import TaskAddress, place_of
from noetl.facts.json import Json, JsonMap
from noetl.facts.secret import is_secret
from noetl.pipeline.model import Call
from noetl.testing import Simulation
from noetl.usecases import control
from noetl.usecases.callbacks import AcceptedCall, receive_call
from noetl.usecases.fork import ForkRequest, fork
from noetl.usecases.migrate import MigrateRequest, migrate
from noetl.usecases.retry import RetryRequest, retry

POSTS = """
tool:
  - post: {kind: http, url: "http://there", body: {callback: "{{ callback.answer.url }}"}}
  - answer: {kind: wait, callback: {}}
"""


@dataclass
class Service:
    """A service that remembers the addresses that it was handed. `early`: it calls back before it
    answers; `fails`: so many of its next answers are errors."""

    early: Json = None
    fails: int = 0
    places: list[TaskAddress] = field(default_factory=list)
    sim: Simulation | None = None

    def __call__(self, call: Call) -> Json:
        body: Any = call.config["body"]
        reference = body["callback"]
        assert is_secret(reference)
        self.places.append(place_of(reference))
        if self.early is not None:
            assert self.sim is not None
            receive_call(self.sim.rt, self.places[-1], self.early)
        if self.fails:
            self.fails -= 1
            raise ToolError("http", "503 of there")
        return {"status_code": 202}


def simulate(text: str, service: Service) -> Simulation:
    service.sim = Simulation(text, {"http": service})
    return service.sim


def begun(text: str = POSTS, **more: Any) -> tuple[Simulation, Service, str]:
    """An execution of a step that hands its address over, and waits."""
    service = Service(**more)
    sim = simulate(lone(text), service)
    run = sim.start()
    sim.settle()
    return sim, service, run


def called(sim: Simulation, place: TaskAddress, payload: Json = None) -> AcceptedCall:
    found = receive_call(sim.rt, place, payload)
    sim.settle()
    return found


def result(sim: Simulation, run: str) -> Any:
    report = sim.report(run)
    assert report.row.status == "completed", report.row
    return report.result


def calls_in(sim: Simulation, run: str) -> int:
    return sim.types(run).count("callback.received")


# --- a call --------------------------------------------------------------------------------------


def test_the_task_before_hands_the_address_over_and_the_call_is_what_the_task_yields() -> None:
    sim, service, run = begun()
    assert service.places == [TaskAddress(run, "start#1", None, "answer")]
    assert sim.report(run).row.status == "waiting"
    called(sim, service.places[0], {"paid": True})
    assert result(sim, run) == {"payload": {"paid": True}, "at": "2026-01-01T00:00:00+00:00"}


def test_a_call_before_the_task_waits_is_kept() -> None:
    sim, _, run = begun(early="at once")
    assert result(sim, run)["payload"] == "at once"


def test_every_later_call_gets_the_answer_of_the_first_one_and_changes_nothing() -> None:
    sim, service, run = begun()
    first = called(sim, service.places[0], 1)
    sim.pass_time(60)
    again = called(sim, service.places[0], 2)
    assert (again.at, again.existing) == (first.at, True)
    assert (result(sim, run)["payload"], calls_in(sim, run)) == (1, 1)


@pytest.mark.parametrize(("payload", "name"), [(None, "late"), ("here", "called")])
def test_it_may_be_one_of_several_things(payload: Json, name: str) -> None:
    sim, service, run = begun(
        POSTS.replace("callback: {}}", "any: {called: {callback: {}}, late: {timer: 1h}}}")
    )
    if payload is not None:
        called(sim, service.places[0], payload)
    sim.rest()
    assert result(sim, run)["name"] == name


def test_each_iteration_has_its_own_address() -> None:
    sim, service, run = begun("loop: {in: [a, b, c], iterator: x, spec: {mode: parallel}}" + POSTS)
    assert [place.iteration for place in service.places] == [0, 1, 2]
    for number, place in reversed(list(enumerate(service.places))):
        called(sim, place, number)
    assert [one["payload"] for one in result(sim, run)["results"]] == [0, 1, 2]


def test_who_waits_once_more_is_answered_by_the_first_call() -> None:
    sim, service, run = begun(
        POSTS.replace("callback: {}}", "callback: {}, set: {ctx.n: '{{ (ctx.n or 0) + 1 }}'}}")
        + """
  - again: {kind: noop, spec: {policy: {rules: [{when: "{{ ctx.n < 3 }}", then: {do: jump, to: answer}}]}}}
"""
    )
    called(sim, service.places[0], "once")
    assert sim.report(run).row.status == "completed"
    assert (calls_in(sim, run), sim.types(run).count("wait.matched")) == (1, 3)


def test_a_playbook_that_waits_for_a_call_makes_its_caller_wait() -> None:
    service = Service()
    family = Family(child="- step: start" + POSTS.replace("\n", "\n  "), tools={"http": service})
    run = family.start()
    assert family.status(run) == "waiting"
    receive_call(family.sim.rt, service.places[0], 5)
    family.sim.settle()
    assert family.result(run)["payload"] == 5


def test_the_address_of_a_caller_may_be_handed_on_to_what_it_calls() -> None:
    service = Service()
    family = Family(
        caller="""
- step: start
  tool:
    - ask: {kind: playbook, path: tests/child, input: {to: "{{ callback.answer.url }}"}}
    - answer: {kind: wait, callback: {}}
""",
        child="""
- step: start
  tool: {kind: http, url: "http://there", body: {callback: "{{ workload.to }}"}}
""",
        child_root="workload: {to: ''}",
        tools={"http": service},
    )
    run = family.start()
    assert service.places == [TaskAddress(run, "start#1", None, "answer")]
    receive_call(family.sim.rt, service.places[0], 6)
    family.sim.settle()
    assert family.result(run)["payload"] == 6


def test_where_no_task_has_an_address_the_name_is_free_and_code_finds_none_in_its_context() -> None:
    seen: list[JsonMap] = []

    def python(call: Call) -> Json:
        assert call.context is not None
        seen.append(dict(call.context()))
        return dict(call.args)

    sim = Simulation(
        playbook(
            """
- step: start
  tool: {kind: python, code: "context", input: {own: "{{ callback.n }}"}}
  next: asks
- step: asks
  tool:
    - post: {kind: python, code: "context", input: {to: "{{ callback.answer.url }}"}}
    - answer: {kind: wait, any: [{callback: {}}, {timer: 0}]}
""",
            "workload: {callback: {n: 7}}",
        ),
        {"python": python},
    )
    sim.run()
    assert [one.get("callback") for one in seen] == [{"n": 7}, None]


# --- what is refused -----------------------------------------------------------------------------


def test_what_nothing_waits_for_is_refused() -> None:
    sim, service, run = begun()
    with pytest.raises(NotFound, match="Nothing has this address"):
        called(sim, TaskAddress("99", "start#1", None, "answer"))
    control.cancel(sim.rt, run)
    sim.settle()
    with pytest.raises(Conflict, match=rf"Execution {run} has ended \(cancelled\); nothing in it waits"):
        called(sim, service.places[0])
    assert calls_in(sim, run) == 0


@pytest.mark.parametrize("iteration", [None, 1])
def test_a_step_or_an_iteration_that_has_ended_is_called_no_more(iteration: int | None) -> None:
    loop = "loop: {in: [a, b], iterator: x, spec: {mode: parallel}}" if iteration is not None else ""
    text = playbook(
        f"""
- step: start
  next: [asks, stays]
- step: stays
  tool: {{kind: wait, signal: go}}
- step: asks
  {loop}{POSTS.replace(chr(10), chr(10) + "  ")}
"""
    )
    service = Service()
    sim = simulate(text, service)
    run = sim.start()
    sim.settle()
    control.cancel_step(sim.rt, run, "asks", iteration)
    sim.settle()
    with pytest.raises(Conflict, match=r"Step 'asks' of execution .* has ended"):
        called(sim, service.places[-1])
    assert sim.report(run).row.status == "waiting"


def test_a_call_after_the_deadline_is_refused() -> None:
    sim, service, run = begun("spec: {deadline: 1m}" + POSTS)
    sim.pass_time(61)
    sim.settle()
    assert sim.report(run).row.status == "failed"
    with pytest.raises(Conflict):
        called(sim, service.places[0])


def test_what_is_too_large_is_refused_and_what_is_large_is_kept_beside_the_log() -> None:
    sim, service, run = begun()
    with pytest.raises(LimitExceeded):
        called(sim, service.places[0], "x" * 1_100_000)
    called(sim, service.places[0], "x" * 200_000)
    event = next(one for one in sim.events(run) if one.fact.type == "callback.received")
    assert len(str(event.fact)) < 2000
    assert len(result(sim, run)["payload"]) == 200_000


# --- run again -----------------------------------------------------------------------------------

THEN_FAILS = POSTS + '  - last: {kind: python, code: "result = 1 / n", input: {n: "{{ workload.n }}"}}\n'


def again(sim: Simulation, run: str, **more: Any) -> str:
    made = retry(sim.rt, RetryRequest(run, **more)).execution_id
    sim.settle()
    return made


def test_a_call_that_came_before_a_retry_counts_where_its_address_was_not_handed_over_again() -> None:
    sim, service, run = begun()
    control.pause(sim.rt, run)
    receive_call(sim.rt, service.places[0], "early")
    control.cancel(sim.rt, run)
    sim.settle()
    assert sim.report(run).row.status == "cancelled"
    made = again(sim, run)
    assert result(sim, made)["payload"] == "early"
    assert len(service.places) == 1


def test_and_not_where_it_was() -> None:
    sim, service, run = begun(early="early", fails=1)
    assert sim.report(run).row.status == "failed"
    service.early = None
    made = again(sim, run)
    assert sim.report(made).row.status == "waiting"
    assert [place.execution_id for place in service.places] == [run, made]
    called(sim, service.places[1], "new")
    assert result(sim, made)["payload"] == "new"


def test_a_call_in_the_middle_of_the_task_that_hands_it_over_does_not_keep_that_from_standing() -> None:
    """The event stands before the end of the other task, and names a task that has changed."""
    sim, service, run = begun(THEN_FAILS.replace("workload.n", "workload.n or 0"), early="early")
    assert sim.report(run).row.status == "failed"
    made = again(sim, run, payload={"n": 1})
    assert sim.report(made).row.status == "completed"
    assert len(service.places) == 1


def test_a_retry_of_a_retry_still_has_the_call_that_came_first() -> None:
    sim, service, run = begun()
    control.pause(sim.rt, run)
    receive_call(sim.rt, service.places[0], "early")
    control.cancel(sim.rt, run)
    sim.settle()
    second = retry(sim.rt, RetryRequest(run)).execution_id
    sim.deliver()
    control.cancel(sim.rt, second)
    sim.settle()
    assert sim.report(second).row.status == "cancelled"
    third = again(sim, second)
    assert result(sim, third)["payload"] == "early"
    assert called(sim, service.places[0]).existing


def test_a_call_of_an_address_of_an_execution_that_has_ended_is_handed_to_the_retry_of_it() -> None:
    sim, service, run = begun()
    control.cancel(sim.rt, run)
    sim.settle()
    made = again(sim, run)
    control.cancel(sim.rt, made)
    sim.settle()
    third = again(sim, made)
    found = called(sim, service.places[0], "late")
    assert (found.execution_id, len(service.places)) == (third, 1)
    assert result(sim, third)["payload"] == "late"
    assert called(sim, service.places[0], "later").at == found.at


def test_the_call_goes_on_through_a_retry_that_ended_before_it_had_begun() -> None:
    sim, service, run = begun()
    control.cancel(sim.rt, run)
    sim.settle()
    second = retry(sim.rt, RetryRequest(run)).execution_id
    control.cancel(sim.rt, second)
    sim.settle()
    third = again(sim, second)
    assert called(sim, service.places[0], "late").execution_id == third
    assert result(sim, third)["payload"] == "late"
    assert len(service.places) == 1


def test_also_of_an_iteration_that_has_another_number_there() -> None:
    text = "loop: {in: '{{ workload.items }}', iterator: x, spec: {mode: parallel}}" + POSTS
    service = Service()
    sim = simulate(lone(text, root="workload: {items: [a, b, c]}"), service)
    run = sim.start()
    sim.settle()
    control.cancel(sim.rt, run)
    sim.settle()
    made = again(sim, run, payload={"items": ["c", "a"]}, iterations="failed")
    for place, payload in zip(service.places, "abc", strict=True):
        if payload != "b":
            assert called(sim, place, payload).execution_id == made
    assert [one["payload"] for one in result(sim, made)["results"]] == ["c", "a"]
    with pytest.raises(Conflict):
        called(sim, service.places[1])


def test_a_call_whose_address_was_handed_over_again_is_refused() -> None:
    sim, service, run = begun()
    control.cancel(sim.rt, run)
    sim.settle()
    made = again(sim, run, from_step="start")
    assert [place.execution_id for place in service.places] == [run, made]
    with pytest.raises(Conflict, match="handed out another address"):
        called(sim, service.places[0])
    called(sim, service.places[1], 1)
    assert result(sim, made)["payload"] == 1


def test_where_nobody_knows_whether_the_other_task_was_heard_the_first_address_stays_good() -> None:
    """It is called again under the same key, so that a service that knows it calls the address
    that it was handed first."""

    def lost(call: Call) -> JsonMap:
        body: Any = call.config["body"]
        places.append(place_of(body["callback"]))
        if len(places) == 1:
            raise ToolError("timeout", "no answer in time")
        return {}

    places: list[TaskAddress] = []
    sim = Simulation(lone(POSTS), {"http": lost})
    run = sim.start()
    sim.settle()
    made = again(sim, run, confirmed=True)
    assert [place.execution_id for place in places] == [run, made]
    called(sim, places[0], "old")
    assert result(sim, made)["payload"] == "old"


def test_a_retry_that_has_not_come_so_far_asks_to_be_called_again() -> None:
    sim = Simulation(
        playbook(
            """
- step: start
  tool: {kind: python, code: "result = 1", input: {n: "{{ workload.n }}"}}
  next: asks
- step: asks
  tool:
    - post: {kind: http, url: "http://there", body: {callback: "{{ callback.answer.url }}"}}
    - answer: {kind: wait, callback: {}}
""",
            "workload: {n: 1}",
        ),
        {"http": (service := Service())},
    )
    run = sim.start()
    sim.settle()
    control.cancel(sim.rt, run)
    sim.settle()
    made = retry(sim.rt, RetryRequest(run, payload={"n": 2})).execution_id
    with pytest.raises(Unavailable, match=rf"run again by {made}, which has not come to step 'asks' yet"):
        receive_call(sim.rt, service.places[0], 1)
    sim.settle()
    assert called(sim, service.places[0], 1).execution_id == made


def test_a_migrated_execution_goes_on_and_is_called_at_the_old_address() -> None:
    sim, service, run = begun()
    made = migrate(sim.rt, MigrateRequest(run)).execution_id
    sim.settle()
    assert sim.report(made).row.status == "waiting"
    called(sim, service.places[0], "old")
    assert (result(sim, made)["payload"], len(service.places)) == ("old", 1)


def test_a_fork_has_addresses_of_its_own_and_hears_no_call_of_the_other() -> None:
    """Also where the other one was called already, and hands its own over once more."""
    text = (
        POSTS
        + """
  - again: {kind: noop, spec: {policy: {rules: [{when: "{{ answer.payload == 'more' }}", then: {do: jump, to: post}}]}}}
"""
    )
    sim, service, run = begun(text)
    control.pause(sim.rt, run)
    receive_call(sim.rt, service.places[0], "more")
    at = sim.report(run).row.head_version
    made = fork(sim.rt, ForkRequest(run, at=at)).execution_id
    sim.settle()
    assert calls_in(sim, made) == 1
    own = TaskAddress(made, "start#1", None, "answer")
    assert not called(sim, own, "mine").existing
    control.resume(sim.rt, made)
    sim.settle()
    assert (sim.report(made).row.status, calls_in(sim, made)) == ("completed", 2)
