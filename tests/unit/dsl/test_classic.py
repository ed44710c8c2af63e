"""What the classic dialect becomes, and that problems point at what was written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from noetl.dsl import Code, Compiled

#: Classic steps → the same steps in canonical form.
REWRITTEN = {
    "vars stand before set": (
        "- {step: a, tool: {kind: noop}, vars: {x: '{{ result.x }}', ctx.y: 2}, set: {z: 3}, next: b}",
        "- {step: a, tool: {kind: noop}, set: {ctx.x: '{{ result.x }}', ctx.y: 2, z: 3}, next: b}",
    ),
    "vars stand before sinks": (
        "- {step: a, tool: {kind: noop}, vars: {x: '{{ result.x }}', a-b: 1}, sink: {kind: noop}}",
        """
- step: a
  tool:
  - {kind: noop}
  - vars: {kind: noop, result: {x: '{{ result.x }}', a-b: 1}, set: {ctx.x: '{{ output.x }}', ctx.a-b: '{{ output["a-b"] }}'}, spec: {after: "{{ outcome.status == 'ok' }}"}}
  - sink: {kind: noop, input: {data: '{{ result }}'}, spec: {after: "{{ outcome.status == 'ok' }}"}}
""",
    ),
    "names of sinks are new": (
        "- {step: a, tool: [{name: sink, kind: noop}, w], sink: [{kind: noop}, {tool: {name: w, kind: "
        "noop}}]}",
        """
- step: a
  tool:
  - {name: sink, kind: noop}
  - w
  - sink_2: {kind: noop, input: {data: '{{ result }}'}, spec: {after: "{{ outcome.status == 'ok' }}"}}
  - w_2: {name: w, kind: noop, input: {data: '{{ result }}'}, spec: {after: "{{ outcome.status == 'ok' }}"}}
""",
    ),
    "inputs of a sink that read data have it by name": (
        "- {step: a, tool: {kind: noop}, sink: {tool: {kind: noop, input: {x: '{{ data.x }}'}}}}",
        """
- step: a
  tool:
  - {kind: noop}
  - sink.data: {kind: noop, result: '{{ result }}', set: {data: '{{ output }}'}, spec: {after: "{{ outcome.status == 'ok' }}"}}
  - sink: {kind: noop, input: {data: '{{ result }}', x: '{{ data.x }}'}, spec: {after: "{{ outcome.status == 'ok' }}"}}
""",
    ),
    "a sink with a table takes its data as rows": (
        "- {step: a, tool: {kind: noop}, sink: [{kind: sqlite, table: t}, {tool: {kind: sqlite, table: t, rows: 1}}, {kind: "
        "http, url: u, table: t}]}",
        """
- step: a
  tool:
  - {kind: noop}
  - sink: {kind: sqlite, table: t, rows: '{{ args.data }}', input: {data: '{{ result }}'}, spec: {after: "{{ outcome.status == 'ok' }}"}}
  - sink_2: {kind: sqlite, table: t, rows: 1, input: {data: '{{ result }}'}, spec: {after: "{{ outcome.status == 'ok' }}"}}
  - sink_3: {kind: http, url: u, table: t, input: {data: '{{ result }}'}, spec: {after: "{{ outcome.status == 'ok' }}"}}
""",
    ),
    "a sink of pages with a table takes what is collected of each": (
        "- {step: a, tool: {kind: http, url: u}, retry: {when: x, next_call: {params: {p: 1}}, collect: {path: a.0.b}, "
        "per_iteration: {sink: {kind: sqlite, table: t}}}}",
        """
- step: a
  tool:
    kind: http
    url: u
    repeat:
      next: {when: x, params: {p: 1}}
      collect: {path: a.0.b}
      each: [{sink: {kind: sqlite, table: t, rows: '{{ args.data["a"][0]["b"] | default(args.response["a"][0]["b"]) }}'}}]
""",
    ),
    "rules that only route are an exclusive router": (
        "- {step: a, case: [{when: x, then: {next: b}}, {when: true, then: [{next: [c, {step: d, when: "
        "'{{ y }}', with: {n: 1}}]}]}], next: e}",
        "- {step: a, next: {arcs: [{step: b, when: x}, [{step: c}, {step: d, when: '{{ y }}', args: {n: "
        "1}}], {step: e}]}}",
    ),
    "guards of a rule and its target are joined": (
        "- {step: a, case: [{when: x, then: {next: [{step: b, when: '{{ y or z }}'}, {step: c, when: "
        "true}, {step: d, when: false}]}}]}",
        "- {step: a, next: {arcs: [[{step: b, when: '{{ (x) and (y or z) }}'}, {step: c, when: x}, "
        "{step: d, when: false}]]}}",
    ),
    "rules that assign are all asked": (
        "- {step: a, case: [{when: x, then: {set: {n: 1}}}, {when: y, then: {set: {m: 2}, next: {step: "
        "b, set: {o: 3}}}}], next: {spec: {no_next_is_error: true}, arcs: [c]}}",
        "- {step: a, next: {spec: {no_next_is_error: true, mode: first}, arcs: [{when: x, set: {n: 1}}, "
        "{step: b, when: y, set: {m: 2, o: 3}}, {step: c}]}}",
    ),
    "what a rule assigns comes last where its guard reads it": (
        "- {step: a, case: [{when: n < 3, then: {set: {n: 4}, next: [b, c]}}]}",
        "- {step: a, next: {spec: {mode: first}, arcs: [[{step: b, when: n < 3}, {step: c, when: n < "
        "3}], {when: n < 3, set: {n: 4}}]}}",
    ),
    "a default that assigns asks what was taken": (
        "- {step: a, case: [{when: x, then: {next: b}}], next: {step: c, set: {n: 1}}}",
        """
- step: a
  next:
    spec: {mode: first}
    arcs:
    - {step: b, when: x, set: {step.routed: '{{ step.routed | default(0) }}'}}
    - {step: c, when: '{{ step.routed | default(1) == 1 }}', set: {n: 1, step.routed: '{{ step.routed | default(1) }}'}}
""",
    ),
    "all arcs of an inclusive default are one choice": (
        "- {step: a, case: [{when: x, then: {next: b}}], next: {spec: {mode: inclusive}, arcs: [c, "
        "{step: d, when: y}]}}",
        "- {step: a, next: {arcs: [{step: b, when: x}, [{step: c}, {step: d, when: y}]]}}",
    ),
    "the sink of a case runs where its guard holds": (
        """
- step: a
  tool: {kind: noop}
  case:
  - {when: "{{ result.n }}", then: {sink: {tool: noop}}}
  - {when: "{{ event.name == 'call.error' }}", then: {sink: {kind: noop}}}
  - {then: {sink: {kind: noop}}}
""",
        """
- step: a
  tool:
  - {kind: noop}
  - sink: {kind: noop, input: {data: '{{ result | default(none) }}'}, spec: {after: "{{ (outcome.status == 'ok') and (result.n) }}"}}
  - sink_2: {kind: noop, input: {data: '{{ result | default(none) }}'}, spec: {after: "{{ event.name == 'call.error' }}"}}
  - sink_3: {kind: noop, input: {data: '{{ result | default(none) }}'}, spec: {after: "{{ outcome.status == 'ok' }}"}}
""",
    ),
    "a sink of a whole loop has a step of its own": (
        """
- step: a
  loop: {in: [1], iterator: i}
  tool: {kind: noop}
  case: [{when: "{{ event.name == 'loop.done' }}", then: {sink: {kind: noop}, next: {step: b, args: {n: "{{ result.n }}", m: 1}}}}]
  next: c
""",
        """
- step: a
  loop: {in: [1], iterator: i}
  tool: {kind: noop}
  next: {arcs: [{step: a.case, args: {data: '{{ result }}', case: ["{{ event.name == 'loop.done' }}", "{{ event.name == 'loop.done' }}", 1, '{{ result.n }}']}}]}
- step: a.case
  tool:
  - result: {kind: noop, result: '{{ args.data }}'}
  - sink: {kind: noop, input: {data: '{{ args.data }}'}, spec: {after: '{{ args.case[0] }}'}}
  next: {arcs: [{step: b, when: '{{ args.case[1] }}', args: {m: '{{ args.case[2] }}', n: '{{ args.case[3] }}'}}, {step: c}]}
""",
    ),
    "in a loop a rule about the end of the step acts behind each iteration": (
        """
- step: a
  loop: {in: [1], iterator: i}
  tool: {kind: noop}
  case:
  - {when: "{{ event.name == 'step.exit' and response.n }}", then: {set: {n: "{{ response.n }}", iter.m: 1}, sink: {kind: noop}, next: {step: b, set: {o: 2}}}}
  - {when: "{{ event.name in ['step.exit', 'call.done'] }}", then: {set: {ctx.p: 3}}}
  next: c
""",
        """
- step: a
  loop: {in: [1], iterator: i}
  tool:
  - {kind: noop}
  - sink: {kind: noop, input: {data: '{{ result | default(none) }}'}, spec: {after: "{{ event.name in ['call.done', 'call.error'] and response.n }}"}}
  - set: {kind: noop, result: {n: '{{ response.n }}', iter.m: 1}, set: {ctx.n: '{{ output.n }}', iter.m: '{{ output["iter.m"] }}'}, spec: {after: "{{ event.name in ['call.done', 'call.error'] and response.n }}"}}
  - set_2: {kind: noop, result: {p: 3}, set: {ctx.p: '{{ output.p }}'}, spec: {after: "{{ event.name in [event.name, 'call.done'] }}"}}
  next: {spec: {mode: first}, arcs: [{step: b, when: "{{ event.name == 'step.exit' and response.n }}", set: {o: 2}}, {step: c}]}
""",
    ),
    "errors are tried again by a policy": (
        "- {step: a, tool: {kind: http, url: u, spec: {timeout: 3}}, retry: [{when: e, stop_when: f, "
        "then: {max_attempts: 4, backoff: linear, jitter: 2}}, {then: {attempts: 2, initial_delay: 5s}}]}",
        """
- step: a
  tool:
    kind: http
    url: u
    spec:
      timeout: 3
      policy:
        rules:
        - {when: "{{ outcome.status == 'ok' }}", then: {do: continue}}
        - {when: f, then: {do: fail}}
        - {when: e, then: {do: retry, attempts: 4, delay: 1, jitter: 2, backoff: linear}}
        - {else: {then: {do: retry, attempts: 2, delay: 5s}}}
""",
    ),
    "what a call yielded is asked of successes, and repeats the same call": (
        "- {step: a, tool: {kind: noop}, retry: [{when: '{{ response.state != 1 }}', stop_when: '{{ result.x }}', then: "
        "{max_attempts: 9, delay: 2, backoff: linear}}]}",
        """
- step: a
  tool:
    kind: noop
    spec:
      policy:
        rules:
        - {when: "{{ (outcome.status == 'ok') and ((response.state != 1) and (not (result.x))) }}", then: {do: retry, attempts: 9, delay: 2, backoff: linear}}
        - {when: "{{ outcome.status == 'ok' }}", then: {do: continue}}
        - {else: {then: {do: fail}}}
""",
    ),
    "a guard that mentions errors itself is taken as it is": (
        "- {step: a, tool: {kind: noop}, retry: {when: '{{ error or result.x }}', max_attempts: 9}}",
        """
- step: a
  tool:
    kind: noop
    spec:
      policy:
        rules:
        - {when: "{{ error or result.x }}", then: {do: retry, attempts: 9, delay: 1}}
        - {when: "{{ outcome.status == 'ok' }}", then: {do: continue}}
        - {else: {then: {do: fail}}}
""",
    ),
    "polls and errors keep their order, and count for themselves": (
        "- {step: a, tool: {kind: noop}, retry: [{when: e, stop_when: f}, {stop_when: '{{ result.x }}'}, {delay: 0}]}",
        """
- step: a
  tool:
    kind: noop
    spec:
      policy:
        rules:
        - {when: "{{ (outcome.status == 'error') and (f) }}", then: {do: fail}}
        - {when: "{{ (outcome.status == 'error') and (e) }}", then: {do: retry, delay: 1, count: alike}}
        - {when: "{{ (outcome.status == 'ok') and (not (result.x)) }}", then: {do: retry, delay: 1, count: alike}}
        - {when: "{{ outcome.status == 'ok' }}", then: {do: continue}}
        - {else: {then: {do: retry, delay: 0, count: alike}}}
""",
    ),
    "successes are repeated": (
        """
- step: a
  tool:
    kind: http
    url: u
    retry:
      max_attempts: 9
      when: "{{ result.data.next }}"
      stop_when: "{{ result.data.done }}"
      next_call: {params: {p: "{{ result.data.next }}"}, args: {q: 1}}
      collect: {strategy: merge, path: rows, into: all}
      per_iteration: {sink: [{tool: {kind: noop}}]}
""",
        """
- step: a
  tool:
    kind: http
    url: u
    repeat:
      next: {when: "{{ (result.data.next) and (not (result.data.done)) }}", params: {p: "{{ result.data.next }}"}, args: {q: 1}}
      max: 9
      collect: {strategy: merge, path: rows, into: all}
      each: [{sink: {kind: noop}}]
""",
    ),
    "both kinds of retries stand in one list": (
        "- {step: a, tool: [{x: {kind: noop}}, y], retry: [{when: e, then: {delay: 2}}, {when: a, then: "
        "{next_call: {args: {n: 1}}}}, {then: {next_call: {args: {n: 2}}, backoff: fixed, delay: 3}}]}",
        """
- step: a
  tool:
  - x: {kind: noop}
  - kind: workbook
    task: y
    spec:
      policy:
        rules:
        - {when: "{{ outcome.status == 'ok' }}", then: {do: continue}}
        - {when: e, then: {do: retry, delay: 2}}
        - {else: {then: {do: fail}}}
    repeat:
      next: [{when: a, args: {n: 1}}, {when: true, args: {n: 2}}]
      delay: 3
      backoff: fixed
""",
    ),
}


@pytest.mark.parametrize("name", REWRITTEN)
def test_it_becomes(name: str, body: Callable[[str], Compiled]) -> None:
    classic, canonical = REWRITTEN[name]
    written = body("workflow:\n" + classic.strip("\n") + "\n").source.data
    assert written is not None
    assert written["workflow"] == _plain(canonical)


def _plain(text: str) -> Any:
    return yaml.safe_load(text)


def test_each_key_is_reported_once_with_its_canonical_spelling(body: Callable[[str], Compiled]) -> None:
    found = body(
        "workbook: {w: {kind: noop, retry: {max_attempts: 2}}}\n"
        "workflow:\n- step: a\n  tool: {kind: noop, sink: {kind: noop}, retry: {max_attempts: 2}}\n"
        "  vars: {n: 1}\n  case: []\n  sink: {kind: noop}\n"
    )
    told = {(one.path, one.hint.partition(";")[0]) for one in found.problems if one.code is Code.DEPRECATED}
    retry = "write retry: {attempts, delay, backoff, jitter, when} after errors, and repeat: after successes"
    sink = "write a task with spec.after behind the others"
    assert told == {
        ("workbook.w.retry", retry),
        ("workflow[0].tool.sink", sink),
        ("workflow[0].tool.retry", retry),
        ("workflow[0].vars", "write set: {ctx.<name>: ...}"),
        ("workflow[0].case", "write next: {spec: {mode: first}, arcs: [{step, when, set}]}"),
        ("workflow[0].sink", sink),
    }
    assert len(told) == len(found.problems)


#: A step with one fault → code, line, column, path, and what the message has.
FAULTS: list[tuple[str, Code, int, int, str, str]] = [
    ("vars:\n    n: '{{ 1 | nope }}'", Code.TEMPLATE, 8, 16, "vars.n", "nope"),
    ("case:\n  - when: '{{ a b }}'\n    then: {next: a}", Code.TEMPLATE, 8, 12, "case[0].when", "a b"),
    (
        "case:\n  - when: '{{ x }}'\n    then:\n      next:\n      - a\n      - b",
        *(Code.UNKNOWN_STEP, 12, 9, "case[0].then.next[1]", "'b'"),
    ),
    (
        "case:\n  - then:\n      set: {workload.x: 1}",
        Code.SCOPE,
        9,
        13,
        "case[0].then.set.workload.x",
        "workload",
    ),
    (
        "case:\n  - then:\n      sink:\n        tool:\n          kind: nop",
        *(Code.UNKNOWN_KIND, 11, 17, "case[0].then.sink.tool.kind", "'nop'"),
    ),
    ("sink:\n    kind: http", Code.MISSING, 7, 3, "sink", "url"),
    ("sink: {kind: noop, retry: [{delay: 1}]}", Code.MISPLACED, 7, 22, "sink.retry", "canonical form"),
    ("sink:\n    table: t", Code.MISSING, 7, 3, "sink", "kind"),
    ("sink: {kind: http, url: u, metod: GET}", Code.MISSPELT_KEY, 7, 30, "sink.metod", "'method'"),
    ("retry:\n    max_attempts: 0", Code.VALUE, 8, 19, "retry.max_attempts", "attempts is 0"),
    ("retry:\n  - then: {delay: soon}", Code.VALUE, 8, 19, "retry[0].then.delay", "'soon'"),
    ("retry: {then: {backof: fixed}}", Code.MISSPELT_KEY, 7, 18, "retry.then.backof", "'backof'"),
    ("case: [{wen: x, then: {next: a}}]", Code.MISSPELT_KEY, 7, 11, "case[0].wen", "'wen'"),
    ("case: [{when: x}]", Code.MISSING, 7, 10, "case[0]", "what follows"),
    (
        "case: [{when: 'a {{ b }}', then: {next: [{step: a, when: c}, {step: a}]}}]",
        *(Code.VALUE, 7, 17, "case[0].when", "one expression"),
    ),
    ("retry: {backoff_multiplier: 3}", Code.VALUE, 7, 31, "retry.backoff_multiplier", "3"),
    (
        "retry: {backoff: linear, max_delay: 3}",
        *(Code.IGNORED, 7, 28, "retry.max_delay", "no effect"),
    ),
    ("retry: {collect: {path: x}}", Code.MISPLACED, 7, 11, "retry.collect", "add next_call"),
    (
        "retry: {when: '{{ result.x }}', per_iteration: {}}",
        Code.MISPLACED,
        7,
        35,
        "retry.per_iteration",
        "the same call",
    ),
    ("retry: [{delay: 1}, {when: '{{ error }}'}]", Code.MISPLACED, 7, 23, "retry[1]", "takes every error"),
    (
        "retry: [{next_call: {}}, {when: '{{ result.x }}', next_call: {}}]",
        *(Code.MISPLACED, 7, 28, "retry[1]", "takes every success"),
    ),
    (
        "retry: {retry_on: timeout, next_call: {}}",
        *(Code.MISPLACED, 7, 11, "retry.retry_on", "next_call follows a success"),
    ),
    (
        "spec: {policy: {rules: [{else: {then: {do: fail}}}]}}\n  retry: {delay: 1}",
        *(Code.MISPLACED, 8, 3, "retry", "spec.policy.rules"),
    ),
]


@pytest.mark.parametrize(("step", "code", "line", "column", "path", "words"), FAULTS)
def test_a_fault_is_reported_where_it_was_written(
    step: str, code: Code, line: int, column: int, path: str, words: str, body: Callable[[str], Compiled]
) -> None:
    found = body(f"workflow:\n- step: a\n  tool: {{kind: noop}}\n  {step}\n")
    told = [
        one for one in found.problems if one.code not in (Code.DEPRECATED, Code.SELF_LOOP, Code.UNDEFINED)
    ]
    assert [(one.code, one.line, one.column, one.path) for one in told] == [
        (code, line, column, f"workflow[0].{path}")
    ]
    assert words in told[0].message + told[0].hint


def test_what_a_rule_assigns_in_lanes_needs_a_reducer_or_the_end_of_the_loop(
    body: Callable[[str], Compiled],
) -> None:
    found = body(
        "workflow:\n- step: a\n  loop: {in: [1], iterator: i, spec: {mode: parallel}}\n  tool: {kind: noop}\n  case:\n"
        "  - when: \"{{ event.name == 'step.exit' }}\"\n    then:\n      set: {n: 1}\n"
    )
    assert [(one.code, one.line, one.path) for one in found.errors] == [
        (Code.UNREDUCED, 11, "workflow[0].case[0].then.set.n")
    ]
    assert "reduce: {ctx.n: append}" in found.errors[0].hint
    assert "'loop.done'" in found.errors[0].hint


def test_the_page_that_follows_is_at_fault_where_it_was_written(body: Callable[[str], Compiled]) -> None:
    found = body(
        "workflow:\n- step: a\n  tool:\n    kind: http\n    url: u\n    retry:\n      when: '{{ 1 | nope "
        "}}'\n"
        "      next_call:\n        params:\n          p: '{{ 2 | nopes }}'\n"
    )
    assert [(one.line, one.path) for one in found.errors] == [
        (10, "workflow[0].tool.retry.when"),
        (13, "workflow[0].tool.retry.next_call.params.p"),
    ]


def test_what_belongs_to_steps_is_refused_at_tools(body: Callable[[str], Compiled]) -> None:
    found = body("workflow:\n- step: a\n  tool: {kind: noop, vars: {n: 1}, case: []}\n")
    assert [(one.code, one.path) for one in found.problems] == [
        (Code.MISPLACED, "workflow[0].tool.vars"),
        (Code.MISPLACED, "workflow[0].tool.case"),
    ]


def test_a_task_alone_has_no_label_and_what_stands_in_it_is_its_own(body: Callable[[str], Compiled]) -> None:
    found = body(
        "workflow:\n- step: start\n  tool: {fetch: {kind: noop, sink: [[1]]}}\n  case: [{then: {next: "
        "end}}]\n- step: end\n"
    )
    assert [problem.code for problem in found.errors] == [Code.MISSING]


@pytest.mark.parametrize("key", ["sink: {x: 1}", "retry: {max_attempts: 2}"])
def test_tasks_of_each_are_written_in_the_canonical_form(body: Callable[[str], Compiled], key: str) -> None:
    found = body(
        "workflow:\n- step: start\n  tool:\n    kind: http\n    url: /\n    repeat:\n      next: [{when: "
        "'{{ page.x }}'}]\n"
        f"      each: [{{kind: noop, {key}}}]\n"
    )
    assert [(problem.code, problem.line) for problem in found.errors] == [(Code.MISPLACED, 11)]
