"""`noetl run` of a playbook whose policy retries it: every attempt is followed, to the last one."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeAlias

import pytest

from noetl.store import sql

from .conftest import Cli

Program: TypeAlias = Callable[..., "subprocess.Popen[str]"]

STUBBORN = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: stubborn, path: tests/stubborn}
executor: {spec: {policy: {retry: {attempts: 3, delay: DELAY}}}}
workflow:
  - step: start
    tool:
      kind: python
      code: |
        open("started", "a").write("x")
        result = 20
    next: work
  - step: work
    tool:
      kind: python
      input: {n: "{{ start }}"}
      code: |
        with open("tries", "a+") as file:
            file.write("x")
            file.seek(0)
            if len(file.read()) < FAILURES:
                raise ValueError("not yet")
        result = n + 1
"""


def _write(delay: str, failures: int = 3) -> None:
    Path("stubborn.yaml").write_text(STUBBORN.replace("DELAY", delay).replace("FAILURES", str(failures)))


def test_run_follows_every_attempt_and_ends_as_the_last_one(cli: Cli) -> None:
    _write("200ms")
    ended = cli("run", "stubborn.yaml")
    assert (ended.code, ended.out.strip()) == (0, "21")
    assert Path("started").read_text() == "x"
    assert Path("tries").read_text() == "xxx"
    assert re.search(r"failed\. It will be retried at \S+ as attempt 2 of 3\.", ended.err)
    first = ended.err.partition(" failed.")[0].splitlines()[-1]
    assert "and execution" in cli("execution", "cancel", first).err
    (last,) = re.findall(r"It is retried by execution (\d+), as attempt 3 of 3\.", ended.err)
    assert f"completed {last}" in ended.err


def test_the_last_failure_is_that_of_the_command_and_says_that_it_was_the_last(cli: Cli) -> None:
    _write("0", failures=9)
    ended = cli("run", "stubborn.yaml")
    assert ended.code == 1
    assert Path("tries").read_text() == "xxx"
    assert "It is not retried by itself: attempt 3 of 3 was the last." in ended.err
    report = json.loads(cli("run", "stubborn.yaml", "--json").out)
    assert report["error"]["message"] == "not yet"


def _begin(program: Program) -> tuple[subprocess.Popen[str], str]:
    """A run that waits for its second attempt, and its id."""
    run = program("run", "stubborn.yaml", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert run.stderr is not None
    for line in run.stderr:
        if found := re.match(r"(\d+) failed\. It will be retried", line):
            return run, found[1]
    raise AssertionError(f"it ended: {run.wait()}")


def test_cancel_calls_off_what_waits_and_the_run_ends(cli: Cli, program: Program) -> None:
    _write("1h")
    run, first = _begin(program)
    shown = cli("execution", "show", first).out
    assert "It will be retried at" in shown
    assert "It will be retried at" in cli("execution", "explain", first).out
    cancelled = cli("execution", "cancel", first, "--reason", "not today")
    assert (cancelled.code, cancelled.out) == (0, f"{first}: its retry is called off (now failed).\n")
    _, err = run.communicate()
    assert run.returncode == 1
    assert "Its retry, attempt 2 of 3, was called off (not today)." in err
    assert cli("execution", "cancel", first).code == 1


def test_ctrl_c_calls_off_the_next_attempt(program: Program, cli: Cli) -> None:
    _write("1h")
    run, first = _begin(program)
    run.send_signal(signal.SIGINT)
    _, err = run.communicate()
    assert run.returncode == 1
    assert "was called off (interrupted from the keyboard)." in err
    assert len(json.loads(cli("execution", "list", "--json").out)) == 1
    assert "was called off" in cli("execution", "show", first).out


def test_a_run_that_was_killed_between_attempts_goes_on_with_resume(
    cli: Cli, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write("1h", failures=2)
    run, first = _begin(program)
    refused = cli("execution", "resume", first)
    assert "runs in another process of this machine" in refused.err
    run.kill()
    run.communicate()
    # An hour later.
    monkeypatch.setattr(sql, "read_machine_clock", lambda: datetime.now(UTC) + timedelta(hours=1, minutes=1))
    resumed = cli("execution", "resume", first)
    assert (resumed.code, resumed.out.strip()) == (0, "21"), resumed.err
    assert Path("started").read_text() == "x"
    assert Path("tries").read_text() == "xx"


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        ("{attempts: 1}", "attempts: 1 counts the first execution: nothing is retried"),
        ("{attempts: 0}", "all executions are counted: a whole number from 1, or a template"),
        ("{delay: soon}", "'soon' is not a duration"),
        ("{attempst: 2}", "did you mean 'attempts'?"),
        ("{when: \"{{ eror.kind == 'timeout' }}\"}", "did you mean 'error'?"),
        ("{backoff: growing}", "none, fixed, linear"),
        ("3", "mapping"),
    ],
)
def test_a_policy_that_is_wrong_is_one_sentence(cli: Cli, policy: str, told: str) -> None:
    Path("wrong.yaml").write_text(STUBBORN.replace("{attempts: 3, delay: DELAY}", policy))
    ended = cli("validate", "--strict", "wrong.yaml")
    assert ended.code != 0
    assert told in ended.out + ended.err
    assert "Traceback" not in ended.err
