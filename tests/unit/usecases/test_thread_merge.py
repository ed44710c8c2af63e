"""Threads that are split by `times` and merged by `join: {tokens: n}`."""

from __future__ import annotations

import random

import pytest
from playbooks import playbook

from noetl.facts import events as e
from noetl.testing import Simulation

SPLIT = """
    - {step: start, next: {arcs: [{step: work, times: TIMES, args: {n: 1}}]}}
    - {step: work, tool: {kind: noop}, next: merge}
    - {step: merge, spec: {join: {tokens: 3}}, tool: {kind: noop}}
"""


@pytest.mark.parametrize("times", [6, '"{{ workload.n * 2 }}"', '"6"'])
def test_an_arc_puts_down_so_many_tokens_and_the_merge_fires_once_for_so_many(times: object) -> None:
    sim = Simulation(playbook(SPLIT.replace("TIMES", str(times)), "workload: {n: 3}"))
    report = sim.run()
    assert report.row.status == "completed"
    assert (report.steps["work"]["runs"], report.steps["merge"]["runs"]) == (6, 2)
    assert _routed(sim, report.row.execution_id)[0].times == {"start->work": 6}


def _routed(sim: Simulation, execution_id: str) -> list[e.NextEvaluated]:
    return [event.fact for event in sim.events(execution_id) if isinstance(event.fact, e.NextEvaluated)]


@pytest.mark.parametrize("order", range(20))
def test_the_merge_takes_the_oldest_tokens_whichever_arcs_they_came_over(order: int) -> None:
    sim = Simulation(
        playbook("""
            - {step: start, next: {spec: {mode: inclusive}, arcs: [{step: a, times: 3}, {step: b}]}}
            - {step: a, tool: {kind: noop}, next: merge}
            - {step: b, tool: {kind: noop}, next: merge}
            - {step: merge, spec: {join: {tokens: 2}}, tool: {kind: noop}}
        """)
    )
    execution_id, chance = sim.start(), random.Random(order)
    while sim.mailbox.messages:
        sim.deliver(chance.randrange(len(sim.mailbox.messages)))
    events = sim.events(execution_id)
    came = [token.id for one in _routed(sim, execution_id) for token in one.tokens if token.step == "merge"]
    fired = [
        event.fact.tokens
        for event in events
        if event.draft.step == "merge" and isinstance(event.fact, e.StepScheduled)
    ]
    assert [token for tokens in fired for token in tokens] == came
    assert [len(tokens) for tokens in fired] == [2, 2]


def test_fewer_tokens_than_it_takes_fail_the_branch() -> None:
    report = Simulation(playbook(SPLIT.replace("TIMES", "4"))).run()
    assert report.row.status == "failed"
    assert report.error is not None
    assert report.error["kind"] == "join"
    assert "1 of 3 tokens came" in report.error["message"]


@pytest.mark.parametrize(
    "times", ["{{ 0 }}", "{{ -1 }}", "{{ 1001 }}", "{{ 'many' }}", "{{ true }}", "{{ 1.5 }}"]
)
def test_what_is_no_number_of_tokens_fails_the_step(times: str) -> None:
    report = Simulation(playbook(SPLIT.replace("TIMES", f'"{times}"'))).run()
    assert report.row.status == "failed"
    assert report.error is not None
    assert report.error["kind"] == "template"
    assert "next.work.times" in report.error["message"]
    assert report.steps["work"]["runs"] == 0 if "work" in report.steps else True


@pytest.mark.full("3 s: a thousand")
def test_a_thousand_tokens_are_put_down_at_once() -> None:
    text = (
        SPLIT.replace("TIMES", "1000")
        .replace("tokens: 3", "tokens: 1000")
        .replace("kind: noop", "kind: noop", 1)
    )
    report = Simulation(playbook(text.replace("- {step: work, tool: {kind: noop}", "- {step: work"))).run()
    assert (report.row.status, report.steps["merge"]["runs"]) == ("completed", 1)


def test_more_runs_than_a_turn_may_begin_end_the_execution_with_a_sentence_about_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("noetl.engine.decide.MOST_FIRINGS", 200)
    text = playbook("""
        - {step: start, next: {arcs: [{step: a, times: 100}]}}
        - {step: a, next: b}
        - {step: b, next: c}
        - {step: c, tool: {kind: noop}}
    """)
    report = Simulation(text).run()
    assert report.error is not None
    assert report.error["message"].startswith("Too many runs begin at once, or steps go round without end")


def test_a_counted_join_takes_one_token_of_each_arc_into_a_round() -> None:
    sim = Simulation(
        playbook("""
            - {step: start, next: {spec: {mode: inclusive}, arcs: [{step: meet, times: 2}, {step: b}]}}
            - {step: b, tool: {kind: noop}, next: meet}
            - {step: meet, spec: {join: {count: 2}}, tool: {kind: noop}}
        """)
    )
    report = sim.run()
    (first,) = [
        one for one in sim.events(report.row.execution_id) if _fires(one.fact, "meet", one.draft.step)
    ]
    assert isinstance(first.fact, e.StepScheduled)
    assert len(first.fact.tokens) == 2
    assert report.row.status == "failed"


def _fires(fact: object, name: str, step: str | None) -> bool:
    return isinstance(fact, e.StepScheduled) and step == name
