"""Executions that leave one database as a file, and enter another to be looked at."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from playbooks import lone, playbook

from noetl.errors import BadRequest, Conflict, NotFound
from noetl.facts.json import Json, JsonMap
from noetl.facts.logs import LogChunk, LogFilter, LogPosition
from noetl.testing import Simulation
from noetl.usecases import control, credentials, inspect, logs, specimens
from noetl.usecases.results import collect
from noetl.usecases.runtime import RuntimeLimits
from noetl.usecases.specimen_chain import link
from noetl.usecases.sweep import sweep
from noetl.usecases.views import chunk_view
from noetl.usecases.waiting import wait_for_news, wait_for_result

BOOK = playbook("""
    - step: start
      tool: {kind: python, code: "result = {'double': n * 2}", input: {n: "{{ n }}"}}
      set: {ctx.total: "{{ result.double }}"}
      next: end
    - step: end
      tool: {kind: noop, input: {total: "{{ ctx.total }}"}}
""", "workload: {n: 2}")  # fmt: skip
GATED = lone("""
    spec: {policy: {admit: {rules: [{when: "{{ ctx.go }}", then: {allow: true}}, {else: {then: {allow: false}}}]}}}
    tool: {kind: noop}
""")
OTHER = lone("tool: {kind: noop}")


def ran(sim: Simulation) -> str:
    execution_id = sim.start()
    sim.settle()
    return execution_id


def file_of(sim: Simulation, execution_id: str) -> list[bytes]:
    return [line.encode() for line in specimens.export(sim.rt, execution_id)]


def take(sim: Simulation, lines: list[bytes]) -> specimens.Imported:
    return specimens.keep(sim.rt, specimens.check(sim.rt, lines))


def parts(lines: list[bytes]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines]


def sealed(said: list[dict[str, Any]]) -> list[bytes]:
    """What somebody makes of the parts of a file who knows how hashes are made."""
    lines, last = [], ""
    for part in said:
        part.pop("hash", None)
        last = link(last, part)
        lines.append(json.dumps({**part, "hash": last}).encode())
    return lines


@pytest.fixture
def here() -> Simulation:
    """Another database, with a playbook of another text under the same path."""
    return Simulation(OTHER)


# --- there and back -------------------------------------------------------------------------------


def test_a_specimen_is_seen_as_the_execution_was(here: Simulation) -> None:
    there = Simulation(BOOK)
    run = ran(there)
    imported = take(here, file_of(there, run))
    assert (imported.is_new, imported.row.status, imported.left_out) == (True, "completed", 0)
    assert inspect.events(here.rt, run) == inspect.events(there.rt, run)
    for version in (None, 1, 5):
        assert inspect.state_view(here.rt, run, version) == inspect.state_view(there.rt, run, version)
    assert inspect.report(here.rt, run).as_json() == inspect.report(there.rt, run).as_json()
    assert inspect.net_of(here.rt, run) == inspect.net_of(there.rt, run)
    assert inspect.result(here.rt, run).value == {"total": 4}
    (row,) = inspect.executions(here.rt)
    assert row.imported_at == here.now


def test_the_file_says_whose_it_is_and_holds_the_text_and_the_net() -> None:
    sim = Simulation(BOOK)
    run = ran(sim)
    head, text, net, *events, end = parts(file_of(sim, run))
    assert (head["format"], head["version"], head["execution_id"]) == ("noetl-execution", 1, run)
    assert (head["path"], head["playbook_version"], head["events"]) == ("tests/test", 1, len(events))
    assert text["playbook"] == {"path": "tests/test", "version": 1, "content": BOOK}
    assert net["net"]["path"] == "tests/test"
    assert [one["event"]["version"] for one in events] == list(range(1, len(events) + 1))
    assert end["end"] == {"events": len(events), "results": 0, "left_out": []}


def test_a_specimen_is_exported_again_with_the_same_events(here: Simulation) -> None:
    there = Simulation(BOOK)
    run = ran(there)
    first = file_of(there, run)
    take(here, first)
    again = parts(file_of(here, run))
    assert [one["event"] for one in again[3:-1]] == [one["event"] for one in parts(first)[3:-1]]
    assert again[1]["playbook"] is None, "the catalog holds another playbook under its path"


def test_the_catalog_is_left_alone(here: Simulation) -> None:
    there = Simulation(BOOK)
    take(here, file_of(there, ran(there)))
    assert here.run().result == {}


def test_a_playbook_that_nobody_has_here_is_not_missed() -> None:
    there, here = Simulation(BOOK), Simulation(OTHER.replace("tests/test", "tests/other"))
    run = ran(there)
    take(here, file_of(there, run))
    assert inspect.report(here.rt, run).result == {"total": 4}


def test_importing_twice_finds_it_here(here: Simulation) -> None:
    there = Simulation(BOOK)
    run = ran(there)
    lines = file_of(there, run)
    first, second = take(here, lines), take(here, lines)
    assert (first.is_new, second.is_new) == (True, False)
    assert second.row == first.row
    assert not take(there, lines).is_new
    assert inspect.execution(there.rt, run).imported_at is None


def test_an_id_that_stands_for_something_else_here_is_refused(here: Simulation) -> None:
    there = Simulation(GATED)
    run = ran(there)
    early = file_of(there, run)
    control.patch_ctx(there.rt, run, {"x": 1})
    late = file_of(there, run)
    take(here, early)
    count = len(early) - 4
    with pytest.raises(
        Conflict, match=rf"is here already, with {count} events where the file has {count + 1}\."
    ):
        take(here, late)
    said = parts(early)
    said[3]["event"]["payload"]["path"] = "tests/forged"
    with pytest.raises(Conflict, match="is here already, and its event 1 is another one"):
        take(here, sealed(said))


# --- results --------------------------------------------------------------------------------------

LARGE = lone("tool: {kind: python, code: 'result = big', input: {big: '{{ big }}'}}", "workload: {big: []}")


def large(value: Json) -> tuple[Simulation, str]:
    sim = Simulation(LARGE, {"python": lambda _: value})
    return sim, ran(sim)


def test_results_come_along(here: Simulation) -> None:
    value = [{"n": n, "text": "x" * 100} for n in range(3000)]
    there, run = large(value)
    lines = file_of(there, run)
    assert parts(lines)[-1]["end"]["results"] > 0
    take(here, lines)
    assert inspect.result(here.rt, run).value == value


def test_results_inside_of_results_come_along(here: Simulation) -> None:
    value = {"small": 1, "a": ["y" * 1000] * 400, "b": {"c": ["z" * 1000] * 400}}
    there, run = large(value)
    lines = file_of(there, run)
    assert parts(lines)[-1]["end"]["results"] > 2
    take(here, lines)
    assert inspect.result(here.rt, run).value == value


def test_results_that_are_too_large_or_gone_are_named(
    here: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, run = large(["x" * 100] * 3000)
    monkeypatch.setattr(specimens, "LARGEST_RESULT", 1000)
    lines = file_of(there, run)
    end = parts(lines)[-1]["end"]
    assert end["left_out"]
    assert "more than 1000" in end["left_out"][0]["why"]
    assert take(here, lines).left_out == len(end["left_out"])
    assert inspect.report(here.rt, run).row.status == "completed"
    for place in list(there.rt.results.places()):
        there.rt.results.remove(place)
    assert "gone" in parts(file_of(there, run))[-1]["end"]["left_out"][0]["why"]


def test_data_that_only_looks_like_a_reference_is_data(here: Simulation) -> None:
    there, run = large({"kind": "result_ref", "ref": "noetl://results/../../etc/passwd"})
    lines = file_of(there, run)
    assert parts(lines)[-1]["end"] == {"events": len(lines) - 4, "results": 0, "left_out": []}
    take(here, lines)


def test_results_of_a_specimen_go_a_while_after_its_import() -> None:
    there, run = large(["x" * 100] * 3000)
    here = Simulation(OTHER, limits=RuntimeLimits(slice_s=3600.0, results_keep_s=86_400.0))
    here.now += timedelta(days=30)
    take(here, file_of(there, run))
    assert collect(here.rt, here.now + timedelta(hours=23)).removed == ()
    assert collect(here.rt, here.now + timedelta(hours=24)).removed == (f"executions/{run}",)
    assert inspect.execution(here.rt, run).status == "completed"


# --- what tasks printed ---------------------------------------------------------------------------


def printed(sim: Simulation, run: str) -> list[JsonMap]:
    return [chunk_view(one) for one in logs.page(sim.rt, run, LogFilter()).chunks]


def prints(texts: list[str]) -> tuple[Simulation, str]:
    sim = Simulation(BOOK)
    run = ran(sim)
    place = LogPosition(run, "start", "start#1", None, "task_0", 1, 1)
    chunks = [LogChunk(place, "stdout", 10 * n, text, sim.now) for n, text in enumerate(texts)]
    with sim.rt.store.begin() as tx:
        tx.executions.lock(run)
        tx.logs.add(run, chunks)
    return sim, run


def test_what_tasks_printed_comes_along(here: Simulation) -> None:
    there, run = prints([f"line {n} é\n" for n in range(1500)])
    lines = file_of(there, run)
    take(here, lines)
    assert not take(here, lines).is_new
    assert printed(here, run) == printed(there, run)
    assert logs.last_lines(here.rt, run, LogFilter(), 1) == ["line 1499 é"]


def test_what_is_too_much_of_it_is_named(here: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(specimens, "ALL_PRINTED", 25)
    there, run = prints(["é" * 10, "é", "1234"])
    lines = file_of(there, run)
    assert [one["ref"] for one in parts(lines)[-1]["end"]["left_out"]] == ["printed from chunk 3 on"]
    take(here, lines)
    assert printed(here, run) == printed(there, run)[:2]


def test_a_chunk_that_is_none_is_named(here: Simulation) -> None:
    there, run = prints(["a", "b"])
    said = parts(file_of(there, run))
    said[-2]["printed"]["stream"] = "stdin"
    with pytest.raises(BadRequest, match=rf"^Line {len(said) - 1} cannot be read: `stream`"):
        specimens.check(here.rt, sealed(said))


# --- looked at, and not changed -------------------------------------------------------------------

CHANGES: dict[str, Callable[[Simulation, str], object]] = {
    "cancel": lambda sim, run: control.cancel(sim.rt, run),
    "pause": lambda sim, run: control.pause(sim.rt, run),
    "resume": lambda sim, run: control.resume(sim.rt, run),
    "adopt": lambda sim, run: control.adopt(sim.rt, run),
    "patch": lambda sim, run: control.patch_ctx(sim.rt, run, {"go": True}),
    "credential": lambda sim, run: credentials.save(
        sim.rt, "c", "generic", {"a": 1}, credentials.Audience("execution", run)
    ),
}


@pytest.mark.parametrize("gate", [GATED, BOOK], ids=["waiting", "completed"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_specimen_cannot_be_changed(here: Simulation, gate: str, change: str) -> None:
    there = Simulation(gate)
    run = ran(there)
    take(here, file_of(there, run))
    before = inspect.events(here.rt, run)
    with pytest.raises(
        Conflict, match=rf"^Execution {run} was imported on .* it can be looked at, and not be"
    ):
        CHANGES[change](here, run)
    assert inspect.events(here.rt, run) == before


@pytest.mark.parametrize("steps", [0, 1, 2, 3])
def test_one_that_still_ran_is_left_where_it_was(here: Simulation, steps: int) -> None:
    there = Simulation(BOOK)
    run = there.start()
    for _ in range(steps):
        there.deliver()
    lines = file_of(there, run)
    status = inspect.execution(there.rt, run).status
    assert status in ("pending", "running")
    take(here, lines)
    for _ in range(3):
        here.now += timedelta(days=1)
        report = sweep(here.rt)
        assert (report.sent, report.resent, report.expired, report.woken) == (0, 0, 0, 0)
        here.settle()
    row = inspect.execution(here.rt, run)
    assert (row.status, row.head_version, row.decided_version) == (status, len(lines) - 4, len(lines) - 4)
    assert row.next_wake_at is None
    with here.rt.store.read() as tx:
        assert tx.commands.open_of(run) == []


def test_nobody_waits_for_a_specimen(here: Simulation) -> None:
    there = Simulation(BOOK)
    run = there.start()
    there.deliver()
    take(here, file_of(there, run))
    found = wait_for_news(here.rt, run, 1000, 10, (), 60.0)
    assert (found.events, found.idle, found.row.is_over) == ([], True, True)
    assert wait_for_result(here.rt, run, 60.0).value is None


# --- files that are none --------------------------------------------------------------------------


def refused(sim: Simulation, lines: list[bytes]) -> str:
    with pytest.raises(BadRequest) as caught:
        specimens.check(sim.rt, lines)
    assert inspect.executions(sim.rt) == []
    return str(caught.value)


def test_an_execution_that_is_not_there_has_no_file(here: Simulation) -> None:
    with pytest.raises(NotFound):
        file_of(here, "42")


def test_a_file_of_nothing_and_one_of_something_else_are_answered(here: Simulation) -> None:
    assert refused(here, []).startswith("The file is empty")
    assert refused(here, [b"\n", b"  \n"]).startswith("The file is empty")
    for line in (
        b"\x00\xff\x1f",
        b"{}",
        b"[1]",
        b"apiVersion: noetl.io/v2",
        b"[" * 100_000,
        b'{"format": 1}',
    ):
        assert refused(here, [line]).startswith("This is no exported execution")
    assert "reads version 1: upgrade" in refused(here, [b'{"format": "noetl-execution", "version": 2}'])


def test_the_first_line_that_was_changed_is_named(here: Simulation) -> None:
    there = Simulation(BOOK)
    lines = file_of(there, ran(there))
    for number, line in enumerate(lines, 1):
        part = json.loads(line)
        event = part.get("event")
        if event is None:
            part["x"] = 1
        else:
            event["payload"]["x"] = 1
        changed = [*lines[: number - 1], json.dumps(part).encode(), *lines[number:]]
        place = f" (event {event['version']}, {event['type']})" if event else ""
        assert refused(here, changed).startswith(f"Line {number}{place}")


def test_lines_that_are_missing_doubled_or_swapped_are_named(here: Simulation) -> None:
    there = Simulation(BOOK)
    lines = file_of(there, ran(there))
    assert refused(here, [*lines[:5], *lines[6:]]).startswith("Line 6 (event 4, ")
    assert refused(here, [*lines[:6], *lines[5:]]).startswith("Line 7 (event 3, ")
    assert refused(here, [*lines[:5], lines[6], lines[5], *lines[7:]]).startswith("Line 6 (event 4, ")


def test_a_file_that_is_cut_off_is_answered_wherever_that_is(here: Simulation) -> None:
    there = Simulation(BOOK)
    lines = file_of(there, ran(there))
    for count in range(1, len(lines)):
        assert f"ends behind line {count}, before its end" in refused(here, lines[:count])
    whole = b"".join(lines)
    # In the middle of the last line, and of another one.
    for size in (len(whole) - 2, len(b"".join(lines[:5])) + len(lines[5]) // 2):
        assert "Line " in refused(here, whole[:size].splitlines(keepends=True))


Forgery = Callable[[list[dict[str, Any]]], object]


def event_of(said: list[dict[str, Any]], number: int) -> JsonMap:
    found: JsonMap = said[2 + number]["event"]
    return found


FORGERIES: dict[str, tuple[Forgery, str]] = {
    "another net": (lambda said: said[2]["net"].update(name="other"), "Line 3: the net is not the one"),
    "no net": (lambda said: said.pop(2), "has no net"),
    "another count": (lambda said: said[0].update(events=3), "header says 3"),
    "no id": (lambda said: said[0].update(execution_id="x"), "Line 1 cannot be read: `execution_id`"),
    "a large id": (lambda said: said[0].update(execution_id="9" * 19), "no id of an execution"),
    "another id": (lambda said: said[0].update(execution_id="7"), "Line 4 .* of another execution"),
    "no status": (lambda said: said[0].update(status="great"), "`status`"),
    "no instant": (lambda said: said[0].update(created_at="yesterday"), "`created_at`"),
    "a gap": (lambda said: said[5]["event"].update(version=9), "Line 6 is event 9, where event 3 is due"),
    "no version": (lambda said: said[5]["event"].update(version="3"), "Line 6 cannot be read: `version`"),
    "no step": (lambda said: said[5]["event"].update(step=3), "`step`"),
    "no type": (lambda said: said[5]["event"].update(type="no.such"), "Event 3 cannot be read"),
    "a later schema": (lambda said: said[5]["event"].update(schema=99), "schema 99"),
    "no payload": (lambda said: said[5]["event"].update(payload={"x": 1}), "Event 3 cannot be read"),
    "no text": (
        lambda said: event_of(said, 5)["payload"].update(command_id=["x"]),
        "Event 5 cannot be read: `command_id`",
    ),
    "an iteration": (lambda said: event_of(said, 7).update(iteration=10**30), "`iteration`"),  # type: ignore[attr-defined]
    "no end": (lambda said: said[-1]["end"].update(left_out=7), "`left_out`"),
    "two ends": (lambda said: said.append(said[-1]), "does not belong there"),
    "a stranger": (lambda said: said.insert(4, {"secret": {}}), "Line 5 does not belong there"),
    "two in one": (lambda said: said[4].update(net={}), "does not belong there"),
    "no playbook line": (lambda said: said[1].update(playbook=7), "Line 2 cannot be read"),
    "a result": (
        lambda said: said.insert(-1, {"result": {"ref": "noetl://results/x/y", "content_type": "t", "base64": ""}}),
        "is not what its name says",
    ),
    "contradictions": (
        lambda said: event_of(said, 5)["payload"].update(arc="nowhere", step=["x"]),
        "Event 5",
    ),
}  # fmt: skip


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_file_with_right_hashes_is_answered(here: Simulation, forgery: str) -> None:
    there = Simulation(BOOK)
    said = parts(file_of(there, ran(there)))
    forge, expected = FORGERIES[forgery]
    forge(said)
    with pytest.raises(BadRequest, match=expected):
        specimens.check(here.rt, sealed(said))
