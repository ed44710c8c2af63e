"""What tools say that they touch, whatever stands in a configuration that nobody has checked
yet."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.tools.kit.registry import kinds, load, touches

TOLD: list[tuple[str, dict[str, Any], tuple[str, ...]]] = [
    ("http", {"url": "https://a.example/x"}, ("GET https://a.example/x",)),
    ("http", {"method": "post", "endpoint": "{{ x }}/y"}, ("POST {{ x }}/y",)),
    ("http", {"url": "https://me:secret@a.example/"}, ("GET https://***@a.example/",)),
    ("postgres", {"auth": "dw", "command": "SELECT 1"}, ("SQL on dw: select",)),
    ("postgres", {"auth": {"credential": "dw"}, "sql": ["SELECT 1", "select 2"]}, ("SQL on dw: select ×2",)),
    ("postgres", {"host": "db", "db": "x", "query": "VACUUM"}, ("SQL on db/x: vacuum",)),
    (
        "postgres",
        {"dsn": "postgresql://u:pw@db/x", "query": "table t"},
        ("SQL on postgresql://***@db/x: table",),
    ),
    ("postgres", {"auth": "dw", "table": "t", "mode": "upsert"}, ("SQL on dw: upsert rows, table t",)),
    ("postgres", {"command": "{{ sql }}"}, ("SQL on a PostgreSQL server: what a template yields",)),
    ("postgres", {"auth": "dw"}, ("SQL on dw: no statement",)),
    (
        "duckdb",
        {"command": "COPY t TO 'x'", "files": "/data"},
        ("SQL on DuckDB in memory: copy", "files below /data"),
    ),
    (
        "duckdb",
        {"database": "a.duckdb", "command": "select 1", "attach": {"w": "dw"}},
        ("SQL on DuckDB file a.duckdb: select", "attached database w"),
    ),
    (
        "sqlite",
        {"database": "a.db", "read_only": True, "sql": ""},
        ("SQL on SQLite file a.db (read only): no statement",),
    ),
    ("shell", {"command": "echo  a\necho b"}, ("echo a echo b",)),
    ("shell", {"argv": ["ls", "-l", "{{ dir }}"]}, ("ls -l {{ dir }}",)),
    ("shell", {"commands": ["a", ["b", "c"]]}, ("a", "b c")),
    ("python", {"code": "result = 1"}, ("code",)),
    ("python", {"script": {"file": "a.py"}}, ("code of a.py",)),
    ("playbook", {"path": "a/b"}, ("a/b",)),
    ("message", {"auth": "rabbit", "queue": "q"}, ("a message to the queue q on rabbit",)),
    ("message", {"url": "amqp://u:p@h/", "exchange": "x"}, ("a message to the exchange x on amqp://***@h/",)),
    ("artifact", {"action": "put", "key": "a.csv"}, ("put artifact a.csv",)),
    ("artifact", {"action": "get", "key": "a", "to": "b.csv"}, ("get artifact a", "writes file b.csv")),
    (
        "transfer",
        {
            "source": {"kind": "postgres", "auth": "dw"},
            "target": {"kind": "sqlite", "database": "a.db", "table": "t"},
        },
        ("reads postgres dw", "writes sqlite a.db, table t"),
    ),
    ("secrets", {"path": "a"}, ("secret a of store",)),
    ("noop", {}, ()),
]


@pytest.mark.parametrize(("kind", "config", "expected"), TOLD)
def test_a_tool_tells_what_it_touches(kind: str, config: dict[str, Any], expected: tuple[str, ...]) -> None:
    assert touches(kind, config) == expected


@pytest.mark.parametrize(
    ("statement", "verb"),
    [
        ("INSERT INTO t VALUES (1)", "insert"),
        ("-- select\n/* drop */ DELETE FROM t", "delete"),
        ("CREATE OR REPLACE TABLE t (a int)", "create table"),
        ("create unique index i on t (a)", "create index"),
        ("ALTER TABLE t ADD b int", "alter table"),
        ("WITH a AS (SELECT 1) INSERT INTO t SELECT * FROM a", "insert"),
        ("with a as (select 1) select * from a", "select"),
        ("(SELECT 1)", "select"),
        ("COPY t TO 'select.csv'", "copy"),
    ],
)
def test_a_statement_is_reported_by_its_first_words(statement: str, verb: str) -> None:
    assert touches("sqlite", {"command": statement}) == (f"SQL on SQLite in memory: {verb}",)


@pytest.mark.parametrize("kind", sorted(kinds()))
@pytest.mark.parametrize(
    "odd", [None, 7, "", "{{ x }}", [], [None, {"a": 1}], {"a": [1]}, {"credential": 3}, "a\n" * 9999]
)
def test_no_value_of_any_key_makes_a_tool_fail(kind: str, odd: Any) -> None:
    for key in (*kinds()[kind].schema.get("properties", {}), "nonsense"):
        told = load(kind).touches({key: odd})
        assert all("\n" not in one and len(one) < 400 for one in told), told


def test_a_kind_that_is_not_there_touches_something_that_nobody_can_tell() -> None:
    assert touches("nothing", {}) == ("something that the nothing tool cannot tell (ToolError)",)
