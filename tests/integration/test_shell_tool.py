"""kind: shell, in real processes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from noetl.facts.outcome import ErrorInfo, Outcome
from noetl.pipeline.model import Call, Where
from noetl.tools.code.runner.client import Runner
from noetl.tools.kit.base import Services
from noetl.tools.kit.files import FilePolicy
from noetl.tools.kit.registry import Registry
from tests.waiting import GUARD_S


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    made = Registry(Services(scratch=tmp_path_factory.mktemp("scratch"), file_mb=20))
    yield made
    made.close()


def run(registry: Registry, /, deadline_s: float = GUARD_S, **config: Any) -> Outcome:
    return registry.run(Call("shell", config, {}, {}, Where("1", "r", "s"), "t", 1, "key", deadline_s))


def error(registry: Registry, /, **config: Any) -> ErrorInfo:
    outcome = run(registry, **config)
    assert outcome.error is not None
    return outcome.error


def test_a_command_yields_status_and_output(registry: Registry) -> None:
    outcome = run(registry, command="echo out; echo err >&2")
    assert outcome.result == {"exit_code": 0, "stdout": "out\n", "stderr": "err\n"}


def test_a_status_other_than_zero_is_an_error_with_the_last_line_of_stderr(registry: Registry) -> None:
    outcome = run(registry, command="echo partial; echo first >&2; echo last >&2; exit 3")
    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.status) == ("shell", 3)
    assert outcome.error.message == "The command ended with exit status 3: last"
    assert outcome.extras["shell"] == {"exit_code": 3, "stdout": "partial\n", "stderr": "first\nlast\n"}


@pytest.mark.parametrize(
    ("command", "status", "name"), [("kill -9 $$", 137, "SIGKILL"), ("exit 143", 143, "SIGTERM")]
)
def test_a_signal_is_named(registry: Registry, command: str, status: int, name: str) -> None:
    failure = error(registry, command=command)
    assert failure.status == status
    assert failure.message == f"The command ended with exit status {status} ({name})."


def test_arguments_are_literal(registry: Registry) -> None:
    nasty = "; rm -rf / $(id) `id` && x\nsecond line * ~"
    assert run(registry, argv=["printf", "%s", nasty]).result["stdout"] == nasty


def test_commands_run_in_order_until_one_fails(registry: Registry) -> None:
    good = run(registry, commands=["echo one", ["echo", "two"]])
    assert good.result["stdout"] == "one\ntwo\n"
    bad = run(registry, commands=["echo one", "exit 4", "echo never"])
    assert bad.error is not None
    assert bad.error.message == "Command 2 ended with exit status 4."
    assert bad.extras["shell"]["stdout"] == "one\n"


def test_env_and_stdin_reach_the_command_and_settings_do_not(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOETL_SECRET", "s3cret")
    outcome = run(
        registry, command='cat; echo "$N $FLAG $NOETL_SECRET."', env={"N": 5, "FLAG": True}, stdin="typed "
    )
    assert outcome.result["stdout"] == "typed 5 true .\n"


def test_cwd_starts_at_the_playbooks_directory(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "data.txt").write_text("here")
    registry = Registry(
        Services(scratch=tmp_path / "scratch", files=FilePolicy(as_user=True, directories=(tmp_path,)))
    )
    try:
        assert run(registry, command="cat data.txt", cwd="sub").result["stdout"] == "here"
        assert run(registry, command="cat sub/data.txt").result["stdout"] == "here"
        message = error(registry, command="true", cwd="nowhere").message
        assert (
            message
            == f"The directory '{tmp_path}/nowhere' (cwd) cannot be entered: No such file or directory."
        )
    finally:
        registry.close()


@pytest.mark.parametrize(
    ("config", "kind", "message"),
    [
        ({"argv": ["no-such-program"]}, "shell", "The command 'no-such-program' cannot be started"),
        ({"command": "x", "argv": ["y"]}, "client_error", "only one of command and argv may be given"),
        ({}, "client_error", "needs 'command' or 'argv' or 'commands', which is missing or empty"),
        ({"command": ""}, "client_error", "needs 'command'"),
        ({"commands": ["true", ""]}, "client_error", "Command 2 of the shell task is empty"),
        ({"argv": ["echo", "a\0b"]}, "client_error", "contains a NUL character"),
        ({"command": "true", "cwd": "relative"}, "client_error", "'relative' is relative"),
    ],
)
def test_a_call_that_cannot_run_says_why(
    registry: Registry, config: dict[str, Any], kind: str, message: str
) -> None:
    failure = error(registry, **config)
    assert failure.kind == kind
    assert message in failure.message


STOPPED = "mkdir -p out\nno-such-tool-xyz --export out/rows.csv\necho uploaded"


@pytest.mark.parametrize(
    ("config", "status"),
    [
        ({"command": STOPPED}, 127),
        ({"commands": [STOPPED, "echo more"]}, 127),
        ({"command": "exit 3 | cat"}, 3),
        ({"command": "false || true; if false; then exit 4; fi; echo end"}, 0),
        ({"argv": ["bash", "-c", "false; true"]}, 0),
    ],
)
def test_a_text_ends_at_the_first_command_that_fails(
    registry: Registry, config: dict[str, Any], status: int
) -> None:
    call = Call("shell", config, {}, {"errexit": True}, Where("1", "r", "s"), "t", 1, "key", GUARD_S)
    outcome = registry.run(call)
    assert isinstance(outcome, Outcome)
    shell = outcome.result if outcome.ok else outcome.extras["shell"]
    assert (shell["exit_code"], "uploaded" in shell["stdout"], "more" in shell["stdout"]) == (
        status,
        False,
        False,
    )


def test_a_task_of_a_net_that_says_nothing_of_it_runs_to_its_end(registry: Registry) -> None:
    assert run(registry, command=STOPPED).result["stdout"] == "uploaded\n"


def test_long_output_is_cut_at_a_megabyte_and_said_so(registry: Registry) -> None:
    outcome = run(registry, command="head -c 30000000 /dev/zero | tr '\\0' x")
    assert (len(outcome.result["stdout"]), outcome.result["truncated"]) == (1024 * 1024, True)
    assert (outcome.meta["truncated"], outcome.meta["stdout_bytes"]) == (True, 30_000_000)
    (warning,) = outcome.meta["warnings"]
    assert warning.startswith("`stdout` is cut: the task wrote 30,000,000 bytes")


#: Leaves two processes behind, and their ids in a file that is there when both are.
CHILDREN = "setsid sleep 600 & echo $! > pids; sleep 600 & echo $! >> pids; mv pids "


def test_a_command_ends_at_its_deadline_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It is too late as soon as they are there.
    pids = tmp_path / "pids"
    late = partial(Runner, clock=lambda: 1e9 if pids.exists() else 0.0)
    monkeypatch.setattr("noetl.tools.code.user_code.shared_runner", late)
    registry = Registry(Services(scratch=tmp_path / "scratch"))
    outcome = run(registry, deadline_s=0.4, command=f"{CHILDREN}{pids}; sleep 600")
    registry.close()
    assert outcome.error is not None
    assert outcome.error.kind == "timeout"
    assert_gone(pids)


def test_background_jobs_end_with_their_command(registry: Registry, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    assert run(registry, command=f"{CHILDREN}{pids} && echo started").result["stdout"] == "started\n"
    assert_gone(pids)


def assert_gone(pids: Path) -> None:
    """Both have ended; what nobody has collected yet has ended, too."""
    numbers = pids.read_text().split()
    assert len(numbers) == 2
    for number in numbers:
        with suppress(FileNotFoundError):
            assert Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def test_a_file_over_the_limit_ends_the_command(registry: Registry) -> None:
    failure = error(registry, command="exec head -c 40000000 /dev/zero > big")
    assert failure.status == 153
    assert "SIGXFSZ" in failure.message
