"""`noetl execution failures`, `retry --where` and `noetl operation`, as they are typed."""

from __future__ import annotations

import json
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.gates import Gate
from tests.waiting import until

from .conftest import Cli, read_to

Program = Callable[..., "subprocess.Popen[str]"]

ORDER = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: order, path: tests/order}
workload: {order: 1}
workflow:
  - step: start
    tool: {kind: python, input: {order: "{{ workload.order }}"}, code: "result = order"}
    next: load
  - step: load
    tool:
      kind: python
      input: {order: "{{ start }}"}
      code: |
        raise ValueError(f"order {order} is refused")
"""
REFUSES = 'raise ValueError(f"order {order} is refused")'
MENDED = ORDER.replace(REFUSES, "result = order")
FAILED = "status = 'failed' and error ~ 'refused'"
RETRY = ("execution", "retry", "--where", FAILED)


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    """Where orders of `slow.yaml` wait."""
    return Gate(tmp_path / "gate")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the three that failed were begun, and a copy of their home."""
    return tmp_path_factory.mktemp("failed")


@pytest.fixture
def failed(cli: Cli, home: Path, folder: Path, gate: Gate, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Three executions that failed, oldest first."""
    monkeypatch.chdir(folder)
    (folder / "order.yaml").write_text(ORDER)
    (folder / "mended.yaml").write_text(MENDED)
    code = (gate.python() + "result = order").replace("\n", "\n        ")
    (folder / "slow.yaml").write_text(ORDER.replace(REFUSES, code))
    if not (folder / "home").exists():
        for number in (1, 2, 3):
            assert cli("run", "order.yaml", "-q", "--set", f"order={number}").code == 1
        shutil.copytree(home, folder / "home")
    shutil.copytree(folder / "home", home, dirs_exist_ok=True)
    rows = json.loads(cli("execution", "list", "--where", FAILED, "--json").out)
    return [row["execution_id"] for row in reversed(rows)]


def test_failures_are_grouped(cli: Cli, failed: list[str]) -> None:
    (group,) = json.loads(cli("execution", "failures", "--json").out)["groups"]
    assert (group["count"], group["newest"]) == (3, list(reversed(failed)))
    shown = cli("execution", "failures", "--where", f"fingerprint = '{group['fingerprint']}'").out
    assert "order <number> is refused" in shown
    assert shown.splitlines()[1].split("\t")[0] == "3"
    assert len(cli("execution", "failures", "--where", "version > 7").out.splitlines()) == 1


def test_the_plan_of_many_changes_nothing(cli: Cli, failed: list[str]) -> None:
    planned = cli(*RETRY, "--playbook", "mended.yaml", "--dry-run")
    assert (planned.code, planned.err) == (0, "")
    assert "3 × " in planned.out
    assert "ValueError of step 'load': order <number> is refused" in planned.out
    assert "3 reuse · 3 rerun" in planned.out
    assert "3 of 3 executions can be retried" in planned.out
    as_json = json.loads(cli(*RETRY, "--dry-run", "--json").out)
    assert (as_json["executions"], as_json["groups"][0]["runs"]) == (3, {"reuse": 3, "rerun": 3})
    assert len(json.loads(cli("execution", "list", "--json").out)) == 3
    assert json.loads(cli("operation", "list", "--json").out) == []


def test_the_plan_of_many_knows_the_playbooks_beside_the_one_that_is_run(
    cli: Cli, failed: list[str], tmp_path: Path
) -> None:
    (tmp_path / "beside").mkdir()
    called = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: beside, path: tests/beside}\n"
    (tmp_path / "beside" / "beside.yaml").write_text(called + "workflow: [{step: start}]\n")
    calls = ORDER[: ORDER.index("  - step: load")] + (
        "  - step: load\n    tool: {kind: playbook, path: tests/beside}\n"
    )
    (tmp_path / "beside" / "calls.yaml").write_text(calls)
    planned = cli(*RETRY, "--playbook", str(tmp_path / "beside" / "calls.yaml"), "--dry-run")
    assert (planned.code, "3 of 3 executions can be retried" in planned.out) == (0, True), planned


def test_many_are_retried_here_as_one_operation(cli: Cli, failed: list[str]) -> None:
    ended = cli(*RETRY, "--playbook", "mended.yaml", "--concurrency", "2")
    assert (ended.code, "3 executions: 3 completed" in ended.out) == (0, True), ended.err
    (row,) = json.loads(cli("operation", "list", "--json").out)
    name = row["operation_id"]
    assert (row["status"], row["where"]) == ("completed", FAILED)
    assert name in cli("operation", "list").out
    shown = json.loads(cli("operation", "show", name, "--json").out)
    assert [item["execution_id"] for item in shown["executions"]] == failed
    assert f"begun by operation {name}" in cli("execution", "show", shown["executions"][0]["begun_id"]).out
    retries = json.loads(cli("execution", "list", "--where", f"operation = {name}", "--json").out)
    assert [row["operation_id"] for row in retries] == [name] * 3
    again = cli(*RETRY)
    assert (again.code, "3 were run again already" in again.err) == (2, True)


def test_what_fails_again_and_what_is_refused_is_told(cli: Cli, failed: list[str]) -> None:
    ended = cli(*RETRY, "--quiet", "--json")
    assert (ended.code, json.loads(ended.out)["items"]["failed"]) == (1, 3)
    name = json.loads(ended.out)["operation_id"]
    assert "3 failed" in cli("operation", "show", name).out
    other = Path("order.yaml").read_text().replace("tests/order", "tests/other")
    Path("other.yaml").write_text(other)
    refused = cli(*RETRY, "--playbook", "other.yaml")
    assert refused.code == 1
    assert "3 cannot: Execution <number> ran playbook <quoted>" in refused.err
    assert "3 refused: Execution <number> ran playbook <quoted>" in refused.out


def test_values_are_read_as_the_playbook_declares_them(cli: Cli, failed: list[str]) -> None:
    Path("typed.yaml").write_text(MENDED.replace("workload: {order: 1}", "inputs: {order: {type: string}}"))
    ended = cli(*RETRY, "--playbook", "typed.yaml", "--set", "order=007", "--yes", "--quiet", "--json")
    assert ended.code == 0, ended.err
    name = json.loads(ended.out)["operation_id"]
    (begun, *_) = json.loads(cli("operation", "show", name, "--json").out)["executions"]
    assert json.loads(cli("execution", "show", begun["begun_id"], "--json").out)["result"] == "007"


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_an_operation_whose_process_was_ended_is_resumed(
    cli: Cli, program: Program, failed: list[str], gate: Gate, how: signal.Signals
) -> None:
    process = program(*RETRY, "--playbook", "slow.yaml", "--concurrency", "1")
    until(lambda: gate.arrived() == 1 or process.poll() is not None, "the first one at the gate")
    name = _begun(cli)
    # While it lives it is left to it.
    assert cli("operation", "resume", name).out.startswith(f"{name}: running (")
    process.send_signal(how)
    # What runs may end then, and nothing else begins.
    said = read_to(process.stderr, "What runs is waited for")
    gate.open()
    said += process.communicate()[1]
    found = json.loads(cli("operation", "show", name, "--json").out)
    if how is signal.SIGINT:
        assert (process.returncode, f"noetl operation resume {name}" in said) == (130, True), said
        # What ran has ended well.
        assert (found["status"], found["items"]["started"], found["items"]["failed"]) == ("paused", 0, 0)
    else:
        assert (found["status"], found["items"]["started"]) == ("running", 1)
    resumed = cli("operation", "resume", name, "--json")
    assert (resumed.code, json.loads(resumed.out)["items"]["completed"]) == (0, 3), resumed.err
    rows = json.loads(cli("execution", "list", "--where", f"operation = {name}", "--json").out)
    assert sorted(row["source_id"] for row in rows) == sorted(failed)


def test_what_a_cancelled_operation_had_begun_goes_on_where_its_process_was_killed(
    cli: Cli, program: Program, failed: list[str], gate: Gate
) -> None:
    process = program(*RETRY, "--playbook", "slow.yaml", "--concurrency", "1", "-q")
    until(lambda: gate.arrived() == 1 or process.poll() is not None, "the first one at the gate")
    name = _begun(cli)
    process.kill()
    process.communicate()
    gate.open()
    assert cli("operation", "cancel", name).out.startswith(f"{name}: cancelling (1 started")
    resumed = cli("operation", "resume", name, "--json")
    found = json.loads(resumed.out)
    assert (resumed.code, found["status"], found["items"]["started"]) == (0, "cancelled", 0)
    assert found["items"]["completed"] + found["items"]["dropped"] == 3


def _begun(cli: Cli) -> str:
    """The operation whose first execution has begun."""
    found: list[dict[str, Any]] = json.loads(cli("operation", "list", "--json").out)
    return next(one["operation_id"] for one in found if one["items"]["started"])


def test_executions_of_a_stack_are_left_to_it(cli: Cli, tmp_path: Path, failed: list[str]) -> None:
    with closing(sqlite3.connect(tmp_path / "home" / "noetl.db")) as connection, connection:
        connection.execute("UPDATE execution SET shard = ''")
    begun = cli(*RETRY, "--quiet")
    assert (begun.code, "3 executions are retried; `noetl operation show" in begun.out) == (0, True)
    name = begun.out.partition(":")[0]
    assert cli("operation", "pause", name, "--reason", "lunch").out == f"{name}: paused (3 pending).\n"
    assert "why: lunch" in cli("operation", "show", name).out
    assert json.loads(cli("operation", "resume", name, "--json").out)["status"] == "running"
    cancelled = cli("operation", "cancel", name, "--reason", "enough")
    assert (cancelled.code, cancelled.out) == (0, f"{name}: cancelled (3 dropped).\n")
    assert "why: enough" in cli("operation", "show", name).out
    assert "nothing left to steer" in cli("operation", "cancel", name).err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("execution", "retry"), "say which ones by --where"),
        (("execution", "retry", "1", "--where", FAILED), "say which ones by --where"),
        (("execution", "retry", "1", "--limit", "3"), "say which ones by --where"),
        (("execution", "retry", "--where", FAILED, "--concurrency", "101"), "101"),
        (("execution", "retry", "--where", "statsu = 1"), "Did you mean 'status'?"),
        (("execution", "retry", "--where", "version = 9"), "No execution is to be retried"),
        (("execution", "list", "--where", "status ="), "at its end"),
        (("execution", "failures", "--where", "x = 1"), "there is no field 'x'"),
        (("operation", "show", "12"), "There is no operation '12'"),
        (("operation", "resume", "x"), "There is no operation 'x'"),
        (("operation", "cancel", "12"), "There is no operation '12'"),
        (("operation", "show", "12", "--state", "done"), "done"),
    ],
)
def test_what_cannot_be_is_answered(cli: Cli, words: tuple[str, ...], told: str) -> None:
    ended = cli(*words)
    assert (ended.code, told in ended.err) == (2, True), ended.err
    assert "Traceback" not in ended.err
