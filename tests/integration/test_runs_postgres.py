"""Whole playbooks on a real PostgreSQL server, as people write them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

pytestmark = pytest.mark.postgres

Result = Callable[..., Any]


def test_a_schema_is_set_up_by_one_command_and_again_by_the_next(result: Result, warehouse: str) -> None:
    body = """
    workflow:
      - step: start
        tool:
          kind: postgres
          auth: warehouse
          command: |
            -- it's the schema; "all" of it
            CREATE SCHEMA IF NOT EXISTS shop;
            /* one more; with 'quotes" and $$ dollars */
            CREATE TABLE IF NOT EXISTS shop.item (id INT PRIMARY KEY, name TEXT DEFAULT 'a;b', at TIMESTAMPTZ DEFAULT now());
            DO $$
            DECLARE n INT := 0;
            BEGIN
              -- don't; stop here
              SELECT count(*) INTO n FROM shop.item;
              IF n = 0 THEN
                INSERT INTO shop.item (id) VALUES (1), (2);
                EXECUTE 'INSERT INTO shop.item VALUES (3, ''it''''s; three'')';
              END IF;
            END $$;
            CREATE OR REPLACE FUNCTION shop.named(wanted INT) RETURNS TEXT LANGUAGE sql AS $body$
              SELECT name FROM shop.item WHERE id = wanted; -- the only one
            $body$;
            SELECT count(*) AS n FROM shop.item;
            INSERT INTO shop.item (id, name) VALUES (3, 'new') ON CONFLICT DO NOTHING;
            SELECT shop.named(1) AS one, shop.named(3) AS three;
        set: {ctx.round: "{{ (ctx.round | default(0)) + 1 }}"}
        next: [{step: start, when: "{{ ctx.round < 2 }}"}, {step: end, when: "{{ ctx.round == 2 }}"}]
      - step: end
        tool: {kind: noop, input: {rounds: "{{ ctx.round }}", n: "{{ start.command_4.rows[0].n }}", written: "{{ start.command_5.row_count }}",
                                   names: "{{ start.rows[0] }}", last: "{{ start.command_6.rows == start.rows }}"}}
    """
    assert result(body) == {
        "rounds": 2,
        "n": 3,
        "written": 0,
        "names": {"one": "a;b", "three": "it's; three"},
        "last": True,
    }


def test_documents_are_kept_as_jsonb_and_laid_over_by_the_next_load(result: Result, warehouse: str) -> None:
    body = """
    workload:
      docs:
        - {id: 1, title: "it's", tags: ["a'b", 'c"d', "x\\\\y"], deep: {n: null, ok: true, f: 1.5}}
        - {id: 2, title: "100 %; -- {braces} é", tags: [], deep: {}}
    workflow:
      - step: start
        tool: {kind: postgres, auth: warehouse, command: "CREATE TABLE doc (id INT PRIMARY KEY, body JSONB NOT NULL, loads INT NOT NULL DEFAULT 1)"}
        next: pasted
      - step: pasted
        loop: {in: "{{ docs }}", iterator: doc, spec: {mode: parallel, max_in_flight: 2}}
        tool:
          kind: postgres
          auth: warehouse
          command: |
            INSERT INTO doc (id, body) VALUES ({{ doc.id }}, '{{ doc | tojson | replace("'", "''") }}'::jsonb)
            ON CONFLICT (id) DO UPDATE SET body = EXCLUDED.body, loads = doc.loads + 1
        next: bound
      - step: bound
        loop: {in: "{{ docs }}", iterator: doc}
        tool:
          kind: postgres
          auth: warehouse
          params: {id: "{{ doc.id }}", body: "{{ doc }}"}
          command: |
            INSERT INTO doc (id, body) VALUES (:id, :body)
            ON CONFLICT (id) DO UPDATE SET body = doc.body || EXCLUDED.body || '{"again": true}', loads = doc.loads + 1
            RETURNING loads
        next: read
      - {step: read, tool: {kind: postgres, auth: warehouse, command: "SELECT body, body -> 'deep' ->> 'f' AS f FROM doc ORDER BY id"}, next: end}
      - step: end
        tool:
          kind: python
          input: {rows: "{{ read.rows }}", docs: "{{ docs }}", tag: "{{ read.rows[0].body.tags[2] }}", loads: "{{ bound.results[1].rows[0].loads }}"}
          code: |
            same = [row['body'] for row in rows] == [doc | {'again': True} for doc in docs]
            result = {'same': same, 'f': [row['f'] for row in rows], 'tag': tag, 'loads': loads}
    """
    assert result(body) == {"same": True, "f": ["1.5", None], "tag": r"x\y", "loads": 2}


def test_rows_are_claimed_worked_on_and_written_back(result: Result, warehouse: str) -> None:
    body = """
    workflow:
      - step: start
        tool:
          kind: postgres
          auth: warehouse
          command: |
            CREATE TABLE job (id INT PRIMARY KEY, state TEXT NOT NULL DEFAULT 'new', squared INT, run BIGINT);
            INSERT INTO job (id) SELECT generate_series(1, 7)
        next: claim
      - step: claim
        tool:
          kind: postgres
          auth: warehouse
          command: |
            UPDATE job SET state = 'taken', run = {{ execution_id }}
            WHERE id IN (SELECT id FROM job WHERE state = 'new' ORDER BY id LIMIT 3 FOR UPDATE SKIP LOCKED) RETURNING id;
            SELECT count(*)::int AS open FROM job WHERE state = 'new'
        set: {ctx.rounds: "{{ (ctx.rounds | default(0)) + 1 }}"}
        next:
          arcs:
            - {step: work, when: "{{ claim.command_0.row_count > 0 }}"}
            - {step: end, when: "{{ claim.rows[0].open == 0 }}"}
      - step: work
        loop: {in: "{{ claim.command_0.rows }}", iterator: row, spec: {mode: parallel, max_in_flight: 3}}
        tool:
          - {name: square, kind: python, input: {n: "{{ iter.row.id }}"}, code: "result = n * n"}
          - name: write
            kind: postgres
            auth: warehouse
            params: ["{{ row.id }}", "{{ square }}", "{{ execution_id }}"]
            command: UPDATE job SET state = 'done', squared = $2 WHERE id = $1 AND run = $3::bigint AND state = 'taken'
        next: claim
      - step: end
        tool:
          - {name: sum, kind: postgres, auth: warehouse, command: "SELECT state, sum(squared)::int AS s, count(*) AS n FROM job GROUP BY state"}
          - {name: told, kind: noop, input: {rows: "{{ sum.rows }}", rounds: "{{ rounds }}"}}
    """
    assert result(body) == {"rows": [{"state": "done", "s": 140, "n": 7}], "rounds": 4}


def test_numbers_instants_and_lists_come_out_as_json_and_go_in_again(result: Result, warehouse: str) -> None:
    body = """
    workflow:
      - step: start
        tool:
          kind: postgres
          auth: warehouse
          command: |
            CREATE TABLE kept (price NUMERIC(12, 2), whole NUMERIC, big BIGINT, at TIMESTAMPTZ, day DATE, local TIMESTAMP, ok BOOLEAN,
                               none TEXT, tags TEXT[], id UUID);
            SELECT 12.50::numeric(12, 2) AS price, 3::numeric AS whole, 9007199254740993 AS big, '2026-01-02 03:04:05.5+02'::timestamptz AS at,
                   '2026-01-02'::date AS day, '2026-01-02 03:04:05'::timestamp AS local, true AS ok, NULL::text AS none,
                   ARRAY['a', 'it''s'] AS tags, '00000000-0000-0000-0000-000000000001'::uuid AS id
        next: [{step: keep, when: "{{ start.rows[0].price * 2 == 25 and start.rows[0].price > 12 and start.rows[0].none is none }}"}]
      - step: keep
        tool:
          kind: postgres
          auth: warehouse
          params: "{{ start.rows[0] }}"
          command: |
            INSERT INTO kept VALUES (:price, :whole, :big, :at, :day, :local, :ok, :none, :tags, :id::uuid);
            SELECT price, whole, big, at, day, local, ok, none, tags, id FROM kept WHERE at = :at::timestamptz AND 'a' = ANY(:tags)
        next: end
      - {step: end, tool: {kind: noop, input: {row: "{{ keep.rows[0] }}", same: "{{ keep.rows == start.rows }}"}}}
    """
    found = result(body)
    row = found["row"]
    assert found["same"]
    assert datetime.fromisoformat(row.pop("at")) == datetime(2026, 1, 2, 1, 4, 5, 500_000, UTC)
    assert row == {
        "price": 12.5,
        "whole": 3,
        "big": 9007199254740993,
        "day": "2026-01-02",
        "local": "2026-01-02T03:04:05",
        "ok": True,
        "none": None,
        "tags": ["a", "it's"],
        "id": "00000000-0000-0000-0000-000000000001",
    }


def test_commands_are_made_by_steps_and_values_are_bound(result: Result, warehouse: str) -> None:
    body = """
    workload: {evil: "x'; DROP TABLE person; --", names: [Ann, "O'Neil", "50 % off", Bob], ids: [2, 3]}
    workflow:
      - step: start
        tool:
          kind: python
          input: {names: "{{ names }}"}
          code: |
            rows = ", ".join("(%d, '%s')" % (n, name.replace("'", "''")) for n, name in enumerate(names, 1))
            result = {"sql": "CREATE TABLE person (id INT, name TEXT); INSERT INTO person VALUES " + rows}
        next: fill
      - {step: fill, tool: {kind: postgres, auth: warehouse, command: "{{ start.sql }}"}, next: like}
      - step: like
        tool: {kind: postgres, auth: warehouse, command: "SELECT name FROM person WHERE name LIKE '%''%' OR name LIKE '50 \\\\%%' ORDER BY id"}
        next: named
      - step: named
        tool:
          kind: postgres
          auth: warehouse
          params: {evil: "{{ evil }}", part: "%o%", ids: "{{ ids }}"}
          command: |
            SELECT :evil AS evil, id::text AS text FROM person -- :part; it's bound below
            WHERE name ILIKE :part AND name NOT LIKE '%Nei%' AND name <> ':part' OR id = ANY(:ids) ORDER BY id
        next: listed
      - step: listed
        tool: {kind: postgres, auth: warehouse, params: ["{{ ids[1] }}", "{{ evil }}"], command: "SELECT name, $2 AS evil, $1::int % 2 AS odd, '$1' AS text FROM person WHERE id = $1"}
        next: end
      - step: end
        tool: {kind: noop, input: {filled: "{{ fill.row_count }}", like: "{{ like.rows | map(attribute='name') | list }}",
                                   named: "{{ named.rows | map(attribute='text') | list }}", evil: "{{ named.rows[0].evil == evil }}", listed: "{{ listed.rows }}"}}
    """
    assert result(body) == {
        "filled": 4,
        "like": ["O'Neil", "50 % off"],
        "named": ["2", "3", "4"],
        "evil": True,
        "listed": [{"name": "50 % off", "evil": "x'; DROP TABLE person; --", "odd": 1, "text": "$1"}],
    }


def test_statements_stand_by_themselves_unless_they_are_one_transaction(
    result: Result, warehouse: str
) -> None:
    body = """
    workflow:
      - step: start
        tool: {kind: postgres, auth: warehouse, command: "CREATE TABLE once (id INT PRIMARY KEY); CREATE INDEX CONCURRENTLY once_too ON once (id); VACUUM ANALYZE once"}
        next: alone
      - step: alone
        tool:
          kind: postgres
          auth: warehouse
          command: INSERT INTO once VALUES (1); INSERT INTO once VALUES (1); INSERT INTO once VALUES (2)
          spec: {policy: {rules: [{when: "{{ outcome.pg.sqlstate == '23505' }}", then: {do: continue, set: {ctx.kind: "{{ error.kind }}"}}}]}}
        next: together
      - step: together
        tool: {kind: postgres, auth: warehouse, transaction: true, command: INSERT INTO once VALUES (3); INSERT INTO once VALUES (1)}
        next: [{step: vacuum, when: "{{ outcome.status == 'error' and error.kind == 'sql' }}", set: {ctx.why: "{{ error.message }}"}}]
      - step: vacuum
        tool: {kind: postgres, auth: warehouse, transaction: true, command: VACUUM once}
        next: [{step: end, when: "{{ event.name == 'call.error' }}", set: {ctx.vacuum: "{{ outcome.pg.sqlstate }}"}}]
      - step: end
        tool:
          - {name: left, kind: postgres, auth: warehouse, command: SELECT id FROM once ORDER BY id}
          - {name: told, kind: noop, input: {rows: "{{ left.rows }}", kind: "{{ kind }}", vacuum: "{{ ctx.vacuum }}", why: "{{ 'once_pkey' in why }}"}}
    """
    assert result(body) == {"rows": [{"id": 1}], "kind": "sql", "vacuum": "25001", "why": True}
