"""`noetl limits`, and limits of `noetl run`, as somebody at a terminal meets them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

Cli = Callable[..., Any]

BOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: bounded, path: tests/bounded}
workflow:
  - step: start
    spec: {concurrency: {limit: 2, key: reports}}
    tool: {kind: wait, signal: go}
"""


def test_who_has_a_slot_is_shown_and_a_key_is_paused(cli: Cli, tmp_path: Path) -> None:
    book = tmp_path / "bounded.yaml"
    book.write_text(BOOK)
    waits = cli("run", str(book), "--json", "--no-wait")
    assert waits.code == 3, waits.err
    execution_id = json.loads(waits.out)["execution_id"]
    shown = cli("limits", "--key", "reports")
    assert shown.out.startswith("reports: 1 of 2 taken, 0 waiting\n")
    assert execution_id in shown.out
    assert cli("limits", "pause", "reports", "--reason", "it is slow").out == "reports: paused.\n"
    assert "paused since" in cli("limits").out
    found = json.loads(cli("limits", "--json").out)
    assert found["limits"][0]["holders"][0]["execution_id"] == execution_id
    assert found["paused"][0]["reason"] == "it is slow"
    assert cli("limits", "resume", "reports").code == 0
    again = cli("limits", "resume", "reports")
    assert (again.code, "is not paused" in again.err) == (1, True)


def test_a_queue_is_paused_by_its_name(cli: Cli) -> None:
    assert cli("limits").out == "Nobody has a slot or waits for one, and nothing is paused.\n"
    cli("limits", "pause", "http", "--queue")
    assert "queue http: paused since" in cli("limits").out
    assert cli("limits", "resume", "http", "--queue").out == "queue http: resumed.\n"


def test_a_step_is_paused_and_resumed_by_its_name(cli: Cli, tmp_path: Path) -> None:
    book = tmp_path / "bounded.yaml"
    book.write_text(BOOK)
    execution_id = json.loads(cli("run", str(book), "--json", "--no-wait").out)["execution_id"]
    said = cli("execution", "pause", execution_id, "--step", "start").out
    assert "step start is paused" in said
    wrong = cli("execution", "pause", execution_id, "--step", "strat")
    assert "Did you mean 'start'" in wrong.err
    assert "step start is resumed" in cli("execution", "resume", execution_id, "--step", "start").out
