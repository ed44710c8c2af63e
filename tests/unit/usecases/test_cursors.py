"""Loops over a cursor as people see them: claims, results, failures, pauses."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from playbooks import lone

from noetl.errors import ToolError
from noetl.facts.events import CommandIssued, LoopClaimed
from noetl.facts.json import Json, JsonMap
from noetl.facts.outcome import Outcome
from noetl.facts.reference import is_reference
from noetl.pipeline.model import Call, Later
from noetl.testing import Simulation
from noetl.usecases import control
from noetl.usecases.runtime import RuntimeLimits

CLAIM = "UPDATE jobs SET taken = true WHERE id IN (SELECT id FROM jobs LIMIT :max_rows) RETURNING *"


def draining(
    spec: str = "mode: parallel, max_in_flight: 3, frame: {max_rows: 2}",
    cursor: str = "",
    claim: str = CLAIM,
    task: str = "code: 'result = row * 10'",
) -> str:
    return lone(f"""
        loop:
          cursor: {{kind: postgres, auth: jobs, claim: "{claim}"{", " + cursor if cursor else ""}}}
          iterator: row
          spec: {{{spec}}}
        tool: {{kind: python, input: {{row: "{{{{ row.id }}}}", i: "{{{{ iter.index }}}}"}}, {task}}}
    """)


@dataclass
class Jobs:
    """A table, and every claim that was made on it."""

    free: list[int] = field(default_factory=list)
    claims: list[Call] = field(default_factory=list)

    def __call__(self, call: Call) -> Json:
        self.claims.append(call)
        return self.take(call)

    def take(self, call: Call) -> Json:
        most: Any = (call.config.get("params") or {}).get("max_rows", 1)
        taken = self.free[:most]
        del self.free[: len(taken)]
        return answer(*taken)


def answer(*ids: int, **more: Any) -> dict[str, Json]:
    rows: list[Json] = [{"id": one, **more} for one in ids]
    return {"rows": rows, "row_count": len(rows), "columns": ["id", *more]}


def simulated(text: str, jobs: Any, **more: Any) -> Simulation:
    return Simulation(text, {"postgres": jobs, **more.pop("tools", {})}, **more)


def claims(sim: Simulation, execution_id: str) -> list[LoopClaimed]:
    return [event.fact for event in sim.events(execution_id) if isinstance(event.fact, LoopClaimed)]


@pytest.mark.parametrize("mode", ["sequential", "parallel"])
def test_every_row_is_an_iteration_in_the_order_of_the_claims(mode: str) -> None:
    sim = simulated(draining(f"mode: {mode}, frame: {{max_rows: 2}}"), Jobs([1, 2, 3, 4, 5]))
    report = sim.run()
    assert report.row.status == "completed"
    assert report.result == {
        "results": [10, 20, 30, 40, 50],
        "stats": {"total": 5, "completed": 5, "failed": 0},
    }


def test_no_row_at_all_is_an_empty_loop() -> None:
    report = simulated(draining(), Jobs()).run()
    assert (report.row.status, report.result["stats"]["total"]) == ("completed", 0)


@pytest.mark.parametrize("mode", ["sequential", "parallel"])
def test_rows_that_appear_while_the_loop_runs_are_part_of_it(mode: str) -> None:
    jobs = Jobs([1, 2, 3])

    def work(call: Call) -> Json:
        row: Any = call.args["row"]
        if row < 40:
            jobs.free.append(row + 20)
        return row

    report = simulated(draining(f"mode: {mode}"), jobs, tools={"python": work}).run()
    assert sorted(report.result["results"]) == [1, 2, 3, 21, 22, 23, 41, 42, 43]


def test_rows_of_one_claim_are_shared_by_all_lanes() -> None:
    text = draining("mode: parallel, max_in_flight: 3, frame: {max_rows: 99}")
    sim = simulated(text, Jobs([*range(9)]), limits=RuntimeLimits(slice_s=0.0))
    events = sim.events(sim.run().row.execution_id)
    lanes = {event.fact.part for event in events if isinstance(event.fact, CommandIssued)}
    assert lanes == {"l0", "l1", "l2"}


# --- what a claim is handed ----------------------------------------------------------------------


def test_a_claim_is_bound_to_what_it_asks_for_by_name() -> None:
    claim = "UPDATE jobs SET worker = :worker, run = :run, execution = :execution_id, day = :day RETURNING *"
    text = draining("{}"[1:-1], "params: {day: '{{ workload.day }}'}", claim)
    jobs = Jobs([1])
    report = simulated(text, jobs).run({"day": "monday"})
    assert jobs.claims[0].config == {
        "auth": "jobs",
        "command": claim,
        "params": {
            "day": "monday",
            "worker": "simulated",
            "run": "start#1",
            "execution_id": report.row.execution_id,
        },
    }


def test_a_hundred_rows_are_asked_for_unless_the_frame_says_otherwise() -> None:
    jobs = Jobs([1])
    simulated(draining("mode: sequential"), jobs).run()
    assert jobs.claims[0].config["params"] == {"max_rows": 100}


def test_the_number_of_rows_may_be_a_template() -> None:
    jobs = Jobs([*range(5)])
    simulated(draining("frame: {max_rows: '{{ workload.size }}'}"), jobs).run({"size": 4})
    assert jobs.claims[0].config["params"] == {"max_rows": 4}


def test_a_claim_without_params_is_a_template_and_one_with_params_is_none() -> None:
    plain, bound = Jobs([1]), Jobs([1])
    claim = "UPDATE {{ workload.table }} SET x = 1 RETURNING *"
    simulated(draining("", "", claim), plain).run({"table": "jobs"})
    assert plain.claims[0].config["command"] == "UPDATE jobs SET x = 1 RETURNING *"
    claim = "UPDATE jobs SET x = :x, y = '{{ x }}' RETURNING *"
    simulated(draining("", "params: {x: 1}", claim), bound).run()
    assert bound.claims[0].config["command"] == claim


def test_a_claim_sees_ctx_and_the_results_of_steps_and_no_iteration() -> None:
    jobs = Jobs([1, 2])
    text = draining(
        "frame: {max_rows: 1}",
        "params: {last: '{{ ctx.last | default(0) }}', of: '{{ iter.row }}'}",
        "UPDATE jobs SET a = :last, b = :of RETURNING id",
        "code: 'result = row', set: {ctx.last: '{{ result }}'}",
    )
    simulated(text, jobs).run()
    assert [call.config["params"] for call in jobs.claims] == [
        {"last": 0, "of": None},
        {"last": 1, "of": None},
        {"last": 2, "of": None},
    ]


def test_the_timeout_of_a_claim_is_its_own_else_that_around_it() -> None:
    own, around = Jobs(), Jobs()
    simulated(draining("timeout: 9", "spec: {timeout: 2s}"), own).run()
    simulated(draining("timeout: 9"), around).run()
    assert [jobs.claims[0].deadline_s for jobs in (own, around)] == [2.0, 9.0]


# --- keys ----------------------------------------------------------------------------------------


def test_every_claim_has_an_idempotency_key_of_its_own() -> None:
    jobs = Jobs([*range(20)])
    simulated(draining(), jobs).run()
    keys = [call.idempotency_key for call in jobs.claims]
    assert len(keys) == len(set(keys)) > 10


def test_a_claim_that_nobody_heard_of_is_made_again_under_the_same_key() -> None:
    jobs = Jobs([1, 2, 3])
    sim = simulated(draining("frame: {max_rows: 1}"), jobs)
    dies = jobs.take

    def dying(call: Call) -> Json:
        if len(jobs.claims) == 3:
            raise KeyboardInterrupt
        return dies(call)

    jobs.take = dying  # type: ignore[method-assign]
    run = sim.start()
    with pytest.raises(KeyboardInterrupt):
        sim.settle()
    jobs.take = dies  # type: ignore[method-assign]
    for _ in range(3):
        sim.pass_time(120)
        sim.settle()
    assert sim.report(run).row.status == "completed"
    keys = [call.idempotency_key for call in jobs.claims]
    assert keys[2] == keys[3]
    assert len(set(keys)) == len(keys) - 1


# --- failures ------------------------------------------------------------------------------------


@dataclass
class Failing(Jobs):
    """Fails at its first claims."""

    times: int = 1
    retryable: bool = True

    def take(self, call: Call) -> Json:
        if len(self.claims) <= self.times:
            raise ToolError("connection", "nobody answers", retryable=self.retryable)
        return super().take(call)


def test_a_claim_that_may_go_well_the_next_time_is_made_again() -> None:
    jobs = Failing([1, 2], times=1)
    report = simulated(draining(), jobs).run()
    assert (report.row.status, report.result["stats"]["total"]) == ("completed", 2)
    first, second = jobs.claims[:2]
    assert (first.attempt, second.attempt) == (1, 2)
    assert first.idempotency_key == second.idempotency_key


@pytest.mark.parametrize(("times", "retryable", "made"), [(9, True, 3), (9, False, 1)])
def test_a_claim_that_fails_fails_the_loop_with_its_place(times: int, retryable: bool, made: int) -> None:
    jobs = Failing([1], times=times, retryable=retryable)
    report = simulated(draining("policy: {failure: {mode: best_effort}}"), jobs).run()
    assert report.row.status == "failed"
    assert len(jobs.claims) == made
    assert report.error is not None
    assert report.error["message"] == "nobody answers"
    assert (report.error["kind"], report.error["step"], report.error["task"]) == (
        "connection",
        "start",
        "claim",
    )
    assert report.error["line"] == 8
    assert report.error["stats"] == {"total": 0, "completed": 0, "failed": 0}


def test_no_row_is_claimed_after_an_iteration_has_failed() -> None:
    jobs = Jobs([*range(9)])

    def broken(_call: Call) -> Json:
        raise ToolError("python", "no")

    report = simulated(
        draining("mode: sequential, frame: {max_rows: 2}"), jobs, tools={"python": broken}
    ).run()
    assert report.row.status == "failed"
    assert (len(jobs.claims), len(jobs.free)) == (1, 7)
    assert report.error is not None
    assert report.error["stats"] == {"total": 2, "completed": 0, "failed": 1}


@pytest.mark.parametrize(
    ("yields", "says"),
    [
        ({"rows": [], "row_count": 3, "columns": []}, "end it with RETURNING *"),
        ({"data": 1}, "yields no rows"),
        (7, "yields no rows"),
    ],
)
def test_an_answer_without_rows_is_distinguished_from_one_that_found_none(yields: Json, says: str) -> None:
    report = simulated(draining(), lambda _call: yields).run()
    assert report.row.status == "failed"
    assert report.error is not None
    assert says in report.error["message"]


def test_more_rows_than_a_loop_may_have_items_fail_it() -> None:
    jobs = Jobs([*range(20)])
    sim = simulated(
        draining("mode: sequential, frame: {max_rows: 4}"), jobs, limits=RuntimeLimits(max_items=10)
    )
    report = sim.run()
    assert report.error is not None
    assert (report.error["kind"], report.error["stats"]["total"]) == ("limit", 12)
    assert len(jobs.claims) == 3


# --- large rows, waits ---------------------------------------------------------------------------


def test_rows_too_large_for_the_log_are_kept_by_reference() -> None:
    jobs = Jobs([*range(30)])
    sim = simulated(
        draining("frame: {max_rows: 10}"), jobs, limits=RuntimeLimits(inline_bytes=50, slice_s=0.0)
    )
    report = sim.run()
    assert all(is_reference(fact.items) for fact in claims(sim, report.row.execution_id) if fact.count)
    assert report.row.status == "completed"
    assert sim.rt.load is not None
    assert report.result["stats"] == {"total": 30, "completed": 30, "failed": 0}


def test_rows_that_a_tool_keeps_by_itself_are_read_from_there() -> None:
    jobs, kept = Jobs([3, 4]), list[JsonMap]()

    def stored(call: Call) -> Json:
        from noetl.facts.reference import Retention

        found: Any = jobs(call)
        if found["rows"]:
            kept.append(sim.rt.results.put(found["rows"], Retention(call.where.execution_id)))
            return {**found, "rows": kept[-1]}
        return found

    sim = simulated(draining("mode: sequential"), stored)
    report = sim.run()
    assert report.result["results"] == [30, 40]
    assert claims(sim, report.row.execution_id)[0].items == kept[0]


def test_a_claim_that_has_to_wait_is_asked_again() -> None:
    jobs = Jobs([1])

    def busy(call: Call) -> Json | Later | Outcome:
        found = jobs(call)
        return Later(0.01, {"n": 1}) if len(jobs.claims) == 1 else found

    jobs.free = [1, 2]
    report = simulated(draining("frame: {max_rows: 1}"), busy).run()
    assert (report.row.status, report.result["results"]) == ("completed", [20])
    assert [call.checkpoint for call in jobs.claims[:2]] == [None, {"n": 1}]


def test_iterations_that_wait_keep_their_rows_and_their_slots() -> None:
    seen: list[Any] = []

    def flaky(call: Call) -> Json:
        seen.append(call.args["row"])
        if call.attempt == 1:
            raise ToolError("server_error", "not yet", retryable=True)
        return call.args["row"]

    rules = (
        "rules: [{when: \"{{ outcome.status == 'error' }}\", then: {do: retry, delay: 60}}, {else: "
        "{then: {do: continue}}}]"
    )
    text = draining(f"mode: parallel, max_in_flight: 2, frame: {{max_rows: 3}}, policy: {{{rules}}}")
    report = simulated(text, Jobs([1, 2, 3, 4, 5]), tools={"python": flaky}).run()
    assert (report.row.status, report.result["results"]) == ("completed", [1, 2, 3, 4, 5])
    assert sorted(seen) == sorted([1, 2, 3, 4, 5] * 2)


def test_a_paused_loop_claims_nothing_and_goes_on_when_it_is_resumed() -> None:
    jobs = Jobs([*range(6)])
    sim = simulated(
        draining("mode: sequential, frame: {max_rows: 1}"), jobs, limits=RuntimeLimits(slice_s=0.0)
    )
    run = sim.start()
    while len(jobs.claims) < 3:
        sim.deliver()
    control.pause(sim.rt, run)
    made = len(jobs.claims)
    sim.settle()
    sim.pass_time(60)
    sim.settle()
    assert (sim.report(run).row.status, len(jobs.claims)) == ("paused", made)
    control.resume(sim.rt, run)
    sim.settle()
    assert sim.report(run).result["results"] == [0, 10, 20, 30, 40, 50]


def test_a_cancelled_loop_claims_nothing_more() -> None:
    jobs = Jobs([*range(6)])
    sim = simulated(
        draining("mode: sequential, frame: {max_rows: 1}"), jobs, limits=RuntimeLimits(slice_s=0.0)
    )
    run = sim.start()
    while len(jobs.claims) < 3:
        sim.deliver()
    control.cancel(sim.rt, run)
    made = len(jobs.claims)
    sim.settle()
    assert (sim.report(run).row.status, len(jobs.claims)) == ("cancelled", made)
