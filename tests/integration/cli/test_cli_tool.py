"""`noetl tool`: what is installed, what it takes, and one call of it."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from noetl.cli.tool import call_tool
from noetl.facts.outcome import Outcome, succeeded
from noetl.pipeline.model import Call, Later, Suspension, Where
from noetl.tools.kit.registry import kinds
from tests.waiting import until

from .conftest import Cli


def test_every_kind_is_listed_with_where_it_comes_from(cli: Cli) -> None:
    ended = cli("tool", "list", "--json")
    listed = {one["kind"]: one for one in json.loads(ended.out)}
    assert set(listed) == set(kinds())
    assert listed["noop"] == {
        "kind": "noop",
        "queue": "python",
        "effects": "none",
        "origin": "built in",
        "description": "Does nothing and yields its input, or its `result`.",
    }
    assert "http\thttp\texternal\tbuilt in\t" in cli("tool", "list").out


def test_a_kind_is_shown_with_every_key_and_an_example(cli: Cli) -> None:
    shown = json.loads(cli("tool", "show", "sqlite", "--json").out)
    keys = {key["name"]: key for key in shown["keys"]}
    assert keys["busy_timeout"] == {
        "name": "busy_timeout",
        "type": "number or text",
        "required": False,
        "default": 30.0,
        "description": "How long to wait for others that use the file.",
    }
    assert "table" in shown["one_of"][0]
    text = cli("tool", "show", "sqlite").out
    assert "busy_timeout" in text
    assert "](" not in text
    assert "- step: count" in text


@pytest.mark.parametrize("command", ["show", "test"])
def test_a_kind_that_is_not_installed_is_reported_with_the_nearest_one(cli: Cli, command: str) -> None:
    ended = cli("tool", command, "shel")
    assert (ended.code, ended.err) == (2, "error: There is no tool of kind 'shel'. Did you mean 'shell'?\n")


def test_a_call_that_went_well_prints_its_result(cli: Cli) -> None:
    ended = cli("tool", "test", "noop", "--input", "{a: [1, no]}")
    assert (ended.code, json.loads(ended.out)) == (0, {"a": [1, "no"]})
    assert ended.err.startswith("ok noop (")


def test_the_configuration_may_be_yaml_json_or_a_file(cli: Cli) -> None:
    Path("call.yaml").write_text("argv: [echo, hi]\n")
    for config in ("argv: [echo, hi]", '{"argv": ["echo", "hi"]}', "@call.yaml"):
        ended = cli("tool", "test", "shell", "--config", config, "--json")
        assert ended.code == 0
        assert json.loads(ended.out)["result"]["stdout"] == "hi\n"
        assert ended.err == ""


def test_a_call_that_failed_says_so_and_ends_with_1(cli: Cli) -> None:
    ended = cli("tool", "test", "shell", "--config", "command: exit 3")
    assert (ended.code, ended.out) == (1, "")
    assert "error: shell: The command ended with exit status 3." in ended.err


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["shell"], "The shell task needs 'command' or 'argv' or 'commands'"),
        (["shell", "--config", "argv: 3"], "'argv' of the shell task is not usable"),
        (["shell", "--config", "[1]"], "--config must hold a mapping"),
        (["shell", "--config", "a: ["], "--config:"),
        (["shell", "--config", "@none.yaml"], "There is no file 'none.yaml'"),
        (["noop", "--input", "3"], "--input"),
        (["noop", "--timeout", "soon"], "--timeout cannot be used: 'soon' is not a duration"),
        (["noop", "--timeout", "0"], "--timeout is zero"),
        (["playbook", "--config", "path: a/b"], "asks for another execution; try it with `noetl run`"),
    ],
)
def test_what_cannot_be_called_is_wrong_input(cli: Cli, argv: list[str], said: str) -> None:
    ended = cli("tool", "test", *argv)
    assert ended.code == 2
    assert said in ended.err


def test_unknown_keys_and_templates_are_warned_of(cli: Cli) -> None:
    ended = cli("tool", "test", "shell", "--config", "{argv: [echo, '{{ x }}'], evn: {}}")
    assert ended.code == 0
    assert "warning: templates are not rendered here." in ended.err
    assert "warning: The key 'evn' means nothing to the shell tool; did you mean 'env'?" in ended.err
    assert "{{ x }}" in ended.out


def test_credentials_and_files_are_those_of_a_run(cli: Cli) -> None:
    cli("credential", "set", "book", "--type", "generic", "--data", '{"database": "x.db"}')
    ended = cli("tool", "test", "postgres", "--config", "{command: select 1, auth: boook}")
    assert ended.code == 1
    assert "'book'" in ended.err
    made = cli("tool", "test", "sqlite", "--config", "{database: x.db, command: create table t (a)}")
    assert made.code == 0
    assert Path("x.db").exists()


def test_a_tool_that_wants_to_be_called_again_is_with_its_checkpoint() -> None:
    class Patient:
        def run(self, call: Call) -> Outcome | Suspension:
            seen = [*(call.checkpoint or ()), call.attempt]
            return succeeded(seen) if len(seen) == 3 else Later(0.0, seen)

        def interrupt(self, call: Call) -> None:
            raise AssertionError

    call = Call("patient", {}, {}, {}, Where("0", "r", "s"), "t", 1, "key")
    assert call_tool(Patient(), call).result == [1, 1, 1]


def test_its_deadline_is_one_for_all_calls_and_waits() -> None:
    class Endless:
        calls = 0

        def run(self, call: Call) -> Outcome | Suspension:
            self.calls += 1
            return Later(0.05 if self.calls < 3 else 3_600.0)

        def interrupt(self, call: Call) -> None:
            raise AssertionError

    call = Call("endless", {}, {}, {}, Where("0", "r", "s"), "t", 1, "key", deadline_s=1.0)
    ended = call_tool(Endless(), call)
    assert ended.error is not None
    assert (ended.error.kind, ended.error.retryable) == ("timeout", True)


def test_ctrl_c_ends_the_call(program: Callable[..., subprocess.Popen[str]]) -> None:
    config = "command: touch began; sleep 600; touch over"
    process = program("tool", "test", "shell", "--config", config)
    until(lambda: Path("began").exists() or process.poll() is not None, "the call to begin")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130
    assert "Interrupted." in err
    assert not Path("over").exists()
