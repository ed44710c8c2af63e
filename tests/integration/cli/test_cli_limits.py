"""`noetl limits`, and limits of `noetl run`, as somebody at a terminal meets them."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from noetl.cli.awaited import WaitLines
from noetl.cli.follow import LocalExecution
from noetl.cli.live import LiveTable
from noetl.cli.printed import Verbose
from noetl.cli.process import run_here
from noetl.cli.progress import PlainProgress, ProgressView
from noetl.cli.shown_waits import WAITS_LOOK_S, ShownWaits
from noetl.facts.events import Draft, Event, Fact, SlotGranted, SlotRequested, StepScheduled
from noetl.facts.json import JsonMap
from noetl.facts.limits import AskedSlot
from noetl.testing import Simulation
from noetl.usecases import catalog, inspect
from noetl.usecases.start import StartRequest, start
from tests.waiting import until

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


def test_who_pauses_what_nobody_uses_is_told_which_one_may_be_meant(cli: Cli, tmp_path: Path) -> None:
    book = tmp_path / "bounded.yaml"
    book.write_text(BOOK)
    cli("run", str(book), "--no-wait")
    assert cli("limits", "pause", "reports").err == ""
    wrong = cli("limits", "pause", "report")
    assert (wrong.code, wrong.out) == (0, "report: paused.\n")
    assert "Nobody has a slot of 'report' or waits for one now. Did you mean 'reports'?" in wrong.err
    assert "`noetl limits resume report`" in wrong.err
    queue = cli("limits", "pause", "pyton", "--queue").err
    assert "No tool and no worker has a queue 'pyton' now. Did you mean 'python'?" in queue
    assert "`noetl limits resume pyton --queue`" in queue
    assert cli("limits", "pause", "python", "--queue").err == ""


def test_a_key_that_nobody_uses_is_not_called_free(cli: Cli) -> None:
    assert cli("limits", "--key", "reports").out == "Nobody has a slot of 'reports' or waits for one now.\n"


def test_what_waits_for_a_slot_is_shown_with_the_command_that_tells_more(cli: Cli, tmp_path: Path) -> None:
    book = tmp_path / "bounded.yaml"
    book.write_text(BOOK)
    for _ in range(2):
        cli("run", str(book), "--no-wait")
    cli("limits", "pause", "reports", "--reason", "it is moved")
    # Nobody resumes it: the one that would be followed is begun and left.
    with run_here() as rt:
        row = catalog.register(rt, BOOK, "bounded.yaml")
        third = start(rt, StartRequest(row.path, row.version)).execution_id
        until(lambda: inspect.report(rt, third).waits, "the third one to wait")
    text = "a slot of 'reports' (2 of 2 taken; paused by "
    shown = cli("execution", "show", third).out
    assert f"start waits for {text}" in shown
    assert "\n  noetl limits resume reports\n" in shown
    assert f"It waits: {text}" in cli("execution", "explain", third).out
    assert "a slot of 'reports' (limit 2); key 'reports' to be resumed" in cli("execution", "list").out


# --- progress -------------------------------------------------------------------------------------


def wait_of(kind: str, text: str, step: str | None = "load", **more: Any) -> dict[str, Any]:
    slot = {"key": "a k", "limit": 1, "per_s": None, "taken": 1, "paused": None}
    awaited = {"name": "a k", "text": text, "due_at": None, "slot": slot if kind == "slot" else None}
    place = {"step": step, "region": None, "run_id": step and f"{step}#1", "iteration": None}
    return {"kind": kind, "mode": "all", "since": None, "until": None, "for": [awaited], **place, **more}


def test_a_log_says_once_that_a_step_waits_and_once_that_it_does_not() -> None:
    lines = WaitLines()
    waits = [wait_of("slot", "a slot of 'a k' (1 of 1 taken)")]
    assert list(lines.lines("7", waits)) == [
        "load: waits for a slot of 'a k' (1 of 1 taken): noetl limits --key 'a k'"
    ]
    # Another one has come and gone.
    assert list(lines.lines("7", [wait_of("slot", "a slot of 'a k' (0 of 1 taken)")])) == []
    paused = wait_of("slot", "a slot of 'a k' (0 of 1 taken; paused)")
    paused["for"][0]["slot"]["paused"] = {"name": "a k"}
    assert list(lines.lines("7", [paused])) == [
        "load: waits for a slot of 'a k' (0 of 1 taken; paused): noetl limits resume 'a k'"
    ]
    assert list(lines.lines("7", [])) == ["load: waits no more"]
    assert list(lines.lines("7", [])) == []


def test_a_log_says_what_an_execution_a_region_and_a_pause_wait_for() -> None:
    waits = [
        wait_of("slot", "a slot", None),
        wait_of("slot", "a slot", None, region="desk"),
        wait_of("pause", "step 'load' to be resumed", run_id=None),
        wait_of("pause", "queue 'a k' to be resumed"),
    ]
    assert list(WaitLines().lines("7", waits)) == [
        "waits for a slot: noetl limits --key 'a k'",
        "region 'desk': waits for a slot: noetl limits --key 'a k'",
        "load: waits for step 'load' to be resumed: noetl execution resume 7 --step load",
        "load: waits for queue 'a k' to be resumed: noetl limits resume 'a k' --queue",
    ]


def asked(*parts: Fact) -> list[Event]:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    return [
        Event("7", version, at, Draft(fact, step="load", run_id="load#1"))
        for version, fact in enumerate(parts, 1)
    ]


class Looks(PlainProgress):
    """Counts how often it is told."""

    def __init__(self) -> None:
        super().__init__(io.StringIO())
        self.told: list[int] = []

    def show_waits(self, waits: Sequence[JsonMap]) -> None:
        self.told.append(len(waits))


def test_who_has_the_slots_is_asked_only_where_a_request_was_not_granted_at_once() -> None:
    view = Looks()
    looks = ShownWaits(lambda: [wait_of("slot", "a slot"), wait_of("task", "signal 'go'")], view)
    request, grant = SlotRequested("-", (AskedSlot("a k", 1),)), SlotGranted("-")
    looks.look(asked(request, grant), is_over=False)
    assert (view.told, looks.look_s) == ([], math.inf)
    looks.look(asked(request), is_over=False)
    assert (view.told, looks.look_s) == ([1], WAITS_LOOK_S)
    looks.look([], is_over=False)
    assert view.told == [1]
    looks.look(asked(grant), is_over=False)
    assert view.told == [1, 1]
    looks.look(asked(request), is_over=True)
    assert view.told == [1, 1]


def test_progress_that_shows_nothing_asks_nothing() -> None:
    def refuse() -> list[JsonMap]:
        raise AssertionError

    request = SlotRequested("-", (AskedSlot("a k", 1),))
    ShownWaits(refuse, ProgressView()).look(asked(request), is_over=False)


def test_a_table_shows_what_waits_in_its_row_or_below() -> None:
    screen = io.StringIO()
    with LiveTable(screen) as view:
        for event in asked(StepScheduled((), {}), SlotRequested("-", (AskedSlot("a k", 1),))):
            view.on(event)
        view.show_waits([wait_of("slot", "a slot of 'a k' (1 of 1 taken)"), wait_of("slot", "a slot", None)])
    assert "for a slot of 'a k' (1 of 1 taken)" in screen.getvalue()
    assert "\nit waits for a slot" in screen.getvalue()
    assert "load waits for" not in screen.getvalue()


def test_progress_with_what_is_printed_shows_what_waits_as_well() -> None:
    view = Looks()
    here = Simulation(ENDS)
    both = Verbose(view, LocalExecution(here.rt, here.start()))
    request = SlotRequested("-", (AskedSlot("a k", 1),))
    ShownWaits(lambda: [wait_of("slot", "a slot")], both).look(asked(request), is_over=False)
    assert view.told == [1]


ENDS = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: ends, path: tests/ends}
workflow:
  - step: start
    compensate: undo
    tool: {kind: shell, command: "true"}
    next: pay
  - step: pay
    tool: {kind: shell, command: "exit 1"}
  - step: undo
    tool: {kind: noop}
"""


def test_a_log_says_that_an_execution_ends_and_what_it_undoes(cli: Cli, tmp_path: Path) -> None:
    book = tmp_path / "ends.yaml"
    book.write_text(ENDS)
    said = cli("run", str(book)).err
    assert "\nending as failed\nundo: undoes start#1\nundo: done in " in said
