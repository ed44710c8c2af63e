"""The filters and tests: one line for each promise."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.errors import TemplateError
from noetl.expressions import evaluate
from noetl.expressions.vocabulary import FILTERS

NAMES: dict[str, Any] = {
    "xs": [3, 1, 2],
    "rows": [
        {"a": 1, "b": "x", "in": {"c": 5}},
        {"a": 2, "b": "Y", "in": {"c": 4}},
        {"a": 1, "b": "z", "in": {}},
    ],
    "html": "<a href='x'>it's</a>",
}

TABLE = [
    ("-5 | abs", 5),
    ("rows.0 | attr('upper')", None),
    ("xs | batch(2)", [[3, 1], [2]]),
    ("xs | batch(2, 0)", [[3, 1], [2, 0]]),
    ("'ab' | capitalize", "Ab"),
    ("'ab' | center(6)", "  ab  "),
    ("xs | count", 3),
    ("[xs, [], [[4]]] | flatten", [3, 1, 2, [4]]),
    ("nothing | flatten", []),
    ("[xs, [4], none] | merge", [3, 1, 2, 4]),
    (
        "[{'a': {'x': 1, 'l': [1]}, 'b': 1}, {'a': {'y': 2, 'l': [2]}, 'b': [3]}] | merge",
        {"a": {"x": 1, "l": [1, 2], "y": 2}, "b": [3]},
    ),
    ("[[1], 2, {'a': 1}] | merge", {"a": 1}),
    ("[1, 2] | merge", 2),
    ("nothing | merge", None),
    ("{'b': 1, 'A': 2} | dictsort", [["A", 2], ["b", 1]]),
    ("'<' | e", "&lt;"),
    ("'<' | escape", "&lt;"),
    ("'<' | forceescape", "&lt;"),
    ("1000000 | filesizeformat", "1.0 MB"),
    ("xs | first", 3),
    ("[] | first", None),
    ("'1.5' | float", 1.5),
    ("'x' | float(2.5)", 2.5),
    ("'%s-%02d' | format('a', 3)", "a-03"),
    ("'%(k)s' | format(k=true)", "true"),
    ("rows | groupby('a') | map(attribute='grouper')", [1, 2]),
    ("(rows | groupby('a') | first).list | length", 2),
    ("'a\nb' | indent(2)", "a\n  b"),
    ("'a\nb' | indent('> ', first=true)", "> a\n> b"),
    ("'12' | int", 12),
    ("'12.7' | int", 12),
    ("'x' | int", 0),
    ("'x' | int(7)", 7),
    ("none | int(7)", 7),
    ("'ff' | int(0, 16)", 255),
    ("true | int", 1),
    ("{'a': 1} | items", [["a", 1]]),
    ("[1, none, true, 'x', [2]] | join('|')", "1||true|x|[2]"),
    ("rows | join(',', attribute='b')", "x,Y,z"),
    ("xs | last", 2),
    ("'abc' | length", 3),
    ("'ab' | list", ["a", "b"]),
    ("'AB' | lower", "ab"),
    ("true | lower", "true"),
    ("none | lower", ""),
    ("rows | map(attribute='in.c', default=0)", [5, 4, 0]),
    ("rows | map(attribute='in.c')", [5, 4, None]),
    ("xs | map('int') | map('string')", ["3", "1", "2"]),
    ("xs | max", 3),
    ("rows | min(attribute='a') | attr('b')", "x"),
    ("(rows | min(attribute='a')).b", "x"),
    ("[] | max", None),
    ("['b', 'A'] | min", "A"),
    ("{'a': 1} | pprint", "{'a': 1}"),
    ("xs | reject('odd')", [2]),
    ("rows | rejectattr('a', 'eq', 1) | map(attribute='b')", ["Y"]),
    ('html | replace("\'", "\'\'")', "<a href=''x''>it''s</a>"),
    ("'aaa' | replace('a', 'b', 2)", "bba"),
    ("'abc' | reverse", "cba"),
    ("xs | reverse", [2, 1, 3]),
    ("2.55 | round(1)", 2.5),
    ("2.1 | round(method='ceil')", 3.0),
    ("html | safe", "<a href='x'>it's</a>"),
    ("xs | select", [3, 1, 2]),
    ("xs | select('>=', 2)", [3, 2]),
    ("rows | selectattr('in.c') | map(attribute='b')", ["x", "Y"]),
    ("rows | selectattr('b', 'equalto', 'z') | map(attribute='a')", [1]),
    ("rows | selectattr('in.c', 'defined') | count", 2),
    ("xs | slice(2)", [[3, 1], [2]]),
    ("xs | sort", [1, 2, 3]),
    ("xs | sort(reverse=true)", [3, 2, 1]),
    ("['b', 'A', 'c'] | sort", ["A", "b", "c"]),
    ("['b', 'A', 'c'] | sort(case_sensitive=true)", ["A", "b", "c"]),
    ("rows | sort(attribute='a,b') | map(attribute='b')", ["x", "z", "Y"]),
    ("true | string", "true"),
    ("5 | string", "5"),
    ("'<b>a</b>  c' | striptags", "a c"),
    ("xs | sum", 6),
    ("rows | sum(attribute='a')", 4),
    ("[[1], [2]] | sum(start=[])", [1, 2]),
    ("'ab cd' | title", "Ab Cd"),
    ("{'ü': '<&>'} | tojson", '{"ü": "<&>"}'),
    ("'a\"b' | tojson", '"a\\"b"'),
    ("[1] | to_json(indent=2)", "[\n  1\n]"),
    ("nope | tojson", "null"),
    ("'{\"a\": [1, null]}' | fromjson", {"a": [1, None]}),
    ("'[true]' | from_json", [True]),
    ("' a ' | trim", "a"),
    ("'xxaxx' | trim('x')", "a"),
    ("'foo bar baz qux' | truncate(9)", "foo..."),
    ("'foo bar baz' | truncate(5, true, '', 0)", "foo b"),
    ("['a', 'A', 'b'] | unique", ["a", "b"]),
    ("[[1], [1], {'a': 1}] | unique", [[1], {"a": 1}]),
    ("'ab' | upper", "AB"),
    ("'a b/ü' | urlencode", "a%20b/%C3%BC"),
    ("{'q': 'a b'} | urlencode", "q=a+b"),
    ("'see www.x.org' | urlize", 'see <a href="https://www.x.org" rel="noopener">www.x.org</a>'),
    ("'a b  c' | wordcount", 3),
    ("'aa bb cc' | wordwrap(5)", "aa bb\ncc"),
    ("{'a': 1, 'b': none} | xmlattr", ' a="1"'),
    ("'grüße' | b64encode", "Z3LDvMOfZQ=="),
    ("'Z3LDvMOfZQ==' | b64decode", "grüße"),
    ("'' | sha256", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
    ("'x' | d('y')", "x"),
    ("nope | default('y')", "y"),
    ("'2026-01-05T02:00+02:00' | to_datetime", "2026-01-05T00:00:00+00:00"),
    ("0 | strftime('%F')", "1970-01-01"),
    ("'2026-01-05' | to_timestamp", 1767571200),
    ("90 | timedelta", "PT1M30S"),
]


@pytest.mark.parametrize(("expression", "expected"), TABLE)
def test_filter(expression: str, expected: Any) -> None:
    value = evaluate(f"{{{{ {expression} }}}}", NAMES)
    assert value == expected
    assert type(value) is type(expected)


def test_every_filter_has_a_line_in_the_table() -> None:
    used = {part.strip().split("(")[0].split(" ")[0] for line, _ in TABLE for part in line.split("|")[1:]}
    used |= {part.split(")")[0] for part in used}
    assert FILTERS.keys() <= used


def test_filters_that_would_make_two_runs_differ_do_not_exist() -> None:
    assert not {"random", "shuffle", "now"} & FILTERS.keys()


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("3 is odd", True),
        ("4 is even", True),
        ("9 is divisibleby 3", True),
        ("'x' is defined", True),
        ("nope is undefined", True),
        ("none is none", True),
        ("true is boolean", True),
        ("1 is boolean", False),
        ("false is false", True),
        ("true is true", True),
        ("1 is true", False),
        ("1 is integer", True),
        ("true is integer", False),
        ("1.0 is float", True),
        ("'a' is lower", True),
        ("'A' is upper", True),
        ("'a' is string", True),
        ("{} is mapping", True),
        ("1 is number", True),
        ("true is number", False),
        ("[] is sequence", True),
        ("[] is iterable", True),
        ("5 is iterable", False),
        ("range is callable", False),
        ("5 is sameas 5", True),
        ("1 is sameas true", False),
        ("'a' is in 'abc'", True),
        ("1 is eq 1 and 1 is ne 2 and 1 is lt 2 and 2 is gt 1 and 1 is le 1 and 1 is ge 1", True),
        ("'upper' is filter", True),
        ("'odd' is test", True),
        ("'x' is escaped", False),
        ("1 is not odd", False),
    ],
)
def test_test(test: str, expected: bool) -> None:
    assert evaluate(f"{{{{ {test} }}}}", {}) is expected


def test_quotes_are_doubled_in_json_for_sql() -> None:
    names = {"row": {"name": "O'Neil <&>"}}
    rendered = evaluate("""insert into t values ('{{ row | tojson | replace("'", "''") }}')""", names)
    assert rendered == """insert into t values ('{"name": "O''Neil <&>"}')"""


@pytest.mark.parametrize(
    "expression",
    [
        "'é!' | b64decode",
        "'NaN' | fromjson",
        "'x' | round",
        "xs | map",
        "xs | selectattr",
        "xs | batch(0)",
        "xs | slice(-1000)",
    ],
)
def test_filters_say_what_does_not_fit(expression: str) -> None:
    with pytest.raises(TemplateError, match="cannot"):
        evaluate(f"{{{{ {expression} }}}}", NAMES)
