"""Whatever is written, the compiler answers; and what is written differently means the same."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from noetl.dsl import Compiled, compile_playbook, json_schema
from noetl.net.codec import digest, from_json, same_net, to_json
from noetl.net.model import KindInfo
from tests.budget import examples

_SQL = ("command", "commands", "query")
KINDS = {
    info.kind: info
    for info in (
        KindInfo("python", "python", required=(("code",),), verbatim=("code",), python_keys=("code",)),
        KindInfo("http", "http", required=(("url", "endpoint"),)),
        KindInfo("postgres", "postgres", required=(_SQL,), verbatim_with_params=_SQL),
        KindInfo("noop", "noop"),
    )
}

SAMPLES = [
    """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: pages, path: examples/pages}
executor: {spec: {final_step: end, policy: {failure: {mode: best_effort}}}}
workload: {base: http://localhost, cities: [Paris, Rome], late: '{{ base }}/x'}
workbook:
  save: {kind: postgres, command: 'insert into t values (:x)', params: {x: '{{ x }}'}, input: {x: 1}}
workflow:
- step: start
  desc: fetch all
  loop:
    in: '{{ cities }}'
    iterator: city
    spec: {mode: parallel, max_in_flight: 4, reduce: {ctx.seen: append}, policy: {failure: {tolerate: {count: 1}}}}
  tool:
  - name: get
    kind: http
    url: '{{ base }}/{{ city }}'
    spec:
      policy:
        rules:
        - {when: '{{ error.retryable }}', then: {do: retry, attempts: 3, backoff: linear, delay: 500ms}}
        - {when: '{{ error }}', then: {do: jump, to: get}, else: {then: {do: continue, set: {got: '{{ result }}'}}}}
  - keep: {kind: python, code: 'result = got', input: {got: '{{ got }}'}, set: {ctx.seen: '{{ city }}', iter.n: 1}}
  - save
  next:
    spec: {mode: inclusive}
    arcs:
    - {step: check, when: "{{ event.name == 'loop.done' }}", args: {n: 1}}
    - {step: end, set: {ctx.done: true}}
- step: check
  spec:
    join: {mode: first, cancel_rest: true}
    policy:
      admit: {on_deny: skip, rules: [{when: '{{ ctx.done }}', then: {allow: true}}, {else: {then: {allow: false}}}]}
  tool: {kind: noop}
  next: [{step: end, when: '{{ ctx.seen }}'}, end]
- step: end
  set: {total: '{{ ctx.seen | length }}'}
""",
    "workflow:\n- {step: start, next: [b, {step: c, when: true}]}\n- {step: b, tool: save, next: c}\n- "
    "step: c\n"
    "  tool: {kind: python, code: 'return 1'}\nworkbook: [{name: save, tool: {kind: noop}}]\n",
    """\
workflow:
- step: start
  loop: {in: [1, 2], iterator: i, mode: parallel, spec: {reduce: {ctx.rows: append, ctx.why: last}}}
  tool: {kind: http, url: '{{ i }}', retry: [{when: '{{ error.retryable }}', then: {max_attempts: 3, backoff: linear}}, {when: '{{ result.data.next }}', stop_when: '{{ result.data.done }}', then: {max_attempts: 9, next_call: {params: {p: 1}}, collect: {path: rows, strategy: append, into: rows}, per_iteration: {sink: {tool: {kind: noop}}}}}]}
  vars: {n: '{{ result.stats.total }}'}
  sink: [{kind: noop, input: {x: '{{ data.x }}'}}, {tool: python, code: 'result = data'}]
  case:
  - {when: "{{ event.name == 'loop.done' }}", then: {sink: {kind: noop}, set: {m: 1, o: '{{ vars.n }}'}, next: [{step: b, when: '{{ n }}', args: {x: 1, y: '{{ n }}'}}, c]}}
  - {when: "{{ event.name == 'call.error' }}", then: [{set: {why: '{{ error.message }}'}}, {next: b}]}
  next: {arcs: [{step: c, set: {ctx.d: 1}}, b]}
- {step: b, tool: [{name: x, kind: noop, sink: {kind: noop}}, {kind: noop}], vars: {p: 1}, retry: {delay: 1}, next: c}
- {step: c, case: [{when: true, then: {next: b}}, {when: '{{ p }}', then: {set: {q: 2}}}], next: [b]}
""",
]

_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 70),
    st.floats(allow_nan=False, allow_infinity=False, width=32),
    st.text(max_size=8),
    st.sampled_from(
        ["{{ x", "{{ x | nope }}", "{{ ctx.a }}", "start", "end", "previous", "parallel", "workbook", "save"]
    ),
)
_KEYS = st.sampled_from(
    sorted({key for part in json_schema({})["$defs"].values() for key in part.get("properties", {})})
)
_JUNK = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3),
    max_leaves=8,
)


def _compile(text: str | bytes) -> Compiled:
    result = compile_playbook(text, file="p.yaml", kinds=KINDS)
    for problem in result.problems:
        assert problem.line >= 1
        assert problem.column >= 1
        assert problem.message
        json.dumps(problem.as_json())
    assert (result.net is None) == bool(result.errors)
    return result


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        found += _places(inner, (*path, key))
    return found


@st.composite
def _mutated(draw: st.DrawFn) -> Any:
    data = copy.deepcopy(yaml.safe_load(draw(st.sampled_from(SAMPLES))))
    for _ in range(draw(st.integers(1, 4))):
        places = _places(data)
        if not places:
            break
        *outer, last = draw(st.sampled_from(places))
        parent = data
        for key in outer:
            parent = parent[key]
        match draw(st.sampled_from(["delete", "replace", "duplicate", "add"])):
            case "delete":
                del parent[last]
            case "replace":
                parent[last] = draw(_JUNK)
            case "duplicate" if isinstance(parent, list):
                parent.insert(last, copy.deepcopy(parent[last]))
            case _ if isinstance(parent, dict):
                parent[draw(_KEYS)] = draw(_JUNK)
            case _:
                parent.append(draw(_JUNK))
    return data


@settings(max_examples=examples(100), deadline=None)
@given(_mutated())
def test_mutated_playbooks_are_answered_with_problems_that_have_a_place(data: Any) -> None:
    result = _compile(yaml.safe_dump(data, allow_unicode=True))
    if result.net is not None:
        again = from_json(json.loads(json.dumps(to_json(result.net))))
        assert again == result.net
        assert digest(again) == digest(result.net)


@settings(max_examples=examples(200), deadline=None)
@given(st.text(max_size=200) | st.binary(max_size=200))
def test_any_text_is_answered(text: str | bytes) -> None:
    _compile(text)


@settings(max_examples=examples(200), deadline=None)
@given(st.sampled_from(SAMPLES), st.data())
def test_texts_with_pieces_cut_or_put_in_are_answered(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    length = data.draw(st.integers(0, 20))
    piece = data.draw(st.text("{}[]:-&*!|>'\"%@`#,?~ \n\tax0.", max_size=8))
    _compile(text[:start] + piece + text[start + length :])


def _shuffled(value: Any, draw: st.DrawFn) -> Any:
    if isinstance(value, dict):
        keys = draw(st.permutations(list(value)))
        return {key: _shuffled(value[key], draw) for key in keys}
    if isinstance(value, list):
        return [_shuffled(item, draw) for item in value]
    return value


@settings(max_examples=examples(40), deadline=None)
@given(st.sampled_from(SAMPLES), st.data())
def test_the_order_of_keys_and_the_formatting_never_change_the_net(text: str, data: st.DataObject) -> None:
    plain = _compile(text).net
    shuffled = _shuffled(yaml.safe_load(text), data.draw)
    style = data.draw(st.sampled_from([True, False, None]))
    rewritten = yaml.safe_dump(
        shuffled, sort_keys=False, default_flow_style=style, width=data.draw(st.integers(40, 200))
    )
    other = _compile(rewritten).net
    assert plain is not None
    assert other is not None
    assert same_net(plain, other)


@pytest.mark.parametrize("text", SAMPLES)
def test_the_samples_have_no_errors(text: str) -> None:
    assert _compile(text).errors == ()


_RULE_NAMES = st.sampled_from(["a", "b", "c", "t", "u", "nobody"])
_GUARDS = st.sampled_from([True, False, "x == 1", "{{ result.n > 1 }}", "{{ error }}", "a {{ b }}", "{{ ("])
_ACTIONS: st.SearchStrategy[Any] = st.sampled_from(
    [{"kind": "noop"}, {"action": "noop", "name": "n"}, {"lbl": {"kind": "noop"}}, {"type": "http"}, {}]
)
_BRANCHES: st.SearchStrategy[Any] = st.one_of(
    _RULE_NAMES, _ACTIONS, st.fixed_dictionaries({"step": _RULE_NAMES}, optional={"args": st.just({"n": 1})})
)
_RUNS = st.one_of(_BRANCHES, st.lists(_BRANCHES, max_size=3))
_DESTINATIONS: st.SearchStrategy[Any] = st.one_of(
    _RULE_NAMES,
    st.lists(
        st.one_of(_RULE_NAMES, st.fixed_dictionaries({"step": _RULE_NAMES, "when": _GUARDS})), max_size=2
    ),
)
_ITEMS = st.one_of(
    _RULE_NAMES,
    st.fixed_dictionaries(
        {}, optional={"when": _GUARDS, "then": _DESTINATIONS, "else": _DESTINATIONS, "step": _RULE_NAMES}
    ),
)
_NEXTS = st.one_of(
    _RULE_NAMES,
    _ITEMS,
    st.lists(_ITEMS, max_size=3),
    st.fixed_dictionaries(
        {"arcs": st.lists(_ITEMS, max_size=3)}, optional={"spec": st.just({"mode": "inclusive"})}
    ),
)
_RULES = st.lists(
    st.fixed_dictionaries(
        {}, optional={"when": _GUARDS, "run": _RUNS, "next": _NEXTS, "set": st.just({"x": 1})}
    ),
    max_size=3,
)
_STEPS = st.fixed_dictionaries(
    {"step": _RULE_NAMES},
    optional={
        "tool": st.sampled_from([{"kind": "noop"}, [{"kind": "noop"}, "w"], "w"]),
        "rules": _RULES,
        "run": _RUNS,
        "next": _NEXTS,
        "parallel": st.booleans(),
        "pass": _GUARDS,
        "loop": st.fixed_dictionaries(
            {"in": st.sampled_from([[1], "{{ x }}", None])},
            optional={"iterator": st.sampled_from(["i", "j"])},
        ),
        "end_loop": _RULE_NAMES,
        "result": st.just({"n": "{{ a_results }}"}),
    },
)
_PLAYBOOKS = st.fixed_dictionaries(
    {"workflow": st.lists(_STEPS, min_size=1, max_size=5)},
    optional={
        "tasks": st.fixed_dictionaries(
            {"t": st.lists(_ACTIONS, max_size=3)},
            optional={
                "u": st.fixed_dictionaries(
                    {"actions": st.lists(_ACTIONS, max_size=3), "parallel": st.booleans()}
                )
            },
        ),
        "environment": st.just({"x": 1}),
        "variables": st.just({"y": "{{ x }}"}),
        "workbook": st.just({"w": {"kind": "noop"}}),
    },
)


@settings(max_examples=examples(150), deadline=None)
@given(_PLAYBOOKS)
def test_playbooks_of_the_rules_dialect_compile_or_have_problems_with_a_place(
    playbook: dict[str, Any],
) -> None:
    head = {"apiVersion": "noetl.io/v2", "kind": "Playbook", "metadata": {"name": "p"}}
    text = json.dumps({**head, **playbook}, indent=1)
    compiled = compile_playbook(text, file="p", kinds=KINDS)
    assert (compiled.net is None) == bool(compiled.errors)
    lines = text.count("\n") + 1
    assert all(1 <= problem.line <= lines and problem.column >= 1 for problem in compiled.problems)
    # Only what stands nowhere points at the beginning.
    assert all(problem.line > 1 or not problem.path for problem in compiled.problems)
