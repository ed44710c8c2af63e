"""What people write in playbooks, run for real: every kind of tool."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest

from noetl.config import Settings
from noetl.results import tables
from noetl.usecases import credentials
from noetl.usecases.large_values import SHOWN_BYTES
from noetl.usecases.runtime import Runtime

Run = Callable[..., dict[str, Any]]
Result = Callable[..., Any]


# --- http ----------------------------------------------------------------------------------------


class Handler(BaseHTTPRequestHandler):
    """Echoes, pages, refuses, and fails twice for each name."""

    failures: ClassVar[dict[str, int]] = {}

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        match url.path:
            case "/echo":
                self._answer(
                    200, {"query": query, "token": self.headers.get("authorization"), "items": [1, 2]}
                )
            case "/page":
                page = int(query["page"])
                self._answer(
                    200, {"rows": [page * 10 + i for i in range(3)], "next": page + 1 if page < 3 else None}
                )
            case "/flaky":
                seen = self.failures[query["name"]] = self.failures.get(query["name"], 0) + 1
                self._answer(503 if seen < 3 else 200, {"seen": seen})
            case "/big":
                self._answer(200, {"rows": [{"x": i, "pad": "p" * 300} for i in range(1200)]})
            case _:
                self._answer(404, {"detail": "no such thing"})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self._answer(201, {"got": body})

    def _answer(self, status: int, value: Any) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("X-Served-By", "Test")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Not on the terminal."""


@pytest.fixture(scope="module")
def web() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_http_answers_are_status_code_headers_and_data(result: Result, web: str) -> None:
    body = """
    workflow:
      - step: start
        tool: {kind: http, method: GET, url: "{{ web }}/echo", params: {a: 1, b: "{{ 'x y' }}"}, headers: {Authorization: "Bearer t"}}
        set: {ctx.query: "{{ output.data.query }}", ctx.body: "{{ output.data.data.items }}"}
        next: end
      - step: end
        tool:
          kind: python
          input: {code: "{{ start.status_code }}", by: "{{ start.headers['x-served-by'] }}", items: "{{ start.data.items }}",
                  query: "{{ ctx.query }}", body: "{{ ctx.body }}", token: "{{ start.data.token }}"}
          code: result = [code, by, items, query, body, token]
    """
    query = {"a": "1", "b": "x y"}
    assert result(body, web=web) == [200, "Test", [1, 2], query, [1, 2], "Bearer t"]


def test_http_posts_json_with_native_types(result: Result, web: str) -> None:
    body = """
    workload: {rows: [{id: 1}], n: 5}
    workflow:
      - step: start
        tool: {kind: http, method: POST, url: "{{ web }}/x", json: {rows: "{{ rows }}", n: "{{ n }}", none: "{{ nothing }}"}}
        next: end
      - {step: end, tool: {kind: noop, input: {got: "{{ start.data.got }}", code: "{{ start.status_code }}"}}}
    """
    assert result(body, web=web) == {"got": {"rows": [{"id": 1}], "n": 5, "none": None}, "code": 201}


def test_http_errors_are_read_in_policies_and_guards(result: Result, web: str) -> None:
    body = """
    workflow:
      - step: start
        tool:
          kind: http
          url: "{{ web }}/nothing"
          spec:
            policy:
              rules:
                - {when: "{{ outcome.error.retryable }}", then: {do: retry}}
                - {when: "{{ outcome.http.status == 404 }}", then: {do: continue, set: {ctx.status: "{{ output.http.status }}"}}}
        next: {arcs: [{step: end, when: "{{ ctx.status == 404 }}"}]}
      - step: end
        tool: {kind: http, url: "{{ web }}/nothing"}
        next: {arcs: [{step: last, when: "{{ output.error.status == 404 and error.type == 'Http404' }}", args: {kind: "{{ error.kind }}"}}]}
      - {step: last, tool: {kind: noop, input: {kind: "{{ kind }}"}}}
    """
    assert result(body, web=web) == {"kind": "client_error"}


def test_parallel_iterations_page_and_retry(result: Result, web: str) -> None:
    body = """
    workload: {names: [a, b, c]}
    workflow:
      - step: start
        loop: {in: "{{ names }}", iterator: name, spec: {mode: parallel, max_in_flight: 3}}
        tool:
          - name: fetch
            kind: http
            url: "{{ web }}/flaky"
            params: {name: "{{ iter.name }}{{ execution_id }}"}
            spec:
              policy:
                rules:
                  - {when: "{{ outcome.status == 'error' and outcome.error.retryable }}", then: {do: retry, attempts: 4, delay: 0.02}}
                  - {when: "{{ outcome.status == 'error' }}", then: {do: fail}}
            set: {tries: "{{ _attempt }}"}
          - name: page
            kind: http
            url: "{{ web }}/page"
            params: {page: "{{ at | default(1) }}"}
            set: {at: "{{ output.data.next }}", rows: "{{ (rows | default([])) + output.data.rows }}"}
            spec: {policy: {rules: [{when: "{{ outcome.data.next is not none }}", then: {do: jump, to: page}}, {else: {do: continue}}]}}
          - {name: done, kind: noop, input: {name: "{{ name }}", rows: "{{ rows }}", tries: "{{ tries }}"}}
        next: end
      - {step: end, tool: {kind: noop, input: {all: "{{ start.results }}"}}}
    """
    rows = [10, 11, 12, 20, 21, 22, 30, 31, 32]
    assert result(body, web=web) == {"all": [{"name": n, "rows": rows, "tries": 3} for n in "abc"]}


def test_fields_of_a_large_answer_are_readable(result: Result, web: str) -> None:
    body = """
    workflow:
      - {step: start, tool: {kind: http, url: "{{ web }}/big"}, next: end}
      - step: end
        tool: {kind: noop, input: {x: "{{ start.data.rows[3].x }}", n: "{{ start.data.rows | length }}", code: "{{ start.status_code }}"}}
    """
    assert result(body, web=web) == {"x": 3, "n": 1200, "code": 200}


# --- shell, noop, no tool ------------------------------------------------------------------------


def test_shell_yields_exit_code_and_output(result: Result) -> None:
    body = """
    workload: {word: "it's; $HOME"}
    workflow:
      - step: start
        tool: {kind: shell, command: 'printf "%s" "$WORD"; echo problem >&2', env: {WORD: "{{ word }}"}}
        next: end
      - {step: end, tool: {kind: noop, input: {out: "{{ start.stdout }}", err: "{{ start.stderr }}", code: "{{ start.exit_code }}"}}}
    """
    assert result(body) == {"out": "it's; $HOME", "err": "problem\n", "code": 0}


def test_a_shell_command_that_fails_names_its_exit_code(error: Run) -> None:
    body = """
    workflow:
      - step: start
        tool: {name: list, kind: shell, command: "echo why >&2; exit 3"}
    """
    found = error(body)
    assert (found["kind"], found["step"], found["task"], found["line"]) == ("shell", "start", "list", 7)
    assert "3" in found["message"]
    assert "why" in found["message"]


def test_steps_without_tool_pass_their_args_on(result: Result) -> None:
    body = """
    workflow:
      - {step: start, next: {arcs: [{step: middle, args: {a: 1}}]}}
      - {step: middle, next: {arcs: [{step: end, args: {b: "{{ args.a + 1 }}"}}]}}
      - step: end
    """
    assert result(body) == {"b": 2}


# --- duckdb --------------------------------------------------------------------------------------


def test_duckdb_answers_each_statement_and_the_last_at_the_top(result: Result) -> None:
    body = """
    workload: {rows: [{id: 1, name: "it's"}, {id: 2, name: b}]}
    workflow:
      - step: start
        tool:
          kind: duckdb
          tables: {people: "{{ rows }}"}
          command: |
            -- a comment; with a semicolon and 'a quote
            SELECT count(*) AS n FROM people;
            SELECT id, name FROM people WHERE name LIKE '%''%' ORDER BY id
        next: end
      - step: end
        tool: {kind: noop, input: {n: "{{ start.command_0.rows[0].n }}", rows: "{{ start.rows }}", same: "{{ start.command_1.rows == start.rows }}",
                                   count: "{{ start.row_count }}", columns: "{{ start.columns }}"}}
    """
    assert result(body) == {
        "n": 2,
        "rows": [{"id": 1, "name": "it's"}],
        "same": True,
        "count": 1,
        "columns": ["id", "name"],
    }


def test_json_is_written_into_sql_with_doubled_quotes(result: Result) -> None:
    body = """
    workload: {doc: {title: "it's", tags: ["a'b", 'c"d'], n: null}}
    workflow:
      - step: start
        tool:
          kind: duckdb
          command: |
            SELECT CAST('{{ doc | tojson | replace("'", "''") }}' AS JSON) ->> '$.title' AS title,
                   '{{ doc.tags | tojson | replace("'", "''") }}' AS tags
    """
    (row,) = result(body)["rows"]
    assert row["title"] == "it's"
    assert json.loads(row["tags"]) == ["a'b", 'c"d']


def test_a_whole_command_may_be_one_template_and_params_are_bound(result: Result) -> None:
    body = """
    workload: {sql: "SELECT 40 + 2 AS n", evil: "'; drop table event;--"}
    workflow:
      - {step: start, tool: {kind: duckdb, command: "{{ sql }}"}, next: end}
      - step: end
        tool:
          kind: duckdb
          params: {n: "{{ start.rows[0].n }}", evil: "{{ evil }}"}
          command: "SELECT :n + 1 AS n, :evil AS evil, 1::INTEGER AS one"
    """
    assert result(body)["rows"] == [{"n": 43, "evil": "'; drop table event;--", "one": 1}]


def test_tables_of_1200_rows_travel_from_step_to_step(result: Result) -> None:
    body = """
    workflow:
      - step: start
        tool: {kind: duckdb, command: "SELECT i AS id, repeat('p', 200) AS pad, i % 7 = 0 AS seventh, i / 4 AS ratio FROM range(1200) t(i)"}
        next: {arcs: [{step: pick, when: "{{ start.row_count == 1200 and start.rows[7].seventh }}"}]}
      - step: pick
        tool: {kind: python, input: {rows: "{{ start.rows }}"}, code: "result = {'rows': [r for r in rows if r['seventh']], 'sum': sum(r['ratio'] for r in rows)}"}
        next: back
      - step: back
        tool: {kind: duckdb, tables: {t: "{{ pick.rows }}"}, command: "SELECT CAST(sum(id) AS BIGINT) AS s, CAST(count(*) AS INTEGER) AS n FROM t"}
        next: end
      - {step: end, tool: {kind: noop, input: {row: "{{ back.rows[0] }}", sum: "{{ pick.sum }}", last: "{{ start.rows[1199].id }}"}}}
    """
    sevenths = range(0, 1200, 7)
    expected = {"s": sum(sevenths), "n": len(sevenths)}
    assert result(body) == {"row": expected, "sum": sum(range(1200)) / 4, "last": 1199}


def test_a_long_text_of_a_step_is_put_as_the_bytes_that_it_is_base64_of(result: Result) -> None:
    body = """
    workflow:
      - step: start
        tool: {kind: python, code: "import base64; result = {'text': base64.b64encode(bytes(range(256)) * 2000).decode()}"}
        next: {arcs: [{step: keep, when: "{{ start._store == 'disk' }}"}]}
      - step: keep
        tool: {kind: artifact, action: put, key: a.bin, data: "{{ start.text }}", encoding: base64}
        next: end
      - {step: end, tool: {kind: noop, input: {sha256: "{{ keep.sha256 }}"}}}
    """
    assert result(body) == {"sha256": hashlib.sha256(bytes(range(256)) * 2000).hexdigest()}


def test_a_report_reads_no_more_of_a_long_table_than_tells_that_it_is_too_long(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[tuple[int, int]]()
    some_rows = tables.some_rows

    def watched(cursor: Any, file: str, start: int, end: int) -> Any:
        asked.append((start, end))
        return some_rows(cursor, file, start, end)

    monkeypatch.setattr(tables, "some_rows", watched)
    report = run(
        """
    workflow:
      - step: start
        tool: {kind: duckdb, command: "SELECT i AS number, repeat('p', 200) AS padding FROM range(100000) t(i)"}
    """
    )
    rows = report["result"]["rows"]
    assert (rows["kind"], rows["meta"]["rows"]) == ("result_ref", 100_000)
    # Its file, which is compressed, is smaller than what a report shows; as text it is not.
    assert rows["meta"]["bytes"] < SHOWN_BYTES
    assert [(start, end) for start, end in asked if end > tables.BLOCK_ROWS] == [(0, tables.GROUP_ROWS)]


def test_sql_errors_name_the_line_in_the_playbook(error: Run) -> None:
    body = """
    workflow:
      - step: start
        tool:
          name: ask
          kind: duckdb
          command: |
            SELECT 1;

            SELECT missing FROM nowhere
    """
    found = error(body)
    assert (found["kind"], found["task"], found["line"]) == ("sql", "ask", 13)
    assert "nowhere" in found["message"]


# --- postgres ------------------------------------------------------------------------------------


@pytest.mark.postgres
def test_postgres_runs_what_people_write(run: Run, warehouse: str) -> None:
    body = """
    workload: {auth: warehouse, doc: {title: "it's", n: 1.5}, rows: [{id: 1, name: "a"}, {id: 2, name: "o'b"}]}
    workflow:
      - step: create
        tool:
          kind: postgres
          auth: "{{ auth }}"
          command: |
            -- the table; it's new
            CREATE TABLE IF NOT EXISTS runs (
              execution_id BIGINT, id INT, name TEXT, doc JSONB, price NUMERIC(10, 2), at TIMESTAMPTZ,
              PRIMARY KEY (execution_id, id)
            );
            DO $$
            BEGIN
              IF 1 = 1 THEN PERFORM 1; END IF; -- nothing; here
            END
            $$;
            INSERT INTO runs VALUES ({{ execution_id }}, 0, 'zero', '{{ doc | tojson | replace("'", "''") }}'::jsonb, 12.50, '2026-01-02 03:04:05+00')
            ON CONFLICT (execution_id, id) DO NOTHING
        next: fill
      - step: fill
        loop: {in: "{{ rows }}", iterator: row}
        tool:
          kind: postgres
          auth: warehouse
          params: {run: "{{ execution_id }}", id: "{{ iter.row.id }}", name: "{{ row.name }}", doc: "{{ doc }}"}
          command: INSERT INTO runs (execution_id, id, name, doc) VALUES (:run, :id, :name, :doc)
        next: read
      - step: read
        tool:
          kind: postgres
          auth: warehouse
          command: |
            SELECT count(*) AS n FROM runs WHERE execution_id = {{ job.uuid }} AND name LIKE '%o%';
            SELECT id, name, doc, price, at FROM runs ORDER BY id;
        next: vacuum
      - {step: vacuum, tool: {kind: postgres, auth: warehouse, command: VACUUM runs}, next: end}
      - step: end
        tool:
          kind: noop
          input: {n: "{{ read.command_0.rows[0].n }}", first: "{{ read.rows[0] }}", names: "{{ read.rows | map(attribute='name') | list }}",
                  title: "{{ read.rows[2].doc.title }}", count: "{{ read.row_count }}", price: "{{ read.rows[0].price * 2 }}"}
    """
    report = run(body)
    assert report["status"] == "completed", report["error"]
    found = report["result"]
    assert found["n"] == 2
    assert found["first"]["price"] == 12.5
    assert found["first"]["doc"] == {"title": "it's", "n": 1.5}
    assert found["first"]["at"].startswith("2026-01-02T03:04:05")
    assert found["names"] == ["zero", "a", "o'b"]
    assert (found["title"], found["count"], found["price"]) == ("it's", 3, 25.0)


@pytest.mark.postgres
def test_postgres_tables_of_1200_rows_and_long_texts(result: Result, warehouse: str) -> None:
    body = """
    workflow:
      - step: start
        tool: {kind: postgres, auth: warehouse, command: "SELECT i AS id, repeat('x', 500) AS pad FROM generate_series(0, 1199) i"}
        next: long
      - {step: long, tool: {kind: postgres, auth: warehouse, command: "SELECT repeat('é', 900000) AS text"}, next: end}
      - step: end
        tool: {kind: python, input: {rows: "{{ start.rows }}", text: "{{ long.rows[0].text }}", id: "{{ start.rows[3].id }}"},
               code: "result = [len(rows), sum(r['id'] for r in rows), len(text), id]"}
    """
    assert result(body) == [1200, sum(range(1200)), 900_000, 3]


@pytest.mark.postgres
def test_a_loop_over_rows_writes_back(run: Run, warehouse: str) -> None:
    body = """
    workflow:
      - step: start
        tool: {kind: postgres, auth: warehouse, command: "CREATE TABLE done (id INT); SELECT i AS id FROM generate_series(1, 6) i"}
        next: each
      - step: each
        loop: {in: "{{ start.rows }}", iterator: row, spec: {mode: parallel, max_in_flight: 3}}
        tool:
          - {name: compute, kind: python, input: {id: "{{ row.id }}"}, code: "result = id * id"}
          - {name: write, kind: postgres, auth: warehouse, params: ["{{ compute }}"], command: INSERT INTO done VALUES ($1)}
        next: end
      - {step: end, tool: {kind: postgres, auth: warehouse, command: SELECT sum(id) AS s FROM done}}
    """
    report = run(body)
    assert report["status"] == "completed", report["error"]
    assert report["result"]["rows"] == [{"s": 91}]


def test_an_unknown_credential_names_the_nearest(rt: Runtime, settings: Settings, error: Run) -> None:
    credentials.save(rt, "billing", "postgres", {"host": "nowhere"})
    body = """
    workflow:
      - {step: start, tool: {kind: postgres, auth: "{{ 'biling' }}", command: SELECT 1}}
    """
    found = error(body)
    assert found["kind"] == "auth"
    assert "'biling'" in found["message"]
    assert "'billing'" in found["message"]
    assert found["step"] == "start"
