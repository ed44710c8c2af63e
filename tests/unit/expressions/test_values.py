"""What templates yield: types, text, and what stands for nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from noetl.errors import TemplateError
from noetl.expressions import evaluate
from tests.unit.expressions.sample import NAMES


class View(Mapping[str, Any]):
    """A mapping that is no dict, and remembers what it was asked for."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.data = data
        self.asked: list[str] = []

    def __getitem__(self, key: str) -> Any:
        self.asked.append(key)
        return self.data[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.data)

    def __len__(self) -> int:
        return len(self.data)


def same(value: Any, expected: Any) -> bool:
    """Equal, and of one type: 1 is not true."""
    return value == expected and type(value) is type(expected)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{{ n }}", 3),
        ("  {{ n }}\n", 3),
        ("{{- n -}}", 3),
        ("{{ pi }}", 3.5),
        ("{{ yes }}", True),
        ("{{ null }}", None),
        ("{{ xs }}", [3, 1, 2]),
        ("{{ d.nested }}", {"keys": "mine"}),
        ("{{ n + 1 }}", 4),
        ("{{ 1 / 2 }}", 0.5),
        ("{{ 7 // 2 }}", 3),
        ("{{ 7 % 4 }}", 3),
        ("{{ 2 ** 10 }}", 1024),
        ("{{ -n }}", -3),
        ("{{ (1, 2) }}", [1, 2]),
        ("{{ [1, (2, 3)] }}", [1, [2, 3]]),
        ("{{ {'a': n, 'b': (1,)} }}", {"a": 3, "b": [1]}),
        ("{{ range(3) }}", [0, 1, 2]),
        ("{{ dict(a=1) }}", {"a": 1}),
        ("{{ xs | map('string') }}", ["3", "1", "2"]),
        ("{{ xs | select('gt', 1) }}", [3, 2]),
        ("{{ rows | map(attribute='a') | list }}", [1, 2, 1]),
        ("{{ d.nested.items() }}", [["keys", "mine"]]),
        ("{{ n if yes else 4 }}", 3),
        ("{{ n > 1 and n < 5 }}", True),
        ("{{ 1 < n < 5 }}", True),
        ("{{ 1 < n < 2 }}", False),
        ("{{ not n }}", False),
        ("{{ 2 in xs }}", True),
        ("{{ 2 not in xs }}", False),
        ("{{ 'b' in s }}", True),
        ("{{ 'k' in d }}", True),
        ("{{ xs[0] }}", 3),
        ("{{ xs[-1] }}", 2),
        ("{{ xs[1:] }}", [1, 2]),
        ("{{ s[::-1] }}", "cba"),
        ("{{ rows.0.b }}", "x"),
        ("{{ d['nested'].keys }}", "mine"),
        ("{{ s ~ n ~ yes ~ null ~ xs }}", "abc3true[3, 1, 2]"),
        ("{{ null or 'x' }}", "x"),
        ("{{ 1 == true }}", True),
        ("{{ s is string and n is number and d is mapping and xs is sequence }}", True),
    ],
)
def test_a_whole_expression_keeps_its_type(template: str, expected: Any) -> None:
    assert same(evaluate(template, NAMES), expected)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("n={{ n }}", "n=3"),
        ("{{ n }}{{ n }}", "33"),
        ("{{ n }} {{ n }}", "3 3"),
        ("[{{ yes }} {{ not yes }}]", "[true false]"),
        ("[{{ null }}{{ nope }}{{ nope.a.b }}]", "[]"),
        ("x {{ xs }}", "x [3, 1, 2]"),
        ("x {{ {'ü': [none, true, nope]} }}", 'x {"ü": [null, true, null]}'),
        ("{{ pi }}!", "3.5!"),
        ("line\n{{ n }}\n", "line\n3\n"),
        ("{% if n > 2 %}big{% else %}small{% endif %}", "big"),
        ("{% if n > 5 %}a{% elif n > 2 %}b{% else %}c{% endif %}", "b"),
        (
            "{% for x in xs %}{{ loop.index }}:{{ x }}{{ '' if loop.last else ',' }}{% endfor %}",
            "1:3,2:1,3:2",
        ),
        ("{% for x in nope %}x{% else %}none{% endfor %}", "none"),
        ("{% for x in xs if x > 1 %}{{ x }}/{{ loop.length }} {% endfor %}", "3/2 2/2 "),
        ("{% for k, v in d.nested.items() %}{{ k }}={{ v }}{% endfor %}", "keys=mine"),
        ("{% for x in xs %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {% endfor %}", "<3>1 3<1>2 1<2> "),
        ("{% for x in xs %}{{ loop.cycle('a', 'b') }}{{ loop.revindex }}{% endfor %}", "a3b2a1"),
        ("{% for x in [1, 1, 2] %}{{ loop.changed(x) }} {% endfor %}", "true false true "),
        ("{% for x in [1] %}{{ loop.depth }}{{ loop.depth0 }}{% endfor %}", "10"),
        ("{% set a = 1 %}{% set b, c = [2, 3] %}{{ a }}{{ b }}{{ c }}", "123"),
        ("{% set a = 1 %}{% for x in xs %}{% set a = x %}{% endfor %}{{ a }}", "1"),
        ("{% set a | upper %}x{{ s }}{% endset %}{{ a }}", "XABC"),
        ("{% with a = n %}{{ a }}{% endwith %}{{ a }}", "3"),
        ("{% filter upper | replace('A', 'o') %}{{ s }}{% endfilter %}", "oBC"),
        ("{% raw %}{{ n }}{% endraw %}", "{{ n }}"),
        ("a{# b #}c", "ac"),
        ("{% autoescape true %}{{ text }}{% endautoescape %}", "Grüße 'x' <b>"),
    ],
)
def test_other_templates_yield_text(template: str, expected: str) -> None:
    assert evaluate(template, NAMES) == expected


@pytest.mark.parametrize("value", ["plain", "", "100 %", "{ }", "a}}", 5, None, True, 1.5])
def test_anything_but_a_template_is_left_alone(value: Any) -> None:
    assert same(evaluate(value, {}), value)


def test_lists_and_mappings_are_rendered_through_and_keys_only_where_they_are_templates() -> None:
    template = {"a": ["{{ n }}", {"b": "x{{ n }}"}], "{{ s }}": 1, "{{ n }}": 2, 7: "plain"}
    assert evaluate(template, NAMES) == {"a": [3, {"b": "x3"}], "abc": 1, "3": 2, 7: "plain"}


def test_a_key_must_come_out_as_a_scalar() -> None:
    with pytest.raises(TemplateError, match="of a key"):
        evaluate({"{{ xs }}": 1}, NAMES)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{{ d.items | default([]) }}", []),
        ("{{ d['items'] }}", None),
        ("{{ d.keys is defined or d.values or d.copy is not none }}", False),
        ("{{ d.get.deeper }}", None),
        ("x{{ d.items }}", "x"),
        ("{{ d.items() | list }}", [["a", 1]]),
    ],
)
def test_a_key_that_is_called_like_a_method_and_is_missing_is_undefined(template: str, expected: Any) -> None:
    assert evaluate(template, {"d": {"a": 1}}) == expected


def test_keys_win_over_methods_and_methods_answer_where_there_is_no_key() -> None:
    assert evaluate("{{ d.items }}", NAMES) == [1, 2]
    assert evaluate("{{ d.keys() | length }}", NAMES) == 4
    assert evaluate("{{ d.get('k') }}{{ d.get('z', 9) }}", NAMES) == "19"
    assert evaluate("{{ s.upper() }}", NAMES) == "ABC"
    assert evaluate("{{ xs.index(2) }}", NAMES) == 2
    assert evaluate("{{ '-'.join(['a', n]) }}", NAMES) == "a-3"
    assert evaluate("{{ '{} {a.k:>3}'.format(n, a=d) }}", NAMES) == "3   1"
    assert evaluate("{{ '%s/%03d/%(x)s' % (1, 2) if false else '%s/%03d' % (null, 2) }}", NAMES) == "/002"


@pytest.mark.parametrize(
    "template", ["{{ xs.append(1) }}", "{{ d.update({}) }}", "{{ d.pop('k') }}", "{{ xs.sort() }}"]
)
def test_nothing_that_a_template_is_given_can_be_changed(template: str) -> None:
    with pytest.raises(TemplateError, match="undefined"):
        evaluate(template, NAMES)


@pytest.mark.parametrize(
    ("template", "cause"),
    [
        ("{{ 1 / 0 }}", "division by zero"),
        ("{{ null + 1 }}", "'\\+' does not work between null and a number"),
        ("{{ s < 1 }}", "'<' does not work between a text and a number"),
        ("{{ 1e308 * 10 }}", "inf, which is not JSON"),
        ("{{ s.upper }}", "not JSON"),
        ("{{ bag }}", "set, which is not JSON"),
        ("{{ bag | list }}", "left to chance"),
        ("{{ boom() }}", "it broke"),
        ("{{ s.index('z') }}", "substring not found"),
        ("{{ 'x' | fromjson }}", "cannot read JSON"),
        ("{{ 'a' | nofilter }}", "'nofilter', which does not exist"),
        ("{{ n +", "syntax error"),
        ("{% for x in n %}{% endfor %}", "cannot loop over a number"),
        ("{% for x in xs recursive %}{{ loop([]) }}{% endfor %}", "uses 'recursive', which is not supported"),
        ("{% for x in xs %}{{ loop([]) }}{% endfor %}", "cannot call a LoopVariable"),
        ("{% set a, b = xs %}", "cannot unpack 3 values into 2 names"),
        ("{% set d.k = 5 %}", "assigns to an attribute"),
        ("{% block a %}{% endblock %}", "not supported"),
        ("{{ %s }}" % ("9" * 5000), "literal"),
    ],
)
def test_failures_are_one_sentence_with_the_source(template: str, cause: str) -> None:
    def boom() -> None:
        raise RuntimeError("it broke")

    with pytest.raises(TemplateError, match=cause) as caught:
        evaluate(template, {**NAMES, "bag": {1, 2}, "boom": boom})
    assert template[:20] in caught.value.message
    assert len(caught.value.message) < 400
    assert caught.value.source == template


def test_the_line_of_a_failure_is_counted_within_the_template() -> None:
    with pytest.raises(TemplateError) as caught:
        evaluate("a\nb {{ n }}\n{{ nope + 1 }}", NAMES)
    assert caught.value.line == 3


def test_names_are_asked_only_when_they_are_used() -> None:
    names = View({"a": True, "b": View({"c": 1}), "d": 5})
    assert evaluate("{{ b.c if a else d }}", names) == 1
    assert names.asked == ["a", "b"]


def test_views_become_plain_mappings() -> None:
    names = {"v": View({"w": View({"x": (1, 2)})}), "plain": {"inner": View({"y": 1})}}
    for template, expected in (("{{ v }}", {"w": {"x": [1, 2]}}), ("{{ plain }}", {"inner": {"y": 1}})):
        value = evaluate(template, names)
        assert value == expected
        assert all(type(part) is dict for part in (value, *value.values()))


def test_plain_data_is_handed_on_without_a_copy() -> None:
    assert evaluate("{{ rows }}", NAMES) is NAMES["rows"]


def test_functions_among_the_names_may_be_called_and_instants_become_text() -> None:
    instant = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    names = {"now": lambda: instant}
    assert evaluate("{{ now() }}", names) == "2026-01-02T03:04:05+00:00"
    assert evaluate("{{ now().year }}-{{ now().strftime('%m') }}", names) == "2026-01"


def test_range_and_dict_are_functions_only_where_they_are_called() -> None:
    assert evaluate("{{ range }}", {"range": 7}) == 7
    assert evaluate("{{ range(2) }}", {"range": 7}) == [0, 1]
    for name in ("cycler", "joiner", "namespace", "lipsum"):
        assert evaluate(f"{{{{ {name} }}}}", {}) is None


def test_only_a_namespace_takes_assignments_to_its_attributes() -> None:
    names = {"rows": [1, 2, 3], "d": {"a": 1}}
    counted = (
        "{% set ns = namespace(n=0) %}{% for r in rows %}{% set ns.n = ns.n + r %}{% endfor %}{{ ns.n }}"
    )
    assert evaluate(counted, names) == "6"
    for template in ("{% set d.a = 2 %}", "{% set ns = {} %}{% set ns.a = 2 %}", "{% set nope.a = 2 %}"):
        with pytest.raises(TemplateError, match=r"no namespace\(\)"):
            evaluate(template, names)


def test_a_namespace_does_not_widen_what_a_template_may_take() -> None:
    turns = "{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}"
    grows = "{% set ns = namespace(l=[1]) %}" + turns + "{{ ns.l }}"
    with pytest.raises(TemplateError):
        evaluate(grows, {})
