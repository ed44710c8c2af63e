"""Business keys on the command line: `--key`, and a key in the place of an id."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable

import pytest

from .conftest import Cli


def _waiting(cli: Cli, key: str, *more: str) -> str:
    ended = cli("run", "gated.yaml", "--no-wait", "--json", "--key", key, *more)
    assert ended.code == 3, ended.err
    return str(json.loads(ended.out)["execution_id"])


def test_a_key_is_given_shown_and_listed(cli: Cli) -> None:
    cli("run", "sum.yaml", "-q")
    assert "key" not in cli("execution", "list").out.splitlines()[0]
    run = _waiting(cli, "order/7 ✓")
    assert cli("execution", "list").out.splitlines()[0].split()[:2] == ["execution", "key"]
    (row,) = json.loads(cli("execution", "list", "--key", "order/7 ✓", "--json").out)
    assert (row["execution_id"], row["key"]) == (run, "order/7 ✓")
    assert "key order/7 ✓" in cli("execution", "show", run).out.splitlines()


@pytest.mark.parametrize("address", ["order/7 ✓", "tests/gated:order/7 ✓"])
def test_commands_take_a_key_in_the_place_of_an_id(cli: Cli, address: str) -> None:
    run = _waiting(cli, "order/7 ✓")
    assert cli("execution", "show", address).out.startswith(run)
    assert json.loads(cli("execution", "explain", address, "--json").out)["execution_id"] == run
    assert json.loads(cli("execution", "diff", address, run, "--json").out)["same"]
    assert json.loads(cli("execution", "replay", address, "--json").out)["execution_id"] == run
    assert cli("execution", "logs", address).code == 0
    assert run in cli("execution", "events", address, "--json").out
    assert f"ctx of {run} is patched" in cli("execution", "patch", address, "--set", "go=true").out
    assert f"{run}: pause requested" in cli("execution", "pause", address).out
    cli("execution", "resume", address)
    cli("execution", "resume", address)
    assert cli("execution", "show", address).out.splitlines()[0].endswith("completed")
    assert cli("execution", "retry", address, "--dry-run").code == 0
    assert cli("execution", "export", address).code == 0


def test_a_run_is_refused_or_shows_or_cancels_the_open_one(cli: Cli) -> None:
    run = _waiting(cli, "k")
    refused = cli("run", "gated.yaml", "--no-wait", "--key", "k")
    assert refused.code == 1
    assert f"Execution {run} of playbook 'tests/gated' is open and has the key 'k'" in refused.err
    shown = cli("run", "gated.yaml", "--no-wait", "--key", "k", "--on-conflict", "return", "--json")
    assert (shown.code, json.loads(shown.out)["execution_id"]) == (3, run)
    assert f"Execution {run} is open and has this key" in shown.err
    other = _waiting(cli, "k", "--on-conflict", "cancel_other")
    assert cli("execution", "show", "k").out.startswith(other)
    assert f"execution {other} was started with its key" in cli("execution", "events", run, "--json").out


def test_what_names_nothing_or_too_much_is_one_sentence(cli: Cli) -> None:
    _waiting(cli, "same")
    cli("run", "sum.yaml", "-q", "--key", "same")
    for address, told in (
        ("nothing", "There is no execution 'nothing': nothing has that id or business key."),
        ("12", "There is no execution '12'."),
        ("same", "name the one that you mean: 'tests/gated:same', 'tests/sum:same'."),
    ):
        ended = cli("execution", "show", address)
        assert (ended.code, told in ended.err) == (2, True), ended.err
    assert cli("execution", "show", "tests/sum:same").code == 0
    wrong = cli("run", "sum.yaml", "--key", " ")
    assert (wrong.code, "`key` is empty" in wrong.err) == (2, True)


def test_the_installed_command_takes_a_key(cli: Cli, program: Callable[..., subprocess.Popen[str]]) -> None:
    run = _waiting(cli, "100% sure?")
    out, err = program("execution", "show", "100% sure?").communicate()
    assert (out.split()[0], err) == (run, "")
