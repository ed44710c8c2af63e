"""Why a step did not run: every reason there is, told of an execution that ran."""

from __future__ import annotations

from textwrap import dedent

import pytest

from noetl.facts.json import Json
from noetl.history.accounts import StepAccount, Way
from noetl.pipeline.model import Call
from noetl.testing import Simulation
from noetl.usecases import control

from .stories import ended, explained, playbook, why

ROUTER = playbook("""
    - step: start
      tool: {kind: noop, result: {n: 3}}
      next: {arcs: [{step: big, when: "{{ output.result.n > 5 }}"}, {step: small}, {step: never}]}
    - step: big
      tool: {kind: noop}
      next: after_big
    - step: after_big
      tool: {kind: noop}
    - step: small
      tool: {kind: python, code: "raise ValueError('no')"}
      next: tail
    - step: tail
      tool: {kind: noop}
    - step: never
      tool: {kind: noop}
    - step: lost
      tool: {kind: noop}
""")


def only_way(sim: Simulation, run: str, step: str) -> Way:
    (way,) = explained(sim, run)[step].ways
    return way


def test_a_guard_that_did_not_hold_is_shown_with_what_it_read() -> None:
    sim = Simulation(ROUTER)
    run = ended(sim)
    one = explained(sim, run)["big"]
    assert (one.standing, one.run_count) == ("not_run", 0)
    assert one.why == (
        "It did not run: the guard of the arc from step 'start' to 'big' did not hold "
        "({{ output.result.n > 5 }} with output.result.n = 3)."
    )
    (way,) = one.ways
    assert (way.fate, way.source, way.run, way.asked, way.taken) == ("missed", "start", "start#1", 1, 0)
    assert way.guard is not None
    assert (way.guard.when, way.guard.names) == ("{{ output.result.n > 5 }}", {"output.result.n": 3})
    assert way.line == 9


def test_of_a_step_behind_one_that_did_not_run_the_place_is_told_at_which_the_way_ended() -> None:
    sim = Simulation(ROUTER)
    one = explained(sim, ended(sim))["after_big"]
    assert (
        "step 'big', which leads to it, did not run, because the guard of the arc from step 'start'"
        in one.why
    )
    assert [(way.source, way.step, way.fate) for way in one.stopped_at] == [("start", "big", "missed")]


@pytest.mark.parametrize(
    ("step", "fate", "told"),
    [
        ("never", "passed_over", "at the end of step 'start' the router took the way to small in its place"),
        ("tail", "success_only", "step 'small' failed, and the arc from it to 'tail' is for success only"),
    ],
)
def test_an_arc_that_was_not_asked_says_why(step: str, fate: str, told: str) -> None:
    sim = Simulation(ROUTER)
    run = ended(sim)
    assert only_way(sim, run, step).fate == fate
    assert why(sim, run, step) == f"It did not run: {told}."


def test_a_step_that_nothing_leads_to_says_so() -> None:
    sim = Simulation(ROUTER)
    assert why(sim, ended(sim), "lost") == "It did not run: no arc leads to it."


def test_before_the_beginning_nothing_has_run_yet() -> None:
    sim = Simulation(ROUTER)
    run = sim.start()
    assert why(sim, run, "start") == "It has not run: the execution has not begun."
    assert only_way(sim, run, "start").fate == "open"


def test_a_request_that_was_refused_says_with_which_error() -> None:
    sim = Simulation(
        playbook("- step: start\n  tool: {kind: noop}", "workload: {n: '{{ 1 + nothing.at.all }}'}")
    )
    run = ended(sim)
    assert why(sim, run, "start").startswith("It did not run: the request was refused: workload: ")


def test_a_guard_that_cannot_be_evaluated_breaks_all_arcs_of_its_step() -> None:
    sim = Simulation(
        playbook("""
            - step: start
              tool: {kind: noop, result: {}}
              next: [{step: one, when: "{{ 1 + result.nothing }}"}, {step: two}]
            - step: one
              tool: {kind: noop}
            - step: two
              tool: {kind: noop}
        """)
    )
    run = ended(sim)
    assert [only_way(sim, run, step).fate for step in ("one", "two")] == ["broken", "broken"]
    assert "the arcs could not be followed: " in why(sim, run, "two")
    assert explained(sim, run)["start"].standing == "failed"
    assert "it ended well, and its arcs could not be followed" in why(sim, run, "start")


GATE = """
    - step: start
      next: gate
    - step: gate
      spec:
        policy:
          admit:
            rules: [{when: "{{ ctx.go }}", then: {allow: true}}, {else: {then: {allow: false}}}]
            on_deny: ON_DENY
      tool: {kind: noop}
      next: behind
    - step: behind
      tool: {kind: noop}
"""


def test_a_token_that_was_dropped_at_admission_shows_all_rules_with_their_values() -> None:
    sim = Simulation(playbook(GATE.replace("ON_DENY", "skip"), "executor: {spec: {}}"))
    run = ended(sim)
    one = explained(sim, run)["gate"]
    assert (one.standing, one.why) == ("skipped", "It did not run: admission was denied.")
    (token,) = one.dropped
    assert [(rule.when, rule.names, rule.said) for rule in token.rules] == [
        ("{{ ctx.go }}", {"ctx.go": None}, "did not hold"),
        (None, {}, "denied"),
    ]
    assert why(sim, run, "behind") == ("It did not run: step 'gate' was skipped: admission was denied.")


def test_a_step_that_failed_at_admission_shows_the_rules() -> None:
    sim = Simulation(playbook(GATE.replace("ON_DENY", "fail")))
    one = explained(sim, ended(sim))["gate"]
    assert one.standing == "failed"
    assert [rule.said for rule in one.runs[0].admission] == ["did not hold", "denied"]


def test_a_join_that_could_not_fill_says_which_branches_came() -> None:
    sim = Simulation(
        playbook("""
            - step: start
              next: [a, b]
            - step: a
              tool: {kind: noop}
              next: join
            - step: b
              tool: {kind: noop, result: 1}
              next: {arcs: [{step: join, when: "{{ result > 1 }}"}]}
            - step: join
              spec: {join: all}
              tool: {kind: noop}
              next: behind
            - step: behind
              tool: {kind: noop}
        """)
    )
    run = ended(sim)
    one = explained(sim, run)["join"]
    assert one.why == "It did not run: Join 'join' can no longer fill: 1 of 2 branches came."
    assert [(way.source, way.fate) for way in one.ways] == [("a", "taken"), ("b", "missed")]
    assert "step 'join' could not fill its join: " in why(sim, run, "behind")


def test_what_came_after_another_branch_had_failed_names_the_step_that_failed() -> None:
    def slow(_call: Call) -> Json:
        """While it runs, the other branch fails."""
        sim.deliver()
        sim.deliver()
        return 1

    sim = Simulation(
        playbook("""
            - step: start
              next: [slow, bad]
            - step: slow
              tool: {kind: http}
              next: behind
            - step: bad
              tool: {kind: python, code: "raise ValueError('no')"}
            - step: behind
              tool: {kind: noop}
        """),
        tools={"http": slow},
    )
    run = ended(sim)
    accounts = explained(sim, run)
    assert accounts["bad"].why == "It ran after start and failed: no."
    assert accounts["slow"].standing == "done"
    assert (accounts["behind"].standing, accounts["behind"].why) == (
        "skipped",
        "It did not run: step 'bad' had failed, and with it the execution: nothing new started.",
    )


def test_a_cancelled_execution_says_so_of_what_it_left() -> None:
    sim = Simulation(playbook(GATE.replace("ON_DENY", "pending")))
    run = ended(sim)
    control.cancel(sim.rt, run, "wrong day")
    sim.settle()
    one = explained(sim, run)["gate"]
    assert one.why == "It did not run: the execution was cancelled before it was taken up."
    assert one.waits == ()


def test_a_step_whose_run_was_cancelled_says_why() -> None:
    sim = Simulation(
        playbook("- step: start\n  tool: {kind: noop}\n  next: behind\n- step: behind\n  tool: {kind: noop}")
    )
    run = sim.start()
    sim.deliver()
    control.cancel(sim.rt, run, "wrong day")
    sim.settle()
    accounts = explained(sim, run)
    assert accounts["start"].why == "It ran as the entry and was cancelled (the execution was cancelled)."
    assert accounts["behind"].why == (
        "It did not run: step 'start' was cancelled: the execution was cancelled."
    )


def test_secrets_and_long_values_are_not_shown() -> None:
    def made(value: Json) -> str:
        sim = Simulation(
            playbook(
                """
                - step: start
                  next: {arcs: [{step: behind, when: "{{ ctx.password == 'x' and ctx.text == 'y' }}"}]}
                - step: behind
                  tool: {kind: noop}
                """,
                f"workload: {{text: '{value}'}}\n",
            )
        )
        run = sim.start()
        control.patch_ctx(sim.rt, run, {"password": "opensesame", "text": value})
        sim.settle()
        return repr(explained(sim, run)["behind"])

    assert "opensesame" not in made("short")
    assert len(made("z" * 200)) < len(made("z")) + 500


def test_of_two_arcs_for_failures_the_second_one_was_passed_over() -> None:
    sim = Simulation(
        playbook("""
            - step: start
              tool: {kind: python, code: "raise ValueError('no')"}
              next: {arcs: [{step: mend, when: "{{ error }}"}, {step: weep, when: "{{ error }}"}]}
            - step: mend
              tool: {kind: noop}
            - step: weep
              tool: {kind: noop}
        """)
    )
    run = ended(sim)
    assert only_way(sim, run, "weep").fate == "passed_over"
    assert why(sim, run, "start") == "It ran as the entry and failed (an arc took its failure): no."


def test_in_a_cycle_no_step_is_the_reason_for_itself() -> None:
    sim = Simulation(
        playbook("""
            - step: start
              tool: {kind: noop}
              next: {arcs: [{step: a, when: "{{ false }}"}]}
            - step: a
              tool: {kind: noop}
              next: b
            - step: b
              tool: {kind: noop}
              next: a
        """)
    )
    accounts = explained(sim, ended(sim))
    assert [(way.source, way.step) for way in accounts["b"].stopped_at] == [("start", "a")]
    assert accounts["a"].stopped_at == ()
    assert accounts["a"].why == "It did not run: none of its 2 ways in was taken."


def test_a_token_that_comes_after_its_join_has_fired_is_told() -> None:
    sim = Simulation(
        playbook("""
            - step: start
              next: [a, b]
            - step: a
              tool: {kind: noop}
              next: join
            - step: b
              tool: {kind: noop}
              next: join
            - step: join
              spec: {join: first}
              tool: {kind: noop}
        """)
    )
    run = sim.start()
    sim.deliver()
    sim.deliver(0)
    # The turn that fires the join comes before the other branch ends.
    sim.deliver(1)
    sim.settle()
    one = explained(sim, run)["join"]
    assert (one.standing, one.run_count) == ("done", 1)
    assert [token.why for token in one.dropped] == ["it came after its join had fired"]


def test_what_waits_while_a_failed_execution_ends_says_so() -> None:
    seen = list[StepAccount]()

    def slow(_call: Call) -> Json:
        """While it runs, the other branch fails."""
        sim.deliver()
        sim.deliver()
        seen.append(explained(sim, run)["gate"])
        return 1

    branches = "- step: start\n  next: [slow, bad, gate]\n"
    slow_and_bad = """
- step: slow
  tool: {kind: http}
- step: bad
  tool: {kind: python, code: "raise ValueError('no')"}
"""
    gate = dedent(GATE.replace("ON_DENY", "pending")).partition("- step: gate")[2]
    sim = Simulation(playbook(f"{branches}{slow_and_bad}- step: gate{gate}"), tools={"http": slow})
    run = sim.start()
    sim.settle()
    (one,) = seen
    assert [wait.kind for wait in one.waits] == ["halt"]
    assert one.why == "It waits: step 'bad' failed, and with it the execution: nothing new starts."


def test_of_many_places_at_which_the_way_ended_some_are_told() -> None:
    arcs = ", ".join(f"{{step: s{n}, when: '{{{{ false }}}}'}}" for n in range(9))
    sources = "".join(f"- step: s{n}\n  tool: {{kind: noop}}\n  next: join\n" for n in range(9))
    behind = "- step: join\n  tool: {kind: noop}\n"
    sim = Simulation(playbook(f"- step: start\n  next: {{arcs: [{arcs}]}}\n{sources}{behind}"))
    one = explained(sim, ended(sim))["join"]
    assert [way.step for way in one.stopped_at] == ["s0", "s1", "s2", "s3", "s4", "s5"]
    assert one.why == "It did not run: none of its 9 ways in was taken; the ways to it ended at 'start'."


def test_a_step_that_ran_and_was_then_refused_says_that_it_did_not_run_again() -> None:
    sim = Simulation(
        playbook("""
            - step: start
              tool: {kind: noop}
              set: {ctx.n: "{{ (ctx.n or 0) + 1 }}"}
              next: gate
            - step: gate
              spec:
                policy:
                  admit: {rules: [{when: "{{ ctx.n < 2 }}", then: {allow: true}}, {else: {then: {allow: false}}}], on_deny: skip}
              tool: {kind: noop}
              next: start
        """)
    )
    one = explained(sim, ended(sim))["gate"]
    assert (one.standing, one.run_count) == ("skipped", 1)
    assert one.why == "It did not run again: admission was denied."
    assert one.dropped[-1].rules[0].names == {"ctx.n": 2}
    assert one.runs[0].admission[-1].names == {"ctx.n": 1}
