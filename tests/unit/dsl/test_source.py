from __future__ import annotations

import pytest

from noetl.dsl.problems import Code
from noetl.dsl.read.dump import dump
from noetl.dsl.read.source import read
from tests.effort import calls


def _value(text: str) -> object:
    source = read(f"a: {text}\n", "f")
    assert source.data is not None
    return source.data["a"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"),
        ("on", "on"),
        ("22:22", "22:22"),
        ("2026-01-01", "2026-01-01"),
        ("010", 10),
        ("-7", -7),
        ("0o17", 15),
        ("0x1F", 31),
        ("1_000", "1_000"),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("1.", 1.0),
        ("+12", 12),
        (".", "."),
        ("", None),
        ("~", None),
        ("null", None),
        ("NULL", None),
        ("true", True),
        ("True", True),
        ("TRUE", True),
        ("tRUE", "tRUE"),
        ("False", False),
        ("'12'", "12"),
        ('"null"', "null"),
        ("!!str 12", "12"),
        ("!!int '12'", 12),
        ("!!float 1", 1.0),
        ("! 12", "12"),
        ("=", "="),
    ],
)
def test_scalars_follow_the_core_schema_of_yaml_1_2(text: str, value: object) -> None:
    read_value = _value(text)
    assert read_value == value
    assert type(read_value) is type(value)


def test_numbers_as_keys_become_their_own_text() -> None:
    assert read("a: {010: x, 1.50: y}", "f").data == {"a": {"010": "x", "1.50": "y"}}


def test_anchors_and_merge_keys_are_welcome() -> None:
    text = "base: &b {x: 1, y: 2}\nmore: &m {x: 9, z: 3}\nall:\n  <<: [*b, *m]\n  y: 7\nagain: *b\n"
    data = read(text, "f").data
    assert data is not None
    assert data["all"] == {"x": 1, "y": 7, "z": 3}
    assert data["again"] == {"x": 1, "y": 2}


def test_positions_are_those_of_values_and_keys_and_of_the_first_line_of_block_text() -> None:
    source = read("a:\n  b: 1\n  code: |\n    x = 1\n    y = 2\n  list:\n  - k: v\n", "f")
    assert (source.mark(("a", "b")).line, source.mark(("a", "b")).column) == (2, 6)
    assert (source.key_mark(("a", "b")).line, source.key_mark(("a", "b")).column) == (2, 3)
    assert source.line_of_content(("a", "code")) == 4
    assert source.mark(("a", "list", 0, "k")).line == 7
    assert source.mark(("a",)).line == 1
    assert source.mark(("a", "list", 0, "missing", "deeper")).line == 7


def test_a_byte_order_mark_is_accepted() -> None:
    assert read(b"\xef\xbb\xbfa: 1", "f").data == {"a": 1}
    assert read("\ufeffa: 1", "f").data == {"a": 1}


def test_words_that_were_booleans_once_are_text_with_a_warning() -> None:
    source = read("a: no\nb: 'no'\n", "f")
    assert source.data == {"a": "no", "b": "no"}
    assert [(p.code, p.severity, p.line) for p in source.problems] == [(Code.YAML_1_1, "warning", 1)]


_BOMB = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 10)
)
_MERGE_BOMB = "a0: &a0 {x: 1}\n" + "".join(
    f"a{i}: &a{i} {{<<: [{','.join([f'*a{i - 1}'] * 400)}], k{i}: 1}}\n" for i in range(1, 30)
)
_LONG = "a: &a " + "x" * 200_000 + "\nb: [" + "*a," * 20 + "]"
_CHAIN = "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}]\n" for i in range(1, 500))

BAD = [
    pytest.param(_BOMB, Code.TOO_MANY_NODES, None, id="alias bomb"),
    pytest.param(_MERGE_BOMB, Code.TOO_MANY_NODES, None, id="merge bomb"),
    pytest.param(_LONG, Code.TOO_MANY_NODES, None, id="a long text, often"),
    pytest.param(_CHAIN, Code.TOO_DEEP, None, id="chain of aliases"),
    pytest.param("a: &a [*a]", Code.ALIAS, 1, id="recursive alias"),
    pytest.param("a: &a {<<: *a}", Code.ALIAS, 1, id="recursive merge"),
    pytest.param("x: 1\na: *nobody", Code.ALIAS, 2, id="unknown alias"),
    pytest.param("[" * 2_000, Code.TOO_DEEP, 1, id="2,000 brackets"),
    pytest.param("[" * 100_000, Code.TOO_DEEP, 1, id="100,000 brackets"),
    pytest.param("{a: " * 60_000, Code.TOO_DEEP, 1, id="60,000 braces"),
    pytest.param("- " * 100_000, Code.TOO_DEEP, 1, id="100,000 dashes"),
    pytest.param("? " * 100_000, Code.TOO_DEEP, 1, id="100,000 question marks"),
    pytest.param("".join(" " * i + "a:\n" for i in range(300)), Code.TOO_DEEP, 65, id="indentation"),
    pytest.param("[" + "1," * 200_000 + "]", Code.TOO_LARGE, 1, id="large list"),
    pytest.param("a: [" + "1," * 100_000 + "]", Code.TOO_MANY_NODES, 1, id="many values"),
    pytest.param("x: 1\ny: !!python/object/apply:os.system [ls]", Code.TAG, 2, id="python tag"),
    pytest.param("x: 1\ny: !!python/name:os.system ''", Code.TAG, 2, id="python name"),
    pytest.param("y: !!binary aGk=", Code.TAG, 1, id="binary"),
    pytest.param("y: !!set {a, b}", Code.TAG, 1, id="set"),
    pytest.param("y: !!int nine", Code.TAG, 1, id="tag that does not fit"),
    pytest.param("y: !local 1", Code.TAG, 1, id="local tag"),
    pytest.param("a: 1\nb: 2\na: 3", Code.DUPLICATE_KEY, 3, id="duplicate keys"),
    pytest.param("a: .nan", Code.NUMBER, 1, id="nan"),
    pytest.param("a: -.INF", Code.NUMBER, 1, id="inf"),
    pytest.param("a: 1e999", Code.NUMBER, 1, id="overflow"),
    pytest.param("b: 1\na: " + "9" * 5_000, Code.NUMBER, 2, id="5,000 digits"),
    pytest.param("a: 0x" + "f" * 4_000, Code.NUMBER, 1, id="4,000 hexadecimal digits"),
    pytest.param("[1, 2]: x", Code.KEY_TYPE, 1, id="list as key"),
    pytest.param("a: {{ x }}", Code.KEY_TYPE, 1, id="unquoted template"),
    pytest.param("x: 1\n~: 2", Code.KEY_TYPE, 2, id="null as key"),
    pytest.param("x: 1\ntrue: 2", Code.KEY_TYPE, 2, id="boolean as key"),
    pytest.param("a: 1\nb: x\0y", Code.CHARACTER, 2, id="NUL"),
    pytest.param('a: "x\\0y"', Code.CHARACTER, 1, id="escaped NUL"),
    pytest.param("a: 1\nb: \ud800", Code.CHARACTER, 2, id="lone surrogate"),
    pytest.param('a: "\\ud800"', Code.SYNTAX, 1, id="escaped surrogate"),
    pytest.param("a: \x07", Code.CHARACTER, 1, id="control character"),
    pytest.param("a: 1\n---\nb: 2", Code.ROOT, 2, id="two documents"),
    pytest.param("", Code.ROOT, 1, id="empty"),
    pytest.param("# nothing\n", Code.ROOT, 1, id="comment only"),
    pytest.param("null", Code.ROOT, 1, id="null"),
    pytest.param("- a\n- b", Code.ROOT, 1, id="list"),
    pytest.param("just text", Code.ROOT, 1, id="scalar"),
    pytest.param("a: 1".encode("utf-16"), Code.ENCODING, 1, id="UTF-16"),
    pytest.param(b"a: 1\nb: \xff\xfe", Code.ENCODING, 2, id="invalid UTF-8"),
    pytest.param("a: [1\nb: 2", Code.SYNTAX, 2, id="open bracket"),
    pytest.param("a:\n\t- b", Code.SYNTAX, 2, id="tab"),
    pytest.param("a: {<<: 5}", Code.MERGE, 1, id="merge of a scalar"),
]


@pytest.mark.parametrize(("text", "code", "line"), BAD)
def test_bad_documents_are_answered_with_a_problem(text: str | bytes, code: Code, line: int | None) -> None:
    source = read(text, "bad.yaml")
    found = [problem for problem in source.problems if problem.code == code]
    assert found, source.problems
    assert found[0].file == "bad.yaml"
    assert found[0].line >= 1
    assert found[0].column >= 1
    assert line is None or found[0].line == line


def test_depth_is_refused_at_once() -> None:
    assert calls(lambda: read("[" * 100_000, "f")) == calls(lambda: read("[" * 1_000, "f"))


def test_a_duplicate_key_names_both_lines() -> None:
    [problem] = read("a: 1\nb: 2\na: 3", "f").problems
    assert "line 1" in problem.message
    assert "line 3" in problem.message


def test_faults_after_which_reading_can_go_on_are_reported_together() -> None:
    codes = {problem.code for problem in read("a: .nan\na: 1\n~: 2\nb: !!set {}\n", "f").problems}
    assert codes == {Code.NUMBER, Code.DUPLICATE_KEY, Code.KEY_TYPE, Code.TAG}


@pytest.mark.parametrize("sign", ["\x85", "\u2028", "\u2029"])
def test_signs_that_ended_lines_in_yaml_1_1_are_text(sign: str) -> None:
    text = f'a: |\n  one{sign}two\nb{sign}: x{sign}y # and{sign}on\nc: ["{sign}", z]\n'
    source = read(text, "f")
    assert source.data == {"a": f"one{sign}two\n", f"b{sign}": f"x{sign}y", "c": [sign, "z"]}
    assert (source.mark(("c", 1)).line, source.position(("a",), f"one{sign}two\n", 4)) == (4, (2, 7))


def test_signs_that_end_no_line_leave_problems_in_their_lines() -> None:
    (problem,) = read("a: \u2028x\nb: *nobody\n", "f").problems
    assert (problem.code, problem.line) == (Code.ALIAS, 2)


@pytest.mark.parametrize("text", ["a{}b", "a{}b\nc\n", "{}x", "x{}", "x{}\n"])
def test_what_is_printed_is_read_as_the_same(text: str) -> None:
    for sign in "\x85\u2028\u2029":
        data = {"a": text.format(sign), f"k{sign}y": 1}
        assert read(dump(data), "f").data == data
