"""Executions on trial: what stands in for calls, time that passes at once, and what is said of a
test that fails."""

from __future__ import annotations

from typing import Any

import pytest

from tests.effort import calls

from .conftest import Trial, failures

BOOK = """
workload: {url: "https://shop.example.com"}
workflow:
  - step: start
    tool:
      kind: http
      url: "{{ workload.url }}/{{ workload.id | default(1) }}"
      spec:
        policy:
          rules:
            - {when: "{{ error.retryable }}", then: {do: retry, attempts: 3, delay: 3600}}
            - {when: "{{ outcome.status == 'error' }}", then: {do: fail}}
    next:
      arcs:
        - {step: late, when: "{{ start.data.days > 30 }}"}
        - {step: end}
  - step: late
    tool: {kind: python, input: {days: "{{ start.data.days }}"}, code: "result = days - 30"}
    set: {ctx.over: "{{ result }}"}
    next: end
  - step: end
    tool: {kind: noop, input: {over: "{{ ctx.over }}", id: "{{ start.data.id }}"}}
"""
LOOP = """
workload: {ids: [7, 8, 9]}
workflow:
  - step: start
    loop: {in: "{{ workload.ids }}", iterator: id, spec: {mode: parallel}}
    tool:
      kind: http
      url: "https://shop.example.com/{{ iter.id }}"
      input: {id: "{{ iter.id }}"}
      spec: {policy: {rules: [{when: "{{ error.retryable }}", then: {do: retry, attempts: 2, delay: 60}}]}}
"""


def only(trial: Trial, playbook: str, test: str) -> str:
    """Why the one test fails; empty where it does not."""
    (verdict,) = trial(playbook, f"tests:\n- name: it\n{test}")
    return "" if verdict.passed else failures(verdict)


@pytest.mark.parametrize(
    "test",
    [
        # A result for every call, the path, the calls as they were rendered.
        """
  inputs: {id: 17}
  stand_ins: {start: {result: {data: {id: 17, days: 3}}}}
  expect:
    path: [start, end]
    not_run: [late]
    calls: {start: [{config: {url: "https://shop.example.com/17"}, attempt: 1}], late: 0}
    result: {id: 17, over: null}
        """,
        # By the task, and a template over the call.
        """
  set: {url: "http://x"}
  stand_ins:
    start.task_0: {result: {data: {id: "{{ config.url }}", days: "{{ 30 + attempt }}"}}}
    late: {result: 12}
  expect: {path: [start, late, end], result: {id: "http://x/1"}, ctx: {over: 12}, calls: {late: [{args: {days: 31}}]}}
        """,
        # By the kind; and what really runs.
        """
  stand_ins:
    http: {result: {data: {days: 40}}}
    python: {run: true}
  expect: {ctx: {over: 10}, steps: {late: {status: done, result: 10}}}
        """,
        # A sequence; delays pass at once.
        """
  stand_ins:
    start: [{error: {kind: timeout}}, {error: {kind: server_error}, extras: {http: {status: 503}}}, {result: {data: {days: 1}}}]
  expect: {calls: {http: 3}}
        """,
        # Errors: that of a call, and of the execution.
        """
  stand_ins: {start: {error: {kind: auth, message: No entry.}}}
  expect: {error: {kind: auth, step: start, message: "~ entry"}}
        """,
        """
  stand_ins: {start: {error: No entry.}}
  expect: {status: failed, error: No entry.}
        """,
        # What was recorded is no template.
        """
  stand_ins: {start: {recorded: {data: {id: "{{ x }}", days: 1}}}}
  expect: {result: {id: "~ ^.. x ..$"}}
        """,
    ],
)  # fmt: skip
def test_it_goes_as_expected(trial: Trial, test: str) -> None:
    assert only(trial, BOOK, test) == ""


@pytest.mark.parametrize(
    ("test", "said"),
    [
        (
            "  stand_ins: {start: {result: {data: {days: 1}}}}\n  expect: {result: {over: 1}}",
            ["book.test.yaml:4:27: result.over: expected 1, got null", "ran: start (done) → end (done)"],
        ),
        (
            "  stand_ins: {start: {result: {data: {days: 1}}}}\n  expect: {not_run: [end]}",
            ["book.test.yaml:4:22: step 'end' was not to run: it ran once", "ran: start (done) → end (done)"],
        ),
        (
            "  stand_ins: {start: {error: Gone.}}",
            [
                'book.test.yaml:2:3: status: expected "completed", got "failed"',
                "book.yaml:8: internal: Gone. (step start)",
                "ran: start (failed)",
            ],
        ),
        (
            "  expect: {error: {kind: internal}}",
            [
                "book.test.yaml:2: Nothing stands in for the http call of 'start.task_0': add stand_ins: {start: "
                "{result: ...}}, or {start: {run: true}} to really make it.",
                "ran: start (failed)",
            ],
        ),
        (
            "  stand_ins: {start: [{error: {kind: timeout}}, {error: {kind: timeout}}]}\n  expect: {status: failed}",
            [
                "book.test.yaml:2: Nothing stands in for call 3 of 'start': its list has 2.",
                "ran: start (failed)",
            ],
        ),
        (
            "  stand_ins: {start: {result: '{{ 1 + args }}'}}\n  expect: {status: failed}",
            [
                "book.test.yaml:2: The stand-in of 'start': The template `{{ 1 + args }}` cannot be computed: '+' does "
                "not work between a number and a mapping.",
                "ran: start (failed)",
            ],
        ),
    ],
)  # fmt: skip
def test_what_differs_is_said_with_its_place(trial: Trial, test: str, said: list[str]) -> None:
    assert only(trial, BOOK, test).splitlines() == said


@pytest.mark.parametrize(
    "stand_ins",
    [
        "{start: {result: '{{ args.id * 2 }}'}}",
        "{start: [{result: 14}, {result: 16}, {result: 18}]}",
        "{start: [{result: 14}, [{error: {kind: timeout}}, {result: 16}], {result: 18}]}",
    ],
)
def test_a_loop_has_a_stand_in_for_each_item(trial: Trial, stand_ins: str) -> None:
    test = f"  stand_ins: {stand_ins}\n  expect: {{result: {{results: [14, 16, 18]}}}}"
    assert only(trial, LOOP, test) == ""


def test_an_item_without_a_stand_in_fails(trial: Trial) -> None:
    said = only(trial, LOOP, "  stand_ins: {start: [{result: 1}]}\n  expect: {status: failed}")
    assert said.startswith("book.test.yaml:2: Nothing stands in for item 1 of 'start': its list has 1.")


def test_of_many_faults_the_first_ones_are_shown(trial: Trial) -> None:
    many = LOOP.replace("[7, 8, 9]", str(list(range(15)))).replace(
        "spec: {mode: parallel}", "spec: {mode: parallel, policy: {failure: {mode: best_effort}}}"
    )
    said = only(trial, many, "  stand_ins: {start: [{result: 1}]}").splitlines()
    assert (len(said), said[10]) == (12, "and 4 more")


CALLER = """
workflow:
  - step: start
    tool: {kind: playbook, path: tests/called, input: {n: 4}}
"""
CALLED = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: called, path: tests/called}
workflow:
  - step: start
    tool: {kind: python, input: {n: "{{ workload.n }}"}, code: "result = n * 10"}
"""


@pytest.mark.parametrize(
    "stand_in",
    [
        "{start: {result: 40}}",
        "{tests/called:start: {result: '{{ args.n * 10 }}'}}",
        "{tests/called:start.task_0: {run: true}}",
        "{python: {run: true}}",
    ],
)
def test_a_called_playbook_runs_beside_its_caller_or_is_stood_in_for(
    trial: Trial, stand_in: str, tmp_path: Any
) -> None:
    (tmp_path / "called.yaml").write_text(CALLED, encoding="utf-8")
    assert only(trial, CALLER, f"  stand_ins: {stand_in}\n  expect: {{result: 40}}") == ""
    # Of a kind that it does not know itself.
    said = only(trial, CALLER, "  stand_ins: {http: {result: 1}}\n  expect: {status: failed}")
    assert "Nothing stands in for the python call of 'tests/called:start.task_0'" in said


CLOCK = """
workflow:
  - step: start
    input: {at: "{{ now() }}"}
    tool:
      kind: python
      code: pass
      spec: {policy: {rules: [{when: "{{ outcome.status == 'error' }}", then: {do: retry, attempts: 3, delay: DELAY}}]}}
    next: end
  - step: end
    input: {at: "{{ now() }}"}
    tool: {kind: noop, result: {at: "{{ at }}", day: "{{ env.DAY }}"}}
"""


@pytest.mark.parametrize(("delay", "at"), [("0.5", "12:00:01"), ("1", "12:00:02"), ("3600", "14:00:00")])
def test_the_clock_begins_where_the_test_says_and_jumps_to_what_is_due(
    trial: Trial, delay: str, at: str
) -> None:
    test = f"""
  clock: 2027-02-03T12:00:00Z
  env: {{DAY: monday}}
  stand_ins: {{start: [{{error: a}}, {{error: b}}, {{result: 1}}]}}
  expect:
    result: {{at: "~ ^2027-02-03.{at}", day: monday}}
"""
    assert only(trial, CLOCK.replace("DELAY", delay), test) == ""


GATE = """
workflow:
  - step: start
    spec: {policy: {admit: {rules: [{when: "{{ ctx.go }}", then: {allow: true}}, {else: {then: {allow: false}}}]}}}
    tool: {kind: noop}
"""
ENDLESS = """
workflow:
  - {step: start, tool: {kind: noop}, next: other}
  - {step: other, tool: {kind: noop}, next: [{step: start, when: "{{ true }}"}]}
"""


def test_what_never_comes_to_rest_says_what_it_waits_for(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = only(trial, GATE, "  expect: {result: 1}")
    assert 'status: expected "completed", got "waiting"' in said
    assert "step 'start' waits: its admission was denied" in said
    assert only(trial, GATE, "  expect: {status: waiting}") == ""
    monkeypatch.setattr("noetl.trial.play.MOST_MOVES", 50)
    said = only(trial, ENDLESS, "  expect: {status: completed}")
    assert 'status: expected "completed", got "running"' in said
    assert "it does not come to rest within 50 messages and delays" in said


def test_patches_are_made_while_it_waits(trial: Trial) -> None:
    test = "  patches: [{other: 1}, {go: true}]\n  expect: {status: completed, ctx: {go: true, other: 1}}"
    assert only(trial, GATE, test) == ""
    late = "  patches: [{go: true}, {deep.er: 1}]\n  expect: {path: [start]}"
    assert only(trial, GATE, late).startswith(
        "book.test.yaml:2: Patch 2 is not made: the execution is completed, and does not wait for it."
    )


INPUTS = """
inputs: {zip: {type: string, pattern: "^[0-9]{5}$"}, token: {type: string, secret: true, required: true}}
keychain: [{name: shop, kind: secret, provider: env, secret_name: SHOP}]
workflow:
  - step: start
    tool: {kind: http, url: "https://x/{{ workload.zip }}", headers: {a: "{{ workload.token }}", b: "{{ keychain.shop }}"}}
"""


def test_what_is_refused_is_expected_and_secrets_need_no_store(trial: Trial) -> None:
    assert (
        only(trial, INPUTS, '  inputs: {zip: x}\n  expect: {status: refused, error: "~ token.*required|zip"}')
        == ""
    )
    given = "  inputs: {zip: '01234', token: t}\n  stand_ins: {start: {result: 1}}\n"
    assert (
        only(
            trial, INPUTS, given + "  expect: {result: 1, calls: {start: [{config: {url: https://x/01234}}]}}"
        )
        == ""
    )


def test_each_of_many_tests_is_as_much_work(trial: Trial) -> None:
    test = "- name: t{}\n  stand_ins: {{start: {{result: {{data: {{days: 1}}}}}}}}\n"

    def work(many: int) -> int:
        text = "tests:\n" + "".join(test.format(number) for number in range(many))
        assert all(verdict.passed for verdict in trial(BOOK, text))
        return calls(lambda: trial(BOOK, text))

    assert work(4) < 4.4 * work(1)
