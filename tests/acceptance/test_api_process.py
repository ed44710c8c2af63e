"""The API as it is served: gunicorn, threads, SQLite; no broker."""

from __future__ import annotations

import html
import json
import os
import re
import select
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg2
import pytest
import requests
from werkzeug.test import Client

from noetl.api.answers import Problem
from noetl.cli.services import server_argv
from noetl.config import Settings
from noetl.facts.logs import LogChunk, LogPosition
from noetl.store import open_store
from noetl.store.migrate import upgrade
from noetl.wsgi import app
from tests import services, zygote
from tests.ports import free_port
from tests.waiting import GUARD_S, until

from .stack import fork, is_healthy, kill_trees

pytestmark = pytest.mark.acceptance


#: No broker: nobody runs it.
PLAYBOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: doubling, path: acceptance/doubling}
workload: {n: 2}
workflow:
  - step: start
    tool: {kind: python, code: "result = n * 2", input: {n: "{{ n }}"}}
"""

#: Seconds that a body may take here.
BODY_S = 1.0


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    # Nobody looks at intervals here.
    return Settings(home=tmp_path_factory.mktemp("home"), body_timeout_s=BODY_S, watch_s=0.0)


@pytest.fixture
def text() -> str:
    return PLAYBOOK


@pytest.fixture(scope="module")
def url(settings: Settings) -> Iterator[str]:
    with served(settings) as address:
        yield address


@contextmanager
def served(settings: Settings) -> Iterator[str]:
    """The address of a server of its own process."""
    upgrade(settings.database)
    settings.make_home()
    port = free_port()
    outside = {name: value for name, value in os.environ.items() if not name.startswith("NOETL_")}
    log = Path(settings.home, "server.log")
    argv = ["gunicorn", *server_argv("127.0.0.1", port), "--graceful-timeout", "1"]
    server = fork(argv, log, {**outside, **settings.as_environ()})

    def answers() -> bool:
        assert server.poll() is None, log.read_text()
        return is_healthy(f"http://127.0.0.1:{port}")

    try:
        until(answers, lambda: f"the server to answer:\n{log.read_text()}")
        yield f"http://127.0.0.1:{port}"
    finally:
        kill_trees([server.pid])
        server.wait()


def test_health_is_ok_and_the_page_is_served(url: str) -> None:
    assert requests.get(f"{url}/api/health", timeout=GUARD_S).json()["status"] == "ok"
    page = requests.get(url, timeout=GUARD_S)
    assert page.headers["Content-Type"].startswith("text/html")
    assert "NoETL" in page.text


def test_what_a_proxy_forwards_needs_a_token_and_neighbours_need_none(url: str) -> None:
    here, forwarded = f"{url}/api/executions", {"X-Forwarded-For": "203.0.113.7"}
    assert requests.get(here).status_code == 200
    refused = requests.get(here, headers=forwarded)
    assert refused.status_code == 401
    assert refused.headers["WWW-Authenticate"].startswith("Bearer")
    body = {"principal": "ci", "scopes": ["read:acceptance/*"]}
    text = requests.post(f"{url}/api/tokens", json=body).json()["token"]
    asked = requests.get(here, headers={**forwarded, "Authorization": f"Bearer {text}"})
    assert asked.status_code == 200
    assert requests.get(here, headers=forwarded, auth=("anybody", text)).status_code == 200
    assert requests.post(here, json={}, headers=forwarded, auth=("anybody", text)).status_code == 401
    assert requests.get(here, params={"token": text}).status_code == 401
    assert requests.get(f"{url}/api/health", headers=forwarded).status_code == 200


def test_a_set_up_that_cannot_work_is_reported_to_every_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_PORT", "eighty")
    answer = Client(app).get("/api/health")
    assert answer.status_code == 503
    assert "NOETL_PORT='eighty'" in answer.json["detail"]


def test_what_was_acknowledged_is_in_the_log(url: str, settings: Settings, text: str) -> None:
    answer = requests.post(
        f"{url}/api/executions", json={"playbook": text, "payload": {"n": 9}}, timeout=GUARD_S
    )
    assert answer.status_code == 202

    store = open_store(settings.database)
    with store.read() as tx:
        (event,) = tx.events.read(answer.json()["execution_id"])
    store.close()
    assert event.fact.type == "playbook.execution.requested"


HEAD = "Host: 127.0.0.1\r\nConnection: close\r\n"
POST = f"POST /api/context/render HTTP/1.1\r\n{HEAD}Content-Type: application/json\r\n"

#: What is no request, and how it is answered.
NO_REQUESTS = {
    "a path that is too long": (f"GET /api/{'a' * 9000} HTTP/1.1\r\n{HEAD}\r\n", 414),
    "a header that is too long": (f"GET /api/health HTTP/1.1\r\n{HEAD}X: {'a' * 9000}\r\n\r\n", 431),
    "too many headers": (
        f"GET / HTTP/1.1\r\n{HEAD}{''.join(f'X{n}: 1{chr(13)}{chr(10)}' for n in range(200))}\r\n",
        431,
    ),
    "a name of a header with a space": (f"GET /api/health HTTP/1.1\r\n{HEAD}X Y: 1\r\n\r\n", 400),
    "no line of a request": ("NONSENSE\r\n\r\n", 400),
    "a version of the future": (f"GET /api/health HTTP/9.1\r\n{HEAD}\r\n", 400),
    "a negative length": (f"{POST}Content-Length: -1\r\n\r\n", 400),
    "two lengths": (f"{POST}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "a coding that nobody knows": (f"{POST}Transfer-Encoding: foo\r\n\r\n", 501),
    "a chunk that is none": (f"{POST}Transfer-Encoding: chunked\r\n\r\nzz\r\n\r\n", 400),
}


def test_anything_but_a_request_is_answered_with_a_problem(url: str, subtests: pytest.Subtests) -> None:
    for name, (text, status) in NO_REQUESTS.items():
        with subtests.test(name):
            head, _, body = exchange(url, text).partition("\r\n\r\n")
            assert head.startswith(f"HTTP/1.1 {status} ")
            assert "Content-Type: application/problem+json" in head, head
            said = json.loads(body)
            assert Problem.model_validate(said).status == status
            assert said["detail"].endswith(".")


def exchange(url: str, text: str) -> str:
    """What the server answers to bytes on its port, until it closes the connection."""
    with socket.create_connection(
        (urlsplit(url).hostname, urlsplit(url).port), timeout=GUARD_S
    ) as connection:
        connection.sendall(text.encode())
        return b"".join(iter(lambda: connection.recv(65536), b"")).decode()


def test_many_at_once_under_one_key_are_one_execution(url: str, text: str) -> None:
    body = {"playbook": text, "payload": {"n": 1}}
    ids: list[str] = []

    def ask() -> None:
        answer = requests.post(
            f"{url}/api/executions", json=body, headers={"Idempotency-Key": "once"}, timeout=GUARD_S
        )
        ids.append(answer.json().get("execution_id", answer.text))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ids) == 8
    assert len(set(ids)) == 1


def test_a_credential_outlives_its_request_encrypted(url: str, settings: Settings) -> None:
    body = {"name": "pg", "type": "generic", "data": {"token": "s3cret-value"}}
    assert requests.post(f"{url}/api/credentials", json=body, timeout=GUARD_S).status_code == 201
    files = [path.read_bytes() for path in settings.home.rglob("*") if path.is_file()]
    assert not any(b"s3cret-value" in content for content in files)
    assert oct((settings.home / "secret.key").stat().st_mode & 0o777) == "0o600"


def test_a_stream_learns_of_a_cancellation_while_it_is_open(url: str, text: str) -> None:
    started = requests.post(f"{url}/api/executions", json={"playbook": text}, timeout=GUARD_S).json()
    where = url + started["links"]["self"]
    with _stream(f"{where}/events") as lines:
        first = next(line for line in lines if line.startswith("event: "))
        requests.post(f"{where}/cancel", timeout=GUARD_S).raise_for_status()
        second = next(line for line in lines if line.startswith("event: "))
    assert (first, second) == ("event: playbook.execution.requested", "event: playbook.cancel.requested")


def test_a_stream_learns_at_once(url: str, text: str) -> None:
    """Of what another request commits, on SQLite, where nobody is notified."""
    started = requests.post(f"{url}/api/executions", json={"playbook": text}, timeout=GUARD_S).json()
    where = url + started["links"]["self"]
    with _stream(f"{where}/events") as lines:
        for number in range(4):
            requests.patch(f"{where}/ctx", json={"n": number}, timeout=GUARD_S).raise_for_status()
            _await_line(lines, '"ctx.patched"', is_first=number == 0)


def test_a_log_stream_learns_at_once(url: str, settings: Settings, text: str) -> None:
    """Of what another process writes, on SQLite."""
    check_log_stream(url, settings, text)


@pytest.fixture(scope="module")
def on_postgres(
    tmp_path_factory: pytest.TempPathFactory, postgres_databases: services.Databases
) -> Iterator[tuple[str, Settings]]:
    """A server on PostgreSQL, and its settings."""
    database = postgres_databases.borrow()
    here = Settings(home=tmp_path_factory.mktemp("postgres"), database_url=database, watch_s=0.0)
    with served(here) as address:
        yield address, here
    postgres_databases.give_back(database)


@pytest.mark.postgres
def test_a_log_stream_learns_at_once_on_postgresql(on_postgres: tuple[str, Settings], text: str) -> None:
    check_log_stream(*on_postgres, text)


def check_log_stream(url: str, settings: Settings, text: str) -> None:
    """No event of the execution says that something was printed, and nobody looks at intervals. A
    client is answered before anything is printed."""
    started = requests.post(f"{url}/api/executions", json={"playbook": text}, timeout=GUARD_S).json()
    place = LogPosition(started["execution_id"], "s", "s#1", None, "t", 1, 1)
    store = open_store(settings.database)
    with _stream(f"{url}{started['links']['self']}/logs") as lines:
        for number in range(4):
            with store.begin_async_commit() as tx:
                tx.executions.lock(place.execution_id)
                chunk = LogChunk(place, "stdout", 0, f"line {number}", datetime.now(UTC))
                tx.logs.add(place.execution_id, [chunk])
            _await_line(lines, f'"line {number}"', is_first=number == 0)
    store.close()


@contextmanager
def _stream(url: str) -> Iterator[Iterator[str]]:
    """The lines of a stream as they come."""
    headers = {"Accept": "text/event-stream"}
    with requests.get(url, headers=headers, stream=True, timeout=GUARD_S) as answer:
        yield answer.iter_lines(chunk_size=1, decode_unicode=True)


def _await_line(lines: Iterator[str], words: str, *, is_first: bool = False) -> None:
    """Reads up to a line with these words. Fails where the stream is silent for so long that it
    sends a comment, and looks again of its own accord."""
    for line in lines:
        if words in line:
            return
        assert is_first or not line.startswith(":"), f"{words} came with the next look only"
    raise AssertionError(f"the stream ended without {words}")


@pytest.mark.postgres
@pytest.mark.full("streams outlive a restart of PostgreSQL in a stack, too")
def test_an_idle_stream_outlives_a_restart_of_the_database(
    on_postgres: tuple[str, Settings], text: str
) -> None:
    """As far as the server sees one: all its connections end at once."""
    url, settings = on_postgres
    started = requests.post(f"{url}/api/executions", json={"playbook": text}, timeout=GUARD_S).json()
    with _stream(url + started["links"]["events"]) as lines:
        assert next(line for line in lines if line.startswith("id: ")) == "id: 1"
        _end_all_connections(settings.database)
        _patch_until_taken(url + started["links"]["self"] + "/ctx")
        assert any('"ctx.patched"' in line for line in iter(lambda: next(lines), ": "))


def _end_all_connections(url: str) -> None:
    connection = psycopg2.connect(url)
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    connection.close()


def _patch_until_taken(where: str) -> None:
    """Whoever meets a connection that has ended is told so, and asks again."""
    until(
        lambda: requests.patch(where, json={"n": 1}, timeout=GUARD_S).status_code != 503,
        "the database to be had again",
    )


@pytest.mark.parametrize("execution_id", ["abc", "1", str(2**63), "9" * 100])
def test_no_id_troubles_the_database(url: str, execution_id: str) -> None:
    where = f"{url}/api/executions/{execution_id}"
    for answer in (
        requests.get(where, timeout=GUARD_S),
        requests.get(f"{where}/events", timeout=GUARD_S),
        requests.post(f"{where}/cancel", timeout=GUARD_S),
        requests.patch(f"{where}/ctx", json={"a": 1}, timeout=GUARD_S),
    ):
        assert answer.status_code == 404, answer.text
    page = requests.get(f"{url}/api/executions?before={execution_id}", timeout=GUARD_S)
    assert page.status_code == (200 if execution_id == "1" else 400)


@pytest.mark.parametrize(
    ("send", "status"),
    [
        ({"data": b" " * 10_000_000, "headers": {"Content-Type": "application/json"}}, 413),
        ({"data": iter([b" " * 100_000] * 100), "headers": {"Content-Type": "application/json"}}, 413),
        ({"data": iter([b"[" * 100_000] * 5), "headers": {"Content-Type": "application/json"}}, 400),
        ({"data": {"path": "x"}}, 415),
        ({"json": {"path": "x"}, "headers": {"Host": "evil.example"}}, 403),
        ({"json": {"path": "x"}, "headers": {"Origin": "https://evil.example"}}, 403),
        ({"json": {"path": "x\0y"}}, 400),
        ({"json": {"path": "x" * 600}}, 400),
    ],
    ids=["large", "large-chunked", "deep-chunked", "form", "host", "origin", "nul", "long"],
)
def test_bad_input_is_answered_by_the_real_server(url: str, send: dict[str, Any], status: int) -> None:
    answer = requests.post(f"{url}/api/executions", timeout=GUARD_S, **send)
    assert answer.status_code == status, answer.text
    assert requests.get(f"{url}/api/health", timeout=GUARD_S).json()["status"] == "ok"


def test_a_document_of_unknown_length_is_not_cut_off_in_silence(url: str, text: str) -> None:
    parts = iter([text.encode(), *[b"# comment\n" * 10_000] * 20])
    headers = {"Content-Type": "application/yaml"}
    assert (
        requests.post(f"{url}/api/catalog", data=parts, headers=headers, timeout=GUARD_S).status_code == 413
    )


def _connection(url: str) -> socket.socket:
    parts = urlsplit(url)
    return socket.create_connection((parts.hostname or "", parts.port or 0), timeout=GUARD_S)


def _everything(client: socket.socket) -> str:
    """What the server says until it closes the connection."""
    said = b""
    while part := client.recv(4096):
        said += part
    return said.decode()


HEAD = b"Host: localhost\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize(
    "begun",
    [
        b"POST /api/executions HTTP/1.1\r\n" + HEAD + b"Content-Length: 50\r\n\r\n" + b'{"pa',
        b"POST /api/executions HTTP/1.1\r\n" + HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b'5\r\n{"pa',
        b"POST /api/catalog HTTP/1.1\r\n" + HEAD + b"Content-Length: 50\r\n\r\n",
    ],
    ids=["length", "chunked", "nothing"],
)
def test_a_body_that_does_not_come_is_given_up(url: str, begun: bytes) -> None:
    answer = _give_up(url, begun)
    assert answer.startswith("HTTP/1.1 408 ")
    assert "Content-Type: application/problem+json" in answer
    assert f"The body did not arrive within {BODY_S:g} s" in answer


def _give_up(url: str, begun: bytes) -> str:
    """What is answered to the beginning of a request, behind which nothing comes."""
    with _connection(url) as client:
        client.sendall(begun)
        return _everything(client)


def test_a_byte_now_and_then_buys_no_time_and_takes_no_thread_for_long(url: str) -> None:
    """Whoever asks while all threads are taken waits for the deadline of the others, and no
    longer."""
    clients = [_connection(url) for _ in range(8)]
    for client in clients:
        client.sendall(b"POST /api/executions HTTP/1.1\r\n" + HEAD + b"Content-Length: 100000\r\n\r\n")

    def are_given_up() -> bool:
        waiting = [client for client in clients if not _has_answer(client)]
        for client in waiting:
            with suppress(ConnectionError):  # it is given up at this moment
                client.sendall(b" ")
        return not waiting

    with ThreadPoolExecutor(1) as beside:
        asked = beside.submit(requests.get, f"{url}/api/health", timeout=GUARD_S)
        until(are_given_up, "all to be given up")
        assert asked.result(GUARD_S).json()["status"] == "ok"
    for client in clients:
        assert _everything(client).startswith("HTTP/1.1 408 ")
        client.close()


def _has_answer(client: socket.socket) -> bool:
    return bool(select.select([client], [], [], 0)[0])


def test_a_body_that_nobody_reads_is_not_waited_for_either(url: str) -> None:
    begun = b"POST /api/nothing HTTP/1.1\r\n" + HEAD + b"Content-Length: 50\r\n\r\n" + b'{"pa'
    assert _give_up(url, begun).startswith("HTTP/1.1 404 ")


def test_a_connection_is_kept_after_a_body_that_came_in_time(url: str) -> None:
    """Its deadline passes meanwhile: that of another one, which began later, has."""
    with requests.Session() as session:
        for is_over in (False, True):
            if is_over:
                late = b"POST /api/catalog HTTP/1.1\r\n" + HEAD + b"Content-Length: 50\r\n\r\n"
                assert _give_up(url, late).startswith("HTTP/1.1 408 ")
            answer = session.post(
                f"{url}/api/context/render", json={"template": "{{ 6 * 7 }}"}, timeout=GUARD_S
            )
            assert answer.json()["result"] == 42


def test_sql_that_cannot_be_parsed_is_answered_where_it_is_registered_and_kept(url: str) -> None:
    def playbook(kind: str) -> str:
        return (
            f"apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: {kind}, path: "
            f"sql/{kind}}}\nworkflow:\n"
            f"- {{step: start, tool: {{kind: {kind}, "
            f"{'auth: db, ' if kind == 'postgres' else ''}command: SELEC 1}}}}\n"
            "provides: {credentials: [db]}\n"
        )

    for kind in ("postgres", "duckdb", "sqlite"):
        answer = requests.post(f"{url}/api/catalog", json={"content": playbook(kind)}, timeout=GUARD_S)
        assert answer.status_code == 201, answer.text
        (warning,) = answer.json()["warnings"]
        assert (warning["code"], warning["line"]) == ("NOETL466", 5)
        kept = requests.get(f"{url}/api/catalog/sql/{kind}", timeout=GUARD_S).json()["warnings"]
        started = requests.post(f"{url}/api/executions", json={"path": f"sql/{kind}"}, timeout=GUARD_S)
        assert (started.status_code, started.json()["warnings"], kept) == (202, [warning], [warning])
        refused = requests.post(
            f"{url}/api/catalog", json={"content": playbook(kind), "strict": True}, timeout=GUARD_S
        )
        assert refused.status_code == 422


#: A playbook with markup in each text that a page may show.
MARKED = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: marked, path: tests/marked}
workload: {items: ["<script>item</script>", 2]}
"<script>key": 1
workflow:
  - step: "<script>step"
    tool: {kind: noop, input: {x: "{{ workload.items.nobody['<script>template'] }}"}}
    next: loops
  - step: loops
    loop: {in: "{{ workload.items }}", iterator: i, spec: {policy: {failure: {mode: best_effort}}}}
    tool: {kind: python, input: {i: "{{ iter.i }}"}, code: "if i != 2: raise ValueError('<script>error')"}
    next: passes
  - step: passes
    tool: {kind: python, code: "raise ValueError('<b>passed')", spec: {policy: {rules: [{else: {do: continue}}]}}}
"""


def test_pages_show_warnings_and_errors_passed_over_as_text(
    url: str, settings: Settings, tmp_path: Path
) -> None:
    file = tmp_path / "marked.yaml"
    file.write_text(MARKED)
    command = ["noetl", "run", str(file), "--json"]
    env = {**os.environ, **settings.as_environ()}
    ended = zygote.run(command, env=env, capture_output=True, text=True, timeout=GUARD_S, check=True)
    execution_id = json.loads(ended.stdout)["execution_id"]

    (listed,) = (
        one
        for one in requests.get(f"{url}/api/executions", timeout=GUARD_S).json()["executions"]
        if one["execution_id"] == execution_id
    )
    assert (listed["errors_passed_over"], listed["warnings_count"]) == (2, 1)
    index = requests.get(url, timeout=GUARD_S).text
    assert all(text in index for text in ("2 ignored errors", "1 warning"))

    answer = requests.get(f"{url}/executions/{execution_id}", timeout=GUARD_S)
    page = " ".join(html.unescape(re.sub(r"<[^>]*>", "", answer.text)).split())
    assert answer.headers["Content-Type"].startswith("text/html")
    assert "script-src 'nonce-" in answer.headers["Content-Security-Policy"]
    assert answer.text.count("<script") == answer.text.count('<script nonce="')
    assert "<b>" not in answer.text
    for text in (
        *("2 ignored errors", "1 of 2, 1 failed: <script>error", "1 ignored error: <b>passed"),
        *("NOETL250", "'<script>key'"),
        *("{{ workload.items.nobody['<script>template'] }}", "became null", "marked.yaml:8 <script>step"),
    ):
        assert text in page, text
    drawer = requests.get(f"{url}/executions/{execution_id}?step=loops", timeout=GUARD_S).text
    assert "<b>" not in drawer
    text = " ".join(html.unescape(re.sub(r"<[^>]*>", "", drawer)).split())
    assert "iteration 0, item <script>item</script>: <script>error" in text
    missing = requests.get(f"{url}/executions/17", timeout=GUARD_S)
    assert (missing.status_code, "There is no execution &#39;17&#39;." in missing.text) == (404, True)
