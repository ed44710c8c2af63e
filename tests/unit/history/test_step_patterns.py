"""Why a step waits for its milestone or its tokens, and what ended it or the execution."""

from __future__ import annotations

from noetl.testing import Simulation

from .stories import ended, explained, playbook

MILESTONE = playbook("""
    - {step: start, next: [a, y, m, n]}
    - {step: a, tool: {kind: wait, timer: 2h}}
    - {step: y, tool: {kind: wait, timer: 1h}, next: z}
    - {step: z, tool: {kind: noop}}
    - {step: m, spec: {milestone: {after: a, before: z}}, tool: {kind: noop}}
    - {step: n, spec: {milestone: {after: y}}, tool: {kind: noop}}
""")


def test_a_token_that_came_too_early_says_what_it_waits_for() -> None:
    sim = Simulation(MILESTONE)
    execution_id = sim.start()
    sim.settle()
    one = explained(sim, execution_id)["m"]
    assert (one.standing, one.waits[0].kind) == ("waiting", "milestone")
    assert one.why == "It waits: it may begin once step 'a' is done, before 'z' begins."


def test_a_milestone_that_was_reached_or_passed_is_told_of() -> None:
    sim = Simulation(MILESTONE)
    accounts = explained(sim, ended(sim))
    assert accounts["n"].why == "It ran after start, its milestone reached."
    assert [(one.when, one.said) for one in accounts["n"].runs[0].admission] == [
        ("milestone after y", "came before its milestone"),
        ("milestone after y", "its milestone reached"),
    ]
    assert (accounts["m"].standing, accounts["m"].why) == ("skipped", "It did not run: step 'z' had begun.")
    assert [one.said for one in accounts["m"].dropped[0].rules] == [
        "came before its milestone",
        "its milestone passed",
    ]


def test_a_merge_says_how_many_tokens_came() -> None:
    sim = Simulation(
        playbook("""
            - {step: start, next: [merge, b]}
            - {step: b, tool: {kind: wait, timer: 2h}, next: merge}
            - {step: merge, spec: {join: {tokens: 2}}, tool: {kind: noop}}
        """)
    )
    execution_id = sim.start()
    sim.settle()
    assert explained(sim, execution_id)["merge"].why == "It waits: its join takes 2 tokens, and 1 came."


def test_what_ended_the_execution_is_told_of_all_that_it_ended() -> None:
    sim = Simulation(
        playbook("""
            - {step: start, next: [stop, work]}
            - {step: stop, tool: {kind: noop}, terminate: failed, next: after}
            - {step: work, tool: {kind: wait, timer: 1h}, next: after}
            - {step: after, spec: {join: any}, tool: {kind: noop}}
        """)
    )
    accounts = explained(sim, ended(sim))
    assert accounts["stop"].why == "It ran after start (it ended the execution as failed)."
    assert accounts["work"].why == ("It ran after start and was cancelled (step 'stop' ended the execution).")
    assert [(way.fate, way.why) for way in accounts["after"].ways] == [
        ("ended", "it ended the execution, and its arcs were not followed"),
        ("ended", "it was cancelled: step 'stop' ended the execution"),
    ]


def test_a_run_that_another_one_ended_says_which() -> None:
    sim = Simulation(
        playbook("""
            - {step: start, next: [stop, work]}
            - {step: stop, tool: {kind: noop}, spec: {completes: [work]}}
            - {step: work, tool: {kind: wait, timer: 1h}}
        """)
    )
    assert explained(sim, ended(sim))["work"].why == "It ran after start (run stop#1 ended it as done)."


def test_a_choice_is_told_at_the_place_of_its_arc() -> None:
    sim = Simulation(
        playbook("""
            - step: start
              next:
                arcs:
                  - {step: ship, wait: {signal: paid}}
                  - {step: drop, wait: {timer: 1h}}
            - {step: ship, tool: {kind: noop}}
            - {step: drop, tool: {kind: noop}}
        """)
    )
    execution_id = sim.start()
    sim.settle()
    choice = explained(sim, execution_id)["start.choice"]
    assert choice.why.startswith("It waits: task 'task_0' waits for signal 'paid' or ")
    assert choice.line == 8
    sim.rest()
    accounts = explained(sim, execution_id)
    assert [way.line for way in accounts["drop"].ways] == [11]
    assert accounts["drop"].why == "It ran after start.choice."
