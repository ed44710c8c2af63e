"""What one more call of a task changes, as its configuration tells; all else is `external`."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.net.kinds import Effects, KindInfo
from noetl.tools.kit.registry import kinds

HTTP: list[tuple[dict[str, Any], Effects]] = [
    ({"url": "u"}, "none"),
    ({"url": "u", "method": None}, "none"),
    ({"url": "u", "method": "GET"}, "none"),
    ({"url": "u", "method": "head"}, "none"),
    ({"url": "u", "method": "OPTIONS"}, "none"),
    ({"url": "u", "method": "PUT"}, "idempotent"),
    ({"url": "u", "method": "delete"}, "idempotent"),
    ({"url": "u", "method": "POST"}, "external"),
    ({"url": "u", "method": "PATCH"}, "external"),
    ({"url": "u", "method": "{{ method }}"}, "external"),
    ({"url": "u", "method": "PURGE"}, "external"),
    ({"url": "u", "method": ["GET"]}, "external"),
]

POSTGRES: list[tuple[dict[str, Any], Effects]] = [
    ({"command": "SELECT count(*), lower(name) FROM t WHERE day = '2026-01-01'::date"}, "none"),
    ({"query": "TABLE t; VALUES (1)"}, "none"),
    ({"sql": ["SELECT 1", "WITH a AS (SELECT 1) SELECT * FROM a"]}, "none"),
    ({"command": "SELECT * FROM t WHERE id = :id", "params": {"id": "{{ id }}"}}, "none"),
    ({"command": "SELECT extract(year FROM day), pg_catalog.now() FROM t"}, "none"),
    ({"command": "SELECT * FROM t WHERE id = :id"}, "external"),
    ({"command": "SELECT * FROM {{ table }}"}, "external"),
    ({"command": "SELECT * FROM {{ table }}", "params": {}}, "external"),
    ({"command": "SELECT 1; DELETE FROM t"}, "external"),
    ({"command": ["SELECT 1", "INSERT INTO t VALUES (1)"]}, "external"),
    ({"command": ["SELECT 1", {"file": "a.sql"}]}, "external"),
    ({"command": "WITH a AS (DELETE FROM t RETURNING *) SELECT * FROM a"}, "external"),
    ({"command": "SELECT * INTO u FROM t"}, "external"),
    ({"command": "SELECT * FROM (SELECT * FROM t FOR UPDATE) AS a"}, "external"),
    ({"command": "SELECT nextval('s')"}, "external"),
    ({"command": "SELECT close_the_month()"}, "external"),
    ({"command": "SELECT mine.lower(name) FROM t"}, "external"),
    ({"command": "SELECT id FROM t WHERE pay(id)"}, "external"),
    ({"command": "EXPLAIN ANALYZE DELETE FROM t"}, "external"),
    ({"command": "SELEC 1"}, "external"),
    ({"command": ""}, "external"),
    ({"script": {"file": "a.sql"}}, "external"),
    ({"table": "t", "rows": []}, "external"),
    ({"table": "t", "rows": [], "mode": "copy"}, "external"),
    ({"table": "t", "rows": [], "mode": "{{ mode }}"}, "external"),
    ({"table": "t", "rows": [], "mode": "upsert", "key": "id"}, "idempotent"),
    ({"table": "t", "rows": [], "mode": "replace"}, "idempotent"),
    ({}, "external"),
]

DUCKDB: list[tuple[dict[str, Any], Effects]] = [
    ({"command": "CREATE TABLE t AS SELECT 1; INSERT INTO t VALUES (2); SELECT * FROM t"}, "none"),
    ({"command": "FROM read_csv('a.csv') WHERE x = :x", "params": {"x": 1}}, "none"),
    ({"command": "COPY t TO 'out.csv'"}, "external"),
    ({"command": "EXPORT DATABASE 'out'"}, "external"),
    ({"command": "CREATE PERSISTENT SECRET s (TYPE s3)"}, "external"),
    ({"database": "a.db", "command": "SELECT replace(a, 'x', 'y') FROM t"}, "none"),
    ({"database": "a.db", "command": "INSERT INTO t VALUES (1)"}, "external"),
    ({"database": "a.db", "command": "WITH a AS (DELETE FROM t RETURNING *) FROM a"}, "external"),
    ({"database": "a.db", "command": "SELECT nextval('s')"}, "external"),
    ({"database": "{{ file }}", "command": "CREATE TABLE t (a int)"}, "external"),
    ({"attach": {"w": "dw"}, "command": "SELECT * FROM w.t"}, "none"),
    ({"attach": {"w": "dw"}, "command": "INSERT INTO w.t VALUES (1)"}, "external"),
    ({"attach": {"w": "dw"}, "command": "FROM postgres_execute('w', 'DELETE FROM t')"}, "external"),
    ({"attach": {"w": "dw"}, "command": "FROM \"postgres_execute\"('w', 'DELETE FROM t')"}, "external"),
    ({"allow_external": True, "command": "CREATE TABLE t (a int)"}, "external"),
    ({"command": "SELECT FROM FROM"}, "external"),
]

SQLITE: list[tuple[dict[str, Any], Effects]] = [
    ({"command": "CREATE TABLE t (a)"}, "none"),
    ({"database": "a.db", "command": "SELECT replace(a, 'x', :y) FROM t", "params": {"y": "z"}}, "none"),
    ({"database": "a.db", "command": "WITH a AS (SELECT 1) SELECT * FROM a"}, "none"),
    ({"database": "a.db", "command": "WITH a AS (SELECT 1) INSERT INTO t SELECT * FROM a"}, "external"),
    ({"database": "a.db", "command": "PRAGMA user_version = 3"}, "external"),
    ({"database": "a.db", "command": "DELETE FROM t"}, "external"),
    ({"database": "a.db", "command": "DELETE FROM t", "read_only": True}, "none"),
    ({"database": "{{ file }}", "command": "DELETE FROM t"}, "external"),
    ({"database": "a.db", "command": "SELECT FROM WHERE"}, "external"),
    ({"database": "a.db", "table": "t", "rows": [], "mode": "upsert", "key": "id"}, "idempotent"),
]

ARTIFACT: list[tuple[dict[str, Any], Effects]] = [
    ({"action": "get", "key": "a"}, "none"),
    ({"action": "get", "key": "a", "to": "b"}, "external"),
    ({"action": "list"}, "none"),
    ({"action": "put", "key": "a", "data": 1}, "external"),
    ({"action": "{{ action }}"}, "external"),
]

TOLD = [
    *(("http", *one) for one in HTTP),
    *(("postgres", *one) for one in POSTGRES),
    *(("duckdb", *one) for one in DUCKDB),
    *(("sqlite", *one) for one in SQLITE),
    *(("artifact", *one) for one in ARTIFACT),
    *((kind, {}, "none") for kind in ("noop", "secrets")),
    *((kind, {}, "external") for kind in ("playbook", "python", "shell", "message", "transfer", "quantum")),
]


@pytest.mark.parametrize(("kind", "config", "effects"), TOLD)
def test_a_configuration_tells_what_its_calls_change(
    kind: str, config: dict[str, Any], effects: Effects
) -> None:
    assert kinds()[kind].effects_with(config) == effects


@pytest.mark.parametrize("kind", kinds())
@pytest.mark.parametrize("odd", [None, 1, [], {}, [None], {"a": {}}, "{{ x }}"])
def test_nothing_that_an_author_may_write_stops_a_tool_from_telling(kind: str, odd: Any) -> None:
    info = kinds()[kind]
    for key in info.schema.get("properties", {}):
        assert info.effects_with({key: odd}) in ("none", "idempotent", "external")


def test_what_a_package_of_before_does_in_its_worker_is_repeated_as_well() -> None:
    assert KindInfo("press", "depot", "internal").effects_with({}) == "external"
