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
from noetl.net.codec import digest, from_json, to_json
from noetl.net.model import KindInfo
from noetl.net.same import same_net

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
    "workflow:\n- {step: start, next: [b, {step: c, when: true}]}\n- {step: b, tool: save, next: c}\n- step: c\n"
    "  tool: {kind: python, code: 'return 1'}\nworkbook: [{name: save, tool: {kind: noop}}]\n",
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


@settings(max_examples=250, deadline=None)
@given(_mutated())
def test_mutated_playbooks_are_answered_with_problems_that_have_a_place(data: Any) -> None:
    result = _compile(yaml.safe_dump(data, allow_unicode=True))
    if result.net is not None:
        again = from_json(json.loads(json.dumps(to_json(result.net))))
        assert again == result.net
        assert digest(again) == digest(result.net)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=200) | st.binary(max_size=200))
def test_any_text_is_answered(text: str | bytes) -> None:
    _compile(text)


@settings(max_examples=200, deadline=None)
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


@settings(max_examples=40, deadline=None)
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
