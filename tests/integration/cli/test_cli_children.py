"""Playbooks that call others, seen from the command line."""

from __future__ import annotations

import io
import json
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from noetl.cli.progress import PlainProgress, StepsProgress
from noetl.cli.stack import register_called
from noetl.errors import PlaybookInvalid
from noetl.testing import Simulation
from noetl.usecases import catalog
from tests.gates import Gate
from tests.waiting import until

from .conftest import Cli

Program: TypeAlias = Callable[..., "subprocess.Popen[str]"]

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: {0}, path: tests/{0}}}\n"


def write(name: str, body: str, folder: str = ".") -> Path:
    file = Path(folder) / f"{name}.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(HEAD.format(name) + body)
    return file


@pytest.fixture(autouse=True)
def caller() -> Path:
    """A playbook that calls `tests/child`, which nobody has written yet."""
    return write(
        "caller", "workflow: [{step: start, tool: {kind: playbook, path: tests/child, input: {n: 4}}}]\n"
    )


def child(body: str = "result = n * 2", folder: str = "parts", name: str = "child") -> Path:
    text = (
        f"workload: {{n: 1}}\nworkflow: [{{step: work, tool: {{kind: python, input: {{n: '{{{{ n "
        f"}}}}'}}, code: {body!r}}}}}]\n"
    )
    return write(name, text, folder)


def listed(cli: Cli, *options: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(cli("execution", "list", "--json", *options).out)
    return rows


def test_a_child_is_found_among_the_files_below_the_playbooks_directory(cli: Cli) -> None:
    child()
    ended = cli("run", "caller.yaml")
    assert (ended.code, ended.out) == (0, "8\n")
    assert "start: waits for playbook tests/child (execution " in ended.err
    assert "tests/child\t1" in cli("catalog", "list").out


def test_children_of_children_are_found_as_well(cli: Cli) -> None:
    write(
        "child", "workflow: [{step: start, tool: {kind: playbook, path: tests/leaf, input: {n: 7}}}]\n", "a"
    )
    child(folder="a/b", name="leaf")
    assert cli("run", "caller.yaml").out == "14\n"


def test_an_edited_file_is_what_runs_and_a_new_version(cli: Cli) -> None:
    file = child()
    cli("catalog", "register", str(file))
    assert cli("run", "caller.yaml").out == "8\n"
    child("result = n * 3")
    for _ in range(2):
        again = cli("run", "caller.yaml")
        assert (again.code, again.out, "warning" in again.err) == (0, "12\n", False)
    assert "tests/child\t2" in cli("catalog", "list").out


def test_a_version_that_is_named_is_that_of_the_catalog_whatever_the_file_says(cli: Cli) -> None:
    cli("catalog", "register", str(child()))
    child("result = n * 3")
    write(
        "caller",
        "workflow: [{step: start, tool: {kind: playbook, path: tests/child, version: 1, input: {n: 4}}}]\n",
    )
    assert cli("run", "caller.yaml").out == "8\n"


def test_a_playbook_that_calls_nobody_looks_at_no_files(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noetl.store.library._candidates", lambda _: pytest.fail("it looked"))
    assert cli("run", "sum.yaml").code == 0


def test_a_path_that_is_nowhere_is_refused_with_the_nearest_one_of_the_files(cli: Cli) -> None:
    child(name="childe")
    ended = cli("run", "caller.yaml")
    assert (ended.code, listed(cli)) == (2, [])
    assert (
        "There is no playbook 'tests/child' in the catalog, nor among the files below the playbook's "
        "directory."
        " Did you mean 'tests/childe'?"
    ) in ended.err


def test_files_outside_of_the_directory_are_not_found(cli: Cli, tmp_path: Path) -> None:
    outside = child(folder=str(tmp_path / "outside"))
    Path("link.yaml").symlink_to(outside)
    Path("folder").symlink_to(outside.parent)
    assert cli("run", "caller.yaml").code == 2


def test_a_file_that_is_written_while_it_runs_is_found(cli: Cli) -> None:
    child(name="known")
    write("child", "workflow: [{step: start, tool: {kind: noop, input: {made: 1}}}]\n").rename("child.txt")
    write(
        "caller",
        "provides: {playbooks: [tests/child]}\n"
        "workflow:\n"
        "  - {step: start, tool: {kind: playbook, path: tests/known}, next: make}\n"
        "  - {step: make, tool: {kind: shell, command: cp child.txt child.yaml}, next: call}\n"
        "  - {step: call, tool: {kind: playbook, path: tests/child}}\n",
    )
    ended = cli("run", "caller.yaml", "--json")
    assert (ended.code, json.loads(ended.out)["result"]) == (0, {"made": 1})


def test_a_file_that_fits_and_cannot_be_run_fails_the_task_with_its_problems(cli: Cli) -> None:
    write("child", "workflow: [{step: a, tool: {kind: pyhton}, next: x}]\n", "parts")
    ended = cli("run", "caller.yaml")
    assert ended.code == 1
    assert re.search(r"parts/child.yaml:4:\d+: error\[NOETL302\]: no tool of kind 'pyhton' is", ended.err)
    assert "error[NOETL301]: there is no step 'x'" in ended.err
    assert "tests/child" not in cli("catalog", "list").out


def test_a_file_whose_path_turns_out_to_be_another_is_not_what_was_called(cli: Cli) -> None:
    text = HEAD.format("x").replace(
        "metadata: {name: x, path: tests/x}", "metadata: {name: tests/child, path: *p}"
    )
    Path("alias.yaml").write_text(f"x-path: &p tests/other\n{text}workflow: [{{step: start}}]\n")
    ended = cli("run", "caller.yaml")
    assert (ended.code, "There is no playbook 'tests/child'" in ended.err) == (1, True)
    assert "tests/other" not in cli("catalog", "list").out


def test_files_are_no_versions_of_what_the_catalog_knows(cli: Cli) -> None:
    cli("catalog", "register", str(child()))
    write("caller", "workflow: [{step: start, tool: {kind: playbook, path: tests/child, version: 7}}]\n")
    ended = cli("run", "caller.yaml")
    assert (ended.code, "has no version 7; there are 1 to 1." in ended.err) == (2, True)


def test_why_a_child_failed_is_reported_by_its_caller(cli: Cli) -> None:
    child("raise ValueError('too bad')")
    ended = cli("run", "caller.yaml")
    assert ended.code == 1
    assert "error: ValueError: Playbook 'tests/child' (execution " in ended.err
    assert "failed: too bad (step start, attempt 1)" in ended.err


def test_callers_and_children_lead_to_one_another(cli: Cli) -> None:
    child()
    cli("run", "caller.yaml")
    (called,) = listed(cli, "--path", "tests/child")
    (calling,) = listed(cli, "--path", "tests/caller")
    assert (called["parent_id"], calling["parent_id"]) == (calling["execution_id"], None)
    assert listed(cli, "--parent", calling["execution_id"]) == [called]
    assert listed(cli, "--parent", called["execution_id"]) == []

    above = cli("execution", "show", calling["execution_id"]).out
    assert f"{called['execution_id']}\tcompleted\ttests/child@1\tstart" in above
    assert f"called by {calling['execution_id']}" in cli("execution", "show", called["execution_id"]).out
    report = json.loads(cli("execution", "show", calling["execution_id"], "--json").out)
    assert report["children"] == [
        {
            "execution_id": called["execution_id"],
            "path": "tests/child",
            "version": 1,
            "status": "completed",
            "step": "start",
            "iteration": None,
            "undoes": None,
            "errors_passed_over": 0,
            "warnings_count": 0,
        }
    ]


def test_what_a_called_playbook_went_on_after_is_shown_beside_it(cli: Cli) -> None:
    write(
        "child",
        "workflow: [{step: start, tool: {kind: python, code: 'raise ValueError(1)', "
        "spec: {policy: {rules: [{else: {do: continue}}]}}}}]\n",
    )
    write("caller", "workflow: [{step: start, tool: {kind: playbook, path: tests/child}}]\n")
    cli("run", "caller.yaml")
    (calling,) = listed(cli, "--path", "tests/caller")
    above = cli("execution", "show", calling["execution_id"]).out
    assert "\tcompleted, 1 ignored error\ttests/child@1\tstart" in above


def test_no_id_lists_nobody(cli: Cli) -> None:
    ended = cli("execution", "list", "--parent", "caller")
    told = "error: There is no execution 'caller': nothing has that id or business key.\n"
    assert (ended.code, ended.err) == (2, told)


def test_a_run_stays_until_its_detached_children_have_ended(
    cli: Cli, program: Program, tmp_path: Path
) -> None:
    gate = Gate(tmp_path / "gate")
    child(gate.python())
    write(
        "caller",
        "workflow: [{step: start, tool: {kind: playbook, path: tests/child, detached: true}}]\n",
    )
    process = program("run", "caller.yaml")
    until(
        lambda: gate.arrived() and listed(cli, "--path", "tests/caller", "--status", "completed"), "the end"
    )
    assert process.poll() is None
    gate.open()
    err = process.communicate()[1]
    assert process.returncode == 0
    assert "start: calls playbook tests/child (execution " in err
    assert [row["status"] for row in listed(cli)] == ["completed", "completed"]


def test_a_loop_tells_each_playbook_that_it_calls_once(cli: Cli) -> None:
    child()
    body = "{kind: playbook, path: tests/child, input: {n: '{{ iter.i }}'}}"
    write("caller", f"workflow: [{{step: each, loop: {{in: [1, 2, 3], iterator: i}}, tool: {body}}}]\n")
    ended = cli("run", "caller.yaml")
    assert json.loads(ended.out)["results"] == [2, 4, 6]
    assert ended.err.count("each: calls playbook tests/child") == 1
    show = cli("execution", "show", listed(cli, "--path", "tests/caller")[0]["execution_id"]).out
    assert [f"each[{index}]" in show for index in range(3)] == [True] * 3


def test_json_is_json_and_nothing_else(cli: Cli) -> None:
    child()
    ended = cli("run", "caller.yaml", "--json")
    assert (json.loads(ended.out)["result"], ended.err) == (8, "")


def waiting_for(cli: Cli, path: str) -> dict[str, Any]:
    return until(lambda: listed(cli, "--path", path, "--status", "running"), f"{path} to run")[0]


def test_ctrl_c_ends_the_children_too(cli: Cli, program: Program) -> None:
    child("import time; time.sleep(600)")
    process = program("run", "caller.yaml")
    waiting_for(cli, "tests/child")
    process.send_signal(signal.SIGINT)
    assert process.wait() == 1
    process.communicate()
    assert [row["status"] for row in listed(cli)] == ["cancelled", "cancelled"]


def test_cancelling_a_caller_whose_process_has_gone_ends_its_children(
    cli: Cli, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOETL_CANCEL_GRACE_S", "0.3")
    child("import time; time.sleep(600)")
    process = program("run", "caller.yaml")
    called = waiting_for(cli, "tests/child")
    process.kill()
    process.communicate()
    ended = cli("execution", "cancel", called["parent_id"], "--reason", "gone")
    assert ended.out == f"{called['parent_id']}: cancel requested (now cancelled).\n"
    assert [row["status"] for row in listed(cli)] == ["cancelled", "cancelled"]


def test_who_does_not_wait_leaves_a_caller_whose_child_waits_for_input(cli: Cli) -> None:
    write("middle", "workflow: [{step: start, tool: {kind: playbook, path: tests/gated}}]\n", "a")
    body = "{kind: playbook, path: 'tests/{{ iter.x }}'}"
    write(
        "caller",
        f"workflow: [{{step: s, loop: {{in: [middle, gated], iterator: x, mode: parallel}}, tool: "
        f"{body}}}]\n",
    )
    left = cli("run", "caller.yaml", "--no-wait")
    assert left.code == 3
    statuses = {(row["path"], row["status"]) for row in listed(cli)}
    assert statuses == {("tests/caller", "waiting"), ("tests/middle", "waiting"), ("tests/gated", "waiting")}

    (caller,) = listed(cli, "--path", "tests/caller")
    assert "(now cancelled)" in cli("execution", "cancel", caller["execution_id"]).out
    assert {row["status"] for row in listed(cli)} == {"cancelled"}


def test_a_caller_goes_on_where_its_child_got_what_it_waited_for(cli: Cli) -> None:
    write("caller", "workflow: [{step: start, tool: {kind: playbook, path: tests/gated}}]\n")
    assert cli("run", "caller.yaml", "--no-wait").code == 3
    (child_row,) = listed(cli, "--path", "tests/gated", "--status", "waiting")
    cli("execution", "patch", child_row["execution_id"], "--set", "go=true")
    ended = cli("execution", "resume", child_row["parent_id"], "-q")
    assert (ended.code, json.loads(ended.out)) == (0, {"went": True})


def test_progress_says_whom_a_step_waits_for_until_it_goes_on() -> None:
    sim = Simulation(Path("caller.yaml").read_text())
    catalog.register(sim.rt, child().read_text())
    told, story = io.StringIO(), StepsProgress()
    plain = PlainProgress(told)
    seen = []
    for event in sim.events(sim.run().row.execution_id):
        plain.on(event)
        story.on(event)
        if line := story.lines.get("start"):
            seen.append((line.status, line.note.partition(" (")[0]))
    waits = ("waiting", "waits for playbook tests/child")
    assert list(dict.fromkeys(seen)) == [("running", ""), waits, ("done", "")]
    assert seen[seen.index(waits) + seen.count(waits)] == ("running", "")
    assert told.getvalue().count("start: waits for playbook tests/child (execution ") == 1


class Catalog:
    """What `up --run` asks of a server, answered by the use cases behind it."""

    def __init__(self, sim: Simulation) -> None:
        self.sim = sim

    def playbook(self, path: str) -> str:
        return catalog.playbook(self.sim.rt, path).content

    def register(self, content: str) -> None:
        catalog.register(self.sim.rt, content)


def registered(file: str) -> dict[str, str]:
    sim = Simulation(HEAD.format("known") + "workflow: [{step: start}]\n")
    catalog.register(sim.rt, HEAD.format("there") + calling("tests/leaf", "tests/caller"))
    register_called(Catalog(sim), Path(file), Path(file).read_text())  # type: ignore[arg-type]
    return {row.path: row.content for row in catalog.playbooks(sim.rt)}


def calling(*paths: str) -> str:
    tasks = ", ".join(f"{{name: t{n}, kind: playbook, path: '{path}'}}" for n, path in enumerate(paths))
    return f"workflow: [{{step: start, tool: [{tasks}]}}]\n"


def test_up_registers_what_a_playbook_calls_and_what_that_calls() -> None:
    write("caller", calling("tests/child", "{{ any }}", "tests/nowhere", "tests/there"))
    write("child", calling("tests/deep", "tests/child"), "a")
    deep, leaf = child(folder="a/b", name="deep"), child(folder="c", name="leaf")
    child(folder="c", name="unused")
    write("there", calling("tests/unused"), "c")
    known = registered("caller.yaml")
    assert set(known) == {
        "tests/known",
        "tests/there",
        "tests/caller",
        "tests/child",
        "tests/deep",
        "tests/leaf",
    }
    assert (known["tests/deep"], known["tests/leaf"]) == (deep.read_text(), leaf.read_text())


def test_up_refuses_a_called_file_that_cannot_be_run() -> None:
    write("child", "workflow: [{step: a, tool: {kind: pyhton}}]\n", "a")
    with pytest.raises(PlaybookInvalid) as refused:
        registered("caller.yaml")
    assert [Path(problem.file).name for problem in refused.value.problems] == ["child.yaml"]


def test_validate_asks_for_a_path_and_for_nothing_that_must_be_there(cli: Cli) -> None:
    write("pathless", "workflow: [{step: start, tool: {kind: playbook, input: {n: 1}}}]\n")
    ended = cli("validate", "pathless.yaml")
    assert ended.code == 2
    assert ended.out.startswith("pathless.yaml:4:26: error[NOETL202]: ")
    assert "path" in ended.out
    assert cli("validate", "caller.yaml", "--strict").code == 0
    assert "start" in cli("graph", "caller.yaml").out


def test_a_call_that_went_well_is_undone_when_its_caller_fails_and_all_say_so(cli: Cli) -> None:
    write(
        "child",
        "workflow:\n"
        "  - {step: work, compensate: back, tool: {kind: python, code: 'result = 7'}}\n"
        "  - {step: back, tool: {kind: python, input: {booked: '{{ args.result }}'}, code: "
        "'print(\"gives back\", booked)'}}\n",
    )
    write(
        "failing",
        "workflow:\n"
        "  - {step: start, tool: {kind: playbook, path: tests/child}, next: pay}\n"
        "  - {step: pay, tool: {kind: python, code: 'raise ValueError(\"no money\")'}}\n",
    )
    ended = cli("run", "failing.yaml")
    assert (ended.code, ended.out) == (1, "")
    assert "no money" in ended.err
    undoing, booked, caller = listed(cli)
    undone = f"start: execution {undoing['execution_id']} undoes what {booked['execution_id']} has done\n"
    assert undone in ended.err
    assert (caller["status"], booked["status"], undoing["status"]) == ("failed", "completed", "completed")
    shown = cli("execution", "show", booked["execution_id"])
    assert f"\nundone by {undoing['execution_id']} (completed)\n" in shown.out
    of = f"\nundo of {booked['execution_id']}\n"
    assert of in cli("execution", "show", undoing["execution_id"]).out
    assert "gives back 7" in cli("execution", "logs", undoing["execution_id"]).out
    refused = cli("execution", "retry", booked["execution_id"])
    assert (refused.code, refused.out) == (1, "")
    assert refused.err.startswith(
        f"error: Execution {booked['execution_id']} was undone by {undoing['execution_id']}: retry "
        f"{caller['execution_id']}, which called it."
    )
