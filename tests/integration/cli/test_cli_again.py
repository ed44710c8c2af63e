"""`noetl execution retry` and `fork`, as they are typed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests import zygote
from tests.ports import free_port

from .conftest import Cli

FLOW = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: flow, path: tests/flow}
workload: {rows: 3, price: 2}
workflow:
  - step: start
    tool:
      kind: python
      input: {rows: "{{ workload.rows }}"}
      code: |
        open("started", "a").write("x")
        result = list(range(rows))
    next: sum
  - step: sum
    tool:
      kind: python
      input: {rows: "{{ start }}", price: "{{ workload.price }}"}
      code: |
        result = sum(rows) * price / 0
"""


@pytest.fixture
def flow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "flow.yaml"
    file.write_text(FLOW)
    return file


def _failed(cli: Cli, flow: Path) -> str:
    ended = cli("run", str(flow), "-q")
    assert ended.code == 1
    return re.search(r"failed (\d+) ", ended.err)[1]  # type: ignore[index]


def _mend(flow: Path) -> None:
    flow.write_text(FLOW.replace(" / 0", ""))


def test_a_failed_run_says_how_to_go_on_and_that_command_does(cli: Cli, flow: Path) -> None:
    ended = cli("run", str(flow), "-q")
    command = ended.err.strip().splitlines()[-1].partition(": noetl ")[2]
    _mend(flow)
    again = cli(*command.split())
    assert (again.code, again.out.strip()) == (0, "6")
    assert "start  reuse" in again.err
    assert "sum    rerun  its code changed" in again.err
    assert (flow.parent / "started").read_text() == "x"


def test_a_failed_run_whose_calls_may_have_had_effects_shows_their_plan_and_how_to_confirm(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "post.yaml").write_text(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: post, path: tests/post}\nworkflow:\n"
        f"  - {{step: start, tool: {{kind: http, method: POST, url: 'http://127.0.0.1:{free_port()}/x'}}}}\n"
    )
    ended = cli("run", "post.yaml", "-q")
    go_on, about = ended.err.strip().splitlines()[-2:]
    words = go_on.partition(": noetl ")[2].split()
    assert words[-1] == "--dry-run"
    assert "may have had effects (task_0 of step 'start')" in about
    assert cli(*words).code == 0
    again = cli(*words[:-1], "--yes", "-q")
    assert (again.code, "tests/post" in cli("execution", "list", "--json").out) == (1, True)


RETRIED = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: flow, path: tests/flow}
workflow:
  - step: items
    loop: {in: [0, 1, 2, 3], iterator: n, spec: {policy: {failure: {mode: run_all}}}}
    tool:
      kind: python
      input: {n: "{{ iter.n }}"}
      code: |
        from pathlib import Path
        first = not Path(f"tried-{n}").exists()
        Path(f"tried-{n}").touch()
        if (n == 1 and first) or (n == 2 and not Path("mended").exists()):
            raise ValueError(f"no luck with {n}")
      spec: {policy: {rules: [{when: "{{ error is defined }}", then: {do: retry, attempts: 2, delay: 0}}]}}
"""


def test_a_retry_tells_only_what_happens_in_it(cli: Cli, flow: Path) -> None:
    flow.write_text(RETRIED)
    ended = cli("run", str(flow))
    assert "items[1]: attempt 1 failed" in ended.err
    Path("mended").touch()
    execution_id = re.search(r"failed (\d+) ", ended.err)[1]  # type: ignore[index]
    again = cli("execution", "retry", execution_id)
    assert again.code == 0
    told = [line for line in again.err.splitlines() if line.startswith("items")]
    assert told[:-1] == ["items: started", "items: loop over 4 items", "items: 4 of 4"]
    assert re.search(r"^items: done, 3 reused, in \d", told[-1])


def test_the_plan_changes_nothing(cli: Cli, flow: Path) -> None:
    first = _failed(cli, flow)
    planned = json.loads(cli("execution", "retry", first, "--dry-run", "--json").out)
    assert [(run["step"], run["verdict"]) for run in planned["runs"]] == [
        ("start", "reuse"),
        ("sum", "rerun"),
    ]
    assert planned["runs"][1]["reason"] == "it failed: division by zero"
    assert [row["execution_id"] for row in json.loads(cli("execution", "list", "--json").out)] == [first]


def test_a_script_that_was_changed_is_other_code(
    cli: Cli, flow: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = flow.parent / "rows.py"
    script.write_text("result = [1, 2]\n")
    flow.write_text(
        re.sub(
            r"      code: \|\n        open.*?range\(rows\)\)\n",
            "      script: rows.py\n",
            FLOW,
            flags=re.DOTALL,
        )
    )
    first = _failed(cli, flow)
    flow.write_text(flow.read_text().replace(" / 0", ""))
    words = ("execution", "retry", first, "--playbook", "flow.yaml", "--dry-run", "--json")
    assert json.loads(cli(*words).out)["runs"][0]["verdict"] == "reuse"
    script.write_text("result = [3]\n")
    planned = json.loads(cli(*words).out)["runs"][0]
    assert (planned["verdict"], planned["reason"]) == ("rerun", "file rows.py changed")
    again = cli(*words[:5], "--yes")
    assert again.out.strip() == "6"
    # Names start where they did, wherever the command is typed.
    elsewhere = flow.parent / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    last = re.search(r"completed (\d+) ", again.err)[1]  # type: ignore[index]
    assert cli("execution", "retry", last, "--from", "start", "--yes").out.strip() == "6"


def test_lineage_is_listed_and_shown(cli: Cli, flow: Path) -> None:
    first = _failed(cli, flow)
    _mend(flow)
    second = json.loads(cli("execution", "retry", first, "--playbook", "flow.yaml", "--json").out)[
        "execution_id"
    ]
    (row,) = json.loads(cli("execution", "list", "--source", first, "--json").out)
    assert (row["execution_id"], row["source_id"], row["descent"]) == (second, first, "retry")
    shown = cli("execution", "show", second).out
    assert f"retry of {first}" in shown
    assert "done, 1 reused" in shown


def test_a_fork_goes_on_from_before_a_step(cli: Cli, flow: Path) -> None:
    _mend(flow)
    first = json.loads(cli("run", str(flow), "--json").out)["execution_id"]
    forked = cli("execution", "fork", first, "--before", "sum", "--json")
    assert (forked.code, json.loads(forked.out)["result"]) == (0, 6)
    assert (flow.parent / "started").read_text() == "x"


def test_effects_that_may_happen_twice_are_asked_for(cli: Cli, flow: Path) -> None:
    first = _failed(cli, flow)
    refused = cli("execution", "retry", first, "--from", "start")
    assert refused.code == 1
    assert "again: task_0 of step 'start' may have had effects" in refused.err
    assert "confirm (--yes" in refused.err
    assert cli("execution", "retry", first, "--from", "start", "--yes").code == 1
    assert (flow.parent / "started").read_text() == "xx"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("retry", "{id}", "--from", "strat"), "Did you mean 'start'?"),
        (("retry", "{id}", "--version", "9"), "has no version 9"),
        (("retry", "{id}", "--version", "x"), "--version is a number from 1, or `latest`"),
        (("retry", "{id}", "--playbook", "flow.yaml", "--version", "1"), "exclude each other"),
        (("retry", "{id}", "--set", "pirce=1"), "Did you mean 'price'?"),
        (("retry", "42"), "There is no execution '42'."),
        (("fork", "{id}"), "at a version, or before a step"),
        (("fork", "{id}", "--before", "smu"), "Did you mean 'sum'?"),
        (("fork", "{id}", "--at", "999"), "has versions 1 to"),
    ],
)
def test_what_cannot_be_is_one_sentence(cli: Cli, flow: Path, words: tuple[str, ...], told: str) -> None:
    first = _failed(cli, flow)
    ended = cli("execution", *(word.format(id=first) for word in words))
    assert (ended.code, told in ended.err, "Traceback" in ended.err) == (2, True, False), ended.err


def test_from_outside_in_a_process_of_its_own(cli: Cli, flow: Path) -> None:
    first = _failed(cli, flow)
    _mend(flow)
    argv = ["noetl", "execution", "retry", first, "--playbook", "flow.yaml"]
    done = zygote.run(argv, capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, "6"), done.stderr
