"""Forms of approvals: declared as the inputs of a playbook are, wherever an approval stands."""

from __future__ import annotations

import pytest

from noetl.dsl import Code, Compiled, compile_playbook
from noetl.net.codec import from_json, to_json
from noetl.net.forms import read_form, settle_form
from noetl.net.inputs import Input
from noetl.tools.kit.registry import kinds

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: x, path: x}\nworkload: {n: 3}\n"


def compiled(tool: str, rest: str = "") -> Compiled:
    text = f"{HEAD}{rest}workflow:\n- step: start\n  tool: {{kind: wait, {tool}}}\n"
    return compile_playbook(text, file="x.yaml", kinds=kinds())


def config_of(found: Compiled) -> object:
    assert found.net is not None, found.errors
    assert from_json(to_json(found.net)) == found.net
    return found.net.steps["start"].tasks[0].config


FORM = "{a: {type: integer, min: 1, default: '{{ workload.n }}'}, b: string}"
MADE = {
    "inputs": [
        {"name": "a", "type": "integer", "minimum": 1, "defaulted": True},
        {"name": "b", "type": "string"},
    ],
    "defaults": {"a": "{{ workload.n }}"},
}


def test_a_form_becomes_inputs_and_defaults_wherever_it_stands() -> None:
    approval = f"approval: {{message: m, form: {FORM}}}"
    meant = {"message": "m", "form": MADE}
    assert config_of(compiled(approval)) == {"approval": meant}
    assert config_of(compiled(f"spec: {{{approval}}}")) == {"approval": meant}
    assert config_of(compiled(f"any: {{x: {{{approval}}}, y: {{timer: 5}}}}")) == {
        "any": {"x": {"approval": meant}, "y": {"timer": 5}}
    }
    assert config_of(compiled(f"all: [{{timer: 5}}, {{{approval}}}]")) == {
        "all": [{"timer": 5}, {"approval": meant}]
    }


def test_what_only_looks_like_a_form_is_data() -> None:
    found = compiled("approval: {show: {form: [1, {form: x}]}}")
    assert config_of(found) == {"approval": {"show": {"form": [1, {"form": "x"}]}}}


def test_lists_and_other_spellings_say_the_same() -> None:
    for form in (
        "[{name: a, type: integer, min: 1, default: '{{ workload.n }}'}, {name: b, type: string}]",
        "[{id: a, type: INT, minimum: 1, defaults: '{{ workload.n }}'}, {id: b, type: str}]",
        "{b: {type: string, order: 2}, a: {type: int, minimum: 1, default: '{{ workload.n }}', order: 1}}",
    ):
        assert config_of(compiled(f"approval: {{form: {form}}}")) == {"approval": {"form": MADE}}, form


def test_a_form_in_the_workbook_is_compiled_where_it_is_called() -> None:
    book = f"workbook: [{{name: ask, tool: {{kind: wait, approval: {{form: {FORM}}}}}}}]\n"
    text = f"{HEAD}{book}workflow:\n- {{step: start, tool: {{kind: workbook, name: ask}}}}\n"
    found = compile_playbook(text, file="x.yaml", kinds=kinds())
    assert config_of(found) == {"approval": {"form": MADE}}


@pytest.mark.parametrize(
    ("form", "code", "line", "said"),
    [
        ("'{{ workload.n }}'", Code.VALUE, 7, "cannot be a template"),
        ("7", Code.TYPE, 7, "must be a mapping from names to types"),
        ("{a: intt}", Code.VALUE, 7, "is no type of an input"),
        ("{a: {type: nothing}}", Code.VALUE, 7, "is no type of an input"),
        ("{a: {type: string, secret: true}}", Code.INPUT, 7, "stands in the log"),
        ("{a: {properties: {b: secret}}}", Code.INPUT, 7, "stands in the log"),
        ("{a: {min: 3, max: 1, type: integer}}", Code.INPUT, 7, "no value is both"),
        ("{a: {minimun: 3, type: integer}}", Code.MISSPELT_KEY, 7, "minimun"),
        ("{a: {type: integer, default: x}}", Code.VALUE, 7, "must be a whole number"),
        ("{a: {description: '{{ workload.n }}'}}", Code.VALUE, 7, "holds a template"),
        ("{a: {enum: ['{{ workload.n }}']}}", Code.VALUE, 7, "holds a template"),
        ("[{name: a}, {name: a}]", Code.DUPLICATE_NAME, 7, "declared already"),
        ("[{type: string}]", Code.MISSING, 7, "has no name"),
        ("{a.b: string}", Code.NAME, 7, "cannot be called"),
    ],
)
def test_what_is_wrong_with_a_form_is_said_at_its_place(form: str, code: Code, line: int, said: str) -> None:
    found = compiled(f"approval: {{form: {form}}}")
    assert [(one.line, said in one.message) for one in found.errors if one.code == code] == [(line, True)], [
        str(one) for one in found.problems
    ]


def test_defaults_are_templates_of_the_step_and_checked_as_such() -> None:
    found = compiled("approval: {form: {a: {default: '{{ nothing.x }}'}}}")
    assert [(one.code, one.line) for one in found.problems] == [(Code.UNDEFINED, 7)]


def test_a_name_like_that_of_a_secret_is_warned_of() -> None:
    found = compiled("approval: {form: {password: string}}")
    assert [(one.code, one.hint) for one in found.problems] == [
        (Code.IN_PLAIN_TEXT, "ask for the name of a credential instead")
    ]


@pytest.mark.parametrize(
    "approval",
    [
        "count: 0",
        "count: many",
        "expires: 0",
        "expires: -3",
        "expires: tomorrow",
        "remind: 11y",
        "four_eyes: sure",
    ],
)
def test_what_can_never_be_is_an_error_before_anything_runs(approval: str) -> None:
    found = compiled(f"approval: {{{approval}}}")
    assert [(one.code, one.line) for one in found.errors] == [(Code.VALUE, 7)]


# --- at the call ----------------------------------------------------------------------------------


def test_a_default_that_came_to_nothing_is_none() -> None:
    form = {"inputs": [{"name": "a", "type": "integer", "defaulted": True}], "defaults": {"a": None}}
    inputs, defaults = read_form(settle_form(form))
    assert (inputs, defaults) == ((Input("a", "integer"),), {})


def test_a_default_is_read_by_its_type_and_must_be_of_it() -> None:
    form = {"inputs": [{"name": "a", "type": "integer", "maximum": 5}], "defaults": {"a": "3"}}
    assert read_form(settle_form(form))[1] == {"a": 3}
    with pytest.raises(ValueError, match=r"the default of `a` in the form must be at most 5, and is 7\."):
        settle_form({**form, "defaults": {"a": 7}})


@pytest.mark.parametrize("form", [7, {"a": "string"}, {"inputs": [{"nam": 1}]}, [{"name": "a"}]])
def test_a_form_that_a_template_made_is_none(form: object) -> None:
    with pytest.raises(ValueError, match="does not come out of a template"):
        settle_form(form)
