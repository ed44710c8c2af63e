"""`noetl execution migrate`, as somebody at a terminal meets it."""

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
metadata: {name: moved, path: tests/moved}
workflow:
  - step: start
    tool: {kind: noop, result: 1}
    next: gate
  - step: gate
    spec: {policy: {admit: {rules: [{when: "{{ ctx.go }}", then: {allow: true}}, {else: {then: {allow: false}}}]}}}
    tool: {kind: noop, result: wrong}
"""


@pytest.fixture
def mended(tmp_path: Path) -> Path:
    """The playbook's file, with what was wrong mended."""
    book = tmp_path / "moved.yaml"
    book.write_text(BOOK.replace("wrong", "right"))
    return book


@pytest.fixture
def waiting(cli: Cli, tmp_path: Path) -> str:
    """The id of an execution that waits."""
    (tmp_path / "first.yaml").write_text(BOOK)
    ended = cli("run", str(tmp_path / "first.yaml"), "--no-wait", "--json")
    assert ended.code == 3, ended.err
    found: str = json.loads(ended.out)["execution_id"]
    return found


def test_the_plan_comes_first_and_what_waits_goes_on_under_the_mended_text(
    cli: Cli, waiting: str, mended: Path
) -> None:
    planned = cli("execution", "migrate", waiting, "--playbook", str(mended), "--dry-run")
    assert planned.code == 0, planned.err
    assert planned.out.startswith(f"migration of {waiting}: tests/moved@2\n")
    assert "start  reuse" in planned.out
    assert json.loads(cli("execution", "show", waiting, "--json").out)["status"] == "waiting"
    moved = cli("execution", "migrate", waiting, "--json")
    assert moved.code == 3, moved.err
    report = json.loads(moved.out)
    assert report["status"] == "waiting"
    assert f"migration of {waiting}" in cli("execution", "show", report["execution_id"]).out
    assert json.loads(cli("execution", "show", waiting, "--json").out)["status"] == "cancelled"
    ended = cli("execution", "patch", report["execution_id"], "--set", "go=true")
    assert ended.code == 0, ended.err


def test_what_has_to_stay_stays_and_the_reason_is_said(cli: Cli, waiting: str, mended: Path) -> None:
    mended.write_text(mended.read_text().replace("gate", "door"))
    dry = cli("execution", "migrate", waiting, "--playbook", str(mended), "--dry-run")
    assert "stays: it waits before step 'gate', which version 2 does not have" in dry.out
    told = cli("execution", "migrate", waiting)
    assert told.code == 1
    assert told.err == f"{waiting} stays: it waits before step 'gate', which version 2 does not have\n"
    said = json.loads(cli("execution", "migrate", waiting, "--dry-run", "--json").out)
    assert (said["migration_of"], len(said["obstacles"])) == (waiting, 1)


def test_what_has_ended_is_refused_in_a_sentence(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "ended.yaml").write_text(BOOK.replace("next: gate", "").partition("  - step: gate")[0])
    first = json.loads(cli("run", str(tmp_path / "ended.yaml"), "--json").out)["execution_id"]
    refused = cli("execution", "migrate", first)
    assert refused.code != 0
    assert "nothing of it is left to migrate" in refused.err
    assert cli("execution", "migrate").code == 2


def test_all_that_a_condition_means_are_moved_and_not_twice(cli: Cli, waiting: str, mended: Path) -> None:
    where = ("--where", "path = 'tests/moved' and status = 'waiting'")
    dry = cli("execution", "migrate", *where, "--playbook", str(mended), "--dry-run")
    assert dry.out.startswith(f"migration of {waiting}: tests/moved@2\n"), dry.err
    assert cli("execution", "migrate", *where).code == 3
    again = cli("execution", "migrate", *where)
    assert (again.code, again.out) == (0, "")
    assert "No open execution is to be migrated where" in again.err
    assert cli("execution", "migrate", waiting, *where).code == 2
