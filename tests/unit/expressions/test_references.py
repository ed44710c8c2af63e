"""References are opened when something looks into them, and never for being handed on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from noetl.errors import Unavailable
from noetl.expressions import evaluate, truth, values_read
from noetl.expressions.scope import of_task

REF = {"kind": "result_ref", "ref": "noetl://1/big", "preview": [1]}
ROWS = {"kind": "result_ref", "ref": "noetl://1/rows"}
DATA: dict[str, Any] = {
    "noetl://1/big": {"rows": [{"a": 1}, {"a": 2}], "ref": "inner", "deep": ROWS},
    "noetl://1/rows": [1, 2, 3],
}


class Store:
    def __init__(self) -> None:
        self.loaded: list[str] = []

    def __call__(self, reference: Mapping[str, Any], /) -> Any:
        self.loaded.append(reference["ref"])
        return DATA[reference["ref"]]


NAMES: dict[str, Any] = {"big": REF, "step": {"result": REF, "list": [ROWS, ROWS]}, "n": 1}


@pytest.mark.parametrize(
    "template", ["{{ big }}", "{{ step.result }}", "{{ step['result'] }}", "{{ step.list[0] }}"]
)
def test_a_plain_chain_that_ends_at_a_reference_yields_the_reference(template: str) -> None:
    store = Store()
    assert evaluate(template, NAMES, load=store)["kind"] == "result_ref"
    assert store.loaded == []


def test_a_chain_through_references_opens_all_but_the_last() -> None:
    store = Store()
    assert evaluate("{{ big.deep }}", NAMES, load=store) == ROWS
    assert store.loaded == ["noetl://1/big"]
    assert evaluate("{{ big.deep[1] }}", NAMES, load=store) == 2


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{{ big.ref }}", "inner"),
        ("{{ big.kind }}", None),
        ("{{ big.rows[1].a }}", 2),
        ("{{ big.rows | length }}", 2),
        ("{{ big['rows'] | map(attribute='a') | list }}", [1, 2]),
        ("{{ big.deep | sum }}", 6),
        ("{{ big.deep + [4] }}", [1, 2, 3, 4]),
        ("{{ step.result.ref ~ '!' }}", "inner!"),
        ("{% for x in big.deep %}{{ x }}{% endfor %}", "123"),
        ("{% for x in step.list %}{{ x[0] }}{{ x | length }}{% endfor %}", "1313"),
        ("{{ step.list | map('length') }}", [3, 3]),
        ("{{ step.list | map('sum') }}", [6, 6]),
        ("{{ step.get('result').ref }}", "inner"),
        ("{{ (step.list | first) | length }}", 3),
        ("rows: {{ big.deep }}", "rows: [1, 2, 3]"),
        ("{{ [big.deep] }}", [[1, 2, 3]]),
        ("{{ (big if n else n).ref }}", "inner"),
    ],
)
def test_looking_into_a_reference_opens_it(template: str, expected: Any) -> None:
    assert evaluate(template, NAMES, load=Store()) == expected


def test_guards_look_into_references() -> None:
    assert truth("big.rows | length == 2", NAMES, load=Store())


def test_without_a_loader_references_are_mappings() -> None:
    assert evaluate("{{ big.ref }}", NAMES) == "noetl://1/big"
    assert evaluate("{{ big.preview | length }}", NAMES) == 1


def test_only_what_is_used_is_loaded() -> None:
    store = Store()
    assert evaluate("{{ n if n else big.ref }}", NAMES, load=store) == 1
    assert store.loaded == []


KEPT = {**REF, "location": "s3", "preview": {"type": "object", "keys": ["rows"], "head": "{"}}
OWN = {**KEPT, "preview": {"keys": ["ref", "_ref"]}}


@pytest.mark.parametrize(
    ("template", "value", "expected"),
    [
        ("{{ x._ref }}", KEPT, "noetl://1/big"),
        ("{{ x._ref is defined }}", KEPT, True),
        ("{{ x._store | default('none') }}", KEPT, "s3"),
        ("{{ x._preview['keys'] }}", KEPT, ["rows"]),
        ("{{ x._store | default('none') }}", OWN, "s3"),
        ("{{ x._store | default('none') }}", REF, "none"),
        ("{{ x._ref | default('none') }}", {"a": 1}, "none"),
        ("{{ x._ref }}", {"_ref": 1}, 1),
    ],
)
def test_what_a_reference_tells_of_itself_is_read_without_a_fetch(
    template: str, value: Any, expected: Any
) -> None:
    store = Store()
    for names in ({"x": of_task(value)}, {"x": value}):
        assert evaluate(template, names, load=store) == expected
    assert store.loaded == []


def test_a_key_of_a_result_wins_over_what_its_reference_tells() -> None:
    store = Store()
    assert evaluate("{{ x._ref | default('undefined') }}", {"x": of_task(OWN)}, load=store) == "undefined"
    assert store.loaded == ["noetl://1/big"]


ANSWER = {"status_code": 200, "headers": {}, "url": "u", "elapsed": 1, "data": {"level": 3}}
LETTER = {**ANSWER, "data": {"body": "Dear all"}}


@pytest.mark.parametrize(
    ("template", "names", "expected"),
    [
        ("{{ ask.body.level }}", {"ask": of_task(ANSWER)}, 3),
        ("{{ ask.body }}", {"ask": of_task(ANSWER)}, {"level": 3}),
        ("{{ ask.body }}", {"ask": of_task(LETTER)}, "Dear all"),
        ("{{ ask.body.level }}", {"ask": ANSWER}, 3),
        ("{{ output.body.level }}", {"output": {"status": "ok", "http": {}, "data": of_task(ANSWER)}}, 3),
        ("{{ output.body }}", {"output": {"status": "ok", "http": {}, "data": of_task(LETTER)}}, "Dear all"),
        ("{{ x.body | default('none') }}", {"x": of_task({"data": {"level": 3}})}, "none"),
        ("{{ load.total }}", {"load": of_task({"ref": "noetl://1/big", "data": {"total": 3}})}, 3),
        ("{{ load.total | default('none') }}", {"load": of_task({"ref": "a", "data": {"total": 3}})}, "none"),
    ],
)
def test_bodies_and_contents_are_read_by_the_names_that_authors_have_for_them(
    template: str, names: dict[str, Any], expected: Any
) -> None:
    assert evaluate(template, names, load=Store()) == expected


def test_a_store_out_of_reach_is_not_the_fault_of_the_template() -> None:
    def load(_: Mapping[str, Any], /) -> Any:
        raise Unavailable("The result store does not answer.")

    for template in ("{{ big.ref }}", "{{ big.ref | length }}"):
        with pytest.raises(Unavailable):
            evaluate(template, NAMES, load=load)


def test_the_record_describes_references_and_never_opens_them() -> None:
    store = Store()
    assert values_read("{{ big.rows | length }} {{ step.result }}", NAMES, load=store) == {
        "big.rows": "<reference noetl://1/big>",
        "step.result": "<reference noetl://1/big>",
    }
    assert store.loaded == []


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{{ step.list | tojson }}", "[[1, 2, 3], [1, 2, 3]]"),
        ("all: {{ step.list }}", "all: [[1, 2, 3], [1, 2, 3]]"),
        (
            "{{ big.deep | length }} {{ big }}",
            '3 {"rows": [{"a": 1}, {"a": 2}], "ref": "inner", "deep": [1, 2, 3]}',
        ),
    ],
)
def test_text_is_made_of_what_references_stand_for_at_any_depth(template: str, expected: str) -> None:
    assert evaluate(template, NAMES, load=Store()) == expected


def test_the_body_of_a_response_is_found_behind_its_fields_also_through_a_reference() -> None:
    DATA["noetl://1/answer"] = {"status_code": 200, "data": {"rows": [7], "status_code": 1}}
    names = {"output": {"data": of_task({"kind": "result_ref", "ref": "noetl://1/answer"})}}
    assert evaluate("{{ [output.data.rows[0], output.data.status_code] }}", names, load=Store()) == [7, 200]
