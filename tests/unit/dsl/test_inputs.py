"""Declared inputs: the forms they may have, what becomes of them, and what contradicts itself."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from noetl.dsl import Code, Compiled, json_schema
from noetl.net.codec import digest, from_json, to_json
from noetl.net.inputs import Input
from noetl.net.model import Net

NetOf = Callable[[str], Net]
Compile = Callable[[str], Compiled]
STEP = "workflow: [{step: start, tool: {kind: noop, input: {x: '{{ a }}'}}}]\n"


def test_a_mapping_a_list_and_short_forms_say_the_same(net_of: NetOf) -> None:
    meant = (
        Input("a", "string", pattern="^x", required=True, description="the a"),
        Input("b", "list", items=Input("", "integer"), max_length=3, defaulted=True),
    )
    mapping = (
        "inputs:\n  a: {type: string, pattern: ^x, required: true, description: the a}\n"
        "  b: {type: list, items: integer, max_length: 3, default: []}\n"
    )
    listed = (
        "inputs:\n- {name: a, type: string, pattern: ^x, required: true, description: the a}\n"
        "- {name: b, type: list, items: {type: integer}, max_length: 3, default: []}\n"
    )
    others = (
        "inputs:\n- {id: a, type: STRING, pattern: ^x, required: true, description: the a}\n"
        "- {id: b, type: ARRAY, itemType: INT, max_items: 3, defaults: []}\n"
    )
    for text in (mapping, listed, others):
        net = net_of(text + STEP)
        assert net.inputs == meant
        assert net.workload == {"a": None, "b": []}


def test_a_text_is_the_type_and_shapes_imply_one(net_of: NetOf) -> None:
    net = net_of(
        "inputs: {a: date, b: {items: integer}, c: {properties: {d: bool}}, e: {}, f: secret}\n" + STEP
    )
    assert [(one.name, one.type, one.secret) for one in net.inputs] == [
        ("a", "date", False),
        ("b", "list", False),
        ("c", "object", False),
        ("e", "any", False),
        ("f", "string", True),
    ]
    assert net.inputs[2].properties == (Input("d", "boolean"),)


def test_they_are_shown_by_order_then_as_they_are_written(net_of: NetOf) -> None:
    net = net_of("inputs: {a: {order: 2}, b: {order: 1}, c: {}, d: {order: 1}}\n" + STEP)
    assert [one.name for one in net.inputs] == ["c", "b", "d", "a"]


def test_a_value_of_the_workload_is_a_default(net_of: NetOf) -> None:
    net = net_of("inputs: {a: {type: integer, required: true}, b: integer}\nworkload: {b: 5, c: x}\n" + STEP)
    assert net.workload == {"a": None, "b": 5, "c": "x"}
    assert [(one.required, one.defaulted) for one in net.inputs] == [(True, False), (False, True)]


def test_names_of_inputs_are_known_to_templates(body: Compile) -> None:
    found = body(
        "inputs: {a: string}\nworkflow: [{step: s, tool: {kind: noop, input: {x: '{{ a }}{{ ab }}'}}}]"
    )
    assert [(one.code, one.message) for one in found.problems if "ab" in one.message] != []
    assert not any("'a'" in one.message for one in found.problems)


def test_templates_of_defaults_are_checked_where_they_stand(body: Compile) -> None:
    found = body("inputs:\n  a: {type: integer, default: '{{ bb }}'}\nworkload: {b: 1}\n" + STEP)
    assert [(one.line, one.code) for one in found.problems] == [(5, Code.UNDEFINED)]


#: What `inputs` holds, the rest of the document, the line and a word of the problem.
FAULTS = [
    (Code.VALUE, "{a: strng}", "", "'string'"),
    (Code.VALUE, "{a: {type: wat}}", "", "there are string"),
    (Code.VALUE, "{a: {type: integer, default: x}}", "", "`a` must be a whole number"),
    (Code.VALUE, "{a: {type: integer, max: 3, default: 4}}", "", "at most 3"),
    (Code.VALUE, "{a: {type: integer, pattern: x}}", "", "`pattern` means nothing"),
    (Code.VALUE, "{a: {type: string, min: 1}}", "", "`min` means nothing"),
    (Code.VALUE, "{a: {type: integer, max_length: 1}}", "", "`max_length` means nothing"),
    (Code.VALUE, "{a: {type: string, items: string}}", "", "`items` means nothing"),
    (Code.VALUE, "{a: {type: string, properties: {}}}", "", "`properties` means nothing"),
    (Code.VALUE, "{a: {type: string, pattern: '(a'}}", "", "unclosed group"),
    (Code.VALUE, "{a: {type: date, min: yesterday}}", "", "no date"),
    (Code.VALUE, "{a: {type: string, min_length: -1}}", "", "from 0"),
    (Code.VALUE, "{a: {enum: []}}", "", "no values"),
    (Code.VALUE, "{a: {type: integer, enum: [1, x]}}", "", "whole number"),
    (Code.VALUE, "{a: {properties: {b: {type: integer, default: 1}}}}", "", "default of the whole input"),
    (Code.VALUE, "{a: {items: {type: integer, order: 1}}}", "", "`order` means nothing"),
    (Code.INPUT, "{a: {type: integer, min: 3, max: 1}}", "", "no value is both"),
    (Code.INPUT, "{a: {type: string, min_length: 3, max_length: 1}}", "", "no value is both"),
    (Code.INPUT, "{a: {secret: true, default: abc}}", "", "plain text"),
    (Code.INPUT, "{a: {default: 1}}", "workload: {a: 1}\n", "two defaults"),
    (Code.NAME, "{a.b: string}", "", "dots"),
    (Code.NAME, "{+a: string}", "", "`+`"),
    (Code.DUPLICATE_NAME, "[{name: a}, {id: a}]", "", "declared already"),
    (Code.MISSING, "[{type: string}]", "", "no name"),
    (Code.TYPE, "{a: {required: 1}}", "", "true or false"),
    (Code.TYPE, "5", "", "a mapping"),
    (Code.MISSPELT_KEY, "{a: {typ: string}}", "", "'type'"),
]


@pytest.mark.parametrize(("code", "inputs", "more", "word"), FAULTS, ids=lambda value: str(value)[:40])
def test_what_contradicts_itself_is_an_error_at_its_place(
    body: Compile, code: Code, inputs: str, more: str, word: str
) -> None:
    errors = body(f"inputs: {inputs}\n{more}{STEP}").errors
    assert [(one.code, one.line) for one in errors] == [(code, 4)]
    assert word in f"{errors[0].message} {errors[0].hint}"


def test_every_fault_of_the_declarations_is_told_at_once(body: Compile) -> None:
    text = "inputs:\n  a: strng\n  b: {type: integer, min: 2, max: 1}\n  c: {default: 1}\nworkload: {c: 2}\n"
    assert [one.line for one in body(text + STEP).errors] == [5, 6, 7]


def test_a_value_of_the_workload_is_checked_where_it_stands(body: Compile) -> None:
    errors = body("inputs: {a: integer}\nworkload:\n  a: x\n" + STEP).errors
    assert [(one.line, one.code) for one in errors] == [(6, Code.VALUE)]


def test_required_beside_a_default_has_no_effect(body: Compile) -> None:
    found = body("inputs: {a: {type: integer, required: true, default: 1}}\n" + STEP)
    assert [one.code for one in found.problems] == [Code.IGNORED]
    assert found.net is not None
    assert not found.net.inputs[0].required


def test_an_input_called_like_a_secret_is_asked_to_be_one(body: Compile) -> None:
    assert [
        one.code for one in body("inputs: {api_key: string}\n" + STEP.replace("a }}", "api_key }}")).problems
    ] == [Code.IN_PLAIN_TEXT]
    assert body("inputs: {api_key: {secret: true}}\n" + STEP.replace("a }}", "api_key }}")).problems == ()


def test_nets_keep_their_inputs_and_those_without_keep_their_digest(net_of: NetOf) -> None:
    plain = net_of("workload: {a: null}\n" + STEP)
    assert "inputs" not in to_json(plain)
    assert from_json(to_json(plain)) == plain
    typed = net_of("inputs: {a: {type: list, items: {properties: {b: {enum: [1, x]}}}}}\n" + STEP)
    assert from_json(to_json(typed)) == typed
    assert digest(typed) != digest(plain)


def test_editors_know_the_keys_of_inputs() -> None:
    part = json_schema({})["$defs"]["InputDeclaration"]
    assert {"type", "enum", "pattern", "min", "secret", "order"} <= part["properties"].keys()


def test_a_keychain_made_of_secret_inputs_is_not_plain_text(body: Compile) -> None:
    entry = "keychain: [{name: k, kind: bearer, token: '{{ %s }}'}]\n"
    inputs = "inputs: {a: string, t: {secret: true}, d: {properties: {p: {secret: true}, u: string}}}\n"
    found = {
        chain: [one.code for one in body(inputs + entry % chain + STEP).problems]
        for chain in ("workload.t", "t", "payload.t", "d.p", "workload.d.u", "a")
    }
    assert {chain for chain, codes in found.items() if Code.IN_PLAIN_TEXT in codes} == {"workload.d.u", "a"}


@pytest.mark.parametrize(
    "inputs", ["inputs:\n  a: {default: '{{ b }}'}\n", "inputs:\n- {name: a, default: '{{ b }}'}\n"]
)
def test_defaults_that_name_each_other_are_a_circle_where_they_stand(body: Compile, inputs: str) -> None:
    found = body(f"{inputs}workload: {{b: '{{{{ a }}}}'}}\n" + STEP).problems
    assert [(one.code, one.line) for one in found] == [(Code.CIRCLE, 5)]


def test_keys_of_declared_objects_are_known_to_templates(body: Compile) -> None:
    inputs = "inputs: {to: {properties: {street: string, at: {properties: {floor: integer}}}}}\n"
    step = "workflow: [{step: s, tool: {kind: noop, input: {x: '{{ %s }}'}}}]"
    said = {
        chain: [one.message for one in body(inputs + step % chain).problems]
        for chain in ("to.street", "workload.to.at.floor", "to.stret", "workload.to.at.flor")
    }
    assert said == {
        "to.street": [],
        "workload.to.at.floor": [],
        "to.stret": ["nothing defines 'to.stret'"],
        "workload.to.at.flor": ["nothing defines 'workload.to.at.flor'"],
    }


DECLARED = "inputs: {city: string}\n"
READS = "workflow: [{step: s, tool: {kind: noop, input: {x: '%s'}}}]"


@pytest.mark.parametrize("read", ["{{ workload.ctiy }}", "in {{ workload.ctiy.name }}"])
def test_a_key_that_no_run_can_give_is_an_error_where_inputs_are_declared(body: Compile, read: str) -> None:
    declared = body(DECLARED + READS % read)
    assert [(one.code, one.hint) for one in declared.errors] == [(Code.UNDECLARED, "did you mean 'city'?")]
    free = body("workload: {city: null}\n" + READS % read)
    assert [(one.code, one.severity) for one in free.problems] == [(Code.UNDEFINED, "warning")]


@pytest.mark.parametrize(
    "read",
    [
        "{{ workload.ctiy | default(1) }}",
        "{{ workload.ctiy is defined }}",
        "{{ workload.city }}",
        "{{ workload.kept }}",
    ],
)
def test_what_may_be_absent_and_what_the_workload_has_is_no_error(body: Compile, read: str) -> None:
    assert body(DECLARED + "workload: {kept: 1}\n" + READS % read).problems == ()
