"""`cache` of tasks and `noetl cache`, as somebody at a terminal meets them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]

BOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: kept, path: tests/kept}
workload: {n: 1}
workflow:
  - step: start
    tool:
      kind: python
      effects: none
      cache: 1h
      input: {n: "{{ workload.n }}", file: "{{ workload.file }}"}
      code: |
        with open(file, "a") as log:
            log.write("called\\n")
        result = n + 1
"""


@pytest.fixture
def run(cli: Cli, tmp_path: Path) -> Callable[..., Any]:
    """Runs the playbook, and says what it came to and how often its code ran so far."""
    book, log = tmp_path / "kept.yaml", tmp_path / "log"
    book.write_text(BOOK)
    log.touch()

    def run(*more: str) -> tuple[Any, int]:
        ended = cli("run", str(book), "--json", "--set", f"+file={log}", *more)
        assert ended.code == 0, ended.err
        return json.loads(ended.out), len(log.read_text().splitlines())

    return run


def test_the_last_line_of_a_step_says_what_was_reused(
    cli: Cli, run: Callable[..., Any], tmp_path: Path
) -> None:
    run()
    again = cli("run", str(tmp_path / "kept.yaml"), "--set", f"+file={tmp_path / 'log'}")
    assert "start: done, 1 reused, in " in again.err


def test_the_second_run_takes_what_the_first_came_to(cli: Cli, run: Callable[..., Any]) -> None:
    (first, _), (second, calls) = run(), run()
    assert (first["result"], second["result"], calls) == (2, 2, 1)
    assert second["steps"]["start"]["reused"] == 1
    assert run("--set", "n=2")[1] == 2
    told = cli("execution", "explain", second["execution_id"], "start")
    assert f"from the cache: what task task_0 of run start#1 of execution {first['execution_id']}" in told.out


def test_what_is_kept_is_listed_and_cleared_away(cli: Cli, run: Callable[..., Any]) -> None:
    first, _ = run()
    listed = cli("cache", "list")
    assert f"start#1/task_0\t{first['execution_id']}\t1" in listed.out.replace("  ", "\t").replace(
        "\t\t", "\t"
    )
    (one,) = json.loads(cli("cache", "list", "--json").out)
    assert one["path"] == "tests/kept"
    refused = cli("cache", "clear")
    assert refused.code == 2
    assert "Say what to clear" in refused.err
    assert cli("cache", "clear", "--key", one["key"]).out == "1 result was cleared away.\n"
    assert cli("cache", "clear", "--all").out == "0 results were cleared away.\n"
    assert run()[1] == 2
