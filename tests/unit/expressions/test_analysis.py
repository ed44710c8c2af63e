"""What can be said of a template without evaluating it, and what is recorded of an evaluation."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.errors import TemplateError
from noetl.expressions import (
    TemplateFault,
    check,
    evaluate,
    names_optional,
    names_used,
    place_of_name,
    texts_compared,
    values_read,
)


@pytest.mark.parametrize(
    ("template", "chains"),
    [
        ("plain", set()),
        ("{{ x }}", {"x"}),
        ("{{ workload.base_url }}/{{ fetch.rows[0].id }}", {"workload.base_url", "fetch.rows.0.id"}),
        ("{{ a['b'].c }}", {"a.b.c"}),
        ("{{ a[b.c].d }}", {"a", "b.c"}),
        ("{{ a[-1].b }}", {"a.-1.b"}),
        ("{{ a[1:n] }}", {"a", "n"}),
        ("{{ s.upper() }}", {"s"}),
        ("{{ d.get(k.x).y }}", {"d", "k.x"}),
        ("{{ now() }}", {"now"}),
        ("{{ range(n) | list }}{{ dict(a=m) }}", {"n", "m"}),
        ("{{ range }}", {"range"}),
        ("{{ x | default(y.z) | upper }}", {"x", "y.z"}),
        ("{{ x is defined and y is divisibleby z }}", {"x", "y", "z"}),
        ("{{ {'a': b, c: 1} }}{{ [d] }}", {"b", "c", "d"}),
        ("{{ a if b else c }}", {"a", "b", "c"}),
        (
            "{% for i in xs if i.ok and y %}{{ i.a }}{{ loop.index }}{% else %}{{ i }}{% endfor %}",
            {"xs", "y", "i"},
        ),
        ("{% for k, v in d.items() %}{{ k }}{{ v }}{% endfor %}{{ v.w }}", {"d", "v.w"}),
        ("{{ loop.index }}", {"loop.index"}),
        ("{% set a = b.c %}{{ a.d }}", {"b.c"}),
        ("{{ a }}{% set a = 1 %}{{ a }}", {"a"}),
        ("{% if q %}{% set a = 1 %}{% endif %}{{ a }}", {"q", "a"}),
        ("{% if q %}{% set a = 1 %}{% else %}{% set a = 2 %}{% endif %}{{ a }}", {"q"}),
        ("{% set a %}{{ b }}{% endset %}{{ a }}", {"b"}),
        ("{% with a = b %}{{ a }}{% endwith %}{{ a }}", {"a", "b"}),
        ("{% filter replace(o, 'x') %}{{ b }}{% endfilter %}", {"o", "b"}),
        ("{% macro m(a) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}", set()),
        ("{% set range = 5 %}{{ range(2) }}", set()),
        ("{{ broken", set()),
    ],
)
def test_names_used(template: str, chains: set[str]) -> None:
    assert {".".join(chain) for chain in names_used(template)} == chains


def test_names_are_collected_from_all_strings_and_keys() -> None:
    template = {"a": ["{{ x.y }}", 5, None], "{{ k }}": {"b": "{{ z }}"}}
    assert names_used(template) == {("x", "y"), ("k",), ("z",)}


def test_bare_strings_are_expressions_in_guards_only() -> None:
    assert names_used("outcome.status == 'ok'", guard=True) == {("outcome", "status")}
    assert names_used("outcome.status == 'ok'") == frozenset()
    assert names_used(True, guard=True) == frozenset()
    assert names_used("{{ a.b }}", guard=True) == {("a", "b")}


def test_the_values_read_are_recorded_short() -> None:
    def explode() -> Any:
        raise AssertionError

    names: dict[str, Any] = {
        "a": {"b": 1},
        "long": "x" * 300,
        "many": [1] * 1200,
        "wide": {str(i): i for i in range(100)},
        "call": explode,
        "odd": object(),
    }
    template = (
        "{{ a.b + nope.x }}{{ long }}{{ many }}{{ wide }}{{ call() }}{{ odd }}{{ many[3] }}{{ a.upper() }}"
    )
    assert values_read(template, names) == {
        "a": {"b": 1},
        "a.b": 1,
        "call": "<function>",
        "long": "<text of 300 characters>",
        "many": "<list of 1200>",
        "many.3": 1,
        "nope.x": None,
        "odd": "<unreadable: Broken>",
        "wide": "<mapping of 100>",
    }
    assert values_read("a.b > 0", names, guard=True) == {"a.b": 1}
    assert values_read("{{ a }}", names, limit=3) == {"a": "<mapping of 1>"}


def test_what_cannot_be_read_does_not_fail_the_record() -> None:
    class Angry(dict[str, Any]):
        def __getitem__(self, key: str) -> Any:
            raise OSError(key)

    assert values_read("{{ x.y }}", Angry()) == {"x.y": "<unreadable: OSError>"}


def test_check_finds_everything_at_once_with_its_place() -> None:
    faults = check(
        {
            "url": "ok {{ x | default(1) }}",
            "list": ["{{ x | defalt(1) }}\n{{ y is definde }}", "a\n{{ x"],
            "inc": "{% include 'x' %}",
        }
    )
    assert [(fault.path, fault.source[fault.offset :][:6], fault.hint) for fault in faults] == [
        (("list", 0), "defalt", "Did you mean 'default'?"),
        (("list", 0), "defind", "Did you mean 'defined'?"),
        (("list", 1), "{{ x", ""),
        (("inc",), "{% inc", ""),
    ]
    assert all(
        isinstance(fault, TemplateFault) and fault.message.startswith("The template `") for fault in faults
    )


@pytest.mark.parametrize(
    ("template", "tag", "before"),
    [
        ("{{ a }} {%- macro m(x) %}{{ x }}{% endmacro %}{{ m(1) }}", "macro", "{{ a }} "),
        ("{% if a %}\n{{ b }}{% call m() %}{% endcall %}{% endif %}", "call", "{% if a %}\n{{ b }}"),
        ("{{ block }}{% block a %}{% endblock %}", "block", "{{ block }}"),
    ],
)
def test_tags_that_are_not_supported_are_one_sentence_with_a_place_and_a_way_out(
    template: str, tag: str, before: str
) -> None:
    [fault] = check(template)
    assert f"uses '{tag}', which is not supported." in fault.message
    assert "{% for %}, or let a python task make it" in fault.hint
    assert fault.offset == len(before)
    with pytest.raises(TemplateError, match=f"uses '{tag}', which is not supported. Write the text where"):
        evaluate(template, {})


def test_check_reads_guards_as_expressions() -> None:
    assert check("a ==") == []
    assert len(check("a ==", guard=True)) == 1
    assert check("a == 1", guard=True) == []
    assert check("{{ a == 1 }}", guard=True) == []
    assert check(True, guard=True) == []


@pytest.mark.parametrize(
    ("template", "optional"),
    [
        ("{{ x | default(y) }}", {("x",)}),
        ("{{ (x.a | upper) | d('') }}{{ x.b }}", {("x", "a")}),
        ("{{ x is defined and y }}", {("x",)}),
        ("{{ x.y is not none }}", {("x", "y")}),
        ("{{ none == x }}", {("x",)}),
        ("{{ x == y }}", set()),
        ("{% if x is undefined %}{{ y }}{% endif %}{{ x }}", {("x",)}),
        ("{% for x in y %}{{ x | default(1) }}{% endfor %}", set()),
        ("{{ 'x is defined' }}{{ x }}", set()),
    ],
)
def test_names_whose_absence_is_asked_for_are_found_in_the_tree(
    template: str, optional: set[tuple[str, ...]]
) -> None:
    assert names_optional(template) == optional


@pytest.mark.parametrize(
    ("template", "chain", "before"),
    [
        ("a {{ b.a }} {{ a }}", ("a",), "a {{ b.a }} {{ "),
        ("{{ 'a' ~ a }}", ("a",), "{{ 'a' ~ "),
        ("{# a #}{{ b | a }}{{ x is a }}{{ a }}", ("a",), "{# a #}{{ b | a }}{{ x is a }}{{ "),
        ("{{ a.b }}{{ a['c'] }}", ("a", "c"), "{{ a.b }}{{ "),
        ("{{\n  a [0] .b }}", ("a", "0", "b"), "{{\n  "),
    ],
)
def test_the_place_of_a_name_is_where_it_is_read(template: str, chain: tuple[str, ...], before: str) -> None:
    assert place_of_name(template, chain) == len(before)


def test_the_place_of_a_name_that_is_not_read_is_unknown() -> None:
    assert place_of_name("a {{ b }}", ("a",)) is None
    assert place_of_name("a > b", ("b",), guard=True) == 4


@pytest.mark.parametrize(
    ("template", "before"),
    [
        ("{{ a }} {{ b + }}", "{{ a }} "),
        ("{{ a }}\n  {{ b }} {{ + }}", "{{ a }}\n  {{ b }} "),
        ("a\nb {{ c", "a\nb "),
        ("b {% if a %}{% endfor %}", "b "),
    ],
)
def test_a_syntax_error_is_at_the_tag_that_has_it(template: str, before: str) -> None:
    assert [fault.offset for fault in check(template)] == [len(before)]


@pytest.mark.parametrize(
    ("template", "texts"),
    [
        ("{{ x.y == 'a' or 'b' != x.y }}", {"a", "b"}),
        ("{{ x.y in ['a', 'b'] and x['y'] not in ('c',) }}", {"a", "b", "c"}),
        ("text {% if x.y == 'a' %}1{% endif %}", {"a"}),
        ("{{ x == 'a' and y.x == 'b' and x.y == z and x.y < 'c' and 'd' in x.y }}", set()),
        ("{{ x.y == }}", set()),
        ("x.y == 'a'", set()),
    ],
)
def test_the_texts_that_a_name_is_compared_with(template: str, texts: set[str]) -> None:
    assert texts_compared(template, ("x", "y")) == texts


def test_a_guard_without_braces_compares_as_well() -> None:
    assert texts_compared("x.y == 'a'", ("x", "y"), guard=True) == {"a"}
