"""Bad inputs that name files, where roots hold: what others than this machine's user start."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from noetl.config import Settings

Run = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return Settings(home=tmp_path_factory.mktemp("home"), files="roots")


@pytest.mark.parametrize(
    "command",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "ATTACH '/tmp/other.duckdb'",
        "INSTALL httpfs",
        "COPY (SELECT 1) TO '/tmp/noetl-test-written.csv'",
        "SET enable_external_access = true",
    ],
)
def test_duckdb_reaches_nothing_that_is_not_named(error: Run, command: str) -> None:
    found = error(
        f"workflow: [{{step: start, tool: {{name: ask, kind: duckdb, command: {json.dumps(command)}}}}}]"
    )
    assert (found["step"], found["task"]) == ("start", "ask")
    assert found["kind"] in ("sql", "client_error", "limit")
