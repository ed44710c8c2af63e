"""`noetl approvals`, `execution approve` and `execution reject`."""

from __future__ import annotations

import json
import os
import pty
from pathlib import Path
from typing import Any

import pytest

from noetl.local_access import local_caller
from tests import zygote

from .conftest import Cli

SIGNS = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: signs, path: tests/signs}
workload: {n: 3, by: null}
workflow:
  - step: sign
    tool:
      kind: wait
      approval:
        message: "Pay {{ workload.n }}?"
        show: {order: 7}
        form:
          amount: {type: integer, min: 1, default: "{{ workload.n }}", description: in EUR}
          zip: {type: string, required: true}
          kind: {enum: [small, 2]}
          sure: boolean
          more: {type: object, properties: {day: date}}
"""
TWO = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: two, path: tests/two}
workflow:
  - {step: start, next: [a, b]}
  - {step: a, tool: {kind: wait, approval: {by: nobody-here}}}
  - {step: b, tool: {kind: wait, any: {"the cfo": {approval: {message: Well?}}, late: {timer: 1h}}}}
"""


def waiting(cli: Cli, text: str) -> str:
    Path("asks.yaml").write_text(text)
    ended = cli("run", "asks.yaml", "--no-wait")
    assert ended.code == 3, ended.err
    found = json.loads(cli("execution", "list", "--json").out)
    return str(found[0]["execution_id"])


def result(cli: Cli, run: str) -> Any:
    assert cli("execution", "resume", run).code == 0
    return json.loads(cli("execution", "show", run, "--json").out)["result"]


def test_a_run_that_waits_says_how_to_answer_it(cli: Cli) -> None:
    Path("asks.yaml").write_text(SIGNS)
    ended = cli("run", "asks.yaml", "--no-wait")
    run = ended.err.split("waiting ")[-1].split()[0]
    assert f"sign: waits for approval: noetl execution approve {run} sign\n" in ended.err
    shown = cli("execution", "show", run).out
    assert f"  Pay 3? (0 of 1): noetl execution approve {run} sign\n" in shown


def test_a_loop_that_asks_says_so_once(cli: Cli) -> None:
    loop = "loop: {in: [1, 2, 3], iterator: x, spec: {mode: parallel}}"
    Path("asks.yaml").write_text(SIGNS.replace("  - step: sign\n", f"  - step: sign\n    {loop}\n"))
    ended = cli("run", "asks.yaml", "--no-wait")
    run = ended.err.split("waiting ")[-1].split()[0]
    assert ended.err.count(f"sign: waits for approval: noetl approvals {run}\n") == 1
    assert cli("approvals", run).out.count("Pay 3?") == 3


def test_what_is_open_is_listed_and_answered(cli: Cli) -> None:
    run = waiting(cli, SIGNS)
    head, row = cli("approvals").out.splitlines()
    assert head.split("\t") == ["execution", "step", "asked", "approved", "since", "until", "message"]
    cells = row.split("\t")
    assert (cells[0], cells[1], cells[2], cells[3], cells[6]) == (run, "sign", "anybody", "0 of 1", "Pay 3?")
    assert json.loads(cli("approvals", run, "--json").out)[0]["show"] == {"order": 7}
    given = cli(
        "execution", "approve", run, "--set", "amount=12", "--set", "zip=01234", "--set", "kind=2",
        "--set", "more.day=2026-01-31", "--reason", "as agreed",
    )  # fmt: skip
    assert given.out.startswith(f"{run}: sign is approved (now waiting).")
    found = result(cli, run)
    assert found["by"] == [local_caller().principal]
    assert found["answers"][0]["reason"] == "as agreed"
    assert found["values"] == {
        "amount": 12,
        "zip": "01234",
        "kind": 2,
        "sure": None,
        "more": {"day": "2026-01-31"},
    }
    assert len(cli("approvals").out.splitlines()) == 1


def test_values_come_as_a_mapping_too_and_faults_are_one_sentence(cli: Cli) -> None:
    run = waiting(cli, SIGNS)
    wrong = cli("execution", "approve", run, "--values", '{"amount": 0}')
    assert wrong.code == 2
    assert wrong.err == (
        "error: The form of step 'sign' cannot be filled in so: amount: must be at least 1, and is 0; zip: is "
        "required, and was not given.\n"
    )
    Path("values.yaml").write_text("{amount: 4, zip: 'x'}")
    answer = cli("execution", "approve", run, "--values", "@values.yaml", "--set", "zip=y", "--json")
    assert json.loads(answer.out)["existing"] is False
    again = cli("execution", "approve", run, "--values", "{amount: 4, zip: y}", "--json")
    assert json.loads(again.out)["existing"] is True
    assert (
        "sign had been approved before"
        in cli("execution", "approve", run, "--values", "{amount: 4, zip: y}").out
    )
    assert result(cli, run)["values"]["zip"] == "y"


def test_a_rejection_fails_the_task(cli: Cli) -> None:
    run = waiting(cli, SIGNS)
    assert "sign is rejected" in cli("execution", "reject", run, "sign", "--reason", "too much").out
    ended = cli("execution", "resume", run)
    assert ended.code == 1
    assert "rejected what task 'task_0' asks for: too much" in ended.err


def test_who_is_not_asked_and_what_is_not_named_is_said(cli: Cli) -> None:
    run = waiting(cli, TWO)
    several = cli("execution", "approve", run)
    assert several.code == 2
    assert "Several approvals" in several.err
    assert "step 'a'" in several.err
    assert "step 'b' (the cfo)" in several.err
    refused = cli("execution", "approve", run, "a")
    assert (refused.code, "Step 'a' asks nobody-here, and os:" in refused.err) == (2, True)
    assert cli("approvals", "--mine").out.count(run) == 1
    assert (
        f"  Well? (0 of 1): noetl execution approve {run} b --name 'the cfo'"
        in cli("execution", "show", run).out
    )
    assert cli("execution", "approve", run, "b", "--name", "the cfo").code == 0


def test_a_person_is_asked_field_by_field(cli: Cli) -> None:
    run = waiting(cli, SIGNS)
    typed = [
        ("amount (integer, from 1; in EUR) [3]: ", "x"),
        ("Error: 'x' is no whole number", ""),
        ("amount (integer, from 1; in EUR) [3]: ", "5"),
        ("zip (string, required): ", ""),
        ("Error: a value is needed", None),
        ("zip (string, required): ", "01234"),
        ("kind (small | 2): ", "2"),
        ("sure (boolean): ", "yes"),
        ("more (object): ", ""),
    ]
    ours, theirs = pty.openpty()
    process = zygote.Popen(
        ["noetl", "execution", "approve", run],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    try:
        shown = answer_prompts(ours, typed)
        assert process.wait() == 0
    finally:
        process.kill()
        os.close(ours)
    assert "Pay 3?" in shown
    assert result(cli, run)["values"] == {
        "amount": 5,
        "zip": "01234",
        "kind": 2,
        "sure": True,
        "more": {"day": None},
    }


def answer_prompts(terminal: int, typed: list[tuple[str, str | None]]) -> str:
    """Types each text once the one before it was shown; returns all that was written."""
    shown, left = "", ""
    for prompt, text in typed:
        while prompt not in left:
            left += os.read(terminal, 4096).decode()
        shown, left = shown + left, left.partition(prompt)[2]
        if text is not None and not prompt.startswith("Error"):
            os.write(terminal, f"{text}\n".encode())
    try:
        while block := os.read(terminal, 4096):
            shown += block.decode()
    except OSError:  # how Linux says that nobody writes any more
        pass
    return shown


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("approve", "1"), "There is no execution '1'."),
        (("approve", "{run}", "--set", "zip"), "is not an assignment"),
        (("approve", "{run}", "--values", "[1]"), "--values"),
        (("approve", "{run}", "--iteration", "-1"), "--iteration"),
        (("reject", "{run}", "sing"), "Did you mean 'sign'?"),
        (("reject", "{run}", "--reason", "x" * 1001), "up to 1000 characters"),
    ],
)
def test_what_cannot_be_an_answer_is_said_and_nothing_is_lost(
    cli: Cli, argv: tuple[str, ...], said: str
) -> None:
    run = waiting(cli, SIGNS)
    ended = cli("execution", *(word.replace("{run}", run) for word in argv))
    assert ended.code == 2
    assert said in ended.err
    assert cli("approvals").out.count(run) == 1
