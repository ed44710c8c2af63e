"""What goes wrong in a call of any tool: one clear outcome, of the right kind, retryable where
another attempt may help."""

from __future__ import annotations

import contextlib
import re
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from sqlalchemy import make_url

from noetl import bootstrap
from noetl.config import Settings
from noetl.usecases import credentials
from noetl.usecases.runtime import Runtime
from tests import httpd

Seen = Callable[..., dict[str, Any]]

#: At this port of this machine nobody listens.
NOBODY = "127.0.0.1:1"
DEAD = f"postgresql://ann@{NOBODY}/db"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("faults")
    (folder / "garbage.bin").write_bytes(b"garbage" * 1000)
    with contextlib.closing(sqlite3.connect(folder / "a.db")) as made:
        made.execute("create table t (n int)")
    return folder


@pytest.fixture(scope="module")
def rt(home: Path) -> Iterator[Runtime]:
    settings = Settings(home=home / "home")
    with bootstrap.local(settings, base_dir=home) as opened:
        credentials.save(opened, "warehouse", "postgres", {"dsn": DEAD})
        yield opened


@pytest.fixture(scope="module")
def web() -> Iterator[httpd.Server]:
    server = httpd.started()
    server.routes["/broken"] = lambda one: one.answer(b'{"a": x', content_type="application/json")
    server.routes["/login"] = lambda one: one.json({"detail": "no"}, status=401)
    server.routes["/busy"] = lambda one: one.json({"detail": "later"}, status=503)
    yield server
    httpd.stopped(server)


@pytest.fixture
def seen(rt: Runtime, run_in: Callable[[Runtime], Callable[..., dict[str, Any]]], web: httpd.Server) -> Seen:
    """The error that policies see of one task, and what the execution says of it where they let it
    pass."""

    def of(task: dict[str, Any]) -> dict[str, Any]:
        rule = {"when": "{{ error }}", "then": {"do": "continue", "set_ctx": {"seen": "{{ outcome.error }}"}}}
        given = yaml.safe_load(yaml.safe_dump(task).replace("WEB", web.url))
        spec = {**given.pop("spec", {}), "policy": {"rules": [rule]}}
        body = {"workflow": [{"step": "start", "tool": [{"one": {**given, "spec": spec}}]}]}
        report = run_in(rt)(yaml.safe_dump(body, sort_keys=False, width=10_000))
        assert report["status"] == "completed", report["error"]
        found: dict[str, Any] = report["ctx"]["seen"]
        return found

    return of


LATE = {"timeout": 0.5}
CSV = {"kind": "file", "file": "nowhere.csv"}
LITE = {"kind": "sqlite", "database": "made.db", "table": "t", "create": True}

#: What is called → its kind, whether another attempt may help, and what the message names.
FAULTS: dict[str, tuple[dict[str, Any], str, bool, str]] = {
    "postgres, nobody there": (
        {"kind": "postgres", "dsn": DEAD, "command": "select 1"},
        "connection",
        True,
        "refused",
    ),
    "postgres, unknown alias": (
        {"kind": "postgres", "auth": "{{ 'warehose' }}", "command": "select 1"},
        "auth",
        False,
        "Did you mean 'warehouse'",
    ),
    "duckdb, syntax": (
        {"kind": "duckdb", "command": "select 1;\nselec 2"},
        "sql",
        False,
        "Statement 2 of 2 failed at line 2",
    ),
    "duckdb, missing file": (
        {"kind": "duckdb", "files": "~/nowhere.csv", "command": "from '~/nowhere.csv'"},
        "sql",
        False,
        "nowhere.csv",
    ),
    "duckdb, missing database": (
        {"kind": "duckdb", "database": "nowhere.duckdb", "read_only": True, "command": "select 1"},
        "sql",
        False,
        "nowhere.duckdb cannot be opened",
    ),
    "duckdb, no database": (
        {"kind": "duckdb", "database": "garbage.bin", "command": "select 1"},
        "sql",
        False,
        "garbage.bin cannot be opened",
    ),
    "sqlite, syntax": (
        {"kind": "sqlite", "database": "a.db", "command": "select 1;\nselec 2"},
        "sql",
        False,
        "Statement 2 of 2 failed at line 2",
    ),
    "sqlite, missing database": (
        {"kind": "sqlite", "database": "nowhere.db", "read_only": True, "command": "select 1"},
        "client_error",
        False,
        "nowhere.db does not exist",
    ),
    "duckdb, a file in no directory": (
        {"kind": "duckdb", "command": "copy (select 1 as a) to 'out/x.csv'"},
        "sql",
        False,
        "/out: make it before, as with `mkdir -p` in a shell task",
    ),
    "duckdb, a database in no directory": (
        {"kind": "duckdb", "database": "out/a.duckdb", "command": "select 1"},
        "sql",
        False,
        "/out: make it before, as with `mkdir -p` in a shell task",
    ),
    "sqlite, a database in no directory": (
        {"kind": "sqlite", "database": "out/a.db", "command": "select 1"},
        "sql",
        False,
        "/out: make it before, as with `mkdir -p` in a shell task",
    ),
    "sqlite, no database": (
        {"kind": "sqlite", "database": "garbage.bin", "command": "select 1"},
        "sql",
        False,
        "garbage.bin cannot be opened",
    ),
    "http, nobody there": (
        {"kind": "http", "url": f"http://{NOBODY}/x"},
        "connection",
        True,
        f"http://{NOBODY}/x",
    ),
    "http, no such host": (
        {"kind": "http", "url": "http://nowhere.invalid/x"},
        "connection",
        True,
        "nowhere.invalid",
    ),
    "http, wrong credentials": ({"kind": "http", "url": "WEB/login"}, "auth", False, "401"),
    "http, unknown alias": (
        {"kind": "http", "url": "WEB/login", "auth": "{{ 'wharehouse' }}"},
        "auth",
        False,
        "Did you mean",
    ),
    "http, broken JSON": ({"kind": "http", "url": "WEB/broken"}, "server_error", False, "line 1 column 7"),
    "http, busy": ({"kind": "http", "url": "WEB/busy"}, "server_error", True, "503"),
    "python, raises": (
        {"kind": "python", "code": "x = 1\nraise ValueError('not today')"},
        "python",
        False,
        "not today",
    ),
    "python, no JSON": ({"kind": "python", "code": "result = object()"}, "python", False, "of type object"),
    "python, too much memory": (
        {"kind": "python", "code": "bytearray(80_000_000_000)"},
        "limit",
        False,
        "memory_mb",
    ),
    "python, too late": (
        {"kind": "python", "code": "import time\ntime.sleep(600)", "spec": LATE},
        "timeout",
        True,
        "0.5s (spec.timeout)",
    ),
    "python, killed": (
        {"kind": "python", "code": "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"},
        "python",
        True,
        "SIGKILL",
    ),
    "python, exits": ({"kind": "python", "code": "import sys\nsys.exit(3)"}, "python", False, "exit(3)"),
    "python, missing script": (
        {"kind": "python", "script": "nowhere.py"},
        "client_error",
        False,
        "no such file",
    ),
    "shell, exit code": (
        {"kind": "shell", "command": "echo why >&2; exit 3"},
        "shell",
        False,
        "exit status 3: why",
    ),
    "shell, killed": ({"kind": "shell", "command": "kill -9 $$"}, "shell", True, "137 (SIGKILL)"),
    "shell, missing program": (
        {"kind": "shell", "command": "nosuchprogram"},
        "shell",
        False,
        "nosuchprogram",
    ),
    "shell, too late": ({"kind": "shell", "command": "sleep 600", "spec": LATE}, "timeout", True, "0.5s"),
    "artifact, missing": (
        {"kind": "artifact", "action": "get", "key": "nowhere.csv"},
        "client_error",
        False,
        "no artifact 'nowhere.csv'",
    ),
    "artifact, missing file": (
        {"kind": "artifact", "action": "put", "key": "a.csv", "file": "nowhere.csv"},
        "client_error",
        False,
        "no file 'nowhere.csv'",
    ),
    "message, nobody there": (
        {"kind": "message", "url": f"redis://{NOBODY}/0", "queue": "q", "body": {"a": 1}},
        "connection",
        True,
        f"{NOBODY} cannot be reached",
    ),
    "transfer, missing file": (
        {"kind": "transfer", "source": CSV, "target": LITE},
        "client_error",
        False,
        "nowhere.csv",
    ),
    "transfer, missing table": (
        {
            "kind": "transfer",
            "source": {"kind": "sqlite", "database": "a.db", "table": "nowhere"},
            "target": CSV,
        },
        "sql",
        False,
        "nowhere",
    ),
    "transfer, nobody there": (
        {
            "kind": "transfer",
            "source": {"kind": "postgres", "auth": "warehouse", "table": "t"},
            "target": CSV,
        },
        "connection",
        True,
        "refused",
    ),
    "playbook, unknown path": (
        {"kind": "playbook", "path": "{{ 'tests/nowhere' }}"},
        "client_error",
        False,
        "tests/nowhere",
    ),
    "secrets, unknown provider": (
        {"kind": "secrets", "provider": "{{ 'vaullt' }}", "name": "x"},
        "client_error",
        False,
        "Did you mean 'vault'",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_one_clear_outcome(seen: Seen, name: str) -> None:
    task, kind, retryable, told = FAULTS[name]
    error = seen(task)
    assert (error["kind"], error["retryable"]) == (kind, retryable), error
    assert re.search(re.escape(told), error["message"]), error["message"]
    assert "Traceback" not in error["message"]
    assert "\n" not in error["message"]
    assert (error["step"], error["task"], error["attempt"]) == ("start", "one", 1)
    assert error["line"] > 3


@pytest.mark.postgres
def test_faults_of_a_real_postgresql(seen: Seen, postgres_url: str) -> None:
    url = make_url(postgres_url).set(drivername="postgresql")
    dsn = url.render_as_string(hide_password=False)
    stranger = url.set(username="stranger").render_as_string(hide_password=False)

    def fault(command: str, **more: Any) -> tuple[str, bool, str]:
        error = seen({"kind": "postgres", "dsn": dsn, "command": command, **more})
        return error["kind"], error["retryable"], error["message"]

    kind, retryable, message = fault("select 1", dsn=stranger)
    assert (kind, retryable, "stranger" in message) == ("auth", False, True)
    assert fault("select 1;\nselec 2")[:2] == ("sql", False)
    assert fault("select 1;\nselec 2")[2].startswith("Statement 2 of 2 failed at line 2: syntax error")
    assert fault("table nowhere") == (
        "sql",
        False,
        'The statement failed at line 1: relation "nowhere" does not exist',
    )
    assert fault("select pg_sleep(600)", spec=LATE)[:2] == ("timeout", True)


def test_a_syntax_error_of_python_is_found_before_anything_runs(rt: Runtime, run_in: Any) -> None:
    with pytest.raises(Exception, match=r"test\.yaml:\d+:\d+: error\[NOETL402\]: python: expected ':'"):
        run_in(rt)('workflow: [{step: start, tool: {kind: python, code: "if x\\n  pass"}}]')
