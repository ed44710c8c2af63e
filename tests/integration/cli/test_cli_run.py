"""`noetl run`: exit codes, the shape of its answer, and what people type wrongly."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

#: Of the commands, the one that `make test` tries.
pytestmark = pytest.mark.quick

Cli = Callable[..., Any]


def test_a_run_that_completes_prints_its_result_and_exits_0(cli: Cli) -> None:
    ended = cli("run", "sum.yaml")
    assert ended.code == 0
    assert json.loads(ended.out) == {"sum": 3, "a": 1}
    assert "start: done in" in ended.err
    assert "completed" in ended.err


def test_json_is_one_object_of_the_documented_shape(cli: Cli) -> None:
    ended = cli("run", "sum.yaml", "--json")
    report = json.loads(ended.out)
    assert list(report) == [
        "execution_id",
        "status",
        "result",
        "ctx",
        "steps",
        "error",
        "warnings",
        "events",
        "duration_ms",
    ]
    assert report["execution_id"].isdigit()
    assert report["steps"] == {"start": {"status": "done", "runs": 1, "result": {"sum": 3, "a": 1}}}
    assert (report["status"], report["result"], report["ctx"]) == (
        "completed",
        {"sum": 3, "a": 1},
        {"sum": 3},
    )
    assert (report["error"], report["events"] > 5, report["duration_ms"] > 0) == (None, True, True)
    assert ended.err == ""


def test_json_of_a_failure_names_its_place(cli: Cli) -> None:
    ended = cli("run", "failing.yaml", "--json")
    report = json.loads(ended.out)
    assert (ended.code, report["status"], report["result"]) == (1, "failed", None)
    assert report["steps"] == {"start": {"status": "failed", "runs": 1, "result": None}}
    error = report["error"]
    assert set(error) >= {
        "kind",
        "type",
        "message",
        "step",
        "task",
        "iteration",
        "attempt",
        "line",
        "traceback",
    }
    found = {
        key: error[key] for key in ("kind", "type", "message", "step", "task", "iteration", "attempt", "line")
    }
    assert found == {
        "kind": "python",
        "type": "ValueError",
        "message": "no day in []",
        "step": "start",
        "task": "check",
        "iteration": None,
        "attempt": 1,
        "line": 12,
    }


def test_a_failure_is_reported_with_the_line_of_the_playbook(cli: Cli) -> None:
    ended = cli("run", "failing.yaml", "--quiet")
    assert (ended.code, ended.out) == (1, "")
    assert "failing.yaml:12: error: ValueError: no day in [] (step start, task check, attempt 1)" in ended.err


def test_a_run_that_waits_exits_3_and_goes_on_after_a_patch(cli: Cli) -> None:
    ended = cli("run", "gated.yaml", "--no-wait", "--json")
    report = json.loads(ended.out)
    assert (ended.code, report["status"]) == (3, "waiting")

    assert cli("execution", "patch", report["execution_id"], "--set", "go=true").code == 0
    resumed = cli("execution", "resume", report["execution_id"])
    assert resumed.code == 0, resumed.err
    assert json.loads(resumed.out) == {"went": True}


def test_a_run_that_ends_partial_exits_1(cli: Cli) -> None:
    Path("partial.yaml").write_text(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: p, path: tests/p}\n"
        "executor: {spec: {policy: {failure: {mode: best_effort}}}}\nworkflow:\n"
        "- {step: start, next: [good, bad]}\n- {step: good, tool: {kind: noop}}\n"
        "- {step: bad, tool: {kind: python, code: 1 / 0}}\n"
    )
    ended = cli("run", "partial.yaml", "--json")
    assert (ended.code, json.loads(ended.out)["status"]) == (1, "partial")


def test_a_retry_that_is_due_later_is_no_wait_for_input(cli: Cli) -> None:
    Path("retry.yaml").write_text(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: r, path: tests/r}\nworkflow:\n- step: "
        "start\n"
        '  tool: {kind: python, code: "assert attempt > 1; result = attempt", input: {attempt: \'{{ '
        "_attempt }}'},\n"
        "    spec: {policy: {rules: [{when: \"{{ outcome.status == 'error' }}\", then: {do: retry, "
        "delay: 1.2}}]}}}\n"
    )
    ended = cli("run", "retry.yaml", "--no-wait", "--quiet")
    assert (ended.code, ended.out) == (0, "2\n")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["--set", "a=5"], {"sum": 7, "a": 5}),
        (["--set", "b.c=5", "--set", "a=2"], {"sum": 7, "a": 2}),
        (["--set", "b={c: 9}"], {"sum": 10, "a": 1}),
        (["--payload", '{"a": 4}'], {"sum": 6, "a": 4}),
        (["--payload", "values.json"], {"sum": 102, "a": 100}),
        (["--payload", "@values.yaml"], {"sum": 12, "a": 10}),
        (["--payload", "values.yaml", "--set", "a=0.5"], {"sum": 2.5, "a": 0.5}),
    ],
)
def test_workload_values_come_from_options(cli: Cli, given: list[str], expected: dict[str, Any]) -> None:
    Path("values.json").write_text('\ufeff{"a": 100}')
    Path("values.yaml").write_text("# ten\na: 010\n")
    assert json.loads(cli("run", "sum.yaml", "-q", *given).out) == expected


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5), ("0.5", 0.5), ("true", True), ("null", None), ("", ""), ("no", "no"), ("22:22", "22:22"),
        ("2026-01-01", "2026-01-01"), ("#fff", "#fff"), ("a # b", "a # b"), ("a: b", "a: b"), ("[1, x]", [1, "x"]),
        ("{a: {b: 1}}", {"a": {"b": 1}}), ('"5"', "5"), ("[a-z]+", "[a-z]+"), ("{a: [", "{a: ["), ("a=b", "a=b"),
        ("{{ a }}", "{{ a }}"), (" padded ", " padded "), ("a\nb", "a\nb"), ("010", 10), ("*x", "*x"), ("- 1", "- 1"),
    ],
)  # fmt: skip
def test_values_of_set_are_typed_as_in_playbooks(cli: Cli, text: str, value: Any) -> None:
    Path("echo.yaml").write_text(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: e, path: tests/e}\n"
        "workflow: [{step: start, tool: {kind: noop, input: {v: '{{ v }}'}}}]\n"
    )
    assert json.loads(cli("run", "echo.yaml", "-q", "--set", f"v={text}").out) == {"v": value}


WRONG: dict[str, tuple[list[str], str]] = {
    "no file": (["run", "nothing.yaml"], "There is no file 'nothing.yaml'."),
    "a directory": (["run", "."], "'.' is a directory, not a file."),
    "a binary file": (["run", "binary"], "'binary' is not text in UTF-8: line 2 has the byte 0xFF."),
    "an empty file": (["run", "empty"], "empty:1:1: error[NOETL112]: the document is empty"),
    "no argument": (["run"], "Missing argument 'FILE'"),
    "an unknown option": (["run", "sum.yaml", "--jsno"], "--json"),
    "a word": (["run", "sum.yaml", "extra"], "unexpected extra argument"),
    "set without value": (["run", "sum.yaml", "--set", "a"], "--set 'a' is not an assignment"),
    "set without name": (["run", "sum.yaml", "--set", "=1"], "--set '=1' is not an assignment"),
    "set with a gap": (["run", "sum.yaml", "--set", "a..b=1"], "--set 'a..b=1' is not an assignment"),
    "set to nan": (["run", "sum.yaml", "--set", "a=.nan"], "--set '.nan' cannot be used"),
    "set to a huge number": (["run", "sum.yaml", "--set", "a=" + "9" * 5_000], "digits"),
    "payload that is empty": (["run", "sum.yaml", "--payload", ""], "--payload is empty"),
    "payload that is no JSON": (["run", "sum.yaml", "--payload", "{a"], "--payload is not JSON"),
    "payload that is a list": (["run", "sum.yaml", "--payload", "[1]"], "--payload must hold a mapping"),
    "payload with nan": (["run", "sum.yaml", "--payload", '{"a": NaN}'], "NaN is no number of JSON"),
    "payload that is deep": (["run", "sum.yaml", "--payload", '{"a":' + "[" * 50_000], "--payload is not "
                                                                                       "JSON"),
    "payload of 5,000 digits": (["run", "sum.yaml", "--payload", '{"a": ' + "9" * 5_000 + "}"], "--payload is not JSON"),
    "payload without its file": (["run", "sum.yaml", "--payload", "nothing.json"], "There is no file "
                                                                                   "'nothing.json'."),
    "payload from a binary file": (["run", "sum.yaml", "--payload", "binary"], "'binary' is not text in "
                                                                               "UTF-8"),
    "payload that refers to itself": (["run", "sum.yaml", "--payload", "circle.yaml"], "circle.yaml:1:"),
    "payload with a tag": (["run", "sum.yaml", "--payload", "tag.yaml"], "tag.yaml:1:"),
    "a server that is none": (["run", "sum.yaml", "--server", "127.0.0.1:1"], "127.0.0.1:1"),
    "a mistyped command": (["rnu", "sum.yaml"], "Did you mean 'run'?"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_was_typed_wrongly_is_said_in_a_sentence_and_exits_2(cli: Cli, name: str) -> None:
    Path("binary").write_bytes(b"a: 1\nb: \xff\xfe\x00")
    Path("empty").write_text("")
    Path("circle.yaml").write_text("a: &a [*a]\n")
    Path("tag.yaml").write_text("a: !!python/object/apply:os.system [id]\n")
    argv, message = WRONG[name]
    ended = cli(*argv)
    assert message in ended.err
    assert (ended.code, ended.out) == (2, "")
    assert cli("execution", "list", "--json").out == "[]\n"  # nothing was begun


def test_a_server_that_does_not_answer_is_no_fault_of_the_input(cli: Cli) -> None:
    ended = cli("run", "sum.yaml", "--server", "http://127.0.0.1:9")
    assert ended.code == 1
    assert ended.err.startswith("error: The server at http://127.0.0.1:9 does not answer")
    assert ended.err.count("\n") == 1


def test_all_problems_of_a_playbook_are_reported_once_each(cli: Cli) -> None:
    Path("bad.yaml").write_text(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: x, path: x}\nworkflow:\n"
        "- {step: start, tool: {kind: pyhton}, next: edn}\n- step: end\n"
    )
    ended = cli("run", "bad.yaml")
    lines = ended.err.splitlines()
    assert ended.code == 2
    assert lines[0].startswith(
        "bad.yaml:5:30: error[NOETL302]: no tool of kind 'pyhton' is installed (did you mean 'python'?"
    )
    assert lines[1].startswith("bad.yaml:5:45: error[NOETL301]: there is no step 'edn' (did you mean 'end'?)")
    assert lines[2:] == ["error: bad.yaml cannot be run: 2 errors."]


def test_a_file_that_was_mistyped_is_guessed(cli: Cli) -> None:
    ended = cli("run", "sun.yaml")
    assert (ended.code, ended.err) == (2, "error: There is no file 'sun.yaml'. Did you mean 'sum.yaml'?\n")
    assert cli("run", "sum").err == "error: There is no file 'sum'. Did you mean 'sum.yaml'?\n"
    Path("sup.txt").touch()
    for other in ("nofile.yaml", "sip.yaml"):
        assert cli("run", other).err == f"error: There is no file {other!r}.\n"
    assert cli("run", "nowhere/sum.yaml").err == "error: There is no file 'nowhere/sum.yaml'.\n"


def test_a_value_that_the_playbook_does_not_know_is_an_error_unless_it_is_added(cli: Cli) -> None:
    Path("days.yaml").write_text(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: days, path: tests/days}\n"
        "workload: {days: 1}\nworkflow: [{step: start, tool: {kind: noop, input: {days: '{{ days }}'}}}]\n"
    )
    mistyped = cli("run", "days.yaml", "--set", "dais=2")
    assert (mistyped.code, mistyped.out) == (2, "")
    assert "has no 'dais' to set, and no template reads it. Did you mean 'days'?" in mistyped.err
    assert cli("execution", "list").out.count("tests/days") == 0
    added = cli("run", "days.yaml", "--set", "+extra=2", "--set", "days=3")
    assert (added.code, json.loads(added.out)) == (0, {"days": 3})
    assert "warning" not in added.err


QUIET = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: quiet, path: tests/quiet}
workload: {name: Ada}
workflow:
  - step: start
    tool:
      name: risky
      kind: python
      input: {total: "{{ workload.totl }}"}
      code: raise ValueError("no")
      spec: {policy: {rules: [{else: {then: {do: continue}}}]}}
    next: rows
  - step: rows
    loop: {in: [{n: 1}, {n: 2, token: abcdefgh}], iterator: row, spec: {policy: {failure: {mode: best_effort}}}}
    tool: {kind: python, input: {n: "{{ row.n }}"}, code: "result = 1 / (n - 2)"}
"""


def test_what_went_wrong_silently_is_shown_by_run_show_and_list(cli: Cli) -> None:
    """Names that nothing defined, errors that a policy or a loop went on after, a payload that
    nothing reads."""
    Path("quiet.yaml").write_text(QUIET)
    ran = cli("run", "quiet.yaml", "--payload", '{"nmae": 1}')
    assert ran.code == 0
    assert "start: done, 1 ignored error, in " in ran.err
    assert "rows: done, 1 of 2, 1 failed, in " in ran.err
    assert "2 ignored errors)" in ran.err
    null = (
        "The template `{{ workload.totl }}` of `input.total` is undefined and became null. (step "
        "start, task risky)"
    )
    assert f"quiet.yaml:10: warning: {null}" in ran.err
    assert "warning: The workload has no 'nmae', and no template reads it" in ran.err

    (listed,) = json.loads(cli("execution", "list", "--json").out)
    assert (listed["errors_passed_over"], listed["warnings_count"]) == (2, 2)
    assert "completed, 2 ignored errors, 2 warnings" in cli("execution", "list").out
    shown = cli("execution", "show", listed["execution_id"]).out
    assert "done, 1 ignored error" in shown
    assert "done, 1 of 2, 1 failed" in shown
    assert "error: ValueError: no (step start, task risky, attempt 1)" in shown
    assert 'iteration 1: {"n": 2, "token": "***"}' in shown
    assert null in shown

    told = json.loads(cli("run", "quiet.yaml", "--json").out)
    of_run = [one for one in told["warnings"] if one["source"] == "run"]
    assert [one["template"] for one in of_run] == ["{{ workload.totl }}"]
    of_playbook = [one["code"] for one in told["warnings"] if one["source"] == "playbook"]
    assert of_playbook == ["NOETL450", "NOETL253"]
    assert told["steps"]["rows"]["errors"]["text"] == "1 of 2, 1 failed"


CALLS = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: calls, path: tests/calls}
workflow:
  - step: ask
    tool:
      kind: python
      input: {n: 2}
      code: "result = {'n': n, 'inverse': 1 / n}"
      repeat: {next: {args: {n: "{{ output.data.n - 1 }}"}}}
      spec: {policy: {rules: [{else: {then: {do: continue}}}]}}
"""


def test_progress_counts_the_error_of_a_call_after_which_a_repeat_went_on(cli: Cli) -> None:
    Path("calls.yaml").write_text(CALLS)
    ran = cli("run", "calls.yaml")
    assert ran.code == 0
    assert "ask: went on after an error: division by zero" in ran.err
    assert "ask: done, 1 ignored error, in " in ran.err
