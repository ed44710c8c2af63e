"""SQL texts are taken apart and bound without ever touching what is quoted."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noetl.errors import ToolError
from noetl.tools.sql.text import bind, split, tokens


def texts(sql: str) -> list[str]:
    return [statement.text for statement in split(sql)]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("select 1; select 2", ["select 1", "select 2"]),
        ("  ;; select 1 ;;\n-- done;\n", ["select 1"]),
        ("select ';'; select 2", ["select ';'", "select 2"]),
        ("select 'it''s; fine'; select 2", ["select 'it''s; fine'", "select 2"]),
        (r"select E'a\';b', E'c''\';d'; select 2", [r"select E'a\';b', E'c''\';d'", "select 2"]),
        (r"select 'a\'; select 2", [r"select 'a\'", "select 2"]),
        ('select 1 as "a;b"; select 2', ['select 1 as "a;b"', "select 2"]),
        ("select 1 -- it's; here\n; select 2", ["select 1 -- it's; here", "select 2"]),
        ("/* a; /* nested; */ b; */ select 1; select 2", ["/* a; /* nested; */ b; */ select 1", "select 2"]),
        ("do $$ begin perform 1; end $$; select 2", ["do $$ begin perform 1; end $$", "select 2"]),
        ("select $a$ $$; $b$; $a$; select 2", ["select $a$ $$; $b$; $a$", "select 2"]),
        ("select a$b$c; select 2", ["select a$b$c", "select 2"]),
        ("select 1; select 'open; end", ["select 1", "select 'open; end"]),
        ("select 1 /* open; end", ["select 1 /* open; end"]),
        ("create rule r as on insert to t do (select 1; select 2); x", ["create rule r as on insert to t "
                                                                        "do (select 1; select 2)", "x"]),
        (
            "create or replace function f() returns int begin atomic select case when true then "
                "1 end; select 2; end; x",
            ["create or replace function f() returns int begin atomic select case when true then "
                "1 end; select 2; end", "x"],
        ),
        (
            "create temp trigger g after insert on t begin update t set a = case when 1 then 2 "
                "end; select 3; end; x",
            ["create temp trigger g after insert on t begin update t set a = case when 1 then 2 "
                "end; select 3; end", "x"],
        ),
        ("create trigger g before insert on t for each row execute function f(); "
         "x", ["create trigger g before insert on t for each row execute function f()", "x"]),
        ("begin; select 1; end; select 2", ["begin", "select 1", "end", "select 2"]),
        ("", []),
    ],
)  # fmt: skip
def test_a_command_is_split_where_a_statement_ends(sql: str, expected: list[str]) -> None:
    assert texts(sql) == expected


def test_statements_know_their_place() -> None:
    first, second = split("select 1;\n\n-- two\nselect\n  2")

    assert (first.offset, first.line) == (0, 1)
    assert (second.offset, second.line) == (11, 4)
    assert second.line_at(second.text.index("2")) == 5


def test_names_are_bound_and_casts_quotes_and_comments_left_alone() -> None:
    sql = """select :a::text, ':a', ":a", $$:a$$, -- :a
      arr[1:n], {'k':v}, /* :a */ :b_2 % 7, x like '%:a'"""

    [bound] = bind(split(sql), {"a": 1, "b_2": "x"})

    assert bound.values == {"p1": 1, "p2": "x"}
    assert bound.dollar() == sql.replace(":a::text", "$p1::text").replace(":b_2", "$p2")
    assert bound.pyformat().count("%(p1)s") == 1
    assert "%(p2)s %% 7, x like '%%:a'" in bound.pyformat()


def test_positions_are_bound_from_a_list() -> None:
    one, two = bind(split("insert into t values ($1, '$2'); select $2, $1, a$1"), ["x", {"y": 1}])

    assert one.dollar() == "insert into t values ($p1, '$2')"
    assert one.values == {"p1": "x"}
    assert two.dollar() == "select $p2, $p1, a$1"
    assert two.values == {"p1": "x", "p2": {"y": 1}}


def test_nothing_is_looked_for_without_params() -> None:
    [bound] = bind(split("select ':x', :y, '%d'"), None)

    assert not bound.has_values
    assert bound.statement.text == "select ':x', :y, '%d'"


def test_a_cast_to_json_is_seen() -> None:
    [bound] = bind(split("select :a::jsonb, cast(:a as json), :a::json[], :a"), {"a": [1]})

    assert [piece.is_json for piece in bound.pieces if not isinstance(piece, str)] == [
        True,
        True,
        False,
        False,
    ]


def test_a_missing_parameter_names_the_nearest_and_its_line() -> None:
    with pytest.raises(
        ToolError, match=r"Parameter :nmae is used but not given; did you mean :name\?"
    ) as caught:
        bind(split("-- first\nselect\n  :nmae"), {"name": 1})

    assert (caught.value.kind, caught.value.line) == ("sql", 3)


def test_a_missing_position_says_what_there_is() -> None:
    with pytest.raises(ToolError, match=r"Parameter \$3 is used but not given"):
        bind(split("select $1, $2, $3"), [1, 2])


def test_an_unused_parameter_is_an_error() -> None:
    with pytest.raises(ToolError, match="Parameter :b is given but no statement uses it"):
        bind(split("select :a; select ':b'"), {"a": 1, "b": 2})


PIECES = st.sampled_from(
    [
        "'",
        '"',
        "$$",
        "$t$",
        "--",
        "\n",
        "/*",
        "*/",
        ";",
        ":a",
        "::",
        "\\",
        "E'",
        "%",
        "$1",
        " ",
        "x",
        "(",
        ")",
        "é",
    ]
)
SQL = st.lists(PIECES, max_size=30).map("".join)
QUOTED = st.sampled_from(["'{}'", '"{}"', "$q${}$q$", "/*{}*/", "--{}\n", "E'{}'"])
INNER = st.lists(st.sampled_from([":a", "$1", ";", "%", " ", "x", "::"]), max_size=8).map("".join)


@settings(max_examples=300, deadline=None)
@given(SQL)
def test_tokens_leave_no_gap(sql: str) -> None:
    assert "".join(sql[token.start : token.end] for token in tokens(sql)) == sql


@settings(max_examples=300, deadline=None)
@given(SQL)
def test_splitting_loses_only_separators_space_and_comments(sql: str) -> None:
    rest, at = "", 0
    for statement in split(sql):
        assert sql[statement.offset :].startswith(statement.text)
        assert statement.offset >= at
        rest += sql[at : statement.offset]
        at = statement.offset + len(statement.text)
    rest += sql[at:]

    lost = [rest[token.start : token.end] for token in tokens(rest) if token.kind not in ("space", "comment")]
    assert set(lost) <= {";"}


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(QUOTED, INNER), max_size=6))
def test_binding_never_touches_what_is_quoted(parts: list[tuple[str, str]]) -> None:
    quoted = [frame.format(inner) for frame, inner in parts]
    sql = "select " + " , ".join([*quoted, ":a"])

    [bound] = bind(split(sql), {"a": 7})

    assert bound.values == {"p1": 7}
    assert bound.dollar() == sql[:-2] + "$p1"
    assert bound.pyformat() % {"p1": ":a"} == sql
