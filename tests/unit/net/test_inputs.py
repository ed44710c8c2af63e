"""What a value of an input has to be, whatever its type, and what is said where it is not."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest

from noetl.facts.json import Json
from noetl.net.input_values import LATER, find_faults, read_values, settle
from noetl.net.inputs import TYPES, Input, object_schema
from noetl.net.patterns import matches, pattern_fault

SECRET = {"kind": "secret_ref", "execution": "1", "keychain": "db", "seal": "x"}
LARGE = {"kind": "result_ref", "ref": "noetl://results/executions/1/a.json"}


def faults(one: Input, value: Json) -> list[str]:
    """What is said of `value` in the place of `x`."""
    given = read_values([one], {"x": value})
    return [str(fault) for fault in find_faults([one], given)]


#: (type, texts and values that it takes, what they are then)
TAKEN: list[tuple[Any, Json, Json]] = [
    ("string", "01234", "01234"),
    ("string", "", ""),
    ("string", "true", "true"),
    ("integer", 5, 5),
    ("integer", "5", 5),
    ("integer", " -12 ", -12),
    ("integer", "007", 7),
    ("integer", 3.0, 3),
    ("number", 0.5, 0.5),
    ("number", "0.5", 0.5),
    ("number", ".5", 0.5),
    ("number", "1e3", 1000.0),
    ("number", "7", 7),
    ("boolean", False, False),
    ("boolean", "true", True),
    ("boolean", "False", False),
    ("date", "2026-02-28", "2026-02-28"),
    ("datetime", "2026-02-28T10:00:00Z", "2026-02-28T10:00:00Z"),
    ("list", [], []),
    ("object", {"a": 1}, {"a": 1}),
    ("any", [1, {"a": None}], [1, {"a": None}]),
    *((type, SECRET, SECRET) for type in TYPES),
    *((type, LARGE, LARGE) for type in TYPES),
    *((type, None, None) for type in TYPES),
]


@pytest.mark.parametrize(("type", "value", "meant"), TAKEN, ids=str)
def test_a_value_of_the_type_is_taken_and_text_is_read_by_it(type: Any, value: Json, meant: Json) -> None:
    read = read_values([Input("x", type)], {"x": value})["x"]
    assert read == meant
    assert isinstance(read, bool) == isinstance(meant, bool)
    assert faults(Input("x", type), value) == []


REFUSED: list[tuple[Any, Json, str]] = [
    ("string", 1234, "x: must be text, and is 1234; write it in quotes"),
    ("string", True, "x: must be text, and is true; write it in quotes"),
    ("string", [], "x: must be text, and is []"),
    ("integer", "5.5", 'x: must be a whole number, and is "5.5"'),
    ("integer", "1_000", 'x: must be a whole number, and is "1_000"'),
    ("integer", "٣", 'x: must be a whole number, and is "٣"'),
    ("integer", "", 'x: must be a whole number, and is ""'),
    ("integer", True, "x: must be a whole number, and is true"),
    ("integer", 0.5, "x: must be a whole number, and is 0.5"),
    ("number", "1e999", 'x: must be a number, and is "1e999"'),
    ("number", "nan", 'x: must be a number, and is "nan"'),
    ("number", False, "x: must be a number, and is false"),
    ("boolean", 1, "x: must be true or false, and is 1"),
    ("boolean", "yes", 'x: must be true or false, and is "yes"'),
    ("date", "2026-02-30", 'x: must be a date such as 2026-01-31, and is "2026-02-30"'),
    ("date", 20260228, "x: must be a date such as 2026-01-31, and is 20260228; write it in quotes"),
    ("datetime", "noon", 'x: must be an instant such as 2026-01-31T09:00:00Z, and is "noon"'),
    ("list", {"a": 1}, 'x: must be a list, and is {"a": 1}'),
    ("list", "a,b", 'x: must be a list, and is "a,b"'),
    ("object", [1], "x: must be a mapping, and is [1]"),
]


@pytest.mark.parametrize(("type", "value", "said"), REFUSED, ids=str)
def test_a_value_of_another_type_is_told_with_what_it_is(type: Any, value: Json, said: str) -> None:
    assert faults(Input("x", type), value) == [said]


BROKEN: list[tuple[Input, Json, list[str]]] = [
    (Input("x", "integer", minimum=1, maximum=3), 3, []),
    (Input("x", "integer", minimum=1, maximum=3), 0, ["x: must be at least 1, and is 0"]),
    (Input("x", "number", maximum=3), "3.5", ["x: must be at most 3, and is 3.5"]),
    (Input("x", "date", minimum="2026-01-01"), "2026-01-01", []),
    (
        Input("x", "date", minimum="2026-01-01"),
        "2025-12-31",
        ['x: must be at least 2026-01-01, and is "2025-12-31"'],
    ),
    (Input("x", "datetime", maximum="2026-01-01T00:00:00Z"), "2026-01-01T00:30:00+01:00", []),
    (
        Input("x", "datetime", maximum="2026-01-01T00:00:00Z"),
        "2026-01-01T00:00:01",
        ['x: must be at most 2026-01-01T00:00:00Z, and is "2026-01-01T00:00:01"'],
    ),
    (Input("x", "string", pattern="^[0-9]{5}$"), "01234", []),
    (Input("x", "string", pattern="^[0-9]{5}$"), "01234\n", ['x: must match ^[0-9]{5}$, and is "01234\\n"']),
    (Input("x", "string", min_length=2), "a", ["x: must have at least 2 characters, and has 1"]),
    (Input("x", "list", max_length=1), [1, 2], ["x: must have at most 1 items, and has 2"]),
    (
        Input("x", "string", enum=("red", "green")),
        "gren",
        ['x: must be one of "red", "green", and is "gren". Did you mean \'green\'?'],
    ),
    (Input("x", "integer", enum=(0, 1)), 1, []),
    (Input("x", "any", enum=(0, 1)), True, ["x: must be one of 0, 1, and is true"]),
    (Input("x", required=True), None, ["x: is required, and was not given"]),
    (
        Input("x", "integer", defaulted=True),
        None,
        ["x: is null, and must be a whole number; leave it out for its default"],
    ),
]


@pytest.mark.parametrize(("one", "value", "said"), BROKEN, ids=lambda value: str(value)[:50])
def test_bounds_hold(one: Input, value: Json, said: list[str]) -> None:
    assert faults(one, value) == said


ORDER = (
    Input("zip", "string", pattern="^[0-9]{5}$", required=True),
    Input("count", "integer", minimum=1),
    Input("tags", "list", items=Input("", "integer", minimum=0)),
    Input(
        "address",
        "object",
        properties=(
            Input("street", "string", required=True),
            Input("lines", "list", items=Input("", "object", properties=(Input("n", "integer"),))),
        ),
    ),
)


def test_every_fault_is_told_at_once_with_the_way_to_it() -> None:
    given = {
        "count": "0",
        "tags": ["1", -1, "x"],
        "address": {"lines": [{"n": "1"}, {"n": "a", "m": 1}], "stret": "a"},
        "colour": "red",
    }
    found = find_faults(ORDER, read_values(ORDER, given), also=("debug",))
    assert [(fault.path, fault.message) for fault in found] == [
        ("zip", "is required, and was not given"),
        ("count", "must be at least 1, and is 0"),
        ("tags[1]", "must be at least 0, and is -1"),
        ("tags[2]", 'must be a whole number, and is "x"'),
        ("address.street", "is required, and was not given"),
        ("address.lines[1].n", 'must be a whole number, and is "a"'),
        ("address.lines[1].m", "is not declared"),
        ("address.stret", "is not declared. Did you mean 'street'?"),
        ("colour", "is not declared"),
    ]


def test_a_sound_request_has_no_faults_and_its_texts_are_values() -> None:
    given = {"zip": "01234", "tags": ["1"], "address": {"street": "a", "lines": [{"n": "2"}]}, "debug": 1}
    read = read_values(ORDER, given)
    assert read["tags"] == [1]
    assert read["address"]["lines"] == [{"n": 2}]
    assert list(find_faults(ORDER, read, also=("debug",))) == []


def test_faults_of_secrets_quote_nothing() -> None:
    canary = "c4n4ry"
    one = Input(
        "x", "object", secret=True, properties=(Input("n", "integer"), Input("t", "string", max_length=1))
    )
    said = faults(one, {"n": canary, "t": canary})
    assert [text.partition(",")[0] for text in said] == [
        "x.n: must be a whole number",
        "x.t: must have at most 1 characters",
    ]
    assert canary not in str(said)
    enum = Input("x", "string", secret=True, enum=("a",), pattern="^b$")
    assert canary not in str(faults(enum, canary))
    assert len(faults(enum, canary)) == 2


def test_what_a_template_will_yield_is_not_looked_at() -> None:
    assert settle({"a": "{{ b }}", "c": [1, "x{% if y %}"]}) == {"a": LATER, "c": [1, LATER]}
    assert faults(Input("x", "object", properties=(Input("a", "integer"),)), settle({"a": "{{ b }}"})) == []


def test_what_is_told_of_long_keys_odd_texts_and_templates_is_short() -> None:
    (fault,) = find_faults([], {"k" * 100_000: 1})
    assert len(str(fault)) < 200
    assert faults(Input("x", "string", pattern="^a"), "\ud800") == ['x: must match ^a, and is "\ud800"']
    assert faults(Input("x", "integer"), settle(["{{ a }}"])) == ['x: must be a whole number, and is ["…"]']


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|a)*$", "(.*)*x", r"^(\w+\s?)*$"])
def test_no_pattern_takes_more_than_linear_time(pattern: str) -> None:
    assert pattern_fault(pattern) == ""
    # One that tries ways would not end.
    matches(pattern, "a" * 50_000 + "!")


@pytest.mark.parametrize(
    ("pattern", "said"),
    [("(a", "unclosed group"), ("(?=a)", "look-around"), (r"(a)\1", "backreferences"), ("a" * 1001, "1,000")],
)
def test_a_pattern_that_cannot_be_used_says_why(pattern: str, said: str) -> None:
    assert said in pattern_fault(pattern)


#: Cases of which JSON Schema says the same: its formats are notes, and its `$` stands before a line
#: break as well, and texts are read by us alone.
OF_SCHEMAS = [
    (one, value, said)
    for one, value, said in BROKEN
    if one.type in ("string", "integer", "list", "any") and value is not None and "\n" not in str(value)
]


@pytest.mark.parametrize(("one", "value", "said"), OF_SCHEMAS, ids=lambda value: str(value)[:50])
def test_the_schema_takes_what_is_taken(one: Input, value: Json, said: list[str]) -> None:
    schema = object_schema([one], {})
    jsonschema.Draft202012Validator.check_schema(schema)
    assert jsonschema.Draft202012Validator(schema).is_valid({"x": value}) == (not said)


def test_the_schema_of_a_secret_is_that_of_a_password_field() -> None:
    made = object_schema(
        [Input("token", "string", secret=True, required=True, description="of the shop")], {}
    )
    assert made == {
        "type": "object",
        "properties": {
            "token": {
                "type": "string",
                "format": "password",
                "writeOnly": True,
                "description": "of the shop",
            }
        },
        "required": ["token"],
        "additionalProperties": False,
    }
